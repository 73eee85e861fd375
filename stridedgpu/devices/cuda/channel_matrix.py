"""Channels mixed by a matrix, one pixel a thread (`channel_matrix.cu`): the choice of the kernel, and its launch."""

from __future__ import annotations

from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem
from stridedgpu.problems.device_plan import Width, index_bits
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.errors import DeviceError

from .choice import NamedChoice, check_alignment
from .gpu import THREADS, KernelLaunch
from .parameters import ParameterBlock, index_argument, instantiation, matrix_encoding, number_argument
from .policy import policy


def choose_channel_matrix(problem: ChannelMatrixProblem, widest: int = 16) -> NamedChoice[ChannelMatrixProblem]:  # noqa: ARG001
    """The kernel on any GPU, with scalar loads and stores.

    Raises `DeviceError` for too many channels, `LayoutError` for unaligned elements.
    """
    conversion, rows, columns = problem.conversion, len(problem.matrix), len(problem.matrix[0])
    most = policy().channel_matrix.most_channels
    if max(rows, columns) > most:
        raise DeviceError(
            f"A matrix of {rows} x {columns}: a GPU mixes up to {most} channels; bring the operands to the CPU with "
            "to_device('cpu')."
        )
    for name, side in (("source", problem.source), ("target", problem.target)):
        check_alignment(name, side.element, side.alignment)
    why = "a thread has the channels of one pixel"
    spans = (problem.source.layout.span, problem.target.layout.span)
    return NamedChoice(
        problem,
        Width(problem.source.element.itemsize, why),
        Width(problem.target.element.itemsize, why),
        index_bits(max(*spans, problem.pixel_count)),
        "pixels",
        f"channel_matrix_{rows}x{columns}_{conversion.source}_{conversion.target}",
        "a thread makes one pixel",
    )


def channel_matrix_launch(choice: NamedChoice[ChannelMatrixProblem]) -> KernelLaunch:
    """The kernel, grid and parameters that carry out a choice."""
    problem, bits = choice.problem, choice.index_bits
    conversion, matrix = problem.conversion, problem.matrix
    decode = Conversion(conversion.source, conversion.compute)
    encode = matrix_encoding(conversion)
    block = ParameterBlock(bits)
    block.add_numbers((number for row in matrix for number in row), conversion.compute)
    affines = block.add_affines(encode, conversion.compute)
    rank = block.add_axes(problem.sizes, problem.source_strides, problem.target_strides)
    across, source_across = problem.channel_strides
    block.add_indices(problem.source_offset, problem.target_offset, source_across, across, problem.pixel_count)
    name = instantiation(
        "channel_matrix",
        (number_argument(decode), number_argument(encode), index_argument(bits)),
        "ChannelMatrixPolicy",
        rows=len(matrix),
        columns=len(matrix[0]),
        rank=rank,
        affines=affines,
    )
    return block.launch("channel_matrix.cu", name, -(-problem.pixel_count // THREADS))
