"""`stridedgpu preprocess`: images in, one batch for a network out, or the shards of a folder; and the summary."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from stridedgpu.preprocess.decoding import DECODERS
from stridedgpu.preprocess.loader import PART_SAMPLES

from .batch import run_batch
from .console import argument
from .folder import add_folder_options, check_folder_options, run_folder_job
from .preprocess_options import add_step_options, declared_step

SKIPPED: Final = 3
"""The exit code of a job that left images out."""

_SHORT: Final = (
    *("--out", "--size", "--resize", "--letterbox", "--normalize", "--dtype", "--layout"),
    *("--preview", "--errors", "--labels", "--shards", "--device"),
)
"""The options that --help describes: those of most jobs."""

_EXAMPLES: Final = (
    "stridedgpu preprocess photos --resize 256 --size 224 --normalize imagenet --out batch.npy",
    "stridedgpu preprocess photos --letterbox --size 640 --normalize unit --dtype float16 --out batch.npy",
    "stridedgpu preprocess photos --resize 256 --size 224 --dtype uint8 --shards 64 --out shards",
)


def add_preprocess(commands: argparse._SubParsersAction[Any]) -> None:
    """The parser of `preprocess`."""
    parser = commands.add_parser(
        "preprocess",
        help="images in, one batch for a network out",
        description="Decode images, crop a window of each and write them as one batch, or a folder as shards: windows, "
        "layout, element type and normalisation in a single pass over the pixels. The camera's orientation (EXIF) is "
        "applied, grey becomes RGB, alpha is dropped, and of an animation the first image is taken.",
        usage="%(prog)s IMAGE .. --out FILE [option ..]",
        short=_SHORT,
        examples=_EXAMPLES,
    )
    _add_files(parser)
    add_step_options(parser)
    add_folder_options(parser)
    parser.set_defaults(run=run_preprocess, refuse=parser.error)


def _add_files(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "images",
        metavar="IMAGE",
        nargs="*",
        type=Path,
        help="an image, a folder of images (searched to the bottom, in order of names), "
        "or a .npy file of pixels (H, W), (H, W, 3) or (H, W, 4), uint8, or uint16 with --deep",
    )
    add("--samples", action="store_true", help="the images that scikit-image carries")
    add(
        "--out",
        metavar="FILE.npy",
        type=Path,
        required=True,
        help="the batch, with axes in the order of --layout; with --shards, the folder of the shards",
    )
    add("--raw", metavar="FILE.bin", type=Path, help="write the batch's memory, too, with its padding")
    add(
        "--decoder",
        choices=DECODERS,
        default="pillow",
        help="pillow (default); simplejpeg: JPEG by libjpeg-turbo, if installed, with pixels that may differ; "
        "pillow-draft: JPEG at 1/2, 1/4 or 1/8 of its size, as --resize allows, with pixels that differ",
    )
    add(
        "--labels",
        metavar="FILE",
        type=Path,
        help="a text file with the name and the label of an image on each line, as integers from 0 or words (default: "
        "with --shards the number of the topmost folder)",
    )
    add(
        "--errors",
        choices=("raise", "skip"),
        help="end at the first image that cannot be used (raise, the default of one batch), or leave such images out "
        f"(skip, the default of --shards): they are listed in the manifest, and the exit code is {SKIPPED}",
    )
    add(
        "--preview",
        metavar="SHEET.png",
        type=Path,
        help="write a sheet of up to 48 images, too, as the network will see them, with the normalisation undone",
    )
    add(
        "--compare",
        metavar="all|some",
        nargs="?",
        type=argument(str, "is neither all nor some; images stand before --compare", ("all", "some").__contains__),
        const="all",
        help="compare the batch with NumPy, to the bit, which takes longer: every image, or with --compare=some the "
        f"first {PART_SAMPLES}",
    )
    add("--device", help="cpu, cuda or cuda:N (default: the first CUDA device that works, else cpu)")


def run_preprocess(chosen: argparse.Namespace) -> int:
    """Preprocess images into a batch or shards, then print a summary. Returns the exit code."""
    if not chosen.images and not chosen.samples:
        chosen.refuse("no images: name files or folders, or give --samples")
    check_folder_options(chosen)
    step = declared_step(chosen)
    skipped = run_batch(chosen, step) if chosen.shards is None else run_folder_job(chosen, step)
    return SKIPPED if skipped else 0
