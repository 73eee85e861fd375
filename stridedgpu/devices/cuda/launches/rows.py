"""Launches of family B, rows: the innermost run is contiguous, or broadcast, on both sides (`rows.cu`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from stridedgpu.devices.cuda.planning.gpu import (
    THREADS,
    WARP,
    GpuProperties,
    KernelLaunch,
    axes_words,
    grid_of,
    rank_of,
)
from stridedgpu.devices.cuda.planning.policy import policy
from stridedgpu.devices.cuda.planning.relayout import RelayoutChoice
from stridedgpu.planning.relayout_problem import Problem

from .instantiation import instantiation
from .parameters import ParameterBlock, conversion_argument, index_argument
from .run_steps import RunSteps
from .tiles import tile_box

__all__ = ["RowAxis", "add_chunks", "chunk_shape", "grid_of_chunks", "launch", "row_axes"]

_FEWEST_AXES: Final = 2
"""The least number of axes that kernels are instantiated for: rows and chunks."""


@dataclass(frozen=True, slots=True)
class RowAxis:
    """One axis over rows or chunks; strides in elements."""

    size: int
    source_stride: int
    target_stride: int
    role: str = ""


def launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan over rows."""
    problem, bits = plan.problem, plan.index_bits
    source, target, conversion = problem.source, problem.target, problem.conversion
    inner = len(problem.sizes) - 1
    count, filled = problem.sizes[inner], problem.written_sizes[inner]
    run = _run(problem)
    vectors = RunSteps(
        plan.load.nbytes // source.element.itemsize,
        plan.store.nbytes // target.element.itemsize,
        source.element.itemsize,
        target.element.itemsize,
    )
    rows, most_chunks = prod(problem.sizes[:inner]), policy().rows.most_chunks
    steps, items, lanes, whole_warps = chunk_shape(vectors, filled, rows, gpu, most_chunks=most_chunks)
    loaded_past, stored_past = vectors.bytes_past_end(count, filled)
    may_write_on = target.owns_padding and stored_past <= target.slack_bytes
    within = vectors.whole_counts(count, filled, may_read_on=False, may_write_on=may_write_on)
    past_end = vectors.whole_counts(count, filled, may_read_on=True, may_write_on=may_write_on)
    # A vector that reaches past its row's end must end inside the buffer, which excludes the last row.
    readable = problem.source.layout.span + source.slack_bytes // source.element.itemsize
    last_reading_on = readable - count - loaded_past // source.element.itemsize

    axes = row_axes(problem, filled, steps * vectors.length * lanes, forwards_or_back=run in ("forward", "reversed"))
    block = ParameterBlock()
    affines, order = add_chunks(block, plan, axes, lanes)
    for value in (filled, *within, *past_end, last_reading_on):
        block.add_index(value, bits)
    axis = "none" if problem.channel_axis is None else "inner" if problem.channel_axis == inner else "outer"
    name = instantiation(
        "copy_rows",
        (conversion_argument(conversion), index_argument(bits)),
        "RowsPolicy",
        load_bytes=plan.load.nbytes,
        store_bytes=plan.store.nbytes,
        steps=steps,
        items=items,
        whole_warps=whole_warps,
        fills=filled > count,
        run=f"sg::Run::{run}",
        axis=f"sg::RowChannelAxis::{axis}",
        rank=len(axes),
        affines=affines,
        order=order,
    )
    return KernelLaunch(
        sources=("rows.cu",),
        name=name,
        grid=grid_of_chunks(axes, lanes, items),
        block=(THREADS, 1, 1),
        shared_bytes=0,
        parameters=block.parameters,
        tables=block.tables,
        tile=tile_box(problem, {inner: steps * vectors.length * lanes}),
    )


def add_chunks(block: ParameterBlock, plan: RelayoutChoice, axes: Sequence[RowAxis], lanes: int) -> tuple[str, str]:
    """Append `sg::RowChunks`, which begins the parameters; returns the arguments of its `sg::Channels`."""
    problem, bits = plan.problem, plan.index_bits
    affines = block.add_affines(problem.conversion)
    channel_stride = 0 if problem.channel_axis is None else problem.source_strides[problem.channel_axis]
    order = block.add_order(problem.conversion, channel_stride, bits)
    sizes = [axis.size for axis in axes]
    strides = [axis.source_stride for axis in axes], [axis.target_stride for axis in axes]
    block.add_axes(axes_words(sizes, *strides, bits), bits)
    for value in (problem.source_offset, prod(sizes), problem.sizes[-1]):
        block.add_index(value, bits)
    roles = [axis.role for axis in axes]
    for value in (
        roles.index("channels") if "channels" in roles else -1,
        roles.index("chunks"),
        lanes.bit_length() - 1,
    ):
        block.add_int32(value)
    block.add(b"", 8)
    return affines, order


def grid_of_chunks(axes: Sequence[RowAxis], lanes: int, items: int) -> tuple[int, int, int]:
    """The grid in which groups of `lanes` lanes move `items` chunks a thread."""
    return grid_of(-(-prod(axis.size for axis in axes) // (THREADS // lanes * items)))


def _run(problem: Problem) -> str:
    """The `sg::Run` of a problem: how the source run relates to the target run."""
    inner = len(problem.sizes) - 1
    if problem.channel_axis == inner and problem.conversion.channels is not None:
        return "channel_table"
    return {1: "forward", -1: "reversed", 0: "repeated"}[problem.source_strides[inner]]


def chunk_shape(
    vectors: RunSteps, count: int, rows: int, gpu: GpuProperties, *, most_chunks: int
) -> tuple[int, int, int, bool]:
    """Steps of a chunk, chunks of a thread, lanes of a group, and whether all groups are whole warps.

    Long rows are cut into even chunks of several steps of a whole warp, unless many lanes would be idle or too few
    chunks would remain for all multiprocessors. For shorter rows a thread has several chunks in flight, if enough
    remain.
    """
    under_way = vectors.under_way(gpu)
    lane_steps = -(-count // vectors.length)
    chunks = -(-lane_steps // (WARP * under_way))
    steps = -(-lane_steps // (WARP * chunks))
    enough = rows * chunks * WARP >= gpu.multiprocessors * THREADS
    if enough and 2 * steps >= under_way and lane_steps >= policy().rows.well_filled * chunks * WARP * steps:
        return steps, 1, WARP, True
    if rows * lane_steps < gpu.multiprocessors * THREADS * under_way:
        under_way = 1
    return (*_group(vectors, lane_steps, min(under_way, policy().rows.most_accesses), most_chunks), False)


def _group(vectors: RunSteps, lane_steps: int, under_way: int, most_chunks: int) -> tuple[int, int, int]:
    """Steps of a chunk, chunks of a thread, and lanes of a group that moves a row, or an even part of one.

    `lane_steps` is the number of steps of one lane alone. Among the groups with long contiguous accesses and few idle
    lanes, the one with the most accesses in flight is chosen, and of these the one with the fewest addresses.
    """
    widest = min(WARP, 1 << (lane_steps - 1).bit_length())
    stores = vectors.length // vectors.store_length
    most = max(1, min(under_way, policy().rows.most_stores // stores))
    most_steps = under_way if stores == 1 else min(under_way, policy().rows.most_narrow_stores // stores)
    groups = []
    for lanes in (32, 16, 8, 4, 2, 1):
        if min(4, widest) <= lanes <= widest:
            chunks = -(-lane_steps // (lanes * most))
            steps = -(-lane_steps // (lanes * chunks))
            items = min(max(1, most_steps // steps), most_chunks)
            groups.append((lane_steps / (chunks * lanes * steps), steps, items, lanes))
    for nbytes, share in policy().rows.groups:
        least = min(nbytes // vectors.wider_bytes, widest)
        enough = [group for group in groups if group[0] >= share and group[3] >= least]
        if enough:
            return max(enough, key=lambda group: (group[0] * group[1] * group[2], -group[2], group[3]))[1:]
    return max(groups)[1:]


def row_axes(problem: Problem, length: int, chunk: int, *, forwards_or_back: bool) -> list[RowAxis]:
    """The axes over rows and chunks, outermost first, padded to a rank that kernels are instantiated for.

    Rows have `length` elements. They are in target order, except that rows with the same source are consecutive, so
    that the source is cached.
    """
    *outer, inner = range(len(problem.sizes))
    axes = []
    for axis in outer:
        size, source, target = problem.sizes[axis], problem.source_strides[axis], problem.target_strides[axis]
        is_channels = axis == problem.channel_axis
        # A table of channels has the offsets themselves.
        through_table = is_channels and problem.conversion.channels is not None
        axes.append(RowAxis(size, 0 if through_table else source, target, "channels" if is_channels else ""))
    step = chunk * problem.source_strides[inner] if forwards_or_back else 0
    axes.append(RowAxis(-(-length // chunk), step, chunk, "chunks"))
    if problem.sizes[inner] * problem.target.element.itemsize >= policy().rows.far_apart_bytes and forwards_or_back:
        axes.sort(key=lambda axis: axis.source_stride == 0 and not axis.role)
    rank = rank_of(max(len(axes), _FEWEST_AXES))
    return [RowAxis(1, 0, 0)] * (rank - len(axes)) + axes
