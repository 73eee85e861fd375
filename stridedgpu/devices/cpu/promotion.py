"""`Promotion`: work on the CPU goes from NumPy to a compiled loop: at once where it is large, else when repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from .policy import policy

__all__ = ["Promotion"]

Work = TypeVar("Work")


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
        at_once = compiled() if compiled is not None and nbytes >= policy().promotion.at_once_bytes else None
        if at_once is not None or nbytes >= policy().promotion.at_once_bytes:
            self._compiled = None
        self.work = plain() if at_once is None else at_once
        self.settled = self._compiled is None

    def chosen(self) -> Work:
        """The way to do it this time."""
        make = self._compiled
        if make is not None:
            self._calls += 1
            if self._calls >= policy().promotion.calls:
                # Threads that come here together make it twice, and lose nothing.
                self._compiled = None
                self.work = make() or self.work
                self.settled = True
        return self.work
