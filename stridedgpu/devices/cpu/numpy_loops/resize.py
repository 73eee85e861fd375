"""Resize on NumPy: both passes over bands of result rows, then the conversion, by the rules of `ResizeSums`.

A band has the result rows of one block of source pixels, which stays in the cache. Source rows under two bands are
summed along x twice, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from stridedgpu.devices.cpu.plan import CpuKernel, numpy_kernel
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.interface import Located, ResizeSource
from stridedgpu.problems.resize_problem import ResizeProblem, ResizeWindow
from stridedgpu.problems.resize_taps import AxisTaps, WindowTaps, fused
from stridedgpu.values.bounded_cache import count_bytes
from stridedgpu.values.interpolation import Finish, ResizeSums, ResizeSumsSpec, rounded_taps
from stridedgpu.values.layout import Layout

from .arrays import BLOCK_PIXELS, strided
from .channel_matrix import mixed
from .conversion import Array, constants, convert_block, storage_dtype
from .frames import frame_rows

__all__ = ["Borders", "numpy_resize_kernel", "resize_located", "resize_windows"]


def numpy_resize_kernel(problem: ResizeProblem) -> CpuKernel:
    """NumPy's loops, which do every problem."""
    conversion = problem.conversion
    name = f"numpy_resize_{problem.rule.interpolation}_{conversion.source}_{conversion.target}"
    words = "NumPy, over bands of rows that the cache holds"
    return numpy_kernel(name, words, conversion.source.itemsize, conversion.target.itemsize)


def resize_located(
    problem: ResizeProblem,
    windows: Sequence[ResizeWindow],
    sources: Sequence[ResizeSource],
    target: Located,
    numbers: Sequence[int] | None = None,
) -> None:
    """Resize all windows, or those with these `numbers`, from their images in memory."""
    buffer, start = target
    memory = [source if isinstance(source, FrameOperand) else source[0].bytes[source[1] :] for source in sources]
    resize_windows(problem, windows, memory, buffer.bytes[start:], numbers)


class Borders:
    """Writes a problem's fill value around the places of its images."""

    def __init__(self, problem: ResizeProblem) -> None:
        """Convert the fill value once, to a target row in the target's order."""
        layout = problem.target.layout
        color = _Converted(problem).block(np.frombuffer(problem.fill, _stored(problem)).reshape(-1, 1, 1))
        _, channels, _, width = layout.sizes
        interleaved = abs(layout.strides[1]) < abs(layout.strides[3])
        row = np.empty((1, width, channels), color.dtype).transpose(2, 0, 1) if interleaved else None
        self._row = np.empty((channels, 1, width), color.dtype) if row is None else row
        self._row[...] = color
        count_bytes(self._row.nbytes)
        self._layout = layout

    def __call__(self, memory: Array, number: int, place: tuple[int, int, int, int]) -> None:
        """Fill around one image's place in the batch; `memory` is the bytes from the batch's lowest element on."""
        top, left, height, width = place
        image, row = _view(memory, self._layout, self._row.dtype)[number], self._row
        bottom, right = top + height, left + width
        image[:, :top], image[:, bottom:] = row, row
        image[:, top:bottom, :left] = row[..., :left]
        image[:, top:bottom, right:] = row[..., right:]


class _Converted:
    """The treatment of a resized block: select or mix channels, then convert."""

    def __init__(self, problem: ResizeProblem) -> None:
        conversion = self._conversion = problem.conversion
        self._constants = [
            None if values is None else constants(values, conversion.compute).reshape(-1, 1, 1)
            for values in (conversion.scale, conversion.bias)
        ]
        self._channels = slice(None) if conversion.channels is None else list(conversion.channels)

    def block(self, block: Array) -> Array:
        if self._conversion.matrix is not None:
            return np.stack(list(mixed(list(block), self._conversion)))
        chosen: Array = block[self._channels]
        return chosen if self._conversion.is_bitwise_copy else convert_block(chosen, self._conversion, *self._constants)


def _stored(problem: ResizeProblem) -> np.dtype[Any]:
    """The dtype of the images' elements in NumPy: unsigned bits if they are only copied."""
    conversion = problem.conversion
    return storage_dtype(conversion.source, opaque=conversion.is_bitwise_copy and problem.rule.interpolation.is_nearest)


def resize_windows(
    problem: ResizeProblem,
    windows: Sequence[ResizeWindow],
    sources: Sequence[Array | FrameOperand],
    target: Array,
    numbers: Iterable[int] | None = None,
) -> None:
    """Write every window, or those with some `numbers`.

    `target` and each of `sources` that is no frame are bytes from the lowest element on.
    """
    conversion, element = problem.conversion, _stored(problem)
    batch = _view(
        target,
        problem.target.layout,
        element if conversion.is_bitwise_copy else storage_dtype(conversion.target, opaque=False),
    )
    converted, borders = _Converted(problem), Borders(problem) if problem.fill else None
    for number in range(len(windows)) if numbers is None else numbers:
        window, image = windows[number], batch[number]
        top, left, height, width = place = problem.visible(window)
        if borders is not None and (height, width) != image.shape[1:]:
            borders(target, number, place)
        if not height or not width:
            continue
        inside = image[:, top : top + height, left : left + width]
        rows_of = _rows_of(window, sources[number], element)
        with np.errstate(all="ignore"):  # infinities and NaN are pixels like others
            for rows, block in _bands(problem, problem.taps(window), rows_of):
                inside[:, rows] = converted.block(block)


def _view(memory: Array, layout: Layout, dtype: np.dtype[Any]) -> Array:
    """An array over part of `memory`, which begins at the layout's lowest element."""
    return strided(memory, dtype, layout.sizes, layout.strides, layout.offset - layout.first_offset)


RowsOf = Callable[[int, int], Array]
"""Rows of an image from one to another, with axes C, H, W."""


def _rows_of(window: ResizeWindow, source: Array | FrameOperand, dtype: np.dtype[Any]) -> RowsOf:
    """The rows of an image: a view of memory, or the colours of a frame's rows."""
    if isinstance(source, FrameOperand):
        return partial(frame_rows, source.surface, source.planes)
    read = _view(source, window.layout, dtype)
    return lambda top, bottom: read[:, top:bottom]


def _bands(problem: ResizeProblem, taps: WindowTaps, rows_of: RowsOf) -> Iterator[tuple[slice, Array]]:
    """The resized image with all channels, band by band, each with its slice of rows."""
    first, second = _passes(taps, problem.conversion.source.name)
    weighs = problem.rule.premultiplies and not (taps.rows.copies and taps.columns.copies)
    left, right = taps.columns.reach
    rows = taps.rows
    pixels = taps.source_pixels * (taps.columns.count + right - left) // (right - left)
    height = max(1, rows.count * BLOCK_PIXELS // pixels)
    for start in range(0, rows.count, height):
        band = rows.part(slice(start, start + height))
        top, bottom = band.reach
        block, band = rows_of(top, bottom), band.within(top, bottom)
        if weighs:
            block = _premultiplied(block)
        if taps.columns_first:
            block = _pass(_pass(block, 2, taps.columns, first), 1, band, second)
        else:
            block = _pass(_pass(block, 1, band, first), 2, taps.columns, second)
        yield slice(start, start + band.count), _divided(block) if weighs else block


class _Summing(NamedTuple):
    """A pass: the numbers of its arithmetic, what becomes of its sums, the pixels' type, and `ResizeSums.fuses`."""

    spec: ResizeSumsSpec
    finish: Finish
    factor: float
    element: str
    fuses: bool


def _passes(taps: WindowTaps, element: str) -> tuple[_Summing | None, _Summing | None]:
    """The first and the second pass of a `ResizeSums`; None for copies."""
    if taps.arithmetic is ResizeSums.COPY:
        return None, None
    spec = taps.arithmetic.spec
    rest = taps.factor, element, taps.arithmetic.fuses
    return _Summing(spec, spec.first, *rest), _Summing(spec, spec.second, *rest)


def _pass(block: Array, axis: int, taps: AxisTaps, summing: _Summing | None) -> Array:
    """One pass along an axis of a block with axes C, H, W."""
    if taps.copies or summing is None:
        return np.take(block, taps.starts, axis)
    indices, number = taps.indices, summing.spec.weights
    shape = (-1, 1) if axis == 1 else (-1,)
    weights = taps.weights.astype(number)
    rounded = rounded_taps(taps.counts) if summing.fuses else taps.counts
    total: Array | None = None
    for tap in range(taps.most):
        pixels = np.flatnonzero((rounded <= tap) & (tap < taps.counts))
        if total is not None and pixels.size:
            some = (Ellipsis, pixels, slice(None)) if axis == 1 else (Ellipsis, pixels)
            factors = weights[pixels, tap].reshape(shape)
            total[some] = fused(np.take(block, indices[pixels, tap], axis), factors, total[some])
        term = np.take(block, indices[:, tap], axis).astype(number)
        if summing.finish is Finish.UPPER:
            term >>= 4
        term *= weights[:, tap].reshape(shape)
        if summing.finish is Finish.UPPER:
            term >>= 16
        elif summing.finish is Finish.HALF_UP:
            term += 0.0  # turns -0.0 into 0.0, like a sum that starts with 0
        if total is None:
            total = term
        else:
            # Pixels with fewer taps add nothing, because 0 times infinity would be NaN.
            np.add(total, term, out=total, where=(tap < rounded).reshape(shape))
    assert total is not None, "every pixel has a tap"
    return _finished(total, summing)


def _finished(sums: Array, summing: _Summing) -> Array:
    """Sums as pixels, as the table of rules states; `sums` may be overwritten."""
    finish, element = summing.finish, summing.element
    if finish is Finish.KEPT:
        return sums
    if finish in (Finish.SHIFTED, Finish.UPPER):
        sums += 1 << (summing.spec.shift - 1)
        sums >>= summing.spec.shift
        return _clamped(sums, element)
    if finish is Finish.MEAN:
        sums = sums.astype(np.float32) * np.float32(summing.factor)
    if element == "float32":
        pixels = sums.astype(np.float32, copy=False)
        np.copyto(pixels, np.nan, where=np.isnan(pixels))  # one NaN
        return pixels
    return _clamped(np.floor(sums + 0.5) if finish is Finish.HALF_UP else np.rint(sums), element)


def _clamped(whole: Array, element: str) -> Array:
    """Whole numbers as unsigned integers, the largest or 0 in place of those outside."""
    clamped: Array = np.clip(whole, 0, _LARGEST[element], out=whole).astype(element)
    return clamped


_LARGEST: Final = {"uint8": 255, "uint16": 65535}


def _premultiplied(block: Array) -> Array:
    """Premultiply colours by alpha (the last channel): colour * alpha / 255."""
    alpha = block[-1:].astype(np.int32)
    products = block[:-1] * alpha + 128
    return np.concatenate([((products >> 8) + products >> 8).astype(np.uint8), block[-1:]])


def _divided(block: Array) -> Array:
    """Divide colours by alpha; pixels with alpha 0 or 255 are unchanged."""
    alpha = block[-1:].astype(np.int32)
    colors = block[:-1]
    whole = np.minimum(255 * colors.astype(np.int32) // np.maximum(alpha, 1), 255).astype(np.uint8)
    return np.concatenate([np.where((alpha == 0) | (alpha == 255), colors, whole), block[-1:]])
