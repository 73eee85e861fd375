"""The sizes that image processors resize to, from the size of an image and numbers of the declaration: integers alone.

Each rule is written as the library computes it, in double precision and in the same order: a product that is rounded
down elsewhere has another pixel. Source: transformers, image_transforms.py and models/*/image_processing_*.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, floor, isfinite, sqrt
from numbers import Integral, Real
from typing import Any, Final

from stridedgpu.values.errors import LayoutError

Size = tuple[int, int]
"""Height and width in pixels."""

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
    (height, width), (stated, counted) = size, frames
    if max(size) / min(size) > 200:
        raise LayoutError(
            f"An image has {height} x {width} pixels; the longer side may be at most 200 times the shorter one."
        )
    rows, columns = round(height / factor) * factor, round(width / factor) * factor
    if counted * rows * columns > most:
        shrink = sqrt((stated * height * width) / most)
        rows = max(factor, floor(height / shrink / factor) * factor)
        columns = max(factor, floor(width / shrink / factor) * factor)
    elif counted * rows * columns < least:
        grow = sqrt(least / (stated * height * width))
        rows, columns = ceil(height * grow / factor) * factor, ceil(width * grow / factor) * factor
    return rows, columns


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


def tokens_limited(size: Size, most: Size, patch: Size) -> Size:
    """A size inside `most`, rounded up to whole patches, as in Pixtral."""
    height, width = size
    ratio = max(height / most[0], width / most[1])
    if ratio > 1:
        height, width = floor(height / ratio), floor(width / ratio)
    return ((height - 1) // patch[0] + 1) * patch[0], ((width - 1) // patch[1] + 1) * patch[1]


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


def tile_grid(size: Size, tile: Size, least: int, most: int) -> tuple[int, int]:
    """Rows and columns of the grid of `least` to `most` tiles whose shape is nearest to an image's, as in InternVL.

    Of grids that are equally near, more tiles are taken while these have less than twice the image's pixels.
    """
    height, width = size
    grids = [(rows, columns) for columns in range(1, most + 1) for rows in range(1, most // columns + 1)]
    fitting = sorted((grid for grid in grids if least <= grid[0] * grid[1]), key=lambda grid: grid[0] * grid[1])
    nearest, best = float("inf"), (1, 1)
    for rows, columns in fitting:
        difference = abs(width / height - columns / rows)
        if difference < nearest:
            nearest, best = difference, (rows, columns)
        elif difference == nearest and width * height > 0.5 * tile[0] * tile[1] * columns * rows:
            best = rows, columns
    return best


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
