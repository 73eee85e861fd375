"""Rows that begin anywhere in their words: where it pays to shift words into place, and the widths that this gives.

The counterpart of `kernels/relayout/shifted_rows.cu` and of `kernels/relayout/shifted_channels.cu`.
"""

from __future__ import annotations

from typing import Final

from stridedgpu.planning.device_plan import Width
from stridedgpu.planning.relayout_problem import Problem

from .families import Family
from .pixels import pixels_of
from .policy import policy
from .whole_pixels import whole_pixels_of

__all__ = ["shifted_widths"]

_WORD_BYTES: Final = 4
_VECTOR_BYTES: Final = 16
"""What a vector is put together to from words."""


def shifted_widths(
    problem: Problem, family: Family, load: Width, store: Width, widest: int
) -> tuple[Width, Width] | None:
    """The widths with words shifted into place; None where vectors are had without, or runs are short.

    `load` and `store` are the widths without.
    """
    if widest < _VECTOR_BYTES:
        return None
    if family in (Family.CHANNELS, Family.PIXELS):
        return _shifted_pixels(problem, family, load, store, widest)
    if family not in (Family.FLAT, Family.ROWS) or not problem.sizes:
        return None
    inner = len(problem.sizes) - 1
    itemsizes = problem.source.element.itemsize, problem.target.element.itemsize
    is_run = abs(problem.source_strides[inner]) == 1 and problem.channel_axis != inner and not problem.filler
    # Elements that are words need no shifting: what is gained is whole vectors for stores of one element.
    is_narrow = min(load.nbytes, store.nbytes) < _WORD_BYTES or store.nbytes == itemsizes[1] == _WORD_BYTES
    if not is_run or not is_narrow or itemsizes[0] > _WORD_BYTES:
        return None
    if problem.sizes[inner] * itemsizes[1] < policy().family.peeled_run_bytes:
        return None
    narrower = load if load.nbytes < _WORD_BYTES else store
    words = Width(_WORD_BYTES, f"{narrower.limit}: words are loaded, and shifted into place")
    vectors = Width(_VECTOR_BYTES, "vectors are put together from words" if widest > _VECTOR_BYTES else "")
    return words, vectors


def _shifted_pixels(
    problem: Problem, family: Family, load: Width, store: Width, widest: int
) -> tuple[Width, Width] | None:
    """The same of pixels that are taken apart, put together or both: whole vectors of both sides, shifted between."""
    count, pitches, leaves_gaps, chooses = _pixels(problem, family)
    itemsizes = problem.source.element.itemsize, problem.target.element.itemsize
    is_narrow = min(load.nbytes, store.nbytes) <= _WORD_BYTES
    if (
        not is_narrow
        or leaves_gaps
        or chooses
        or max(itemsizes) > _WORD_BYTES
        or max(pitches) > policy().family.permuted_pitch
    ):
        return None
    if count * min(itemsizes) < policy().family.peeled_run_bytes:
        return None
    width = Width(_VECTOR_BYTES, "vectors are put together from words" if widest > _VECTOR_BYTES else "")
    return width, width


def _pixels(problem: Problem, family: Family) -> tuple[int, tuple[int, ...], bool, bool]:
    """Pixels of a row, how far apart they lie, whether they leave gaps, and whether a table says what is read."""
    has_table = problem.conversion.channels is not None
    if family is Family.PIXELS:
        whole = whole_pixels_of(problem)
        pitches = (whole.source.pitch, whole.target.pitch)
        return whole.pixels.size, pitches, whole.leaves_gaps, has_table and whole.small.is_channel
    pixels = pixels_of(problem)
    assert pixels is not None
    chooses = has_table and pixels.small.is_channel and pixels.splits
    return pixels.pixels.size, (pixels.pitch,), pixels.leaves_gaps, chooses
