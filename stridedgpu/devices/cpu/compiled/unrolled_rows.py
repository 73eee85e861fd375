"""Rows of some cache lines whose bits move unchanged, each in straight code.

    source   | x x x x | x x x x | x x |   ...   | y y y y | y y y y | y y |       rows anywhere
             |         |    |----|-----|
    target   | x x x x | x x x x | x x | y y y y | y y y y | y y | ...             mostly one after another
                            |---------|
                            the last vector ends with the row

A row is one vector after another, each stored as soon as it is loaded; the last one is moved back to end with the row,
and repeats some of its bytes. The addresses of the next row are carried along, and lines that are written soon are
prefetched. Each byte is read once and written once. `b` is a row in bytes, `a` runs over rows. Where the source's next
row belongs elsewhere in the target, a step moves both: source pages are left half as often.
"""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.devices.cpu.policy import policy

from .ir import LINE_BYTES, Code, constant, vector_type
from .work_grid import Elements, Grid

__all__ = ["UnrolledRows"]


@dataclass(frozen=True, slots=True)
class UnrolledRows:
    """A kernel over rows that have `lines` cache lines, the last one perhaps in part. `elements` are bytes.

    A step moves as many rows as lie `beside` one another, whose distances are those of the small loop.
    """

    elements: Elements
    rank: int
    lines: int
    beside: int = 1

    @property
    def streaming(self) -> bool:
        """No row is written by non-temporal stores."""
        return False

    def text(self, name: str) -> str:
        """The module."""
        code = Code()
        grid = Grid(code, self.elements, self.rank)
        line = vector_type(LINE_BYTES, "i8")
        starts = [constant(place * LINE_BYTES) for place in range(self.lines - 1)]
        starts.append(code.add(grid.b.size, -LINE_BYTES))
        rows_ahead = -(-policy().relayout.written_row_ahead_bytes // (self.lines * LINE_BYTES))
        ahead = code.multiply(grid.a.target, rows_ahead)
        with grid.items(1, LINE_BYTES) as item:
            first, end = item.a
            rows = [
                code.at(item.source, code.multiply(first, grid.a.source)),
                code.at(item.target, code.multiply(first, grid.a.target)),
            ]
            with code.fold(code.binary("sub", end, first), rows) as (_, carried):
                source, target = carried
                for number in range(self.beside):
                    row = code.at(source, code.multiply(grid.small_source, number))
                    written = code.at(target, code.multiply(grid.small_target, number))
                    for start in starts:
                        there = code.at(written, start)
                        code.store(code.load(line, code.at(row, start), 1), there, 1)
                        code.prefetch(code.at(there, ahead), written=True)
                carried[:] = code.at(source, grid.a.source), code.at(target, grid.a.target)
        return code.text(name)
