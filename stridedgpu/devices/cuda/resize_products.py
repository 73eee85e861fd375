"""Tiles of resizes by products of matrices of bytes (`resize_products.cu`), for GPUs with tensor cores for them.

A block makes a tile in two passes. Weights lie in shared memory as matrices: of each result pixel those of a window of
the source that is whole products of 32 bytes wide. The sums are exact for weights below 2^23, or 2^15 where they have
two bytes, and for as many taps as keep a sum of products of two bytes below 2^31.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from stridedgpu.problems.resize_problem import ResizeProblem
from stridedgpu.problems.resize_taps import AxisTaps, TapReach, WindowTaps
from stridedgpu.values.bounded_cache import bounded_cache, count_bytes
from stridedgpu.values.interpolation import ResizeSums
from stridedgpu.values.strides import round_up

from .gpu import GpuProperties
from .policy import ResizeProductsPolicy

NEIGHBOURS: Final = 8
"""Adjacent elements of a result row that a lane has, and columns of one product."""

THREADS: Final = 128
"""Threads of a block."""

_STEP: Final = 32
"""Bytes of the source, or rows between the passes, that one product sums."""

_LANE_ROW: Final = 16
"""Rows of one product, and bytes of a row of a matrix in shared memory."""

_RESULT_PITCH: Final = 48
"""Bytes from an element of the result to the next, where the vertical pass comes first."""

_TILE_BYTES: Final = 128
"""Bytes of `sg::ProductTile`."""

_SPAN_BYTES: Final = 8
"""Bytes of `sg::TapSpan`."""

_LEAST_CAPABILITY: Final = 80
"""Compute capability from which on `mma.sync` has products of 16 x 32 bytes."""

_RESERVED_BYTES: Final = 1 << 10
"""Shared memory of a multiprocessor that each block has beside its own."""

_MOST_BLOCKS: Final = 5
"""Blocks whose registers a multiprocessor holds: those that the kernel is compiled for."""

_MOST_TAPS: Final = 2**31 // 255**2
"""Taps whose sum of products of bytes is below 2^31."""


_FRACTION_BITS: Final = 22
"""Of integer weights."""

_MOST_ZEROS: Final = 8
"""Most lowest bits that are left out of weights: of 2^22, 2^14 is left."""


@dataclass(frozen=True, slots=True)
class ProductSums:
    """The bytes of a weight, and whether weights are signed and their sums saturate."""

    pieces: int
    saturates: bool


@dataclass(frozen=True, slots=True)
class ProductTiles:
    """A tile in pixels, the fields of `sg::ProductMemory` in their order, and the total bytes.

    `sums` are for the weights of all windows. `length` is the most elements of a store. `chunk_rows` is the number of
    source rows in shared memory together, `reach` the most source rows and columns of a tile. A multiprocessor holds
    `resident_blocks`.
    """

    sums: ProductSums
    height: int
    width: int
    chunk_rows: int
    reach: tuple[int, int]
    memory: tuple[int, ...]
    shared_bytes: int
    resident_blocks: int
    length: int = NEIGHBOURS

    def turns(self, tiles: int, multiprocessors: int, limits: ResizeProductsPolicy) -> int:
        """The tiles that a block makes one after another, of a launch with so many: those of whole waves."""
        together = self.resident_blocks * multiprocessors
        waves = -(-tiles // (together * limits.most_turns))
        return max(1, -(-tiles // (together * waves)))


def takes_products(problem: ResizeProblem, gpu: GpuProperties) -> bool:
    """Whether a GPU can make the problem's pixels, which lie side by side, by products, if its taps allow it."""
    conversion = problem.conversion
    return (
        gpu.compute_capability >= _LEAST_CAPABILITY
        and conversion.source.name == "uint8"
        and not problem.rule.premultiplies
        and conversion.target.itemsize <= 4 == conversion.compute.itemsize
    )


def product_tiles(
    taps: Sequence[WindowTaps],
    count: int,
    *,
    has_narrow_weights: bool,
    interleaves: bool,
    gpu: GpuProperties,
    limits: ResizeProductsPolicy,
) -> ProductTiles | None:
    """The tile for windows with these taps, summed alike and in one order; None where `resize_tiles.cu` is the kernel.

    A block has `count` channels, of a target that `interleaves` them or not. Narrow weights are those of 16 bits: two
    bytes hold them.
    """
    if taps[0].arithmetic is not ResizeSums.FIXED_POINT:
        return None
    pieces = 2 if has_narrow_weights else 3
    found = [_saturates(axis, pieces) for one in taps for axis in (one.rows, one.columns)]
    if None in found:
        return None
    sums = ProductSums(pieces, any(found))
    axes = TapReach([one.rows for one in taps]), TapReach([one.columns for one in taps])
    for height, width, blocks in limits.tiles:
        budget = (gpu.shared_bytes + _RESERVED_BYTES) // blocks - _RESERVED_BYTES
        wide = width * 2 if count == 1 else width
        order = {"columns_first": taps[0].columns_first, "interleaves": interleaves}
        tiles = _fitting(axes, sums, count, (height, wide), budget, blocks, limits.most_turns, **order)
        if tiles is None:
            continue
        fitting = (gpu.shared_bytes + _RESERVED_BYTES) // (tiles.shared_bytes + _RESERVED_BYTES)
        tiles = replace(tiles, resident_blocks=max(blocks, min(fitting, _MOST_BLOCKS)))
        few, nbytes = limits.few
        at_once = min(tiles.chunk_rows, tiles.reach[0]) * tiles.reach[1] * count
        return tiles if blocks > few or at_once >= nbytes else None
    return None


def zero_bits(axis: AxisTaps) -> int:
    """The lowest bits, 8 at most, that are zeros in all integer weights of an axis."""
    if axis.copies:
        return _MOST_ZEROS
    bits = int(np.bitwise_or.reduce(axis.weights, axis=None)) | 1 << _MOST_ZEROS
    return (bits & -bits).bit_length() - 1


@bounded_cache
def _saturates(axis: AxisTaps, pieces: int) -> bool | None:
    """Whether sums of an axis must saturate; None if the bytes do not hold each weight, or 32 bits each sum.

    They need not if no weight is negative, those of a pixel add up to 1 but for their last places, and there are three
    bytes: 24 bits of fraction are then shifted out as whole bytes.
    """
    count_bytes(axis.nbytes)
    if axis.copies:
        return pieces == 2
    largest = int(np.abs(axis.weights).max(initial=0))
    if axis.most > _MOST_TAPS or largest >> (zero_bits(axis) if pieces == 2 else 0) >= 2 ** (8 * pieces - 1):
        return None
    most = int(axis.weights.sum(axis=1).max(initial=0))
    fits = 255 * most + 2 ** (_FRACTION_BITS - 1) < 2 ** (_FRACTION_BITS + 8)
    return pieces == 2 or not fits or int(axis.weights.min(initial=0)) < 0


def _fitting(
    axes: tuple[TapReach, TapReach],
    sums: ProductSums,
    count: int,
    tile: tuple[int, int],
    budget: int,
    blocks: int,
    most_turns: int,
    *,
    columns_first: bool,
    interleaves: bool,
) -> ProductTiles | None:
    """The tile's layout in shared memory, with as many rows a chunk as the budget allows; None without a chunk.

    Rows first, all rows are one chunk.
    """
    (down, along), (height, width) = axes, tile
    rows, columns = down.reach(height), along.reach(width)
    groups = -(-rows // _STEP)
    # A tile's part of a row begins at 16 bytes, or at a word of a row that may begin between words.
    # The eight elements of a product begin at any channel of a pixel, and their window at 16 bytes.
    pixels = NEIGHBOURS // count + (2 if NEIGHBOURS % count else 0)
    row_bytes = columns * count + _LANE_ROW - 1
    across_steps = -(-min(along.reach(pixels) * count + _LANE_ROW - 1, row_bytes) // _STEP)
    # A window of rows begins at a whole product; rows first, at any row.
    down_rows = down.reach(min(height, _LANE_ROW)) + (_STEP - 1 if columns_first else 0)
    down_steps = min(-(-down_rows // _STEP), groups)
    row_pitch = _apart(max(row_bytes, across_steps * _STEP))
    elements = width * count
    every = NEIGHBOURS if interleaves or count % 2 else NEIGHBOURS * count
    spaces = elements // every * _STEP
    down_bytes = height * (sums.pieces * _STEP * down_steps + _LANE_ROW)
    if columns_first:
        between_pitch, least_rows, most_rows = _apart(groups * _STEP), _STEP, groups * _STEP
        between = elements * between_pitch + spaces
    else:
        between_pitch, least_rows = row_pitch, max(rows, down_steps * _STEP)
        between, most_rows = height * row_pitch, least_rows
        down_bytes = max(down_bytes, elements * _RESULT_PITCH + spaces)
    fixed = [
        elements * (sums.pieces * _STEP * across_steps + _LANE_ROW),
        down_bytes,
        most_turns * _TILE_BYTES,
        round_up(height * (_SPAN_BYTES + 4 * down.most), _LANE_ROW),
        round_up(width * (_SPAN_BYTES + 4 * along.most), _LANE_ROW),
        round_up((elements // NEIGHBOURS + height // _LANE_ROW) * 4, _LANE_ROW),
    ]
    room = (budget - sum(fixed) - between) // row_pitch
    if room < least_rows:
        return None
    chunk_rows = most_rows if room >= most_rows else room // _STEP * _STEP
    stage = sum(fixed)
    places = (*(sum(fixed[:number]) for number in range(1, len(fixed))), stage, stage + chunk_rows * row_pitch)
    memory = (*places, row_pitch, between_pitch, chunk_rows, across_steps, down_steps)
    return ProductTiles(sums, height, width, chunk_rows, (rows, columns), memory, places[-1] + between, blocks)


def _apart(nbytes: int) -> int:
    """The bytes from one row of matrices to the next: an odd number of 16 bytes, for eight rows in different banks."""
    return (-(-nbytes // _LANE_ROW) | 1) * _LANE_ROW
