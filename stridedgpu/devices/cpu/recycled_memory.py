"""CPU memory that is reused once it is unreferenced: a new batch takes the pages of an old one.

The system zeroes the pages of a large allocation on first write, which for a batch takes about as long as the work on
it. CUDA devices do not need this module: CuPy's pool recycles their memory.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from stridedgpu.devices.buffer import Buffer

from .device import CpuDevice

_KEPT_BLOCKS: Final = 4
"""Free blocks kept for reuse; another one replaces the oldest."""

_RECYCLED_BYTES: Final = 256 * 1024
"""Bytes from which on a block is kept: the C library recycles smaller ones itself."""


class RecycledMemory:
    """Memory of one owner, such as a worker's batches, whose sizes repeat or differ little.

    A block becomes free when the last buffer, view, array or capsule over it is gone. Any thread may allocate and
    release. Deques need no lock; a finaliser that runs while a lock is held would deadlock.
    """

    def __init__(self) -> None:
        self._free: deque[Buffer] = deque(maxlen=_KEPT_BLOCKS)
        self._fresh = CpuDevice()

    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer:
        """Uninitialised bytes at a multiple of `alignment`; raises `DeviceError` when memory is exhausted."""
        if nbytes < _RECYCLED_BYTES:
            return self._fresh.allocate(nbytes, alignment, stream)
        block = self._waiting(nbytes, alignment) or self._fresh.allocate(nbytes, alignment, stream)
        lease = _Lease(block, self._free)
        return Buffer(block.address, nbytes, owner=lease, alignment=block.alignment, owned=True)

    def _waiting(self, nbytes: int, alignment: int) -> Buffer | None:
        """A free block of `nbytes`, or of up to twice as many: results of images of several sizes differ by less."""
        for _ in range(_KEPT_BLOCKS):
            try:
                block = self._free.popleft()
            except IndexError:
                return None
            if nbytes <= block.nbytes <= 2 * nbytes and block.alignment >= alignment:
                return block
            self._free.append(block)
        return None


class _Lease:
    """Keeps a block in use: every view, array and capsule over the block refers to it."""

    __slots__ = ("_block", "_free")

    def __init__(self, block: Buffer, free: deque[Buffer]) -> None:
        self._block = block
        self._free = free

    def __del__(self) -> None:
        self._free.append(self._block)
