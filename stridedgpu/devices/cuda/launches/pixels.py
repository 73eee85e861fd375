"""The launch of whole pixels: padded, reduced, or with channels in another order or of another type."""

from __future__ import annotations

from math import prod
from typing import Final

from stridedgpu.devices.cuda.planning.gpu import GpuProperties, KernelLaunch, grid_of
from stridedgpu.devices.cuda.planning.pixels import WholePixels, whole_pixels_of
from stridedgpu.devices.cuda.planning.policy import policy
from stridedgpu.devices.cuda.planning.relayout import RelayoutChoice
from stridedgpu.planning.relayout_problem import Problem
from stridedgpu.values.strides import round_up

from .bulk_copies import Shares, shares_of
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
    bulk, shares = policy().whole_bulk_copies, _shares_of(plan, walk, shape, gpu)
    if shares is None:
        whole = max(1, *(each // (length * group.itemsize) for each, group in zip(vectors, groups, strict=True)))
        shared = sum(group.shared_bytes for group in groups)
        tile = pixel_tile(length, shared, walk.pixels.size, walk.rows.size, walk.count, whole, gpu)
        row_groups, tile_rows = tile
        tiles = -(-walk.pixels.size // (row_groups * length)), -(-walk.rows.size // tile_rows)
        source_bytes = round_up(tile_rows * row_groups * shape.source.shared_bytes, _SHARED_ALIGNMENT)
        shared_bytes = source_bytes + tile_rows * row_groups * shape.target.shared_bytes
        blocks, box, threads = prod(tiles) * walk.count, tile, policy().pixels.threads
    else:
        row_groups, tiles, tile = shares.groups, (shares.row_tiles, walk.rows.size), (shares.groups, 1)
        box, shared_bytes = (shares.stage_tiles * row_groups, 1), shares.shared_bytes
        blocks, threads = shares.blocks, bulk.threads
    source_vectors, target_vectors = (
        row_groups * length * group.pitch * group.itemsize // each for each, group in zip(vectors, groups, strict=True)
    )
    block, (rank, affines, order) = walk.parameters(tile, tiles, (source_vectors, target_vectors), bits, shares)
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
        threads=threads,
        stages=0 if shares is None else shares.stages,
        resident=1 if shares is None else bulk.resident_blocks,
        axis=walk.axis,
        affines=affines,
        order=order,
    )
    inner = len(plan.problem.sizes) - 1
    return KernelLaunch(
        ("pixels.cu",),
        name,
        grid_of(blocks),
        (threads, 1, 1),
        shared_bytes,
        block.parameters,
        block.tables,
        pixel_box(plan.problem, (inner, inner - 1), box[0] * length, box[1]),
    )


def _shares_of(plan: RelayoutChoice, walk: ChannelWalk, shape: WholePixels, gpu: GpuProperties) -> Shares | None:
    """The shares of blocks whose pixels bulk copies bring, or None where threads load them.

    Threads also load pixels that run backwards, and where a row or a tile of the target is no whole vectors or ends
    with elements that are not ours.
    """
    source, target, store = shape.source, shape.target, plan.store.nbytes
    is_whole = shape.used == source.pitch and shape.last == target.pitch
    rows = walk.rows.size * walk.count
    shares = shares_of(
        policy().whole_bulk_copies,
        source,
        walk.pixels.size,
        rows,
        is_whole and not walk.backwards,
        plan.load.nbytes,
        gpu,
        target.shared_bytes,
    )
    group_bytes = target.length * target.pitch * target.itemsize
    tile_bytes = 0 if shares is None else shares.groups * group_bytes
    row_bytes = walk.pixels.size * target.pitch * target.itemsize
    return None if tile_bytes % store or row_bytes % store else shares
