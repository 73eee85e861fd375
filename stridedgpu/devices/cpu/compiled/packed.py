"""Packed: rows shorter than a cache line that follow each other in the target, as those of patches of 14 x 14 pixels.

    source rows              staging, in the L1 cache      target
    a a a                    a a a b b b c c c d d d       whole cache lines, converted and written past the caches
    b b b              ->    a a a b b b c c c d d d  ->
    c c c  repeated

A pack is as many rows as make whole cache lines. Its rows are copied unconverted, a repeated row to each of its places,
while a later row is prefetched. The staged elements are then converted a cache line at a time: no store crosses a line,
and no line is read before it is written. The loops of a pack are constants of the kernel. So are its stretches of lines
that share their scales and biases: a line may have the elements of two channels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby, product
from typing import ClassVar, Final, NamedTuple

import numpy as np

from stridedgpu.devices.cpu.native.elements import Elements
from stridedgpu.devices.cpu.native.kernel_call import KernelCall, KernelFacts, LoopAxis, LoopMatch
from stridedgpu.devices.cpu.native.registers import LANE_BYTES, LINE_BYTES
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.device_plan import Width

from .blocks import pieces_of
from .ir import Code, Value, vector_type
from .work_grid import Grid

_MOST_COPIES: Final = 8
"""The most copies of a row by one loop, which the kernel unrolls."""

_MOST_STRETCHES: Final = 32
"""The most stretches of lines with the same constants, for each of which the kernel has a loop."""


class PackLoop(NamedTuple):
    """A loop of a pack around its rows: its size, its step in the pack in elements, and whether it repeats rows."""

    size: int
    step: int
    repeats: bool


@dataclass(frozen=True, slots=True)
class Packed:
    """A kernel over packs of rows of `row` elements; `loops` are the loops around a row, the outermost first.

    `lines` counts the cache lines of the target that have the same scales and biases, one such stretch after the other.
    The source strides of the loops that do not repeat are the parameters behind those of the `rank` outer loops.
    """

    elements: Elements
    rank: int
    row: int
    loops: tuple[PackLoop, ...]
    lines: tuple[int, ...]
    family: ClassVar[str] = "packed"
    streaming: ClassVar[bool] = True

    def facts(self, row: LoopAxis) -> KernelFacts:  # noqa: ARG002
        """What `explain` says of the kernel."""
        read = pieces_of(self.row, LANE_BYTES // self.elements.source_bytes)[0][1] * self.elements.source_bytes
        return KernelFacts(
            f"packs of {sum(self.lines)} cache lines, staged from rows of {self.row} elements",
            Width(read, f"rows have {self.row} elements"),
            Width(LINE_BYTES),
            (1, 1),
        )

    @property
    def lanes(self) -> int:
        """Elements of a cache line of the target."""
        return LINE_BYTES // self.elements.target_bytes

    def text(self, name: str) -> str:
        """The module."""
        code, loops = Code(), [loop for loop in self.loops if not loop.repeats]
        grid = Grid(code, self.elements, self.rank)
        strides = code.take(len(loops))
        staged = code.scratch(sum(self.lines) * self.lanes * self.elements.source_bytes)
        with grid.items(1, 1) as item, code.loop(*item.a) as a:
            row = grid.addresses(grid.a, a, item.source, item.target)
            with code.loop(*item.b) as b:
                source, target = grid.addresses(grid.b, b, *row)
                self._stage(source, staged, list(zip(loops, strides, strict=True)))
                for streaming in code.cases(code.is_aligned(target)):
                    self._convert(grid, staged, target, streaming=streaming)
        return code.text(name)

    def _stage(self, source: Value, staged: Value, loops: list[tuple[PackLoop, Value]]) -> None:
        """Copy the rows of a pack to all of their places."""
        if loops:
            (loop, stride), *inner = loops
            with source.code.loop(0, loop.size) as place:
                step = loop.step * self.elements.source_bytes
                self._stage(source + place * stride, staged + place * step, inner)
            return
        nbytes, type_ = self.elements.source_bytes, self.elements.source_type
        repeated = [range(0, loop.size * loop.step, loop.step) for loop in self.loops if loop.repeats]
        source.code.prefetch(source + 2 * LINE_BYTES)
        for first, count in pieces_of(self.row, LANE_BYTES // nbytes):
            piece = (source + first * nbytes).load(vector_type(count, type_))
            for places in product(*repeated):
                source.code.store(piece, staged + (sum(places) + first) * nbytes)

    def _convert(self, grid: Grid, staged: Value, target: Value, *, streaming: bool) -> None:
        """Convert the staged elements to the lines of the target."""
        code, lanes, elements, first = staged.code, self.lanes, self.elements, 0
        for stretch, count in enumerate(self.lines):
            affine = grid.affine(code.constant(stretch * lanes), lanes, along=True)
            with code.loop(first, first + count) as line:
                loaded = (staged + line * (lanes * elements.source_bytes)).load(
                    vector_type(lanes, elements.source_type)
                )
                code.store(elements.convert(loaded, affine), target + line * LINE_BYTES, streaming=streaming)
            first += count


def match_packed(match: LoopMatch) -> KernelCall | None:
    """The kernel of packs; None unless short rows of narrow elements are whole lines of a large target together."""
    limits, problem, nbytes, row = policy().relayout, match.problem, match.target_bytes, match.target_loop
    # On two threads, too: they took 0.70 of the time of rows at 23 MB and 0.61 at 37 MB.
    if problem.bytes_moved < limits.streamed_bytes or problem.filler or problem.conversion.is_bitwise_copy:
        return None
    if row is None or row.source != match.source_bytes:
        return None
    length = row.size * nbytes
    if length % LINE_BYTES == 0 or length >= limits.step_bytes or match.source_bytes >= nbytes:
        return None
    pack, count = [row], row.size
    while count * nbytes % LINE_BYTES or any(loop.constants for loop in match.besides(*pack)):
        reach = count * nbytes
        loop = next((loop for loop in match.besides(*pack) if loop.target == reach and not loop.channels), None)
        if loop is None:
            return None
        pack.append(loop)
        count *= loop.size
    if count * match.source_bytes > limits.staged_bytes or row.size > limits.short_side:
        return None
    loops = [
        PackLoop(axis.size, axis.target // nbytes, axis.source == 0 and axis.size <= _MOST_COPIES)
        for axis in pack[:0:-1]
    ]
    places = np.indices([loop.size for loop in pack[::-1]]).reshape(len(pack), count)
    order = sum(place * abs(loop.constants) for place, loop in zip(places[::-1], pack, strict=True))
    lines = [
        (line, len([*same])) for line, same in groupby(map(tuple, order.reshape(-1, LINE_BYTES // nbytes).tolist()))
    ]
    if len(lines) > _MOST_STRETCHES:
        return None
    b, _ = match.next_inner(*pack)
    a, outer = match.next_inner(*pack, b)
    kernel = Packed(match.elements(a, b), len(outer), row.size, tuple(loops), tuple(number for _, number in lines))
    wanted = max(1, limits.bytes_of_item(problem.bytes_moved) // (count * nbytes))
    call = match.call(kernel, outer, (a, 1), (b, 1), extents=(max(1, wanted // b.size), wanted))
    strides = tuple(axis.source for axis, loop in zip(pack[:0:-1], loops, strict=True) if not loop.repeats)
    return replace(call, more=strides, constants_order=tuple(place for line, _ in lines for place in line))
