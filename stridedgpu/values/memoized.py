"""`memoized`: a cache for pure functions, whose arguments may be unhashable."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar, cast

from .bounded_cache import bounded_cache

_P = ParamSpec("_P")
_R = TypeVar("_R")

_V = TypeVar("_V")


@bounded_cache
def _first(value: object) -> Any:
    """The first of equal values."""
    return value


def interned(value: _V) -> _V:
    """One object for equal hashable values: caches then find it by identity, which compares no fields."""
    first: _V = _first(value)
    return first


def memoized(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`lru_cache(4096, typed=True)` that calls the function directly when an argument is unhashable.

    It takes no arguments by name, which would cost every call a dictionary.

    `empty` and its like pass on what users gave, whose options may be of a wrong type, such as `row_pitch_bytes=[64]`,
    and are then refused in the function's own words. Exceptions are not cached. Equal arguments of different types have
    separate entries, since a function may refuse 16.0 and accept 16. Entries of a tuple have not: callers check them.
    """
    cached: Any = lru_cache(maxsize=4096, typed=True)(function)

    @wraps(function)
    def answer(*args: object) -> _R:
        try:
            result: _R = cached(*args)
        except TypeError:
            result = plain(*args)
        return result

    plain: Any = function
    return cast("Callable[_P, _R]", answer)
