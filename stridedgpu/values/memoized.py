"""`remembered`: what a call works out from its arguments alone is worked out once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

__all__ = ["remembered"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def remembered(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A pure function with a memory for its last few thousand answers; errors are raised anew each time.

    Its arguments may come from anybody. Equal ones of different types are told apart, since 16.0 may be refused where
    16 is not, and for those that cannot be hashed the function is simply called, to refuse them in its own words.
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
