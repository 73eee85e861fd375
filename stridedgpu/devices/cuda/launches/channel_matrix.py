"""Launches of channel matrices (`kernels/channel_matrix/channel_matrix.cu`)."""

from __future__ import annotations

from stridedgpu.devices.cuda.planning.channel_matrix import ChannelMatrixChoice
from stridedgpu.devices.cuda.planning.gpu import KernelLaunch, axes_words, rank_of
from stridedgpu.values.conversion import Conversion

from .instantiation import instantiation
from .parameters import ParameterBlock, index_argument, number_argument

__all__ = ["channel_matrix_launch"]


def channel_matrix_launch(choice: ChannelMatrixChoice) -> KernelLaunch:
    """The kernel, grid and parameters that carry out a choice."""
    problem, bits = choice.problem, choice.index_bits
    made, matrix = problem.conversion, problem.matrix
    decode = Conversion(made.source, made.compute)
    encode = Conversion(made.compute, made.target, made.scale, made.bias, None, made.rounding)
    block = ParameterBlock()
    block.add_numbers([number for row in matrix for number in row], made.compute)
    affines = block.add_affines(encode, made.compute)
    rank = rank_of(len(problem.sizes))
    added = rank - len(problem.sizes)
    read, written = ([0] * added + list(side) for side in (problem.source_strides, problem.target_strides))
    block.add_axes(axes_words([1] * added + list(problem.sizes), read, written, bits), bits)
    across, source_across = problem.channel_strides
    for value in (problem.source_offset, problem.target_offset, source_across, across, problem.pixel_count):
        block.add_index(value, bits)
    name = instantiation(
        "channel_matrix",
        (number_argument(decode), number_argument(encode), index_argument(bits)),
        "ChannelMatrixPolicy",
        rows=len(matrix),
        columns=len(matrix[0]),
        rank=rank,
        affines=affines,
    )
    return block.launch_of("channel_matrix.cu", name, problem.pixel_count)
