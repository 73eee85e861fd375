"""Element conversions on NumPy arrays, bitwise equal to the rules of `stridedgpu.values.conversion`.

A tensor is converted block by block, so every temporary has the size of a block. bool is handled as its byte. A type
that NumPy lacks is handled as its bits; `_DECODED` and `_ENCODED` convert these to float32 and back without another
library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.values.arithmetic import Operation
from stridedgpu.values.conversion import Conversion, Rounding, casts
from stridedgpu.values.dtypes import ElementType

Array = NDArray[Any]

_OPAQUE: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
_SIGN_AND_QUIET: Final = {  # by itemsize: bits of the significand, and the quiet bit that is its highest
    2: (10, np.uint16),
    4: (23, np.uint32),
    8: (52, np.uint64),
}


def storage_dtype(element: ElementType, *, opaque: bool) -> np.dtype[Any]:
    """The NumPy dtype of blocks of an element type: unsigned bits if `opaque`, else numbers."""
    if opaque:
        return np.dtype(_OPAQUE[element.itemsize])
    return np.dtype(_OPAQUE[element.itemsize] if element.kind == "b" or element.name in _DECODED else element.name)


def constants(values: Sequence[float], compute: ElementType) -> Array:
    """Scales or biases in the type that they are computed in; what is too large for float32 is infinite there."""
    with np.errstate(over="ignore"):
        return np.array(values, compute.name)


def check_known(conversion: Conversion) -> None:
    """Raise `DeviceError` for a conversion with a part that this module does not compute."""
    if not conversion.parts <= _PARTS:
        conversion.check_parts(_PARTS, "devices/cpu/numpy_loops/conversion.py")


def convert_block(block: Array, conversion: Conversion, scale: Array | None = None, bias: Array | None = None) -> Array:
    """`block` (of the source's storage dtype) converted, as a new array of the target's storage dtype.

    `scale` and `bias` are arrays of `conversion.compute` that broadcast against the block, None where absent. Raises
    `DeviceError` for a conversion with a part that is not computed here.
    """
    check_known(conversion)
    if block.ndim == 0:  # NumPy's functions would return scalars, which are not writable
        return convert_block(block.reshape(1), conversion, scale, bias).reshape(())
    source, target, rounding = conversion.source, conversion.target, conversion.rounding
    with np.errstate(all="ignore"):
        if scale is None and bias is None:
            return _cast(block, source, target, rounding)
        compute = conversion.compute
        numbers = _cast(block, source, compute, rounding)
        if numbers is block:
            numbers = block.copy(order="K")
        # NumPy rounds a number of Python's to the type that is computed in.
        operands = {"scale": scale, "bias": bias, "unit": conversion.unit}
        for operation, name in conversion.steps:
            operand = operands[name]
            if operand is not None:
                OPERATIONS[operation](numbers, operand, out=numbers)
        if source.kind == "f" or not all(values is None or np.isfinite(values).all() for values in (scale, bias)):
            np.copyto(numbers, np.nan, where=np.isnan(numbers))
        return _cast(numbers, compute, target, rounding)


def _cast(block: Array, source: ElementType, target: ElementType, rounding: Rounding) -> Array:
    """One direct conversion, rounded once."""
    for primitive, result in casts(source, target, decodes=source.name in _DECODED, encodes=target.name in _ENCODED):
        match primitive:
            case "test":
                block = _DECODED[source.name](block) if source.name in _DECODED else block
                block = (block != 0).view(np.uint8)
            case "decode":
                block = _DECODED[source.name](block)
            case "encode":
                block = _ENCODED[result.name](_float32_to_round(block))
            case "clamp":
                block = _saturated_integers(block, result)
            case "round":
                block = _integers_of_floats(block, result, rounding)
            case "float" if source.kind == "f":
                block = _floats(block, result)
            case "float" | "complex":
                block = block.astype(result.name)
        source = result
    return block


def _saturated_integers(block: Array, target: ElementType) -> Array:
    own, wanted = np.iinfo(block.dtype), np.iinfo(target.name)
    if own.min < wanted.min or own.max > wanted.max:
        least, most = max(own.min, wanted.min), min(own.max, wanted.max)
        block = np.clip(block, block.dtype.type(least), block.dtype.type(most))
    return block.astype(target.name)


def _integers_of_floats(block: Array, target: ElementType, rounding: Rounding) -> Array:
    """Floats rounded, clamped to the target's range, NaN as 0."""
    # Every bound of up to 32 bits is exact in float64, those of up to 16 in float32.
    numbers = block.astype(np.float64 if target.itemsize >= 4 else np.promote_types(block.dtype, np.float32))
    _ROUNDINGS[rounding](numbers, out=numbers)
    np.copyto(numbers, 0, where=np.isnan(numbers))
    limits = np.iinfo(target.name)
    if target.itemsize < 8:
        np.clip(numbers, limits.min, limits.max, out=numbers)
        return numbers.astype(target.name)
    # 2^63 and 2^64 are exact in float64; the largest integers below them are not.
    beyond = numbers >= float(limits.max)
    np.clip(numbers, float(limits.min), np.nextafter(float(limits.max), 0.0), out=numbers)
    whole = numbers.astype(target.name)
    whole[beyond] = limits.max
    return whole


def _floats(block: Array, target: ElementType) -> Array:
    """float16, float32 or float64 as another of them; NaN keeps sign and leading payload and becomes quiet."""
    if block.dtype == target.name:
        return block
    result = block.astype(target.name)
    # float16 comparisons are slow: NaNs are searched in the wider of the two types.
    nans = np.isnan(block if block.itemsize > result.itemsize else result)
    if nans.any():
        result.view(_SIGN_AND_QUIET[result.dtype.itemsize][1])[nans] = _nan_bits(block[nans], result.dtype)
    return result


def _nan_bits(block: Array, dtype: np.dtype[Any]) -> Array:
    """Convert the bits of NaNs to quiet NaNs of another float type, field by field."""
    own_width, own_word = _SIGN_AND_QUIET[block.dtype.itemsize]
    width, word = _SIGN_AND_QUIET[dtype.itemsize]
    bits = block.view(own_word).astype(np.uint64)
    sign = bits >> np.uint64(8 * block.dtype.itemsize - 1) << np.uint64(8 * dtype.itemsize - 1)
    payload = bits & np.uint64((1 << own_width) - 1)
    shift = width - own_width
    payload = payload << np.uint64(shift) if shift >= 0 else payload >> np.uint64(-shift)
    exponent = (1 << (8 * dtype.itemsize - 1)) - (1 << width)
    return (sign | payload | np.uint64(exponent | 1 << (width - 1))).astype(word)


def _float32_of_bfloat16(block: Array) -> Array:
    """bfloat16 bits as float32, exactly; NaN becomes quiet."""
    bits = block.astype(np.uint32)
    bits <<= np.uint32(16)
    numbers = bits.view(np.float32)
    bits[np.isnan(numbers)] |= np.uint32(0x400000)
    return numbers


def _bfloat16_of_float32(numbers: Array) -> Array:
    """float32 rounded to nearest even, as bfloat16 bits."""
    bits = numbers.view(np.uint32)
    rounded = bits >> np.uint32(16)
    odd = rounded & np.uint32(1)
    odd += np.uint32(0x7FFF)
    odd += bits  # cannot wrap, but for NaN, which is replaced below
    odd >>= np.uint32(16)
    nans = np.isnan(numbers)
    if nans.any():
        odd[nans] = rounded[nans] | np.uint32(0x40)
    return odd.astype(np.uint16)


def _float32_to_round(block: Array) -> Array:
    """Numbers as float32 before a second rounding: exact, or the neighbour with an odd last bit (round-to-odd).

    After round-to-odd, the second rounding gives the same result as a single one (S. Boldo, G. Melquiond, "Emulation of
    a FMA and correctly rounded sums: proved algorithms using rounding to odd").
    """
    if block.dtype.kind == "f" and block.itemsize <= 4:
        return _floats(block, _FLOAT32)
    if block.itemsize <= 2:
        return block.astype(np.float32)
    numbers = (_integers_to_odd(block) if block.dtype.kind in "ui" and block.itemsize == 8 else block).astype(
        np.float64
    )
    narrow = numbers.astype(np.float32)
    back = narrow.astype(np.float64)
    bits = narrow.view(np.uint32)
    inexact = (back != numbers) & np.isfinite(numbers)
    even = (bits & np.uint32(1)) == 0
    larger = np.abs(back) > np.abs(numbers)
    # An inexact even result moves to its odd neighbour, towards the exact number.
    np.add(bits, np.where(larger, np.uint32(0xFFFFFFFF), np.uint32(1)), out=bits, where=inexact & even)
    nans = np.isnan(numbers)
    if nans.any():
        bits[nans] = _nan_bits(numbers[nans], narrow.dtype)
    return narrow


def _integers_to_odd(block: Array) -> Array:
    """64-bit integers made exact in float64: those too long for 53 bits are rounded to odd at bit 11."""
    low = block.dtype.type(0x7FF)
    large = np.abs(block) >= 2**53 if block.dtype.kind == "i" else block >= 2**53
    large |= block < -(2**53)  # the most negative number has no absolute value
    odd = (block & ~low) | ((block & low) != 0).astype(block.dtype) << block.dtype.type(11)
    return np.where(large, odd, block)


_FLOAT32: Final = ElementType("float32", "f", 4)

OPERATIONS: Final[dict[Operation, Callable[..., Array]]] = {
    "multiply": np.multiply,
    "add": np.add,
    "divide": np.divide,
    "multiply in float64": partial(np.multiply, dtype=np.float64, casting="same_kind"),
}
"""The NumPy function of each operation of arithmetic."""

_ROUNDINGS: Final[dict[Rounding, np.ufunc]] = {"nearest": np.rint, "truncate": np.trunc}
"""The NumPy function of each rounding mode."""

_PARTS: Final = frozenset(
    {"scale", "bias", "channels", "matrix", "arithmetic", "unit", *(f"rounding={name!r}" for name in _ROUNDINGS)}
)
"""The parts of a conversion that NumPy's loops compute."""

_DECODED: Final[dict[str, Callable[[Array], Array]]] = {"bfloat16": _float32_of_bfloat16}
"""Decode the bits of types that NumPy lacks to float32, exactly."""

_ENCODED: Final[dict[str, Callable[[Array], Array]]] = {"bfloat16": _bfloat16_of_float32}
"""Encode float32 as the bits of such types, nearest even; they have at least two significant bits fewer."""
