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

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias, get_args

from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_named
from stridedgpu.typing import Border
from stridedgpu.values.conversion import conversion
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout

from .move import move_elements
from .options import MemoryOptions
from .relayout import assign_operand

BORDERS: Final[tuple[Border, ...]] = get_args(Border)
"""The words that `fill` may be."""

BorderPlace = tuple[int, int, int, int]
"""Top, left, height and width of an image in its window; it may reach over the window's edges."""

WriteAt: TypeAlias = Callable[[int | None, Sequence[BorderPlace], Operand], None]
"""Writes one image, by its number, or all of them (None) at their places into windows with axes N, C, H, W."""


def border_named(fill: object, name: str = "fill") -> Border | None:
    """The border that `fill` names; None for what is no word. Raises `LayoutError` for other words."""
    if not isinstance(fill, str):
        return None
    for border in BORDERS:
        if fill == border:
            return border
    raise LayoutError(f"{name}={fill!r} is unknown; it is a number, one for each channel, {_WORDS}.")


_WORDS: Final = "{!r}, {!r} or {!r}".format(*BORDERS)


def _nearest(place: int, extent: int, size: int, border: Border) -> int:
    """A place of an image, at most 2 * `extent` from a window of `size`, that gives it the same pixels as `place`.

    >>> [_nearest(place, 5, 3, "symmetric") for place in (2, -4, -24, 50)]
    [2, -4, -4, 0]
    """
    if -extent < place < size:
        return place
    if border == "edge":
        return -extent if place < 0 else size
    return -(-place % (2 * extent if border == "symmetric" else max(2 * extent - 2, 1)))


def write_with_borders(
    write: WriteAt, places: Sequence[BorderPlace], border: Border, batch: Operand, stream: object = None
) -> None:
    """Write images at their places into a batch with axes N, C, H, W, and around each its border.

    A window that lacks pixels of its border, as one beside the image does, is cut out of a larger window of its own.
    On either axis that is larger by at most three images.
    """
    count, channels, *size = batch.layout.sizes
    larger = [covering(place, (size[0], size[1]), border) for place in places]
    if all(seen.size == (size[0], size[1]) for seen in larger):
        places = [seen.place for seen in larger]
        write(None, places, batch)
        fill_borders(batch, places, border, stream)
        return
    for row, seen in zip(range(count), larger, strict=True):
        spec = MemoryOptions().allocation((1, channels, *seen.size), ("N", "C", "H", "W"), batch.element)
        whole = spec.allocate(device_named(batch.buffer.device), stream)
        write(row, [seen.place], whole)
        fill_borders(whole, [seen.place], border, stream)
        top, left = seen.origin
        part = (slice(None), slice(None), slice(top, top + size[0]), slice(left, left + size[1]))
        window = batch.with_layout(batch.layout.sliced(slice(row, row + 1)))
        assign_operand(whole.with_layout(whole.layout.sliced(part)), window, stream)


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

    An image far from its window comes as near as gives the window the same pixels.

    >>> covering((2, -3, 4, 8), (6, 4), "reflect")
    Covering(place=(2, -3, 4, 8), size=(6, 4), origin=(0, 0))
    >>> covering((9, 0, 4, 4), (6, 4), "edge")
    Covering(place=(6, 0, 4, 4), size=(10, 4), origin=(0, 0))
    """
    top, left, height, width = place
    (top, above, rows), (left, before, columns) = (
        _covered(top, height, window[0], border),
        _covered(left, width, window[1], border),
    )
    return Covering((top, left, height, width), (rows, columns), (above, before))


def _covered(place: int, extent: int, size: int, border: Border) -> tuple[int, int, int]:
    """The image's place on an axis, the places that the axis needs before its first one, and its length with all."""
    place = _nearest(place, extent, size, border)
    runs = _runs(place, extent, size, border)
    pixels = [run.pixel + run.step * number for run in runs for number in (0, run.length - 1)]
    if all(0 <= pixel < size for pixel in pixels):
        return place, 0, size
    before = max(-place, 0)
    return place + before, before, before + max(size, place + extent)


@lru_cache(maxsize=1024)
def _runs(origin: int, extent: int, size: int, border: Border) -> tuple[_Run, ...]:
    """The border along an axis of `size` places, of which an image of `extent` pixels has those from `origin` on.

    >>> _runs(2, 4, 7, "reflect")
    (_Run(first=0, length=2, pixel=4, step=-1), _Run(first=6, length=1, pixel=4, step=-1))
    """
    mirrored = _runs_behind(size - origin - extent, extent, size, border)
    before = [
        _Run(size - first - length, length, size - 1 - pixel - step * (length - 1), step)
        for first, length, pixel, step in mirrored
    ]
    return (*before, *_runs_behind(origin, extent, size, border))


def _runs_behind(origin: int, extent: int, size: int, border: Border) -> list[_Run]:
    """The border behind the image: once one period is there, each run repeats all whole periods before it.

    So the runs of a border far larger than its image are as many as its length has bits.

    >>> [run.length for run in _runs_behind(0, 2, 1000, "reflect")]
    [2, 4, 8, 16, 32, 64, 128, 256, 488]
    """
    begin, end, runs = max(origin, 0), max(origin + extent, 0), []
    turn = 0 if border == "edge" else extent - (border == "reflect")
    while end < size:
        whole = (end - begin) // (2 * turn) * 2 * turn if turn else 0
        phase = (end - origin) % (2 * turn) if turn else extent - 1
        if whole:
            pixel, step, length = end - whole - origin, 1, whole
        elif not turn:
            pixel, step, length = extent - 1, 0, size
        elif phase < extent:
            pixel, step, length = phase, 1, extent - phase
        else:
            pixel, step, length = 2 * turn - phase - (border == "symmetric"), -1, 2 * turn - phase
        length = min(length, size - end)
        runs.append(_Run(end, length, pixel + origin, step))
        end += length
    return runs
