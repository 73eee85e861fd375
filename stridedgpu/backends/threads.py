"""Threads that share out a compiled loop's items.

A pool of our own because those that come with compilers are not safe here: GNU OpenMP ends a process that forks after
it has run, and others may be entered by one caller at a time. Here any number of Python threads may call at once, each
works on its own items and needs no free thread to finish, and the child of a fork starts with a new pool.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from stridedgpu.errors import StridedGpuError
from stridedgpu.strides import integer

__all__ = ["VARIABLE", "Counters", "get_num_threads", "run_shared", "set_num_threads", "share_steps", "usable_cores"]

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


def run_shared(work: Callable[[int], None], items: int) -> None:
    """Call `work(counters)` on this thread and those of the pool, until every item is finished.

    `work` is a compiled loop with the address of `Counters`: it takes items until all are begun, does not raise, and
    lets other threads run. Between items no thread needs Python's lock, which a thread that the system has stopped may
    hold.
    """
    threads = min(get_num_threads(), items)
    job = _Job(work, items)
    if threads <= 1:
        job.take_part()
        return
    _pool.offer(job, threads - 1)
    try:
        job.take_part()
    finally:
        job.wait()


def share_steps(step: Callable[[int], None], count: int) -> None:
    """Call `step` with every number below `count`, on this thread and those of the pool.

    For work in Python that lets other threads run for most of its time, as NumPy does while it moves elements. After
    an error no further step begins, and the first error is raised.
    """
    pending = iter(range(count))
    counting = threading.Lock()
    errors: list[BaseException] = []

    def work(counters: int) -> None:
        finished = ctypes.c_int64.from_address(counters + _FINISHED * ctypes.sizeof(ctypes.c_int64))
        while True:
            with counting:
                number = next(pending, None)
            if number is None:
                return
            try:
                if not errors:
                    step(number)
            except BaseException as error:  # noqa: BLE001 - raised again where the caller is
                errors.append(error)
            with counting:
                finished.value += 1

    run_shared(work, count)
    if errors:
        raise errors[0]


_FINISHED: Final = 8
"""The word of `Counters` in which finished items are counted: on a cache line of its own."""


class Counters:
    """How many items were begun and how many are finished, as compiled loops count them."""

    def __init__(self) -> None:
        """Nothing is begun."""
        self._words = (ctypes.c_int64 * 16)()
        self.address = ctypes.addressof(self._words)

    @property
    def finished(self) -> int:
        """Items that are done."""
        return self._words[_FINISHED]


class _Job:
    """Items being shared out. A thread that comes when none are left does nothing, and nobody waits for it."""

    def __init__(self, work: Callable[[int], None], items: int) -> None:
        self._work: Callable[[int], None] | None = work
        self._items = items
        self._counters = Counters()
        self._changed = threading.Condition()

    def take_part(self) -> None:
        """Work until every item is begun."""
        work = self._work
        if work is None:
            return
        work(self._counters.address)
        with self._changed:
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until every item is finished; a thread that comes later then finds nothing that it would keep alive."""
        if self._counters.finished < self._items:
            with self._changed:
                while self._counters.finished < self._items:
                    self._changed.wait()
        self._work = None


class _Pool:
    """Threads that wait for jobs; as many as were ever asked for at once."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._started = 0
        self._lock = threading.Lock()

    def offer(self, job: _Job, threads: int) -> None:
        """Let up to so many threads take part."""
        if self._started < threads:
            with self._lock:
                while self._started < threads:
                    threading.Thread(target=self._serve, name="stridedgpu", daemon=True).start()
                    self._started += 1
        for _ in range(threads):
            self._jobs.put(job)

    def _serve(self) -> None:
        while True:
            self._jobs.get().take_part()


_chosen: int | None = None
_pool = _Pool()


def _renew() -> None:
    """A fork's child has none of its parent's threads, and may have inherited locks that they held."""
    global _pool  # noqa: PLW0603
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
