"""Tiled transpose: the source is contiguous along `a`, the target along `b`; both are long.

    source                 registers                  scratch              target
    `rows` lines           16-byte lanes: as many     one line for each    `columns` lines,
    of `columns`    ->     rows as a lane has      -> column of the   ->   each a cache line
    elements               elements are transposed    tile

A tile is at least a cache line wide on both sides, at any address. It reads and writes whole lines, so cache conflicts
between rows a power of two apart cost nothing. Each element is read once, stored once to scratch memory of at
most 16 KB, and written once.

Elements of 1, 4 and 8 bytes need no scratch memory: a square tile, one vector a line, is transposed in registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stridedgpu.devices.cpu.policy import policy

from .conversion import Affine
from .ir import LINE_BYTES, Code, Value, vector_type
from .shuffles import packed, transposed_lanes, unpacked, word_bytes
from .work_grid import Constants, Elements, Grid

__all__ = ["LANE_BYTES", "Transpose"]

LANE_BYTES: Final = 16
"""The unit of the transpose: every vector instruction set shuffles within 16 bytes."""


@dataclass(frozen=True, slots=True)
class Transpose:
    """A kernel over tiles of `rows` (along `b`) by `columns` (along `a`) elements.

    Both are multiples of the target elements in a lane. The lines of a `streaming` kernel are whole cache lines;
    aligned ones are written by non-temporal stores. `in_registers`: the tile needs no scratch memory, and
    is square but in strips.
    """

    elements: Elements
    rank: int
    rows: int
    columns: int
    streaming: bool = False
    in_registers: bool = False

    def text(self, name: str) -> str:
        """The LLVM module."""
        code, elements = Code(), self.elements
        grid = Grid(code, elements, self.rank)
        if self.in_registers:
            self._squares(code, grid)
            return code.text(name)
        scratch = code.scratch(self.columns * self._line)
        with grid.items(self.columns, self.rows) as item:
            fixed = grid.affine(item.place, self.columns, along=False)
            start = item.target if self.streaming else None
            places = grid.places(item.b, self.rows, start, elements.target_bytes)
            with places as (b, apart), grid.steps(item.a, self.columns) as a:
                constants = fixed
                if elements.constants == Constants.A:
                    constants = grid.affine(a, self.columns, along=True)
                source = code.at(item.source, code.multiply(a, grid.a.source))
                self._read(code, grid, code.at(source, code.multiply(b, grid.b.source)), b, constants, scratch)
                target = code.at(item.target, code.multiply(b, grid.b.target))
                self._write(code, grid, code.at(target, code.multiply(a, grid.a.target)), scratch, apart)
        return code.text(name)

    def _squares(self, code: Code, grid: Grid) -> None:
        """Transpose squares in registers along the target's lines, so that stores follow one another."""
        with grid.items(self.columns, self.rows) as item, grid.steps(item.a, self.columns) as a:
            constants = grid.affine(item.place, self.columns, along=False)
            if self.elements.constants == Constants.A:
                constants = grid.affine(a, self.columns, along=True)
            source = code.at(item.source, code.multiply(a, grid.a.source))
            target = code.at(item.target, code.multiply(a, grid.a.target))
            steps = [code.multiply(grid.a.target, column) for column in range(self.columns)]
            with grid.steps(item.b, self.rows) as b:
                lines = self._lines(
                    code, grid, code.at(source, code.multiply(b, grid.b.source)), b, constants, self.rows
                )
                start = code.at(target, code.multiply(b, grid.b.target))
                for line, step in zip(transposed_lanes(code, lines, self.rows), steps, strict=True):
                    code.store(line, code.at(start, step), 1)

    @property
    def _word(self) -> int:
        """Bytes of a target element in scratch memory."""
        return word_bytes(self.elements.target_bytes)

    @property
    def _line(self) -> int:
        """Bytes of a line of scratch memory."""
        return self.rows * self._word

    @property
    def _is_odd(self) -> bool:
        """True if an element takes more bytes in a register than in memory."""
        return self._word != self.elements.target_bytes

    def _read(self, code: Code, grid: Grid, source: Value, b: Value, constants: Affine, scratch: Value) -> None:
        """Load source lines, convert and transpose them lane by lane, and store them to scratch memory."""
        line = self._line
        lane = LANE_BYTES // self._word
        with code.loop(0, self.rows, lane) as row:
            address = code.at(source, code.multiply(row, grid.b.source))
            lines = self._lines(code, grid, address, code.add(b, row), constants, lane)
            start = code.at(scratch, code.multiply(row, self._word))
            for number, vector in enumerate(transposed_lanes(code, lines, lane)):
                for group in range(self.columns // lane):
                    part = code.shuffle(vector, None, range(group * lane, (group + 1) * lane))
                    code.store(part, code.at(start, (group * lane + number) * line), min(line, LANE_BYTES))

    def _lines(self, code: Code, grid: Grid, address: Value, b: Value, constants: Affine, count: int) -> list[Value]:
        """Load and convert `count` source lines, the first at an address and the place `b`."""
        elements, lines = self.elements, []
        for number in range(count):
            if self._is_odd:
                vector = unpacked(code, address, self.columns, elements.source_bytes)
            else:
                vector = code.load(vector_type(self.columns, elements.source_type), address, 1)
            if not self.in_registers:
                for line_start in range(0, self.columns * elements.source_bytes, LINE_BYTES):
                    code.prefetch(code.at(address, policy().relayout.line_ahead_bytes + line_start))
            affine = constants
            if elements.constants == Constants.B:
                affine = grid.affine(code.add(b, number), self.columns, along=False)
            lines.append(elements.convert(code, vector, affine))
            address = code.at(address, grid.b.source)
        return lines

    def _write(self, code: Code, grid: Grid, target: Value, scratch: Value, apart: Value | None) -> None:
        """Copy scratch lines to the target."""
        if apart is None:
            self._copy_lines(code, grid, target, scratch, streaming=False)
            return
        streaming = code.both(apart, code.is_aligned(target, grid.a.target))
        with code.when(streaming):
            self._copy_lines(code, grid, target, scratch, streaming=True)
        with code.when(code.negated(streaming)):
            self._copy_lines(code, grid, target, scratch, streaming=False)

    def _copy_lines(self, code: Code, grid: Grid, target: Value, scratch: Value, *, streaming: bool) -> None:
        together = min(4, self.columns)
        with code.loop(0, self.columns, together) as column:
            for number in range(together):
                at = code.add(column, number)
                address = code.at(target, code.multiply(at, grid.a.target))
                # The next tile's lines are this many further, and too many for the hardware to follow.
                ahead = code.at(address, code.multiply(grid.a.target, self.columns))
                for part in self._line_parts(code, code.at(scratch, code.multiply(at, self._line))):
                    for start in range(0, 0 if streaming else part.nbytes, LINE_BYTES):
                        code.prefetch(code.at(ahead, start), written=True)
                    ahead = code.at(ahead, part.nbytes)
                    code.store(part, address, 1, streaming=streaming)
                    address = code.at(address, part.nbytes)

    def _line_parts(self, code: Code, start: Value) -> list[Value]:
        """Load a scratch line in the form it is stored: one vector, or several consecutive ones."""
        if not self._is_odd:
            unit = min(self._word, 8)
            return [code.load(vector_type(self._line // unit, f"i{8 * unit}"), start, LANE_BYTES)]
        together = min(self.rows, self.columns)
        type_ = vector_type(together, self.elements.target_type)
        return [
            part
            for first in range(0, self.rows, together)
            for part in packed(
                code, code.load(type_, code.at(start, first * self._word), LANE_BYTES), self.elements.target_bytes
            )
        ]
