"""`memoized`: a cache for pure functions, whose arguments may be unhashable."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

__all__ = ["memoized"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def memoized(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`lru_cache(4096, typed=True)` that calls the function directly when an argument is unhashable.

    `empty` and its like pass on what users gave, whose options may be of a wrong type, such as `row_pitch_bytes=[64]`,
    and are then refused in the function's own words. Exceptions are not cached. Equal arguments of different types have
    separate entries, since a function may refuse 16.0 and accept 16. Entries of a tuple have not: callers check them.
    """
    cached: Any = lru_cache(maxsize=4096, typed=True)(function)

    @wraps(function)
    def answer(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            found: _R = cached(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)
        return found

    return answer
