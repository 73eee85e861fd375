"""The loops of a compiled gather or scatter, in the roles that its kernels have for them, and its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.gather_problem import GatherProblem

from .gather_by_row import GatherByRow
from .gather_elements_loop import GatherElements
from .gather_loop import Gather
from .ir import LINE_BYTES

__all__ = ["GROUPED", "ONCE", "GatherWalk", "Loop", "Nest", "nest_of", "power_of_two"]

GROUPED: Final = (1, 2, 4, 8)
"""Run lengths, in bytes, that are combined into vectors."""


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop: its size, and its strides on the dense side, on the indexed side and in the indices, in bytes."""

    size: int
    strides: tuple[int, int, int]


ONCE: Final = Loop(1, (0, 0, 0))


@dataclass(frozen=True, slots=True)
class Nest:
    """The bytes of a run, and the loops of a kernel as `gather_loop` names them."""

    run: int
    m: Loop
    b: Loop
    a: Loop
    outer: tuple[Loop, ...]

    @property
    def items_differ(self) -> bool:
        """Whether every step of the loops around `b` addresses different elements of the indexed side."""
        return all(loop.strides[1] for loop in (*self.outer, self.a) if loop.size > 1)

    @property
    def group(self) -> int:
        """How many adjacent short runs fill a vector."""
        if self.run not in GROUPED or self.m is not ONCE or self.b.strides[0] != self.run:
            return 1
        return power_of_two(min(self.b.size, LINE_BYTES // self.run))


@dataclass(frozen=True, slots=True)
class GatherWalk:
    """A kernel with its parameters, except the address of the indices, which comes first; offsets are in bytes.

    `in_order`: items may write the same element and the last one wins, so they run one after another.
    """

    kernel: Gather | GatherElements | GatherByRow
    items: int
    in_order: bool
    dense_offset: int
    indexed_offset: int
    index_offset: int
    parameters: tuple[int, ...]


def nest_of(problem: GatherProblem, itemsize: int, index_bytes: int) -> Nest:
    """Assign the problem's loops to the roles `run`, `m`, `b`, `a` and `outer`."""
    loops = [
        Loop(size, (dense * itemsize, indexed * itemsize, index * index_bytes))
        for size, dense, indexed, index in zip(
            problem.sizes, problem.dense_strides, problem.indexed_strides, problem.index_strides, strict=True
        )
    ]
    stop = len(loops) - problem.row_axes
    followed, rows = loops[:stop], loops[stop:]
    run = itemsize
    if rows and rows[-1].strides[:2] == (itemsize, itemsize):
        run *= rows.pop().size
    m, b, a = (part.pop() if part else ONCE for part in (rows, followed, followed))
    if b.size < policy().gather.short_loop <= a.size and not problem.scatters:
        a, b = b, a
    # The remaining loops of an index's row become the outermost ones. Their elements differ, so the order is kept.
    return Nest(run, m, b, a, (*rows, *followed))


def power_of_two(most: int) -> int:
    """The largest power of two up to `most`."""
    return 1 << (most.bit_length() - 1)
