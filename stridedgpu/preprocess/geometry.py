"""Where each pixel of an image goes: the rules of torchvision's transforms, and letterbox.

- `resize=256`: the shorter side becomes 256, the longer `int(256 * longer / shorter)`; `(height, width)` is exact.
- `pad`: pixels around the resized image.
- `crop`: the middle of the padded image; with a seed, a random window. `center` says what becomes of half a pixel.
- `random_resized_crop=(scale, ratio)`: up to ten draws. Each draws an area, as a share of the image's between the
  bounds of `scale`, and the logarithm of width / height between those of `ratio`. The first box that fits is taken, at
  a random place; otherwise the middle box of the nearest ratio. It is cut out, then
  resized to `crop`: filters do not reach beyond it.
- `letterbox`: the whole image inside the frame, with borders.

Sources: torchvision/transforms/functional.py (`_compute_resized_output_size`, `center_crop`) and transforms.py
(`RandomResizedCrop.get_params`); transformers/image_transforms.py (`center_crop`). The random numbers are this
library's: they depend on a sample's key, the seed and the epoch alone.
"""

from __future__ import annotations

from math import exp, floor, log, sqrt
from typing import Final

from stridedgpu.operations.letterbox import placement
from stridedgpu.operations.resize import shorter_side

from .declaration import Center, Declaration
from .placement import Box, Placement
from .sample_keys import Chance

__all__ = ["middle", "padded_sizes", "placement_of", "resized_sizes"]

_TRIES: Final = 10


def placement_of(step: Declaration, sizes: tuple[int, int], chance: Chance | None) -> Placement:
    """Where an image of `sizes` (height, width) goes; without `chance` nothing is random."""
    height, width = sizes
    whole: Box = (0.0, 0.0, float(height), float(width))
    drawn = None if chance is None else chance.drawn
    flip = bool(step.flip) if drawn is None else drawn.flips(float(step.flip or 0))
    if step.letterbox is not None:
        rows, columns = step.letterbox
        return Placement(sizes, whole, placement(sizes, step.letterbox, scale_up=True), (rows, columns), flip)
    if step.random_resized_crop is not None:
        assert step.crop is not None, "a declaration with random_resized_crop= has crop="
        window = step.crop[0], step.crop[1]
        return Placement(sizes, _random_box(step, sizes, chance), (0, 0, *window), window, flip)
    resized, padded = resized_sizes(step, sizes), padded_sizes(step, sizes)
    above, before = (0, 0) if step.pad is None else step.pad[:2]
    window = padded if step.crop is None else (step.crop[0], step.crop[1])
    is_random = drawn is not None and step.random_crop is not False
    top, left = drawn.origin(padded, window) if drawn is not None and is_random else middle(padded, window, step.center)
    top, left = above - top, before - left
    if flip:  # the window is mirrored, not the image that it is cut from
        left = window[1] - resized[1] - left
    return Placement(sizes, whole, (top, left, *resized), window, flip)


def resized_sizes(step: Declaration, sizes: tuple[int, int]) -> tuple[int, int]:
    """Height and width of a resized image; the image's own without `resize`."""
    if step.resize is None:
        return sizes
    if len(step.resize) == 2:
        rows, columns = step.resize
        return rows, columns
    return shorter_side(step.resize[0], sizes)


def padded_sizes(step: Declaration, sizes: tuple[int, int]) -> tuple[int, int]:
    """Height and width of an image that is resized and padded."""
    rows, columns = resized_sizes(step, sizes)
    above, before, below, after = step.pad or (0, 0, 0, 0)
    return rows + above + below, columns + before + after


def middle(sizes: tuple[int, int], window: tuple[int, int], center: Center) -> tuple[int, int]:
    """The origin of the middle window of an image.

    "round" is torchvision's CenterCrop, which rounds half a pixel to even; "floor" is `center_crop` of transformers.

    >>> middle((225, 227), (224, 224), "round"), middle((225, 227), (224, 224), "floor")
    ((0, 2), (0, 1))
    """
    half = round if center == "round" else floor
    return half((sizes[0] - window[0]) / 2), half((sizes[1] - window[1]) / 2)


def _random_box(step: Declaration, sizes: tuple[int, int], chance: Chance | None) -> Box:
    """A random box; without a seed the middle box of the nearest ratio."""
    assert step.random_resized_crop is not None, "the caller looked"
    (least, most), (narrow, wide) = step.random_resized_crop
    height, width = sizes
    draws = iter(()) if chance is None else chance.uniforms(2 * _TRIES + 2)
    for share, shape in [] if chance is None else [(next(draws), next(draws)) for _ in range(_TRIES)]:
        area = height * width * (least + (most - least) * share)
        ratio = exp(log(narrow) + (log(wide) - log(narrow)) * shape)
        columns, rows = round(sqrt(area * ratio)), round(sqrt(area / ratio))
        if 0 < columns <= width and 0 < rows <= height:
            top, left = int(next(draws) * (height - rows + 1)), int(next(draws) * (width - columns + 1))
            return (float(top), float(left), float(top + rows), float(left + columns))
    rows, columns = height, width
    if width / height < narrow:
        rows = round(width / narrow)
    elif width / height > wide:
        columns = round(height * wide)
    top, left = (height - rows) // 2, (width - columns) // 2
    return (float(top), float(left), float(top + rows), float(left + columns))
