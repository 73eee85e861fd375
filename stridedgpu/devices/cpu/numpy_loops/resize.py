"""Resize on NumPy: both passes over bands of rows of the result, then the conversion, as `Arithmetic` says.

A band is as many rows of the result as are made of a block of source pixels that stays in the cache. Rows of the source
under two bands are summed along x twice, which changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from stridedgpu.planning.resize_arithmetic import Arithmetic
from stridedgpu.planning.resize_problem import ResizeProblem, ResizeWindow, WindowTaps
from stridedgpu.planning.resize_taps import AxisTaps
from stridedgpu.values.layout import Layout

from .conversion import Array, constants, convert_block, storage_dtype

__all__ = ["resize_windows"]

_BLOCK_PIXELS: Final = 64 * 1024
"""Pixels of a block of the source, one channel: with 8-byte sums a few blocks stay in an L2 cache."""

Finish = Callable[[Array], Array]


def resize_windows(
    problem: ResizeProblem, windows: Sequence[ResizeWindow], sources: Sequence[Array], target: Array
) -> None:
    """Write every window; `sources` and `target` are bytes from each one's lowest element on."""
    made = problem.conversion
    opaque = made.moves_bits
    element = storage_dtype(made.source, opaque=opaque)
    batch = _view(target, problem.target.layout, storage_dtype(made.target, opaque=opaque))
    scale, bias = (
        None if values is None else constants(values, made.compute).reshape(-1, 1, 1)
        for values in (made.scale, made.bias)
    )
    channels = slice(None) if made.channels is None else list(made.channels)

    def converted(block: Array) -> Array:
        return block if opaque else convert_block(block, made, scale, bias)

    fill = converted(np.frombuffer(problem.fill, element).reshape(-1, 1, 1)[channels])
    for picture, window, source in zip(batch, windows, sources, strict=True):
        top, left, height, width = window.place
        inside = picture[:, top : top + height, left : left + width]
        for part in (
            picture[:, :top],
            picture[:, top + height :],
            picture[:, top : top + height, :left],
            picture[:, top : top + height, left + width :],
        ):
            part[...] = fill
        if 0 in inside.shape:
            continue
        read = _view(source, window.layout, element)
        for rows, block in _bands(problem, problem.taps(window), read):
            inside[:, rows] = converted(block[channels])


def _view(memory: Array, layout: Layout, dtype: np.dtype[Any]) -> Array:
    """An array over part of `memory`, which begins at the layout's lowest element."""
    steps = tuple(stride * dtype.itemsize for stride in layout.strides)
    return np.ndarray(layout.sizes, dtype, memory, (layout.offset - layout.first_offset) * dtype.itemsize, steps)


def _bands(problem: ResizeProblem, taps: WindowTaps, read: Array) -> Iterator[tuple[slice, Array]]:
    """The resized picture, all channels, band after band, with the rows that each takes."""
    first, second = _PASSES[taps.arithmetic](read.dtype, taps)
    left, right = taps.columns.reach
    rows = taps.rows
    total = sum(reversed(rows.reach)) - 2 * rows.reach[0]
    height = max(1, min(rows.count, rows.count * _BLOCK_PIXELS // max(1, total * (right - left))))
    for start in range(0, rows.count, height):
        band = _part(rows, slice(start, start + height))
        top, bottom = band.reach
        block, band = read[:, top:bottom], _shifted(band, top)
        if problem.rule.premultiplies:
            block = _premultiplied(block)
        if taps.columns_first:
            block = _pass(_pass(block, 2, taps.columns, first), 1, band, second)
        else:
            block = _pass(_pass(block, 1, band, first), 2, taps.columns, second)
        yield slice(start, start + band.count), _divided(block) if problem.rule.premultiplies else block


def _part(taps: AxisTaps, part: slice) -> AxisTaps:
    """The taps of some pixels of the result."""
    return AxisTaps(taps.starts[part], taps.counts[part], taps.weights[part], taps.first, taps.stop, taps.copies)


def _shifted(taps: AxisTaps, origin: int) -> AxisTaps:
    """The taps counted from the source pixel `origin`, which is none behind the first that is read."""
    starts = taps.starts - np.int32(origin)
    return AxisTaps(starts, taps.counts, taps.weights, taps.first - origin, taps.stop - origin, taps.copies)


_Sum = tuple[type[Any], Callable[[Array, AxisTaps], Array], bool]
"""What a pass sums in, what it makes of the sums, and whether axes that only copy have a pass all the same."""


def _pass(block: Array, axis: int, taps: AxisTaps, summing: _Sum | None) -> Array:
    """One pass along an axis of a block with axes C, H, W."""
    if taps.copies or summing is None:
        return np.take(block, taps.starts, axis)
    number, finish = summing
    clipped = taps.indices
    shape = (-1, 1) if axis == 1 else (-1,)
    total: Array | None = None
    for tap in range(taps.most):
        # Weights behind the last tap are 0, and nothing is added to their pixels: not even a NaN's share.
        used = tap < taps.counts
        taken = np.take(block, clipped[:, tap], axis).astype(number)
        taken *= taps.weights[:, tap].astype(number).reshape(shape)
        if total is None:
            total = taken
        else:
            np.add(total, taken, out=total, where=used.reshape(shape))
    assert total is not None, "every pixel has a tap"
    return finish(total, taps)
