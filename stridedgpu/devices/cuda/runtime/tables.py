"""Tables of launches: constant arrays in device memory that live as long as any kernel may read them.

A launch is asynchronous, and its stream reads the tables later; a captured graph reads them at every replay. A table is
therefore not freed with its prepared kernel, which a cache may drop at any time:

    dropped, never captured    retired: freed after all earlier work of the device
    captured into a graph      kept for the life of the process
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from typing import Final

import cupy

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cuda.planning.policy import policy

__all__ = ["free_retired", "keep", "retire"]

_captured: Final[list[Buffer]] = []
_freeing: Final = threading.Lock()
_retired: Final[defaultdict[int, deque[Buffer]]] = defaultdict(deque)


def keep(tables: tuple[Buffer, ...]) -> None:
    """Keep tables for ever: a graph has recorded a launch that reads them."""
    known = {id(table) for table in _captured}
    _captured.extend(table for table in tables if id(table) not in known)


def retire(device: int, tables: tuple[Buffer, ...]) -> None:
    """Retire the tables of a dropped prepared kernel; launches of it may still be queued."""
    _retired[device].extend(tables)


def free_retired(device: int) -> None:
    """Free a device's retired tables, if there are many, after all work that may read them.

    Nothing is freed while a stream records a graph, when the device cannot be synchronised.
    """
    with _freeing:
        waiting = _retired[device]
        tables = tuple(waiting)
        if sum(table.nbytes for table in tables) <= policy().memory.retired_bytes:
            return
        try:
            with cupy.cuda.Device(device):
                cupy.cuda.runtime.deviceSynchronize()
        except cupy.cuda.runtime.CUDARuntimeError:
            return
        for _ in tables:
            waiting.popleft()
