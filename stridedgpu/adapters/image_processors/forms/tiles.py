"""Tiles, crops and splits: several windows of an image.

Source: transformers, models/*/image_processing_*.py (`_preprocess`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from stridedgpu.adapters.image_processors import sizes
from stridedgpu.adapters.image_processors.rendering import resize_rule
from stridedgpu.adapters.image_processors.sizes import Size
from stridedgpu.adapters.image_processors.windows import (
    crop_places,
    grid_places,
    height_and_width,
    middle_place,
    other_size,
    placed,
    size_named,
)
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.operand import Operand
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import LayoutError

from .job import Images, Job, Listed, Moved, Results, batched, flattened, in_groups, largest, listed, sizes_of

_ALL: Final = slice(None)

_MOST_TILES: Final = 1 << 12
"""Of an image: a declaration from elsewhere asks for no more work than that."""


def tiles(job: Job, images: Images) -> Results:
    """LLaVA-NeXT: each image as a whole, and the tiles of it inside the resolution that fits best.

    Both are bytes first, since they are resized and cut once more where `size` differs from a tile.
    """
    flat, values = flattened(images), job.values
    wanted = size_named("size", values["size"], is_square=bool(values["default_to_square"]))
    if wanted.keys().isdisjoint(("height", "shortest_edge")):
        raise other_size(values, "height and width, or shortest_edge")
    whole = (wanted["height"], wanted["width"]) if "height" in wanted else (wanted["shortest_edge"],) * 2
    side = whole[0] if values["crop_size"] is None else height_and_width("crop_size", values["crop_size"])[0]
    resolutions = [(int(height), int(width)) for height, width in values["image_grid_pinpoints"]]
    originals = sizes_of(flat)
    canvases = replace(job.renderer.plain, rule=resize_rule(values["resample"], job.backend))
    wholes = canvases.batch(flat, [placed(size, whole, None, job.backend) for size in originals], whole).operand
    groups = []
    for row, (image, size) in enumerate(zip(flat, originals, strict=True)):
        best = sizes.best_resolution(size, resolutions)
        if best[0] * best[1] > _MOST_TILES * side * side:
            raise LayoutError(
                f"image_grid_pinpoints has {best}, more than {_MOST_TILES} tiles of {side} x {side} pixels."
            )
        canvas = canvases.batch([image], [middle_place(size, best)], best).operand
        tiles = [
            canvas.with_layout(canvas.layout.sliced((0, _ALL, slice(down, down + side), slice(left, left + side))))
            for down in range(0, best[0], side)
            for left in range(0, best[1], side)
        ]
        groups.append([wholes.with_layout(wholes.layout.sliced(row)), *tiles])
    most = max(map(len, groups)) if values["do_pad"] else 0
    # Places without a tile repeat the whole image, and become zeros.
    rows = [tile for group in groups for tile in [*group, *group[:1] * (most - len(group))]]
    batch = batched(job, rows, [job.placed(size) for size in sizes_of(rows)])
    if isinstance(batch, list):
        raise LayoutError(
            f"size={values['size']!r} and crop_size={values['crop_size']!r} give tiles of several sizes, which are no "
            "array: do_center_crop=True makes them alike."
        )
    if not values["do_pad"]:
        ends = np.cumsum([0, *map(len, groups)]).tolist()
        return {"pixel_values": [batch[first:end] for first, end in pairwise(ends)], "image_sizes": originals}
    stacked = StridedTensor.over(batch.operand.with_layout(in_groups(batch.operand.layout, most)))
    for row, group in enumerate(groups):
        if len(group) < most:
            stacked[row, len(group) :][...] = 0
    return {"pixel_values": Listed(stacked), "image_sizes": originals}


def grid(job: Job, images: Images) -> Results:
    """InternVL and GOT-OCR 2: with `crop_to_patches` the tiles of each image, and the whole behind several of them."""
    flat, values = flattened(images), job.values
    rows, places, counts = [], [], []
    for image, size in zip(flat, sizes_of(flat), strict=True):
        tiles: list[Placement] = []
        whole = job.placed(size)
        if values["crop_to_patches"]:
            named = size_named("size", values["size"], is_square=bool(values["default_to_square"]))
            if set(named) != {"height", "width"} or not values["do_resize"]:
                raise LayoutError("crop_to_patches=True needs do_resize=True and a size of height and width.")
            grid = sizes.tile_grid(size, whole.size, values["min_patches"], values["max_patches"])
            tiles = grid_places(size, grid, whole.size)
        windows = [*tiles, whole] if len(tiles) != 1 else tiles
        rows += [image] * len(windows)
        places += windows
        counts.append(len(windows))
    return {"pixel_values": listed(batched(job, rows, places)), "num_patches": counts}


_SCAN: Final = (
    "pan_and_scan_min_crop_size",
    "pan_and_scan_max_num_crops",
    "pan_and_scan_min_ratio_to_activate",
)
"""What pan and scan goes by."""


def crops(job: Job, images: Images) -> Results:
    """Gemma 3: each image, with `do_pan_and_scan` the crops of long ones behind it, and how many these are."""
    values, flat = job.values, flattened(images)
    rows, places, counts = [], [], []
    for image, size in zip(flat, sizes_of(flat), strict=True):
        crops = []
        if values["do_pan_and_scan"]:
            if not values["do_resize"]:
                raise LayoutError("do_pan_and_scan=True without do_resize is not reproduced: resize, or leave it out.")
            for name in _SCAN:
                if values[name] is None:
                    raise LayoutError(f"do_pan_and_scan=True needs {name}.")
            crops = sizes.scan_crops(size, *(values[name] for name in _SCAN))
        places += [job.placed(size), *crop_places(size, crops, job.resized)]
        rows += [image] * (1 + len(crops))
        counts.append(len(crops))
    return {"pixel_values": listed(batched(job, rows, places)), "num_crops": counts}


def nested(job: Job, images: Images) -> Results:
    """Idefics2: lists of images, each split in four with `do_image_splitting`, filled up to the largest with masks."""
    if job.values["do_image_splitting"] and not job.values["do_resize"]:
        raise LayoutError("do_image_splitting=True without do_resize is not reproduced: resize, or leave it out.")
    groups: list[list[tuple[Operand, Placement]]] = []
    for group in images:
        placements = []
        for image, size in zip(group, sizes_of(group), strict=True):
            quarters = _quarters(size) if job.values["do_image_splitting"] else []
            places = [*crop_places(size, quarters, job.resized), job.placed(size)]
            placements += [(image, place) for place in places]
        groups.append(placements)
    flat = [pair for group in groups for pair in group]
    rows, places = [image for image, _ in flat], [place for _, place in flat]
    if not job.values["do_pad"]:
        pixels = batched(job, rows, places)
        left = iter(range(len(rows)))
        return {"pixel_values": [[pixels[next(left)] for _ in group] for group in groups]}
    if job.renderer.how.target.name == "uint8":
        raise LayoutError("do_pad=True of bytes is not reproduced here: leave do_rescale or do_normalize on.")
    windows = [place.size for place in places]
    extent, most = largest(windows), max(map(len, groups))
    channels = rows[0].layout.sizes[0]
    if all(len(group) == most for group in groups):
        batch = job.renderer.batch(rows, places, extent)
        stacked = StridedTensor.over(batch.operand.with_layout(in_groups(batch.operand.layout, most)))
    else:
        stacked = job.renderer.zeros((len(groups), most, channels, *extent))
        for row, pairs in enumerate(groups):
            if pairs:
                pixels = job.renderer.batch([image for image, _ in pairs], [place for _, place in pairs], extent)
                stacked[row, : len(pairs)][...] = pixels
    nothing = (0, 0)
    shown = [
        size for pairs in groups for size in [*(place.size for _, place in pairs), *[nothing] * (most - len(pairs))]
    ]
    masks = job.renderer.masks(shown, extent).reshape(len(groups), most, *extent)
    return {"pixel_values": stacked, "pixel_attention_mask": Moved(masks)}


def _quarters(size: Size) -> list[tuple[int, int, int, int]]:
    """The four quarters of an image: top, left, height and width."""
    (height, width), (down, across) = size, (size[0] // 2, size[1] // 2)
    if not down or not across:
        raise LayoutError(f"do_image_splitting=True cuts an image in four, and one has {height} x {width} pixels.")
    return [
        (0, 0, down, across),
        (0, across, down, width - across),
        (down, 0, height - down, across),
        (down, across, height - down, width - across),
    ]
