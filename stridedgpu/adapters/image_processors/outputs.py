"""What image processors return: batches, pads with masks, patches, videos, tiles and nested images, by their keys.

Source: transformers, models/*/image_processing_*.py (`_preprocess`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.operand import Operand
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout

from . import sizes
from .declaration import Declared
from .normalising import Backend
from .rendering import Renderer, resize_rule
from .sampling import sampled_frames
from .sizes import Size
from .windows import (
    convnext,
    convnext_window,
    crop_places,
    dpt,
    grid_places,
    height_and_width,
    middle_place,
    middle_window,
    new_size,
    other_size,
    placed,
    size_named,
)

_ALL: Final = slice(None)


class Listed(NamedTuple):
    """A batch that is a list of its images where no tensors are asked for."""

    batch: StridedTensor | NDArray[np.int32]


class Moved(NamedTuple):
    """Numbers that belong on the device of the pixels."""

    array: NDArray[np.int64]
    is_listed: bool = False


Images = list[list[Operand]]
Results = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One call: what is declared, what renders it, and the processor's `own` options, without those of the call."""

    declared: Declared
    backend: Backend
    renderer: Renderer
    own: Mapping[str, Any]

    @property
    def values(self) -> Mapping[str, Any]:
        """The options."""
        return self.declared.values

    def resized(self, size: Size) -> Size:
        """The new size of an image."""
        if not self.values["do_resize"]:
            return size
        return new_size(self.declared.kind.resizes, self.values, size, is_cut=self.window is not None)

    @cached_property
    def window(self) -> Size | None:
        """The middle window of the resized image that is kept; None keeps all of it."""
        kind, values = self.declared.kind, self.values
        crops = kind.crops and not (kind.resizes is dpt and self.backend == "pil")
        middle = middle_window(values) if crops else None
        if kind.resizes is not convnext or not values["do_resize"] or convnext_window(values) is None:
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


def _placed(job: Job, images: Images) -> tuple[list[Operand], list[Placement], list[Size]]:
    """All images of a call one behind the other, where each goes as a whole, and the sizes of their windows."""
    flat = _flat(images)
    placements = [job.placed(size) for size in _sizes_of(flat)]
    return flat, placements, [placement.size for placement in placements]


def _largest(windows: Sequence[Size]) -> Size:
    return max(height for height, _ in windows), max(width for _, width in windows)


def _batched(
    job: Job, images: Sequence[Operand], placements: Sequence[Placement]
) -> StridedTensor | list[StridedTensor]:
    """A batch of windows of one size, else a list of the windows, of which those of one size are one batch."""
    windows = [placement.size for placement in placements]
    if len(set(windows)) == 1:
        return job.renderer.batch(images, placements, windows[0])
    by_row: dict[int, StridedTensor] = {}
    for window in dict.fromkeys(windows):
        rows = [row for row, size in enumerate(windows) if size == window]
        batch = job.renderer.batch([images[row] for row in rows], [placements[row] for row in rows], window)
        by_row.update((row, batch[place]) for place, row in enumerate(rows))
    return [by_row[row] for row in range(len(images))]


def _listed(batch: StridedTensor | list[StridedTensor]) -> Listed | list[StridedTensor]:
    return Listed(batch) if isinstance(batch, StridedTensor) else batch


def _padded_size(job: Job, windows: Sequence[Size]) -> Size:
    """The size that smaller windows are filled up to: `pad_size`, or the largest of each side."""
    stated = job.values["pad_size"]
    if stated is None:
        return _largest(windows)
    wanted = height_and_width("pad_size", stated)
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
    if not (job.values["do_pad"] and job.declared.kind.pads) or job.declared.kind.resizes is dpt:
        return {"pixel_values": _listed(_batched(job, flat, placements))}
    extent = _padded_size(job, [placement.size for placement in placements])
    return {"pixel_values": Listed(job.renderer.batch(flat, placements, extent))}


def _divided(job: Job, placement: Placement) -> Placement:
    """DPT's pad to whole multiples of `size_divisor`."""
    values = job.values
    if job.declared.kind.resizes is not dpt or not values["do_pad"]:
        return placement
    divisor = values["size_divisor"]
    if divisor is None and job.backend == "pil":
        return placement
    if not divisor:
        raise LayoutError(f"size_divisor={divisor}: do_pad=True needs a size_divisor of 1 or more.")
    if any(side % divisor for side in placement.size):
        raise LayoutError(
            f"do_pad=True with size_divisor={divisor} puts zeros on all sides of an image of {placement.size[0]} x "
            f"{placement.size[1]} pixels behind the arithmetic, which is not reproduced: give sizes in multiples."
        )
    return placement


def _detection(job: Job, images: Images) -> Results:
    """DETR: with `do_pad` filled up to the largest, and masks."""
    flat, placements, windows = _placed(job, images)
    is_torch = job.backend == "torchvision"
    if job.values["do_pad"]:
        extent = _padded_size(job, windows)
        batch = job.renderer.batch(flat, placements, extent)
        return {
            "pixel_mask": Moved(job.renderer.masks(windows, extent), not is_torch),
            "pixel_values": batch if is_torch else Listed(batch),
        }
    batched = _batched(job, flat, placements)
    if is_torch and isinstance(batched, list):
        raise LayoutError(
            f"The images have the sizes {sorted(set(windows))} when they are resized; do_pad=True fills them up to one."
        )
    return {"pixel_values": batched if is_torch else _listed(batched)}


def _segmentation(job: Job, images: Images) -> Results:
    """Mask2Former: always filled up to the largest, with masks."""
    flat, placements, windows = _placed(job, images)
    extent = _padded_size(job, windows)
    return {
        "pixel_values": Listed(job.renderer.batch(flat, placements, extent)),
        "pixel_mask": Moved(job.renderer.masks(windows, extent), is_listed=True),
    }


def _with_sizes(job: Job, images: Images) -> Results:
    """SAM and Pixtral: the sizes beside the pixels; of SAM those before the resize, too."""
    if job.window is not None:
        raise LayoutError("do_center_crop=True is not reproduced for this processor: leave it out.")
    flat, placements, resized = _placed(job, images)
    is_sam, pads = job.declared.kind.form == "original_sizes", job.values["do_pad"]
    batched = (
        job.renderer.batch(flat, placements, _padded_size(job, resized) if is_sam else _largest(resized))
        if pads
        else _batched(job, flat, placements)
    )
    if is_sam:
        return {"pixel_values": _listed(batched), "original_sizes": _sizes_of(flat), "reshaped_input_sizes": resized}
    return {"pixel_values": batched if pads else _listed(batched), "image_sizes": resized}


def _patches(job: Job, images: Images) -> Results:
    """Qwen2-VL: all patches of all images in one array. An image is the one frame of a stack, repeated."""
    flat, placements, _ = _placed(job, images)
    patches, grids = _stacks(job, flat, placements, range(len(flat)), are_stills=True)
    return {"pixel_values": patches, "image_grid_thw": np.array([(1, *grid) for grid in grids], np.int64)}


def _clips(job: Job, images: Images) -> Results:
    """Qwen2-VL's videos: their patches in one array. The last frame of a video is repeated to a whole stack."""
    # transformers takes this number from the processor, whatever a call says.
    values = {**job.values, "max_video_tokens": job.own["max_video_tokens"]}
    times = values["temporal_patch_size"]
    if values["do_sample_frames"]:
        rule = job.declared.kind.sampling
        assert rule is not None, "the class has the option"
        numbers = sampled_frames(rule, job.own, values, [len(clip) for clip in images])
        images = [[clip[place] for place in places] for clip, places in zip(images, numbers, strict=True)]
    frames: list[Operand] = []
    placements: list[Placement] = []
    lengths = []
    for number, clip in enumerate(images):
        clip_sizes = sorted(set(_sizes_of(clip)))
        if len(clip_sizes) != 1:
            raise LayoutError(f"videos[{number}] has frames of the sizes {clip_sizes}; a video has frames of one size.")
        (size,) = clip_sizes
        whole = {**values, "frames": len(clip)}
        resized = new_size(job.declared.kind.resizes, whole, size) if values["do_resize"] else size
        stacked = [*clip, *clip[-1:] * (-len(clip) % times)]
        frames += stacked
        placements += [placed(size, resized, None, job.backend)] * len(stacked)
        lengths.append(len(stacked) // times)
    patches, grids = _stacks(job, frames, placements, range(0, len(frames), times), are_stills=False)
    firsts = accumulate(lengths[:-1], initial=0)
    counted = [(length, *grids[first]) for length, first in zip(lengths, firsts, strict=True)]
    return {"pixel_values_videos": patches, "video_grid_thw": np.array(counted, np.int64)}


def _stacks(
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
    pixels = job.renderer.plain.batch(frames, placements, _largest(windows)).operand
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


def _packed_patches(job: Job, images: Images) -> Results:
    """SigLIP 2: the patches of each image, filled up to `max_num_patches`, with masks and the numbers of patches."""
    flat, placements, windows = _placed(job, images)
    patch, most = job.values["patch_size"], job.values["max_num_patches"]
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
    patches = job.renderer.finished(rows, channels)
    masks = np.zeros((len(flat), most), np.int32)
    for row, (down, across) in enumerate(shapes):
        masks[row, : down * across] = 1
        if down * across < most:
            patches[row, down * across :][...] = 0
    return {"pixel_values": Listed(patches), "pixel_attention_mask": Listed(masks), "spatial_shapes": shapes}


_MOST_TILES: Final = 1 << 12
"""Of an image: a declaration from elsewhere asks for no more work than that."""


def _tiles(job: Job, images: Images) -> Results:
    """LLaVA-NeXT: each image as a whole, and the tiles of it inside the resolution that fits best.

    Both are bytes first, since they are resized and cut once more where `size` differs from a tile.
    """
    flat, values = _flat(images), job.values
    wanted = size_named("size", values["size"], is_square=bool(values["default_to_square"]))
    if wanted.keys().isdisjoint(("height", "shortest_edge")):
        raise other_size(values, "height and width, or shortest_edge")
    whole = (wanted["height"], wanted["width"]) if "height" in wanted else (wanted["shortest_edge"],) * 2
    side = whole[0] if values["crop_size"] is None else height_and_width("crop_size", values["crop_size"])[0]
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
    batch = _batched(job, rows, [job.placed(size) for size in _sizes_of(rows)])
    if isinstance(batch, list):
        raise LayoutError(
            f"size={values['size']!r} and crop_size={values['crop_size']!r} give tiles of several sizes, which are no "
            "array: do_center_crop=True makes them alike."
        )
    if not values["do_pad"]:
        ends = np.cumsum([0, *map(len, groups)]).tolist()
        return {"pixel_values": [batch[first:end] for first, end in pairwise(ends)], "image_sizes": originals}
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
        windows = [*tiles, whole] if len(tiles) != 1 else tiles
        rows += [image] * len(windows)
        places += windows
        counts.append(len(windows))
    return {"pixel_values": _listed(_batched(job, rows, places)), "num_patches": counts}


_SCAN: Final = (
    "pan_and_scan_min_crop_size",
    "pan_and_scan_max_num_crops",
    "pan_and_scan_min_ratio_to_activate",
)
"""What pan and scan goes by."""


def _crops(job: Job, images: Images) -> Results:
    """Gemma 3: each image, with `do_pan_and_scan` the crops of long ones behind it, and how many these are."""
    values, flat = job.values, _flat(images)
    rows, places, counts = [], [], []
    for image, size in zip(flat, _sizes_of(flat), strict=True):
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
    return {"pixel_values": _listed(_batched(job, rows, places)), "num_crops": counts}


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
        batched = _batched(job, rows, places)
        left = iter(range(len(rows)))
        return {"pixel_values": [[batched[next(left)] for _ in group] for group in groups]}
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


_FORMS: Final[Mapping[str, Callable[[Job, Images], Results]]] = {
    "images": _images,
    "detection": _detection,
    "segmentation": _segmentation,
    "sizes": _with_sizes,
    "original_sizes": _with_sizes,
    "patches": _patches,
    "clips": _clips,
    "packed_patches": _packed_patches,
    "tiles": _tiles,
    "grid": _grid,
    "crops": _crops,
    "nested": _nested_images,
}
