"""The kernel that gathers single elements: `take` of elements and `take_along_axis`, with vectors of indices.

    indices    7 0 3 9 3 ...      as many as fill a cache line of elements, at any place of a row
                    |             resolved to offsets in 32 bits, and added to the offsets of their rows
    indexed    x . . x . . x .    one hardware gather a vector, or a load for each offset
    dense      x x x x x ...      one vector store, or a store for each element

Indices and dense elements are contiguous across rows, so short rows share vectors. `width` is the elements of a row.
For each lane, the column and the row's offset stay in registers and are incremented from vector to vector. An element
of 1 or 2 bytes is the low or the high part of 4 gathered bytes. At the end of the memory these 4 bytes begin before the
element. A remainder of less than a vector is moved element by element.

A hardware gather takes Intel's Xeon about as long as single loads, and AMD's Zen twice as long: there the offsets of 64
elements go through the stack, and each element is loaded by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from stridedgpu.devices.cpu.policy import policy

from .gather_indices import IndexKind, resolved
from .ir import LINE_BYTES, Code, Value, constant, vector_type
from .work_grid import places_of_items

__all__ = ["GatherElements"]

_INDEX, _TOTAL, _WIDTH, _ALONG, _ROW, _SIZE, _STRIDE, _LAST, _BLOCK, _BLOCKS = range(10)
_OUTER_PLACE: Final = 10
"""Parameters before the outer loops: the address of the indices; elements in all and in a row; offsets in bytes from
one element of a row to the next and from one row to the next; the indexed axis' size, and its stride in bytes; the
offset of the last 4 bytes of memory; elements of a block, and the number of blocks. Then the size, and the strides in
bytes on the dense, the indexed and the index side, of each outer loop, innermost first."""

_OUTER_FIELDS: Final = 4

_GATHERED_BYTES: Final = 4
"""Bytes of the smallest hardware gather."""

_OFFSET_BYTES: Final = 4

_LOADED: Final = 64
"""Elements whose offsets are worked out in vectors before each is loaded by itself."""


@dataclass(frozen=True, slots=True)
class GatherElements:
    """A kernel over runs of `run` bytes, at offsets of 32 bits, with `rank` outer loops.

    With `adjacent`, the indexed axis is contiguous. With `hardware`, elements are gathered by one instruction a vector,
    and with `streaming`, too, aligned lines of them are written by non-temporal stores.
    """

    index: IndexKind
    rank: int
    run: int
    adjacent: bool
    streaming: bool
    hardware: bool

    @property
    def lanes(self) -> int:
        """Elements of a step: those of a cache line, or as many as have their offsets on the stack."""
        return LINE_BYTES // self.run if self.hardware else _LOADED

    @property
    def store_bytes(self) -> int:
        """Bytes of one store."""
        return LINE_BYTES if self.hardware else self.run

    def text(self, name: str) -> str:
        """The LLVM module."""
        code, lanes = Code(), self.lanes
        index, total, width, along, row, size, stride, last, block, blocks = (
            code.parameter(place) for place in range(_OUTER_PLACE)
        )
        outer = [
            [code.parameter(_OUTER_PLACE + _OUTER_FIELDS * loop + field) for field in range(_OUTER_FIELDS)]
            for loop in range(self.rank)
        ]
        steps = _Steps(code, lanes, width, along, row)
        stack = code.scratch(_OFFSET_BYTES * lanes)
        with places_of_items(code, [blocks, *(count for count, *_ in outer)]) as (number, *places):
            dense, indexed, indices = code.target, code.source, code.pointer(index)
            left = last
            for place, (_, *strides) in zip(places, outer, strict=True):
                moved = [code.multiply(place, step) for step in strides]
                dense, indexed, indices = (
                    code.at(base, step) for base, step in zip((dense, indexed, indices), moved, strict=True)
                )
                left = code.binary("sub", left, moved[1])
            axis = _Axis(*(code.cast("trunc", value, "i32") for value in (size, stride, left)))
            start = code.multiply(number, block)
            end = code.smaller(code.add(start, block), total)
            whole = code.add(start, code.binary("and", code.binary("sub", end, start), -lanes))
            apart = code.is_aligned(code.at(dense, code.multiply(start, self.run))) if self.streaming else None
            with steps.over(start, whole) as (at, base):
                first = code.at(indices, code.multiply(at, self.index.nbytes))
                if not self.hardware:
                    # Indices are read in bursts, which defeats the hardware prefetcher.
                    for line in range(0, lanes * self.index.nbytes, LINE_BYTES):
                        code.prefetch(code.at(first, policy().gather.index_ahead_bytes + line))
                found = code.load(vector_type(lanes, self._index_type), first, 1)
                offsets, written = self._offsets(code, found, base, axis), code.at(dense, code.multiply(at, self.run))
                if self.hardware:
                    code.store_all([(self._gathered(code, indexed, offsets, axis), written)], apart)
                else:
                    self._load_each(code, indexed, offsets, written, stack, apart)
            with steps.one_by_one(whole, end) as (at, base):
                found = code.load(self._index_type, code.at(indices, code.multiply(at, self.index.nbytes)), 1)
                offset = code.cast("sext", self._offsets(code, found, base, axis), "i64")
                element = code.load(f"i{8 * self.run}", code.at(indexed, offset), 1)
                code.store(element, code.at(dense, code.multiply(at, self.run)), 1)
        return code.text(name)

    @property
    def _index_type(self) -> str:
        return f"i{8 * self.index.nbytes}"

    def _offsets(self, code: Code, numbers: Value, base: Value, axis: _Axis) -> Value:
        """The offsets of the elements that one index or a vector of indices selects, relative to their row."""

        def spread(value: Value) -> Value:
            return value if not numbers.type.startswith("<") else code.splat(value, numbers.lanes)

        places = resolved(code, self.index, numbers, spread(_resized(code, axis.size, self.index.nbytes)))
        places = _resized(code, places, _OFFSET_BYTES)
        if self.adjacent:
            return code.add(base, code.binary("mul", places, self.run))
        return code.add(base, code.binary("mul", places, spread(axis.stride)))

    def _load_each(
        self, code: Code, indexed: Value, offsets: Value, written: Value, stack: Value, apart: Value | None
    ) -> None:
        """Load the elements at a vector of offsets one by one, by the stack's copy of these, and store them."""
        code.store(offsets, stack, LINE_BYTES)

        def move(*, streaming: bool) -> None:
            for lane in range(self.lanes):
                offset = code.load("i32", code.at(stack, _OFFSET_BYTES * lane), _OFFSET_BYTES)
                element = code.load(f"i{8 * self.run}", code.at(indexed, code.cast("sext", offset, "i64")), 1)
                place = code.at(written, self.run * lane)
                code.store(element, place, self.run if streaming else 1, streaming=streaming)

        if apart is None:
            move(streaming=False)
            return
        with code.when(apart):
            move(streaming=True)
        with code.when(code.negated(apart)):
            move(streaming=False)

    def _gathered(self, code: Code, indexed: Value, offsets: Value, axis: _Axis) -> Value:
        """The elements at a vector of offsets."""
        lanes, word = self.lanes, max(self.run, _GATHERED_BYTES)
        starts = offsets
        if self.run < word:
            latest = code.splat(axis.last, lanes)
            starts = code.select(code.compare("icmp slt", offsets, latest), offsets, latest)
        type_, pointers = vector_type(lanes, f"i{8 * word}"), vector_type(lanes, "ptr")
        at = code.value(pointers, f"getelementptr i8, ptr {indexed.name}, {starts.type} {starts.name}")
        every = code.full(vector_type(lanes, "i1"), "true")
        none = Value(type_, "zeroinitializer")
        name = f"llvm.masked.gather.v{lanes}i{8 * word}.v{lanes}p0"
        found = code.call(name, type_, at, Value("i32", "1"), every, none)
        if self.run == word:
            return found
        bits = code.binary("mul", code.binary("sub", offsets, starts), 8)
        return code.cast("trunc", code.binary("lshr", found, bits), f"i{8 * self.run}")


def _resized(code: Code, number: Value, nbytes: int) -> Value:
    """A number, or a vector of them, without a sign in so many bytes."""
    given = int((number.element if number.type.startswith("<") else number.type)[1:])
    if given == 8 * nbytes:
        return number
    return code.cast("zext" if given < 8 * nbytes else "trunc", number, f"i{8 * nbytes}")


@dataclass(frozen=True, slots=True)
class _Axis:
    """The indexed axis in 32 bits: its size, its stride, and the distance to the last 4 bytes of memory."""

    size: Value
    stride: Value
    last: Value


class _Steps:
    """The positions of vectors in rows: a step of `lanes` elements is some whole rows and a remainder."""

    def __init__(self, code: Code, lanes: int, width: Value, along: Value, row: Value) -> None:
        """Compute one step, outside all loops."""
        self._code, self._lanes = code, lanes
        self._width, self._along, self._row = width, along, row
        self._columns, self._bases = (code.scratch(4 * lanes) for _ in range(2))
        rows = code.binary("udiv", constant(lanes), width)
        rest = code.binary("sub", constant(lanes), code.multiply(rows, width))
        back = code.binary("sub", row, code.multiply(width, along))
        onward = code.add(code.multiply(rows, row), code.multiply(rest, along))
        self._vectors = [code.splat(code.cast("trunc", value, "i32"), lanes) for value in (width, rest, onward, back)]
        self._short = [code.cast("trunc", value, "i32") for value in (width, along, back)]

    @contextmanager
    def one_by_one(self, start: Value, stop: Value) -> Iterator[tuple[Value, Value]]:
        """Every position from `start` to `stop`, and the offset of its element in 32 bits."""
        count = self._code.binary("sub", stop, start)
        with self._following(start, count) as (number, _, base):
            yield self._code.add(start, number), base

    @contextmanager
    def _following(self, start: Value, count: Value) -> Iterator[tuple[Value, Value, Value]]:
        """Numbers below `count`; each position's column, and the offset of its place in the row, in 32 bits."""
        code = self._code
        width, along, back = self._short
        row = code.binary("udiv", start, self._width)
        column = code.binary("sub", start, code.multiply(row, self._width))
        base = code.add(code.multiply(row, self._row), code.multiply(column, self._along))
        with code.fold(count, [code.cast("trunc", value, "i32") for value in (column, base)]) as (number, carried):
            column, base = carried
            yield number, column, base
            column, base = code.add(column, 1), code.add(base, along)
            wraps = code.compare("icmp uge", column, width)
            carried[0] = code.select(wraps, code.full("i32", 0), column)
            carried[1] = code.select(wraps, code.add(base, back), base)

    @contextmanager
    def over(self, start: Value, stop: Value) -> Iterator[tuple[Value, Value]]:
        """The first position of every vector from `start` to `stop`, and the offsets of its elements."""
        code, lanes = self._code, self._lanes
        width, rest, onward, back = self._vectors
        columns, bases = self._columns, self._bases
        with self._following(start, constant(lanes)) as (lane, column, base):
            at = code.multiply(lane, 4)
            code.store(column, code.at(columns, at), 4)
            code.store(base, code.at(bases, at), 4)
        type_ = vector_type(lanes, "i32")
        initial = [code.load(type_, place, 4) for place in (columns, bases)]
        count = code.binary("udiv", code.binary("sub", stop, start), lanes)
        with code.fold(count, initial) as (number, carried):
            column, base = carried
            yield code.add(start, code.multiply(number, lanes)), base
            column, base = code.add(column, rest), code.add(base, onward)
            wraps = code.compare("icmp uge", column, width)
            carried[0] = code.select(wraps, code.binary("sub", column, width), column)
            carried[1] = code.select(wraps, code.add(base, back), base)
