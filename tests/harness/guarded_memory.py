"""Tensors over borrowed memory of random bytes, in which a byte that is written by mistake shows."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from stridedgpu import Layout, StridedTensor
from stridedgpu.values.dtypes import ElementType, element_type

__all__ = ["Bytes", "assert_written", "bits_of", "guarded", "seeds"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

seeds = st.integers(0, 2**32 - 1)


def guarded(
    layout: Layout, element: ElementType | str, seed: int, words: np.ndarray[Any, Any] | None = None
) -> tuple[StridedTensor, Bytes]:
    """A tensor over borrowed bytes, some of them after its end, and all of those bytes.

    The bytes are random; the elements are drawn from `words` (unsigned, of an element's size) where these are given.
    """
    element = element_type(element)
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 256, (layout.first_offset + layout.span + seed % 3) * element.itemsize, np.uint8)
    if words is not None:
        memory[:] = rng.choice(words, memory.size // element.itemsize).view(np.uint8)
    return StridedTensor(memory, layout, element), memory


def bits_of(layout: Layout, itemsize: int, memory: Bytes) -> np.ndarray[Any, Any]:
    """The elements of a layout in `memory` as words that NumPy moves unchanged: a view that can be written."""
    dtype = np.dtype(f"u{itemsize}" if itemsize <= 8 else f"V{itemsize}")
    steps = tuple(stride * itemsize for stride in layout.strides)
    return np.ndarray(layout.sizes, dtype, memory, layout.offset * itemsize if layout.span else 0, steps)


def assert_written(
    out: StridedTensor, memory: Bytes, before: Bytes, expected: np.ndarray[Any, Any], itemsize: int
) -> None:
    """`memory` has the expected bits in the elements of `out`, and is what it was everywhere else."""
    bits_of(out.layout, itemsize, before)[...] = expected
    assert np.array_equal(memory, before)
