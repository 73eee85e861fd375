"""Transposes: the source is contiguous along `a`, the target along `b`; both are long.

    source                     registers                              target
    16 bytes of as many        a vector holds 16 bytes of 4 lines;    a vector for each of
    lines as a vector   ->     elements are converted, and        ->  `columns` lines
    has elements               transposed within each 16 bytes

A strip's source lines are read to their ends before the next strip begins. There is no scratch memory, and half of the
shuffles are loads, since a vector is loaded in four parts. Each element is read once and written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stridedgpu.devices.cpu.native.elements import Constants, Elements
from stridedgpu.devices.cpu.native.kernel_call import KernelCall, KernelFacts, LoopAxis, LoopMatch
from stridedgpu.devices.cpu.native.registers import LANE_BYTES, LINE_BYTES
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.device_plan import Width
from stridedgpu.values.strides import power_of_two

from .conversion import Affine
from .ir import Code, Value, joined, transposed_lanes, vector_type
from .work_grid import Grid, Item


@dataclass(frozen=True, slots=True)
class Transpose:
    """A kernel over strips of `rows` source lines (along `b`), `columns` elements (along `a`) a step.

    `rows` are the target elements of a vector, and `columns` those of 16 bytes, or fewer where a loop is short. The
    vectors of a `streaming` kernel are whole cache lines; aligned ones are written by non-temporal stores.
    """

    elements: Elements
    rank: int
    rows: int
    columns: int
    streaming: bool = False
    family: ClassVar[str] = "transpose"

    def facts(self, row: LoopAxis) -> KernelFacts:  # noqa: ARG002
        """What `explain` says of the kernel."""
        source, target = self.elements.source_bytes, self.elements.target_bytes
        return KernelFacts(
            f"transpose: tiles of {self.rows} target by {self.columns} source elements",
            Width(self.columns * source, f"tiles are {self.columns} elements of a source line wide"),
            Width(self.rows * target, f"tiles are {self.rows} elements of a target line wide"),
            (self.columns, self.rows),
        )

    def text(self, name: str) -> str:
        """The LLVM module."""
        code, elements, columns = Code(), self.elements, self.columns
        grid = Grid(code, elements, self.rank)
        with grid.items(columns, self.rows) as item, code.steps(*item.b, self.rows) as b:
            affines = [grid.affine(item.place, self.rows, along=False)] * columns
            if elements.constants == Constants.B:
                of_lines, all_lines = grid.affine(b, self.rows, along=True), range(self.rows)
                affines = [
                    of_lines.shuffled([line for line in all_lines[first::columns] for _ in range(columns)])
                    for first in range(columns)
                ]
            source, target = grid.addresses(grid.b, b, item.source, item.target)
            lines = [source + grid.b.source * row for row in range(self.rows)]
            may_stream = code.is_aligned(target, grid.a.target) if self.streaming else None
            for streaming in code.cases(may_stream):
                self._strip(code, grid, item, lines, target, affines, streaming=streaming)
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
        with code.steps(*item.a, columns) as a:
            if elements.constants == Constants.A:
                along = grid.affine(a, columns, along=True)
                affines = [along.shuffled([*range(columns)] * (self.rows // columns))] * columns
            offset = a * elements.source_bytes
            pieces = [(line + offset).load(type_) for line in lines]
            vectors = [elements.convert(joined(pieces[first::columns]), affine) for first, affine in enumerate(affines)]
            written = target + a * grid.a.target
            for number, vector in enumerate(transposed_lanes(vectors, columns)):
                code.store(vector, written + grid.a.target * number, 1, streaming=streaming)


def transposes(match: LoopMatch, word: int) -> bool:
    """Whether the two sides are contiguous along different loops, each at least a lane of words long."""
    target_loop, source_loop = match.target_loop, match.source_loop
    if target_loop is None or source_loop is None or target_loop is source_loop:
        return False
    return min(target_loop.size, source_loop.size) >= LANE_BYTES // word


def match_transpose(match: LoopMatch) -> KernelCall | None:
    """The transpose in strips, if the loops allow it. Elements of 16 bytes are as quick as rows."""
    target_loop, source_loop, nbytes = match.target_loop, match.source_loop, match.target_bytes
    if target_loop is None or source_loop is None or nbytes == LANE_BYTES or not transposes(match, nbytes):
        return None
    if source_loop.source < 0:
        match, source_loop = match.flipped(source_loop)
    moved, limits = match.problem.bytes_moved, policy().relayout
    rows, columns = power_of_two(min(target_loop.size, LINE_BYTES // nbytes)), LANE_BYTES // nbytes
    if not match.problem.conversion.is_bitwise_copy:
        columns = max(columns, min(4, rows, power_of_two(source_loop.size)))  # loads of two elements take longer
    outer = match.besides(target_loop, source_loop)
    aligned = all(loop.target % LINE_BYTES == 0 for loop in (source_loop, *outer))
    streaming = aligned and rows * nbytes == LINE_BYTES and moved >= limits.streamed_bytes
    kernel = Transpose(match.elements(source_loop, target_loop), len(outer), rows, columns, streaming)
    # An item is some strips along whole source lines. The native library converts two cache lines of the narrower side.
    narrow = min(match.source_bytes, nbytes)
    strip = rows if match.problem.conversion.is_bitwise_copy else max(rows, 2 * LINE_BYTES // narrow)
    wanted = max(strip, limits.bytes_of_item(moved) // (2 * nbytes))
    along = min(source_loop.size, wanted // strip)
    return match.call(kernel, outer, (source_loop, columns), (target_loop, rows), extents=(along, wanted // along))
