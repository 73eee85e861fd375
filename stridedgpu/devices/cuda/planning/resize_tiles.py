"""`ResizeTiles`: the tile of a resized window that one block computes, and its layout in shared memory, as a value.

A tile is chosen for the taps of a batch: the source rows and columns of its pixels must fit shared memory, all rows at
once or a chunk of them at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from stridedgpu.planning.resize_arithmetic import Arithmetic
from stridedgpu.planning.resize_problem import WindowTaps
from stridedgpu.planning.resize_taps import Array, AxisTaps
from stridedgpu.values.strides import round_up

from .policy import ResizePolicy

__all__ = ["ResizeTiles", "TileUse", "resize_tiles"]

_ALIGNMENT: Final = 16
"""Bytes of the widest access to shared memory."""

_SPAN_BYTES: Final = 8

_START_BYTES: Final = 4
"""Bytes of the stored start of a row of a chunk."""

_BETWEEN_BYTES: Final = {
    Arithmetic.OPENCV_LINEAR: 2,
    Arithmetic.OPENCV_EXACT: 2,
    Arithmetic.OPENCV_CUBIC: 4,
    Arithmetic.OPENCV_QUARTER: 4,
    Arithmetic.OPENCV_MEAN: 4,
    Arithmetic.OPENCV_FLOAT: 4,
}
"""Bytes of an element between the passes, as in resize_rules.cuh; for other rules those of the source type."""


@dataclass(frozen=True, slots=True)
class TileUse:
    """The properties of a block's work that its tile depends on.

    `count` is the number of channels resized together, `length` the elements of a store, which divide a tile's width.
    """

    arithmetic: Arithmetic
    columns_first: bool
    itemsize: int
    count: int
    length: int

    @property
    def weight_bytes(self) -> int:
        """Bytes of a weight, and of a sum."""
        return 8 if self.arithmetic is Arithmetic.PILLOW_DOUBLE else 4

    @property
    def between_bytes(self) -> int:
        """Bytes of an element between the passes."""
        return _BETWEEN_BYTES.get(self.arithmetic, self.itemsize)


@dataclass(frozen=True, slots=True)
class ResizeTiles:
    """A tile in pixels, the fields of `sg::ResizeMemory` in their order, and the total bytes.

    `length` is the elements of a store, which divide the width. `chunk_rows` is the number of source rows in shared
    memory together. `reach` is the most source rows and columns of a tile, `taps` the most taps of a row and of a
    column.
    """

    height: int
    width: int
    length: int
    chunk_rows: int
    reach: tuple[int, int]
    taps: tuple[int, int]
    memory: tuple[int, ...]
    shared_bytes: int

    @property
    def chunks(self) -> int:
        """The number of times that a block loads rows."""
        return -(-self.reach[0] // self.chunk_rows)


def resize_tiles(
    use: TileUse, taps: Sequence[WindowTaps], size: tuple[int, int], shared_bytes: int, limits: ResizePolicy
) -> ResizeTiles | None:
    """The tile for windows of `size` (height, width) with these taps; None if not even a row of the smallest fits.

    `shared_bytes` is the shared memory that a block may have; `limits` has the tiles to try.
    """
    rows, columns = _Axes([one.rows for one in taps]), _Axes([one.columns for one in taps])
    for most, wanted in limits.budgets:
        budget = min(most, shared_bytes)
        for tile in _sizes(use, size, limits):
            tiles = _fitting(use, (rows, columns), tile, budget, limits.most_rows)
            if tiles is not None and tiles.chunk_rows >= min(wanted, tiles.reach[0]):
                return tiles
    return None


def _sizes(use: TileUse, size: tuple[int, int], limits: ResizePolicy) -> Iterator[tuple[int, int, int]]:
    """Height, width and elements of a store of tiles that divide a window evenly."""
    for sizes in limits.tiles:
        height, width = (-(-extent // -(-extent // most)) for extent, most in zip(size, sizes, strict=True))
        length = use.length if sizes[1] > 1 else 1
        yield height, round_up(width, length), length


class _Axes:
    """The taps of several windows along one axis: what tiles of any size reach, axes of one length at a time."""

    def __init__(self, axes: Sequence[AxisTaps]) -> None:
        """Put the starts and ends of axes of one length together."""
        groups: dict[int, list[AxisTaps]] = {}
        for taps in dict.fromkeys(axes):
            groups.setdefault(taps.count, []).append(taps)
        self.most = max((taps.most for taps in axes), default=1)
        self._groups = [
            (np.stack([taps.starts for taps in group]), np.stack([taps.starts + taps.counts for taps in group]))
            for group in groups.values()
        ]
        self._known: dict[int, int] = {}

    def reach(self, size: int) -> int:
        """The most source pixels read for `size` adjacent pixels, pixels beyond the edges included."""
        if size not in self._known:
            self._known[size] = max((_reach(*group, size) for group in self._groups), default=1)
        return self._known[size]


def _reach(starts: Array, ends: Array, size: int) -> int:
    """The same for axes of one length, a row of `starts` and `ends` each."""
    count = starts.shape[1]
    size = min(size, count)
    last = count - size + 1
    onward, mirrored = ends[:, size - 1 :] - starts[:, :last], ends[:, :last] - starts[:, size - 1 :]
    return int(max(onward.max(), mirrored.max()))


def _fitting(
    use: TileUse, axes: tuple[_Axes, _Axes], tile: tuple[int, int, int], budget: int, most_rows: int
) -> ResizeTiles | None:
    """The tile's layout in shared memory, with as many rows a chunk as the budget allows."""
    (height, width, length), (down, along) = tile, axes
    rows, columns, most = down.reach(height), along.reach(width), (down.most, along.most)
    # A row may begin and end inside a vector, and so may the repeated edge pixels before it.
    pitch = _up(columns * use.count * use.itemsize + 3 * (_ALIGNMENT - 1))
    slots, reached = width * use.count, columns * use.count
    between_elements, sums_elements = (slots, slots) if use.columns_first else (reached, reached)
    between_pitch = _up(between_elements * use.between_bytes)
    sums_pitch = _up(_up(sums_elements) * use.weight_bytes)
    result_pitch = _up(slots * use.itemsize)
    fixed = [
        _up(width * _SPAN_BYTES),
        _up(height * _SPAN_BYTES),
        _up(width * most[1] * use.weight_bytes),
        _up(height * most[0] * use.weight_bytes),
    ]
    held = sum(fixed) + _ALIGNMENT + height * result_pitch + (0 if use.columns_first else height * between_pitch)
    row_bytes = pitch + _START_BYTES + (between_pitch if use.columns_first else 0)
    chunk = min(rows, (budget - held) // row_bytes)
    if chunk < rows:
        held += height * sums_pitch
        chunk = min((budget - held) // row_bytes, most_rows)
    if chunk < 1:
        return None
    sizes = [
        *fixed,
        _up(chunk * _START_BYTES),
        chunk * pitch,
        (chunk if use.columns_first else height) * between_pitch,
        height * sums_pitch if chunk < rows else 0,
        height * result_pitch,
    ]
    places = [sum(sizes[:number]) for number in range(len(sizes))]
    memory = (*places[1:], chunk, pitch, between_pitch, sums_pitch, result_pitch, most[0])
    return ResizeTiles(height, width, length, chunk, (rows, columns), most, memory, sum(sizes))


def _up(nbytes: int) -> int:
    return round_up(nbytes, _ALIGNMENT)
