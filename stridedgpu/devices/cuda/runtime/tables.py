"""Tables of launches: constant arrays in device memory, there for as long as any kernel may read them.

A launch is queued, and its stream reads the tables later; a captured graph reads them whenever it is replayed. A table
is therefore not freed with the prepared kernel that it belongs to, which a cache drops at any time:

    dropped, never captured    retired: freed once the device has done all that it was given before
    captured into a graph      kept for the life of the process
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from typing import Final

import cupy

from stridedgpu.devices.buffer import Buffer

__all__ = ["free_retired", "keep", "retire"]

_MOST_RETIRED_BYTES: Final = 64 << 20
"""Bytes of retired tables on a device at which it is waited for: some thousand packed tiles of 10 to 100 KB each."""

_captured: Final[list[Buffer]] = []
_freeing: Final = threading.Lock()
_retired: Final[defaultdict[int, deque[Buffer]]] = defaultdict(deque)


def keep(tables: tuple[Buffer, ...]) -> None:
    """A graph has recorded a launch that reads the tables."""
    known = {id(table) for table in _captured}
    _captured.extend(table for table in tables if id(table) not in known)


def retire(device: int, tables: tuple[Buffer, ...]) -> None:
    """The prepared kernel that has the tables is gone; launches of it may still be queued."""
    _retired[device].extend(tables)


def free_retired(device: int) -> None:
    """Free retired tables of a device, if there are many, behind all work that may read them.

    Nothing is freed while a stream records a graph, when a device cannot be waited for.
    """
    with _freeing:
        waiting = _retired[device]
        tables = tuple(waiting)
        if sum(table.nbytes for table in tables) <= _MOST_RETIRED_BYTES:
            return
        try:
            with cupy.cuda.Device(device):
                cupy.cuda.runtime.deviceSynchronize()
        except cupy.cuda.runtime.CUDARuntimeError:
            return
        for _ in tables:
            waiting.popleft()
