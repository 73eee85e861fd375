"""First passes of a resize that read source rows as they lie, without a transpose: sums of 16 bits for each pixel.

`TapRows`     two neighbours a pixel anywhere in a row: OpenCV's INTER_LINEAR, whose sums lose their 4 lowest bits
`HalfRows`    blocks of 2 x 2: every other pixel is added to the next one
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, NamedTuple

from stridedgpu.devices.cpu.native.registers import LINE_BYTES

from .ir import Value, joined, vector_type
from .resize_passes import packed_words, pair_products, widest

WORD_BYTES: Final = 8
"""Bytes of a word: two neighbouring pixels of up to four elements, or four pairs of neighbours in a plane."""

WORD_SUMS: Final = 4
"""Sums of a word."""
_SUMS: Final = 32
"""Sums of one step: a vector of the widest registers."""


class ColumnTables(NamedTuple):
    """The addresses of a geometry's tables: places of taps in a row, shifts of words, weights."""

    indices: Value
    shifts: Value
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
    def step(self, row: Value, tables: ColumnTables, x: Value) -> Value:
        """The 16-bit sums of the pixels from `x` on."""


@dataclass(frozen=True, slots=True)
class TapRows(RowPass):
    """Pixels of 2 to 4 channels, `step_elements` apart, or of a plane; a vector has the taps of a step in words.

    pixels   r g b r g b . .   r g b r g b . .   ...      a word has both taps of one pixel
    planes   x x y y z z w w   ...                        or those of four

    """

    step_elements: int

    @property
    def word_pixels(self) -> int:
        """Pixels of a word."""
        return 1 if self.channels > 1 else WORD_SUMS

    @property
    def pixels(self) -> int:
        """A word of each pixel, or of four."""
        return _SUMS // WORD_SUMS * self.word_pixels

    @property
    def out_step(self) -> int:
        """Pixels stay words."""
        return WORD_SUMS // self.word_pixels

    @property
    def pixel_bytes(self) -> int:
        """Bytes of one pixel's taps in a vector."""
        return WORD_BYTES // self.word_pixels

    def step(self, row: Value, tables: ColumnTables, x: Value) -> Value:
        """Load the taps, widen them to 16 bits, and add their products in pairs, without the 4 lowest bits."""
        loaded = self._loaded(row, tables, x)
        zeros = loaded.like(0)
        weights = tables.weights + x * (4 * _SUMS // self.pixels)
        sums = []
        for half in range(2):
            # Packing two vectors of sums interleaves them by four: each has every other word.
            taken = [
                WORD_BYTES * word + self._byte(number, tap)
                for word in range(half, _SUMS // WORD_SUMS, 2)
                for number in range(WORD_SUMS)
                for tap in range(2)
            ]
            pairs = loaded.shuffle([lane for byte in taken for lane in (byte, loaded.lanes)], zeros)
            factors = (weights + 64 * half).load(vector_type(16, "i32"), 4)
            sums.append(pair_products(pairs.recast("i16"), factors) >> 4)
        return packed_words(*sums)

    def _byte(self, number: int, tap: int) -> int:
        if self.channels == 1:
            return 2 * number + tap
        return tap * self.step_elements + min(number, self.channels - 1)

    def _loaded(self, row: Value, tables: ColumnTables, x: Value) -> Value:
        """The bytes of all pixels of a step, each loaded into its lane; words near the row's end are shifted."""
        lanes, element = LINE_BYTES // WORD_BYTES, f"i{8 * self.pixel_bytes}"
        type_ = vector_type(lanes, element)
        places = [(tables.indices + (x * 8 + 8 * pixel)).load("i64", 8) for pixel in range(self.pixels)]
        vectors = []
        for first in range(0, self.pixels, lanes):
            each = ((row + place).load(element) for place in places[first : first + lanes])
            vectors.append(row.code.vector(type_, each))
        if self.channels > 1:
            shifts = (tables.shifts + x * 8).load(type_, 8)
            vectors = [vectors[0] >> shifts]
        return joined(vectors).recast("i8")


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

    def step(self, row: Value, tables: ColumnTables, x: Value) -> Value:
        """Load two vectors that may overlap, and add what they have of the two pixels."""
        nbytes, half = 2 * self.pixels * self.channels, LINE_BYTES // 2
        start = row + (tables.indices + x * 16).load("i64", 8)
        vectors = [(start + place).load(vector_type(half, "i8")) for place in (0, nbytes - half)]
        both = vectors[0].shuffle(range(2 * half), vectors[1])
        terms = [self._bytes(tap, behind=nbytes - half) for tap in range(2)]
        if widest():
            # One instruction adds neighbouring bytes.
            ordered = both.shuffle([max(byte, 0) for pair in zip(*terms, strict=True) for byte in pair])
            words, ones = vector_type(_SUMS, "i16"), ordered.like(1)
            return row.code.call("llvm.x86.avx512.pmaddubs.w.512", words, ordered, ones, needs="avx512bw")
        zeros, zero = both.like(0), both.lanes
        wide = [
            both.shuffle([lane for byte in term for lane in (byte if byte >= 0 else zero, zero)], zeros)
            for term in terms
        ]
        first, second = (vector.recast("i16") for vector in wide)
        return first + second

    def _bytes(self, tap: int, behind: int) -> list[int]:
        """The byte of a tap for each sum, of two vectors of which the second begins at `behind`; -1 without a pixel."""
        places, half = [], LINE_BYTES // 2
        for pixel, channel in (divmod(number, self.channels) for number in range(_SUMS)):
            byte = (2 * pixel + tap) * self.channels + channel
            places.append(-1 if pixel >= self.pixels else byte if byte < half else byte - behind + half)
        return places
