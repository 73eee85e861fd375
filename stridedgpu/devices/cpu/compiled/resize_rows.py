"""First passes of a resize that read source rows as they lie, without a transpose: sums of 16 bits for each pixel.

    WordRows    interleaved pixels: one word has both taps of a pixel, all its channels
    PairRows    planes: two neighbouring bytes are both taps of a pixel
    HalfRows    blocks of 2 x 2: every other pixel is added to the next one

The first two are OpenCV's INTER_LINEAR at any scale, whose sums lose their 4 lowest bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, NamedTuple

from .ir import LINE_BYTES, Code, Value, vector_type
from .resize_passes import packed_words, pair_products

__all__ = ["WINDOW_BYTES", "WORD_BYTES", "WORD_LANES", "ColumnTables", "HalfRows", "PairRows", "RowPass", "WordRows"]

WORD_BYTES: Final = 8
"""Bytes of a word: two neighbouring pixels of up to four elements."""

WORD_LANES: Final = 4
"""Elements of a resized pixel in one word of a vector."""

WINDOW_BYTES: Final = 2 * LINE_BYTES
"""Bytes that one shuffle chooses from."""

_SUMS: Final = 32
"""Sums of one step: a vector of the widest registers."""


class ColumnTables(NamedTuple):
    """The addresses of a geometry's tables: places of taps in a row, shifts of words or places in a window, weights."""

    indices: Value
    places: Value
    weights: Value


@dataclass(frozen=True, slots=True)
class RowPass(ABC):
    """A first pass along x over one row at a time. `channels` are those of an interleaved pixel."""

    channels: int

    @property
    @abstractmethod
    def pixels(self) -> int:
        """Resized pixels of one step."""

    @property
    def out_step(self) -> int:
        """Elements from one resized pixel to the next."""
        return self.channels

    @property
    def repeats(self) -> bool:
        """Whether the last step begins earlier; otherwise it has pixels behind the last, and tables for them."""
        return False

    @abstractmethod
    def step(self, code: Code, row: Value, tables: ColumnTables, x: Value) -> Value:
        """The 16-bit sums of the pixels from `x` on."""


@dataclass(frozen=True, slots=True)
class _TapRows(RowPass):
    """Pixels at any places. Those of a step may lie in `windows` of `WINDOW_BYTES`, of which a shuffle each takes them.

    Without windows, 0, they are loaded one by one.
    """

    step_elements: int
    widest: bool
    windows: int

    @property
    def window_counts(self) -> tuple[int, ...]:
        """Numbers of windows that take less time than single loads."""
        return (1,)

    @property
    def pixel_bytes(self) -> int:
        """Bytes of one pixel's taps in a vector."""
        return LINE_BYTES // self.pixels

    def _window(self, code: Code, row: Value, tables: ColumnTables, x: Value) -> Value:
        """The bytes of all pixels of a step, from two vectors a window that follow each other."""
        vector = vector_type(LINE_BYTES, "i8")
        begins = code.at(tables.indices, code.multiply(x, 8))
        places = code.load(vector, code.at(tables.places, code.multiply(x, self.pixel_bytes)), 1)
        found = []
        for window in range(self.windows):
            number = window * self.pixels // self.windows
            start = code.at(row, code.load("i64", code.at(begins, 8 * number), 8))
            first, second = (code.load(vector, code.at(start, place), 1) for place in (0, LINE_BYTES))
            found.append(
                code.call("llvm.x86.avx512.vpermi2var.qi.512", vector, first, places, second, needs="avx512vbmi")
            )
        while len(found) > 1:
            # Each has the bytes of its pixels where they belong: lower parts of one, upper parts of the next.
            part = LINE_BYTES // len(found)
            found = [
                code.shuffle(*pair, [lane + LINE_BYTES * (lane // part % 2) for lane in range(LINE_BYTES)])
                for pair in zip(found[::2], found[1::2], strict=True)
            ]
        return found[0]

    def _places(self, code: Code, tables: ColumnTables, x: Value) -> list[Value]:
        """The place of each pixel in its row, in bytes."""
        start = code.at(tables.indices, code.multiply(x, 8))
        return [code.load("i64", code.at(start, 8 * pixel), 8) for pixel in range(self.pixels)]

    def _shortened(self, code: Code, halves: list[Value], weights: Value) -> Value:
        """The sums of two vectors of pairs, without their 4 lowest bits, four of each in turns."""
        sums = []
        for half, pairs in enumerate(halves):
            factors = code.load(vector_type(16, "i32"), code.at(weights, 64 * half), 4)
            products = pair_products(code, code.recast(pairs, "i16"), factors, widest=self.widest)
            sums.append(code.binary("lshr", products, 4))
        return packed_words(code, *sums, widest=self.widest)


@dataclass(frozen=True, slots=True)
class WordRows(_TapRows):
    """Pixels of 2 to 4 channels; near the end of a row, words begin earlier and are shifted."""

    @property
    def pixels(self) -> int:
        """A word each."""
        return 8

    @property
    def out_step(self) -> int:
        """Pixels stay words."""
        return WORD_LANES

    def step(self, code: Code, row: Value, tables: ColumnTables, x: Value) -> Value:
        """Load words, and pair the elements of both their pixels."""
        pixels = self.pixels
        loaded = (self._window if self.windows else self._words)(code, row, tables, x)
        zeros = code.full(loaded.type, 0)
        # Even pixels, then odd ones: packing two vectors of sums interleaves them by four.
        halves = [
            code.shuffle(
                loaded,
                zeros,
                [
                    pixel * WORD_BYTES + tap * self.step_elements + min(lane, self.channels - 1)
                    if byte == 0
                    else pixels * WORD_BYTES
                    for pixel in range(half, pixels, 2)
                    for lane in range(WORD_LANES)
                    for tap in range(2)
                    for byte in range(2)
                ],
            )
            for half in range(2)
        ]
        return self._shortened(code, halves, code.at(tables.weights, code.multiply(x, 4 * WORD_LANES)))

    def _words(self, code: Code, row: Value, tables: ColumnTables, x: Value) -> Value:
        """A word of each pixel."""
        words = vector_type(self.pixels, "i64")
        gathered = Value(words, "poison")
        for pixel, place in enumerate(self._places(code, tables, x)):
            gathered = code.insert(gathered, code.load("i64", code.at(row, place), 1), pixel)
        shifts = code.load(words, code.at(tables.places, code.multiply(x, 8)), 8)
        return code.recast(code.binary("lshr", gathered, shifts), "i8")


@dataclass(frozen=True, slots=True)
class PairRows(_TapRows):
    """Planes of adjacent bytes."""

    @property
    def pixels(self) -> int:
        """Two bytes each."""
        return _SUMS

    @property
    def window_counts(self) -> tuple[int, ...]:
        """Up to one for 8 pixels, whose bytes are single loads otherwise."""
        return (1, 2, 4)

    def step(self, code: Code, row: Value, tables: ColumnTables, x: Value) -> Value:
        """Load pairs and widen their bytes."""
        loaded = (self._window if self.windows else self._pairs)(code, row, tables, x)
        zeros = code.full(loaded.type, 0)
        # Four pixels, then the four behind them: packing two vectors of sums interleaves them by four.
        halves = [
            code.shuffle(
                loaded,
                zeros,
                [
                    2 * (first + pixel) + tap if byte == 0 else 2 * _SUMS
                    for first in range(start, _SUMS, 8)
                    for pixel in range(4)
                    for tap in range(2)
                    for byte in range(2)
                ],
            )
            for start in (0, 4)
        ]
        return self._shortened(code, halves, code.at(tables.weights, code.multiply(x, 4)))

    def _pairs(self, code: Code, row: Value, tables: ColumnTables, x: Value) -> Value:
        """A pair of each pixel, eight a register."""
        part = vector_type(8, "i16")
        parts = [Value(part, "poison")] * 4
        for pixel, place in enumerate(self._places(code, tables, x)):
            pair = code.load("i16", code.at(row, place), 1)
            parts[pixel // 8] = code.insert(parts[pixel // 8], pair, pixel % 8)
        joined = [code.shuffle(parts[place], parts[place + 1], range(16)) for place in (0, 2)]
        return code.recast(code.shuffle(joined[0], joined[1], range(32)), "i8")


@dataclass(frozen=True, slots=True)
class HalfRows(RowPass):
    """Pixels that follow each other without gaps, every other one added to the next: one step has those of 32 sums."""

    widest: bool

    @property
    def pixels(self) -> int:
        """As many as a vector of sums holds."""
        return _SUMS // self.channels

    @property
    def repeats(self) -> bool:
        """Behind the last pixel there is nothing to read."""
        return True

    def step(self, code: Code, row: Value, tables: ColumnTables, x: Value) -> Value:
        """Load two vectors that may overlap, and add what they have of the two pixels."""
        nbytes, half = 2 * self.pixels * self.channels, 32
        start = code.at(row, code.load("i64", code.at(tables.indices, code.multiply(x, 16)), 8))
        vectors = [code.load(vector_type(half, "i8"), code.at(start, place), 1) for place in (0, nbytes - half)]
        both = code.shuffle(vectors[0], vectors[1], range(2 * half))
        bytes_of = [self._bytes(place) for place in range(_SUMS)]
        if self.widest:
            # One instruction adds neighbouring bytes.
            ordered = code.shuffle(both, None, [max(byte, 0) for pair in bytes_of for byte in pair])
            ones = code.full(ordered.type, 1)
            return code.call(
                "llvm.x86.avx512.pmaddubs.w.512", vector_type(_SUMS, "i16"), ordered, ones, needs="avx512bw"
            )
        zeros = code.full(both.type, 0)
        terms = []
        for tap in range(2):
            lanes = [lane for pair in bytes_of for lane in (pair[tap] if pair[tap] >= 0 else 2 * half, 2 * half)]
            terms.append(code.recast(code.shuffle(both, zeros, lanes), "i16"))
        return code.add(*terms)

    def _bytes(self, place: int) -> tuple[int, int]:
        """The two bytes of a sum among the 64 that are loaded; -1 for sums that no pixel has."""
        pixel, channel = divmod(place, self.channels)
        if pixel >= self.pixels:
            return -1, -1
        # The second vector ends with the last byte.
        before, half = 2 * self.pixels * self.channels, LINE_BYTES // 2
        found = [(2 * pixel + tap) * self.channels + channel for tap in range(2)]
        first, second = (byte if byte < half else byte + LINE_BYTES - before for byte in found)
        return first, second
