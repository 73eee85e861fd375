"""Packed: rows shorter than a cache line that follow each other in the target, as those of patches of 14 x 14 pixels.

    source rows              staging, in the L1 cache      target
    a a a                    a a a b b b c c c d d d       whole cache lines, converted and written past the caches
    b b b              ->    a a a b b b c c c d d d  ->
    c c c  repeated

A pack is as many rows as make whole cache lines. Its rows are copied unconverted, a repeated row to each of its places,
while a later row is prefetched. The staged elements are then converted as one row: no store crosses a line, and no line
is read before it is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.device_plan import Width

from .calls import NativeFunction, native_function
from .elements import Elements
from .kernel_call import KernelCall, KernelFacts, LoopAxis, LoopMatch
from .moves import MOST_LANES, NO_CONSTANTS, TILE_BYTES, Arithmetic, Move, conversion_moves
from .pool import LoopCall
from .registers import LANE_BYTES, LINE_BYTES


@dataclass(frozen=True, slots=True)
class Packed:
    """A kernel over packs of rows of `row` elements, which are so many cache lines of the target.

    The parameters of a call are the bytes from a pack to each of its rows, and the number of each element's constants.
    """

    elements: Elements
    row: int
    lines: int
    family: ClassVar[str] = "packed"
    streaming: ClassVar[bool] = True

    def facts(self, row: LoopAxis) -> KernelFacts:  # noqa: ARG002
        """What `explain` says of the kernel."""
        nbytes = self.row * self.elements.source_bytes
        return KernelFacts(
            f"packs of {self.lines} cache lines, staged from rows of {self.row} elements",
            Width(min(1 << nbytes.bit_length() - 1, 2 * LANE_BYTES), f"rows have {self.row} elements"),
            Width(LINE_BYTES),
            (1, 1),
        )

    def loop(self, call: KernelCall, owner: object) -> LoopCall:
        """The loop of a call of this kernel."""
        return packed_loop(call, owner)


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
    if count * match.source_bytes > TILE_BYTES or row.size > limits.short_side:
        return None
    b, _ = match.next_inner(*pack)
    a, outer = match.next_inner(*pack, b)
    kernel = Packed(match.elements(a, b), row.size, count * nbytes // LINE_BYTES)
    order = _places((loop.size, abs(loop.constants)) for loop in pack)
    if _move_of(kernel, order) is None:
        return None
    wanted = max(1, limits.bytes_of_item(problem.bytes_moved) // (count * nbytes))
    call = match.call(kernel, outer, (a, 1), (b, 1), extents=(max(1, wanted // b.size), wanted))
    return replace(call, more=_places((loop.size, loop.source) for loop in pack[1:]), constants_order=order)


def _places(loops: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Where each iteration of some loops lies, by their sizes and strides, of which the first are the innermost."""
    axes = [np.arange(size, dtype=np.int64) * stride for size, stride in loops]
    places: NDArray[np.int64] = reduce(np.add.outer, axes[::-1], np.zeros((), np.int64))
    return tuple(places.ravel().tolist())


def _move_of(kernel: Packed, order: tuple[int, ...]) -> tuple[Move, bool] | None:
    """The move that converts a pack, and whether divisions are products; None if it is no one move."""
    elements = kernel.elements
    moves, by_products = conversion_moves(
        elements.conversion, finite=elements.finite, products=elements.by_products, along=len({*order}) > 1
    )
    return (moves[0], by_products) if len(moves) == 1 else None


def packed_loop(call: KernelCall, owner: object) -> LoopCall:
    """The loop of a call of a kernel of packs; it keeps an `owner` of more memory alive."""
    kernel: Packed = call.kernel  # type: ignore[assignment]
    found = _move_of(kernel, call.constants_order)
    assert found is not None, "from match_packed"
    move, by_products = found
    arithmetic, order = Arithmetic.of(call, by_products=by_products), list(call.constants_order)
    offsets = np.array(call.more, np.int64)
    # A step may read behind the last.
    constants: Any = [np.pad(values[order], (0, MOST_LANES)) for values in arithmetic.values] or NO_CONSTANTS
    inner, outer, tables = call.grid()
    fields = [
        *arithmetic.unit_words,
        native_function(move.family, move.place),
        kernel.row * kernel.elements.source_bytes,
        len(offsets),
        len(order),
        offsets.ctypes.data,
        *(values.ctypes.data for values in constants),
        *inner,
        len(call.outer),
        *outer,
    ]
    loop = NativeFunction.of("packed")
    places = call.source_offset, call.target_offset
    return LoopCall.of(loop, fields, call.items, places, (offsets, constants, tables, owner))
