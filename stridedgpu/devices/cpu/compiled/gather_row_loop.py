"""The kernels that gather elements row by row: `take_along_axis` of rows that hold a vector, `take` of small tables.

    indexed    [a b c d e f g ...]    a row, or several short ones
    indices     6 0 2 3 ...           a vector of positions in the row
                | | | |
    dense       g a c d ...           the elements, in one vector store

`RowsInRegisters` holds rows of up to 1 KB in up to 16 registers of AVX-512, which permutes by variable positions (bytes
with VBMI, others without): an instruction for each 128 bytes, and a selection by an upper bit of the positions for each
of these but one. Rows shorter than a vector are a group, where each lane adds the place of its row. No byte outside the
rows is read: the last register is loaded by a mask. `RowsInMemory` loads each element into its lane by itself.

The last vector of a block is moved back to end with it, and the last group to end with the last row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stridedgpu.devices.cpu.policy import policy

from .gather_indices import IndexKind, resolved
from .ir import LINE_BYTES, Code, Value, vector_type
from .shuffles import joined
from .work_grid import places_of_items

__all__ = ["GatherByRow", "RowsInMemory", "RowsInRegisters"]

_OUTER_PLACE: Final = 13
"""Parameters before the outer loops: the address of the indices; the indexed axis' size; a number of the kernel's own;
rows from one group to the next, and the first row of the last group; strides in bytes from row to row of the dense, the
indexed and the index side; elements of a group, of a block of it, and the number of blocks; groups of a block, and the
number of blocks. Then the size, and the strides in bytes on the dense, the indexed and the index side, of each outer
loop, innermost first. Then, packed, the place of the row of each element of a group in registers."""

_OUTER_FIELDS: Final = 4

_ONE: Final = {1: "permvar.qi", 2: "permvar.hi", 4: "permvar.si", 8: "permvar.di"}
_TWO: Final = {1: "vpermi2var.qi", 2: "vpermi2var.hi", 4: "vpermi2var.d", 8: "vpermi2var.q"}
"""LLVM's names for the permutations of one register and of two, by the bytes of an element."""

_NARROW: Final = 128
"""Elements of one byte up to which a position is one byte, too."""

_INDICES: Final = 8
"""Indices that are resolved as one vector of 64-bit numbers, to be taken out of it one by one."""

_Found = Callable[[Value, Value], Value]
"""The elements of a vector: from the address of its indices and its first element's number in its group."""


@dataclass(frozen=True, slots=True)
class GatherByRow(ABC):
    """A kernel over elements of `run` bytes, with `rank` outer loops."""

    index: IndexKind
    rank: int
    run: int

    @property
    def streaming(self) -> bool:
        """Whether it writes past the caches: no, which took 0.8 to 2.6 times as long."""
        return False

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return LINE_BYTES // self.run

    def text(self, name: str) -> str:
        """The LLVM module."""
        code, lanes = Code(), self.lanes
        index, size, own, step, last, *strides, count, block, blocks, many, parts = (
            code.parameter(place) for place in range(_OUTER_PLACE)
        )
        outer = [
            [code.parameter(_OUTER_PLACE + _OUTER_FIELDS * loop + field) for field in range(_OUTER_FIELDS)]
            for loop in range(self.rank)
        ]
        row_of = self._rows(code, size, own)
        groups = code.add(code.binary("udiv", code.add(last, code.add(step, -1)), step), 1)
        with places_of_items(code, [blocks, parts, *(size for size, *_ in outer)]) as (b, a, *places):
            sides = [code.target, code.source, code.pointer(index)]
            for place, (_, *moved) in zip(places, outer, strict=True):
                sides = [code.at(side, code.multiply(place, by)) for side, by in zip(sides, moved, strict=True)]
            start, first = code.multiply(b, block), code.multiply(a, many)
            end = code.smaller(code.add(start, block), count)
            latest = code.add(end, -lanes)
            with code.loop(first, code.smaller(code.add(first, many), groups)) as group:
                row = code.smaller(code.multiply(group, step), last)
                dense, indexed, indices = (
                    code.at(side, code.multiply(row, stride)) for side, stride in zip(sides, strides, strict=True)
                )
                found = row_of(indexed)
                with code.loop(start, end, lanes) as place:
                    at = code.smaller(place, latest)
                    elements = found(code.at(indices, code.multiply(at, self.index.nbytes)), at)
                    code.store(elements, code.at(dense, code.multiply(at, self.run)), 1)
        return code.text(name)

    @property
    @abstractmethod
    def words(self) -> str:
        """How elements are gathered."""

    @abstractmethod
    def _rows(self, code: Code, size: Value, own: Value) -> Callable[[Value], _Found]:
        """What finds the elements of a group of rows, by the group's address."""

    @property
    def _vector(self) -> str:
        return vector_type(self.lanes, f"i{8 * self.run}")


@dataclass(frozen=True, slots=True)
class RowsInRegisters(GatherByRow):
    """Elements permuted from so many `registers`; `grouped`: these hold several rows.

    The kernel's own number is that of the elements in the last register.
    """

    registers: int
    grouped: bool

    @property
    def words(self) -> str:
        """How elements are gathered."""
        return f"permuted from {self.registers} registers"

    @property
    def position_bytes(self) -> int:
        """Bytes of a position among the elements of the registers."""
        return 2 if self.run == 1 and self.registers * LINE_BYTES > _NARROW else self.run

    def _rows(self, code: Code, size: Value, own: Value) -> Callable[[Value], _Found]:
        places = code.at(Value("ptr", "%parameters"), 8 * (_OUTER_PLACE + _OUTER_FIELDS * self.rank))
        numbers = ", ".join(f"i{8 * self.run} {lane}" for lane in range(self.lanes))
        tail = own if self.run == 8 else code.cast("trunc", own, f"i{8 * self.run}")
        inside = code.compare("icmp ult", Value(self._vector, f"<{numbers}>"), code.splat(tail, self.lanes))

        def row(indexed: Value) -> _Found:
            table = self._table(code, indexed, inside)

            def found(indices: Value, at: Value) -> Value:
                positions = self._positions(code, indices, size)
                if self.grouped:
                    where = code.at(places, code.multiply(at, self.position_bytes))
                    positions = code.add(positions, code.load(positions.type, where, 1))
                return self._permuted(code, table, positions)

            return found

        return row

    def _table(self, code: Code, indexed: Value, inside: Value) -> list[Value]:
        """The registers with the rows from an address on; `inside`: the lanes of the last one that are of the rows."""
        whole = [code.load(self._vector, code.at(indexed, LINE_BYTES * n), 1) for n in range(self.registers - 1)]
        rest = code.at(indexed, LINE_BYTES * (self.registers - 1))
        name = f"llvm.masked.load.v{self.lanes}i{8 * self.run}.p0"
        return [*whole, code.call(name, self._vector, rest, Value("i32", "1"), inside, code.full(self._vector, 0))]

    def _positions(self, code: Code, address: Value, size: Value) -> Value:
        """The indices of a vector, resolved to positions in their rows."""
        nbytes = self.index.nbytes
        each = min(self.lanes, LINE_BYTES // nbytes)
        type_ = vector_type(each, f"i{8 * nbytes}")
        parts = [code.load(type_, code.at(address, first * nbytes), 1) for first in range(0, self.lanes, each)]
        return joined(code, [self._resolved(code, part, size) for part in parts])

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
        lanes = positions
        if self.position_bytes > self.run:
            lanes = code.cast("trunc", positions, f"i{8 * self.run}")
        found = [
            code.call(f"llvm.x86.avx512.{_TWO[self.run]}.512", self._vector, left, lanes, right)
            for left, right in zip(table[::2], table[1::2], strict=False)
        ]
        if len(table) % 2:
            found.append(code.call(f"llvm.x86.avx512.{_ONE[self.run]}.512", self._vector, table[-1], lanes))
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

    The kernel's own number is the indexed axis' stride in bytes.
    """

    adjacent: bool

    @property
    def words(self) -> str:
        """How elements are gathered."""
        return "loaded one by one to a vector"

    def _rows(self, code: Code, size: Value, own: Value) -> Callable[[Value], _Found]:
        stride = self.run if self.adjacent else own

        def row(indexed: Value) -> _Found:
            def found(indices: Value, at: Value) -> Value:  # noqa: ARG001
                # Indices are read in bursts, which defeats the hardware prefetcher.
                for line in range(0, self.lanes * self.index.nbytes, LINE_BYTES):
                    code.prefetch(code.at(indices, policy().gather.index_ahead_bytes + line))
                vector = Value(self._vector, "poison")
                for first in range(0, self.lanes, _INDICES):
                    positions = self._positions(code, code.at(indices, first * self.index.nbytes), size)
                    for lane in range(_INDICES):
                        place = code.at(indexed, code.multiply(code.extract(positions, lane), stride))
                        vector = code.insert(vector, code.load(f"i{8 * self.run}", place, 1), first + lane)
                return vector

            return found

        return row

    def _positions(self, code: Code, address: Value, size: Value) -> Value:
        """The indices of a vector, resolved to positions in 64 bits."""
        element = f"i{8 * self.index.nbytes}"
        numbers = code.load(vector_type(_INDICES, element), address, 1)
        scalar = size if element == "i64" else code.cast("trunc", size, element)
        made = resolved(code, self.index, numbers, code.splat(scalar, _INDICES))
        return made if element == "i64" else code.cast("zext", made, "i64")
