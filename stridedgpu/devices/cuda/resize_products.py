"""Tiles of resizes by products of matrices of bytes (`resize_products.cu`), for GPUs with tensor cores for them.

A block makes a tile in two passes. Weights lie in shared memory as matrices: of each result pixel those of a window of
the source that is whole products of 32 bytes wide. The sums are exact for weights below 2^23 and for as many taps as
keep a sum of products of two bytes below 2^31.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from stridedgpu.problems.resize_problem import ResizeProblem
from stridedgpu.problems.resize_taps import AxisTaps, TapReach, WindowTaps
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

_PIECES: Final = 3
"""Bytes of a weight."""

_LEAST_CAPABILITY: Final = 80
"""Compute capability from which on `mma.sync` has products of 16 x 32 bytes."""

_RESERVED_BYTES: Final = 1 << 10
"""Shared memory of a multiprocessor that each block has beside its own."""

_MOST_TAPS: Final = 2**31 // 255**2
"""Taps whose sum of products of bytes is below 2^31."""


@dataclass(frozen=True, slots=True)
class ProductTiles:
    """A tile in pixels, the fields of `sg::ProductMemory` in their order, and the total bytes.

    `length` is the most elements of a store. `chunk_rows` is the number of source rows in shared memory together,
    `reach` the most source rows and columns of a tile.
    """

    height: int
    width: int
    chunk_rows: int
    reach: tuple[int, int]
    memory: tuple[int, ...]
    shared_bytes: int
    length: int = NEIGHBOURS


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
    interleaves: bool,
    gpu: GpuProperties,
    limits: ResizeProductsPolicy,
) -> ProductTiles | None:
    """The tile for windows with these taps, summed alike and in one order; None where `resize_tiles.cu` is the kernel.

    A block has `count` channels, of a target that `interleaves` them or not.
    """
    if taps[0].arithmetic is not ResizeSums.FIXED_POINT or not taps[0].columns_first:
        return None
    if not all(_is_exact(axis) for one in taps for axis in (one.rows, one.columns)):
        return None
    axes = TapReach([one.rows for one in taps]), TapReach([one.columns for one in taps])
    for height, width, blocks in limits.tiles:
        budget = (gpu.shared_bytes + _RESERVED_BYTES) // blocks - _RESERVED_BYTES
        wide = width * 2 if count == 1 else width
        tiles = _fitting(axes, count, (height, wide), budget, interleaves=interleaves)
        if tiles is None:
            continue
        few, nbytes = limits.few
        at_once = min(tiles.chunk_rows, tiles.reach[0]) * tiles.reach[1] * count
        return tiles if blocks > few or at_once >= nbytes else None
    return None


@lru_cache(maxsize=512)
def _is_exact(axis: AxisTaps) -> bool:
    """Whether three bytes hold each weight, and 32 bits each sum."""
    return axis.copies or (axis.most <= _MOST_TAPS and int(np.abs(axis.weights).max(initial=0)) < 2**23)


def _fitting(
    axes: tuple[TapReach, TapReach],
    count: int,
    tile: tuple[int, int],
    budget: int,
    *,
    interleaves: bool,
) -> ProductTiles | None:
    """The tile's layout in shared memory, with as many rows a chunk as the budget allows; None without a chunk."""
    (down, along), (height, width) = axes, tile
    rows, columns = down.reach(height), along.reach(width)
    groups = -(-rows // _STEP)
    # The eight elements of a product begin at any channel of a pixel, and their window at 16 bytes.
    pixels = NEIGHBOURS // count + (2 if NEIGHBOURS % count else 0)
    row_bytes = columns * count + _LANE_ROW - 1
    across_steps = -(-min(along.reach(pixels) * count + _LANE_ROW - 1, row_bytes) // _STEP)
    # A window of rows begins at a whole product.
    down_steps = min(-(-(down.reach(min(height, _LANE_ROW)) + _STEP - 1) // _STEP), groups)
    stage_pitch = _apart(max(row_bytes, across_steps * _STEP))
    between_pitch = _apart(groups * _STEP)
    elements = width * count
    every = NEIGHBOURS if interleaves or count % 2 else NEIGHBOURS * count
    products = elements // NEIGHBOURS
    fixed = [
        elements * (_PIECES * _STEP * across_steps + _LANE_ROW),
        height * (_PIECES * _STEP * down_steps + _LANE_ROW),
        round_up((products + height // _LANE_ROW) * 4, _LANE_ROW),
    ]
    between = elements * between_pitch + elements // every * _STEP
    chunks = (budget - sum(fixed) - between) // (_STEP * stage_pitch)
    if chunks < 1:
        return None
    chunk_rows = min(chunks, groups) * _STEP
    stage = sum(fixed)
    places = (fixed[0], fixed[0] + fixed[1], stage, stage + chunk_rows * stage_pitch)
    memory = (*places, stage_pitch, between_pitch, chunk_rows, across_steps, down_steps)
    return ProductTiles(height, width, chunk_rows, (rows, columns), memory, places[-1] + between)


def _apart(nbytes: int) -> int:
    """The bytes from one row of matrices to the next: an odd number of 16 bytes, for eight rows in different banks."""
    return (-(-nbytes // _LANE_ROW) | 1) * _LANE_ROW
