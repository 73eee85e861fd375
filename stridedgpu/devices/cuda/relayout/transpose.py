"""Transposes: of elements, in tiles (`transpose.cu`), and of whole pixels (`turned_pixels.cu`).

Each side is contiguous along another long axis. Turned pixels lie along one axis in the source and along another in the
target, each with its few elements side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from stridedgpu.devices.cuda.gpu import WARP, GpuProperties, KernelLaunch
from stridedgpu.devices.cuda.parameters import ParameterBlock, conversion_argument, index_argument, instantiation
from stridedgpu.devices.cuda.policy import policy
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.values.strides import round_up

from .choice import (
    LoopAxis,
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


_WORD_BYTES: Final = 4
"""Bytes of a word of shared memory: a thread's pixels are whole words."""


@dataclass(frozen=True, slots=True)
class TurnedPixels:
    """The loops of turned pixels; axes and loops are those of a problem.

    `small` is inside a pixel; consecutive pixels follow each other along `source_run` in the source and along
    `target_run` in the target. A thread turns `length` by `length` pixels, which are whole words on both sides.
    """

    source_axis: int
    target_axis: int
    small: LoopAxis
    source_run: LoopAxis
    target_run: LoopAxis
    length: int


def turned_pixels_of(problem: RelayoutProblem) -> TurnedPixels | None:
    """The turned pixels of a problem; None if it has none, or pixels with gaps, or channels in any order.

    Constants may be those of a pixel's elements, not of another axis.
    """
    conversion, innermost = problem.conversion, len(problem.sizes) - 1
    small_is_channel = problem.channel_axis in (None, innermost)
    if (
        innermost < 2
        or problem.filler
        or conversion.channels is not None
        or not (small_is_channel or not conversion.is_per_channel)
        or (problem.target_strides[innermost], abs(problem.source_strides[innermost])) != (1, 1)
    ):
        return None
    loops = loops_of(problem)
    small, target_axis = loops[innermost], innermost - 1
    source_axis = next((i for i, loop in enumerate(loops) if abs(loop.source_stride) == small.size), innermost)
    if source_axis >= target_axis or loops[target_axis].target_stride != small.size:
        return None
    source_run, target_run = loops[source_axis], loops[target_axis]
    itemsizes = itemsizes_of(problem)
    if max(itemsizes) > _WORD_BYTES or min(source_run.size, target_run.size) < policy().turned_pixels.fewest:
        return None
    pixel_bytes = [small.size * itemsize for itemsize in itemsizes]
    length = max(_WORD_BYTES // min(nbytes & -nbytes, _WORD_BYTES) for nbytes in pixel_bytes)
    if length * max(pixel_bytes) > policy().turned_pixels.group_bytes:
        return None
    return TurnedPixels(source_axis, target_axis, small, source_run, target_run, length)


_LANES: Final = (4, 8)
"""A warp's groups along the source's and along the target's run, as in turned_pixels.cu."""

_BANKS: Final = (16, 32)
"""Bytes by which the groups of rows of the source's and of the target's side should differ in their banks."""


def turned_pixels_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family TURNED_PIXELS."""
    problem, bits = plan.problem, plan.index_bits
    shape = turned_pixels_of(problem)
    assert shape is not None
    source_run, target_run, starts = shape.source_run, shape.target_run, (problem.source_offset, 0)
    if source_run.source_stride < 0:
        source_run, starts = source_run.reversed(starts)
    is_turned = shape.small.source_stride < 0
    source_start = starts[0] - (shape.small.size - 1) * is_turned
    loops = loops_of(problem)
    inside = (shape.source_axis, shape.target_axis, len(loops) - 1)
    outer = [loop for axis, loop in enumerate(loops) if axis not in inside]
    batch = prod(loop.size for loop in outer)

    extents = _extents(plan, shape, batch, gpu)
    tiles = [-(-run.size // extent) for run, extent in zip((source_run, target_run), extents, strict=True)]
    row_bytes = [
        extent * shape.small.size * itemsize for extent, itemsize in zip(extents, itemsizes_of(problem), strict=True)
    ]
    vectors = [nbytes // width for nbytes, width in zip(row_bytes, (plan.load.nbytes, plan.store.nbytes), strict=True)]
    threads = policy().turned_pixels.threads
    warps = [-(-extent // (shape.length * lanes)) for extent, lanes in zip(extents, _LANES, strict=True)]
    gaps = [_gap(shape.length * nbytes, banks) for nbytes, banks in zip(row_bytes, _BANKS, strict=True)]
    shared = [
        extent // shape.length * (shape.length * nbytes + gap)
        for extent, nbytes, gap in zip(extents[::-1], row_bytes, gaps, strict=True)
    ]

    blocks = batch * prod(tiles)
    block = ParameterBlock(bits)
    block.add_indices(source_start, starts[1], blocks, source_run.size, target_run.size)
    block.add_indices(target_run.source_stride, source_run.target_stride)
    block.add_divisors(*tiles)
    block.add_divisors(*(min(count, threads) for count in vectors), warps[0], bits=32)
    block.add_indices(prod(warps) * WARP, *extents, *gaps, shared[0], bits=32)
    rank = add_loops(block, outer)
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
    tile = tile_box(problem, dict(zip(inside, (*extents, shape.small.size), strict=True)))
    return block.launch("turned_pixels.cu", name, blocks, threads, shared_bytes=sum(shared), tile=tile)


def _extents(plan: RelayoutChoice, shape: TurnedPixels, batch: int, gpu: GpuProperties) -> tuple[int, int]:
    """Pixels of a tile along the source's and the target's run: the first tile that leaves no multiprocessor idle.

    Tiles of equal size avoid a sliver as the last one. Their rows are whole vectors and whole groups.
    """
    source, target = itemsizes_of(plan.problem)
    units = [max(shape.length, length) for length in plan.lengths]
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
