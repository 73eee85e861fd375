"""Patches of images, and how many there are.

Source: transformers, models/*/image_processing_*.py (`_preprocess`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stridedgpu.adapters.image_processors.sizes import Size
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.operand import Operand
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout

from .job import Images, Job, Listed, Results, all_placed, largest


def patches(job: Job, images: Images) -> Results:
    """Qwen2-VL: all patches of all images in one array. An image is the one frame of a stack, repeated."""
    flat, placements, _ = all_placed(job, images)
    patches, grids = stacks(job, flat, placements, range(len(flat)), are_stills=True)
    return {"pixel_values": patches, "image_grid_thw": np.array([(1, *grid) for grid in grids], np.int64)}


def stacks(
    job: Job, frames: Sequence[Operand], placements: Sequence[Placement], firsts: Sequence[int], *, are_stills: bool
) -> tuple[StridedTensor, list[Size]]:
    """The patches of stacks of `temporal_patch_size` frames, and how many each stack has along its height and width.

    `firsts` numbers the first frame of each stack. The others follow it; with `are_stills` they are the same frame.
    Patches lie in the order of the windows that the model merges.
    """
    values = job.values
    patch, merge, times = values["patch_size"], values["merge_size"], values["temporal_patch_size"]
    windows = [placements[first].size for first in firsts]
    for height, width in windows:
        if height % (patch * merge) or width % (patch * merge):
            raise LayoutError(
                f"An image of {height} x {width} pixels has no whole number of patches of {patch * merge} pixels: "
                "do_resize=True gives it one."
            )
    pixels = job.renderer.plain.batch(frames, placements, largest(windows)).operand
    channels = frames[0].layout.sizes[0]
    grids = [(height // patch, width // patch) for height, width in windows]
    counts = [down * across for down, across in grids]
    rows = job.renderer.rows((sum(counts), channels * times * patch * patch), channels)
    frame = 0 if are_stills else pixels.layout.strides[0]
    written = 0
    for first, (down, across), count in zip(firsts, grids, counts, strict=True):
        image = pixels.layout.sliced(first)
        # Axes: rows and columns of merged windows, those inside a window, channels, time, rows and columns of a patch.
        counted = (down // merge, across // merge, merge, merge, channels, times, patch, patch)
        plane, line, column = image.strides
        step = patch * merge
        strides = (line * step, column * step, line * patch, column * patch, plane, frame, line, column)
        target = Layout(counted, offset=rows.operand.layout.offset + written * rows.sizes[1])
        job.renderer.rearranged(pixels, Layout(counted, strides, image.offset), rows, target, 4)
        written += count
    return job.renderer.finished(rows, channels), grids


def packed_patches(job: Job, images: Images) -> Results:
    """SigLIP 2: the patches of each image, filled up to `max_num_patches`, with masks and the numbers of patches."""
    flat, placements, windows = all_placed(job, images)
    patch, most = job.values["patch_size"], job.values["max_num_patches"]
    shapes = [(height // patch, width // patch) for height, width in windows]
    for (height, width), (down, across) in zip(windows, shapes, strict=True):
        if (down * patch, across * patch) != (height, width) or down * across > most:
            raise LayoutError(
                f"An image of {height} x {width} pixels is no whole number of patches of {patch} pixels, or more than "
                f"{most}: do_resize=True gives it one."
            )
    pixels = job.renderer.plain.batch(flat, placements, largest(windows)).operand
    channels = flat[0].layout.sizes[0]
    rows = job.renderer.rows((len(flat), most, patch * patch * channels), channels)
    for row, (down, across) in enumerate(shapes):
        image = pixels.layout.sliced(row)
        counted = (down, across, patch, patch, channels)
        plane, line, column = image.strides
        opened = Layout(counted, (line * patch, column * patch, line, column, plane), image.offset)
        target = Layout(counted, offset=rows.operand.layout.offset + row * most * rows.sizes[2])
        job.renderer.rearranged(pixels, opened, rows, target, 4)
    patches = job.renderer.finished(rows, channels)
    masks = np.zeros((len(flat), most), np.int32)
    for row, (down, across) in enumerate(shapes):
        masks[row, : down * across] = 1
        if down * across < most:
            patches[row, down * across :][...] = 0
    return {"pixel_values": Listed(patches), "pixel_attention_mask": Listed(masks), "spatial_shapes": shapes}
