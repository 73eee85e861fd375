"""The command `stridedgpu show`, which draws a layout. Nothing is allocated, so that sizes may be any."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from stridedgpu.api.creation import asarray
from stridedgpu.preprocess.npy import read_array

from .layout_arguments import add_tensor, described, order_of
from .pictures_out import add_outputs, put
from .size import figures

__all__ = ["add_show"]


def add_show(commands: argparse._SubParsersAction[Any]) -> None:
    """The parser of `show`."""
    parser = commands.add_parser(
        "show",
        help="draw a layout: its elements and the memory under them",
        description="Draw where the elements of a tensor lie in memory, in characters, as SVG, or as HTML to explore. "
        "Nothing is allocated: sizes may be any.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("file", metavar="FILE.npy", nargs="?", type=Path, help="draw the array in this file")
    add_tensor(parser)
    add("--dims", metavar="LETTERS", type=order_of, help="what the axes of FILE.npy are, such as NHWC")
    add("--labels", choices=("letters", "coordinates", "offsets"), help="what stands on the cells")
    add_outputs(parser)
    parser.set_defaults(run=run_show, refuse=parser.error)


def run_show(chosen: argparse.Namespace) -> None:
    """Draw a file's array, or a described layout."""
    if (chosen.file is None) == (chosen.sizes is None):
        chosen.refuse("give a FILE.npy or --sizes, one of them")
    if chosen.file is not None:
        for name in ("layout", "dtype", "row_pitch", "broadcast", "strides"):
            if getattr(chosen, name):
                chosen.refuse(f"--{name.replace('_', '-')} describes a tensor of --sizes; a file says that itself")
        tensor = asarray(read_array(chosen.file), dims=chosen.dims, copy=False)
        put(chosen, tensor, str(chosen.file), labels=chosen.labels)
        return
    if chosen.dims is not None:
        chosen.refuse("--dims is for a file; --layout names the axes of --sizes")
    words = described(chosen)
    title = f"{words.element} {chosen.layout or ''} {','.join(map(str, chosen.sizes))}"
    put(
        chosen,
        words.layout,
        " ".join(title.split()),
        dtype=words.element,
        dims=words.dims,
        buffer_elements=words.stored_elements,
        labels=chosen.labels,
    )
    if chosen.html is None and chosen.svg is None:
        print("\n".join(["", *figures(words)[3:], *([f"hint: {words.hint}"] if words.hint else [])]))
