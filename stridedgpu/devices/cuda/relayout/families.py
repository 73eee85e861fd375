"""The planner of relayouts: the family of kernels, its access widths, and the launch of every family.

The family follows from the unit strides of both sides. Rows that are not aligned to vectors have wide accesses if words
are funnel-shifted into place: `_shifted_widths`, the counterpart of `shifted_rows.cu` and `shifted_channels.cu`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from types import MappingProxyType
from typing import Final, Literal

from stridedgpu.devices.cuda.choice import Bound, alignment_bound, bounded_width, check_alignment, stride_bound
from stridedgpu.devices.cuda.gpu import GpuProperties, KernelLaunch
from stridedgpu.devices.cuda.policy import policy
from stridedgpu.problems.device_plan import Width, index_bits
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.strides import power_of_two

from .choice import Family, RelayoutChoice, itemsizes_of, owns_gaps, pixel_axes, unit_axis
from .packed_tile import packed_tile_launch, packed_tiles
from .pixels import Pixels, channels_launch, pixels_launch, pixels_of, shifted_channels_launch, whole_pixels_of
from .rows import flat_launch, generic_launch, rows_launch, shifted_rows_launch
from .transpose import transpose_launch, turned_pixels_launch, turned_pixels_of


def choose_family(problem: RelayoutProblem) -> Family:
    """The family of a problem, from its sizes and strides alone."""
    sizes, itemsize = problem.sizes, max(itemsizes_of(problem))
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


def _has_whole_pixels(problem: RelayoutProblem) -> bool:
    """True if both sides have pixels along the two innermost loops, small enough for a thread's registers."""
    inner = len(problem.sizes) - 1
    pixels, used = inner - 1, problem.source_extents[inner]
    itemsize = max(itemsizes_of(problem))
    if problem.channel_axis == pixels or problem.sizes[pixels] * itemsize < policy().family.short_run_bytes:
        return False
    pitch, count = problem.target_strides[pixels], problem.written_sizes[inner]
    fits = pitch == count <= policy().family.filled_pitch if problem.filler else count <= pitch <= policy().family.pitch
    return fits and used <= abs(problem.source_strides[pixels]) <= policy().family.pitch


def _interleaves(problem: RelayoutProblem) -> bool:
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
    itemsize = max(itemsizes_of(problem))
    if problem.sizes[pixels] * itemsize < policy().family.short_run_bytes:
        return False
    # The pixels may be padded, unless a vector would be mostly gaps.
    return sizes[small] <= abs(strides[pixels]) <= 2 * max(sizes[small], 4)


_OF_PIXELS: Final = (Family.CHANNELS, Family.PIXELS)

_WORD_BYTES: Final = 4

_VECTOR_BYTES: Final = 16
"""Bytes of a vector that is assembled from funnel-shifted words."""


def width_of(problem: RelayoutProblem, family: Family, side: Literal["source", "target"], widest: int) -> Width:
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
    if family in _OF_PIXELS:
        cap = policy().pixels.widest_bytes
        bounds.append(Bound(cap, f"vectors of pixels above {cap} B cost resident blocks", is_cap=True))
    if family is Family.TRANSPOSE:
        cap = policy().transpose.widest_bytes
        bounds.append(Bound(cap, f"vectors of tiles above {cap} B cost resident blocks", is_cap=True))
    run_bytes = sizes[run[-1]] * abs(strides[run[-1]]) * itemsize
    if family in (*_OF_PIXELS, Family.TURNED_PIXELS, Family.TRANSPOSE):
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


def _channels_run(problem: RelayoutProblem, side: str) -> tuple[list[int], list[Bound]]:
    """The axes inside a row of pixels or of a plane, innermost first, and further bounds of vectors of pixels."""
    shape = _pixels(problem, Family.CHANNELS)
    if shape.splits == (side == "source"):
        return list(shape.axes), []
    pixel_bytes = prod(shape.interleaved)
    bounds = [Bound(shape.most_planar_bytes, f"a thread holds {shape.group_bytes} B of pixels of {pixel_bytes} B")]
    if shape.pixels.source_stride < 0:
        # Pixels are reversed in whole vectors.
        run_bytes = shape.pixels.size * shape.planar_itemsize
        bounds.append(Bound(run_bytes, f"a row of the {side}'s pixels is {run_bytes} B long and runs backwards"))
    return [shape.axes[1]], bounds


def _packed_bounds(problem: RelayoutProblem, side: str, widest: int) -> Iterator[Bound]:
    """The bounds of the best tile's vectors; other tiles are chosen only if they allow the same widths."""
    tile = next(packed_tiles(problem))
    if side == "source":
        steps, itemsize = tile.source_steps(), problem.source.element.itemsize
        run_bytes = tile.chunk_length * itemsize
    else:
        fills_gaps = not problem.filler and owns_gaps(problem, 1)
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
    return Bound(power_of_two(run_bytes), f"a run of the {side} is {run_bytes} B long")


def _whole_run(nbytes: int) -> Bound:
    """The bound of a target run that is written in whole vectors, and no byte past its end."""
    return Bound(nbytes, f"a run of the target is {nbytes} B long, and the target does not own what follows")


def _moved_one_by_one(
    problem: RelayoutProblem, family: Family, side: Literal["source", "target"], unit: int | None
) -> str | None:
    """The reason why one side's elements move one at a time ("" if there are none); None if vectors are possible."""
    innermost = len(problem.sizes) - 1
    if family is Family.EMPTY:
        return ""
    if unit is None or (family is Family.GENERIC and side == "source"):
        return f"the {side} has no contiguous run that the kernel could walk"
    if family is Family.GENERIC and problem.channel_axis == innermost:
        return "neighbours in the target belong to different channels"
    if side == "target" and family in _OF_PIXELS and _pixels(problem, family).leaves_gaps:
        return "the target does not own the gaps between its pixels"
    if family is Family.ROWS and side == "source" and problem.source_strides[innermost] == 0:
        return "one element of the source is repeated along each run"
    if family is Family.ROWS and side == "source" and problem.channel_axis == innermost and problem.conversion.channels:
        return "the runs of the source are picked through a table of channels"
    return None


def _pixels(problem: RelayoutProblem, family: Family) -> Pixels:
    """The pixels of a problem of the family CHANNELS or PIXELS."""
    shape = whole_pixels_of(problem) if family is Family.PIXELS else pixels_of(problem)
    assert shape is not None
    return shape


def shifted_widths(
    problem: RelayoutProblem, family: Family, load: Width, store: Width, widest: int
) -> tuple[Width, Width] | None:
    """The widths with funnel-shifted words; None if vectors are possible without shifts, or runs are short.

    `load` and `store` are the widths without shifts.
    """
    if widest < _VECTOR_BYTES:
        return None
    if family in _OF_PIXELS:
        return _shifted_pixels(problem, family, load, store, widest)
    if family not in (Family.FLAT, Family.ROWS) or not problem.sizes:
        return None
    inner = len(problem.sizes) - 1
    itemsizes = itemsizes_of(problem)
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
    problem: RelayoutProblem, family: Family, load: Width, store: Width, widest: int
) -> tuple[Width, Width] | None:
    """`shifted_widths` of pixels that are split, joined or both: whole vectors on both sides, with shifts between."""
    shape, limits = _pixels(problem, family), policy().family
    if (
        min(load.nbytes, store.nbytes) > _WORD_BYTES
        or shape.leaves_gaps
        or shape.chooses
        or max(shape.itemsizes) > _WORD_BYTES
        or max(shape.pitches) > limits.permuted_pitch
        or shape.pixels.size * min(shape.itemsizes) < limits.peeled_run_bytes
    ):
        return None
    width = Width(_VECTOR_BYTES, "vectors are put together from words" if widest > _VECTOR_BYTES else "")
    return width, width


def choose_relayout(problem: RelayoutProblem, widest: int = 16) -> RelayoutChoice:
    """The kernel for a problem; `widest` is the largest access of the device, in bytes."""
    family = _kernel_family(problem, choose_family(problem))
    reach = max(
        problem.written_count,
        _reach(problem.written_sizes, problem.target_strides),
        _reach(problem.source_extents, problem.source_strides),
    )
    load, store = width_of(problem, family, "source", widest), width_of(problem, family, "target", widest)
    shifted = shifted_widths(problem, family, load, store, widest)
    return RelayoutChoice(problem, *(shifted or (load, store)), index_bits(reach), family, shifted is not None)


def _reach(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The largest distance, in elements, from the element visited first."""
    return sum((size - 1) * abs(stride) for size, stride in zip(sizes, strides, strict=True) if size)


def _kernel_family(problem: RelayoutProblem, family: Family) -> Family:
    """The family whose kernel runs a problem of `family`.

    Packed tiles move pixels that exceed a thread's registers, and a transpose with a channel table along the source's
    run. The generic kernel moves problems whose channel table does not fit a tile.
    """
    if family is Family.CHANNELS:
        pixels = pixels_of(problem)
        if pixels is not None and pixels.fit_registers:
            return Family.CHANNELS
        family = Family.PACKED_TILE
    if family is Family.TRANSPOSE and problem.conversion.channels is not None:
        family = Family.PACKED_TILE if problem.channel_axis == unit_axis(problem.source_strides) else family
    if family is Family.PACKED_TILE and next(packed_tiles(problem), None) is None:
        return Family.GENERIC
    return family


_Launches = Mapping[Family, Callable[[RelayoutChoice, GpuProperties], KernelLaunch]]

_LAUNCHES: Final[_Launches] = MappingProxyType(
    {
        Family.FLAT: flat_launch,
        Family.ROWS: rows_launch,
        Family.TRANSPOSE: transpose_launch,
        Family.CHANNELS: channels_launch,
        Family.PIXELS: pixels_launch,
        Family.TURNED_PIXELS: turned_pixels_launch,
        Family.PACKED_TILE: packed_tile_launch,
        Family.GENERIC: generic_launch,
    }
)

_SHIFTED: Final[_Launches] = MappingProxyType(
    {
        Family.FLAT: shifted_rows_launch,
        Family.ROWS: shifted_rows_launch,
        Family.CHANNELS: shifted_channels_launch,
        Family.PIXELS: shifted_channels_launch,
    }
)
"""The launches of funnel-shifted plans."""


def relayout_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The kernel, grid and parameters of `plan` on `gpu`.

    Raises `LayoutError` for a plan without elements, which has no launch, and for a side whose elements are not at
    multiples of their own size, which a GPU cannot address.
    """
    if plan.family is Family.EMPTY:
        raise LayoutError(f"A plan over sizes {plan.problem.sizes} has no elements; there is nothing to launch.")
    check_alignment("source", plan.problem.source.element, plan.problem.source_alignment)
    check_alignment("target", plan.problem.target.element, plan.problem.target.alignment)
    return (_SHIFTED if plan.shifts else _LAUNCHES)[plan.family](plan, gpu)
