"""Element types: DirectML's `DataType` numbers, and the wider set of `ElementType` that tensors hold.

Pure Python. A NumPy dtype is recognised by its name, so nothing here imports NumPy.
"""

from __future__ import annotations

import re
import sys
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

from .errors import ElementTypeError, LayoutError

_SDK_PREFIX: Final = "DML_TENSOR_DATA_TYPE_"
"""What the names of DirectML's header begin with."""


class DataType(IntEnum):
    """The element types of a DirectML buffer tensor, with DirectML's names and values.

    >>> DataType.FLOAT16.bits, DataType.FLOAT16.itemsize, DataType.UINT4.itemsize
    (16, 2, None)
    >>> DataType.of("float16") is DataType.FLOAT16
    True

    Source: `DML_TENSOR_DATA_TYPE` in DirectML.h.
    """

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13

    @property
    def bits(self) -> int:
        """Bits of one element; 0 for `UNKNOWN`."""
        return _BITS[self]

    @property
    def itemsize(self) -> int | None:
        """Bytes of one element, or None where an element is not a whole number of bytes."""
        return self.bits // 8 if self.bits >= 8 else None

    @classmethod
    def of(cls, dtype: object) -> DataType:
        """The DirectML type of a name, a number, a NumPy dtype or scalar type, or a `DataType`.

        Names are NumPy's ("float16") and the SDK's ("DML_TENSOR_DATA_TYPE_FLOAT16"); numbers are the SDK's.

        Raises `ElementTypeError` when DirectML has no such type, or the dtype is byte-swapped.

        >>> DataType.of("DML_TENSOR_DATA_TYPE_FLOAT16"), DataType.of(2)
        (<DataType.FLOAT16: 2>, <DataType.FLOAT16: 2>)
        """
        if isinstance(dtype, cls):
            return dtype
        if type(dtype) is int:
            if dtype not in range(max(cls) + 1):
                raise ElementTypeError(f"data_type={dtype} is no DML_TENSOR_DATA_TYPE; these are 0 to {max(cls):d}.")
            return cls(dtype)
        if isinstance(dtype, str) and dtype.startswith(_SDK_PREFIX):
            dtype = dtype.removeprefix(_SDK_PREFIX).lower()
        name = _name_of(dtype)
        member = cls.__members__.get(name.upper())
        if member is None:
            known = ", ".join(member.name.lower() for member in cls if member)
            raise ElementTypeError(f"DirectML has no element type {name!r}; its types are {known}.")
        return member


_BITS: Final = dict(zip(DataType, (0, 32, 16, 32, 16, 8, 32, 16, 8, 64, 64, 64, 4, 4), strict=True))


class ElementType(NamedTuple):
    """What one element of a tensor is: DirectML's whole-byte types and the others that NumPy arrays hold.

    `name` is NumPy's (or ml_dtypes') name; `kind` is "b" (bool), "u", "i", "f", "c" (complex) or
    "o" (opaque: moved as bits, never converted); `itemsize` is in bytes.
    """

    name: str
    kind: str
    itemsize: int

    @property
    def data_type(self) -> DataType:
        """The DirectML type, or `DataType.UNKNOWN` where DirectML has none (bool, complex64, bfloat16 …)."""
        return DataType.__members__.get(self.name.upper(), DataType.UNKNOWN)

    @property
    def is_integer(self) -> bool:
        """Whether this is a signed or unsigned integer (bool is not)."""
        return self.kind in "ui"

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest number of an integer type.

        >>> ELEMENT_TYPES["int8"].limits, ELEMENT_TYPES["uint8"].limits
        ((-128, 127), (0, 255))
        """
        bits = 8 * self.itemsize
        return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if self.kind == "i" else (0, (1 << bits) - 1)

    @property
    def component(self) -> ElementType:
        """The type of the real and imaginary part of a complex type; the type itself otherwise."""
        return ELEMENT_TYPES[f"float{self.itemsize * 4}"] if self.kind == "c" else self

    def __str__(self) -> str:
        return self.name


ELEMENT_TYPES: Final[dict[str, ElementType]] = {
    name: ElementType(name, kind, itemsize)
    for name, kind, itemsize in (
        ("bool", "b", 1),
        *((f"uint{8 * n}", "u", n) for n in (1, 2, 4, 8)),
        *((f"int{8 * n}", "i", n) for n in (1, 2, 4, 8)),
        ("float16", "f", 2),
        ("bfloat16", "f", 2),
        ("float32", "f", 4),
        ("float64", "f", 8),
        ("complex64", "c", 8),
        ("complex128", "c", 16),
        ("float8_e4m3fn", "o", 1),
        ("float8_e5m2", "o", 1),
    )
}


def element_type(dtype: object) -> ElementType:
    """The element type of a name, NumPy dtype, NumPy scalar type, `DataType` or `ElementType`.

    Raises `ElementTypeError` for types that a tensor cannot hold: objects, strings, structured and
    byte-swapped dtypes, and the 4-bit types, which only a `BufferTensorDesc` describes.

    >>> element_type("uint8").itemsize
    1
    """
    if isinstance(dtype, ElementType):
        return dtype
    try:
        hash(dtype)
    except TypeError:
        return _find_element_type(dtype)
    return _found_element_type(dtype)


def _find_element_type(dtype: object) -> ElementType:
    name = dtype.name.lower() if isinstance(dtype, DataType) else _name_of(dtype)
    element = ELEMENT_TYPES.get(name)
    if element is None:
        raise ElementTypeError(f"A tensor cannot hold elements of type {name!r}; it holds {', '.join(ELEMENT_TYPES)}.")
    return element


# A NumPy dtype takes microseconds to say its name.
_found_element_type = lru_cache(maxsize=256, typed=True)(_find_element_type)


def check_fits(name: str, value: int, element: ElementType) -> None:
    """Raise `LayoutError` when a Python integer is outside an integer type's range."""
    if not element.is_integer:
        return
    least, most = element.limits
    if not least <= value <= most:
        raise LayoutError(f"{name}={value} does not fit {element}, which holds {least} to {most}.")


_ALIASES: Final = {
    "bool_": "bool",
    "float": "float64",
    "int": "int64",
    "complex": "complex128",
    "half": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
    **{
        f"{'b' if name == 'bool' else element.kind}{element.itemsize}": name
        for name, element in ELEMENT_TYPES.items()
        if name.startswith(("bool", "uint", "int", "float", "complex")) and element.kind != "o"
    },
}
"""Python's names besides, the field's, and NumPy's codes, which count bytes: "f4" is float32."""

_TWO_MEANINGS: Final = {"u8": ("uint64", "uint8"), "i8": ("int64", "int8")}
"""Codes that count bytes to NumPy, and bits to most others; behind a byte order ("<u8") they are NumPy's."""

_NATIVE: Final = re.compile(f"[=|{'<' if sys.byteorder == 'little' else '>'}](?=[a-z])")
"""What NumPy puts before a code of the machine's own byte order."""


def _name_of(dtype: object) -> str:
    """The name of a dtype-like object, without importing the library it comes from."""
    name = dtype.lower() if isinstance(dtype, str) else getattr(dtype, "name", getattr(dtype, "__name__", None))
    if name is None and type(dtype).__module__ == "torch":
        name = str(dtype).removeprefix("torch.")
    if not isinstance(name, str):
        raise ElementTypeError(
            f"dtype={dtype!r} is not an element type; give a name such as 'float16', a NumPy dtype or a DataType."
        )
    if getattr(dtype, "isnative", True) is False:
        raise ElementTypeError(
            f"dtype {dtype!r} is byte-swapped; a tensor holds the machine's own byte order. "
            f"Convert first, with array.astype({name!r})."
        )
    if name in _TWO_MEANINGS:
        of_bytes, of_bits = _TWO_MEANINGS[name]
        raise ElementTypeError(
            f"dtype={name!r} has two meanings: {of_bytes!r}, as NumPy counts 8 bytes, and {of_bits!r} of 8 bits; "
            "give one of these names."
        )
    plain = _NATIVE.sub("", name, count=1)
    return _ALIASES.get(plain, plain)
