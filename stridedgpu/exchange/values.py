"""Values that are written into a tensor: arrays, scalars and Python numbers as operands."""

from __future__ import annotations

from typing import Any

from stridedgpu.devices.operand import Operand
from stridedgpu.operations.allocation import check_fits
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import LayoutError

from .array_like import foreign_operand

__all__ = ["plain", "value_operand"]


def plain(value: Any) -> Any:
    """Arrays, and scalars of libraries, as Python's lists and numbers; anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") and not isinstance(value, type) else value


def value_operand(value: object, target: ElementType) -> Operand:
    """An array-like or scalar value as an operand; a Python integer must fit an integer target."""
    if isinstance(value, int) and not isinstance(value, bool):
        check_fits("value", value, target)
        if not -(2**63) <= value < 2**64:
            value = _rounded("value", value)
    return foreign_operand(value)[0]


def _rounded(name: str, value: int) -> float:
    """An integer beyond 64 bits as the nearest float64. Raises `LayoutError` where there is none."""
    try:
        return float(value)
    except OverflowError:
        raise LayoutError(f"{name}, an integer of {value.bit_length()} bits, is beyond every float.") from None
