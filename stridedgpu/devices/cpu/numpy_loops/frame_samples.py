"""RGB to the samples of a frame on NumPy, a band of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.plan import NUMPY_DECIDES, CpuKernel
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.operand import Operand
from stridedgpu.planning.device_plan import Width
from stridedgpu.planning.frame_problem import SamplesProblem
from stridedgpu.values.colour_matrix import LumaMatrix

from .frames import operand_array

__all__ = ["numpy_samples_kernel", "write_samples"]


def numpy_samples_kernel(problem: SamplesProblem) -> CpuKernel:
    """The loops, which do every problem."""
    width = Width(problem.samples.element.itemsize, NUMPY_DECIDES)
    return CpuKernel("numpy_sample_bands", "NumPy, a band of rows at a time", width, width)


def write_samples(problem: SamplesProblem, image: Sequence[Operand], frame: Sequence[Operand]) -> None:
    """Write red, green and blue, each (H, W), into the planes of a frame: gray, or luma and chroma.

    Chroma is that of the upper left pixel of four, or of the mean of two, as in OpenCV.
    """
    colours, planes = [operand_array(colour) for colour in image], [operand_array(plane) for plane in frame]
    matrix, (down, right) = problem.matrix, problem.samples.chroma_step
    number = np.int32 if problem.samples.element.itemsize == 1 else np.int64
    for rows, band in _bands(colours, number):
        sources = [band, band, band]
        if right == 2:
            fewer = [colour[::down, ::2] if down == 2 else colour[:, ::2] + colour[:, 1::2] for colour in band]
            sources[1:] = fewer, fewer
        weights = (matrix.y, matrix.u, matrix.v)
        for samples, source, constants in zip(problem.samples.channels, sources, weights, strict=False):
            plane = planes[samples.plane]
            step = problem.samples.planes[samples.plane].rows
            into = plane[rows.start // step : -(-rows.stop // step)]
            if into.ndim == 3:
                into = into[..., samples.first :: samples.step]
            into[...] = _sample(source, constants, matrix).reshape(into.shape)


def _bands(colours: Sequence[NDArray[Any]], number: type[Any]) -> Iterator[tuple[slice, list[NDArray[Any]]]]:
    """Rows, an even number of them, and their colours as wider numbers."""
    height, width = colours[0].shape
    step = max(1, policy().numpy.block_pixels // max(width, 1)) * 2
    for first in range(0, height, step):
        rows = slice(first, min(first + step, height))
        yield rows, [colour[rows].astype(number) for colour in colours]


def _sample(colours: list[NDArray[Any]], constants: tuple[int, int, int, int], matrix: LumaMatrix) -> NDArray[Any]:
    """One kind of sample, as `stridedgpu.values.colour_matrix.LumaMatrix` states it."""
    red, green, blue = colours
    number = red.dtype.type
    of_red, of_green, of_blue, added = map(number, constants)
    half = number(1 << (matrix.bits - 1))
    sums: NDArray[Any] = red * of_red + green * of_green + blue * of_blue + half + (added << number(matrix.bits))
    clamped: NDArray[Any] = np.clip(sums >> number(matrix.bits), 0, matrix.most) << number(matrix.shift)
    return clamped
