"""`Walk`: a kernel with the parameters that it reads, made from loops that were matched to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np

from stridedgpu.devices.cpu.numpy_loops.conversion import Array, constants
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.relayout_problem import Problem

from .channels import Channels
from .ir import LINE_BYTES
from .rows import Rows
from .transpose import Transpose
from .work_grid import Constants, Elements

__all__ = [
    "ONCE",
    "Draft",
    "Kernel",
    "Loop",
    "Walk",
    "elements_of",
    "make_walk",
    "next_inner",
    "reads_rows_apart",
    "writes_past_caches",
]

Kernel = Rows | Channels | Transpose


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop: steps in bytes, steps through the constants, and each channel's number where not evenly spaced."""

    size: int
    source: int
    target: int
    constants: int = 0
    channels: tuple[int, ...] | None = None


ONCE: Final = Loop(1, 0, 0)
"""The loop where there is none."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A kernel with its parameters: items from 0 to `items`, from `source_offset` and `target_offset` bytes on.

    `parameters` is kept alive by whoever calls the kernel, and so are the arrays whose addresses it holds.
    """

    kernel: Kernel
    items: int
    source_offset: int
    target_offset: int
    parameters: Array
    kept: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """Loops being matched to a kernel, over elements of so many bytes."""

    loops: tuple[Loop, ...]
    source_bytes: int
    target_bytes: int
    source_offset: int
    target_offset: int = 0

    @classmethod
    def of(cls, problem: Problem) -> Draft:
        """The problem's loops in bytes."""
        source, target, conversion = problem.source.element, problem.target.element, problem.conversion
        per_channel = any(values is not None and len(values) > 1 for values in (conversion.scale, conversion.bias))
        loops = [
            Loop(
                size,
                theirs * source.itemsize,
                ours * target.itemsize,
                int(axis == problem.channel_axis and per_channel),
                conversion.channels if axis == problem.channel_axis else None,
            )
            for axis, (size, ours, theirs) in enumerate(
                zip(problem.sizes, problem.target_strides, problem.source_strides, strict=True)
            )
        ]
        return cls(tuple(loops), source.itemsize, target.itemsize, problem.source_offset * source.itemsize)

    @property
    def ours(self) -> Loop | None:
        """The loop along which the target is contiguous."""
        return next((loop for loop in self.loops if loop.target == self.target_bytes and not loop.channels), None)

    @property
    def theirs(self) -> Loop | None:
        """The loop along which the source is contiguous, either way."""
        return next((loop for loop in self.loops if abs(loop.source) == self.source_bytes and not loop.channels), None)

    def besides(self, *taken: Loop) -> tuple[Loop, ...]:
        """The other loops."""
        return tuple(loop for loop in self.loops if not any(loop is other for other in taken))

    def flipped(self, loop: Loop) -> tuple[Draft, Loop]:
        """The same work with one loop run from its end."""
        turned = replace(loop, source=-loop.source, target=-loop.target, constants=-loop.constants)
        last = loop.size - 1
        return replace(
            self,
            loops=tuple(turned if other is loop else other for other in self.loops),
            source_offset=self.source_offset + last * loop.source,
            target_offset=self.target_offset + last * loop.target,
        ), turned


def next_inner(draft: Draft, *taken: Loop) -> tuple[Loop, tuple[Loop, ...]]:
    """The innermost loop besides those taken, and the loops outside of it."""
    rest = draft.besides(*taken)
    inner = next((loop for loop in reversed(rest) if loop.channels is None), ONCE)
    return inner, tuple(loop for loop in rest if loop is not inner)


def elements_of(problem: Problem, draft: Draft, a: Loop, b: Loop, small: Loop | None = None) -> Elements:
    """What happens to an element, and the loop that its constants follow."""
    conversion = problem.conversion
    finite = all(
        values is None or np.isfinite(constants(values, conversion.compute)).all()
        for values in (conversion.scale, conversion.bias)
    )
    places = ((a, Constants.A), (b, Constants.B), (small, Constants.SMALL))
    return Elements(
        replace(conversion, scale=conversion.scale and (0.0,), bias=conversion.bias and (0.0,), channels=None),
        next((place for loop, place in places if loop is not None and loop.constants), Constants.ITEM),
        bool(finite),
        draft.source_bytes if conversion.moves_bits else 0,
    )


def writes_past_caches(problem: Problem, outer: Sequence[Loop], row: Loop, step: int) -> bool:
    """Whether rows of the target, in loops around them and in so many elements a step, are worth it."""
    in_lines = row.size % step == 0 and all(loop.target % LINE_BYTES == 0 for loop in outer)
    long = row.size * row.target >= policy().relayout.long_row_bytes
    return problem.bytes_moved >= policy().relayout.streamed_bytes and (in_lines or long)


def reads_rows_apart(problem: Problem, row: Loop, rows: Loop) -> bool:
    """Whether the source's rows lie so far apart that no processor sees the next one coming."""
    gap = abs(rows.source) - row.size * abs(row.source)
    return problem.bytes_moved >= policy().relayout.prefetched_bytes and gap >= policy().relayout.row_gap_bytes


def make_walk(
    problem: Problem,
    kernel: Kernel,
    draft: Draft,
    outer: tuple[Loop, ...],
    a: tuple[Loop, int],
    b: tuple[Loop, int],
    small: Loop | None = None,
    extents: tuple[int, int] | None = None,
) -> Walk:
    """The parameters as a kernel reads them: `a` and `b` with their steps, and the extents of an item along them."""
    conversion = problem.conversion
    count, turn = next(((loop.size, loop.constants) for loop in draft.loops if loop.constants), (1, 1))
    rounded = [
        # A loop that was turned around reads them from the other end.
        np.zeros(0) if values is None else np.resize(constants(values, conversion.compute), count)[::turn].copy()
        for values in (conversion.scale, conversion.bias)
    ]
    kept = list(rounded)
    if extents is None:
        each = (draft.source_bytes + draft.target_bytes) * (1 if small is None else small.size)
        wanted = policy().relayout.bytes_of_item(problem.bytes_moved) // each
        b_block = _block(b, wanted)
        extents = wanted // b_block, b_block
    fields = [values.ctypes.data for values in rounded]
    blocks = []
    for (loop, step), extent in zip((a, b), extents, strict=True):
        block = _block((loop, step), extent)
        blocks.append(-(-loop.size // block))
        fields += [loop.size, loop.source, loop.target, block, blocks[-1]]
    fields += [0, 0] if small is None else [small.source, small.target]
    for loop in reversed(outer):
        table = 0
        if loop.channels is not None:
            kept.append(np.array(loop.channels, np.int64) * loop.source)
            table = kept[-1].ctypes.data
        fields += [loop.size, loop.source, loop.target, loop.constants, table]
    items = prod(loop.size for loop in outer) * prod(blocks)
    return Walk(kernel, items, draft.source_offset, draft.target_offset, np.array(fields, np.int64), tuple(kept))


def _block(inner: tuple[Loop, int], wanted: int) -> int:
    """Elements of a block: the whole loop, or about as many as wanted, in whole steps."""
    loop, step = inner
    return max(loop.size, step) if loop.size <= wanted else max(step, wanted // step * step)
