"""The command `stridedgpu size`: a described tensor's strides, pitch, padding and bytes, as DirectML counts them."""

from __future__ import annotations

import argparse
from typing import Any

from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.dtypes import DataType
from stridedgpu.values.errors import LayoutError

from .layout_arguments import InWords, add_tensor, described

__all__ = ["add_size", "figures"]


def add_size(commands: argparse._SubParsersAction[Any]) -> None:
    """The parser of `size`."""
    parser = commands.add_parser(
        "size",
        help="strides, pitch, padding and bytes of a tensor, DMLCalcBufferTensorSize included",
        description="Print a tensor's strides in elements, its row pitch and padding in bytes, and the bytes that "
        "DirectML wants for it (DMLCalcBufferTensorSize). Nothing is allocated.",
        allow_abbrev=False,
    )
    add_tensor(parser, required=True)
    parser.set_defaults(run=run_size, refuse=parser.error)


def run_size(chosen: argparse.Namespace) -> None:
    """Print the figures of one described tensor."""
    words = described(chosen)
    print("\n".join(figures(words)))
    if words.hint:
        print(f"hint: {words.hint}")


def figures(words: InWords) -> list[str]:
    """A described tensor in lines: type, sizes, strides, rows, memory and DirectML's size."""
    layout, itemsize = words.layout, words.element.itemsize
    stored = words.stored_elements * itemsize
    places = layout.element_count
    for size, stride in zip(layout.sizes, layout.strides, strict=True):
        places = places // size if stride == 0 and size else places
    lines = [
        f"type      {words.element}, {itemsize} B",
        f"sizes     {words.named(layout.sizes)}",
        f"strides   {words.named(layout.strides)} elements",
        f"memory    {stored:,} B, {stored - places * itemsize:,} of them padding",
    ]
    if (row := _row(words)) is not None:
        used, pitch = row
        lines.insert(3, f"rows      {pitch:,} B apart, {used:,} B of elements and {pitch - used:,} B of padding")
    return [*lines, f"DirectML  {_directml(words)}"]


def _row(words: InWords) -> tuple[int, int] | None:
    """Bytes of a row's elements, and from one row to the next; None without rows in memory."""
    layout, itemsize = words.layout, words.element.itemsize
    if "H" not in words.labels or not layout.element_count:
        return None
    axis = words.labels.index("H")
    pitch = abs(layout.strides[axis])
    inner = [
        (size - 1) * abs(stride)
        for size, stride in zip(layout.sizes, layout.strides, strict=True)
        if abs(stride) < pitch
    ]
    used = (1 + sum(inner)) * itemsize
    return (used, pitch * itemsize) if pitch * itemsize >= used else None


def _directml(words: InWords) -> str:
    """DirectML's size of the tensor, or why it has none."""
    if words.element.data_type is DataType.UNKNOWN:
        return f"has no type for {words.element}"
    try:
        desc = BufferTensorDesc(words.element.data_type, words.layout.sizes, words.layout.strides)
    except LayoutError as problem:
        return f"cannot describe it: {problem}"
    return f"{desc.total_tensor_size_in_bytes:,} B, DML_TENSOR_DATA_TYPE_{desc.data_type.name} ({int(desc.data_type)})"
