"""Resize on the CPU: the plan, and its loops, on NumPy or compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from stridedgpu.devices.cpu.numpy_loops.resize import resize_windows
from stridedgpu.devices.gather_interface import Located
from stridedgpu.devices.resize_interface import ResizeLaunch, ResizeMove, ResizePlan
from stridedgpu.planning.resize_problem import ResizeProblem, ResizeWindow
from stridedgpu.planning.resize_words import bytes_moved, problem_words
from stridedgpu.values.errors import DeviceError

__all__ = ["CpuResize", "CpuResizePlan"]

_NUMPY: Final = "resize_numpy"


@dataclass(frozen=True, slots=True)
class CpuResizePlan:
    """What runs on the CPU for a problem."""

    problem: ResizeProblem
    kernel: str
    device: str = "cpu"

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each once."""
        return sum(bytes_moved(self.problem))

    def explain(self) -> str:
        """The plan in plain words."""
        return "\n  ".join([f"{self.kernel} on {self.device}", *problem_words(self.problem)])


class CpuResize:
    """The processor that this program runs on, resizing."""

    def plan_resize(self, problem: ResizeProblem) -> CpuResizePlan:
        """What runs for a problem."""
        return CpuResizePlan(problem, _NUMPY)

    def prepare_resize(self, plan: ResizePlan) -> ResizeLaunch:
        """A plan with its loops chosen."""
        return _prepared(plan.problem)


@lru_cache(maxsize=256)
def _prepared(problem: ResizeProblem) -> ResizeLaunch:
    """The loops of a problem, kept for the next call."""
    move = _numpy_move(problem)

    def launch(windows: Sequence[ResizeWindow], sources: Sequence[Located], target: Located, stream: object) -> None:
        if stream is not None:
            raise DeviceError(f"stream={stream!r} has no meaning on the CPU, where calls return when they are done.")
        move(windows, sources, target)

    return launch


def _numpy_move(problem: ResizeProblem) -> ResizeMove:
    """The problem on NumPy."""

    def move(windows: Sequence[ResizeWindow], sources: Sequence[Located], target: Located) -> None:
        buffer, start = target
        resize_windows(problem, windows, [source.bytes[begin:] for source, begin in sources], buffer.bytes[start:])

    return move
