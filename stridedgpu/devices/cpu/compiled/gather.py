"""Plan and run gathers and scatters on compiled loops: kernel, parameters and threads."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from math import prod
from operator import add
from typing import Final

from stridedgpu.devices.cpu.native.calls import CompiledFunction, moving_function, runs_alone
from stridedgpu.devices.cpu.native.gather import gather_loop
from stridedgpu.devices.cpu.native.pool import run_shared
from stridedgpu.devices.cpu.native.registers import LINE_BYTES
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.thread_count import SHARED, get_num_threads
from stridedgpu.devices.interface import DirectLaunch
from stridedgpu.problems.device_plan import Width
from stridedgpu.problems.gather_problem import GatherProblem
from stridedgpu.problems.index_rule import Mode
from stridedgpu.values.strides import power_of_two

from .gather_elements import GatherElements
from .gather_indices import IndexKind, lanes_of
from .gather_loop import Gather
from .gather_registers import Rows, RowsInRegisters, plan_rows
from .jit import loop_of

_WORDS: Final = (1, 2, 4, 8)
"""Bytes of a run that is one element, loaded or stored by itself."""

_LARGEST_SPAN: Final = 2**30
"""Bytes of memory from which elements are gathered at offsets of 32 bits: half of those that such offsets reach, so
that rows ahead of the last one do not wrap round."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """One loop: its size, and its strides on the dense side, on the indexed side and in the indices, in bytes."""

    size: int
    strides: tuple[int, int, int]


_ONCE: Final = _Loop(1, (0, 0, 0))


@dataclass(frozen=True, slots=True)
class _Nest:
    """The bytes of a run, and the loops of a kernel as `gather_loop` names them."""

    run: int
    m: _Loop
    b: _Loop
    a: _Loop
    outer: tuple[_Loop, ...]

    @property
    def items_differ(self) -> bool:
        """Whether every step of the loops around `b` addresses different elements of the indexed side."""
        return all(loop.strides[1] for loop in (*self.outer, self.a) if loop.size > 1)


@dataclass(frozen=True, slots=True)
class GatherCall:
    """A kernel with its parameters, except the address of the indices, which comes first; offsets are in bytes.

    `in_order`: items may write the same element and the last one wins, so they run one after another.
    """

    kernel: Gather | GatherElements | RowsInRegisters
    items: int
    in_order: bool
    dense_offset: int
    indexed_offset: int
    index_offset: int
    parameters: tuple[int, ...]

    @property
    def is_native(self) -> bool:
        """Whether there is a native library, which has all loops."""
        return policy().native_level is not None

    def loop(self) -> tuple[CompiledFunction, tuple[int, ...]]:
        """The loop, and its parameters behind the address of the indices."""
        level = policy().native_level
        if level is not None:
            return gather_loop(self, level)
        return loop_of(self.kernel), self.parameters


def gather_kernel(problem: GatherProblem) -> CpuKernel | None:
    """The compiled loops of a problem; None if there is nothing to move."""
    call = plan_gather(problem, problem.mode)
    if call is None:
        return None
    kernel, element, run, why = call.kernel, problem.dense.element, call.kernel.run, ""
    if not isinstance(kernel, Gather):
        kind, words = "elements", kernel.words
    elif kernel.long:
        kind, words = "long_runs", f"runs in steps of {run} B"
    else:
        kind, words = "runs", f"runs of {run} B, a step each"
    if kind != "long_runs":
        why = f"an index stands for {run} B"
    read, written = Width(min(LINE_BYTES, run), why), Width(kernel.store_bytes, why)
    return CpuKernel(
        f"{'scatter' if problem.scatters else 'gather'}_{kind}_{element}x{written.nbytes}B_{problem.index.element}",
        f"compiled {words}, indices resolved {kernel.lanes} at once",
        read,
        written,
        items=call.items,
        shared_bytes=None if call.in_order else policy().gather.shared_bytes,
        calls=(call,),
        is_native=call.is_native,
    )


def compiled_gather(plan: CpuPlan[GatherProblem]) -> DirectLaunch | None:
    """Compile or load a plan's kernel; None where the plan has none."""
    chosen, problem = plan.compiled, plan.problem
    if chosen is None:
        return None
    call: GatherCall = chosen.calls[0]
    loop, fields = call.loop()
    items, nbytes, gathers = call.items, plan.bytes_moved, not problem.scatters
    is_shared = chosen.shared_bytes is not None and nbytes >= chosen.shared_bytes and items > 1 and SHARED.several
    brief = nbytes < policy().sharing.brief_bytes
    offsets = call.dense_offset, call.indexed_offset, call.index_offset

    def with_parameters() -> tuple[ctypes.Array[ctypes.c_int64], DirectLaunch]:
        """Parameters that no other call uses at a time, the indices' address first, and the loop with them."""
        parameters = (ctypes.c_int64 * (1 + len(fields)))(0, *fields)
        place = ctypes.addressof(parameters)
        alone = moving_function(loop, place, items, offsets, owner=parameters, keeps_lock=brief, target_first=gathers)
        return parameters, alone

    if brief and not is_shared and runs_alone():
        return with_parameters()[1]
    unused: list[tuple[ctypes.Array[ctypes.c_int64], DirectLaunch]] = []

    def move(dense: int, indexed: int, indices: int) -> None:
        try:
            used = unused.pop()
        except IndexError:  # calls at the same time have parameters of their own
            used = with_parameters()
        parameters, alone = used
        if is_shared:
            dense, indexed, parameters[0] = map(add, (dense, indexed, indices), offsets)
            reads, writes = (indexed, dense) if gathers else (dense, indexed)
            run_shared(loop, reads, writes, ctypes.addressof(parameters), items, nbytes=nbytes)
        else:
            alone(dense, indexed, indices)
        unused.append(used)

    return move


def plan_gather(problem: GatherProblem, mode: Mode) -> GatherCall | None:
    """Choose the kernel of a problem; None if there is nothing to move."""
    if 0 in problem.sizes:
        return None
    nest = _nest_of(problem, problem.dense.element.itemsize, problem.index.element.itemsize)
    return _of_elements(problem, mode, nest) or _of_runs(problem, mode, nest)


def _call(
    problem: GatherProblem,
    nest: _Nest,
    kernel: Gather | GatherElements | RowsInRegisters,
    items: int,
    fields: tuple[int, ...],
    last: tuple[int, ...] = (),
) -> GatherCall:
    """A kernel with so many items in each place of the outer loops, whose parameters are between the kernel's own."""
    itemsize = problem.dense.element.itemsize
    return GatherCall(
        kernel,
        items * prod(loop.size for loop in nest.outer),
        problem.scatters and not nest.items_differ,
        problem.dense_offset * itemsize,
        problem.indexed_offset * itemsize,
        problem.index_offset * problem.index.element.itemsize,
        (*fields, *(field for loop in reversed(nest.outer) for field in (loop.size, *loop.strides)), *last),
    )


def _of_elements(problem: GatherProblem, mode: Mode, nest: _Nest) -> GatherCall | None:
    """A kernel of single elements; None where an index stands for more, or others do better."""
    if nest.m is not _ONCE or len(problem.indexed_axes) > 1:
        return None
    width, rows = (nest.b, nest.a) if nest.b.strides[0] == nest.run else (nest.a, nest.b)
    kind = IndexKind(problem.index.element.itemsize, problem.index.element.kind == "i", packed=True, mode=mode)
    if (width.strides[0], width.strides[2]) != (nest.run, kind.nbytes):
        return None
    if problem.scatters:
        in_turn = nest.items_differ and width is nest.b
        return _spanning(problem, kind, nest, (width, rows)) if in_turn and nest.run in _WORDS else None
    if mode != "wrap" and width.strides[1] == 0:
        call = _of_rows(problem, kind, nest, (width, rows))
        if call is not None:
            return call
    return _spanning(problem, kind, nest, (width, rows)) if nest.run in _WORDS else None


def _wanted(problem: GatherProblem) -> int:
    """Bytes of an item, about."""
    return policy().gather.bytes_of_item(problem.element_count * problem.dense.element.itemsize, problem.bytes_moved)


def _of_rows(problem: GatherProblem, kind: IndexKind, nest: _Nest, loops: tuple[_Loop, _Loop]) -> GatherCall | None:
    """Rows in registers."""
    (entry,), itemsize, (width, loop) = problem.indexed_axes, problem.dense.element.itemsize, loops
    # An index of a longer run stands for several elements.
    unit, parts = (nest.run, 1) if nest.run in _WORDS else (itemsize, nest.run // itemsize)
    if unit not in _WORDS or entry.stride * itemsize != nest.run:
        return None
    dense, indexed, index = loop.strides
    repeated = loop.size > 1 and not index
    follow = dense == width.size * nest.run and (repeated or index == width.size * kind.nbytes)
    step = indexed if follow and indexed >= 0 and indexed % unit == 0 else None
    sizes = width.size * parts, entry.size * parts
    rows = Rows(unit, *sizes, loop.size, step, loop.strides, repeated, parts)
    plan = plan_rows(rows, kind, len(nest.outer), _wanted(problem))
    if plan is None:
        return None
    kernel, items, fields, last = plan
    return _call(problem, nest, kernel, items, (entry.size, *fields), last)


def _spanning(problem: GatherProblem, kind: IndexKind, nest: _Nest, loops: tuple[_Loop, _Loop]) -> GatherCall | None:
    """Vectors of indices across rows; None where these do not follow one another, for few elements or far ones."""
    (entry,), itemsize, run, (width, rows) = problem.indexed_axes, problem.dense.element.itemsize, nest.run, loops
    follow = rows.size == 1 or (rows.strides[0], rows.strides[2]) == (width.size * run, width.size * kind.nbytes)
    total, stride = width.size * rows.size, entry.stride * itemsize
    if not follow or problem.indexed.layout.span * itemsize > _LARGEST_SPAN or total < LINE_BYTES // run:
        return None
    kernel = GatherElements(kind, len(nest.outer), run, stride == run, problem.scatters)
    # Of several updates of one element the last remains: an item of a scatter has whole rows.
    unit = width.size if problem.scatters else kernel.lanes
    block = min(max(1, -(-_wanted(problem) // run // unit)) * unit, total)
    blocks = -(-total // block)
    fields = total, width.size, width.strides[1], rows.strides[1], entry.size, stride, block, blocks
    return _call(problem, nest, kernel, blocks, fields)


def _of_runs(problem: GatherProblem, mode: Mode, nest: _Nest) -> GatherCall:
    """Runs of bytes, of any length and in any layout."""
    itemsize, index_bytes, wanted = problem.dense.element.itemsize, problem.index.element.itemsize, _wanted(problem)
    blocks = _scatter_blocks(nest, wanted) if problem.scatters else _blocks(nest, wanted)
    fields: list[int] = []
    items = 1
    for size, strides, block in zip(
        (nest.run, nest.m.size, nest.b.size, nest.a.size),
        ((), nest.m.strides, nest.b.strides, nest.a.strides),
        blocks,
        strict=True,
    ):
        fields += [size, *strides, block, -(-size // block)]
        items *= fields[-1]
    axes = [(entry.size, entry.stride * itemsize, entry.component * index_bytes) for entry in problem.indexed_axes]
    last = tuple(field for axis in axes for field in axis)
    return _call(problem, nest, _kernel(problem, mode, nest, blocks[2]), items, tuple(fields), last)


def _blocks(nest: _Nest, wanted: int) -> tuple[int, int, int, int]:
    """The block of one item along the run (bytes), `m`, `b` and `a`, for about `wanted` bytes."""
    run = min(nest.run, max(wanted, policy().gather.longest_step))
    m = max(1, min(nest.m.size, wanted // run))
    b = max(1, min(nest.b.size, wanted // (run * m)))
    return run, m, b, max(1, min(nest.a.size, wanted // (run * m * b)))


def _scatter_blocks(nest: _Nest, wanted: int) -> tuple[int, int, int, int]:
    """The blocks of a scatter whose last duplicate wins: all of `b` is in one item."""
    longest, parts = policy().gather.longest_step, policy().gather.parts_of_run if get_num_threads() > 1 else 1
    run = nest.run if nest.run <= longest else max(longest, -(-nest.run // parts))
    if not nest.items_differ:
        return run, nest.m.size, nest.b.size, nest.a.size
    return run, nest.m.size, nest.b.size, max(1, min(nest.a.size, wanted // (run * nest.m.size * nest.b.size)))


def _kernel(problem: GatherProblem, mode: Mode, nest: _Nest, b_block: int) -> Gather:
    run, longest = nest.run, policy().gather.longest_step
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
        follows=problem.scatters or nest.a.strides[2] != 0,
        deep=nest.m is not _ONCE,
        run=power_of_two(min(run, longest)),
        long=run & (run - 1) != 0 or run > longest,
        packed=nest.b.strides[0] == run,
        scatters=problem.scatters,
    )


def _nest_of(problem: GatherProblem, itemsize: int, index_bytes: int) -> _Nest:
    """Assign the problem's loops to the roles `run`, `m`, `b`, `a` and `outer`."""
    loops = [
        _Loop(size, (dense * itemsize, indexed * itemsize, index * index_bytes))
        for size, dense, indexed, index in zip(
            problem.sizes, problem.dense_strides, problem.indexed_strides, problem.index_strides, strict=True
        )
    ]
    stop = len(loops) - problem.row_axes
    followed, rows = loops[:stop], loops[stop:]
    run = itemsize
    if rows and rows[-1].strides[:2] == (itemsize, itemsize):
        run *= rows.pop().size
    m, b, a = (part.pop() if part else _ONCE for part in (rows, followed, followed))
    # The remaining loops of an index's row become the outermost ones. Their elements differ, so the order is kept.
    return _Nest(run, m, b, a, (*rows, *followed))
