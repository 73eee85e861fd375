"""What a device does to resize: it plans a `ResizeProblem`, and makes the plan ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.planning.resize_problem import ResizeProblem, ResizeWindow

from .interface import Located

__all__ = ["ResizeBackend", "ResizeLaunch", "ResizeMove", "ResizePlan"]

ResizeLaunch = Callable[[Sequence[ResizeWindow], Sequence[Located], Located, object], None]
"""A plan made ready by a device: `launch(windows, sources, target, stream)`, a source for each window."""

ResizeMove = Callable[[Sequence[ResizeWindow], Sequence[Located], Located], None]
"""The same on a device without streams."""


class ResizePlan(DevicePlan, Protocol):
    """What runs, as the device that runs it says."""

    @property
    def problem(self) -> ResizeProblem:
        """What is to be done."""


class ResizeBackend(Protocol):
    """A device that resizes pictures."""

    def plan_resize(self, problem: ResizeProblem) -> ResizePlan:
        """What runs for a problem. Raises `DeviceError` for what this device cannot resize."""

    def prepare_resize(self, plan: ResizePlan) -> ResizeLaunch:
        """A plan made ready, so that running it is only the launch."""
