"""The kernels that gather elements row by row: `take_along_axis` of rows that hold a vector, `take` of small tables.

    indexed    [a b c d e f g ...]    a row, or several short ones
    indices     6 0 2 3 ...           a vector of positions in the row
                | | | |
    dense       g a c d ...           the elements, in one vector store

`RowsInRegisters` holds rows of up to 1 KB in up to 16 registers of AVX-512, which permutes by variable positions (bytes
with VBMI, others without): an instruction for each 128 bytes, and a selection by an upper bit of the positions for each
of these but one. Rows shorter than a vector are a group, where each lane adds the place of its row. No byte outside the
rows is read: the last register is loaded by a mask.

`RowsInMemory` loads each element into its lane by itself, and meanwhile prefetches a row that comes soon, which nobody
reads in order.

The last step of a block is moved back to end with it, and the last group to end with the last row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from stridedgpu.devices.cpu.policy import policy

from .gather_by_row import OUTER_FIELDS, OUTER_PLACE, Begin, Block, GatherByRow, Move
from .gather_indices import positions_of, resolved, taken_out
from .ir import LINE_BYTES, Code, Value, permuting, vector_type
from .shuffles import joined

__all__ = ["MOST_REPEATED", "STEP", "RowsInMemory", "RowsInRegisters"]

_ONE: Final = {1: "permvar.qi", 2: "permvar.hi", 4: "permvar.si", 8: "permvar.di"}
_TWO: Final = {1: "vpermi2var.qi", 2: "vpermi2var.hi", 4: "vpermi2var.d", 8: "vpermi2var.q"}
"""LLVM's names for the permutations of one register and of two, by the bytes of an element."""

_NARROW: Final = 128
"""Elements of one byte up to which a position is one byte, too."""

STEP: Final = 16
"""Elements of memory that one step loads."""

_INDICES: Final = 8
"""Indices that are resolved as one vector of 64-bit numbers, to be taken out of it one by one."""

MOST_REPEATED: Final = 1024
"""Indices of a group that are resolved once: at most 16 KB on the stack, with their positions."""


@dataclass(frozen=True, slots=True)
class RowsInRegisters(GatherByRow):
    """Elements permuted from so many `registers`; `grouped`: these hold several rows.

    The kernel's own number is that of the elements in the last register. `repeated`: all rows have the same indices, up
    to `MOST_REPEATED` in a group, which are resolved once for each item; a parameter before the places of rows is how
    many elements one row has, of which an index stands for so many `parts`, also places.
    """

    registers: int
    grouped: bool
    repeated: bool = False
    parts: int = 1

    @property
    def words(self) -> str:
        """How elements are gathered."""
        return f"permuted from {self.registers} registers"

    @property
    def position_bytes(self) -> int:
        """Bytes of a position among the elements of the registers."""
        return 2 if self.run == 1 and self.registers * LINE_BYTES > _NARROW else self.run

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return LINE_BYTES // self.run

    @property
    def _places(self) -> int:
        """Parameters before the places of rows; the last one of a `repeated` kernel is the indices of a row."""
        return OUTER_PLACE + OUTER_FIELDS * self.rank + self.repeated

    @property
    def store_bytes(self) -> int:
        """Bytes of one store."""
        return LINE_BYTES

    def _mover(self, code: Code, size: Value, own: Value) -> Move:
        numbers = ", ".join(f"i{8 * self.run} {lane}" for lane in range(self.lanes))
        tail = own if self.run == 8 else code.cast("trunc", own, f"i{8 * self.run}")
        inside = code.compare("icmp ult", Value(self._vector, f"<{numbers}>"), code.splat(tail, self.lanes))

        def move(block: Block) -> None:
            table, latest = self._table(code, block.indexed, inside), code.add(block.end, -self.lanes)
            with code.loop(block.start, block.end, self.lanes) as place:
                at = code.smaller(place, latest)
                if self.repeated:
                    known = code.at(block.indices, code.multiply(at, self.position_bytes))
                    positions = code.load(vector_type(self.lanes, f"i{8 * self.position_bytes}"), known, 1)
                else:
                    positions = self._positions(code, block.indices, at, size)
                found = self._permuted(code, table, positions)
                code.store(found, code.at(block.dense, code.multiply(at, self.run)), 1)

        return move

    def _beginner(self, code: Code, size: Value) -> Begin:
        if not self.repeated:
            return GatherByRow._beginner(self, code, size)
        nbytes, width = self.index.nbytes, code.parameter(self._places - 1)
        numbers, known = (code.scratch(MOST_REPEATED * each) for each in (nbytes, self.position_bytes))

        def begin(indices: Value, count: Value) -> Value:
            with code.loop(0, count) as place:
                column = code.binary("udiv", code.binary("urem", place, width), self.parts)
                number = code.load(f"i{8 * nbytes}", code.at(indices, code.multiply(column, nbytes)), 1)
                code.store(number, code.at(numbers, code.multiply(place, nbytes)), 1)
            latest = code.add(count, -self.lanes)
            with code.loop(0, count, self.lanes) as place:
                at = code.smaller(place, latest)
                positions = self._positions(code, numbers, at, size)
                code.store(positions, code.at(known, code.multiply(at, self.position_bytes)), 1)
            return known

        return begin

    @property
    def _vector(self) -> str:
        return vector_type(self.lanes, f"i{8 * self.run}")

    def _table(self, code: Code, indexed: Value, inside: Value) -> list[Value]:
        """The registers with the rows from an address on; `inside`: the lanes of the last one that are of the rows."""
        whole = [code.load(self._vector, code.at(indexed, LINE_BYTES * n), 1) for n in range(self.registers - 1)]
        rest = code.at(indexed, LINE_BYTES * (self.registers - 1))
        name = f"llvm.masked.load.v{self.lanes}i{8 * self.run}.p0"
        return [*whole, code.call(name, self._vector, rest, Value("i32", "1"), inside, code.full(self._vector, 0))]

    def _positions(self, code: Code, indices: Value, at: Value, size: Value) -> Value:
        """The indices of a vector, `at` of them behind an address, resolved to positions in the registers."""
        nbytes = self.index.nbytes
        address = code.at(indices, code.multiply(at, nbytes))
        each = min(self.lanes, LINE_BYTES // nbytes)
        type_ = vector_type(each, f"i{8 * nbytes}")
        parts = [code.load(type_, code.at(address, first * nbytes), 1) for first in range(0, self.lanes, each)]
        positions = joined(code, [self._resolved(code, part, size) for part in parts])
        if not self.grouped:
            return positions
        if self.parts > 1:
            positions = code.multiply(positions, code.full(positions.type, self.parts))
        places = code.at(Value("ptr", "%parameters"), 8 * self._places)
        place = code.at(places, code.multiply(at, self.position_bytes))
        return code.add(positions, code.load(positions.type, place, 1))

    def _resolved(self, code: Code, numbers: Value, size: Value) -> Value:
        """A vector of indices as positions: narrowed first where they were checked, and last where they are clipped."""
        element, wider = f"i{8 * self.position_bytes}", self.position_bytes - self.index.nbytes
        if wider > 0:
            numbers = code.cast("sext" if self.index.signed else "zext", numbers, element)
        elif wider < 0 and self.index.mode != "clip":
            numbers = code.cast("trunc", numbers, element)
        scalar = size if numbers.element == "i64" else code.cast("trunc", size, numbers.element)
        made = resolved(code, self.index, numbers, code.splat(scalar, numbers.lanes))
        return made if made.element == element else code.cast("trunc", made, element)

    def _permuted(self, code: Code, table: list[Value], positions: Value) -> Value:
        """The elements at a vector of positions."""
        lanes, needs = positions, permuting(self.run)
        if self.position_bytes > self.run:
            lanes = code.cast("trunc", positions, f"i{8 * self.run}")
        found = [
            code.call(f"llvm.x86.avx512.{_TWO[self.run]}.512", self._vector, left, lanes, right, needs=needs)
            for left, right in zip(table[::2], table[1::2], strict=False)
        ]
        if len(table) % 2:
            one = f"llvm.x86.avx512.{_ONE[self.run]}.512"
            found.append(code.call(one, self._vector, table[-1], lanes, needs=needs))
        bit = 2 * self.lanes
        while len(found) > 1:
            upper = code.compare("icmp ne", code.binary("and", positions, bit), 0)
            rest = found[len(found) // 2 * 2 :]
            pairs = zip(found[::2], found[1::2], strict=False)
            found = [*(code.select(upper, right, left) for left, right in pairs), *rest]
            bit *= 2
        return found[0]


@dataclass(frozen=True, slots=True)
class RowsInMemory(GatherByRow):
    """Elements loaded one by one into the lanes of a vector; `adjacent`: the indexed axis is contiguous.

    `columns`: each element of a row is selected from a column of its own, beside that of the element before it. For
    each step `lines_ahead` cache lines are prefetched of the row that comes `rows_ahead` after this one. The kernel's
    own number is the indexed axis' stride in bytes.
    """

    adjacent: bool
    lines_ahead: int = 0
    rows_ahead: int = 0
    columns: bool = False

    @property
    def words(self) -> str:
        """How elements are gathered."""
        return "loaded one by one to a vector"

    @property
    def lanes(self) -> int:
        """Elements of a step."""
        return STEP

    @property
    def store_bytes(self) -> int:
        """Bytes of one store."""
        return min(LINE_BYTES, STEP * self.run)

    def _mover(self, code: Code, size: Value, own: Value) -> Move:
        stride, along = self.run if self.adjacent else own, self.run if self.columns else 0

        def move(block: Block) -> None:
            latest = code.add(block.end, -STEP)
            soon = code.at(block.indexed, code.multiply(block.pitch, self.rows_ahead))
            with code.loop(code.smaller(block.start, latest), block.end, STEP) as place:
                for line in range(self.lines_ahead):
                    ahead = code.multiply(place, self.lines_ahead * LINE_BYTES // STEP)
                    code.prefetch(code.at(code.at(soon, ahead), line * LINE_BYTES))
                at = code.smaller(place, latest)
                indices = code.at(block.indices, code.multiply(at, self.index.nbytes))
                indexed = code.at(block.indexed, code.multiply(at, along)) if self.columns else block.indexed
                # One by one where they are asked for: as many positions as a step's would not fit the registers.
                places = (code.multiply(position, stride) for position in self._positions(code, indices, size))
                elements = (
                    code.load(f"i{8 * self.run}", code.at(code.at(indexed, place), lane * along), 1)
                    for lane, place in enumerate(places)
                )
                self._store(code, elements, code.at(block.dense, code.multiply(at, self.run)))

        return move

    def _positions(self, code: Code, indices: Value, size: Value) -> Iterator[Value]:
        """The positions of a step's elements, in 64 bits."""
        nbytes = self.index.nbytes
        # Indices are read in bursts, which defeats the hardware prefetcher.
        for line in range(0, STEP * nbytes, LINE_BYTES):
            code.prefetch(code.at(indices, policy().gather.index_ahead_bytes + line))
        for first in range(0, STEP, _INDICES):
            numbers = code.load(vector_type(_INDICES, f"i{8 * nbytes}"), code.at(indices, first * nbytes), 1)
            yield from taken_out(code, positions_of(code, self.index, numbers, size))

    def _store(self, code: Code, elements: Iterator[Value], written: Value) -> None:
        """Store the elements of a step one after another."""
        lanes = self.store_bytes // self.run
        for first in range(0, STEP, lanes):
            vector = Value(vector_type(lanes, f"i{8 * self.run}"), "poison")
            for lane, element in enumerate(islice(elements, lanes)):
                vector = code.insert(vector, element, lane)
            code.store(vector, code.at(written, first * self.run), 1)
