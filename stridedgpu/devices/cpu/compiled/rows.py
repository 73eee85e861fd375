"""Rows: a target row in element order, from a source row of any stride. Also flat copies and the generic case.

    source  ... x x x x x x x x ...      one vector load, or one scalar load a lane if the stride is not 1
                | | | | | | | |
    target  ... y y y y y y y y ...      one vector store, or one scalar store a lane

A bitwise copy with scalar loads and scalar stores never assembles a vector. Each element is read once and written
once. `b` runs along the row, `a` over rows.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import ClassVar, Final

from stridedgpu.devices.cpu.native.elements import Constants, Elements
from stridedgpu.devices.cpu.native.kernel_call import ONCE, KernelCall, KernelFacts, LoopAxis, LoopMatch
from stridedgpu.devices.cpu.native.registers import LANE_BYTES, LINE_BYTES
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.device_plan import Width
from stridedgpu.values.strides import power_of_two

from .conversion import Affine
from .ir import Code, Value, vector_type
from .work_grid import Grid, Item

__all__ = ["Rows", "Step", "match_rows"]

_WAY_BYTES: Final = 4096
"""Addresses this many bytes apart map to one set of the L1 cache."""

_LEAST_ROWS: Final = 8
"""Rows from which on an item of them outweighs its start."""


class Step(StrEnum):
    """The stride of a row's elements."""

    FORWARD = auto()
    BACKWARD = auto()
    REPEATED = auto()
    STRIDED = auto()


@dataclass(frozen=True, slots=True)
class Rows:
    """A kernel over rows of at least `lanes` elements, which are `steps` vectors, or any number of them if that is 0.

    `reads_ahead`: source rows are prefetched, because they lie far apart. `streaming`: non-temporal stores.
    """

    elements: Elements
    rank: int
    lanes: int
    source_step: Step
    target_step: Step
    reads_ahead: bool = False
    streaming: bool = False
    steps: int = 0
    family: ClassVar[str] = "rows"

    def facts(self, row: LoopAxis) -> KernelFacts:
        """What `explain` says of the kernel."""
        is_short, lanes, elements = 2 * self.lanes > row.size, self.lanes, self.elements
        limit = f"rows have {row.size} elements" if is_short else "a step takes as many elements on both sides"
        reasons = {
            Step.STRIDED: "the row's elements lie apart",
            Step.REPEATED: "one element is repeated along each row",
        }
        read, written = (
            Width(nbytes if step in reasons else lanes * nbytes, reasons.get(step, limit))
            for step, nbytes in ((self.source_step, elements.source_bytes), (self.target_step, elements.target_bytes))
        )
        words = f"rows: {lanes} elements a step, read {self.source_step}, written {self.target_step}"
        return KernelFacts(words, read, written, (1, lanes))

    def text(self, name: str) -> str:
        """The module."""
        code, elements = Code(), self.elements
        grid = Grid(code, elements, self.rank)
        source_step = _stride(self.source_step, elements.source_bytes, grid.b.source)
        target_step = _stride(self.target_step, elements.target_bytes, grid.b.target)
        with grid.items(1, self.lanes) as item:
            fixed = grid.affine(item.place, self.lanes, along=False) if elements.constants == Constants.ITEM else None
            with code.loop(*item.a) as a:
                source, target = grid.addresses(grid.a, a, item.source, item.target)
                of_row = grid.affine(a, self.lanes, along=False) if elements.constants == Constants.A else fixed
                for place in self._places(grid, item, target):
                    with place as (b, may_stream):
                        affine = of_row or grid.affine(b, self.lanes, along=True)
                        read = source + b * source_step
                        if self.reads_ahead:
                            grid.prefetch_row(read, self.lanes * elements.source_bytes)
                        written = target + b * target_step
                        self._move(code, (read, source_step), (written, target_step), affine, may_stream)
        return code.text(name)

    def _places(
        self, grid: Grid, item: Item, target: Value
    ) -> list[AbstractContextManager[tuple[Value, Value | None]]]:
        """The vectors of a row, one by one or as a loop: each place, and the condition for a non-temporal store."""
        first, end = item.b
        if self.steps:
            return [nullcontext((place, None)) for place in (first, end - self.lanes)[: self.steps]]
        start = target if self.streaming else None
        return [grid.places(item.b, self.lanes, start, self.elements.target_bytes)]

    def _move(
        self,
        code: Code,
        source: tuple[Value, Value],
        target: tuple[Value, Value],
        affine: Affine,
        may_stream: Value | None,
    ) -> None:
        """One step along a row; `source` and `target` are each an address and the stride in bytes."""
        if self.elements.itemsize and self.source_step is self.target_step is Step.STRIDED:
            (read, source_step), (written, target_step) = source, target
            type_, lanes = self.elements.source_type, range(self.lanes)
            values = [(read + source_step * lane).load(type_) for lane in lanes]
            for value, lane in zip(values, lanes, strict=True):
                code.store(value, written + target_step * lane)
            return
        vector = self.elements.convert(self._load(*source), affine)
        self._store(vector, *target, may_stream)

    def _load(self, address: Value, stride: Value) -> Value:
        type_, nbytes = self.elements.source_type, self.elements.source_bytes
        if self.source_step is Step.FORWARD:
            vector = address.code.load_in_order(vector_type(self.lanes, type_), address)
            address.code.barrier()  # all loads of a step first: fewer wait for stores at the same place of another page
            return vector
        if self.source_step is Step.REPEATED:
            return address.load(type_).splat(self.lanes)
        if self.source_step is Step.BACKWARD:
            lowest = address + -nbytes * (self.lanes - 1)
            vector = lowest.load(vector_type(self.lanes, type_))
            return vector.shuffle(range(self.lanes)[::-1])
        elements = (element.load(type_) for element in address.strided(stride, self.lanes))
        return address.code.vector(vector_type(self.lanes, type_), elements)

    def _store(self, vector: Value, address: Value, stride: Value, may_stream: Value | None) -> None:
        if self.target_step is Step.FORWARD:
            vector.code.store_all([(vector, address)], may_stream)
            return
        for lane, element in enumerate(address.strided(stride, self.lanes)):
            vector.code.store(vector.extract(lane), element)


def _stride(step: Step, nbytes: int, stride: Value) -> Value:
    """The stride in bytes: a compile-time constant unless the step is strided."""
    known = {Step.FORWARD: nbytes, Step.BACKWARD: -nbytes, Step.REPEATED: 0}.get(step)
    return stride if known is None else stride.like(known)


def match_rows(match: LoopMatch) -> KernelCall:
    """A kernel of rows, for any strides."""
    b = match.target_loop or next((loop for loop in reversed(match.loops) if loop.channels is None), ONCE)
    # If a row's elements are strided, the source elements between them belong to other rows.
    others = [loop for loop in match.besides(b) if loop.source and loop.channels is None]
    near = min(others, key=lambda loop: abs(loop.source), default=b)
    if abs(near.source) < abs(b.source):
        a, outer = near, match.besides(near, b)
    else:
        a, outer = match.next_inner(b)
        if b.source == match.source_bytes and b.target == match.target_bytes:
            a, outer = _in_source_order(match, a, b, outer)
    steps = {match.source_bytes: Step.FORWARD, -match.source_bytes: Step.BACKWARD, 0: Step.REPEATED}
    source_step = steps.get(b.source, Step.STRIDED)
    target_step = Step.FORWARD if b.target == match.target_bytes else Step.STRIDED
    whole, limits = LINE_BYTES // match.target_bytes, policy().relayout
    streaming = (
        target_step is Step.FORWARD
        and source_step is not Step.STRIDED
        and b.size >= whole
        and match.streams((a, *outer), b, whole)
    )
    strided = Step.STRIDED in (source_step, target_step)
    step_bytes = LANE_BYTES if strided else limits.step_bytes
    lanes = whole if streaming else power_of_two(min(b.size, step_bytes // max(match.source_bytes, match.target_bytes)))
    reads_ahead = streaming and 0 < b.size * abs(b.source) < abs(a.source)
    count = 0 if streaming or strided or b.size > 2 * lanes else -(-b.size // lanes)
    kernel = Rows(match.elements(a, b), len(outer), lanes, source_step, target_step, reads_ahead, streaming, count)
    return match.call(kernel, outer, (a, 1), (b, lanes))


def _in_source_order(
    match: LoopMatch, rows: LoopAxis, row: LoopAxis, outer: tuple[LoopAxis, ...]
) -> tuple[LoopAxis, tuple[LoopAxis, ...]]:
    """The loop over an item's rows, and those around: over rows that follow one another in the source, if that pays."""
    nbytes = row.size * row.source
    first = next((loop for loop in outer if loop.source == nbytes and loop.size >= _LEAST_ROWS), None)
    if first is None or rows.source in {0, nbytes} or {rows.channels, first.channels} != {None}:
        return rows, outer
    in_ways = rows.source % _WAY_BYTES == 0 and first.target % _WAY_BYTES != 0
    if not in_ways and match.problem.bytes_moved < policy().relayout.cached_bytes:
        return rows, outer
    return first, (*(loop for loop in outer if loop is not first), rows)
