"""`ResizeProblem`: images of any sizes, resized into one batch and converted, as a value.

`ResizeWindow` is what changes from call to call for one image: its layout, the resized box, and where the result goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple, TypeAlias

from stridedgpu.values.conversion import Conversion
from stridedgpu.values.interpolation import Interpolation, Passes, arithmetic_of
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .frame_problem import FrameSurface
from .resize_taps import LONG_AXIS, AxisGeometry, Box, WindowTaps, filtered_axes, window_taps

Place: TypeAlias = tuple[int, int, int, int]
"""Top, left, height and width of a resized box in the target, in pixels."""


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
    With `cuts`, the whole pixels that the box touches are cut out before they are resized, as by Pillow's `crop`: taps
    end at their edges, and the order of passes goes by their sizes. Without, Pillow's taps reach beyond the box, as
    with its `box=`.
    """

    layout: Layout
    box: Box
    place: Place
    flip: bool = False
    surface: FrameSurface | None = None
    cuts: bool = False

    def describe(self) -> str:
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
    element for each image channel, as bytes: it is converted like a resized pixel and fills what no image covers. It is
    empty where anything may be there.
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
        return self._bytes_read + self._bytes_written

    @property
    def _bytes_written(self) -> int:
        return self.target.layout.element_count * self.conversion.target.itemsize

    @property
    def _bytes_read(self) -> int:
        if self.window is None:
            return 0
        conversion, count = self.conversion, self.target.layout.sizes[0]
        pixels, surface = self.taps(self.window).source_pixels, self.window.surface
        if surface is not None:
            down, right = surface.samples.chroma_step
            others = len(surface.samples.channels) - 1
            return count * (pixels + others * pixels // (down * right)) * conversion.source.itemsize
        channels = self.channels if conversion.channels is None else len(set(conversion.channels))
        return count * channels * pixels * conversion.source.itemsize

    def describe(self) -> list[str]:
        """The problem in lines, as plans explain it: sizes, taps, passes, arithmetic, conversion and bytes."""
        count, channels, height, width = self.target.layout.sizes
        conversion, window = self.conversion, self.window
        lines = [f"{count} images of {height} x {width} pixels, {channels} channels each: {self.rule.interpolation}"]
        if window is None:
            lines.append("boxes and sizes of the sources come with every call")
            if self.reads_frames:
                lines.append("frames, whose rows are converted as they are read")
        else:
            lines += self._window_words(window, count * (channels if conversion.matrix is None else self.channels))
        if self.rule.premultiplies:
            lines.append("colours are multiplied by alpha before the first pass and divided by it behind the second")
        lines.append(f"{conversion}" + (": pixels keep their type" if conversion.is_bitwise_copy else ""))
        read = "" if window is None else f"reads {self._bytes_read:,} bytes, "
        lines.append(f"{read}writes {self._bytes_written:,} bytes")
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

    def visible(self, window: ResizeWindow) -> Place:
        """The part of a window's place inside the target: top, left, height and width."""
        top, left, height, width = window.place
        _, _, rows, columns = self.target.layout.sizes
        first, begin = max(top, 0), max(left, 0)
        return first, begin, max(0, min(top + height, rows) - first), max(0, min(left + width, columns) - begin)

    def resized(self, window: ResizeWindow) -> tuple[tuple[int, int], Box, tuple[int, int]]:
        """Height and width of what is resized, the box in it, and the row and column at which it begins."""
        (_, height, width), (top, left, bottom, right) = window.layout.sizes, window.box
        if not (window.cuts or self.rule.interpolation.cuts_boxes):
            return (height, width), window.box, (0, 0)
        first, begin = int(top), int(left)
        sizes = ceil(bottom) - first, ceil(right) - begin
        return sizes, (top - first, left - begin, bottom - first, right - begin), (first, begin)

    def axes(self, window: ResizeWindow) -> tuple[AxisGeometry, AxisGeometry]:
        """The geometry of a window down the rows, and along them."""
        (rows, columns), (top, left, bottom, right), _ = self.resized(window)
        return AxisGeometry(rows, top, bottom, window.place[2]), AxisGeometry(columns, left, right, window.place[3])

    def taps(self, window: ResizeWindow) -> WindowTaps:
        """The taps of the visible part of one image."""
        (sizes, box, origin), (top, left, *size) = self.resized(window), window.place
        first, begin, height, width = self.visible(window)
        return window_taps(
            self.rule.interpolation,
            self.rule.passes,
            self.conversion.source,
            self.channels,
            sizes,
            box,
            (size[0], size[1]),
            flip=window.flip,
            origin=origin,
            seen=None if [height, width] == size else (first - top, begin - left, height, width),
        )

    def taps_of(self, windows: Sequence[ResizeWindow]) -> list[WindowTaps]:
        """The taps of the visible part of each image; those of filters are computed together."""
        interpolation, element = self.rule.interpolation, self.conversion.source
        if interpolation.sampling == "filter":
            axes = [axis for window in windows for axis in self.axes(window) if axis.target <= LONG_AXIS]
            filtered_axes(interpolation, arithmetic_of(interpolation, element), axes)
        return [self.taps(window) for window in windows]
