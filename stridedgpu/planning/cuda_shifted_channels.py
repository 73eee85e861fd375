"""The launch of channels whose rows or planes begin anywhere in their vectors (`kernels/shifted_channels.cu`)."""

from __future__ import annotations

from math import prod
from typing import Final

from stridedgpu.strides import round_up

from .cuda_channels import ChannelWalk, walk_of
from .cuda_tiles import pixel_tile
from .gpu import GpuProperties, KernelLaunch, divisor_words, grid_of
from .kernel_parameters import ParameterBlock, conversion_argument, index_argument
from .plan import Plan

__all__ = ["launch"]

_THREADS: Final = 256
_VECTOR_BYTES: Final = 16
_SHARED_BYTES: Final = 32 * 1024
"""What both sides of a tile should fill: as much again as where one side alone goes through shared memory."""

_GROUP_BYTES: Final = 8
"""What a thread takes of each channel at once, of the narrower type."""


def launch(plan: Plan, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family CHANNELS whose vectors are put together from words."""
    walk, bits = walk_of(plan.problem), plan.index_bits
    shape = walk.shape
    length = _GROUP_BYTES // min(shape.interleaved_itemsize, shape.planar_itemsize)
    pixel_bytes = shape.pitch * shape.interleaved_itemsize + walk.small.size * shape.planar_itemsize
    row_groups, tile_rows = pixel_tile(
        length, length * pixel_bytes, walk.pixels.size, walk.rows.size, walk.count, 1, gpu, _SHARED_BYTES
    )
    tiles = -(-walk.pixels.size // (row_groups * length)), -(-walk.rows.size // tile_rows)
    blocks = prod(tiles) * walk.count
    runs = _runs(walk, length)
    vectors = [-(-row_groups * group // _VECTOR_BYTES) + 1 for _, group in runs]

    block = ParameterBlock()
    walk.add_to(block, blocks, tiles, bits)
    for divisor in (*vectors, row_groups):
        for word in divisor_words(divisor, 32):
            block.add_index(word, 32)
    block.add_index(tile_rows, 32)
    rank, affines, order = walk.add_outer_to(block, bits)
    arguments = (
        conversion_argument(walk.conversion),
        index_argument(bits),
        rank,
        f"sg::Direction::{'split' if shape.splits else 'join'}",
        walk.small.size,
        shape.pitch,
        length,
        _THREADS,
        walk.axis,
        affines,
        order,
    )
    return KernelLaunch(
        ("shifted_channels.cu",),
        f"sg::shifted_channels<{', '.join(map(str, arguments))}>",
        grid_of(blocks),
        (_THREADS, 1, 1),
        tile_rows
        * sum(
            count * (most * _VECTOR_BYTES + round_up(group + _VECTOR_BYTES, _VECTOR_BYTES))
            for (count, group), most in zip(runs, vectors, strict=True)
        ),
        block.parameters,
        block.tables,
    )


def _runs(walk: ChannelWalk, length: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """For the source and for the target: runs of a row, and the bytes that a group of pixels has in each."""
    shape = walk.shape
    pixels = 1, length * shape.pitch * shape.interleaved_itemsize
    planes = walk.small.size, length * shape.planar_itemsize
    return (pixels, planes) if shape.splits else (planes, pixels)
