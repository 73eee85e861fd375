"""The passes of every arithmetic of a resize, for the types of its pixels.

`passes_of` is the table of `planning/resize_arithmetic.py` in vectors; a `Finish` makes pixels of sums.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.interpolation import Arithmetic

from .ir import Code, Value, vector_type
from .resize_passes import CopyPass, Finish, NumberPass, PairPass, Pass, QuarterPass, UpperPass

__all__ = ["halving_passes", "passes_of"]

_NUMBERS: Final = {"uint8": "i8", "uint16": "i16", "float32": "float"}
"""The LLVM types of pixels with arithmetic."""

_LARGEST: Final = {"i8": 255, "i16": 65535}


@lru_cache(maxsize=256)
def passes_of(
    arithmetic: Arithmetic, element: ElementType, copies: tuple[bool, bool], *, pairs: bool, widest: bool
) -> tuple[Pass, Pass]:
    """The first and the second pass over pixels of a type; `copies` says which of them only copies.

    `pairs` and `widest` are of `PairPass`. Cached, so that equal arguments give equal kernels: passes have functions.
    """
    if arithmetic is Arithmetic.COPY:
        word = f"i{8 * element.itemsize}"
        return CopyPass(word, word), CopyPass(word, word)
    read = _NUMBERS[element.name]
    if arithmetic is Arithmetic.PILLOW_FIXED:
        one = PairPass("i8", "i8", 2, _shifted(22, "i8"), pairs, widest)
        return one, one
    if arithmetic is Arithmetic.PILLOW_DOUBLE:
        rounded: Finish = _float32 if read == "float" else _half_up_uint16
        summed, copied = NumberPass(read, read, "double", "0.0", rounded), CopyPass(read, read)
        return copied if copies[0] else summed, copied if copies[1] else summed
    if arithmetic is Arithmetic.OPENCV_LINEAR:
        return PairPass("i8", "i16", 1, _shortened, pairs, widest), UpperPass("i16", "i8")
    if arithmetic is Arithmetic.OPENCV_FLOAT:
        rounded = _float32 if read == "float" else _half_even(read)
        return (
            NumberPass(read, "float", "float", "-0.0", _kept),
            NumberPass("float", read, "float", "-0.0", rounded),
        )
    weighted = arithmetic in (Arithmetic.OPENCV_EXACT, Arithmetic.OPENCV_CUBIC)
    first: Pass = NumberPass(read, "i32", "i32", "0", _kept, weighted)
    if read == "i8":
        first = PairPass(read, "i32", 1, _kept, pairs, widest)
    finishes: dict[Arithmetic, Finish] = {
        Arithmetic.OPENCV_EXACT: _shifted(16, read),
        Arithmetic.OPENCV_CUBIC: _shifted(22, read),
        Arithmetic.OPENCV_QUARTER: _shifted(2, read),
        Arithmetic.OPENCV_MEAN: _mean(read),
    }
    return first, NumberPass("i32", read, "i32", "0", finishes[arithmetic], weighted)


def halving_passes() -> tuple[Pass, Pass]:
    """The passes of blocks of 2 x 2 bytes whose first one is `HalfRows`: its types alone are read."""
    return PairPass("i8", "i16", 1, _kept, pairs=False, widest=False), QuarterPass("i16", "i8")


def _kept(code: Code, sums: Value, factor: Value) -> Value:
    """The sums themselves."""
    del code, factor
    return sums


def _shortened(code: Code, sums: Value, factor: Value) -> Value:
    """OpenCV's sums between the passes of INTER_LINEAR, without their 4 lowest bits."""
    del factor
    return code.cast("trunc", code.binary("lshr", sums, 4), "i16")


def _clamped(code: Code, whole: Value, largest: int) -> Value:
    """32-bit integers within 0 and `largest`."""
    zero, most = code.full(whole.type, 0), code.full(whole.type, largest)
    whole = code.select(code.compare("icmp sgt", whole, 0), whole, zero)
    return code.select(code.compare("icmp slt", whole, largest), whole, most)


def _shifted(bits: int, written: str) -> Finish:
    """Fixed-point sums, rounded half up and clamped."""

    def finish(code: Code, sums: Value, factor: Value) -> Value:
        del factor
        whole = code.binary("ashr", code.add(sums, 1 << (bits - 1)), bits)
        return code.cast("trunc", _clamped(code, whole, _LARGEST[written]), written)

    return finish


def _half_even(written: str) -> Finish:
    """float32 sums as integers, half to even and clamped."""

    def finish(code: Code, sums: Value, factor: Value) -> Value:
        del factor
        whole = code.call(f"llvm.roundeven.v{sums.lanes}f32", sums.type, sums)
        largest = f"{float(_LARGEST[written]):.1f}"
        whole = code.select(code.compare("fcmp ogt", whole, "0.0"), whole, code.full(whole.type, "0.0"))
        whole = code.select(code.compare("fcmp olt", whole, largest), whole, code.full(whole.type, largest))
        return code.cast("trunc", code.cast("fptoui", whole, "i32"), written)

    return finish


def _mean(written: str) -> Finish:
    """Sums of whole pixels times a factor, both float32."""
    rounded = _half_even(written)

    def finish(code: Code, sums: Value, factor: Value) -> Value:
        bits = code.splat(code.cast("trunc", factor, "i32"), sums.lanes)
        factors = code.value(vector_type(sums.lanes, "float"), f"bitcast {bits.type} {bits.name} to <16 x float>")
        return rounded(code, code.binary("fmul", code.cast("sitofp", sums, "float"), factors), factor)

    return finish


def _half_up_uint16(code: Code, sums: Value, factor: Value) -> Value:
    """float64 sums as 16-bit integers, half up and clamped."""
    del factor
    half = code.binary("fadd", sums, code.full(sums.type, "0.5"))
    whole = code.call(f"llvm.floor.v{sums.lanes}f64", sums.type, half)
    whole = code.select(code.compare("fcmp ogt", whole, "0.0"), whole, code.full(whole.type, "0.0"))
    whole = code.select(code.compare("fcmp olt", whole, "65535.0"), whole, code.full(whole.type, "65535.0"))
    return code.cast("trunc", code.cast("fptosi", whole, "i32"), "i16")


def _float32(code: Code, sums: Value, factor: Value) -> Value:
    """float32, with one positive quiet NaN."""
    del factor
    made = code.cast("fptrunc", sums, "float") if sums.element == "double" else sums
    nan = code.full(made.type, "0x7FF8000000000000")
    return code.select(code.compare("fcmp uno", made, "0.0"), nan, made)
