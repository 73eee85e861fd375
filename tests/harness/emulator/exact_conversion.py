"""What a converted element has to be, worked out with Python's unlimited integers from the rules alone.

An element is its bits. A finite value is a pair of integers, significand * 2**exponent, so that
rounding is one integer division; nothing here uses floating-point arithmetic except NumPy's separate, correctly
rounded multiplication and addition for scale and bias.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

Rounding = Literal["nearest", "truncate"]

INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
REALS = ("bool", *INTEGERS, *FLOATS)
COMPONENTS = {"complex64": "float32", "complex128": "float64"}
WIDE = frozenset({"uint32", "uint64", "int32", "int64", "float64"})

# Exponent bits and fraction bits.
_FORMATS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """A finite number (negative, significand, exponent), an infinity, or a NaN with the fraction bits from the top."""

    negative: bool
    significand: int = 0
    exponent: int = 0
    kind: Literal["finite", "infinite", "nan"] = "finite"


def itemsize(name: str) -> int:
    """The bytes of one element."""
    return numpy_type(name).itemsize


def numpy_type(name: str) -> np.dtype[Any]:
    """The NumPy type of an element type."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def compute_type(source: str, target: str) -> str:
    """The type that scale and bias are computed in."""
    return "float64" if WIDE & {source, target} else "float32"


def decode(name: str, bits: int) -> Value:
    """The value of a real element."""
    if name == "bool":
        return Value(False, int(bits != 0))
    if name in INTEGERS:
        width = 8 * itemsize(name)
        number = bits - (1 << width) if name[0] == "i" and bits >> (width - 1) else bits
        return Value(number < 0, abs(number))
    exponent_bits, fraction_bits = _FORMATS[name]
    exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    negative = bool(bits >> (exponent_bits + fraction_bits))
    if exponent == (1 << exponent_bits) - 1:
        if fraction:
            return Value(negative, fraction, -fraction_bits, "nan")
        return Value(negative, kind="infinite")
    lowest = 2 - (1 << (exponent_bits - 1)) - fraction_bits
    if exponent == 0:
        return Value(negative, fraction, lowest)
    return Value(negative, fraction | 1 << fraction_bits, lowest + exponent - 1)


def encode(name: str, value: Value, rounding: Rounding = "nearest") -> int:
    """The bits of a real element with the value, rounded once."""
    if name == "bool":
        return int(value.kind != "finite" or value.significand != 0)
    if name in INTEGERS:
        return _encode_integer(name, value, rounding)
    exponent_bits, fraction_bits = _FORMATS[name]
    sign = int(value.negative) << (exponent_bits + fraction_bits)
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    if value.kind == "infinite":
        return sign | infinity
    if value.kind == "nan":
        shift = fraction_bits + value.exponent
        payload = value.significand << shift if shift >= 0 else value.significand >> -shift
        return sign | infinity | 1 << (fraction_bits - 1) | payload
    if value.significand == 0:
        return sign
    lowest = 2 - (1 << (exponent_bits - 1))
    leading = max(value.significand.bit_length() - 1 + value.exponent, lowest)
    fraction = _scaled(value.significand, value.exponent - (leading - fraction_bits), "nearest")
    # A fraction that rounded up to the next power of two carries into the exponent, and from the largest to infinity.
    return sign | min(((leading - lowest) << fraction_bits) + fraction, infinity)


def _encode_integer(name: str, value: Value, rounding: Rounding) -> int:
    if value.kind == "nan":
        return 0
    width = 8 * itemsize(name)
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if name[0] == "i" else (0, (1 << width) - 1)
    if value.kind == "infinite":
        number = low if value.negative else high
    else:
        number = _scaled(value.significand, min(value.exponent, 64), rounding) * (-1 if value.negative else 1)
    return min(max(number, low), high) & ((1 << width) - 1)


def _scaled(significand: int, exponent: int, rounding: Rounding) -> int:
    """significand * 2**exponent as an integer, half to even or cut off."""
    if exponent >= 0:
        return significand << exponent
    whole, rest = significand >> -exponent, significand & ((1 << -exponent) - 1)
    half = 1 << (-exponent - 1)
    return whole + (rounding == "nearest" and (rest > half or (rest == half and whole & 1 == 1)))


def converted(
    source: str,
    target: str,
    elements: npt.NDArray[Any],
    scale: float | None = None,
    bias: float | None = None,
    rounding: Rounding = "nearest",
) -> npt.NDArray[Any]:
    """The bits that the elements (given as unsigned words of their size) convert to, as unsigned words."""
    if scale is None and bias is None:
        if source == target:
            return elements
        name = source
    else:
        name = compute_type(source, target)
        with np.errstate(all="ignore"):
            computed = elements.view(numpy_type(source)).astype(name)
            if source == "bool":
                computed = (elements != 0).astype(name)
            if scale is not None:
                computed *= computed.dtype.type(scale)
            if bias is not None:
                computed += computed.dtype.type(bias)
            computed[np.isnan(computed)] = np.nan
        elements = computed.view(_word(name))
    bits = [encode(target, decode(name, word), rounding) for word in elements.tolist()]
    return np.array(bits, _word(target))


def edge_elements(name: str, seed: int = 0) -> npt.NDArray[Any]:
    """Bits of elements at which conversions go wrong, and random ones: unsigned words of the element's size."""
    words: set[int] = set()
    limit = 1 << (8 * itemsize(name))
    if name == "bool":
        words |= {0, 1, 2, 0x80, 0xFF}
    elif name in INTEGERS:
        for bit in range(8 * itemsize(name)):
            # Around powers of two, and around the ties of 8, 11, 24 and 53 leading bits, some made by one far bit.
            words |= {((1 << bit) + step) % limit for step in (-1, 0, 1)}
            for digits in (8, 11, 24, 53):
                half = 1 << max(bit - digits, 0)
                ties = [(1 << bit) + half + more for more in (-1, 0, 1, 2 * half)]
                words |= {number % limit for tie in ties for number in (tie, -tie)}
    else:
        for value in _edge_values():
            near = encode(name, value)
            words |= {word for word in (near - 1, near, near + 1) if 0 <= word < limit}
        exponent_bits, fraction_bits = _FORMATS[name]
        infinity = ((1 << exponent_bits) - 1) << fraction_bits
        payloads = {1, 2, 3, (1 << fraction_bits) - 1, 1 << (fraction_bits - 1), 1 << (fraction_bits - 2)}
        payloads |= {1 << bit for bit in range(fraction_bits)} | {0x2A << (fraction_bits - 7)}
        words |= {infinity | payload for payload in payloads} | {infinity, infinity - 1}
        words |= {word | 1 << (exponent_bits + fraction_bits) for word in words}
    random = np.random.default_rng([seed, *name.encode()]).integers(0, limit, 200, np.uint64, endpoint=False)
    return np.array(sorted(words | set(random.tolist())), _word(name))


def _edge_values() -> Sequence[Value]:
    numbers = [Value(False, 0), Value(False, 1), Value(False, 3), Value(False, 5)]
    for digits in (8, 11, 24):
        # One, a tie after `digits` leading bits, and a tie spoilt far away: the trap for rounding twice.
        for far in (0, 1, 30, 40):
            for even in (0, 2):
                tie = ((1 << digits) + even + 1) << far
                numbers += [Value(False, tie + (far > 0), -digits - far), Value(False, tie - (far > 0), -digits - far)]
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):  # integer limits, a half beside them, and an even and an odd half
        numbers += [Value(False, ((1 << bits) << 1) + halves, -1) for halves in (-4, -3, -2, -1, 0, 1, 2)]
    numbers += [Value(False, 2 * n + 1, -1) for n in range(4)]
    # The smallest and largest of every format, ties between subnormals, and what rounds up to infinity.
    for smallest, largest, digits in ((-24, 15, 11), (-133, 127, 8), (-149, 127, 24), (-1074, 1023, 53)):
        numbers += [Value(False, n, smallest - 2) for n in (1, 2, 3, 4, 5, 6, 7, 10, 14)]
        numbers += [Value(False, (3 << 30) + n, smallest - 31) for n in (-1, 1)]
        numbers += [Value(False, (1 << digits) + n, smallest - 1) for n in (-3, -1, 0, 1)]
        top = (1 << (digits + 1)) - 1
        numbers += [Value(False, (top << 20) + n, largest - digits - 20) for n in (-(1 << 20), -1, 0, 1)]
    return numbers


def _word(name: str) -> np.dtype[Any]:
    return np.dtype(f"uint{8 * itemsize(name)}")
