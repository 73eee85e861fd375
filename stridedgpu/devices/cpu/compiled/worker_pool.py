"""The worker pool: threads that share the items of a compiled loop.

The pools of compilers are unsafe here: GNU OpenMP aborts a process that forks after its first parallel region, and
others admit one caller at a time or spin long after the work is done. In this pool any number of Python threads may
call at once, and no call depends on a worker to finish. The child of a fork starts with a new pool. Running items takes
no Python lock, which a descheduled thread may hold. `worker_pool_ir` generates the machine code.
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
from typing import Final, NamedTuple

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.thread_count import SHARED, get_num_threads, usable_cores
from stridedgpu.devices.interface import DirectLaunch

from .compiler import LoopError
from .ir import LINE_BYTES
from .jit import CompiledFunction, HasText, loop_of, machine_functions, moving_function, python_function
from .worker_pool_ir import LINE_WORDS, SLOT, SLOT_WORDS, pool_text

_MOST_THREADS: Final = 64
"""The most threads of a pool on a machine of fewer cores: each has a stack, and more than the cores gain nothing."""


class LoopCall(NamedTuple):
    """A compiled loop with all its arguments but two addresses, to which `offsets` (source, target) are added.

    `parameters` is the address of memory that the `owner` keeps alive.
    """

    loop: CompiledFunction
    parameters: int
    items: int
    offsets: tuple[int, int]
    owner: object

    @classmethod
    def of(
        cls, kernel: HasText, fields: Sequence[int], items: int, offsets: tuple[int, int] = (0, 0), owner: object = None
    ) -> LoopCall:
        """The loop of a kernel, with its parameters in memory and an `owner` of what they point to.

        Raises `LoopError`.
        """
        parameters = (ctypes.c_int64 * len(fields))(*fields)
        return cls(loop_of(kernel), ctypes.addressof(parameters), items, offsets, (parameters, owner))

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
    loop: CompiledFunction, source: int, target: int, parameters: int, items: int, *, nbytes: int, shared_bytes: int = 0
) -> None:
    """Run a compiled loop's items, which move `nbytes`, and return when all are done; on several threads if they gain.

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


def share(loop: CompiledFunction, source: int, target: int, parameters: int, items: int, most: int) -> None:
    """Run a compiled loop's items on this thread and on idle workers, which are woken: on at most so many in all."""
    threads = min(get_num_threads(), most)
    if threads == 1 or items < 2:
        loop.alone(source, target, parameters, 0, items)
        return
    pool, spins = _pool, policy().sharing.spins
    if threads > pool.threads:
        threads = min(threads, pool.most)
        if threads > pool.threads:
            pool.grow(threads)
    jobs = pool.jobs
    try:
        job = jobs.pop()
    except IndexError:
        job = _Block((1 + pool.threads) * LINE_WORDS)
    if threads > pool.cores:
        spins = 0
    pool.run(loop.address, source, target, parameters, items, job.address, pool.slots.address, threads, spins)
    SHARED.ended = perf_counter_ns()
    jobs.append(job)


class _Block:
    """Zeroed 64-bit words in memory of their own, aligned to a cache line."""

    __slots__ = ("_memory", "address", "words")

    def __init__(self, words: int) -> None:
        self._memory = (ctypes.c_uint8 * (8 * words + LINE_BYTES))()
        start = -ctypes.addressof(self._memory) % LINE_BYTES
        self.words = (ctypes.c_int64 * words).from_buffer(self._memory, start)
        self.address = ctypes.addressof(self.words)


class _Code(NamedTuple):
    """The compiled functions; all arguments are integers."""

    serve: Callable[..., None]
    run: Callable[..., None]


def load_pool() -> None:
    """Compile or load the machine code of workers, of which none is started. Raises `LoopError`."""
    _code()


@lru_cache(maxsize=1)
def _code() -> _Code:
    serve, run = machine_functions(pool_text(policy().target.architecture), "_serve", "_run")
    return _Code(ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2)(serve), python_function(run, 9))


class _Pool:
    """Workers that wait for jobs, up to the largest number ever requested at once."""

    __slots__ = ("_lock", "_workers", "cores", "jobs", "most", "run", "slots", "threads")

    def __init__(self) -> None:
        self.cores = usable_cores()
        self.most = max(self.cores, _MOST_THREADS)
        """The most threads that there will be, callers included."""
        self.threads = 1
        """The largest number of threads requested so far."""
        self.jobs: list[_Block] = []
        """Unused jobs, each with room for one part a thread."""
        self.slots = _Block(LINE_WORDS + self.most)
        """The pool as the machine code sees it: the number of active callers, then the workers' slots."""
        self.run: Callable[..., None] = _run_alone
        self._workers = 0
        self._lock = threading.RLock()  # reentrant: a signal handler may call again on this thread

    def grow(self, threads: int) -> None:
        """Start workers until there are `threads` in all, the caller included."""
        try:
            self.run = _code().run
        except LoopError:
            self.run = _run_alone
        else:
            # If no more threads can start, as at a limit or during shutdown, the existing ones do the work.
            with self._lock, suppress(RuntimeError):
                while self._workers < threads - 1:
                    self._start()
        self.jobs = []
        self.threads = threads

    def _start(self) -> None:
        """Start one more worker, which is chosen after the others."""
        slot = _new_slot()
        spins = policy().sharing.spins if self._workers + 2 <= self.cores else 0
        serve = (slot.address, spins)
        worker = threading.Thread(target=_code().serve, args=serve, name="stridedgpu", daemon=True)
        worker.start()
        slot.words[SLOT.thread] = -1 if worker.native_id is None else worker.native_id  # 0 would be the caller
        self.slots.words[LINE_WORDS + self._workers] = slot.address
        self._workers += 1


def _new_slot() -> _Block:
    """A free slot, with its locks acquired; it is never freed. Raises `MemoryError`."""
    python = ctypes.pythonapi
    allocate = python.PyThread_allocate_lock
    allocate.restype = ctypes.c_void_p
    slot = _Block(SLOT_WORDS)
    for place in (SLOT.wake, SLOT.done):
        lock = allocate()
        if lock is None:
            raise MemoryError
        python.PyThread_acquire_lock(ctypes.c_void_p(lock), 1)
        slot.words[place] = lock
    for place, function in ((SLOT.acquire, python.PyThread_acquire_lock), (SLOT.release, python.PyThread_release_lock)):
        slot.words[place] = ctypes.cast(function, ctypes.c_void_p).value or 0
    for place, address in enumerate(_affinity_functions(), SLOT.get_core):
        slot.words[place] = address
    _SLOTS.append(slot)
    return slot


def _affinity_functions() -> tuple[int, ...]:
    """The addresses of the C library's functions of a thread's core and affinity; zeros where it has none."""
    names = ("sched_getcpu", "sched_getaffinity", "sched_setaffinity")
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not all(hasattr(library, name) for name in names):
        return (0,) * len(names)
    return tuple(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names)


_SLOTS: Final[list[_Block]] = []
"""The slots of all pools: a worker lives as long as the process, and so does its slot."""


def _run_alone(loop: int, source: int, target: int, parameters: int, items: int, *_: int) -> None:
    """Run all items of the loop at an address on this thread, where the machine code of workers cannot be compiled."""
    CompiledFunction(loop).alone(source, target, parameters, 0, items)


_pool = _Pool()


def _renew() -> None:
    """In a fork's child: replace the pool, whose threads do not exist here and whose lock may be held."""
    global _pool  # noqa: PLW0603
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
