"""New memory for operands: sized by DirectML's rule, with the chosen alignment, on the chosen device."""

from __future__ import annotations

from stridedgpu.devices.operand import AllocationSpec, Memory, Operand
from stridedgpu.devices.selection import device_named
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.layout import Layout

__all__ = ["DEFAULT_ALIGNMENT", "allocate_operand"]

DEFAULT_ALIGNMENT = 32
"""Bytes: DirectML's recommendation, and one full access on GPUs with 256-bit loads."""


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
