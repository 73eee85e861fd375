"""Tensors as the command line describes them, without memory: arguments parsed and checked."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from typing import Any, Final

from stridedgpu.operations.channel_blocks import ordered_layouts, parse_order
from stridedgpu.operations.options import DEFAULT_ALIGNMENT
from stridedgpu.values.axis_labels import Labels, inferred_labels
from stridedgpu.values.dtypes import ElementType, element_type
from stridedgpu.values.errors import ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout

from .console import argument, digits

SIDE: Final = "DTYPE:ORDER:SIZES[:pitch=BYTES][:align=BYTES][:strides=S,S][:broadcast=AXES]"
"""One side of a relayout as an argument."""

_BETWEEN_SIZES: Final = re.compile(r"\s*[,xX\u00d7]\s*|\s+")
"""What people type between sizes."""

_FEW_CHANNELS: Final = 4
"""The most channels that a last size is taken for."""


@dataclass(frozen=True, slots=True)
class DescribedTensor:
    """A tensor without memory; `hint` is what to type if its sizes look as if the channels came last."""

    layout: Layout
    element: ElementType
    labels: Labels
    stored_elements: int
    alignment: int = DEFAULT_ALIGNMENT
    hint: str = ""

    def named(self, values: tuple[int, ...]) -> str:
        """One value for each axis, by its letter where every axis has one: "N=1 C=3", else "1, 3"."""
        if None in self.labels:
            return ", ".join(map(str, values))
        return " ".join(f"{label}={value}" for label, value in zip(self.labels, values, strict=True))

    @property
    def dims(self) -> str:
        """The labels as `dims`, empty for plain axes."""
        return "".join(filter(None, self.labels))


def describe(
    sizes: tuple[int, ...],
    order: str | None,
    element: ElementType,
    pitch: int | None = None,
    broadcast: tuple[str, ...] = (),
    strides: tuple[int, ...] | None = None,
    alignment: int = DEFAULT_ALIGNMENT,
) -> DescribedTensor:
    """The tensor that the arguments describe. Raises `LayoutError` if they do not fit each other."""
    letters = None if order is None else parse_order(order).letters
    if letters is not None and len(letters) != len(sizes):
        raise LayoutError(f"the order {order} has {len(letters)} axes, and there are {len(sizes)} sizes.")
    labels = inferred_labels(None, len(sizes), letters)
    repeated = {_axis(name, labels) for name in broadcast}
    if strides is not None:
        if pitch is not None or order not in (None, "".join(filter(None, labels))):
            raise LayoutError("strides say all: neither an order in memory nor a row pitch goes with them.")
        layout = stored = Layout(sizes, strides)
    else:
        kept = tuple(1 if axis in repeated else size for axis, size in enumerate(sizes))
        layout, stored = ordered_layouts(kept, order, labels, element.itemsize, pitch)
    if repeated:
        if layout.ndim != len(sizes):
            raise LayoutError(f"an axis of {order!r} cannot repeat: its channels are split in blocks.")
        layout = Layout(sizes, [0 if axis in repeated else stride for axis, stride in enumerate(layout.strides)])
    elif layout.ndim != len(sizes):
        labels = (None,) * layout.ndim
    shifted, stored_elements = layout.shifted(-layout.first_offset), max(stored.span, layout.span)
    return DescribedTensor(shifted, element, labels, stored_elements, alignment, _order_hint(sizes, labels, order))


def _order_hint(sizes: tuple[int, ...], labels: Labels, order: str | None) -> str:
    """What to type instead, if sizes look as if their channels came last; else nothing."""
    if "C" not in labels or None in labels or labels[-1] != "W":
        return ""
    place = labels.index("C")
    if not sizes[-1] <= _FEW_CHANNELS < sizes[place]:
        return ""
    meant = (*sizes[:place], sizes[-1], *sizes[place:-1])
    return (
        f"sizes are in the order {''.join(filter(None, labels))}, also for {order or 'any order in memory'}, so these "
        f"have {sizes[place]} channels; for {sizes[-1]} channels give {','.join(map(str, meant))}."
    )


def _axis(name: str, labels: Labels) -> int:
    if name in labels:
        return labels.index(name)
    if name.isdecimal() and int(name) < len(labels):
        return int(name)
    known = ", ".join(label or str(axis) for axis, label in enumerate(labels))
    raise LayoutError(f"broadcast axis {name!r} is unknown; the axes are {known}.")


def add_tensor(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """The arguments that describe a tensor: sizes, order, type, pitch, repeated axes or strides."""
    add = parser.add_argument
    add(
        "--sizes",
        metavar="N,C,H,W",
        type=sizes_of,
        required=required,
        help="elements along each axis, in canonical order: 1,3,224,224 or 1x3x224x224",
    )
    add(
        "--layout",
        metavar="ORDER",
        type=str.upper,
        help="order in memory: NCHW, NHWC, HW, WHD, NHWC8, NCHW4 or any other",
    )
    add("--dtype", metavar="TYPE", type=element_of, help="element type (default: uint8)")
    add("--row-pitch", metavar="BYTES", type=number_of, help="bytes from one row to the next")
    add(
        "--broadcast",
        metavar="AXES",
        type=_axes_of,
        default=(),
        help="axes that repeat one element, such as N,C or 0,1",
    )
    add(
        "--strides",
        metavar="S,S,S,S",
        type=_strides_of,
        help="elements from one index to the next, in place of --layout",
    )


def described(chosen: argparse.Namespace) -> DescribedTensor:
    """The tensor that the arguments of `add_tensor` describe."""
    element = chosen.dtype or element_type("uint8")
    return describe(chosen.sizes, chosen.layout, element, chosen.row_pitch, chosen.broadcast, chosen.strides)


_LIST: Final = "is not a list of whole numbers with commas between, such as"


def _sizes(text: str) -> tuple[int, ...]:
    bare = text.strip().removeprefix("(").removeprefix("[").removesuffix(")").removesuffix("]").strip().rstrip(",")
    return tuple(map(digits, _BETWEEN_SIZES.split(bare)))


def _strides(text: str) -> tuple[int, ...]:
    return tuple((-1 if part.startswith("-") else 1) * digits(part.removeprefix("-")) for part in text.split(","))


number_of = argument(digits, "is not a whole number")
sizes_of = argument(_sizes, f"{_LIST} 1,3,224,224")
"""Integers separated by commas, spaces or x, with brackets around them or none."""

_strides_of = argument(_strides, f"{_LIST} 60,1,15,3")


def _axes_of(text: str) -> tuple[str, ...]:
    return tuple(part.strip().upper() for part in text.split(","))


def element_of(text: str) -> ElementType:
    """Parse an element type."""
    try:
        return element_type(text)
    except ElementTypeError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


_SIDE_OPTIONS: Final = {
    "pitch": ("pitch", number_of),
    "align": ("alignment", number_of),
    "strides": ("strides", _strides_of),
    "broadcast": ("broadcast", _axes_of),
}


def side_of(text: str) -> DescribedTensor:
    """Parse one side of a relayout: `uint8:NHWC:8,3,224,224:pitch=1024`."""
    parts = text.split(":")
    if len(parts) < 3:
        raise argparse.ArgumentTypeError(f"{text!r} is not {SIDE}, such as uint8:NHWC:8,3,224,224")
    dtype, order, sizes, *rest = parts
    options: dict[str, Any] = {}
    for entry in rest:
        name, _, value = entry.partition("=")
        if name not in _SIDE_OPTIONS:
            raise argparse.ArgumentTypeError(f"{entry!r} in {text!r} is unknown; there are {', '.join(_SIDE_OPTIONS)}")
        key, read = _SIDE_OPTIONS[name]
        options[key] = read(value)
    alignment = options.get("alignment", DEFAULT_ALIGNMENT)
    if alignment < 1 or alignment & (alignment - 1):
        raise argparse.ArgumentTypeError(f"align={alignment} in {text!r} is not a power of two")
    try:
        return describe(sizes_of(sizes), order.upper(), element_of(dtype), **options)
    except LayoutError as problem:
        raise argparse.ArgumentTypeError(f"{text!r}: {problem}") from None
