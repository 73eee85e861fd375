"""`WindowTaps` and `AxisTaps`: the source pixels and weights that make up every pixel of a resized image, as values.

The geometry of an axis is its source size, the box's two edges in pixels, and the resized size. Taps are computed once
for each geometry, in double precision as the libraries do, and cached.

Sources: Pillow's src/libImaging/Resample.c (`precompute_coeffs`, `normalize_coeffs_8bpc`) and Geometry.c
(`ImagingScaleAffine`); OpenCV's modules/imgproc/src/resize.cpp (`resize`, `computeResizeAreaTab`, `interpolateCubic`);
torch's aten/src/ATen/native/cpu/UpSampleKernel.cpp (`_compute_indices_min_size_weights_aa`,
`_compute_index_ranges_int16_weights`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, cos, floor, sin
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stridedgpu.values.bounded_cache import BoundedTable, array_bytes, bounded_cache, count_bytes
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.interpolation import Interpolation, Passes, ResizeSums, arithmetic_of

Array = NDArray[Any]

Box: TypeAlias = tuple[float, float, float, float]
"""Top, left, bottom and right, in pixels of the source and fractions of them."""


LONG_AXIS: Final = 1 << 16
"""Of a longer axis only the pixels that are seen have taps in memory."""


@dataclass(frozen=True, slots=True)
class AxisGeometry:
    """One axis: pixels of the source, the box's edges in pixels of the source, and pixels of the result.

    `seen` is the first pixel of the result that is computed, and how many are; None is all.
    """

    source: int
    low: float
    high: float
    target: int
    seen: tuple[int, int] | None = None

    @property
    def pixels(self) -> Array:
        """The pixels of the result that are computed."""
        first, count = self.seen or (0, self.target)
        return np.arange(first, first + count, dtype=np.int32)

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
    def nbytes(self) -> int:
        """The bytes of the arrays."""
        return array_bytes((self.starts, self.counts, self.weights))

    @property
    def most(self) -> int:
        """The largest number of taps of any pixel."""
        return int(self.weights.shape[1])

    @property
    def indices(self) -> Array:
        """The source pixel of every tap, (pixels, most taps)."""
        indices: Array = np.clip(self.starts[:, None] + np.arange(self.most, dtype=np.int32), self.first, self.stop - 1)
        return indices

    @property
    def reach(self) -> tuple[int, int]:
        """The first source pixel that is read, and the one after the last."""
        first = max(int(self.starts.min(initial=self.stop)), self.first)
        return first, max(first, min(int((self.starts + self.counts).max(initial=first)), self.stop))

    def part(self, pixels: slice) -> AxisTaps:
        """The taps of some pixels of the result."""
        parts = self.starts[pixels], self.counts[pixels], self.weights[pixels]
        return AxisTaps(*parts, self.first, self.stop, self.copies)

    def shifted(self, pixels: int) -> AxisTaps:
        """The taps of a source that begins so many pixels further on."""
        starts, edges = self.starts + np.int32(pixels), (self.first + pixels, self.stop + pixels)
        return AxisTaps(starts, self.counts, self.weights, *edges, self.copies)

    def within(self, first: int, stop: int) -> AxisTaps:
        """The taps relative to a block of source pixels, `first` to `stop`, that contains all pixels they read."""
        starts, edges = self.starts - np.int32(first), (max(self.first - first, 0), min(self.stop, stop) - first)
        return AxisTaps(starts, self.counts, self.weights, *edges, self.copies)

    def reversed(self) -> AxisTaps:
        """The taps of the mirrored result."""
        starts, counts, weights = (
            np.ascontiguousarray(part[::-1]) for part in (self.starts, self.counts, self.weights)
        )
        return AxisTaps(starts, counts, weights, self.first, self.stop, self.copies)


class TapReach:
    """The taps of several windows along one axis, and what tiles of any size reach; axes of one length at a time."""

    def __init__(self, axes: Sequence[AxisTaps]) -> None:
        groups: dict[int, list[AxisTaps]] = {}
        for taps in dict.fromkeys(axes):
            groups.setdefault(taps.count, []).append(taps)
        self.most = max((taps.most for taps in axes), default=1)
        self._groups = [
            (np.stack([taps.starts for taps in group]), np.stack([taps.starts + taps.counts for taps in group]))
            for group in groups.values()
        ]
        self._known: dict[int, int] = {}

    def reach(self, size: int) -> int:
        """The most source pixels read for `size` adjacent pixels, pixels beyond the edges included."""
        if size not in self._known:
            self._known[size] = max((_reach(*group, size) for group in self._groups), default=1)
        return self._known[size]


def _reach(starts: Array, ends: Array, size: int) -> int:
    """The same for axes of one length, a row of `starts` and `ends` each."""
    count = starts.shape[1]
    size = min(size, count)
    last = count - size + 1
    onward, mirrored = ends[:, size - 1 :] - starts[:, :last], ends[:, :last] - starts[:, size - 1 :]
    return int(max(onward.max(), mirrored.max()))


@dataclass(frozen=True, slots=True, eq=False)
class WindowTaps:
    """The taps of one image along rows (`columns`, x) and across them (`rows`, y), and how they are summed.

    `columns_first` says which pass comes first. `factor` multiplies the sums of `OPENCV_MEAN`, in float32.
    """

    arithmetic: ResizeSums
    rows: AxisTaps
    columns: AxisTaps
    columns_first: bool = True
    factor: float = 1.0

    @property
    def source_pixels(self) -> int:
        """The number of source pixels read, each once."""
        (top, bottom), (left, right) = self.rows.reach, self.columns.reach
        return (bottom - top) * (right - left)

    @property
    def products(self) -> int:
        """The products of one channel in both passes; products that bands of rows repeat are counted once."""
        (top, bottom), (left, right) = self.rows.reach, self.columns.reach
        across = bottom - top if self.columns_first else self.rows.count
        down = self.columns.count if self.columns_first else right - left
        return int(self.columns.counts.sum()) * across + int(self.rows.counts.sum()) * down


@bounded_cache
def window_taps(
    interpolation: Interpolation,
    passes: Passes,
    element: ElementType,
    channels: int,
    source: tuple[int, int],
    box: Box,
    target: tuple[int, int],
    *,
    flip: bool = False,
    origin: tuple[int, int] = (0, 0),
    seen: tuple[int, int, int, int] | None = None,
) -> WindowTaps:
    """The taps of images of `source` pixels (height, width), whose `box` becomes `target` pixels.

    The source begins at the row and column `origin` of its image; `seen` is the top, left, height and width of the part
    of the result that is computed, None for all. No size may be 0, and the box must lie inside. Raises
    `ElementTypeError` for types that the rule does not resize. Cached.
    """
    top, left, bottom, right = box
    down = AxisGeometry(source[0], top, bottom, target[0])
    along = AxisGeometry(source[1], left, right, target[1])
    arithmetic = arithmetic_of(interpolation, element)
    if seen is not None and interpolation.sampling == "filter":
        above, before, height, width = seen
        if target[0] > LONG_AXIS:
            down, seen = replace(down, seen=(above, height)), (0, *seen[1:])
        if target[1] > LONG_AXIS:
            first = target[1] - before - width if flip else before
            along, seen = replace(along, seen=(first, width)), (seen[0], 0, *seen[2:])
    if interpolation.sampling == "filter":
        rows, columns = (filtered_axes(interpolation, arithmetic, [axis])[0] for axis in (down, along))
        taps = WindowTaps(arithmetic, rows, columns, pillow_columns_first(passes, down, along))
    elif interpolation.is_pillow:
        rows, columns = (_pillow_nearest(axis, adds_up=element.name != "uint16") for axis in (down, along))
        taps = WindowTaps(arithmetic, rows, columns)
    elif interpolation.cuts_boxes:
        taps = WindowTaps(arithmetic, _torch_nearest(down), _torch_nearest(along))
    else:
        taps = _opencv_window(interpolation, arithmetic, element, channels, down, along)
    count_bytes(taps.rows.nbytes + taps.columns.nbytes)
    rows, columns = taps.rows, taps.columns.reversed() if flip else taps.columns
    if any(origin):
        rows, columns = rows.shifted(origin[0]), columns.shifted(origin[1])
    if seen is not None:
        above, before, height, width = seen
        rows, columns = rows.part(slice(above, above + height)), columns.part(slice(before, before + width))
    return replace(taps, rows=rows, columns=columns)


def _copied(starts: Array, first: int, stop: int) -> AxisTaps:
    """An axis that needs no pass: every pixel is a copy."""
    ones = np.ones((len(starts), 1), np.int32)
    return AxisTaps(starts, ones[:, 0], ones, first, stop, copies=True)


# Filters of Pillow and torch


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


def filter_steps(
    interpolation: Interpolation, geometry: AxisGeometry, number: type[np.floating[Any]] = np.float64
) -> FilterSteps:
    """The steps of a filter along an axis, each rounded to the type `number`. Pillow's boxes have edges of float32."""
    edge = np.float32 if interpolation.is_pillow else np.float64
    low, high = edge(geometry.low), edge(geometry.high)
    scale = number(high - low) / number(geometry.target)
    stretch = max(scale, number(1))
    return FilterSteps(*map(float, (low, scale, number(interpolation.support * stretch), number(1) / stretch)))


def pillow_columns_first(passes: Passes, down: AxisGeometry, along: AxisGeometry) -> bool:
    """Whether Pillow's pass along rows comes first."""
    # Determined by experiment with Pillow 13.0.0: the sizes are those of the whole image.
    thirteen = down.target < down.source and 2 * (along.source - along.target) < down.source - down.target
    return not (passes == "vertical" or (passes == "pillow-13" and thirteen))


def filter_taps(
    interpolation: Interpolation, arithmetic: ResizeSums, geometries: Sequence[AxisGeometry]
) -> list[AxisTaps]:
    """The taps of a filter, with the weights of an arithmetic.

    The axes have results of one size and are computed together: boxes of a batch take a fraction of the time.
    """
    filtered = [axis for axis in geometries if not axis.is_whole]
    computed = iter(_filtered(interpolation, arithmetic, filtered) if filtered else ())
    return [_copied(axis.pixels, 0, axis.source) if axis.is_whole else next(computed) for axis in geometries]


def _filtered(
    interpolation: Interpolation, arithmetic: ResizeSums, geometries: Sequence[AxisGeometry]
) -> list[AxisTaps]:
    """The taps of axes that have a pass: arrays have the axes geometry, pixel and tap.

    Weights of float32 are computed in float32, as by torch, and all others in float64.
    """
    spec = arithmetic.spec
    number = np.float32 if spec.weights == "float32" else np.float64
    starts, counts, weights = _shares_of(interpolation, number, geometries)
    if spec.bits:  # rounded half away from zero
        largest = [_largest_share(interpolation, axis, one) for axis, one in zip(geometries, weights, strict=True)]
        unused = np.array([[[spec.bits - _fraction_bits(interpolation, most)]] for most in largest])
        scaled = weights * 2.0 ** (spec.bits - unused)
        weights = (scaled + np.copysign(0.5, scaled)).astype(np.int32) << unused.astype(np.int32)
    most = counts.max(axis=1, initial=1).tolist()
    return [
        AxisTaps(starts[number], counts[number], np.ascontiguousarray(weights[number, :, :reached]), 0, axis.source)
        for number, (axis, reached) in enumerate(zip(geometries, most, strict=True))
    ]


def _largest_share(interpolation: Interpolation, axis: AxisGeometry, weights: Array) -> float:
    """The largest share of the whole axis, by which the narrow weights of torch are scaled."""
    if axis.seen is None or not interpolation.has_narrow_weights:
        return float(weights.max())
    parts = (
        replace(axis, seen=(first, min(LONG_AXIS, axis.target - first))) for first in range(0, axis.target, LONG_AXIS)
    )
    return max(float(_shares_of(interpolation, np.float64, [part])[2].max()) for part in parts)


def _shares_of(
    interpolation: Interpolation, number: type[np.floating[Any]], geometries: Sequence[AxisGeometry]
) -> tuple[Array, Array, Array]:
    """Where the taps of axes begin, how many there are, and the share of each in its pixel."""
    steps = np.array([filter_steps(interpolation, axis, number) for axis in geometries])
    low, scale, support, narrowing = np.moveaxis(steps, 1, 0)[:, :, None]
    sources = np.array([[axis.source] for axis in geometries], np.int32)

    def rounded(numbers: Array) -> Array:
        """As doubles: torch adds 0.5 in float64, and rounds what else it computes in float32."""
        return numbers if number is np.float64 else numbers.astype(number).astype(np.float64)

    centers = rounded(low + (np.stack([axis.pixels for axis in geometries]) + 0.5) * scale)
    # int() of C rounds towards zero, as astype does.
    starts = np.maximum((rounded(centers - support) + 0.5).astype(np.int32), 0)
    counts = np.minimum((rounded(centers + support) + 0.5).astype(np.int32), sources) - starts
    places = np.arange(int(counts.max(initial=1)))
    distances = (rounded(places + starts[:, :, None] - centers[:, :, None]) + 0.5) * narrowing[:, :, None]
    distances = distances.astype(number)
    assert interpolation.filter is not None, "the rule has a filter"
    with np.errstate(invalid="ignore"):  # sin(0) / 0, which is not selected
        weights = interpolation.filter(distances, _NumpyMaths())
    weights[places >= counts[:, :, None]] = 0.0
    # The sum is taken in order; NumPy's own sum is pairwise.
    total = np.add.accumulate(weights, axis=2)[:, :, -1:]
    np.divide(weights, total, out=weights, where=total != 0)
    return starts, counts, weights


def _fraction_bits(interpolation: Interpolation, largest: float) -> int:
    """The fractional bits of an axis's integer weights, the largest of which is `largest`."""
    bits, most = ResizeSums.FIXED_POINT.spec.bits, 1 << (interpolation.weight_bits - 1)
    return next((used for used in range(bits) if int(0.5 + largest * 2.0 ** (used + 1)) >= most), bits)


def fused(x: Array, factor: Array | float, addend: Array | float) -> Array:
    """`x * factor + addend` of float32, rounded once.

    The product is exact in float64. The sum is rounded to odd there, and the second rounding is the only one that
    counts.
    """
    product, added = x.astype(np.float64) * factor, np.asarray(addend, np.float64)
    total = product + added
    rest = total - product
    error = (product - (total - rest)) + (added - rest)
    even = (total.view(np.int64) & 1) == 0
    towards = np.copysign(np.inf, error)
    return np.where(even & ((error > 0) | (error < 0)), np.nextafter(total, towards), total).astype(np.float32)


class _NumpyMaths:
    """The functions of filters on arrays."""

    select = staticmethod(np.where)
    absolute = staticmethod(np.abs)

    def multiply_add(self, x: Array, factor: Array | float, addend: float) -> Array:
        return x * factor + addend if x.dtype == np.float64 else fused(x, factor, addend)

    def is_zero(self, x: Array) -> Array:
        zeros: Array = x == 0.0
        return zeros

    def sine(self, x: Array) -> Array:
        """One value at a time: NumPy's vectorised sine rounds otherwise than the C library's."""
        return np.array([sin(number) for number in x.ravel().tolist()], x.dtype).reshape(x.shape)

    def cosine(self, x: Array) -> Array:
        """One value at a time, likewise."""
        return np.array([cos(number) for number in x.ravel().tolist()], x.dtype).reshape(x.shape)


_known: Final = BoundedTable[AxisTaps]()
"""The axes of all resizes, some 10 KiB each for 224 pixels: sizes of images recur, and random boxes do not."""


def filtered_axes(
    interpolation: Interpolation, arithmetic: ResizeSums, geometries: Sequence[AxisGeometry]
) -> list[AxisTaps]:
    """The taps of each geometry by a filter, cached; those of one result size are computed together.

    Any thread may ask for taps, and so may what interrupts it.
    """
    taps = {axis: _known.get((interpolation, arithmetic, axis)) for axis in geometries}
    missing: dict[int, list[AxisGeometry]] = {}
    for axis, known in taps.items():
        if known is None:
            missing.setdefault(len(axis.pixels), []).append(axis)
    for axes in missing.values():
        for axis, computed in zip(axes, filter_taps(interpolation, arithmetic, axes), strict=True):
            taps[axis] = computed
            count_bytes(computed.nbytes)
            _known.keep((interpolation, arithmetic, axis), computed, computed.nbytes)
    return [one for axis in geometries if (one := taps[axis]) is not None]


def _pillow_nearest(geometry: AxisGeometry, *, adds_up: bool) -> AxisTaps:
    """The pixel under each centre. Pillow accumulates its step over the pixels (`adds_up`), except in mode "I;16"."""
    low, high = np.float32(geometry.low), np.float32(geometry.high)
    step = float(high - low) / geometry.target
    if adds_up:
        steps = np.full(geometry.target, step)
        steps[:1] = float(low) + step * 0.5
        centers = np.add.accumulate(steps)
    else:
        centers = (np.arange(geometry.target) + 0.5) * step + float(low)
    return _copied(np.clip(centers.astype(np.int32), 0, geometry.source - 1), 0, geometry.source)


# OpenCV
#
# Coordinates are relative to the box. OpenCV has no boxes: a box of whole pixels gives the bits of resizing that part
# of the image alone. A fractional box takes the whole pixels that it touches, and its coordinates begin at its edge.

_CUBIC: Final = np.float32(-0.75)

_SLIVER: Final = 1e-3
"""INTER_AREA ignores shares of a pixel up to this."""

_DOUBLE_STEP: Final = float(np.finfo(np.float64).eps)
"""A scale this close to an integer counts as that integer."""

_LARGEST_BLOCK: Final = {"uint8": (2**31 - 1) // 255, "uint16": 2**24 // 65535}
"""The most pixels whose sum is exact: in 32 bits, or in the float32 that OpenCV sums 16-bit values in."""

_MOST_EXACT_CHANNELS: Final = 4
"""With more channels than this, INTER_LINEAR_EXACT computes 2 x 2 blocks as INTER_LINEAR does."""

_QUARTERED: Final = (1, 3, 4)
"""The channel counts whose 2 x 2 blocks OpenCV rounds half up; for other counts it rounds half to even."""


def _opencv_window(
    interpolation: Interpolation,
    arithmetic: ResizeSums,
    element: ElementType,
    channels: int,
    down: AxisGeometry,
    along: AxisGeometry,
) -> WindowTaps:
    """OpenCV's taps, with its special cases for integer scale factors and for many channels."""
    sampling = interpolation.sampling
    if sampling == "nearest":
        return WindowTaps(arithmetic, _opencv_nearest(down), _opencv_nearest(along))
    scales = _opencv_scale(down), _opencv_scale(along)
    shrinks = min(scales) >= 1
    factors = round(scales[0]), round(scales[1])
    is_whole = all(abs(scale - factor) < _DOUBLE_STEP for scale, factor in zip(scales, factors, strict=True))
    is_exact = sampling == "linear-exact" and channels <= _MOST_EXACT_CHANNELS
    halves = factors == (2, 2) and sampling != "cubic" and not is_exact
    block = factors[0] * factors[1]
    if (sampling == "area" or halves) and is_whole and shrinks and block <= _LARGEST_BLOCK.get(element.name, 0):
        rows, columns = (_block_taps(axis, factor) for axis, factor in zip((down, along), factors, strict=True))
        mean = ResizeSums.OPENCV_QUARTER if halves and channels in _QUARTERED else ResizeSums.OPENCV_MEAN
        return WindowTaps(mean, rows, columns, factor=float(np.float32(1 / block)))
    if sampling == "area" and shrinks:
        return WindowTaps(arithmetic, _shares(down), _shares(along))
    if sampling == "area" and element.name == "uint8":
        arithmetic = ResizeSums.OPENCV_LINEAR
    rows, columns = (
        _opencv_taps(interpolation, axis, arithmetic.spec.bits, is_row=axis is along) for axis in (down, along)
    )
    return WindowTaps(arithmetic, rows, columns)


def _opencv_scale(geometry: AxisGeometry) -> float:
    """Source pixels for each pixel of the result, rounded as OpenCV does."""
    return 1.0 / (geometry.target / (geometry.high - geometry.low))


def _opencv_taps(interpolation: Interpolation, geometry: AxisGeometry, bits: int, *, is_row: bool) -> AxisTaps:
    """The taps of one axis between two or four pixels, with weights of so many fractional bits; 0 for float32.

    With `is_row` the axis runs along rows (x), which treat edges differently.
    """
    scale, sampling = _opencv_scale(geometry), interpolation.sampling
    places = np.arange(geometry.target)
    if sampling == "area":
        whole = np.floor(places * scale).astype(np.int32)
        parts = ((places + 1) - (whole + 1) * (geometry.target / (geometry.high - geometry.low))).astype(np.float32)
        parts = np.where(parts <= 0, np.float32(0), parts - np.floor(parts))
    else:
        coordinates = (places + 0.5) * scale - 0.5
        if sampling != "linear-exact":
            coordinates = coordinates.astype(np.float32)
        whole = np.floor(coordinates).astype(np.int32)
        parts = coordinates - whole.astype(coordinates.dtype)
    if sampling == "cubic":
        return _windowed(geometry, whole - 1, _rounded(_cubic(parts), bits))
    if is_row or sampling == "linear-exact":
        last = ceil(geometry.high) - floor(geometry.low) - 1
        parts[(whole < 0) | (whole >= last)] = 0
        whole = np.clip(whole, 0, last)
    if sampling == "linear-exact":
        second = np.rint(parts * (1 << bits)).astype(np.int32)
        return _windowed(geometry, whole, np.stack([(1 << bits) - second, second], axis=1))
    return _windowed(geometry, whole, _rounded(np.stack([np.float32(1) - parts, parts], axis=1), bits))


def _block_taps(geometry: AxisGeometry, factor: int) -> AxisTaps:
    """Blocks of `factor` whole pixels, each with weight 1."""
    starts = np.arange(geometry.target, dtype=np.int32) * np.int32(factor)
    return _windowed(geometry, starts, np.ones((geometry.target, factor), np.int32))


def _windowed(geometry: AxisGeometry, starts: Array, weights: Array) -> AxisTaps:
    """Taps whose starts count from the box's first whole pixel; every pixel uses all its weights."""
    first, stop = floor(geometry.low), min(ceil(geometry.high), geometry.source)
    counts = np.full(geometry.target, weights.shape[1], np.int32)
    return AxisTaps((starts + first).astype(np.int32), counts, weights, first, stop)


def _opencv_nearest(geometry: AxisGeometry) -> AxisTaps:
    """The source pixel at the left edge of each result pixel."""
    return _at_edges(geometry, np.arange(geometry.target) * _opencv_scale(geometry))


def _torch_nearest(geometry: AxisGeometry) -> AxisTaps:
    """The same in float32 (ATen/native/UpSample.h, `nearest_neighbor_compute_source_index`)."""
    scale = np.float32(geometry.high - geometry.low) / np.float32(geometry.target)
    return _at_edges(geometry, np.arange(geometry.target, dtype=np.float32) * scale)


def _at_edges(geometry: AxisGeometry, edges: Array) -> AxisTaps:
    """The source pixel that each edge lies in, counted from the box's first whole pixel."""
    last = ceil(geometry.high) - floor(geometry.low) - 1
    starts = np.minimum(np.floor(edges), last).astype(np.int32)
    first = floor(geometry.low)
    return _copied(starts + np.int32(first), first, first + last + 1)


def _rounded(weights: Array, bits: int) -> Array:
    """float32 weights as int32 with `bits` fractional bits, rounded half to even; as they are if there are none."""
    return np.rint(weights * np.float32(1 << bits)).astype(np.int32) if bits else weights


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
    scale, extent = _opencv_scale(geometry), geometry.high - geometry.low
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
    return replace(_windowed(geometry, starts, weights), counts=counts)
