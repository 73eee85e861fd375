"""Rows: a target row in element order, from a source row of any stride. Also flat copies and the generic case.

    source  ... x x x x x x x x ...      one vector load, or one scalar load an element if the stride is not 1
                | | | | | | | |
    target  ... y y y y y y y y ...      one vector store, or one scalar store an element

Each element is read once and written once. `b` runs along the row, `a` over rows. A conversion of contiguous elements
is one pass; elements that lie apart are copied to or from a tile in the L1 cache around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto
from typing import ClassVar, Final

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.device_plan import Width
from stridedgpu.values.strides import power_of_two

from .calls import NativeFunction
from .elements import Constants, Elements
from .kernel_call import ONCE, KernelCall, KernelFacts, LoopAxis, LoopMatch
from .moves import Chain, chain_fields, conversion_moves, copy_move
from .pool import LoopCall
from .registers import LANE_BYTES, LINE_BYTES

_ROWS_AHEAD: Final = 2
"""Rows from the current row to the prefetched one, where rows lie apart. Without: 0.42 to 0.67."""

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
    """A kernel over rows of at least `lanes` elements.

    `reads_ahead`: source rows are prefetched, because they lie far apart. `streaming`: non-temporal stores.
    """

    elements: Elements
    lanes: int
    source_step: Step
    target_step: Step
    reads_ahead: bool = False
    streaming: bool = False
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

    @property
    def chain(self) -> Chain:
        """The moves of the kernel."""
        elements = self.elements
        if elements.itemsize:
            return Chain((copy_move(elements.itemsize),))
        repeats, turns = self.repeats, self.turns
        along = elements.constants == (Constants.A if repeats else Constants.B)
        moves, by_products = conversion_moves(
            elements.conversion, finite=elements.finite, products=elements.by_products, along=along
        )
        # Rows shorter than a step are converted many at once between two copies.
        is_short = self.lanes * max(elements.source_bytes, elements.target_bytes) < LINE_BYTES
        reads = (self.source_step is Step.FORWARD or turns) and not is_short
        writes = self.target_step is Step.FORWARD and not (repeats or turns or is_short)
        before = () if reads else (copy_move(elements.source_bytes),)
        behind = () if writes else (copy_move(elements.target_bytes),)
        return Chain((*before, *moves, *behind), by_products)

    @property
    def turns(self) -> bool:
        """Whether a reversed row is turned after its conversion, to elements that are not wider."""
        elements = self.elements
        narrows = elements.target_bytes <= elements.source_bytes and not elements.itemsize
        return self.source_step is Step.BACKWARD and narrows and elements.constants != Constants.B

    @property
    def repeats(self) -> bool:
        """Whether each row repeats one converted element."""
        elements = self.elements
        return self.source_step is Step.REPEATED and not elements.itemsize and elements.constants != Constants.B

    def loop(self, call: KernelCall, owner: object) -> LoopCall:
        """The loop of a call of this kernel; it keeps an `owner` of more memory alive."""
        ahead = call.inner[0].source * _ROWS_AHEAD if self.reads_ahead else 0
        place = self.elements.constants
        fields, kept = chain_fields(call, self.chain, place, repeats=self.repeats, turns=self.turns, ahead=ahead)
        offsets = call.source_offset, call.target_offset
        return LoopCall.of(NativeFunction.of("rows"), fields, call.items, offsets, (kept, owner))


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
    kernel = Rows(match.elements(a, b), lanes, source_step, target_step, reads_ahead, streaming)
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
