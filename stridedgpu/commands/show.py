"""The commands `stridedgpu show`, which draws a layout, and `stridedgpu explain`, which describes a plan.

Neither allocates a tensor, so that sizes may be any.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from pathlib import Path
from typing import Any

from stridedgpu import picture
from stridedgpu.api.creation import asarray
from stridedgpu.devices.cuda.plan import CudaPlan, GpuPlanner
from stridedgpu.devices.cuda.planning.gpu import REFERENCE_GPU
from stridedgpu.operations.options import ValueOptions
from stridedgpu.operations.relayout_plan import move_between
from stridedgpu.planning.relayout_problem import relayout_problem
from stridedgpu.preprocess.npy import check_writable, read_array, replacement
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.tensor_spec import TensorSpec

from .layout_arguments import (
    SIDE,
    InWords,
    axes_of,
    element_of,
    figures_of,
    in_words,
    number_of,
    order_of,
    side_of,
    sizes_of,
    strides_of,
)

__all__ = ["add_explain", "add_show"]

_PIPE_COLUMNS = 100


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
    add("--sizes", metavar="N,C,H,W", type=sizes_of, help="elements along each axis, in canonical order")
    add(
        "--layout",
        metavar="ORDER",
        type=order_of,
        help="order in memory: NCHW, NHWC, HW, WHD, NHWC8, NCHW4 or any other",
    )
    add("--dtype", metavar="TYPE", type=element_of, help="element type (default: uint8)")
    add("--row-pitch", metavar="BYTES", type=number_of, help="from one row to the next")
    add(
        "--broadcast", metavar="AXES", type=axes_of, default=(), help="axes that repeat one element, such as N,C or 0,1"
    )
    add(
        "--strides",
        metavar="S,S,S,S",
        type=strides_of,
        help="elements from one index to the next, in place of --layout",
    )
    add("--dims", metavar="LETTERS", type=order_of, help="what the axes of FILE.npy are, such as NHWC")
    add("--labels", choices=("letters", "coordinates", "offsets"), help="what stands on the cells")
    _add_outputs(parser)
    parser.set_defaults(run=run_show, refuse=parser.error)


def add_explain(commands: argparse._SubParsersAction[Any]) -> None:
    """The parser of `explain`."""
    parser = commands.add_parser(
        "explain",
        help="how one tensor would be moved into another, in words",
        description="Plan a relayout for a GPU and say how it will be done: the kernel, the bytes, the width of loads "
        f"and stores, and what would make them wider. A side is {SIDE}, such as uint8:NHWC:8,3,224,224:pitch=1024.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--from", metavar="SIDE", dest="source", type=side_of, required=True, help="what is read")
    add("--to", metavar="SIDE", dest="target", type=side_of, required=True, help="what is written")
    add("--scale", metavar="X[,X,X]", type=figures_of, help="what elements are multiplied by: one, or one a channel")
    add("--bias", metavar="X[,X,X]", type=figures_of, help="what is added then (write --bias=-1 for a minus)")
    add(
        "--channels",
        metavar="C,C,C",
        type=sizes_of,
        help="source channel of each output channel: 2,1,0 swaps RGB and BGR",
    )
    _add_outputs(parser)
    parser.set_defaults(run=run_explain, refuse=parser.error)


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    outputs = parser.add_mutually_exclusive_group()
    outputs.add_argument("--html", metavar="OUT.html", type=Path, help="write a page to explore, instead of printing")
    outputs.add_argument("--svg", metavar="OUT.svg", type=Path, help="write a drawing, instead of printing")


def run_show(chosen: argparse.Namespace) -> None:
    """Draw a file's array, or a described layout."""
    if (chosen.file is None) == (chosen.sizes is None):
        chosen.refuse("give a FILE.npy or --sizes, one of them")
    if chosen.file is not None:
        for name in ("layout", "dtype", "row_pitch", "broadcast", "strides"):
            if getattr(chosen, name):
                chosen.refuse(f"--{name.replace('_', '-')} describes a tensor of --sizes; a file says that itself")
        tensor = asarray(read_array(chosen.file), dims=chosen.dims, copy=False)
        _put(chosen, tensor, str(chosen.file), labels=chosen.labels)
        return
    if chosen.dims is not None:
        chosen.refuse("--dims is for a file; --layout names the axes of --sizes")
    element = chosen.dtype or element_type("uint8")
    made = in_words(chosen.sizes, chosen.layout, element, chosen.row_pitch, chosen.broadcast, chosen.strides)
    title = f"{element} {chosen.layout or ''} {','.join(map(str, chosen.sizes))}"
    options = {"dtype": element, "dims": made.dims, "buffer_elements": made.stored_elements, "labels": chosen.labels}
    _put(chosen, made.layout, " ".join(title.split()), **options)


def run_explain(chosen: argparse.Namespace) -> None:
    """Plan one relayout and print the explanation."""
    plan = _plan(chosen)
    if chosen.html is not None or chosen.svg is not None:
        _put(chosen, plan, plan.kernel, dims=chosen.source.dims)
        return
    print(plan.explain())
    for verb, width in (("loads", plan.load), ("stores", plan.store)):
        if width.limit:
            print(f"  wider {verb}: not while {width.limit}")
    if not plan.load.limit and not plan.store.limit:
        print("  loads and stores are as wide as they can be")
    print(f"  planned for {REFERENCE_GPU.name}; stridedgpu.plan_relayout plans for the device that is there")


def _plan(chosen: argparse.Namespace) -> CudaPlan:
    """The plan of `explain`; both sides have the alignment that they state."""
    source, target = chosen.source, chosen.target
    read, written = _planned_side(source), _planned_side(target, is_written=True)
    values = ValueOptions(target.element, chosen.scale, chosen.bias, chosen.channels)
    made, channel_axis = move_between(read, written, source.labels, values, "--to")
    return GpuPlanner("cuda:0").plan(relayout_problem(read, written, made, channel_axis))


def _planned_side(words: InWords, *, is_written: bool = False) -> TensorSpec:
    """The spec of a described tensor; a written one owns its padding."""
    nbytes = words.stored_elements * words.element.itemsize
    return TensorSpec.of(
        words.layout,
        words.element,
        base_alignment=words.alignment,
        buffer_bytes=nbytes,
        owns_padding=is_written,
    )


def _put(chosen: argparse.Namespace, thing: object, title: str, **options: Any) -> None:
    """Print the picture, or write it to the chosen file."""
    out = chosen.html or chosen.svg
    if out is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # dots and ellipses, if the terminal has no Unicode
        columns = shutil.get_terminal_size((_PIPE_COLUMNS, 24)).columns
        print(picture.text(thing, width=columns, **options))
        return
    check_writable(out)
    markup = picture.html(thing, title=title, **options) if chosen.html else picture.svg(thing, **options)
    with replacement(out) as file:
        file.write(markup.encode())
    print(f"wrote {str(out)!r}")
