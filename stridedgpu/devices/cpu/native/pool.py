"""The worker pool: threads that share the items of a loop, in `kernels/cpu/pool.hpp`.

The pools of compilers are unsafe here: GNU OpenMP aborts a process that forks after its first parallel region, and
others admit one caller at a time or spin long after the work is done. In this pool any number of Python threads may
call at once, and no call depends on a worker to finish. The child of a fork starts with a new pool. Running items takes
no Python lock, which a descheduled thread may hold.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from time import perf_counter_ns
from typing import Any, Final, NamedTuple

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.thread_count import SHARED, get_num_threads, usable_cores
from stridedgpu.devices.interface import DirectLaunch
from stridedgpu.values.bounded_cache import array_bytes, count_bytes

from .calls import NativeFunction, builtin, moving_function
from .library import library

LINE_BYTES: Final = 64
"""Bytes of a cache line."""

_LEAST_MOST: Final = 64
"""The most threads of a pool on a machine of fewer cores: each has a stack, and more than the cores gain nothing."""

_MOST_THREADS: Final = 256
"""The most threads of a pool: `MOST_THREADS` of the library, which keeps the parts of a job on the caller's stack."""


class LoopCall(NamedTuple):
    """A native loop with all its arguments but two addresses, to which `offsets` (source, target) are added.

    `parameters` is the address of memory that the `owner` keeps alive.
    """

    loop: NativeFunction
    parameters: int
    items: int
    offsets: tuple[int, int]
    owner: object

    @classmethod
    def of(
        cls,
        loop: NativeFunction,
        fields: Sequence[int],
        items: int,
        offsets: tuple[int, int] = (0, 0),
        owner: object = None,
    ) -> LoopCall:
        """A loop with its parameters in memory and an `owner` of what they point to."""
        parameters = (ctypes.c_int64 * len(fields))(*fields)
        count_bytes(ctypes.sizeof(parameters) + array_bytes(owner))
        return cls(loop, ctypes.addressof(parameters), items, offsets, (parameters, owner))

    def launch(self, nbytes: int, shared_bytes: int | None) -> DirectLaunch:
        """The loop as a function of two addresses, in calls that move `nbytes`.

        Threads share the items from `shared_bytes` on, if that is not None.
        """
        loop, parameters, items, (read, written), owner = self
        if shared_bytes is None or nbytes < shared_bytes or items < 2 or not SHARED.several:
            brief = nbytes < policy().sharing.brief_bytes
            return moving_function(loop, parameters, items, self.offsets, owner=owner, keeps_lock=brief)

        def move(source: int, target: int, _owner: object = owner) -> None:
            run_shared(loop, source + read, target + written, parameters, items, nbytes=nbytes)

        return move


def run_shared(
    loop: NativeFunction, source: int, target: int, parameters: int, items: int, *, nbytes: int, shared_bytes: int = 0
) -> None:
    """Run a native loop's items, which move `nbytes`, and return when all are done; on several threads if they gain.

    Calls that move less than `shared_bytes` run on this thread. Python's lock is released. The caller keeps the memory
    at the three addresses alive.

    Waking a parked worker takes 50 to 150 us. A small call shares its items only if the previous call was so recent
    that workers are still spinning, or will be at the next one; otherwise the caller runs all items alone, and starts
    and looks for no worker.
    """
    if nbytes < shared_bytes:
        loop.alone(source, target, parameters, 0, items)
        return
    sharing = policy().sharing
    recent = nbytes >= sharing.waking_bytes or perf_counter_ns() - SHARED.ended < sharing.waking_gap_ns
    if recent and SHARED.several:
        share(loop, source, target, parameters, items, 2 + nbytes // sharing.thread_bytes)
    else:
        loop.alone(source, target, parameters, 0, items)
        SHARED.ended = perf_counter_ns()


def share(loop: NativeFunction, source: int, target: int, parameters: int, items: int, most: int) -> None:
    """Run a native loop's items on this thread and on idle workers, which are woken: on at most so many in all."""
    threads = min(get_num_threads(), most)
    if threads == 1 or items < 2:
        loop.alone(source, target, parameters, 0, items)
        return
    pool, spins = _pool, policy().sharing.spins
    if threads > pool.threads:
        threads = min(threads, pool.most)
        if threads > pool.threads:
            pool.grow(threads)
    if threads > pool.cores:
        spins = 0
    _run()(pool.address, loop.address, source, target, parameters, items, threads, spins)
    SHARED.ended = perf_counter_ns()


@lru_cache(maxsize=1)
def _run() -> Callable[..., None]:
    """The library's function that shares items, as a builtin function; the first argument is the pool's address."""
    if sys.implementation.name == "cpython":
        return builtin("stridedgpu_share", b"")

    def run_alone(pool: int, loop: int, source: int, target: int, parameters: int, items: int, *_: int) -> None:  # noqa: ARG001
        NativeFunction(loop).alone(source, target, parameters, 0, items)

    return run_alone


class _Block:
    """Zeroed memory that begins at a cache line."""

    __slots__ = ("_memory", "address")

    def __init__(self, nbytes: int) -> None:
        self._memory = (ctypes.c_uint8 * (nbytes + LINE_BYTES))()
        start = ctypes.addressof(self._memory)
        self.address = start + -start % LINE_BYTES


class _Pool:
    """Workers that wait for jobs, up to the largest number ever requested at once."""

    __slots__ = ("_block", "_lock", "cores", "most", "threads", "workers")

    def __init__(self) -> None:
        self.cores = usable_cores()
        self.most = min(max(self.cores, _LEAST_MOST), _MOST_THREADS)
        """The most threads that there will be, callers included."""
        self.threads = 1
        """The largest number of threads requested so far."""
        self.workers: list[tuple[_Block, int]] = []
        """The workers' memory, and the system's numbers of their threads."""
        self._block: _Block | None = None
        self._lock = threading.RLock()  # reentrant: a signal handler may call again on this thread

    @property
    def address(self) -> int:
        """The address of the library's side of the pool."""
        if self._block is None:
            self._block = _Block(library().stridedgpu_pool_bytes())
        return self._block.address

    def grow(self, threads: int) -> None:
        """Start workers until there are `threads` in all, the caller included."""
        # If no more threads can start, as at a limit or during shutdown, the existing ones do the work.
        with self._lock, suppress(RuntimeError):
            while len(self.workers) < threads - 1:
                self._start()
        self.threads = threads

    def _start(self) -> None:
        """Start one more worker, which is chosen after the others."""
        worker = _new_worker()
        spins = policy().sharing.spins if len(self.workers) + 2 <= self.cores else 0
        serve = library().stridedgpu_serve
        place = ctypes.c_void_p(worker.address)
        thread = threading.Thread(target=serve, args=(place, ctypes.c_int64(spins)), name="stridedgpu", daemon=True)
        thread.start()
        number = -1 if thread.native_id is None else thread.native_id  # 0 would be the caller
        library().stridedgpu_join(ctypes.c_void_p(self.address), place, ctypes.c_int64(number))
        self.workers.append((worker, number))


def _new_worker() -> _Block:
    """A worker with its locks acquired, in memory that is never freed. Raises `MemoryError`."""
    python: Any = ctypes.pythonapi
    allocate = python.PyThread_allocate_lock
    allocate.restype = ctypes.c_void_p
    worker = _Block(library().stridedgpu_worker_bytes())
    locks = []
    for _ in ("wake", "done"):
        lock = allocate()
        if lock is None:
            raise MemoryError
        python.PyThread_acquire_lock(ctypes.c_void_p(lock), 1)
        locks.append(ctypes.c_void_p(lock))
    affinity = (ctypes.c_void_p * _AFFINITY_WORDS)(*_affinity_functions())
    library().stridedgpu_prepare(ctypes.c_void_p(worker.address), *locks, affinity)
    _WORKERS.append(worker)
    return worker


def _affinity_functions() -> tuple[int, ...]:
    """The addresses of the C library's functions of a thread's core and affinity; zeros where it has none."""
    names = ("sched_getcpu", "sched_getaffinity", "sched_setaffinity")
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not all(hasattr(library, name) for name in names):
        return (0,) * len(names)
    return tuple(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names)


_AFFINITY_WORDS: Final = 20
"""64-bit words of `Affinity` in kernels/cpu/pool.hpp, which begins with the functions."""

_WORKERS: Final[list[_Block]] = []
"""The workers of all pools: one lives as long as the process, and so does its memory."""


_pool = _Pool()


def _renew() -> None:
    """In a fork's child: replace the pool, whose threads do not exist here and whose lock may be held."""
    global _pool  # noqa: PLW0603
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
