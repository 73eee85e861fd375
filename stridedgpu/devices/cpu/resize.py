"""Resize on the CPU: the plan, and its loops, on NumPy or compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from stridedgpu.devices.cpu.compiled.jit import why_unavailable
from stridedgpu.devices.cpu.numpy_loops.resize import resize_windows
from stridedgpu.devices.gather_interface import Located
from stridedgpu.devices.resize_interface import ResizeLaunch, ResizeMove, ResizePlan
from stridedgpu.planning.resize_problem import ResizeProblem, ResizeWindow
from stridedgpu.planning.resize_words import bytes_moved, problem_words
from stridedgpu.values.errors import DeviceError

from .promotion import Promotion

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
    compiles = why_unavailable() is None
    moves: Promotion[ResizeMove] = Promotion(
        sum(bytes_moved(problem)), lambda: _numpy_move(problem), (lambda: _compiled_move(problem)) if compiles else None
    )

    def launch(windows: Sequence[ResizeWindow], sources: Sequence[Located], target: Located, stream: object) -> None:
        if stream is not None:
            raise DeviceError(f"stream={stream!r} has no meaning on the CPU, where calls return when they are done.")
        moves.chosen()(windows, sources, target)

    return launch


def _compiled_move(problem: ResizeProblem) -> ResizeMove | None:
    """The problem by compiled loops, if it can be; only programs that come here load what compiles."""
    from stridedgpu.devices.cpu.compiled.resize import compiled_resize

    return compiled_resize(problem, partial(_resize_some, problem))


def _numpy_move(problem: ResizeProblem) -> ResizeMove:
    """The problem on NumPy."""
    return lambda windows, sources, target: _resize_some(problem, range(len(windows)), windows, sources, target)


def _resize_some(
    problem: ResizeProblem,
    numbers: Sequence[int],
    windows: Sequence[ResizeWindow],
    sources: Sequence[Located],
    target: Located,
) -> None:
    """Some of the windows on NumPy, by number."""
    buffer, start = target
    memory = [source.bytes[begin:] for source, begin in sources]
    resize_windows(problem, windows, memory, buffer.bytes[start:], numbers)
