"""Images inside larger ones, whose other pixels have a colour: squares of the mean, and screens.

Source: transformers, models/*/image_processing_*.py (`pad_to_square`, `pad`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stridedgpu.adapters.image_processors.normalising import figures_of
from stridedgpu.adapters.image_processors.rendering import resize_rule
from stridedgpu.adapters.image_processors.windows import (
    height_and_width,
    in_square,
    new_size,
    placed,
    square_canvas,
    square_side,
)
from stridedgpu.api.relayout import relayout
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.operand import Operand
from stridedgpu.values.errors import LayoutError

from .batches import windowed
from .job import Images, Job, Results, all_placed, batched, flattened, in_groups, listed, sizes_of
from .patches import stacks


def squared(job: Job, images: Images) -> Results:
    """LLaVA: with `do_pad` images become squares before they are resized."""
    if not job.values["do_pad"]:
        return windowed(job, images)
    return windowed(job, [in_squares(job, flattened(images), colour_of(job.values, "image_mean"))])


def in_squares(job: Job, images: Sequence[Operand], colour: tuple[int, ...]) -> list[Operand]:
    """Images of bytes in the middle of squares, whose other pixels have a colour."""
    plain = replace(job.renderer.plain, rule=None, colour=colour)
    places = [in_square(placed(size, size, None, job.backend)) for size in sizes_of(images)]
    return [
        image if place.covers else plain.batch([image], [place], place.size)[0].operand
        for image, place in zip(images, places, strict=True)
    ]


def resized_in_squares(job: Job, images: Images) -> Results:
    """Janus and DeepSeek-VL: with `do_pad` resized images become squares, of the colour of the processor's own mean."""
    return windowed(_coloured(job, "image_mean"), images)


def two_squares(job: Job, images: Images) -> Results:
    """DeepSeek-VL hybrid: large squares, and small ones that are resized from the large ones."""
    values, renderer = job.values, job.renderer
    if not (values["do_resize"] and values["do_pad"]):
        raise LayoutError(
            f"{job.declared.name} needs do_resize=True and do_pad=True: small squares come of large ones."
        )
    flat = flattened(images)
    large = {**values, "size": values["high_res_size"]}
    places = [
        square_canvas(large, placed(size, new_size(job.declared.kind.resizes, large, size), None, job.backend))
        for size in sizes_of(flat)
    ]
    bytes_of = replace(renderer.plain, rule=resize_rule(values["high_res_resample"], job.backend))
    squares = batched(_coloured(replace(job, renderer=bytes_of), "high_res_image_mean"), flat, places)
    shown = [squares[row].operand for row in range(len(flat))]
    how = renderer.how
    if how.mean is not None:
        how = replace(how, mean=figures_of(values["high_res_image_mean"]), std=figures_of(values["high_res_image_std"]))
    as_they_are = [placed(place.size, place.size, None, job.backend) for place in places]
    whole = batched(replace(job, renderer=replace(renderer, rule=None, how=how)), shown, as_they_are)
    return {**resized_in_squares(job, [shown]), "high_res_pixel_values": listed(whole)}


def screens(job: Job, images: Images) -> Results:
    """Fuyu: lists of images, bytes of `padding_value` up to `size`, and the sizes of the first image of each list."""
    values, flat, renderer = job.values, flattened(images), job.renderer
    byte, mode = values["padding_value"], values["padding_mode"]
    shown = places = [job.placed(size) for size in sizes_of(flat)]
    if values["do_pad"]:
        if mode != "constant" or byte not in range(256):
            raise LayoutError(
                f"padding_mode={mode!r} and padding_value={byte!r} are not reproduced: they are 'constant' and a byte."
            )
        screen = height_and_width("size", values["size"])
        for place in places:
            if place.size[0] > screen[0] or place.size[1] > screen[1]:
                raise LayoutError(
                    f"size={values['size']!r} is smaller than an image of {place.size[0]} x {place.size[1]}."
                )
        shown = [place._replace(size=screen) for place in places]
        renderer = replace(renderer, colour=(int(byte),) * flat[0].layout.sizes[0])
    counts, extents = sorted(set(map(len, images))), sorted({place.size for place in shown})
    if len(counts) > 1 or len(extents) > 1:
        raise LayoutError(
            f"Lists of {counts} images of the sizes {extents} are no tensor: give each list as many images, and "
            "do_pad=True."
        )
    batch = renderer.batch(flat, shown, extents[0])
    pixels = StridedTensor.over(batch.operand.with_layout(in_groups(batch.operand.layout, counts[0])))
    firsts = range(0, len(flat), counts[0])
    return {
        "images": pixels if job.backend == "torchvision" else [list(pixels[row]) for row in range(len(images))],
        "image_unpadded_heights": [[places[first].size[0]] for first in firsts],
        "image_unpadded_widths": [[places[first].size[1]] for first in firsts],
        "image_scale_factors": [[places[first].size[0] / places[first].source[0]] for first in firsts],
        "image_sizes": [places[first].source for first in firsts],
    }


def surrounded_patches(job: Job, images: Images) -> Results:
    """Inkling: patches of images with pixels of -1 below and at their right, twice each, and how many there are."""
    side = square_side(job.values)
    values = {**job.declared.values, "patch_size": side, "temporal_patch_size": 2}
    job = replace(job, declared=replace(job.declared, values=values))
    flat, placements, _ = all_placed(job, images)
    patches, grids = stacks(job, flat, placements, range(len(flat)), are_stills=True)
    pixels = np.full((flat[0].layout.sizes[0], 1, 1), -1, np.float32)
    outside = relayout(pixels, dims="CHW", **job.renderer.how.keywords).numpy().ravel().tolist()
    first = 0
    for (down, across), placement in zip(grids, placements, strict=True):
        layout = patches[first : first + down * across].operand.layout
        image = StridedTensor.over(patches.operand.with_layout(in_groups(layout, across)))
        _, _, height, width = placement.place
        below, beside = height - (down - 1) * side, width - (across - 1) * side
        for part in (image[down - 1, :, :, below:], image[:, across - 1, :, :, beside:]):
            if 0 not in part.sizes:
                for channel, value in enumerate(outside):
                    part[..., channel][...] = value
        first += down * across
    return {"pixel_values": patches, "num_patches": np.array([down * across for down, across in grids], np.int64)}


def _coloured(job: Job, name: str) -> Job:
    """The job with the colour of a mean around images; without `do_pad` itself."""
    if not job.values["do_pad"]:
        return job
    return replace(job, renderer=replace(job.renderer, colour=colour_of(job.own, name)))


def colour_of(values: Any, name: str) -> tuple[int, ...]:
    """The bytes of a mean. Raises `LayoutError` for one that is no colour."""
    mean = values[name]
    colour = tuple(int(figure * 255) for figure in mean) if isinstance(mean, (list, tuple)) else ()
    if not colour or not all(0 <= byte <= 255 for byte in colour):
        raise LayoutError(
            f"{name}={mean!r} is no colour, and do_pad=True puts it around images: give 0 to 1 a channel."
        )
    return colour
