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

from stridedgpu.problems.device_plan import Width

from .ir import LINE_BYTES, Code, Value, constant, vector_type
from .kernel_call import KernelFacts, LoopAxis
from .work_grid import OUTER_FIELDS, OUTER_PLACE, Elements, Grid

__all__ = ["ENTRY_FIELDS", "LIST_FIELDS", "BorderedRows", "entries_text", "list_text"]

ENTRY_FIELDS: Final = 6
"""Fields of an entry: the addresses of source, target, kernel and the kernel's parameters, and the kernel's first item
and the one after its last."""


def entries_text(name: str) -> str:
    """The module: a loop over entries; its parameters are their list."""
    code = Code()
    with code.loop(code.first, code.last) as number:
        entry = code.at(Value("ptr", "%parameters"), code.multiply(number, 8 * ENTRY_FIELDS))
        source, target, kernel, parameters, first, last = _fields(code, entry, ENTRY_FIELDS)
        code.run(code.pointer(kernel), *map(code.pointer, (source, target, parameters)), first, last)
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
    fields = _fields(code, code.argument("parameters"), LIST_FIELDS)
    last_row, last_column, down, right, next_image, next_window, kernel, arguments, items = fields
    place = code.argument("origins")
    zero = code.full("i64", 0)
    with code.fold(code.argument("count"), [zero]) as (number, carried):
        y, x = _fields(code, code.at(place, code.multiply(number, 16)), 2)
        # Unsigned, rows and columns before the first one are far behind the last one.
        beyond = code.binary("or", code.compare("icmp ugt", y, last_row), code.compare("icmp ugt", x, last_column))
        carried[0] = code.select(beyond, code.full("i64", 1), carried[0])
        offset = code.add(code.add(code.multiply(y, down), code.multiply(x, right)), code.multiply(number, next_image))
        source = code.add(code.argument("pixel"), offset)
        target = code.add(code.argument("written"), code.multiply(number, next_window))
        entry = code.at(code.argument("list"), code.add(code.multiply(number, 8 * ENTRY_FIELDS), 8))
        for field, value in enumerate((source, target, kernel, arguments, zero, items)):
            code.store(value, code.at(entry, 8 * field), 8)
    code.store(carried[0], code.argument("list"), 8)
    return code.text(name)


def _fields(code: Code, address: Value, count: int) -> list[Value]:
    """Load `count` consecutive 64-bit numbers."""
    return [code.load("i64", code.at(address, 8 * place), 8) for place in range(count)]


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
        place = OUTER_PLACE + OUTER_FIELDS * self.rank
        above, below, before, behind, fills = (code.parameter(place + field) for field in range(5))
        length = code.add(code.add(before, grid.b.size), behind)
        last = code.add(length, -self.fill_lanes)
        with grid.items(1, self.lanes) as item:
            begin, end = item.a
            target = code.at(item.target, code.binary("sub", constant(0), before))
            pattern = code.at(code.pointer(fills), code.multiply(item.place, LINE_BYTES))
            fill = code.load(vector_type(self.fill_lanes, "i8"), pattern, 1)
            for rows in ((begin, code.smaller(end, above)), (_larger(code, begin, below), end)):
                self._fill(code, fill, target, rows, (length, grid.a.target))
            first, stop = _larger(code, begin, above), code.smaller(end, below)
            if self.merged:
                first = self._merge(code, grid, (item.source, target), (first, stop), (before, length), pattern)
            with code.loop(first, stop) as a:
                row = code.at(target, code.multiply(a, grid.a.target))
                with code.loop(0, before, self.fill_lanes) as b:
                    code.store(fill, code.at(row, code.smaller(b, last)), 1)
                with code.loop(0, behind, self.fill_lanes) as b:
                    code.store(fill, code.at(row, _larger(code, code.binary("sub", last, b), constant(0))), 1)
                source, middle = code.at(item.source, code.multiply(a, grid.a.source)), code.at(row, before)
                with code.steps(*item.b, self.lanes) as b:
                    here = code.at(source, b)
                    code.store(code.load(vector_type(self.lanes, "i8"), here, 1), code.at(middle, b), 1)
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
        fill = code.load(type_, pattern, 1)
        numbers = Value(type_, "<" + ", ".join(f"i8 {lane}" for lane in range(self.merged)) + ">")
        begin, count = (code.splat(code.cast("trunc", value, "i8"), self.merged) for value in (before, grid.b.size))
        inside = code.compare("icmp ult", code.binary("sub", numbers, begin), count)
        exact = code.compare("icmp eq", length, self.merged)
        left = _larger(code, first, code.select(exact, stop, code.add(stop, -1)))
        with code.loop(first, left) as a:
            read = code.at(source, code.binary("sub", code.multiply(a, grid.a.source), before))
            name = f"llvm.masked.load.v{self.merged}i8.p0"
            row = code.call(name, type_, read, Value("i32", "1"), inside, fill)
            code.store(row, code.at(target, code.multiply(a, grid.a.target)), 1)
        return left

    def _fill(
        self, code: Code, fill: Value, target: Value, rows: tuple[Value, Value], steps: tuple[Value, Value]
    ) -> None:
        """Fill whole rows, from the first one to the one behind them; `steps` are their length and their distance."""
        (first, stop), (length, pitch) = rows, steps
        if self.dense:
            start = code.at(target, code.multiply(first, pitch))
            whole = code.multiply(code.binary("sub", stop, first), length)
            with code.steps(0, whole, self.fill_lanes) as b:
                code.store(fill, code.at(start, b), 1)
            return
        with code.loop(first, stop) as a, code.steps(0, length, self.fill_lanes) as b:
            code.store(fill, code.at(target, code.add(code.multiply(a, pitch), b)), 1)


def _larger(code: Code, left: Value, right: Value) -> Value:
    """The larger of two indices."""
    return code.select(code.compare("icmp sgt", left, right), left, right)
