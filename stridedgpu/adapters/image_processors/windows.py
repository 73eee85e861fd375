"""Where the pixels of an image go: its new size and the window that is cut from it, as a processor declares.

Each result is a `Placement`: a box of the image is resized to a place of a window. Elsewhere the window has bytes of
zero, which are normalised like the image's. Zeros of the result, around windows, are written by `rendering.py`.

A `SizeRule` computes the new size for one class of processors, or for several: the rows of `kinds/` name it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from numbers import Integral
from typing import Any, Final, TypeAlias

from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import LayoutError

from . import sizes
from .normalising import Backend
from .sizes import MOST_PIXELS, Size, is_count

_SIZES: Final = (
    {"height", "width"},
    {"shortest_edge"},
    {"shortest_edge", "longest_edge"},
    {"longest_edge"},
    {"max_height", "max_width"},
    {"min_pixels", "max_pixels"},
)

_MOST_STATED: Final = 1 << 40
"""Of a side, or of an area: floats of larger numbers would be inexact, or none."""

Values = Mapping[str, Any]
SizeRule: TypeAlias = Callable[[Values, Size], Size]
"""The height and width that an image of a size is resized to, by the options of a processor."""


def size_named(name: str, size: Any, *, is_square: bool = True) -> dict[str, int]:
    """A size as the library's dict of sides; one number is a square, or the shorter side unless `is_square`.

    Raises `LayoutError` for keys and numbers that are no size.
    """
    if isinstance(size, Integral):
        sides: dict[str, Any] = {"height": size, "width": size} if is_square else {"shortest_edge": size}
    elif isinstance(size, (list, tuple)) and len(size) == 2:
        sides = {"height": size[0], "width": size[1]}
    else:
        try:
            stated = dict(size) if hasattr(size, "keys") else {}
            sides = {key: value for key, value in stated.items() if value is not None}
        except (TypeError, ValueError):
            sides = {}
    if set(sides) not in _SIZES or not all(is_count(side) and side <= _MOST_STATED for side in sides.values()):
        known = ", ".join(" and ".join(sorted(keys)) for keys in _SIZES)
        raise LayoutError(f"{name}={size!r} is no size; it has integers from 1 to {_MOST_STATED} for {known}.")
    return {key: int(side) for key, side in sides.items()}


def height_and_width(name: str, size: Any) -> Size:
    """A size that has both sides. Raises `LayoutError` for other sizes."""
    sides = size_named(name, size)
    if set(sides) != {"height", "width"}:
        raise LayoutError(f"{name}={size!r} must have height and width.")
    return sides["height"], sides["width"]


_LONGEST: Final = 1 << 24
"""Of a side, of which a window may be computed: an image 74,898 times as wide as high, at a height of 224."""


def new_size(rule: SizeRule, values: Values, size: Size, *, is_cut: bool = False) -> Size:
    """Height and width of an image of `size` when it is resized; with `is_cut` a window of it is computed."""
    resized = rule(values, size)
    if min(resized) < 1 or max(resized) > _LONGEST or (resized[0] * resized[1] > MOST_PIXELS and not is_cut):
        alone = "" if is_cut else f", and both {MOST_PIXELS} pixels"
        raise LayoutError(
            f"An image of {size[0]} x {size[1]} pixels becomes {resized[0]} x {resized[1]} by size={values['size']}; "
            f"each side needs one pixel, and has {_LONGEST} at most{alone}."
        )
    return resized


def middle_window(values: Values, default: Any) -> Size | None:
    """The height and width that the middle of an image is cut to; None without `do_center_crop`.

    `default` is the class's `crop_size`: BridgeTower's is the shorter edge, by which it means a square.
    """
    if not values["do_center_crop"]:
        return None
    if values["crop_size"] is None:
        raise LayoutError("do_center_crop=True needs crop_size, the height and width of the window.")
    if default is not None and set(default) == {"shortest_edge"}:
        sides = size_named("crop_size", values["crop_size"])
        if set(sides) != set(default):
            raise LayoutError(f"crop_size={values['crop_size']!r} must have shortest_edge, the side of a square.")
        return sides["shortest_edge"], sides["shortest_edge"]
    return height_and_width("crop_size", values["crop_size"])


def placed(size: Size, resized: Size, window: Size | None, backend: Backend) -> Placement:
    """The whole image at its new size, or the middle of it."""
    top, left = (0, 0) if window is None else sizes.centred(resized, window, rounds_up=backend == "pil")
    return Placement(size, (0.0, 0.0, float(size[0]), float(size[1])), (-top, -left, *resized), window or resized)


def crop_places(size: Size, crops: list[tuple[int, int, int, int]], resized: Callable[[Size], Size]) -> list[Placement]:
    """Boxes of an image, (top, left, height, width), each cut out and then resized as an image of its size."""
    placements = []
    for top, left, height, width in crops:
        size_there = resized((height, width))
        box = (float(top), float(left), float(top + height), float(left + width))
        placements.append(Placement(size, box, (0, 0, *size_there), size_there))
    return placements


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


def by_size(values: Values, size: Size) -> Size:
    """The library's general rule."""
    match _wanted(values):
        case {"shortest_edge": edge, "longest_edge": most}:
            return sizes.aspect_limited(size, edge, most)
        case {"shortest_edge": edge}:
            return sizes.shortest_edge(size, edge)
        case {"max_height": height, "max_width": width}:
            return sizes.inside(size, height, width)
        case {"height": height, "width": width}:
            return height, width
    raise other_size(values, "height and width, max_height and max_width, or shortest_edge")


def _wanted(values: Values) -> dict[str, int]:
    if values["size"] is None:
        raise LayoutError("do_resize=True needs size.")
    return size_named("size", values["size"], is_square=bool(values["default_to_square"]))


def other_size(values: Values, needed: str) -> LayoutError:
    """What is wrong with a `size` that a processor does not take."""
    return LayoutError(f"size={values['size']!r} is of another kind; this processor takes {needed}.")


def crop_pct(values: Values, size: Size) -> Size:
    """PoolFormer: the size divided by `crop_pct`."""
    share = values["crop_pct"]
    if share is None:
        return by_size(values, size)
    match _wanted(values):
        case {"shortest_edge": edge}:
            return sizes.shortest_edge(size, int(edge / share))
        case {"height": height, "width": width} if height == width:
            return sizes.shortest_edge(size, int(height / share))
        case {"height": height, "width": width}:
            return int(height / share), int(width / share)
    raise other_size(values, "shortest_edge, or height and width")


def convnext(values: Values, size: Size) -> Size:
    """ConvNext: a square from 384 pixels on; below, the shorter side divided by `crop_pct`, then the middle is cut."""
    edge, share = _convnext_edge(values), values["crop_pct"]
    if edge >= _CONVNEXT_SQUARE:
        return edge, edge
    if share is None:
        raise LayoutError(f"size={values['size']!r} needs crop_pct, the share of a side that is left.")
    return sizes.shortest_edge(size, int(edge / share))


_CONVNEXT_SQUARE: Final = 384


def _convnext_edge(values: Values) -> int:
    wanted = _wanted(values)
    if "shortest_edge" not in wanted:
        raise other_size(values, "shortest_edge")
    return wanted["shortest_edge"]


def convnext_window(values: Values) -> Size | None:
    """The window that ConvNext's resize cuts; None where it does not."""
    edge = _convnext_edge(values)
    return None if edge >= _CONVNEXT_SQUARE else (edge, edge)


def levit(values: Values, size: Size) -> Size:
    """LeViT: the shorter side times 256 / 224."""
    wanted = _wanted(values)
    if "shortest_edge" in wanted:
        return sizes.shortest_edge(size, int((256 / 224) * wanted["shortest_edge"]))
    return by_size(values, size)


def dpt(values: Values, size: Size) -> Size:
    """DPT: whole multiples of `ensure_multiple_of`."""
    match _wanted(values):
        case {"height": height, "width": width}:
            keeps_shape = bool(values["keep_aspect_ratio"])
            return sizes.constrained(size, (height, width), values["ensure_multiple_of"], keeps_shape=keeps_shape)
    raise other_size(values, "height and width")


def detection(values: Values, size: Size) -> Size:
    """DETR, and Mask2Former, whose sides are whole multiples of `size_divisor`."""
    if set(_wanted(values)) == {"shortest_edge"}:
        raise other_size(values, "shortest_edge with longest_edge, height and width, or max_height and max_width")
    height, width = by_size(values, size)
    divisor = values.get("size_divisor") or 0
    if divisor > 0:
        height, width = ceil(height / divisor) * divisor, ceil(width / divisor) * divisor
    return height, width


def mod_sixteen(values: Values, size: Size) -> Size:
    """YOLOS: sides of the shorter and longer edge are whole multiples of 16."""
    match _wanted(values):
        case {"shortest_edge": edge, "longest_edge": most}:
            return sizes.mod_limited(size, edge, most, 16)
    return detection(values, size)


_VILT_SHAPE: Final = 1333 / 800
"""The longest shape of COCO's images."""


def vilt(values: Values, size: Size) -> Size:
    """ViLT and BridgeTower: whole multiples of `size_divisor`."""
    match _wanted(values):
        case {"shortest_edge": edge}:
            return sizes.rounded_limited(size, edge, int(_VILT_SHAPE * edge), _divisor(values))
    raise other_size(values, "shortest_edge")


def _divisor(values: Values) -> int:
    divisor: int | None = values["size_divisor"]
    if not divisor:
        raise LayoutError(f"size_divisor={divisor}: this processor needs one of 1 or more.")
    return divisor


def glpn(values: Values, size: Size) -> Size:
    """GLPN: each side rounded down to whole multiples of `size_divisor`."""
    divisor = _divisor(values)
    return size[0] // divisor * divisor, size[1] // divisor * divisor


def textnet(values: Values, size: Size) -> Size:
    """TextNet: the shorter side, then both rounded up to whole multiples of `size_divisor`."""
    match _wanted(values):
        case {"shortest_edge": edge}:
            divisor, (height, width) = _divisor(values), sizes.shortest_edge(size, edge)
            return ceil(height / divisor) * divisor, ceil(width / divisor) * divisor
    raise other_size(values, "shortest_edge")


def page_size(values: Values) -> Size:
    """The height and width of a document's page; Donut's lists have the width first."""
    size = values["size"]
    return height_and_width(
        "size", size[::-1] if "do_crop_margin" not in values and isinstance(size, (list, tuple)) else size
    )


def page(values: Values, size: Size) -> Size:
    """Donut and Nougat: the shorter side becomes that of the page."""
    return sizes.shortest_edge(size, min(page_size(values)))


def lcnet(values: Values, size: Size) -> Size:
    """PP-LCNet: the shorter side becomes `resize_short`, both rounded half to even and up to whole multiples."""
    edge = values["resize_short"]
    if edge is None:
        return by_size(values, size)
    scale, divisor = edge / min(size), values["size_divisor"] or 1
    height, width = (ceil(round(side * scale) / divisor) * divisor for side in size)
    return height, width


def tvp(values: Values, size: Size) -> Size:
    """TVP: the longer side, or the general rule."""
    match _wanted(values):
        case {"longest_edge": edge, **others} if not others:
            return sizes.longest_edge_floored(size, edge)
    return by_size(values, size)


def longest_edge(values: Values, size: Size) -> Size:
    """SAM: the longer side."""
    wanted = _wanted(values)
    if set(wanted) != {"longest_edge"}:
        raise other_size(values, "longest_edge")
    return sizes.longest_edge(size, wanted["longest_edge"])


def tokens(values: Values, size: Size) -> Size:
    """Pixtral: whole patches inside a square or a rectangle."""
    wanted, patch = _wanted(values), height_and_width("patch_size", values["patch_size"])
    if set(wanted) == {"longest_edge"}:
        most = wanted["longest_edge"], wanted["longest_edge"]
    elif set(wanted) == {"height", "width"}:
        most = wanted["height"], wanted["width"]
    else:
        raise other_size(values, "longest_edge, or height and width")
    return sizes.tokens_limited(size, most, patch)


def pixels(values: Values, size: Size) -> Size:
    """Qwen2-VL: the pixels of a frame."""
    wanted = {} if values["size"] is None else size_named("size", values["size"], is_square=False)
    for name, key in (("min_pixels", "shortest_edge"), ("max_pixels", "longest_edge")):
        if values[name] is not None:
            wanted.pop(name, None)
            wanted[key] = values[name]
    if set(wanted) != {"shortest_edge", "longest_edge"}:
        raise other_size(values, "shortest_edge and longest_edge, the least and the most pixels in all")
    factor = values["patch_size"] * values["merge_size"]
    least, most = wanted["shortest_edge"], wanted["longest_edge"]
    if values.get("cap_pixels_per_frame"):
        whole = int(values["max_video_tokens"] * factor * factor * 0.9)
        most = max(min(most, whole * values["temporal_patch_size"] // values["frames"]), int(least * 1.05))
    return sizes.pixels_limited(size, factor, least, most)


def volume(values: Values, size: Size) -> Size:
    """GLM-4V and Qwen3-VL: the pixels of all frames."""
    wanted = _wanted(values)
    if set(wanted) != {"shortest_edge", "longest_edge"}:
        raise other_size(values, "shortest_edge and longest_edge, the least and the most pixels in all")
    factor = values["patch_size"] * values["merge_size"]
    least, most, times = wanted["shortest_edge"], wanted["longest_edge"], values["temporal_patch_size"]
    frames = values.get("frames", times)
    if frames < times:
        raise LayoutError(f"A video has {frames} frames; this processor takes {times} at least.")
    if values.get("cap_pixels_per_frame"):
        most = frames * max(min(values["max_video_tokens"] * factor * factor, most // frames), int(least * 1.05))
    return sizes.volume_limited(size, factor, frames, round(frames / times) * times, least, most)


def within(values: Values, size: Size) -> Size:
    """Idefics2: both sides between two bounds."""
    match _wanted(values):
        case {"shortest_edge": least, "longest_edge": most}:
            return sizes.within(size, least, most)
        case {"height": height, "width": width}:
            return height, width
    raise other_size(values, "shortest_edge and longest_edge, or height and width")


def patches(values: Values, size: Size) -> Size:
    """SigLIP 2: at most `max_num_patches` patches of `patch_size`."""
    return sizes.patches_limited(size, values["patch_size"], values["max_num_patches"])
