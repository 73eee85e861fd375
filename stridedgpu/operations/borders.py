"""Borders that continue an image: its pixels mirrored or repeated around it, copied within the result.

`n` pixels of an axis are numbered from 0; a place outside has the pixel

- "reflect": that of a mirror in the outermost pixel, which is not repeated (period 2n - 2);
- "symmetric": that of a mirror beside the outermost pixel, which is repeated (period 2n);
- "edge": the outermost pixel.

These are `numpy.pad`'s modes and torchvision's `padding_mode`, and OpenCV's BORDER_REFLECT_101, BORDER_REFLECT and
BORDER_REPLICATE. A border has the values of pixels that are converted already, since a conversion goes pixel by pixel:
columns are filled beside the image first, and then whole rows above and below. No kernel knows of borders.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final, Literal, NamedTuple

from stridedgpu.devices.operand import Operand
from stridedgpu.values.conversion import conversion
from stridedgpu.values.layout import Layout

from .move import move_elements

__all__ = ["BORDERS", "Border", "BorderPlace", "Covering", "covering", "fill_borders"]

Border = Literal["reflect", "symmetric", "edge"]

BORDERS: Final[tuple[Border, ...]] = ("reflect", "symmetric", "edge")
"""The words that `fill` may be."""

BorderPlace = tuple[int, int, int, int]
"""Top, left, height and width of an image in its window; it may reach over the window's edges."""


class _Run(NamedTuple):
    """Places of a border side by side, and the place of the first one's pixel; the next ones' are `step` apart."""

    first: int
    length: int
    pixel: int
    step: int


def fill_borders(batch: Operand, places: Sequence[BorderPlace], border: Border, stream: object = None) -> None:
    """Fill what surrounds the images in a batch with axes N, C, H, W, whose places hold them.

    The pixels of a border must be in their windows, as `covering` makes sure. Images side by side that have one place
    are filled together.
    """
    start = 0
    for place, group in groupby(places):
        end = start + len(list(group))
        _fill(batch.with_layout(batch.layout.sliced(slice(start, end))), place, border, stream)
        start = end


def _fill(images: Operand, place: BorderPlace, border: Border, stream: object) -> None:
    """Fill what surrounds images that have one place in their windows."""
    layout, (top, left, height, width) = images.layout, place
    rows, columns = layout.sizes[2:]
    inside = slice(max(top, 0), min(top + height, rows))
    beside = images.with_layout(layout.sliced((slice(None), slice(None), inside)))
    for run in _runs(left, width, columns, border):
        _copy(beside, 3, run, stream)
    for run in _runs(top, height, rows, border):
        _copy(images, 2, run, stream)


def _copy(images: Operand, axis: int, run: _Run, stream: object) -> None:
    """Copy the pixels of a run to its places."""
    layout = images.layout
    stride, sizes, strides = layout.strides[axis], list(layout.sizes), list(layout.strides)
    sizes[axis], strides[axis] = run.length, stride * run.step
    pixels = images.with_layout(Layout(tuple(sizes), tuple(strides), layout.offset + stride * run.pixel))
    whole = (slice(None),) * axis
    target = images.with_layout(layout.sliced((*whole, slice(run.first, run.first + run.length))))
    move_elements(pixels, target, conversion(images.element, images.element), None, stream)


class Covering(NamedTuple):
    """A window that holds another one: the image's `place` in it, its height and width, and the other's origin."""

    place: BorderPlace
    size: tuple[int, int]
    origin: tuple[int, int]


def covering(place: BorderPlace, window: tuple[int, int], border: Border) -> Covering:
    """The window itself where it has all pixels of its border; else on that axis so large that it holds the image.

    >>> covering((2, -3, 4, 8), (6, 4), "reflect")
    Covering(place=(2, -3, 4, 8), size=(6, 4), origin=(0, 0))
    >>> covering((9, 0, 4, 4), (6, 4), "edge")
    Covering(place=(9, 0, 4, 4), size=(13, 4), origin=(0, 0))
    """
    top, left, height, width = place
    (above, rows), (before, columns) = (
        _covered(top, height, window[0], border),
        _covered(left, width, window[1], border),
    )
    return Covering((top + above, left + before, height, width), (rows, columns), (above, before))


def _covered(origin: int, extent: int, size: int, border: Border) -> tuple[int, int]:
    """The places that an axis needs before its first one, and its length with these and those behind."""
    runs = _runs(origin, extent, size, border)
    pixels = [run.pixel + run.step * place for run in runs for place in (0, run.length - 1)]
    if all(0 <= pixel < size for pixel in pixels):
        return 0, size
    before = max(-origin, 0)
    return before, before + max(size, origin + extent)


@lru_cache(maxsize=1024)
def _runs(origin: int, extent: int, size: int, border: Border) -> tuple[_Run, ...]:
    """The border along an axis of `size` places, of which an image of `extent` pixels has those from `origin` on.

    >>> _runs(2, 4, 7, "reflect")
    (_Run(first=0, length=2, pixel=4, step=-1), _Run(first=6, length=1, pixel=4, step=-1))
    """
    runs = []
    for start, end in ((0, min(origin, size)), (max(origin + extent, 0), size)):
        first = start
        while first < end:
            pixel, step, count = _continued(first - origin, extent, border)
            length = min(count, end - first)
            runs.append(_Run(first, length, pixel + origin, step))
            first += length
    return tuple(runs)


def _continued(number: int, extent: int, border: Border) -> tuple[int, int, int]:
    """The pixel at a number outside of the image, the step to those of the next numbers, and how many go on by it."""
    if border == "edge" or extent == 1:
        return (0, 0, -number) if number < 0 else (extent - 1, 0, sys.maxsize)
    turn = extent - 1 if border == "reflect" else extent
    phase = number % (2 * turn)
    if phase < extent:
        return phase, 1, extent - phase
    return 2 * turn - phase - (border == "symmetric"), -1, 2 * turn - phase
