"""Windows of volumes as windows of their slices: a window of D slices is D windows of images.

A batch N, C, D, H, W is planes with axes C, H, W. They are one launch if they lie at even steps: one channel in
NCDHW, any channels in NDHWC or NDCHW, or a single window. Otherwise there is a launch for each window, or for each
slice of all windows, whichever are fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.interface import Located
from stridedgpu.devices.operand import Operand
from stridedgpu.values.layout import Layout

from .images import CropSources

__all__ = ["planes_of"]

Planes = tuple[CropSources, NDArray[np.int64], list[bool], Operand]
"""Slices, the origins and mirroring of their windows, and where these are written, axes N, C, H, W."""


def planes_of(
    volumes: CropSources, origins: NDArray[np.int64], flips: Sequence[bool], target: Operand
) -> Iterator[Planes]:
    """The launches that write windows of volumes into `target`, axes N, C, D, H, W."""
    layout = target.layout
    count, channels, depth, height, width = layout.sizes
    if not layout.element_count:
        return
    down_batch, across, down, *inside = layout.strides
    numbers, places = np.arange(count), np.arange(depth)
    if count == 1 or depth == 1 or down_batch == depth * down:
        step = down if depth > 1 else down_batch
        together = Layout((count * depth, channels, height, width), (step, across, *inside), layout.offset)
        pairs = np.repeat(numbers, depth), np.tile(places, count)
        yield _planes(volumes, origins, flips, pairs, target.with_layout(together))
    elif count <= depth:
        for number in range(count):
            part = target.with_layout(layout.sliced(number).permuted((1, 0, 2, 3)))
            yield _planes(volumes, origins, flips, (np.full(depth, number), places), part)
    else:
        for place in range(depth):
            part = target.with_layout(layout.sliced((slice(None), slice(None), place)))
            yield _planes(volumes, origins, flips, (numbers, np.full(count, place)), part)


def _planes(
    volumes: CropSources,
    origins: NDArray[np.int64],
    flips: Sequence[bool],
    pairs: tuple[NDArray[np.int64], NDArray[np.int64]],
    target: Operand,
) -> Planes:
    """The planes of one launch; `pairs` are the number of each one's volume, and its place in the window."""
    numbers, places = pairs
    height, itemsize = target.layout.sizes[2], volumes.element.itemsize
    slices = origins[numbers, 0] + places
    extents = np.array([layout.sizes[1] for layout in volumes.layouts])[numbers]
    is_inside = (slices >= 0) & (slices < extents)
    starts = origins[numbers, 1:]
    starts[~is_inside, 0] = -height  # a slice outside its volume: above whatever slice stands in its place
    layouts: list[Layout] = []
    located: list[Located] = []
    for number, place in zip(numbers.tolist(), np.where(is_inside, slices, 0).tolist(), strict=True):
        buffer, start = volumes.places[number]
        plane, lowest, step = _plane(volumes.layouts[number])
        layouts.append(plane)
        located.append((buffer, start + (lowest + place * step) * itemsize))
    sources = replace(volumes, layouts=layouts, places=located, axes=2)
    return sources, starts, [flips[number] for number in numbers.tolist()], target


@lru_cache(maxsize=256)
def _plane(volume: Layout) -> tuple[Layout, int, int]:
    """The layout of a volume's slices from their lowest element, where that of slice 0 is, and the step to the next."""
    channels, depth, *_ = volume.sizes
    if not depth:
        return Layout((channels, 0, 0)), 0, 0
    plane = volume.sliced((slice(None), 0))
    return plane.shifted(-plane.first_offset), plane.first_offset, volume.strides[1]
