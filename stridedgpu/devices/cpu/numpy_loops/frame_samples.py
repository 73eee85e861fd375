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
from stridedgpu.values.colour_matrix import FRACTION_BITS, GRAY, GRAY_BITS

from .frames import operand_array

__all__ = ["numpy_samples_kernel", "write_samples"]


def numpy_samples_kernel(problem: SamplesProblem) -> CpuKernel:
    """The loops, which do every problem."""
    width = Width(problem.samples.element.itemsize, NUMPY_DECIDES)
    return CpuKernel("numpy_sample_bands", "NumPy, a band of rows at a time", width, width)


def write_samples(problem: SamplesProblem, image: Sequence[Operand], frame: Sequence[Operand]) -> None:
    """Write red, green and blue, each (H, W), uint8, into the planes of a frame: gray, or luma and 2 x 2 chroma.

    Chroma is that of the upper left pixel of four, as in OpenCV.
    """
    colours = [operand_array(colour) for colour in image]
    planes, matrix = [operand_array(plane) for plane in frame], problem.matrix
    if matrix is None:
        for rows, (red, green, blue) in _bands(colours):
            sums: NDArray[Any] = red * np.int32(GRAY[0]) + green * np.int32(GRAY[1]) + blue * np.int32(GRAY[2])
            planes[0][rows] = (sums + (1 << (GRAY_BITS - 1))) >> GRAY_BITS
        return
    for rows, band in _bands(colours):
        planes[0][rows] = _sample(band, matrix.y)
        quarter = [colour[::2, ::2] for colour in band]
        places = slice(rows.start // 2, rows.stop // 2)
        for samples, constants in zip(problem.samples.channels[1:], (matrix.u, matrix.v), strict=True):
            plane = planes[samples.plane]
            into = plane[..., samples.first] if plane.ndim == 3 else plane
            into[places] = _sample(quarter, constants)


def _bands(colours: Sequence[NDArray[Any]]) -> Iterator[tuple[slice, list[NDArray[Any]]]]:
    """Rows, an even number of them, and their colours as 32-bit numbers."""
    height, width = colours[0].shape
    step = max(1, policy().numpy.block_pixels // max(width, 1)) * 2
    for first in range(0, height, step):
        rows = slice(first, min(first + step, height))
        yield rows, [colour[rows].astype(np.int32) for colour in colours]


def _sample(colours: list[NDArray[Any]], constants: tuple[int, int, int, int]) -> NDArray[Any]:
    """One kind of sample, as `stridedgpu.values.colour_matrix.LumaMatrix` states it."""
    red, green, blue = colours
    of_red, of_green, of_blue, added = (np.int32(constant) for constant in constants)
    half = np.int32(1 << (FRACTION_BITS - 1))
    sums: NDArray[Any] = red * of_red + green * of_green + blue * of_blue + half + (added << FRACTION_BITS)
    clamped: NDArray[Any] = np.clip(sums >> FRACTION_BITS, 0, 255)
    return clamped
