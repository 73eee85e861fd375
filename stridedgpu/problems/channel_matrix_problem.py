"""`ChannelMatrixProblem`: pixels whose channels are mixed by a matrix, converted and laid out, as simplified loops."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from stridedgpu.values.bounded_cache import bounded_cache
from stridedgpu.values.constants import Matrix
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.memoized import interned
from stridedgpu.values.tensor_spec import TensorSpec

from .loop_nest import simplify
from .relayout_problem import RelayoutProblem, relayout_problem


@dataclass(frozen=True, slots=True)
class ChannelMatrixProblem:
    """Loops over pixels, outermost first, and the conversion of each pixel; strides and offsets are in elements.

    Offsets are those of channel 0 of the first pixel from the lowest element of each side. `channel_strides` are those
    of the target and of the source.
    """

    operand_count: ClassVar[int] = 2
    """The operands that `launch_for` gives its launch."""

    sizes: tuple[int, ...]
    target_strides: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_offset: int
    source_offset: int
    channel_strides: tuple[int, int]
    target: TensorSpec
    source: TensorSpec
    conversion: Conversion

    @property
    def matrix(self) -> Matrix:
        """The rows of the matrix, one for each output channel."""
        assert self.conversion.matrix is not None, "problems of a matrix are made with one"
        return self.conversion.matrix

    @property
    def pixel_count(self) -> int:
        """The number of pixels."""
        return prod(self.sizes)

    @property
    def is_empty(self) -> bool:
        """Whether there are no pixels."""
        return 0 in self.sizes

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each element once."""
        conversion, matrix = self.conversion, self.matrix
        read = prod(size for size, stride in zip(self.sizes, self.source_strides, strict=True) if stride != 0)
        channels = len(matrix[0]) if self.channel_strides[1] else 1
        written = self.pixel_count * len(matrix) * conversion.target.itemsize
        return read * channels * conversion.source.itemsize + written

    def describe(self) -> list[str]:
        """The lines that `explain()` prints for the problem."""
        conversion, (across, source_across) = self.conversion, self.channel_strides
        return [
            f"loops over pixels {self.sizes}",
            f"writes {conversion.target} in steps of {self.target_strides} elements, channels {across} apart",
            f"reads {conversion.source} in steps of {self.source_strides} elements, channels {source_across} apart",
            f"{conversion}: products and sums in {conversion.compute}, from the first channel to the last",
            f"{self.bytes_moved} bytes must move",
        ]


@bounded_cache
def moving_problem(
    source: TensorSpec, target: TensorSpec, conversion: Conversion, channel_axis: int | None, filler: int = 0
) -> RelayoutProblem | ChannelMatrixProblem:
    """The loops that move `source` into `target`, for conversions with a matrix or without; see `relayout_problem`."""
    if conversion.matrix is None or channel_axis is None:
        return interned(relayout_problem(source, target, conversion, channel_axis, filler))
    first = (slice(None),) * channel_axis + (0,)
    strides = (target.layout.strides[channel_axis], source.layout.strides[channel_axis])
    nest = simplify([target.layout.sliced(first), source.layout.sliced(first)])
    (written, read), (into, begins) = nest.strides, nest.offsets
    problem = ChannelMatrixProblem(nest.sizes, written, read, into, begins, strides, target, source, conversion)
    return interned(problem)
