"""`Doubles`: constants of arithmetic as bytes, which compare as their bits do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Complex, Real
from struct import Struct, pack, unpack
from typing import Final, SupportsFloat, TypeAlias, cast
from weakref import ref

from .errors import LayoutError

__all__ = ["Doubles", "PerChannel", "StatedDoubles", "doubles", "floats", "one_double", "real"]

PerChannel: TypeAlias = SupportsFloat | Iterable[SupportsFloat]
"""One number, or one for each output channel: a list, a tuple or an array."""


class Doubles(bytes):
    """Numbers as the bytes of doubles, a key that tells -0.0 from 0.0 and makes equal NaNs equal."""

    __slots__ = ()


class StatedDoubles(Doubles):
    """The same with the value as the caller wrote it, for messages; it is no part of the key.

    Arrays and tensors are not kept alive: while a call checks its arguments, the caller does that.
    """

    _value: Callable[[], object]

    @classmethod
    def of(cls, name: str, value: PerChannel) -> StatedDoubles:
        """As `doubles`."""
        numbers = cls(doubles(name, value))
        try:
            numbers._value = ref(value)
        except TypeError:  # numbers, lists and tuples
            numbers._value = lambda: value
        return numbers

    @property
    def stated(self) -> object:
        """The value, or its numbers if the object is gone."""
        value = self._value()
        return floats("", self) if value is None else value


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
