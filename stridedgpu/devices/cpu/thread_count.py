"""The number of threads of one call."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from functools import cache
from typing import Final

from stridedgpu.values.errors import LayoutError, StridedGpuError
from stridedgpu.values.strides import integer

VARIABLE: Final = "STRIDEDGPU_THREADS"
"""The environment variable with the number of threads of one call."""

_MOST_THREADS: Final = 1024
"""The largest number of threads that may be set: more is a mistake, not a machine."""


class _Shared:
    """What a call looks at to see whether its items are worth sharing.

    `several`: more than one thread may work on a call, unless its own thread has a limit. `ended` is the end of the
    last call that could have been shared, on `perf_counter_ns`.
    """

    __slots__ = ("ended", "several")

    def __init__(self) -> None:
        self.ended = 0
        self.several = True


SHARED: Final = _Shared()
"""The state of this process."""


def usable_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def get_num_threads() -> int:
    """The number of threads of one call: as set, else `STRIDEDGPU_THREADS`, else the cores this process may use.

    The variable and the cores are read once, since reading takes 2 us. Later changes need `set_num_threads`.

    >>> get_num_threads() >= 1
    True
    """
    if _some_are_limited:
        limit: int | None = getattr(_this_thread, "limit", None)
        if limit is not None:
            return limit
    return _default() if _chosen is None else _chosen


@cache
def _default() -> int:
    """The number of threads if none was set."""
    chosen = os.environ.get(VARIABLE, "").strip()
    digits = len(str(_MOST_THREADS))
    if chosen and not (chosen.isdecimal() and len(chosen) <= digits and 1 <= int(chosen) <= _MOST_THREADS):
        raise StridedGpuError(f"{VARIABLE}={chosen[:20]!r} is not a number of threads; it is 1 to {_MOST_THREADS}.")
    count = int(chosen) if chosen else usable_cores()
    SHARED.several = count > 1
    return count


def set_num_threads(count: int) -> None:
    """Set the number of threads of each call in this process, the calling thread included.

    More than the cores share them. The pool has at most 64 threads, or as many as there are cores if that is more.
    Raises `LayoutError` unless `count` is an integer from 1 to 1024.
    """
    global _chosen  # noqa: PLW0603
    number = integer("count", count, least=1)
    if number > _MOST_THREADS:
        raise LayoutError(
            f"count={number} must be at most {_MOST_THREADS}; this process may use {usable_cores()} cores."
        )
    _chosen = number
    SHARED.several = _chosen > 1


def limit_this_thread(count: int) -> None:
    """Set the number of threads of the calls that this thread makes: one in a pool whose threads share the cores."""
    global _some_are_limited  # noqa: PLW0603
    _this_thread.limit = count
    _some_are_limited = True


def suggest_one_thread() -> None:
    """Make each call use one thread, unless `set_num_threads` or `STRIDEDGPU_THREADS` has said another."""
    if _chosen is None and not os.environ.get(VARIABLE, "").strip():
        set_num_threads(1)


_chosen: int | None = None
_this_thread: Final = threading.local()
_some_are_limited = False
"""Whether any thread has a limit: to look for one takes a microsecond where the caches hold other data."""

with suppress(StridedGpuError):  # raised by the first call
    _default()  # launches are cached by `SHARED.several`, which is right from the first one on
