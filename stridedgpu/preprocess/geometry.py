"""Where each pixel of an image goes, boxes and points with it: the rules of torchvision's transforms, and letterbox.

- `resize=256`: the shorter side becomes 256, the longer `int(256 * longer / shorter)`; `(height, width)` is exact.
  Where that is above `max_size=500`, the longer side becomes 500, and the shorter `int(500 * shorter / longer)`.
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

from collections.abc import Callable
from math import exp, log, sqrt
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.exchange.array_like import array_of_values, plain
from stridedgpu.operations.resize import check_pixels, placement, shorter_side
from stridedgpu.problems.resize_problem import ResizeWindow
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import is_one_of

from .declaration import Center, Declaration
from .epochs import Chance

_TRIES: Final = 10

Box = tuple[float, float, float, float]
"""Top, left, bottom and right, in pixels of the source and fractions of them."""

Coordinates = NDArray[np.float64]
_Pairs = Callable[[Coordinates, Coordinates], tuple[Coordinates, Coordinates]]


class Placement(NamedTuple):
    """A box of an image, in pixels of the image, and where it goes in the result.

    `source` is the image's height and width. `box` is top, left, bottom and right. `place` is top, left, height and
    width of the box in the result, in pixels; it may reach over the edges. `size` is the height and width of the
    result. `flip` mirrors the box left and right, in its place.

    >>> placed = Placement((100, 200), (0.0, 0.0, 100.0, 200.0), (0, -20, 50, 100), (50, 60), True)
    >>> placed.points([[0.0, 0.0], [120.0, 40.0]]).tolist()
    [[80.0, 0.0], [20.0, 20.0]]
    >>> placed.points_back(placed.points([[120.0, 40.0]])).tolist()
    [[120.0, 40.0]]
    """

    source: tuple[int, int]
    box: Box
    place: tuple[int, int, int, int]
    size: tuple[int, int]
    flip: bool = False

    @property
    def covers(self) -> bool:
        """Whether the box covers the whole result."""
        (top, left, height, width), (rows, columns) = self.place, self.size
        return top <= 0 and left <= 0 and top + height >= rows and left + width >= columns

    def window(self, image: Layout) -> ResizeWindow:
        """The window of a resize, for an image of this layout. The box is cut out first, as by torchvision."""
        return ResizeWindow(image, self.box, self.place, self.flip, cuts=True)

    def points(self, points: object) -> Coordinates:
        """Points (k, 2), x and y in pixels of the image, in pixels of the result. Some may lie outside."""
        factors, addends = self._lines()
        return _coordinates(points, 2, "points") * factors + addends

    def points_back(self, points: object) -> Coordinates:
        """Points of the result in pixels of the image."""
        factors, addends = self._lines()
        return (_coordinates(points, 2, "points") - addends) / factors

    def boxes(self, boxes: object, box_format: str = "xyxy") -> Coordinates:
        """Boxes (k, 4) in pixels of the image, in pixels of the result; parts may lie outside.

        `box_format` is the order of the numbers: "xyxy" (left, top, right, bottom), "xywh" (left, top, width, height),
        "cxcywh" (centre, width, height) or "tlbr" (top, left, bottom, right).
        """
        return moved_boxes(boxes, box_format, self.points)

    def boxes_back(self, boxes: object, box_format: str = "xyxy") -> Coordinates:
        """Boxes of the result in pixels of the image."""
        return moved_boxes(boxes, box_format, self.points_back)

    def _lines(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The factors of x and y, and the addends."""
        top, left, bottom, right = self.box
        row, column, height, width = self.place
        # A side of an image without pixels is only moved.
        sy = height / (bottom - top) if bottom > top else 1.0
        sx = width / (right - left) if right > left else 1.0
        if self.flip:
            return (-sx, sy), (column + right * sx, row - top * sy)
        return (sx, sy), (column - left * sx, row - top * sy)


_CORNERS: Final[dict[str, tuple[_Pairs, _Pairs]]] = {
    "xyxy": (lambda first, second: (first, second), lambda first, second: (first, second)),
    "xywh": (lambda first, size: (first, first + size), lambda first, second: (first, second - first)),
    "cxcywh": (
        lambda centre, size: (centre - size / 2, centre + size / 2),
        lambda first, second: ((first + second) / 2, second - first),
    ),
    "tlbr": (
        lambda first, second: (first[:, ::-1], second[:, ::-1]),
        lambda first, second: (first[:, ::-1], second[:, ::-1]),
    ),
}
"""By format, from the first two and the last two numbers of boxes to their corners, and back."""


def moved_boxes(boxes: object, box_format: str, move: Callable[[Any], Coordinates]) -> Coordinates:
    """Boxes by both corners, put in order again: mirroring swaps left and right."""
    numbers = _coordinates(boxes, 4, "boxes")
    if not is_one_of(box_format, _CORNERS):
        raise LayoutError(f"box_format={box_format!r} is unknown; it is 'xyxy', 'xywh', 'cxcywh' or 'tlbr'.")
    to_corners, from_corners = _CORNERS[box_format]
    ends = np.stack([move(corner) for corner in to_corners(numbers[:, :2], numbers[:, 2:])])
    return np.concatenate(from_corners(ends.min(axis=0), ends.max(axis=0)), axis=1)


def _coordinates(values: object, width: int, name: str) -> Coordinates:
    """Numbers as an array (k, width); no numbers are an empty one."""
    try:
        # NumPy would drop imaginary parts with a warning.
        is_complex = getattr(getattr(values, "dtype", None), "kind", None) == "c"
        array = array_of_values(plain(values) if is_complex else values, np.float64)
    except TypeError:
        raise LayoutError(
            f"{name} of an image are numbers of sizes (k, {width}), which this {type(values).__name__} is not."
        ) from None
    if array.size == 0 and array.ndim in (1, 2):
        return np.empty((0, width))
    if array.ndim != 2 or array.shape[1] != width:
        raise LayoutError(f"{name} of an image are numbers of sizes (k, {width}), not {array.shape}.")
    return array


def placement_of(step: Declaration, sizes: tuple[int, int], chance: Chance | None) -> Placement:
    """Where an image of `sizes` (height, width) goes; without `chance` nothing is random."""
    height, width = sizes
    whole: Box = (0.0, 0.0, float(height), float(width))
    flip = bool(step.flip) if chance is None else chance.flips(float(step.flip or 0))
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
    if chance is not None and step.random_crop is not False:
        top, left = chance.origin(padded, window)
    else:
        top, left = middle(padded, window, step.center)
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
    rows, columns = shorter_side(step.resize[0], sizes)
    shorter, longer = min(rows, columns), max(rows, columns)
    if step.max_size is None or longer <= step.max_size:
        return rows, columns
    shorter = int(step.max_size * shorter / longer)
    if not shorter:
        raise LayoutError(f"it is {sizes[0]} x {sizes[1]}, of which max_size={step.max_size} leaves no pixel.")
    return (step.max_size, shorter) if rows > columns else (shorter, step.max_size)


def padded_sizes(step: Declaration, sizes: tuple[int, int]) -> tuple[int, int]:
    """Height and width of an image that is resized and padded."""
    rows, columns = resized_sizes(step, sizes)
    above, before, below, after = step.pad or (0, 0, 0, 0)
    return rows + above + below, columns + before + after


def middle(sizes: tuple[int, int], window: tuple[int, int], center: Center) -> tuple[int, int]:
    """The origin of the middle window of an image; negative where the image is smaller.

    "round" is torchvision's CenterCrop, which rounds half a pixel to even; "floor" is `center_crop` of transformers.
    Of an odd number of pixels around a smaller image, the one more is behind it by torchvision, and before it by
    transformers.

    >>> middle((225, 227), (224, 224), "round"), middle((225, 227), (224, 224), "floor")
    ((0, 2), (0, 1))
    >>> middle((221, 223), (224, 224), "round")
    (-1, 0)
    >>> middle((221, 223), (224, 224), "floor")
    (-2, -1)
    """
    tall, wide = sizes[0] - window[0], sizes[1] - window[1]
    if center == "floor":
        return tall // 2, wide // 2
    return round(tall / 2) if tall > 0 else -(-tall // 2), round(wide / 2) if wide > 0 else -(-wide // 2)


def fits_crop(step: Declaration, sizes: tuple[int, int]) -> bool:
    """Whether a step's middle window, if it has one, lies inside an image of these sizes, or may be surrounded."""
    if step.crop is None or step.random_resized_crop is not None or step.smaller != "refuse":
        return True
    return all(size >= wanted for size, wanted in zip(padded_sizes(step, sizes), step.crop, strict=True))


def _random_box(step: Declaration, sizes: tuple[int, int], chance: Chance | None) -> Box:
    """A random box; without a seed the middle box of the nearest ratio."""
    (least, most), (narrow, wide) = step.random_resized_crop
    height, width = sizes
    check_pixels(height, width)
    if chance is not None:
        draws = chance.uniforms(2 * _TRIES + 2)
        for share, shape in [(next(draws), next(draws)) for _ in range(_TRIES)]:
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
