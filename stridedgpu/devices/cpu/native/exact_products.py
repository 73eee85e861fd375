"""Divisions, and products in float64, as products of float32: by a factor that is the sum of two floats.

    low = fl(x * low factor)            fl(x * factor)  =  fma(x, high factor, low)

Only the lower product is rounded before the last rounding. The result is that of the exact factor, unless the exact
product lies within 2^-48 of its own size of the middle between two floats (N. Brisebarre, J.-M. Muller, "Correctly
rounded multiplication by arbitrary precision constants", IEEE Transactions on Computers 57, 2008). That is computed for
each of the 256 bytes of each channel before a loop is chosen. Processors divide a vector in 5 to 10 cycles, and do both
instructions in one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.numpy_loops.conversion import OPERATIONS, constants
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.values.arithmetic import Operation, as_float32
from stridedgpu.values.conversion import Conversion

Floats = NDArray[np.float32]

REPLACED: Final[frozenset[Operation]] = frozenset({"divide", "multiply in float64"})
"""The operations that products stand for."""

_HALF: Final = 1 << 28
"""The last 29 bits of a float64 in the middle between two floats of 32 bits: a one, and zeros behind it."""

_LEAST: Final = 2.0**-100
"""The least sum that is judged: floats near zero have fewer bits."""


def are_exact(conversion: Conversion) -> bool:
    """Whether products have the bits of each division and of each product in float64, for every byte."""
    return policy().target.fuses and _are_exact(conversion)


def divisor_factors(divisors: Floats) -> tuple[Floats, Floats]:
    """The factors of divisions, the higher ones first."""
    with np.errstate(all="ignore"):
        high = np.float32(1) / divisors
        return high, (1 - _exact(high, divisors)).astype(np.float32) / divisors


def unit_factors(conversion: Conversion, operation: Operation) -> tuple[float, float]:
    """The factors of an operation with a conversion's unit, the higher one first."""
    assert conversion.unit is not None, "the arithmetic has one"
    factor = 1 / conversion.unit if operation == "divide" else conversion.unit
    high = as_float32(factor)
    return high, as_float32(factor - high)


@lru_cache(maxsize=256)
def _are_exact(conversion: Conversion) -> bool:
    """`are_exact` on a processor that multiplies and adds in one instruction."""
    is_of_bytes = conversion.source.name == "uint8" and conversion.compute.name == "float32"
    if not is_of_bytes or conversion.matrix is not None:
        return False
    numbers, one = np.arange(256, dtype=np.float32)[:, None], np.ones(1, np.float32)
    operands = {"scale": conversion.scale, "bias": conversion.bias, "unit": conversion.unit}
    with np.errstate(all="ignore"):
        for operation, name in conversion.steps:
            given = operands[name]
            if given is None:
                continue
            operand = given if isinstance(given, (int, float)) else constants(given, conversion.compute)
            before, numbers = numbers, OPERATIONS[operation](numbers, operand).astype(np.float32)
            if operation not in REPLACED:
                continue
            if name == "unit":
                high, low = (one * factor for factor in unit_factors(conversion, operation))
            else:
                high, low = divisor_factors(one * operand)
            sums = _exact(before, high) + (before * low).astype(np.float64)
            if not _sums_round_to(sums, numbers):
                return False
    return any(operation in REPLACED for operation, _ in conversion.steps)


def _exact(left: Floats, right: Floats) -> NDArray[np.float64]:
    return left.astype(np.float64) * right.astype(np.float64)


def _sums_round_to(sums: NDArray[np.float64], wanted: Floats) -> bool:
    """Whether sums round to these floats. Sums that lie half-way are refused, since they were rounded once before."""
    unknown = (sums.view(np.int64) & (2 * _HALF - 1) == _HALF) | ((np.abs(sums) < _LEAST) & (sums != 0))
    rounded = sums.astype(np.float32)
    return not unknown.any() and np.array_equal(rounded.view(np.int32), wanted.view(np.int32))
