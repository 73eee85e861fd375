"""Channels mixed by a matrix, one pixel a thread (`channel_matrix.cu`): the choice of the kernel, and its launch."""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.planning.channel_matrix_problem import ChannelMatrixProblem
from stridedgpu.planning.device_plan import Width, in_words, index_bits
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.errors import DeviceError, LayoutError

from .gpu import KernelLaunch, axes_words, rank_of
from .parameters import ParameterBlock, index_argument, instantiation, number_argument
from .policy import policy


@dataclass(frozen=True, slots=True)
class ChannelMatrixChoice:
    """The kernel of a problem, with scalar loads and stores: one for each channel of a pixel."""

    problem: ChannelMatrixProblem
    load: Width
    store: Width
    index_bits: int

    @property
    def family(self) -> str:
        """The only family: each thread computes one pixel."""
        return "pixels"

    @property
    def kernel(self) -> str:
        """The kernel's name: the sizes of the matrix, then the source type and the target type."""
        made, matrix = self.problem.conversion, self.problem.matrix
        return f"channel_matrix_{len(matrix)}x{len(matrix[0])}_{made.source}_{made.target}"

    def in_words(self) -> list[str]:
        """The kernel in lines, as plans explain it."""
        accesses = in_words("loads", self.load) + "; " + in_words("stores", self.store)
        return ["a thread makes one pixel", *self.problem.in_words(), accesses, f"{self.index_bits}-bit offsets"]


def choose_channel_matrix(problem: ChannelMatrixProblem, widest: int = 16) -> ChannelMatrixChoice:  # noqa: ARG001
    """The kernel on any GPU. Raises `DeviceError` for too many channels, `LayoutError` for unaligned elements."""
    rows, columns, most = len(problem.matrix), len(problem.matrix[0]), policy().channel_matrix.most_channels
    if max(rows, columns) > most:
        raise DeviceError(
            f"A matrix of {rows} x {columns}: a GPU mixes up to {most} channels; bring the operands to the CPU with "
            "to_device('cpu')."
        )
    for name, side in (("source", problem.source), ("target", problem.target)):
        if side.alignment < side.element.itemsize:
            raise LayoutError(
                f"The {name}'s {side.element} elements lie at multiples of {side.alignment} bytes only; a GPU "
                f"addresses them at multiples of {side.element.itemsize}. See the bytes as uint8 and relayout them "
                "into an aligned tensor."
            )
    why = "a thread has the channels of one pixel"
    spans = (problem.source.layout.span, problem.target.layout.span)
    return ChannelMatrixChoice(
        problem,
        Width(problem.source.element.itemsize, why),
        Width(problem.target.element.itemsize, why),
        index_bits(max(*spans, problem.pixel_count)),
    )


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
