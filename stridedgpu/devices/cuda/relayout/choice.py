"""`RelayoutChoice`, and what the families of kernels share: loops, tiles as boxes of loops, gaps of the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from stridedgpu.devices.cuda.choice import CudaPlan, KernelFamily
from stridedgpu.devices.cuda.parameters import ParameterBlock
from stridedgpu.devices.cuda.policy import policy
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.values.conversion import Conversion


class Family(KernelFamily):
    """Kinds of relayout, by the contiguity of both sides."""

    EMPTY = "empty", "nothing to move: there are no elements"
    FLAT = "flat", "one run: both sides are contiguous in the same order"
    ROWS = "rows", "rows: the innermost run is contiguous on both sides"
    TRANSPOSE = "transpose", "tiled transpose: each side is contiguous along another long axis"
    CHANNELS = "channels", "small-channel interleave: one side is contiguous along an axis of few elements"
    PIXELS = "pixels", "whole pixels: both sides have pixels of few elements, one after another in the same order"
    TURNED_PIXELS = (
        "turned_pixels",
        "turned pixels: both sides have pixels of few elements, each along another long axis",
    )
    PACKED_TILE = "packed_tile", "packed tile: the contiguous runs are short on both sides"
    GENERIC = "generic", "element by element in destination order: one side has no contiguous run"


def unit_axis(strides: tuple[int, ...]) -> int | None:
    """The axis with stride 1 or -1, or None."""
    return next((axis for axis in reversed(range(len(strides))) if abs(strides[axis]) == 1), None)


def pixel_axes(problem: RelayoutProblem) -> tuple[int, int] | None:
    """The axis inside a pixel and the axis over pixels: one is contiguous in the source, the other in the target.

    None unless the two sides are contiguous along different axes.
    """
    target_axis, source_axis = unit_axis(problem.target_strides), unit_axis(problem.source_strides)
    if target_axis is None or source_axis is None or target_axis == source_axis:
        return None
    is_small = problem.sizes[target_axis] <= policy().family.small_axis
    return (target_axis, source_axis) if is_small else (source_axis, target_axis)


def itemsizes_of(problem: RelayoutProblem) -> tuple[int, int]:
    """Bytes of an element of the source and of the target."""
    return problem.source.element.itemsize, problem.target.element.itemsize


@dataclass(frozen=True, slots=True)
class RelayoutChoice(CudaPlan[RelayoutProblem]):
    """The loops, the family of kernels that walks them, and the access widths.

    With `shifts`, rows may begin inside a word, and words are funnel-shifted into place.
    """

    family: Family
    shifts: bool = False

    @property
    def kernel(self) -> str:
        """The kernel's name: family, then type and bytes of a load and of a store."""
        source, target = self.problem.source.element, self.problem.target.element
        return f"{self.family}_{source}x{self.load.nbytes}B_{target}x{self.store.nbytes}B"

    @property
    def lengths(self) -> tuple[int, int]:
        """Elements of one load and of one store."""
        source, target = itemsizes_of(self.problem)
        return self.load.nbytes // source, self.store.nbytes // target

    def describe(self) -> list[str]:
        """The kernel in lines, as plans explain it."""
        shifts = ["rows begin anywhere in their vectors: words are shifted into place"] if self.shifts else []
        return [self.summary, *self.problem.describe(), *self.accesses, *shifts, f"{self.index_bits}-bit indices"]


@dataclass(frozen=True, slots=True)
class LoopAxis:
    """One loop: its size, its strides in elements on both sides, and whether it is the channel axis."""

    size: int
    source_stride: int
    target_stride: int
    is_channel: bool = False

    def reversed(self, starts: tuple[int, int]) -> tuple[LoopAxis, tuple[int, int]]:
        """The loop from its other end, and both sides' starts there."""
        back = replace(self, source_stride=-self.source_stride, target_stride=-self.target_stride)
        source, target = starts
        steps = self.size - 1
        return back, (source + steps * self.source_stride, target + steps * self.target_stride)


NO_LOOP: Final = LoopAxis(1, 0, 0)
"""A loop of one step."""


def loops_of(problem: RelayoutProblem) -> list[LoopAxis]:
    """The loops of a problem, outermost first."""
    axes = zip(problem.sizes, problem.source_strides, problem.target_strides, strict=True)
    return [LoopAxis(*entry, axis == problem.channel_axis) for axis, entry in enumerate(axes)]


def without_channel(loops: Sequence[LoopAxis]) -> tuple[list[LoopAxis], LoopAxis]:
    """The loops that are not over channels, and the one that is."""
    channel = next((loop for loop in loops if loop.is_channel), NO_LOOP)
    return [loop for loop in loops if not loop.is_channel], channel


def add_loops(block: ParameterBlock, loops: Sequence[LoopAxis]) -> int:
    """Append the `sg::Axes` of the loops; returns its rank."""
    sources, targets = [loop.source_stride for loop in loops], [loop.target_stride for loop in loops]
    return block.add_axes([loop.size for loop in loops], sources, targets)


def reversed_channels(conversion: Conversion) -> Conversion:
    """A conversion with its channels in reverse order."""
    scale, bias = conversion.scale, conversion.bias
    return replace(conversion, scale=scale and scale[::-1], bias=bias and bias[::-1])


def owns_gaps(problem: RelayoutProblem, cell: int) -> bool:
    """True if the target owns its padding and no other loop writes into these gaps.

    The gaps are those inside each `cell` elements of the target, and after all cells but the last.
    """
    reach = 0
    for size, stride in zip(reversed(problem.sizes), reversed(problem.target_strides), strict=True):
        if stride <= reach:
            return False
        reach = max(reach + (size - 1) * stride, cell - 1 if stride < cell else 0)
    return problem.target.owns_padding


def owns_last_gap(problem: RelayoutProblem, cell: int) -> bool:
    """Whether the target's buffer continues to the end of the last `cell` elements."""
    loops = zip(problem.sizes, problem.target_strides, strict=True)
    inner = sum((size - 1) * stride for size, stride in loops if stride < cell) + 1
    return problem.target.slack_bytes >= max(0, cell - inner) * problem.target.element.itemsize


def tile_box(problem: RelayoutProblem, extents: Mapping[int, int]) -> tuple[int, ...]:
    """A tile as an extent along each loop: the given axes, and 1 along the others."""
    return tuple(min(size, extents.get(axis, 1)) for axis, size in enumerate(problem.sizes))
