"""The machine code of a resize: both passes over bands of rows, in scratch memory of each thread.

    source rows          16 at a time, each at any address; rows of frames are converted into scratch memory before
    columns of 16        transposed: a vector has one element of 16 rows, so one weight serves all its lanes
    first pass           along x: two taps a multiplication, 16 rows at once, for every element of a resized row
    ring                 transposed back: as many rows of the first pass as the second pass reads
    second pass          along y: two rows a multiplication, 64 elements at once
    band                 up to 16 finished rows, which a compiled relayout converts and writes to the target

Pillow's weights have 22 fractional bits and a sign. They are split into `w = high * 2^11 + low`, so that each part fits
16 bits. The processor adds two such products in one instruction, and the whole sum is exact in 32 bits. OpenCV's sums
are rounded to 15 bits between the passes, and its second pass takes the upper half of 16-bit products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from stridedgpu.planning.resize_arithmetic import Arithmetic

from .ir import Code, Value, vector_type
from .resize_geometry import ENTRY_FIELDS, GEOMETRY

__all__ = ["BAND_ROWS", "COMPILED", "LOW_BITS", "ROWS", "WORD_BYTES", "ResizeKernel"]

ROWS: Final = 16
"""Source rows in one step of the first pass: the lanes of a vector."""

BAND_ROWS: Final = 16
"""Rows of the result that are converted in one step."""

LOW_BITS: Final = 11
"""Bits of the lower part of Pillow's weights."""

WORD_BYTES: Final = 8
"""Bytes of a word: two neighbouring pixels of up to four elements."""

WORD_LANES: Final = 4
"""Elements of a resized pixel in one word of a vector."""

COMPILED: Final = {
    Arithmetic.PILLOW_FIXED: Arithmetic.PILLOW_FIXED,
    Arithmetic.OPENCV_LINEAR: Arithmetic.OPENCV_LINEAR,
    Arithmetic.OPENCV_QUARTER: Arithmetic.OPENCV_LINEAR,
}
"""The supported arithmetic, and the kernel of each kind: the mean of four is `OPENCV_LINEAR`, all weights one half."""


@dataclass(frozen=True, slots=True)
class ResizeKernel:
    """A kernel for images of `channels` interleaved channels, whose pixels begin `step` elements apart.

    Planes count as images of 1 channel, several to a window.
    """

    arithmetic: Arithmetic
    channels: int
    step: int
    widest: bool
    """Whether one instruction multiplies 32 pairs of 16 bits (AVX-512); otherwise two do."""
    pairs: bool
    """Whether one instruction multiplies 16-bit pairs and adds them (`pmaddwd`), as on every x86-64."""
    by_pixels: bool = False
    """Whether the first pass loads both taps of a pixel in one word, if two neighbouring pixels fit one."""
    converts_rows: bool = False
    """Whether `rows_kernel` writes each source row as it is read; an entry's source is then its parameters' address."""

    def text(self, name: str) -> str:
        """The module."""
        return _Text(self).text(name)

    @property
    def out_step(self) -> int:
        """Elements from one resized pixel to the next in scratch memory."""
        return WORD_LANES if self.by_pixels else self.channels

    @property
    def between_bytes(self) -> int:
        """Bytes of an element between the passes."""
        return 1 if self.arithmetic is Arithmetic.PILLOW_FIXED else 2


class _Text:
    """One kernel under construction."""

    def __init__(self, kernel: ResizeKernel) -> None:
        """An empty function."""
        self._kernel = kernel
        self._code = Code()
        self._fields: dict[str, Value] = {}

    def text(self, name: str) -> str:
        """The function: loops over entries, bands and rows."""
        code = self._code
        made = code.scratch(8)
        with code.loop(code.first, code.last) as number:
            entry = code.at(Value("ptr", "%parameters"), code.multiply(number, 8 * ENTRY_FIELDS))
            source, target, geometry, first, last = (self._word(entry, place) for place in range(ENTRY_FIELDS))
            fields = code.pointer(geometry)
            self._fields = {field: self._word(fields, place) for place, field in enumerate(GEOMETRY)}
            allocated = code.call_for("ptr", self._address("allocate"), self._fields["scratch_bytes"])
            missing = code.compare("icmp eq", allocated, "null")
            with code.when(missing):
                code.store(code.full("i64", 1), self._address("failed"), 8)
            with code.when(code.negated(missing)):
                self._item(allocated, made, code.pointer(source), target, first, last)
                code.run(self._address("free"), allocated)
        return code.text(name)

    def _item(self, allocated: Value, made: Value, source: Value, target: Value, first: Value, last: Value) -> None:
        """Resize rows `first` to `last` of one window."""
        code, fields = self._code, self._fields
        columns = self._aligned(allocated)
        outputs, ring, band = (code.at(columns, fields[place]) for place in ("outputs_at", "ring_at", "band_at"))
        rows = code.at(columns, fields["rows_at"])
        code.store(self._entry("row_firsts", first), made, 8)
        with code.loop(first, last, BAND_ROWS) as begin:
            end = code.smaller(code.add(begin, BAND_ROWS), last)
            with code.loop(begin, end) as row:
                with code.loop(code.load("i64", made, 8), self._entry("row_ends", row), ROWS) as group:
                    read = self._source_rows(source, group, rows)
                    if self._kernel.by_pixels:
                        self._first_pass_by_pixels(ring, read, group)
                    else:
                        with code.loop(0, fields["planes"]) as plane:
                            self._first_pass(columns, outputs, ring, read, plane, group)
                    code.store(code.add(group, ROWS), made, 8)
                place = code.multiply(code.binary("sub", row, begin), fields["band_pitch"])
                self._second_pass(ring, code.at(band, place), row)
            whole = code.compare("icmp eq", code.binary("sub", end, begin), BAND_ROWS)
            start = code.add(target, code.multiply(begin, fields["target_row"]))
            for kind, condition in (("whole", whole), ("rest", code.negated(whole))):
                with code.when(condition):
                    code.run(
                        self._address(f"{kind}_kernel"),
                        code.at(band, fields[f"{kind}_source"]),
                        code.pointer(code.add(start, fields[f"{kind}_target"])),
                        self._address(f"{kind}_parameters"),
                        code.full("i64", 0),
                        fields[f"{kind}_items"],
                    )

    def _source_rows(self, source: Value, group: Value, rows: Value) -> Callable[[Value], Value]:
        """The address of one of 16 source rows, from number `group` of the rows that are read, by its place.

        Rows of frames are converted into `rows` here.
        """
        code, fields = self._code, self._fields
        listed = code.at(self._address("sources"), code.multiply(group, 8))

        def number(place: Value) -> Value:
            return code.load("i64", code.at(listed, code.multiply(place, 8)), 8)

        if not self._kernel.converts_rows:
            return lambda place: code.at(source, code.multiply(number(place), fields["row_stride"]))
        pitch = fields["rows_pitch"]
        with code.loop(0, ROWS) as place:
            row = number(place)
            into = code.at(rows, code.multiply(code.binary("sub", place, row), pitch))
            code.run(self._address("rows_kernel"), source, into, source, row, code.add(row, 1))
        return lambda place: code.at(rows, code.multiply(place, pitch))

    def _first_pass(
        self,
        columns: Value,
        outputs: Value,
        ring: Value,
        read: Callable[[Value], Value],
        plane: Value,
        group: Value,
    ) -> None:
        """First pass of 16 source rows of one plane, from number `group` of the rows that are read, into the ring."""
        code, fields = self._code, self._fields
        before = code.multiply(plane, fields["plane_stride"])
        rows = [code.at(read(code.full("i64", place)), before) for place in range(ROWS)]
        byte = vector_type(ROWS, "i8")
        elements = fields["elements"]
        last = code.binary("sub", elements, ROWS)
        with code.loop(0, elements, ROWS) as begin:
            place = code.smaller(begin, last)
            block = [code.load(byte, code.at(row, place), 1) for row in rows]
            for lane, column in enumerate(self._transposed(block)):
                code.store(column, code.at(columns, code.multiply(code.add(place, lane), ROWS)), 16)
        with code.loop(0, fields["columns"]) as x:
            self._column(columns, outputs, x)
        bits = 8 * self._kernel.between_bytes
        lanes = vector_type(ROWS, f"i{bits}")
        nbytes = self._kernel.between_bytes
        unit = fields["unit"]
        into = [
            code.at(
                code.at(
                    ring,
                    code.multiply(
                        code.binary("and", code.add(group, place), fields["ring_mask"]), fields["ring_pitch"]
                    ),
                ),
                code.multiply(code.multiply(plane, unit), nbytes),
            )
            for place in range(ROWS)
        ]
        with code.loop(0, unit, ROWS) as begin:
            block = [
                code.load(lanes, code.at(outputs, code.multiply(code.add(begin, lane), ROWS * nbytes)), 16)
                for lane in range(ROWS)
            ]
            for row, address in zip(self._transposed(block), into, strict=True):
                code.store(row, code.at(address, code.multiply(begin, nbytes)), 1)

    def _column(self, columns: Value, outputs: Value, x: Value) -> None:
        """All channels of one resized pixel, for 16 rows."""
        code, kernel = self._code, self._kernel
        indices, weights, count = self._taps("column", x)
        zero = code.full(vector_type(ROWS, "i32"), 0)
        parts = 2 if kernel.arithmetic is Arithmetic.PILLOW_FIXED else 1
        with code.fold(count, [zero] * (parts * kernel.channels)) as (pair, sums):
            places = [self._index(indices, pair, tap) for tap in range(2)]
            starts = [code.at(columns, code.multiply(place, ROWS)) for place in places]
            for channel in range(kernel.channels):
                pixels = [code.load(vector_type(ROWS, "i8"), code.at(start, channel * ROWS), 16) for start in starts]
                joined = self._joined(pixels)
                for part in range(parts):
                    weight = self._weight(weights, pair, part, parts, ROWS)
                    summed = parts * channel + part
                    sums[summed] = code.add(sums[summed], self._products(joined, weight))
        for channel in range(kernel.channels):
            made = sums[parts * channel : parts * (channel + 1)]
            if kernel.arithmetic is Arithmetic.PILLOW_FIXED:
                result = self._rounded(made)
            else:
                result = code.cast("trunc", code.binary("lshr", made[0], 4), "i16")
            place = code.add(code.multiply(x, kernel.channels), channel)
            code.store(result, code.at(outputs, code.multiply(place, ROWS * kernel.between_bytes)), 16)

    def _first_pass_by_pixels(self, ring: Value, read: Callable[[Value], Value], group: Value) -> None:
        """First pass of 16 source rows into the ring, row by row: 8 resized pixels at a time, one word of taps each.

        The counts of taps are replaced by a shift of each word: the last words of a row begin earlier, to end within
        it.
        """
        code, fields, kernel = self._code, self._fields, self._kernel
        pixels = 8
        words = vector_type(pixels, "i64")
        taken = [
            pixel * WORD_BYTES + tap * kernel.step + min(lane, kernel.channels - 1)
            for pixel in range(pixels)
            for lane in range(WORD_LANES)
            for tap in range(2)
        ]
        half = WORD_LANES * pixels
        with code.loop(0, ROWS) as lane:
            row = read(lane)
            number = code.binary("and", code.add(group, lane), fields["ring_mask"])
            place = code.multiply(number, fields["ring_pitch"])
            into = code.at(ring, place)
            with code.loop(0, fields["columns"], pixels) as x:
                tables = [
                    code.at(self._address(f"column_{name}"), code.multiply(x, nbytes))
                    for name, nbytes in (("indices", 8), ("counts", 8), ("weights", 4))
                ]
                gathered = Value(words, "poison")
                for pixel in range(pixels):
                    word = code.load("i64", code.at(row, self._word(tables[0], pixel)), 1)
                    gathered = code.insert(gathered, word, pixel)
                shifted = code.binary("lshr", gathered, code.load(words, tables[1], 8))
                pairs = code.shuffle(code.recast(shifted, "i8"), None, taken)
                weights = code.load(vector_type(pixels, "i32"), tables[2], 4)
                for part in range(2):
                    chosen = code.cast("zext", code.shuffle(pairs, None, range(part * half, (part + 1) * half)), "i16")
                    repeated = [4 * part + lane_ // WORD_LANES for lane_ in range(16)]
                    sums = self._products(chosen, code.shuffle(weights, None, repeated))
                    short = code.cast("trunc", code.binary("lshr", sums, 4), "i16")
                    start = code.at(into, code.multiply(x, 2 * WORD_LANES))
                    code.store(short, code.at(start, 32 * part), 1)

    def _second_pass(self, ring: Value, into: Value, row: Value) -> None:
        """Second pass of one row of the result, all planes, 64 elements at a time."""
        if self._kernel.arithmetic is Arithmetic.PILLOW_FIXED:
            self._rows_of_pillow(ring, into, row)
        else:
            self._rows_of_opencv(ring, into, row)

    def _rows_of_pillow(self, ring: Value, into: Value, row: Value) -> None:
        """Pillow: pairs of rows, with both parts of their weights."""
        code, fields = self._code, self._fields
        indices, weights, count = self._taps("row", row)
        lanes, blocks = 16, 4
        zero = code.full(vector_type(lanes, "i32"), 0)
        with code.loop(0, fields["band_pitch"], lanes * blocks) as begin:
            with code.fold(count, [zero] * (2 * blocks)) as (pair, sums):
                both = [self._weight(weights, pair, part, 2, lanes) for part in range(2)]
                starts = [
                    code.at(ring, code.add(code.multiply(self._index(indices, pair, tap), fields["ring_pitch"]), begin))
                    for tap in range(2)
                ]
                for block in range(blocks):
                    pixels = [code.load(vector_type(lanes, "i8"), code.at(start, lanes * block), 1) for start in starts]
                    joined = self._joined(pixels)
                    for part, weight in enumerate(both):
                        place = 2 * block + part
                        sums[place] = code.add(sums[place], self._products(joined, weight))
            for block in range(blocks):
                address = code.at(into, code.add(begin, lanes * block))
                code.store(self._rounded(sums[2 * block : 2 * block + 2]), address, 1)

    def _rows_of_opencv(self, ring: Value, into: Value, row: Value) -> None:
        """OpenCV: two rows of 15 bits times weights of 12 bits; the upper halves of the products are added."""
        code, fields = self._code, self._fields
        indices, weights, _ = self._taps("row", row)
        lanes = 32
        pair = code.full("i64", 0)
        rows = [code.at(ring, code.multiply(self._index(indices, pair, tap), fields["ring_pitch"])) for tap in range(2)]
        both = code.load("i32", weights, 4)
        low = code.cast("trunc", both, "i16")
        high = code.cast("trunc", code.binary("lshr", both, 16), "i16")
        factors = [code.cast("sext", code.splat(part, lanes), "i32") for part in (low, high)]
        with code.loop(0, fields["band_pitch"], lanes) as begin:
            halves = []
            for start, factor in zip(rows, factors, strict=True):
                sums = code.load(vector_type(lanes, "i16"), code.at(start, code.multiply(begin, 2)), 1)
                product = code.multiply(code.cast("sext", sums, "i32"), factor)
                halves.append(code.cast("trunc", code.binary("lshr", product, 16), "i16"))
            total = code.add(code.add(*halves), 2)
            whole = code.binary("ashr", total, 2)
            clamped = code.select(code.compare("icmp sgt", whole, 255), code.full(whole.type, 255), whole)
            code.store(code.cast("trunc", clamped, "i8"), code.at(into, begin), 1)

    # Parts of both passes

    def _joined(self, pixels: Sequence[Value]) -> Value | tuple[Value, Value]:
        """Two vectors of bytes as the lower and upper 16 bits of each lane, or as two vectors."""
        code = self._code
        low, high = (code.cast("zext", vector, "i32") for vector in pixels)
        if not self._kernel.pairs:
            return low, high
        return code.recast(code.binary("or", low, code.binary("shl", high, 16)), "i16")

    def _products(self, pixels: Value | tuple[Value, Value], weights: Value) -> Value:
        """Multiply-add of each lane's two products; each lane of `weights` has two 16-bit numbers."""
        code = self._code
        if isinstance(pixels, tuple):
            low = code.binary("ashr", code.binary("shl", weights, 16), 16)
            high = code.binary("ashr", weights, 16)
            return code.add(code.multiply(pixels[0], low), code.multiply(pixels[1], high))
        pairs = code.recast(weights, "i16")
        if self._kernel.widest:
            return code.call("llvm.x86.avx512.pmaddw.d.512", vector_type(16, "i32"), pixels, pairs)
        halves = []
        for first in (0, 16):
            parts = [code.shuffle(vector, None, range(first, first + 16)) for vector in (pixels, pairs)]
            halves.append(code.call("llvm.x86.avx2.pmadd.wd", vector_type(8, "i32"), *parts))
        return code.shuffle(halves[0], halves[1], range(16))

    def _rounded(self, sums: Sequence[Value]) -> Value:
        """Combine Pillow's sums of the upper and the lower weight parts, and round to bytes."""
        code = self._code
        high, low = sums
        total = code.add(code.add(code.binary("shl", high, LOW_BITS), low), 1 << 21)
        whole = code.binary("ashr", total, 22)
        whole = code.select(code.compare("icmp sgt", whole, 0), whole, code.full(whole.type, 0))
        whole = code.select(code.compare("icmp slt", whole, 255), whole, code.full(whole.type, 255))
        return code.cast("trunc", whole, "i8")

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

    def _taps(self, axis: str, place: Value) -> tuple[Value, Value, Value]:
        """The addresses of a pixel's indices and weights, and its number of tap pairs."""
        code, fields = self._code, self._fields
        before = code.multiply(place, fields[f"{axis}_pairs"])
        indices = code.at(self._address(f"{axis}_indices"), code.multiply(before, 16))
        parts = 2 if self._kernel.arithmetic is Arithmetic.PILLOW_FIXED else 1
        weights = code.at(self._address(f"{axis}_weights"), code.multiply(before, 4 * parts))
        return indices, weights, self._entry(f"{axis}_counts", place)

    def _index(self, indices: Value, pair: Value, tap: int) -> Value:
        """Load the index of one tap of a pair."""
        code = self._code
        return code.load("i64", code.at(code.at(indices, code.multiply(pair, 16)), 8 * tap), 8)

    def _weight(self, weights: Value, pair: Value, part: int, parts: int, lanes: int) -> Value:
        """Load one part of the weights of a tap pair into every lane."""
        code = self._code
        address = code.at(code.at(weights, code.multiply(pair, 4 * parts)), 4 * part)
        return code.splat(code.load("i32", address, 4), lanes)

    def _aligned(self, allocated: Value) -> Value:
        """Round an address up to a cache line."""
        code = self._code
        bits = code.value("i64", f"ptrtoint ptr {allocated.name} to i64")
        return code.pointer(code.binary("and", code.add(bits, 63), -64))
