"""Relayout on NumPy alone: the loops of a problem, cut into blocks that stay in the cache.

A plain NumPy assignment iterates in the destination's order, at any distance between the source's elements. This module
turns a short axis into a Python loop around long inner loops. If the two sides are contiguous along different axes, a
block is first read in the source's order, in whole cache lines, and then written in the destination's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import inf, prod
from typing import Any, Final

import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.plan import CpuKernel, numpy_kernel
from stridedgpu.problems.relayout_problem import RelayoutProblem

from .arrays import strided
from .conversion import Array, constants, convert_block, storage_dtype

_SMALL_AXIS: Final = 16
"""Elements up to which an axis becomes a Python loop of a relayout, if another axis can be the inner one."""

_LEAST_LOOPED: Final = 4 * 1024
"""The fewest elements of one iteration of such a loop, which costs Python some microseconds."""

_SMALL_TENSOR: Final = 64 * 1024
"""Elements up to which one assignment is as fast as any loop order; in Python loops, 16^4 took 25 times as long."""

_BLOCK_ELEMENTS: Final = 128 * 1024
"""Elements of a block of a relayout; a conversion allocates more blocks of up to 8 bytes an element, a few MB."""

_TILE: Final = (256, 512)
"""Extents of a block along the target's and the source's contiguous axes: the shorter one, the longer the other."""

_LINE_BYTES: Final = 64
"""Bytes of a cache line."""

Slices = tuple[slice | int, ...]


def numpy_relayout_kernel(problem: RelayoutProblem) -> CpuKernel:
    """The NumPy loops and the blocks for a problem."""
    looped = _looped_axes(problem)
    extents, staged = _block_extents(problem, looped)
    source, target = problem.source.element, problem.target.element
    tile = tuple(
        1 if axis in looped else min(most, size)
        for axis, (most, size) in enumerate(zip(extents, problem.sizes, strict=True))
    )
    blocks = prod(-(-size // extent) for size, extent in zip(problem.sizes, tile, strict=True) if extent)
    if staged:
        name, words = "staged_blocks", "NumPy: blocks are read in the source's order and written in the target's"
    elif blocks > 1:
        name, words = "blocks", "NumPy: one assignment for each block that stays in the cache"
    else:
        name, words = "assignment", "NumPy: one assignment"
    return numpy_kernel(f"numpy_{name}_{source}_{target}", words, source.itemsize, target.itemsize, tile, blocks)


def relayout_loops(problem: RelayoutProblem) -> Callable[[Buffer, int, Buffer, int], None]:
    """`NumpyRelayout` on buffers, with the bytes before the lowest element of each side."""
    loops = NumpyRelayout(problem)

    def move(source: Buffer, source_start: int, target: Buffer, target_start: int) -> None:
        loops(source.bytes[source_start:], target.bytes[target_start:])

    return move


class NumpyRelayout:
    """A problem prepared for NumPy; the call takes the bytes of both buffers and moves the elements."""

    def __init__(self, problem: RelayoutProblem) -> None:
        self._problem = problem
        self._conversion = problem.conversion
        opaque = problem.conversion.is_bitwise_copy
        self._source_dtype = storage_dtype(problem.source.element, opaque=opaque)
        self._target_dtype = storage_dtype(problem.target.element, opaque=opaque)
        self._looped = _looped_axes(problem)
        self._extents, self._staged = _block_extents(problem, self._looped)
        self._constants = tuple(
            None if values is None else constants(values, problem.conversion.compute)
            for values in (problem.conversion.scale, problem.conversion.bias)
        )

    def __call__(self, source: Array, target: Array) -> None:
        """Move every element; `source` and `target` are bytes from each side's lowest element on."""
        problem = self._problem
        if 0 in problem.sizes:
            return
        if problem.filler:
            sizes = (*problem.sizes[:-1], problem.filler)
            zeros = strided(target, self._target_dtype, sizes, problem.target_strides, problem.sizes[-1])
            zeros[...] = 0
        read = strided(source, self._source_dtype, self._source_sizes, problem.source_strides, problem.source_offset)
        written = strided(target, self._target_dtype, problem.sizes, problem.target_strides, 0)
        conversion = self._conversion
        if not self._looped and not self._staged and conversion.is_bitwise_copy and conversion.channels is None:
            np.copyto(written, read)
            return
        stage = self._stage() if self._staged else None
        for place in self._blocks():
            self._move(read, written, place, stage)

    @property
    def _source_sizes(self) -> tuple[int, ...]:
        """The sizes of the source's loops: along a channel table, the channels up to the last one used."""
        problem = self._problem
        channels = self._conversion.channels
        if channels is None or problem.channel_axis is None:
            return problem.sizes
        axis = problem.channel_axis
        return (*problem.sizes[:axis], max(channels) + 1, *problem.sizes[axis + 1 :])

    def _blocks(self) -> Iterator[Slices]:
        """The slices of all blocks, with integers along the axes of Python loops."""
        entries: list[Sequence[slice | int]] = [
            range(size) if axis in self._looped else [slice(start, start + extent) for start in range(0, size, extent)]
            for axis, (size, extent) in enumerate(zip(self._problem.sizes, self._extents, strict=True))
        ]
        # The Python loops are innermost, so that a block's cache lines are reused while they are cached.
        axes = range(len(entries))
        order = sorted(axes, key=lambda axis: axis in self._looped)
        places = [order.index(axis) for axis in axes]
        for chosen in product(*(entries[axis] for axis in order)):
            yield tuple(chosen[place] for place in places)

    def _stage(self) -> Array:
        """The staging buffer of one block in the source's order, without the axes of Python loops.

        The row pitch is an odd number of cache lines, so that a column of elements uses all sets of the cache. A power
        of two would map it to a few sets, whose lines evict each other before they are reused.
        """
        strides = self._problem.source_strides
        axes = [axis for axis in range(len(strides)) if axis not in self._looped]
        order = sorted(axes, key=lambda axis: abs(strides[axis]) or inf, reverse=True)
        *outer, row = (self._extents[axis] for axis in order)
        itemsize = self._target_dtype.itemsize
        lines = -(-row * itemsize // _LINE_BYTES) | 1
        memory = np.empty((*outer, lines * _LINE_BYTES // itemsize), self._target_dtype)
        return memory[..., :row].transpose([order.index(axis) for axis in axes])

    def _move(self, read: Array, written: Array, place: Slices, stage: Array | None) -> None:
        """Move one block, through the staging buffer if there is one."""
        block = self._taken(read, place)
        if not self._conversion.is_bitwise_copy:
            scale, bias = (self._constant(values, place) for values in self._constants)
            block = convert_block(block, self._conversion, scale, bias)
        if stage is not None:
            staged = stage[tuple(slice(extent) for extent in block.shape)]
            np.copyto(staged, block)
            block = staged
        np.copyto(written[(*place, ...)], block)  # '...' makes the view of a single element an array

    def _taken(self, read: Array, place: Slices) -> Array:
        """The block of the source, gathered through the channel table if there is one."""
        axis, channels = self._problem.channel_axis, self._conversion.channels
        if axis is None or channels is None:
            return read[place]
        chosen = channels[place[axis]]
        if isinstance(chosen, int):
            return read[(*place[:axis], chosen, *place[axis + 1 :])]
        block = read[(*place[:axis], slice(None), *place[axis + 1 :])]
        before = sum(isinstance(entry, slice) for entry in place[:axis])
        picked: tuple[Any, ...] = (*(slice(None),) * before, list(chosen))
        taken: Array = block[picked]  # `take` would first copy all channels to contiguous memory
        return taken

    def _constant(self, values: Array | None, place: Slices) -> Array | None:
        """The scale or bias of a block, shaped to broadcast along the channel axis."""
        axis = self._problem.channel_axis
        if values is None or values.size == 1 or axis is None:
            return values
        chosen = values[place[axis]]
        if chosen.ndim == 0:
            return np.asarray(chosen)
        after = sum(isinstance(entry, slice) for entry in place[axis + 1 :])
        return np.asarray(chosen.reshape(-1, *(1,) * after))


def _fastest(strides: tuple[int, ...], left_out: frozenset[int]) -> int | None:
    """The axis with the smallest stride on one side; broadcast axes (stride 0) are excluded."""
    axes = [axis for axis, stride in enumerate(strides) if stride and axis not in left_out]
    return min(axes, key=lambda axis: (abs(strides[axis]), -axis), default=None)


def _looped_axes(problem: RelayoutProblem) -> frozenset[int]:
    """Short axes that would be the inner loop on either side."""
    looped: frozenset[int] = frozenset()
    if problem.element_count <= _SMALL_TENSOR:
        return looped
    left = problem.element_count

    def loop_over(axis: int | None) -> None:
        nonlocal looped, left
        if axis is None or axis in looped or problem.sizes[axis] > min(_SMALL_AXIS, left // _LEAST_LOOPED):
            return
        looped |= {axis}
        left //= problem.sizes[axis]

    loop_over(problem.channel_axis)
    for strides in (problem.target_strides, problem.source_strides):
        axis = _fastest(strides, looped)
        longest = max((size for place, size in enumerate(problem.sizes) if place not in looped | {axis}), default=0)
        if longest > _SMALL_AXIS:
            loop_over(axis)
    return looped


def _block_extents(problem: RelayoutProblem, looped: frozenset[int]) -> tuple[tuple[int, ...], bool]:
    """The extent of a block along each axis, and whether it goes through the staging buffer."""
    written = _fastest(problem.target_strides, looped)
    read = _fastest(problem.source_strides, looped)
    if problem.element_count <= _SMALL_TENSOR:
        return problem.sizes, False
    extents = [1] * len(problem.sizes)
    left, tile = _BLOCK_ELEMENTS, _TILE
    staged = False
    if written is not None and read is not None and written != read:
        staged = True
        for axis, other, extent in ((written, read, tile[0]), (read, written, tile[1])):
            extents[axis] = min(problem.sizes[axis], max(extent, prod(tile) // problem.sizes[other]))
        left //= prod(extents)
    for axis in reversed(range(len(extents))):
        if axis in looped or extents[axis] > 1:
            continue
        extents[axis] = max(1, min(problem.sizes[axis], left))
        left //= extents[axis]
    return tuple(extents), staged
