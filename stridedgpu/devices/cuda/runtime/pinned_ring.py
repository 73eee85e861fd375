"""`PinnedRing`: page-locked pieces of memory that the copy engine reads later, each behind an event.

    take     the piece that was sent longest ago, its copy done; while that copy is queued, a new piece up to the limit
    fill     by the caller
    sent     the event, recorded behind the copies that read the piece
    give     back to the ring's end

The host waits for the device where every piece is queued, and nowhere else.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Final

import cupy

from stridedgpu.devices.buffer import Buffer

__all__ = ["Piece", "PinnedRing"]

_ALIGNMENT: Final = 256
"""Bytes: CuPy's pool of page-locked memory cuts blocks of 512."""


class Piece:
    """Page-locked memory, and the handle of the event behind the copies that read it."""

    __slots__ = ("_copied", "_memory", "address", "bytes", "event", "nbytes")

    def __init__(self, nbytes: int) -> None:
        """Allocate on the current device; no copy reads it yet. Raises CuPy's errors without such memory."""
        self._memory: Any = cupy.cuda.alloc_pinned_memory(nbytes)
        self._copied: Any = cupy.cuda.Event(disable_timing=True)
        self.address: int = self._memory.ptr
        self.event: int = self._copied.ptr
        self.nbytes = nbytes
        self.bytes = Buffer.trusted(self.address, nbytes, self._memory).bytes

    def buffer(self, nbytes: int) -> Buffer:
        """The first bytes of the piece, which own it."""
        return Buffer.trusted(self.address, nbytes, self, _ALIGNMENT, owned=True)

    def sent(self, handle: int) -> None:
        """Record that the copies queued so far on the stream read this piece."""
        cupy.cuda.runtime.eventRecord(self.event, handle)

    def wait(self) -> None:
        """Wait for the copies that read the piece."""
        cupy.cuda.runtime.eventSynchronize(self.event)


class PinnedRing:
    """The pieces of one device, up to `most` of them; a piece has `least_bytes` or the next larger power of two."""

    def __init__(self, most: int, least_bytes: int) -> None:
        """Nothing is allocated before the first piece is taken."""
        self._most = most
        self._least_bytes = least_bytes
        self._made = 0
        self._idle: deque[Piece] = deque()
        """The pieces that nobody fills, in the order in which they were sent."""
        self._lock = threading.Lock()
        self._given = threading.Condition(self._lock)
        self._waiting = 0
        """Threads that wait for a piece."""

    def take(self, nbytes: int) -> Piece | None:
        """A piece of at least `nbytes`, for this caller alone until `give`; None where no such memory can be had.

        The ring's device is current. The host waits for a copy only if all pieces are queued, and for another thread
        only if all pieces are being filled.
        """
        while True:
            piece, is_free = self._idle_piece()
            if piece is None:
                try:
                    return self._new(nbytes)
                except _NO_MEMORY:
                    if not self._has_others():
                        return None
            else:
                try:
                    if not is_free:
                        piece.wait()
                    return piece if piece.nbytes >= nbytes else self._new(nbytes)
                except BaseException as error:
                    self.give(piece)
                    if isinstance(error, _NO_MEMORY):
                        return None
                    raise

    def give(self, piece: Piece) -> None:
        """Give a piece back; it is taken again after its copies."""
        with self._lock:
            self._idle.append(piece)
            if self._waiting:
                self._given.notify()

    def _idle_piece(self) -> tuple[Piece | None, bool]:
        """The piece that was sent longest ago, and whether its copies are done; None, and counted, for a new one."""
        with self._lock:
            while not self._idle and self._made == self._most:
                self._waiting += 1
                self._given.wait()
                self._waiting -= 1
            is_full = self._made == self._most
            if self._idle and (is_full or not cupy.cuda.runtime.eventQuery(self._idle[0].event)):
                return self._idle.popleft(), not is_full
            self._made += 1
            return None, True

    def _new(self, nbytes: int) -> Piece:
        return Piece(max(self._least_bytes, 1 << (nbytes - 1).bit_length()))

    def _has_others(self) -> bool:
        """Whether there are pieces beside the one that could not be made; then no other new one is tried for."""
        with self._lock:
            self._made -= 1
            self._given.notify()
            self._most = self._made or self._most
            return self._made > 0


_NO_MEMORY: Final = (cupy.cuda.runtime.CUDARuntimeError, MemoryError)
"""CuPy's errors where no page-locked memory is left."""
