"""`Promotion`: work on the CPU goes from NumPy to a compiled loop: at once where it is large, else when repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .compiled.jit import why_unavailable
from .policy import policy

__all__ = ["Promotion", "compiled_from"]


def compiled_from(nbytes: int, at_once_bytes: int | None = None) -> int | None:
    """The call that a compiled loop is loaded for, of work that moves so many bytes; None where nothing compiles.

    `at_once_bytes` are those from which on it is loaded at the first call, None those of a relayout.
    """
    if why_unavailable() is not None:
        return None
    promotion = policy().promotion
    least = promotion.at_once_bytes if at_once_bytes is None else at_once_bytes
    return 1 if nbytes >= least else promotion.calls


class Promotion:
    """Work that NumPy does until call number `at`, which `compiled` makes the loops for.

    `work` is what does it now; `at` is None once that is for good. `compiled` returns None where this processor cannot
    run them.
    """

    __slots__ = ("_calls", "_compiled", "at", "is_compiled", "work")

    def __init__(
        self, at: int | None, plain: Callable[[], Callable[..., Any]], compiled: Callable[[], Callable[..., Any] | None]
    ) -> None:
        """Begin with NumPy, unless the first call is for compiled loops."""
        self._calls = 0
        self._compiled = compiled
        first = compiled() if at == 1 else None
        self.work = plain() if first is None else first
        self.is_compiled = first is not None
        self.at = None if at == 1 else at

    def chosen(self) -> Callable[..., Any]:
        """What does the work of this call."""
        if self.at is not None:
            self._calls += 1
            if self._calls >= self.at:
                # Threads that come here together make it twice, and lose nothing.
                self.at = None
                made = self._compiled()
                self.work, self.is_compiled = made or self.work, made is not None
        return self.work
