"""Elements moved on any devices: on one, or from one to another."""

from __future__ import annotations

from stridedgpu.devices.operand import Operand
from stridedgpu.values.conversion import Conversion

from .device_move import move_on_device

__all__ = ["move_elements"]


def move_elements(
    source: Operand,
    target: Operand,
    made: Conversion,
    channel_axis: int | None,
    stream: object = None,
    filler: int = 0,
) -> None:
    """Write `source`, converted by `made`, into `target`, on any devices.

    `filler` is the number of zeros after the channels of each pixel; both sides are then on one device. `stream`
    belongs to the target's device, or to the source's if the target is on the CPU. Raises `DeviceError` for a stream if
    both sides are on the CPU. Also raises it, before anything is written, if a device has no memory for the staging
    buffers.
    """
    if source.buffer.device == target.buffer.device:
        move_on_device(source, target, made, channel_axis, stream, filler)
    elif target.layout.element_count:
        from .transfer import transfer_elements  # most programs move nothing between devices

        transfer_elements(source, target, made, channel_axis, stream)
