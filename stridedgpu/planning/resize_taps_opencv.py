"""The taps of OpenCV's interpolations, as `AxisTaps`.

Coordinates are relative to the box. OpenCV has no boxes: a box of whole pixels gives the bits of resizing that part of
the image alone. A fractional box takes the whole pixels that it touches, and its coordinates begin at its edge.

Source: OpenCV's modules/imgproc/src/resize.cpp (`resize`, `computeResizeAreaTab`, `interpolateCubic`).
"""

from __future__ import annotations

from math import ceil, floor
from typing import Final

import numpy as np

from .resize_arithmetic import Interpolation
from .resize_taps import Array, AxisGeometry, AxisTaps, copied

__all__ = ["mean_taps", "opencv_nearest", "opencv_scale", "opencv_taps"]

_LINEAR_BITS: Final = 11

_EXACT_BITS: Final = 8

_CUBIC: Final = np.float32(-0.75)

_SLIVER: Final = 1e-3
"""INTER_AREA ignores shares of a pixel up to this."""


def opencv_scale(geometry: AxisGeometry) -> float:
    """Source pixels for each pixel of the result, rounded as OpenCV does."""
    return 1.0 / (geometry.target / (geometry.high - geometry.low))


def opencv_taps(
    interpolation: Interpolation, geometry: AxisGeometry, *, is_row: bool, shrinks: bool, fixed: bool
) -> AxisTaps:
    """The taps of one axis.

    With `is_row` the axis runs along rows (x), which treat edges differently. With `shrinks` neither axis grows:
    INTER_AREA then weights pixels by their shares. `fixed` selects integer weights instead of float32.
    """
    if interpolation is Interpolation.OPENCV_AREA and shrinks:
        return _shares(geometry)
    scale = opencv_scale(geometry)
    places = np.arange(geometry.target)
    exact = interpolation is Interpolation.OPENCV_LINEAR_EXACT
    if interpolation is Interpolation.OPENCV_AREA:
        whole = np.floor(places * scale).astype(np.int32)
        parts = ((places + 1) - (whole + 1) * (geometry.target / (geometry.high - geometry.low))).astype(np.float32)
        parts = np.where(parts <= 0, np.float32(0), parts - np.floor(parts))
    else:
        coordinates = (places + 0.5) * scale - 0.5
        if not exact:
            coordinates = coordinates.astype(np.float32)
        whole = np.floor(coordinates).astype(np.int32)
        parts = coordinates - whole.astype(coordinates.dtype)
    if interpolation is Interpolation.OPENCV_CUBIC:
        weights = _cubic(parts)
        return _windowed(geometry, whole - 1, _rounded(weights, _LINEAR_BITS) if fixed else weights)
    if is_row or exact:
        last = ceil(geometry.high) - floor(geometry.low) - 1
        parts[(whole < 0) | (whole >= last)] = 0
        whole = np.clip(whole, 0, last)
    if exact:
        second = np.rint(parts * (1 << _EXACT_BITS)).astype(np.int32)
        return _windowed(geometry, whole, np.stack([(1 << _EXACT_BITS) - second, second], axis=1))
    weights = np.stack([np.float32(1) - parts, parts], axis=1)
    return _windowed(geometry, whole, _rounded(weights, _LINEAR_BITS) if fixed else weights)


def mean_taps(geometry: AxisGeometry, factor: int) -> AxisTaps:
    """Blocks of `factor` whole pixels, each with weight 1."""
    starts = np.arange(geometry.target, dtype=np.int32) * np.int32(factor)
    return _windowed(geometry, starts, np.ones((geometry.target, factor), np.int32))


def _windowed(geometry: AxisGeometry, starts: Array, weights: Array) -> AxisTaps:
    """Taps whose starts count from the box's first whole pixel; every pixel uses all its weights."""
    first, stop = floor(geometry.low), min(ceil(geometry.high), geometry.source)
    counts = np.full(geometry.target, weights.shape[1], np.int32)
    return AxisTaps((starts + first).astype(np.int32), counts, weights, first, stop)


def opencv_nearest(geometry: AxisGeometry) -> AxisTaps:
    """The source pixel at the left edge of each result pixel."""
    last = ceil(geometry.high) - floor(geometry.low) - 1
    starts = np.minimum(np.floor(np.arange(geometry.target) * opencv_scale(geometry)), last).astype(np.int32)
    first = floor(geometry.low)
    return copied(starts + np.int32(first), first, first + last + 1)


def _rounded(weights: Array, bits: int) -> Array:
    """float32 weights as int32 with `bits` fractional bits, rounded half to even."""
    return np.rint(weights * np.float32(1 << bits)).astype(np.int32)


def _cubic(parts: Array) -> Array:
    """The four cubic weights of each position between two pixels, in float32."""
    a, one = _CUBIC, np.float32(1)
    far, near = parts + one, one - parts
    first = ((a * far - np.float32(5) * a) * far + np.float32(8) * a) * far - np.float32(4) * a
    second = ((a + np.float32(2)) * parts - (a + np.float32(3))) * parts * parts + one
    third = ((a + np.float32(2)) * near - (a + np.float32(3))) * near * near + one
    return np.stack([first, second, third, one - first - second - third], axis=1)


def _shares(geometry: AxisGeometry) -> AxisTaps:
    """Area weights: each source pixel's share of a result pixel, as float32."""
    scale, extent = opencv_scale(geometry), geometry.high - geometry.low
    low = np.arange(geometry.target) * scale
    high = low + scale
    cell = np.minimum(scale, extent - low)
    end = np.minimum(np.floor(high).astype(np.int32), ceil(extent) - 1)
    begin = np.minimum(np.ceil(low).astype(np.int32), end)
    has_first, has_last = begin - low > _SLIVER, high - end > _SLIVER
    starts = begin - has_first
    counts = (end - begin + has_first + has_last).astype(np.int32)
    places = starts[:, None] + np.arange(int(counts.max(initial=1)))
    weights = np.broadcast_to((1.0 / cell)[:, None], places.shape)
    weights = np.where(places < begin[:, None], ((begin - low) / cell)[:, None], weights)
    last = np.minimum(np.minimum(high - end, 1.0), cell) / cell
    weights = np.where(places == end[:, None], last[:, None], weights).astype(np.float32)
    weights[np.arange(weights.shape[1]) >= counts[:, None]] = 0
    taps = _windowed(geometry, starts, weights)
    return AxisTaps(taps.starts, counts, weights, taps.first, taps.stop)
