"""Match a relayout's loops to a kernel of rows: which loop is the row, its step, and how it is stored."""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Final

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.relayout_problem import Problem

from .ir import LINE_BYTES
from .relayout_walk import (
    ONCE,
    Draft,
    Loop,
    Walk,
    elements_of,
    make_walk,
    next_inner,
    power_of_two,
    reads_rows_apart,
    writes_past_caches,
)
from .rows import Rows, Step
from .transpose import LANE_BYTES
from .unrolled_rows import UnrolledRows

__all__ = ["rows_of"]

_WAY_BYTES: Final = 4096
"""Addresses this many bytes apart map to one set of the L1 cache, which has `_WAYS` lines."""

_WAYS: Final = 8


def rows_of(problem: Problem, draft: Draft) -> Walk:
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
        and b.size >= whole
        and b.size * draft.target_bytes >= _least_streamed(a, b)
        and writes_past_caches(problem, (a, *outer), b, whole)
    )
    as_it_lies = source_step is target_step is Step.FORWARD and problem.conversion.is_bitwise_copy
    if as_it_lies and not streaming and b.size * b.target in policy().relayout.unrolled_bytes:
        return _unrolled(problem, draft, a, b, outer)
    apart = Step.STRIDED in (source_step, target_step)
    aligned = False
    if streaming:
        lanes = whole
    elif apart:
        lanes = _lanes_apart(problem, draft, b, both=source_step is target_step)
    else:
        lanes, aligned = _lanes_of_row(problem, draft, b.size)
    reads_ahead = streaming and reads_rows_apart(problem, b, a)
    writes_ahead = not streaming and target_step is Step.FORWARD and _writes_lines_ahead(problem, a, b)
    elements = elements_of(problem, draft, a, b)
    kernel = Rows(elements, len(outer), lanes, source_step, target_step, reads_ahead, writes_ahead, streaming, aligned)
    extents = None
    if apart:
        rows, row = policy().relayout.strided_tile
        extents = rows, min(row, _WAYS * _WAY_BYTES // gcd(b.source or 1, _WAY_BYTES))
    return make_walk(problem, kernel, draft, outer, (a, 1), (b, lanes), extents=extents)


def _least_streamed(rows: Loop, row: Loop) -> int:
    """Bytes of the shortest row that is written past the caches."""
    limits = policy().relayout
    follows = abs(rows.source) == row.size * abs(row.source)
    return limits.streamed_short_row_bytes if follows else limits.streamed_row_bytes


def _unrolled(problem: Problem, draft: Draft, a: Loop, b: Loop, outer: tuple[Loop, ...]) -> Walk:
    """The kernel of rows in straight code: the elements are bytes, so that one kernel serves all types."""
    in_bytes = replace(draft, source_bytes=1, target_bytes=1)
    row = replace(b, size=b.size * b.target, source=1, target=1)
    rows = max(1, policy().relayout.bytes_of_item(problem.bytes_moved) // (2 * row.size))
    pair, outer = _pair(a, row, outer)
    elements, lines = elements_of(problem, in_bytes, a, row), -(-row.size // LINE_BYTES)
    kernel = UnrolledRows(elements, len(outer), lines, beside=1 if pair is None else pair.size)
    return make_walk(problem, kernel, in_bytes, outer, (a, 1), (row, LINE_BYTES), pair, extents=(rows, row.size))


def _pair(rows: Loop, row: Loop, outer: tuple[Loop, ...]) -> tuple[Loop | None, tuple[Loop, ...]]:
    """Two rows that follow one another in the source, as a loop taken out of those around `rows`, and what is left."""
    if rows.source == row.size or row.size > policy().relayout.paired_row_bytes:
        return None, outer
    for place, loop in enumerate(outer):
        if loop.source == row.size and loop.size % 2 == 0 and loop.channels is None:
            left = replace(loop, size=loop.size // 2, source=2 * loop.source, target=2 * loop.target)
            return replace(loop, size=2), (*outer[:place], left, *outer[place + 1 :])
    return None, outer


def _rows_of_item(draft: Draft, row: Loop) -> tuple[Loop, tuple[Loop, ...]]:
    """The loop over an item's rows, and those around: the innermost one, or the next if that is much longer."""
    inner, outer = next_inner(draft, row)
    if inner.size < policy().relayout.least_rows and outer:
        *others, after = outer
        if after.size > 2 * inner.size and after.channels is None:
            return after, (*others, inner)
    return inner, outer


def _in_source_order(problem: Problem, rows: Loop, row: Loop, outer: tuple[Loop, ...]) -> tuple[Loop, tuple[Loop, ...]]:
    """The loop over an item's rows, and those around: over rows that follow one another in the source, if that pays."""
    limits, nbytes = policy().relayout, row.size * row.source
    next_rows = [loop for loop in outer if loop.source == nbytes and loop.size >= limits.least_rows]
    if not next_rows or rows.source in {0, nbytes} or {rows.channels, next_rows[0].channels} != {None}:
        return rows, outer
    first = next_rows[0]
    in_ways = rows.source % _WAY_BYTES == 0 and first.target % _WAY_BYTES != 0
    if problem.bytes_moved < (limits.ordered_ways_bytes if in_ways else limits.ordered_bytes):
        return rows, outer
    return first, (*(loop for loop in outer if loop is not first), rows)


def _writes_lines_ahead(problem: Problem, rows: Loop, row: Loop) -> bool:
    """Whether the lines ahead of a step are written soon, and are not in a core's cache."""
    limits, nbytes = policy().relayout, row.size * row.target
    dense = rows.target == nbytes or nbytes >= limits.long_steps_bytes
    return dense and problem.bytes_moved >= limits.prefetched_targets_bytes


def _row_apart(draft: Draft) -> Loop:
    """The row loop if no target loop is contiguous: the one with the smallest target stride, unless it is short."""
    free = [loop for loop in draft.loops if loop.channels is None]
    longest = max(free, key=lambda loop: loop.size, default=ONCE)
    return next((loop for loop in reversed(free) if loop.size >= policy().relayout.least_row), longest)


def _lanes_apart(problem: Problem, draft: Draft, b: Loop, *, both: bool) -> int:
    """Elements of one step along a row whose elements lie apart on one side, or on `both`."""
    widest = max(draft.source_bytes, draft.target_bytes)
    scalars = both and problem.conversion.is_bitwise_copy
    step_bytes = policy().relayout.scalars * widest if scalars else LANE_BYTES
    return power_of_two(min(b.size, step_bytes // widest))


def _lanes_of_row(problem: Problem, draft: Draft, size: int) -> tuple[int, bool]:
    """Elements of one step along a row that is written by cached stores, and whether its stores are aligned."""
    limits, widest, nbytes = policy().relayout, max(draft.source_bytes, draft.target_bytes), size * draft.target_bytes
    step_bytes, aligned = limits.step_bytes, nbytes >= limits.aligned_row_bytes
    if draft.target_bytes < draft.source_bytes:
        step_bytes = limits.narrowing_step_bytes
    if nbytes < limits.long_steps_bytes:
        in_lines = nbytes % LINE_BYTES == 0 and nbytes < limits.whole_lines_bytes
        aligned = aligned and not in_lines
        # Two lines at once where that is a row of whole steps; else one of the target, or half a one of a short row.
        line = LINE_BYTES // draft.target_bytes * widest
        if not in_lines or nbytes % step_bytes:
            step_bytes = min(line, step_bytes)
        if problem.conversion.is_bitwise_copy and not aligned and not in_lines:
            step_bytes, aligned = line // 2, nbytes > LINE_BYTES and nbytes % (LINE_BYTES // 2) != 0
    return power_of_two(min(size, step_bytes // widest)), aligned
