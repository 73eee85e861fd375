"""Memory between pages that no process may touch: an access of one byte beyond it ends the test."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

PAGE = mmap.PAGESIZE


class Fenced:
    """Random bytes between two pages that may not be touched, at the start or at the end of what lies between."""

    def __init__(self, nbytes, rng, *, at_end):
        whole = -(-nbytes // PAGE) * PAGE + 2 * PAGE
        self._map = mmap.mmap(-1, whole)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for fence in (base, base + whole - PAGE):
            assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(fence), PAGE, 0) == 0
        self.address = base + whole - PAGE - nbytes if at_end else base + PAGE
        self.bytes = np.frombuffer((ctypes.c_uint8 * nbytes).from_address(self.address), np.uint8)
        self.bytes[:] = rng.integers(0, 256, nbytes, np.uint8)


def lowest_at_zero(layout):
    return layout.shifted(-layout.first_offset)
