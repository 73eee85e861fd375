"""How many threads work on one call."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final

from stridedgpu.values.errors import StridedGpuError
from stridedgpu.values.strides import integer

__all__ = ["VARIABLE", "get_num_threads", "set_num_threads", "usable_cores"]

VARIABLE: Final = "STRIDEDGPU_THREADS"
"""The environment variable that says how many threads work on one call."""

_MOST_DIGITS: Final = 6


def usable_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def get_num_threads() -> int:
    """How many threads work on one call: what was set, else `STRIDEDGPU_THREADS`, else the cores this process may use.

    The variable and the cores are asked for once: they cost every call 2 us. Who changes them later sets the number.

    >>> get_num_threads() >= 1
    True
    """
    return _default() if _chosen is None else _chosen


@lru_cache(maxsize=1)
def _default() -> int:
    """What holds where nothing was set."""
    said = os.environ.get(VARIABLE, "").strip()
    if not said:
        return usable_cores()
    if not said.isdecimal() or len(said) > _MOST_DIGITS or int(said) < 1:
        raise StridedGpuError(
            f"{VARIABLE}={said[:20]!r} is not a number of threads; it is 1 to {10**_MOST_DIGITS - 1}."
        )
    return int(said)


def set_num_threads(count: int) -> None:
    """Let `count` threads, the caller's own among them, work on each call from now on, in this process.

    Raises `LayoutError` unless `count` is a positive integer.
    """
    global _chosen  # noqa: PLW0603
    _chosen = integer("count", count, least=1)


_chosen: int | None = None
