"""The kernels that check whether indices are inside their axes, and no two of them name one element.

An element's name is its number among those that indices could name. Most often each name has a byte in a table, which
is set, and the set bytes are counted:

    indices     2 -1  0 ...       each read once
    table       1 0 1 ... 1       as many ones as indices: all are distinct

Indices with positions of their own cannot meet those of other positions. Some of these positions share a small table,
which stays in the nearest cache and is cleared while its bytes are counted. Rows of few names have a bit for each in
registers. Few indices of many names are looked up in a hash table.

Whatever indices hold, now or in a moment, names are clamped, and no byte outside the table is touched. As other checks,
these report only that something is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .gather_indices import IndexKind, load_indices, resolved
from .ir import LINE_BYTES, Code, Value, vector_type
from .work_grid import places_of_items

__all__ = ["HEADER_BYTES", "IndexBits", "IndexHash", "IndexMarks"]

HEADER_BYTES: Final = 8
"""Bytes before all else in a kernel's memory: a number that is set to 1 if an index is wrong or named twice."""

_AXIS_FIELDS: Final = 3
"""Parameters of an indexed axis: its size, the pitch of its names, and the bytes to its number in a tuple."""


_A, _B, _AXES_PLACE = 3, 8, 13


class _Names:
    """The names of indices, `lanes` at a time."""

    def __init__(self, code: Code, kind: IndexKind, lanes: int, first: int, components: int) -> None:
        """Load the axes' parameters, `first` of them on."""
        self._code, self._kind, self._lanes = code, kind, lanes
        fields = [
            [code.parameter(first + _AXIS_FIELDS * axis + field) for field in range(_AXIS_FIELDS)]
            for axis in range(components)
        ]
        # Adding `size` to the range -size .. size - 1 leaves one unsigned comparison.
        valid = [code.multiply(size, 2) if kind.signed else size for size, _, _ in fields]
        self._axes = [
            (*(code.splat(value, lanes) for value in (size, limit, pitch)), offset)
            for (size, pitch, offset), limit in zip(fields, valid, strict=True)
        ]

    def at(self, address: Value, stride: Value) -> tuple[Value, Value]:
        """The names of indices from an address on, and a bit for each that is out of range."""
        code, kind = self._code, self._kind
        names, wrong = code.full(vector_type(self._lanes, "i64"), 0), code.full(vector_type(self._lanes, "i1"), "false")
        for size, valid, pitch, offset in self._axes:
            numbers = load_indices(code, kind, code.at(address, offset), stride, self._lanes)
            shifted = code.binary("add", numbers, size) if kind.signed else numbers
            wrong = code.binary("or", wrong, code.compare("icmp uge", shifted, valid))
            names = code.binary("add", names, code.binary("mul", resolved(code, kind, numbers, size), pitch))
        return names, wrong


@dataclass(frozen=True, slots=True)
class IndexMarks:
    """A kernel over `rank` outer loops around `a` and `b`, each of these two in blocks.

    The parameters are: bytes of a table; bytes before the first; the number of tables; size, stride in bytes, pitch of
    names, block and number of blocks of `a`, then of `b`; those of the axes; size and stride of each outer loop,
    innermost first.

    With `counts` the marks of each item are in the first unused table, where the kernel counts and clears them. Behind
    the header the memory has a word for each table, which is 0 where nobody uses it. Otherwise all items share one
    table, whose marks the caller counts. Tables are whole cache lines, all 0 at first; `b` has `lanes` indices or more.
    """

    index: IndexKind
    components: int
    rank: int
    lanes: int
    counts: bool

    def text(self, name: str) -> str:
        """The module."""
        code, lanes = Code(), self.lanes
        nbytes, start, number = (code.parameter(place) for place in range(3))
        a, b = ([code.parameter(place + field) for field in range(5)] for place in (_A, _B))
        names = _Names(code, self.index, lanes, _AXES_PLACE, self.components)
        first = _AXES_PLACE + _AXIS_FIELDS * self.components
        outer = [[code.parameter(first + 2 * loop + field) for field in range(2)] for loop in range(self.rank)]
        numbers = Value(vector_type(lanes, "i64"), "<" + ", ".join(f"i64 {lane}" for lane in range(lanes)) + ">")
        along = code.multiply(numbers, code.splat(b[2], lanes))
        tables, dial = code.at(code.target, start), code.scratch(8)
        with places_of_items(code, [b[4], a[4], *(count for count, _ in outer)]) as (b_place, a_place, *places):
            taken, flag = self._take(code, number, dial) if self.counts else (code.full("i64", 0), code.target)
            table = code.at(tables, code.multiply(taken, nbytes))
            (a_start, a_end), (b_start, b_end) = (
                _block(code, place, axis, step) for place, axis, step in ((a_place, a, 1), (b_place, b, lanes))
            )
            address = code.source
            for place, (_, step) in zip(places, outer, strict=True):
                address = code.at(address, code.multiply(place, step))
            steps = code.binary("udiv", code.add(code.binary("sub", b_end, b_start), lanes - 1), lanes)
            latest = code.add(b_end, -lanes)
            with code.loop(a_start, a_end) as row:
                at_row = code.at(address, code.multiply(row, a[1]))
                at_name = code.at(table, code.multiply(code.binary("sub", row, a_start), a[2]))
                with code.fold(steps, [code.full(vector_type(lanes, "i1"), "false")]) as (step, found):
                    here = code.smaller(code.add(b_start, code.multiply(step, lanes)), latest)
                    these, wrong = names.at(code.at(at_row, code.multiply(here, b[1])), b[1])
                    these = code.add(these, along)
                    column = code.at(at_name, code.multiply(code.binary("sub", here, b_start), b[2]))
                    for lane in range(lanes):
                        code.store(Value("i8", "1"), code.at(column, code.extract(these, lane)), 1)
                    found[0] = code.binary("or", found[0], wrong)
                _report(code, found[0])
            if self.counts:
                looked_at = code.multiply(code.binary("sub", a_end, a_start), code.binary("sub", b_end, b_start))
                with code.when(code.compare("icmp ne", _cleared(code, table, nbytes), looked_at)):
                    code.store(Value("i64", "1"), code.target, 8)
                code.store_shared(0, flag)
        return code.text(name)

    @staticmethod
    def _take(code: Code, number: Value, dial: Value) -> tuple[Value, Value]:
        """Wait for the first unused table; returns its number and the address of its word. A `dial` counts up."""
        code.store(Value("i64", "0"), dial, 8)
        with code.forever():
            place = code.load("i64", dial, 8)
            after = code.add(place, 1)
            wraps = code.compare("icmp eq", after, number)
            code.store(code.select(wraps, code.full("i64", 0), after), dial, 8)
            flag = code.at(code.at(code.target, HEADER_BYTES), code.multiply(place, 8))
            code.leave(code.replace_if(flag, 0, 1))
        return place, flag


def _block(code: Code, place: Value, axis: Sequence[Value], step: int) -> tuple[Value, Value]:
    """The block of a loop with the given number; one shorter than a step is moved back."""
    size, _, _, block, _ = axis
    index = code.multiply(place, block)
    end = code.smaller(code.add(index, block), size)
    return code.smaller(index, code.add(size, -step)), end


def _report(code: Code, wrong: Value) -> None:
    """Say so if any bit is set."""
    with code.when(code.call(f"llvm.vector.reduce.or.v{wrong.lanes}i1", "i1", wrong)):
        code.store(Value("i64", "1"), code.target, 8)


def _cleared(code: Code, table: Value, nbytes: Value) -> Value:
    """Clear a table of whole cache lines; returns how many of its bytes were set."""
    type_ = vector_type(LINE_BYTES, "i8")
    with code.fold(code.binary("udiv", nbytes, LINE_BYTES), [code.full("i64", 0)]) as (line, total):
        at = code.at(table, code.multiply(line, LINE_BYTES))
        marks = code.compare("icmp ne", code.load(type_, at, 1), 0)
        bits = code.value("i64", f"bitcast {marks.type} {marks.name} to i64")
        total[0] = code.add(total[0], code.call("llvm.ctpop.i64", "i64", bits))
        code.store(code.full(type_, 0), at, 1)
    return total[0]


@dataclass(frozen=True, slots=True)
class IndexBits:
    """A kernel over `rank` outer loops around rows, in blocks, of `lanes` indices or more along one axis.

    Each position has a bit in `words` vectors, whose lanes are joined behind a row: as many bits as indices, and all
    are distinct. A vector that is moved back to end with its row sets bits that are set. The parameters are those of
    the axis; size, stride in bytes, block and number of blocks of the rows; size and stride of a row; size and stride
    of each outer loop, innermost first.
    """

    index: IndexKind
    rank: int
    lanes: int
    words: int

    def text(self, name: str) -> str:
        """The module."""
        code, lanes, words = Code(), self.lanes, self.words
        size, count, pitch, block, blocks, length, stride = (code.parameter(n) for n in range(_BITS_OUTER_PLACE))
        outer = [[code.parameter(_BITS_OUTER_PLACE + 2 * loop + n) for n in range(2)] for loop in range(self.rank)]
        type_, limits = vector_type(lanes, "i64"), f".v{lanes}i64"
        sizes, zero, one = code.splat(size, lanes), code.full(type_, 0), code.full(type_, 1)
        steps = code.binary("udiv", code.add(length, lanes - 1), lanes)
        latest = code.add(length, -lanes)
        with places_of_items(code, [blocks, *(size for size, _ in outer)]) as (part, *places):
            address, start = code.source, code.multiply(part, block)
            for place, (_, step) in zip(places, outer, strict=True):
                address = code.at(address, code.multiply(place, step))
            rows = code.binary("sub", code.smaller(code.add(start, block), count), start)
            address = code.at(address, code.multiply(start, pitch))
            with code.fold(rows, [zero, code.full("i64", 0)]) as (row, found):
                at_row = code.at(address, code.multiply(row, pitch))
                with code.fold(steps, [found[0], *[zero] * words]) as (step, marks):
                    here = code.smaller(code.multiply(step, lanes), latest)
                    at = code.at(at_row, code.multiply(here, stride))
                    position = load_indices(code, self.index, at, stride, lanes)
                    if self.index.signed:
                        # Without a sign, a valid negative index is the larger number, and a wrong one stays large.
                        position = code.call(f"llvm.umin{limits}", type_, position, code.add(position, sizes))
                    marks[0] = code.call(f"llvm.umax{limits}", type_, marks[0], position)
                    for word in range(words):
                        bit = code.binary("sub", position, _WORD * word)
                        bits = code.select(code.compare("icmp ult", bit, _WORD), code.binary("shl", one, bit), zero)
                        marks[word + 1] = code.binary("or", marks[word + 1], bits)
                total = code.full("i64", 0)
                for vector in marks[1:]:
                    joined = code.call(f"llvm.vector.reduce.or{limits}", "i64", vector)
                    total = code.add(total, code.call("llvm.ctpop.i64", "i64", joined))
                differs = code.cast("zext", code.compare("icmp ne", total, length), "i64")
                found[:] = marks[0], code.binary("or", found[1], differs)
            _report(code, code.compare("icmp uge", found[0], sizes))
            with code.when(code.compare("icmp ne", found[1], 0)):
                code.store(Value("i64", "1"), code.target, 8)
        return code.text(name)


_BITS_OUTER_PLACE: Final = 7
_WORD: Final = 64
"""Bits of a lane."""


@dataclass(frozen=True, slots=True)
class IndexHash:
    """A kernel over `rank` loops that looks each index up in a hash table of 64-bit words, all 0 at first.

    The parameters are: the name at position 0 of all loops; the table's length, a power of two and larger than the
    number of indices, less 1; 64 less its binary logarithm; parameters of the axes; size, stride in bytes and pitch of
    names of each loop, innermost first. One thread runs all items.
    """

    index: IndexKind
    components: int
    rank: int

    def text(self, name: str) -> str:
        """The module."""
        code = Code()
        base, mask, shift = (code.parameter(place) for place in range(_HASH_AXES_PLACE))
        names = _Names(code, self.index, 1, _HASH_AXES_PLACE, self.components)
        first = _HASH_AXES_PLACE + _AXIS_FIELDS * self.components
        loops = [[code.parameter(first + 3 * loop + field) for field in range(3)] for loop in range(self.rank)]
        table, probe = code.at(code.target, HEADER_BYTES), code.scratch(8)
        with places_of_items(code, [count for count, *_ in loops]) as places:
            address, start = code.source, base
            for place, (_, stride, pitch) in zip(places, loops, strict=True):
                address = code.at(address, code.multiply(place, stride))
                start = code.add(start, code.multiply(place, pitch))
            named, wrong = names.at(address, code.full("i64", 0))
            _report(code, wrong)
            # Words hold names plus 1, which Fibonacci hashing spreads over the table.
            word = code.add(code.add(start, code.extract(named, 0)), 1)
            code.store(code.binary("lshr", code.multiply(word, _GOLDEN_RATIO), shift), probe, 8)
            with code.forever():
                place = code.load("i64", probe, 8)
                at = code.at(table, code.multiply(place, 8))
                found = code.load("i64", at, 8)
                free, same = code.compare("icmp eq", found, 0), code.compare("icmp eq", found, word)
                with code.when(free):
                    code.store(word, at, 8)
                with code.when(same):
                    code.store(Value("i64", "1"), code.target, 8)
                code.leave(code.binary("or", free, same))
                code.store(code.binary("and", code.add(place, 1), mask), probe, 8)
        return code.text(name)


_HASH_AXES_PLACE: Final = 3
_GOLDEN_RATIO: Final = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio, and odd: Knuth, The Art of Computer Programming, volume 3, section 6.4."""
