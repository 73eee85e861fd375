"""Operands as NumPy arrays over their bytes, and the blocks of loops that stay in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import numpy as np

from stridedgpu.devices.operand import Operand
from stridedgpu.values.strides import byte_strides

from .conversion import Array, storage_dtype

BLOCK_PIXELS: Final = 64 * 1024
"""Pixels, or raw samples, of a block; numbers take 2 to 8 bytes in each of its channels."""


def strided(
    memory: Array, dtype: np.dtype[Any], sizes: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Array:
    """An array over part of `memory`, an array of bytes; strides and offset are in elements."""
    return np.ndarray(sizes, dtype, memory, offset * dtype.itemsize, byte_strides(strides, dtype.itemsize))


def operand_array(operand: Operand) -> Array:
    """An operand on the CPU as an array of numbers in their storage type."""
    layout = operand.layout
    dtype = storage_dtype(operand.element, opaque=False)
    return strided(operand.buffer.bytes, dtype, layout.sizes, layout.strides, layout.offset if layout.span else 0)


def blocks(sizes: tuple[int, ...], extents: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """The slices of all blocks, in row-major order; those at the end of an axis may reach beyond it."""
    parts = [
        [slice(start, start + extent) for start in range(0, size, extent)]
        for size, extent in zip(sizes, extents, strict=True)
    ]
    return product(*parts)
