"""`Promotion`: work on the CPU goes from NumPy to a compiled loop: at once where it is large, else when repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

__all__ = ["Promotion"]

Work = TypeVar("Work")

_LARGE_BYTES: Final = 1024 * 1024
"""Fewer bytes take NumPy less time than a kernel takes to load."""

_REPEATED: Final = 16
"""The call of one small piece of work at which its kernel is loaded."""


class Promotion(Generic[Work]):
    """Two ways to do one piece of work that moves `nbytes`; `compiled` is None, or makes None, where there is one.

    Each way is made when it is first needed. Once the choice is `settled`, for good, `work` is the way; before, it is
    what `chosen` returns.
    """

    __slots__ = ("_calls", "_compiled", "settled", "work")

    def __init__(
        self, nbytes: int, plain: Callable[[], Work], compiled: Callable[[], Work | None] | None = None
    ) -> None:
        """Choose the way to begin with."""
        self._calls = 0
        self._compiled = compiled
        at_once = compiled() if compiled is not None and nbytes >= _LARGE_BYTES else None
        if at_once is not None or nbytes >= _LARGE_BYTES:
            self._compiled = None
        self.work = plain() if at_once is None else at_once
        self.settled = self._compiled is None

    def chosen(self) -> Work:
        """The way to do it this time."""
        make = self._compiled
        if make is not None:
            self._calls += 1
            if self._calls >= _REPEATED:
                # Threads that come here together make it twice, and lose nothing.
                self._compiled = None
                self.work = make() or self.work
                self.settled = True
        return self.work
