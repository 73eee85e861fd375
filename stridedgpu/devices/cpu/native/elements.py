"""What a kernel does to an element: its conversion, and the loop that the scales and biases follow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Final

from stridedgpu.values.conversion import Conversion

TYPES: Final = (
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32",
    "float64",
)  # fmt: skip
"""The element types in the order of the library's tables."""

_PARTS: Final = frozenset(
    {
        "scale", "bias", "channels", "matrix", "arithmetic", "unit",
        "rounding='nearest'", "rounding='truncate'",
    }
)  # fmt: skip
"""The parts of a conversion that the library has."""


def can_convert(conversion: Conversion) -> bool:
    """Whether the library has the conversion: all but complex numbers and types that `TYPES` does not list."""
    names = {conversion.source.name, conversion.target.name}
    return conversion.is_bitwise_copy or (names <= {*TYPES} and conversion.parts <= _PARTS)


class Constants(StrEnum):
    """Which loop indexes the scales and biases."""

    ITEM = auto()
    A = auto()
    B = auto()
    SMALL = auto()


@dataclass(frozen=True, slots=True)
class Elements:
    """The treatment of an element: its conversion, the loop that its constants follow, and its storage."""

    conversion: Conversion
    constants: Constants
    finite: bool
    itemsize: int
    """Bytes of an element of a bitwise copy, up to 16 (it may combine several tensor elements); 0 for conversions."""
    by_products: bool = False
    """Whether `exact_products` stand for divisions and for products in float64."""

    @property
    def source_bytes(self) -> int:
        """Bytes of a source element."""
        return self.itemsize or self.conversion.source.itemsize

    @property
    def target_bytes(self) -> int:
        """Bytes of a target element."""
        return self.itemsize or self.conversion.target.itemsize
