"""Crop windows of images of any sizes, converted and gathered into one batch, as values.

`CropProblem` is what all windows have in common. `Crop` is the position of one window, which changes with every call,
and `Crops` are those of a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.values.conversion import Conversion
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec


@dataclass(frozen=True, slots=True)
class CropProblem:
    """Windows into `target`, a batch with axes N, C, H, W.

    `source_steps` are the channel and column strides that all sources share, in elements, 0 where they differ. `fill`
    is one source element for each source channel, as bytes; it is converted like any other.
    """

    target: TensorSpec
    source_steps: tuple[int, int]
    conversion: Conversion
    fill: bytes

    def __hash__(self) -> int:
        """Equal for equal problems; hashes first what differs most often, since every call looks its plan up."""
        return hash((self.target.layout.sizes, self.target.layout.strides, self.source_steps, self.fill))

    @property
    def source_channels(self) -> int:
        """Channels of each source."""
        return len(self.fill) // self.conversion.source.itemsize

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read, if all windows lie inside their sources, and written."""
        conversion, written = self.conversion, self.target.layout.element_count
        read = written if conversion.matrix is None else written // len(conversion.matrix) * self.source_channels
        return read * conversion.source.itemsize + written * conversion.target.itemsize

    def takes(self, source_steps: tuple[int, int]) -> bool:
        """True if a plan for this problem can run on sources with these channel and column strides.

        If columns are contiguous, each channel is a plane, and the distance between planes may be anything.
        """
        channel, column = self.source_steps
        return column in (0, source_steps[1]) and (column == 1 or channel in (0, source_steps[0]))

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to move."""
        return 0 in self.target.layout.sizes

    def describe(self) -> list[str]:
        """The lines that `explain()` prints for the problem."""
        batch, channels, height, width = self.target.layout.sizes
        return [
            f"{batch} windows of {height} x {width} pixels, {channels} channels each",
            f"{self.conversion}" + (": bits move unchanged" if self.conversion.is_bitwise_copy else ""),
            f"writes in steps of {self.target.layout.strides} elements along N, C, H, W",
            "outside a source: the fill value, converted like any other",
            f"{self.bytes_moved} bytes must move",
        ]


class Crop(NamedTuple):
    """One sample's window.

    `layout` is the source's, with axes C, H, W, in elements from the lowest one. `origin` is the row and column, in
    pixels of the source, of the window's first pixel, and may lie outside the source. `flip` mirrors left and right.
    """

    layout: Layout
    origin: tuple[int, int]
    flip: bool = False


@dataclass(frozen=True, slots=True)
class Crops:
    """The windows of one call, a column for each field of `Crop`; `origins` has a row and a column for each window.

    >>> [(crop.origin, crop.flip) for crop in Crops.of([Layout((3, 8, 8))], [(1, 2)], [True])]
    [((1, 2), True)]
    """

    layouts: Sequence[Layout]
    origins: NDArray[np.int64]
    flips: Sequence[bool]

    @classmethod
    def of(cls, layouts: Sequence[Layout], origins: Sequence[tuple[int, int]], flips: Sequence[bool]) -> Crops:
        """Windows with origins of Python integers."""
        return cls(layouts, np.array(origins, np.int64).reshape(-1, 2), flips)

    def __len__(self) -> int:
        return len(self.layouts)

    def __iter__(self) -> Iterator[Crop]:
        return map(Crop, self.layouts, map(tuple, self.origins.tolist()), self.flips)


class Rectangle(NamedTuple):
    """Part of a window, in pixels: its rows and columns in the unflipped window, and where they come from.

    `source` is the first row and column in the source, or None for a part outside the source, which gets the fill
    value.
    """

    rows: slice
    columns: slice
    source: tuple[int, int] | None


def covered(origin: int, size: int, extent: int) -> slice:
    """The slice of a window's `size` rows or columns that lie over a source of `extent` of them; empty if none.

    >>> covered(-2, 5, 10), covered(8, 5, 10), covered(10, 5, 10)
    (slice(2, 5, None), slice(0, 2, None), slice(0, 0, None))
    """
    first, stop = (min(max(edge, 0), size) for edge in (-origin, extent - origin))
    return slice(first, stop) if first < stop else slice(0, 0)


def overhang(crop: Crop, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """The rows above and below a source and the columns before and behind it, as many as a window has at most.

    >>> overhang(Crop(Layout((3, 10, 10)), (-2, 7)), (5, 6)), overhang(Crop(Layout((3, 10, 10)), (20, 0)), (5, 6))
    ((2, 0, 0, 3), (0, 5, 0, 0))
    """
    (y, x), (height, width), (_, rows, columns) = crop.origin, size, crop.layout.sizes
    return (
        min(max(-y, 0), height),
        min(max(y + height - rows, 0), height),
        min(max(-x, 0), width),
        min(max(x + width - columns, 0), width),
    )


def rectangles(crop: Crop, size: tuple[int, int]) -> Iterator[Rectangle]:
    """The part of a window that lies over its source, if any, and up to four parts around it.

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


def are_alike(layouts: Sequence[Layout]) -> bool:
    """Whether there are layouts, and all are one."""
    if not layouts:
        return False
    first = layouts[0]
    return layouts[-1] is first and layouts.count(first) == len(layouts)  # by identity, in C


def distinct_layouts(layouts: Sequence[Layout]) -> dict[int, Layout]:
    """The layouts without repetitions, by identity: images that are laid out alike have one layout."""
    if are_alike(layouts):
        return {id(layouts[0]): layouts[0]}
    return dict(zip(map(id, layouts), layouts, strict=True))


def source_steps(layouts: Sequence[Layout]) -> tuple[int, int]:
    """The channel and column strides that all sources share; 0 where they differ, or if there is no source."""
    if not layouts:
        return 0, 0
    channel, _, column = layouts[0].strides
    if are_alike(layouts):
        return channel, column
    for layout in distinct_layouts(layouts).values():
        strides = layout.strides
        channel = channel if strides[0] == channel else 0
        column = column if strides[2] == column else 0
    return channel, column
