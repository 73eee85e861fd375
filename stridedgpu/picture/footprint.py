"""`Footprint`: what one warp or one tile of a plan reads and writes, for pictures of plans.

Families that follow runs are shown by one step of a warp: 32 lanes, one vector each. Tiles of a transpose, and packed
ones, are shown whole, as a block moves them through shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Final

from stridedgpu.devices.cuda.launches.transpose import tile_extents
from stridedgpu.devices.cuda.planning.families import Family, unit_axis
from stridedgpu.devices.cuda.planning.packed_tiles import packed_tiles
from stridedgpu.devices.cuda.planning.relayout import Plan
from stridedgpu.devices.cuda.planning.whole_pixels import whole_pixels_of
from stridedgpu.values.layout import Layout

from .cells import place_at

__all__ = ["Footprint", "PlanMap", "footprint_of"]

_LANES: Final = 32


@dataclass(frozen=True)
class Footprint:
    """A box of a plan's loops, from their start: `extents` of each loop, and in words who moves it."""

    extents: tuple[int, ...]
    words: str


class PlanMap:
    """Which source element each target element comes from, in offsets from either side's lowest element."""

    def __init__(self, plan: Plan) -> None:
        """Of one plan."""
        self._problem = plan.problem
        self._target = Layout(plan.problem.sizes, plan.problem.target_strides)
        self._footprint = footprint_of(plan)

    def source_of(self, target_offset: int) -> int | None:
        """The offset in the source of what goes to an offset of the target; None where nothing goes."""
        at = place_at(self._target, target_offset).coordinates
        return None if at is None else self._source_offset(at)

    def is_written(self, target_offset: int) -> bool:
        """Whether the footprint writes this place."""
        at = place_at(self._target, target_offset).coordinates
        return at is not None and all(x < n for x, n in zip(at, self._footprint.extents, strict=True))

    @cached_property
    def read(self) -> frozenset[int]:
        """The offsets that the footprint reads."""
        return frozenset(self._source_offset(at) for at in product(*map(range, self._footprint.extents)))

    def _source_offset(self, at: tuple[int, ...]) -> int:
        problem = self._problem
        channels = problem.conversion.channels
        steps = list(at)
        if problem.channel_axis is not None and channels is not None:
            steps[problem.channel_axis] = channels[at[problem.channel_axis]]
        return problem.source_offset + sum(x * s for x, s in zip(steps, problem.source_strides, strict=True))


def footprint_of(plan: Plan) -> Footprint:
    """The box of loops that one warp, or one tile, moves at a time.

    >>> from stridedgpu.api.relayout import plan_relayout
    >>> from stridedgpu.values.descriptor import BufferTensorDesc
    >>> pixels = BufferTensorDesc("uint8", (1, 3, 64, 64), (12288, 1, 192, 3))
    >>> footprint_of(plan_relayout(pixels, BufferTensorDesc("uint8", (1, 3, 64, 64))).plan).extents
    (3, 512)
    """
    problem = plan.problem
    sizes = problem.sizes
    if plan.family is Family.EMPTY:
        return Footprint(sizes, "nothing is moved")
    itemsizes = (problem.source.element.itemsize, problem.target.element.itemsize)
    length = max(plan.load.nbytes // itemsizes[0], plan.store.nbytes // itemsizes[1], 1)
    ours, theirs = unit_axis(problem.target_strides), unit_axis(problem.source_strides)
    accesses = f"loads of {plan.load.nbytes} B and stores of {plan.store.nbytes} B"
    if plan.family is Family.TRANSPOSE and ours is not None and theirs is not None:
        along, across = tile_extents(*itemsizes, small=False)
        wanted = {theirs: along, ours: across}
        extents = tuple(min(size, wanted.get(axis, 1)) for axis, size in enumerate(sizes))
        return Footprint(extents, f"one tile of {extents[theirs]} x {extents[ours]} elements, in {accesses}")
    if plan.family is Family.CHANNELS and ours is not None and theirs is not None:
        small, pixels = sorted((ours, theirs), key=lambda axis: sizes[axis])
        wanted = {small: sizes[small], pixels: _LANES * length}
        extents = tuple(min(size, wanted.get(axis, 1)) for axis, size in enumerate(sizes))
        return Footprint(extents, f"one warp: {extents[pixels]} pixels of {extents[small]} elements, in {accesses}")
    if plan.family is Family.PIXELS:
        extents = (*(1 for _ in sizes[:-2]), min(sizes[-2], _LANES * whole_pixels_of(problem).source.length), sizes[-1])
        return Footprint(extents, f"one warp: {extents[-2]} pixels of {extents[-1]} elements, in {accesses}")
    if plan.family is Family.PACKED_TILE:
        extents = next(packed_tiles(problem)).extents
        return Footprint(extents, f"one tile of {' x '.join(map(str, extents))} elements, in {accesses}")
    extents = _innermost_first(sizes, _LANES * length)
    return Footprint(extents, f"one step of a warp: {prod(extents)} elements, in {accesses}")


def _innermost_first(sizes: tuple[int, ...], most: int) -> tuple[int, ...]:
    """A box of at most so many elements that fills the inner loops before the outer ones."""
    extents: list[int] = []
    for size in reversed(sizes):
        extents.insert(0, max(1, min(size, most)))
        most //= max(1, size)
    return tuple(extents)
