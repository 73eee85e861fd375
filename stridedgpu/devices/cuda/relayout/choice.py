"""`RelayoutChoice`, and what the families of kernels share: loops, tiles as boxes of loops, gaps of the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from stridedgpu.devices.cuda.gpu import GpuProperties, axes_words, rank_of
from stridedgpu.devices.cuda.policy import policy
from stridedgpu.planning.device_plan import Width, in_words
from stridedgpu.planning.relayout_problem import RelayoutProblem
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.strides import round_up


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


def pixel_axes(problem: RelayoutProblem) -> tuple[int, int] | None:
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


@dataclass(frozen=True, slots=True)
class RelayoutChoice:
    """The loops, the family of kernels that walks them, and the access widths.

    `load` and `store` are the widths of one access on each side, in bytes, with their limits. `index_bits` is 32 or 64.
    With `shifts`, rows may begin inside a word, and words are funnel-shifted into place.
    """

    problem: RelayoutProblem
    family: Family
    load: Width
    store: Width
    index_bits: int
    shifts: bool = False

    @property
    def kernel(self) -> str:
        """The kernel's name: family, then type and bytes of a load and of a store."""
        source, target = self.problem.source.element, self.problem.target.element
        return f"{self.family}_{source}x{self.load.nbytes}B_{target}x{self.store.nbytes}B"

    def in_words(self) -> list[str]:
        """The kernel in lines, as plans explain it: family, access widths and their limits."""
        return [
            self.family.description,
            *self.problem.in_words(),
            in_words("loads", self.load) + "; " + in_words("stores", self.store),
            *(["rows begin anywhere in their vectors: words are shifted into place"] if self.shifts else []),
            f"{self.index_bits}-bit indices",
        ]


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop: its size, its strides in elements on both sides, and whether it is the channel axis."""

    size: int
    source_stride: int
    target_stride: int
    is_channel: bool = False


def loops_of(problem: RelayoutProblem) -> list[Loop]:
    """The loops of a problem, outermost first."""
    axes = zip(problem.sizes, problem.source_strides, problem.target_strides, strict=True)
    return [Loop(*entry, axis == problem.channel_axis) for axis, entry in enumerate(axes)]


def reversed_loop(loop: Loop, source_start: int, target_start: int) -> tuple[Loop, int, int]:
    """A loop in reverse, with both starts moved to its other end."""
    steps = loop.size - 1
    back = replace(loop, source_stride=-loop.source_stride, target_stride=-loop.target_stride)
    return back, source_start + steps * loop.source_stride, target_start + steps * loop.target_stride


def reversed_channels(conversion: Conversion) -> Conversion:
    """A conversion with its channels in reverse order."""
    return replace(
        conversion,
        scale=conversion.scale and conversion.scale[::-1],
        bias=conversion.bias and conversion.bias[::-1],
    )


def gaps_are_ours(problem: RelayoutProblem, cell: int) -> bool:
    """True if the target owns its padding and no other loop writes into these gaps.

    The gaps are those inside each `cell` elements of the target, and after all cells but the last.
    """
    reach = 0
    for size, stride in zip(reversed(problem.sizes), reversed(problem.target_strides), strict=True):
        if stride <= reach:
            return False
        reach = max(reach + (size - 1) * stride, cell - 1 if stride < cell else 0)
    return problem.target.owns_padding


def last_gap_is_there(problem: RelayoutProblem, cell: int) -> bool:
    """Whether the target's buffer continues to the end of the last `cell` elements."""
    loops = zip(problem.sizes, problem.target_strides, strict=True)
    inner = sum((size - 1) * stride for size, stride in loops if stride < cell) + 1
    return problem.target.slack_bytes >= max(0, cell - inner) * problem.target.element.itemsize


def outer_words(loops: Sequence[Loop], index_bits: int) -> tuple[int, bytes]:
    """The rank and the bytes of the `sg::Axes` of the loops, padded by loops of size 1 to an instantiated rank."""
    rank = rank_of(len(loops))
    padded = [Loop(1, 0, 0)] * (rank - len(loops)) + list(loops)
    sizes, sources, targets = zip(
        *((loop.size, loop.source_stride, loop.target_stride) for loop in padded), strict=True
    )
    return rank, axes_words(sizes, sources, targets, index_bits)


def pixel_tile(
    length: int,
    shared_bytes: int,
    pixels: int,
    rows: int,
    batch: int,
    whole: int,
    gpu: GpuProperties,
    usual_bytes: int | None = None,
) -> tuple[int, int]:
    """Groups of a row and rows of a tile, for rows of `pixels` in groups of `length`, one thread a group.

    A group takes `shared_bytes` of shared memory. A block should use `usual_bytes` of it, by default the policy's.
    `whole` groups fill whole vectors of the interleaved side.
    """
    chosen = policy().pixels
    wanted = (chosen.shared_bytes if usual_bytes is None else usual_bytes) // shared_bytes
    most = chosen.most_shared_bytes // shared_bytes
    fewest, usual, largest = chosen.groups
    groups = min(max(wanted, usual), largest, most)
    needed = -(-pixels // length)
    while True:
        row_groups = round_up(min(needed, max(groups // whole, 1) * whole), whole)
        # Tiles of equal size avoid a sliver as the last one.
        row_groups = round_up(-(-needed // -(-needed // row_groups)), whole)
        tile_rows = min(rows, max(1, groups // row_groups))
        tiles = -(-needed // row_groups) * -(-rows // tile_rows) * batch
        if tiles >= gpu.multiprocessors or groups <= fewest:
            return row_groups, tile_rows
        groups //= 2


def tile_box(problem: RelayoutProblem, extents: Mapping[int, int]) -> tuple[int, ...]:
    """A tile as an extent along each loop: the given axes, and 1 along the others."""
    return tuple(min(size, extents.get(axis, 1)) for axis, size in enumerate(problem.sizes))


def pixel_box(problem: RelayoutProblem, axes: tuple[int, int], pixels: int, rows: int) -> tuple[int, ...]:
    """The tile of `pixels` whole pixels in `rows` rows; `axes` are the axis inside a pixel and the axis over pixels."""
    small, along = axes
    outer = [axis for axis in range(len(problem.sizes)) if axis not in (*axes, problem.channel_axis)]
    across = max(outer, key=problem.sizes.__getitem__, default=None)
    extents = {small: problem.sizes[small], along: pixels}
    return tile_box(problem, extents if across is None else {**extents, across: rows})


def innermost_box(sizes: tuple[int, ...], most: int) -> tuple[int, ...]:
    """A box of at most `most` elements that fills the inner loops first."""
    extents: list[int] = []
    for size in reversed(sizes):
        extents.insert(0, max(1, min(size, most)))
        most //= max(1, size)
    return tuple(extents)
