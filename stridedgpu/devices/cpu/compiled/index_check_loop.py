"""Whether all indices lie within their axis: looked at once, in vectors, before anything is written.

Which one does not, and how to say so, is left to NumPy: a program that has a wrong index can wait.
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
"""The parameters: the axis' size; of `b` size, stride, block and number of blocks; then size and stride of each outer
loop, innermost first. Strides are in bytes."""


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """A kernel over `rank` outer loops around `b`; the target is a 64-bit number, set to 1 for a wrong index."""

    index: IndexKind
    rank: int
    lanes: int

    def text(self, name: str) -> str:
        """The module."""
        code, kind = Code(), self.index
        axis = code.parameter(_SIZE)
        size, stride, block, blocks = (code.parameter(_B + n) for n in range(4))
        outer = [[code.parameter(CHECK_OUTER_PLACE + 2 * loop + n) for n in range(2)] for loop in range(self.rank)]
        # From -size to size - 1, shifted to begin at 0: one comparison.
        shift = code.splat(axis, self.lanes) if kind.signed else code.full(vector_type(self.lanes, "i64"), 0)
        valid = code.splat(code.multiply(axis, 2) if kind.signed else axis, self.lanes)
        with places_of_items(code, [blocks, *(count for count, _ in outer)]) as (number, *places):
            start = code.multiply(number, block)
            end = code.smaller(code.add(start, block), size)
            address = code.source
            for place, (_, step) in zip(places, outer, strict=True):
                address = code.at(address, code.multiply(place, step))
            latest = code.add(end, -self.lanes)
            with code.loop(start, end, self.lanes) as step:
                at = code.at(address, code.multiply(code.smaller(step, latest), stride))
                numbers = load_indices(code, kind, at, stride, self.lanes)
                wrong = code.compare("icmp uge", code.binary("add", numbers, shift), valid)
                with code.when(code.call(f"llvm.vector.reduce.or.v{self.lanes}i1", "i1", wrong)):
                    code.store(Value("i64", "1"), code.target, 8)
        return code.text(name)
