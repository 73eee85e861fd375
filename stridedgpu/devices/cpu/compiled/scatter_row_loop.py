"""The kernel that scatters elements row by row: `put_along_axis` of rows that hold some vectors, or of short ones.

    indices    2 0 1  1 2 0  0 ...    resolved in whole vectors, across short rows, to offsets on the stack
    rows       0 0 0  1 1 1  2 ...    the place of each element's row, the same for all groups of rows
    indexed    [. . .][. . .][. .     single stores, in the order of the elements

The last vector is moved back to end with its row, and the last group to end with the last row. Elements are then
written twice, in the same order, so that the last one of each place remains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .gather_by_row import OUTER_FIELDS, OUTER_PLACE, Block, GatherByRow, Move
from .gather_indices import load_indices, resolved
from .ir import Code, Value, constant, vector_type

__all__ = ["MOST_SCATTERED", "SCATTERED", "ScatterRows"]

SCATTERED: Final = 8
"""Elements of a step: 64-bit offsets of a vector."""

MOST_SCATTERED: Final = 1024
"""Elements of the largest group: offsets of 8 KB on the stack."""


@dataclass(frozen=True, slots=True)
class ScatterRows(GatherByRow):
    """Elements stored one by one; `adjacent`: the indexed axis is contiguous; `grouped`: a group has several rows.

    A group has `SCATTERED` to `MOST_SCATTERED` elements, in whole steps if it is `grouped`. The kernel's own number is
    the indexed axis' stride in bytes.
    """

    adjacent: bool
    grouped: bool

    @property
    def scatters(self) -> bool:
        """Whether the dense side is read and the indexed side written."""
        return True

    @property
    def words(self) -> str:
        """How elements are scattered."""
        return "stored one by one"

    @property
    def lanes(self) -> int:
        """Elements of a step."""
        return SCATTERED

    @property
    def store_bytes(self) -> int:
        """Bytes of one store."""
        return self.run

    def _mover(self, code: Code, size: Value, own: Value) -> Move:
        nbytes, type_ = self.index.nbytes, vector_type(SCATTERED, "i64")
        places = code.at(Value("ptr", "%parameters"), 8 * (OUTER_PLACE + OUTER_FIELDS * self.rank))
        stride = code.splat(constant(self.run) if self.adjacent else own, SCATTERED)
        sizes, offsets = code.splat(size, SCATTERED), code.scratch(8 * MOST_SCATTERED)

        def move(block: Block) -> None:
            latest = code.add(block.end, -SCATTERED)
            with code.loop(0, block.end, SCATTERED) as place:
                at = code.smaller(place, latest)
                indices = code.at(block.indices, code.multiply(at, nbytes))
                numbers = load_indices(code, self.index, indices, constant(nbytes), SCATTERED)
                chosen = code.multiply(resolved(code, self.index, numbers, sizes), stride)
                if self.grouped:
                    chosen = code.add(chosen, code.load(type_, code.at(places, code.multiply(at, 8)), 8))
                code.store(chosen, code.at(offsets, code.multiply(at, 8)), 8)
            with code.loop(0, block.end, SCATTERED) as place:
                at = code.smaller(place, latest)
                read, chosen = code.at(block.dense, code.multiply(at, self.run)), code.at(offsets, code.multiply(at, 8))
                for lane in range(SCATTERED):
                    value = code.load(f"i{8 * self.run}", code.at(read, lane * self.run), 1)
                    written = code.at(block.indexed, code.load("i64", code.at(chosen, 8 * lane), 8))
                    code.store(value, written, 1)

        return move
