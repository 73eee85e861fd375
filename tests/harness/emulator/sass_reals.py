"""What each instruction of arithmetic on floats does to the registers of a `Warp`: a function for each name."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from .sass import Instruction, Number, Register

__all__ = ["COMPARISONS", "REAL_OPERATIONS", "Lanes", "Operation"]

Lanes = np.ndarray[Any, Any]
Operation = Callable[[Any, Instruction, Lanes], None]

COMPARISONS: Final = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _real_operation(combine: Callable[..., Lanes]) -> Operation:
    def operate(warp: Any, one: Instruction, lanes: Lanes) -> None:
        result, *numbers = one.operands
        with np.errstate(all="ignore"):
            value = combine(*map(warp.real, numbers)).astype(np.float32)
        warp.set(result, value.view(np.uint32), lanes)

    return operate


def _fused(warp: Any, one: Instruction, lanes: Lanes) -> None:
    """One product and sum, rounded once where the exact sum fits float64, as all that kernels fuse do."""
    result, *numbers = one.operands
    with np.errstate(all="ignore"):
        first, second, added = (warp.real(number).astype(np.float64) for number in numbers)
        exact = first * second + added
        value = exact.astype(np.float32)
        if "RZ" in one.modifiers:
            value = np.where(np.abs(value) > np.abs(exact), np.nextafter(value, np.float32(0)), value)
    warp.set(result, value.astype(np.float32).view(np.uint32), lanes)


def _from_integer(warp: Any, one: Instruction, lanes: Lanes) -> None:
    result, number = one.operands
    bits = 8 if "U8" in one.modifiers else 16 if "U16" in one.modifiers else 32
    is_unsigned = {"U8", "U16", "U32"} & set(one.modifiers)  # sm_80 names no type where it is S32
    value = warp.value(number) & np.uint64(2**bits - 1) if is_unsigned else warp.signed(number)
    real = value.astype(np.float32)
    if "RP" in one.modifiers:
        real = np.where(real.astype(np.float64) < value, np.nextafter(real, np.float32(np.inf)), real)
    warp.set(result, real.astype(np.float32).view(np.uint32), lanes)


def _to_integer(warp: Any, one: Instruction, lanes: Lanes) -> None:
    real = warp.real(one.operands[1]).astype(np.float64)
    whole = np.trunc(real) if "TRUNC" in one.modifiers else np.rint(real)
    lowest, highest = (0, 2**32 - 1) if "U32" in one.modifiers else (-(2**31), 2**31 - 1)
    value = np.clip(np.nan_to_num(whole, nan=0.0, posinf=highest, neginf=lowest), lowest, highest)
    warp.set(one.operands[0], value.astype(np.int64).view(np.uint64), lanes)


def _halves(warp: Any, one: Instruction, lanes: Lanes) -> None:
    """One float32 to a float16, or two to a word of them, the first of them high."""
    result, *numbers = one.operands
    word = np.zeros(lanes.size, np.uint32)
    with np.errstate(all="ignore"):
        for number in numbers:
            word = word << np.uint32(16) | warp.real(number).astype(np.float16).view(np.uint16)
    warp.set(result, word, lanes)


def _bytes_of_reals(warp: Any, one: Instruction, lanes: Lanes) -> None:
    """Two float32, rounded and saturated to bytes, the first of them high, under the low half of a third."""
    result, high, low, above = one.operands
    word = warp.value(above) << np.uint64(16)
    for place, number in enumerate((low, high)):
        whole = np.clip(np.nan_to_num(np.rint(warp.real(number)), nan=0.0, posinf=255.0, neginf=0.0), 0, 255)
        word = word | whole.astype(np.uint64) << np.uint64(8 * place)
    warp.set(result, word, lanes)


def _half_to_real(warp: Any, one: Instruction, lanes: Lanes) -> None:
    """Minus zero and a half of a word, added as float32: how compilers spell a conversion."""
    result, zero, half = one.operands
    assert isinstance(zero, Register), one.text
    assert isinstance(half, Register), one.text
    assert (zero.number, zero.sign, half.sign) == (255, "-", ""), one.text
    bits = warp.value(half) >> np.uint64(16 if "H1" in half.part else 0) & np.uint64(0xFFFF)
    warp.set(result, bits.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32), lanes)


def _compare_reals(warp: Any, one: Instruction, lanes: Lanes) -> None:
    first, second, a, b, other = one.operands
    x, y = warp.real(a), warp.real(b)
    unordered = np.isnan(x) | np.isnan(y)
    name = one.modifiers[0]
    if name == "NAN":
        found = unordered
    else:
        found = COMPARISONS[name.removesuffix("U")](x, y) & ~unordered | (name.endswith("U") & unordered)
    combine = np.logical_and if "AND" in one.modifiers else np.logical_or
    warp.set_predicate(first, combine(found, warp.truth(other)), lanes)
    warp.set_predicate(second, combine(~found, warp.truth(other)), lanes)


def _half_constants(warp: Any, one: Instruction, lanes: Lanes) -> None:
    """Zero times zero and two constants: how compilers spell some numbers."""
    result, a, b, high, low = one.operands
    assert isinstance(a, Register), one.text
    assert isinstance(b, Register), one.text
    assert (a.number, b.number) == (255, 255), one.text
    assert isinstance(high, Number), one.text
    assert isinstance(low, Number), one.text
    (bits,) = struct.unpack("<I", struct.pack("<2e", low.real, high.real))
    warp.set(result, np.full(lanes.size, bits, np.uint64), lanes)


REAL_OPERATIONS: Final[Mapping[str, Operation]] = {
    "FFMA": _fused,
    "FADD": _real_operation(np.add),
    "FMUL": _real_operation(np.multiply),
    "MUFU": _real_operation(lambda x: np.float32(1) / x),
    "I2F": _from_integer,
    "I2FP": _from_integer,
    "F2I": _to_integer,
    "F2F": _halves,
    "F2FP": _halves,
    "F2IP": _bytes_of_reals,
    "FSETP": _compare_reals,
    "HADD2": _half_to_real,
    "HFMA2": _half_constants,
}
