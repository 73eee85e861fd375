"""The bytes of one load or store, and the reason why they are not more.

Unaligned rows have wide accesses if words are funnel-shifted into place: `shifted_widths`, the counterpart of
`kernels/relayout/shifted_rows.cu` and of `kernels/relayout/shifted_channels.cu`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final, Literal

from stridedgpu.devices.cuda.launches.tiles import gaps_are_ours
from stridedgpu.planning.device_plan import Width
from stridedgpu.planning.relayout_problem import Problem
from stridedgpu.values.strides import round_up

from .families import Family, unit_axis
from .packed_tiles import packed_tiles
from .pixels import pixels_of, whole_pixels_of
from .policy import policy
from .turned_pixels import turned_pixels_of

__all__ = ["Bound", "alignment_bound", "bounded_width", "shifted_widths", "stride_bound", "width_of"]

_WORD_BYTES: Final = 4
_VECTOR_BYTES: Final = 16
"""Bytes of a vector that is assembled from funnel-shifted words."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A number of bytes that a vector must divide, and its reason. A cap is the planner's choice, not the data's."""

    nbytes: int
    text: str
    mend: str = ""
    is_cap: bool = False


def width_of(problem: Problem, family: Family, side: Literal["source", "target"], widest: int) -> Width:
    """The largest power of two, up to `widest` bytes, that every access of one side may take.

    It divides the guaranteed alignment of the first element and every stride that the kernel walks. It also divides the
    run if no tail is peeled and the padding belongs to others.
    """
    tensor = problem.target if side == "target" else problem.source
    strides = problem.target_strides if side == "target" else problem.source_strides
    sizes = problem.written_sizes if side == "target" else problem.sizes
    itemsize = tensor.element.itemsize
    unit = unit_axis(strides)
    alone = _moved_one_by_one(problem, family, side, unit)
    if alone is not None or unit is None:
        return Width(min(itemsize, widest), alone if alone and itemsize < widest else "")
    alignment = problem.target.alignment if side == "target" else problem.source_alignment
    bounds = [alignment_bound(side, alignment)]
    if family is Family.PACKED_TILE:
        return bounded_width([*bounds, *_packed_bounds(problem, side, widest)], itemsize, widest)
    run = [unit]
    if family is Family.TURNED_PIXELS:
        turned = turned_pixels_of(problem)
        assert turned is not None
        run = [unit, turned.source_axis if side == "source" else turned.target_axis]
    if family is Family.CHANNELS:
        run, more = _channels_run(problem, side)
        bounds += more
    if family is Family.PIXELS:
        run = [len(sizes) - 1, len(sizes) - 2]
    if family in (Family.CHANNELS, Family.PIXELS):
        cap = policy().pixels.widest_bytes
        bounds.append(Bound(cap, f"vectors of pixels above {cap} B cost resident blocks", is_cap=True))
    if family is Family.TRANSPOSE:
        cap = policy().transpose.widest_bytes
        bounds.append(Bound(cap, f"vectors of tiles above {cap} B cost resident blocks", is_cap=True))
    run_bytes = sizes[run[-1]] * abs(strides[run[-1]]) * itemsize
    if family in (Family.CHANNELS, Family.PIXELS, Family.TURNED_PIXELS, Family.TRANSPOSE):
        bounds.append(_length_bound(side, run_bytes))
    for axis, stride in enumerate(strides):
        if axis not in run and stride != 0:
            bounds.append(stride_bound(side, abs(stride) * itemsize, widest))
    tails_are_free = side == "target" and problem.target.owns_padding
    peels = (
        family in (Family.FLAT, Family.TRANSPOSE, Family.TURNED_PIXELS) or run_bytes >= policy().family.peeled_run_bytes
    )
    if side == "target" and not tails_are_free and not peels:
        bounds.append(_whole_run(run_bytes))
    if family is Family.GENERIC:
        elements = policy().family.generic_elements
        bounds.append(Bound(elements * itemsize, f"{elements} elements of {itemsize} B are gathered for a store"))
    runs_back = problem.source_strides[run[-1]] < 0
    if family is Family.PIXELS and runs_back:
        # Pixels are reversed in whole vectors.
        bounds.append(Bound(run_bytes, f"a row of the {side}'s pixels is {run_bytes} B long and runs backwards"))
    if family is Family.ROWS and side == "source" and runs_back:
        # Whole vectors; the first one ends at the end of the run in memory.
        bounds.append(Bound(run_bytes, f"a run of the source is {run_bytes} B long and is read backwards"))
    return bounded_width(bounds, itemsize, widest)


def _channels_run(problem: Problem, side: str) -> tuple[list[int], list[Bound]]:
    """The axes inside a row of pixels or of a plane, innermost first, and further bounds of vectors of pixels."""
    pixels = pixels_of(problem)
    assert pixels is not None
    if pixels.splits == (side == "source"):
        return [pixels.small_axis, pixels.pixel_axis], []
    pixel_bytes = pixels.pitch * pixels.interleaved_itemsize
    bounds = [Bound(pixels.most_planar_bytes, f"a thread holds {pixels.group_bytes} B of pixels of {pixel_bytes} B")]
    if problem.source_strides[pixels.pixel_axis] < 0:
        # Pixels are reversed in whole vectors.
        run_bytes = pixels.pixels.size * pixels.planar_itemsize
        bounds.append(Bound(run_bytes, f"a row of the {side}'s pixels is {run_bytes} B long and runs backwards"))
    return [pixels.pixel_axis], bounds


def _packed_bounds(problem: Problem, side: str, widest: int) -> Iterator[Bound]:
    """The bounds of the best tile's vectors; other tiles are chosen only if they allow the same widths."""
    tile = next(packed_tiles(problem))
    if side == "source":
        steps, itemsize = tile.source_steps(), problem.source.element.itemsize
        run_bytes = tile.chunk_length * itemsize
    else:
        fills_gaps = not problem.filler and gaps_are_ours(problem, 1)
        steps, itemsize = tile.target_steps(fills_gaps=fills_gaps), problem.target.element.itemsize
        run_bytes = tile.row_length * itemsize
        if not fills_gaps and run_bytes < policy().family.peeled_run_bytes:
            yield _whole_run(run_bytes)
    yield _length_bound(side, run_bytes)
    for step in steps:
        nbytes = abs(step.elements) * itemsize
        if nbytes:
            yield Bound(nbytes, step.text.format(nbytes)) if step.text else stride_bound(side, nbytes, widest)


def _length_bound(side: str, run_bytes: int) -> Bound:
    """The bound of a run shorter than a vector: no byte past its end is read or written."""
    return Bound(1 << (run_bytes.bit_length() - 1), f"a run of the {side} is {run_bytes} B long")


def _whole_run(nbytes: int) -> Bound:
    """The bound of a target run that is written in whole vectors, and no byte past its end."""
    return Bound(nbytes, f"a run of the target is {nbytes} B long and what follows is not ours")


def _moved_one_by_one(
    problem: Problem, family: Family, side: Literal["source", "target"], unit: int | None
) -> str | None:
    """The reason why one side's elements move one at a time ("" if there are none); None if vectors are possible."""
    innermost = len(problem.sizes) - 1
    if family is Family.EMPTY:
        return ""
    if unit is None or (family is Family.GENERIC and side == "source"):
        return f"the {side} has no contiguous run that the kernel could walk"
    if family is Family.GENERIC and problem.channel_axis == innermost:
        return "neighbours in the target belong to different channels"
    if side == "target" and _leaves_gaps(problem, family):
        return "the gaps between the target's pixels are not ours"
    if family is Family.ROWS and side == "source" and problem.source_strides[innermost] == 0:
        return "one element of the source is repeated along each run"
    if family is Family.ROWS and side == "source" and problem.channel_axis == innermost and problem.conversion.channels:
        return "the runs of the source are picked through a table of channels"
    return None


def _leaves_gaps(problem: Problem, family: Family) -> bool:
    """True if the target's pixels have gaps that may not be written."""
    pixels = pixels_of(problem) if family is Family.CHANNELS else None
    if family is Family.PIXELS:
        return whole_pixels_of(problem).leaves_gaps
    return pixels is not None and pixels.leaves_gaps


def bounded_width(bounds: Sequence[Bound], itemsize: int, widest: int) -> Width:
    """The largest power of two from an element up to `widest` bytes that divides every bound, and its limit.

    >>> bounded_width([Bound(32, "aligned to 32"), Bound(24, "runs start 24 B apart")], 2, 16)
    Width(nbytes=8, limit='runs start 24 B apart, a multiple of 8 only')
    """
    tightest = min(bounds, key=lambda bound: bound.nbytes & -bound.nbytes)
    nbytes = max(itemsize, min(widest, gcd(widest, *(bound.nbytes for bound in bounds))))
    if nbytes >= widest:
        return Width(nbytes)
    multiple = "" if tightest.is_cap else f", a multiple of {nbytes} only"
    return Width(nbytes, f"{tightest.text}{multiple}{tightest.mend}")


def alignment_bound(side: str, alignment: int) -> Bound:
    """The bound of the first element's address."""
    return Bound(alignment, f"the {side}'s first element is known to lie at a multiple of {alignment} B")


def stride_bound(side: str, stride: int, widest: int) -> Bound:
    """The bound of the step from one run to the next."""
    return Bound(
        stride, f"the {side}'s runs start {stride} B apart", f"; pad that to {round_up(stride, widest)} for {widest}"
    )


def shifted_widths(
    problem: Problem, family: Family, load: Width, store: Width, widest: int
) -> tuple[Width, Width] | None:
    """The widths with funnel-shifted words; None if vectors are possible without shifts, or runs are short.

    `load` and `store` are the widths without shifts.
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
    # Elements that are words need no shifts; the gain is whole vectors instead of stores of one element.
    is_narrow = min(load.nbytes, store.nbytes) < _WORD_BYTES or store.nbytes == itemsizes[1] == _WORD_BYTES
    if not is_run or not is_narrow or itemsizes[0] > _WORD_BYTES:
        return None
    if problem.sizes[inner] * itemsizes[1] < policy().rows.least_shifted_bytes:
        return None
    narrower = load if load.nbytes < _WORD_BYTES else store
    words = Width(_WORD_BYTES, f"{narrower.limit}: words are loaded, and shifted into place")
    vectors = Width(_VECTOR_BYTES, "vectors are put together from words" if widest > _VECTOR_BYTES else "")
    return words, vectors


def _shifted_pixels(
    problem: Problem, family: Family, load: Width, store: Width, widest: int
) -> tuple[Width, Width] | None:
    """`shifted_widths` of pixels that are split, joined or both: whole vectors on both sides, with shifts between."""
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
    """The pixels of a row, their pitches, whether they leave gaps, and whether a channel table selects the source."""
    has_table = problem.conversion.channels is not None
    if family is Family.PIXELS:
        whole = whole_pixels_of(problem)
        pitches = (whole.source.pitch, whole.target.pitch)
        return whole.pixels.size, pitches, whole.leaves_gaps, has_table and whole.small.is_channel
    pixels = pixels_of(problem)
    assert pixels is not None
    chooses = has_table and pixels.small.is_channel and pixels.splits
    return pixels.pixels.size, (pixels.pitch,), pixels.leaves_gaps, chooses
