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
from stridedgpu.values.interpolation import Arithmetic, Finish

from .ir import Code, Value, vector_type
from .shuffles import joined

__all__ = [
    "LOW_BITS",
    "CopyPass",
    "NumberPass",
    "PairPass",
    "Pass",
    "RowPairPass",
    "Taps",
    "divided_by_alpha",
    "packed_words",
    "pair_products",
    "passes_of",
    "premultiplied",
    "widest",
]

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

    def index(self, code: Code, tap: Value | int) -> Value:
        """The index of a tap."""
        place = 8 * tap if isinstance(tap, int) else code.multiply(tap, 8)
        return code.load("i64", code.at(self.indices, place), 8)


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
    def pixels(self, code: Code, taps: Taps, count: int, load: Load, factor: Value) -> list[Value]:
        """The resized pixels of the `count` vectors that `load` gives for a tap; `factor` is that of a mean."""


@dataclass(frozen=True, slots=True)
class CopyPass(Pass):
    """Pixels stay as they are."""

    def pixels(self, code: Code, taps: Taps, count: int, load: Load, factor: Value) -> list[Value]:
        """The pixels of the only tap."""
        del count, factor
        return load(taps.index(code, 0))


@dataclass(frozen=True, slots=True)
class NumberPass(Pass):
    """Sums of type `number`, one tap at a time in order. `weighted` is False where all weights are 1."""

    blocks: ClassVar[int] = 2  # sums of 8 bytes take two registers each

    number: str
    finish: Finish
    shift: int
    weighted: bool = True

    @property
    def weight_bytes(self) -> int:
        """Bytes of one weight."""
        return _BYTES[self.number]

    def pixels(self, code: Code, taps: Taps, count: int, load: Load, factor: Value) -> list[Value]:
        """Sums of all taps, finished."""
        multiply, add = ("mul", "add") if self.number == "i32" else ("fmul", "fadd")
        start = code.full(vector_type(LANES, self.number), _START[self.number])
        with code.fold(taps.count, [start] * count) as (tap, sums):
            vectors = load(taps.index(code, tap))
            if self.weighted:
                address = code.at(taps.weights, code.multiply(tap, self.weight_bytes))
                weight = code.splat(code.load(self.number, address, self.weight_bytes), LANES)
            for place, vector in enumerate(vectors):
                term = self._number(code, vector)
                if self.weighted:
                    term = code.binary(multiply, term, weight)
                sums[place] = code.binary(add, sums[place], term)
        return [_finished(code, total, self.finish, self.shift, self.written, factor) for total in sums]

    def _number(self, code: Code, vector: Value) -> Value:
        """Pixels as numbers of the sum's type; the conversion is exact."""
        if self.read == self.number:
            return vector
        if self.number == "i32":
            return code.cast("zext", vector, "i32")
        return code.cast("fpext" if self.read == "float" else "uitofp", vector, self.number)


@dataclass(frozen=True, slots=True)
class PairPass(Pass):
    """Two taps a multiplication. Weights have `parts` parts of 16 bits, sums have 32 bits.

    `pairs` says that one instruction multiplies 16-bit pairs and adds them (`pmaddwd`), as on every x86-64. With
    `narrow` the one part is torch's, whose fractional bits are those of its axis.
    """

    group: ClassVar[int] = 2

    parts: int
    finish: Finish
    shift: int
    pairs: bool
    narrow: bool = False

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights of two taps: one 32-bit word a part."""
        return 4 * self.parts

    def pixels(self, code: Code, taps: Taps, count: int, load: Load, factor: Value) -> list[Value]:
        """Sums of all pairs of taps, their parts joined and finished."""
        zero, parts = code.full(vector_type(LANES, "i32"), 0), self.parts
        with code.fold(taps.count, [zero] * (parts * count)) as (pair, sums):
            words = code.at(taps.weights, code.multiply(pair, self.weight_bytes))
            weights = [code.splat(code.load("i32", code.at(words, 4 * part), 4), LANES) for part in range(self.parts)]
            first = code.multiply(pair, 2)
            both = load(taps.index(code, first)), load(taps.index(code, code.add(first, 1)))
            for place, (left, right) in enumerate(zip(*both, strict=True)):
                pairs = self._pairs(code, left, right)
                for part, weight in enumerate(weights, parts * place):
                    sums[part] = code.add(sums[part], pair_products(code, pairs, weight))
        pixels = []
        for start in range(0, parts * count, parts):
            total, *lower = sums[start : start + parts]
            for lower_sum in lower:
                total = code.add(code.binary("shl", total, LOW_BITS), lower_sum)
            if self.narrow:
                unused = code.splat(code.cast("trunc", taps.unused, "i32"), LANES)
                total = code.binary("shl", total, unused)
            pixels.append(_finished(code, total, self.finish, self.shift, self.written, factor))
        return pixels

    def _pairs(self, code: Code, left: Value, right: Value) -> Value | tuple[Value, Value]:
        """Two vectors of bytes as the lower and upper 16 bits of each lane, or as two vectors."""
        low, high = (code.cast("zext", vector, "i32") for vector in (left, right))
        if not self.pairs:
            return low, high
        return code.recast(code.binary("or", low, code.binary("shl", high, 16)), "i16")


def widest() -> bool:
    """Whether one instruction does 32 products of 16 bits (AVX-512), which takes rows 0.8 to 0.9 of the time."""
    return "avx512bw" in policy().target.features


def pair_products(code: Code, pixels: Value | tuple[Value, Value], weights: Value) -> Value:
    """Multiply-add of each lane's two products; each lane of `weights` has two 16-bit numbers."""
    if isinstance(pixels, tuple):
        low = code.binary("ashr", code.binary("shl", weights, 16), 16)
        high = code.binary("ashr", weights, 16)
        return code.add(code.multiply(pixels[0], low), code.multiply(pixels[1], high))
    pairs = code.recast(weights, "i16")
    if widest():
        return code.call("llvm.x86.avx512.pmaddw.d.512", vector_type(LANES, "i32"), pixels, pairs, needs="avx512bw")
    halves = []
    for first in (0, LANES):
        parts = [code.shuffle(vector, None, range(first, first + LANES)) for vector in (pixels, pairs)]
        halves.append(code.call("llvm.x86.avx2.pmadd.wd", vector_type(LANES // 2, "i32"), *parts, needs="avx2"))
    return joined(code, halves)


def packed_words(code: Code, left: Value, right: Value) -> Value:
    """Two vectors of 16 numbers below 2^16 as 32 words: four of `left`, then four of `right`, and so on."""
    if widest():
        words = vector_type(2 * LANES, "i16")
        return code.call("llvm.x86.avx512.packusdw.512", words, left, right, needs="avx512bw")
    order = [start + half * LANES + place for start in range(0, LANES, 4) for half in range(2) for place in range(4)]
    return code.cast("trunc", code.shuffle(left, right, order), "i16")


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

    def pixels(self, code: Code, taps: Taps, count: int, load: Load, factor: Value) -> list[Value]:
        """The only two taps."""
        del count, factor
        weights, both = self.weights(code, taps), [load(taps.index(code, tap)) for tap in range(2)]
        return [self.joined(code, upper, lower, weights) for upper, lower in zip(*both, strict=True)]

    def weights(self, code: Code, taps: Taps) -> list[Value]:
        """The weights of both rows, in every lane: two halves of a word."""
        if not self.weighted:
            return []
        word = code.load("i32", taps.weights, 4)
        parts = [code.cast("trunc", code.binary("lshr", word, shift), "i16") for shift in (0, 16)]
        return [code.cast("sext", code.splat(half, self.lanes), "i32") for half in parts]

    def joined(self, code: Code, upper: Value, lower: Value, weights: Sequence[Value]) -> Value:
        """The pixels of a vector of each row."""
        if not self.weighted:
            return code.cast("trunc", code.binary("lshr", code.add(code.add(upper, lower), 2), 2), "i8")
        halves = []
        for sums, weight in zip((upper, lower), weights, strict=True):
            product = code.multiply(code.cast("sext", sums, "i32"), weight)
            halves.append(code.cast("trunc", code.binary("lshr", product, 16), "i16"))
        whole = code.binary("ashr", code.add(code.add(*halves), 2), 2)
        clamped = code.select(code.compare("icmp sgt", whole, 255), code.full(whole.type, 255), whole)
        return code.cast("trunc", clamped, "i8")


def passes_of(
    arithmetic: Arithmetic, element: ElementType, copies: tuple[bool, bool], *, pairs: bool, narrow: bool = False
) -> tuple[Pass, Pass]:
    """The first and the second pass over pixels of a type; `copies` says which of them only copies.

    `pairs` and `narrow` are those of `PairPass`.
    """
    if arithmetic is Arithmetic.COPY:
        word = f"i{8 * element.itemsize}"
        return CopyPass(word, word), CopyPass(word, word)
    spec, pixels = arithmetic.spec, _PIXELS[element.name]
    number, upper = _SUMS[spec.weights], spec.second is Finish.UPPER
    between = pixels if spec.first is not Finish.KEPT else "i16" if upper else number
    # OpenCV's second pass reads INTER_LINEAR's sums without their 4 lowest bits.
    shifts = (4 if upper else 0 if spec.first is Finish.KEPT else spec.shift), spec.shift
    weighted = number != "i32" or spec.bits > 0

    def one(read: str, written: str, finish: Finish, shift: int, *, copied: bool) -> Pass:
        if finish is Finish.UPPER:
            return RowPairPass(read, written, weighted=True)
        if read == "i8" and number == "i32":
            parts = 1 if narrow or spec.bits <= _NARROW_BITS else 2
            return PairPass(read, written, parts, finish, shift, pairs, narrow)
        return CopyPass(read, written) if copied else NumberPass(read, written, number, finish, shift, weighted)

    return (
        one(pixels, between, spec.first, shifts[0], copied=copies[0]),
        one(between, pixels, spec.second, shifts[1], copied=copies[1]),
    )


def _finished(code: Code, sums: Value, finish: Finish, shift: int, written: str, factor: Value) -> Value:
    """Sums as pixels of a type, as the table of rules states."""
    if finish is Finish.KEPT:
        return code.cast("trunc", code.binary("lshr", sums, shift), written) if shift else sums
    if finish is Finish.SHIFTED:
        whole = code.binary("ashr", code.add(sums, 1 << (shift - 1)), shift)
        return code.cast("trunc", _clamped(code, whole, written), written)
    if finish is Finish.MEAN:
        bits = code.splat(code.cast("trunc", factor, "i32"), sums.lanes)
        factors = code.value(vector_type(sums.lanes, "float"), f"bitcast {bits.type} {bits.name} to <16 x float>")
        sums = code.binary("fmul", code.cast("sitofp", sums, "float"), factors)
    if written == "float":
        numbers = code.cast("fptrunc", sums, "float") if sums.element == "double" else sums
        nan = code.full(numbers.type, "0x7FF8000000000000")
        return code.select(code.compare("fcmp uno", numbers, "0.0"), nan, numbers)
    rounding = "roundeven"
    if finish is Finish.HALF_UP:
        rounding, sums = "floor", code.binary("fadd", sums, code.full(sums.type, "0.5"))
    whole = code.call(f"llvm.{rounding}.v{sums.lanes}f{8 * _BYTES[sums.element]}", sums.type, sums)
    return code.cast("trunc", code.cast("fptosi", _clamped(code, whole, written), "i32"), written)


def _clamped(code: Code, whole: Value, written: str) -> Value:
    """Whole numbers within 0 and the largest one of a type; NaN becomes 0."""
    compare, point = ("icmp s", "") if whole.element == "i32" else ("fcmp o", ".0")
    zero, most = f"0{point}", f"{256 ** _BYTES[written] - 1}{point}"
    whole = code.select(code.compare(f"{compare}gt", whole, zero), whole, code.full(whole.type, zero))
    return code.select(code.compare(f"{compare}lt", whole, most), whole, code.full(whole.type, most))


# Pillow's premultiplied alpha, in vectors of whole pixels of 2 or 4 bytes, the last of which is alpha


def _alphas(code: Code, pixels: Value, channels: int) -> tuple[Value, Value]:
    """The alpha of each lane's pixel, and which lanes are alpha."""
    lanes = range(pixels.lanes)
    alpha = code.shuffle(pixels, None, [lane - lane % channels + channels - 1 for lane in lanes])
    bits = ", ".join(f"i1 {int(lane % channels == channels - 1)}" for lane in lanes)
    return alpha, Value(f"<{pixels.lanes} x i1>", f"<{bits}>")


def premultiplied(code: Code, pixels: Value, channels: int) -> Value:
    """Colours times alpha, rounded as Pillow's `MULDIV255` does."""
    alpha, is_alpha = _alphas(code, pixels, channels)
    product = code.add(code.multiply(code.cast("zext", pixels, "i16"), code.cast("zext", alpha, "i16")), 128)
    whole = code.binary("lshr", code.add(code.binary("lshr", product, 8), product), 8)
    return code.select(is_alpha, pixels, code.cast("trunc", whole, "i8"))


def divided_by_alpha(code: Code, pixels: Value, channels: int) -> Value:
    """Colours by alpha, rounded down, at most 255; where alpha is 0 or 255 they stay.

    A quotient of float32 has the whole part of the exact one, which is at least 1/255 below the next integer.
    """
    alpha, is_alpha = _alphas(code, pixels, channels)
    color, below = (code.cast("uitofp", code.cast("zext", part, "i32"), "float") for part in (pixels, alpha))
    most = code.full(color.type, "255.0")
    quotient = code.binary("fdiv", code.binary("fmul", color, most), below)
    quotient = code.select(code.compare("fcmp olt", quotient, "255.0"), quotient, most)
    stays = code.binary("or", is_alpha, code.compare("icmp eq", alpha, 0))
    stays = code.binary("or", stays, code.compare("icmp eq", alpha, -1))
    return code.select(stays, pixels, code.cast("trunc", code.cast("fptoui", quotient, "i32"), "i8"))
