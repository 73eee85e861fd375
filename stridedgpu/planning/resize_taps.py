"""`AxisTaps`: the source pixels and weights that make up every pixel of one resized axis, as a value.

The geometry of an axis is its source size, the box's two edges in pixels, and the resized size. Taps are computed once
for each geometry, in double precision as the libraries do, and cached.

Sources: Pillow's src/libImaging/Resample.c (`precompute_coeffs`, `normalize_coeffs_8bpc`) and Geometry.c
(`ImagingScaleAffine`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, pi, sin
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .resize_arithmetic import Interpolation, Passes

__all__ = [
    "HAMMING",
    "Array",
    "AxisGeometry",
    "AxisTaps",
    "FilterSteps",
    "copied",
    "filter_steps",
    "fixed_point",
    "pillow_columns_first",
    "pillow_nearest",
    "pillow_taps",
    "pillow_taps_of",
]

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class AxisGeometry:
    """One axis: pixels of the source, the box's edges in pixels of the source, and pixels of the result."""

    source: int
    low: float
    high: float
    target: int

    @property
    def is_whole(self) -> bool:
        """True if the box is the whole axis and the size does not change."""
        return self.low == 0 and self.high == self.source == self.target


@dataclass(frozen=True, slots=True, eq=False)
class AxisTaps:
    """The taps of one axis.

    Pixel `x` of the result is the sum of the source pixels `clip(starts[x] + k, first, stop - 1)` times the weights
    `weights[x, k]`, with `k` from 0 to `counts[x] - 1`; later weights are 0. `starts` and `counts` are int32. Only
    OpenCV's rules have taps beyond the edges, which are clipped. With `copies` the axis needs no pass: each pixel
    equals the source pixel `starts[x]`.
    """

    starts: Array
    counts: Array
    weights: Array
    first: int
    stop: int
    copies: bool = False

    @property
    def count(self) -> int:
        """The number of pixels of the result."""
        return len(self.starts)

    @property
    def most(self) -> int:
        """The largest number of taps of any pixel."""
        return int(self.weights.shape[1])

    @property
    def indices(self) -> Array:
        """The source pixel of every tap, (pixels, most taps)."""
        reached: Array = np.clip(self.starts[:, None] + np.arange(self.most, dtype=np.int32), self.first, self.stop - 1)
        return reached

    @property
    def reach(self) -> tuple[int, int]:
        """The first source pixel that is read, and the one after the last."""
        first = max(int(self.starts.min(initial=self.stop)), self.first)
        return first, max(first, min(int((self.starts + self.counts).max(initial=first)), self.stop))

    def part(self, pixels: slice) -> AxisTaps:
        """The taps of some pixels of the result."""
        parts = self.starts[pixels], self.counts[pixels], self.weights[pixels]
        return AxisTaps(*parts, self.first, self.stop, self.copies)

    def within(self, first: int, stop: int) -> AxisTaps:
        """The taps relative to a block of source pixels, `first` to `stop`, that contains all pixels they read."""
        starts, edges = self.starts - np.int32(first), (max(self.first - first, 0), min(self.stop, stop) - first)
        return AxisTaps(starts, self.counts, self.weights, *edges, self.copies)

    def shifted(self, pixels: int) -> AxisTaps:
        """The taps of a source that begins so many pixels further on."""
        starts, edges = self.starts + np.int32(pixels), (self.first + pixels, self.stop + pixels)
        return AxisTaps(starts, self.counts, self.weights, *edges, self.copies)

    def reversed(self) -> AxisTaps:
        """The taps of the mirrored result."""
        starts, counts, weights = (
            np.ascontiguousarray(part[::-1]) for part in (self.starts, self.counts, self.weights)
        )
        return AxisTaps(starts, counts, weights, self.first, self.stop, self.copies)


class FilterSteps(NamedTuple):
    """The numbers that place a filter over each pixel of an axis, in double precision.

    Pixel `x` has its centre at `low + (x + 0.5) * scale` of the source, reads `support` pixels to either side, and
    weights a source pixel by the filter at its distance times `narrowing`.
    """

    low: float
    scale: float
    support: float
    narrowing: float

    def reach(self, pixel: int, source: int) -> tuple[int, int]:
        """The first source pixel that a pixel reads, and the one after the last, of an axis of `source` pixels."""
        center = self.low + (pixel + 0.5) * self.scale
        return max(int(center - self.support + 0.5), 0), min(int(center + self.support + 0.5), source)


def filter_steps(interpolation: Interpolation, geometry: AxisGeometry) -> FilterSteps:
    """The steps of one of Pillow's filters along an axis. Its boxes have edges of float32."""
    low, high = np.float32(geometry.low), np.float32(geometry.high)
    scale = float(high - low) / geometry.target
    stretch = max(scale, 1.0)
    return FilterSteps(float(low), scale, _FILTERS[interpolation][1] * stretch, 1.0 / stretch)


def pillow_columns_first(passes: Passes, down: AxisGeometry, along: AxisGeometry) -> bool:
    """Whether Pillow's pass along rows comes first."""
    # Determined by experiment with Pillow 13.0.0: the sizes are those of the whole image.
    thirteen = down.target < down.source and 2 * (along.source - along.target) < down.source - down.target
    return not (passes == "vertical" or (passes == "pillow-13" and thirteen))


def pillow_taps(interpolation: Interpolation, geometry: AxisGeometry, *, fixed: bool) -> AxisTaps:
    """The taps of one of Pillow's filters, with weights of 22 fractional bits (`fixed`) or float64."""
    (taps,) = pillow_taps_of(interpolation, [geometry], fixed=fixed)
    return taps


def pillow_taps_of(interpolation: Interpolation, geometries: Sequence[AxisGeometry], *, fixed: bool) -> list[AxisTaps]:
    """`pillow_taps` of axes with results of one size, all at once: boxes of a batch take a fraction of the time."""
    found: dict[AxisGeometry, AxisTaps] = {}
    filtered = []
    for axis in dict.fromkeys(geometries):
        if axis.is_whole:
            found[axis] = copied(np.arange(axis.target, dtype=np.int32), 0, axis.source)
        else:
            filtered.append(axis)
    if filtered:
        found |= zip(filtered, _filtered(interpolation, filtered, fixed=fixed), strict=True)
    return [found[axis] for axis in geometries]


def _filtered(interpolation: Interpolation, geometries: Sequence[AxisGeometry], *, fixed: bool) -> list[AxisTaps]:
    """The taps of axes that have a pass: arrays have the axes geometry, pixel and tap."""
    shape, _ = _FILTERS[interpolation]
    steps = np.array([filter_steps(interpolation, axis) for axis in geometries])
    low, scale, support, narrowing = np.moveaxis(steps, 1, 0)[:, :, None]
    sources = np.array([[axis.source] for axis in geometries], np.int32)
    centers = low + (np.arange(geometries[0].target) + 0.5) * scale
    # int() of C rounds towards zero, as astype does.
    starts = np.maximum((centers - support + 0.5).astype(np.int32), 0)
    counts = np.minimum((centers + support + 0.5).astype(np.int32), sources) - starts
    places = np.arange(int(counts.max(initial=1)))
    weights = shape((places + starts[:, :, None] - centers[:, :, None] + 0.5) * narrowing[:, :, None])
    weights[places >= counts[:, :, None]] = 0.0
    # The sum is taken in order; NumPy's own sum is pairwise.
    total = np.add.accumulate(weights, axis=2)[:, :, -1:]
    np.divide(weights, total, out=weights, where=total != 0)
    taps = fixed_point(weights, 22) if fixed else weights
    most = counts.max(axis=1, initial=1).tolist()
    return [
        AxisTaps(starts[number], counts[number], np.ascontiguousarray(taps[number, :, :reached]), 0, axis.source)
        for number, (axis, reached) in enumerate(zip(geometries, most, strict=True))
    ]


def copied(starts: Array, first: int, stop: int) -> AxisTaps:
    """An axis that needs no pass: every pixel is a copy."""
    ones = np.ones((len(starts), 1), np.int32)
    return AxisTaps(starts, ones[:, 0], ones, first, stop, copies=True)


def fixed_point(weights: Array, bits: int) -> Array:
    """Weights as int32 with `bits` fractional bits, rounded half away from zero."""
    scaled = weights * float(1 << bits)
    return (scaled + np.copysign(0.5, scaled)).astype(np.int32)


def pillow_nearest(geometry: AxisGeometry, *, adds_up: bool) -> AxisTaps:
    """The pixel under each centre. Pillow accumulates its step over the pixels (`adds_up`), except in mode "I;16"."""
    low, high = np.float32(geometry.low), np.float32(geometry.high)
    step = float(high - low) / geometry.target
    if adds_up:
        steps = np.full(geometry.target, step)
        steps[:1] = float(low) + step * 0.5
        centers = np.add.accumulate(steps)
    else:
        centers = (np.arange(geometry.target) + 0.5) * step + float(low)
    return copied(np.clip(centers.astype(np.int32), 0, geometry.source - 1), 0, geometry.source)


def _box(x: Array) -> Array:
    return ((x > -0.5) & (x <= 0.5)).astype(np.float64)


def _bilinear(x: Array) -> Array:
    return np.maximum(1.0 - np.abs(x), 0.0)


def _bicubic(x: Array) -> Array:
    a = -0.5
    x = np.abs(x)
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


def _one_hamming(x: float) -> float:
    x = abs(x)
    if x == 0.0:
        return 1.0
    if x >= 1.0:
        return 0.0
    x *= pi
    return sin(x) / x * (HAMMING[0] + HAMMING[1] * cos(x))


def _sinc(x: float) -> float:
    if x == 0.0:
        return 1.0
    x *= pi
    return sin(x) / x


def _one_lanczos(x: float) -> float:
    return _sinc(x) * _sinc(x / 3) if -3.0 <= x < 3.0 else 0.0


def _each(shape: Callable[[float], float]) -> Callable[[Array], Array]:
    """A filter with sines, one value at a time: NumPy's vectorised sine rounds otherwise than the C library's."""

    def over(x: Array) -> Array:
        return np.array([shape(number) for number in x.ravel().tolist()], np.float64).reshape(x.shape)

    return over


HAMMING: Final = (float(np.float32(0.54)), float(np.float32(0.46)))
"""The constants of Pillow's Hamming window, which are float32 there."""

_FILTERS: Final[dict[Interpolation, tuple[Callable[[Array], Array], float]]] = {
    Interpolation.PILLOW_BOX: (_box, 0.5),
    Interpolation.PILLOW_BILINEAR: (_bilinear, 1.0),
    Interpolation.PILLOW_HAMMING: (_each(_one_hamming), 1.0),
    Interpolation.PILLOW_BICUBIC: (_bicubic, 2.0),
    Interpolation.PILLOW_LANCZOS: (_each(_one_lanczos), 3.0),
}
"""Each filter's function and its reach to either side, in pixels of the coarser of the two grids."""
