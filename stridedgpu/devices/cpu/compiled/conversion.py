"""Element conversions as LLVM vectors, bitwise equal to the rules of `stridedgpu.values.conversion`.

All casts, scales and biases between bool, integers and floats are compiled. Complex numbers, and every type that the
tables here do not list, are left to NumPy. Types that the processor does not compute with go through another type:

    decoded     bfloat16, float16 -> float32     exactly
    encoded     float32 -> bfloat16, float16     rounded once

Some numbers are not exact in float32. Their cast to a 16-bit float first rounds to float32 by round-to-odd, which
preserves the result of the second rounding (S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded sums:
proved algorithms using rounding to odd"). Floats are rounded by the processor. No fast-math flag is set, so LLVM does
not contract, reassociate or flush: `x * scale` and `+ bias` stay two instructions, and a division stays one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from struct import pack, unpack
from typing import Final

from stridedgpu.devices.cpu.native import exact_products
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.values.arithmetic import Operation, as_float32
from stridedgpu.values.conversion import Conversion, Rounding, casts
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType

from .ir import Value, vector_type

_FLOATS: Final = {"float32": "float", "float64": "double"}
_WORDS: Final = frozenset({name for name, element in ELEMENT_TYPES.items() if element.kind in "uib"}) | _FLOATS.keys()
"""Types that the processor has arithmetic for, and bool."""

_FLOAT32: Final = ELEMENT_TYPES["float32"]
_FLOAT64: Final = ELEMENT_TYPES["float64"]
_OPERATIONS: Final[dict[Operation, str]] = {
    "multiply": "fmul",
    "add": "fadd",
    "divide": "fdiv",
    "multiply in float64": "fmul",
}
"""LLVM's instruction of each operation of arithmetic."""

_ROUNDINGS: Final[dict[Rounding, str]] = {"nearest": "llvm.roundeven", "truncate": "llvm.trunc"}
"""The LLVM intrinsic of each rounding mode."""

_WHOLE: Final[dict[Rounding, str]] = {"nearest": "llvm.lrint", "truncate": ""}
"""The LLVM intrinsic that rounds and converts to signed integers at once; `fptosi` truncates."""


@dataclass(frozen=True, slots=True)
class Affine:
    """The scale and bias vectors, each of the compute type, or None.

    With `low` it and `scale` are the two factors that stand for a division (`exact_products`).
    """

    scale: Value | None = None
    bias: Value | None = None
    low: Value | None = None

    def shuffled(self, places: Sequence[int]) -> Affine:
        """All vectors with lanes by number."""
        vectors = self.scale, self.bias, self.low
        return Affine(*(None if value is None else value.shuffle(places) for value in vectors))


def storage_type(element: ElementType) -> str:
    """The LLVM type that an element is loaded and stored as."""
    return _FLOATS.get(element.name, f"i{8 * element.itemsize}")


def converted(
    vector: Value, conversion: Conversion, affine: Affine, *, finite: bool, by_products: bool = False
) -> Value:
    """Convert a vector from the source's to the target's storage type; `finite`: scale and bias are finite.

    `by_products`: `exact_products` has the bits of divisions and of products in float64.
    """
    if conversion.is_bitwise_copy:
        return vector
    source, target = conversion.source, conversion.target
    if not conversion.has_arithmetic:
        return _cast(vector, source, target, conversion.rounding)
    compute = conversion.compute
    numbers = _cast(vector, source, compute, conversion.rounding)
    operands = {"scale": affine.scale, "bias": affine.bias}
    for operation, name in conversion.steps:
        number = compute
        if by_products and operation in exact_products.REPLACED:
            is_unit = name == "unit"
            high, low = exact_products.unit_factors(conversion, operation) if is_unit else (affine.scale, affine.low)
            if high is not None and low is not None:
                numbers = numbers.intrinsic("llvm.fma", high, numbers * low)
            continue
        if operation == "multiply in float64":
            number, numbers = _FLOAT64, _cast(numbers, compute, _FLOAT64, "nearest")
        if name == "unit":
            assert conversion.unit is not None, "the arithmetic has one"
            unit = as_float32(conversion.unit) if number == _FLOAT32 else conversion.unit
            operands[name] = numbers.like(unit)
        operand = operands[name]
        if operand is not None:
            numbers = _cast(numbers.binary(_OPERATIONS[operation], operand), number, compute, "nearest")
    if source.kind == "f" or not finite:
        numbers = with_one_nan(numbers)
    return _cast(numbers, compute, target, conversion.rounding)


def with_one_nan(numbers: Value) -> Value:
    """Floats, of which all that are no numbers are the positive quiet NaN without a payload."""
    return numbers.is_nan().select(nan, numbers)


def _cast(vector: Value, source: ElementType, target: ElementType, rounding: Rounding) -> Value:
    """One direct conversion, rounded once."""
    for primitive, result in casts(source, target, decodes=source.name in _DECODED, encodes=target.name in _ENCODED):
        match primitive:
            case "test":
                vector = _truth(vector, source)
            case "decode":
                vector = _DECODED[source.name](vector)
            case "encode":
                encode, largest = _ENCODED[result.name]
                vector = encode(_float32(vector, source, largest))
            case "clamp":
                vector = _saturated(vector, source, result)
            case "round":
                vector = _integer_of_float(vector, result, rounding)
            case "float" if source.is_integer:
                vector = _float_of_integer(vector, source, result)
            case "float":
                widens = result.itemsize > source.itemsize
                vector = vector.cast("fpext" if widens else "fptrunc", _FLOATS[result.name])
            case "complex":
                raise AssertionError("can_compile refuses complex numbers")
        source = result
    return vector


def _truth(vector: Value, source: ElementType) -> Value:
    """1 for nonzero elements, NaN included; 0 for 0.0 and -0.0."""
    if source.name in _FLOATS:
        return (vector != 0).cast("zext", "i8")
    if source.kind == "f":  # bits of a narrow float: shift out the sign
        vector = vector << 1
    return (vector != 0).cast("zext", "i8")


def _float32(vector: Value, source: ElementType, largest: float) -> Value:
    """Numbers as float32, exact or rounded to odd, before the rounding to a type with the given largest number."""
    if source == _FLOAT32:
        return vector
    if source == _FLOAT64:
        return _float32_to_odd(vector)
    # float32 is exact up to 2**24. Larger numbers exceed `largest` and become infinite under either rounding.
    if source.itemsize <= 2 or largest < 1 << 24:
        return _float_of_integer(vector, source, _FLOAT32)
    if source.itemsize == 8:
        vector = _integer_to_odd(vector, signed=source.kind == "i")
    return _float32_to_odd(_float_of_integer(vector, source, _FLOAT64))


def _float32_to_odd(numbers: Value) -> Value:
    """float64 rounded to float32 by round-to-odd: an inexact result takes the neighbour with an odd last bit."""
    narrow = numbers.cast("fptrunc", "float")
    back = narrow.cast("fpext", "double")
    bits = narrow.cast("bitcast", "i32")
    wide = numbers.cast("bitcast", "i64")
    is_even = (bits & 1) == 0
    # Is the exact number above or below the nearest float32? The bits of both grow with the magnitude.
    above = back.cast("bitcast", "i64").compare("icmp ugt", wide)
    step = above.select(bits.like(-1), 1)
    # The comparison is ordered, so NaN is kept. Infinity and the largest finite number have the same result later.
    moves = back.compare("fcmp one", numbers) & is_even
    return moves.select(bits + step, bits).cast("bitcast", "float")


def _integer_to_odd(vector: Value, *, signed: bool) -> Value:
    """64-bit integers with at most 53 significant bits: unchanged below 2**53, else rounded to odd."""
    low = (1 << 11) - 1
    sticky = ((vector & low) != 0).cast("zext", "i64") << 11
    odd = (vector & ~low) | sticky
    shifted = vector + (1 << 53) if signed else vector
    limit = 1 << (54 if signed else 53)
    return shifted.compare("icmp ugt", limit).select(odd, vector)


def _float_of_integer(vector: Value, source: ElementType, target: ElementType) -> Value:
    """An integer rounded to the nearest float, half to even."""
    if source.itemsize < 4:
        # Every processor converts 32-bit signed integers in one instruction; narrower integers are widened to them.
        vector = vector.cast("zext" if source.kind == "u" else "sext", "i32")
    signed = source.kind == "i" or source.itemsize < 4
    return vector.cast("sitofp" if signed else "uitofp", _FLOATS[target.name])


def _integer_of_float(vector: Value, target: ElementType, rounding: Rounding) -> Value:
    """Floats rounded, clamped to the target's range, NaN as 0."""
    signed, word, (least, most) = target.kind == "i", f"i{8 * target.itemsize}", target.limits
    is_number = vector.compare("fcmp ord", 0)
    if most < 1 << (24 if vector.element == "float" else 53):
        # The limits are exact, so clamping comes before rounding. An ordered comparison is false for NaN, which becomes
        # the least unsigned integer, or `most` and then 0.
        if not signed:
            if policy().target.architecture != "x86_64":
                # LLVM makes FMAXNM of the comparison below on AArch64, of which a signalling NaN comes out as a NaN.
                vector = is_number.select(vector, least)
            vector = vector.at_least(least)
        vector = vector.at_most(most)
        if signed:
            vector = is_number.select(vector, 0)
            vector = vector.at_least(least)
        if target.itemsize < 4:
            return _whole(vector, "i32", rounding).cast("trunc", word)
        return _whole(vector, word, rounding) if signed else _unsigned(vector, word, rounding)
    if target.itemsize == 8 and _converts_one_by_one():
        small = vector.intrinsic("llvm.fabs") < _SMALL
        return vector.code.either(
            small.reduced("and"),
            lambda: _words_of_small(vector, rounding, signed=signed),
            lambda: _words(vector, target, rounding),
        )
    return _words(vector, target, rounding)


def _words(vector: Value, target: ElementType, rounding: Rounding) -> Value:
    """The same for a type whose largest number the floats do not hold."""
    signed, word, (least, most) = target.kind == "i", f"i{8 * target.itemsize}", target.limits
    is_number = vector.compare("fcmp ord", 0)
    # llvm.fptosi.sat is scalarised. A plain conversion is undefined out of range, so those lanes are selected away.
    # Floats from `most` on are whole, and `most` + 1 is a power of two, exact in every float type.
    is_large = vector >= most + 1
    if signed:
        whole = _whole(vector.at_least(least), word, rounding)
    else:
        is_number, whole = vector > 0, _unsigned(vector, word, rounding)
    return is_large.select(most, is_number.select(whole, 0))


def _unsigned(vector: Value, word: str, rounding: Rounding) -> Value:
    """Floats rounded and converted to unsigned integers, which hold them."""
    return vector.intrinsic(_ROUNDINGS[rounding]).cast("fptoui", word)


def _converts_one_by_one() -> bool:
    """Whether floats become 64-bit integers one by one: no vector instruction of x86-64 does it before AVX-512."""
    target = policy().target
    return target.architecture == "x86_64" and "avx512dq" not in target.features


_SMALL: Final = 1 << 51
_SHIFTER: Final = 3 << 51
"""The bits of a float64 of this and a whole number below `_SMALL` are those of this one and the number, added."""


def _words_of_small(vector: Value, rounding: Rounding, *, signed: bool) -> Value:
    """Floats below `_SMALL` in magnitude as 64-bit integers: the processor rounds their sum with `_SHIFTER`."""
    if not signed:
        vector = vector.at_least(0)
    if rounding == "truncate":
        vector = vector.intrinsic(_ROUNDINGS[rounding])
    if vector.element == "float":
        vector = vector.cast("fpext", "double")
    bits: int
    (bits,) = unpack(">q", pack(">d", _SHIFTER))
    return (vector + _SHIFTER).cast("bitcast", "i64") - bits


def _whole(vector: Value, word: str, rounding: Rounding) -> Value:
    """Floats rounded and converted to signed integers, which hold them."""
    intrinsic = _WHOLE[rounding]
    if not intrinsic:
        return vector.cast("fptosi", word)
    name = f"v{vector.lanes}{word}.v{vector.lanes}{'f32' if vector.element == 'float' else 'f64'}"
    return vector.code.call(f"{intrinsic}.{name}", vector_type(vector.lanes, word), vector)


def _saturated(vector: Value, source: ElementType, target: ElementType) -> Value:
    """Integers clamped to the target's range."""
    (own_least, own_most), (least, most) = source.limits, target.limits
    sign = "s" if source.kind == "i" else "u"
    if own_least < least:
        vector = vector.compare(f"icmp {sign}lt", least).select(least, vector)
    if own_most > most:
        vector = vector.compare(f"icmp {sign}gt", most).select(most, vector)
    if source.itemsize == target.itemsize:
        return vector
    if source.itemsize > target.itemsize:
        return vector.cast("trunc", f"i{8 * target.itemsize}")
    return vector.cast("sext" if source.kind == "i" else "zext", f"i{8 * target.itemsize}")


def _float32_of_float16(vector: Value) -> Value:
    """float16 bits as float32, exactly; NaN becomes quiet."""
    return vector.cast("bitcast", "half").cast("fpext", "float")


def _float32_of_bfloat16(vector: Value) -> Value:
    """bfloat16 bits as float32, exactly; NaN becomes quiet."""
    bits = vector.cast("zext", "i32") << 16
    numbers = bits.cast("bitcast", "float")
    quiet = bits | 0x400000
    return numbers.is_nan().select(quiet, bits).cast("bitcast", "float")


def _bfloat16_of_float32(numbers: Value) -> Value:
    """float32 rounded to nearest even, as bfloat16 bits; NaN keeps its sign and leading payload."""
    bits = numbers.cast("bitcast", "i32")
    high = bits >> 16
    rounding = (high & 1) + 0x7FFF
    rounded = (bits + rounding) >> 16
    quiet = high | 0x40
    return numbers.is_nan().select(quiet, rounded).cast("trunc", "i16")


def _float16_of_float32(numbers: Value) -> Value:
    """float32 rounded to nearest even, as float16 bits."""
    return numbers.cast("fptrunc", "half").cast("bitcast", "i16")


_DECODED: Final[dict[str, Callable[[Value], Value]]] = {
    "float16": _float32_of_float16,
    "bfloat16": _float32_of_bfloat16,
}
"""Types that are first decoded, exactly, to float32."""

_ENCODED: Final[dict[str, tuple[Callable[[Value], Value], float]]] = {
    "float16": (_float16_of_float32, 65504.0),
    "bfloat16": (_bfloat16_of_float32, 2.0**128 - 2.0**120),
}
"""Types that are encoded from float32, with at least two significant bits fewer, and their largest number."""
