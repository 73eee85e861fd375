"""Shared parts of all compiled kernels: parameters, the iteration over work items, and an element's constants.

A kernel's work is a grid of items: every place of the outer loops, times blocks of two inner loops, `a` around `b`.
Sizes and strides are parameters, so one kernel serves all tensors with the same kind of loops. Loops step by whole
vectors. The last step is moved back to end with the loop: it repeats some elements and makes a scalar tail unnecessary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from stridedgpu.devices.cpu.native.elements import Elements
from stridedgpu.devices.cpu.native.registers import LINE_BYTES
from stridedgpu.devices.cpu.policy import policy

from .conversion import Affine, storage_type
from .ir import Code, Value, vector_type


@dataclass(frozen=True, slots=True)
class Axis:
    """An inner loop's parameters."""

    size: Value
    source: Value
    target: Value
    block: Value
    blocks: Value


@dataclass(frozen=True, slots=True)
class Item:
    """One work item: its first address on both sides, its place in the constants, and its blocks."""

    source: Value
    target: Value
    place: Value
    a: tuple[Value, Value]
    b: tuple[Value, Value]


@contextmanager
def _places_of_items(code: Code, counts: Sequence[Value]) -> Iterator[list[Value]]:
    """Every item from `first` to `last` as its place in each of some loops, the innermost first.

    Only the first item's number is divided; afterwards the places are incremented like an odometer, on the stack.
    """
    dials = [code.scratch(8) for _ in counts]
    rest = code.first
    for dial, count in zip(dials, counts, strict=True):
        code.store(rest % count, dial, 8)
        rest = rest // count
    with code.loop(code.first, code.last), ExitStack() as carries:
        places = [dial.load("i64", 8) for dial in dials]
        yield places
        for dial, place, count in zip(dials, places, counts, strict=True):
            after = place + 1
            wraps = after == count
            code.store(wraps.select(0, after), dial, 8)
            carries.enter_context(code.when(wraps))


@contextmanager
def items_of(
    code: Code, blocks: Sequence[Value], loops: Sequence[Sequence[Value]], sides: Sequence[Value]
) -> Iterator[tuple[list[Value], list[Value]]]:
    """Every item from `first` to `last`: its places in some numbers of `blocks`, and where its sides begin.

    Each of `loops`, the innermost first, has a size, and strides of the `sides`: addresses, or places in something.
    """
    with _places_of_items(code, [*blocks, *(size for size, *_ in loops)]) as places:
        moved = list(sides)
        for place, (_, *strides) in zip(places[len(blocks) :], loops, strict=True):
            moved = [side + place * stride for side, stride in zip(moved, strides, strict=True)]
        yield places[: len(blocks)], moved


class Grid:
    """The work items of a kernel with `rank` outer loops.

    Its parameters are the addresses of scale, bias and lower factors; for each of `a` and `b` the size, the source and
    target stride, the block and the number of blocks; the small axis' source and target stride; then for each outer
    loop, innermost first, the size, the source, target and constants' stride, and a table of source offsets or 0.
    """

    def __init__(self, code: Code, elements: Elements, rank: int) -> None:
        self._code, self._elements = code, elements
        scale, bias = elements.conversion.scale, elements.conversion.bias
        arithmetic = scale, bias, scale if elements.by_products else None
        self._addresses = [
            None if values is None else address.pointer()
            for values, address in zip(arithmetic, code.take(3), strict=True)
        ]
        self.a, self.b = Axis(*code.take(5)), Axis(*code.take(5))
        self.small_source, self.small_target = code.take(2)
        self._outer = [code.take(5) for _ in range(rank)]

    @contextmanager
    def items(self, a_step: int, b_step: int) -> Iterator[Item]:
        """Every item from `first` to `last`. A block shorter than a step is moved back to the length of one step."""
        code = self._code
        counts = [self.b.blocks, self.a.blocks, *(size for size, *_ in self._outer)]
        with _places_of_items(code, counts) as (b_place, a_place, *places):
            b, a = self._block(b_place, self.b, b_step), self._block(a_place, self.a, a_step)
            source, target, place = code.source, code.target, code.constant(0)
            for index, (_, source_stride, target_stride, constants_stride, table) in zip(
                places, self._outer, strict=True
            ):
                target = target + index * target_stride
                place = place + index * constants_stride
                # Without a table, the load reads the first outer parameter, and its value is ignored.
                absent = table == 0
                entry = absent.select(0, index * 8)
                base = absent.select(code.parameters, table.pointer())
                offset = (base + entry).load("i64", 8)
                offset = absent.select(index * source_stride, offset)
                source = source + offset
            yield Item(source, target, place, a, b)

    def addresses(self, axis: Axis, place: Value, source: Value, target: Value) -> tuple[Value, Value]:
        """The addresses on both sides at a place of an axis."""
        return source + place * axis.source, target + place * axis.target

    def affine(self, place: Value, lanes: int, *, along: bool) -> Affine:
        """Scale and bias of `lanes` elements: from `place` on if `along`, else that of `place` in all lanes."""
        compute = self._elements.conversion.compute
        type_ = storage_type(compute)

        def constant_of(address: Value | None) -> Value | None:
            if address is None:
                return None
            at = address + place * compute.itemsize
            if along:
                return at.load(vector_type(lanes, type_), compute.itemsize)
            return at.load(type_, compute.itemsize).splat(lanes)

        return Affine(*map(constant_of, self._addresses))

    def prefetch_row(self, address: Value, nbytes: int) -> None:
        """Prefetch bytes of a later source row at the same column, out of reach of hardware prefetchers."""
        code = self._code
        ahead = address + self.a.source * policy().relayout.rows_ahead
        for line in range(0, nbytes, LINE_BYTES):
            code.prefetch(ahead + line)

    def _block(self, place: Value, axis: Axis, step: int) -> tuple[Value, Value]:
        code = self._code
        index, end = code.block(place, axis.block, axis.size)
        return index.at_most(axis.size - step), end

    @contextmanager
    def places(
        self, block: tuple[Value, Value], step: int, start: Value | None, nbytes: int
    ) -> Iterator[tuple[Value, Value | None]]:
        """The places of a block's vectors, each with a condition for a non-temporal store (None: never).

        `start` is the address of the target's first element, `nbytes` the distance to the next. Vectors of a power of
        two bytes are aligned to cache lines where possible, except the first and the last. A non-temporal store is
        allowed if no other vector of the block writes to the same lines; otherwise they would be read again.
        """
        if start is None:
            with self._code.steps(*block, step) as place:
                yield place, None
            return
        code = self._code
        begin, end = block
        latest = end - step
        until_line = -start.bits() & (LINE_BYTES - 1)
        # If `nbytes` is odd * 2**shift, the inverse of the odd factor modulo a line gives the first aligned element.
        shift = (nbytes & -nbytes).bit_length() - 1
        lead = (until_line >> shift) * pow(nbytes >> shift, -1, LINE_BYTES)
        lowest = begin - ((begin - lead) & (step - 1))
        rest = (end - lowest) & (step - 1)
        first = (lowest < begin).select(begin + step, begin)
        last = (rest == 0).select(latest, latest - step)
        with code.loop(lowest, end, step) as place:
            ended = place.at_most(latest)
            within = ended.at_least(begin)
            yield within, (within >= first) & (within <= last)
