"""Packed samples of raw sensors on NumPy: a band of rows at a time, one sample of every group after the other."""

from __future__ import annotations

import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.plan import CpuKernel, numpy_kernel
from stridedgpu.problems.raw_problem import RawProblem

from .arrays import BLOCK_PIXELS


def numpy_raw_kernel(problem: RawProblem) -> CpuKernel:
    """NumPy's loops, which do every problem."""
    return numpy_kernel("numpy_raw_bands", "NumPy, a band of rows at a time", 1, problem.target.element.itemsize)


def unpack_samples(problem: RawProblem, source: Buffer, source_start: int, target: Buffer, target_start: int) -> None:
    """Write every sample; starts are the bytes before the first row, and before the target's lowest element."""
    samples, layout, groups = problem.samples, problem.target.layout, problem.groups
    (height, _), (down, right) = layout.sizes, layout.strides
    read = np.ndarray(
        (height, groups, samples.nbytes), np.uint8, source.bytes, source_start, (problem.pitch, samples.nbytes, 1)
    )
    written = np.ndarray(
        (height, groups, samples.count),
        np.uint16,
        target.bytes,
        target_start + 2 * layout.offset,
        (2 * down, 2 * samples.count * right, 2 * right),
    )
    step = max(1, BLOCK_PIXELS // layout.sizes[1])
    for first in range(0, height, step):
        rows = slice(first, first + step)
        for number, fields in enumerate(samples.samples):
            upper, lower = (
                ((read[rows, :, field.byte].astype(np.uint16) >> field.right) & field.mask) << field.left
                for field in fields
            )
            np.bitwise_or(upper, lower, out=written[rows, :, number])
