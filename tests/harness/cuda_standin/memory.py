"""Device memory: an arena of addresses that the host may not touch, except while a device's work is done."""

from __future__ import annotations

import bisect
import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager

ALIGNMENT = 512
"""Bytes: what cudaMalloc's addresses are multiples of, at least 256."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

_PROT_NONE, _MAP_NORESERVE, _MADV_DONTNEED = 0, 0x4000, 4
_POISONED_BYTES = 1 << 20
"""New memory is filled with 0xA5 up to this size, so that what was never written shows."""


class Arena:
    """The memory of one device: `total` bytes of addresses, of which only those in use are backed."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.base = _libc.mmap(None, total, _PROT_NONE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE, -1, 0)
        if self.base in (None, ctypes.c_void_p(-1).value):
            raise MemoryError("no addresses for a device's memory")
        self._free = [(self.base, total)]
        self._used: dict[int, int] = {}
        self._open = 0

    def allocate(self, nbytes: int) -> int | None:
        """An address, or None where there is no room."""
        size = max(nbytes + -nbytes % ALIGNMENT, ALIGNMENT)
        for place, (start, room) in enumerate(self._free):
            if room >= size:
                self._free[place : place + 1] = [(start + size, room - size)] if room > size else []
                self._used[start] = size
                with self.opened():
                    ctypes.memset(start, 0xA5, min(size, _POISONED_BYTES))
                return start
        return None

    def free(self, address: int) -> None:
        """Give memory back; what still reads it finds zeros."""
        size = self._used.pop(address)
        page = -address % mmap.PAGESIZE
        if size > page:
            _libc.madvise(address + page, (size - page) // mmap.PAGESIZE * mmap.PAGESIZE, _MADV_DONTNEED)
        bisect.insort(self._free, (address, size))
        merged: list[tuple[int, int]] = []
        for start, room in self._free:
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + room)
            else:
                merged.append((start, room))
        self._free = merged

    def __contains__(self, address: int) -> bool:
        return self.base <= address < self.base + self.total

    @property
    def left(self) -> int:
        """Bytes that are not in use."""
        return sum(room for _, room in self._free)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """The time in which this memory may be touched."""
        if self._open == 0:
            _libc.mprotect(self.base, self.total, mmap.PROT_READ | mmap.PROT_WRITE)
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            if self._open == 0:
                _libc.mprotect(self.base, self.total, _PROT_NONE)
