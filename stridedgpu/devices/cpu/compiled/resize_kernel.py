"""The machine code of a resize: both passes over bands of rows, in scratch memory of each thread.

    source rows          16 at a time, each at any address; rows of frames are converted into scratch memory before
    columns of 16        transposed: a vector has one element of 16 rows, so one weight serves all its lanes; of filters
                         over bytes it has a pair of neighbouring pixels of each row, for one pair of weights, and the
                         pairs of several planes lie side by side
    first pass           along x: 16 rows at once, for every element of a resized row; the next 16 are prefetched
    ring                 transposed back: as many rows of the first pass as the second pass reads
    second pass          along y: vectors of neighbouring elements; of bytes from the ring 64, for pairs of taps
    band                 up to 16 finished rows, which a compiled relayout converts and writes to the target

Where rows come first, the pass along y reads the source and leaves 16 rows, which go along x into the band. Where
OpenCV's linear rule shrinks so far that few rows of the result share a row of the source, both passes are one, without
a ring. The passes themselves are those of `resize_passes`, and those of `resize_rows` along x without a transpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from stridedgpu.devices.cpu.native.registers import LINE_BYTES

from .ir import Code, Value, transposed_lanes, transposed_pairs, vector_type
from .resize_passes import Load, PairPass, Pass, RowPairPass, Taps, divided_by_alpha, premultiplied
from .resize_rows import ColumnTables, RowPass

ROWS: Final = 16
"""Source rows in one step of the first pass: the lanes of a vector."""

ROWS_AT_ONCE: Final = 2
"""Source rows in one step of a first pass by rows: few, so that the L1 cache has those that the second pass reads."""

BAND_ROWS: Final = 16
"""Rows of the result that are converted in one step."""

PAIR_BYTES: Final = 2 * ROWS
"""A pair of neighbouring pixels of 16 rows, in one channel."""

ENDS_BYTES: Final = PAIR_BYTES * ROWS
"""A copy of the ends of 16 rows, since vectors of whole pairs would reach behind the rows. No more than that is written
behind the last pair, and for each plane that is joined as much."""

ENTRY_FIELDS: Final = 5
"""Fields of an entry: the bytes from a call's source to the lowest row, and from its target to the first pixel; the
address of the geometry; the first row of the result and the row after the last.

The word before the entries is 0, and 1 after a thread failed to allocate its scratch memory."""

_TAPS: Final = ("groups", "counts", "indices", "weights", "unused")
MOVE: Final = ("kernel", "parameters", "items", "source", "target")
BAND_MOVES: Final = tuple(f"{rows}_{field}" for rows in ("whole", "rest") for field in MOVE)

NATIVE_FIELDS: Final = (
    *("along", "down", "pixel_out", "channel_out", "step", "pixels", "places_low", "places_high"),
    *("block", "pairs", "pair_pitch", "joined", *(f"joined_{plane}" for plane in range(4))),
    *("into_columns", "into_rows", "along_two", "prepare", "divide", "alpha", "ring_bytes", "band_bytes", "shift"),
    *("apart", *(f"gathered_{channel}" for channel in range(4))),
)
"""Fields that loops of the native library read alone: see `Geometry` in kernels/cpu/resize.hpp."""

GEOMETRY: Final = (
    *("allocate", "free", "scratch_bytes"),
    *("sources", "row_stride", "planes", "plane_stride", "elements", "columns"),
    *(f"column_{field}" for field in _TAPS),
    *(f"row_{field}" for field in (*_TAPS, "firsts", "ends")),
    *("ring_mask", "ring_pitch", "unit", "outputs_at", "ring_at", "band_at", "target_row"),
    *BAND_MOVES,
    *("band_pitch", "factor", "rows_kernel", "rows_at", "rows_pitch"),
    *NATIVE_FIELDS,
)
"""64-bit fields that all windows of one geometry share, in memory order.

Offsets `_at`, the strides of the source and the ring's pitch are in bytes, `unit` and the band's pitch in elements.
Offsets count from the start of the scratch memory, which begins with the transposed columns. `whole` and `rest` are the
moves of a whole band to the target, and of the rows that remain: a loop's address and that of its parameters, its
items, and the bytes to its first element on either side. `factor` is that of a mean, in bits of float32, and `unused`
the fractional bits that narrow weights of an axis do without.
"""


@dataclass(frozen=True, slots=True)
class ResizeKernel:
    """A kernel for images of `channels` interleaved channels, whose pixels begin `step` elements apart.

    Planes count as images of 1 channel, several to a window, unless columns interleave them.
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
    joins_planes: bool = False
    """Whether the channels lie in planes, whose pixels are interleaved in pairs of columns."""
    converts_rows: bool = False
    """Whether `rows_kernel` writes each source row as it is read; an entry's source is then its parameters' address."""
    gathers: bool = False
    """Whether pixels, of `step` channels, are gathered from rows in which they lie far apart."""

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
    def prepares_rows(self) -> bool:
        """Whether source rows are prepared in scratch memory before a pass of native loops reads them."""
        return self.converts_rows or self.gathers or (self.premultiplies and self.interleaves)

    @property
    def interleaves(self) -> bool:
        """Whether columns are pairs of pixels."""
        return isinstance(self.along, PairPass) and self.along.interleaved

    @property
    def row_channels(self) -> int:
        """Channels of a pixel in a row of the source."""
        return 1 if self.joins_planes else self.channels

    @property
    def block_pixels(self) -> int:
        """Pixels of whole pairs in a vector of a row."""
        return ROWS // self.step & -2

    def with_pairs(self) -> ResizeKernel:
        """The same with columns that are pairs of pixels, for filters over bytes."""
        along = self.along
        assert isinstance(along, PairPass), "filters over bytes take two taps at once"
        paired = replace(along, interleaved=True)
        return replace(self, first=paired) if self.columns_first else replace(self, second=paired)

    @property
    def along(self) -> Pass:
        """The pass along x."""
        return self.first if self.columns_first else self.second

    @property
    def down(self) -> Pass:
        """The pass along y."""
        return self.second if self.columns_first else self.first


class _Rows(NamedTuple):
    """Rows of memory, `pitch` bytes apart."""

    start: Value
    pitch: Value

    def row(self, number: Value | int) -> Value:
        return self.start + self.pitch * number


Address = Callable[[Value | int], Value]
"""The address of a row by its number in a step."""


class _Builder:
    """One kernel under construction; the entry at hand is in attributes."""

    _fields: dict[str, Value]  # of the geometry
    _source: _Rows
    _target: _Rows
    _columns: Value  # the parts of scratch memory, in their order: transposed columns, the resized ones, and rows
    _outputs: Value
    _ring: _Rows  # where rows come first, the 16 rows of a band behind the pass along y
    _band: _Rows

    def __init__(self, kernel: ResizeKernel) -> None:
        self._kernel, self._code = kernel, Code()
        self._next_row = self._code.scratch(8)
        """Where the number of the first source row stands that is not in the ring yet."""

    def text(self, name: str) -> str:
        """The function: a loop over entries, each with its own scratch memory."""
        code, entries = self._code, self._code.parameters
        with code.loop(code.first, code.last) as number:
            read, written, geometry, first, last = (entries + number * (8 * ENTRY_FIELDS)).words(ENTRY_FIELDS)
            self._fields = dict(zip(GEOMETRY, geometry.pointer().words(len(GEOMETRY)), strict=True))
            scratch = self._address("allocate")(self._fields["scratch_bytes"], returns="ptr")
            for is_missing in code.cases(scratch == "null"):
                if is_missing:
                    code.store(1, entries + -8, 8)
                    continue
                self._enter(code.source + read, code.target + written, scratch)
                self._resize(first, last)
                self._address("free")(scratch)
        return code.text(name)

    def _enter(self, source: Value, target: Value, scratch: Value) -> None:
        """Lay out the memory of an entry; the parts of scratch memory begin at cache lines."""
        fields = self._fields
        self._columns = ((scratch.bits() + (LINE_BYTES - 1)) & -LINE_BYTES).pointer()
        self._outputs, ring, band = (self._columns + fields[f"{part}_at"] for part in ("outputs", "ring", "band"))
        self._source = _Rows(source, fields["row_stride"])
        self._target = _Rows(target, fields["target_row"])
        self._ring = _Rows(ring, fields["ring_pitch"])
        self._band = _Rows(band, fields["band_pitch"] * self._kernel.second.written_bytes)

    def _resize(self, first: Value, last: Value) -> None:
        """Rows `first` to `last` of one window, a band at a time."""
        code, kernel = self._code, self._kernel
        if kernel.keeps_rows:
            code.store(self._entry("row_firsts", first), self._next_row, 8)
        with code.loop(first, last, BAND_ROWS) as begin:
            end = (begin + BAND_ROWS).at_most(last)
            if kernel.joins_passes:
                self._both_passes(begin, end)
            elif kernel.columns_first:
                self._columns_first(begin, end)
            else:
                self._rows_first(begin, end)
            self._finish_band(begin, end - begin)

    def _finish_band(self, begin: Value, rows: Value) -> None:
        """Divide finished rows by alpha, and move them to the target."""
        code, fields, kernel = self._code, self._fields, self._kernel
        if kernel.premultiplies:
            with code.loop(0, rows) as row, code.loop(0, fields["unit"], ROWS) as x:
                address = self._band.row(row) + x
                pixels = address.load(vector_type(ROWS, "i8"))
                code.store(divided_by_alpha(pixels, kernel.channels), address)
        whole, target = rows == BAND_ROWS, self._target.row(begin)
        for is_whole in code.cases(whole):
            kind = "whole" if is_whole else "rest"
            read, written = self._band.start + fields[f"{kind}_source"], target + fields[f"{kind}_target"]
            parameters, items = self._address(f"{kind}_parameters"), fields[f"{kind}_items"]
            self._address(f"{kind}_kernel")(read, written, parameters, 0, items)

    # The three orders of both passes over rows `begin` to `end` of the result

    def _columns_first(self, begin: Value, end: Value) -> None:
        """Source rows along x into the ring, the ring along y into the band."""
        code, down = self._code, self._kernel.down
        with code.loop(begin, end) as row:
            self._fill_ring(row)
            taps, into = self._taps("row", row), self._band.row(row - begin)
            with code.loop(0, self._fields["band_pitch"], down.lanes * down.blocks) as x:
                if isinstance(down, PairPass) and down.fills_lines:
                    start, line = self._ring.start + x, vector_type(LINE_BYTES, "i8")
                    code.store(down.line(taps, lambda tap: (start + tap * self._ring.pitch).load(line)), into + x)
                else:
                    self._down(down.blocks, taps, self._ring, into, x)

    def _rows_first(self, begin: Value, end: Value) -> None:
        """16 rows along y, then along x into the band; the last one may repeat."""
        code, elements, down = self._code, self._fields["elements"], self._kernel.down
        step = down.lanes * down.blocks
        with self._planes(self._kernel.along.written_bytes) as (across, before):
            source = self._source._replace(start=self._source.start + across)
            with code.loop(0, ROWS) as number:
                row = (begin + number).at_most(end - 1)
                taps, into = self._taps("row", row), self._ring.row(number)
                with code.loop(0, elements + (1 - step), step) as x:
                    self._down(down.blocks, taps, source, into, x)
                with code.steps(elements & -step, elements, down.lanes) as x:
                    self._down(1, taps, source, into, x)
            self._along(self._ring.row, lambda number: self._band.row(number) + before)

    def _both_passes(self, begin: Value, end: Value) -> None:
        """Two source rows along x and down y in registers, into the band."""
        code, rule, second = self._code, self._kernel.by_rows, self._kernel.down
        assert rule is not None, "passes are joined over rows"
        assert isinstance(second, RowPairPass), "it takes two rows"
        with code.loop(begin, end) as row:
            taps = self._taps("row", row)
            weights, rows = second.weights(taps), [self._source.row(taps.index(tap)) for tap in range(2)]
            into = self._band.row(row - begin)
            with (
                self._planes(second.written_bytes) as (across, before),
                self._steps_along(rule, [address + across for address in rows]) as (x, (upper, lower)),
            ):
                pixels = second.joined(upper, lower, weights)
                code.store(pixels, into + before + x * second.written_bytes)

    # Source rows

    def _fill_ring(self, row: Value) -> None:
        """The pass along x of all source rows that a row of the result reads and the ring does not have yet."""
        code, kernel, nbytes = self._code, self._kernel, self._kernel.along.written_bytes
        next_row, end = self._next_row.load("i64", 8), self._entry("row_ends", row)
        with code.loop(next_row, end, kernel.step_rows) as group:
            source_row = self._source_rows(group)
            with self._planes(nbytes) as (across, before):

                def read(number: Value | int) -> Value:
                    return source_row(number) + across

                def written(number: Value | int) -> Value:
                    place = (group + number) & self._fields["ring_mask"]
                    return self._ring.row(place) + before

                if kernel.by_rows is None:
                    self._along(read, written, reads_ahead=not kernel.converts_rows)
                else:
                    with code.loop(0, kernel.step_rows) as number:
                        into = written(number)
                        with self._steps_along(kernel.by_rows, [read(number)]) as (x, (sums,)):
                            code.store(sums, into + x * nbytes)
            code.store(group + kernel.step_rows, self._next_row, 8)

    def _source_rows(self, group: Value) -> Address:
        """The rows of a step, from number `group` of the source rows that are read; those of frames are converted."""
        code, fields = self._code, self._fields
        listed = self._address("sources") + group * 8

        if not self._kernel.converts_rows:
            return lambda place: self._source.row(listed.word(place))
        converted = _Rows(self._columns + fields["rows_at"], fields["rows_pitch"])
        with code.loop(0, self._kernel.step_rows) as place:
            row = listed.word(place)
            first = converted.row(place - row)  # where the loop's row 0 would lie
            source = self._source.start
            self._address("rows_kernel")(source, first, source, row, row + 1)
        return converted.row

    # The passes

    @contextmanager
    def _planes(self, written_bytes: int) -> Iterator[tuple[Value, Value]]:
        """Each plane: the bytes before it in the source, and in a row of resized pixels."""
        code, fields = self._code, self._fields
        with code.loop(0, fields["planes"]) as plane:
            before = plane * fields["unit"] * written_bytes
            yield plane * fields["plane_stride"], before

    @contextmanager
    def _channel_planes(self) -> Iterator[tuple[Value, Value]]:
        """Each plane that columns interleave, and the bytes before it in the source; else the only one."""
        code, kernel = self._code, self._kernel
        if not kernel.joins_planes:
            yield code.constant(0), code.constant(0)
            return
        with code.loop(0, kernel.channels) as plane:
            yield plane, plane * self._fields["plane_stride"]

    @contextmanager
    def _steps_along(self, rule: RowPass, rows: Sequence[Value]) -> Iterator[tuple[Value, list[Value]]]:
        """The pass along x over rows as they lie: the first element of each step, and the sums of each row."""
        code, columns = self._code, self._fields["columns"]
        tables = ColumnTables(*(self._address(f"column_{name}") for name in ("indices", "counts", "weights")))
        with code.loop(0, columns, rule.pixels) as first:
            x = first.at_most(columns - rule.pixels) if rule.repeats else first
            yield x * rule.out_step, [rule.step(row, tables, x) for row in rows]

    def _down(self, blocks: int, taps: Taps, rows: _Rows, into: Value, x: Value) -> None:
        """The pass along y of one row: `blocks` vectors from element `x` on."""
        code, rule, kernel = self._code, self._kernel.down, self._kernel
        vector, step = vector_type(rule.lanes, rule.read), rule.lanes * rule.read_bytes
        offset = x * rule.read_bytes

        def load(index: Value) -> list[Value]:
            row = rows.start + (index * rows.pitch + offset)
            vectors = [(row + block * step).load(vector) for block in range(blocks)]
            weighs = kernel.premultiplies and not kernel.columns_first
            return [premultiplied(pixels, kernel.channels) for pixels in vectors] if weighs else vectors

        written = into + x * rule.written_bytes
        for block, pixels in enumerate(rule.pixels(taps, blocks, load, self._fields["factor"])):
            code.store(pixels, written + rule.lanes * rule.written_bytes * block)

    def _along(self, read: Address, written: Address, *, reads_ahead: bool = False) -> None:
        """The pass along x of 16 rows of one plane to 16 other rows: transposed, resized, and transposed back.

        `reads_ahead`: where rows shrink, the 16 rows behind them are prefetched while columns are computed, a part of a
        row with each column.
        """
        code, fields, rule, kernel = self._code, self._fields, self._kernel.along, self._kernel
        channels, unit, resized = kernel.channels, fields["unit"], ROWS * rule.written_bytes
        target = vector_type(ROWS, rule.written)
        rows, into = ([address(number) for number in range(ROWS)] for address in (read, written))
        columns = self._pair_columns(rows) if kernel.interleaves else self._transposed_columns(rows)
        read_bytes = fields["elements"] * (ROWS * rule.read_bytes) // fields["columns"]  # of a row for 16 columns
        part = (read_bytes | (LINE_BYTES - 1)) + 1
        with code.loop(0, fields["columns"]) as x:
            if reads_ahead:
                with code.when(read_bytes > LINE_BYTES), self._channel_planes() as (_, across):
                    start = read(x % ROWS + ROWS) + across + x // ROWS * part
                    with code.loop(0, part, LINE_BYTES) as place:
                        code.prefetch(start + place)
            start = self._outputs + x * (channels * resized)
            found = rule.pixels(self._taps("column", x), channels, columns, fields["factor"])
            for channel, pixels in enumerate(found):
                code.store(pixels, start + channel * resized, 16)
        with code.loop(0, unit, ROWS) as begin:
            places = [self._outputs + (begin + lane) * resized for lane in range(ROWS)]
            block = [place.load(target, 16) for place in places]
            for row, pixels in zip(into, transposed_lanes(block, ROWS), strict=True):
                code.store(pixels, row + begin * rule.written_bytes)

    def _transposed_columns(self, rows: Sequence[Value]) -> Load:
        """Write the columns of 16 rows. The result loads a pixel's, one a channel, by the first channel's element."""
        code, kernel, rule = self._code, self._kernel, self._kernel.along
        column, source = ROWS * rule.read_bytes, vector_type(ROWS, rule.read)
        with code.steps(0, self._fields["elements"], ROWS) as x:
            block = [(row + x * rule.read_bytes).load(source) for row in rows]
            if kernel.premultiplies and kernel.columns_first:
                block = [premultiplied(pixels, kernel.channels) for pixels in block]
            for lane, pixels in enumerate(transposed_lanes(block, ROWS)):
                code.store(pixels, self._columns + (x + lane) * column, 16)

        def load(index: Value) -> list[Value]:
            start = self._columns + index * column
            return [(start + channel * column).load(source, 16) for channel in range(kernel.channels)]

        return load

    def _pair_columns(self, rows: Sequence[Value]) -> Load:
        """Write the pairs of pixels of 16 rows of bytes. The result loads one pair of all channels by its first pixel.

        Vectors of a row begin at even pixels. Those that would reach behind its end are read from a copy of the end.
        """
        code, kernel, elements = self._code, self._kernel, self._fields["elements"]
        step, pixels, channels, beside = kernel.step, kernel.block_pixels, kernel.channels, kernel.row_channels
        source, last = vector_type(ROWS, "i8"), elements - ROWS
        pairs = [
            (pixel * step + channel, (pixel + 1) * step + channel)
            for pixel in range(0, pixels, 2)
            for channel in range(beside)
        ]

        def address(pixel: Value) -> Value:
            return self._columns + pixel * (channels * PAIR_BYTES // 2)

        apart = PAIR_BYTES * (channels // beside)

        def write(starts: Sequence[Value], into: Value) -> None:
            for number, vector in enumerate(transposed_pairs([start.load(source) for start in starts], pairs)):
                places = range(vector.lanes)
                half = len(places) // 2
                for part, lanes in enumerate((places[:half], places[half:]) if kernel.joins_planes else (places,)):
                    code.store(vector.shuffle(lanes), into + (2 * number + part) * apart, PAIR_BYTES)

        whole = last.binary("udiv", step) + 1
        ends = [self._outputs + (number * PAIR_BYTES - ENDS_BYTES) for number in range(ROWS)]
        first = (whole + (pixels - 1)).binary("udiv", pixels) * pixels
        with self._channel_planes() as (plane, across):
            starts, channel = [row + across for row in rows], plane * PAIR_BYTES
            with code.loop(0, whole, pixels) as pixel:
                write([start + pixel * step for start in starts], address(pixel) + channel)
            for start, end in zip(starts, ends, strict=True):
                code.store((start + last).load(source), end, ROWS)
            with code.loop(first, (elements - beside).binary("udiv", step) + 1, pixels) as pixel:
                write([end + (pixel * step - last) for end in ends], address(pixel) + channel)
        paired = vector_type(PAIR_BYTES, "i8")
        return lambda pixel: [
            (address(pixel) + channel * PAIR_BYTES).load(paired, PAIR_BYTES) for channel in range(channels)
        ]

    # The geometry

    def _address(self, field: str) -> Value:
        return self._fields[field].pointer()

    def _entry(self, field: str, place: Value) -> Value:
        return self._address(field).word(place)

    def _taps(self, axis: str, place: Value) -> Taps:
        rule = self._kernel.along if axis == "column" else self._kernel.down
        before = place * self._fields[f"{axis}_groups"]
        indices = self._address(f"{axis}_indices") + before * (8 * rule.group)
        weights = self._address(f"{axis}_weights") + before * rule.weight_bytes
        return Taps(indices, weights, self._entry(f"{axis}_counts", place), self._fields[f"{axis}_unused"])
