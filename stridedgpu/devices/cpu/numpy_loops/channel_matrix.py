"""Channel matrices on NumPy: blocks of pixels, each output channel the sum of products in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.plan import CpuKernel, numpy_kernel
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem
from stridedgpu.problems.loop_nest import innermost_box
from stridedgpu.values.conversion import Conversion

from .arrays import BLOCK_PIXELS, blocks, strided
from .conversion import Array, constants, convert_block, storage_dtype


def numpy_channel_matrix_kernel(problem: ChannelMatrixProblem) -> CpuKernel:
    """NumPy's loops, which do every problem."""
    load, store = problem.source.element.itemsize, problem.target.element.itemsize
    return numpy_kernel("numpy_channel_matrix", "NumPy, a block of pixels at a time", load, store)


def mix_channels(
    problem: ChannelMatrixProblem, source: Buffer, source_start: int, target: Buffer, target_start: int
) -> None:
    """Write every pixel; starts are the bytes before the lowest element of each side."""
    if 0 in problem.sizes:  # NumPy makes no array of strides that leave a memory without bytes
        return
    across, source_across = problem.channel_strides
    rows, columns = len(problem.matrix), len(problem.matrix[0])
    read, written = (
        strided(memory, storage_dtype(element, opaque=False), (count, *problem.sizes), strides, offset)
        for memory, element, count, strides, offset in (
            (
                source.bytes[source_start:],
                problem.source.element,
                columns,
                (source_across, *problem.source_strides),
                problem.source_offset,
            ),
            (
                target.bytes[target_start:],
                problem.target.element,
                rows,
                (across, *problem.target_strides),
                problem.target_offset,
            ),
        )
    )
    for place in blocks(problem.sizes, innermost_box(problem.sizes, BLOCK_PIXELS)):
        # The dots make an array of a single pixel.
        block = [read[(channel, *place, ...)] for channel in range(columns)]
        for channel, numbers in enumerate(mixed(block, problem.conversion)):
            written[(channel, *place, ...)] = numbers


def mixed(channels: Sequence[Array], conversion: Conversion) -> Iterator[Array]:
    """Each output channel of some pixels, given all their channels in the source's storage type."""
    assert conversion.matrix is not None, "there is a matrix"
    compute, rows = conversion.compute, [constants(row, conversion.compute) for row in conversion.matrix]
    decoded = Conversion(conversion.source, compute)
    last = replace(conversion, source=compute, channels=None, matrix=None)
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
