"""Pixels of few channels: their axes, and how many of them fit a thread's registers.

`Pixels` are interleaved on one side and planar on the other; `WholePixels` are interleaved on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.devices.cuda.launches.tiles import Loop, gaps_are_ours, last_gap_is_there, loops_of
from stridedgpu.planning.relayout_problem import Problem

from .families import pixel_axes
from .policy import policy

__all__ = ["PixelGroup", "Pixels", "WholePixels", "pixels_of", "whole_pixels_of"]


@dataclass(frozen=True, slots=True)
class PixelGroup:
    """The pixels that one thread moves at once: `length` of them, `pitch` elements each, and their shared memory."""

    length: int
    pitch: int
    itemsize: int

    @property
    def shared_bytes(self) -> int:
        """Bytes with the padding that keeps groups an odd number of units apart: `PixelGroup` in pixel_groups.cuh."""
        nbytes = self.length * self.pitch * self.itemsize
        unit = min(self.length * self.itemsize, 16)
        return nbytes + (unit if unit >= 4 and nbytes // unit % 2 == 0 else 0)


@dataclass(frozen=True, slots=True)
class Pixels:
    """A problem's pixels, `pitch` elements apart on one side and planar on the other.

    With `splits`, the source has the pixels. `used` elements of each are moved. With `fills`, the gaps between a
    target's pixels are written too, and so are the first `last` elements of a row's last pixel. `filler` is the number
    of zeros that may follow a run of the target.
    """

    small_axis: int
    pixel_axis: int
    small: Loop
    pixels: Loop
    splits: bool
    pitch: int
    used: int
    fills: bool
    last: int
    filler: int
    interleaved_itemsize: int
    planar_itemsize: int
    compute_itemsize: int

    @property
    def fit_registers(self) -> bool:
        """True if whole pixels, padding included, and the constants of all channels fit a thread's registers."""
        filled = not self.filler or (not self.splits and self.pitch == self.small.size + self.filler)
        most = policy().family.filled_pitch if self.filler else policy().family.pitch
        return self.pitch <= most and self.small.size <= policy().family.pitch and not self.pixels.is_channel and filled

    @property
    def leaves_gaps(self) -> bool:
        """True if the target's pixels have gaps that may not be written."""
        return not self.splits and self.used < self.pitch and not self.fills

    @property
    def group_bytes(self) -> int:
        """The bytes of pixels that a thread may hold."""
        return policy().pixels.split_bytes if self.pitch <= policy().family.pitch else policy().pixels.filled_bytes

    @property
    def most_planar_bytes(self) -> int:
        """Bytes of the widest vector of a plane for which all its pixels, whole, fit a thread's registers.

        While pixels are joined, the vectors of their planes occupy registers, too.
        """
        pixel_bytes = self.pitch * self.interleaved_itemsize
        length = max(1, self.group_bytes // pixel_bytes)
        if not self.splits:
            room = policy().pixels.joined_bytes[self.compute_itemsize]
            length = min(length, max(1, room // (pixel_bytes + self.small.size * self.planar_itemsize)))
        return (1 << (length.bit_length() - 1)) * self.planar_itemsize


def pixels_of(problem: Problem) -> Pixels | None:
    """The pixels of a problem of the family CHANNELS, or None."""
    axes = pixel_axes(problem)
    if axes is None:
        return None
    splits = problem.target_strides[axes[0]] != 1
    loops = loops_of(problem)
    small, pixels = (loops[axis] for axis in axes)
    pitch = abs(pixels.source_stride if splits else pixels.target_stride)
    itemsizes = (problem.source.element.itemsize, problem.target.element.itemsize)
    channels = problem.conversion.channels if splits and small.is_channel else None
    used = small.size if channels is None else max(channels) + 1
    fills = not splits and pitch > used and (problem.filler > 0 or gaps_are_ours(problem, pitch))
    last = pitch if problem.filler or (fills and last_gap_is_there(problem, pitch)) else used
    return Pixels(
        *axes,
        small,
        pixels,
        splits,
        pitch,
        used,
        fills,
        last,
        problem.filler,
        *(itemsizes if splits else itemsizes[::-1]),
        problem.conversion.compute.itemsize,
    )


@dataclass(frozen=True, slots=True)
class WholePixels:
    """A problem's pixels: the innermost loop is inside a pixel, the next one is over the pixels.

    With `fills`, the gaps between the target's pixels are written too, and so are the first `last` elements of a row's
    last pixel. The first `used` elements of each source pixel are read.
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
        """True if the target's pixels have gaps that may not be written."""
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
        # Pixels are reversed in whole groups.
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
