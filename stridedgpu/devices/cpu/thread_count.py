"""How many threads work on one call, and threads that share out steps of work in Python.

Any number of callers may share out work at once: each works on its own steps and needs no free thread to finish. The
child of a fork starts with new threads. Compiled loops are shared out by `crew`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from stridedgpu.values.errors import StridedGpuError
from stridedgpu.values.strides import integer

__all__ = ["VARIABLE", "get_num_threads", "set_num_threads", "share_steps", "usable_cores"]

VARIABLE: Final = "STRIDEDGPU_THREADS"
"""The environment variable that says how many threads work on one call."""


def usable_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def get_num_threads() -> int:
    """How many threads work on one call: what was set, else `STRIDEDGPU_THREADS`, else the cores this process may use.

    >>> get_num_threads() >= 1
    True
    """
    if _chosen is not None:
        return _chosen
    said = os.environ.get(VARIABLE, "").strip()
    if not said:
        return usable_cores()
    if not said.isdecimal() or int(said) < 1:
        raise StridedGpuError(f"{VARIABLE}={said!r} is not a number of threads; it is 1 or more.")
    return int(said)


def set_num_threads(count: int) -> None:
    """Let `count` threads, the caller's own among them, work on each call from now on, in this process.

    Raises `LayoutError` unless `count` is a positive integer.
    """
    global _chosen  # noqa: PLW0603
    _chosen = integer("count", count, least=1)


def share_steps(step: Callable[[int], None], count: int) -> None:
    """Call `step` with every number below `count`, on this thread and those of the pool.

    For work in Python that lets other threads run for most of its time, as NumPy does while it moves elements. After
    an error no further step begins, and the first error is raised.
    """
    steps = _Steps(step, count)
    try:
        _pool.offer(steps, min(get_num_threads(), count) - 1)
        steps.take_part()
    finally:
        steps.wait()
    if steps.errors:
        raise steps.errors[0]


class _Steps:
    """Steps being shared out. A thread that comes when none are left does nothing, and nobody waits for it."""

    def __init__(self, step: Callable[[int], None], count: int) -> None:
        self.errors: list[BaseException] = []
        self._step: Callable[[int], None] | None = step
        self._next, self._count = 0, count
        self._busy: set[int] = set()
        self._changed = threading.Condition()

    def take_part(self) -> None:
        """Work until every step is begun."""
        step, thread = self._step, threading.get_ident()
        while step is not None:
            with self._changed:
                number = self._next
                if number >= self._count:
                    return
                self._next += 1
                self._busy.add(thread)
            try:
                step(number)
            except BaseException as error:  # noqa: BLE001 - raised again where the caller is
                self.errors.append(error)
                self._count = 0
            finally:
                with self._changed:
                    self._busy.discard(thread)
                    self._changed.notify_all()

    def wait(self) -> None:
        """Wait until every step is finished; a thread that comes later then finds nothing that it would keep alive."""
        with self._changed:
            self._count, self._step = 0, None
            # An interrupted caller comes here from anywhere, and is at no step any more.
            self._busy.discard(threading.get_ident())
            while self._busy:
                self._changed.wait()


class _Pool:
    """Threads that wait for work; as many as were ever asked for at once."""

    def __init__(self) -> None:
        self._offered: SimpleQueue[_Steps] = SimpleQueue()
        self._started = 0
        self._lock = threading.Lock()

    def offer(self, steps: _Steps, threads: int) -> None:
        """Let up to so many threads take part."""
        if self._started < threads:
            # Where no more can be started, as at a limit or while Python shuts down, those that there are do the work.
            with self._lock, suppress(RuntimeError):
                while self._started < threads:
                    threading.Thread(target=self._serve, name="stridedgpu", daemon=True).start()
                    self._started += 1
        for _ in range(min(threads, self._started)):
            self._offered.put(steps)

    def _serve(self) -> None:
        while True:
            self._offered.get().take_part()


_chosen: int | None = None
_pool = _Pool()


def _renew() -> None:
    """A fork's child has none of its parent's threads, and may have inherited locks that they held."""
    global _pool  # noqa: PLW0603
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
