"""Frames on NumPy, a band of rows at a time: from samples through RGB to target elements, and from RGB to samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stridedgpu.devices.cpu.plan import CpuKernel, numpy_kernel
from stridedgpu.devices.operand import Operand
from stridedgpu.problems.frame_problem import FrameProblem, FrameSurface, SamplesProblem
from stridedgpu.values.colour_matrix import FRACTION_BITS, ColourMatrix, LumaMatrix

from .arrays import BLOCK_PIXELS, operand_array
from .channel_matrix import mixed
from .conversion import Array, constants, convert_block


def numpy_frames_kernel(problem: FrameProblem) -> CpuKernel:
    """NumPy's loops, which do every problem."""
    load, store = problem.samples.element.itemsize, problem.target.element.itemsize
    return numpy_kernel("numpy_frame_bands", "NumPy, a band of rows at a time", load, store)


def frame_loops(problem: FrameProblem, planes: Sequence[Operand], origin: tuple[int, int], target: Operand) -> None:
    """Write a window, whose first pixel is at `origin` of the frame, into `target` with axes C, H, W."""
    conversion, order = problem.conversion, problem.order
    into = operand_array(target)
    if conversion.matrix is not None:  # which scales its own channels
        for rows, colours in _bands(problem, planes, origin):
            for channel, numbers in enumerate(mixed(colours, conversion)):
                into[channel, rows] = numbers
        return
    scale, bias = (
        None if values is None else np.broadcast_to(constants(values, conversion.compute), (len(order),))
        for values in (conversion.scale, conversion.bias)
    )
    for rows, colours in _bands(problem, planes, origin):
        for channel, colour in enumerate(order):
            affine = (None if values is None else values[channel] for values in (scale, bias))
            into[channel, rows] = convert_block(colours[colour], conversion, *affine)


def frame_rows(surface: FrameSurface, planes: Sequence[Operand], top: int, bottom: int) -> Array:
    """Red, green and blue of some rows of a frame, with axes C, H, W."""
    height, width = bottom - top, surface.sizes[1]
    pixels = np.empty((3, height, width), surface.samples.element.name)
    for rows, colours in _bands(surface.window(height, width), planes, (top, 0)):
        pixels[:, rows] = colours
    return pixels


def sample_arrays(problem: FrameProblem, planes: Sequence[Operand]) -> list[Array]:
    """Luma (H, W) and both chromas at their own size, as views of the planes."""
    arrays = [operand_array(plane) for plane in planes]
    views = []
    for samples in problem.samples.channels:
        plane = arrays[samples.plane]
        if plane.ndim == 3 and samples.step == plane.shape[2]:
            plane = plane[..., samples.first]
        elif plane.ndim == 3:  # luma of packed pixels: every other element, in several of one place
            rows, columns, count = plane.shape
            places = np.arange(samples.first, count, samples.step)
            plane = plane[..., places[0] :: samples.step].reshape(rows, columns * len(places))
        views.append(plane)
    return views


def _bands(
    problem: FrameProblem, planes: Sequence[Operand], origin: tuple[int, int]
) -> Iterator[tuple[slice, list[Array]]]:
    """Rows of the window, and their red, green and blue in the format's element type."""
    luma, *chroma = sample_arrays(problem, planes)
    _, height, width = problem.target.layout.sizes
    are_colours = problem.samples.kind != "yuv"
    top, left = origin
    step = max(1, BLOCK_PIXELS // max(width, 1))
    for first in range(0, height, step):
        rows = slice(first, min(first + step, height))
        lines, columns = np.arange(top + rows.start, top + rows.stop), np.arange(left, left + width)
        window = slice(lines[0], lines[-1] + 1), slice(left, left + width)
        if are_colours:
            colours = [_scaled(plane[window], problem.matrix) for plane in (luma, *chroma)]
            yield rows, colours if chroma else colours * 3
            continue
        u, v = (_chroma(plane, lines, columns, problem) for plane in chroma)
        yield rows, colours_of(luma[window], u, v, problem.matrix)


def _chroma(plane: Array, rows: Array, columns: Array, problem: FrameProblem) -> Array:
    """Samples of chroma for pixels at these rows and columns of the frame."""
    down, right = problem.samples.chroma_step
    if problem.chroma == "repeated" or (down, right) == (1, 1):
        repeated: Array = plane[(rows // down)[:, None], columns // right]
        return repeated
    last_row, last_column = plane.shape[0] - 1, plane.shape[1] - 1
    own = plane[rows // down].astype(np.int32)
    if down == 2:
        beside = np.clip(rows // 2 + np.where(rows % 2, 1, -1), 0, last_row)
        sums = 3 * own + plane[beside].astype(np.int32)
    else:
        sums = 4 * own
    place = columns // right
    near, far = sums[:, place], sums[:, np.minimum(place + 1, last_column)]
    chroma: Array = np.where(columns % 2, near + far + 4 >> 3, near + 2 >> 2)
    return chroma


def _scaled(colour: Array, matrix: ColourMatrix) -> Array:
    """A colour of the format as one of 0 to `most`."""
    scaled: Array = colour.astype(np.int64) * matrix.luma + (1 << (FRACTION_BITS - 1)) >> FRACTION_BITS
    return np.minimum(scaled, matrix.most).astype(colour.dtype)


def colours_of(luma: Array, blue: Array, red: Array, matrix: ColourMatrix) -> list[Array]:
    """Red, green and blue of samples, by the integer arithmetic of `stridedgpu.values.colour_matrix`."""
    number: Any = np.int32 if matrix.most == 255 else np.int64
    y = (np.maximum(luma, matrix.luma_least).astype(number) - number(matrix.luma_floor)) * number(matrix.luma)
    u, v = (samples.astype(number) - number(matrix.chroma_centre) for samples in (blue, red))
    factors = (v, matrix.red_v), (v, matrix.green_v), (u, matrix.green_u), (u, matrix.blue_u)
    products = [samples * number(factor) for samples, factor in factors]
    if matrix.floors:  # luma's is rounded down with the sum
        products = [product & number(-1 << matrix.bits) for product in products]
    else:
        y += number(1 << (matrix.bits - 1))
    to_red, *to_green, to_blue = products
    sums = y + to_red, y + to_green[0] + to_green[1], y + to_blue  # which wrap round where `ColourMatrix` says so
    element = np.uint8 if matrix.most == 255 else np.uint16
    return [np.clip(total >> matrix.bits, 0, matrix.most).astype(element) for total in sums]


# From colours to samples


def numpy_samples_kernel(problem: SamplesProblem) -> CpuKernel:
    """NumPy's loops, which do every problem."""
    width = problem.samples.element.itemsize
    return numpy_kernel("numpy_sample_bands", "NumPy, a band of rows at a time", width, width)


def write_samples(problem: SamplesProblem, image: Sequence[Operand], frame: Sequence[Operand]) -> None:
    """Write red, green and blue, each (H, W), into the planes of a frame: gray, colours, or luma and chroma.

    Chroma is that of the upper left pixel of four, or of the mean of two, as in OpenCV.
    """
    colours, planes = [operand_array(colour) for colour in image], [operand_array(plane) for plane in frame]
    matrix, (down, right) = problem.matrix, problem.samples.chroma_step
    number = np.int32 if problem.samples.element.itemsize == 1 else np.int64
    for rows, band in _sample_bands(colours, number):
        sources = [band, band, band]
        if right == 2:
            pairs = [np.concatenate([colour, colour[:, -1:]], 1) if colour.shape[1] % 2 else colour for colour in band]
            fewer = [colour[::down, ::2] if down == 2 else colour[:, ::2] + colour[:, 1::2] for colour in pairs]
            sources = [pairs if len(planes) == 1 else band, fewer, fewer]
        weights = (matrix.y, matrix.u, matrix.v)
        for samples, source, weight in zip(problem.samples.channels, sources, weights, strict=False):
            plane = planes[samples.plane]
            step = problem.samples.planes[samples.plane].rows
            into = plane[rows.start // step : -(-rows.stop // step)]
            if into.ndim == 3:
                into = into[..., samples.first :: samples.step]
            into[...] = _sample(source, weight, matrix).reshape(into.shape)


def _sample_bands(colours: Sequence[Array], number: type[Any]) -> Iterator[tuple[slice, list[Array]]]:
    """Rows, an even number of them, and their colours as wider numbers."""
    height, width = colours[0].shape
    step = max(1, BLOCK_PIXELS // max(width, 1)) * 2
    for first in range(0, height, step):
        rows = slice(first, min(first + step, height))
        yield rows, [colour[rows].astype(number) for colour in colours]


def _sample(colours: list[Array], constants: tuple[int, int, int, int], matrix: LumaMatrix) -> Array:
    """One kind of sample, as `stridedgpu.values.colour_matrix.LumaMatrix` states it."""
    red, green, blue = colours
    number = red.dtype.type
    of_red, of_green, of_blue, added = map(number, constants)
    half = number(1 << (matrix.bits - 1))
    sums: Array = red * of_red + green * of_green + blue * of_blue + half + (added << number(matrix.bits))
    clamped: Array = np.clip(sums >> number(matrix.bits), 0, matrix.most) << number(matrix.shift)
    return clamped
