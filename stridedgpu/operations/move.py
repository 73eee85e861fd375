"""Elements moved on any devices: on one by one launch, or from one to another."""

from __future__ import annotations

from functools import cache
from typing import Final

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.interface import MoveLaunch
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_named, remote_device_named
from stridedgpu.planning.channel_matrix_problem import moving_problem
from stridedgpu.values.conversion import Conversion

__all__ = ["move_elements", "zero_bytes"]

_WIDEST_ELEMENT: Final = 16
"""Bytes of complex128, the largest element."""


def move_elements(
    source: Operand,
    target: Operand,
    conversion: Conversion,
    channel_axis: int | None,
    stream: object = None,
    filler: int = 0,
) -> None:
    """Write `source`, converted, into `target`, on any devices.

    `filler` is the number of zeros after the channels of each pixel; both sides are then on one device. `stream`
    belongs to the target's device, or to the source's if the target is on the CPU. Raises `DeviceError` for a stream if
    both sides are on the CPU. Also raises it, before anything is written, if a device has no memory for the staging
    buffers.
    """
    there = target.buffer.device
    if source.buffer.device == there:
        problem = moving_problem(source.spec, target.spec, conversion, channel_axis, filler)
        launch: MoveLaunch = device_named(there).launch_for(problem)
        launch(source, target, stream)
    elif target.layout.element_count:
        from .transfer import transfer_elements  # most programs move nothing between devices

        transfer_elements(source, target, conversion, channel_axis, stream)


@cache
def zero_bytes(device: str) -> Buffer:
    """One element of zeros on a device, large enough for any type."""
    zeros = bytes(_WIDEST_ELEMENT)
    return Buffer.of(zeros) if device == "cpu" else remote_device_named(device).uploaded(zeros)
