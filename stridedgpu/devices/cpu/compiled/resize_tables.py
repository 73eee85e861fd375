"""The tables of one geometry as a resize's machine code reads them: tap pairs, source rows, scratch memory."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.planning.resize_arithmetic import Arithmetic
from stridedgpu.planning.resize_taps import AxisTaps

from .resize_kernel import BAND_ROWS, LOW_BITS, ROWS, WORD_BYTES

__all__ = ["Array", "Scratch", "TapPairs", "compacted", "failures", "memory_functions", "tap_pairs", "word_taps"]

Array = NDArray[Any]

_LINE: Final = 64


@dataclass(frozen=True, slots=True)
class TapPairs:
    """Taps in pairs: `counts` of pairs, `indices` (pixels, pairs, 2) and `weights` (pixels, pairs, parts).

    `indices` and `counts` are int64. A weight packs two 16-bit numbers in 32 bits, the first tap's in the lower half.
    The parts are the upper and the lower bits of Pillow's weights. Padding after the last tap has weight 0.
    """

    counts: Array
    indices: Array
    weights: Array

    @property
    def most(self) -> int:
        """The largest number of pairs of any pixel."""
        return int(self.indices.shape[1])


def tap_pairs(taps: AxisTaps, arithmetic: Arithmetic, scale: int) -> TapPairs:
    """Pair the taps of an axis; `scale` converts pixels to the unit of the indices."""
    width = taps.most + taps.most % 2
    # Padding taps have weight 0, so any pixel inside the image serves.
    indices = np.minimum(taps.starts[:, None] + np.arange(width), taps.stop - 1)
    if len(taps.starts) and taps.starts.min() < taps.first:
        np.maximum(indices, taps.first, out=indices)
    indices *= scale
    weights = taps.weights
    if taps.most != width:
        weights = np.zeros((taps.count, width), np.int32)
        weights[:, : taps.most] = taps.weights
    shift = 0
    if taps.copies and arithmetic is Arithmetic.PILLOW_FIXED:
        shift = arithmetic.spec.bits
    elif arithmetic is Arithmetic.OPENCV_QUARTER:
        shift = Arithmetic.OPENCV_LINEAR.spec.bits - 1
    if shift:
        weights = weights << shift
    pillow = arithmetic is Arithmetic.PILLOW_FIXED
    joined = np.empty((taps.count, width // 2, 2 if pillow else 1), np.int32)
    for part, values in enumerate((weights >> LOW_BITS, weights & (1 << LOW_BITS) - 1) if pillow else (weights,)):
        np.bitwise_or(values[:, 0::2] & 0xFFFF, values[:, 1::2] << 16, out=joined[:, :, part])
    return TapPairs((taps.counts.astype(np.int64) + 1) // 2, indices.reshape(taps.count, width // 2, 2), joined)


def word_taps(pairs: TapPairs, elements: int) -> TapPairs:
    """The taps of an axis with one pair for each pixel, whose two pixels are neighbours and are loaded as one word.

    `counts` are bit shifts: near the end of a row of `elements`, a word begins earlier and is shifted by as much. The
    tables are padded by at most 8 pixels.
    """
    fill = -len(pairs.counts) % 8
    first = np.pad(pairs.indices[:, 0, 0], (0, fill))
    places = np.minimum(first, elements - WORD_BYTES)
    weights = np.pad(pairs.weights[:, 0], ((0, fill), (0, 0)))
    return TapPairs((first - places) * 8, places.reshape(-1, 1, 1), weights)


@dataclass(frozen=True, slots=True)
class Compacted:
    """The source rows that are read, and the taps' indices into them.

    `sources` is padded with copies of its last row, up to a whole group of rows. `firsts` and `ends` give the range of
    these rows that each row of the result reads. `mask` is the number of rows of the ring, a power of two, minus one.
    """

    sources: Array
    pairs: TapPairs
    firsts: Array
    ends: Array
    mask: int


def compacted(pairs: TapPairs) -> Compacted:
    """Renumber the rows' taps over the rows that any of them reads."""
    indices = pairs.indices
    low, high = int(indices.min()), int(indices.max())
    if high - low < indices.size:
        used, places = np.arange(low, high + 1), indices - low
    else:
        used, inverse = np.unique(indices, return_inverse=True)
        places = inverse.reshape(indices.shape)
    # A pixel's taps ascend.
    firsts, ends = np.ascontiguousarray(places[:, 0, 0]), places[:, -1, -1] + 1
    span = int((ends - firsts).max()) + ROWS
    mask = (1 << (span - 1).bit_length()) - 1
    sources = np.concatenate([used, np.full(ROWS, used[-1], np.int64)])
    return Compacted(sources, TapPairs(pairs.counts, places & mask, pairs.weights), firsts, ends, mask)


@dataclass(frozen=True, slots=True)
class Scratch:
    """The partition of one thread's scratch memory, in bytes: transposed columns, outputs, ring, band, source rows."""

    outputs: int
    ring: int
    band: int
    rows: int
    nbytes: int
    ring_pitch: int
    band_pitch: int

    @classmethod
    def of(
        cls, elements: int, unit: int, planes: int, ring_rows: int, between_bytes: int, row_bytes: int = 0
    ) -> Scratch:
        """For rows of `elements` a plane, resized to `unit`, with elements of `between_bytes` between the passes.

        `row_bytes` are those of a source row that is converted before it is read.
        """
        outputs = _rounded(elements * ROWS)
        ring = outputs + _rounded(unit + ROWS) * ROWS * between_bytes
        band_pitch = _rounded(unit * planes)
        ring_pitch = (band_pitch + _LINE) * between_bytes
        band = ring + ring_rows * ring_pitch
        rows = band + BAND_ROWS * band_pitch
        return cls(outputs, ring, band, rows, rows + ROWS * row_bytes + 2 * _LINE, ring_pitch, band_pitch)


def _rounded(nbytes: int) -> int:
    """Round up to a multiple of a cache line."""
    return -(-nbytes // _LINE) * _LINE


def memory_functions() -> tuple[int, int]:
    """The addresses of allocate and free functions that need no Python lock."""
    python = ctypes.pythonapi
    allocate, free = (
        ctypes.cast(function, ctypes.c_void_p).value for function in (python.PyMem_RawMalloc, python.PyMem_RawFree)
    )
    assert allocate is not None, "every Python has it"
    assert free is not None, "every Python has it"
    return allocate, free


failures: Final = np.zeros(1, np.int64)
"""Nonzero after a thread failed to allocate its scratch memory."""
