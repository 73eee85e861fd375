"""Records of crop windows: what `sg::CropSample` says of each sample, worked out for a whole batch by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.planning.crop_windows import Crops, distinct_layouts
from stridedgpu.values.layout import Layout

__all__ = ["RECORD_BYTES", "crop_records"]

_RECORD: Final = np.dtype(
    [
        ("pixel", "<i8"),
        ("first", "<i8"),
        ("end", "<i8"),
        ("strides", "<i8", (3,)),
        ("edges", "<i4", (4,)),
        ("flip", "<u8"),
        ("padding", "V8"),
    ]
)
"""`sg::CropSample`, aligned to 16 bytes. Addresses wrap around at 64 bits, and so do sums on the device."""

RECORD_BYTES: Final = _RECORD.itemsize


def crop_records(crops: Crops, addresses: NDArray[np.int64], size: tuple[int, int], itemsize: int) -> NDArray[np.uint8]:
    """The records of the samples, as bytes; `size` is a window's, in pixels.

    `addresses` are those of each source's lowest element, as two's complement of 64 bits.
    """
    facts = _facts_of(crops.layouts)
    strides, extents, offsets, spans = facts[:, :3], facts[:, 3:5], facts[:, 5], facts[:, 6]
    origins, window = crops.origins, np.array(size)
    starts = np.minimum(np.maximum(-origins, 0), window)
    stops = np.minimum(np.maximum(extents - origins, 0), window)
    is_over = starts < stops
    records = np.zeros(len(addresses), _RECORD)
    if is_over.all():
        inside = origins
    else:
        # If the window is outside the source, its distance does not matter.
        inside = np.where(is_over.all(1, keepdims=True), origins, 0)
        starts, stops = starts * is_over, stops * is_over
    pixels = offsets + inside[:, 0] * strides[:, 1] + inside[:, 1] * strides[:, 2]
    records["pixel"] = addresses + pixels * itemsize
    records["first"] = addresses
    records["end"] = addresses + spans * itemsize
    records["strides"] = strides
    edges = records["edges"]
    edges[:, 0::2] = starts
    edges[:, 1::2] = stops
    records["flip"] = np.frombuffer(bytes(crops.flips), np.uint8)  # a third of the time of a list of bools
    return records.view(np.uint8)


def _facts_of(layouts: Sequence[Layout]) -> NDArray[np.int64]:
    """Strides, height, width, offset and span of each layout; one row where all are one layout."""
    distinct = distinct_layouts(layouts)
    table = np.array(
        [(*layout.strides, *layout.sizes[1:], layout.offset, layout.span) for layout in distinct.values()], np.int64
    ).reshape(-1, 7)
    if len(distinct) <= 1:
        return table
    rows = {known: place for place, known in enumerate(distinct)}
    return table[list(map(rows.__getitem__, map(id, layouts)))]
