"""The passes of a resize in vectors: how the pixels that taps reach become a pixel of the next type.

    `PairPass`      two taps a multiplication of 16-bit numbers: 8 bits of Pillow and torch, and OpenCV's integers
    `RowPairPass`   OpenCV's INTER_LINEAR, and its blocks of 2 x 2, behind their first passes
    `NumberPass`    one tap at a time: float64 (Pillow), float32 and int32 (OpenCV)
    `CopyPass`      no arithmetic: pixels of any type

`passes_of` chooses them by the table of `stridedgpu.values.interpolation`. Pillow's weights have 22 fractional bits and
a sign. They are split into `w = high * 2^11 + low`, so that each part fits 16 bits. The processor adds two such
products in one instruction, and the whole sum is exact in 32 bits. torch's weights fit one part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.interpolation import Finish, ResizeSums, rounded_taps

from .conversion import with_one_nan
from .ir import Value, interleaved, joined, vector_type

LOW_BITS: Final = 11
"""Bits of the lower part of Pillow's weights."""

LANES: Final = 16
"""Lanes of a vector of sums."""

_NARROW_BITS: Final = 15
"""The most fractional bits of weights that fit one part of 16 bits."""

_BYTES: Final = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}

_PIXELS: Final = {"uint8": "i8", "uint16": "i16", "float32": "float"}
"""The LLVM types of pixels with arithmetic."""

_SUMS: Final = {"int32": "i32", "float32": "float", "float64": "double"}

_SUMS_AT_ONCE: Final = 4
"""Vectors of sums that a loop keeps in 16 registers of half their size, beside weights and pixels."""

_START: Final = {"i32": "0", "float": "-0.0", "double": "0.0"}
"""Where sums begin: OpenCV's first term keeps its sign, and Pillow adds to 0."""

Load = Callable[[Value], list[Value]]
"""Loads the vectors of pixels at the index of a tap."""


@dataclass(frozen=True, slots=True)
class Taps:
    """The taps of one resized pixel: the addresses of its indices and weights, and how many groups of them it has.

    `unused` are the fractional bits that narrow weights of its axis do without.
    """

    indices: Value
    weights: Value
    count: Value
    unused: Value

    def index(self, tap: Value | int) -> Value:
        """The index of a tap."""
        return self.indices.word(tap)


@dataclass(frozen=True, slots=True)
class Pass(ABC):
    """One pass, from pixels of LLVM type `read` to `written`.

    A step along y has `blocks` vectors of `lanes` elements of a row. Tables have taps in groups of `group`.
    """

    lanes: ClassVar[int] = LANES
    blocks: ClassVar[int] = 4
    group: ClassVar[int] = 1

    read: str
    written: str

    @property
    def read_bytes(self) -> int:
        """Bytes of a pixel's element before the pass."""
        return _BYTES[self.read]

    @property
    def written_bytes(self) -> int:
        """Bytes of a pixel's element behind the pass."""
        return _BYTES[self.written]

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights of one group of taps."""
        return 0

    @abstractmethod
    def pixels(self, taps: Taps, count: int, load: Load, factor: Value) -> list[Value]:
        """The resized pixels of the `count` vectors that `load` gives for a tap; `factor` is that of a mean."""


@dataclass(frozen=True, slots=True)
class CopyPass(Pass):
    """Pixels stay as they are."""

    def pixels(self, taps: Taps, count: int, load: Load, factor: Value) -> list[Value]:
        """The pixels of the only tap."""
        del count, factor
        return load(taps.index(0))


@dataclass(frozen=True, slots=True)
class NumberPass(Pass):
    """Sums of type `number`, one tap at a time in order. `weighted` is False where all weights are 1.

    With `fuses` products behind the `rounded_taps` are fused.
    """

    blocks: ClassVar[int] = 2  # sums of 8 bytes take two registers each

    number: str
    finish: Finish
    shift: int
    weighted: bool = True
    fuses: bool = False

    @property
    def weight_bytes(self) -> int:
        """Bytes of one weight."""
        return _BYTES[self.number]

    def pixels(self, taps: Taps, count: int, load: Load, factor: Value) -> list[Value]:
        """Sums of all taps, finished."""
        code = taps.indices.code
        start = code.constant(_START[self.number], vector_type(LANES, self.number))
        rounded = rounded_taps(taps.count) if self.fuses else taps.count
        with code.fold(rounded, [start] * count) as (tap, sums):
            weight = self._weight(taps, tap) if self.weighted else None
            for place, vector in enumerate(load(taps.index(tap))):
                term = self._number(vector)
                sums[place] = sums[place] + (term if weight is None else term * weight)
        if self.fuses:
            with code.fold(taps.count - rounded, sums) as (behind, sums):
                tap = rounded + behind
                weight = self._weight(taps, tap)
                for place, vector in enumerate(load(taps.index(tap))):
                    sums[place] = vector.intrinsic("llvm.fma", weight, sums[place])
        return [_finished(total, self.finish, self.shift, self.written, factor) for total in sums]

    def _weight(self, taps: Taps, tap: Value) -> Value:
        """The weight of a tap in every lane."""
        return (taps.weights + tap * self.weight_bytes).load(self.number, self.weight_bytes).splat(LANES)

    def _number(self, vector: Value) -> Value:
        """Pixels as numbers of the sum's type; the conversion is exact."""
        if self.read == self.number:
            return vector
        if self.number == "i32":
            return vector.cast("zext", "i32")
        return vector.cast("fpext" if self.read == "float" else "uitofp", self.number)


@dataclass(frozen=True, slots=True)
class PairPass(Pass):
    """Two taps a multiplication. Weights have `parts` parts of 16 bits, sums have 32 bits.

    `pairs` says that one instruction multiplies 16-bit pairs and adds them (`pmaddwd`), as on every x86-64. With
    `narrow` the one part is torch's, whose fractional bits are those of its axis. With `interleaved` the taps of a
    pixel are neighbours from an even one on, and both pixels of a pair lie side by side in one vector.
    """

    group: ClassVar[int] = 2

    parts: int
    finish: Finish
    shift: int
    pairs: bool
    narrow: bool = False
    interleaved: bool = False

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights of two taps: one 32-bit word a part."""
        return 4 * self.parts

    def pixels(self, taps: Taps, count: int, load: Load, factor: Value) -> list[Value]:
        """Sums of all pairs of taps, their parts joined and finished."""
        even = taps.index(0) & -2 if self.interleaved else None
        totals = self._sums(taps, count, lambda pair: self._pairs(taps, pair * 2, load, even))
        if self.finish is Finish.SHIFTED:
            return [_clamped(total, self.written).cast("trunc", self.written) for total in totals]
        return [_finished(total, self.finish, self.shift, self.written, factor) for total in totals]

    @property
    def fills_lines(self) -> bool:
        """Whether `line` does the pass."""
        return self.pairs and self.finish is Finish.SHIFTED and self.written == "i8"

    def line(self, taps: Taps, load: Callable[[Value], Value]) -> Value:
        """64 neighbouring bytes, from those that `load` gives for a tap.

        The bytes of two taps are shuffled side by side within each 16 bytes, and sums are packed in the same way.
        """
        zero = taps.indices.code.constant(0, vector_type(4 * LANES, "i8"))

        def pairs(pair: Value) -> list[Value]:
            halves = interleaved(*(load(taps.index(pair * 2 + tap)) for tap in range(2)))
            return [quarter.recast("i16") for half in halves for quarter in interleaved(half, zero)]

        return packed_bytes(self._sums(taps, 4, pairs))

    def _sums(
        self, taps: Taps, count: int, pairs: Callable[[Value], Sequence[Value | tuple[Value, Value]]]
    ) -> list[Value]:
        """The sums of `count` vectors over all pairs of taps, their parts joined; rounded and shifted where they are.

        They begin at half of what is shifted out.
        """
        code, shift = taps.indices.code, taps.unused.cast("trunc", "i32")
        shift = self.shift - shift if self.narrow else shift.like(self.shift)
        apart = self.parts if widest() or self.parts * count <= _SUMS_AT_ONCE else 1
        zero = code.constant(0, vector_type(LANES, "i32"))
        half = zero.like((shift.like(1) << shift) >> 1) if self.finish is Finish.SHIFTED else zero
        with code.fold(taps.count, [*[zero] * (apart - 1), half] * count) as (pair, sums):
            words = taps.weights + pair * self.weight_bytes
            weights = [(words + 4 * part).load("i32", 4).splat(LANES) for part in range(self.parts)]
            for place, pixels in enumerate(pairs(pair)):
                products = [pair_products(pixels, weight) for weight in weights]
                for part, product in enumerate(products if apart > 1 else [_whole(products)], apart * place):
                    sums[part] = sums[part] + product
        totals = [_whole(sums[start : start + apart]) for start in range(0, apart * count, apart)]
        return [total.shifted(shift) for total in totals] if self.finish is Finish.SHIFTED else totals

    def _pairs(self, taps: Taps, first: Value, load: Load, even: Value | None) -> list[Value | tuple[Value, Value]]:
        """The pixels of two taps as the lower and upper 16 bits of each lane, or as two vectors.

        `even` is the pixel of the lower half of the first interleaved pair.
        """
        if even is not None:
            return [vector.cast("zext", "i16") for vector in load(even + first)]
        both = zip(load(taps.index(first)), load(taps.index(first + 1)), strict=True)
        halves = [(left.cast("zext", "i32"), right.cast("zext", "i32")) for left, right in both]
        return [(low | (high << 16)).recast("i16") if self.pairs else (low, high) for low, high in halves]


def _whole(parts: Sequence[Value]) -> Value:
    """Parts of sums or products as one."""
    total, *lower = parts
    for part in lower:
        total = (total << LOW_BITS) + part
    return total


def widest() -> bool:
    """Whether one instruction does 32 products of 16 bits (AVX-512), which takes rows 0.8 to 0.9 of the time."""
    return "avx512bw" in policy().target.features


def pair_products(pixels: Value | tuple[Value, Value], weights: Value) -> Value:
    """The sum of each lane's two products; each lane of `weights` has two 16-bit numbers.

    With AVX-512 VNNI LLVM adds it to another sum in the same instruction.
    """
    if isinstance(pixels, tuple):
        low = (weights << 16).shifted(16)
        high = weights.shifted(16)
        return pixels[0] * low + pixels[1] * high
    pairs, code = weights.recast("i16"), weights.code
    if widest():
        return code.call("llvm.x86.avx512.pmaddw.d.512", vector_type(LANES, "i32"), pixels, pairs, needs="avx512bw")
    halves = []
    for first in (0, LANES):
        parts = [vector.shuffle(range(first, first + LANES)) for vector in (pixels, pairs)]
        halves.append(code.call("llvm.x86.avx2.pmadd.wd", vector_type(LANES // 2, "i32"), *parts, needs="avx2"))
    return joined(halves)


def packed_bytes(sums: Sequence[Value]) -> Value:
    """Four vectors of 16 whole numbers, clamped to 0 and 255: four bytes of each vector in turn within 16 bytes."""
    first, second, third, fourth = sums
    code = first.code
    if widest():
        words = [
            code.call("llvm.x86.avx512.packssdw.512", vector_type(2 * LANES, "i16"), *both, needs="avx512bw")
            for both in ((first, second), (third, fourth))
        ]
        return code.call("llvm.x86.avx512.packuswb.512", vector_type(4 * LANES, "i8"), *words, needs="avx512bw")
    halves = []
    for start in (0, LANES // 2):
        parts = [total.shuffle(range(start, start + LANES // 2)) for total in sums]
        words = [
            code.call("llvm.x86.avx2.packssdw", vector_type(LANES, "i16"), *parts[place : place + 2], needs="avx2")
            for place in (0, 2)
        ]
        halves.append(code.call("llvm.x86.avx2.packuswb", vector_type(2 * LANES, "i8"), *words, needs="avx2"))
    return joined(halves)


def packed_words(left: Value, right: Value) -> Value:
    """Two vectors of 16 numbers below 2^16 as 32 words: four of `left`, then four of `right`, and so on."""
    if widest():
        words = vector_type(2 * LANES, "i16")
        return left.code.call("llvm.x86.avx512.packusdw.512", words, left, right, needs="avx512bw")
    order = [start + half * LANES + place for start in range(0, LANES, 4) for half in range(2) for place in range(4)]
    return left.shuffle(order, right).cast("trunc", "i16")


@dataclass(frozen=True, slots=True)
class RowPairPass(Pass):
    """OpenCV's second pass over two rows of 16-bit sums.

    `weighted`: INTER_LINEAR, rows of 15 bits times weights of 12 bits, whose products' upper halves are added. Else
    blocks of 2 x 2. Both end in a quarter of the sum, rounded half up.
    """

    lanes: ClassVar[int] = 2 * LANES
    blocks: ClassVar[int] = 2  # a band's rows are multiples of both
    group: ClassVar[int] = 2

    weighted: bool

    @property
    def weight_bytes(self) -> int:
        """Bytes of both weights."""
        return 4

    def pixels(self, taps: Taps, count: int, load: Load, factor: Value) -> list[Value]:
        """The only two taps."""
        del count, factor
        weights, both = self.weights(taps), [load(taps.index(tap)) for tap in range(2)]
        return [self.joined(upper, lower, weights) for upper, lower in zip(*both, strict=True)]

    def weights(self, taps: Taps) -> list[Value]:
        """The weights of both rows, in every lane: two halves of a word."""
        if not self.weighted:
            return []
        word = taps.weights.load("i32", 4)
        parts = [(word >> shift).cast("trunc", "i16") for shift in (0, 16)]
        return [half.splat(self.lanes).cast("sext", "i32") for half in parts]

    def joined(self, upper: Value, lower: Value, weights: Sequence[Value]) -> Value:
        """The pixels of a vector of each row."""
        if not self.weighted:
            return ((upper + lower + 2) >> 2).cast("trunc", "i8")
        halves = []
        for sums, weight in zip((upper, lower), weights, strict=True):
            product = sums.cast("sext", "i32") * weight
            halves.append((product >> 16).cast("trunc", "i16"))
        whole = (halves[0] + halves[1] + 2).shifted(2)
        return (whole > 255).select(255, whole).cast("trunc", "i8")


def passes_of(
    arithmetic: ResizeSums, element: ElementType, copies: tuple[bool, bool], *, pairs: bool, narrow: bool = False
) -> tuple[Pass, Pass]:
    """The first and the second pass over pixels of a type; `copies` says which of them only copies.

    `pairs` and `narrow` are those of `PairPass`.
    """
    if arithmetic is ResizeSums.COPY:
        word = f"i{8 * element.itemsize}"
        return CopyPass(word, word), CopyPass(word, word)
    spec, pixels = arithmetic.spec, _PIXELS[element.name]
    number, upper = _SUMS[spec.weights], spec.second is Finish.UPPER
    between = pixels if spec.first is not Finish.KEPT else "i16" if upper else number
    # OpenCV's second pass reads INTER_LINEAR's sums without their 4 lowest bits.
    shifts = (4 if upper else 0 if spec.first is Finish.KEPT else spec.shift), spec.shift
    weighted, fuses = number != "i32" or spec.bits > 0, arithmetic.fuses

    def one(read: str, written: str, finish: Finish, shift: int, *, copied: bool) -> Pass:
        if finish is Finish.UPPER:
            return RowPairPass(read, written, weighted=True)
        if read == "i8" and number == "i32":
            parts = 1 if narrow or spec.bits <= _NARROW_BITS else 2
            return PairPass(read, written, parts, finish, shift, pairs, narrow)
        return CopyPass(read, written) if copied else NumberPass(read, written, number, finish, shift, weighted, fuses)

    return (
        one(pixels, between, spec.first, shifts[0], copied=copies[0]),
        one(between, pixels, spec.second, shifts[1], copied=copies[1]),
    )


def _finished(sums: Value, finish: Finish, shift: int, written: str, factor: Value) -> Value:
    """Sums as pixels of a type, as the table of rules states."""
    if finish is Finish.KEPT:
        return (sums >> shift).cast("trunc", written) if shift else sums
    if finish is Finish.SHIFTED:
        whole = (sums + (1 << (shift - 1))).shifted(shift)
        return _clamped(whole, written).cast("trunc", written)
    if finish is Finish.MEAN:
        factors = factor.cast("trunc", "i32").splat(sums.lanes).cast("bitcast", "float")
        sums = sums.cast("sitofp", "float") * factors
    if written == "float":
        return with_one_nan(sums.cast("fptrunc", "float") if sums.element == "double" else sums)
    rounding = "roundeven"
    if finish is Finish.HALF_UP:
        rounding, sums = "floor", sums + 0.5
    return _clamped(sums.intrinsic(f"llvm.{rounding}"), written).cast("fptosi", "i32").cast("trunc", written)


def _clamped(whole: Value, written: str) -> Value:
    """Whole numbers within 0 and the largest one of a type; NaN becomes 0."""
    return whole.at_least(0).at_most(256 ** _BYTES[written] - 1)


# Pillow's premultiplied alpha, in vectors of whole pixels of 2 or 4 bytes, the last of which is alpha


def _alphas(pixels: Value, channels: int) -> tuple[Value, Value]:
    """The alpha of each lane's pixel, and which lanes are alpha."""
    lanes = range(pixels.lanes)
    alpha = pixels.shuffle([lane - lane % channels + channels - 1 for lane in lanes])
    return alpha, pixels.code.lanes("i1", [int(lane % channels == channels - 1) for lane in lanes])


def premultiplied(pixels: Value, channels: int) -> Value:
    """Colours times alpha, rounded as Pillow's `MULDIV255` does."""
    alpha, is_alpha = _alphas(pixels, channels)
    product = pixels.cast("zext", "i16") * alpha.cast("zext", "i16") + 128
    whole = ((product >> 8) + product) >> 8
    return is_alpha.select(pixels, whole.cast("trunc", "i8"))


def divided_by_alpha(pixels: Value, channels: int) -> Value:
    """Colours by alpha, rounded down, at most 255; where alpha is 0 or 255 they stay.

    A quotient of float32 has the whole part of the exact one, which is at least 1/255 below the next integer.
    """
    alpha, is_alpha = _alphas(pixels, channels)
    color, below = (part.cast("zext", "i32").cast("uitofp", "float") for part in (pixels, alpha))
    quotient = (color * 255 / below).at_most(255)
    stays = is_alpha | (alpha == 0) | (alpha == -1)
    return stays.select(pixels, quotient.cast("fptoui", "i32").cast("trunc", "i8"))
