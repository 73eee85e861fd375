"""Transposes in strips: along the source's lines, 16 bytes of each at a time, without scratch memory.

    source                     registers                              target
    16 bytes of as many        a vector holds 16 bytes of 4 lines;    a vector for each of
    lines as a vector   ->     elements are transposed within     ->  `columns` lines
    has elements               each 16 bytes

A strip's source lines are read to their ends before the next strip begins, and each target line is written in vectors
of a cache line. Half of the shuffles of a square are loads here, since a vector is loaded in four parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from .ir import Code, vector_type
from .shuffles import joined, transposed_lanes
from .transpose import Transpose
from .work_grid import Grid

__all__ = ["TransposeStrips"]


@dataclass(frozen=True, slots=True)
class TransposeStrips(Transpose):
    """A kernel of bitwise copies over strips of `rows` source lines (along `b`), `columns` elements a step.

    `rows` are the elements of a vector, or fewer, and `columns` those of 16 bytes.
    """

    def text(self, name: str) -> str:
        """The LLVM module."""
        code, nbytes = Code(), self.elements.source_bytes
        grid = Grid(code, self.elements, self.rank)
        type_ = vector_type(self.columns, self.elements.source_type)
        with grid.items(self.columns, self.rows) as item, grid.steps(item.b, self.rows) as b:
            source = code.at(item.source, code.multiply(b, grid.b.source))
            target = code.at(item.target, code.multiply(b, grid.b.target))
            lines = [code.at(source, code.multiply(grid.b.source, row)) for row in range(self.rows)]
            with grid.steps(item.a, self.columns) as a:
                pieces = [code.load(type_, code.at(line, code.multiply(a, nbytes)), 1) for line in lines]
                vectors = [joined(code, pieces[first :: self.columns]) for first in range(self.columns)]
                there = code.at(target, code.multiply(a, grid.a.target))
                for number, vector in enumerate(transposed_lanes(code, vectors, self.columns)):
                    code.store(vector, code.at(there, code.multiply(grid.a.target, number)), 1)
        return code.text(name)
