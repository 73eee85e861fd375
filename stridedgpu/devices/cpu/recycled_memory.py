"""CPU memory that is given out again once nobody refers to it: a new batch in the pages of an old one.

The system hands out large memory as pages that are zeroed when they are first written, which for a batch takes about
as long as the work on it. CUDA devices need none of this: CuPy's pool does it there.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from stridedgpu.devices.buffer import Buffer

from .device import CpuDevice

__all__ = ["RecycledMemory"]

_KEPT: Final = 4
"""Blocks that wait to be used again; a further one takes the place of the oldest."""

_LEAST_BYTES: Final = 256 * 1024
"""The C library keeps smaller blocks itself."""


class RecycledMemory:
    """Memory of one owner, such as a worker's batches, whose sizes repeat.

    A block is free when the last buffer, view, array or capsule over it is gone, and not before. Any thread may
    allocate, and let go: deques need no lock, which an object that ends while the lock is held would wait for for ever.
    """

    def __init__(self) -> None:
        self._free: deque[Buffer] = deque(maxlen=_KEPT)
        self._fresh = CpuDevice()

    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer:
        """Bytes, not initialised, at a multiple of `alignment`; raises `DeviceError` when there are not so many."""
        if nbytes < _LEAST_BYTES:
            return self._fresh.allocate(nbytes, alignment, stream)
        block = self._waiting(nbytes, alignment) or self._fresh.allocate(nbytes, alignment, stream)
        lease = _Lease(block, self._free)
        return Buffer(block.address, nbytes, owner=lease, alignment=block.alignment, owned=True)

    def _waiting(self, nbytes: int, alignment: int) -> Buffer | None:
        """A free block of exactly that many bytes."""
        for _ in range(_KEPT):
            try:
                block = self._free.popleft()
            except IndexError:
                return None
            if block.nbytes == nbytes and block.alignment >= alignment:
                return block
            self._free.append(block)
        return None


class _Lease:
    """What keeps a block from being given out again: every view, array and capsule over it holds this."""

    __slots__ = ("_block", "_free")

    def __init__(self, block: Buffer, free: deque[Buffer]) -> None:
        self._block = block
        self._free = free

    def __del__(self) -> None:
        self._free.append(self._block)
