"""The machine code of a resize: both passes over bands of rows, in scratch memory of each thread.

    source rows          16 at a time, each at any address; rows of frames are converted into scratch memory before
    columns of 16        transposed: a vector has one element of 16 rows, so one weight serves all its lanes
    first pass           along x: 16 rows at once, for every element of a resized row
    ring                 transposed back: as many rows of the first pass as the second pass reads
    second pass          along y: vectors of neighbouring elements
    band                 up to 16 finished rows, which a compiled relayout converts and writes to the target

Where rows come first, the pass along y reads the source and leaves 16 rows, which go along x into the band. Where
OpenCV's linear rule shrinks so far that few rows of the result share a row of the source, both passes are one, without
a ring. The passes themselves are those of `resize_passes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from .ir import Code, Value, vector_type
from .resize_alpha import divided, premultiplied
from .resize_geometry import ENTRY_FIELDS, GEOMETRY
from .resize_passes import Pass, RowPairPass, Taps
from .resize_rows import ColumnTables, RowPass

__all__ = ["BAND_ROWS", "ROWS", "ResizeKernel"]

ROWS: Final = 16
"""Source rows in one step of the first pass: the lanes of a vector."""

ROWS_AT_ONCE: Final = 2
"""Source rows in one step of a first pass by rows: few, so that the L1 cache has those that the second pass reads."""

BAND_ROWS: Final = 16
"""Rows of the result that are converted in one step."""


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
    packs_pixels: bool = False
    """Whether finished pixels of joined passes lie in the band without the gaps that `by_rows` leaves."""
    writes_target: bool = False
    """Whether joined passes write rows of the target, which lie as the band's would: nothing is copied or converted."""
    converts_rows: bool = False
    """Whether `rows_kernel` writes each source row as it is read; an entry's source is then its parameters' address."""

    def text(self, name: str) -> str:
        """The module."""
        return _Text(self).text(name)

    @property
    def out_step(self) -> int:
        """Elements from one resized pixel to the next in scratch memory."""
        return self.channels if self.by_rows is None or self.packs_pixels else self.by_rows.out_step

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


@dataclass(frozen=True, slots=True)
class _Scratch:
    """The addresses of one thread's scratch memory: columns, outputs of the pass along x, ring and band.

    Where rows come first, the ring has the 16 rows of the pass along y.
    """

    columns: Value
    outputs: Value
    ring: Value
    band: Value


class _Text:
    """One kernel under construction."""

    def __init__(self, kernel: ResizeKernel) -> None:
        """An empty function."""
        self._kernel = kernel
        self._code = Code()
        self._fields: dict[str, Value] = {}

    def text(self, name: str) -> str:
        """The function: loops over entries, bands and rows."""
        code, entries = self._code, Value("ptr", "%parameters")
        made = code.scratch(8)
        with code.loop(code.first, code.last) as number:
            entry = code.at(entries, code.multiply(number, 8 * ENTRY_FIELDS))
            read, written, geometry, first, last = (self._word(entry, place) for place in range(ENTRY_FIELDS))
            fields = code.pointer(geometry)
            self._fields = {field: self._word(fields, place) for place, field in enumerate(GEOMETRY)}
            allocated = code.call_for("ptr", self._address("allocate"), self._fields["scratch_bytes"])
            missing = code.compare("icmp eq", allocated, "null")
            with code.when(missing):
                code.store(code.full("i64", 1), code.at(entries, -8), 8)
            with code.when(code.negated(missing)):
                self._item(allocated, made, code.at(code.source, read), code.at(code.target, written), first, last)
                code.run(self._address("free"), allocated)
        return code.text(name)

    def _item(self, allocated: Value, made: Value, source: Value, target: Value, first: Value, last: Value) -> None:
        """Resize rows `first` to `last` of one window."""
        code, fields = self._code, self._fields
        columns = self._aligned(allocated)
        scratch = _Scratch(
            columns, *(code.at(columns, fields[place]) for place in ("outputs_at", "ring_at", "band_at"))
        )
        if self._kernel.writes_target:
            self._joined(source, first, last, lambda row: code.at(target, code.multiply(row, fields["target_row"])))
            return
        if self._kernel.keeps_rows:
            code.store(self._entry("row_firsts", first), made, 8)
        with code.loop(first, last, BAND_ROWS) as begin:
            end = code.smaller(code.add(begin, BAND_ROWS), last)
            if self._kernel.joins_passes:
                self._joined(source, begin, end, partial(self._band_row, scratch, begin))
            elif self._kernel.columns_first:
                self._columns_first(scratch, made, source, begin, end)
            else:
                self._rows_first(scratch, source, begin, end)
            rows = code.binary("sub", end, begin)
            if self._kernel.premultiplies:
                self._divide(scratch.band, rows)
            whole = code.compare("icmp eq", rows, BAND_ROWS)
            start = code.at(target, code.multiply(begin, fields["target_row"]))
            for kind, condition in (("whole", whole), ("rest", code.negated(whole))):
                with code.when(condition):
                    code.run(
                        self._address(f"{kind}_kernel"),
                        code.at(scratch.band, fields[f"{kind}_source"]),
                        code.at(start, fields[f"{kind}_target"]),
                        self._address(f"{kind}_parameters"),
                        code.full("i64", 0),
                        fields[f"{kind}_items"],
                    )

    def _columns_first(self, scratch: _Scratch, made: Value, source: Value, begin: Value, end: Value) -> None:
        """Rows `begin` to `end` of the result: along x into the ring, as far as a row reads, then along y."""
        code, fields = self._code, self._fields
        with code.loop(begin, end) as row:
            with code.loop(code.load("i64", made, 8), self._entry("row_ends", row), self._kernel.step_rows) as group:
                read = self._source_rows(source, group, code.at(scratch.columns, fields["rows_at"]))
                if self._kernel.by_rows is not None:
                    self._along_rows(self._kernel.by_rows, scratch.ring, read, group)
                else:
                    rows = [read(code.full("i64", place)) for place in range(ROWS)]
                    places = [code.binary("and", code.add(group, place), fields["ring_mask"]) for place in range(ROWS)]
                    into = [code.at(scratch.ring, code.multiply(place, fields["ring_pitch"])) for place in places]
                    with code.loop(0, fields["planes"]) as plane:
                        before = code.multiply(plane, fields["plane_stride"])
                        self._along(scratch, [code.at(address, before) for address in rows], into, plane)
                code.store(code.add(group, self._kernel.step_rows), made, 8)
            rule = self._kernel.down
            into_row = self._band_row(scratch, begin, row)
            taps, step = self._taps("row", row), rule.lanes * rule.blocks
            with code.loop(0, fields["band_pitch"], step) as place:
                self._down(rule.blocks, taps, scratch.ring, fields["ring_pitch"], into_row, place)

    def _joined(self, source: Value, begin: Value, end: Value, made: Callable[[Value], Value]) -> None:
        """Rows `begin` to `end` of the result: both passes in one step, two source rows at a time.

        `made` is the address of a row of the result.
        """
        code, fields, rule, second = self._code, self._fields, self._kernel.by_rows, self._kernel.down
        assert rule is not None, "passes are joined over rows"
        assert isinstance(second, RowPairPass), "it takes two rows"
        tables, channels = self._column_tables(), self._kernel.channels
        with code.loop(begin, end) as row:
            taps = self._taps("row", row)
            weights = second.weights(code, taps)
            offsets = [
                code.multiply(code.load("i64", code.at(taps.indices, 8 * tap), 8), fields["row_stride"])
                for tap in range(2)
            ]
            made_row = made(row)
            with code.loop(0, fields["planes"]) as plane:
                start = code.at(source, code.multiply(plane, fields["plane_stride"]))
                rows = [code.at(start, offset) for offset in offsets]
                into = code.at(made_row, code.multiply(plane, code.multiply(fields["unit"], second.written_bytes)))
                with code.loop(0, fields["columns"], rule.pixels) as first:
                    x = self._step_start(rule, first)
                    upper, lower = (rule.step(code, address, tables, x) for address in rows)
                    pixels = second.joined(code, upper, lower, weights)
                    if self._kernel.packs_pixels:
                        # The lanes behind are those of pixels that the next step writes.
                        lanes = [
                            pixel + channel
                            for pixel in range(0, pixels.lanes, rule.out_step)
                            for channel in range(channels)
                        ]
                        pixels = code.shuffle(pixels, None, lanes + [-1] * (pixels.lanes - len(lanes)))
                    place = code.at(into, code.multiply(x, second.written_bytes * self._kernel.out_step))
                    if self._kernel.writes_target:
                        code.store_some(pixels, place, [lane < rule.pixels * channels for lane in range(pixels.lanes)])
                    else:
                        code.store(pixels, place, 1)

    def _source_rows(self, source: Value, group: Value, rows: Value) -> Callable[[Value], Value]:
        """The address of one of a step's source rows, from number `group` of the rows that are read, by its place.

        Rows of frames are converted into `rows` here.
        """
        code, fields = self._code, self._fields
        listed = code.at(self._address("sources"), code.multiply(group, 8))

        def number(place: Value) -> Value:
            return code.load("i64", code.at(listed, code.multiply(place, 8)), 8)

        if not self._kernel.converts_rows:
            return lambda place: code.at(source, code.multiply(number(place), fields["row_stride"]))
        pitch = fields["rows_pitch"]
        with code.loop(0, self._kernel.step_rows) as place:
            row = number(place)
            into = code.at(rows, code.multiply(code.binary("sub", place, row), pitch))
            code.run(self._address("rows_kernel"), source, into, source, row, code.add(row, 1))
        return lambda place: code.at(rows, code.multiply(place, pitch))

    def _rows_first(self, scratch: _Scratch, source: Value, begin: Value, end: Value) -> None:
        """Rows `begin` to `end` of the result: 16 rows along y, then along x into the band. The last row may repeat."""
        code, fields, rule = self._code, self._fields, self._kernel.down
        elements, most = fields["elements"], code.add(end, -1)
        step = rule.lanes * rule.blocks
        with code.loop(0, fields["planes"]) as plane:
            start = code.at(source, code.multiply(plane, fields["plane_stride"]))
            with code.loop(0, ROWS) as place:
                taps = self._taps("row", code.smaller(code.add(begin, place), most))
                into = code.at(scratch.ring, code.multiply(place, fields["ring_pitch"]))
                with code.loop(0, code.add(elements, 1 - step), step) as x:
                    self._down(rule.blocks, taps, start, fields["row_stride"], into, x)
                with code.loop(code.binary("and", elements, -step), elements, rule.lanes) as x:
                    last = code.smaller(x, code.add(elements, -rule.lanes))
                    self._down(1, taps, start, fields["row_stride"], into, last)
            rows = [
                code.at(scratch.ring, code.multiply(fields["ring_pitch"], code.full("i64", place)))
                for place in range(ROWS)
            ]
            band = [code.at(scratch.band, self._band_bytes(code.full("i64", place))) for place in range(ROWS)]
            self._along(scratch, rows, band, plane)

    def _down(self, blocks: int, taps: Taps, start: Value, pitch: Value, into: Value, begin: Value) -> None:
        """The pass along y of one row: `blocks` vectors from element `begin` on, from rows `pitch` bytes apart."""
        code, rule = self._code, self._kernel.down
        lanes = rule.lanes
        vector = vector_type(lanes, rule.read)
        weighs = self._kernel.premultiplies and not self._kernel.columns_first
        offset = code.multiply(begin, rule.read_bytes)

        def load(index: Value) -> list[Value]:
            row = code.at(start, code.add(code.multiply(index, pitch), offset))
            vectors = [code.load(vector, code.at(row, lanes * rule.read_bytes * block), 1) for block in range(blocks)]
            return [premultiplied(code, pixels, self._kernel.channels) for pixels in vectors] if weighs else vectors

        made = code.at(into, code.multiply(begin, rule.written_bytes))
        for block, pixels in enumerate(rule.pixels(code, taps, blocks, load, self._fields["factor"])):
            code.store(pixels, code.at(made, lanes * rule.written_bytes * block), 1)

    def _along(self, scratch: _Scratch, rows: Sequence[Value], into: Sequence[Value], plane: Value) -> None:
        """The pass along x of 16 rows of one plane, to 16 other rows."""
        code, fields, rule = self._code, self._fields, self._kernel.along
        vector, nbytes = vector_type(ROWS, rule.read), rule.read_bytes
        weighs = self._kernel.premultiplies and self._kernel.columns_first
        elements = fields["elements"]
        last = code.add(elements, -ROWS)
        with code.loop(0, elements, ROWS) as begin:
            place = code.smaller(begin, last)
            offset = code.multiply(place, nbytes)
            block = [code.load(vector, code.at(row, offset), 1) for row in rows]
            if weighs:
                block = [premultiplied(code, pixels, self._kernel.channels) for pixels in block]
            for lane, column in enumerate(self._transposed(block)):
                code.store(column, code.at(scratch.columns, code.multiply(code.add(place, lane), ROWS * nbytes)), 16)
        with code.loop(0, fields["columns"]) as x:
            self._column(scratch, x)
        vector, nbytes = vector_type(ROWS, rule.written), rule.written_bytes
        unit = fields["unit"]
        before = code.multiply(code.multiply(plane, unit), nbytes)
        places = [code.at(row, before) for row in into]
        with code.loop(0, unit, ROWS) as begin:
            block = [
                code.load(vector, code.at(scratch.outputs, code.multiply(code.add(begin, lane), ROWS * nbytes)), 16)
                for lane in range(ROWS)
            ]
            for row, address in zip(self._transposed(block), places, strict=True):
                code.store(row, code.at(address, code.multiply(begin, nbytes)), 1)

    def _column(self, scratch: _Scratch, x: Value) -> None:
        """All channels of one resized pixel, for 16 rows."""
        code, rule, channels = self._code, self._kernel.along, self._kernel.channels
        line, made = ROWS * rule.read_bytes, ROWS * rule.written_bytes

        def load(index: Value) -> list[Value]:
            start = code.at(scratch.columns, code.multiply(index, line))
            vector = vector_type(ROWS, rule.read)
            return [code.load(vector, code.at(start, channel * line), 16) for channel in range(channels)]

        into = code.at(scratch.outputs, code.multiply(x, channels * made))
        pixels = rule.pixels(code, self._taps("column", x), channels, load, self._fields["factor"])
        for channel, column in enumerate(pixels):
            code.store(column, code.at(into, channel * made), 16)

    def _along_rows(self, rule: RowPass, ring: Value, read: Callable[[Value], Value], group: Value) -> None:
        """The pass along x of some source rows into the ring, row by row."""
        code, fields, rule_bytes = self._code, self._fields, self._kernel.along.written_bytes
        tables = self._column_tables()
        with code.loop(0, self._kernel.step_rows) as lane:
            row = read(lane)
            number = code.binary("and", code.add(group, lane), fields["ring_mask"])
            into = code.at(ring, code.multiply(number, fields["ring_pitch"]))
            with code.loop(0, fields["planes"]) as plane:
                start = code.at(row, code.multiply(plane, fields["plane_stride"]))
                made = code.at(into, code.multiply(plane, code.multiply(fields["unit"], rule_bytes)))
                with code.loop(0, fields["columns"], rule.pixels) as first:
                    x = self._step_start(rule, first)
                    sums = rule.step(code, start, tables, x)
                    code.store(sums, code.at(made, code.multiply(x, rule_bytes * rule.out_step)), 1)

    def _column_tables(self) -> ColumnTables:
        """The tables of a first pass by rows."""
        return ColumnTables(*(self._address(f"column_{name}") for name in ("indices", "counts", "weights")))

    def _step_start(self, rule: RowPass, first: Value) -> Value:
        """The first pixel of a step from `first` on: the last step may begin earlier."""
        code = self._code
        return code.smaller(first, code.add(self._fields["columns"], -rule.pixels)) if rule.repeats else first

    def _divide(self, band: Value, rows: Value) -> None:
        """Divide the colours of finished rows by their alpha."""
        code, fields = self._code, self._fields
        with code.loop(0, rows) as row:
            start = code.at(band, self._band_bytes(row))
            with code.loop(0, fields["unit"], ROWS) as x:
                address = code.at(start, x)
                pixels = code.load(vector_type(ROWS, "i8"), address, 1)
                code.store(divided(code, pixels, self._kernel.channels), address, 1)

    # Parts of both passes

    def _transposed(self, block: Sequence[Value]) -> list[Value]:
        """Transpose 16 vectors of 16 lanes: four rounds that interleave each vector with the one 8 further on."""
        vectors = list(block)
        half = ROWS // 2
        zips = [[lane // 2 + ROWS * (lane % 2) + part for lane in range(ROWS)] for part in (0, half)]
        for _ in range(4):
            vectors = [
                self._code.shuffle(vectors[place], vectors[place + half], lanes)
                for place in range(half)
                for lanes in zips
            ]
        return vectors

    # The geometry

    def _word(self, address: Value, place: int) -> Value:
        """Load one of consecutive 64-bit fields."""
        return self._code.load("i64", self._code.at(address, 8 * place), 8)

    def _address(self, field: str) -> Value:
        """Load a field that is an address."""
        return self._code.pointer(self._fields[field])

    def _entry(self, field: str, place: Value) -> Value:
        """Load an entry of a table of 64-bit numbers."""
        return self._code.load("i64", self._code.at(self._address(field), self._code.multiply(place, 8)), 8)

    def _taps(self, axis: str, place: Value) -> Taps:
        """The taps of one resized pixel of an axis."""
        code, fields = self._code, self._fields
        rule = self._kernel.along if axis == "column" else self._kernel.down
        before = code.multiply(place, fields[f"{axis}_groups"])
        indices = code.at(self._address(f"{axis}_indices"), code.multiply(before, rule.index_bytes))
        weights = code.at(self._address(f"{axis}_weights"), code.multiply(before, rule.weight_bytes))
        return Taps(indices, weights, self._entry(f"{axis}_counts", place))

    def _band_row(self, scratch: _Scratch, begin: Value, row: Value) -> Value:
        """The address of a row of the band that begins with row `begin` of the result."""
        return self._code.at(scratch.band, self._band_bytes(self._code.binary("sub", row, begin)))

    def _band_bytes(self, row: Value) -> Value:
        """Where a row of the band begins, in bytes."""
        code = self._code
        return code.multiply(code.multiply(row, self._fields["band_pitch"]), self._kernel.second.written_bytes)

    def _aligned(self, allocated: Value) -> Value:
        """Round an address up to a cache line."""
        code = self._code
        bits = code.value("i64", f"ptrtoint ptr {allocated.name} to i64")
        return code.pointer(code.binary("and", code.add(bits, 63), -64))
