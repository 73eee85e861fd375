"""Batches of images: windows, pads with masks, and sizes beside the pixels.

Source: transformers, models/*/image_processing_*.py (`_preprocess`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from math import ceil
from typing import Any

import numpy as np

from stridedgpu.adapters.image_processors.sizes import centred
from stridedgpu.adapters.image_processors.windows import crop_places, height_and_width, other_size, placed, size_named
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import LayoutError

from .job import (
    Images,
    Job,
    Listed,
    Moved,
    Results,
    Stated,
    all_placed,
    batched,
    filled_size,
    flattened,
    in_groups,
    largest,
    listed,
    padded_size,
    sizes_of,
)


def windowed(job: Job, images: Images) -> Results:
    """A window of each image; with `do_pad` filled up to the largest."""
    flat, placements, windows = all_placed(job, images)
    if not (job.values["do_pad"] and job.declared.kind.pads):
        return {"pixel_values": listed(batched(job, flat, placements))}
    return {"pixel_values": Listed(job.renderer.batch(flat, placements, padded_size(job, windows)))}


def under_an_older_key(job: Job, images: Images) -> Results:
    """Video-LLaVA: a window of each image, unless a call asks for the present key."""
    (pixels,) = windowed(job, images).values()
    return {"pixel_values_images" if job.values["return_legacy_image_output"] else "pixel_values": pixels}


def with_text_sizes(job: Job, images: Images) -> Results:
    """PP-OCR's detection: a window of each image, and the sizes before the resize, as floats."""
    shown = np.array(sizes_of(flattened(images)), np.float32)
    return {**windowed(job, images), "target_sizes": Moved(shown, is_listed=True)}


def text_lines(job: Job, images: Images) -> Results:
    """PP-OCR's recognition: images as wide as the widest, with `do_pad` filled up to `pad_size` where this is wider."""
    flat, values = flattened(images), job.values
    extent = line = job.resized(max(sizes_of(flat), key=lambda size: size[1]))
    if values["do_pad"] and line[1] < height_and_width("pad_size", values["pad_size"])[1]:
        extent = filled_size([line], values["pad_size"])
    places = [placed(size, line, None, job.backend) for size in sizes_of(flat)]
    return {"pixel_values": Listed(job.renderer.batch(flat, places, extent))}


def surrounded(job: Job, images: Images) -> Results:
    """DPT: with `do_pad` zeros on all sides up to whole multiples of `size_divisor`, behind the arithmetic."""
    flat, placements, _ = all_placed(job, images)
    divisor = job.values["size_divisor"]
    if not job.values["do_pad"] or (divisor is None and job.backend == "pil"):
        return {"pixel_values": listed(batched(job, flat, placements))}
    if not divisor:
        raise LayoutError(f"size_divisor={divisor}: do_pad=True needs a size_divisor of 1 or more.")

    def framed(batch: StridedTensor) -> StridedTensor:
        height, width = batch.sizes[2:]
        down, across = -height % divisor, -width % divisor
        if not down and not across:
            return batch
        frame = job.renderer.zeros((*batch.sizes[:2], height + down, width + across))
        top, left = down // 2, across // 2
        frame[:, :, top : top + height, left : left + width][...] = batch
        return frame

    return {"pixel_values": listed(batched(job, flat, placements, framed))}


def mirrored(job: Job, images: Images) -> Results:
    """Swin2SR: one to `size_divisor` rows and columns more than an image has, mirrored at its edges."""
    flat, placements, _ = all_placed(job, images)
    divisor = job.values["size_divisor"]
    if not job.values["do_pad"]:
        return {"pixel_values": listed(batched(job, flat, placements))}
    if not divisor:
        raise LayoutError(f"size_divisor={divisor}: do_pad=True needs a size_divisor of 1 or more.")

    def extended(batch: StridedTensor) -> StridedTensor:
        height, width = batch.sizes[2:]
        rows, columns = ((side // divisor + 1) * divisor for side in (height, width))
        whole = job.renderer.zeros((*batch.sizes[:2], rows, columns))
        whole[:, :, :height, :width][...] = batch
        while height < rows:
            added = min(height, rows - height)
            whole[:, :, height : height + added, :width][...] = whole[:, :, height - added : height, :width][:, :, ::-1]
            height += added
        while width < columns:
            added = min(width, columns - width)
            whole[:, :, :, width : width + added][...] = whole[:, :, :, width - added : width][:, :, :, ::-1]
            width += added
        return whole

    return {"pixel_values": listed(batched(job, flat, placements, extended))}


def cropped_first(job: Job, images: Images) -> Results:
    """Perceiver: the middle of an image, a share of its shorter side, is cut out and then resized."""
    flat, values = flattened(images), job.values
    if not values["do_center_crop"]:
        return windowed(job, images)
    wanted, whole = (height_and_width(name, values[name]) for name in ("size", "crop_size"))
    if wanted[0] > whole[0] or wanted[1] > whole[1]:
        raise LayoutError(
            f"size={values['size']!r} is no part of crop_size={values['crop_size']!r}: give a larger one."
        )
    placements = []
    for size in sizes_of(flat):
        cut = int(wanted[0] / whole[0] * min(size)), int(wanted[1] / whole[1] * min(size))
        if min(cut) < 1 and job.backend == "pil" and values["do_resize"]:
            # Pillow makes black of nothing: the image lies below its window.
            extent = job.resized(size)
            placements.append(
                Placement(size, (0.0, 0.0, float(size[0]), float(size[1])), (extent[0], 0, *extent), extent)
            )
            continue
        if min(cut) < 1:
            raise LayoutError(f"An image of {size[0]} x {size[1]} pixels has no pixel in {cut[0]} x {cut[1]} of it.")
        top, left = centred(size, cut, rounds_up=False)
        if values["do_resize"]:
            placements += crop_places(size, [(top, left, *cut)], job.resized)
        else:
            placements.append(placed(size, size, cut, job.backend))
    return {"pixel_values": listed(batched(job, flat, placements))}


def detection(job: Job, images: Images) -> Results:
    """DETR: with `do_pad` filled up to the largest, and masks."""
    flat, placements, windows = all_placed(job, images)
    is_torch = job.backend == "torchvision"
    if job.values["do_pad"]:
        extent = padded_size(job, windows)
        batch = job.renderer.batch(flat, placements, extent)
        return {
            "pixel_mask": Moved(job.renderer.masks(windows, extent), not is_torch),
            "pixel_values": batch if is_torch else Listed(batch),
        }
    pixels = batched(job, flat, placements)
    if is_torch and isinstance(pixels, list):
        raise LayoutError(
            f"The images have the sizes {sorted(set(windows))} when they are resized; do_pad=True fills them up to one."
        )
    return {"pixel_values": pixels if is_torch else listed(pixels)}


def segmentation(job: Job, images: Images) -> Results:
    """Mask2Former: always filled up to the largest, or to `pad_size`, with masks."""
    return _filled(job, images, job.values["pad_size"])


def _filled(job: Job, images: Images, stated: Any) -> Results:
    """Images filled up to the largest, or to a stated size, with masks."""
    flat, placements, windows = all_placed(job, images)
    extent = filled_size(windows, stated)
    return {
        "pixel_values": Listed(job.renderer.batch(flat, placements, extent)),
        "pixel_mask": Moved(job.renderer.masks(windows, extent), is_listed=True),
    }


def masked(job: Job, images: Images) -> Results:
    """ViLT: with `do_pad` filled up to the largest, with masks."""
    if job.values["do_pad"]:
        return _filled(job, images, None)
    flat, placements, _ = all_placed(job, images)
    return {"pixel_values": listed(batched(job, flat, placements))}


def masks_first(job: Job, images: Images) -> Results:
    """BridgeTower: the masks before the pixels."""
    return dict(reversed(masked(job, images).items()))


def with_task(job: Job, images: Images) -> Results:
    """OneFormer: masks, and what the model is asked for."""
    stated = job.values["task_inputs"]
    tasks = ["panoptic"] if stated is None else stated
    if not isinstance(tasks, (list, tuple)) or not all(isinstance(task, str) for task in tasks):
        raise LayoutError(f"task_inputs={stated!r} must be a list of texts, such as ['panoptic'].")
    return {**_filled(job, images, None), "task_inputs": Stated([f"the task is {task}" for task in tasks])}


def with_originals(job: Job, images: Images) -> Results:
    """SAM 2 and 3: the sizes before the resize beside the pixels."""
    return {**windowed(job, images), "original_sizes": sizes_of(flattened(images))}


def frames(job: Job, images: Images) -> Results:
    """VideoMAE and TVP: the frames of each video, which TVP fills up to `pad_size`."""
    flat, placements, windows = all_placed(job, images)
    pads = bool(job.values["do_pad"]) and job.declared.kind.pads
    lengths = {len(video) for video in images}
    depth = 1 if job.backend == "torchvision" and not job.declared.kind.pads else 2
    if len(lengths) == 1 and (pads or len(set(windows)) == 1):
        batch = job.renderer.batch(flat, placements, padded_size(job, windows) if pads else windows[0])
        layout = in_groups(batch.operand.layout, lengths.pop())
        return {"pixel_values": Listed(StridedTensor.over(batch.operand.with_layout(layout)), depth)}
    rest = iter(placements)
    videos: list[Any] = []
    for video in images:
        places = list(islice(rest, len(video)))
        if pads:
            pixels: Any = job.renderer.batch(video, places, padded_size(job, windows))
        else:
            pixels = batched(job, video, places)
        if depth == 1 and isinstance(pixels, list):
            shown = sorted({place.size for place in places})
            raise LayoutError(f"A video has frames of the sizes {shown}; do_center_crop=True makes them alike.")
        videos.append(pixels if depth == 1 else list(pixels))
    return {"pixel_values": videos}


def strips(job: Job, images: Images) -> Results:
    """EoMT: with `do_split_image` squares along the longer side, with `do_pad` zeros before the arithmetic."""
    flat, values = flattened(images), job.values
    wanted = size_named("size", values["size"], is_square=False)
    if (values["do_split_image"] or values["do_pad"]) and "shortest_edge" not in wanted:
        raise other_size(values, "shortest_edge")
    edge = wanted.get("shortest_edge", 1)
    rows, places, offsets = [], [], []
    for number, (image, size) in enumerate(zip(flat, sizes_of(flat), strict=True)):
        whole = job.placed(size)
        parts = [whole]
        if values["do_split_image"]:
            starts = _split_starts(max(whole.size), edge)
            offsets += [Moved(np.array([number, start, start + edge], np.int64)) for start in starts]
            parts = [_part(whole, start, edge) for start in starts]
        rows += [image] * len(parts)
        places += parts
    if values["do_pad"]:
        if values["do_split_image"]:  # what lies behind a square is no part of it
            cut = batched(replace(job, renderer=job.renderer.plain), rows, places)
            rows = [square.operand for square in cut]
            places = [placed(size, size, None, job.backend) for size in sizes_of(rows)]
        least = edge, wanted.get("longest_edge", edge)
        places = [place._replace(size=largest([place.size, least])) for place in places]
    return {"pixel_values": listed(batched(job, rows, places)), "patch_offsets": offsets or Stated([])}


def _split_starts(side: int, edge: int) -> list[int]:
    """Where squares begin that cover a side with equal overlaps."""
    count = ceil(side / edge)
    overlap = (count * edge - side) / (count - 1) if count > 1 else 0
    return [int(number * (edge - overlap)) for number in range(count)]


def _part(whole: Placement, start: int, edge: int) -> Placement:
    """The part of a placement that begins at `start` of its longer side."""
    (height, width), stop = whole.size, start + edge
    if height > width:
        return whole._replace(place=(-start, 0, height, width), size=(min(stop, height) - start, width))
    return whole._replace(place=(0, -start, height, width), size=(height, min(stop, width) - start))


def with_sizes(job: Job, images: Images) -> Results:
    """SAM and Pixtral: the sizes beside the pixels; of SAM those before the resize, too."""
    if job.window is not None:
        raise LayoutError("do_center_crop=True is not reproduced for this processor: leave it out.")
    flat, placements, resized = all_placed(job, images)
    is_sam, pads = job.declared.kind.form == "original_sizes", job.values["do_pad"]
    pixels = (
        job.renderer.batch(flat, placements, padded_size(job, resized) if is_sam else largest(resized))
        if pads
        else batched(job, flat, placements)
    )
    if is_sam:
        return {"pixel_values": listed(pixels), "original_sizes": sizes_of(flat), "reshaped_input_sizes": resized}
    return {"pixel_values": pixels if pads else listed(pixels), "image_sizes": resized}
