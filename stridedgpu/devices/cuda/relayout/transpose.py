"""The launch of the tiled transpose: its tile, its two axes, and its parameters."""

from __future__ import annotations

from math import prod
from typing import Final

from stridedgpu.devices.cuda.gpu import GpuProperties, KernelLaunch, divisor_words, grid_of
from stridedgpu.devices.cuda.parameters import ParameterBlock, conversion_argument, index_argument, instantiation
from stridedgpu.devices.cuda.policy import policy
from stridedgpu.values.strides import round_up

from .choice import Loop, RelayoutChoice, loops_of, outer_words, reversed_channels, reversed_loop, tile_box, unit_axis

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
    source_start, target_start = problem.source_offset, 0
    if along.source_stride < 0:
        along, source_start, target_start = reversed_loop(along, source_start, target_start)
        if along.is_channel:
            conversion = reversed_channels(conversion)
    outer = [loop for axis, loop in enumerate(loops) if axis not in (target_axis, source_axis)]
    channel = next((loop for loop in outer if loop.is_channel), Loop(1, 0, 0))
    outer = [loop for loop in outer if not loop.is_channel]

    batch = channel.size * prod(loop.size for loop in outer)
    sizes = (along.size, across.size)
    written = (along.size, across.size + problem.filler)
    itemsizes = (problem.source.element.itemsize, problem.target.element.itemsize)
    for small in (False, True):
        extents = tile_extents(*itemsizes, small=small)
        tiles = tuple(round_up(size, extent) // extent for size, extent in zip(written, extents, strict=True))
        if batch * prod(tiles) >= gpu.multiprocessors:
            break
    blocks = batch * prod(tiles)

    block = ParameterBlock()
    numbers = (source_start, target_start, blocks, *sizes, written[1], across.source_stride, along.target_stride)
    for number in numbers:
        block.add_index(number, bits)
    for divisor in (*tiles, channel.size):
        for word in divisor_words(divisor, bits):
            block.add_index(word, bits)
    block.add_index(channel.target_stride, bits)
    rank, words = outer_words(outer, bits)
    block.add_axes(words, bits)
    channel_axis = "target" if across.is_channel else "source" if along.is_channel else "block"
    order = block.add_order(conversion, across.source_stride if across.is_channel else channel.source_stride, bits)
    affines = block.add_affines(conversion)
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
        threads=policy().transpose.threads,
        axis=f"sg::ChannelAxis::{channel_axis if problem.channel_axis is not None else 'none'}",
        affines=affines,
        order=order,
    )
    return KernelLaunch(
        ("transpose.cu",),
        name,
        grid_of(blocks),
        (policy().transpose.threads, 1, 1),
        prod(extents) * min(itemsizes),
        block.parameters,
        block.tables,
        tile_box(problem, {source_axis: extents[0], target_axis: extents[1]}),
    )


def tile_extents(source_itemsize: int, target_itemsize: int, *, small: bool) -> tuple[int, int]:
    """Elements of a tile along the source's and along the target's contiguous axis."""
    table = policy().transpose.small_extents if small else policy().transpose.extents
    narrower = min(source_itemsize, target_itemsize)
    return table[source_itemsize], max(table[target_itemsize], _BANKS_BYTES // narrower)
