"""Plan and run gathers and scatters on compiled loops: kernel, parameters and threads."""

from __future__ import annotations

import ctypes
from math import prod
from operator import add
from time import perf_counter_ns
from typing import Final

from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.thread_count import SHARED, get_num_threads
from stridedgpu.devices.interface import DirectLaunch
from stridedgpu.planning.device_plan import Width
from stridedgpu.planning.gather_problem import GatherProblem
from stridedgpu.planning.index_rule import Mode

from .gather_by_row import GatherByRow
from .gather_elements_loop import GatherElements
from .gather_indices import IndexKind, lanes_of
from .gather_loop import Gather
from .gather_rows import row_walk
from .gather_walk import GROUPED, ONCE, GatherWalk, Nest, nest_of, power_of_two
from .ir import LINE_BYTES
from .jit import compiled, moving_function, runs_alone
from .worker_pool import share

__all__ = ["compiled_gather", "gather_kernel", "gather_walk"]

_LARGEST_SPAN: Final = 2**30
"""Bytes of memory from which elements are gathered at offsets of 32 bits: half of those that such offsets reach, so
that rows ahead of the last one do not wrap round."""


def gather_kernel(problem: GatherProblem) -> CpuKernel | None:
    """The compiled loops of a problem; None if there is nothing to move."""
    walk = gather_walk(problem, problem.mode)
    if walk is None:
        return None
    kernel, element = walk.kernel, problem.dense.element
    run, group = kernel.run, kernel.group if isinstance(kernel, Gather) else kernel.lanes
    is_long = isinstance(kernel, Gather) and kernel.long
    if isinstance(kernel, GatherByRow):
        kind, words = "elements", f"{group} elements of {run} B {kernel.words}"
    elif isinstance(kernel, GatherElements):
        kind, words = "elements", f"{group} elements of {run} B loaded one by one"
    elif group > 1:
        kind, words = "grouped_runs", f"{group} runs of {run} B put together to a vector"
    elif is_long:
        kind, words = "long_runs", f"runs in steps of {run} B"
    else:
        kind, words = "runs", f"runs of {run} B, a step each"
    alone = f"an index stands for {run} B"
    why = "" if is_long else alone
    read, written = Width(min(LINE_BYTES, run), why), Width(kernel.store_bytes, why)
    return CpuKernel(
        f"{'scatter' if problem.scatters else 'gather'}_{kind}_{element}x{written.nbytes}B_{problem.index.element}",
        f"compiled {words}, indices resolved {kernel.lanes} at once"
        + (", past the caches" if kernel.streaming else ""),
        read,
        written,
        items=walk.items,
        shared_bytes=None if walk.in_order else policy().gather.shared_bytes,
        walks=(walk,),
    )


def compiled_gather(plan: CpuPlan) -> DirectLaunch | None:
    """Compile or load a plan's kernel; None where the plan has none."""
    chosen, problem = plan.compiled, plan.problem
    if chosen is None:
        return None
    walk: GatherWalk = chosen.walks[0]
    loop = compiled(walk.kernel.text)
    items, nbytes, gathers = walk.items, plan.bytes_moved, not problem.scatters
    is_shared = chosen.shared_bytes is not None and nbytes >= chosen.shared_bytes and items > 1
    sharing, shared, clock = policy().sharing, SHARED, perf_counter_ns
    most = 2 + nbytes // sharing.thread_bytes
    brief, gap, wakes = nbytes < sharing.brief_bytes, sharing.waking_gap_ns, nbytes >= sharing.waking_bytes
    offsets = walk.dense_offset, walk.indexed_offset, walk.index_offset

    def with_parameters() -> tuple[_Parameters, DirectLaunch]:
        """Parameters that no other call uses at a time, and the loop with them."""
        parameters = _parameters(walk)
        place = ctypes.addressof(parameters)
        alone = moving_function(loop, place, items, offsets, held=parameters, keeps_lock=brief, target_first=gathers)
        return parameters, alone

    if brief and not is_shared and runs_alone():
        return with_parameters()[1]
    unused: list[tuple[_Parameters, DirectLaunch]] = []

    def move(dense: int, indexed: int, indices: int) -> None:
        try:
            used = unused.pop()
        except IndexError:  # calls at the same time have parameters of their own
            used = with_parameters()
        parameters, alone = used
        if is_shared and shared.several and (wakes or clock() - shared.ended < gap):  # as `sharing_function` decides
            ours, theirs, parameters[0] = map(add, (dense, indexed, indices), offsets)
            reads, writes = (theirs, ours) if gathers else (ours, theirs)
            share(loop, reads, writes, ctypes.addressof(parameters), items, most)
        else:
            alone(dense, indexed, indices)
            if is_shared:
                shared.ended = clock()
        unused.append(used)

    return move


_Parameters = ctypes.Array[ctypes.c_uint64]
"""The parameters of one call at a time."""


def _parameters(walk: GatherWalk) -> _Parameters:
    """New parameters, in which the address of the indices comes first."""
    words = [0, *(field % 2**64 for field in walk.parameters)]
    return (ctypes.c_uint64 * len(words))(*words)


def gather_walk(problem: GatherProblem, mode: Mode) -> GatherWalk | None:
    """Choose the kernel of a problem; None if there is nothing to move."""
    if 0 in problem.sizes:
        return None
    itemsize, index_bytes = problem.dense.element.itemsize, problem.index.element.itemsize
    nest = nest_of(problem, itemsize, index_bytes)
    elements = row_walk(problem, mode, nest) or _elements_walk(problem, mode, nest)
    if elements is not None:
        return elements
    wanted = policy().gather.bytes_of_item(problem.element_count * itemsize, problem.bytes_moved)
    blocks = _scatter_blocks(nest, wanted) if problem.scatters else _blocks(nest, wanted)
    kernel = _kernel(problem, mode, nest, blocks[2])
    fields: list[int] = []
    items = prod(loop.size for loop in nest.outer)
    for size, strides, block in zip(
        (nest.run, nest.m.size, nest.b.size, nest.a.size),
        ((), nest.m.strides, nest.b.strides, nest.a.strides),
        blocks,
        strict=True,
    ):
        fields += [size, *strides, block, -(-size // block)]
        items *= fields[-1]
    for loop in reversed(nest.outer):
        fields += [loop.size, *loop.strides]
    for entry in problem.indexed_axes:
        fields += [entry.size, entry.stride * itemsize, entry.component * index_bytes]
    return GatherWalk(
        kernel,
        items,
        problem.scatters and not nest.items_differ,
        problem.dense_offset * itemsize,
        problem.indexed_offset * itemsize,
        problem.index_offset * index_bytes,
        tuple(fields),
    )


def _elements_walk(problem: GatherProblem, mode: Mode, nest: Nest) -> GatherWalk | None:
    """The kernel of single elements; None where rows of indices or results do not follow one another, or far away."""
    run, index_bytes = nest.run, problem.index.element.itemsize
    if problem.scatters or run not in GROUPED or nest.m is not ONCE or len(problem.indexed_axes) > 1:
        return None
    inner = (nest.b, nest.a) if nest.b.strides[0] == run else (nest.a, nest.b)
    width, rows = inner
    follows = rows.size == 1 or (rows.strides[0], rows.strides[2]) == (width.size * run, width.size * index_bytes)
    if (width.strides[0], width.strides[2]) != (run, index_bytes) or not follows:
        return None
    (axis,), layout = problem.indexed_axes, problem.indexed.layout
    itemsize = problem.indexed.element.itemsize
    span, total = layout.span * itemsize, width.size * rows.size
    if span > _LARGEST_SPAN or total < LINE_BYTES // run:
        return None
    kernel = GatherElements(
        IndexKind(index_bytes, problem.index.element.kind == "i", packed=True, mode=mode),
        len(nest.outer),
        run,
        adjacent=axis.stride * itemsize == run,
    )
    wanted = policy().gather.bytes_of_item(problem.element_count * itemsize, problem.bytes_moved) // run
    block = min(-(-wanted // kernel.lanes) * kernel.lanes, total)
    fields = [total, width.size, width.strides[1], rows.strides[1], axis.size, axis.stride * itemsize]
    fields += [block, -(-total // block)]
    items = fields[-1] * prod(loop.size for loop in nest.outer)
    for loop in reversed(nest.outer):
        fields += [loop.size, *loop.strides]
    return GatherWalk(
        kernel,
        items,
        in_order=False,
        dense_offset=problem.dense_offset * itemsize,
        indexed_offset=problem.indexed_offset * itemsize,
        index_offset=problem.index_offset * index_bytes,
        parameters=tuple(fields),
    )


def _blocks(nest: Nest, wanted: int) -> tuple[int, int, int, int]:
    """The block of one item along the run (bytes), `m`, `b` and `a`, for about `wanted` bytes."""
    run = min(nest.run, max(wanted, policy().gather.longest_step))
    m = max(1, min(nest.m.size, wanted // run))
    whole = nest.a.size if nest.a.size < policy().gather.short_loop else 1
    b = max(1, min(nest.b.size, wanted // (run * m * whole)))
    if nest.group > 1 and b < nest.b.size:
        # Whole chunks, so that none is shorter than a group.
        chunk = policy().gather.chunk_indices
        b = min(-(-b // chunk) * chunk, nest.b.size)
    return run, m, b, max(whole, min(nest.a.size, wanted // (run * m * b)))


def _scatter_blocks(nest: Nest, wanted: int) -> tuple[int, int, int, int]:
    """The blocks of a scatter whose last duplicate wins: all of `b` is in one item."""
    longest, parts = policy().gather.longest_step, policy().gather.parts_of_run if get_num_threads() > 1 else 1
    run = nest.run if nest.run <= longest else max(longest, -(-nest.run // parts))
    if not nest.items_differ:
        return run, nest.m.size, nest.b.size, nest.a.size
    return run, nest.m.size, nest.b.size, max(1, min(nest.a.size, wanted // (run * nest.m.size * nest.b.size)))


def _kernel(problem: GatherProblem, mode: Mode, nest: Nest, b_block: int) -> Gather:
    """Choose the kernel of the loops."""
    run, scatters = nest.run, problem.scatters
    group = 1 if scatters else nest.group
    result_bytes, limits = problem.element_count * problem.dense.element.itemsize, policy().gather
    streamed = limits.streamed_bytes * (limits.streamed_shared if get_num_threads() > 1 else 1)
    return Gather(
        IndexKind(
            problem.index.element.itemsize,
            problem.index.element.kind == "i",
            nest.b.strides[2] == problem.index.element.itemsize,
            mode,
        ),
        components=len(problem.indexed_axes),
        rank=len(nest.outer),
        lanes=lanes_of(b_block),
        follows=scatters or nest.a.strides[2] != 0,
        deep=nest.m is not ONCE,
        run=power_of_two(min(run, policy().gather.longest_step)),
        long=run & (run - 1) != 0 or run > policy().gather.longest_step,
        packed=nest.b.strides[0] == run,
        group=group,
        lines_ahead=0
        if scatters
        else _lines_ahead(run, problem.indexed.layout.span * problem.indexed.element.itemsize),
        streaming=not scatters and result_bytes >= streamed and group * run >= LINE_BYTES,
        scatters=scatters,
    )


def _lines_ahead(run: int, span: int) -> int:
    """Cache lines of a `run` to prefetch, in a tensor that spans `span` bytes."""
    if span < policy().gather.far_bytes:
        return 0
    return power_of_two(max(1, min(policy().gather.most_lines_ahead, run // LINE_BYTES)))
