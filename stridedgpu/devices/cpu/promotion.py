"""`Promotion`: work on the CPU goes from NumPy to a compiled loop: at once where it is large, else when repeated."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from stridedgpu.devices.verbose import is_verbose

from .compiled.jit import COMPILING, why_unavailable
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

    From that call on a thread loads the compiler and the loops, while NumPy does the work of the calls meanwhile; with
    a verbose line, which names what ran, the call itself loads them. `work` is what does it now; `at` is None once
    loading has begun. `compiled` returns None where this processor cannot run them.
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
                # Threads that come here together load it twice, and lose nothing.
                self.at = None
                if is_verbose():
                    self._load()
                else:
                    # A process that ends waits for this thread: LLVM must not run while it is taken down. Where no
                    # thread can start, at a limit or at the end of Python, NumPy stays.
                    with suppress(RuntimeError):
                        threading.Thread(target=self._load, name="stridedgpu-compiler").start()
        return self.work

    def _load(self) -> None:
        """Load the compiled loops. A fork waits until they are there: its child would wait for ever for an import."""
        with COMPILING:
            made = self._compiled()
        if made is not None:
            self.work, self.is_compiled = made, True
