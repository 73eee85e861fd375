"""The launch of whole pixels: padded, reduced, or with channels in another order or of another type."""

from __future__ import annotations

from math import prod
from typing import Final

from stridedgpu.devices.cuda.planning.gpu import GpuProperties, KernelLaunch, grid_of
from stridedgpu.devices.cuda.planning.pixels import whole_pixels_of
from stridedgpu.devices.cuda.planning.policy import policy
from stridedgpu.devices.cuda.planning.relayout import RelayoutChoice
from stridedgpu.planning.relayout_problem import Problem
from stridedgpu.values.strides import round_up

from .channels import ChannelWalk, outer_loops
from .instantiation import instantiation
from .parameters import conversion_argument, index_argument
from .tiles import loops_of, pixel_box, pixel_tile, reversed_loop

__all__ = ["launch", "whole_walk_of"]

_SHARED_ALIGNMENT: Final = 16
"""Alignment in bytes of the target's part of shared memory."""


def whole_walk_of(problem: Problem) -> ChannelWalk:
    """The iteration of a problem of the family PIXELS."""
    shape = whole_pixels_of(problem)
    pixels, source_start, target_start = shape.pixels, problem.source_offset, 0
    if pixels.source_stride < 0:
        pixels, source_start, target_start = reversed_loop(pixels, source_start, target_start)
    runs_back = shape.small.source_stride < 0
    return ChannelWalk(
        shape.small,
        pixels,
        *outer_loops(loops_of(problem)[:-2]),
        (source_start - (shape.small.size - 1 if runs_back else 0), target_start),
        (shape.source.pitch, shape.target.pitch),
        (shape.used, shape.last),
        (shape.source.itemsize, shape.target.itemsize),
        problem.conversion,
        runs_back,
    )


def launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family PIXELS."""
    walk, shape, bits = whole_walk_of(plan.problem), whole_pixels_of(plan.problem), plan.index_bits
    length, vectors, groups = shape.source.length, (plan.load.nbytes, plan.store.nbytes), (shape.source, shape.target)
    whole = max(1, *(each // (length * group.itemsize) for each, group in zip(vectors, groups, strict=True)))
    shared = sum(group.shared_bytes for group in groups)
    tile = pixel_tile(length, shared, walk.pixels.size, walk.rows.size, walk.count, whole, gpu)
    row_groups, tile_rows = tile
    tiles = -(-walk.pixels.size // (row_groups * length)), -(-walk.rows.size // tile_rows)
    source_vectors, target_vectors = (
        row_groups * length * group.pitch * group.itemsize // each for each, group in zip(vectors, groups, strict=True)
    )
    block, (rank, affines, order) = walk.parameters(tile, tiles, (source_vectors, target_vectors), bits)
    source_pitch, target_pitch = walk.pitches
    name = instantiation(
        "pixels",
        (conversion_argument(walk.conversion), index_argument(bits)),
        "PixelsPolicy",
        rank=rank,
        channels=walk.small.size,
        source_pitch=source_pitch,
        target_pitch=target_pitch,
        fills_pixels=shape.fills,
        turned=walk.turned,
        backwards=walk.backwards,
        length=length,
        load_bytes=plan.load.nbytes,
        store_bytes=plan.store.nbytes,
        threads=policy().pixels.threads,
        axis=walk.axis,
        affines=affines,
        order=order,
    )
    inner = len(plan.problem.sizes) - 1
    source_bytes = tile_rows * row_groups * shape.source.shared_bytes
    return KernelLaunch(
        ("pixels.cu",),
        name,
        grid_of(prod(tiles) * walk.count),
        (policy().pixels.threads, 1, 1),
        round_up(source_bytes, _SHARED_ALIGNMENT) + tile_rows * row_groups * shape.target.shared_bytes,
        block.parameters,
        block.tables,
        pixel_box(plan.problem, (inner, inner - 1), row_groups * length, tile_rows),
    )
