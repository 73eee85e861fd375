"""What a device does with frames: colours of luma and chroma."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from stridedgpu.planning.frame_problem import FramePlan, FrameProblem

from .frame_operand import FrameOperand
from .operand import Operand

__all__ = ["FrameBackend", "FrameLaunch"]

FrameLaunch = Callable[[Sequence[Operand], tuple[int, int], Operand, object], None]
"""A plan made ready by a device: `launch(planes, origin, target, stream)`."""


class FrameBackend(Protocol):
    """A device that makes colours of luma and chroma."""

    def plan_frame(self, problem: FrameProblem) -> FramePlan:
        """What runs for a problem. Raises `DeviceError` for what this device does not do."""

    def write_samples(self, picture: Sequence[Operand], frame: FrameOperand, stream: object) -> None:
        """Write red, green and blue, each (H, W), into the planes of a frame.

        Raises `DeviceError` where this device does not.
        """

    def prepare_frame(self, plan: FramePlan) -> FrameLaunch:
        """A plan made ready, so that running it is only the launch."""
