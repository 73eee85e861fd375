"""Records that launches read: from the host to device memory in stream order, without a wait.

The bytes go through a ring of page-locked pieces (`pinned_ring`). A captured graph copies anew at every replay, from
memory that nobody else uses and that is never freed.
"""

from __future__ import annotations

from ctypes import memmove
from typing import Any, Final, Protocol

import cupy
import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.buffer import Buffer, address_of
from stridedgpu.devices.cuda.planning.policy import policy

from .pinned_ring import PinnedRing
from .streams import current_on

__all__ = ["Records"]

_ALIGNMENT: Final = 256

_captured: Final[list[tuple[Any, Any]]] = []
"""Memory that graphs copy from, and to, for the life of the process."""


class _Allocator(Protocol):
    """What records need of their device."""

    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer: ...


class Records:
    """The ring of one device."""

    def __init__(self, gpu: _Allocator, number: int) -> None:
        """Nothing is allocated before the first send."""
        self._gpu = gpu
        self._number = number
        limits = policy().memory
        self._ring = PinnedRing(limits.pieces, limits.piece_bytes)

    def sent(self, contents: NDArray[np.uint8], stream: object) -> Buffer:
        """Device memory with these bytes, for later work of the stream."""
        with current_on(self._number, stream) as handle:
            if cupy.cuda.runtime.streamIsCapturing(handle):
                return self._sent_at_replays(contents, handle)
            there = self._gpu.allocate(contents.nbytes, _ALIGNMENT)
            piece = self._ring.take(contents.nbytes)
            if piece is None:  # of pageable memory CUDA takes a copy of its own before it returns
                _copy(there.address, address_of(contents), contents.nbytes, handle)
                return there
            try:
                piece.bytes[: contents.nbytes] = contents
                _copy(there.address, piece.address, contents.nbytes, handle)
                piece.sent(handle)
            finally:
                self._ring.give(piece)
            return there

    def _sent_at_replays(self, contents: NDArray[np.uint8], handle: int) -> Buffer:
        """Memory of a graph's own on both sides. CuPy's pool might hand out what earlier work still uses."""
        near = cupy.cuda.alloc_pinned_memory(contents.nbytes)
        there = cupy.cuda.Memory(contents.nbytes)
        memmove(near.ptr, address_of(contents), contents.nbytes)
        _captured.append((near, there))
        _copy(there.ptr, near.ptr, contents.nbytes, handle)
        return Buffer(there.ptr, contents.nbytes, owner=there, device=f"cuda:{self._number}")


def _copy(target: int, source: int, nbytes: int, handle: int) -> None:
    """Copy from page-locked memory, in stream order."""
    cupy.cuda.runtime.memcpyAsync(target, source, nbytes, cupy.cuda.runtime.memcpyHostToDevice, handle)
