"""Pages of documents: margins cut off, resized twice, and in the middle of zeros.

Source: transformers, models/donut and nougat, image_processing_*.py (`_preprocess`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from stridedgpu.adapters.image_processors.grays import grays, pillow_grays
from stridedgpu.adapters.image_processors.rendering import Renderer, resize_rule
from stridedgpu.adapters.image_processors.sizes import Size
from stridedgpu.adapters.image_processors.windows import page_size, placed
from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import BindingError, LayoutError

from .job import Images, Job, Results, batched, flattened, listed, sizes_of

_ALL: Final = slice(None)
_BICUBIC: Final = 3

_REDUCED: Final = 4
"""Pixels for one of the result, from which on Pillow reduces an image by whole factors first."""

_INK: Final = 200
"""Gray values below this are no margin, where the darkest becomes 0 and the lightest 255."""


def documents(job: Job, images: Images) -> Results:
    """Donut and Nougat: each page as large as fits, with `do_pad` in the middle of zeros before the arithmetic."""
    values, extent = job.values, page_size(job.values)
    rows, places = [], []
    for page in flattened(images):
        image = _without_margins(job, page) if values.get("do_crop_margin") else page
        image = _turned(job, image, extent) if values["do_align_long_axis"] else image
        image, place = _fitted(job, image, extent)
        if values["do_pad"]:
            down, across = (whole - side for whole, side in zip(extent, place.size, strict=True))
            if down < 0 or across < 0:
                raise LayoutError(
                    f"A page of {place.size[0]} x {place.size[1]} pixels, as it is resized, is larger than "
                    f"{extent[0]} x {extent[1]}: do_thumbnail=True makes it fit, or leave do_pad out."
                )
            place = place._replace(place=(down // 2, across // 2, *place.size), size=extent)
        rows.append(image)
        places.append(place)
    return {"pixel_values": listed(batched(job, rows, places))}


def _fitted(job: Job, image: Operand, extent: Size) -> tuple[Operand, Placement]:
    """A page and where it goes as a whole. What is resized twice is so for a first time."""
    (size,) = sizes_of([image])
    resized = job.resized(size)
    last = _thumbnail(resized, extent) if job.values["do_thumbnail"] else resized
    if last == resized:
        return image, placed(size, last, None, job.backend)
    plain = job.renderer.plain
    if resized != size:
        image = _resized(plain, image, resized)
    # Nougat's is bicubic, and so is Donut's in place of Pillow's nearest, whose number is 0.
    is_nougat = "do_crop_margin" in job.values
    rule = resize_rule(_BICUBIC if is_nougat else job.values["resample"] or _BICUBIC, job.backend)
    if is_nougat and job.backend == "pil" and max(resized[0] / last[0], resized[1] / last[1]) >= _REDUCED:
        raise LayoutError(
            f"A page of {resized[0]} x {resized[1]} pixels, as it is resized, shrinks to {last[0]} x {last[1]}, for "
            "which Pillow reduces it first, which is not reproduced: give shorter pages, or do_thumbnail=False."
        )
    if rule == plain.rule:
        return image, placed(resized, last, None, job.backend)
    return _resized(replace(plain, rule=rule), image, last), placed(last, last, None, job.backend)


def _resized(renderer: Renderer, image: Operand, size: Size) -> Operand:
    """The bytes of an image of another size."""
    (before,) = sizes_of([image])
    batch = renderer.batch([image], [placed(before, size, None, renderer.how.backend)], size).operand
    return batch.with_layout(batch.layout.sliced(0))


def _thumbnail(size: Size, extent: Size) -> Size:
    """The size inside an extent that the longer side decides."""
    height, width = (min(pair) for pair in zip(size, extent, strict=True))
    if (height, width) != size and size[0] > size[1]:
        width = int(size[1] * height / size[0])
    elif (height, width) != size and size[1] > size[0]:
        height = int(size[0] * width / size[1])
    if min(height, width) < 1:
        raise LayoutError(f"A page of {size[0]} x {size[1]} pixels, as it is resized, becomes {height} x {width}.")
    return height, width


def _turned(job: Job, image: Operand, extent: Size) -> Operand:
    """A page whose long side is that of the extent, turned right where it is not."""
    (height, width), (rows, columns) = sizes_of([image])[0], extent
    if (columns < rows and width > height) or (columns > rows and width < height):
        if "do_crop_margin" in job.values and job.backend == "torchvision":
            raise LayoutError(
                "do_align_long_axis=True turns channels into rows in transformers' torchvision backend: turn the "
                "page, or give backend='pil'."
            )
        return image.with_layout(image.layout.permuted((0, 2, 1)).sliced((_ALL, _ALL, slice(None, None, -1))))
    return image


def _without_margins(job: Job, image: Operand) -> Operand:
    """The smallest window with all ink of a page."""
    if image.buffer.device != "cpu":
        raise BindingError(
            f"do_crop_margin=True looks for ink on the CPU, and an image is on {image.buffer.device}: bring it with "
            ".cpu(), or leave the margins."
        )
    pixels = array_of_operand(image)
    if len(pixels) != 3:
        raise LayoutError(
            f"do_crop_margin=True needs RGB images, and one has {len(pixels)} channels: image.convert('RGB') makes one."
        )
    if job.backend == "pil":
        shown = pillow_grays(pixels)
    else:
        shown = grays(pixels, np.arange(256, dtype=np.float32), job.backend).astype(np.uint8)
    low, high = int(shown.min()), int(shown.max())
    if low == high:
        return image
    number = "float64" if job.backend == "pil" else "float32"
    low_to_high = np.array([low, high, *range(256)], number) - low
    ink = (low_to_high[2:] / low_to_high[1] * 255 < _INK)[shown]
    rows, columns = (np.flatnonzero(ink.any(axis=axis)) for axis in (1, 0))
    window = slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)
    return image.with_layout(image.layout.sliced((_ALL, *window)))
