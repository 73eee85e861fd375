"""The tables of one geometry as a resize's machine code reads them: groups of taps, source rows, scratch memory."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.planning.resize_taps import AxisTaps
from stridedgpu.values.interpolation import Arithmetic

from .resize_kernel import BAND_ROWS, ROWS, ResizeKernel
from .resize_passes import LOW_BITS, NumberPass, PairPass, Pass
from .resize_rows import WINDOW_BYTES, WORD_BYTES, WORD_LANES, PairRows, RowPass, WordRows

__all__ = ["Array", "Scratch", "TapGroups", "compacted", "memory_functions", "ring_mask", "row_taps", "tap_groups"]

Array = NDArray[Any]

_LINE: Final = 64


@dataclass(frozen=True, slots=True)
class TapGroups:
    """Taps one by one or in pairs: `counts` of groups, `indices` (pixels, groups, 1 or 2) and `weights`.

    `indices` and `counts` are int64. Single taps have one weight each, (pixels, groups), of the sum's type. Pairs have
    weights (pixels, groups, parts), each of which packs two 16-bit numbers in 32 bits, the first tap's in the lower
    half. The parts are the upper and the lower bits of Pillow's weights. Padding after the last tap has weight 0.
    """

    counts: Array
    indices: Array
    weights: Array

    @property
    def most(self) -> int:
        """The largest number of groups of any pixel."""
        return int(self.indices.shape[1])


_NUMBERS: Final = {"i32": np.int32, "float": np.float32, "double": np.float64}


def tap_groups(taps: AxisTaps, rule: Pass, arithmetic: Arithmetic) -> TapGroups:
    """The taps of an axis as a pass reads them, in pixels of the source."""
    if rule.index_bytes > _INDEX_BYTES:
        return _pairs(taps, arithmetic, 2 if isinstance(rule, PairPass) and rule.parts == 2 else 1)
    indices = taps.indices.astype(np.int64)[:, :, None]
    number = _NUMBERS[rule.number] if isinstance(rule, NumberPass) else np.int32
    return TapGroups(taps.counts.astype(np.int64), indices, np.ascontiguousarray(taps.weights, number))


_INDEX_BYTES: Final = 8


def _pairs(taps: AxisTaps, arithmetic: Arithmetic, parts: int) -> TapGroups:
    """The taps of an axis in pairs."""
    width = taps.most + taps.most % 2
    # Padding taps have weight 0, so any pixel inside the image serves.
    indices = np.minimum(taps.starts[:, None] + np.arange(width), taps.stop - 1)
    if len(taps.starts) and taps.starts.min() < taps.first:
        np.maximum(indices, taps.first, out=indices)
    weights = taps.weights
    if taps.most != width:
        weights = np.zeros((taps.count, width), np.int32)
        weights[:, : taps.most] = taps.weights
    shift = 0
    if taps.copies:
        shift = arithmetic.spec.bits
    elif arithmetic is Arithmetic.OPENCV_QUARTER:
        shift = Arithmetic.OPENCV_LINEAR.spec.bits - 1
    if shift:
        weights = weights << shift
    joined = np.empty((taps.count, width // 2, parts), np.int32)
    for part, values in enumerate((weights >> LOW_BITS, weights & (1 << LOW_BITS) - 1) if parts > 1 else (weights,)):
        np.bitwise_or(values[:, 0::2] & 0xFFFF, values[:, 1::2] << 16, out=joined[:, :, part])
    counts = (taps.counts.astype(np.int64) + 1) // 2
    return TapGroups(counts, indices.reshape(taps.count, width // 2, 2), joined)


def row_taps(rows: RowPass, pairs: TapGroups, elements: int) -> TapGroups:
    """The taps of an axis, in elements, as a pass over rows of so many elements reads them."""
    if isinstance(rows, WordRows):
        return _word_taps(rows, pairs, elements)
    return _pair_taps(rows, pairs, elements) if isinstance(rows, PairRows) else pairs


def _pair_taps(rows: PairRows, pairs: TapGroups, elements: int) -> TapGroups:
    """One pair of adjacent bytes for each pixel; weights of 32 pixels are in the order of their sums.

    Where the last element of a row is the first tap, its pair begins earlier, and the weights change places: that of
    the other tap is 0. The tables are padded by at most 32 pixels.
    """
    fill = -len(pairs.counts) % rows.pixels
    first = np.pad(pairs.indices[:, 0, 0], (0, fill), "edge")
    places = np.minimum(first, elements - 2)
    weights = np.pad(pairs.weights[:, 0, 0], (0, fill))
    weights = np.where(places < first, weights << 16, weights)
    weights = np.ascontiguousarray(weights.reshape(-1, 4, 2, 4).transpose(0, 2, 1, 3).reshape(-1))
    if rows.windows:
        return _windowed(rows, places, weights, elements)
    return TapGroups(pairs.counts, places.reshape(-1, 1, 1), weights)


def _word_taps(rows: WordRows, pairs: TapGroups, elements: int) -> TapGroups:
    """The taps of an axis, in elements: one pair for each pixel, two neighbours that are loaded as one word.

    `counts` are bit shifts: near the end of a row of `elements`, a word begins earlier and is shifted by as much. The
    tables are padded by at most 8 pixels.
    """
    fill = -len(pairs.counts) % rows.pixels
    first = np.pad(pairs.indices[:, 0, 0], (0, fill), "edge")
    places = np.minimum(first, elements - WORD_BYTES)
    weights = np.pad(pairs.weights[:, 0], ((0, fill), (0, 0))).reshape(-1, 4, 2)
    # Eight pixels at a time, the even ones before the odd ones, each weight for every element of its pixel.
    weights = np.ascontiguousarray(np.repeat(weights.transpose(0, 2, 1).reshape(-1), WORD_LANES))
    if rows.windows:
        return _windowed(rows, first, weights, elements)
    return TapGroups((first - places) * 8, places.reshape(-1, 1, 1), weights)


def _windowed(rows: PairRows | WordRows, places: Array, weights: Array, elements: int) -> TapGroups:
    """Taps by places in windows: `counts` are those of each byte of a pixel, `indices` where its window begins.

    Bytes behind the end of a row are its last one, and their weight is 0.
    """
    steps = places.reshape(-1, rows.pixels // rows.windows, 1)
    starts = np.minimum(steps.min(axis=1, keepdims=True), elements - WINDOW_BYTES)
    inside = np.minimum(steps + np.arange(rows.pixel_bytes), elements - 1) - starts
    begins = np.ascontiguousarray(np.broadcast_to(starts, steps.shape).reshape(-1, 1, 1))
    return TapGroups(inside.astype(np.uint8).reshape(-1), begins, weights)


@dataclass(frozen=True, slots=True)
class Compacted:
    """The source rows that are read, and the taps' indices into them.

    `sources` is padded with copies of its last row, up to a whole group of rows. `firsts` and `ends` give the range of
    these rows that each row of the result reads. `mask` is the number of rows of the ring, a power of two, minus one.
    """

    sources: Array
    taps: TapGroups
    firsts: Array
    ends: Array
    mask: int


def ring_mask(span: int, step_rows: int) -> int:
    """The mask of a ring for rows of the result that read up to `span` rows, of which `step_rows` come in one step."""
    return (1 << (span + step_rows - 1).bit_length()) - 1


def compacted(taps: TapGroups, step_rows: int) -> Compacted:
    """Renumber the rows' taps over the rows that any of them reads, `step_rows` in one step."""
    indices = taps.indices
    low, high = int(indices.min()), int(indices.max())
    if high - low < indices.size:
        used, places = np.arange(low, high + 1), indices - low
    else:
        used, inverse = np.unique(indices, return_inverse=True)
        places = inverse.reshape(indices.shape)
    # A pixel's taps ascend.
    firsts, ends = np.ascontiguousarray(places[:, 0, 0]), places[:, -1, -1] + 1
    mask = ring_mask(int((ends - firsts).max()), step_rows)
    sources = np.concatenate([used, np.full(ROWS, used[-1], np.int64)])
    return Compacted(sources, TapGroups(taps.counts, places & mask, taps.weights), firsts, ends, mask)


@dataclass(frozen=True, slots=True)
class Scratch:
    """The partition of one thread's scratch memory, in bytes: transposed columns, outputs, ring, band, source rows.

    `band_pitch` is in elements.
    """

    outputs: int
    ring: int
    band: int
    rows: int
    nbytes: int
    ring_pitch: int
    band_pitch: int

    @classmethod
    def of(
        cls, kernel: ResizeKernel, elements: int, unit: int, planes: int, ring_rows: int, row_bytes: int = 0
    ) -> Scratch:
        """For rows of `elements` a plane, resized to `unit`; `ring_rows` is 16 where rows come first.

        `row_bytes` are those of a source row that is converted before it is read.
        """
        along, down = kernel.along, kernel.down
        outputs = ring = 0
        if kernel.by_rows is None:
            outputs = _rounded(elements * ROWS * along.read_bytes)
            ring = outputs + _rounded(unit + ROWS) * ROWS * along.written_bytes
        # A store of 16 elements may reach behind a plane's end.
        band_pitch = _rounded(unit * planes + ROWS)
        between = band_pitch * along.written_bytes if kernel.columns_first else elements * down.written_bytes
        ring_pitch = _rounded(between) + _LINE * along.written_bytes
        band = ring + ring_rows * ring_pitch
        rows = band + BAND_ROWS * band_pitch * kernel.second.written_bytes
        return cls(outputs, ring, band, rows, rows + ROWS * row_bytes + 2 * _LINE, ring_pitch, band_pitch)


def _rounded(nbytes: int) -> int:
    """Round up to a multiple of a cache line."""
    return -(-nbytes // _LINE) * _LINE


@lru_cache(maxsize=1)
def memory_functions() -> tuple[int, int]:
    """The addresses of allocate and free functions that need no Python lock."""
    python = ctypes.pythonapi
    allocate, free = (
        ctypes.cast(function, ctypes.c_void_p).value for function in (python.PyMem_RawMalloc, python.PyMem_RawFree)
    )
    assert allocate is not None, "every Python has it"
    assert free is not None, "every Python has it"
    return allocate, free
