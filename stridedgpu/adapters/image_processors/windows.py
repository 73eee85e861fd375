"""Where the pixels of an image go: its new size and the window that is cut from it, as a processor declares.

Each result is a `Placement`: a box of the image is resized to a place of a window. Elsewhere the window has bytes of
zero, which are normalised like the image's. Zeros of the result, around windows, are written by `rendering.py`.

A `SizeRule` computes the new size for one class of processors, or for several: the rows of `kinds/` name it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, floor, prod
from numbers import Integral
from typing import Any, Final, TypeAlias

import numpy as np

from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import LayoutError

from . import sizes
from .normalising import Backend
from .sizes import MOST_PIXELS, Grid, Size, is_count

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

Canvas: TypeAlias = Callable[[Values, Placement], Placement]
"""Where a placed image lies in a larger window, by the options of a processor."""

GridRule: TypeAlias = Callable[[Values, Size], Grid]
"""The rows and columns of tiles that an image of a size is cut into, by the options of a processor."""


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
    return _bounded(size, rule(values, size), f" by size={values['size']}", is_cut=is_cut)


def _bounded(size: Size, resized: Size, by: str = "", *, is_cut: bool = False) -> Size:
    """The size of an image when it is resized. Raises `LayoutError` where it would have too many pixels, or none."""
    if min(resized) < 1 or max(resized) > _LONGEST or (resized[0] * resized[1] > MOST_PIXELS and not is_cut):
        alone = "" if is_cut else f", and both {MOST_PIXELS} pixels"
        raise LayoutError(
            f"An image of {size[0]} x {size[1]} pixels becomes {resized[0]} x {resized[1]}{by}; each side needs one "
            f"pixel, and has {_LONGEST} at most{alone}."
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


def whole_place(size: Size, resized: Size) -> Placement:
    """A whole image at another size."""
    _bounded(size, resized)
    return Placement(size, (0.0, 0.0, float(size[0]), float(size[1])), (0, 0, *resized), resized)


def crop_places(size: Size, crops: list[tuple[int, int, int, int]], resized: Callable[[Size], Size]) -> list[Placement]:
    """Boxes of an image, (top, left, height, width), each cut out and then resized as an image of its size."""
    placements = []
    for top, left, height, width in crops:
        size_there = resized((height, width))
        box = (float(top), float(left), float(top + height), float(left + width))
        placements.append(Placement(size, box, (0, 0, *size_there), size_there))
    return placements


def grid_places(size: Size, grid: Grid, tile: Size, resized: Size | None = None) -> list[Placement]:
    """An image in a grid of tiles, tile by tile, row by row: it fills them, or is `resized` at their top left."""
    (rows, columns), (height, width) = grid, tile
    whole = (0.0, 0.0, float(size[0]), float(size[1]))
    place = (rows * height, columns * width) if resized is None else resized
    return [
        Placement(size, whole, (-row * height, -column * width, *place), tile)
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


def text_squares(values: Values, size: Size) -> Size:
    """PP-OCR's detection: whole squares of 32 pixels, the longer or the shorter side limited."""
    limit, kind = values["limit_side_len"], values["limit_type"]
    if kind not in ("max", "min", "resize_long") or limit is None:
        raise LayoutError(
            f"limit_type={kind!r} with limit_side_len={limit} is unknown; it is 'max', 'min' or 'resize_long', and a "
            "number of pixels."
        )
    side = min(size) if kind == "min" else max(size)
    stays = side <= limit if kind == "max" else side >= limit if kind == "min" else False
    return sizes.limited_squares(size, 1.0 if stays else limit / side, values["max_side_limit"])


def text_line(values: Values, size: Size) -> Size:
    """PP-OCR's recognition: the height of `size`, and a width for the widest image of a call."""
    return sizes.line(size, height_and_width("size", values["size"]), values["max_image_width"])


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


def longest_of_a_square(values: Values, size: Size) -> Size:
    """Janus and DeepSeek-VL: the longer side, and at least `min_size` of the other."""
    match _wanted(values):
        case {"height": height, "width": width} if height == width:
            return sizes.longest_rounded(size, height, values["min_size"])
    raise other_size(values, "height and width, which are the same")


def square_canvas(values: Values, placement: Placement) -> Placement:
    """Janus and DeepSeek-VL: with `do_pad` the middle of the smallest square."""
    return in_square(placement) if values["do_pad"] else placement


def in_square(placement: Placement) -> Placement:
    """The middle of the smallest square that holds an image."""
    (height, width), side = placement.size, max(placement.size)
    return placement._replace(place=((side - height) // 2, (side - width) // 2, height, width), size=(side, side))


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
    least, most = _pixels(values)
    factor = values["patch_size"] * values["merge_size"]
    if values.get("cap_pixels_per_frame"):
        whole = int(values["max_video_tokens"] * factor * factor * 0.9)
        most = max(min(most, whole * values["temporal_patch_size"] // values["frames"]), int(least * 1.05))
    return sizes.pixels_limited(size, factor, least, most)


def _pixels(values: Values) -> tuple[int, int]:
    """The least and the most pixels: `min_pixels` and `max_pixels`, or what `size` has."""
    wanted = {} if values["size"] is None else size_named("size", values["size"], is_square=False)
    for name, key in (("min_pixels", "shortest_edge"), ("max_pixels", "longest_edge")):
        if values.get(name) is not None:
            wanted.pop(name, None)
            wanted[key] = values[name]
    if set(wanted) != {"shortest_edge", "longest_edge"}:
        raise other_size(values, "shortest_edge and longest_edge, the least and the most pixels in all")
    return wanted["shortest_edge"], wanted["longest_edge"]


def pixels_of_a_factor(values: Values, size: Size) -> Size:
    """PaddleOCR-VL: as Qwen2-VL, for an image whose sides are a merged patch at least."""
    return pixels(values, sizes.at_least(size, values["patch_size"] * values["merge_size"]))


def half_pixels(values: Values, size: Size) -> Size:
    """GLM-Image: half of each side, between two sides."""
    least, most = _pixels(values)
    return sizes.halved(size, values["patch_size"] * values["merge_size"], least, most)


def volume(values: Values, size: Size) -> Size:
    """GLM-4V and Qwen3-VL: the pixels of all frames."""
    wanted = _wanted(values)
    if set(wanted) != {"shortest_edge", "longest_edge"}:
        raise other_size(values, "shortest_edge and longest_edge, the least and the most pixels in all")
    factor = values["patch_size"] * values["merge_size"] * values.get("patch_expand_factor", 1)
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


def soft_tokens(values: Values, size: Size) -> Size:
    """Gemma 4: whole pools of patches, at most `max_soft_tokens` of them."""
    return sizes.pooled(size, values["patch_size"] * values["pooling_kernel_size"], values["max_soft_tokens"])


def whole_of_slices(values: Values, size: Size) -> Size:
    """MiniCPM-V: the whole image, which grows where it has no slices; in MiniCPM-OCR with "always" alone."""
    grows = values.get("small_image_upsize", "always") == "always"
    return _sliced(values, size, grows=grows and slice_grid(values, size) is None)


def slice_grid(values: Values, size: Size) -> tuple[int, int] | None:
    """MiniCPM-V: the rows and columns of slices; None for none."""
    return (
        sizes.slice_grid(size, values["scale_resolution"], values["max_slice_nums"]) if values["slice_mode"] else None
    )


def slice_size(values: Values, size: Size, grid: tuple[int, int]) -> Size:
    """MiniCPM-V: the size of each slice."""
    height, width = (sizes.in_factors(side, count) / count for side, count in zip(size, grid, strict=True))
    return _sliced(values, (height, width), grows=True)


def _sliced(values: Values, size: tuple[float, float], *, grows: bool) -> Size:
    factor = values["patch_size"] * (2 if values["downsample_mode"] == "4x" else 4)
    return sizes.near_a_square(size, values["scale_resolution"], factor, grows=grows)


def image_tokens(values: Values, size: Size) -> Size:
    """LFM2-VL: the whole image, `min_image_tokens` to `max_image_tokens` of it."""
    token = _patches_of_a_token(values)
    least, most = (values[name] * token**2 for name in ("min_image_tokens", "max_image_tokens"))
    return sizes.factors_limited(size, token, least, most)


def tile_count(values: Values, size: Size) -> tuple[int, int]:
    """LFM2-VL: the least and the most tiles of an image: one of those that are small, and without splitting."""
    least, most, token = values["min_tiles"], values["max_tiles"], _patches_of_a_token(values)
    if not values["do_image_splitting"]:
        return 1, 1
    if least > most:
        raise LayoutError(f"min_tiles={least} is more than max_tiles={most}: give at most as many.")
    sides = (max(values["encoder_patch_size"], round(side / token) * token) for side in size)
    is_large = prod(sides) > values["max_image_tokens"] * token**2 * values["max_pixels_tolerance"]
    return (least, most) if is_large else (1, 1)


def _patches_of_a_token(values: Values) -> int:
    return int(values["encoder_patch_size"] * values["downsample_factor"])


def inside_size(values: Values, size: Size) -> Size:
    """Fuyu: inside `size`, where an image is larger."""
    most = height_and_width("size", values["size"])
    return size if size[0] <= most[0] and size[1] <= most[1] else sizes.inside(size, *most)


def factors(values: Values, size: Size) -> Size:
    """Apertus 1.5: whole factors with `min_pixels` to `max_pixels` in all."""
    match _wanted(values):
        case {"min_pixels": least, "max_pixels": most}:
            return sizes.pixels_limited(size, values["spatial_factor"], least, most)
    raise other_size(values, "min_pixels and max_pixels")


def pixels_of_factors(values: Values, size: Size) -> Size:
    """Emu3: whole factors with `min_pixels` to `max_pixels` in all, whatever `size` is."""
    return sizes.pixels_limited(size, values["spatial_factor"], *_stated_pixels(values))


def tokens_near(values: Values, size: Size) -> Size:
    """Muse Glimmer: whole merged patches, at most `max_image_tokens`, whose shape is nearest."""
    return sizes.tokens_near(size, values["patch_size"] * values["merge_size"], values["max_image_tokens"])


def _larger(placement: Placement, window: Size) -> Placement:
    """An image at the top left of a larger window."""
    return placement._replace(size=window)


def _in_multiples(size: Size, factor: int) -> Size:
    """Both sides rounded up to whole factors."""
    return ceil(size[0] / factor) * factor, ceil(size[1] / factor) * factor


def patches_of_a_side(values: Values, size: Size) -> Size:
    """Kimi K2.5: at most `max_patches` patches, and at most `max_height` of them along a side."""
    match _wanted(values):
        case {"max_height": most, "max_width": other} if most == other:
            return sizes.shrunk_to_patches(size, values["patch_size"], values["max_patches"], most)
    raise other_size(values, "max_height and max_width, which are the same")


def share_of_itself(values: Values, size: Size) -> Size:
    """Inkling: times `rescale_image_frac`, and no longer than a number of pixels where it grows."""
    share, most, longest = values["rescale_image_frac"], values["rescale_image_max_upscaled_long_edge"], max(size)
    if share is None:
        return size
    wanted = longest * share if most is None else min(longest * share, max(most, longest))
    ratio = wanted / longest
    return floor(size[0] * ratio + 0.5), floor(size[1] * ratio + 0.5)


def open_canvas(values: Values, placement: Placement) -> Placement:
    """Inkling: whole patches, and one more column of them where none is open at its right."""
    patch, (height, width) = square_side(values), placement.size
    return _larger(placement, (ceil(height / patch) * patch, (width // patch + 1) * patch))


def merged_canvas(values: Values, placement: Placement) -> Placement:
    """Kimi K2.5: zeros to whole merged patches, where the image is resized."""
    factor = values["patch_size"] * values["merge_size"]
    return _larger(placement, _in_multiples(placement.size, factor)) if values["do_resize"] else placement


def budget(values: Values, size: Size) -> Size:
    """NeoMME: between two numbers of pixels, where `size` has them, with sides of at most `max_side`."""
    wanted = {} if values["size"] is None else _wanted(values)
    if wanted and set(wanted) != {"min_pixels", "max_pixels"}:
        raise other_size(values, "min_pixels and max_pixels")
    return sizes.budgeted(size, wanted.get("min_pixels"), wanted.get("max_pixels"), values["max_side"])


def patch_canvas(values: Values, placement: Placement) -> Placement:
    """NeoMME: zeros to whole patches."""
    return _larger(placement, _in_multiples(placement.size, values["patch_size"]))


def even_frames(values: Values, size: Size) -> Size:
    """SmolVLM's frames: as Idefics3, with `longest_edge` taken for 4096 where it is more."""
    wanted = _wanted(values)
    if "longest_edge" in wanted:
        wanted["longest_edge"] = min(wanted["longest_edge"], sizes.MOST_EDGE)
    return longest_even({**values, "size": wanted}, size)


def pixels_of_frames(values: Values, size: Size) -> Size:
    """VideoLLaMA 3: the most pixels are those of all frames, the least those of one."""
    least, most = _pixels(values)
    return sizes.pixels_limited(size, values["patch_size"] * values["merge_size"], least, most // values["frames"])


def stated_pixels(values: Values, size: Size) -> Size:
    """MiniMax M3 VL's frames: `min_pixels` to `max_pixels`, whatever `size` is."""
    return sizes.pixels_limited(size, values["patch_size"] * values["merge_size"], *_stated_pixels(values))


def _stated_pixels(values: Values) -> tuple[int, int]:
    least, most = values["min_pixels"], values["max_pixels"]
    if least is None or most is None:
        raise LayoutError(f"min_pixels={least} and max_pixels={most}: do_resize=True needs both.")
    return least, most


def frame_tokens_near(values: Values, size: Size) -> Size:
    """Muse Glimmer's frames: whole merged patches, at most `max_video_frame_tokens`, whose shape is nearest."""
    return sizes.tokens_near(size, values["patch_size"] * values["merge_size"], values["max_video_frame_tokens"])


def separated_rows(values: Values, size: Size) -> Size:
    """HY V4 VL's frames: inside of `max_image_size` for a frame, and of `size` for all."""
    wanted, frame = _wanted(values), size_named("max_image_size", values["max_image_size"])
    if "longest_edge" not in wanted:
        raise other_size(values, "longest_edge, the most pixels in all")
    if set(frame) != {"longest_edge"}:
        raise LayoutError(f"max_image_size={values['max_image_size']!r} must have longest_edge, pixels of a frame.")
    factor = values["patch_size"] * values["merge_size"]
    return sizes.rows_limited(size, factor, values["frames"], wanted["longest_edge"], frame["longest_edge"])


def shown_tokens(values: Values, size: Size) -> Size:
    """GLM 5: as large as fits into whole patches, of which there are `min_image_tokens` to `max_image_tokens`."""
    return sizes.fitted(size, _token_window(values, size), grows=_is_below_tokens(values, size))


def token_canvas(values: Values, placement: Placement) -> Placement:
    """GLM 5: zeros to these whole patches, where the image is resized."""
    return _larger(placement, _token_window(values, placement.source)) if values["do_resize"] else placement


def _token_factor(values: Values) -> int:
    return int(values["patch_size"] * values["merge_size"] * values["patch_expand_factor"])


def _is_below_tokens(values: Values, size: Size) -> bool:
    times, frames, _ = _token_frames(values)
    return bool(frames * size[0] * size[1] < times * _token_factor(values) ** 2 * values["min_image_tokens"])


def _token_frames(values: Values) -> tuple[int, int, int]:
    """The frames of a stack, those of a video, and these in whole stacks; a still fills a stack."""
    times = values["temporal_patch_size"]
    frames = values.get("frames", times)
    return times, frames, max(times, round(frames / times) * times)


def _token_window(values: Values, size: Size) -> Size:
    bounds = values["min_image_tokens"], values["max_image_tokens"]
    return sizes.tokens_between(size, _token_factor(values), _token_frames(values), *bounds)


def longest_even(values: Values, size: Size) -> Size:
    """Idefics3: the longer side."""
    match _wanted(values):
        case {"longest_edge": edge}:
            return sizes.longest_even(size, edge)
        case {"height": height, "width": width}:
            return height, width
    raise other_size(values, "longest_edge, or height and width")


def capped_even(values: Values, size: Size) -> Size:
    """UltraVBert: as Idefics3, with a longer side that is cut into at most `max_image_tiles` tiles."""
    wanted, tile = _wanted(values), size_named("max_image_size", values["max_image_size"])
    if not values["do_image_splitting"]:
        return longest_even(values, size)
    if set(wanted) != {"longest_edge"} or set(tile) != {"longest_edge"}:
        raise other_size(values, "longest_edge, as max_image_size has it, the side of a tile")
    edge = sizes.capped_edge(size, wanted["longest_edge"], tile["longest_edge"], values["max_image_tiles"])
    return sizes.longest_even(size, edge)


def nearest_grid(values: Values, size: Size) -> Grid:
    """InternVL: the grid whose shape is nearest."""
    return sizes.tile_grid(size, height_and_width("size", values["size"]), values["min_patches"], values["max_patches"])


def fitting_grid(values: Values, size: Size) -> Grid:
    """Cohere 2: the grid in which the image grows least."""
    most = values["max_patches"]
    return sizes.fitting_grid(size, sizes.grids_of(1, most, most), height_and_width("size", values["size"])[0])


def covering_grid(values: Values, size: Size) -> Grid:
    """Ovis 2: the smallest grid that keeps the image's pixels, unless `use_covering_area_grid` is off."""
    if not values["use_covering_area_grid"]:
        return nearest_grid(values, size)
    return sizes.covering_grid(size, height_and_width("size", values["size"])[0], values["max_patches"])


def canvas_grid(values: Values, size: Size) -> Grid:
    """Mllama: the grid in which the image grows least; of equal ones that of fewest rows."""
    most = values["max_image_tiles"]
    grids = [grid[::-1] for grid in sizes.grids_of(1, most, most)]
    return sizes.fitting_grid(size, grids, square_side(values))


def square_side(values: Values) -> int:
    """The side of the square that `size` is. Raises `LayoutError` for other sizes."""
    height, width = height_and_width("size", values["size"])
    if height != width:
        raise other_size(values, "a height and a width that are the same")
    return height


def page_grid(values: Values, size: Size) -> Grid:
    """Granite Docling: as InternVL, with at most 16 tiles a side, and more for wide pages that would shrink far."""
    if not values["crop_to_patches"]:
        return 1, 1
    tile, (least, most) = height_and_width("size", values["size"]), (values["min_patches"], values["max_patches"])
    if most <= 1:
        return 1, 1
    dense, scale = values["dense_max_patches"], values["dense_max_scale"]
    if least > min(most, dense or most):
        raise LayoutError(f"min_patches={least} must be at most max_patches={most} and dense_max_patches={dense}.")
    low, high = values["dense_min_aspect"], values["dense_max_aspect"]
    shape = size[1] / size[0]
    is_dense = dense and (scale > 0 or low > 0) and not (low > 0 and shape <= low) and not 0 < high < shape
    if is_dense and scale > 0:
        columns = sizes.tile_grid(size, tile, least, most, _MOST_MARKED)[1]
        is_dense = columns * tile[1] / size[1] < scale
    most = dense if is_dense else most
    return sizes.tile_grid(size, tile, least, most, _MOST_MARKED)


_MOST_MARKED: Final = 16
"""Rows and columns for which Granite Docling's tokenizer has markers."""


def roomy_grid(values: Values, size: Size) -> Grid:
    """PerceptionLM: the grid that holds the image with the largest shorter side."""
    return sizes.roomy_grid(size, values["tile_size"], values["max_num_tiles"])


def square_grid(values: Values, size: Size) -> Grid:
    """DeepSeek-OCR 2: the grid of squares of `tile_size` whose shape is nearest."""
    return sizes.tile_grid(size, (values["tile_size"],) * 2, values["min_patches"], values["max_patches"])


def merged_patches(values: Values, size: Size) -> Size:
    """Nemotron Omni: whole merged patches, as many as the context length has for the images of a call."""
    patch, merge, least = values["patch_size"], round(1 / values["downsample_ratio"]), values["min_num_patches"]
    most = max((values["max_model_len"] - 4) * merge**2, least * values["images"])
    most = max(min(most, values["max_num_patches"] or most), least)
    rows, columns = sizes.merged_grid(size, patch, merge, least, most)
    return rows * patch, columns * patch


def patches_near(values: Values, size: Size) -> Size:
    """Nemotron Omni's frames: whole merged patches, about `video_target_num_patches` of them."""
    patch, merge = values["patch_size"], round(1 / values["downsample_ratio"])
    shape = size[1] / size[0] if values["video_maintain_aspect_ratio"] else None
    rows, columns = sizes.grid_near(shape, values["video_target_num_patches"], merge)
    return rows * patch, columns * patch


def canvas_grid_of_floats(values: Values, size: Size) -> Grid:
    """Llama 4: the grid in which the image grows least, or with `resize_to_max_canvas` most, by float32."""
    grids = [grid for grids in sizes.grids_by_shape(values["max_patches"]).values() for grid in grids]
    is_largest = bool(values["resize_to_max_canvas"])
    return sizes.fitting_grid(size, grids, square_side(values), largest=is_largest, digits=np.float32)


def covering_or_nearest_grid(values: Values, size: Size) -> Grid:
    """Phi-4 multimodal: the tiles that cover the image, or where these are too many the grid whose shape is nearest."""
    side, most = square_side(values), values["dynamic_hd"]
    rows, columns = (ceil(pixels / side) for pixels in size)
    return (rows, columns) if rows * columns <= most else sizes.tile_grid(size, (side, side), 1, most)
