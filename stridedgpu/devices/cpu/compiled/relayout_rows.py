"""Match a relayout's loops to a kernel of rows: which loop is the row, its step, and how it is stored."""

from __future__ import annotations

from math import gcd
from typing import Final

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.relayout_problem import RelayoutProblem

from .ir import LINE_BYTES
from .kernel_call import (
    ONCE,
    KernelCall,
    LoopAxis,
    LoopMatch,
    elements_of,
    kernel_call,
    next_inner,
    power_of_two,
    reads_rows_apart,
    writes_past_caches,
)
from .rows import Rows, Step
from .transpose import LANE_BYTES

__all__ = ["rows_of"]

_WAY_BYTES: Final = 4096
"""Addresses this many bytes apart map to one set of the L1 cache, which has `_WAYS` lines."""

_WAYS: Final = 8


def rows_of(problem: RelayoutProblem, draft: LoopMatch) -> KernelCall:
    """A kernel of rows, for any strides."""
    b = draft.target_loop or _row_apart(draft)
    # If a row's elements lie apart, the source elements between them belong to other rows.
    others = [loop for loop in draft.besides(b) if loop.source and loop.channels is None]
    near = min(others, key=lambda loop: abs(loop.source), default=b)
    if abs(near.source) < abs(b.source):
        a, outer = near, draft.besides(near, b)
    else:
        a, outer = _rows_of_item(draft, b)
        if b.source == draft.source_bytes and b.target == draft.target_bytes:
            a, outer = _in_source_order(problem, a, b, outer)
    steps = {draft.source_bytes: Step.FORWARD, -draft.source_bytes: Step.BACKWARD, 0: Step.REPEATED}
    source_step = steps.get(b.source, Step.STRIDED)
    target_step = Step.FORWARD if b.target == draft.target_bytes else Step.STRIDED
    whole = LINE_BYTES // draft.target_bytes
    streaming = (
        target_step is Step.FORWARD
        # A source of few elements is read from the cache, and then cached stores are as fast as non-temporal ones.
        and source_step in (Step.FORWARD, Step.BACKWARD)
        and b.size * draft.target_bytes >= _least_streamed(a, b)
        and writes_past_caches(problem, (a, *outer), b, whole)
    )
    apart = Step.STRIDED in (source_step, target_step)
    step_bytes = LANE_BYTES if apart else policy().relayout.step_bytes
    lanes = whole if streaming else power_of_two(min(b.size, step_bytes // max(draft.source_bytes, draft.target_bytes)))
    reads_ahead = streaming and reads_rows_apart(b, a)
    elements = elements_of(problem, draft, a, b)
    kernel = Rows(elements, len(outer), lanes, source_step, target_step, reads_ahead, streaming)
    extents = None
    if apart:
        rows, row = policy().relayout.strided_tile
        extents = rows, min(row, _WAYS * _WAY_BYTES // gcd(b.source or 1, _WAY_BYTES))
    return kernel_call(problem, kernel, draft, outer, (a, 1), (b, lanes), extents=extents)


def _least_streamed(rows: LoopAxis, row: LoopAxis) -> int:
    """Bytes of the shortest row that is written past the caches: a line, or more where source rows lie apart."""
    follows = abs(rows.source) == row.size * abs(row.source)
    return LINE_BYTES if follows else policy().relayout.streamed_row_bytes


def _rows_of_item(draft: LoopMatch, row: LoopAxis) -> tuple[LoopAxis, tuple[LoopAxis, ...]]:
    """The loop over an item's rows, and those around: the innermost one, or the next if that is much longer."""
    inner, outer = next_inner(draft, row)
    if inner.size < policy().relayout.least_rows and outer:
        *others, after = outer
        if after.size > 2 * inner.size and after.channels is None:
            return after, (*others, inner)
    return inner, outer


def _in_source_order(
    problem: RelayoutProblem, rows: LoopAxis, row: LoopAxis, outer: tuple[LoopAxis, ...]
) -> tuple[LoopAxis, tuple[LoopAxis, ...]]:
    """The loop over an item's rows, and those around: over rows that follow one another in the source, if that pays."""
    limits, nbytes = policy().relayout, row.size * row.source
    next_rows = [loop for loop in outer if loop.source == nbytes and loop.size >= limits.least_rows]
    if not next_rows or rows.source in {0, nbytes} or {rows.channels, next_rows[0].channels} != {None}:
        return rows, outer
    first = next_rows[0]
    in_ways = rows.source % _WAY_BYTES == 0 and first.target % _WAY_BYTES != 0
    if not in_ways and problem.bytes_moved < limits.cached_bytes:
        return rows, outer
    return first, (*(loop for loop in outer if loop is not first), rows)


def _row_apart(draft: LoopMatch) -> LoopAxis:
    """The row loop if no target loop is contiguous: the one with the smallest target stride."""
    return next((loop for loop in reversed(draft.loops) if loop.channels is None), ONCE)
