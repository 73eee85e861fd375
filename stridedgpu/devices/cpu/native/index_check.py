"""Check indices before anything is written: all are inside their axes and, with `unique=True`, all name other elements.

One kernel does both, in vectors, on as many threads as the work pays for:

    indices    2 -1  0 ...       each read once, and compared with the size of its axis
    marks      1 0 1 ... 1       with `unique=True` a byte for each element that indices could name, which is set

As many marks as indices: all are distinct. The kernel reports only that an index is wrong. NumPy then finds the first
wrong index and words the error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Final, NamedTuple

import numpy as np

from stridedgpu.devices.buffer import address_of
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.index_rule import IndexRule
from stridedgpu.problems.loop_nest import simplify
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import round_up

from .calls import NativeFunction
from .gather import LARGEST_SPAN, IndexKind, are_small, moving_elements
from .library import function
from .pool import LoopCall
from .registers import LINE_BYTES

_LONG_ROW: Final = 128
"""Indices of a row from which on a call for each is worth it."""


@dataclass(frozen=True, slots=True)
class IndexCheckCall:
    """A check with its parameters behind the addresses of functions.

    The first index lies `offset` bytes behind the lowest one. `marks` are the bytes that indices mark, 0 where they
    mark none, and `in_place` whether single indices mark them without offsets in between; `small`: offsets need 32
    bits. `count` are the indices, `nbytes` theirs.

    The first 64-bit number of the target is set to 1 for a wrong index. The marks begin a cache line behind it. Their
    numbers are clamped whatever the indices hold, so that no other byte is written.
    """

    index: IndexKind
    items: int
    offset: int
    parameters: tuple[int, ...]
    marks: int
    in_place: bool
    small: bool
    count: int
    nbytes: int

    @property
    def memory_bytes(self) -> int:
        """Bytes of the status and of the marks, in whole cache lines."""
        return LINE_BYTES + round_up(self.marks, LINE_BYTES)

    def loop(self) -> tuple[NativeFunction, tuple[int, ...]]:
        """The loop on this processor's level of the library, and its parameters."""
        level = policy().native_level
        assert level is not None, "the library has loops for this processor"
        resolve = mark = 0
        if self.in_place:
            mark = moving_elements(level, self.index, 1, scatters=True)
        elif self.marks:
            resolve = self.index.resolving(level, small=self.small)
        return NativeFunction(function(level, "index check", self.index.type)), (resolve, mark, *self.parameters)


class _Loop(NamedTuple):
    """A loop over indices: its stride in bytes, and the pitch of the ids that its positions have; 0 if they share."""

    size: int
    stride: int
    pitch: int


def plan_index_check(rule: IndexRule) -> IndexCheckCall | None:
    """Choose the kernel of a rule. None where duplicates are certain, or marks too many: NumPy sorts the indices then.

    Indices with positions of their own in the result cannot meet those of other positions.
    """
    loops, offset = _loops(rule)
    own, along = [loop for loop in loops if loop.pitch], [loop for loop in loops if not loop.pitch]
    count, ids = prod(loop.size for loop in loops), prod(size for _, size in rule.axes)
    has_marks = bool(rule.axis_pitches) and bool(along)
    limits, itemsize = policy().index_check, rule.index.element.itemsize
    marks = ids * prod(loop.size for loop in own) if has_marks else 0
    if has_marks:
        if marks < count or not all(loop.stride for loop in along):
            return None
        if marks > max(policy().index_check.flags_of_index * count, limits.small_marks):
            return None
    else:
        loops = [loop for loop in loops if loop.stride]  # each index is looked at once
        count = prod(loop.size for loop in loops)
    pitches, pitch = [], ids
    for loop in reversed(loops):
        pitches.append(pitch if loop.pitch else 0)
        pitch *= loop.size if loop.pitch else 1
    loops = [loop._replace(pitch=pitch) for loop, pitch in zip(loops, reversed(pitches), strict=True)]
    b, a = (loops.pop() if loops else _Loop(1, 0, 0) for _ in range(2))
    nbytes = count * len(rule.axes) * itemsize
    wanted = limits.indices_of_item(count, nbytes)
    parameters, items = [], prod(loop.size for loop in loops)
    for loop, most in ((a, wanted // b.size), (b, wanted)):
        block = max(1, min(loop.size, most))
        parameters += [*loop, block, -(-loop.size // block)]
        items *= parameters[-1]
    component = rule.index.layout.strides[-1] * itemsize if rule.has_tuples else 0
    axes: list[int] = []
    for place, (_, size) in enumerate(rule.axes):
        axes += [size, prod(size for _, size in rule.axes[place + 1 :]), place * component]
    follow = a.stride == b.size * b.stride or b.size >= _LONG_ROW
    is_single = len(rule.axes) == 1 and b.stride == itemsize and marks <= LARGEST_SPAN
    return IndexCheckCall(
        IndexKind(itemsize, rule.is_signed, "raise"),
        items,
        offset,
        (len(rule.axes), len(loops), *parameters, *axes, *(field for loop in reversed(loops) for field in loop)),
        marks,
        marks > 0 and follow and is_single,
        are_small(tuple(axes)),
        count,
        nbytes,
    )


def _loops(rule: IndexRule) -> tuple[list[_Loop], int]:
    """The loops over indices, outermost first, without those that repeat them for other ids; bytes to the first one."""
    layout, nbytes = rule.index.layout, rule.index.element.itemsize
    rank = layout.ndim - rule.has_tuples
    sizes = layout.sizes[:rank]
    own = Layout(sizes, rule.own_pitches or (0,) * rank)
    nest = simplify([Layout(sizes, layout.strides[:rank], layout.offset), own])
    loops = [_Loop(size, step * nbytes, pitch) for size, step, pitch in zip(nest.sizes, *nest.strides, strict=True)]
    return [loop for loop in loops if loop.stride or not loop.pitch], nest.offsets[0] * nbytes


def native_index_check(rule: IndexRule) -> Callable[[int], bool] | None:
    """The check of a rule: from the address of the lowest index to whether all are known to be allowed.

    None where NumPy does it.
    """
    call = plan_index_check(rule)
    if call is None:
        return None
    run = LoopCall.of(*call.loop(), call.items, (call.offset, 0)).launch(call.nbytes, policy().index_check.shared_bytes)
    unused: list[tuple[ctypes.Array[ctypes.c_int64], int]] = []

    def within(indices: int) -> bool:
        try:
            wrong, status = unused.pop()
        except IndexError:  # calls at the same time have a status each, which is read after the lock may have changed
            wrong = (ctypes.c_int64 * 1)()
            status = ctypes.addressof(wrong)
        run(indices, status)
        if wrong[0]:
            return False
        unused.append((wrong, status))
        return True

    zeros, memory_bytes, count = np.zeros, call.memory_bytes, call.count

    def distinct(indices: int) -> bool:
        try:
            memory = zeros(memory_bytes, bool)
        except MemoryError as error:
            raise DeviceError(f"The CPU has no {memory_bytes} bytes of memory left to check indices.") from error
        run(indices, address_of(memory))
        return not memory[0] and np.count_nonzero(memory) == count

    return distinct if call.marks else within
