"""`CpuPlan`: the plan of one operation on the CPU, as a value: NumPy's loops, compiled loops, or both in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stridedgpu.problems.device_plan import Width, describe_access

from .compiled.jit import why_unavailable
from .promotion import compiled_from
from .thread_count import get_num_threads

__all__ = ["NUMPY_DECIDES", "CpuKernel", "CpuOperation", "CpuPlan", "cpu_plan"]

NUMPY_DECIDES = "NumPy's own loops decide how many at once"
"""The reason given for NumPy's unknown access widths."""


@dataclass(frozen=True, slots=True)
class CpuKernel:
    """Loops on the CPU, with all that decides how they run.

    `load` and `store` are the widths of one access. `tile` is the box that one step moves, along the problem's loops.
    `items` are what threads share, in calls that move `shared_bytes` or more (None: one thread does it all). `walks`
    are the compiled loops with their extents, none on NumPy.
    """

    name: str
    words: str
    load: Width
    store: Width
    tile: tuple[int, ...] = ()
    items: int = 1
    shared_bytes: int | None = None
    walks: tuple[Any, ...] = ()

    def shape(self, nbytes: int) -> str:
        """The division of work in a call that moves `nbytes`."""
        if self.shared_bytes is None or nbytes < self.shared_bytes or self.items < 2:
            return "one thread"
        return f"{self.items} items, shared by threads"

    def describe(self, nbytes: int) -> list[str]:
        """The lines that `explain` prints."""
        tile = [f"tile {' x '.join(map(str, self.tile))} along the loops"] if self.tile else []
        accesses = describe_access("loads", self.load) + "; " + describe_access("stores", self.store)
        return [self.words, accesses, *tile, self.shape(nbytes)]


@dataclass(frozen=True, slots=True)
class CpuOperation:
    """How the CPU does one type of problem: both ways of planning it, and of running what was planned.

    `compiled` returns None, or the reason in words, where a problem is left to NumPy; `run_compiled` returns None where
    this processor cannot run it. Both ways take so many `arguments`: those of the launch without the stream. With
    `by_address`, compiled loops take one address in place of each buffer and its start. Work of `at_once_bytes` or more
    begins on compiled loops. `tells_why`: plans say why there are no compiled loops.
    """

    numpy: Callable[[Any], CpuKernel]
    run_numpy: Callable[[Any], Callable[..., None]]
    compiled: Callable[[Any], CpuKernel | str | None]
    run_compiled: Callable[[CpuPlan], Callable[..., object] | None]
    arguments: int = 3
    by_address: bool = False
    at_once_bytes: Callable[[], int] | None = None
    tells_why: bool = False


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """The plan of a problem on this CPU.

    Calls from number `compiled_from` on run compiled loops: 1 for all calls, None for none. The compiled loops are
    planned on first access, because that loads the compiler. `shared`: it was planned for several threads, which write
    more into the caches than one does.
    """

    problem: Any
    operation: CpuOperation = field(repr=False, compare=False)
    compiled_from: int | None
    shared: bool
    _kernels: list[CpuKernel | str | None] = field(default_factory=list, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the problem only: the receiving process plans for its own processor."""
        return cpu_plan, (self.problem, self.operation)

    @property
    def device(self) -> str:
        """The device's name."""
        return "cpu"

    @property
    def numpy(self) -> CpuKernel:
        """NumPy's loops."""
        return self.operation.numpy(self.problem)

    @property
    def compiled(self) -> CpuKernel | None:
        """The compiled loops; None where there are none."""
        if self.compiled_from is None:
            return None
        if not self._kernels:
            self._kernels.append(self.operation.compiled(self.problem))
        kernel = self._kernels[0]
        return None if isinstance(kernel, str) else kernel

    @property
    def settled(self) -> CpuKernel:
        """The loops of later calls: compiled ones, or NumPy's if there are none."""
        return self.compiled or self.numpy

    @property
    def first(self) -> CpuKernel:
        """The loops of the first call."""
        return self.settled if self.compiled_from == 1 else self.numpy

    @property
    def kernel(self) -> str:
        """The name of the loops of later calls; `explain` also names those of the first calls."""
        return self.settled.name

    @property
    def load(self) -> Width:
        """The width of one load, and why it is not wider."""
        return self.settled.load

    @property
    def store(self) -> Width:
        """The width of one store, and why it is not wider."""
        return self.settled.store

    @property
    def index_bits(self) -> int:
        """Bits of the arithmetic for offsets: always 64 on the CPU."""
        return 64

    @property
    def tile(self) -> tuple[int, ...]:
        """The box that one step moves, along the problem's loops."""
        return self.settled.tile

    @property
    def shape(self) -> str:
        """The division of work."""
        return self.settled.shape(self.bytes_moved)

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each element once."""
        moved: int = self.problem.bytes_moved
        return moved

    def explain(self) -> str:
        """The plan in plain words: loops, the call that they run from, widths and their limits, tile and threads."""
        settled, first, nbytes = self.settled, self.first, self.bytes_moved
        reason = None
        if self.operation.tells_why and self.compiled is None:
            reason = why_unavailable() or next(iter(self._kernels), None)
        name = f"{settled.name} on {self.device}" + (f" ({reason})" if reason else "")
        lines = [name, *self.problem.describe(), *settled.describe(nbytes)]
        lines.append(f"{self.index_bits}-bit offsets")
        if first != settled:
            lines += [f"until call {self.compiled_from}, which loads it: {first.name}", *first.describe(nbytes)[:1]]
        return "\n  ".join(lines)


def cpu_plan(problem: Any, operation: CpuOperation) -> CpuPlan:
    """Plan a problem for this processor."""
    at_once = None if operation.at_once_bytes is None else operation.at_once_bytes()
    return CpuPlan(problem, operation, compiled_from(problem.bytes_moved, at_once), get_num_threads() > 1)
