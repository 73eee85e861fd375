"""A relayout on one device, planned and prepared once for what it moves."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Final

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.interface import Device, DirectLaunch, RelayoutLaunch
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_named, remote_device_named
from stridedgpu.planning.channel_matrix_problem import moving_problem
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.tensor_spec import TensorSpec

__all__ = ["Move", "move_for", "move_on_device", "zero_bytes"]

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
    move_for(source.spec, target.spec, made, channel_axis, device, filler)(source, target, stream)  # type: ignore[arg-type]


Move = Callable[[Operand, Operand, object], None]
"""`move(source, target, stream)`, of operands that fit it."""


@lru_cache(maxsize=4096)
def move_for(
    source: TensorSpec,
    target: TensorSpec,
    made: Conversion,
    channel_axis: int | None,
    device: Device,
    filler: int = 0,
) -> Move:
    """A relayout prepared on a device; cached."""
    launch: RelayoutLaunch = device.prepare(device.plan(moving_problem(source, target, made, channel_axis, filler)))
    ready: DirectLaunch | None = None

    def move(source: Operand, target: Operand, stream: object) -> None:
        nonlocal ready
        direct = ready
        if direct is not None and stream is None:
            direct(source.reach[0], target.reach[0])
        else:
            ready = launch(source.buffer, source.start_bytes, target.buffer, target.start_bytes, stream)

    return move


@cache
def zero_bytes(device: str) -> Buffer:
    """One element of zeros on a device, large enough for any type."""
    zeros = bytes(_WIDEST_ELEMENT)
    return Buffer.of(zeros) if device == "cpu" else remote_device_named(device).uploaded(zeros)
