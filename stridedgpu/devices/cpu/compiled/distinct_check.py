"""Check by compiled loops that indices are inside their axes, and that no two of them name one element."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from stridedgpu.devices.buffer import address_of
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.thread_count import get_num_threads, usable_cores
from stridedgpu.planning.index_rule import IndexRule
from stridedgpu.planning.loop_nest import simplify
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import round_up

from .distinct_check_loop import HEADER_BYTES, IndexBits, IndexHash, IndexMarks
from .gather_indices import IndexKind, lanes_of
from .index_check import IndicesWithin, compiled_index_check
from .ir import LINE_BYTES
from .jit import compiled, moving_function
from .worker_pool import run_shared

__all__ = ["DistinctWalk", "compiled_distinct_check", "distinct_walk"]


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop over positions of indices, with strides in bytes; those with a pitch have names of their own."""

    size: int
    stride: int
    pitch: int


_ONCE: Final = _Loop(1, 0, 0)


@dataclass(frozen=True, slots=True)
class DistinctWalk:
    """A kernel with its parameters, the bytes of memory that it needs, and what has to be set there afterwards.

    The first index lies `offset` bytes behind the lowest one, and `looked_at` are the bytes of all. `marks` is the
    number of bytes set where nothing is wrong, None if the kernel itself counts them.
    """

    kernel: IndexMarks | IndexBits | IndexHash
    items: int
    offset: int
    parameters: tuple[int, ...]
    nbytes: int
    marks: int | None
    looked_at: int
    is_shared: bool


def compiled_distinct_check(rule: IndexRule) -> IndicesWithin | None:
    """Compile the check of a rule with pitches.

    None where the compiler is unavailable, and where duplicates are certain.
    """
    loops, _, _ = _loops(rule)
    if all(loop.pitch for loop in loops):
        return compiled_index_check(rule)
    walk = distinct_walk(rule)
    if walk is None:
        return None
    loop = compiled(walk.kernel.text)
    items, nbytes, marks, offset = walk.items, walk.nbytes, walk.marks, walk.offset
    parameters = (ctypes.c_int64 * len(walk.parameters))(*walk.parameters)
    place, looked_at = ctypes.addressof(parameters), walk.looked_at
    brief = looked_at < policy().sharing.brief_bytes
    alone = moving_function(loop, place, items, (offset, 0), held=parameters, keeps_lock=brief)
    zeros, count, is_shared = np.zeros, np.count_nonzero, walk.is_shared

    def distinct(indices: int) -> bool:
        try:
            memory = zeros(nbytes, bool)
        except MemoryError as error:
            raise DeviceError(f"The CPU has no {nbytes} bytes of memory left to check indices.") from error
        if is_shared:
            run_shared(loop, indices + offset, address_of(memory), place, items, nbytes=looked_at)
        else:
            alone(indices, address_of(memory))
        return not memory[0] and (marks is None or count(memory) == marks)

    return distinct


def _loops(rule: IndexRule) -> tuple[list[_Loop], int, int]:
    """The loops over indices, outermost first, without those that repeat them for other names.

    Also returns the bytes from the lowest index to the first one, and that one's own part of its name.
    """
    layout, nbytes = rule.index.layout, rule.index.element.itemsize
    rank = layout.ndim - rule.has_tuples
    sizes = layout.sizes[:rank]
    own = Layout(sizes, rule.own_pitches or (0,) * rank)
    nest = simplify([Layout(sizes, layout.strides[:rank], layout.offset), own])
    loops = [_Loop(size, step * nbytes, pitch) for size, step, pitch in zip(nest.sizes, *nest.strides, strict=True)]
    return [loop for loop in loops if loop.stride or not loop.pitch], nest.offsets[0] * nbytes, nest.offsets[1]


def distinct_walk(rule: IndexRule) -> DistinctWalk | None:
    """Choose the kernel of a rule with pitches, some of whose indices could meet; None where they certainly do."""
    loops, offset, first = _loops(rule)
    own, along = [loop for loop in loops if loop.pitch], [loop for loop in loops if not loop.pitch]
    count, names = prod(loop.size for loop in along), prod(size for _, size in rule.axes)
    if count > names or not all(loop.stride for loop in along):
        return None
    limits = policy().index_check
    if own and names <= limits.most_bits and loops[-1] in along and len(rule.axes) == len(along) == 1:
        return _in_bits(rule, own[:-1], own[-1], along[0], offset)
    if names > limits.names_of_index * count:
        return _hashed(rule, loops, offset, first)
    nearest = loops.pop()
    if not own:
        block = min(nearest.size, limits.indices_of_item(count, count * rule.index.element.itemsize))
        return _marked(rule, loops, (_ONCE, 1), (nearest, block), offset, names, counts=False)
    (line,) = along
    if nearest.pitch:
        own.pop()
        columns = min(nearest.size, max(limits.table_bytes // names, limits.least_columns))
        b = _Loop(nearest.size, nearest.stride, 1), columns
        return _marked(rule, own, (line, line.size), b, offset, names * columns, pitch=columns)
    around = own.pop()
    rows = min(around.size, max(limits.table_bytes // names, 1))
    a = _Loop(around.size, around.stride, names), rows
    return _marked(rule, own, a, (line, line.size), offset, names * rows)


def _marked(
    rule: IndexRule,
    outer: Sequence[_Loop],
    a: tuple[_Loop, int],
    b: tuple[_Loop, int],
    offset: int,
    names: int,
    pitch: int = 1,
    *,
    counts: bool = True,
) -> DistinctWalk:
    """The walk of marks in tables of so many names; `a` and `b` come with their blocks.

    `pitch` is that of the last axis' names.
    """
    pitches = [pitch * prod(size for _, size in rule.axes[place + 1 :]) for place in range(len(rule.axes))]
    inner: list[int] = []
    for loop, block in (a, b):
        inner += [loop.size, loop.stride, loop.pitch, block, -(-loop.size // block)]
    items = prod(loop.size for loop in outer) * inner[4] * inner[9]
    count = prod(loop.size for loop in (*outer, a[0], b[0]))
    looked_at = count * len(pitches) * rule.index.element.itemsize
    is_shared = looked_at >= policy().index_check.shared_bytes
    # As many as threads: one that waits for another's table would keep that one from its core.
    tables = min(items, max(usable_cores(), get_num_threads())) if is_shared and counts else 1
    table, start = round_up(names, LINE_BYTES), round_up(HEADER_BYTES + 8 * tables, LINE_BYTES)
    kernel = IndexMarks(_kind(rule, b[0].stride), len(pitches), len(outer), lanes_of(b[0].size), counts)
    parameters = [table, start, tables, *inner, *_axes(rule, pitches)]
    for loop in reversed(outer):
        parameters += [loop.size, loop.stride]
    nbytes = start + tables * table
    marks = None if counts else count
    return DistinctWalk(kernel, items, offset, tuple(parameters), nbytes, marks, looked_at, is_shared)


def _in_bits(rule: IndexRule, outer: Sequence[_Loop], rows: _Loop, line: _Loop, offset: int) -> DistinctWalk:
    """The walk of bits in registers, for a `line` of indices in each of some rows and the loops around them."""
    ((_, size),) = rule.axes
    count = prod(loop.size for loop in (*outer, rows, line))
    looked_at = count * rule.index.element.itemsize
    block = max(1, min(rows.size, policy().index_check.indices_of_item(count, looked_at) // line.size))
    blocks = -(-rows.size // block)
    parameters = [size, rows.size, rows.stride, block, blocks, line.size, line.stride]
    for loop in reversed(outer):
        parameters += [loop.size, loop.stride]
    kernel = IndexBits(_kind(rule, line.stride), len(outer), lanes_of(line.size), -(-size // 64))
    items = blocks * prod(loop.size for loop in outer)
    is_shared = looked_at >= policy().index_check.shared_bytes
    return DistinctWalk(kernel, items, offset, tuple(parameters), HEADER_BYTES, None, looked_at, is_shared)


def _hashed(rule: IndexRule, loops: Sequence[_Loop], offset: int, first: int) -> DistinctWalk:
    """The walk of a hash table, at most half of which is used."""
    count = prod(loop.size for loop in loops)
    bits = (2 * count - 1).bit_length()
    parameters = [first, (1 << bits) - 1, 64 - bits, *_axes(rule, rule.axis_pitches)]
    for loop in reversed(loops):
        parameters += [loop.size, loop.stride, loop.pitch]
    kernel = IndexHash(_kind(rule, 0), len(rule.axes), len(loops))
    nbytes, looked_at = HEADER_BYTES + (8 << bits), count * len(rule.axes) * rule.index.element.itemsize
    return DistinctWalk(kernel, count, offset, tuple(parameters), nbytes, None, looked_at, is_shared=False)


def _axes(rule: IndexRule, pitches: Sequence[int]) -> list[int]:
    """The parameters of the axes, whose names have these pitches."""
    step = rule.index.layout.strides[-1] * rule.index.element.itemsize if rule.has_tuples else 0
    return [
        field
        for place, ((_, size), pitch) in enumerate(zip(rule.axes, pitches, strict=True))
        for field in (size, pitch, place * step)
    ]


def _kind(rule: IndexRule, stride: int) -> IndexKind:
    """The storage of indices that are `stride` bytes apart."""
    nbytes = rule.index.element.itemsize
    return IndexKind(nbytes, rule.is_signed, stride == nbytes, "raise")
