"""The tiled transpose (`transpose.cu`): its tile, its two axes, and its launch."""

from __future__ import annotations

from math import prod
from typing import Final

from stridedgpu.devices.cuda.gpu import GpuProperties, KernelLaunch
from stridedgpu.devices.cuda.parameters import ParameterBlock, conversion_argument, index_argument, instantiation
from stridedgpu.devices.cuda.policy import policy

from .choice import (
    RelayoutChoice,
    add_loops,
    itemsizes_of,
    loops_of,
    reversed_channels,
    tile_box,
    unit_axis,
    without_channel,
)

_BANKS_BYTES: Final = 128
"""Bytes of one shared-memory row of all banks; the swizzle requires rows of at least this length."""


def transpose_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family TRANSPOSE."""
    problem = plan.problem
    conversion, bits = problem.conversion, plan.index_bits
    target_axis, source_axis = unit_axis(problem.target_strides), unit_axis(problem.source_strides)
    assert target_axis is not None
    assert source_axis is not None
    loops = loops_of(problem)
    across, along = loops[target_axis], loops[source_axis]
    starts = (problem.source_offset, 0)
    if along.source_stride < 0:
        along, starts = along.reversed(starts)
        if along.is_channel:
            conversion = reversed_channels(conversion)
    others = [loop for axis, loop in enumerate(loops) if axis not in (target_axis, source_axis)]
    outer, channel = without_channel(others)

    batch = channel.size * prod(loop.size for loop in outer)
    written = across.size + problem.filler
    itemsizes = itemsizes_of(problem)
    for small in (False, True):
        extents = tile_extents(*itemsizes, small=small)
        tiles = [-(-size // extent) for size, extent in zip((along.size, written), extents, strict=True)]
        blocks = batch * prod(tiles)
        if blocks >= gpu.multiprocessors:
            break

    block = ParameterBlock(bits)
    block.add_indices(*starts, blocks, along.size, across.size, written, across.source_stride, along.target_stride)
    block.add_divisors(*tiles, channel.size)
    block.add_indices(channel.target_stride)
    rank = add_loops(block, outer)
    channel_axis = "target" if across.is_channel else "source" if along.is_channel else "block"
    order = block.add_order(conversion, across.source_stride if across.is_channel else channel.source_stride)
    affines = block.add_affines(conversion)
    threads = policy().transpose.threads
    name = instantiation(
        "transpose",
        (conversion_argument(conversion), index_argument(bits)),
        "TransposePolicy",
        rank=rank,
        source_extent=extents[0],
        target_extent=extents[1],
        load_bytes=plan.load.nbytes,
        store_bytes=plan.store.nbytes,
        fills=problem.filler > 0,
        threads=threads,
        axis=f"sg::ChannelAxis::{channel_axis if problem.channel_axis is not None else 'none'}",
        affines=affines,
        order=order,
    )
    tile = tile_box(problem, {source_axis: extents[0], target_axis: extents[1]})
    shared_bytes = prod(extents) * min(itemsizes)
    return block.launch("transpose.cu", name, blocks, threads, shared_bytes=shared_bytes, tile=tile)


def tile_extents(source_itemsize: int, target_itemsize: int, *, small: bool) -> tuple[int, int]:
    """Elements of a tile along the source's and along the target's contiguous axis."""
    table = policy().transpose.small_extents if small else policy().transpose.extents
    narrower = min(source_itemsize, target_itemsize)
    return table[source_itemsize], max(table[target_itemsize], _BANKS_BYTES // narrower)
