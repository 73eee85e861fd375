"""The kernels that check whether all indices are inside their axis, in vectors, before anything is written.

They report only that an index is wrong. NumPy then finds the first wrong index and words the error. One of them writes
the positions, too, in as few bytes as the axis needs:

    indices      7  -1   3 ...    8 bytes each, read here and nowhere else
    positions    7 9 3 ...        1 or 2 bytes each, which the gather reads
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import Final

from .gather_indices import IndexKind, compares_halves, halves, in_order, load_indices
from .ir import LINE_BYTES, Code, Value, vector_type
from .work_grid import places_of_items

__all__ = ["CHECK_OUTER_PLACE", "NARROWED_BYTES", "IndexCheck", "IndexNarrowing"]

_SIZE, _B = 0, 1
CHECK_OUTER_PLACE: Final = 5
"""Parameters before the outer loops: the axis' size; size, stride, block and number of blocks of `b`. Size and stride
of each outer loop follow, innermost first. Strides are in bytes."""


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """A kernel over `rank` outer loops around `b`; a wrong index sets the target, a 64-bit number, to 1."""

    index: IndexKind
    rank: int
    lanes: int

    def text(self, name: str) -> str:
        """The module."""
        code, kind = Code(), self.index
        axis = code.parameter(_SIZE)
        size, stride, block, blocks = (code.parameter(_B + n) for n in range(4))
        outer = [[code.parameter(CHECK_OUTER_PLACE + 2 * loop + n) for n in range(2)] for loop in range(self.rank)]
        # Adding `size` to the range -size .. size - 1 leaves one unsigned comparison.
        shift = code.splat(axis, self.lanes) if kind.signed else code.full(vector_type(self.lanes, "i64"), 0)
        valid = code.splat(code.multiply(axis, 2) if kind.signed else axis, self.lanes)
        with places_of_items(code, [blocks, *(count for count, _ in outer)]) as (number, *places):
            start = code.multiply(number, block)
            end = code.smaller(code.add(start, block), size)
            address = code.source
            for place, (_, step) in zip(places, outer, strict=True):
                address = code.at(address, code.multiply(place, step))
            latest = code.add(end, -self.lanes)
            steps = code.binary("udiv", code.add(code.binary("sub", end, start), self.lanes - 1), self.lanes)
            # What is wrong is collected in a register, and looked at once for each item.
            with code.fold(steps, [code.full(vector_type(self.lanes, "i1"), "false")]) as (step, found):
                here = code.add(start, code.multiply(step, self.lanes))
                at = code.at(address, code.multiply(code.smaller(here, latest), stride))
                numbers = load_indices(code, kind, at, stride, self.lanes)
                wrong = code.compare("icmp uge", code.binary("add", numbers, shift), valid)
                found[0] = code.binary("or", found[0], wrong)
            with code.when(code.call(f"llvm.vector.reduce.or.v{self.lanes}i1", "i1", found[0])):
                code.store(Value("i64", "1"), code.target, 8)
        return code.text(name)


_VECTORS: Final = 4
NARROWED_BYTES: Final = _VECTORS * LINE_BYTES
"""Vectors, and bytes of indices, of one step of the kernel that narrows them."""


@dataclass(frozen=True, slots=True)
class IndexNarrowing:
    """A kernel over contiguous indices, at least a `step`, that writes their positions in `nbytes` each.

    The positions begin a cache line behind the target, a 64-bit number that a wrong index sets to 1; its own position
    is undefined. The parameters are the axis' size, which `nbytes` hold all positions of; indices in all and of a
    block, and the number of blocks.
    """

    index: IndexKind
    nbytes: int

    @property
    def step(self) -> int:
        """Indices of a step."""
        return NARROWED_BYTES // self.index.nbytes

    def text(self, name: str) -> str:
        """The module."""
        code, lanes = Code(), LINE_BYTES // self.index.nbytes
        in_halves = self.index.nbytes == 8 and compares_halves()
        loaded = vector_type(lanes, f"i{8 * self.index.nbytes}")
        element = "i32" if in_halves else f"i{8 * self.index.nbytes}"
        type_, limits = vector_type(lanes, element), f".v{lanes}{element}"
        axis, count, block, blocks = (code.parameter(place) for place in range(4))
        size = code.splat(axis if element == "i64" else code.cast("trunc", axis, element), lanes)
        positions = code.at(code.target, LINE_BYTES)
        with places_of_items(code, [blocks]) as (number,):
            start = code.multiply(number, block)
            end = code.smaller(code.add(start, block), count)
            latest = code.add(end, -self.step)
            steps = code.binary("udiv", code.add(code.binary("sub", end, start), self.step - 1), self.step)
            # The largest number of each lane, and last the bits of upper halves that no valid index has.
            with code.fold(steps, [code.full(type_, 0)] * (_VECTORS + in_halves)) as (step, seen):
                first = code.smaller(code.add(start, code.multiply(step, self.step)), latest)
                for vector in range(_VECTORS):
                    at = code.add(first, vector * lanes)
                    found = code.load(loaded, code.at(code.source, code.multiply(at, self.index.nbytes)), 1)
                    if in_halves:
                        found, upper = halves(code, found)
                        sign = code.binary("ashr", found, 31) if self.index.signed else code.full(type_, 0)
                        seen[-1] = code.binary("or", seen[-1], code.binary("xor", upper, sign))
                    if self.index.signed:
                        # Without a sign, a valid negative index is the larger number, and a wrong one stays large.
                        found = code.call(f"llvm.umin{limits}", type_, found, code.binary("add", found, size))
                    seen[vector] = code.call(f"llvm.umax{limits}", type_, seen[vector], found)
                    if in_halves:
                        found = in_order(code, found)
                    narrow = code.cast("trunc", found, f"i{8 * self.nbytes}")
                    code.store(narrow, code.at(positions, code.multiply(at, self.nbytes)), 1)
            # They are looked at once for each item.
            wrong = [code.compare("icmp uge", vector, size) for vector in seen[:_VECTORS]]
            wrong += [code.compare("icmp ne", upper, 0) for upper in seen[_VECTORS:]]
            any_wrong = reduce(partial(code.binary, "or"), wrong)
            with code.when(code.call(f"llvm.vector.reduce.or.v{lanes}i1", "i1", any_wrong)):
                code.store(Value("i64", "1"), code.target, 8)
        return code.text(name)
