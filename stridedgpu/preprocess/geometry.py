"""The box of an image that becomes each part of the result: the rules of torchvision's transforms, and letterbox.

- `resize=256`: the shorter side becomes 256, the longer `int(256 * longer / shorter)`; `(height, width)` is exact.
- `crop`: the middle of the resized image, halves rounded to even; with a seed, a random window.
- `random_resized_crop=(scale, ratio)`: up to ten draws. Each draws an area, as a share of the image's between the
  bounds of `scale`, and the logarithm of width / height between those of `ratio`. The first box that fits is taken, at
  a random place; otherwise the middle box of the nearest ratio. It is resized to `crop`.
- `letterbox`: the whole image inside the frame, with borders of 114.

Sources: torchvision/transforms/functional.py (`_compute_resized_output_size`, `center_crop`) and transforms.py
(`RandomResizedCrop.get_params`). The random numbers are this library's: they depend on a sample's key and the seed
alone.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Final

from stridedgpu.operations.letterbox import placement
from stridedgpu.planning.resize_problem import Box, ResizeWindow
from stridedgpu.values.layout import Layout

from .declaration import Declaration
from .sample_keys import Draw, uniforms

__all__ = ["BORDER", "middle", "resized_sizes", "window_of"]

BORDER: Final = 114
"""The value of every channel around a letterboxed image."""

_TRIES: Final = 10


def window_of(step: Declaration, picture: Layout, drawn: Draw | None, key: object) -> ResizeWindow:
    """The box of an image with axes C, H, W that is resized, and where it goes; without `drawn` nothing is random."""
    _, height, width = picture.sizes
    whole: Box = (0.0, 0.0, float(height), float(width))
    flip = bool(step.flip) if drawn is None else drawn.flips(float(step.flip or 0))
    if step.letterbox is not None:
        return ResizeWindow(picture, whole, placement((height, width), step.letterbox, scale_up=True), flip)
    if step.random_resized_crop is not None:
        assert step.crop is not None, "a declaration with random_resized_crop= has crop="
        box = _random_box(step, (height, width), key)
        return ResizeWindow(picture, box, (0, 0, *step.crop), flip)
    sizes = resized_sizes(step, (height, width))
    if step.crop is None:
        return ResizeWindow(picture, whole, (0, 0, *sizes), flip)
    top, left = middle(sizes, step.crop) if drawn is None else drawn.origin(sizes, step.crop)
    if flip:
        # The window is mirrored, not the image that it is cut from.
        left = sizes[1] - step.crop[1] - left
    return ResizeWindow(picture, whole, (-top, -left, *sizes), flip)


def resized_sizes(step: Declaration, sizes: tuple[int, int]) -> tuple[int, int]:
    """Height and width of a resized image; the image's own without `resize`."""
    if step.resize is None:
        return sizes
    if len(step.resize) == 2:
        rows, columns = step.resize
        return rows, columns
    shorter: int = step.resize[0]
    height, width = sizes
    if width <= height:
        return int(shorter * height / width), shorter
    return shorter, int(shorter * width / height)


def middle(sizes: tuple[int, int], window: tuple[int, int]) -> tuple[int, int]:
    """The origin of the middle window of an image, rounded as torchvision's CenterCrop does."""
    return round((sizes[0] - window[0]) / 2), round((sizes[1] - window[1]) / 2)


def _random_box(step: Declaration, sizes: tuple[int, int], key: object) -> Box:
    """A random box; without a seed the middle box of the nearest ratio."""
    assert step.random_resized_crop is not None, "the caller looked"
    (least, most), (narrow, wide) = step.random_resized_crop
    height, width = sizes
    draws = iter(()) if step.seed is None else uniforms(step.seed, key, 2 * _TRIES + 2)
    for share, shape in [] if step.seed is None else [(next(draws), next(draws)) for _ in range(_TRIES)]:
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
