"""Element conversions as LLVM vectors, to the bit as `stridedgpu.values.conversion` states them.

Compiled are all casts, scales and biases between integers, float32 and float64, and between float16 or bfloat16 and
every type of up to 16 bits or float32. What is left to NumPy is rare: bool and complex numbers, and 32- and 64-bit
integers and float64 to or from the 16-bit floats, where one rounding takes more than one instruction.

Floats are rounded by the processor: LLVM is given no licence to contract, reassociate or flush, so `x * scale` and
`+ bias` stay two instructions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stridedgpu.values.conversion import Conversion, Rounding
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType

from .ir import Code, Value, vector_type

__all__ = ["Affine", "can_compile", "converted", "storage_type"]

_FLOATS: Final = {"float32": "float", "float64": "double"}
_HALVES: Final = frozenset({"float16", "bfloat16"})
_FLOAT32: Final = ELEMENT_TYPES["float32"]


@dataclass(frozen=True, slots=True)
class Affine:
    """The scale and bias of a vector, each a vector of the compute type, or None."""

    scale: Value | None = None
    bias: Value | None = None


def can_compile(conversion: Conversion) -> bool:
    """Whether a conversion is one of those above."""
    if conversion.moves_bits:
        return True
    types = (conversion.source, conversion.target)
    if any(element.kind not in "uif" for element in types):
        return False
    wide = any(element.itemsize > 2 and element != _FLOAT32 for element in types)
    return not (wide and any(element.name in _HALVES for element in types))


def storage_type(element: ElementType, *, opaque: bool) -> str:
    """The LLVM type that an element is loaded and stored as."""
    if not opaque and element.name in _FLOATS:
        return _FLOATS[element.name]
    return f"i{8 * element.itemsize}"


def converted(code: Code, vector: Value, conversion: Conversion, affine: Affine, *, finite: bool) -> Value:
    """A vector of the source's storage type as one of the target's; `finite` says that scale and bias are."""
    if conversion.moves_bits:
        return vector
    source, target = conversion.source, conversion.target
    if not conversion.has_arithmetic:
        return _cast(code, vector, source, target, conversion.rounding)
    compute = conversion.compute
    numbers = _cast(code, vector, source, compute, conversion.rounding)
    if affine.scale is not None:
        numbers = code.binary("fmul", numbers, affine.scale)
    if affine.bias is not None:
        numbers = code.binary("fadd", numbers, affine.bias)
    if source.kind == "f" or not finite:
        quiet = code.full(numbers.type, "0x7FF8000000000000")
        numbers = code.select(code.compare("fcmp uno", numbers, numbers), quiet, numbers)
    return _cast(code, numbers, compute, target, conversion.rounding)


def _cast(code: Code, vector: Value, source: ElementType, target: ElementType, rounding: Rounding) -> Value:
    """One direct conversion, rounded once."""
    if source == target:
        return vector
    if source.is_integer and target.is_integer:
        return _saturated(code, vector, source, target)
    if source.name in _HALVES:
        vector = _float32_of_float16(code, vector) if source.name == "float16" else _float32_of_bfloat16(code, vector)
        return _cast(code, vector, _FLOAT32, target, rounding)
    if target.name in _HALVES:
        numbers = _cast(code, vector, source, _FLOAT32, rounding)
        if target.name == "bfloat16":
            return _bfloat16_of_float32(code, numbers)
        return code.cast("bitcast", code.cast("fptrunc", numbers, "half"), "i16")
    if source.is_integer:
        return _float_of_integer(code, vector, source, target)
    if target.is_integer:
        return _integer_of_float(code, vector, target, rounding)
    return code.cast("fpext" if target.itemsize > source.itemsize else "fptrunc", vector, _FLOATS[target.name])


def _float_of_integer(code: Code, vector: Value, source: ElementType, target: ElementType) -> Value:
    """An integer rounded to the nearest float, half to even."""
    if source.itemsize < 4:
        # 32-bit signed integers have their own instruction everywhere, and hold all that is narrower.
        vector = code.cast("zext" if source.kind == "u" else "sext", vector, "i32")
    signed = source.kind == "i" or source.itemsize < 4
    return code.cast("sitofp" if signed else "uitofp", vector, _FLOATS[target.name])


def _integer_of_float(code: Code, vector: Value, target: ElementType, rounding: Rounding) -> Value:
    """Floats rounded, clamped to the target's range, NaN as 0."""
    name = f"v{vector.lanes}{'f32' if vector.element == 'float' else 'f64'}"
    whole = code.call(f"llvm.{'roundeven' if rounding == 'nearest' else 'trunc'}.{name}", vector.type, vector)
    signed = target.kind == "i"
    if target.itemsize >= 4:
        word = f"i{8 * target.itemsize}"
        saturating = f"llvm.fpto{'s' if signed else 'u'}i.sat.v{vector.lanes}{word}.{name}"
        return code.call(saturating, vector_type(vector.lanes, word), whole)
    least, most = _limits(target)
    if signed:
        whole = code.select(code.compare("fcmp uno", whole, whole), code.full(whole.type, "0.0"), whole)
    # An ordered comparison is false for NaN, which thus becomes the 0 that is the least unsigned integer.
    lowest, highest = (code.full(whole.type, f"{limit}.0") for limit in (least, most))
    whole = code.select(code.compare("fcmp ogt", whole, lowest), whole, lowest)
    whole = code.select(code.compare("fcmp ogt", highest, whole), whole, highest)
    return code.cast("trunc", code.cast("fptosi", whole, "i32"), f"i{8 * target.itemsize}")


def _saturated(code: Code, vector: Value, source: ElementType, target: ElementType) -> Value:
    """Integers clamped to the target's range."""
    (own_least, own_most), (least, most) = _limits(source), _limits(target)
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


def _limits(element: ElementType) -> tuple[int, int]:
    """The least and the largest integer."""
    bits = 8 * element.itemsize
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if element.kind == "i" else (0, (1 << bits) - 1)


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
