"""Transposes: the source is contiguous along `a`, the target along `b`; both are long. In strips, or in tiles.

    strips    source                     registers                              target
              16 bytes of as many        a vector holds 16 bytes of 4 lines;    a vector for each of
              lines as a vector   ->     elements are converted, and        ->  `columns` lines
              has elements               transposed within each 16 bytes

    tiles     source                 registers                  scratch              target
              `rows` lines           16-byte lanes: as many     one line for each    `columns` lines,
              of `columns`    ->     rows as a lane has      -> column of the   ->   each a cache line
              elements               elements are transposed    tile

A strip's source lines are read to their ends before the next strip begins. It needs no scratch memory, and half of its
shuffles are loads, since a vector is loaded in four parts.

Tiles are for elements of 3, 5, 6 or 16 bytes, whose bits move unchanged. A tile is at least a cache line wide on both
sides, at any address. It reads and writes whole lines: cache conflicts between rows a power of two apart cost nothing.
Each element is read once, stored once to scratch memory of at most 16 KB, and written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.device_plan import Width

from .conversion import Affine
from .ir import LANE_BYTES, LINE_BYTES, Code, Value, vector_type
from .kernel_call import KernelCall, LoopAxis, LoopMatch, power_of_two
from .shuffles import joined, odd_unit, packed, shuffled_bytes, transposed_lanes, unpacked, word_bytes
from .work_grid import Constants, Elements, Grid, Item

__all__ = ["Transpose", "TransposeStrips", "match_odd_transpose", "match_transpose", "transposes"]


@dataclass(frozen=True, slots=True)
class Transpose:
    """A kernel over tiles of `rows` (along `b`) by `columns` (along `a`) elements, multiples of those in a lane."""

    elements: Elements
    rank: int
    rows: int
    columns: int
    streaming: bool = False
    family: ClassVar[str] = "transpose"

    def describe(self, row: LoopAxis) -> str:  # noqa: ARG002
        """The kernel in plain words."""
        return f"transpose: tiles of {self.rows} target by {self.columns} source elements"

    def widths(self, row: LoopAxis) -> tuple[Width, Width]:  # noqa: ARG002
        """The widths of a load and of a store, and the reason they are not wider."""
        source, target = self.elements.source_bytes, self.elements.target_bytes
        return (
            Width(self.columns * source, f"tiles are {self.columns} elements of a source line wide"),
            Width(self.rows * target, f"tiles are {self.rows} elements of a target line wide"),
        )

    def steps(self, row: LoopAxis) -> tuple[int, int]:  # noqa: ARG002
        """Elements of `a` and `b` in a step."""
        return self.columns, self.rows

    def text(self, name: str) -> str:
        """The LLVM module."""
        code = Code()
        grid = Grid(code, self.elements, self.rank)
        scratch = code.scratch(self.columns * self._line)
        items = grid.items(self.columns, self.rows)
        with items as item, grid.steps(item.b, self.rows) as b, grid.steps(item.a, self.columns) as a:
            source, target = grid.addresses(grid.b, b, *grid.addresses(grid.a, a, item.source, item.target))
            self._read(code, grid, source, scratch)
            self._write(code, grid, target, scratch)
        return code.text(name)

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

    def _read(self, code: Code, grid: Grid, source: Value, scratch: Value) -> None:
        """Load source lines, transpose them lane by lane, and store them to scratch memory."""
        line, lane = self._line, LANE_BYTES // self._word
        with code.loop(0, self.rows, lane) as row:
            address, lines = code.at(source, code.multiply(row, grid.b.source)), []
            for _ in range(lane):
                if self._is_odd:
                    lines.append(unpacked(code, address, self.columns, self.elements.source_bytes))
                else:
                    lines.append(code.load(vector_type(self.columns, self.elements.source_type), address, 1))
                for line_start in range(0, self.columns * self.elements.source_bytes, LINE_BYTES):
                    code.prefetch(code.at(address, policy().relayout.line_ahead_bytes + line_start))
                address = code.at(address, grid.b.source)
            start = code.at(scratch, code.multiply(row, self._word))
            for number, vector in enumerate(transposed_lanes(code, lines, lane)):
                for group in range(self.columns // lane):
                    part = code.shuffle(vector, None, range(group * lane, (group + 1) * lane))
                    code.store(part, code.at(start, (group * lane + number) * line), min(line, LANE_BYTES))

    def _write(self, code: Code, grid: Grid, target: Value, scratch: Value) -> None:
        """Copy scratch lines to the target, and prefetch those of the next tile, which the hardware does not follow."""
        together = min(4, self.columns)
        with code.loop(0, self.columns, together) as column:
            for number in range(together):
                at = code.add(column, number)
                address = code.at(target, code.multiply(at, grid.a.target))
                ahead = code.at(address, code.multiply(grid.a.target, self.columns))
                for part in self._line_parts(code, code.at(scratch, code.multiply(at, self._line))):
                    for start in range(0, part.nbytes, LINE_BYTES):
                        code.prefetch(code.at(ahead, start), written=True)
                    ahead = code.at(ahead, part.nbytes)
                    code.store(part, address, 1)
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


@dataclass(frozen=True, slots=True)
class TransposeStrips(Transpose):
    """A kernel over strips of `rows` source lines (along `b`), `columns` elements a step.

    `rows` are the target elements of a vector, and `columns` those of 16 bytes, or fewer where a loop is short. The
    vectors of a `streaming` kernel are whole cache lines; aligned ones are written by non-temporal stores.
    """

    def text(self, name: str) -> str:
        """The LLVM module."""
        code, elements, columns = Code(), self.elements, self.columns
        grid = Grid(code, elements, self.rank)
        with grid.items(columns, self.rows) as item, grid.steps(item.b, self.rows) as b:
            affines = [grid.affine(item.place, self.rows, along=False)] * columns
            if elements.constants == Constants.B:
                of_lines, all_lines = grid.affine(b, self.rows, along=True), range(self.rows)
                affines = [
                    of_lines.shuffled(code, [line for line in all_lines[first::columns] for _ in range(columns)])
                    for first in range(columns)
                ]
            source, target = grid.addresses(grid.b, b, item.source, item.target)
            lines = [code.at(source, code.multiply(grid.b.source, row)) for row in range(self.rows)]
            if self.streaming:
                in_lines = code.is_aligned(target, grid.a.target)
                with code.when(in_lines):
                    self._strip(code, grid, item, lines, target, affines, streaming=True)
                with code.when(code.negated(in_lines)):
                    self._strip(code, grid, item, lines, target, affines, streaming=False)
            else:
                self._strip(code, grid, item, lines, target, affines, streaming=False)
        return code.text(name)

    def _strip(
        self,
        code: Code,
        grid: Grid,
        item: Item,
        lines: list[Value],
        target: Value,
        affines: list[Affine],
        *,
        streaming: bool,
    ) -> None:
        """Move a strip, whose source `lines` begin at these addresses, and its target lines at `target`."""
        elements, columns = self.elements, self.columns
        type_ = vector_type(columns, elements.source_type)
        with grid.steps(item.a, columns) as a:
            if elements.constants == Constants.A:
                along = grid.affine(a, columns, along=True)
                affines = [along.shuffled(code, [*range(columns)] * (self.rows // columns))] * columns
            offset = code.multiply(a, elements.source_bytes)
            pieces = [code.load(type_, code.at(line, offset), 1) for line in lines]
            vectors = [
                elements.convert(code, joined(code, pieces[first::columns]), affine)
                for first, affine in enumerate(affines)
            ]
            written = code.at(target, code.multiply(a, grid.a.target))
            for number, vector in enumerate(transposed_lanes(code, vectors, columns)):
                code.store(vector, code.at(written, code.multiply(grid.a.target, number)), 1, streaming=streaming)


_MOST_REPEATED: Final = 1.25
"""Elements of steps along a loop for each of its own above which steps are half as long: the last one is moved back."""


def _repeats(loop: LoopAxis, step: int) -> bool:
    """Whether steps along a loop move many of its elements twice."""
    return -(-loop.size // step) * step > _MOST_REPEATED * loop.size


def transposes(match: LoopMatch, word: int) -> bool:
    """Whether the two sides are contiguous along different loops, each at least a lane of words long."""
    target_loop, source_loop = match.target_loop, match.source_loop
    if target_loop is None or source_loop is None or target_loop is source_loop:
        return False
    return min(target_loop.size, source_loop.size) >= LANE_BYTES // word


def match_transpose(match: LoopMatch) -> KernelCall | None:
    """The transpose in strips, or in tiles for elements of 16 bytes, if the loops allow it."""
    target_loop, source_loop, nbytes = match.target_loop, match.source_loop, match.target_bytes
    if target_loop is None or source_loop is None or not transposes(match, nbytes):
        return None
    if source_loop.source < 0:
        match, source_loop = match.flipped(source_loop)
    if nbytes == LANE_BYTES:
        rows, columns = (power_of_two(min(loop.size, LINE_BYTES // nbytes)) for loop in (target_loop, source_loop))
        return _tiles(match, source_loop, target_loop, (rows, columns))
    return _strips(match, source_loop, target_loop)


def match_odd_transpose(match: LoopMatch) -> KernelCall | None:
    """The tiled transpose of pixels of 3, 5, 6 or another odd number of bytes, moved as units."""
    target_loop, source_loop, nbytes = match.target_loop, match.source_loop, match.source_bytes
    word = word_bytes(nbytes)
    if word == nbytes or target_loop is None or source_loop is None or not transposes(match, word):
        return None
    if min(target_loop.size, source_loop.size) < policy().relayout.least_pixels:
        return None
    if source_loop.source < 0:
        match, source_loop = match.flipped(source_loop)
    unit = odd_unit(nbytes)
    rows = power_of_two(min(target_loop.size, LINE_BYTES))
    columns = power_of_two(min(source_loop.size, max(LANE_BYTES // word, shuffled_bytes(unit) // unit)))
    return _tiles(match, source_loop, target_loop, (rows, columns))


def _strips(match: LoopMatch, source_loop: LoopAxis, target_loop: LoopAxis) -> KernelCall:
    """The transpose of a source and a target loop in strips."""
    nbytes, moved, limits = match.target_bytes, match.problem.bytes_moved, policy().relayout
    rows, columns = power_of_two(min(target_loop.size, LINE_BYTES // nbytes)), LANE_BYTES // nbytes
    if not match.problem.conversion.is_bitwise_copy:
        columns = max(columns, min(4, rows, power_of_two(source_loop.size)))  # loads of two elements take longer
    while columns > 4 and _repeats(source_loop, columns):
        columns //= 2
    if rows > columns and _repeats(target_loop, rows):
        rows //= 2
    outer = match.besides(target_loop, source_loop)
    aligned = all(loop.target % LINE_BYTES == 0 for loop in (source_loop, *outer))
    streaming = aligned and rows * nbytes == LINE_BYTES and moved >= limits.streamed_bytes
    kernel = TransposeStrips(match.elements(source_loop, target_loop), len(outer), rows, columns, streaming)
    # An item is some strips along whole source lines.
    wanted = max(rows, limits.bytes_of_item(moved) // (2 * nbytes))
    along = min(source_loop.size, wanted // rows)
    return match.call(kernel, outer, (source_loop, columns), (target_loop, rows), extents=(along, wanted // along))


def _tiles(match: LoopMatch, source_loop: LoopAxis, target_loop: LoopAxis, tile: tuple[int, int]) -> KernelCall:
    """The tiled transpose of a source and a target loop in tiles of some rows and columns."""
    (rows, columns), extent = tile, policy().relayout.tile_bytes
    outer = match.besides(target_loop, source_loop)
    kernel = Transpose(match.elements(source_loop, target_loop), len(outer), rows, columns)
    extents = extent // match.source_bytes, extent // 2 // match.target_bytes
    return match.call(kernel, outer, (source_loop, columns), (target_loop, rows), extents=extents)
