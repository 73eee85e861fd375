"""The launch of whole pixels: filled up, cut down, or with their channels in another order or of another type."""

from __future__ import annotations

from math import prod
from typing import Final

from stridedgpu.strides import round_up

from .cuda_tiles import Loop, loops_of, outer_words, pixel_tile
from .gpu import GpuProperties, KernelLaunch, divisor_words, grid_of
from .kernel_parameters import ParameterBlock, conversion_argument, index_argument
from .plan import Plan
from .whole_pixels import WholePixels, whole_pixels_of

__all__ = ["launch"]

_THREADS: Final = 256
_SHARED_ALIGNMENT: Final = 16
"""Bytes: where the target's part of shared memory begins."""


def launch(plan: Plan, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family PIXELS."""
    problem, bits, conversion = plan.problem, plan.index_bits, plan.problem.conversion
    shape = whole_pixels_of(problem)
    small, pixels = shape.small, shape.pixels
    backwards, turned = pixels.source_stride < 0, small.source_stride < 0
    outer = loops_of(problem)[:-2]
    channel = next((loop for loop in outer if loop.is_channel), Loop(1, 0, 0))
    outer = [loop for loop in outer if not loop.is_channel]
    rows = max(outer, key=lambda loop: loop.size, default=Loop(1, 0, 0))
    batch = list(outer)
    if outer:
        batch.remove(rows)

    count = channel.size * prod(loop.size for loop in batch)
    length, vectors = shape.source.length, (plan.load.nbytes, plan.store.nbytes)
    groups = (shape.source, shape.target)
    whole = max(1, *(each // (length * group.itemsize) for each, group in zip(vectors, groups, strict=True)))
    shared = sum(group.shared_bytes for group in groups)
    row_groups, tile_rows = pixel_tile(length, shared, pixels.size, rows.size, count, whole, gpu)
    pixel_tiles, row_tiles = -(-pixels.size // (row_groups * length)), -(-rows.size // tile_rows)

    block = ParameterBlock()
    blocks = pixel_tiles * row_tiles * count
    for number in (_lowest(problem.source_offset, shape), 0, blocks, pixels.size, rows.size):
        block.add_index(number, bits)
    for group, last in zip(groups, (shape.used, shape.last), strict=True):
        block.add_index((pixels.size - 1) * group.pitch + last, bits)
    for number in (rows.source_stride, rows.target_stride):
        block.add_index(number, bits)
    for divisor in (pixel_tiles, row_tiles, channel.size):
        for word in divisor_words(divisor, bits):
            block.add_index(word, bits)
    block.add_index(channel.target_stride, bits)
    row_vectors = (
        row_groups * length * group.pitch * group.itemsize // each for each, group in zip(vectors, groups, strict=True)
    )
    for divisor in (*row_vectors, row_groups):
        for word in divisor_words(divisor, 32):
            block.add_index(word, 32)
    block.add_index(tile_rows, 32)
    rank, words = outer_words(batch, bits)
    block.add_axes(words, bits)
    order = block.add_order(conversion, small.source_stride if small.is_channel else channel.source_stride, bits)
    affines = block.add_affines(conversion)
    axis = "target" if small.is_channel else "none" if problem.channel_axis is None else "block"
    arguments = (
        conversion_argument(conversion),
        index_argument(bits),
        rank,
        small.size,
        *(group.pitch for group in groups),
        *(str(flag).lower() for flag in (shape.fills, turned, backwards)),
        length,
        *vectors,
        _THREADS,
        f"sg::ChannelAxis::{axis}",
        affines,
        order,
    )
    source_bytes = tile_rows * row_groups * shape.source.shared_bytes
    return KernelLaunch(
        ("pixels.cu",),
        f"sg::pixels<{', '.join(map(str, arguments))}>",
        grid_of(blocks),
        (_THREADS, 1, 1),
        round_up(source_bytes, _SHARED_ALIGNMENT) + tile_rows * row_groups * shape.target.shared_bytes,
        block.parameters,
        block.tables,
    )


def _lowest(source_offset: int, shape: WholePixels) -> int:
    """Where the first row's pixels begin in the source's memory, whichever way they and their channels run."""
    return source_offset + sum((loop.size - 1) * min(loop.source_stride, 0) for loop in (shape.small, shape.pixels))
