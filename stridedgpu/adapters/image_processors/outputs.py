"""What image processors return: batches, pads with masks, patches, tiles and nested images, under their keys.

Source: transformers, models/*/image_processing_*.py (`_preprocess`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.operand import Operand
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout

from . import sizes
from .declaration import Declared, Form
from .normalising import Backend
from .rendering import Renderer, resize_rule
from .sizes import Size
from .windows import (
    convnext_window,
    crop_places,
    grid_places,
    middle_place,
    middle_window,
    new_size,
    placed,
    size_named,
)

__all__ = ["Job", "Listed", "Moved", "results"]


_ALL: Final = slice(None)


class Listed(NamedTuple):
    """A batch that is a list of its images where no tensors are asked for."""

    batch: Any


class Moved(NamedTuple):
    """Numbers that belong on the device of the pixels."""

    array: np.ndarray[Any, np.dtype[Any]]
    is_listed: bool = False


Images = list[list[Operand]]
Results = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One call: what is declared, and what renders it."""

    declared: Declared
    backend: Backend
    renderer: Renderer

    @property
    def values(self) -> Mapping[str, Any]:
        """The options."""
        return self.declared.values

    def resized(self, size: Size) -> Size:
        """The new size of an image."""
        return new_size(self.declared.kind.resizes, self.values, size) if self.values["do_resize"] else size

    @cached_property
    def window(self) -> Size | None:
        """The middle window of the resized image that is kept; None keeps all of it."""
        kind, values = self.declared.kind, self.values
        crops = kind.crops and not (kind.resizes == "dpt" and self.backend == "pil")
        middle = middle_window(values) if crops else None
        if kind.resizes != "convnext" or not values["do_resize"] or convnext_window(values) is None:
            return middle
        if middle is not None:
            raise LayoutError("do_center_crop=True cuts what ConvNext's resize has cut already: leave it out.")
        return convnext_window(values)

    @cached_property
    def placed(self) -> Callable[[Size], Placement]:
        """Where a whole image of a size goes; the sizes of a data set recur."""
        return lru_cache(maxsize=256)(lambda size: placed(size, self.resized(size), self.window, self.backend))


def results(job: Job, images: Images) -> Results:
    """The results of a call by their keys."""
    return _FORMS[job.declared.kind.form](job, images)


def _sizes_of(images: Sequence[Operand]) -> list[Size]:
    return [(image.layout.sizes[1], image.layout.sizes[2]) for image in images]


def _flat(images: Images) -> list[Operand]:
    return [image for group in images for image in group]


def _largest(windows: Sequence[Size]) -> Size:
    return max(height for height, _ in windows), max(width for _, width in windows)


def _batched(job: Job, images: Sequence[Operand], placements: Sequence[Placement]) -> Listed | list[Any]:
    """A batch of windows of one size, else a list with one batch for each size, in order."""
    windows = [placement.size for placement in placements]
    if len(set(windows)) == 1:
        return Listed(job.renderer.batch(images, placements, windows[0]))
    found: list[Any] = [None] * len(images)
    for window in dict.fromkeys(windows):
        rows = [row for row, size in enumerate(windows) if size == window]
        batch = job.renderer.batch([images[row] for row in rows], [placements[row] for row in rows], window)
        for place, row in enumerate(rows):
            found[row] = batch[place]
    return found


def _padded_size(job: Job, windows: Sequence[Size]) -> Size:
    """The size that smaller windows are filled up to: `pad_size`, or the largest of each side."""
    stated = job.values["pad_size"]
    if stated is None:
        return _largest(windows)
    named = size_named("pad_size", stated)
    if set(named) != {"height", "width"}:
        raise LayoutError(f"pad_size={stated!r} must have height and width.")
    wanted = named["height"], named["width"]
    for height, width in windows:
        if height > wanted[0] or width > wanted[1]:
            raise LayoutError(
                f"pad_size={stated!r} is smaller than an image of {height} x {width} pixels, as it is resized."
            )
    return wanted


def _images(job: Job, images: Images) -> Results:
    """A window of each image; with `do_pad` filled up to the largest."""
    flat = _flat(images)
    placements = [_divided(job, job.placed(size)) for size in _sizes_of(flat)]
    if not (job.values["do_pad"] and job.declared.kind.pads) or job.declared.kind.resizes == "dpt":
        return {"pixel_values": _batched(job, flat, placements)}
    extent = _padded_size(job, [placement.size for placement in placements])
    return {"pixel_values": Listed(job.renderer.batch(flat, placements, extent))}


def _divided(job: Job, placement: Placement) -> Placement:
    """DPT's pad to whole multiples of `size_divisor`."""
    values = job.values
    if job.declared.kind.resizes != "dpt" or not values["do_pad"]:
        return placement
    divisor = values["size_divisor"]
    if divisor is None and job.backend == "pil":
        return placement
    if divisor is None:
        raise LayoutError("do_pad=True needs size_divisor.")
    if any(side % divisor for side in placement.size):
        raise LayoutError(
            f"do_pad=True with size_divisor={divisor} puts zeros on all sides of an image of {placement.size[0]} x "
            f"{placement.size[1]} pixels behind the arithmetic, which is not reproduced: give sizes in multiples."
        )
    return placement


def _detection(job: Job, images: Images) -> Results:
    """DETR: with `do_pad` filled up to the largest, and masks."""
    flat = _flat(images)
    placements = [job.placed(size) for size in _sizes_of(flat)]
    windows = [placement.size for placement in placements]
    is_torch = job.backend == "torchvision"
    if job.values["do_pad"]:
        extent = _padded_size(job, windows)
        batch = job.renderer.batch(flat, placements, extent)
        return {
            "pixel_mask": Moved(job.renderer.masks(windows, extent), not is_torch),
            "pixel_values": batch if is_torch else Listed(batch),
        }
    found = _batched(job, flat, placements)
    if is_torch and not isinstance(found, Listed):
        raise LayoutError(
            f"The images have the sizes {sorted(set(windows))} when they are resized; do_pad=True fills them up to one."
        )
    return {"pixel_values": found.batch if is_torch and isinstance(found, Listed) else found}


def _segmentation(job: Job, images: Images) -> Results:
    """Mask2Former: always filled up to the largest, with masks."""
    flat = _flat(images)
    placements = [job.placed(size) for size in _sizes_of(flat)]
    windows = [placement.size for placement in placements]
    extent = _padded_size(job, windows)
    return {
        "pixel_values": Listed(job.renderer.batch(flat, placements, extent)),
        "pixel_mask": Moved(job.renderer.masks(windows, extent), is_listed=True),
    }


def _with_sizes(job: Job, images: Images) -> Results:
    """SAM and Pixtral: the sizes beside the pixels."""
    flat = _flat(images)
    if job.window is not None:
        raise LayoutError("do_center_crop=True is not reproduced for this processor: leave it out.")
    originals = _sizes_of(flat)
    placements = [job.placed(size) for size in originals]
    resized = [placement.size for placement in placements]
    is_sam = job.declared.name == "SamImageProcessor"
    found: Any
    if not job.values["do_pad"]:
        found = _batched(job, flat, placements)
    else:
        extent = _padded_size(job, resized) if is_sam else _largest(resized)
        batch = job.renderer.batch(flat, placements, extent)
        found = Listed(batch) if is_sam else batch
    if is_sam:
        return {"pixel_values": found, "original_sizes": originals, "reshaped_input_sizes": resized}
    return {"pixel_values": found, "image_sizes": resized}


def _patches(job: Job, images: Images) -> Results:
    """Qwen2-VL: all patches of all images in one array, in the order of the windows that the model merges."""
    flat, values = _flat(images), job.values
    patch, merge, times = values["patch_size"], values["merge_size"], values["temporal_patch_size"]
    placements = [job.placed(size) for size in _sizes_of(flat)]
    windows = [placement.size for placement in placements]
    for height, width in windows:
        if height % (patch * merge) or width % (patch * merge):
            raise LayoutError(
                f"An image of {height} x {width} pixels has no whole number of patches of {patch * merge} pixels: "
                "do_resize=True gives it one."
            )
    pixels = job.renderer.plain.batch(flat, placements, _largest(windows)).operand
    channels = flat[0].layout.sizes[0]
    grids = [(1, height // patch, width // patch) for height, width in windows]
    counts = [height * width for _, height, width in grids]
    rows = job.renderer.rows((sum(counts), channels * times * patch * patch), channels)
    first = 0
    for row, ((_, down, across), count) in enumerate(zip(grids, counts, strict=True)):
        image = pixels.layout.sliced(row)
        # Axes: rows and columns of merged windows, those inside a window, channels, time, rows and columns of a patch.
        counted = (down // merge, across // merge, merge, merge, channels, times, patch, patch)
        plane, line, column = image.strides
        step = patch * merge
        strides = (line * step, column * step, line * patch, column * patch, plane, 0, line, column)
        target = Layout(counted, offset=rows.operand.layout.offset + first * rows.sizes[1])
        job.renderer.rearranged(pixels, Layout(counted, strides, image.offset), rows, target, 4)
        first += count
    return {"pixel_values": job.renderer.finished(rows, channels), "image_grid_thw": np.array(grids, np.int64)}


def _packed_patches(job: Job, images: Images) -> Results:
    """SigLIP 2: the patches of each image, filled up to `max_num_patches`, with masks and the numbers of patches."""
    flat, values = _flat(images), job.values
    patch, most = values["patch_size"], values["max_num_patches"]
    placements = [job.placed(size) for size in _sizes_of(flat)]
    windows = [placement.size for placement in placements]
    shapes = [(height // patch, width // patch) for height, width in windows]
    for (height, width), (down, across) in zip(windows, shapes, strict=True):
        if (down * patch, across * patch) != (height, width) or down * across > most:
            raise LayoutError(
                f"An image of {height} x {width} pixels is no whole number of patches of {patch} pixels, or more than "
                f"{most}: do_resize=True gives it one."
            )
    pixels = job.renderer.plain.batch(flat, placements, _largest(windows)).operand
    channels = flat[0].layout.sizes[0]
    rows = job.renderer.rows((len(flat), most, patch * patch * channels), channels)
    for row, (down, across) in enumerate(shapes):
        image = pixels.layout.sliced(row)
        counted = (down, across, patch, patch, channels)
        plane, line, column = image.strides
        opened = Layout(counted, (line * patch, column * patch, line, column, plane), image.offset)
        target = Layout(counted, offset=rows.operand.layout.offset + row * most * rows.sizes[2])
        job.renderer.rearranged(pixels, opened, rows, target, 4)
    found = job.renderer.finished(rows, channels)
    masks = np.zeros((len(flat), most), np.int32)
    for row, (down, across) in enumerate(shapes):
        masks[row, : down * across] = 1
        if down * across < most:
            found[row, down * across :][...] = 0
    return {"pixel_values": Listed(found), "pixel_attention_mask": Listed(masks), "spatial_shapes": shapes}


_MOST_TILES: Final = 1 << 12
"""Of an image: a declaration from elsewhere asks for no more work than that."""


def _tiles(job: Job, images: Images) -> Results:
    """LLaVA-NeXT: each image as a whole, and the tiles of it inside the resolution that fits best.

    Both are bytes first, since they are resized and cut once more where `size` differs from a tile.
    """
    flat, values = _flat(images), job.values
    wanted = size_named("size", values["size"], is_square=bool(values["default_to_square"]))
    whole = (wanted["height"], wanted["width"]) if "height" in wanted else (wanted.get("shortest_edge", 0),) * 2
    cut = None if values["crop_size"] is None else size_named("crop_size", values["crop_size"])
    if cut is not None and set(cut) != {"height", "width"}:
        raise LayoutError(f"crop_size={values['crop_size']!r} must have height and width.")
    side = whole[0] if cut is None else cut["height"]
    resolutions = [(int(height), int(width)) for height, width in values["image_grid_pinpoints"]]
    originals = _sizes_of(flat)
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
    found = _batched(job, rows, [job.placed(size) for size in _sizes_of(rows)])
    if not isinstance(found, Listed):
        raise LayoutError(
            f"size={values['size']!r} and crop_size={values['crop_size']!r} give tiles of several sizes, which are no "
            "array: do_center_crop=True makes them alike."
        )
    batch = found.batch
    if not values["do_pad"]:
        ends = np.cumsum([0, *map(len, groups)]).tolist()
        return {
            "pixel_values": [batch[first:end] for first, end in pairwise(ends)],
            "image_sizes": originals,
        }
    stacked = StridedTensor.over(batch.operand.with_layout(_nested(batch.operand.layout, most)))
    for row, group in enumerate(groups):
        if len(group) < most:
            stacked[row, len(group) :][...] = 0
    return {"pixel_values": Listed(stacked), "image_sizes": originals}


def _nested(layout: Layout, inner: int) -> Layout:
    """A batch's layout with its first axis as groups of `inner`."""
    count, *rest = layout.sizes
    step, *steps = layout.strides
    return Layout((count // inner, inner, *rest), (step * inner, step, *steps), layout.offset)


def _grid(job: Job, images: Images) -> Results:
    """InternVL and GOT-OCR 2: with `crop_to_patches` the tiles of each image, and the whole behind several of them."""
    flat, values = _flat(images), job.values
    rows, places, counts = [], [], []
    for image, size in zip(flat, _sizes_of(flat), strict=True):
        tiles: list[Placement] = []
        whole = job.placed(size)
        if values["crop_to_patches"]:
            named = size_named("size", values["size"], is_square=bool(values["default_to_square"]))
            if set(named) != {"height", "width"} or not values["do_resize"]:
                raise LayoutError("crop_to_patches=True needs do_resize=True and a size of height and width.")
            grid = sizes.tile_grid(size, whole.size, values["min_patches"], values["max_patches"])
            tiles = grid_places(size, grid, whole.size)
        found = [*tiles, whole] if len(tiles) != 1 else tiles
        rows += [image] * len(found)
        places += found
        counts.append(len(found))
    return {"pixel_values": _batched(job, rows, places), "num_patches": counts}


def _crops(job: Job, images: Images) -> Results:
    """Gemma 3: each image, with `do_pan_and_scan` the crops of long ones behind it, and how many these are."""
    values, flat = job.values, _flat(images)
    rows, places, counts = [], [], []
    for image, size in zip(flat, _sizes_of(flat), strict=True):
        crops = []
        if values["do_pan_and_scan"]:
            if not values["do_resize"]:
                raise LayoutError("do_pan_and_scan=True without do_resize is not reproduced: resize, or leave it out.")
            crops = sizes.scan_crops(
                size,
                values["pan_and_scan_min_crop_size"],
                values["pan_and_scan_max_num_crops"],
                values["pan_and_scan_min_ratio_to_activate"],
            )
        places += [job.placed(size), *crop_places(size, crops, job.resized)]
        rows += [image] * (1 + len(crops))
        counts.append(len(crops))
    return {"pixel_values": _batched(job, rows, places), "num_crops": counts}


def _nested_images(job: Job, images: Images) -> Results:
    """Idefics2: lists of images, each split in four with `do_image_splitting`, filled up to the largest with masks."""
    if job.values["do_image_splitting"] and not job.values["do_resize"]:
        raise LayoutError("do_image_splitting=True without do_resize is not reproduced: resize, or leave it out.")
    groups: list[list[tuple[Operand, Placement]]] = []
    for group in images:
        placements = []
        for image, size in zip(group, _sizes_of(group), strict=True):
            quarters = _quarters(size) if job.values["do_image_splitting"] else []
            places = [*crop_places(size, quarters, job.resized), job.placed(size)]
            placements += [(image, place) for place in places]
        groups.append(placements)
    flat = [pair for group in groups for pair in group]
    rows, places = [image for image, _ in flat], [place for _, place in flat]
    if not job.values["do_pad"]:
        found = iter(_rows(_batched(job, rows, places)))
        return {"pixel_values": [[next(found) for _ in group] for group in groups]}
    if job.renderer.how.target.name == "uint8":
        raise LayoutError("do_pad=True of bytes is not reproduced here: leave do_rescale or do_normalize on.")
    windows = [place.size for place in places]
    extent, most = _largest(windows), max(map(len, groups))
    channels = rows[0].layout.sizes[0]
    if all(len(group) == most for group in groups):
        batch = job.renderer.batch(rows, places, extent)
        stacked = StridedTensor.over(batch.operand.with_layout(_nested(batch.operand.layout, most)))
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


def _rows(found: Listed | list[Any]) -> list[Any]:
    return [found.batch[row] for row in range(len(found.batch))] if isinstance(found, Listed) else found


_FORMS: Final[Mapping[Form, Callable[[Job, Images], Results]]] = {
    "images": _images,
    "detection": _detection,
    "segmentation": _segmentation,
    "sizes": _with_sizes,
    "patches": _patches,
    "packed_patches": _packed_patches,
    "tiles": _tiles,
    "grid": _grid,
    "crops": _crops,
    "nested": _nested_images,
}
