"""`CropPlan`: windows of images of any sizes into one batch, converted on the way, as a value.

Where the windows lie changes with every call and is no part of the plan; `Crop` says it for one sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from stridedgpu.devices.cuda.planning.policy import policy
from stridedgpu.devices.cuda.planning.widths import (
    Bound,
    Width,
    alignment_bound,
    bounded_width,
    stride_bound,
)
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .device_plan import Accesses, index_bits

__all__ = ["Crop", "CropFamily", "CropPlan", "Rectangle", "covered", "plan_crops", "rectangles", "source_steps"]

_WORD: Final = 4
"""Bytes that a run of a source is read by where its address allows no more."""

_LONGEST_RUN: Final = 32
"""Bytes of one channel of a source that a thread holds in registers for a store."""

_LONGEST_PIXELS: Final = 96
"""The same of whole pixels: 32 of 3 bytes, or 8 of 3 float32."""

_WIDEST_PIXEL: Final = 4
"""Channels of the widest pixel that is taken apart in registers, with those that are not wanted."""


class CropFamily(StrEnum):
    """Kinds of crops, after what lies side by side on both sides."""

    PLANES = "planes"
    RUNS = "runs"
    SPLIT = "split"
    PIXELS = "pixels"

    @property
    def description(self) -> str:
        """The family in plain words."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS: Final = {
    CropFamily.PLANES: "planes: a store takes neighbouring columns of one channel",
    CropFamily.RUNS: "runs: a store takes neighbouring elements of pixels with all their channels",
    CropFamily.SPLIT: "split: pixels are read whole, once, and stored as neighbouring columns of each channel",
    CropFamily.PIXELS: "pixels: pixels are read whole, once, and stored whole",
}


_ELEMENT_BY_ELEMENT: Final = {CropFamily.SPLIT: CropFamily.PLANES, CropFamily.PIXELS: CropFamily.RUNS}
"""What takes the place of families where a vector's pixels are no whole words."""


class Crop(NamedTuple):
    """One sample's window.

    `layout` is that of its source, axes C, H, W, in elements from the lowest one. `origin` is the row and column of
    the source that come first in the window, in pixels; either may lie outside. `flip` mirrors left and right.
    """

    layout: Layout
    origin: tuple[int, int]
    flip: bool = False


class Rectangle(NamedTuple):
    """Part of a window, in pixels: rows and columns of the window before it is flipped, and where they come from.

    `source` is the first row and column in the source, or None where there is no source and the fill value goes.
    """

    rows: slice
    columns: slice
    source: tuple[int, int] | None


def covered(origin: int, size: int, extent: int) -> slice:
    """Which of a window's `size` rows or columns lie over a source with `extent` of them; an empty slice if none.

    >>> covered(-2, 5, 10), covered(8, 5, 10), covered(10, 5, 10)
    (slice(2, 5, None), slice(0, 2, None), slice(0, 0, None))
    """
    first, stop = (min(max(edge, 0), size) for edge in (-origin, extent - origin))
    return slice(first, stop) if first < stop else slice(0, 0)


def rectangles(crop: Crop, size: tuple[int, int]) -> Iterator[Rectangle]:
    """The part of a window that lies over its source, if any, and the up to four beside it.

    >>> [part.source for part in rectangles(Crop(Layout((3, 10, 10)), (-2, 4)), (5, 6))]
    [None, (0, 4)]
    """
    height, width = size
    if not height or not width:
        return
    _, source_height, source_width = crop.layout.sizes
    (y, x) = crop.origin
    inner_rows, inner_columns = covered(y, height, source_height), covered(x, width, source_width)
    if inner_rows.start == inner_rows.stop or inner_columns.start == inner_columns.stop:
        yield Rectangle(slice(0, height), slice(0, width), None)
        return
    beside = (
        (slice(0, inner_rows.start), slice(0, width)),
        (slice(inner_rows.stop, height), slice(0, width)),
        (inner_rows, slice(0, inner_columns.start)),
        (inner_rows, slice(inner_columns.stop, width)),
    )
    for rows, columns in beside:
        if rows.start < rows.stop and columns.start < columns.stop:
            yield Rectangle(rows, columns, None)
    yield Rectangle(inner_rows, inner_columns, (y + inner_rows.start, x + inner_columns.start))


@dataclass(frozen=True, slots=True)
class CropPlan(Accesses):
    """Crops, planned: what is written and how wide.

    `target` is the batch, axes N, C, H, W; `fill` is one source element for each source channel, as bytes, which is
    converted like any other. `load` is the width of a load where the window's place allows it (its columns start
    anywhere, so each row finds out; words of 4 bytes, put together, elsewhere); `store` that of a store. `reads_runs`
    says that what a store takes follows each other in the sources, too; `source_steps` are the channel and column
    strides that all sources share, 0 where they differ.
    """

    target: TensorSpec
    conversion: Conversion
    fill: bytes
    device: str
    load: Width
    store: Width
    family: CropFamily
    reads_runs: bool
    source_steps: tuple[int, int]
    index_bits: int

    def __hash__(self) -> int:
        """Equal for equal plans, from what tells them apart most often: every call looks its launch up by one."""
        return hash((self.target.layout.sizes, self.target.layout.strides, self.source_steps, self.fill))

    @property
    def kernel(self) -> str:
        """The kernel's name: its family, then what is read and what is written, with the bytes of an access."""
        made = self.conversion
        return f"crops_{self.family}_{made.source}x{self.load.nbytes}B_{made.target}x{self.store.nbytes}B"

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read, where windows lie inside their sources, and written."""
        made = self.conversion
        return self.target.layout.element_count * (made.source.itemsize + made.target.itemsize)

    def takes(self, source_steps: tuple[int, int]) -> bool:
        """Whether sources with these channel and column strides may be read as planned."""
        channel, column = source_steps
        if not self.reads_runs:
            return True
        return column == self.source_steps[1] and (self.family is CropFamily.PLANES or channel == self.source_steps[0])

    def explain(self) -> str:
        """The plan in plain words."""
        batch, channels, height, width = self.target.layout.sizes
        lines = [
            f"{self.kernel} on {self.device}",
            f"  {self.family.description}",
            f"  {batch} windows of {height} x {width} pixels, {channels} channels each",
            f"  {self.conversion}" + (": bits move unchanged" if self.conversion.moves_bits else ""),
            f"  writes in steps of {self.target.layout.strides} elements along N, C, H, W",
            *(f"  {access}" for access in self.access_words()),
            "  outside a source: the fill value, converted like any other",
            f"  {self.index_bits}-bit offsets",
            f"  {self.bytes_moved} bytes must move",
        ]
        return "\n".join(lines)


@lru_cache(maxsize=1024)
def plan_crops(
    target: TensorSpec,
    source_steps: tuple[int, int],
    conversion: Conversion,
    fill: bytes,
    device: str,
    widest: int = 16,
) -> CropPlan:
    """The plan for windows into `target`; `source_steps` are the sources' channel and column strides, 0 if they differ.

    `widest` is the largest access of the device, in bytes.
    """
    layout, itemsize = target.layout, conversion.source.itemsize
    family = _family(layout, source_steps, conversion, len(fill) // itemsize)
    whole = family in (CropFamily.SPLIT, CropFamily.PIXELS)
    pixel_bytes = itemsize * source_steps[1] if whole else itemsize
    store = _store_width(target, family, pixel_bytes, widest)
    length = store.nbytes // conversion.target.itemsize
    run = length * pixel_bytes
    follows = _follows(family, layout, source_steps, conversion)
    reads_runs = follows and run % max(itemsize, _WORD) == 0
    if reads_runs:
        width = min(run & -run, widest)
        load = Width(width, "" if width == widest else f"what one store takes are {run} B of a source")
    else:
        short = f"what one store takes are {run} B of a source, less than a word"
        reason = short if follows else "the sources' elements do not lie in the target's order"
        load = Width(min(itemsize, widest), reason)
        family = _ELEMENT_BY_ELEMENT.get(family, family)
    bits = index_bits(layout.span)
    return CropPlan(target, conversion, fill, device, load, store, family, reads_runs, source_steps, bits)


def _family(target: Layout, source_steps: tuple[int, int], conversion: Conversion, source_channels: int) -> CropFamily:
    """The family of crops, from what lies side by side."""
    _, count, _, width = target.sizes
    channel, pitch = source_steps
    chosen = tuple(conversion.channels or range(source_channels))
    whole = channel == 1 and max(source_channels, 2) <= pitch <= _WIDEST_PIXEL
    if target.strides[3] == count > 1 and target.strides[1] == 1:
        return CropFamily.PIXELS if whole and count <= _WIDEST_PIXEL else CropFamily.RUNS
    splits = whole and len(set(chosen)) == len(chosen) and (target.strides[3] == 1 or width == 1)
    return CropFamily.SPLIT if splits else CropFamily.PLANES


def _follows(family: CropFamily, target: Layout, source_steps: tuple[int, int], conversion: Conversion) -> bool:
    """Whether the elements of a vector of the target follow each other in the sources."""
    if family is CropFamily.RUNS:
        return source_steps == (1, target.sizes[1]) and conversion.channels is None
    if family is CropFamily.PLANES:
        return source_steps[1] == 1 and (target.strides[3] == 1 or target.sizes[3] == 1)
    return True


def _store_width(target: TensorSpec, family: CropFamily, pixel_bytes: int, widest: int) -> Width:
    """How wide a row of the target may be written: its run, its steps and its alignment must be whole vectors.

    `pixel_bytes` are what is read of a source for one element that is stored side by side with others.
    """
    layout, itemsize = target.layout, target.element.itemsize
    channels, _, width = layout.sizes[1:]
    pixels_run = family in (CropFamily.RUNS, CropFamily.PIXELS)
    if not pixels_run and layout.strides[3] != 1 and width != 1:
        return Width(min(itemsize, widest), "the target's columns do not lie side by side")
    outer = (0, 2) if pixels_run else (0, 1, 2)
    run = (channels if pixels_run else 1) * width * itemsize
    lowest = layout.offset
    longest = _LONGEST_PIXELS if family in (CropFamily.SPLIT, CropFamily.PIXELS) else _LONGEST_RUN
    most = longest // pixel_bytes
    bounds = [
        alignment_bound("target", target.alignment),
        *(
            stride_bound("target", abs(layout.strides[axis]) * itemsize, widest)
            for axis in outer
            if layout.sizes[axis] > 1
        ),
        Bound((1 << most.bit_length() - 1) * itemsize, f"a thread holds up to {longest} B of a source"),
    ]
    if lowest:
        bounds.append(Bound(lowest * itemsize & -(lowest * itemsize), "the target runs backwards"))
    if run < policy().family.peeled_run_bytes and not target.owns_padding:
        bounds.append(Bound(run & -run, f"a run of the target is {run} B long and what follows is not ours"))
    return bounded_width(bounds, itemsize, widest)


def source_steps(layouts: Sequence[Layout]) -> tuple[int, int]:
    """The channel and column strides that all sources share, each 0 where they differ or there is no source."""
    if not layouts:
        return 0, 0
    first = layouts[0]
    channel, _, column = first.strides
    for layout in layouts:
        if layout is not first:  # the images of a batch have one layout
            strides = layout.strides
            channel = channel if strides[0] == channel else 0
            column = column if strides[2] == column else 0
    return channel, column
