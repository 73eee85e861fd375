"""Gathers and scatters on the native library: kernels, their parameters and threads.

One or two functions of the library do what a kernel needs: one resolves indices of a type and a mode, the other moves
what they select.

    rows of 100 bytes by int32, clipped    "resolve" int32, clipped        "runs" of two times 64 bytes that overlap
    elements of float32 by int64           "elements" of 4 bytes by int64, checked
    the same of rows of 100                "positions" of 4 bytes          "lookup" of 4 bytes in 4 pairs of registers

All kernels are drawn in `kernels/cpu/gather.hpp` and `gather_registers.hpp`. Gathers of vectors by one instruction are
not among them: they take as long as single loads on Sapphire Rapids, twice as long on Zen 4, and are slow wherever
gather data sampling is mitigated (CVE-2022-40982).
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from math import prod
from operator import add
from typing import ClassVar, Final

from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.target import NATIVE_LEVELS
from stridedgpu.devices.cpu.thread_count import SHARED, get_num_threads
from stridedgpu.devices.interface import DirectLaunch
from stridedgpu.problems.device_plan import Width
from stridedgpu.problems.gather_problem import GatherProblem
from stridedgpu.problems.index_rule import Mode
from stridedgpu.values.strides import power_of_two

from .calls import NativeFunction, moving_function, runs_alone
from .library import function
from .pool import run_shared
from .registers import LINE_BYTES

_LONGEST_STEP: Final = 256
"""Bytes of one step along a long run: four cache lines. With one: 0.93, and 0.78 at worst."""

_PARTS_OF_RUN: Final = 4
"""Parts of a long scattered run, which threads write independently; one thread takes 0.8 of the time without."""

_WORDS: Final = (1, 2, 4, 8)
"""Bytes of a run that is one element, loaded or stored by itself."""

_EXACT: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Bytes of the runs that are a constant of their function, in the order of the library's table."""

LARGEST_SPAN: Final = 1 << 30
"""Bytes of memory up to which offsets have 32 bits: half of those that such offsets reach, so that rows ahead of the
last one do not wrap round."""

_NARROW: Final = 128
"""Elements of one byte up to which a position in registers is one byte, too."""

_MOST_POSITIONS: Final = 1024
"""Positions in registers that are resolved together."""

_TOGETHER_BYTES: Final = 2048
"""Bytes of the elements of groups that are resolved together. With four times as many, int64 in 14 MB took 1.6 times
as long: rows are read in bursts between those of indices."""


@dataclass(frozen=True, slots=True)
class IndexKind:
    """The storage of indices, and the mode for those out of range."""

    nbytes: int
    signed: bool
    mode: Mode

    @classmethod
    def of(cls, problem: GatherProblem, mode: Mode) -> IndexKind:
        """The kind of a problem's indices."""
        element = problem.index.element
        return cls(element.itemsize, element.kind == "i", mode)

    @property
    def type(self) -> int:
        """The place of the type in the library's tables: int32, int64, uint32, uint64."""
        return (self.nbytes == 8) + 2 * (not self.signed)

    @property
    def rule(self) -> int:
        """The place of the mode: checked, clipped, wrapped."""
        return {"clip": 1, "wrap": 2}.get(self.mode, 0)

    def resolving(self, level: str, *, small: bool) -> int:
        """The function that resolves chunks of indices; `small`: for axes whose offsets need 32 bits."""
        return function(level, "resolve", (self.type * 3 + self.rule) * 2 + small)


def are_small(axes: tuple[int, ...]) -> bool:
    """Whether 32 bits are enough for axes, of which each has its size, its stride in bytes and a third number."""
    return all(size <= 1 << 31 for size in axes[::3]) and all(0 <= stride < 1 << 32 for stride in axes[1::3])


def moving_elements(level: str, index: IndexKind, run: int, *, scatters: bool) -> int:
    """The function that moves single elements of so many bytes."""
    size = run.bit_length() - 1
    # Checked indices have the same bits with a sign and without.
    kind = 2 + index.type if index.mode == "clip" else index.type % 2
    return function(level, "elements", 24 + 2 * size + kind if scatters else 6 * size + kind)


def _moving_runs(level: str, run: int, *, scatters: bool) -> int:
    """The function that moves runs of so many bytes.

    A scattered line is two halves: in the last-level cache, lines of AVX-512 took 2.4 times as long.
    """
    if run in _EXACT and not (scatters and run == LINE_BYTES):
        place = _EXACT.index(run)
    elif run <= 2 * LINE_BYTES:
        place = 9 + (run - 1).bit_length() - 2
    else:
        place = 15 if run <= 4 * LINE_BYTES else 16
    return function(level, "runs", place + 17 * scatters)


@dataclass(frozen=True, slots=True)
class GatherRuns:
    """A kernel over runs of `nbytes`, moved in blocks of `block`, by tuples of indices in any layout.

    `small`: offsets along every axis need 32 bits. `scatters`: the dense side is read and the indexed side written.
    """

    loop: ClassVar[str] = "gather"
    lanes: ClassVar[int] = 16

    index: IndexKind
    nbytes: int
    block: int
    small: bool
    scatters: bool

    @property
    def run(self) -> int:
        """Bytes of one step along a run."""
        return power_of_two(min(self.nbytes, _LONGEST_STEP))

    @property
    def long(self) -> bool:
        """Whether a run takes several steps."""
        return self.nbytes not in _EXACT

    @property
    def store_bytes(self) -> int:
        """Bytes of one store."""
        return min(LINE_BYTES, self.run)

    @property
    def words(self) -> str:
        """How runs are moved."""
        return f"runs in steps of {self.run} B" if self.long else f"runs of {self.run} B, a step each"

    def functions(self, level: str) -> tuple[int, ...]:
        """The functions that resolve indices, move runs, and move elements."""
        resolve = self.index.resolving(level, small=self.small)
        return resolve, _moving_runs(level, self.block, scatters=self.scatters), 0


@dataclass(frozen=True, slots=True)
class GatherElements:
    """A kernel over elements of `run` bytes at offsets of 32 bits, with vectors of indices across rows."""

    loop: ClassVar[str] = "gather"

    index: IndexKind
    run: int
    small: bool
    scatters: bool = False

    @property
    def lanes(self) -> int:
        """Elements of a step."""
        return 64 if _has_best_level() else 16

    @property
    def store_bytes(self) -> int:
        """Bytes of one store."""
        return self.run

    @property
    def words(self) -> str:
        """How elements are moved."""
        return f"{self.lanes} elements of {self.run} B {'stored' if self.scatters else 'loaded'} one by one"

    def functions(self, level: str) -> tuple[int, ...]:
        """The functions that resolve indices, move runs, and move elements."""
        if self.index.mode == "wrap" or (self.scatters and self.index.mode == "clip"):
            resolve = self.index.resolving(level, small=self.small)
            return resolve, _moving_runs(level, self.run, scatters=self.scatters), 0
        return 0, 0, moving_elements(level, self.index, self.run, scatters=self.scatters)


@dataclass(frozen=True, slots=True)
class RowsInRegisters:
    """A kernel over elements of `run` bytes, looked up in so many `registers`.

    `grouped`: the registers hold several rows. `repeated`: all rows have the same indices, up to `_MOST_POSITIONS` in a
    group, which are resolved once for each item. An index stands for so many `parts`, elements that follow one another.
    """

    loop: ClassVar[str] = "gather in registers"
    scatters: ClassVar[bool] = False
    store_bytes: ClassVar[int] = LINE_BYTES

    index: IndexKind
    run: int
    registers: int
    grouped: bool
    repeated: bool = False
    parts: int = 1

    @property
    def words(self) -> str:
        """How elements are gathered."""
        return f"{self.lanes} elements of {self.run} B permuted from {self.registers} registers"

    @property
    def position_bytes(self) -> int:
        """Bytes of a position among the elements of the registers."""
        return 2 if self.run == 1 and self.registers * LINE_BYTES > _NARROW else self.run

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return LINE_BYTES // self.run

    def functions(self, level: str) -> tuple[int, ...]:
        """The functions that resolve indices to positions, and look elements up."""
        has_upper = self.position_bytes > self.run
        place = 4 if has_upper else self.position_bytes.bit_length() - 1
        looked_up = 4 if has_upper else self.run.bit_length() - 1
        pairs = 0 if self.registers == 1 else -(-self.registers // 2)
        return (
            function(level, "positions", (self.index.type * 2 + self.index.rule) * 5 + place),
            function(level, "lookup", looked_up * 9 + pairs),
        )


_Kernel = GatherRuns | GatherElements | RowsInRegisters


def _has_best_level() -> bool:
    """Whether the library's best level for x86-64 serves the policy's processor: it has 64 bytes in each register."""
    return policy().target.features >= NATIVE_LEVELS["v4"]


@dataclass(frozen=True, slots=True)
class _Loop:
    """One loop: its size, and its strides on the dense side, on the indexed side and in the indices, in bytes."""

    size: int
    strides: tuple[int, int, int]

    def blocks(self, block: int) -> tuple[int, ...]:
        """The library's parameters of a loop that is done in blocks: size, strides, a block, the number of blocks."""
        return self.size, *self.strides, block, -(-self.size // block)


_ONCE: Final = _Loop(1, (0, 0, 0))


@dataclass(frozen=True, slots=True)
class _Nest:
    """The bytes of a run, and the loops of a kernel as `kernels/cpu/gather.hpp` names them."""

    run: int
    m: _Loop
    b: _Loop
    a: _Loop
    outer: tuple[_Loop, ...]

    @property
    def items_differ(self) -> bool:
        """Whether every step of the loops around `b` addresses different elements of the indexed side."""
        return all(loop.strides[1] for loop in (*self.outer, self.a) if loop.size > 1)

    @property
    def around(self) -> tuple[int, ...]:
        """The library's parameters of the outer loops, innermost first."""
        return tuple(field for loop in reversed(self.outer) for field in (loop.size, *loop.strides))


@dataclass(frozen=True, slots=True)
class GatherCall:
    """A kernel with its parameters behind the addresses of the indices and of functions; offsets are in bytes.

    `in_order`: items may write the same element and the last one wins, so they run one after another.
    """

    kernel: _Kernel
    items: int
    in_order: bool
    dense_offset: int
    indexed_offset: int
    index_offset: int
    parameters: tuple[int, ...]

    def loop(self) -> tuple[NativeFunction, tuple[int, ...]]:
        """The loop on this processor's level of the library, and its parameters behind the address of the indices."""
        level, kernel = policy().native_level, self.kernel
        assert level is not None, "the library has loops for this processor"
        return NativeFunction(function(level, kernel.loop)), (*kernel.functions(level), *self.parameters)


def gather_kernel(problem: GatherProblem) -> CpuKernel | None:
    """The loops of a problem; None if there is nothing to move."""
    call = plan_gather(problem, problem.mode)
    if call is None:
        return None
    kernel, element = call.kernel, problem.dense.element
    is_long = isinstance(kernel, GatherRuns) and kernel.long
    kind = "elements" if not isinstance(kernel, GatherRuns) else "long_runs" if is_long else "runs"
    why = "" if is_long else f"an index stands for {kernel.run} B"
    read, written = Width(min(LINE_BYTES, kernel.run), why), Width(kernel.store_bytes, why)
    return CpuKernel(
        f"{'scatter' if problem.scatters else 'gather'}_{kind}_{element}x{written.nbytes}B_{problem.index.element}",
        f"native {kernel.words}, indices resolved {kernel.lanes} at once",
        read,
        written,
        items=call.items,
        shared_bytes=None if call.in_order else policy().gather.shared_bytes,
        calls=(call,),
    )


def gather_loops(plan: CpuPlan[GatherProblem]) -> DirectLaunch:
    """A plan's loops as a function of the addresses of the dense side, the indexed side and the indices."""
    chosen, problem = plan.native, plan.problem
    assert chosen is not None, "the plan has a native loop"
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


def _call(problem: GatherProblem, nest: _Nest, kernel: _Kernel, items: int, fields: tuple[int, ...]) -> GatherCall:
    """A kernel with so many items in each place of the outer loops."""
    itemsize = problem.dense.element.itemsize
    return GatherCall(
        kernel,
        items * prod(loop.size for loop in nest.outer),
        problem.scatters and not nest.items_differ,
        problem.dense_offset * itemsize,
        problem.indexed_offset * itemsize,
        problem.index_offset * problem.index.element.itemsize,
        fields,
    )


def _of_elements(problem: GatherProblem, mode: Mode, nest: _Nest) -> GatherCall | None:
    """A kernel of single elements; None where an index stands for more, or others do better."""
    if nest.m is not _ONCE or len(problem.indexed_axes) > 1:
        return None
    width, rows = (nest.b, nest.a) if nest.b.strides[0] == nest.run else (nest.a, nest.b)
    kind = IndexKind.of(problem, mode)
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


def _spanning(problem: GatherProblem, kind: IndexKind, nest: _Nest, loops: tuple[_Loop, _Loop]) -> GatherCall | None:
    """Vectors of indices across rows; None where these do not follow one another, for few elements or far ones."""
    (entry,), itemsize, run, (width, rows) = problem.indexed_axes, problem.dense.element.itemsize, nest.run, loops
    follow = rows.size == 1 or (rows.strides[0], rows.strides[2]) == (width.size * run, width.size * kind.nbytes)
    total, axis = width.size * rows.size, (entry.size, entry.stride * itemsize, 0)
    if not follow or problem.indexed.layout.span * itemsize > LARGEST_SPAN or total < LINE_BYTES // run:
        return None
    kernel = GatherElements(kind, run, are_small(axis), problem.scatters)
    # Of several updates of one element the last remains: an item of a scatter has whole rows.
    unit = width.size if problem.scatters else kernel.lanes
    block = min(max(1, -(-_wanted(problem) // run // unit)) * unit, total)
    b = _Loop(total, (run, width.strides[1], kind.nbytes)).blocks(block)
    first = width.size, rows.strides[1], 1, int(problem.scatters), 1, len(nest.outer), run, run, 1
    fields = *first, *_ONCE.blocks(1), *b, *_ONCE.blocks(1), *nest.around, *axis
    return _call(problem, nest, kernel, b[-1], fields)


def _of_runs(problem: GatherProblem, mode: Mode, nest: _Nest) -> GatherCall:
    """Runs of bytes, of any length and in any layout."""
    itemsize, index_bytes, wanted = problem.dense.element.itemsize, problem.index.element.itemsize, _wanted(problem)
    run, m, b, a = _scatter_blocks(nest, wanted) if problem.scatters else _blocks(nest, wanted)
    axes = [(entry.size, entry.stride * itemsize, entry.component * index_bytes) for entry in problem.indexed_axes]
    last = tuple(field for axis in axes for field in axis)
    runs, loops = -(-nest.run // run), (nest.m.blocks(m), nest.b.blocks(b), nest.a.blocks(a))
    follows = problem.scatters or nest.a.strides[2] != 0
    first = nest.b.size, nest.a.strides[1], int(follows), int(problem.scatters), len(axes), len(nest.outer)
    kernel = GatherRuns(IndexKind.of(problem, mode), nest.run, run, are_small(last), problem.scatters)
    fields = *first, nest.run, run, runs, *(field for loop in loops for field in loop), *nest.around, *last
    return _call(problem, nest, kernel, runs * prod(loop[-1] for loop in loops), fields)


def _blocks(nest: _Nest, wanted: int) -> tuple[int, int, int, int]:
    """The block of one item along the run (bytes), `m`, `b` and `a`, for about `wanted` bytes."""
    run = min(nest.run, max(wanted, _LONGEST_STEP))
    m = max(1, min(nest.m.size, wanted // run))
    b = max(1, min(nest.b.size, wanted // (run * m)))
    return run, m, b, max(1, min(nest.a.size, wanted // (run * m * b)))


def _scatter_blocks(nest: _Nest, wanted: int) -> tuple[int, int, int, int]:
    """The blocks of a scatter whose last duplicate wins: all of `b` is in one item."""
    longest, parts = _LONGEST_STEP, _PARTS_OF_RUN if get_num_threads() > 1 else 1
    run = nest.run if nest.run <= longest else max(longest, -(-nest.run // parts))
    if not nest.items_differ:
        return run, nest.m.size, nest.b.size, nest.a.size
    return run, nest.m.size, nest.b.size, max(1, min(nest.a.size, wanted // (run * nest.m.size * nest.b.size)))


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


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of `width` indices each: the elements of `run` bytes that they select from are `size`, in each of `count`.

    `step` is the bytes from row to row; None where several rows cannot be looked up as one, since they do not follow
    one another on the dense side and in the indices. `repeated`: all rows have the same indices. An index stands for so
    many `parts`, elements that follow one another; width and size count these.
    """

    run: int
    width: int
    size: int
    count: int
    step: int | None
    repeated: bool
    parts: int


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows that are looked up together, in how many registers, and the instructions that an element then costs."""

    rows: int
    registers: int
    cost: float


def _of_rows(problem: GatherProblem, kind: IndexKind, nest: _Nest, loops: tuple[_Loop, _Loop]) -> GatherCall | None:
    """Rows in registers; None where single loads take less, or the processor's level has no such kernel."""
    (entry,), itemsize, (width, loop) = problem.indexed_axes, problem.dense.element.itemsize, loops
    # An index of a longer run stands for several elements.
    run, parts = (nest.run, 1) if nest.run in _WORDS else (itemsize, nest.run // itemsize)
    if not _has_best_level() or run not in _WORDS or entry.stride * itemsize != nest.run:
        return None
    dense, indexed, index = loop.strides
    repeated = loop.size > 1 and not index
    follow = dense == width.size * nest.run and (repeated or index == width.size * kind.nbytes)
    step = indexed if follow and indexed >= 0 and indexed % run == 0 else None
    rows = _Rows(run, width.size * parts, entry.size * parts, loop.size, step, repeated, parts)
    group = _group(rows)
    if not (repeated or parts == 1) or group is None or group.cost * parts > policy().gather.load_cost:
        return None
    count, grouped = group.rows * rows.width, group.rows > 1 or parts > 1
    repeated = repeated and count <= _MOST_POSITIONS
    if rows.repeated and grouped and not repeated:
        return None
    kernel = RowsInRegisters(kind, run, group.registers, grouped, repeated, parts)
    items, fields = _registers_fields(kernel, rows, group.rows, (entry.size, loop.strides), nest, _wanted(problem))
    return _call(problem, nest, kernel, items, fields)


def _registers_fields(
    kernel: RowsInRegisters, rows: _Rows, height: int, axis: tuple[int, tuple[int, int, int]], nest: _Nest, wanted: int
) -> tuple[int, tuple[int, ...]]:
    """The items in each place of the outer loops, and the library's parameters, for groups of `height` rows.

    An item has about `wanted` bytes. `axis`: elements of the indexed axis, and the strides of rows on all sides.
    """
    size, strides = axis
    run, count, step = rows.run, height * rows.width, (rows.step or 0) // rows.run if kernel.grouped else 0
    tail = (height - 1) * step + rows.size - kernel.lanes * (kernel.registers - 1)
    groups = -(-rows.count // height)
    block = max(kernel.lanes, min(wanted // run, count))
    many = max(1, min(wanted // run // count, groups))
    blocks, parts = -(-count // block), -(-groups // many)
    together = 1
    if not kernel.repeated and blocks == 1 and strides[2] * height == count * kernel.index.nbytes:
        together = max(1, min(_MOST_POSITIONS, _TOGETHER_BYTES // run) // count)
    places = _places(rows, height, step, kernel.position_bytes) * together if kernel.grouped else b""
    places += bytes(-len(places) % 8)
    return blocks * parts, (
        *(run, kernel.position_bytes, kernel.index.nbytes, kernel.registers, kernel.parts, int(kernel.repeated)),
        *(int(kernel.grouped), together, len(nest.outer)),
        *(size, tail, height, rows.count - height, *strides, count, block, blocks, many, parts),
        *nest.around,
        *([rows.width] if kernel.repeated else []),
        *(int.from_bytes(places[at : at + 8], "little", signed=True) for at in range(0, len(places), 8)),
    )


def _group(rows: _Rows) -> _Group | None:
    """The fewest rows whose elements fill a vector; None if there are too few, or the registers do not hold them."""
    lanes = LINE_BYTES // rows.run
    count = -(-lanes // rows.width)
    if count > (1 if rows.step is None else rows.count):
        return None
    registers = -(-((count - 1) * (rows.step or 0) + rows.size * rows.run) // LINE_BYTES)
    if registers > policy().gather.row_registers:
        return None
    elements, lookups = count * rows.width, -(-registers // 2)
    # Every lookup but one is followed by a selection, by one of the upper bits of the positions.
    one = 2 * lookups - 1 + (lookups - 1).bit_length()
    return _Group(count, registers, (registers + -(-elements // lanes) * one) / elements)


def _places(rows: _Rows, count: int, step: int, nbytes: int) -> bytes:
    """What is added to the position of each element of `count` rows, in so many bytes each."""
    numbers = ([row * step + part for part in range(rows.parts)] for row in range(count))
    of_rows = (b"".join(number.to_bytes(nbytes, "little") for number in row) for row in numbers)
    return b"".join(row * (rows.width // rows.parts) for row in of_rows)
