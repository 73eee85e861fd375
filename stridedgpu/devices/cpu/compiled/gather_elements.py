"""The kernels that gather or scatter single elements, with vectors of indices.

    indices    7 0 3 9 3 ...      some vectors of them, at any place of a row
                    |             resolved to offsets in 32 bits, and added to the offsets of their rows
    indexed    x . . x . . x .    a load for each offset, or a store
    dense      x x x x x ...      a store for each vector, or a load for each element

Indices and dense elements are contiguous across rows, so short rows share vectors. `width` is the elements of a row.
For each lane, the column and the row's offset stay in registers and are incremented from vector to vector. One
instruction takes out two of the offsets, and each element is moved by itself: instructions that gather vectors take as
long on Sapphire Rapids, twice as long on Zen 4, and are slow wherever gather data sampling is mitigated
(CVE-2022-40982). A remainder of less than a vector is moved element by element, in order: of several updates of one
element the last remains.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Final

from stridedgpu.devices.cpu.native.registers import LINE_BYTES
from stridedgpu.devices.cpu.policy import policy

from .gather_indices import IndexKind, positions_of, taken_out
from .gather_loop import outer_loops, sides_of
from .ir import Code, Value, vector_type
from .work_grid import items_of

_OFFSET_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class GatherElements:
    """A kernel over runs of `run` bytes, at offsets of 32 bits, with `rank` outer loops.

    With `adjacent`, the indexed axis is contiguous. `scatters`: the dense side is read and the indexed side written.

    Parameters before the outer loops: the address of the indices; elements in all and in a row; offsets in bytes from
    one element of a row to the next and from one row to the next; the indexed axis' size, and its stride in bytes;
    elements of a block, and the number of blocks.
    """

    index: IndexKind
    rank: int
    run: int
    adjacent: bool
    scatters: bool = False

    @property
    def lanes(self) -> int:
        """Elements of a step: as many as have their column and their place in a quarter of the registers."""
        target = policy().target
        return target.vector_registers // 8 * target.vector_bytes // _OFFSET_BYTES

    @property
    def store_bytes(self) -> int:
        """Bytes of one store."""
        return self.run if self.scatters else min(LINE_BYTES, self.lanes * self.run)

    @property
    def words(self) -> str:
        """How elements are moved."""
        moved = "stored one by one" if self.scatters else "loaded one by one to a vector"
        return f"{self.lanes} elements of {self.run} B {moved}"

    def text(self, name: str) -> str:
        """The LLVM module."""
        code, lanes, nbytes = Code(), self.lanes, self.index.nbytes
        index, total, width, along, row, size, stride, block, blocks = code.take(9)
        steps = _Steps(code, lanes, width, along, row)
        loops, sides = outer_loops(code, self.rank), sides_of(code, index, scatters=self.scatters)
        with items_of(code, [blocks], loops, sides) as item:
            (number,), (dense, indexed, indices) = item
            axis = _Axis(size, stride.cast("trunc", "i32"))
            start, end = code.block(number, block, total)
            whole = start + ((end - start) & -lanes)
            with steps.over(start, whole) as (at, base):
                first = indices + at * nbytes
                # Indices are read in bursts, which defeats the hardware prefetcher.
                for line in range(0, lanes * nbytes, LINE_BYTES):
                    code.prefetch(first + (policy().gather.index_ahead_bytes + line))
                numbers = first.load(vector_type(lanes, f"i{8 * nbytes}"))
                self._move_all(dense + at * self.run, indexed, taken_out(self._offsets(numbers, base, axis)))
            with steps.one_by_one(whole, end) as (at, base):
                numbers = (indices + at * nbytes).load(f"i{8 * nbytes}")
                offset = self._offsets(numbers, base, axis).cast("sext", "i64")
                self._move(dense + at * self.run, indexed, offset)
        return code.text(name)

    def _move_all(self, dense: Value, indexed: Value, offsets: Iterator[Value]) -> None:
        """Move the elements of a step, each loaded into its lane of a vector, or stored by itself."""
        if self.scatters:
            for lane, offset in enumerate(offsets):
                self._move(dense + lane * self.run, indexed, offset)
            return
        code, element = dense.code, f"i{8 * self.run}"
        lanes = self.store_bytes // self.run
        for lane in range(0, self.lanes, lanes):
            elements = ((indexed + offset).load(element) for offset in islice(offsets, lanes))
            code.store(code.vector(vector_type(lanes, element), elements), dense + lane * self.run)

    def _move(self, dense: Value, indexed: Value, offset: Value) -> None:
        source, target = indexed + offset, dense
        if self.scatters:
            source, target = target, source
        dense.code.store(source.load(f"i{8 * self.run}"), target)

    def _offsets(self, numbers: Value, base: Value, axis: _Axis) -> Value:
        """The offsets of the elements that one index or a vector of indices selects, relative to their row."""
        places = positions_of(self.index, numbers, axis.size)
        return base + places * (self.run if self.adjacent else axis.stride)


@dataclass(frozen=True, slots=True)
class _Axis:
    """The indexed axis: its size, and its stride in 32 bits."""

    size: Value
    stride: Value


class _Steps:
    """The positions of vectors in rows: a step of `lanes` elements is some whole rows and a remainder."""

    def __init__(self, code: Code, lanes: int, width: Value, along: Value, row: Value) -> None:
        self._code, self._lanes = code, lanes
        self._width, self._along, self._row = width, along, row
        self._columns, self._bases = (code.scratch(4 * lanes) for _ in range(2))
        rows = code.constant(lanes) // width
        rest = lanes - rows * width
        back = row - width * along
        onward = rows * row + rest * along
        self._vectors = [value.cast("trunc", "i32").splat(lanes) for value in (width, rest, onward, back)]
        self._short = [value.cast("trunc", "i32") for value in (width, along, back)]

    @contextmanager
    def one_by_one(self, start: Value, stop: Value) -> Iterator[tuple[Value, Value]]:
        """Every position from `start` to `stop`, and the offset of its element in 32 bits."""
        count = stop - start
        with self._following(start, count) as (number, _, base):
            yield start + number, base

    @contextmanager
    def _following(self, start: Value, count: Value | int) -> Iterator[tuple[Value, Value, Value]]:
        """Numbers below `count`; each position's column, and the offset of its place in the row, in 32 bits."""
        code = self._code
        width, along, back = self._short
        row = start // self._width
        column = start - row * self._width
        base = row * self._row + column * self._along
        with code.fold(count, [value.cast("trunc", "i32") for value in (column, base)]) as (number, carried):
            column, base = carried
            yield number, column, base
            column, base = column + 1, base + along
            wraps = column.compare("icmp uge", width)
            carried[0] = wraps.select(0, column)
            carried[1] = wraps.select(base + back, base)

    @contextmanager
    def over(self, start: Value, stop: Value) -> Iterator[tuple[Value, Value]]:
        """The first position of every vector from `start` to `stop`, and the offsets of its elements."""
        code, lanes = self._code, self._lanes
        width, rest, onward, back = self._vectors
        columns, bases = self._columns, self._bases
        with self._following(start, lanes) as (lane, column, base):
            at = lane * 4
            code.store(column, columns + at, 4)
            code.store(base, bases + at, 4)
        type_ = vector_type(lanes, "i32")
        initial = [place.load(type_, 4) for place in (columns, bases)]
        count = (stop - start) // lanes
        with code.fold(count, initial) as (number, carried):
            column, base = carried
            yield start + number * lanes, base
            column, base = column + rest, base + onward
            wraps = column.compare("icmp uge", width)
            carried[0] = wraps.select(column - width, column)
            carried[1] = wraps.select(base + back, base)
