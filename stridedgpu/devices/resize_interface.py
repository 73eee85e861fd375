"""What a device does to resize: it plans a `ResizeProblem`, and makes the plan ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from stridedgpu.devices.cuda.planning.widths import Width
from stridedgpu.planning.resize_problem import ResizeProblem, ResizeWindow

from .gather_interface import Located

__all__ = ["ResizeBackend", "ResizeLaunch", "ResizeMove", "ResizePlan"]

ResizeLaunch = Callable[[Sequence[ResizeWindow], Sequence[Located], Located, object], None]
"""A plan made ready by a device: `launch(windows, sources, target, stream)`, a source for each window."""

ResizeMove = Callable[[Sequence[ResizeWindow], Sequence[Located], Located], None]
"""The same on a device without streams."""


class ResizePlan(Protocol):
    """What runs, as the device that runs it says."""

    @property
    def problem(self) -> ResizeProblem:
        """What is to be done."""

    @property
    def device(self) -> str:
        """Where it runs."""

    @property
    def kernel(self) -> str:
        """The name of the loops or the kernel."""

    @property
    def load(self) -> Width:
        """The width of one load."""

    @property
    def store(self) -> Width:
        """The width of one store."""

    @property
    def index_bits(self) -> int:
        """32 or 64."""

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each once."""

    def explain(self) -> str:
        """The plan in plain words."""


class ResizeBackend(Protocol):
    """A device that resizes pictures."""

    def plan_resize(self, problem: ResizeProblem) -> ResizePlan:
        """What runs for a problem. Raises `DeviceError` for what this device cannot resize."""

    def prepare_resize(self, plan: ResizePlan) -> ResizeLaunch:
        """A plan made ready, so that running it is only the launch."""
