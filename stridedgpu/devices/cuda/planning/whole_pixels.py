"""Pixels that both sides have one after another: how far apart they lie, and how many of them a thread holds."""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.devices.cuda.launches.tiles import Loop, gaps_are_ours, last_gap_is_there, loops_of
from stridedgpu.planning.relayout_problem import Problem

from .pixels import PixelGroup
from .policy import policy

__all__ = ["WholePixels", "whole_pixels_of"]


@dataclass(frozen=True, slots=True)
class WholePixels:
    """A problem's pixels: the loop inside them, which is the innermost, and the loop over them, which is the next one.

    With `fills`, the gaps between the target's pixels are written too, and so are the first `last` elements of a row's
    last pixel; of the source's pixels, the first `used` elements are read.
    """

    small: Loop
    pixels: Loop
    used: int
    fills: bool
    last: int
    source: PixelGroup
    target: PixelGroup

    @property
    def leaves_gaps(self) -> bool:
        """Whether the target's pixels have gaps between them that may not be written."""
        return self.small.size < self.target.pitch and not self.fills


def whole_pixels_of(problem: Problem) -> WholePixels:
    """The pixels of a problem of the family PIXELS."""
    *_, pixels, small = loops_of(problem)
    pitches = (abs(pixels.source_stride), pixels.target_stride)
    itemsizes = (problem.source.element.itemsize, problem.target.element.itemsize)
    pixel_bytes = sum(pitch * itemsize for pitch, itemsize in zip(pitches, itemsizes, strict=True))
    limits = policy().pixels
    most = min(limits.whole_pixels, limits.plane_bytes // max(itemsizes), max(1, limits.whole_bytes // pixel_bytes))
    length = 1 << (most.bit_length() - 1)
    if pixels.source_stride < 0:
        # Pixels are turned around whole groups at a time.
        length = min(length, pixels.size & -pixels.size)
    pitch = pitches[1]
    fills = pitch > small.size and (problem.filler > 0 or gaps_are_ours(problem, pitch))
    return WholePixels(
        small,
        pixels,
        problem.source_extents[-1],
        fills,
        pitch if problem.filler or (fills and last_gap_is_there(problem, pitch)) else small.size,
        *(PixelGroup(length, each, itemsize) for each, itemsize in zip(pitches, itemsizes, strict=True)),
    )
