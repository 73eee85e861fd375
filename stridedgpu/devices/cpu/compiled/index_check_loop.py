"""The kernel that checks whether all indices are inside their axis, in vectors, before anything is written.

It reports only that an index is wrong. NumPy then finds the first wrong index and words the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .gather_indices import IndexKind, load_indices
from .ir import Code, Value, vector_type
from .work_grid import places_of_items

__all__ = ["CHECK_OUTER_PLACE", "IndexCheck"]

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
