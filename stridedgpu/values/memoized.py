"""`memoized`: what a call works out from its arguments alone is worked out once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

__all__ = ["memoized"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def memoized(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`lru_cache(4096, typed=True)` that calls the function directly when an argument is unhashable.

    Exceptions are not cached. Equal arguments of different types are told apart, since 16.0 may be refused where 16 is
    not. An unhashable argument is refused by the function, in its own words.
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
