"""`Runs`: the runs of bytes that a copy engine moves between two devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from .relayout_problem import RelayoutProblem

_SHORTEST_RUN_BYTES: Final = 64
"""Bytes of the shortest run worth a copy engine: shorter ones are packed together first. Not measured."""

_MOST_COPIES: Final = 64
"""The most separate copies; more runs are packed first. Not measured; each copy costs some microseconds to start."""

_LARGEST_PITCH: Final = 2**31 - 1
"""Bytes: `cudaDeviceProp.memPitch`."""


@dataclass(frozen=True, slots=True)
class Runs:
    """`height` runs of `width` bytes, a pitch apart, repeated at each place of the `outer` axes.

    All lengths are in bytes. An outer axis is (size, step in the source, step in the target), outermost first. The
    first place is `source_start` bytes after the source's lowest element, and at the target's lowest element.
    """

    width: int
    height: int = 1
    source_pitch: int = 0
    target_pitch: int = 0
    outer: tuple[tuple[int, int, int], ...] = ()
    source_start: int = 0

    @property
    def copies(self) -> int:
        """How many copies of `height` runs there are."""
        return prod(size for size, _, _ in self.outer)

    @property
    def is_one_run(self) -> bool:
        """True if everything is contiguous on both sides."""
        return self.copies * self.height == 1

    @property
    def is_worthwhile(self) -> bool:
        """True if a copy engine does this well: few copies, and no short runs."""
        return self.is_one_run or (self.copies <= _MOST_COPIES and self.width >= _SHORTEST_RUN_BYTES)

    @property
    def places(self) -> Iterator[tuple[int, int]]:
        """The start of each copy in the source and in the target."""
        for indices in product(*(range(size) for size, _, _ in self.outer)):
            steps = list(zip(indices, self.outer, strict=True))
            yield (
                self.source_start + sum(index * source for index, (_, source, _) in steps),
                sum(index * target for index, (_, _, target) in steps),
            )


def runs_of(problem: RelayoutProblem) -> Runs | None:
    """The pitched copies that perform `problem`; None if it does more than copy, or copies nothing.

    >>> from stridedgpu.values.conversion import conversion
    >>> from stridedgpu.values.dtypes import element_type
    >>> from stridedgpu.values.layout import Layout
    >>> from stridedgpu.problems.relayout_problem import relayout_problem
    >>> from stridedgpu.values.tensor_spec import TensorSpec
    >>> byte = element_type("uint8")
    >>> layouts = Layout((4, 90), (96, 1)), Layout((4, 90))
    >>> padded, packed = (TensorSpec.of(layout, byte, base_alignment=1) for layout in layouts)
    >>> runs_of(relayout_problem(padded, packed, conversion(byte, byte), None))
    Runs(width=90, height=4, source_pitch=96, target_pitch=90, outer=(), source_start=0)
    """
    conversion = problem.conversion
    if (
        not conversion.is_bitwise_copy
        or conversion.channels is not None
        or problem.filler
        or problem.element_count == 0
    ):
        return None
    itemsize = problem.target.element.itemsize
    axes = [
        (size, source * itemsize, target * itemsize)
        for size, source, target in zip(problem.sizes, problem.source_strides, problem.target_strides, strict=True)
    ]
    width = itemsize
    if axes and axes[-1][1:] == (itemsize, itemsize):
        width *= axes.pop()[0]
    height, source_pitch, target_pitch = 1, width, width
    if axes and all(width <= pitch <= _LARGEST_PITCH for pitch in axes[-1][1:]):
        height, source_pitch, target_pitch = axes.pop()
    return Runs(width, height, source_pitch, target_pitch, tuple(axes), problem.source_offset * itemsize)
