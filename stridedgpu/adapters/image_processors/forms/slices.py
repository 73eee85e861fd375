"""Images as a whole and in slices, whose patches lie in one array.

Source: transformers, models/*/image_processing_*.py (`_preprocess`).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from stridedgpu.adapters.image_processors import sizes
from stridedgpu.adapters.image_processors.sizes import Size
from stridedgpu.adapters.image_processors.windows import grid_places, slice_grid, slice_size, tile_count
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.operand import Operand
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout

from .job import Images, Job, Results, Stated, flattened, largest, sizes_of
from .patches import filled_up


def slices_side_by_side(job: Job, images: Images) -> Results:
    """MiniCPM-V 4.6 and MiniCPM-OCR: the patches of each image, and behind them those of its slices, along one axis."""
    if job.values.get("small_image_upsize") == "adaptive":
        raise LayoutError(
            "small_image_upsize='adaptive' is not reproduced, since it reads letters by OpenCV: 'always' is."
        )
    if not job.values["do_resize"]:
        raise LayoutError(
            f"do_resize=False of {job.declared.name} is not reproduced: its slices are parts of a resize."
        )
    flat, patch = flattened(images), job.values["patch_size"]
    rows: list[Operand] = []
    places: list[Placement] = []
    grids, counts = [], []
    for image, size in zip(flat, sizes_of(flat), strict=True):
        grid = slice_grid(job.values, size)
        slices = [] if grid is None else grid_places(size, grid, slice_size(job.values, size, grid))
        rows += [image] * (1 + len(slices))
        places += [job.placed(size), *slices]
        grids.append([0, 0] if grid is None else list(grid))
        counts.append(1 + len(slices))
    windows = [place.size for place in places]
    shapes = [(height // patch, width // patch) for height, width in windows]
    pixels = job.renderer.plain.batch(rows, places, largest(windows)).operand
    channels, total = flat[0].layout.sizes[0], sum(down * across for down, across in shapes)
    wide = job.renderer.rows((1, channels, patch, total * patch), channels)
    first = 0
    for row, shape in enumerate(shapes):
        first = write_side_by_side(job, pixels.with_layout(pixels.layout.sliced(row)), shape, wide, first)
    return {
        "pixel_values": job.renderer.finished(wide, channels),
        "target_sizes": np.array(shapes, np.int32),
        "grids": Stated(grids),
        "num_patches_per_image": Stated(counts),
    }


def write_side_by_side(job: Job, image: Operand, shape: Size, wide: StridedTensor, first: int) -> int:
    """Write the patches of an image behind `first` others, and return how many there are then."""
    patch, layout, place = job.values["patch_size"], image.layout, wide.operand.layout
    opened, target = _layouts(layout.sizes[0], layout.strides, place.strides, shape, patch)
    start = place.offset + first * patch
    job.renderer.rearranged(image, opened.shifted(layout.offset), wide, target.shifted(start), 0)
    return first + shape[0] * shape[1]


@lru_cache(maxsize=256)
def _layouts(
    channels: int, strides: tuple[int, ...], wide: tuple[int, ...], shape: Size, patch: int
) -> tuple[Layout, Layout]:
    """An image with the axes of its patches, and these beside each other in memory of the strides `wide`."""
    (down, across), (far, under, beside), (_, plane, line, _) = shape, strides, wide
    counted = (channels, patch, down, across, patch)
    opened = Layout(counted, (far, under, under * patch, beside * patch, beside))
    return opened, Layout(counted, (plane, line, across * patch, patch, 1))


def tiles_of_patches(job: Job, images: Images) -> Results:
    """LFM2-VL: the patches of each image, or of its tiles and of the whole, filled up, with masks and their numbers."""
    values, flat = job.values, flattened(images)
    patch, edge = values["encoder_patch_size"], values["tile_size"]
    rows: list[Operand] = []
    places: list[Placement] = []
    grids, shown = [], []
    for image, size in zip(flat, sizes_of(flat), strict=True):
        least, most = tile_count(values, size)
        grid = (1, 1) if most == 1 else sizes.nearest_grid(size, edge, least, most)
        tiles = [] if most == 1 else grid_places(size, grid, (edge, edge))
        whole = job.placed(size)
        shows_whole = not tiles or (len(tiles) > 1 and values["use_thumbnail"])
        windows = [*tiles, whole] if shows_whole else tiles
        rows += [image] * len(windows)
        places += windows
        grids.append(grid)
        shown.append(whole.size)
    most = max(
        values["max_image_tokens"] * values["downsample_factor"] ** 2,
        (edge // patch) ** 2 if values["do_image_splitting"] else 0,
    )
    if not values["do_pad"]:
        counts = {height // patch * (width // patch) for height, width in (place.size for place in places)}
        if len(counts) > 1:
            raise LayoutError(f"The windows have {sorted(counts)} patches: do_pad=True fills them up to one number.")
        most = counts.pop()
    for height, width in (place.size for place in places):
        count = height // patch * (width // patch)
        if count > most:
            raise LayoutError(
                f"An image becomes {height} x {width} pixels, {count} patches, and these are filled up to {most}: "
                f"raise max_image_tokens={values['max_image_tokens']}."
            )
    patches, shapes = filled_up(job, rows, places, most)
    found: Results = {"pixel_values": patches}
    if values["do_pad"]:
        masks = np.zeros((len(shapes), most), np.int32)
        for row, (down, across) in enumerate(shapes):
            masks[row, : down * across] = 1
        found |= {"pixel_attention_mask": masks, "spatial_shapes": np.array(shapes, np.int64)}
    if values["return_row_col_info"]:
        found |= {"image_rows": [down for down, _ in grids], "image_cols": [across for _, across in grids]}
        found["image_sizes"] = shown
    return found
