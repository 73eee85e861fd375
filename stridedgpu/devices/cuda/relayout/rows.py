"""Launches in the target's order: of flat runs, of rows, of rows that begin inside a word, and of any strides.

The kernels are `flat.cu`, `rows.cu`, `shifted_rows.cu` and `generic.cu`; `RunSteps` is the counterpart of
`run_steps.cuh`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from stridedgpu.devices.cuda.gpu import THREADS, WARP, GpuProperties, KernelLaunch
from stridedgpu.devices.cuda.parameters import (
    ParameterBlock,
    conversion_argument,
    index_argument,
    instantiation,
    rank_of,
)
from stridedgpu.devices.cuda.policy import policy
from stridedgpu.problems.loop_nest import innermost_box
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.values.strides import round_up

from .choice import NO_LOOP, LoopAxis, RelayoutChoice, add_loops, itemsizes_of, loops_of, tile_box

_FEWEST_AXES: Final = 2
"""The least number of axes that kernels are instantiated for: rows and chunks."""


@dataclass(frozen=True, slots=True)
class RunSteps:
    """The vectors of one step: `load_length` and `store_length` are in elements, item sizes in bytes."""

    load_length: int
    store_length: int
    source_itemsize: int
    target_itemsize: int

    @property
    def length(self) -> int:
        """Elements of one lane and step: those of the longer vector."""
        return max(self.load_length, self.store_length)

    @property
    def wider_bytes(self) -> int:
        """Bytes of the wider access, load or store."""
        return max(self.load_length * self.source_itemsize, self.store_length * self.target_itemsize)

    def under_way(self, gpu: GpuProperties) -> int:
        """Steps of a thread in flight: enough bytes to hide latency, not too many registers."""
        limits = policy().run_steps
        wanted = max(limits.least_bytes, 2 * gpu.bytes_in_flight // limits.resident_threads)
        most = min(
            wanted // (self.length * self.source_itemsize),
            limits.most_loads // (self.length // self.load_length),
            limits.most_stored_bytes // (self.length * self.target_itemsize),
        )
        return 1 << max(most.bit_length() - 1, 0)

    def whole_counts(self, count: int, filled: int, *, may_read_on: bool, may_write_on: bool) -> tuple[int, int]:
        """The elements of a run that whole vectors may load, and those that whole vectors may store.

        The run has `count` elements; `filled` are written, the last ones as zeros. The results exceed these if the last
        vector may reach past the end. Elements from the second result to `filled` move one by one.
        """
        loaded = _whole(count, self.load_length, reach_past=may_read_on)
        if loaded < count:
            return loaded, _whole(loaded, self.store_length, reach_past=False)
        return loaded, _whole(filled, self.store_length, reach_past=may_write_on)

    def bytes_past_end(self, count: int, filled: int) -> tuple[int, int]:
        """The bytes from the last element to the end of a whole last vector, for loads and for stores of `filled`."""
        loaded = _whole(count, self.load_length, reach_past=True) - count
        stored = _whole(filled, self.store_length, reach_past=True) - count
        return loaded * self.source_itemsize, stored * self.target_itemsize


def _whole(count: int, length: int, *, reach_past: bool) -> int:
    """`count` rounded up to whole vectors if they may reach past the end, else down."""
    return round_up(count, length) if reach_past else count // length * length


def flat_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a flat plan: one element, or one run of them."""
    problem, bits = plan.problem, plan.index_bits
    vectors = RunSteps(*plan.lengths, *itemsizes_of(problem))
    count = problem.element_count
    steps = vectors.under_way(gpu)
    # A small copy is spread over more blocks, with fewer loads in flight each.
    if count < gpu.multiprocessors * THREADS * vectors.length * steps:
        steps = 1
    loaded_past, stored_past = vectors.bytes_past_end(count, count)
    whole_counts = vectors.whole_counts(
        count,
        count,
        may_read_on=loaded_past <= problem.source.slack_bytes,
        may_write_on=problem.target.owns_padding and stored_past <= problem.target.slack_bytes,
    )
    block = ParameterBlock(bits)
    block.add_affines(problem.conversion)
    block.add_indices(problem.source_offset, count, *whole_counts)
    name = instantiation(
        "copy_flat",
        (conversion_argument(problem.conversion), index_argument(bits)),
        "FlatPolicy",
        load_bytes=plan.load.nbytes,
        store_bytes=plan.store.nbytes,
        steps=steps,
    )
    together = THREADS * vectors.length * steps
    tile = tile_box(problem, dict.fromkeys(range(len(problem.sizes)), together))
    return block.launch("flat.cu", name, -(-count // together), tile=tile)


def rows_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan over rows."""
    problem, bits = plan.problem, plan.index_bits
    source, target, conversion = problem.source, problem.target, problem.conversion
    inner = len(problem.sizes) - 1
    count, filled = problem.sizes[inner], problem.written_sizes[inner]
    run = _run(problem)
    vectors = RunSteps(*plan.lengths, *itemsizes_of(problem))
    rows, most_chunks = prod(problem.sizes[:inner]), policy().rows.most_chunks
    steps, items, lanes, whole_warps = _chunk_shape(vectors, filled, rows, gpu, most_chunks=most_chunks)
    loaded_past, stored_past = vectors.bytes_past_end(count, filled)
    may_write_on = target.owns_padding and stored_past <= target.slack_bytes
    within = vectors.whole_counts(count, filled, may_read_on=False, may_write_on=may_write_on)
    past_end = vectors.whole_counts(count, filled, may_read_on=True, may_write_on=may_write_on)
    # A vector that reaches past its row's end must end inside the buffer, which excludes the last row.
    readable = source.layout.span + source.slack_bytes // source.element.itemsize
    last_reading_on = readable - count - loaded_past // source.element.itemsize

    chunk = steps * vectors.length * lanes
    axes, chunks = _row_axes(problem, filled, chunk, forwards_or_back=run in ("forward", "reversed"))
    block = ParameterBlock(bits)
    affines, order = _add_chunks(block, plan, axes, chunks, lanes)
    block.add_indices(filled, *within, *past_end, last_reading_on)
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
    return block.launch("rows.cu", name, _blocks(axes, lanes, items), tile=tile_box(problem, {inner: chunk}))


def shifted_rows_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan over rows that begin anywhere in their words, which are funnel-shifted into place."""
    problem, source = plan.problem, plan.problem.source
    inner = len(problem.sizes) - 1
    vectors = RunSteps(*plan.lengths, *itemsizes_of(problem))
    # A row begins anywhere in its first vector.
    places = problem.sizes[inner] + vectors.store_length - 1
    # One chunk a thread: of two, the registers of addresses and of rows' ends cost resident blocks.
    steps, _, lanes, whole_warps = _chunk_shape(vectors, places, prod(problem.sizes[:inner]), gpu, most_chunks=1)
    chunk = steps * vectors.length * lanes
    axes, chunks = _row_axes(problem, places, chunk, forwards_or_back=True)
    block = ParameterBlock(plan.index_bits)
    affines, order = _add_chunks(block, plan, axes, chunks, lanes)
    block.add_indices(source.layout.span * source.element.itemsize + source.slack_bytes, bits=64)
    name = instantiation(
        "copy_shifted_rows",
        (conversion_argument(problem.conversion), index_argument(plan.index_bits)),
        "ShiftedRowsPolicy",
        store_bytes=plan.store.nbytes,
        steps=steps,
        whole_warps=whole_warps,
        backwards=problem.source_strides[inner] < 0,
        rank=len(axes),
        affines=affines,
        order=order,
    )
    return block.launch("shifted_rows.cu", name, _blocks(axes, lanes, 1), tile=tile_box(problem, {inner: chunk}))


def _run(problem: RelayoutProblem) -> str:
    """The `sg::Run` of a problem: how the source run relates to the target run."""
    inner = len(problem.sizes) - 1
    if problem.channel_axis == inner and problem.conversion.channels is not None:
        return "channel_table"
    return {1: "forward", -1: "reversed", 0: "repeated"}[problem.source_strides[inner]]


def _add_chunks(
    block: ParameterBlock, plan: RelayoutChoice, axes: Sequence[LoopAxis], chunks: int, lanes: int
) -> tuple[str, str]:
    """Append `sg::RowChunks`, which begins the parameters; returns the arguments of its `sg::Channels`.

    `chunks` is the number of the axis over chunks.
    """
    problem = plan.problem
    affines = block.add_affines(problem.conversion)
    channel_stride = 0 if problem.channel_axis is None else problem.source_strides[problem.channel_axis]
    order = block.add_order(problem.conversion, channel_stride)
    add_loops(block, axes)
    block.add_indices(problem.source_offset, prod(axis.size for axis in axes), problem.sizes[-1])
    channels = next((number for number, axis in enumerate(axes) if axis.is_channel), -1)
    block.add_int32(channels, chunks, lanes.bit_length() - 1)
    block.add(b"", 8)
    return affines, order


def _blocks(axes: Sequence[LoopAxis], lanes: int, items: int) -> int:
    """The blocks in which groups of `lanes` lanes move `items` chunks a thread."""
    return -(-prod(axis.size for axis in axes) // (THREADS // lanes * items))


def _chunk_shape(
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
    limits = policy().rows
    widest = min(WARP, 1 << (lane_steps - 1).bit_length())
    stores = vectors.length // vectors.store_length
    most = max(1, min(under_way, limits.most_stores // stores))
    most_steps = under_way if stores == 1 else min(under_way, limits.most_narrow_stores // stores)
    groups = []
    for lanes in (32, 16, 8, 4, 2, 1):
        if min(4, widest) <= lanes <= widest:
            chunks = -(-lane_steps // (lanes * most))
            steps = -(-lane_steps // (lanes * chunks))
            items = min(max(1, most_steps // steps), most_chunks)
            groups.append((lane_steps / (chunks * lanes * steps), steps, items, lanes))
    for nbytes, share in limits.groups:
        least = min(nbytes // vectors.wider_bytes, widest)
        enough = [group for group in groups if group[0] >= share and group[3] >= least]
        if enough:
            return max(enough, key=lambda group: (group[0] * group[1] * group[2], -group[2], group[3]))[1:]
    return max(groups)[1:]


def _row_axes(
    problem: RelayoutProblem, length: int, chunk: int, *, forwards_or_back: bool
) -> tuple[list[LoopAxis], int]:
    """The axes over rows and chunks, outermost first, and the number of that over chunks.

    They are padded to a rank that kernels are instantiated for. Rows have `length` elements. They are in target order,
    except that rows with the same source are consecutive, so that the source is cached.
    """
    *axes, run = loops_of(problem)
    if problem.conversion.channels is not None:
        # A table of channels has the offsets themselves.
        axes = [replace(axis, source_stride=0) if axis.is_channel else axis for axis in axes]
    chunks = LoopAxis(-(-length // chunk), chunk * run.source_stride if forwards_or_back else 0, chunk)
    repeated: list[LoopAxis] = []
    if run.size * problem.target.element.itemsize >= policy().rows.far_apart_bytes and forwards_or_back:
        repeated = [axis for axis in axes if axis.source_stride == 0 and not axis.is_channel]
        axes = [axis for axis in axes if axis.source_stride != 0 or axis.is_channel]
    added = rank_of(max(len(axes) + len(repeated) + 1, _FEWEST_AXES)) - len(axes) - len(repeated) - 1
    return [NO_LOOP] * added + [*axes, chunks, *repeated], added + len(axes)


def generic_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan with any strides."""
    problem, bits, conversion = plan.problem, plan.index_bits, plan.problem.conversion
    sizes, channel_axis = list(problem.sizes), problem.channel_axis
    source_strides, target_strides = list(problem.source_strides), list(problem.target_strides)
    inner = len(sizes) - 1
    itemsizes = itemsizes_of(problem)
    # The innermost axis is cut into stores; into single elements if adjacent ones have different channels.
    store_bytes = itemsizes[1] if channel_axis == inner else plan.store.nbytes
    length = store_bytes // itemsizes[1]
    vectors = -(-problem.written_sizes[inner] // length)
    limits = policy().generic
    most = min(limits.most_items, limits.most_elements // length, limits.most_bytes // (length * max(itemsizes)))
    items = _items(vectors, prod(sizes[:inner]), max(most, 1), gpu)

    block = ParameterBlock(bits)
    affines = block.add_affines(conversion)
    order = block.add_order(conversion, 0 if channel_axis is None else source_strides[channel_axis])
    if channel_axis is not None and conversion.channels is not None:
        source_strides[channel_axis] = 0  # the offsets come from the table
    source_step, target_step = source_strides[inner], target_strides[inner]
    sizes[inner] = -(-vectors // items)
    source_strides[inner] *= length
    target_strides[inner] *= length
    rank = block.add_axes(sizes, source_strides, target_strides)
    threads, distance = prod(sizes), sizes[inner] * length
    counts = (problem.sizes[inner], problem.written_sizes[inner])
    block.add_indices(problem.source_offset, source_step, target_step, threads, distance, *counts)
    block.add_int32(-1 if channel_axis is None else rank - len(sizes) + channel_axis)
    name = instantiation(
        "copy_generic",
        (conversion_argument(conversion), index_argument(bits)),
        "GenericPolicy",
        store_bytes=store_bytes,
        items=items,
        fills=problem.filler > 0,
        rank=rank,
        affines=affines,
        order=order,
    )
    tile = innermost_box(problem.sizes, THREADS * length)
    return block.launch("generic.cu", name, -(-threads // THREADS), tile=tile)


def _items(vectors: int, runs: int, most: int, gpu: GpuProperties) -> int:
    """Vectors of a run for one thread: as many as leave few of them empty, and all multiprocessors busy."""
    items, well_filled = most, policy().generic.well_filled
    while items > 1:
        threads = -(-vectors // items)
        if vectors >= well_filled * threads * items and runs * threads >= gpu.multiprocessors * THREADS:
            return items
        items //= 2
    return 1
