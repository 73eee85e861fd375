"""Rows whose elements are permuted in registers: `take_along_axis` of rows that hold a vector, `take` of small tables.

    indexed    [a b c d e f g ...]    a row, or several short ones
    indices     6 0 2 3 ...           a vector of positions in the row
                | | | |
    dense       g a c d ...           the elements, in one vector store

Rows of up to 1 KB are in up to 16 registers of AVX-512, which permutes by variable positions (bytes with VBMI, others
without): an instruction for each 128 bytes, and a selection by an upper bit of the positions for each of these but one.
Rows shorter than a vector are a group, where each lane adds the place of its row. No byte outside the rows is read: the
last register is loaded by a mask. The last step of a block is moved back to end with it, and the last group to end with
the last row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from stridedgpu.devices.cpu.native.registers import LINE_BYTES, permuting
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.target import NATIVE_LEVELS

from .gather_indices import IndexKind, resolved
from .gather_loop import outer_loops, sides_of
from .ir import Code, Value, joined, vector_type
from .work_grid import items_of

_ONE: Final = {1: "permvar.qi", 2: "permvar.hi", 4: "permvar.si", 8: "permvar.di"}
_TWO: Final = {1: "vpermi2var.qi", 2: "vpermi2var.hi", 4: "vpermi2var.d", 8: "vpermi2var.q"}
"""LLVM's names for the permutations of one register and of two, by the bytes of an element."""

_NARROW: Final = 128
"""Elements of one byte up to which a position is one byte, too."""

_MOST_REPEATED: Final = 1024
"""Indices of a group that are resolved once: at most 16 KB on the stack, with their positions."""


@dataclass(frozen=True, slots=True)
class RowsInRegisters:
    """A kernel over elements of `run` bytes, permuted from so many `registers`, with `rank` outer loops.

    `grouped`: the registers hold several rows. `repeated`: all rows have the same indices, up to `_MOST_REPEATED` in a
    group, which are resolved once for each item. An index stands for so many `parts`, elements that follow one another.

    Parameters before the outer loops: the address of the indices; the indexed axis' size; the elements in the last
    register; rows from one group to the next, and the first row of the last group; strides in bytes from row to row of
    the dense, the indexed and the index side; elements of a group, of a block of it, and the number of blocks; groups
    of a block, and the number of blocks. Behind the outer loops: the elements of a row, where all have the same
    indices; the place of the row of each element of a group.
    """

    index: IndexKind
    rank: int
    run: int
    registers: int
    grouped: bool
    repeated: bool = False
    parts: int = 1
    scatters: ClassVar[bool] = False
    store_bytes: ClassVar[int] = LINE_BYTES

    @property
    def words(self) -> str:
        """How elements are gathered."""
        return f"{self.lanes} elements of {self.run} B permuted from {self.registers} registers"

    @property
    def position_bytes(self) -> int:
        """Bytes of a position among the elements of the registers."""
        return 2 if self.run == 1 and self.registers * LINE_BYTES > _NARROW else self.run

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return LINE_BYTES // self.run

    def text(self, name: str) -> str:
        """The LLVM module."""
        code = Code()
        index, size, own, step, last, *strides, count, block, blocks, many, parts = code.take(13)
        loops = outer_loops(code, self.rank)
        numbers = code.lanes(f"i{8 * self.run}", range(self.lanes))
        tail = own if self.run == 8 else own.cast("trunc", f"i{8 * self.run}")
        inside = numbers.compare("icmp ult", tail)
        resolve = self._resolver(code, size) if self.repeated else None
        groups = (last + (step - 1)) // step + 1
        with items_of(code, [blocks, parts], loops, sides_of(code, index)) as ((b, a), (*sides, indices)):
            sides.append(indices if resolve is None else resolve(indices, count))
            elements_of_item = code.block(b, block, count)
            with code.loop(*code.block(a, many, groups)) as group:
                row = (group * step).at_most(last)
                dense, indexed, numbers_of_row = (
                    side + row * stride for side, stride in zip(sides, strides, strict=True)
                )
                table = self._table(indexed, inside)
                with code.steps(*elements_of_item, self.lanes) as at:
                    if self.repeated:
                        known = numbers_of_row + at * self.position_bytes
                        positions = known.load(vector_type(self.lanes, f"i{8 * self.position_bytes}"))
                    else:
                        positions = self._positions(numbers_of_row, at, size)
                    elements = self._permuted(table, positions)
                    code.store(elements, dense + at * self.run)
        return code.text(name)

    @property
    def _vector(self) -> str:
        return vector_type(self.lanes, f"i{8 * self.run}")

    def _resolver(self, code: Code, size: Value) -> Callable[[Value, Value], Value]:
        """What resolves the indices of a group once for an item: from their address and number to their positions."""
        nbytes, (width,) = self.index.nbytes, code.take(1)
        numbers, known = (code.scratch(_MOST_REPEATED * each) for each in (nbytes, self.position_bytes))

        def resolve(indices: Value, count: Value) -> Value:
            with code.loop(0, count) as place:
                column = place % width // self.parts
                number = (indices + column * nbytes).load(f"i{8 * nbytes}")
                code.store(number, numbers + place * nbytes)
            with code.steps(0, count, self.lanes) as at:
                positions = self._positions(numbers, at, size)
                code.store(positions, known + at * self.position_bytes)
            return known

        return resolve

    def _table(self, indexed: Value, inside: Value) -> list[Value]:
        """The registers with the rows from an address on; `inside`: the lanes of the last one that are of the rows."""
        whole = [(indexed + LINE_BYTES * n).load(self._vector) for n in range(self.registers - 1)]
        rest = indexed + LINE_BYTES * (self.registers - 1)
        name = f"llvm.masked.load.v{self.lanes}i{8 * self.run}.p0"
        code = indexed.code
        alignment, beyond = code.constant(1, "i32"), code.constant(0, self._vector)
        return [*whole, code.call(name, self._vector, rest, alignment, inside, beyond)]

    def _positions(self, indices: Value, at: Value, size: Value) -> Value:
        """The indices of a vector, `at` of them behind an address, resolved to positions in the registers."""
        nbytes = self.index.nbytes
        address = indices + at * nbytes
        each = min(self.lanes, LINE_BYTES // nbytes)
        type_ = vector_type(each, f"i{8 * nbytes}")
        parts = [(address + first * nbytes).load(type_) for first in range(0, self.lanes, each)]
        positions = joined([self._resolved(part, size) for part in parts])
        if not self.grouped:
            return positions
        if self.parts > 1:
            positions = positions * self.parts
        place = at.code.rest() + at * self.position_bytes
        return positions + place.load(positions.type)

    def _resolved(self, numbers: Value, size: Value) -> Value:
        """A vector of indices as positions: narrowed first where they were checked, and last where they are clipped."""
        element, wider = f"i{8 * self.position_bytes}", self.position_bytes - self.index.nbytes
        if wider > 0:
            numbers = numbers.cast("sext" if self.index.signed else "zext", element)
        elif wider < 0 and self.index.mode != "clip":
            numbers = numbers.cast("trunc", element)
        scalar = size if numbers.element == "i64" else size.cast("trunc", numbers.element)
        places = resolved(self.index, numbers, scalar)
        return places if places.element == element else places.cast("trunc", element)

    def _permuted(self, table: list[Value], positions: Value) -> Value:
        lanes, needs, code = positions, permuting(self.run), positions.code
        if self.position_bytes > self.run:
            lanes = positions.cast("trunc", f"i{8 * self.run}")
        elements = [
            code.call(f"llvm.x86.avx512.{_TWO[self.run]}.512", self._vector, left, lanes, right, needs=needs)
            for left, right in zip(table[::2], table[1::2], strict=False)
        ]
        if len(table) % 2:
            one = f"llvm.x86.avx512.{_ONE[self.run]}.512"
            elements.append(code.call(one, self._vector, table[-1], lanes, needs=needs))
        bit = 2 * self.lanes
        while len(elements) > 1:
            upper = (positions & bit) != 0
            rest = elements[len(elements) // 2 * 2 :]
            pairs = zip(elements[::2], elements[1::2], strict=False)
            elements = [*(upper.select(right, left) for left, right in pairs), *rest]
            bit *= 2
        return elements[0]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of `width` indices each: the elements of `run` bytes that they select from are `size`, in each of `count`.

    `step` is the bytes from row to row; None where several rows cannot be looked up as one, since they do not follow
    one another on the dense side and in the indices. `strides` are those of the rows on all sides, in bytes.
    `repeated`: all rows have the same indices. An index stands for so many `parts`, elements that follow one another;
    width and size count these.
    """

    run: int
    width: int
    size: int
    count: int
    step: int | None
    strides: tuple[int, int, int]
    repeated: bool
    parts: int


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows that are looked up together, in how many registers, and the instructions that an element then costs."""

    rows: int
    registers: int
    cost: float


def plan_rows(
    rows: Rows, kind: IndexKind, rank: int, wanted: int
) -> tuple[RowsInRegisters, int, tuple[int, ...], tuple[int, ...]] | None:
    """The kernel, its items around the outer loops, and its parameters before and behind these.

    An item has about `wanted` bytes. None where single loads take less, or this processor does not permute elements.
    """
    run = rows.run
    if not policy().target.features >= NATIVE_LEVELS["v4"] or not (rows.repeated or rows.parts == 1):
        return None
    group = _group(rows)
    if group is None or group.cost * rows.parts > policy().gather.load_cost:
        return None
    count = group.rows * rows.width
    repeated = rows.repeated and count <= _MOST_REPEATED
    grouped = group.rows > 1 or rows.parts > 1
    if rows.repeated and grouped and not repeated:
        return None
    kernel = RowsInRegisters(kind, rank, run, group.registers, grouped, repeated, rows.parts)
    step = (rows.step or 0) // run if grouped else 0
    tail = (group.rows - 1) * step + rows.size - kernel.lanes * (group.registers - 1)
    groups = -(-rows.count // group.rows)
    block = max(kernel.lanes, min(wanted // run, count))
    many = max(1, min(wanted // run // count, groups))
    blocks, parts = -(-count // block), -(-groups // many)
    fields = tail, group.rows, rows.count - group.rows, *rows.strides, count, block, blocks, many, parts
    places = _places(rows, group.rows, step, kernel.position_bytes) if grouped else []
    return kernel, blocks * parts, fields, (*([rows.width] if repeated else []), *places)


def _group(rows: Rows) -> _Group | None:
    """The fewest rows whose elements fill a vector; None if there are too few, or the registers do not hold them."""
    lanes = LINE_BYTES // rows.run
    count = -(-lanes // rows.width)
    if count > (1 if rows.step is None else rows.count):
        return None
    registers = -(-((count - 1) * (rows.step or 0) + rows.size * rows.run) // LINE_BYTES)
    if registers > policy().gather.row_registers:
        return None
    elements, lookups = count * rows.width, -(-registers // 2)
    # Every lookup but one is followed by a selection, by one of the upper bits of the positions.
    one = 2 * lookups - 1 + (lookups - 1).bit_length()
    return _Group(count, registers, (registers + -(-elements // lanes) * one) / elements)


def _places(rows: Rows, count: int, step: int, nbytes: int) -> list[int]:
    """What is added to the position of each element of `count` rows, in so many bytes each, in words of 64 bits."""
    numbers = ([row * step + part for part in range(rows.parts)] for row in range(count))
    of_rows = (b"".join(number.to_bytes(nbytes, "little") for number in row) for row in numbers)
    places = b"".join(row * (rows.width // rows.parts) for row in of_rows)
    return [int.from_bytes(places[first : first + 8], "little") for first in range(0, len(places), 8)]
