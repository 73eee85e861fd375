"""`ResizeProblem`: pictures of any sizes resized into one batch and converted on the way, as a value.

`ResizeWindow` says of one picture what changes from call to call: its layout, the box that is taken of it, and where
the result goes. `window_taps` are its taps along both axes; devices look them up there, so that one geometry is worked
out once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from stridedgpu.values.conversion import Conversion
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .resize_arithmetic import Arithmetic, Interpolation, Passes, arithmetic_of
from .resize_taps import AxisGeometry, AxisTaps, pillow_nearest, pillow_taps
from .resize_taps_opencv import mean_taps, opencv_nearest, opencv_scale, opencv_taps

__all__ = ["Box", "ResizeProblem", "ResizeRule", "ResizeWindow", "WindowTaps", "window_taps"]

Box = tuple[float, float, float, float]
"""Top, left, bottom and right, in pixels of the source and fractions of them."""

_MOST_GEOMETRIES: Final = 4096
"""Windows whose taps are kept; those of a 224 x 224 window are some 10 KiB."""


@dataclass(frozen=True, slots=True)
class ResizeRule:
    """Which library's bits: the interpolation, the pass that comes first, and whether colours are weighted by alpha.

    `premultiplies` is what Pillow does for pictures with alpha: the last channel, of 2 or 4, is alpha; colours are
    multiplied by it before the first pass and divided by it behind the second, in 8 bits.
    """

    interpolation: Interpolation
    passes: Passes = "horizontal"
    premultiplies: bool = False


class ResizeWindow(NamedTuple):
    """One picture: what is taken of it and where it goes.

    `layout` is that of the picture, axes C, H, W, in elements from the lowest one. `place` is top, left, height and
    width of the resized box in the target's picture, in pixels; around it goes the fill value, and what of it lies
    outside is not computed. `flip` mirrors the resized box left and right.
    """

    layout: Layout
    box: Box
    place: tuple[int, int, int, int]
    flip: bool = False


@dataclass(frozen=True, slots=True)
class ResizeProblem:
    """What a device plans: resizes of pictures of one type into a batch.

    `target` is the batch, axes N, C, H, W. `conversion` is from the pictures' type, of which the resized pixel is, to
    the target's; its `channels` choose among the `channels` of the pictures. `source_steps` are the channel and column
    strides that all pictures share, 0 where they differ. `fill` is one element of a picture for each of its channels,
    as bytes, which is converted like a resized pixel and goes where no picture does. `window` is what all pictures have
    in common where that is known, None where every call says it.
    """

    target: TensorSpec
    conversion: Conversion
    rule: ResizeRule
    channels: int
    source_steps: tuple[int, int]
    fill: bytes
    window: ResizeWindow | None = None

    def __hash__(self) -> int:
        """Equal for equal problems, from what tells them apart most often."""
        return hash((self.target.layout.sizes, self.target.layout.strides, self.rule, self.source_steps, self.fill))

    def visible(self, window: ResizeWindow) -> tuple[int, int, int, int]:
        """The part of a window's place that lies in the target's picture: top, left, height and width."""
        top, left, height, width = window.place
        _, _, rows, columns = self.target.layout.sizes
        first, begin = max(top, 0), max(left, 0)
        return first, begin, max(0, min(top + height, rows) - first), max(0, min(left + width, columns) - begin)

    def taps(self, window: ResizeWindow) -> WindowTaps:
        """The taps of the visible part of one picture."""
        taps = self._whole_taps(window)
        top, left, height, width = self.visible(window)
        if (height, width) == window.place[2:]:
            return taps
        return _part(taps, top - window.place[0], left - window.place[1], height, width)

    def _whole_taps(self, window: ResizeWindow) -> WindowTaps:
        """The taps of one picture, all of its place."""
        _, height, width = window.layout.sizes
        return window_taps(
            self.rule.interpolation,
            self.rule.passes,
            self.conversion.source,
            self.channels,
            (height, width),
            window.box,
            window.place[2:],
            flip=window.flip,
        )


@dataclass(frozen=True, slots=True, eq=False)
class WindowTaps:
    """The taps of one picture along rows (`columns`, x) and across them (`rows`, y), and how they are summed.

    `columns_first` says which pass comes first. `factor` is what `OPENCV_MEAN` multiplies sums by, in float32.
    """

    arithmetic: Arithmetic
    rows: AxisTaps
    columns: AxisTaps
    columns_first: bool = True
    factor: float = 1.0

    @property
    def source_pixels(self) -> int:
        """Pixels of the source that are read, each once."""
        (top, bottom), (left, right) = self.rows.reach, self.columns.reach
        return (bottom - top) * (right - left)

    @property
    def products(self) -> int:
        """Products of one channel, both passes, without those that bands of rows repeat."""
        (top, bottom), (left, right) = self.rows.reach, self.columns.reach
        across = bottom - top if self.columns_first else self.rows.count
        down = self.columns.count if self.columns_first else right - left
        return int(self.columns.counts.sum()) * across + int(self.rows.counts.sum()) * down


@lru_cache(maxsize=_MOST_GEOMETRIES)
def _part(taps: WindowTaps, above: int, before: int, height: int, width: int) -> WindowTaps:
    """The taps of some rows and columns of a result."""
    rows, columns = slice(above, above + height), slice(before, before + width)
    return replace(taps, rows=taps.rows.part(rows), columns=taps.columns.part(columns))


@lru_cache(maxsize=_MOST_GEOMETRIES)
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
) -> WindowTaps:
    """The taps for pictures of `source` pixels (height, width), of which `box` becomes `target` pixels.

    No size is 0 and the box lies inside. Raises `ElementTypeError` for types that the rule does not resize.
    """
    top, left, bottom, right = box
    down = AxisGeometry(source[0], top, bottom, target[0])
    along = AxisGeometry(source[1], left, right, target[1])
    arithmetic = arithmetic_of(interpolation, element)
    if interpolation is Interpolation.PILLOW_NEAREST:
        rows, columns = (pillow_nearest(axis, adds_up=element.name != "uint16") for axis in (down, along))
        taps = WindowTaps(arithmetic, rows, columns)
    elif interpolation.is_pillow:
        taps = _of_pillow(interpolation, passes, arithmetic, down, along)
    else:
        taps = _of_opencv(interpolation, element, channels, down, along)
    return replace(taps, columns=taps.columns.reversed()) if flip else taps


def _of_pillow(
    interpolation: Interpolation, passes: Passes, arithmetic: Arithmetic, down: AxisGeometry, along: AxisGeometry
) -> WindowTaps:
    """Pillow's taps, and its order of passes."""
    fixed = arithmetic is Arithmetic.PILLOW_FIXED
    rows, columns = (pillow_taps(interpolation, axis, fixed=fixed) for axis in (down, along))
    # Found by trying with Pillow 13.0.0: the sizes are those of the whole image.
    thirteen = down.target < down.source and 2 * (along.source - along.target) < down.source - down.target
    vertical = passes == "vertical" or (passes == "pillow-13" and thirteen)
    return WindowTaps(arithmetic, rows, columns, columns_first=not vertical)


def _of_opencv(
    interpolation: Interpolation, element: ElementType, channels: int, down: AxisGeometry, along: AxisGeometry
) -> WindowTaps:
    """OpenCV's taps, with its special cases of whole factors and many channels."""
    arithmetic = arithmetic_of(interpolation, element)
    if arithmetic is Arithmetic.COPY:
        return WindowTaps(arithmetic, opencv_nearest(down), opencv_nearest(along))
    scales = opencv_scale(down), opencv_scale(along)
    shrinks = min(scales) >= 1
    factors = round(scales[0]), round(scales[1])
    is_whole = all(abs(scale - factor) < _DOUBLE_STEP for scale, factor in zip(scales, factors, strict=True))
    area = interpolation is Interpolation.OPENCV_AREA
    exact = interpolation is Interpolation.OPENCV_LINEAR_EXACT and channels <= _MOST_EXACT_CHANNELS
    halves = factors == (2, 2) and interpolation is not Interpolation.OPENCV_CUBIC and not exact
    if (area or halves) and is_whole and shrinks and factors[0] * factors[1] <= _LARGEST_BLOCK.get(element.name, 0):
        rows, columns = mean_taps(down, factors[0]), mean_taps(along, factors[1])
        mean = Arithmetic.OPENCV_QUARTER if halves and channels in _QUARTERED else Arithmetic.OPENCV_MEAN
        return WindowTaps(mean, rows, columns, factor=float(np.float32(1 / (factors[0] * factors[1]))))
    if area and not shrinks and element.name == "uint8":
        arithmetic = Arithmetic.OPENCV_LINEAR
    fixed = arithmetic is not Arithmetic.OPENCV_FLOAT
    rows = opencv_taps(interpolation, down, is_row=False, shrinks=shrinks, fixed=fixed)
    columns = opencv_taps(interpolation, along, is_row=True, shrinks=shrinks, fixed=fixed)
    return WindowTaps(arithmetic, rows, columns)


_DOUBLE_STEP: Final = float(np.finfo(np.float64).eps)
"""A scale this near to a whole number is that number, as in OpenCV."""

_LARGEST_BLOCK: Final = {"uint8": (2**31 - 1) // 255, "uint16": 2**24 // 65535}
"""Pixels whose sum is exact: in 32 bits, and in the float32 that OpenCV sums 16 bits in."""

_MOST_EXACT_CHANNELS: Final = 4
"""INTER_LINEAR_EXACT of pictures with more channels takes blocks of 2 x 2 as INTER_LINEAR does."""

_QUARTERED: Final = (1, 3, 4)
"""Channels of pictures whose blocks of 2 x 2 OpenCV rounds half up, and those of others half to even."""
