"""Channel matrices on NumPy: blocks of pixels, each output channel the sum of products in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.plan import NUMPY_DECIDES, CpuKernel
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem
from stridedgpu.problems.device_plan import Width
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.dtypes import ElementType

from .conversion import Array, constants, convert_block, storage_dtype

__all__ = ["mix_channels", "mixed", "numpy_channel_matrix_kernel"]


def numpy_channel_matrix_kernel(problem: ChannelMatrixProblem) -> CpuKernel:
    """NumPy's loops, which do every problem."""
    load, store = problem.source.element.itemsize, problem.target.element.itemsize
    widths = Width(load, NUMPY_DECIDES), Width(store, NUMPY_DECIDES)
    return CpuKernel("numpy_channel_matrix", "NumPy, a block of pixels at a time", *widths)


def mix_channels(
    problem: ChannelMatrixProblem, source: Buffer, source_start: int, target: Buffer, target_start: int
) -> None:
    """Write every pixel; starts are the bytes before the lowest element of each side."""
    if 0 in problem.sizes:  # NumPy makes no array of strides that leave a memory without bytes
        return
    across, source_across = problem.channel_strides
    rows, columns = len(problem.matrix), len(problem.matrix[0])
    read, written = (
        _channels(memory, element, offset, (count, *problem.sizes), (stride, *strides))
        for memory, element, offset, count, stride, strides in (
            (
                source.bytes[source_start:],
                problem.source.element,
                problem.source_offset,
                columns,
                source_across,
                problem.source_strides,
            ),
            (
                target.bytes[target_start:],
                problem.target.element,
                problem.target_offset,
                rows,
                across,
                problem.target_strides,
            ),
        )
    )
    for place in _blocks(problem.sizes):
        # The dots make an array of a single pixel.
        block = [read[(channel, *place, ...)] for channel in range(columns)]
        for channel, numbers in enumerate(mixed(block, problem.conversion)):
            written[(channel, *place, ...)] = numbers


def mixed(channels: Sequence[Array], conversion: Conversion) -> Iterator[Array]:
    """Each output channel of some pixels, given all their channels in the source's storage type."""
    assert conversion.matrix is not None, "there is a matrix"
    compute, rows = conversion.compute, [constants(row, conversion.compute) for row in conversion.matrix]
    decoded, last = (
        Conversion(conversion.source, compute),
        Conversion(compute, conversion.target, rounding=conversion.rounding),
    )
    numbers = [convert_block(channel, decoded) for channel in channels]
    scales, biases = (
        None if values is None else np.broadcast_to(constants(values, compute), (len(rows),))
        for values in (conversion.scale, conversion.bias)
    )
    for number, row in enumerate(rows):
        with np.errstate(all="ignore"):  # infinities and NaN are numbers like others
            total = np.atleast_1d(numbers[0] * row[0])
            for channel, weight in zip(numbers[1:], row[1:], strict=True):
                total += channel * weight
            np.copyto(total, np.nan, where=np.isnan(total))
        scale, bias = (None if values is None else values[number] for values in (scales, biases))
        yield convert_block(total, last, scale, bias).reshape(numbers[0].shape)


def _channels(
    memory: Array, element: ElementType, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]
) -> Array:
    """A view of one side: its channels, then the loops over pixels."""
    dtype = storage_dtype(element, opaque=False)
    steps = tuple(stride * dtype.itemsize for stride in strides)
    return np.ndarray(sizes, dtype, memory, offset * dtype.itemsize, steps)


def _blocks(sizes: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Blocks of the loops: whole inner loops as far as they fit, and parts of the one before."""
    extents, room = [], policy().numpy.block_pixels
    for size in reversed(sizes):
        extent = max(1, min(size, room))
        extents.append(extent)
        room //= extent
    pieces = [
        [slice(first, first + extent) for first in range(0, size, extent)]
        for size, extent in zip(sizes, reversed(extents), strict=True)
    ]
    return product(*pieces)
