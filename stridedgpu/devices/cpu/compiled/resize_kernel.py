"""The machine code of a resize: both passes over bands of rows, in scratch memory of each thread.

    source rows          16 at a time, each at any address; rows of frames are converted into scratch memory before
    columns of 16        transposed: a vector has one element of 16 rows, so one weight serves all its lanes
    first pass           along x: 16 rows at once, for every element of a resized row
    ring                 transposed back: as many rows of the first pass as the second pass reads
    second pass          along y: vectors of neighbouring elements
    band                 up to 16 finished rows, which a compiled relayout converts and writes to the target

Where rows come first, the pass along y reads the source and leaves 16 rows, which go along x into the band. Where
OpenCV's linear rule shrinks so far that few rows of the result share a row of the source, both passes are one, without
a ring. The passes themselves are those of `resize_passes`, and those of `resize_rows` along x without a transpose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from .ir import Code, Value, vector_type
from .resize_passes import Pass, RowPairPass, Taps, divided_by_alpha, premultiplied
from .resize_rows import ColumnTables, RowPass

__all__ = ["BAND_MOVES", "BAND_ROWS", "ENTRY_FIELDS", "GEOMETRY", "MOVE", "ROWS", "ResizeKernel"]

ROWS: Final = 16
"""Source rows in one step of the first pass: the lanes of a vector."""

ROWS_AT_ONCE: Final = 2
"""Source rows in one step of a first pass by rows: few, so that the L1 cache has those that the second pass reads."""

BAND_ROWS: Final = 16
"""Rows of the result that are converted in one step."""

ENTRY_FIELDS: Final = 5
"""Fields of an entry: the bytes from a call's source to the lowest row, and from its target to the first pixel; the
address of the geometry; the first row of the result and the row after the last.

The word before the entries is 0, and 1 after a thread failed to allocate its scratch memory."""

_TAPS: Final = ("groups", "counts", "indices", "weights")
MOVE: Final = ("kernel", "parameters", "items", "source", "target")
BAND_MOVES: Final = tuple(f"{rows}_{field}" for rows in ("whole", "rest") for field in MOVE)

GEOMETRY: Final = (
    *("allocate", "free", "scratch_bytes"),
    *("sources", "row_stride", "planes", "plane_stride", "elements", "columns"),
    *(f"column_{field}" for field in _TAPS),
    *(f"row_{field}" for field in (*_TAPS, "firsts", "ends")),
    *("ring_mask", "ring_pitch", "unit", "outputs_at", "ring_at", "band_at", "target_row"),
    *BAND_MOVES,
    *("band_pitch", "factor", "rows_kernel", "rows_at", "rows_pitch"),
)
"""64-bit fields that all windows of one geometry share, in memory order.

Offsets `_at`, the strides of the source and the ring's pitch are in bytes, `unit` and the band's pitch in elements.
Offsets count from the start of the scratch memory, which begins with the transposed columns. `whole` and `rest` are the
moves of a whole band to the target, and of the rows that remain: a loop's address and that of its parameters, its
items, and the bytes to its first element on either side. `factor` is that of a mean, in bits of float32.
"""


@dataclass(frozen=True, slots=True)
class ResizeKernel:
    """A kernel for images of `channels` interleaved channels, whose pixels begin `step` elements apart.

    Planes count as images of 1 channel, several to a window.
    """

    first: Pass
    second: Pass
    channels: int
    step: int
    columns_first: bool = True
    by_rows: RowPass | None = None
    """The first pass along x if it reads rows as they lie; else it reads columns of 16 rows."""
    premultiplies: bool = False
    """Whether the last channel is alpha, which weights the others."""
    joins_passes: bool = False
    """Whether the second pass takes its two rows from `by_rows` in registers, and no row is kept for another one."""
    converts_rows: bool = False
    """Whether `rows_kernel` writes each source row as it is read; an entry's source is then its parameters' address."""

    def text(self, name: str) -> str:
        """The module."""
        return _Builder(self).text(name)

    @property
    def out_step(self) -> int:
        """Elements from one resized pixel to the next in scratch memory."""
        return self.channels if self.by_rows is None else self.by_rows.out_step

    @property
    def step_rows(self) -> int:
        """Source rows in one step of the first pass along x."""
        return ROWS if self.by_rows is None else ROWS_AT_ONCE

    @property
    def keeps_rows(self) -> bool:
        """Whether rows of the first pass along x wait in a ring for the rows of the result that read them."""
        return self.columns_first and not self.joins_passes

    @property
    def along(self) -> Pass:
        """The pass along x."""
        return self.first if self.columns_first else self.second

    @property
    def down(self) -> Pass:
        """The pass along y."""
        return self.second if self.columns_first else self.first


class _Builder:
    """One kernel under construction. Values of the entry at hand are attributes."""

    _fields: dict[str, Value]  # of the geometry
    _source: Value
    _target: Value
    _columns: Value  # the parts of scratch memory, in their order; where rows come first, the ring has their 16 rows
    _outputs: Value
    _ring: Value
    _band: Value

    def __init__(self, kernel: ResizeKernel) -> None:
        """An empty function."""
        self._kernel, self._code = kernel, Code()
        self._next_row = self._code.scratch(8)
        """Where the number of the first source row stands that is not in the ring yet."""

    def text(self, name: str) -> str:
        """The function: a loop over entries, each with its own scratch memory."""
        code, entries = self._code, Value("ptr", "%parameters")
        with code.loop(code.first, code.last) as number:
            entry = self._at(entries, number, 8 * ENTRY_FIELDS)
            read, written, geometry, first, last = (self._word(entry, place) for place in range(ENTRY_FIELDS))
            fields = code.pointer(geometry)
            self._fields = {field: self._word(fields, place) for place, field in enumerate(GEOMETRY)}
            allocated = code.call_for("ptr", self._address("allocate"), self._fields["scratch_bytes"])
            missing = code.compare("icmp eq", allocated, "null")
            with code.when(missing):
                code.store(code.full("i64", 1), code.at(entries, -8), 8)
            with code.when(code.negated(missing)):
                self._source, self._target = code.at(code.source, read), code.at(code.target, written)
                self._columns = self._aligned(allocated)
                self._outputs, self._ring, self._band = (
                    code.at(self._columns, self._fields[place]) for place in ("outputs_at", "ring_at", "band_at")
                )
                self._resize(first, last)
                code.run(self._address("free"), allocated)
        return code.text(name)

    def _resize(self, first: Value, last: Value) -> None:
        """Rows `first` to `last` of one window, a band at a time."""
        code, kernel = self._code, self._kernel
        if kernel.keeps_rows:
            code.store(self._entry("row_firsts", first), self._next_row, 8)
        with code.loop(first, last, BAND_ROWS) as begin:
            end = code.smaller(code.add(begin, BAND_ROWS), last)
            if kernel.joins_passes:
                self._both_passes(begin, end)
            elif kernel.columns_first:
                with code.loop(begin, end) as row:
                    self._fill_ring(row)
                    into, taps, down = (
                        self._band_row(code.binary("sub", row, begin)),
                        self._taps("row", row),
                        kernel.down,
                    )
                    with code.loop(0, self._fields["band_pitch"], down.lanes * down.blocks) as place:
                        self._down(down.blocks, taps, self._ring, self._fields["ring_pitch"], into, place)
            else:
                self._rows_first(begin, end)
            self._finish_band(begin, code.binary("sub", end, begin))

    def _finish_band(self, begin: Value, rows: Value) -> None:
        """Divide finished rows by alpha, and move them to the target."""
        code, fields = self._code, self._fields
        if self._kernel.premultiplies:
            with code.loop(0, rows) as row:
                start = self._band_row(row)
                with code.loop(0, fields["unit"], ROWS) as x:
                    address = code.at(start, x)
                    pixels = code.load(vector_type(ROWS, "i8"), address, 1)
                    code.store(divided_by_alpha(code, pixels, self._kernel.channels), address, 1)
        whole = code.compare("icmp eq", rows, BAND_ROWS)
        target = self._at(self._target, begin, fields["target_row"])
        for kind, condition in (("whole", whole), ("rest", code.negated(whole))):
            with code.when(condition):
                read, written = code.at(self._band, fields[f"{kind}_source"]), code.at(target, fields[f"{kind}_target"])
                parameters, items = self._address(f"{kind}_parameters"), fields[f"{kind}_items"]
                code.run(self._address(f"{kind}_kernel"), read, written, parameters, code.full("i64", 0), items)

    # Columns first: source rows along x into the ring, the ring along y into the band

    def _fill_ring(self, row: Value) -> None:
        """The pass along x of all source rows that a row of the result reads and the ring does not have yet."""
        code, fields, kernel = self._code, self._fields, self._kernel
        next_row, end = code.load("i64", self._next_row, 8), self._entry("row_ends", row)
        with code.loop(next_row, end, kernel.step_rows) as group:
            source_row = self._source_rows(group)

            def ring_row(place: Value | int) -> Value:
                number = code.binary("and", code.add(group, place), fields["ring_mask"])
                return self._at(self._ring, number, fields["ring_pitch"])

            if kernel.by_rows is not None:
                with code.loop(0, kernel.step_rows) as place:
                    self._along_row(kernel.by_rows, source_row(place), ring_row(place))
            else:
                rows = [source_row(code.full("i64", place)) for place in range(ROWS)]
                into = [ring_row(place) for place in range(ROWS)]
                with code.loop(0, fields["planes"]) as plane:
                    self._along([self._at(start, plane, fields["plane_stride"]) for start in rows], into, plane)
            code.store(code.add(group, kernel.step_rows), self._next_row, 8)

    def _source_rows(self, group: Value) -> Callable[[Value], Value]:
        """The address of one of a step's source rows, from number `group` of the rows that are read, by its place.

        Rows of frames are converted into scratch memory here.
        """
        code, fields = self._code, self._fields
        listed = self._at(self._address("sources"), group, 8)

        def number(place: Value) -> Value:
            return code.load("i64", self._at(listed, place, 8), 8)

        if not self._kernel.converts_rows:
            return lambda place: self._at(self._source, number(place), fields["row_stride"])
        rows, pitch = code.at(self._columns, fields["rows_at"]), fields["rows_pitch"]
        with code.loop(0, self._kernel.step_rows) as place:
            row = number(place)
            into = self._at(rows, code.binary("sub", place, row), pitch)  # where the loop's row 0 would lie
            code.run(self._address("rows_kernel"), self._source, into, self._source, row, code.add(row, 1))
        return lambda place: self._at(rows, place, pitch)

    def _along_row(self, rule: RowPass, source: Value, into: Value) -> None:
        """The pass along x of one source row as it lies, all planes."""
        code, fields, nbytes = self._code, self._fields, self._kernel.along.written_bytes
        tables = self._column_tables()
        with code.loop(0, fields["planes"]) as plane:
            start = self._at(source, plane, fields["plane_stride"])
            resized = self._at(into, plane, code.multiply(fields["unit"], nbytes))
            with code.loop(0, fields["columns"], rule.pixels) as first:
                x = self._step_start(rule, first)
                sums = rule.step(code, start, tables, x)
                code.store(sums, self._at(resized, x, nbytes * rule.out_step), 1)

    # Rows first: 16 rows along y, then along x into the band

    def _rows_first(self, begin: Value, end: Value) -> None:
        """Rows `begin` to `end` of the result; the last one may repeat."""
        code, fields, down = self._code, self._fields, self._kernel.down
        elements, step = fields["elements"], down.lanes * down.blocks
        with code.loop(0, fields["planes"]) as plane:
            start = self._at(self._source, plane, fields["plane_stride"])
            with code.loop(0, ROWS) as place:
                taps = self._taps("row", code.smaller(code.add(begin, place), code.add(end, -1)))
                into = self._at(self._ring, place, fields["ring_pitch"])
                with code.loop(0, code.add(elements, 1 - step), step) as x:
                    self._down(down.blocks, taps, start, fields["row_stride"], into, x)
                with code.loop(code.binary("and", elements, -step), elements, down.lanes) as x:
                    last = code.smaller(x, code.add(elements, -down.lanes))
                    self._down(1, taps, start, fields["row_stride"], into, last)
            places = [code.full("i64", place) for place in range(ROWS)]
            rows = [self._at(self._ring, place, fields["ring_pitch"]) for place in places]
            self._along(rows, [self._band_row(place) for place in places], plane)

    # One step: two source rows along x and down y in registers

    def _both_passes(self, begin: Value, end: Value) -> None:
        """Rows `begin` to `end` of the result."""
        code, fields, rule, second = self._code, self._fields, self._kernel.by_rows, self._kernel.down
        assert rule is not None, "passes are joined over rows"
        assert isinstance(second, RowPairPass), "it takes two rows"
        tables, nbytes = self._column_tables(), second.written_bytes
        with code.loop(begin, end) as row:
            taps = self._taps("row", row)
            weights = second.weights(code, taps)
            offsets = [code.multiply(taps.index(code, tap), fields["row_stride"]) for tap in range(2)]
            start_of_row = self._band_row(code.binary("sub", row, begin))
            with code.loop(0, fields["planes"]) as plane:
                start = self._at(self._source, plane, fields["plane_stride"])
                rows = [code.at(start, offset) for offset in offsets]
                into = self._at(start_of_row, plane, code.multiply(fields["unit"], nbytes))
                with code.loop(0, fields["columns"], rule.pixels) as first:
                    x = self._step_start(rule, first)
                    upper, lower = (rule.step(code, address, tables, x) for address in rows)
                    pixels = second.joined(code, upper, lower, weights)
                    place = self._at(into, x, nbytes * rule.out_step)
                    code.store(pixels, place, 1)

    # The passes

    def _down(self, blocks: int, taps: Taps, start: Value, pitch: Value, into: Value, begin: Value) -> None:
        """The pass along y of one row: `blocks` vectors from element `begin` on, from rows `pitch` bytes apart."""
        code, rule, channels = self._code, self._kernel.down, self._kernel.channels
        vector = vector_type(rule.lanes, rule.read)
        weighs = self._kernel.premultiplies and not self._kernel.columns_first
        offset = code.multiply(begin, rule.read_bytes)

        def load(index: Value) -> list[Value]:
            row = code.at(start, code.add(code.multiply(index, pitch), offset))
            places = range(0, rule.lanes * rule.read_bytes * blocks, rule.lanes * rule.read_bytes)
            vectors = [code.load(vector, code.at(row, place), 1) for place in places]
            return [premultiplied(code, pixels, channels) for pixels in vectors] if weighs else vectors

        written = self._at(into, begin, rule.written_bytes)
        for block, pixels in enumerate(rule.pixels(code, taps, blocks, load, self._fields["factor"])):
            code.store(pixels, code.at(written, rule.lanes * rule.written_bytes * block), 1)

    def _along(self, rows: Sequence[Value], into: Sequence[Value], plane: Value) -> None:
        """The pass along x of 16 rows of one plane, to 16 other rows: transposed, resized, and transposed back."""
        code, fields, rule, channels = self._code, self._fields, self._kernel.along, self._kernel.channels
        read, written = ROWS * rule.read_bytes, ROWS * rule.written_bytes
        elements, unit = fields["elements"], fields["unit"]
        weighs = self._kernel.premultiplies and self._kernel.columns_first
        with code.loop(0, elements, ROWS) as begin:
            place = code.smaller(begin, code.add(elements, -ROWS))
            block = [code.load(vector_type(ROWS, rule.read), self._at(row, place, rule.read_bytes), 1) for row in rows]
            if weighs:
                block = [premultiplied(code, pixels, channels) for pixels in block]
            for lane, column in enumerate(self._transposed(block)):
                code.store(column, self._at(self._columns, code.add(place, lane), read), 16)

        def load(index: Value) -> list[Value]:
            start = self._at(self._columns, index, read)
            places = range(0, channels * read, read)
            return [code.load(vector_type(ROWS, rule.read), code.at(start, place), 16) for place in places]

        with code.loop(0, fields["columns"]) as x:
            resized = self._at(self._outputs, x, channels * written)
            pixels = rule.pixels(code, self._taps("column", x), channels, load, fields["factor"])
            for channel, column in enumerate(pixels):
                code.store(column, code.at(resized, channel * written), 16)
        before = code.multiply(code.multiply(plane, unit), rule.written_bytes)
        targets = [code.at(row, before) for row in into]
        with code.loop(0, unit, ROWS) as begin:
            places = [self._at(self._outputs, code.add(begin, lane), written) for lane in range(ROWS)]
            block = [code.load(vector_type(ROWS, rule.written), place, 16) for place in places]
            for row, target in zip(self._transposed(block), targets, strict=True):
                code.store(row, self._at(target, begin, rule.written_bytes), 1)

    def _transposed(self, block: Sequence[Value]) -> list[Value]:
        """Transpose 16 vectors of 16 lanes: four rounds that interleave each vector with the one 8 further on."""
        vectors, half = list(block), ROWS // 2
        zips = [[lane // 2 + ROWS * (lane % 2) + part for lane in range(ROWS)] for part in (0, half)]
        for _ in range(4):
            vectors = [
                self._code.shuffle(vectors[place], vectors[place + half], lanes)
                for place in range(half)
                for lanes in zips
            ]
        return vectors

    # The geometry

    def _at(self, base: Value, number: Value, step: Value | int) -> Value:
        """The address of one of things that are `step` bytes apart."""
        return self._code.at(base, self._code.multiply(number, step))

    def _word(self, address: Value, place: int) -> Value:
        """Load one of consecutive 64-bit fields."""
        return self._code.load("i64", self._code.at(address, 8 * place), 8)

    def _address(self, field: str) -> Value:
        """A field that is an address."""
        return self._code.pointer(self._fields[field])

    def _entry(self, field: str, place: Value) -> Value:
        """Load an entry of a table of 64-bit numbers."""
        return self._code.load("i64", self._at(self._address(field), place, 8), 8)

    def _taps(self, axis: str, place: Value) -> Taps:
        """The taps of one resized pixel of an axis."""
        rule = self._kernel.along if axis == "column" else self._kernel.down
        before = self._code.multiply(place, self._fields[f"{axis}_groups"])
        indices = self._at(self._address(f"{axis}_indices"), before, 8 * rule.group)
        weights = self._at(self._address(f"{axis}_weights"), before, rule.weight_bytes)
        return Taps(indices, weights, self._entry(f"{axis}_counts", place))

    def _column_tables(self) -> ColumnTables:
        """The tables of a first pass by rows."""
        return ColumnTables(*(self._address(f"column_{name}") for name in ("indices", "counts", "weights")))

    def _step_start(self, rule: RowPass, first: Value) -> Value:
        """The first pixel of a step from `first` on: the last step may begin earlier."""
        code = self._code
        return code.smaller(first, code.add(self._fields["columns"], -rule.pixels)) if rule.repeats else first

    def _band_row(self, row: Value) -> Value:
        """The address of a row of the band."""
        return self._at(
            self._band, self._code.multiply(row, self._fields["band_pitch"]), self._kernel.second.written_bytes
        )

    def _aligned(self, allocated: Value) -> Value:
        """Round an address up to a cache line."""
        code = self._code
        bits = code.value("i64", f"ptrtoint ptr {allocated.name} to i64")
        return code.pointer(code.binary("and", code.add(bits, 63), -64))
