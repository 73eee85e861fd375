"""The library's moves, from which kernels are composed: a conversion of elements is one move or several.

Arithmetic that few types have is moves of its own, between two casts. Elements that lie apart, on either side, are
copied by their size to or from a tile in the L1 cache around them:

    uint8 -> float16, "divide", by bytes      one move
    int16 -> uint8, "divide"                  int16 -> float32, divide and normalise, float32 -> uint8
    every third float32 -> uint8, truncated   copy, truncate, float32 -> uint8
"""

from __future__ import annotations

from struct import pack, unpack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.numpy_loops.conversion import constants
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType

from .calls import native_function
from .elements import TYPES, Constants
from .exact_products import REPLACED, divisor_factors, unit_factors

if TYPE_CHECKING:
    from stridedgpu.values.conversion import Conversion

    from .kernel_call import KernelCall

_FLOATS: Final = ("float32", "float64")
_OF_BYTES: Final = ("float32", "float16", "bfloat16")
"""The types to which bytes are normalised in one move."""

_FIRST: Final = {None: 0, "divide": 1, "multiply": 2, "multiply in float64": 3}
_FIRST_BY_PRODUCTS: Final = {None: 0, "divide": 1, "multiply in float64": 1, "multiply": 2}
"""The first step of another library's arithmetic, in the order of the library's tables."""

_MOST_STAGES: Final = 6
MOST_LOOPS: Final = 64
TILE_BYTES: Final = 8192
NO_CONSTANTS: Final = (np.zeros(1),) * 3
MOST_LANES: Final = 128
"""Elements of the longest step along a row, behind which constants are read."""


class Move(NamedTuple):
    """A move of the library: its family and place there, and the bytes of an element that it writes."""

    family: str
    place: int
    bytes: int


class Chain(NamedTuple):
    """The moves of a kernel; `by_products`: divisions are products, whose constants are two factors."""

    moves: tuple[Move, ...]
    by_products: bool = False


def copy_move(itemsize: int) -> Move:
    """A copy of elements of so many bytes."""
    return Move("copy", itemsize.bit_length() - 1, itemsize)


def conversion_moves(conversion: Conversion, *, finite: bool, products: bool, along: bool) -> tuple[list[Move], bool]:
    """The moves of a conversion between contiguous elements, and whether divisions are products."""
    source, target = conversion.source, conversion.target
    truncates = conversion.rounding == "truncate" and target.is_integer
    constant = 2 if along else 1
    if not conversion.has_arithmetic:
        if not (truncates and source.kind == "f"):
            return [_cast(source, target)], False
        wide = source if source.name in _FLOATS else ELEMENT_TYPES["float32"]
        return [*_casts(source, wide), _truncate(wide), _cast(wide, target)], False
    compute = conversion.compute
    behind = [_truncate(compute), _cast(compute, target)] if truncates else _casts(compute, target)
    if conversion.arithmetic == "multiply":
        if truncates:
            return [*_casts(source, compute), _cast(compute, compute, constant), *behind], False
        if not finite and source.kind != "f":  # of integers alone, no sum is taken for no number
            return [_cast(source, compute), _cast(compute, target, constant)], False
        return [_cast(source, target, constant)], False
    first = next((operation for operation, name in conversion.steps if name == "unit"), None)
    if products and finite and not truncates and target.name in _OF_BYTES:
        place = (_OF_BYTES.index(target.name) * 3 + _FIRST_BY_PRODUCTS[first]) * 2 + along
        return [Move("normalize bytes", place, target.itemsize)], True
    place = (_FLOATS.index(compute.name) * 4 + _FIRST[first]) * 2 + along
    return [*_casts(source, compute), Move("normalize", place, compute.itemsize), *behind], False


def _cast(source: ElementType, target: ElementType, arithmetic: int = 0) -> Move:
    """A conversion without arithmetic (0), with one scale and bias a row (1), or with those of each element (2)."""
    place = (TYPES.index(source.name) * len(TYPES) + TYPES.index(target.name)) * 3 + arithmetic
    return Move("convert", place, target.itemsize)


def _casts(source: ElementType, target: ElementType) -> list[Move]:
    """A conversion, unless there is nothing to convert."""
    return [] if source == target else [_cast(source, target)]


def _truncate(element: ElementType) -> Move:
    return Move("truncate", _FLOATS.index(element.name), element.itemsize)


class Arithmetic(NamedTuple):
    """The constants of a call: of a first step in two parts, and the scales, biases and lower factors in order."""

    unit: float = 0.0
    unit_low: float = 0.0
    values: tuple[NDArray[Any], ...] = ()

    @classmethod
    def of(cls, call: KernelCall, *, by_products: bool) -> Arithmetic:
        """Those of a call: numbers of the type that is computed in, none without arithmetic."""
        conversion, (count, turn) = call.conversion, call.constants_of
        if not conversion.has_arithmetic:
            return cls()
        compute = conversion.compute
        scale = constants(conversion.scale or (1.0,), compute)
        bias = constants(conversion.bias or (-0.0,), compute)
        scale, low = divisor_factors(scale) if by_products else (scale, np.zeros_like(scale))
        # A reversed loop reads them from the other end.
        values = tuple(np.resize(given, count)[::turn] for given in (scale, bias, low))
        if conversion.unit is None:
            return cls(values=values)
        first = next(operation for operation, name in conversion.steps if name == "unit")
        if by_products and first in REPLACED:
            return cls(*unit_factors(conversion, first), values)
        return cls(conversion.unit, 0.0, values)

    @property
    def unit_words(self) -> tuple[int, ...]:
        """The bits of the first step's numbers."""
        return unpack("=2q", pack("=2d", self.unit, self.unit_low))


def chain_fields(
    call: KernelCall,
    chain: Chain,
    place: Constants,
    *,
    repeats: bool = False,
    turns: bool = False,
    ahead: int = 0,
) -> tuple[list[int], object]:
    """The fields of a chain, `Rows` in kernels/cpu/copy.hpp, with constants at a `place`; and what they point to."""
    elements, compute = call.kernel.elements, call.conversion.compute
    arithmetic = Arithmetic.of(call, by_products=chain.by_products)
    # A step may read behind the last.
    kept = [np.pad(values, (0, MOST_LANES)) for values in arithmetic.values]
    fields = [
        *arithmetic.unit_words,
        compute.itemsize,
        *(int(place == each) for each in (Constants.ITEM, Constants.A, Constants.B)),
        int(repeats),
        int(turns),
        int(call.kernel.streaming),
        ahead,
        TILE_BYTES // max(elements.source_bytes, *(move.bytes for move in chain.moves)),
        len(chain.moves),
    ]
    for move in chain.moves:
        fields += [native_function(move.family, move.place), move.bytes]
    fields += [0, 0] * (_MOST_STAGES - len(chain.moves)) + [values.ctypes.data for values in kept or NO_CONSTANTS]
    inner, outer, tables = call.grid()
    return [*fields, *inner, len(call.outer), *outer], (kept, tables)
