"""First passes of a resize that read source rows as they lie, without a transpose: sums of 16 bits for each pixel.

    WordRows    interleaved pixels: one word has both taps of a pixel, all its channels
    PairRows    planes: two neighbouring bytes are both taps of a pixel
    HalfRows    blocks of 2 x 2: every other pixel is added to the next one

The first two are OpenCV's INTER_LINEAR at any scale, whose sums lose their 4 lowest bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

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
    """A first pass along x over one row at a time.

    `channels` are those of an interleaved pixel. `widest`: one instruction does 32 products of 16 bits (AVX-512).
    """

    channels: int
    widest: bool

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
    """Pixels `step_elements` apart. Those of a step may lie in `windows` of `WINDOW_BYTES`, each taken by a shuffle.

    Without windows, 0, they are loaded one by one. `window_counts` are the numbers of windows that take less time.
    """

    window_counts: ClassVar[tuple[int, ...]]

    step_elements: int
    windows: int = 0

    @property
    def pixel_bytes(self) -> int:
        """Bytes of one pixel's taps in a vector."""
        return LINE_BYTES // self.pixels

    @abstractmethod
    def _halves(self) -> list[list[int]]:
        """Both halves of a step as bytes of the loaded vector, two taps a lane of 32 bits.

        Packing two vectors of sums interleaves them by four.
        """

    @abstractmethod
    def _one_by_one(self, code: Code, row: Value, tables: ColumnTables, x: Value, places: list[Value]) -> Value:
        """The bytes of all pixels of a step, loaded from their `places` in the row."""

    def step(self, code: Code, row: Value, tables: ColumnTables, x: Value) -> Value:
        """Load the taps, widen them to 16 bits, and add their products in pairs, without the 4 lowest bits."""
        start = code.at(tables.indices, code.multiply(x, 8))
        if self.windows:
            loaded = self._window(code, row, tables, x, start)
        else:
            places = [code.load("i64", code.at(start, 8 * pixel), 8) for pixel in range(self.pixels)]
            loaded = self._one_by_one(code, row, tables, x, places)
        zeros = code.full(loaded.type, 0)
        weights = code.at(tables.weights, code.multiply(x, 4 * _SUMS // self.pixels))
        sums = []
        for half, taken in enumerate(self._halves()):
            pairs = code.shuffle(loaded, zeros, [lane for byte in taken for lane in (byte, loaded.lanes)])
            factors = code.load(vector_type(16, "i32"), code.at(weights, 64 * half), 4)
            products = pair_products(code, code.recast(pairs, "i16"), factors, widest=self.widest)
            sums.append(code.binary("lshr", products, 4))
        return packed_words(code, *sums, widest=self.widest)

    def _window(self, code: Code, row: Value, tables: ColumnTables, x: Value, begins: Value) -> Value:
        """The bytes of all pixels of a step, from two vectors a window that follow each other."""
        vector = vector_type(LINE_BYTES, "i8")
        places = code.load(vector, code.at(tables.places, code.multiply(x, self.pixel_bytes)), 1)
        parts = []
        for first in range(0, self.pixels, self.pixels // self.windows):
            start = code.at(row, code.load("i64", code.at(begins, 8 * first), 8))
            left, right = (code.load(vector, code.at(start, place), 1) for place in (0, LINE_BYTES))
            parts.append(
                code.call("llvm.x86.avx512.vpermi2var.qi.512", vector, left, places, right, needs="avx512vbmi")
            )
        while len(parts) > 1:
            # Each has the bytes of its pixels where they belong: lower parts of one, upper parts of the next.
            size = LINE_BYTES // len(parts)
            lanes = [lane + LINE_BYTES * (lane // size % 2) for lane in range(LINE_BYTES)]
            parts = [code.shuffle(*pair, lanes) for pair in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]


@dataclass(frozen=True, slots=True)
class WordRows(_TapRows):
    """Pixels of 2 to 4 channels, a word each; near the end of a row, words begin earlier and are shifted."""

    window_counts: ClassVar[tuple[int, ...]] = (1,)

    @property
    def pixels(self) -> int:
        """A word each."""
        return _SUMS // WORD_LANES

    @property
    def out_step(self) -> int:
        """Pixels stay words."""
        return WORD_LANES

    def _halves(self) -> list[list[int]]:
        return [
            [
                pixel * WORD_BYTES + tap * self.step_elements + min(lane, self.channels - 1)
                for pixel in range(half, self.pixels, 2)
                for lane in range(WORD_LANES)
                for tap in range(2)
            ]
            for half in range(2)
        ]

    def _one_by_one(self, code: Code, row: Value, tables: ColumnTables, x: Value, places: list[Value]) -> Value:
        type_ = vector_type(self.pixels, "i64")
        words = _inserted(code, row, type_, places)
        shifts = code.load(type_, code.at(tables.places, code.multiply(x, 8)), 8)
        return code.recast(code.binary("lshr", words, shifts), "i8")


@dataclass(frozen=True, slots=True)
class PairRows(_TapRows):
    """Planes of adjacent bytes, two of them a pixel."""

    window_counts: ClassVar[tuple[int, ...]] = (1, 2, 4)

    @property
    def pixels(self) -> int:
        """Two bytes each."""
        return _SUMS

    def _halves(self) -> list[list[int]]:
        return [
            [2 * (first + pixel) + tap for first in range(start, _SUMS, 8) for pixel in range(4) for tap in range(2)]
            for start in (0, 4)
        ]

    def _one_by_one(self, code: Code, row: Value, tables: ColumnTables, x: Value, places: list[Value]) -> Value:
        del tables, x
        # Eight a register.
        parts = [_inserted(code, row, vector_type(8, "i16"), places[first : first + 8]) for first in range(0, 32, 8)]
        left, right = (code.shuffle(parts[place], parts[place + 1], range(16)) for place in (0, 2))
        return code.recast(code.shuffle(left, right, range(32)), "i8")


def _inserted(code: Code, row: Value, type_: str, places: Iterable[Value]) -> Value:
    """A vector whose elements are loaded from places in a row."""
    vector = Value(type_, "poison")
    for lane, place in enumerate(places):
        vector = code.insert(vector, code.load(vector.element, code.at(row, place), 1), lane)
    return vector


@dataclass(frozen=True, slots=True)
class HalfRows(RowPass):
    """Pixels that follow each other without gaps, every other one added to the next: one step has those of 32 sums."""

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
        nbytes, half = 2 * self.pixels * self.channels, LINE_BYTES // 2
        start = code.at(row, code.load("i64", code.at(tables.indices, code.multiply(x, 16)), 8))
        vectors = [code.load(vector_type(half, "i8"), code.at(start, place), 1) for place in (0, nbytes - half)]
        both = code.shuffle(vectors[0], vectors[1], range(2 * half))
        terms = [self._bytes(tap, behind=nbytes - half) for tap in range(2)]
        if self.widest:
            # One instruction adds neighbouring bytes.
            ordered = code.shuffle(both, None, [max(byte, 0) for pair in zip(*terms, strict=True) for byte in pair])
            ones = code.full(ordered.type, 1)
            return code.call(
                "llvm.x86.avx512.pmaddubs.w.512", vector_type(_SUMS, "i16"), ordered, ones, needs="avx512bw"
            )
        zeros, zero = code.full(both.type, 0), both.lanes
        words = [
            code.shuffle(both, zeros, [lane for byte in term for lane in (byte if byte >= 0 else zero, zero)])
            for term in terms
        ]
        return code.add(*(code.recast(vector, "i16") for vector in words))

    def _bytes(self, tap: int, behind: int) -> list[int]:
        """The byte of a tap for each sum, of two vectors of which the second begins at `behind`; -1 without a pixel."""
        places, half = [], LINE_BYTES // 2
        for pixel, channel in (divmod(number, self.channels) for number in range(_SUMS)):
            byte = (2 * pixel + tap) * self.channels + channel
            places.append(-1 if pixel >= self.pixels else byte if byte < half else byte - behind + half)
        return places
