"""A relayout on one device, planned and prepared once for what it moves."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.interface import Device, RelayoutLaunch
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_named, remote_device_named
from stridedgpu.planning.channel_matrix_problem import moving_problem
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.tensor_spec import TensorSpec

__all__ = ["launch_for", "move_on_device", "zero_bytes"]

_WIDEST_ELEMENT: Final = 16
"""Bytes of complex128, the largest element."""


def move_on_device(
    source: Operand,
    target: Operand,
    made: Conversion,
    channel_axis: int | None,
    stream: object,
    filler: int = 0,
) -> None:
    """Plan a relayout on one device, and run it."""
    device = device_named(target.buffer.device)
    # mypy has no protocol for hashable
    launch = launch_for(source.spec, target.spec, made, channel_axis, device, filler)  # type: ignore[arg-type]
    launch(source.buffer, source.start_bytes, target.buffer, target.start_bytes, stream)


@lru_cache(maxsize=4096)
def launch_for(
    source: TensorSpec,
    target: TensorSpec,
    made: Conversion,
    channel_axis: int | None,
    device: Device,
    filler: int = 0,
) -> RelayoutLaunch:
    """The prepared launch of a relayout on a device; cached."""
    return device.prepare(device.plan(moving_problem(source, target, made, channel_axis, filler)))


@cache
def zero_bytes(device: str) -> Buffer:
    """One element of zeros on a device, large enough for any type."""
    zeros = bytes(_WIDEST_ELEMENT)
    return Buffer.of(zeros) if device == "cpu" else remote_device_named(device).uploaded(zeros)
