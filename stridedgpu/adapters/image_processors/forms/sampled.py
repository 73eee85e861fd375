"""Phi-4 multimodal: tiles of an image, and the whole, which is sampled from the normalised tiles.

torch resizes the whole without antialiasing, from a whole number of tiles to one. Each pixel is that in the middle of
so many along a side where they are odd, and a sum of four where they are even, whose factors are exact in float32.
torch's loops for AVX2 and AVX-512 sum by fused multiply-adds.

Source: transformers, models/phi4_multimodal/image_processing_phi4_multimodal.py; torch, UpSampleKernel.cpp.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import floor
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.adapters.image_processors.normalising import Normalising
from stridedgpu.adapters.image_processors.rendering import resize_rule
from stridedgpu.adapters.image_processors.sizes import Grid
from stridedgpu.adapters.image_processors.windows import grid_places, square_side, whole_place
from stridedgpu.values.errors import LayoutError

from .job import Images, Job, Moved, Results, flattened, sizes_of

_BILINEAR: Final = 2
_WHITE: Final = 255
_LEAST_SIDE: Final = 10
_FACTORS: Final = ((0, 0.59375), (-1, -0.09375), (1, 0.59375), (2, -0.09375))
"""The cubic filter with a = -0.75 half-way between pixels 0 and 1, in the order in which torch's loops sum."""


def tiles_and_samples(job: Job, images: Images) -> Results:
    """Each image in white at the top left of a grid of tiles, the whole in front, with masks and numbers of tokens."""
    values, side, flat = job.values, square_side(job.values), flattened(images)
    if resize_rule(values["resample"], job.backend).interpolation.name != "torch-bicubic":
        raise LayoutError(f"resample={values['resample']!r} is not reproduced for this processor: it is 3.")
    if side < values["patch_size"]:
        raise LayoutError(f"patch_size={values['patch_size']} must be at most size={values['size']!r}.")
    if not _is_exact(job.renderer.how, flat[0].layout.sizes[0]):
        raise LayoutError(
            "do_rescale, rescale_factor, image_mean and image_std must give floats from 2**-20 to 8, or 0."
        )
    white = (_WHITE,) * flat[0].layout.sizes[0]
    renderer = replace(job.renderer, rule=resize_rule(_BILINEAR, job.backend), colour=white)
    rows, places, grids, shown = [], [], [], []
    for image, size in zip(flat, sizes_of(flat), strict=True):
        grid = job.declared.kind.grids(values, size)
        (down, across), (height, width) = (grid[0] * side, grid[1] * side), size
        if across / width < down / height:
            resized = int(height * (across / width)), across
        else:
            resized = down, int(width * (down / height))
        if min(resized) < _LEAST_SIDE:
            raise LayoutError(f"An image of {height} x {width} pixels becomes {resized[0]} x {resized[1]}: too narrow.")
        # The first place of an image is that of the whole, which is sampled afterwards.
        tiles = grid_places(size, grid, (side, side), resized)
        rows += [image] * (1 + len(tiles))
        places += [whole_place(size, size)._replace(place=(side, 0, *size), size=(side, side)), *tiles]
        grids.append(grid)
        shown.append(resized)
    batch = renderer.batch(rows, places, (side, side))
    near = batch.to_device("cpu").numpy()
    most = 1 + max(down * across for down, across in grids)
    pixels = np.zeros((len(flat), most, *near.shape[1:]), np.float32)
    masks = np.ones((len(flat), most, *(side // values["patch_size"],) * 2), np.float32)
    tokens = []
    first = 0
    for row, ((down, across), resized) in enumerate(zip(grids, shown, strict=True)):
        count = down * across
        cut = near[first + 1 : first + 1 + count]
        pixels[row, 0] = _sampled(cut.reshape(down, across, *near.shape[1:]))
        pixels[row, 1 : 1 + count] = cut
        mask, number = _masked((down, across), resized, side, values["patch_size"])
        masks[row, 1 : 1 + count] = mask
        tokens.append(number)
        first += 1 + count
    return {
        "image_pixel_values": Moved(pixels),
        "image_sizes": Moved(np.array([(down * side, across * side) for down, across in grids], np.int64)),
        "image_attention_mask": Moved(masks),
        "num_img_tokens": tokens,
    }


@lru_cache(maxsize=64)
def _is_exact(how: Normalising, channels: int) -> bool:
    """Whether sums of four pixels are exact in float64 before they are rounded to float32."""
    if how.target.name != "float32":
        return False
    values = np.abs(how.table(channels))
    return bool(((values == 0) | ((values >= 2.0**-20) & (values <= 8))).all())


def _taps(side: int, count: int) -> list[tuple[NDArray[np.int64], float]]:
    """The pixels of `count` tiles of a side that are summed for each of one tile, and their factors."""
    places, last = np.arange(side) * count + (count - 1) // 2, side * count - 1
    if count % 2:
        return [(places, 1.0)]
    return [(np.clip(places + step, 0, last), factor) for step, factor in _FACTORS]


def _sampled(tiles: NDArray[np.float32]) -> NDArray[np.float32]:
    """One tile of a grid of them."""
    down, across, _, side, _ = tiles.shape
    total: Any = None
    for lines, factor in _taps(side, down):
        inner: Any = None
        for columns, weight in _taps(side, across):
            # Axes: lines, columns, channels.
            some = tiles[(lines // side)[:, None], columns // side, :, (lines % side)[:, None], columns % side]
            inner = _fused(some, weight, inner)
        total = _fused(inner, factor, total)
    result: NDArray[np.float32] = total.transpose(2, 0, 1)
    return result


def _fused(values: NDArray[np.float32], factor: float, total: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """A fused multiply-add: the product and the sum are exact in float64."""
    if total is None:
        return values if factor == 1 else values * np.float32(factor)
    return (values.astype(np.float64) * factor + total).astype(np.float32)


def _masked(grid: Grid, resized: tuple[int, int], side: int, patch: int) -> tuple[NDArray[np.float32], int]:
    """A mask of patches for each tile, 0 where there is white alone, and the number of tokens of an image."""
    (down, across), part = grid, side // patch
    mask = np.ones((down * part, across * part), np.float32)
    below, beside = down * side - resized[0], across * side - resized[1]
    if beside >= patch:
        mask[:, -floor(beside / patch) :] = 0
    if below >= patch:
        mask[-floor(below / patch) :, :] = 0
    tiled = mask.reshape(down, part, across, part).transpose(0, 2, 1, 3)
    halved = tiled[:, :, ::2, ::2].transpose(0, 2, 1, 3)
    halved = halved.reshape(halved.shape[0] * halved.shape[1], -1)
    tokens = _WHOLE_TOKENS + int(halved.sum()) + int(halved[:, 0].sum())
    return tiled.reshape(-1, part, part), tokens


_WHOLE_TOKENS: Final = 256 + 1 + 16
"""Of the whole, and between tiles."""
