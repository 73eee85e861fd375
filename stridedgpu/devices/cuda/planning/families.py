"""The family of kernels of a relayout, chosen by the unit strides of both sides.

All devices share the families and their names; a device may run several families with the same loops.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from stridedgpu.planning.relayout_problem import Problem

from .policy import policy
from .turned_pixels import turned_pixels_of

__all__ = [
    "Family",
    "choose_family",
    "pixel_axes",
    "unit_axis",
]


class Family(StrEnum):
    """Kinds of relayout, by the contiguity of both sides."""

    EMPTY = "empty"
    FLAT = "flat"
    ROWS = "rows"
    TRANSPOSE = "transpose"
    CHANNELS = "channels"
    PIXELS = "pixels"
    TURNED_PIXELS = "turned_pixels"
    PACKED_TILE = "packed_tile"
    GENERIC = "generic"

    @property
    def description(self) -> str:
        """The family in plain words."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS: Final = {
    Family.EMPTY: "nothing to move: there are no elements",
    Family.FLAT: "one run: both sides are contiguous in the same order",
    Family.ROWS: "rows: the innermost run is contiguous on both sides",
    Family.TRANSPOSE: "tiled transpose: each side is contiguous along another long axis",
    Family.CHANNELS: "small-channel interleave: one side is contiguous along an axis of few elements",
    Family.PIXELS: "whole pixels: both sides have pixels of few elements, one after another in the same order",
    Family.TURNED_PIXELS: "turned pixels: both sides have pixels of few elements, each along another long axis",
    Family.PACKED_TILE: "packed tile: the contiguous runs are short on both sides",
    Family.GENERIC: "element by element in destination order: one side has no contiguous run",
}


def unit_axis(strides: tuple[int, ...]) -> int | None:
    """The axis with stride 1 or -1, or None."""
    return next((axis for axis in reversed(range(len(strides))) if abs(strides[axis]) == 1), None)


def choose_family(problem: Problem) -> Family:
    """The family of a problem, from its sizes and strides alone."""
    sizes, itemsize = problem.sizes, max(problem.source.element.itemsize, problem.target.element.itemsize)
    if 0 in sizes:
        return Family.EMPTY
    if not sizes:
        return Family.FLAT
    target_axis, source_axis = unit_axis(problem.target_strides), unit_axis(problem.source_strides)
    innermost = len(sizes) - 1
    if target_axis is None:
        return Family.GENERIC
    repeats = problem.source_strides[innermost] == 0 and sizes[innermost] > 1
    if target_axis == source_axis or (target_axis == innermost and repeats):
        plain = not problem.conversion.is_per_channel and not problem.filler
        if innermost == 0 and problem.source_strides[0] == 1 and plain:
            return Family.FLAT
        # A row of a few bytes wastes most of a vector on each side, unless it is broadcast from one element.
        if sizes[target_axis] * itemsize < policy().family.short_run_bytes and len(sizes) > 1 and not repeats:
            if _has_whole_pixels(problem):
                return Family.PIXELS
            return Family.PACKED_TILE if turned_pixels_of(problem) is None else Family.TURNED_PIXELS
        return Family.ROWS
    if source_axis is None:
        return Family.GENERIC
    if min(sizes[target_axis], sizes[source_axis]) > policy().family.small_axis:
        return Family.TRANSPOSE
    return Family.CHANNELS if _interleaves(problem) else Family.PACKED_TILE


def pixel_axes(problem: Problem) -> tuple[int, int] | None:
    """The axis inside a pixel and the axis over pixels: one is contiguous in the source, the other in the target.

    None unless the two sides are contiguous along different axes.
    """
    target_axis, source_axis = unit_axis(problem.target_strides), unit_axis(problem.source_strides)
    if target_axis is None or source_axis is None or target_axis == source_axis:
        return None
    return (
        (target_axis, source_axis)
        if problem.sizes[target_axis] <= policy().family.small_axis
        else (source_axis, target_axis)
    )


def _has_whole_pixels(problem: Problem) -> bool:
    """True if both sides have pixels along the two innermost loops, small enough for a thread's registers."""
    inner = len(problem.sizes) - 1
    pixels, used = inner - 1, problem.source_extents[inner]
    itemsize = max(problem.source.element.itemsize, problem.target.element.itemsize)
    if problem.channel_axis == pixels or problem.sizes[pixels] * itemsize < policy().family.short_run_bytes:
        return False
    pitch, count = problem.target_strides[pixels], problem.written_sizes[inner]
    fits = pitch == count <= policy().family.filled_pitch if problem.filler else count <= pitch <= policy().family.pitch
    return fits and used <= abs(problem.source_strides[pixels]) <= policy().family.pitch


def _interleaves(problem: Problem) -> bool:
    """True if one side has whole pixels of a small axis, consecutive along the other side's long run."""
    axes = pixel_axes(problem)
    if axes is None:
        return False
    small, pixels = axes
    joins = abs(problem.target_strides[small]) == 1
    strides, sizes = (
        (problem.target_strides, problem.written_sizes) if joins else (problem.source_strides, problem.sizes)
    )
    # A planar run shorter than a vector needs an access for each element; a tile's accesses span such runs.
    itemsize = max(problem.source.element.itemsize, problem.target.element.itemsize)
    if problem.sizes[pixels] * itemsize < policy().family.short_run_bytes:
        return False
    # The pixels may be padded, unless a vector would be mostly gaps.
    return sizes[small] <= abs(strides[pixels]) <= 2 * max(sizes[small], 4)
