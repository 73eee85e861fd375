"""The commands `stridedgpu show`, which draws a layout, and `stridedgpu explain`, which puts a plan into words.

Neither allocates a tensor: sizes may be any.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stridedgpu import picture
from stridedgpu.convert import conversion
from stridedgpu.creation import asarray
from stridedgpu.dims import Labels, inferred_labels
from stridedgpu.dtypes import ElementType, element_type
from stridedgpu.errors import ElementTypeError, LayoutError
from stridedgpu.layout import Layout
from stridedgpu.operations.channel_blocks import ordered_layouts, parse_order
from stridedgpu.planning.gpu import REFERENCE_GPU
from stridedgpu.planning.plan import Plan, plan_relayout
from stridedgpu.planning.problem import Side

from .npy import check_writable, read_array, replacement

__all__ = ["add_explain", "add_show"]

_PIPE_COLUMNS = 100
_SIDE = "DTYPE:ORDER:SIZES[:pitch=BYTES][:align=BYTES][:strides=S,S][:broadcast=AXES]"


@dataclass(frozen=True, slots=True)
class _Described:
    """A tensor that exists in words only."""

    layout: Layout
    element: ElementType
    labels: Labels
    stored_elements: int
    alignment: int = 32

    @property
    def dims(self) -> str:
        """The labels as `dims`, empty for plain axes."""
        return "".join(filter(None, self.labels))


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
    add("--sizes", metavar="N,C,H,W", type=_sizes, help="elements along each axis, in canonical order")
    add(
        "--layout", metavar="ORDER", type=_order, help="order in memory: NCHW, NHWC, HW, WHD, NHWC8, NCHW4 or any other"
    )
    add("--dtype", metavar="TYPE", type=_element, help="element type (default: uint8)")
    add("--row-pitch", metavar="BYTES", type=_number, help="from one row to the next")
    add("--broadcast", metavar="AXES", type=_axes, default=(), help="axes that repeat one element, such as N,C or 0,1")
    add("--strides", metavar="S,S,S,S", type=_strides, help="elements from one index to the next, in place of --layout")
    add("--dims", metavar="LETTERS", type=_order, help="what the axes of FILE.npy are, such as NHWC")
    add("--labels", choices=("letters", "coordinates", "offsets"), help="what stands on the cells")
    _add_outputs(parser)
    parser.set_defaults(run=run_show, refuse=parser.error)


def add_explain(commands: argparse._SubParsersAction[Any]) -> None:
    """The parser of `explain`."""
    parser = commands.add_parser(
        "explain",
        help="how one tensor would be moved into another, in words",
        description="Plan a relayout for a GPU and say how it will be done: the kernel, the bytes, the width of loads "
        f"and stores, and what would make them wider. A side is {_SIDE}, such as uint8:NHWC:8,3,224,224:pitch=1024.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--from", metavar="SIDE", dest="source", type=_side, required=True, help="what is read")
    add("--to", metavar="SIDE", dest="target", type=_side, required=True, help="what is written")
    add("--scale", metavar="X[,X,X]", type=_figures, help="what elements are multiplied by: one, or one a channel")
    add("--bias", metavar="X[,X,X]", type=_figures, help="what is added then (write --bias=-1 for a minus)")
    add(
        "--channels",
        metavar="C,C,C",
        type=_sizes,
        help="source channel of each output channel: 2,1,0 swaps RGB and BGR",
    )
    _add_outputs(parser)
    parser.set_defaults(run=run_explain, refuse=parser.error)


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    outputs = parser.add_mutually_exclusive_group()
    outputs.add_argument("--html", metavar="OUT.html", type=Path, help="write a page to explore, instead of printing")
    outputs.add_argument("--svg", metavar="OUT.svg", type=Path, help="write a drawing, instead of printing")


def run_show(chosen: argparse.Namespace) -> None:
    """Draw a file's array, or a layout that was described."""
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
    made = _described(chosen.sizes, chosen.layout, element, chosen.row_pitch, chosen.broadcast, chosen.strides)
    title = f"{element} {chosen.layout or ''} {','.join(map(str, chosen.sizes))}"
    options = {"dtype": element, "dims": made.dims, "buffer_elements": made.stored_elements, "labels": chosen.labels}
    _put(chosen, made.layout, " ".join(title.split()), **options)


def run_explain(chosen: argparse.Namespace) -> None:
    """Plan one relayout and say how it goes."""
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


def _plan(chosen: argparse.Namespace) -> Plan:
    """The plan of `explain`; both sides begin at an address as aligned as they say."""
    source, target = chosen.source, chosen.target
    labels = source.labels
    channel_axis = labels.index("C") if "C" in labels else None
    made = conversion(
        source.element,
        target.element,
        scale=chosen.scale,
        bias=chosen.bias,
        channels=chosen.channels,
        source_channels=None if channel_axis is None else source.layout.sizes[channel_axis],
    )
    wanted = list(source.layout.sizes)
    if made.channels is not None and channel_axis is not None:
        wanted[channel_axis] = len(made.channels)
    if target.layout.sizes != tuple(wanted):
        raise LayoutError(f"--to has sizes {target.layout.sizes}; this relayout makes sizes {tuple(wanted)}.")
    if target.layout.has_overlap:
        raise LayoutError(f"--to repeats or overlaps its own elements: {target.layout}.")
    sides = [
        Side.of(
            side.layout,
            side.element,
            base_alignment=side.alignment,
            buffer_bytes=side.stored_elements * side.element.itemsize,
            owns_padding=side is target,
        )
        for side in (source, target)
    ]
    return plan_relayout(sides[0], sides[1], made, channel_axis, "cuda:0", REFERENCE_GPU.widest_access)


def _put(chosen: argparse.Namespace, thing: object, title: str, **options: Any) -> None:
    """Print the picture, or write it to the file that was asked for."""
    out = chosen.html or chosen.svg
    if out is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # dots and ellipses, where the terminal has no Unicode
        columns = shutil.get_terminal_size((_PIPE_COLUMNS, 24)).columns
        print(picture.text(thing, width=columns, **options))
        return
    check_writable(out)
    markup = picture.html(thing, title=title, **options) if chosen.html else picture.svg(thing, **options)
    with replacement(out) as file:
        file.write(markup.encode())
    print(f"wrote {str(out)!r}")


def _described(
    sizes: tuple[int, ...],
    order: str | None,
    element: ElementType,
    pitch: int | None = None,
    broadcast: tuple[str, ...] = (),
    strides: tuple[int, ...] | None = None,
    alignment: int = 32,
) -> _Described:
    """The tensor of some words. Raises `LayoutError` where they do not fit each other."""
    letters = None if order is None else parse_order(order).letters
    labels = inferred_labels(None, len(sizes), letters)
    repeated = {_axis(name, labels) for name in broadcast}
    kept = tuple(1 if axis in repeated else size for axis, size in enumerate(sizes))
    if strides is not None:
        if pitch is not None or order not in (None, "".join(filter(None, labels))):
            raise LayoutError("strides say all: neither an order in memory nor a row pitch goes with them.")
        layout = stored = Layout(sizes, strides)
    else:
        layout, stored = ordered_layouts(kept, order, labels, element.itemsize, pitch)
    if repeated:
        if layout.ndim != len(sizes):
            raise LayoutError(f"an axis of {order!r} cannot repeat: its channels are split in blocks.")
        zeroed = [0 if axis in repeated else stride for axis, stride in enumerate(layout.strides)]
        layout = Layout(sizes, zeroed)
    elif layout.ndim != len(sizes):
        labels = (None,) * layout.ndim
    lowest = layout.first_offset
    return _Described(layout.shifted(-lowest), element, labels, max(stored.span, layout.span), alignment)


def _axis(name: str, labels: Labels) -> int:
    """An axis by its letter or number."""
    if name in labels:
        return labels.index(name)
    if name.isdecimal() and int(name) < len(labels):
        return int(name)
    known = ", ".join(label or str(axis) for axis, label in enumerate(labels))
    raise LayoutError(f"broadcast axis {name!r} is unknown; the axes are {known}.")


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(_number(part) for part in text.split(","))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of whole numbers with commas between, such as 1,3,224,224"
        ) from None


def _strides(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.removeprefix("-").isdigit() and part.isascii() for part in parts):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of whole numbers with commas between, such as 60,1,15,3"
        )
    return tuple(int(part) for part in parts)


def _axes(text: str) -> tuple[str, ...]:
    return tuple(part.strip().upper() for part in text.split(","))


def _order(text: str) -> str:
    return text.upper()


def _element(text: str) -> ElementType:
    try:
        return element_type(text)
    except ElementTypeError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def _figures(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not one number, or several with commas between") from None


def _side(text: str) -> _Described:
    """One side of a relayout in words: `uint8:NHWC:8,3,224,224:pitch=1024`."""
    parts = text.split(":")
    if len(parts) < 3:
        raise argparse.ArgumentTypeError(f"{text!r} is not {_SIDE}, such as uint8:NHWC:8,3,224,224")
    dtype, order, sizes, *rest = parts
    options: dict[str, Any] = {}
    readers = {
        "pitch": ("pitch", _number),
        "align": ("alignment", _number),
        "strides": ("strides", _strides),
        "broadcast": ("broadcast", _axes),
    }
    for entry in rest:
        name, _, value = entry.partition("=")
        if name not in readers:
            raise argparse.ArgumentTypeError(f"{entry!r} in {text!r} is unknown; there are {', '.join(readers)}")
        key, read = readers[name]
        options[key] = read(value)
    alignment = options.get("alignment", 32)
    if alignment < 1 or alignment & (alignment - 1):
        raise argparse.ArgumentTypeError(f"align={alignment} in {text!r} is not a power of two")
    try:
        return _described(_sizes(sizes), _order(order), _element(dtype), **options)
    except LayoutError as problem:
        raise argparse.ArgumentTypeError(f"{text!r}: {problem}") from None
