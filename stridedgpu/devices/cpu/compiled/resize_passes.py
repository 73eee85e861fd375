"""The passes of a resize in vectors: how the pixels that taps reach become a pixel of the next type.

    `PairPass`      two taps a multiplication of 16-bit numbers: Pillow's 8 bits, and OpenCV's integers
    `UpperPass`     OpenCV's INTER_LINEAR behind its first pass: upper halves of 16-bit products
    `QuarterPass`   OpenCV's blocks of 2 x 2 behind a first pass that adds
    `NumberPass`    one tap at a time: float64 (Pillow), float32 and int32 (OpenCV)
    `CopyPass`      no arithmetic: pixels of any type

Pillow's weights have 22 fractional bits and a sign. They are split into `w = high * 2^11 + low`, so that each part fits
16 bits. The processor adds two such products in one instruction, and the whole sum is exact in 32 bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from .ir import Code, Value, vector_type

__all__ = [
    "LOW_BITS",
    "CopyPass",
    "Finish",
    "NumberPass",
    "PairPass",
    "Pass",
    "QuarterPass",
    "RowPairPass",
    "Taps",
    "UpperPass",
    "packed_words",
    "pair_products",
]

LOW_BITS: Final = 11
"""Bits of the lower part of Pillow's weights."""

LANES: Final = 16
"""Lanes of a vector of sums."""

Load = Callable[[Value], list[Value]]
"""Loads the vectors of pixels at the index of a tap."""

Finish = Callable[[Code, Value, Value], Value]
"""Turns a vector of sums into pixels; the last argument is the factor of a mean, in bits of float32."""

_BITS: Final = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "float": 32, "double": 64}


@dataclass(frozen=True, slots=True)
class Taps:
    """The taps of one resized pixel: the addresses of its indices and weights, and how many groups of them it has."""

    indices: Value
    weights: Value
    count: Value


@dataclass(frozen=True, slots=True)
class Pass(ABC):
    """One pass, from pixels of LLVM type `read` to `written`."""

    read: str
    written: str

    @property
    def read_bytes(self) -> int:
        """Bytes of a pixel's element before the pass."""
        return _BITS[self.read] // 8

    @property
    def written_bytes(self) -> int:
        """Bytes of a pixel's element behind the pass."""
        return _BITS[self.written] // 8

    @property
    def lanes(self) -> int:
        """Elements of one vector of a row."""
        return LANES

    @property
    def blocks(self) -> int:
        """Vectors of a row in one step."""
        return 4

    @property
    @abstractmethod
    def index_bytes(self) -> int:
        """Bytes of the indices of one group of taps."""

    @property
    @abstractmethod
    def weight_bytes(self) -> int:
        """Bytes of the weights of one group of taps."""

    @abstractmethod
    def pixels(self, code: Code, taps: Taps, count: int, load: Load, factor: Value) -> list[Value]:
        """The resized pixels of the `count` vectors that `load` gives for a tap."""


@dataclass(frozen=True, slots=True)
class CopyPass(Pass):
    """Pixels stay as they are."""

    @property
    def index_bytes(self) -> int:
        """Bytes of one index."""
        return 8

    @property
    def weight_bytes(self) -> int:
        """There are none."""
        return 0

    def pixels(self, code: Code, taps: Taps, count: int, load: Load, factor: Value) -> list[Value]:
        """The pixels of the only tap."""
        del count, factor
        return load(code.load("i64", taps.indices, 8))


@dataclass(frozen=True, slots=True)
class NumberPass(Pass):
    """Sums of type `number`, which begin at `start`, one tap at a time in order; `finish` makes pixels of them.

    `weighted` is False where all weights are 1.
    """

    number: str
    start: str
    finish: Finish
    weighted: bool = True

    @property
    def blocks(self) -> int:
        """Vectors of a row in one step: sums of 8 bytes take two registers each."""
        return 2

    @property
    def index_bytes(self) -> int:
        """Bytes of one index."""
        return 8

    @property
    def weight_bytes(self) -> int:
        """Bytes of one weight."""
        return _BITS[self.number] // 8

    def pixels(self, code: Code, taps: Taps, count: int, load: Load, factor: Value) -> list[Value]:
        """Sums of all taps, finished."""
        sums_type = vector_type(LANES, self.number)
        first = [code.full(sums_type, self.start)] * count
        is_float = self.number in ("float", "double")
        with code.fold(taps.count, first) as (tap, sums):
            vectors = load(code.load("i64", code.at(taps.indices, code.multiply(tap, 8)), 8))
            if self.weighted:
                address = code.at(taps.weights, code.multiply(tap, self.weight_bytes))
                weight = code.splat(code.load(self.number, address, self.weight_bytes), LANES)
            for place, vector in enumerate(vectors):
                term = self._number(code, vector)
                if self.weighted:
                    term = code.binary("fmul" if is_float else "mul", term, weight)
                sums[place] = code.binary("fadd" if is_float else "add", sums[place], term)
        return [self.finish(code, total, factor) for total in sums]

    def _number(self, code: Code, vector: Value) -> Value:
        """Pixels as numbers of the sum's type; the conversion is exact."""
        if self.read == self.number:
            return vector
        if self.number == "i32":
            return code.cast("zext", vector, "i32")
        return code.cast("fpext" if self.read == "float" else "uitofp", vector, self.number)


@dataclass(frozen=True, slots=True)
class PairPass(Pass):
    """Two taps a multiplication. Weights have `parts` parts of 16 bits; `finish` makes pixels of 32-bit sums.

    `pairs` says that one instruction multiplies 16-bit pairs and adds them (`pmaddwd`), as on every x86-64; `widest`,
    that one does 32 of them (AVX-512).
    """

    parts: int
    finish: Finish
    pairs: bool
    widest: bool

    @property
    def index_bytes(self) -> int:
        """Bytes of the indices of two taps."""
        return 16

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights of two taps: one 32-bit word a part."""
        return 4 * self.parts

    def pixels(self, code: Code, taps: Taps, count: int, load: Load, factor: Value) -> list[Value]:
        """Sums of all pairs of taps, their parts joined and finished."""
        zero, parts = code.full(vector_type(LANES, "i32"), 0), self.parts
        with code.fold(taps.count, [zero] * (parts * count)) as (pair, sums):
            before = code.multiply(pair, self.weight_bytes)
            words = [
                code.load("i32", code.at(code.at(taps.weights, before), 4 * part), 4) for part in range(self.parts)
            ]
            weights = [code.splat(word, LANES) for word in words]
            places = code.at(taps.indices, code.multiply(pair, 16))
            both = [load(code.load("i64", code.at(places, 8 * tap), 8)) for tap in range(2)]
            for place, vectors in enumerate(zip(*both, strict=True)):
                joined = self._joined(code, vectors)
                for part, weight in enumerate(weights):
                    summed = parts * place + part
                    sums[summed] = code.add(sums[summed], pair_products(code, joined, weight, widest=self.widest))
        made = []
        for start in range(0, parts * count, parts):
            total, *lower = sums[start : start + parts]
            for lower_sum in lower:
                total = code.add(code.binary("shl", total, LOW_BITS), lower_sum)
            made.append(self.finish(code, total, factor))
        return made

    def _joined(self, code: Code, pixels: Sequence[Value]) -> Value | tuple[Value, Value]:
        """Two vectors of bytes as the lower and upper 16 bits of each lane, or as two vectors."""
        low, high = (code.cast("zext", vector, "i32") for vector in pixels)
        if not self.pairs:
            return low, high
        return code.recast(code.binary("or", low, code.binary("shl", high, 16)), "i16")


def pair_products(code: Code, pixels: Value | tuple[Value, Value], weights: Value, *, widest: bool) -> Value:
    """Multiply-add of each lane's two products; each lane of `weights` has two 16-bit numbers."""
    if isinstance(pixels, tuple):
        low = code.binary("ashr", code.binary("shl", weights, 16), 16)
        high = code.binary("ashr", weights, 16)
        return code.add(code.multiply(pixels[0], low), code.multiply(pixels[1], high))
    pairs = code.recast(weights, "i16")
    if widest:
        return code.call("llvm.x86.avx512.pmaddw.d.512", vector_type(LANES, "i32"), pixels, pairs, needs="avx512bw")
    halves = []
    for first in (0, LANES):
        parts = [code.shuffle(vector, None, range(first, first + LANES)) for vector in (pixels, pairs)]
        halves.append(code.call("llvm.x86.avx2.pmadd.wd", vector_type(LANES // 2, "i32"), *parts, needs="avx2"))
    return code.shuffle(halves[0], halves[1], range(LANES))


def packed_words(code: Code, left: Value, right: Value, *, widest: bool) -> Value:
    """Two vectors of 16 numbers below 2^16 as 32 words: four of `left`, then four of `right`, and so on."""
    if widest:
        words = vector_type(2 * LANES, "i16")
        return code.call("llvm.x86.avx512.packusdw.512", words, left, right, needs="avx512bw")
    order = [start + half * LANES + place for start in range(0, LANES, 4) for half in range(2) for place in range(4)]
    return code.cast("trunc", code.shuffle(left, right, order), "i16")


@dataclass(frozen=True, slots=True)
class RowPairPass(Pass):
    """A second pass over two rows of 16-bit sums."""

    @property
    def lanes(self) -> int:
        """Elements of one vector of a row: 16-bit numbers."""
        return 2 * LANES

    @property
    def blocks(self) -> int:
        """Vectors of a row in one step: a band's rows are multiples of both."""
        return 2

    @property
    def index_bytes(self) -> int:
        """Bytes of the indices of two taps."""
        return 16

    @property
    def weight_bytes(self) -> int:
        """Bytes of both weights."""
        return 4

    @abstractmethod
    def weights(self, code: Code, taps: Taps) -> list[Value]:
        """The weights of both rows, in every lane."""

    @abstractmethod
    def joined(self, code: Code, upper: Value, lower: Value, weights: Sequence[Value]) -> Value:
        """The pixels of a vector of each row."""

    def pixels(self, code: Code, taps: Taps, count: int, load: Load, factor: Value) -> list[Value]:
        """The only two taps."""
        del count, factor
        weights = self.weights(code, taps)
        both = [load(code.load("i64", code.at(taps.indices, 8 * tap), 8)) for tap in range(2)]
        return [self.joined(code, upper, lower, weights) for upper, lower in zip(*both, strict=True)]


@dataclass(frozen=True, slots=True)
class UpperPass(RowPairPass):
    """OpenCV: two rows of 15 bits times weights of 12 bits; the upper halves of the products are added."""

    def weights(self, code: Code, taps: Taps) -> list[Value]:
        """Two halves of a word."""
        word = code.load("i32", taps.weights, 4)
        parts = [code.cast("trunc", code.binary("lshr", word, shift), "i16") for shift in (0, 16)]
        return [code.cast("sext", code.splat(half, self.lanes), "i32") for half in parts]

    def joined(self, code: Code, upper: Value, lower: Value, weights: Sequence[Value]) -> Value:
        """Halves of products, added, rounded, shifted and clamped."""
        halves = []
        for sums, weight in zip((upper, lower), weights, strict=True):
            product = code.multiply(code.cast("sext", sums, "i32"), weight)
            halves.append(code.cast("trunc", code.binary("lshr", product, 16), "i16"))
        whole = code.binary("ashr", code.add(code.add(*halves), 2), 2)
        clamped = code.select(code.compare("icmp sgt", whole, 255), code.full(whole.type, 255), whole)
        return code.cast("trunc", clamped, "i8")


@dataclass(frozen=True, slots=True)
class QuarterPass(RowPairPass):
    """OpenCV's blocks of 2 x 2: a quarter of the sums of two rows, rounded half up."""

    def weights(self, code: Code, taps: Taps) -> list[Value]:
        """There are none."""
        del code, taps
        return []

    def joined(self, code: Code, upper: Value, lower: Value, weights: Sequence[Value]) -> Value:
        """A quarter of both."""
        del weights
        return code.cast("trunc", code.binary("lshr", code.add(code.add(upper, lower), 2), 2), "i8")
