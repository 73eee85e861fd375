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
from struct import pack, unpack
from typing import Final

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.values.arithmetic import Operation, as_float32
from stridedgpu.values.conversion import Conversion, Rounding, casts
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType

from .ir import Code, Value, vector_type

__all__ = ["Affine", "can_compile", "converted", "storage_type"]

_FLOATS: Final = {"float32": "float", "float64": "double"}
_WORDS: Final = frozenset({name for name, element in ELEMENT_TYPES.items() if element.kind in "uib"}) | _FLOATS.keys()
"""Types that the processor has arithmetic for, and bool."""

_INT32: Final = ELEMENT_TYPES["int32"]
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
    """The scale and bias vectors, each of the compute type, or None."""

    scale: Value | None = None
    bias: Value | None = None

    def shuffled(self, code: Code, places: Sequence[int]) -> Affine:
        """Both vectors with lanes by number."""
        scale, bias = (value and code.shuffle(value, None, places) for value in (self.scale, self.bias))
        return Affine(scale, bias)


_PARTS: Final = frozenset(
    {"scale", "bias", "channels", "matrix", "arithmetic", "unit", *(f"rounding={name!r}" for name in _ROUNDINGS)}
)
"""The parts of a conversion that this module generates."""


def can_compile(conversion: Conversion) -> bool:
    """Whether this module can generate the conversion; NumPy does what it cannot."""
    source, target = conversion.source.name, conversion.target.name
    return conversion.is_bitwise_copy or (
        (source in _WORDS or source in _DECODED)
        and (target in _WORDS or target in _ENCODED)
        and conversion.parts <= _PARTS
    )


def storage_type(element: ElementType, *, opaque: bool) -> str:
    """The LLVM type that an element is loaded and stored as."""
    if not opaque and element.name in _FLOATS:
        return _FLOATS[element.name]
    return f"i{8 * element.itemsize}"


def converted(code: Code, vector: Value, conversion: Conversion, affine: Affine, *, finite: bool) -> Value:
    """Convert a vector from the source's to the target's storage type; `finite`: scale and bias are finite."""
    if conversion.is_bitwise_copy:
        return vector
    source, target = conversion.source, conversion.target
    if not conversion.has_arithmetic:
        return _cast(code, vector, source, target, conversion.rounding)
    compute = conversion.compute
    numbers = _cast(code, vector, source, compute, conversion.rounding)
    operands = {"scale": affine.scale, "bias": affine.bias}
    for operation, name in conversion.steps:
        number = compute
        if operation == "multiply in float64":
            number, numbers = _FLOAT64, _cast(code, numbers, compute, _FLOAT64, "nearest")
        if name == "unit":
            assert conversion.unit is not None, "the arithmetic has one"
            operands[name] = code.full(numbers.type, _constant(conversion.unit, number))
        operand = operands[name]
        if operand is not None:
            numbers = _cast(code, code.binary(_OPERATIONS[operation], numbers, operand), number, compute, "nearest")
    if source.kind == "f" or not finite:
        quiet = code.full(numbers.type, "0x7FF8000000000000")
        numbers = code.select(code.compare("fcmp uno", numbers, numbers), quiet, numbers)
    return _cast(code, numbers, compute, target, conversion.rounding)


def _constant(number: float, compute: ElementType) -> str:
    """A number of the type of arithmetic as LLVM reads it: the bits of a double, which a float is extended to."""
    return f"0x{pack('>d', as_float32(number) if compute == _FLOAT32 else number).hex()}"


def _cast(code: Code, vector: Value, source: ElementType, target: ElementType, rounding: Rounding) -> Value:
    """One direct conversion, rounded once."""
    for primitive, result in casts(source, target, decodes=source.name in _DECODED, encodes=target.name in _ENCODED):
        match primitive:
            case "test":
                vector = _truth(code, vector, source)
            case "decode":
                vector = _DECODED[source.name](code, vector)
            case "encode":
                encode, largest = _ENCODED[result.name]
                vector = encode(code, _float32(code, vector, source, largest))
            case "clamp":
                vector = _saturated(code, vector, source, result)
            case "round":
                vector = _integer_of_float(code, vector, result, rounding)
            case "float" if source.is_integer:
                vector = _float_of_integer(code, vector, source, result)
            case "float":
                widens = result.itemsize > source.itemsize
                vector = code.cast("fpext" if widens else "fptrunc", vector, _FLOATS[result.name])
            case "complex":
                raise AssertionError("can_compile refuses complex numbers")
        source = result
    return vector


def _truth(code: Code, vector: Value, source: ElementType) -> Value:
    """1 for nonzero elements, NaN included; 0 for 0.0 and -0.0."""
    if source.name in _FLOATS:
        zero = code.full(vector.type, "0.0")
        return code.cast("zext", code.compare("fcmp une", vector, zero), "i8")
    if source.kind == "f":  # bits of a narrow float: shift out the sign
        vector = code.binary("shl", vector, 1)
    return code.cast("zext", code.compare("icmp ne", vector, 0), "i8")


def _float32(code: Code, vector: Value, source: ElementType, largest: float) -> Value:
    """Numbers as float32, exact or rounded to odd, before the rounding to a type with the given largest number."""
    if source == _FLOAT32:
        return vector
    if source == _FLOAT64:
        # The numbers of float16 are normal in float32, those of bfloat16 are not.
        return _float32_with_rest(code, vector) if largest < 1 << 24 else _float32_to_odd(code, vector)
    # float32 is exact up to 2**24. Larger numbers exceed `largest` and become infinite under either rounding.
    if source.itemsize <= 2 or largest < 1 << 24:
        return _float_of_integer(code, vector, source, _FLOAT32)
    if source.itemsize == 8:
        vector = _integer_to_odd(code, vector, signed=source.kind == "i")
    return _float32_to_odd(code, _float_of_integer(code, vector, source, _FLOAT64))


def _float32_with_rest(code: Code, numbers: Value) -> Value:
    """float64 truncated to the 24 bits of float32, the last of which is set if the rest is not 0: round-to-odd.

    Numbers that are subnormal in float32 are not exact. They are less than any other number of float16.
    """
    bits = code.cast("bitcast", numbers, "i64")
    low = (1 << 29) - 1
    # A rest that is not 0 carries into that bit.
    carried = code.add(code.binary("and", bits, low), code.full(bits.type, low))
    bits = code.binary("and", code.binary("or", bits, carried), ~low)
    return code.cast("fptrunc", code.cast("bitcast", bits, "double"), "float")


def _float32_to_odd(code: Code, numbers: Value) -> Value:
    """float64 rounded to float32 by round-to-odd: an inexact result takes the neighbour with an odd last bit."""
    narrow = code.cast("fptrunc", numbers, "float")
    back = code.cast("fpext", narrow, "double")
    bits = code.cast("bitcast", narrow, "i32")
    wide = code.cast("bitcast", numbers, "i64")
    is_even = code.compare("icmp eq", code.binary("and", bits, 1), 0)
    # Is the exact number above or below the nearest float32? The bits of both grow with the magnitude.
    above = code.compare("icmp ugt", code.cast("bitcast", back, "i64"), wide)
    step = code.select(above, code.full(bits.type, -1), code.full(bits.type, 1))
    # The comparison is ordered, so NaN is kept. Infinity and the largest finite number have the same result later.
    moves = code.binary("and", code.compare("fcmp one", back, numbers), is_even)
    return code.cast("bitcast", code.select(moves, code.add(bits, step), bits), "float")


def _integer_to_odd(code: Code, vector: Value, *, signed: bool) -> Value:
    """64-bit integers with at most 53 significant bits: unchanged below 2**53, else rounded to odd."""
    low = (1 << 11) - 1
    rest = code.compare("icmp ne", code.binary("and", vector, low), 0)
    sticky = code.binary("shl", code.cast("zext", rest, "i64"), 11)
    odd = code.binary("or", code.binary("and", vector, ~low), sticky)
    shifted = code.add(vector, 1 << 53) if signed else vector
    limit = 1 << (54 if signed else 53)
    return code.select(code.compare("icmp ugt", shifted, limit), odd, vector)


def _float_of_integer(code: Code, vector: Value, source: ElementType, target: ElementType) -> Value:
    """An integer rounded to the nearest float, half to even."""
    if source.itemsize < 4:
        # Every processor converts 32-bit signed integers in one instruction; narrower integers are widened to them.
        vector = code.cast("zext" if source.kind == "u" else "sext", vector, "i32")
    signed = source.kind == "i" or source.itemsize < 4
    return code.cast("sitofp" if signed else "uitofp", vector, _FLOATS[target.name])


def _integer_of_float(code: Code, vector: Value, target: ElementType, rounding: Rounding) -> Value:
    """Floats rounded, clamped to the target's range, NaN as 0."""
    signed, word, (least, most) = target.kind == "i", f"i{8 * target.itemsize}", target.limits
    lowest, highest = (code.full(vector.type, f"{limit}.0") for limit in (least, most))
    is_number = code.compare("fcmp ord", vector, "0.0")
    if most < 1 << (24 if vector.element == "float" else 53):
        # The limits are exact, so clamping comes before rounding. An ordered comparison is false for NaN, which becomes
        # the least unsigned integer, or `highest` and then 0.
        if not signed:
            if policy().target.architecture != "x86_64":
                # LLVM makes FMAXNM of the comparison below on AArch64, of which a signalling NaN comes out as a NaN.
                vector = code.select(is_number, vector, lowest)
            vector = code.select(code.compare("fcmp ogt", vector, lowest), vector, lowest)
        vector = code.select(code.compare("fcmp olt", vector, highest), vector, highest)
        if signed:
            vector = code.select(is_number, vector, code.full(vector.type, "0.0"))
            if target.itemsize <= 4 and rounding == "nearest" and policy().target.architecture == "x86_64":
                # What is too low becomes the lowest int32 (x86's "integer indefinite"), and is clamped as an integer.
                return _saturated(code, _whole(code, vector, "i32", rounding), _INT32, target)
            vector = code.select(code.compare("fcmp ogt", vector, lowest), vector, lowest)
        if target.itemsize < 4:
            return code.cast("trunc", _whole(code, vector, "i32", rounding), word)
        return _whole(code, vector, word, rounding) if signed else _unsigned(code, vector, word, rounding)
    if target.itemsize == 8 and _converts_one_by_one():
        name = f"llvm.fabs.v{vector.lanes}{'f32' if vector.element == 'float' else 'f64'}"
        small = code.compare("fcmp olt", code.call(name, vector.type, vector), f"{_SMALL}.0")
        return code.either(
            code.call(f"llvm.vector.reduce.and.v{vector.lanes}i1", "i1", small),
            lambda: _words_of_small(code, vector, rounding, signed=signed),
            lambda: _words(code, vector, target, rounding),
        )
    return _words(code, vector, target, rounding)


def _words(code: Code, vector: Value, target: ElementType, rounding: Rounding) -> Value:
    """The same for a type whose largest number the floats do not hold."""
    signed, word, (least, most) = target.kind == "i", f"i{8 * target.itemsize}", target.limits
    is_number = code.compare("fcmp ord", vector, "0.0")
    # llvm.fptosi.sat is scalarised. A plain conversion is undefined out of range, so those lanes are selected away.
    # Floats from `most` on are whole, and `most` + 1 is a power of two, exact in every float type.
    is_large = code.compare("fcmp oge", vector, code.full(vector.type, f"{most + 1}.0"))
    if signed:
        lowest = code.full(vector.type, f"{least}.0")
        vector = code.select(code.compare("fcmp ogt", vector, lowest), vector, lowest)
    else:
        is_number = code.compare("fcmp ogt", vector, "0.0")
    whole = (_whole if signed else _unsigned)(code, vector, word, rounding)
    whole = code.select(is_number, whole, code.full(whole.type, 0))
    return code.select(is_large, code.full(whole.type, most), whole)


def _unsigned(code: Code, vector: Value, word: str, rounding: Rounding) -> Value:
    """Floats rounded and converted to unsigned integers, which hold them."""
    return code.cast("fptoui", _rounded(code, vector, rounding), word)


def _rounded(code: Code, vector: Value, rounding: Rounding) -> Value:
    """Floats rounded to whole ones."""
    name = f"v{vector.lanes}{'f32' if vector.element == 'float' else 'f64'}"
    return code.call(f"{_ROUNDINGS[rounding]}.{name}", vector.type, vector)


def _converts_one_by_one() -> bool:
    """Whether floats become 64-bit integers one by one: no vector instruction of x86-64 does it before AVX-512."""
    target = policy().target
    return target.architecture == "x86_64" and "avx512dq" not in target.features


_SMALL: Final = 1 << 51
_SHIFTER: Final = 3 << 51
"""The bits of a float64 of this and a whole number below `_SMALL` are those of this one and the number, added."""


def _words_of_small(code: Code, vector: Value, rounding: Rounding, *, signed: bool) -> Value:
    """Floats below `_SMALL` in magnitude as 64-bit integers: the processor rounds their sum with `_SHIFTER`."""
    if not signed:
        zero = code.full(vector.type, "0.0")
        vector = code.select(code.compare("fcmp ogt", vector, zero), vector, zero)
    if rounding == "truncate":
        vector = _rounded(code, vector, rounding)
    if vector.element == "float":
        vector = code.cast("fpext", vector, "double")
    shifted = code.binary("fadd", vector, code.full(vector.type, f"{_SHIFTER}.0"))
    (bits,) = unpack(">q", pack(">d", _SHIFTER))
    return code.binary("sub", code.cast("bitcast", shifted, "i64"), bits)


def _whole(code: Code, vector: Value, word: str, rounding: Rounding) -> Value:
    """Floats rounded and converted to signed integers, which hold them."""
    intrinsic = _WHOLE[rounding]
    if not intrinsic:
        return code.cast("fptosi", vector, word)
    name = f"v{vector.lanes}{word}.v{vector.lanes}{'f32' if vector.element == 'float' else 'f64'}"
    return code.call(f"{intrinsic}.{name}", vector_type(vector.lanes, word), vector)


def _saturated(code: Code, vector: Value, source: ElementType, target: ElementType) -> Value:
    """Integers clamped to the target's range."""
    (own_least, own_most), (least, most) = source.limits, target.limits
    less, greater = ("icmp slt", "icmp sgt") if source.kind == "i" else ("icmp ult", "icmp ugt")
    if own_least < least:
        bound = code.full(vector.type, least)
        vector = code.select(code.compare(less, vector, bound), bound, vector)
    if own_most > most:
        bound = code.full(vector.type, most)
        vector = code.select(code.compare(greater, vector, bound), bound, vector)
    if source.itemsize == target.itemsize:
        return vector
    if source.itemsize > target.itemsize:
        return code.cast("trunc", vector, f"i{8 * target.itemsize}")
    return code.cast("sext" if source.kind == "i" else "zext", vector, f"i{8 * target.itemsize}")


def _float32_of_float16(code: Code, vector: Value) -> Value:
    """float16 bits as float32, exactly; NaN becomes quiet."""
    return code.cast("fpext", code.cast("bitcast", vector, "half"), "float")


def _float32_of_bfloat16(code: Code, vector: Value) -> Value:
    """bfloat16 bits as float32, exactly; NaN becomes quiet."""
    bits = code.binary("shl", code.cast("zext", vector, "i32"), 16)
    numbers = code.cast("bitcast", bits, "float")
    quiet = code.binary("or", bits, 0x400000)
    bits = code.select(code.compare("fcmp uno", numbers, numbers), quiet, bits)
    return code.cast("bitcast", bits, "float")


def _bfloat16_of_float32(code: Code, numbers: Value) -> Value:
    """float32 rounded to nearest even, as bfloat16 bits; NaN keeps its sign and leading payload."""
    bits = code.cast("bitcast", numbers, "i32")
    high = code.binary("lshr", bits, 16)
    rounding = code.add(code.binary("and", high, 1), 0x7FFF)
    rounded = code.binary("lshr", code.add(bits, rounding), 16)
    quiet = code.binary("or", high, 0x40)
    return code.cast("trunc", code.select(code.compare("fcmp uno", numbers, numbers), quiet, rounded), "i16")


def _float16_of_float32(code: Code, numbers: Value) -> Value:
    """float32 rounded to nearest even, as float16 bits."""
    return code.cast("bitcast", code.cast("fptrunc", numbers, "half"), "i16")


_DECODED: Final[dict[str, Callable[[Code, Value], Value]]] = {
    "float16": _float32_of_float16,
    "bfloat16": _float32_of_bfloat16,
}
"""Types that are first decoded, exactly, to float32."""

_ENCODED: Final[dict[str, tuple[Callable[[Code, Value], Value], float]]] = {
    "float16": (_float16_of_float32, 65504.0),
    "bfloat16": (_bfloat16_of_float32, 2.0**128 - 2.0**120),
}
"""Types that are encoded from float32, with at least two significant bits fewer, and their largest number."""
