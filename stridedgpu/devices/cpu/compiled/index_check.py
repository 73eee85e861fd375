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
from typing import NamedTuple

import numpy as np

from stridedgpu.devices.buffer import address_of
from stridedgpu.devices.cpu.native.calls import CompiledFunction
from stridedgpu.devices.cpu.native.gather import check_loop
from stridedgpu.devices.cpu.native.pool import LoopCall
from stridedgpu.devices.cpu.native.registers import LINE_BYTES
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.index_rule import IndexRule
from stridedgpu.problems.loop_nest import simplify
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import round_up

from .gather_indices import IndexKind, lanes_of, load_indices, resolved
from .ir import Code, vector_type
from .jit import loop_of
from .work_grid import items_of


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """A kernel over `rank` outer loops around `a` and `b`, which has `lanes` tuples or more of `components` indices.

    Parameters: size, stride in bytes, pitch of ids, block and number of blocks of `a`, then of `b`; of each axis its
    size, the pitch of its ids, the bytes to its number in a tuple; of each outer loop, innermost first, its size, its
    stride in bytes, the pitch of its ids. A wrong index sets the target, a 64-bit number, to 1.
    With `marks` each index sets the byte of its id, a cache line behind the target and on. Ids are clamped whatever the
    indices hold, so that no other byte is written.
    """

    index: IndexKind
    components: int
    rank: int
    lanes: int
    marks: bool

    def text(self, name: str) -> str:
        """The module."""
        code, kind, lanes = Code(), self.index, self.lanes
        (a_size, a_stride, a_pitch, a_block, a_blocks), (size, stride, pitch, block, blocks) = (
            code.take(5),
            code.take(5),
        )
        axes, outer = ([code.take(3) for _ in range(count)] for count in (self.components, self.rank))
        numbers = code.lanes("i64", range(lanes))
        along, marks = numbers * pitch, code.target + LINE_BYTES
        sizes = [extent.splat(lanes) for extent, _, _ in axes]
        sides = code.source, code.constant(0)
        with items_of(code, [blocks, a_blocks], outer, sides) as ((b_place, a_place), (address, first)):
            a_start, a_end = code.block(a_place, a_block, a_size)
            start, end = code.block(b_place, block, size)
            latest = end - lanes
            steps = (end - start + (lanes - 1)) // lanes
            # What is wrong is collected in a register, and looked at once for each item.
            with code.fold(a_end - a_start, [code.constant("false", vector_type(lanes, "i1"))]) as (number, wrong):
                row = a_start + number
                at_row = address + row * a_stride
                ids_of_row = first + row * a_pitch
                with code.fold(steps, wrong) as (step, of_row):
                    here = (start + step * lanes).at_most(latest)
                    at = at_row + here * stride
                    names = along + (ids_of_row + here * pitch)
                    for extent, (_, ids, offset) in zip(sizes, axes, strict=True):
                        indices = load_indices(kind, at + offset, stride, lanes)
                        # Adding the size to the range -size .. size - 1 leaves one unsigned comparison.
                        shifted = indices + extent if kind.signed else indices
                        of_row[0] |= shifted.compare("icmp uge", extent * 2 if kind.signed else extent)
                        if self.marks:
                            position = resolved(kind, indices, extent)
                            # The last axis' pitch is 1.
                            names += position if extent is sizes[-1] else position * ids
                    for lane in range(lanes if self.marks else 0):
                        code.store(code.constant(1, "i8"), marks + names.extract(lane))
                wrong[0] = of_row[0]
            with code.when(wrong[0].reduced("or")):
                code.store(1, code.target, 8)
        return code.text(name)


@dataclass(frozen=True, slots=True)
class IndexCheckCall:
    """A kernel with its parameters. The first index lies `offset` bytes behind the lowest one; `nbytes` are all.

    `marks` are the bytes that indices mark, 0 where they mark none; `count` are the indices.
    """

    kernel: IndexCheck
    items: int
    offset: int
    parameters: tuple[int, ...]
    marks: int
    count: int
    nbytes: int

    @property
    def memory_bytes(self) -> int:
        """Bytes of the status and of the marks, in whole cache lines."""
        return LINE_BYTES + round_up(self.marks, LINE_BYTES)

    def loop(self) -> tuple[CompiledFunction, tuple[int, ...]]:
        """The loop and its parameters."""
        level = policy().native_level
        if level is not None:
            return check_loop(self, level)
        return loop_of(self.kernel), self.parameters


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
    for place, (_, size) in enumerate(rule.axes):
        parameters += [size, prod(size for _, size in rule.axes[place + 1 :]), place * component]
    for loop in reversed(loops):
        parameters += loop
    kind = IndexKind(itemsize, rule.is_signed, b.stride == itemsize, "raise")
    kernel = IndexCheck(kind, len(rule.axes), len(loops), lanes_of(b.size), marks > 0)
    return IndexCheckCall(kernel, items, offset, tuple(parameters), marks, count, nbytes)


def _loops(rule: IndexRule) -> tuple[list[_Loop], int]:
    """The loops over indices, outermost first, without those that repeat them for other ids; bytes to the first one."""
    layout, nbytes = rule.index.layout, rule.index.element.itemsize
    rank = layout.ndim - rule.has_tuples
    sizes = layout.sizes[:rank]
    own = Layout(sizes, rule.own_pitches or (0,) * rank)
    nest = simplify([Layout(sizes, layout.strides[:rank], layout.offset), own])
    loops = [_Loop(size, step * nbytes, pitch) for size, step, pitch in zip(nest.sizes, *nest.strides, strict=True)]
    return [loop for loop in loops if loop.stride or not loop.pitch], nest.offsets[0] * nbytes


def compiled_index_check(rule: IndexRule) -> Callable[[int], bool] | None:
    """Compile the check of a rule: from the address of the lowest index to whether all are known to be allowed.

    None where NumPy does it. Raises `LoopError`.
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

    return distinct if call.kernel.marks else within
