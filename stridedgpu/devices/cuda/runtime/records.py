"""Records that launches read: from the host to device memory in stream order, without a wait.

The bytes go through a ring of page-locked pieces, which the copy engine reads later: a piece is written again only
after its copy. A captured graph copies anew at every replay, from memory that nobody else uses and that is never freed.
"""

from __future__ import annotations

import threading
from typing import Any, Final, Protocol

import cupy
import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cuda.planning.policy import policy

from .streams import current_on

__all__ = ["Records"]

_ALIGNMENT: Final = 256

_captured: Final[list[tuple[Any, Any]]] = []
"""Memory that graphs copy from, and to, for the life of the process."""


class _Allocator(Protocol):
    """What records need of their device."""

    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer: ...


class _Piece:
    """Page-locked memory, and the event behind the copy that reads it."""

    def __init__(self, nbytes: int) -> None:
        """Allocate; no copy reads it yet."""
        self.memory, self.bytes = _pinned(nbytes)
        self.copied = cupy.cuda.Event(disable_timing=True)


class Records:
    """The ring of one device."""

    def __init__(self, gpu: _Allocator, number: int) -> None:
        """Nothing is allocated before the first send."""
        self._gpu = gpu
        self._number = number
        limits = policy().memory
        self._least_bytes = limits.piece_bytes
        self._pieces: list[_Piece | None] = [None] * limits.pieces
        self._next = 0
        self._lock = threading.Lock()

    def sent(self, contents: NDArray[np.uint8], stream: object) -> Buffer:
        """Device memory with these bytes, for later work of the stream."""
        with current_on(self._number, stream) as handle:
            if cupy.cuda.runtime.streamIsCapturing(handle):
                return self._sent_at_replays(contents, handle)
            there = self._gpu.allocate(contents.nbytes, _ALIGNMENT)
            with self._lock:
                piece = self._piece(contents.nbytes)
                piece.bytes[: contents.nbytes] = contents
                _copy(there.address, piece.memory.ptr, contents.nbytes, handle)
                cupy.cuda.runtime.eventRecord(piece.copied.ptr, handle)
            return there

    def _piece(self, nbytes: int) -> _Piece:
        """The piece that was sent longest ago, or a new one; the host waits only for a copy that is not done."""
        place, self._next = self._next, (self._next + 1) % len(self._pieces)
        piece = self._pieces[place]
        if piece is not None:
            cupy.cuda.runtime.eventSynchronize(piece.copied.ptr)
        if piece is None or piece.bytes.nbytes < nbytes:
            piece = self._pieces[place] = _Piece(max(self._least_bytes, 1 << (nbytes - 1).bit_length()))
        return piece

    def _sent_at_replays(self, contents: NDArray[np.uint8], handle: int) -> Buffer:
        """Memory of a graph's own on both sides. CuPy's pool might hand out what earlier work still uses."""
        near, held = _pinned(contents.nbytes)
        there = cupy.cuda.Memory(contents.nbytes)
        held[:] = contents
        _captured.append((near, there))
        _copy(there.ptr, near.ptr, contents.nbytes, handle)
        return Buffer(there.ptr, contents.nbytes, owner=there, device=f"cuda:{self._number}")


def _pinned(nbytes: int) -> tuple[Any, NDArray[np.uint8]]:
    """Page-locked memory, and its bytes."""
    memory = cupy.cuda.alloc_pinned_memory(nbytes)
    return memory, Buffer(memory.ptr, nbytes, owner=memory).bytes


def _copy(target: int, source: int, nbytes: int, handle: int) -> None:
    """Copy from page-locked memory, in stream order."""
    cupy.cuda.runtime.memcpyAsync(target, source, nbytes, cupy.cuda.runtime.memcpyHostToDevice, handle)
