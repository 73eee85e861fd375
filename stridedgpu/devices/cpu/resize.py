"""Resize on the CPU: the plan, and its loops, on NumPy or compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from stridedgpu.devices.cpu.compiled.jit import why_unavailable
from stridedgpu.devices.cpu.numpy_loops.resize import resize_windows
from stridedgpu.devices.interface import Located
from stridedgpu.devices.resize_interface import ResizeLaunch, ResizeMove, ResizePlan
from stridedgpu.planning.device_plan import Width
from stridedgpu.planning.resize_problem import ResizeProblem, ResizeWindow
from stridedgpu.planning.resize_words import bytes_moved, problem_words
from stridedgpu.values.errors import DeviceError

from .policy import policy
from .promotion import Promotion, compiled_from

__all__ = ["CpuResize", "CpuResizePlan"]

_LANES: Final = 16
"""Bytes of one load and one store of compiled loops: a byte of each of 16 rows, or as many of one."""


@dataclass(frozen=True, slots=True)
class CpuResizePlan:
    """What runs on the CPU for a problem; `why_numpy` says why NumPy does it, None where loops are compiled.

    Where windows come with every call, those that have no compiled loops are left to NumPy one by one.
    """

    problem: ResizeProblem
    why_numpy: str | None
    device: str = "cpu"

    @property
    def kernel(self) -> str:
        """The loops' name: the way, the rule, and both types."""
        made, way = self.problem.conversion, "compiled" if self.why_numpy is None else "numpy"
        return f"resize_{way}_{self.problem.rule.interpolation}_{made.source}_{made.target}"

    @property
    def load(self) -> Width:
        """The width of one load."""
        return self._width(self.problem.conversion.source.itemsize)

    @property
    def store(self) -> Width:
        """The width of one store."""
        return self._width(self.problem.conversion.target.itemsize)

    def _width(self, itemsize: int) -> Width:
        return Width(_LANES, "") if self.why_numpy is None else Width(itemsize, "NumPy's loops choose theirs")

    @property
    def index_bits(self) -> int:
        """Bits of offsets."""
        return 64

    @property
    def tile(self) -> tuple[int, ...]:
        """No box of its own: bands of whole rows."""
        return ()

    @property
    def shape(self) -> str:
        """How the work is divided."""
        return "bands of rows, shared by threads" if self.why_numpy is None else "one thread"

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each once."""
        return sum(bytes_moved(self.problem))

    def explain(self) -> str:
        """The plan in plain words."""
        loops = (
            "compiled loops: 16 source rows a vector, bands of 16 rows of the result are converted in the cache"
            if self.why_numpy is None
            else f"NumPy, over bands of rows that the cache holds: {self.why_numpy}"
        )
        return "\n  ".join([f"{self.kernel} on {self.device}", *problem_words(self.problem), loops])


class CpuResize:
    """The processor that this program runs on, resizing."""

    def plan_resize(self, problem: ResizeProblem) -> CpuResizePlan:
        """What runs for a problem, once it is large or repeated."""
        return CpuResizePlan(problem, _why_numpy(problem))

    def prepare_resize(self, plan: ResizePlan) -> ResizeLaunch:
        """A plan with its loops chosen."""
        return _prepared(plan.problem)


@lru_cache(maxsize=256)
def _why_numpy(problem: ResizeProblem) -> str | None:
    """None where a problem has compiled loops."""
    missing = why_unavailable()
    if missing is not None or problem.window is None:
        return missing
    from stridedgpu.devices.cpu.compiled.resize import why_numpy

    return why_numpy(problem, problem.window)


@lru_cache(maxsize=256)
def _prepared(problem: ResizeProblem) -> ResizeLaunch:
    """The loops of a problem, kept for the next call."""
    limits = policy().promotion
    nbytes = sum(bytes_moved(problem)) * limits.at_once_bytes // max(limits.resize_bytes, 1)
    moves = Promotion(compiled_from(nbytes), lambda: _numpy_move(problem), lambda: _compiled_move(problem))

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
