"""The launch of the small-channel kernels: pixels split into planes, or planes joined to pixels."""

from __future__ import annotations

from math import prod
from typing import Final

from stridedgpu.strides import round_up

from .cuda_tiles import Loop, channels_turned, loops_of, outer_words, turned
from .gpu import GpuProperties, KernelLaunch, divisor_words, grid_of
from .kernel_parameters import ParameterBlock, conversion_argument, index_argument
from .pixels import PixelGroup, pixels_of
from .plan import Plan

__all__ = ["launch"]

_THREADS: Final = 256
_FEWEST_GROUPS: Final = 64
_SHARED_BYTES: Final = (16 * 1024, 48 * 1024)
"""What a block's groups should fill, and what they must not exceed."""


def launch(plan: Plan, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family CHANNELS."""
    problem, bits = plan.problem, plan.index_bits
    shape = pixels_of(problem)
    assert shape is not None
    splits, pitch, small, pixels = shape.splits, shape.pitch, shape.small, shape.pixels

    conversion = problem.conversion
    source_start, target_start = problem.source_offset, 0
    if splits and small.source_stride < 0:
        small, source_start, target_start = turned(small, source_start, target_start)
        conversion = channels_turned(conversion) if small.is_channel else conversion
    if splits and pixels.source_stride < 0:
        pixels, source_start, target_start = turned(pixels, source_start, target_start)
    backwards = (pixels.target_stride if splits else pixels.source_stride) < 0

    outer = [loop for axis, loop in enumerate(loops_of(problem)) if axis not in (shape.small_axis, shape.pixel_axis)]
    channel = next((loop for loop in outer if loop.is_channel), Loop(1, 0, 0))
    outer = [loop for loop in outer if not loop.is_channel]
    rows = max(outer, key=lambda loop: loop.size, default=Loop(1, 0, 0))
    batch = list(outer)
    if outer:
        batch.remove(rows)

    load, store = plan.load.nbytes, plan.store.nbytes
    pixel_bytes, planar_bytes = (load, store) if splits else (store, load)
    length = planar_bytes // shape.planar_itemsize
    group = PixelGroup(length, pitch, shape.interleaved_itemsize)
    whole = max(1, pixel_bytes // shape.interleaved_itemsize // length)
    row_groups, tile_rows = _tile(
        group, pixels.size, rows.size, channel.size * prod(loop.size for loop in batch), whole, gpu
    )
    pixel_tiles = -(-pixels.size // (row_groups * length))
    row_tiles = -(-rows.size // tile_rows)
    blocks = pixel_tiles * row_tiles * channel.size * prod(loop.size for loop in batch)

    chooses = splits and small.is_channel and conversion.channels is not None
    block = ParameterBlock()
    plane_step = small.target_stride if splits else small.source_stride
    numbers = (source_start, target_start, blocks, pixels.size, rows.size, (pixels.size - 1) * pitch + shape.last)
    for number in (*numbers, rows.source_stride, rows.target_stride, plane_step):
        block.add_index(number, bits)
    for divisor in (pixel_tiles, row_tiles, small.size if chooses else channel.size):
        for word in divisor_words(divisor, bits):
            block.add_index(word, bits)
    block.add_index(channel.target_stride, bits)
    row_vectors = row_groups * length * pitch * shape.interleaved_itemsize // pixel_bytes
    for word in (*divisor_words(row_vectors, 32), *divisor_words(row_groups, 32), tile_rows):
        block.add_index(word, 32)
    rank, words = outer_words(batch, bits)
    block.add_axes(words, bits)
    order = block.add_order(conversion, small.source_stride if small.is_channel else channel.source_stride, bits)
    affines = block.add_affines(conversion)
    axis = "none" if problem.channel_axis is None else "block"
    if small.is_channel:
        axis = "source" if splits else "target"
    arguments = (
        conversion_argument(conversion),
        index_argument(bits),
        rank,
        f"sg::Direction::{'split' if splits else 'join'}",
        pitch if chooses else small.size,
        pitch,
        str(shape.fills).lower(),
        pixel_bytes,
        planar_bytes,
        str(backwards).lower(),
        _THREADS,
        f"sg::ChannelAxis::{axis}",
        affines,
        order,
    )
    return KernelLaunch(
        ("channels.cu",),
        f"sg::channels<{', '.join(map(str, arguments))}>",
        grid_of(blocks),
        (_THREADS, 1, 1),
        row_groups * tile_rows * group.shared_bytes,
        block.parameters,
        block.tables,
    )


def _tile(group: PixelGroup, pixels: int, rows: int, batch: int, whole: int, gpu: GpuProperties) -> tuple[int, int]:
    """Groups of a row and rows of a tile; `whole` groups make whole vectors of the interleaved side."""
    wanted, most = (limit // group.shared_bytes for limit in _SHARED_BYTES)
    groups = min(max(wanted, _THREADS), 4 * _THREADS, most)
    needed = -(-pixels // group.length)
    while True:
        row_groups = round_up(min(needed, max(groups // whole, 1) * whole), whole)
        # Tiles of equal size, so that the last one is not a sliver.
        row_groups = round_up(-(-needed // -(-needed // row_groups)), whole)
        tile_rows = min(rows, max(1, groups // row_groups))
        tiles = -(-needed // row_groups) * -(-rows // tile_rows) * batch
        if tiles >= gpu.multiprocessors or groups <= _FEWEST_GROUPS:
            return row_groups, tile_rows
        groups //= 2
