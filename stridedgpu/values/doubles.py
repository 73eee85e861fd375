"""`Doubles`: constants of arithmetic as bytes, which compare as their bits do."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from struct import Struct, pack
from typing import Final, cast

from .errors import LayoutError

__all__ = ["Doubles", "doubles", "floats", "one_double"]


class Doubles(bytes):
    """Numbers as the bytes of doubles, a key that tells -0.0 from 0.0 and makes equal NaNs equal."""

    __slots__ = ()


def floats(name: str, value: float | Iterable[float]) -> tuple[float, ...]:
    """One float or several as a tuple."""
    values = (value,) if isinstance(value, Real) else value
    try:
        numbers = tuple(float(entry) for entry in values)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        numbers = ()
    except OverflowError:
        raise LayoutError(f"{name} has a number beyond the largest float64, 1.8e308.") from None
    if not numbers or isinstance(value, (str, bytes)):
        raise LayoutError(f"{name}={value!r} must be a number, or one number a channel.")
    return numbers


def doubles(name: str, value: float | Iterable[float] | Doubles) -> Doubles:
    """One number or several as doubles; `name` is the argument in the message of a `LayoutError`."""
    if type(value) is float:
        return Doubles(one_double(value))
    if type(value) is Doubles:
        return value
    if type(value) is tuple and value and set(map(type, value)) == {float}:
        return Doubles(pack(f"{len(value)}d", *value))
    numbers = floats(name, cast("float | Iterable[float]", value))
    return Doubles(pack(f"{len(numbers)}d", *numbers))


one_double: Final = Struct("d").pack
"""The bytes of one number."""
