"""Constants of arithmetic as bytes, which compare as their bits do: numbers a channel, and the rows of a matrix."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Complex, Real
from struct import Struct, pack, unpack
from typing import Final, SupportsFloat, TypeAlias, cast

from .errors import LayoutError
from .strides import listed

PerChannel: TypeAlias = SupportsFloat | Iterable[SupportsFloat]
"""One number, or one for each output channel: a list, a tuple or an array."""


class Doubles(bytes):
    """Numbers as the bytes of doubles, a key that tells -0.0 from 0.0 and makes equal NaNs equal."""

    __slots__ = ()


def floats(name: str, value: PerChannel | Doubles) -> tuple[float, ...]:
    """One float or several as a tuple."""
    if isinstance(value, Doubles):
        return unpack(f"{len(value) // 8}d", value)
    one = isinstance(value, Real) or getattr(value, "ndim", 1) == 0
    values = cast("Iterable[SupportsFloat]", (value,) if one else value)
    try:
        numbers = tuple(map(real, values))
    except (TypeError, ValueError, MemoryError):
        numbers = ()
    except OverflowError:
        raise LayoutError(f"{name} has a number beyond the largest float64, 1.8e308.") from None
    if not numbers or isinstance(value, (str, bytes)):
        raise LayoutError(f"{name}={value!r} must be a number, or one number a channel.")
    return numbers


def real(entry: SupportsFloat) -> float:
    """A number as a float. Raises `TypeError` for a complex one, whose imaginary part NumPy's would drop."""
    if isinstance(entry, Complex) and not isinstance(entry, Real):
        raise TypeError(f"{entry!r} is complex")
    return float(entry)


def doubles(name: str, value: PerChannel | Doubles) -> Doubles:
    """One number or several as doubles; `name` is the argument in the message of a `LayoutError`."""
    if type(value) is float:
        return Doubles(one_double(value))
    if type(value) is Doubles:
        return value
    if (type(value) is tuple or type(value) is list) and set(map(type, value)) == _FLOAT:
        return Doubles(pack(f"{len(value)}d", *value))
    numbers = floats(name, value)
    return Doubles(pack(f"{len(numbers)}d", *numbers))


_FLOAT: Final = {float}

one_double: Final = Struct("d").pack
"""The bytes of one number."""

Matrix: TypeAlias = tuple[tuple[float, ...], ...]
"""A row for each output channel, with a number for each source channel."""

MatrixRows: TypeAlias = tuple[Doubles, ...]
"""The same as a key that tells -0.0 from 0.0."""


def matrix_rows(matrix: object) -> MatrixRows:
    """A matrix, as nested sequences or an array. Raises `LayoutError` unless its rows are as long as each other.

    >>> [len(row) // 8 for row in matrix_rows([[0.299, 0.587, 0.114]])]
    [3]
    """
    if type(matrix) is tuple and matrix and set(map(type, matrix)) == {Doubles}:
        return matrix
    rows = [listed(row) for row in listed(matrix) or ()]
    if not rows or None in rows:
        raise LayoutError(
            f"matrix={matrix!r} must be rows of numbers, one row for each output channel, such as "
            "[[0.299, 0.587, 0.114]]."
        )
    checked = tuple(doubles(f"matrix[{number}]", row) for number, row in enumerate(rows) if row is not None)
    lengths = [len(row) // 8 for row in checked]
    if len(set(lengths)) > 1:
        raise LayoutError(f"matrix has rows of {lengths} numbers; each has one number for each source channel.")
    return checked


def check_rows(matrix: MatrixRows, channels: object, source_channels: int | None) -> None:
    """Raise `LayoutError` unless a matrix fits a source with this many channels (None: no channel axis)."""
    if channels is not None:
        raise LayoutError(
            f"channels={channels!r} and matrix= both choose channels: leave channels out, and order the matrix's "
            "columns and rows."
        )
    if source_channels is None:
        raise LayoutError("matrix= needs a channel axis; label the source's axes, such as dims='NHWC'.")
    across = len(matrix[0]) // 8
    if across != source_channels:
        raise LayoutError(
            f"matrix has {len(matrix)} rows of {across} numbers; the source has {source_channels} channels, and each "
            "row takes one number for each."
        )
