"""Threads that share out a compiled loop's items.

A crew of our own because those that come with compilers are not safe here: GNU OpenMP ends a process that forks after
it has run, and others may be entered by one caller at a time, and keep cores busy long after their work is done. Here
any number of Python threads may call at once: each leads the helpers that are free, and needs none to finish. The child
of a fork starts with a new crew. Nobody who works needs Python's lock, which a thread that the system has stopped may
hold. `llvm_crew` has the code, and how it works.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

from stridedgpu.devices.cpu.thread_count import get_num_threads, usable_cores

from .jit import Loop, machine_functions, processor
from .worker_pool_ir import DESK_WORDS, crew_text

__all__ = ["run_shared"]

_SPINS: Final = 2000
"""Looks before a thread with nothing to do sleeps: some 50 microseconds on x86, as long as it takes to wake one up."""

_LINE_WORDS: Final = 8
"""64-bit words of a cache line."""


def run_shared(loop: Loop, source: int, target: int, parameters: int, items: int) -> None:
    """Do a compiled loop's items on this thread and on those that are free, and return when all are finished.

    Other Python threads run meanwhile. Whatever lies at the three addresses is kept alive by the caller.
    """
    desks: list[_Desk] = []
    crew = _crew
    try:
        crew.gather(min(get_num_threads(), items) - 1, desks)
        if not desks:
            loop.alone(source, target, parameters, 0, items)
            return
        parts = 1 + len(desks)
        job = (ctypes.c_int64 * (_LINE_WORDS * (1 + parts)))(loop.address, source, target, parameters, items, parts)
        job[2 * _LINE_WORDS + 1 :: _LINE_WORDS] = [desk.address for desk in desks]
        _code().lead(ctypes.addressof(job), crew.spins(parts))
    finally:
        crew.dismiss(desks)


class _Code(NamedTuple):
    """The compiled functions, whose integers are all handed over as addresses are."""

    serve: Callable[[int, int], None]
    lead: Callable[[int, int], None]


@lru_cache(maxsize=1)
def _code() -> _Code:
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    addresses = machine_functions(crew_text(processor()), *(f"_{name}" for name in _Code._fields))
    return _Code(*map(prototype, addresses))


class _Desk:
    """Where one helper finds its work."""

    def __init__(self) -> None:
        """A free desk, with locks that nobody has released yet."""
        python = ctypes.pythonapi
        allocate = python.PyThread_allocate_lock
        allocate.restype = ctypes.c_void_p
        acquire, release = (
            ctypes.cast(function, ctypes.c_void_p).value or 0
            for function in (python.PyThread_acquire_lock, python.PyThread_release_lock)
        )
        wake, done = allocate(), allocate()
        for lock in (wake, done):
            python.PyThread_acquire_lock(ctypes.c_void_p(lock), 1)
        self._words = (ctypes.c_int64 * DESK_WORDS)()
        self._words[10:14] = [wake, done, acquire, release]
        self.address = ctypes.addressof(self._words)

    def serve(self, spins: int) -> None:
        """The helper's life, which ends with the process: nothing here may be freed before."""
        _code().serve(self.address, spins)


class _Crew:
    """Helpers that wait for work; as many as were ever asked for at once."""

    def __init__(self) -> None:
        self._cores = usable_cores()
        self._free: list[_Desk] = []
        self._started = 0
        self._lock = threading.RLock()  # a signal's handler may come back here

    def gather(self, wanted: int, desks: list[_Desk]) -> None:
        """Add up to so many free helpers to `desks`; for a caller who is alone they are always the same, in order."""
        if self._started < wanted:
            # Where no more can be started, as at a limit or while Python shuts down, those that there are do the work.
            with self._lock, suppress(RuntimeError):
                while self._started < wanted:
                    self._start()
        while len(desks) < wanted:
            try:
                desks.append(self._free.pop())
            except IndexError:
                return

    def dismiss(self, desks: list[_Desk]) -> None:
        """Helpers are free again."""
        self._free.extend(reversed(desks))

    def spins(self, threads: int) -> int:
        """How often to look before sleeping: not at all where another thread may need the core."""
        return _SPINS if threads <= self._cores else 0

    def _start(self) -> None:
        """One more helper, who is chosen after the others."""
        desk, threads = _Desk(), self._started + 2
        threading.Thread(target=desk.serve, args=(self.spins(threads),), name="stridedgpu", daemon=True).start()
        self._started += 1
        self._free.insert(0, desk)


_crew = _Crew()


def _renew() -> None:
    """A fork's child has none of its parent's threads, and may have inherited a lock that one of them held."""
    global _crew  # noqa: PLW0603
    _crew = _Crew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
