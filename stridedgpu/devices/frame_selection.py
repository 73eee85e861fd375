"""Which device converts frames: the one that their planes are on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from stridedgpu.devices.cpu.frames import CpuFrames
from stridedgpu.planning.frame_problem import FramePlan, FrameProblem
from stridedgpu.values.errors import DeviceError

from .operand import Operand

__all__ = ["FrameDevice", "FrameLaunch", "frame_device_named"]

FrameLaunch = Callable[[Sequence[Operand], tuple[int, int], Operand, object], None]
"""A plan made ready by a device: `launch(planes, origin, target, stream)`."""


class FrameDevice(Protocol):
    """A device that makes colours of luma and chroma."""

    def plan_frame(self, problem: FrameProblem) -> FramePlan:
        """How this device does it."""

    def prepare_frame(self, plan: FramePlan) -> FrameLaunch:
        """The plan made ready, so that running it is only the launch."""


_CPU: Final = CpuFrames()


def frame_device_named(device: str) -> FrameDevice:
    """The device of that name. Raises `DeviceError` where frames cannot be converted."""
    if device == "cpu":
        return _CPU
    raise DeviceError(
        f"Frames of luma and chroma on {device} cannot be converted there; bring their planes to the CPU with "
        "frame.to_device('cpu')."
    )
