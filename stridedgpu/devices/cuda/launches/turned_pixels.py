"""The launch of turned pixels: whole pixels along one axis of the source and along another of the target."""

from __future__ import annotations

from math import prod
from typing import Final

from stridedgpu.devices.cuda.planning.gpu import WARP, GpuProperties, KernelLaunch, divisor_words, grid_of
from stridedgpu.devices.cuda.planning.policy import policy
from stridedgpu.devices.cuda.planning.relayout import RelayoutChoice
from stridedgpu.devices.cuda.planning.turned_pixels import TurnedPixels, turned_pixels_of
from stridedgpu.values.strides import round_up

from .instantiation import instantiation
from .parameters import ParameterBlock, conversion_argument, index_argument
from .tiles import loops_of, outer_words, reversed_loop, tile_box

__all__ = ["launch"]

_LANES: Final = (4, 8)
"""A warp's groups along the source's and along the target's run, as in turned_pixels.cu."""

_BANKS: Final = (16, 32)
"""Bytes by which the groups of rows of the source's and of the target's side should differ in their banks."""


def launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family TURNED_PIXELS."""
    problem, bits = plan.problem, plan.index_bits
    shape = turned_pixels_of(problem)
    assert shape is not None
    source_run, source_start, target_start = shape.source_run, problem.source_offset, 0
    if source_run.source_stride < 0:
        source_run, source_start, target_start = reversed_loop(source_run, source_start, target_start)
    is_turned = shape.small.source_stride < 0
    source_start -= (shape.small.size - 1) * is_turned
    loops = loops_of(problem)
    inside = (shape.source_axis, shape.target_axis, len(loops) - 1)
    outer = [loop for axis, loop in enumerate(loops) if axis not in inside]
    batch = prod(loop.size for loop in outer)

    itemsizes = problem.source.element.itemsize, problem.target.element.itemsize
    extents = _extents(plan, shape, batch, gpu)
    tiles = [-(-run.size // extent) for run, extent in zip((source_run, shape.target_run), extents, strict=True)]
    blocks = batch * prod(tiles)
    row_bytes = [extent * shape.small.size * itemsize for extent, itemsize in zip(extents, itemsizes, strict=True)]

    block = ParameterBlock()
    sizes = (source_run.size, shape.target_run.size)
    steps = (shape.target_run.source_stride, source_run.target_stride)
    for number in (source_start, target_start, blocks, *sizes, *steps):
        block.add_index(number, bits)
    for divisor in tiles:
        for word in divisor_words(divisor, bits):
            block.add_index(word, bits)
    vectors = [nbytes // each for nbytes, each in zip(row_bytes, (plan.load.nbytes, plan.store.nbytes), strict=True)]
    threads = policy().turned_pixels.threads
    warps = [-(-extent // (shape.length * lanes)) for extent, lanes in zip(extents, _LANES, strict=True)]
    gaps = [_gap(shape.length * nbytes, banks) for nbytes, banks in zip(row_bytes, _BANKS, strict=True)]
    for divisor in (*(min(count, threads) for count in vectors), warps[0]):
        for word in divisor_words(divisor, 32):
            block.add_index(word, 32)
    shared = [
        extent // shape.length * (shape.length * nbytes + gap)
        for extent, nbytes, gap in zip(extents[::-1], row_bytes, gaps, strict=True)
    ]
    for number in (prod(warps) * WARP, *extents, *gaps, shared[0]):
        block.add_index(number, 32)
    rank, words = outer_words(outer, bits)
    block.add_axes(words, bits)
    affines = block.add_affines(problem.conversion)
    name = instantiation(
        "turned_pixels",
        (conversion_argument(problem.conversion), index_argument(bits)),
        "TurnedPixelsPolicy",
        rank=rank,
        channels=shape.small.size,
        length=shape.length,
        load_bytes=plan.load.nbytes,
        store_bytes=plan.store.nbytes,
        turned=is_turned,
        threads=threads,
        affines=affines,
    )
    return KernelLaunch(
        ("turned_pixels.cu",),
        name,
        grid_of(blocks),
        (threads, 1, 1),
        sum(shared),
        block.parameters,
        block.tables,
        tile_box(
            problem,
            {
                shape.source_axis: extents[0],
                shape.target_axis: extents[1],
                len(loops) - 1: shape.small.size,
            },
        ),
    )


def _extents(plan: RelayoutChoice, shape: TurnedPixels, batch: int, gpu: GpuProperties) -> tuple[int, int]:
    """Pixels of a tile along the source's and the target's run: the first tile that leaves no multiprocessor idle.

    Tiles of equal size avoid a sliver as the last one. Their rows are whole vectors and whole groups.
    """
    source, target = plan.problem.source.element.itemsize, plan.problem.target.element.itemsize
    units = max(shape.length, plan.load.nbytes // source), max(shape.length, plan.store.nbytes // target)
    runs = shape.source_run.size, shape.target_run.size
    most = policy().turned_pixels.shared_bytes // (shape.small.size * (source + target))
    for tile in (tile for tile in policy().turned_pixels.tiles if prod(tile) <= most):
        counts = [-(-size // extent) for size, extent in zip(runs, tile, strict=True)]
        if batch * prod(counts) >= gpu.multiprocessors:
            break
    across, along = (round_up(-(-size // count), unit) for size, count, unit in zip(runs, counts, units, strict=True))
    return across, along


def _gap(nbytes: int, banks: int) -> int:
    """Bytes after `nbytes` of shared memory so that what follows is `banks` bytes on in a row of the banks."""
    return (banks - nbytes) % (2 * banks)
