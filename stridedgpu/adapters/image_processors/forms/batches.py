"""Batches of images: windows, pads with masks, and sizes beside the pixels.

Source: transformers, models/*/image_processing_*.py (`_preprocess`).
"""

from __future__ import annotations

from stridedgpu.adapters.image_processors.windows import dpt
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import LayoutError

from .job import (
    Images,
    Job,
    Listed,
    Moved,
    Results,
    all_placed,
    batched,
    flattened,
    largest,
    listed,
    padded_size,
    sizes_of,
)


def windowed(job: Job, images: Images) -> Results:
    """A window of each image; with `do_pad` filled up to the largest."""
    flat = flattened(images)
    placements = [_divided(job, job.placed(size)) for size in sizes_of(flat)]
    if not (job.values["do_pad"] and job.declared.kind.pads) or job.declared.kind.resizes is dpt:
        return {"pixel_values": listed(batched(job, flat, placements))}
    extent = padded_size(job, [placement.size for placement in placements])
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
    """Mask2Former: always filled up to the largest, with masks."""
    flat, placements, windows = all_placed(job, images)
    extent = padded_size(job, windows)
    return {
        "pixel_values": Listed(job.renderer.batch(flat, placements, extent)),
        "pixel_mask": Moved(job.renderer.masks(windows, extent), is_listed=True),
    }


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
