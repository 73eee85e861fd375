"""New memory for operands: sized by DirectML's rule, aligned as asked, on the device that was chosen."""

from __future__ import annotations

from stridedgpu.backends.recycled_memory import RecycledMemory
from stridedgpu.backends.selection import backend_named
from stridedgpu.buffer import checked_alignment
from stridedgpu.dtypes import ElementType
from stridedgpu.errors import LayoutError
from stridedgpu.layout import Layout
from stridedgpu.operand import Operand
from stridedgpu.strides import round_up

__all__ = ["DEFAULT_ALIGNMENT", "allocate_operand", "check_fits"]

DEFAULT_ALIGNMENT = 32
"""Bytes: what DirectML advises, and a whole access on GPUs with 256-bit loads."""


def allocate_operand(
    layout: Layout,
    element: ElementType,
    alignment: int,
    device: str,
    stored: Layout | None = None,
    stream: object = None,
    memory: RecycledMemory | None = None,
) -> Operand:
    """Memory for `layout`, not initialised, that owns its padding.

    `stored` is the layout of the memory where that is more: channels filled up with zeros, which then are no padding
    to overwrite. The bytes are those of `calc_buffer_tensor_size`: up to the last element, rounded up to 4.
    `stream` is where a CUDA device will use them first. `memory` is taken in place of the device's.

    Raises `LayoutError` for an alignment that is no power of two or below an element, `DeviceError` when there is no
    such device or not enough memory.
    """
    if checked_alignment(alignment) < element.itemsize:
        raise LayoutError(f"alignment={alignment} is below one element of {element}, {element.itemsize} bytes.")
    held = layout if stored is None else stored
    nbytes = round_up((held.first_offset + held.span) * element.itemsize, 4)
    buffer = (memory or backend_named(device)).allocate(nbytes, alignment, stream)
    return Operand(buffer, layout, element, owns_padding=held == layout)


def check_fits(name: str, value: int, element: ElementType) -> None:
    """Raise `LayoutError` when a Python integer is outside an integer type's range."""
    if not element.is_integer:
        return
    bits = 8 * element.itemsize
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if element.kind == "i" else (0, 2**bits - 1)
    if not least <= value <= most:
        raise LayoutError(f"{name}={value} does not fit {element}, which holds {least} to {most}.")
