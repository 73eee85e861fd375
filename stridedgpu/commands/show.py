"""The commands `show`, which draws a layout, and `size`, which counts its bytes as DirectML does.

Nothing is allocated: sizes may be any.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from stridedgpu.preprocess.files import check_writable, read_array, replacement
from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.dtypes import DataType
from stridedgpu.values.errors import LayoutError

from .described_tensors import DescribedTensor, add_tensor, described

_PIPE_COLUMNS: Final = 100


def add_show(commands: argparse._SubParsersAction[Any]) -> None:
    """The parser of `show`."""
    parser = commands.add_parser(
        "show",
        help="draw a layout: its elements and the memory under them",
        description="Draw where the elements of a tensor lie in memory, in characters, as SVG, or as HTML to explore. "
        "Nothing is allocated: sizes may be any.",
    )
    add = parser.add_argument
    add("file", metavar="FILE.npy", nargs="?", type=Path, help="draw the array in this file")
    add_tensor(parser)
    add("--dims", metavar="LETTERS", type=str.upper, help="what the axes of FILE.npy are, such as NHWC")
    add("--labels", choices=("letters", "coordinates", "offsets"), help="text of the cells")
    add_outputs(parser)
    parser.set_defaults(run=_run_show, refuse=parser.error)


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """The arguments that name a picture's file."""
    outputs = parser.add_mutually_exclusive_group()
    outputs.add_argument("--html", metavar="OUT.html", type=Path, help="write a page to explore, instead of printing")
    outputs.add_argument("--svg", metavar="OUT.svg", type=Path, help="write a drawing, instead of printing")


def put_picture(chosen: argparse.Namespace, thing: object, title: str, **options: Any) -> None:
    """Print the picture, or write it to the chosen file."""
    from stridedgpu import picture  # `size` draws nothing

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


def _run_show(chosen: argparse.Namespace) -> None:
    if (chosen.file is None) == (chosen.sizes is None):
        chosen.refuse("give a FILE.npy or --sizes, one of them")
    if chosen.file is not None:
        from stridedgpu.api.creation import asarray

        for name in ("layout", "dtype", "row_pitch", "broadcast", "strides"):
            if getattr(chosen, name):
                chosen.refuse(f"--{name.replace('_', '-')} describes a tensor of --sizes; a file says that itself")
        array = asarray(read_array(chosen.file), dims=chosen.dims, copy=False)
        put_picture(chosen, array, str(chosen.file), labels=chosen.labels)
        return
    if chosen.dims is not None:
        chosen.refuse("--dims is for a file; --layout names the axes of --sizes")
    tensor = described(chosen)
    put_picture(
        chosen,
        tensor.layout,
        " ".join(filter(None, (str(tensor.element), chosen.layout, ",".join(map(str, chosen.sizes))))),
        dtype=tensor.element,
        dims=tensor.dims,
        buffer_elements=tensor.stored_elements,
        labels=chosen.labels,
    )
    if chosen.html is None and chosen.svg is None:
        print("\n".join(["", *_figures(tensor)[3:]]))


def add_size(commands: argparse._SubParsersAction[Any]) -> None:
    """The parser of `size`."""
    parser = commands.add_parser(
        "size",
        help="strides, pitch, padding and bytes of a tensor, DMLCalcBufferTensorSize included",
        description="Print a tensor's strides in elements, its row pitch and padding in bytes, and the bytes that "
        "DirectML requires for it (DMLCalcBufferTensorSize). Nothing is allocated.",
    )
    add_tensor(parser, required=True)
    parser.set_defaults(run=lambda chosen: print("\n".join(_figures(described(chosen)))), refuse=parser.error)


def _figures(tensor: DescribedTensor) -> list[str]:
    """A described tensor in lines: type, sizes, strides, rows, memory, DirectML's size, and a hint if there is one."""
    layout, itemsize = tensor.layout, tensor.element.itemsize
    stored = tensor.stored_elements * itemsize
    places = layout.element_count
    for size, stride in zip(layout.sizes, layout.strides, strict=True):
        places = places // size if stride == 0 and size else places
    return [
        f"type      {tensor.element}, {itemsize} B",
        f"sizes     {tensor.named(layout.sizes)}",
        f"strides   {tensor.named(layout.strides)} elements",
        *_rows(tensor),
        f"memory    {stored:,} B, {stored - places * itemsize:,} of them padding",
        f"DirectML  {_directml(tensor)}",
        *([f"hint: {tensor.hint}"] if tensor.hint else []),
    ]


def _rows(tensor: DescribedTensor) -> list[str]:
    """The line with the row pitch, and the bytes of a row's elements; none without rows in memory."""
    layout, itemsize = tensor.layout, tensor.element.itemsize
    if "H" not in tensor.labels or not layout.element_count:
        return []
    pitch = abs(layout.strides[tensor.labels.index("H")])
    inner = zip(layout.sizes, map(abs, layout.strides), strict=True)
    used = (1 + sum((size - 1) * stride for size, stride in inner if stride < pitch)) * itemsize
    padding = pitch * itemsize - used
    if padding < 0:
        return []
    return [f"rows      {pitch * itemsize:,} B apart, {used:,} B of elements and {padding:,} B of padding"]


def _directml(tensor: DescribedTensor) -> str:
    """DirectML's size of the tensor, or why it has none."""
    if tensor.element.data_type is DataType.UNKNOWN:
        return f"has no type for {tensor.element}"
    try:
        desc = BufferTensorDesc(tensor.element.data_type, tensor.layout.sizes, tensor.layout.strides)
    except LayoutError as problem:
        return f"cannot describe it: {problem}"
    return f"{desc.total_tensor_size_in_bytes:,} B, DML_TENSOR_DATA_TYPE_{desc.data_type.name} ({int(desc.data_type)})"
