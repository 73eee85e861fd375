"""Pairs of images, whose keypoints a model matches, as gray values.

Source: transformers, models/superglue, lightglue and efficientloftr, image_processing_*.py (`_preprocess`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from stridedgpu.adapters.image_processors.grays import grays
from stridedgpu.api.creation import asarray
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.values.errors import LayoutError

from .job import Images, Job, Listed, Results, all_placed, batched, in_groups

_PAIR: Final = 2


def pairs(job: Job, images: Images) -> Results:
    """SuperGlue, LightGlue and EfficientLoFTR: two images each, with `do_grayscale` as three equal channels."""
    counts = sorted({len(group) for group in images})
    if counts != [_PAIR]:
        raise LayoutError(f"images has groups of {counts} images; give two images, or a list of lists of two.")
    flat, placements, _ = all_placed(job, images)
    if job.values["do_grayscale"]:
        if job.renderer.how.target.name == "uint8":
            raise LayoutError("do_grayscale=True of bytes is not reproduced: leave do_rescale on.")
        plain = replace(job, renderer=job.renderer.plain)
        pixels = batched(plain, flat, placements, partial(_grayed, job))
    else:
        pixels = batched(job, flat, placements)
    is_torch = job.backend == "torchvision"
    if isinstance(pixels, StridedTensor):
        layout = in_groups(pixels.operand.layout, _PAIR)
        return {"pixel_values": Listed(StridedTensor.over(pixels.operand.with_layout(layout)), 1 if is_torch else 2)}
    listed = list(zip(pixels[::2], pixels[1::2], strict=True))
    if not is_torch:
        return {"pixel_values": [list(pair) for pair in listed]}
    stacked = []
    for first, second in listed:
        if first.sizes != second.sizes:
            raise LayoutError(f"A pair has images of the sizes {first.sizes} and {second.sizes}: give size both sides.")
        pair = job.renderer.zeros((_PAIR, *first.sizes))
        pair[0][...] = first
        pair[1][...] = second
        stacked.append(pair)
    return {"pixel_values": stacked}


def _grayed(job: Job, batch: StridedTensor) -> StridedTensor:
    """A batch of bytes as gray values. An image that is gray already keeps its own.

    Raises `LayoutError` for images of four channels.
    """
    bytes_of = batch.to_device("cpu").numpy()
    channels = bytes_of.shape[1]
    if channels not in (1, 3):
        raise LayoutError(f"do_grayscale=True needs images of 1 or 3 channels, and these have {channels}.")
    values = job.renderer.how.table(1)[0]
    numbers = np.empty(bytes_of.shape, np.float32)
    for image, result in zip(bytes_of, numbers, strict=True):
        if (image == image[0]).all():
            result[...] = values[image[0]]
        else:
            result[...] = grays(image, values, job.backend)
    return asarray(numbers).to_device(job.renderer.device)
