"""Copies that keep everything: gaps, strides and alignment, in another buffer or another process."""

from __future__ import annotations

import warnings

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_named
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.layout import Layout

from .options import allocate_operand
from .relayout import assign_operand

__all__ = ["State", "copied_operand", "restored_operand", "state_of_operand"]

State = tuple[bytes, Layout, str, int, str]
"""A pickled operand: the spanned bytes, the layout within them, the type's name, alignment and device."""


def copied_operand(operand: Operand) -> Operand:
    """A copy of every byte that an operand spans, gaps included, in new memory on the same device."""
    layout = operand.layout.shifted(-operand.layout.first_offset)
    alignment = max(operand.buffer.alignment, operand.element.itemsize)
    result = allocate_operand(layout, operand.element, alignment, operand.buffer.device)
    assign_operand(_spanned(operand), _spanned(result))
    return result


def state_of_operand(operand: Operand) -> State:
    """An operand as host values; the bytes of device memory are copied to the host."""
    spanned = _spanned(operand)
    if operand.buffer.device != "cpu":
        there, spanned = spanned, allocate_operand(spanned.layout, spanned.element, 1, "cpu")
        assign_operand(there, spanned)
    contents = spanned.buffer.bytes[spanned.start_bytes : spanned.start_bytes + spanned.span_bytes].tobytes()
    layout = operand.layout.shifted(-operand.layout.first_offset)
    return contents, layout, operand.element.name, operand.buffer.alignment, operand.buffer.device


def restored_operand(state: State) -> Operand:
    """The operand of a pickled state, on the same kind of device.

    If there is no such device, the operand is restored on the CPU, with a warning that gives the reason.
    """
    contents, layout, dtype, alignment, device = state
    element = element_type(dtype)
    result = allocate_operand(layout, element, max(alignment, element.itemsize), _device_like(device))
    memory = Buffer.of(contents)
    assign_operand(Operand(memory, Layout((memory.nbytes,)), element_type("uint8")), _spanned(result))
    return result


def _spanned(operand: Operand) -> Operand:
    """The bytes from the lowest element to the highest, gaps included."""
    layout = Layout((operand.span_bytes,), (1,), operand.start_bytes if operand.span_bytes else 0)
    return Operand(operand.buffer, layout, element_type("uint8"))


def _device_like(device: str) -> str:
    """The same device if it is available, else the first of its kind, else the CPU."""
    for name in dict.fromkeys((device, device.partition(":")[0])):
        try:
            return device_named(name).name
        except DeviceError as error:
            missing = error
    warnings.warn(f"A tensor from {device} is unpickled on the CPU: {missing}", RuntimeWarning, stacklevel=4)
    return "cpu"
