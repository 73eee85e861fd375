"""Plan gathers and scatters of elements row by row: from registers where rows fit, and how many rows together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Final

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.gather_problem import GatherProblem
from stridedgpu.planning.index_rule import Mode

from .gather_by_row import GatherByRow
from .gather_indices import MOST_POSITIONS, IndexKind
from .gather_row_loop import MOST_REPEATED, STEP, RowsInMemory, RowsInRegisters
from .gather_walk import GROUPED, ONCE, GatherWalk, Loop, Nest, power_of_two
from .ir import LINE_BYTES, permuting
from .scatter_row_loop import MOST_SCATTERED, SCATTERED, ScatterRows

__all__ = ["row_walk"]

_LEAST_STEPS: Final = 4
"""Vectors of a row from which on little of it is gathered twice, where the last vector overlaps the one before it."""

_MOST_STEPS: Final = 4
"""Vectors of a group of several rows: more pay off no better."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of `width` indices each: the elements of one run of `run` bytes that they select from, and their number.

    `stride` is the bytes from one of these to the next. `is_apart`: each row is selected from elements of its own.
    `step` is the bytes from row to row; None where several rows cannot be looked up as one, since they do not follow
    one another on the dense side and in the indices. `repeated`: all rows have the same indices.
    An index stands for so many `parts`, elements that follow one another; width and size count these.
    """

    run: int
    width: int
    size: int
    stride: int
    count: int
    is_apart: bool
    step: int | None
    repeated: bool
    parts: int


@dataclass(frozen=True, slots=True)
class _Choice:
    """A kernel, the rows of a group, the kernel's own number, and the places of the elements' rows, in words."""

    kernel: RowsInRegisters | RowsInMemory | ScatterRows
    rows: int
    own: int
    places: list[int]


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows that are looked up together, in how many registers, and the instructions that an element then costs."""

    rows: int
    registers: int
    cost: float


def row_walk(problem: GatherProblem, mode: Mode, nest: Nest) -> GatherWalk | None:
    """The kernel of rows; None where rows are too short or do not follow one another, and where another does better."""
    run, (entry, *others) = nest.run, problem.indexed_axes
    itemsize, index_bytes = problem.indexed.element.itemsize, problem.index.element.itemsize
    unit, parts = (run, 1) if run in GROUPED else (itemsize, run // itemsize)
    if unit not in GROUPED or nest.m is not ONCE or others or mode == "wrap":
        return None
    width, loop = (nest.b, nest.a) if nest.b.strides[0] == run else (nest.a, nest.b)
    dense, indexed, index = loop.strides
    if width.strides == (run, run, index_bytes) and not indexed and not problem.scatters and parts == 1:
        return _columns(problem, mode, nest, (width, loop))
    if width.strides != (run, 0, index_bytes) or (parts > 1 and entry.stride * itemsize != run):
        return None
    repeated = loop.size > 1 and not index
    follow = dense == width.size * run and (repeated or index == width.size * index_bytes)
    step = indexed if follow and indexed >= 0 and indexed % unit == 0 else None
    stride = entry.stride * itemsize // parts
    sizes = width.size * parts, entry.size * parts
    rows = _Rows(unit, *sizes, stride, loop.size, indexed != 0, step, repeated, parts)
    result_bytes = problem.element_count * itemsize
    kind = IndexKind(index_bytes, problem.index.element.kind == "i", packed=True, mode=mode)
    rank, span = len(nest.outer), problem.indexed.layout.span * itemsize
    if problem.scatters:
        chosen = _scattered(rows, kind, rank) if nest.items_differ and parts == 1 else None
    else:
        chosen = _in_registers(rows, kind, rank) or _in_memory(rows, kind, rank, span)
    if chosen is None:
        return None
    kernel, together = chosen.kernel, chosen.rows
    count, groups = together * rows.width, -(-rows.count // together)
    wanted = policy().gather.bytes_of_item(result_bytes, problem.bytes_moved) // unit
    block = count if problem.scatters else max(kernel.lanes, min(wanted, count))  # the last of two updates remains
    many = max(1, min(wanted // count, groups))
    blocks, parts = -(-count // block), -(-groups // many)
    groups_of_rows = chosen.own, together, rows.count - together, *loop.strides
    return _walk(problem, nest, kernel, groups_of_rows, (count, block, blocks, many, parts), chosen.places)


def _walk(
    problem: GatherProblem,
    nest: Nest,
    kernel: GatherByRow,
    rows: tuple[int, ...],
    blocks: tuple[int, int, int, int, int],
    places: Sequence[int] = (),
) -> GatherWalk:
    """A kernel with its parameters; see `gather_by_row`."""
    itemsize, (entry,) = problem.indexed.element.itemsize, problem.indexed_axes
    fields = [entry.size, *rows, *blocks]
    for outer in reversed(nest.outer):
        fields += [outer.size, *outer.strides]
    return GatherWalk(
        kernel,
        blocks[2] * blocks[4] * prod(outer.size for outer in nest.outer),
        in_order=False,
        dense_offset=problem.dense_offset * itemsize,
        indexed_offset=problem.indexed_offset * itemsize,
        index_offset=problem.index_offset * problem.index.element.itemsize,
        parameters=(*fields, *places),
    )


def _columns(problem: GatherProblem, mode: Mode, nest: Nest, loops: tuple[Loop, Loop]) -> GatherWalk | None:
    """The kernel of elements of columns: all rows of some columns in turn, whose elements then are in a near cache.

    None for few columns.
    """
    chosen, (width, loop), (entry,) = policy().gather, loops, problem.indexed_axes
    run, index, itemsize = nest.run, problem.index.element, problem.indexed.element.itemsize
    if width.size < STEP or entry.size > MOST_POSITIONS:
        return None
    row_bytes, column_bytes = width.size * run, entry.size * run
    if width.size * column_bytes <= chosen.columns_bytes:
        wanted = chosen.bytes_of_item(loop.size * row_bytes, problem.bytes_moved)
        block, many = width.size, min(loop.size, max(1, wanted // row_bytes))
    else:
        lines = max(1, chosen.columns_bytes // (column_bytes * LINE_BYTES))
        block, many = min(width.size, lines * LINE_BYTES), loop.size
    blocks, parts = -(-width.size // block), -(-loop.size // many)
    kind = IndexKind(index.itemsize, index.kind == "i", packed=True, mode=mode)
    stride = entry.stride * itemsize
    kernel = RowsInMemory(kind, len(nest.outer), run, stride == run, columns=True)
    rows = stride, 1, loop.size - 1, *loop.strides
    return _walk(problem, nest, kernel, rows, (width.size, block, blocks, many, parts))


def _in_registers(rows: _Rows, kind: IndexKind, rank: int) -> _Choice | None:
    """The kernel that permutes; None where single loads take less, or this processor does not permute so."""
    run = rows.run
    if rows.stride != run or not _permutes(run) or not (rows.repeated or rows.parts == 1):
        return None
    group = _group(rows)
    if group is None or group.cost * rows.parts > policy().gather.load_cost:
        return None
    repeated = rows.repeated and group.rows * rows.width <= MOST_REPEATED
    grouped = group.rows > 1 or rows.parts > 1
    if rows.repeated and grouped and not repeated:
        return None
    kernel = RowsInRegisters(kind, rank, run, group.registers, grouped, repeated, rows.parts)
    more = [rows.width] if repeated else []
    if not kernel.grouped:
        return _Choice(kernel, 1, rows.size - kernel.lanes * (group.registers - 1), more)
    step = (rows.step or 0) // run
    tail = (group.rows - 1) * step + rows.size - kernel.lanes * (group.registers - 1)
    return _Choice(kernel, group.rows, tail, [*more, *_places(rows, group.rows, step, kernel.position_bytes)])


def _in_memory(rows: _Rows, kind: IndexKind, rank: int, span: int) -> _Choice | None:
    """The kernel that loads elements one by one; None where others are as quick, or prefetch what is far apart."""
    chosen, least = policy().gather, _LEAST_STEPS * min(STEP, LINE_BYTES // rows.run)
    if rows.width < least or rows.parts > 1 or rows.size > MOST_POSITIONS:
        return None
    adjacent = rows.stride == rows.run
    ahead = _lines_ahead(rows) if adjacent and rows.is_apart and span >= chosen.far_bytes else 0
    later = power_of_two(-(-chosen.row_ahead_bytes // (rows.size * rows.run))) if ahead else 0
    kernel = RowsInMemory(kind, rank, rows.run, adjacent, ahead, later)
    return _Choice(kernel, 1, rows.stride, [])


def _scattered(rows: _Rows, kind: IndexKind, rank: int) -> _Choice | None:
    """The kernel that scatters elements; None where too few rows are whole steps together."""
    together = 1
    if rows.width < policy().gather.scattered_elements:
        least = SCATTERED // gcd(rows.width, SCATTERED)
        wanted = policy().gather.scattered_elements // (least * rows.width)
        together = least * max(1, min(wanted, rows.count // least))
    if together > rows.count or not SCATTERED <= rows.width * together <= MOST_SCATTERED:
        return None
    kernel = ScatterRows(kind, rank, rows.run, rows.stride == rows.run, grouped=together > 1)
    if not kernel.grouped:
        return _Choice(kernel, 1, rows.stride, [])
    if rows.step is None or rows.repeated:
        return None
    places = [row * rows.step for row in range(together) for _ in range(rows.width)]
    return _Choice(kernel, together, rows.stride, places)


def _lines_ahead(rows: _Rows) -> int:
    """Cache lines of a later row to prefetch in each step; 0 where too few of its elements are read."""
    nbytes = rows.size * rows.run
    lines = -(-nbytes // LINE_BYTES)
    return -(-lines * STEP // rows.width) if lines * policy().gather.uses_of_line <= rows.width else 0


def _permutes(run: int) -> bool:
    """Whether one instruction permutes elements of so many bytes from two vectors of a cache line."""
    return permuting(run) in policy().target.features


def _group(rows: _Rows) -> _Group | None:
    """The group of the least cost whose elements fill a vector; None if there is none in the registers."""
    lanes, step = LINE_BYTES // rows.run, rows.step or 0
    least = -(-lanes // rows.width)
    if least > (1 if rows.step is None else rows.count):
        return None
    most = least if least == 1 or rows.step is None else max(least, min(rows.count, _MOST_STEPS * lanes // rows.width))
    found = []
    for count in range(least, most + 1):
        registers = -(-((count - 1) * step + rows.size * rows.run) // LINE_BYTES)
        if registers > policy().gather.row_registers:
            break
        elements, lookups = count * rows.width, -(-registers // 2)
        # Every lookup but one is followed by a selection, by one of the upper bits of the positions.
        one = 2 * lookups - 1 + (lookups - 1).bit_length()
        found.append(_Group(count, registers, (registers + -(-elements // lanes) * one) / elements))
    return min(found, key=lambda group: group.cost, default=None)


def _places(rows: _Rows, count: int, step: int, nbytes: int) -> list[int]:
    """What is added to the position of each element of `count` rows, in so many bytes each, in words of 64 bits."""
    numbers = ([row * step + part for part in range(rows.parts)] for row in range(count))
    of_rows = (b"".join(number.to_bytes(nbytes, "little") for number in row) for row in numbers)
    places = b"".join(row * (rows.width // rows.parts) for row in of_rows)
    return [int.from_bytes(places[first : first + 8], "little") for first in range(0, len(places), 8)]
