"""New memory for operands: sized by DirectML's rule, with the chosen alignment, on the chosen device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stridedgpu.devices.buffer import Buffer, checked_alignment
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_named
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import round_up
from stridedgpu.values.tensor_spec import TensorSpec

__all__ = ["DEFAULT_ALIGNMENT", "AllocationSpec", "allocate_operand"]

DEFAULT_ALIGNMENT = 32
"""Bytes: DirectML's recommendation, and one full access on GPUs with 256-bit loads."""


class Memory(Protocol):
    """A source of memory: a device, or recycled blocks."""

    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer:
        """Uninitialised bytes at a multiple of `alignment`."""


@dataclass(frozen=True, slots=True)
class AllocationSpec:
    """What to allocate for a layout: bytes, alignment, and whether the padding is owned.

    The size is that of `calc_buffer_tensor_size`: up to the last element, rounded up to 4. `spec` is the spec of every
    tensor allocated so.
    """

    layout: Layout
    nbytes: int
    alignment: int
    owns_padding: bool
    spec: TensorSpec

    @classmethod
    def of(cls, layout: Layout, element: ElementType, alignment: int, stored: Layout | None = None) -> AllocationSpec:
        """What to allocate for a layout that owns its padding.

        `stored` is the layout of the memory if channels are filled up with zeros; the zeros are then no padding to
        overwrite. Raises `LayoutError` for an alignment that is no power of two or below an element.
        """
        if checked_alignment(alignment) < element.itemsize:
            raise LayoutError(f"alignment={alignment} is below one element of {element}, {element.itemsize} bytes.")
        held = layout if stored is None else stored
        nbytes, owns = round_up((held.first_offset + held.span) * element.itemsize, 4), held == layout
        spec = TensorSpec.of(layout, element, base_alignment=alignment, buffer_bytes=nbytes, owns_padding=owns)
        return cls(layout, nbytes, alignment, owns, spec)

    def allocate(self, memory: Memory, stream: object = None) -> Operand:
        """Allocate uninitialised memory for first use on `stream`. Raises `DeviceError` if there is not enough."""
        buffer = memory.allocate(self.nbytes, self.alignment, stream)
        spec = self.spec if buffer.alignment == self.alignment else None
        return Operand(buffer, self.layout, self.spec.element, self.owns_padding, spec)


def allocate_operand(
    layout: Layout,
    element: ElementType,
    alignment: int,
    device: str,
    stored: Layout | None = None,
    memory: Memory | None = None,
    stream: object = None,
) -> Operand:
    """Allocate memory for `layout`, for first use on `stream`, on a device or from `memory`.

    Raises `LayoutError` for an alignment that is no power of two or below an element, and `DeviceError` for an
    unavailable device or too little memory.
    """
    return AllocationSpec.of(layout, element, alignment, stored).allocate(memory or device_named(device), stream)
