"""Memory that JPEG decoders write their pixels to, used again once no array refers to it.

The system clears the pages of fresh memory, and Pillow clears an image before it decodes: each takes about a twentieth
of the time of decoding. Pixels have 4 bytes, the last of which is no channel: libjpeg-turbo stores them faster than 3.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import numpy as np

__all__ = ["PIXEL_BYTES", "PixelMemory"]

PIXEL_BYTES: Final = 4
"""Bytes from one pixel to the next: red, green, blue and one that is not read."""

_LARGEST_BLOCK: Final = 16 << 20
"""Memory of an image above this is released: Pillow's own bound of the blocks that it keeps."""

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


class PixelMemory:
    """Memory of decoded images, with no more blocks than were in use at one time.

    A block is free when the last array over it is gone. Any thread may allocate and release: deques need no lock.

    >>> memory = PixelMemory()
    >>> pixels = memory.allocate(2, 3)
    >>> pixels.shape
    (2, 3, 4)
    >>> first = pixels.ctypes.data
    >>> del pixels
    >>> memory.allocate(3, 2).ctypes.data == first
    True
    """

    def __init__(self) -> None:
        self._free: deque[_Block] = deque()

    def allocate(self, height: int, width: int) -> Pixels:
        """An array of so many pixels with axes H, W and the 4 bytes of a pixel, in C order, with any content."""
        nbytes = height * width * PIXEL_BYTES
        if nbytes > _LARGEST_BLOCK:
            return np.empty((height, width, PIXEL_BYTES), np.uint8)
        try:
            block = self._free.pop()
        except IndexError:
            block = None
        if block is None or block.nbytes < nbytes:  # a block that is too small is released: a larger one replaces it
            block = _Block(np.empty(nbytes, np.uint8))
        return np.asarray(_Lease(block, self._free, (height, width, PIXEL_BYTES)))


class _Block:
    """Memory, and where it lies."""

    __slots__ = ("_memory", "address", "nbytes")

    def __init__(self, memory: Pixels) -> None:
        self._memory = memory
        self.address: int = memory.ctypes.data
        self.nbytes = memory.nbytes


class _Lease:
    """Keeps a block in use: every array over the block refers to it."""

    __slots__ = ("__array_interface__", "_block", "_free")

    def __init__(self, block: _Block, free: deque[_Block], shape: tuple[int, int, int]) -> None:
        self._block, self._free = block, free
        self.__array_interface__ = {"version": 3, "data": (block.address, False), "shape": shape, "typestr": "|u1"}

    def __del__(self) -> None:
        self._free.append(self._block)
