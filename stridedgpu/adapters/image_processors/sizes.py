"""The sizes that image processors resize to, from the size of an image and numbers of the declaration: integers alone.

Each rule is written as the library computes it, in double precision and in the same order: a product that is rounded
down elsewhere has another pixel. Source: transformers, image_transforms.py and models/*/image_processing_*.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import product
from math import ceil, floor, isfinite, log, prod, sqrt
from numbers import Integral, Real
from typing import Any, Final

import numpy as np

from stridedgpu.values.errors import LayoutError

Size = tuple[int, int]
"""Height and width in pixels."""

Grid = tuple[int, int]
"""Rows and columns of tiles."""

MOST_PIXELS: Final = 1 << 30
"""Of a whole image: a declaration from elsewhere asks for no more memory than that."""


def is_count(value: Any, least: int = 1) -> bool:
    """Whether it is a whole number of Python's or NumPy's from `least` on."""
    return type(value) is not bool and isinstance(value, Integral) and int(value) >= least


def is_finite(figure: Any) -> bool:
    """Whether it is a number of Python's or NumPy's that is finite as a float."""
    try:
        return type(figure) is not bool and isinstance(figure, Real) and isfinite(figure)
    except OverflowError:
        return False


def shortest_edge(size: Size, edge: int) -> Size:
    """The shorter side becomes `edge`; the longer one is rounded down.

    >>> shortest_edge((480, 641), 224), shortest_edge((500, 375), 224)
    ((224, 299), (298, 224))
    """
    height, width = size
    short, long = (width, height) if width <= height else (height, width)
    other = int(edge * long / short)
    return (other, edge) if width <= height else (edge, other)


def aspect_limited(size: Size, edge: int, most: int) -> Size:
    """The shorter side becomes `edge`, or less where the longer one would exceed `most`, as in DETR.

    >>> aspect_limited((480, 640), 800, 1333), aspect_limited((400, 1600), 800, 1333)
    ((800, 1066), (333, 1333))
    """
    height, width = size
    limited: float | None = None
    low, high = float(min(size)), float(max(size))
    if high / low * edge > most:
        limited = most * low / high
        edge = round(limited)
    if (height <= width and height == edge) or (width <= height and width == edge):
        return height, width
    exact = edge if limited is None else limited
    if width < height:
        return int(exact * height / width), edge
    return edge, int(exact * width / height)


def mod_limited(size: Size, edge: int, most: int, divisor: int) -> Size:
    """As `aspect_limited`, and both sides rounded down to whole multiples, as in YOLOS."""
    height, width = size
    limited: float | None = None
    low, high = float(min(size)), float(max(size))
    if high / low * edge > most:
        limited = most * low / high
        edge = round(limited)
    exact = edge if limited is None else limited
    if width < height:
        height, width = int(exact * height / width), edge
    elif height != edge:
        height, width = edge, int(exact * width / height)
    return height - height % divisor, width - width % divisor


def rounded_limited(size: Size, edge: int, most: int, divisor: int) -> Size:
    """The shorter side becomes `edge`, the longer at most `most`, rounded half up, in whole multiples, as in ViLT."""
    height, width = size
    scale = edge / min(size)
    high, wide = (edge, scale * width) if height < width else (scale * height, edge)
    if max(high, wide) > most:
        scale = most / max(high, wide)
        high, wide = scale * high, scale * wide
    return int(high + 0.5) // divisor * divisor, int(wide + 0.5) // divisor * divisor


def inside(size: Size, most_height: int, most_width: int) -> Size:
    """The largest size of this shape, rounded down, inside a height and a width."""
    height, width = size
    scale = min(most_height / height, most_width / width)
    return int(height * scale), int(width * scale)


def longest_edge(size: Size, edge: int) -> Size:
    """The longer side becomes `edge`; the other is rounded half up, as in SAM."""
    height, width = size
    scale = edge * 1.0 / max(height, width)
    return int(height * scale + 0.5), int(width * scale + 0.5)


def longest_rounded(size: Size, edge: int, least: int) -> Size:
    """The longer side becomes `edge`; the other is rounded half to even, and `least` at least, as in Janus."""
    scale = edge / max(size)
    return max(round(size[0] * scale), least), max(round(size[1] * scale), least)


def longest_even(size: Size, edge: int) -> Size:
    """The longer side becomes `edge`, at most 4096; an odd shorter one is one larger, as in Idefics3.

    >>> longest_even((480, 641), 1456), longest_even((300, 1), 1456)
    ((1090, 1456), (1456, 4))
    """
    height, width = size
    shape = width / height
    if width >= height:
        width = edge
        height = int(width / shape)
        height += height % 2
    else:
        height = edge
        width = int(height * shape)
        width += width % 2
    return within((max(height, 1), max(width, 1)), 1, MOST_EDGE)


MOST_EDGE: Final = 4096
"""Of Idefics3."""


def longest_within(size: Size, least: int, most: int) -> Size:
    """The longer side becomes `most`; the other is rounded down, and at least `least`, as in Aria."""
    height, width = size
    scale = most / max(height, width)
    if width >= height:
        return max(int(height * scale), least), most
    return most, max(int(width * scale), least)


def whole_tiles(size: Size, tile: int) -> Size:
    """Whole tiles along the longer side, rounded up, and along the other at that side's new length, as in Idefics3."""
    height, width = size
    shape = width / height
    if width >= height:
        width = ceil(width / tile) * tile
        height = ceil(int(width / shape) / tile) * tile
    else:
        height = ceil(height / tile) * tile
        width = ceil(int(height * shape) / tile) * tile
    return height, width


def limited_squares(size: Size, scale: float, most: int | None, square: int = 32) -> Size:
    """Sides rounded down, limited by `most` and then rounded to whole squares, at least one, as in PP-OCR."""
    height, width = (int(side * scale) for side in size)
    if most is not None and max(height, width) > most:
        scale = most / max(height, width)
        height, width = int(height * scale), int(width * scale)
    return in_factors(height, square), in_factors(width, square)


def line(size: Size, wanted: Size, most: int) -> Size:
    """The height that is wanted, and the width that keeps an image's shape, rounded up, or `most`, as in PP-OCR."""
    (height, width), shape = wanted, size[1] / size[0]
    across = int(height * max(shape, width / height))
    return height, most if across > most else min(across, ceil(height * shape))


def capped_edge(size: Size, edge: int, tile: int, most: int) -> int:
    """The longer side, less whole tiles until an image is cut into `most` of them, as in UltraVBert."""
    while edge > tile and prod(whole_tiles(longest_even(size, edge), tile)) > most * tile**2:
        edge -= tile
    return edge


def longest_edge_floored(size: Size, edge: int) -> Size:
    """The longer side becomes `edge`; the other is rounded down, as in TVP."""
    height, width = size
    if height >= width:
        return edge, int(edge * (width * 1.0 / height))
    return int(edge * (height * 1.0 / width)), edge


def within(size: Size, least: int, most: int) -> Size:
    """The longer side is at most `most`, and then both sides are at least `least`, as in Idefics2."""
    height, width = size
    shape = width / height
    if width >= height and width > most:
        width = most
        height = int(width / shape)
    elif height > width and height > most:
        height = most
        width = int(height * shape)
    return max(height, least), max(width, least)


def constrained(size: Size, wanted: Size, multiple: int, *, keeps_shape: bool) -> Size:
    """A size of whole multiples, with the shape kept by the scale that changes less, as in DPT."""
    down, across = wanted[0] / size[0], wanted[1] / size[1]
    if keeps_shape:
        if abs(1 - across) < abs(1 - down):
            down = across
        else:
            across = down
    height, width = (round(scale * side / multiple) * multiple for scale, side in ((down, size[0]), (across, size[1])))
    return height, width


def pixels_limited(size: Size, factor: int, least: int, most: int) -> Size:
    """Sides of whole factors with `least` to `most` pixels in all: Qwen2-VL's smart resize.

    >>> pixels_limited((480, 640), 28, 56 * 56, 28 * 28 * 1280)
    (476, 644)
    """
    return _limited(size, factor, (1, 1), least, most)


def volume_limited(size: Size, factor: int, frames: int, counted: int, least: int, most: int) -> Size:
    """Sides of whole factors of a video, `least` to `most` pixels in all, as in GLM-4V and Qwen3-VL.

    The limits are those of `counted` frames, the number of `frames` in whole stacks. A still counts as one stack.
    """
    height, width = size
    if min(size) < factor:
        scale = max(factor / height, factor / width)
        height, width = int(height * scale), int(width * scale)
    return _limited((height, width), factor, (frames, counted), least, most)


def _limited(size: Size, factor: int, frames: tuple[int, int], least: int, most: int) -> Size:
    """Sides of whole factors with `least` to `most` pixels in all `frames`: their number, and that in whole stacks."""
    height, width = size
    if max(size) / min(size) > 200:
        raise LayoutError(
            f"An image has {height} x {width} pixels; the longer side may be at most 200 times the shorter one."
        )
    near = round(height / factor) * factor, round(width / factor) * factor
    return _between(size, near, factor, frames, least, most)


def factors_limited(size: Size, factor: int, least: int, most: int) -> Size:
    """The same for a still of any shape, whose sides are a factor at least, as in LFM2-VL."""
    near = in_factors(size[0], factor), in_factors(size[1], factor)
    return _between(size, near, factor, (1, 1), least, most)


def in_factors(side: float, factor: int) -> int:
    """A side in whole factors, at least one."""
    return max(round(side / factor) * factor, factor)


def _between(size: Size, near: Size, factor: int, frames: tuple[int, int], least: int, most: int) -> Size:
    """Sides of whole factors: those that are near, or with `least` to `most` pixels in all `frames`."""
    (height, width), (rows, columns), (stated, counted) = size, near, frames
    if counted * rows * columns > most:
        shrink = sqrt((stated * height * width) / most)
        rows = max(factor, floor(height / shrink / factor) * factor)
        columns = max(factor, floor(width / shrink / factor) * factor)
    elif counted * rows * columns < least:
        grow = sqrt(least / (stated * height * width))
        rows, columns = ceil(height * grow / factor) * factor, ceil(width * grow / factor) * factor
    return rows, columns


def at_least(size: Size, factor: int) -> Size:
    """The size with the shape kept, rounded, whose sides are a factor at least, as in PaddleOCR-VL."""
    height, width = size
    if height < factor:
        height, width = factor, round(width * factor / height)
    if width < factor:
        height, width = round(height * factor / width), factor
    return height, width


def halved(size: Size, factor: int, least: int, most: int) -> Size:
    """Half of each side in whole factors, between the sides of squares of `least` and `most` pixels: GLM-Image."""
    low, high = round(sqrt(least)), round(sqrt(most))
    if min(size) < factor or max(size) / min(size) > 4:
        raise LayoutError(
            f"An image has {size[0]} x {size[1]} pixels; each side needs {factor} pixels, and the longer one may be at "
            "most 4 times the shorter one."
        )
    scale = low / min(size) if min(size) < low else 1.0
    if max(size) * scale > high:
        scale = high / max(size)
    sides = [max(factor, round(side // 2 * scale / factor) * factor) for side in size]
    if max(sides) > high:
        over = max(sides) / high
        sides = [max(factor, floor(side / over / factor) * factor) for side in sides]
    return sides[0], sides[1]


def patches_limited(size: Size, patch: int, most: int) -> Size:
    """Sides of whole patches with at most `most` of them, by the bisection of SigLIP 2."""

    def scaled(scale: float) -> Size:
        height, width = (max(patch, ceil(side * scale / patch) * patch) for side in size)
        return height, width

    low, high = 1e-5 / 10, 100.0
    while high - low >= 1e-5:
        scale = (low + high) / 2
        height, width = scaled(scale)
        if (height / patch) * (width / patch) <= most:
            low = scale
        else:
            high = scale
    return scaled(low)


def pooled(size: Size, factor: int, most: int) -> Size:
    """Whole factors, rounded down, of which there are `most` at most, as in Gemma 4."""
    height, width = size
    scale = sqrt(most * factor**2 / (height * width))
    rows, columns = floor(scale * height / factor), floor(scale * width / factor)
    if rows == 0 and columns == 0:
        raise LayoutError(f"An image of {height} x {width} pixels has no whole {factor} x {factor} when it is resized.")
    if rows == 0:
        rows, columns = 1, min(width // height, most)
    elif columns == 0:
        rows, columns = min(height // width, most), 1
    return rows * factor, columns * factor


def tokens_near(size: Size, patch: int, most: int) -> Size:
    """Whole patches, at most `most`, whose shape is nearest to the image's, as in Muse Glimmer."""
    down, across = size[0] / patch, size[1] / patch
    ratio = across / down
    if down * across > most:
        down = (most / ratio) ** 0.5
        across = down * ratio
    # Of two grids that are equally near, the library takes the first of a set of tuples: so does the same set here.
    grids = set(product([floor(down), ceil(down)], [floor(across), ceil(across)]))
    fitting = [(rows, columns) for rows, columns in grids if rows >= 1 and columns >= 1 and rows * columns <= most]
    fitting = fitting or [(max(1, round(down)), max(1, round(across)))]
    rows, columns = min(fitting, key=lambda grid: abs(grid[0] / grid[1] - size[0] / size[1]))
    return rows * patch, columns * patch


def shrunk_to_patches(size: Size, patch: int, most: int, most_a_side: int) -> Size:
    """A size with at most `most` patches, and `most_a_side` along a side, as in Kimi K2.5."""
    height, width = size
    counted = max(1.0, height // patch) * max(1.0, width // patch)
    side = most_a_side * patch
    scale = min(1.0, sqrt(most / counted), side / height, side / width)
    return min(max(1, int(height * scale)), side), min(max(1, int(width * scale)), side)


def budgeted(size: Size, least: int | None, most: int | None, longest: int | None) -> Size:
    """A size of `least` to `most` pixels with sides of at most `longest`, where these are stated, as in NeoMME."""
    height, width = size
    area = height * width
    grows = least is not None and area < least
    scale = (least / area) ** 0.5 if least is not None and area < least else 1.0
    if longest is not None:
        scale = min(scale, longest / max(size))
    if most is not None:
        scale = min(scale, (most / area) ** 0.5)
    if scale == 1.0:
        return size

    def scaled(rounding: Callable[[float], int]) -> Size:
        return max(1, rounding(height * scale)), max(1, rounding(width * scale))

    def exceeds(sides: Size) -> bool:
        return (longest is not None and max(sides) > longest) or (most is not None and sides[0] * sides[1] > most)

    rows, columns = near = scaled(round)
    if exceeds(near):
        rows, columns = scaled(floor)
        if most is None or rows * columns <= most:
            return rows, columns
        return (max(1, most // columns), columns) if rows >= columns else (rows, max(1, most // rows))
    if grows and least is not None and rows * columns < least:
        above = scaled(ceil)
        return near if exceeds(above) else above
    return near


def rows_limited(size: Size, factor: int, frames: int, most: int, most_of_a_frame: int) -> Size:
    """Whole factors inside a frame, as many rows as fit into two numbers of pixels, as in HY V4 VL.

    `most` is the number of all frames; one row of factors of each is left for separators.
    """
    height, width = size
    if max(size) / min(size) > 200:
        raise LayoutError(
            f"A frame has {height} x {width} pixels; the longer side may be at most 200 times the shorter one."
        )
    columns, budget = max(1, width // factor), most // (factor * factor)
    for row in range(max(1, height // factor), 0, -1):
        low = 1 if row == 1 else max(1, width * row // height)
        high = min(columns, max(1, -(-width * (row + 1) // height) - 1))
        across = min(
            high, budget // (frames * row) - 1 if budget > 0 else 0, most_of_a_frame // (factor * factor * row)
        )
        if across >= low:
            return row * factor, across * factor
    return factor, factor


def tokens_between(size: Size, factor: int, frames: tuple[int, int, int], least: int, most: int) -> Size:
    """Whole factors around an image, `least` to `most` of them, as in GLM 5.

    `frames` are those of a stack, those of a video, and these in whole stacks.
    """
    height, width = size

    def whole(side: int) -> int:
        return ceil(side / factor) * factor

    def pixels(sides: Size) -> int:
        return counted * sides[0] * sides[1]

    times, stated, counted = frames
    token = times * factor * factor
    if counted * factor * factor > most * token:
        raise LayoutError(f"A video has {stated} frames; with {most} tokens at most none is left for each stack.")
    around = whole(height), whole(width)
    if pixels(around) < least * token:
        scale = sqrt(least * token / (stated * height * width))
        around = whole(max(1, ceil(height * scale))), whole(max(1, ceil(width * scale)))
    if pixels(around) <= most * token:
        return around
    low, high, around = 1, height, (factor, factor)
    while low <= high:
        middle = (low + high) // 2
        sides = whole(middle), whole(max(1, floor(width * middle / height)))
        if pixels(sides) <= most * token:
            around, low = sides, middle + 1
        else:
            high = middle - 1
    return around


def fitted(size: Size, window: Size, *, grows: bool) -> Size:
    """The largest size of this shape, rounded down, inside a window; one that has to grow stays unless it `grows`."""
    height, width = size
    scale = min(window[0] / height, window[1] / width)
    scale = scale if grows else min(1.0, scale)
    return max(1, min(window[0], floor(height * scale))), max(1, min(window[1], floor(width * scale)))


def tokens_limited(size: Size, most: Size, patch: Size) -> Size:
    """A size inside `most`, rounded up to whole patches, as in Pixtral."""
    height, width = size
    ratio = max(height / most[0], width / most[1])
    if ratio > 1:
        height, width = floor(height / ratio), floor(width / ratio)
    return ((height - 1) // patch[0] + 1) * patch[0], ((width - 1) // patch[1] + 1) * patch[1]


def merged_grid(size: Size, patch: int, merge: int, least: int, most: int) -> Grid:
    """The rows and columns of patches of an image, `least` to `most` in all, in whole `merge`, as in Nemotron Omni."""
    sides = [round(side / patch + 0.5) for side in size]
    factor = min(sqrt(most / (sides[0] * sides[1])), 1.0)
    sides = [floor(factor * side) for side in sides]
    if not all(sides):
        raise LayoutError(f"An image of {size[0]} x {size[1]} pixels has a side without a patch, of {most} in all.")
    if most > least > sides[0] * sides[1]:
        factor = sqrt(least / (sides[0] * sides[1]))
        sides = [ceil(factor * side) for side in sides]
    for axis in (0, 1):
        beyond = sides[axis] % merge
        if beyond and (sides[axis] + merge - beyond) * sides[1 - axis] <= most:
            sides[axis] += merge - beyond
        elif beyond:
            sides[axis] = max(merge, sides[axis] - beyond)
    return sides[0], sides[1]


def grid_near(shape: float | None, target: int, merge: int) -> Grid:
    """About `target` patches in whole `merge`, of an image's shape or of a square, as in Nemotron Omni's videos."""
    if shape is None:
        side = max(merge, int(sqrt(target)) // merge * merge)
        return side, side
    down, across = (max(round(sqrt(part)), 1) for part in (target / shape, target * shape))
    above = ceil(down / merge) * merge, ceil(across / merge) * merge
    if prod(above) <= target:
        return above
    return max(merge, down // merge * merge), max(merge, across // merge * merge)


def best_resolution(size: Size, resolutions: Iterable[Size]) -> Size:
    """The resolution that keeps most pixels of an image and then wastes fewest, as in LLaVA-NeXT."""
    height, width = size
    best: Size | None = None
    kept, wasted = 0, float("inf")
    for rows, columns in resolutions:
        scale = min(columns / width, rows / height)
        pixels = min(int(width * scale) * int(height * scale), width * height)
        waste = rows * columns - pixels
        if pixels > kept or (pixels == kept and waste < wasted):
            kept, wasted, best = pixels, waste, (rows, columns)
    if best is None:
        raise LayoutError(f"An image has {height} x {width} pixels, for which no resolution keeps any.")
    return best


def splittable(size: Size, resolution: Size) -> Size:
    """The largest size of this shape inside a resolution, rounded up, as in LLaVA-NeXT."""
    height, width = size
    down, across = resolution[0] / height, resolution[1] / width
    if across < down:
        return min(ceil(height * across), resolution[0]), resolution[1]
    return resolution[0], min(ceil(width * down), resolution[1])


@lru_cache(maxsize=64)
def grids_of(least: int, most: int, most_along: int) -> tuple[Grid, ...]:
    """Grids of `least` to `most` tiles, with at most `most_along` of them along a side: few first, then narrow ones."""
    grids = [
        (rows, columns)
        for columns in range(1, min(most, most_along) + 1)
        for rows in range(1, min(most // columns, most_along) + 1)
        if least <= rows * columns
    ]
    return tuple(sorted(grids, key=lambda grid: grid[0] * grid[1]))


def tile_grid(size: Size, tile: Size, least: int, most: int, most_along: int = 1 << 12) -> Grid:
    """Rows and columns of the grid of `least` to `most` tiles whose shape is nearest to an image's, as in InternVL.

    Of grids that are equally near, more tiles are taken while these have less than twice the image's pixels.
    """
    height, width = size
    nearest, best = float("inf"), (1, 1)
    for rows, columns in grids_of(least, most, most_along):
        difference = abs(width / height - columns / rows)
        if difference < nearest:
            nearest, best = difference, (rows, columns)
        elif difference == nearest and width * height > 0.5 * tile[0] * tile[1] * columns * rows:
            best = rows, columns
    return best


@lru_cache(maxsize=64)
def grids_by_shape(most: int) -> dict[float, list[Grid]]:
    """Grids of at most `most` tiles by the quotient of their two numbers, in the order of Llama 4 and PerceptionLM."""
    by_shape: dict[float, list[Grid]] = {}
    for count in range(most, 0, -1):
        for first in range(1, count + 1):
            if count % first == 0:
                by_shape.setdefault(first / (count // first), []).append((first, count // first))
    return by_shape


def fitting_grid(size: Size, grids: Sequence[Grid], tile: int, *, largest: bool = False, digits: Any = float) -> Grid:
    """The grid of tiles inside which an image grows least, or else shrinks least, as in Mllama, Cohere 2 and Llama 4.

    Of several the one of fewest tiles is taken, and of these the first. With `largest` the image grows most. `digits`
    is the type of the scales, which are compared as they are rounded.
    """
    canvases = np.array(grids) * tile
    scales = (canvases.astype(digits) / np.array(size, digits)).min(axis=1)
    growing = scales[scales >= 1]
    best = scales.max() if largest or not growing.size else growing.min()
    fitting = [grid for grid, scale in zip(grids, scales, strict=True) if scale == best]
    return min(fitting, key=lambda grid: grid[0] * grid[1])


def roomy_grid(size: Size, tile: int, most: int) -> Grid:
    """The grid of tiles that holds an image with the largest shorter side, else that of the next shape: PerceptionLM.

    The last of several is taken. Where no grid holds the image as it is, the largest of the next shape nearer to a
    square is taken.
    """
    height, width = size
    shape, by_shape = width / height, grids_by_shape(most)
    best, kept = None, 0.0
    for columns, rows in (grid for grids in by_shape.values() for grid in grids):
        if columns * tile < width or rows * tile < height:
            continue
        scale = min(columns * tile / width, rows * tile / height)
        shorter = floor(scale * width / shape) if shape > 1 else scale * height
        if shape < 1:
            shorter = floor(shorter * shape)
        if best is None or shorter >= kept:
            best, kept = (rows, columns), shorter
    if best is not None:
        return best
    if shape >= 1:
        near = min((one for one in by_shape if one <= shape), key=lambda one: abs(one - shape))
        columns, rows = max(by_shape[near], key=lambda grid: grid[0])
    else:
        near = min((one for one in by_shape if one > shape), key=lambda one: abs(1 / one - 1 / shape))
        columns, rows = max(by_shape[near], key=lambda grid: grid[1])
    return rows, columns


def inside_canvas(size: Size, canvas: Size, least: int) -> Size:
    """The largest size of this shape inside a canvas, and inside the image or a side of `least`, as in Mllama."""
    height, width = size
    rows, columns = (max(least, min(side, most)) for side, most in zip(size, canvas, strict=True))
    down, across = rows / height, columns / width
    if across < down:
        return min(floor(height * across) or 1, rows), columns
    return rows, min(floor(width * down) or 1, columns)


def inside_floats(size: Size, canvas: Size, least: int | None) -> Size:
    """As `inside_canvas`, or the largest size inside the canvas where `least` is None, by the floats of Llama 4.

    These are float32 where the canvas limits a side, else Python's.
    """
    height, width = size
    wanted = [most if least is None else min(max(side, least), most) for side, most in zip(size, canvas, strict=True)]
    limited = [least is None or most < max(side, least) for side, most in zip(size, canvas, strict=True)]
    down, across = (
        np.float32(part) / np.float32(side) if is_limited else part / side
        for part, side, is_limited in zip(wanted, size, limited, strict=True)
    )
    is_narrow = np.float32(across) < np.float32(down) if any(limited) else across < down
    if is_narrow:
        exact = np.float32(height) * across if limited[1] else height * across
        return max(min(floor(exact), wanted[0]), 1), wanted[1]
    exact = np.float32(width) * down if limited[0] else width * down
    return wanted[0], max(min(floor(exact), wanted[1]), 1)


def covering_grid(size: Size, side: int, most: int) -> Grid:
    """The grid of fewest tiles that keep 90 % of an image's area, or else the grid that keeps most, as in Ovis 2.

    What a grid keeps is computed with its rows and columns exchanged, as Ovis 2 does.
    """
    kept: list[tuple[Grid, float]] = []
    for grid in grids_of(1, most, most):
        heights, widths = (
            [pixels // parts] * (parts - 1) + [pixels - pixels // parts * (parts - 1)]
            for pixels, parts in zip(size, reversed(grid), strict=True)
        )
        pixels = sum(_covered(height, width, side) for height in heights for width in widths)
        kept.append((grid, pixels / (size[1] * size[0])))
    enough = [one for one in kept if one[1] > _ENOUGH]
    if enough:
        return min(enough, key=lambda one: (one[0][0] * one[0][1], -one[1]))[0]
    return min(kept, key=lambda one: (-one[1], one[0][0] * one[0][1]))[0]


_ENOUGH: Final = 0.9


def _covered(height: int, width: int, side: int) -> float:
    """The pixels of a part of an image that are left where it shrinks into a square of `side`."""
    long, short = (width, height) if width >= height else (height, width)
    return long * short if long <= side else side * (short / long * side)


def sliding(size: Size, whole: int, side: int, most: int) -> tuple[Size, Size, int]:
    """The size of an image as a whole, the size that is cut into windows, and their side, as in Step 3.7.

    The longer side is at most `most`. Windows have `side`, and that of the image where it is long and narrow; 0 is
    none, for an image inside `whole` that is no longer than 1.5 times its shorter side.
    """
    height, width = size
    if max(size) > most:
        scale = most / max(size)
        height, width = int(height * scale), int(width * scale)
    short, long = min(height, width), max(height, width)
    shape = long / max(short, 1)
    if long <= whole:
        window = short if shape > _ELONGATED else 0
    elif shape > _NARROW:
        window = min(short, side)
    else:
        window = side
    if not window:
        return (height, width), (height, width), 0
    down, across = (
        pixels if pixels < window else window * (pixels // window + (pixels % window > 0.2 * window))
        for pixels in (height, width)
    )
    return (height, width), (down, across), window


_ELONGATED: Final = 1.5
_NARROW: Final = 4


def nearest_grid(size: Size, tile: int, least: int, most: int) -> tuple[int, int]:
    """Rows and columns of the grid of `least` to `most` tiles whose shape is nearest to an image's, as in LFM2-VL."""
    height, width = size
    # Grids of one number of tiles lie in the order of the library's set of tuples, which the same set has here.
    every = set(product(range(1, most + 1), repeat=2))
    nearest, best = float("inf"), (1, 1)
    for columns, rows in sorted((grid for grid in every if least <= prod(grid) <= most), key=prod):
        difference = abs(width / height - columns / rows)
        if difference < nearest:
            nearest, best = difference, (rows, columns)
        elif difference == nearest and width * height > 0.5 * (tile * tile * columns * rows):
            best = rows, columns
    return best


def slice_grid(size: Size, edge: int, most: int) -> tuple[int, int] | None:
    """Rows and columns of slices of about `edge` squared, `most` at most, as in MiniCPM-V; None for one slice."""
    height, width = size
    shape, wanted = log(width / height), min(ceil(width * height / (edge * edge)), most)
    if wanted <= 1:
        return None
    best, least = (1, 1), float("inf")
    for count in (wanted - 1, wanted, wanted + 1):
        if count == 1 or count > most:
            continue
        for rows in (rows for rows in range(1, count + 1) if count % rows == 0):
            difference = abs(shape - log(count // rows / rows))
            if difference < least or (difference == least and rows > best[0]):
                best, least = (rows, count // rows), difference
    return best


def near_a_square(size: tuple[float, float], edge: int, factor: int, *, grows: bool) -> Size:
    """Whole factors with the pixels of a square of `edge`; a smaller image keeps its own unless it `grows`."""
    height, width = size
    if height * width > edge * edge or grows:
        shape = width / height
        height = int(edge / sqrt(shape))
        width = int(height * shape)
    return in_factors(height, factor), in_factors(width, factor)


def scan_crops(size: Size, least: int, most: int, ratio: float) -> list[tuple[int, int, int, int]]:
    """Top, left, height and width of the crops that Gemma 3's pan and scan adds; none for an image near a square."""
    height, width = size
    long, short = (width, height) if width >= height else (height, width)
    if long / short < ratio:
        return []
    count = min(most, max(2, min(floor(long / least), floor(long / short + 0.5))))
    rows, columns = (1, count) if width >= height else (count, 1)
    down, across = ceil(height / rows), ceil(width / columns)
    if min(down, across) < least:
        return []
    corners = [(down * row, across * column) for row in range(rows) for column in range(columns)]
    return [(top, left, min(down, height - top), min(across, width - left)) for top, left in corners]


def centred(size: Size, window: Size, *, rounds_up: bool) -> tuple[int, int]:
    """The row and column of an image where its middle window begins; negative where zeros surround the image.

    A larger image loses half of the difference, rounded down. Around a smaller one the half before it is rounded up by
    the PIL backend, and down by torchvision's.

    >>> centred((225, 100), (224, 103), rounds_up=False), centred((225, 100), (224, 103), rounds_up=True)
    ((0, -1), (0, -2))
    """
    top, left = (
        (side - wanted) // 2 if side >= wanted or rounds_up else -((wanted - side) // 2)
        for side, wanted in zip(size, window, strict=True)
    )
    return top, left
