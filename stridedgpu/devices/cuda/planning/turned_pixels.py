"""Turned pixels: whole pixels that lie along one axis in the source and along another in the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stridedgpu.devices.cuda.launches.tiles import Loop, loops_of
from stridedgpu.planning.relayout_problem import Problem

from .policy import policy

__all__ = ["TurnedPixels", "turned_pixels_of"]

_WORD_BYTES: Final = 4
"""Bytes of a word of shared memory: a thread's pixels are whole words."""


@dataclass(frozen=True, slots=True)
class TurnedPixels:
    """The loops of turned pixels; axes and loops are those of a problem.

    `small` is inside a pixel; consecutive pixels follow each other along `source_run` in the source and along
    `target_run` in the target. A thread turns `length` by `length` pixels, which are whole words on both sides.
    """

    source_axis: int
    target_axis: int
    small: Loop
    source_run: Loop
    target_run: Loop
    length: int


def turned_pixels_of(problem: Problem) -> TurnedPixels | None:
    """The turned pixels of a problem; None if it has none, or pixels with gaps, or channels in any order.

    Constants may be those of a pixel's elements, not of another axis.
    """
    conversion, innermost = problem.conversion, len(problem.sizes) - 1
    small_is_channel = problem.channel_axis in (None, innermost)
    if (
        innermost < 2
        or problem.filler
        or conversion.channels is not None
        or not (small_is_channel or not conversion.is_per_channel)
        or (problem.target_strides[innermost], abs(problem.source_strides[innermost])) != (1, 1)
    ):
        return None
    loops = loops_of(problem)
    small, target_axis = loops[innermost], innermost - 1
    source_axis = next((i for i, loop in enumerate(loops) if abs(loop.source_stride) == small.size), innermost)
    if source_axis >= target_axis or loops[target_axis].target_stride != small.size:
        return None
    source_run, target_run = loops[source_axis], loops[target_axis]
    itemsizes = problem.source.element.itemsize, problem.target.element.itemsize
    if max(itemsizes) > _WORD_BYTES or min(source_run.size, target_run.size) < policy().turned_pixels.fewest:
        return None
    pixel_bytes = [small.size * itemsize for itemsize in itemsizes]
    length = max(_WORD_BYTES // min(nbytes & -nbytes, _WORD_BYTES) for nbytes in pixel_bytes)
    if length * max(pixel_bytes) > policy().turned_pixels.group_bytes:
        return None
    return TurnedPixels(source_axis, target_axis, small, source_run, target_run, length)
