"""`Promotion`: the switch from NumPy to a compiled loop, at once for large work and after some calls for small."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from typing import Any, Final

from stridedgpu.devices.verbose import is_verbose

from .compiled.compiler import LoopError
from .compiled.jit import COMPILING, why_unavailable
from .policy import policy

_AT_ONCE: Final = ContextVar("at once", default=False)


def compiled_from(nbytes: int, at_once_bytes: int | None = None) -> int | None:
    """The number of the call at which work of `nbytes` switches to a compiled loop; None if nothing can be compiled.

    Work of at least `at_once_bytes` switches at its first call; None is the threshold of a relayout.
    """
    if why_unavailable() is not None:
        return None
    promotion = policy().promotion
    least = promotion.at_once_bytes if at_once_bytes is None else at_once_bytes
    return 1 if nbytes >= least else promotion.calls


@contextmanager
def promoted_at_once() -> Iterator[None]:
    """Load the compiled loops of every call inside before it runs, whichever call it is."""
    before = _AT_ONCE.set(True)
    try:
        yield
    finally:
        _AT_ONCE.reset(before)


class Promotion:
    """Runs NumPy's loops until call number `at`, then the loops that `compiled` returns.

    That call starts a thread, which loads the compiler and the loops; meanwhile NumPy does the work. With verbose
    lines, which name the kernel that ran, the call itself loads them, and so does any call inside `promoted_at_once`.
    `work` is the current function, and `loops` the compiled one once it is loaded. `at` is None once loading has begun.
    `compiled` returns None, or raises `LoopError`, where there are no loops.
    """

    __slots__ = ("_calls", "_compiled", "_plain", "at", "loops", "work")

    def __init__(
        self, at: int | None, plain: Callable[[], Callable[..., Any]], compiled: Callable[[], Callable[..., Any] | None]
    ) -> None:
        """Begin with NumPy, or with compiled loops if `at` is 1."""
        self._calls = 0
        self._plain, self._compiled = plain, compiled
        first = None
        if at == 1:
            with suppress(LoopError):
                first = compiled()
        self.work = plain() if first is None else first
        self.loops = first
        self.at = None if at == 1 else at

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled loops are loaded."""
        return self.loops is not None

    def chosen(self) -> Callable[..., Any]:
        """The function for this call."""
        if self.at is not None:
            self._calls += 1
            at_once = _AT_ONCE.get()
            if at_once or self._calls >= self.at:
                # Two threads may get here together and load the loops twice, which is harmless.
                self.at = None
                if at_once or is_verbose():
                    self._load()
                else:
                    # An ending process waits for this thread, since LLVM must not run during teardown. If no thread
                    # can start, at a limit or at the end of Python, NumPy continues.
                    with suppress(RuntimeError):
                        load = copy_context().run  # by this call's policy
                        threading.Thread(target=load, args=(self._load,), name="stridedgpu-compiler").start()
        return self.work

    def left_to_numpy(self) -> Callable[..., Any]:
        """NumPy's loops from now on: compiled ones have met one that cannot be compiled."""
        self.loops = None
        self.work = self._plain()
        return self.work

    def _load(self) -> None:
        """Load the compiled loops. A fork waits for the end: an import in progress would block its child for ever.

        Without the memory for them NumPy continues.
        """
        with COMPILING, suppress(LoopError, MemoryError):
            result = self._compiled()
            if result is not None:
                self.work = self.loops = result
