"""`ResizeProblem`: images of any sizes, resized into one batch and converted, as a value.

`ResizeWindow` is what changes from call to call for one image: its layout, the resized box, and where the result goes.
`window_taps` returns the image's taps along both axes. It is cached, so that devices compute one geometry once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from stridedgpu.values.conversion import Conversion
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .frame_problem import FrameSurface
from .resize_arithmetic import Arithmetic, Interpolation, Passes, arithmetic_of
from .resize_axes import AXES
from .resize_taps import AxisGeometry, AxisTaps, pillow_columns_first, pillow_nearest
from .resize_taps_opencv import mean_taps, opencv_nearest, opencv_scale, opencv_taps

__all__ = ["Box", "Place", "ResizeProblem", "ResizeRule", "ResizeWindow", "WindowTaps", "window_taps"]

Box = tuple[float, float, float, float]
"""Top, left, bottom and right, in pixels of the source and fractions of them."""

Place = tuple[int, int, int, int]
"""Top, left, height and width of a resized box in the target, in pixels."""

_MOST_GEOMETRIES: Final = 256
"""Windows whose taps are cached, some 10 KiB each for 224 x 224: sizes of images recur, random boxes never do."""


@dataclass(frozen=True, slots=True)
class ResizeRule:
    """The rule of a resize: the interpolation, the first pass, and whether alpha weights the colours.

    `premultiplies` is Pillow's rule for images with alpha, the last channel of 2 or 4. Colours are multiplied by alpha
    before the first pass and divided by it after the second, in 8 bits.
    """

    interpolation: Interpolation
    passes: Passes = "horizontal"
    premultiplies: bool = False


class ResizeWindow(NamedTuple):
    """One image: the box that is resized and where the result goes.

    `layout` is the image's, with axes C, H, W, in elements from the lowest one. `place` is top, left, height and width
    of the resized box in the target, in pixels. Around it the target gets the fill value; the part of it outside the
    target is not computed. `flip` mirrors the resized box left and right. `surface` states that the image's memory is
    a frame of luma and chroma, whose rows are converted as they are read; `layout` is then that of packed RGB pixels.
    With `cuts`, the box has whole pixels and is cut out before it is resized, as by Pillow's `crop`: taps end at its
    edges, and the order of passes goes by its sizes. Without, Pillow's taps reach beyond the box, as with its `box=`.
    """

    layout: Layout
    box: Box
    place: Place
    flip: bool = False
    surface: FrameSurface | None = None
    cuts: bool = False

    def resized(self) -> tuple[tuple[int, int], Box, tuple[int, int]]:
        """Height and width of what is resized, the box in it, and the row and column at which it begins."""
        (_, height, width), (top, left, bottom, right) = self.layout.sizes, self.box
        if not self.cuts:
            return (height, width), self.box, (0, 0)
        first, begin = int(top), int(left)
        rows, columns = int(bottom) - first, int(right) - begin
        return (rows, columns), (0.0, 0.0, float(rows), float(columns)), (first, begin)

    def axes(self) -> tuple[AxisGeometry, AxisGeometry]:
        """The geometry down the rows, and along them."""
        (rows, columns), (top, left, bottom, right), _ = self.resized()
        return AxisGeometry(rows, top, bottom, self.place[2]), AxisGeometry(columns, left, right, self.place[3])

    def in_words(self) -> str:
        """The image, its box and its place, in one line."""
        kind = "" if self.surface is None else f"{self.surface}: "
        top, left, bottom, right = self.box
        _, height, width = self.layout.sizes
        down, along, rows, columns = self.place
        return (
            f"{kind}rows {top:g} to {bottom:g} and columns {left:g} to {right:g} of {height} x {width} become "
            f"{rows} x {columns} pixels at row {down}, column {along}"
        )


@dataclass(frozen=True, slots=True)
class ResizeProblem:
    """The resizes of images of one type into a batch, as a device plans them.

    `target` is the batch, with axes N, C, H, W. `conversion` is from the images' type, which the resized pixels have,
    to the target's; its `channels` choose among the `channels` of the images, or its `matrix` mixes them.
    `source_steps` are the channel and column strides that all images share, 0 where they differ. `fill` is one image
    element for each image channel, as bytes: it is converted like a resized pixel and fills what no image covers.
    `reads_frames` says that some images are frames of luma and chroma; their windows have a surface. `window` is the
    window that all images share, or None if every call states them.
    """

    target: TensorSpec
    conversion: Conversion
    rule: ResizeRule
    channels: int
    source_steps: tuple[int, int]
    fill: bytes
    window: ResizeWindow | None = None
    reads_frames: bool = False

    def __hash__(self) -> int:
        """Equal for equal problems; hashes first what differs most often."""
        return hash((self.target.layout.sizes, self.target.layout.strides, self.rule, self.source_steps, self.fill))

    @property
    def is_empty(self) -> bool:
        """Whether the batch has no elements."""
        return self.target.layout.element_count == 0

    @property
    def bytes_moved(self) -> int:
        """The bytes to read, if the window is known, plus the bytes to write, each once."""
        return sum(_bytes_moved(self))

    def in_words(self) -> list[str]:
        """The problem in lines, as plans explain it: sizes, taps, passes, arithmetic, conversion and bytes."""
        count, channels, height, width = self.target.layout.sizes
        rule, made, window = self.rule, self.conversion, self.window
        read, written = _bytes_moved(self)
        lines = [f"{count} images of {height} x {width} pixels, {channels} channels each: {rule.interpolation}"]
        if window is None:
            lines.append("boxes and sizes of the sources come with every call")
            if self.reads_frames:
                lines.append("frames, whose rows are converted as they are read")
        else:
            lines += self._window_words(window, count * (channels if made.matrix is None else self.channels))
        if rule.premultiplies:
            lines.append("colours are multiplied by alpha before the first pass and divided by it behind the second")
        lines.append(f"{made}" + (": pixels keep their type" if made.is_bitwise_copy else ""))
        lines.append(("" if window is None else f"reads {read:,} bytes, ") + f"writes {written:,} bytes")
        return lines

    def _window_words(self, window: ResizeWindow, planes: int) -> list[str]:
        """The lines about each image's box and both passes."""
        taps = self.taps(window)
        top, left, bottom, right = window.box
        _, height, width = window.layout.sizes
        passes = [
            f"  {name}: no pass, pixels are copied" if axis.copies else f"  {name}: up to {axis.most} taps a pixel"
            for name, axis in (("columns", taps.columns), ("rows", taps.rows))
        ]
        converted = [] if window.surface is None else [f"{window.surface}, whose rows are converted as they are read"]
        return [
            *converted,
            f"from rows {top:g} to {bottom:g} and columns {left:g} to {right:g} of {height} x {width}",
            *(passes if taps.columns_first else passes[::-1]),
            taps.arithmetic.spec.words,
            f"{taps.products * planes:,} products",
        ]

    def visible(self, window: ResizeWindow) -> tuple[int, int, int, int]:
        """The part of a window's place inside the target: top, left, height and width."""
        top, left, height, width = window.place
        _, _, rows, columns = self.target.layout.sizes
        first, begin = max(top, 0), max(left, 0)
        return first, begin, max(0, min(top + height, rows) - first), max(0, min(left + width, columns) - begin)

    def taps(self, window: ResizeWindow) -> WindowTaps:
        """The taps of the visible part of one image."""
        taps = self._whole_taps(window)
        top, left, height, width = self.visible(window)
        if (height, width) == window.place[2:]:
            return taps
        return _part(taps, top - window.place[0], left - window.place[1], height, width)

    def taps_of(self, windows: Sequence[ResizeWindow]) -> list[WindowTaps]:
        """The taps of the visible part of each image; those of Pillow's filters are computed together."""
        named, element = self.rule.interpolation, self.conversion.source
        if named.is_pillow and not named.is_nearest:
            axes = [axis for window in windows for axis in window.axes()]
            AXES.taps(named, axes, fixed=arithmetic_of(named, element) is Arithmetic.PILLOW_FIXED)
        return [self.taps(window) for window in windows]

    def _whole_taps(self, window: ResizeWindow) -> WindowTaps:
        """The taps of one image for its whole place."""
        sizes, box, origin = window.resized()
        taps = window_taps(
            self.rule.interpolation,
            self.rule.passes,
            self.conversion.source,
            self.channels,
            sizes,
            box,
            window.place[2:],
            flip=window.flip,
        )
        return _shifted(taps, *origin) if any(origin) else taps


@lru_cache(maxsize=_MOST_GEOMETRIES)
def _bytes_moved(problem: ResizeProblem) -> tuple[int, int]:
    """The bytes to read and to write, each once; without a window the bytes read are unknown."""
    made, layout = problem.conversion, problem.target.layout
    written = layout.element_count * made.target.itemsize
    if problem.window is None:
        return 0, written
    pixels = problem.taps(problem.window).source_pixels
    surface = problem.window.surface
    if surface is not None:
        down, right = surface.samples.chroma_step
        samples = pixels + 2 * pixels // (down * right)
        return layout.sizes[0] * samples * made.source.itemsize, written
    channels = problem.channels if made.channels is None else len(set(made.channels))
    return layout.sizes[0] * channels * pixels * made.source.itemsize, written


@dataclass(frozen=True, slots=True, eq=False)
class WindowTaps:
    """The taps of one image along rows (`columns`, x) and across them (`rows`, y), and how they are summed.

    `columns_first` says which pass comes first. `factor` multiplies the sums of `OPENCV_MEAN`, in float32.
    """

    arithmetic: Arithmetic
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


@lru_cache(maxsize=_MOST_GEOMETRIES)
def _shifted(taps: WindowTaps, top: int, left: int) -> WindowTaps:
    """The taps of a box that begins at a row and a column of its image."""
    return replace(taps, rows=taps.rows.shifted(top), columns=taps.columns.shifted(left))


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
    """The taps of images of `source` pixels (height, width), whose `box` becomes `target` pixels.

    No size may be 0, and the box must lie inside. Raises `ElementTypeError` for types that the rule does not resize.
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
    rows, columns = (AXES.taps(interpolation, [axis], fixed=fixed)[0] for axis in (down, along))
    return WindowTaps(arithmetic, rows, columns, pillow_columns_first(passes, down, along))


def _of_opencv(
    interpolation: Interpolation, element: ElementType, channels: int, down: AxisGeometry, along: AxisGeometry
) -> WindowTaps:
    """OpenCV's taps, with its special cases for integer scale factors and for many channels."""
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
"""A scale this close to an integer counts as that integer, as in OpenCV."""

_LARGEST_BLOCK: Final = {"uint8": (2**31 - 1) // 255, "uint16": 2**24 // 65535}
"""The most pixels whose sum is exact: in 32 bits, or in the float32 that OpenCV sums 16-bit values in."""

_MOST_EXACT_CHANNELS: Final = 4
"""With more channels than this, INTER_LINEAR_EXACT computes 2 x 2 blocks as INTER_LINEAR does."""

_QUARTERED: Final = (1, 3, 4)
"""The channel counts whose 2 x 2 blocks OpenCV rounds half up; for other counts it rounds half to even."""
