"""`Placement`: where the pixels of one image go; maps boxes and points to the result and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.exchange.array_like import array_of_values, plain
from stridedgpu.planning.resize_problem import ResizeWindow
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout

__all__ = ["Box", "Placement", "placed_boxes", "placed_points"]

Box = tuple[float, float, float, float]
"""Top, left, bottom and right, in pixels of the source and fractions of them."""

Coordinates = NDArray[np.float64]


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

    def window(self, image: Layout) -> ResizeWindow:
        """The window of a resize, for an image of this layout. The box is cut out first, as by torchvision."""
        return ResizeWindow(image, self.box, self.place, self.flip, cuts=True)

    def points(self, points: Any) -> Coordinates:
        """Points (k, 2), x and y in pixels of the image, in pixels of the result. Some may lie outside."""
        (sx, ox), (sy, oy) = self._lines()
        return _coordinates(points, 2, "points") * (sx, sy) + (ox, oy)

    def points_back(self, points: Any) -> Coordinates:
        """Points of the result in pixels of the image."""
        (sx, ox), (sy, oy) = self._lines()
        return (_coordinates(points, 2, "points") - (ox, oy)) / (sx, sy)

    def boxes(self, boxes: Any, box_format: str = "xyxy") -> Coordinates:
        """Boxes (k, 4) in pixels of the image, in pixels of the result; parts may lie outside.

        `box_format` is the order of the numbers: "xyxy" (left, top, right, bottom), "xywh" (left, top, width, height),
        "cxcywh" (centre, width, height) or "tlbr" (top, left, bottom, right).
        """
        return self._boxes(boxes, box_format, self.points)

    def boxes_back(self, boxes: Any, box_format: str = "xyxy") -> Coordinates:
        """Boxes of the result in pixels of the image."""
        return self._boxes(boxes, box_format, self.points_back)

    def _boxes(self, boxes: Any, box_format: str, move: Any) -> Coordinates:
        """Boxes by both corners, put in order again: mirroring swaps left and right."""
        to_corners, from_corners = _CORNERS[box_format]
        corners = to_corners(_coordinates(boxes, 4, "boxes"))
        moved = np.stack((move(corners[:, :2]), move(corners[:, 2:])))
        return from_corners(np.concatenate((moved.min(axis=0), moved.max(axis=0)), axis=1))

    def _lines(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Factor and addend of x and of y."""
        top, left, bottom, right = self.box
        row, column, height, width = self.place
        sy, sx = height / (bottom - top), width / (right - left)
        if self.flip:
            return (-sx, column + right * sx), (sy, row - top * sy)
        return (sx, column - left * sx), (sy, row - top * sy)


def _coordinates(given: Any, width: int, name: str) -> Coordinates:
    """Numbers as an array (k, width); no numbers are an empty one."""
    try:
        # NumPy would drop imaginary parts with a warning.
        is_complex = getattr(getattr(given, "dtype", None), "kind", None) == "c"
        array = array_of_values(plain(given) if is_complex else given, np.float64)
    except TypeError:
        raise LayoutError(
            f"{name} of an image are numbers of sizes (k, {width}), which this {type(given).__name__} is not."
        ) from None
    if array.size == 0 and array.ndim in (1, 2):
        return np.empty((0, width))
    if array.ndim != 2 or array.shape[1] != width:
        raise LayoutError(f"{name} of an image are numbers of sizes (k, {width}), not {array.shape}.")
    return array


def _same(boxes: Coordinates) -> Coordinates:
    return boxes


def _turned(boxes: Coordinates) -> Coordinates:
    return boxes[:, [1, 0, 3, 2]]


def _ends(boxes: Coordinates) -> Coordinates:
    return np.concatenate((boxes[:, :2], boxes[:, :2] + boxes[:, 2:]), axis=1)


def _sizes(corners: Coordinates) -> Coordinates:
    return np.concatenate((corners[:, :2], corners[:, 2:] - corners[:, :2]), axis=1)


def _around(boxes: Coordinates) -> Coordinates:
    return np.concatenate((boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2), axis=1)


def _centres(corners: Coordinates) -> Coordinates:
    return np.concatenate(((corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]), axis=1)


_CORNERS: Final[dict[str, tuple[Callable[[Coordinates], Coordinates], Callable[[Coordinates], Coordinates]]]] = {
    "xyxy": (_same, _same),
    "tlbr": (_turned, _turned),
    "xywh": (_ends, _sizes),
    "cxcywh": (_around, _centres),
}
"""For each format of boxes: from it to both corners (left, top, right, bottom), and from these to it."""


def placed_boxes(placement: Placement, boxes: Any, box_format: str) -> NDArray[Any]:
    """Boxes moved with their image, in their own type if that is a float, else in float32."""
    given = _listed(boxes)
    return _in_type(given, placement.boxes(given, box_format))


def placed_points(placement: Placement, points: Any) -> NDArray[Any]:
    """Points moved with their image, in their own type if that is a float, else in float32."""
    given = _listed(points)
    return _in_type(given, placement.points(given))


def _listed(given: Any) -> Any:
    """A tensor of a library as an array of NumPy; anything else unchanged."""
    return given.numpy() if hasattr(given, "numpy") and not isinstance(given, np.ndarray) else given


def _in_type(given: Any, moved: Coordinates) -> NDArray[Any]:
    """Numbers in the type of what they were made of; lists of Python's numbers and integers give float32."""
    is_float = isinstance(given, np.ndarray) and given.dtype.kind == "f"
    return moved.astype(given.dtype if is_float else np.float32, copy=False)
