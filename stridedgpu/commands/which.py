"""The command `stridedgpu which`: what made an image's pixels, and where two pipelines part."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from stridedgpu.preprocess.provenance import which
from stridedgpu.values.interpolation import INTERPOLATIONS


def add_which(commands: argparse._SubParsersAction[Any]) -> None:
    """The parser of `which`."""
    parser = commands.add_parser(
        "which",
        help="which decoder, resize and normalisation made these pixels, or where two pipelines part",
        description="Name the decoder, geometry, interpolation, order of passes and conversion that made the pixels of "
        "AFTER out of the image BEFORE, to the bit, or the nearest pipeline. With OTHER, name its pipeline, too, and "
        "the first stage at which the two differ, with the distance in levels of 255.",
    )
    add = parser.add_argument
    add("before", metavar="BEFORE", type=Path, help="an image's file, or a .npy file of uint8 pixels (H, W, 3)")
    add("after", metavar="AFTER", type=Path, help="result of a pipeline: a .npy file of one image, or an image's file")
    add("other", metavar="OTHER", type=Path, nargs="?", help="result of another pipeline")
    add("--dims", metavar="LETTERS", help="the axes of AFTER and OTHER, such as NCHW (default: by their sizes)")
    add("--resize", metavar="PIXELS", type=int, help="a further size of the shorter side to try before a crop")
    parser.set_defaults(run=_run_which, refuse=parser.error)


def _run_which(chosen: argparse.Namespace) -> None:
    paths = [chosen.after] if chosen.other is None else [chosen.after, chosen.other]
    answers = [which(chosen.before, path, dims=chosen.dims, resize=chosen.resize) for path in paths]
    for path, answer in zip(paths, answers, strict=True):
        print(f"{path}: {answer}")
        rules = [name for name in answer.stage("interpolation") if name in INTERPOLATIONS]
        if answer.is_exact and rules:
            print(f"in the conformance set: {', '.join(f'resize.{name}.*' for name in rules)}")
    if chosen.other is not None:
        print(answers[0].parting(answers[1]) or "one pipeline may have made both")
