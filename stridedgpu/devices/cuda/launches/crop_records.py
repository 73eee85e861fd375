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
    # One row for each fact, so that NumPy's inner loops run along the samples.
    facts = _facts_of(crops.layouts)
    strides, extents, offsets, spans = facts[:3], facts[3:5], facts[5], facts[6]
    origins, window = crops.origins.T.copy(), np.array(size)[:, None]
    starts = np.minimum(np.maximum(-origins, 0), window)
    stops = np.minimum(np.maximum(extents - origins, 0), window)
    is_over = starts < stops
    records = np.zeros(len(addresses), _RECORD)
    if not is_over.all():
        # If the window is outside the source, its distance does not matter.
        origins *= is_over.all(0)
        starts *= is_over
        stops *= is_over
    pixels = offsets + origins[0] * strides[1] + origins[1] * strides[2]
    records["pixel"] = addresses + pixels * itemsize
    records["first"] = addresses
    records["end"] = addresses + spans * itemsize
    records["strides"] = strides.T
    edges = records["edges"]
    edges[:, ::2], edges[:, 1::2] = starts.T, stops.T
    records["flip"] = np.frombuffer(bytes(crops.flips), np.uint8)  # a third of the time of a list of bools
    return records.view(np.uint8)


def _facts_of(layouts: Sequence[Layout]) -> NDArray[np.int64]:
    """Rows of strides, height, width, offset and span; one column where all are one layout."""
    distinct = distinct_layouts(layouts)
    table = np.array(
        [(*layout.strides, *layout.sizes[1:], layout.offset, layout.span) for layout in distinct.values()], np.int64
    )
    table = table.reshape(-1, 7).T.copy()
    if len(distinct) <= 1:
        return table
    columns = {known: place for place, known in enumerate(distinct)}
    return table[:, list(map(columns.__getitem__, map(id, layouts)))]
