"""Patches of images, and how many there are.

Source: transformers, models/*/image_processing_*.py (`_preprocess`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.adapters.image_processors.normalising import Normalising
from stridedgpu.adapters.image_processors.sizes import Size
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.operand import Operand
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout

from .job import Images, Job, Listed, Moved, Patching, Results, all_placed, flattened, largest


def patches(job: Job, images: Images) -> Results:
    """Qwen2-VL: all patches of all images in one array. An image is the one frame of a stack, repeated."""
    flat, placements, _ = all_placed(job, images)
    patches, grids = stacks(job, flat, placements, range(len(flat)), are_stills=True)
    return {"pixel_values": patches, "image_grid_thw": np.array([(1, *grid) for grid in grids], np.int64)}


def patches_and_merges(job: Job, images: Images) -> Results:
    """VideoLLaMA 3: the same with the `merge_size` of each image."""
    found = patches(job, images)
    merges = np.full(len(found["image_grid_thw"]), job.values["merge_size"], np.int64)
    return {**found, "image_merge_sizes": merges}


def grid_patches(job: Job, images: Images) -> Results:
    """NeoMME: all patches of all images in one array, of images that are no stacks."""
    flat, placements, _ = all_placed(job, images)
    patches, grids = stacks(job, flat, placements, range(len(flat)), are_stills=True)
    return {"pixel_values": patches, "image_grid_hw": np.array(grids, np.int64)}


def float_patches(job: Job, images: Images) -> Results:
    """Nemotron Omni: the same of images that are resized as floats; the number of images bounds their sizes."""
    values = {**job.declared.values, "images": len(flattened(images))}
    job = replace(job, declared=replace(job.declared, values=values))
    flat, placements, windows = all_placed(job, images)
    pixels = job.renderer.batch(flat, placements, largest(windows)).operand
    moving = replace(job, renderer=replace(job.renderer, how=Normalising(job.backend, first=1.0)))
    channels, patch = flat[0].layout.sizes[0], values["patch_size"]
    grids = [(height // patch, width // patch) for height, width in windows]
    ends = [0, *accumulate(down * across for down, across in grids)]
    rows = moving.renderer.rows((ends[-1], *job.patching.sizes(channels)), channels)
    for row, (grid, first) in enumerate(zip(grids, ends, strict=False)):
        write_patches(moving, pixels.with_layout(pixels.layout.sliced(row)), grid, rows, first)
    return {"pixel_values": rows, "image_grid_hw": np.array(grids, np.int64)}


def stacks(
    job: Job, frames: Sequence[Operand], placements: Sequence[Placement], firsts: Sequence[int], *, are_stills: bool
) -> tuple[StridedTensor, list[Size]]:
    """The patches of stacks of `temporal_patch_size` frames, and how many each stack has along its height and width.

    `firsts` numbers the first frame of each stack. The others follow it; with `are_stills` they are the same frame.
    Patches lie in the order of the windows that the model merges.
    """
    channels = frames[0].layout.sizes[0]
    windows = [placements[first].size for first in firsts]
    grids = [grid_of(job, window) for window in windows]
    pixels = job.renderer.plain.batch(frames, placements, largest(windows)).operand
    counts = [down * across for down, across in grids]
    rows = job.renderer.rows((sum(counts), *job.patching.sizes(channels)), channels)
    frame = 0 if are_stills else pixels.layout.strides[0]
    written = 0
    for first, grid, count in zip(firsts, grids, counts, strict=True):
        write_patches(job, pixels.with_layout(pixels.layout.sliced(first)), grid, rows, written, frame)
        written += count
    return job.renderer.finished(rows, channels), grids


def grid_of(job: Job, size: Size) -> Size:
    """How many patches lie along a height and a width. Raises `LayoutError` for parts of those that are merged."""
    patch, whole = job.patching.patch, job.patching.merged
    if size[0] % whole or size[1] % whole:
        raise LayoutError(
            f"An image of {size[0]} x {size[1]} pixels has no whole number of patches of {whole} pixels: "
            "do_resize=True gives it one."
        )
    return size[0] // patch, size[1] // patch


def write_patches(job: Job, image: Operand, grid: Size, rows: StridedTensor, first: int, frame: int = 0) -> None:
    """Write the patches of an image of bytes, by the arithmetic, from row `first` on.

    `grid` is how many patches lie along its height and width. The next frame of its stack lies `frame` elements on.
    """
    layout = image.layout
    channels = layout.sizes[0]
    opened, target, axis = _layouts(job.patching, channels, layout.strides, grid, frame)
    start = rows.operand.layout.offset + first * prod(job.patching.sizes(channels))
    job.renderer.rearranged(image, opened.shifted(layout.offset), rows, target.shifted(start), axis)


@lru_cache(maxsize=256)
def _layouts(
    patching: Patching, channels: int, strides: tuple[int, ...], grid: Size, frame: int
) -> tuple[Layout, Layout, int]:
    """An image with the axes of its patches, these patches one behind the other, and which axis is the channels'."""
    plane, line, column = strides
    patch, merge = patching.patch, patching.merge
    counted = {**patching.lengths(channels), "H": grid[0] // merge, "W": grid[1] // merge}
    steps = {"H": line * patch * merge, "W": column * patch * merge, "h": line * patch, "w": column * patch}
    steps |= {"c": plane, "t": frame, "y": line, "x": column}
    order = patching.axes.replace(" ", "")
    sizes = tuple(counted[axis] for axis in order)
    return Layout(sizes, tuple(steps[axis] for axis in order)), Layout(sizes), order.index("c")


def write_merged(job: Job, image: Operand, shape: Size, rows: StridedTensor, first: int) -> None:
    """Write the patches of an image; where several are one, `shape` counts these."""
    merge = job.patching.merge
    write_patches(job, image, (shape[0] * merge, shape[1] * merge), rows, first)


def packed_patches(job: Job, images: Images) -> Results:
    """SigLIP 2: the patches of each image, filled up to `max_num_patches`, with masks and the numbers of patches."""
    most = job.values["max_num_patches"]
    flat, placements, _ = all_placed(job, images)
    patches, shapes = filled_up(job, flat, placements, most)
    masks = np.zeros((len(shapes), most), np.int32)
    for row, (down, across) in enumerate(shapes):
        masks[row, : down * across] = 1
    return {"pixel_values": Listed(patches), "pixel_attention_mask": Listed(masks), "spatial_shapes": shapes}


_SOFT_TOKENS: Final = (70, 140, 280, 560, 1120)


def positioned_patches(job: Job, images: Images) -> Results:
    """Gemma 4: the patches of each image, filled up, with the column and the row of each: -1 where there is none."""
    most, patches_of = soft_tokens(job)
    flat, placements, _ = all_placed(job, images)
    patches, shapes = filled_up(job, flat, placements, most * patches_of)
    positions = Moved(positions_of(shapes, most * patches_of))
    counts = [down * across // patches_of for down, across in shapes]
    return {"pixel_values": patches, "image_position_ids": positions, "num_soft_tokens_per_image": counts}


def soft_tokens(job: Job) -> tuple[int, int]:
    """The most tokens of an image of Gemma 4, and how many patches each has."""
    most, pool = job.values["max_soft_tokens"], job.values["pooling_kernel_size"] ** 2
    if most not in _SOFT_TOKENS:
        raise LayoutError(f"max_soft_tokens={most} is not taken; it is one of {', '.join(map(str, _SOFT_TOKENS))}.")
    return most, 1 if "h" in job.declared.kind.axes else pool


def positions_of(shapes: Sequence[Size], most: int) -> NDArray[np.int64]:
    """The column and the row of each patch of images with so many patches down and across; -1 behind them."""
    positions = np.full((len(shapes), most, 2), -1, np.int64)
    for row, (down, across) in enumerate(shapes):
        lines, columns = np.indices((down, across))
        positions[row, : down * across] = np.stack([columns, lines], -1).reshape(-1, 2)
    return positions


def whole_patches(job: Job, size: Size, most: int) -> Size:
    """How many patches lie along a height and a width. Raises `LayoutError` for parts of one and for more than most."""
    factor = job.patching.merged
    down, across = size[0] // factor, size[1] // factor
    if (down * factor, across * factor) != size or down * across > most:
        raise LayoutError(
            f"An image of {size[0]} x {size[1]} pixels is no whole number of patches of {factor} pixels, or "
            f"more than {most}: do_resize=True gives it one."
        )
    return down, across


def filled_up(
    job: Job, images: Sequence[Operand], placements: Sequence[Placement], most: int
) -> tuple[StridedTensor, list[Size]]:
    """The patches of each image with zeros behind them, up to `most`, and how many lie along its height and width."""
    windows = [placement.size for placement in placements]
    channels = images[0].layout.sizes[0]
    shapes = [whole_patches(job, window, most) for window in windows]
    pixels = job.renderer.plain.batch(images, placements, largest(windows)).operand
    rows = job.renderer.rows((len(images), most, *job.patching.sizes(channels)), channels)
    for row, (down, across) in enumerate(shapes):
        image = pixels.with_layout(pixels.layout.sliced(row))
        write_merged(job, image, (down, across), rows, row * most)
    patches = job.renderer.finished(rows, channels)
    for row, (down, across) in enumerate(shapes):
        if down * across < most:
            patches[row, down * across :][...] = 0
    return patches, shapes
