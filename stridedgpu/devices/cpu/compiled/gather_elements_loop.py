"""The kernel that gathers single elements: `take` of elements and `take_along_axis`, with vectors of indices.

    indices    7 0 3 9 3 ...      some vectors of them, at any place of a row
                    |             resolved to offsets in 32 bits, and added to the offsets of their rows
    indexed    x . . x . . x .    a load for each offset
    dense      x x x x x ...      a store for each element

Indices and dense elements are contiguous across rows, so short rows share vectors. `width` is the elements of a row.
For each lane, the column and the row's offset stay in registers and are incremented from vector to vector. One
instruction takes out two of the offsets, and each element is loaded by itself: instructions that gather vectors take as
long on Sapphire Rapids, twice as long on Zen 4, and are slow wherever gather data sampling is mitigated
(CVE-2022-40982). A remainder of less than a vector is moved element by element.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from stridedgpu.devices.cpu.policy import policy

from .gather_indices import IndexKind, positions_of, taken_out
from .ir import LINE_BYTES, Code, Value, constant, vector_type
from .work_grid import places_of_items

__all__ = ["GatherElements"]

_OUTER_PLACE: Final = 9
"""Parameters before the outer loops: the address of the indices; elements in all and in a row; offsets in bytes from
one element of a row to the next and from one row to the next; the indexed axis' size, and its stride in bytes;
elements of a block, and the number of blocks. Then the size, and the strides in bytes on the dense, the indexed and the
index side, of each outer loop, innermost first."""

_OUTER_FIELDS: Final = 4

_OFFSET_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class GatherElements:
    """A kernel over runs of `run` bytes, at offsets of 32 bits, with `rank` outer loops.

    With `adjacent`, the indexed axis is contiguous.
    """

    index: IndexKind
    rank: int
    run: int
    adjacent: bool
    streaming: ClassVar[bool] = False

    @property
    def lanes(self) -> int:
        """Elements of a step: as many as have their column and their place in a quarter of the registers."""
        target = policy().target
        return target.vector_registers // 8 * target.vector_bytes // _OFFSET_BYTES

    @property
    def store_bytes(self) -> int:
        """Bytes of one store."""
        return self.run

    def text(self, name: str) -> str:
        """The LLVM module."""
        code, lanes = Code(), self.lanes
        index, total, width, along, row, size, stride, block, blocks = (
            code.parameter(place) for place in range(_OUTER_PLACE)
        )
        outer = [
            [code.parameter(_OUTER_PLACE + _OUTER_FIELDS * loop + field) for field in range(_OUTER_FIELDS)]
            for loop in range(self.rank)
        ]
        steps = _Steps(code, lanes, width, along, row)
        with places_of_items(code, [blocks, *(count for count, *_ in outer)]) as (number, *places):
            dense, indexed, indices = code.target, code.source, code.pointer(index)
            for place, (_, *strides) in zip(places, outer, strict=True):
                moved = [code.multiply(place, step) for step in strides]
                dense, indexed, indices = (
                    code.at(base, step) for base, step in zip((dense, indexed, indices), moved, strict=True)
                )
            axis = _Axis(size, code.cast("trunc", stride, "i32"))
            start = code.multiply(number, block)
            end = code.smaller(code.add(start, block), total)
            whole = code.add(start, code.binary("and", code.binary("sub", end, start), -lanes))
            with steps.over(start, whole) as (at, base):
                first = code.at(indices, code.multiply(at, self.index.nbytes))
                # Indices are read in bursts, which defeats the hardware prefetcher.
                for line in range(0, lanes * self.index.nbytes, LINE_BYTES):
                    code.prefetch(code.at(first, policy().gather.index_ahead_bytes + line))
                found = code.load(vector_type(lanes, self._index_type), first, 1)
                for lane, offset in enumerate(taken_out(code, self._offsets(code, found, base, axis))):
                    element = code.load(f"i{8 * self.run}", code.at(indexed, offset), 1)
                    code.store(element, code.at(dense, code.multiply(code.add(at, lane), self.run)), 1)
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

        places = positions_of(code, self.index, numbers, axis.size)
        if self.adjacent:
            return code.add(base, code.binary("mul", places, self.run))
        return code.add(base, code.binary("mul", places, spread(axis.stride)))


@dataclass(frozen=True, slots=True)
class _Axis:
    """The indexed axis: its size, and its stride in 32 bits."""

    size: Value
    stride: Value


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
