"""The frame of the kernels that gather or scatter elements row by row: items, groups of rows, and their addresses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .gather_indices import IndexKind
from .ir import Code, Value
from .work_grid import places_of_items

__all__ = ["OUTER_FIELDS", "OUTER_PLACE", "Begin", "Block", "GatherByRow", "Move"]

OUTER_PLACE: Final = 13
"""Parameters before the outer loops: the address of the indices; the indexed axis' size; a number of the kernel's own;
rows from one group to the next, and the first row of the last group; strides in bytes from row to row of the dense, the
indexed and the index side; elements of a group, of a block of it, and the number of blocks; groups of a block, and the
number of blocks. Then the size, and the strides in bytes on the dense, the indexed and the index side, of each outer
loop, innermost first; then what a kernel asks for, such as the place of the row of each element of a group."""

OUTER_FIELDS: Final = 4


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a row, or of a group of short ones: the row on each side, and the first and the last elements.

    `pitch` is the bytes from row to row of the indexed side.
    """

    dense: Value
    indexed: Value
    indices: Value
    pitch: Value
    start: Value
    end: Value


Move = Callable[[Block], None]
"""What gathers or scatters the elements of a block."""

Begin = Callable[[Value, Value], Value]
"""What an item begins with: from the address of its indices and their number to the address that its blocks read."""


@dataclass(frozen=True, slots=True)
class GatherByRow(ABC):
    """A kernel over elements of `run` bytes, with `rank` outer loops."""

    index: IndexKind
    rank: int
    run: int

    @property
    def scatters(self) -> bool:
        """Whether the dense side is read and the indexed side written."""
        return False

    @property
    def streaming(self) -> bool:
        """Whether it writes past the caches: no, which took 0.8 to 2.6 times as long."""
        return False

    @property
    @abstractmethod
    def lanes(self) -> int:
        """Elements of a step."""

    @property
    @abstractmethod
    def store_bytes(self) -> int:
        """Bytes of one store."""

    def text(self, name: str) -> str:
        """The LLVM module."""
        code = Code()
        index, size, own, step, last, *strides, count, block, blocks, many, parts = (
            code.parameter(place) for place in range(OUTER_PLACE)
        )
        outer = [
            [code.parameter(OUTER_PLACE + OUTER_FIELDS * loop + field) for field in range(OUTER_FIELDS)]
            for loop in range(self.rank)
        ]
        move, begin = self._mover(code, size, own), self._beginner(code, size)
        groups = code.add(code.binary("udiv", code.add(last, code.add(step, -1)), step), 1)
        with places_of_items(code, [blocks, parts, *(size for size, *_ in outer)]) as (b, a, *places):
            operands = (code.source, code.target) if self.scatters else (code.target, code.source)
            sides = [*operands, code.pointer(index)]
            for place, (_, *moved) in zip(places, outer, strict=True):
                sides = [code.at(side, code.multiply(place, by)) for side, by in zip(sides, moved, strict=True)]
            sides[2] = begin(sides[2], count)
            start, first = code.multiply(b, block), code.multiply(a, many)
            end = code.smaller(code.add(start, block), count)
            with code.loop(first, code.smaller(code.add(first, many), groups)) as group:
                row = code.smaller(code.multiply(group, step), last)
                dense, indexed, indices = (
                    code.at(side, code.multiply(row, stride)) for side, stride in zip(sides, strides, strict=True)
                )
                move(Block(dense, indexed, indices, strides[1], start, end))
        return code.text(name)

    @property
    @abstractmethod
    def words(self) -> str:
        """How elements are gathered."""

    def _beginner(self, code: Code, size: Value) -> Begin:  # noqa: ARG002 - for kernels that need them
        """What items begin with; by default nothing, and blocks read the indices themselves."""
        return lambda indices, count: indices  # noqa: ARG005 - as every beginning is called

    @abstractmethod
    def _mover(self, code: Code, size: Value, own: Value) -> Move:
        """What gathers the elements of a block, from the indexed axis' size and the kernel's own number."""
