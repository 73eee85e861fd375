"""The kernels of windows: a list of rectangles, that list for windows inside, and rows with a border.

A batch of windows is a list of entries, each a relayout of a rectangle by its own kernel. Threads share the entries.

`BorderedRows` moves windows that reach over the edges of their sources, as bytes that stay unchanged, in one pass:

    filled    f f f f f f f f      rows above and below the source
    filled    f f f f f f f f
    bordered  f f x x x x f f      the fill by whole vectors from both ends, and then the source's row over them
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from stridedgpu.devices.cpu.native.elements import Elements
from stridedgpu.devices.cpu.native.kernel_call import KernelFacts, LoopAxis
from stridedgpu.devices.cpu.native.registers import LINE_BYTES
from stridedgpu.problems.device_plan import Width

from .ir import Code, Value, vector_type
from .work_grid import Grid

ENTRY_FIELDS: Final = 6
"""Fields of an entry: the addresses of source, target, kernel and the kernel's parameters, and the kernel's first item
and the one after its last."""


def entries_text(name: str) -> str:
    """The module: a loop over entries; its parameters are their list."""
    code = Code()
    with code.loop(code.first, code.last) as number:
        entry = code.parameters + number * (8 * ENTRY_FIELDS)
        source, target, kernel, parameters, first, last = entry.words(ENTRY_FIELDS)
        kernel.pointer()(source.pointer(), target.pointer(), parameters.pointer(), first, last)
    return code.text(name)


LIST_FIELDS: Final = 9
"""Parameters of `list_text`: the last row and column where a window inside begins, the bytes from a row, a column and
an image to the next one, and from a window to the next one, the addresses of a kernel and of its parameters, and the
number of its items."""


def list_text(name: str) -> str:
    """The module: a function that makes the entries of windows inside their images, one a window, of even steps.

    Its arguments are the addresses of the origins (rows and columns), of the list, and of the parameters, those of the
    first image's pixel at row and column 0 and of the first window's element that entries begin with, and the number
    of windows. The list has a word before the entries that is 0 afterwards if every window is inside.
    """
    code = Code("ptr origins", "ptr list", "ptr parameters", "i64 pixel", "i64 written", "i64 count")
    fields = code.parameters.words(LIST_FIELDS)
    last_row, last_column, down, right, next_image, next_window, kernel, arguments, items = fields
    place = code.argument("origins")
    zero = code.constant(0)
    with code.fold(code.argument("count"), [zero]) as (number, carried):
        y, x = (place + number * 16).words(2)
        # Unsigned, rows and columns before the first one are far behind the last one.
        beyond = y.compare("icmp ugt", last_row) | x.compare("icmp ugt", last_column)
        carried[0] = beyond.select(1, carried[0])
        offset = y * down + x * right + number * next_image
        source = code.argument("pixel") + offset
        target = code.argument("written") + number * next_window
        entry = code.argument("list") + (number * (8 * ENTRY_FIELDS) + 8)
        for field, value in enumerate((source, target, kernel, arguments, zero, items)):
            code.store(value, entry + 8 * field, 8)
    code.store(carried[0], code.argument("list"), 8)
    return code.text(name)


@dataclass(frozen=True, slots=True)
class BorderedRows:
    """A kernel over rows of at least `fill_lanes` bytes, of which at least `lanes` are of the source.

    Loop `b` runs along the source's bytes, `a` over all rows of a window. `dense`: target rows follow one another.
    `merged`: bytes of a vector that holds a dense row, or 0: the source's bytes are loaded into the fill by a mask, and
    the next row overwrites what is too much.

    Parameters behind the outer loops: the first row of the source and the one behind its last, the bytes of the border
    before and behind a row, and the address of `LINE_BYTES` of the fill; for channels of various fills one after the
    other.
    """

    elements: Elements
    rank: int
    lanes: int
    fill_lanes: int
    dense: bool
    merged: int = 0
    family: ClassVar[str] = "bordered_rows"
    streaming: ClassVar[bool] = False

    def facts(self, row: LoopAxis) -> KernelFacts:
        """What `explain` says of the kernel."""
        width = Width(self.lanes, f"rows are {row.size} B of a source")
        return KernelFacts(f"rows of {row.size} B with a border", width, width, (1, row.size))

    def text(self, name: str) -> str:
        """The module."""
        code = Code()
        grid = Grid(code, self.elements, self.rank)
        above, below, before, behind, fills = code.take(5)
        length = before + grid.b.size + behind
        last = length - self.fill_lanes
        with grid.items(1, self.lanes) as item:
            begin, end = item.a
            target = item.target - before
            pattern = fills.pointer() + item.place * LINE_BYTES
            fill = pattern.load(vector_type(self.fill_lanes, "i8"))
            for rows in ((begin, end.at_most(above)), (begin.at_least(below), end)):
                self._fill(fill, target, rows, (length, grid.a.target))
            first, stop = begin.at_least(above), end.at_most(below)
            if self.merged:
                first = self._merge(code, grid, (item.source, target), (first, stop), (before, length), pattern)
            with code.loop(first, stop) as a:
                row = target + a * grid.a.target
                with code.loop(0, before, self.fill_lanes) as b:
                    code.store(fill, row + b.at_most(last))
                with code.loop(0, behind, self.fill_lanes) as b:
                    code.store(fill, row + (last - b).at_least(0))
                source, middle = item.source + a * grid.a.source, row + before
                with code.steps(*item.b, self.lanes) as b:
                    here = source + b
                    code.store(here.load(vector_type(self.lanes, "i8")), middle + b)
        return code.text(name)

    def _merge(
        self,
        code: Code,
        grid: Grid,
        sides: tuple[Value, Value],
        rows: tuple[Value, Value],
        sizes: tuple[Value, Value],
        pattern: Value,
    ) -> Value:
        """Write rows as a vector each, whose excess the next row overwrites; returns the first one that is left."""
        (source, target), (first, stop), (before, length) = sides, rows, sizes
        type_ = vector_type(self.merged, "i8")
        fill = pattern.load(type_)
        numbers = code.lanes("i8", range(self.merged))
        begin, count = (value.cast("trunc", "i8").splat(self.merged) for value in (before, grid.b.size))
        inside = (numbers - begin).compare("icmp ult", count)
        exact = length == self.merged
        left = first.at_least(exact.select(stop, stop - 1))
        with code.loop(first, left) as a:
            read = source + (a * grid.a.source - before)
            name = f"llvm.masked.load.v{self.merged}i8.p0"
            row = code.call(name, type_, read, code.constant(1, "i32"), inside, fill)
            code.store(row, target + a * grid.a.target)
        return left

    def _fill(self, fill: Value, target: Value, rows: tuple[Value, Value], steps: tuple[Value, Value]) -> None:
        """Fill whole rows, from the first one to the one behind them; `steps` are their length and their distance."""
        (first, stop), (length, pitch), code = rows, steps, fill.code
        if self.dense:
            start = target + first * pitch
            whole = (stop - first) * length
            with code.steps(0, whole, self.fill_lanes) as b:
                code.store(fill, start + b)
            return
        with code.loop(first, stop) as a, code.steps(0, length, self.fill_lanes) as b:
            code.store(fill, target + (a * pitch + b))
