"""Tiled transpose: the source is contiguous along `a`, the target along `b`; both are long.

    source                 registers                  scratch              target
    `rows` lines           16-byte lanes of as many   one line for each    `columns` lines,
    of `columns`    ->     rows transpose among   ->  column of the   ->   each a cache line
    elements               themselves                 tile

A tile is a cache line wide on both sides, or more, wherever the tensor is: whole lines are read and written, so that
it does not matter when rows that lie a power of two apart drive each other out of the cache. Each element is read once,
stored once into scratch memory of at most 8 KB, and written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .llvm_code import Code, Value, vector_type
from .llvm_conversion import Affine
from .llvm_loops import Constants, Elements, Grid

__all__ = ["LANE_BYTES", "Transpose"]

_AHEAD: Final = 256
"""Bytes along a source line from what is read to what is asked for: no processor follows 64 lines on its own."""

LANE_BYTES: Final = 16
"""The unit that rows are transposed in: what every vector instruction set shuffles within."""


@dataclass(frozen=True, slots=True)
class Transpose:
    """A kernel over tiles of `rows` (along `b`) by `columns` (along `a`) elements.

    Both are multiples of the target elements in a lane. A `streaming` kernel, whose lines are whole cache lines, writes
    those that are aligned past the caches.
    """

    elements: Elements
    rank: int
    rows: int
    columns: int
    streaming: bool = False

    def text(self, name: str) -> str:
        """The module."""
        code, elements = Code(), self.elements
        grid = Grid(code, elements, self.rank)
        scratch = code.scratch(self.rows * self.columns * elements.target_bytes)
        with grid.items(self.columns, self.rows) as item:
            fixed = grid.affine(item.place, self.columns, along=False)
            start = item.target if self.streaming else None
            with grid.steps(item.b, self.rows, start) as b, grid.steps(item.a, self.columns) as a:
                constants = fixed
                if elements.constants == Constants.A:
                    constants = grid.affine(a, self.columns, along=True)
                source = code.at(item.source, code.multiply(a, grid.a.source))
                self._read(code, grid, code.at(source, code.multiply(b, grid.b.source)), b, constants, scratch)
                target = code.at(item.target, code.multiply(b, grid.b.target))
                self._write(code, grid, code.at(target, code.multiply(a, grid.a.target)), scratch)
        return code.text(name)

    def _read(self, code: Code, grid: Grid, source: Value, b: Value, constants: Affine, scratch: Value) -> None:
        """Source lines, converted and transposed lane by lane, into scratch memory."""
        elements, line = self.elements, self.rows * self.elements.target_bytes
        lane = LANE_BYTES // elements.target_bytes
        with code.loop(0, self.rows, lane) as row:
            lines = []
            address = code.at(source, code.multiply(row, grid.b.source))
            for number in range(lane):
                vector = code.load(vector_type(self.columns, elements.source_type), address, 1)
                code.prefetch(code.at(address, _AHEAD))
                affine = constants
                if elements.constants == Constants.B:
                    affine = grid.affine(code.add(code.add(b, row), number), self.columns, along=False)
                lines.append(elements.convert(code, vector, affine))
                address = code.at(address, grid.b.source)
            start = code.at(scratch, code.multiply(row, elements.target_bytes))
            for number, vector in enumerate(_transposed_lanes(code, lines, lane)):
                for group in range(self.columns // lane):
                    part = code.shuffle(vector, None, range(group * lane, (group + 1) * lane))
                    code.store(part, code.at(start, (group * lane + number) * line), min(line, LANE_BYTES))

    def _write(self, code: Code, grid: Grid, target: Value, scratch: Value) -> None:
        """Scratch lines to the target."""
        if not self.streaming:
            self._copy_lines(code, grid, target, scratch, streaming=False)
            return
        aligned = code.is_aligned(target, grid.a.target)
        with code.when(aligned):
            self._copy_lines(code, grid, target, scratch, streaming=True)
        with code.when(code.negated(aligned)):
            self._copy_lines(code, grid, target, scratch, streaming=False)

    def _copy_lines(self, code: Code, grid: Grid, target: Value, scratch: Value, *, streaming: bool) -> None:
        line = self.rows * self.elements.target_bytes
        word = min(self.elements.target_bytes, 8)
        type_ = vector_type(line // word, f"i{8 * word}")
        together = min(4, self.columns)
        with code.loop(0, self.columns, together) as column:
            for number in range(together):
                at = code.add(column, number)
                vector = code.load(type_, code.at(scratch, code.multiply(at, line)), LANE_BYTES)
                code.store(vector, code.at(target, code.multiply(at, grid.a.target)), 1, streaming=streaming)


def _transposed_lanes(code: Code, lines: list[Value], lane: int) -> list[Value]:
    """`lane` vectors, in each 16 bytes of which the elements are transposed: row r, element c to row c, element r.

    Rows half the height apart are riffled, as often as halving takes: log2(lane) shuffles of a vector.
    """
    half = lane // 2
    width = lines[0].lanes
    low = [start + at // 2 + width * (at % 2) for start in range(0, width, lane) for at in range(lane)]
    high = [place + half for place in low]
    for _ in range(lane.bit_length() - 1):
        lines = [
            code.shuffle(lines[number], lines[number + half], mask) for number in range(half) for mask in (low, high)
        ]
    return lines
