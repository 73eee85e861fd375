"""Where the pixels of an image go: its new size and the window that is cut from it, as a processor declares.

Each result is a `Placement`: a box of the image is resized to a place of a window. What a window has besides is zeros
of the image's bytes, before they are normalised; zeros around windows, behind the arithmetic, are in `outputs.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from numbers import Integral
from typing import Any, Final

from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import LayoutError

from . import sizes
from .declaration import Resizes, is_count
from .normalising import Backend
from .sizes import Size

__all__ = ["crop_places", "grid_places", "middle_place", "middle_window", "new_size", "placed", "size_named"]

_SIZES: Final = (
    {"height", "width"},
    {"shortest_edge"},
    {"shortest_edge", "longest_edge"},
    {"longest_edge"},
    {"max_height", "max_width"},
    {"min_pixels", "max_pixels"},
)

Values = Mapping[str, Any]


def size_named(name: str, size: Any, *, is_square: bool = True) -> dict[str, int]:
    """A size as the library's dict of sides; one number is a square, or the shorter side unless `is_square`.

    Raises `LayoutError` for keys and numbers that are no size.
    """
    if isinstance(size, Integral):
        found: dict[str, Any] = {"height": size, "width": size} if is_square else {"shortest_edge": size}
    elif isinstance(size, (list, tuple)) and len(size) == 2:
        found = {"height": size[0], "width": size[1]}
    else:
        try:
            found = {key: value for key, value in dict(size).items() if value is not None}
        except (TypeError, ValueError):
            found = {}
    if set(found) not in _SIZES or not all(map(is_count, found.values())):
        known = ", ".join(" and ".join(sorted(keys)) for keys in _SIZES)
        raise LayoutError(f"{name}={size!r} is no size; it has positive integers for {known}.")
    return {key: int(side) for key, side in found.items()}


_MOST_PIXELS: Final = 1 << 16
"""Of a side: a declaration from elsewhere asks for no more memory than that."""


def new_size(rule: Resizes, values: Values, size: Size) -> Size:
    """Height and width of an image of `size` when it is resized."""
    resized = _RULES[rule](values, size)
    if min(resized) < 1 or max(resized) > _MOST_PIXELS:
        raise LayoutError(
            f"An image of {size[0]} x {size[1]} pixels becomes {resized[0]} x {resized[1]} by size={values['size']}; "
            f"each side needs one pixel, and has {_MOST_PIXELS} at most."
        )
    return resized


def middle_window(values: Values) -> Size | None:
    """The height and width that the middle of an image is cut to; None without `do_center_crop`."""
    if not values["do_center_crop"]:
        return None
    if values["crop_size"] is None:
        raise LayoutError("do_center_crop=True needs crop_size, the height and width of the window.")
    window = size_named("crop_size", values["crop_size"])
    if set(window) != {"height", "width"}:
        raise LayoutError(f"crop_size={values['crop_size']!r} must have height and width.")
    return window["height"], window["width"]


def placed(size: Size, resized: Size, window: Size | None, backend: Backend) -> Placement:
    """The whole image at its new size, or the middle of it."""
    top, left = (0, 0) if window is None else sizes.centred(resized, window, rounds_up=backend == "pil")
    return Placement(size, (0.0, 0.0, float(size[0]), float(size[1])), (-top, -left, *resized), window or resized)


def crop_places(size: Size, crops: list[tuple[int, int, int, int]], resized: Callable[[Size], Size]) -> list[Placement]:
    """Boxes of an image, (top, left, height, width), each cut out and then resized as an image of its size."""
    found = []
    for top, left, height, width in crops:
        made = resized((height, width))
        box = (float(top), float(left), float(top + height), float(left + width))
        found.append(Placement(size, box, (0, 0, *made), made))
    return found


def grid_places(size: Size, grid: tuple[int, int], tile: Size) -> list[Placement]:
    """An image that fills a grid of tiles, tile by tile, row by row."""
    (rows, columns), (height, width) = grid, tile
    whole = (0.0, 0.0, float(size[0]), float(size[1]))
    return [
        Placement(size, whole, (-row * height, -column * width, rows * height, columns * width), tile)
        for row in range(rows)
        for column in range(columns)
    ]


def middle_place(size: Size, resolution: Size) -> Placement:
    """An image as large as fits inside a resolution, in its middle."""
    rows, columns = sizes.splittable(size, resolution)
    place = ((resolution[0] - rows) // 2, (resolution[1] - columns) // 2, rows, columns)
    return Placement(size, (0.0, 0.0, float(size[0]), float(size[1])), place, resolution)


def _of_size(values: Values, size: Size) -> Size:
    """The library's general rule."""
    wanted = _wanted(values)
    match sorted(wanted):
        case ["longest_edge", "shortest_edge"]:
            return sizes.aspect_limited(size, wanted["shortest_edge"], wanted["longest_edge"])
        case ["shortest_edge"]:
            return sizes.shortest_edge(size, wanted["shortest_edge"])
        case ["max_height", "max_width"]:
            return sizes.inside(size, wanted["max_height"], wanted["max_width"])
        case ["height", "width"]:
            return wanted["height"], wanted["width"]
        case _:
            raise _other_size(values, "height and width, max_height and max_width, or shortest_edge")


def _wanted(values: Values) -> dict[str, int]:
    if values["size"] is None:
        raise LayoutError("do_resize=True needs size.")
    return size_named("size", values["size"], is_square=bool(values["default_to_square"]))


def _other_size(values: Values, needed: str) -> LayoutError:
    return LayoutError(f"size={values['size']!r} is of another kind; this processor takes {needed}.")


def _scaled(values: Values, size: Size) -> Size:
    """PoolFormer: the size divided by `crop_pct`."""
    share = values["crop_pct"]
    if share is None:
        return _of_size(values, size)
    wanted = _wanted(values)
    if "shortest_edge" in wanted:
        return sizes.shortest_edge(size, int(wanted["shortest_edge"] / share))
    if set(wanted) != {"height", "width"}:
        raise _other_size(values, "shortest_edge, or height and width")
    if wanted["height"] == wanted["width"]:
        return sizes.shortest_edge(size, int(wanted["height"] / share))
    return int(wanted["height"] / share), int(wanted["width"] / share)


def _convnext(values: Values, size: Size) -> Size:
    """ConvNext: a square from 384 pixels on; below, the shorter side divided by `crop_pct`, then the middle is cut."""
    edge = convnext_edge(values)
    return (edge, edge) if edge >= _CONVNEXT_SQUARE else sizes.shortest_edge(size, int(edge / values["crop_pct"]))


_CONVNEXT_SQUARE: Final = 384


def convnext_edge(values: Values) -> int:
    """The side of ConvNext's square."""
    wanted = _wanted(values)
    if "shortest_edge" not in wanted:
        raise _other_size(values, "shortest_edge")
    return wanted["shortest_edge"]


def convnext_window(values: Values) -> Size | None:
    """The window that ConvNext's resize cuts; None where it does not."""
    edge = convnext_edge(values)
    return None if edge >= _CONVNEXT_SQUARE else (edge, edge)


def _levit(values: Values, size: Size) -> Size:
    wanted = _wanted(values)
    if "shortest_edge" in wanted:
        return sizes.shortest_edge(size, int((256 / 224) * wanted["shortest_edge"]))
    return _of_size(values, size)


def _dpt(values: Values, size: Size) -> Size:
    wanted = _wanted(values)
    if set(wanted) != {"height", "width"}:
        raise _other_size(values, "height and width")
    target = wanted["height"], wanted["width"]
    return sizes.constrained(size, target, values["ensure_multiple_of"], keeps_shape=bool(values["keep_aspect_ratio"]))


def _detection(values: Values, size: Size) -> Size:
    """DETR, and Mask2Former, whose sides are whole multiples of `size_divisor`."""
    if set(_wanted(values)) == {"shortest_edge"}:
        raise _other_size(values, "shortest_edge with longest_edge, height and width, or max_height and max_width")
    height, width = _of_size(values, size)
    divisor = values.get("size_divisor") or 0
    if divisor > 0:
        height, width = ceil(height / divisor) * divisor, ceil(width / divisor) * divisor
    return height, width


def _longest(values: Values, size: Size) -> Size:
    wanted = _wanted(values)
    if set(wanted) != {"longest_edge"}:
        raise _other_size(values, "longest_edge")
    return sizes.longest_edge(size, wanted["longest_edge"])


def _tokens(values: Values, size: Size) -> Size:
    wanted, patch = _wanted(values), size_named("patch_size", values["patch_size"])
    if set(wanted) == {"longest_edge"}:
        most = wanted["longest_edge"], wanted["longest_edge"]
    elif set(wanted) == {"height", "width"}:
        most = wanted["height"], wanted["width"]
    else:
        raise _other_size(values, "longest_edge, or height and width")
    return sizes.tokens_limited(size, most, (patch["height"], patch["width"]))


def _pixels(values: Values, size: Size) -> Size:
    wanted = {} if values["size"] is None else size_named("size", values["size"], is_square=False)
    for name, key in (("min_pixels", "shortest_edge"), ("max_pixels", "longest_edge")):
        if values[name] is not None:
            wanted.pop(name, None)
            wanted[key] = values[name]
    if set(wanted) != {"shortest_edge", "longest_edge"}:
        raise _other_size(values, "shortest_edge and longest_edge, the least and the most pixels in all")
    factor = values["patch_size"] * values["merge_size"]
    return sizes.pixels_limited(size, factor, wanted["shortest_edge"], wanted["longest_edge"])


def _volume(values: Values, size: Size) -> Size:
    wanted = _wanted(values)
    if set(wanted) != {"shortest_edge", "longest_edge"}:
        raise _other_size(values, "shortest_edge and longest_edge, the least and the most pixels in all")
    factor = values["patch_size"] * values["merge_size"]
    least, most = wanted["shortest_edge"], wanted["longest_edge"]
    return sizes.volume_limited(size, factor, values["temporal_patch_size"], least, most)


def _within(values: Values, size: Size) -> Size:
    wanted = _wanted(values)
    if set(wanted) == {"shortest_edge", "longest_edge"}:
        return sizes.within(size, wanted["shortest_edge"], wanted["longest_edge"])
    if set(wanted) == {"height", "width"}:
        return wanted["height"], wanted["width"]
    raise _other_size(values, "shortest_edge and longest_edge, or height and width")


_RULES: Final[Mapping[Resizes, Callable[[Values, Size], Size]]] = {
    "size": _of_size,
    "crop_pct": _scaled,
    "convnext": _convnext,
    "levit": _levit,
    "dpt": _dpt,
    "detection": _detection,
    "longest_edge": _longest,
    "tokens": _tokens,
    "pixels": _pixels,
    "volume": _volume,
    "patches": lambda values, size: sizes.patches_limited(size, values["patch_size"], values["max_num_patches"]),
    "within": _within,
}
