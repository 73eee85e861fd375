"""Gather and scatter on NumPy alone: indices are resolved in blocks, and long rows are copied whole."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.plan import CpuKernel, numpy_kernel
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.gather_problem import GatherProblem
from stridedgpu.problems.index_rule import IndexRule, Mode
from stridedgpu.problems.loop_nest import innermost_box
from stridedgpu.values.tensor_spec import TensorSpec

from .arrays import blocks, strided
from .conversion import Array, storage_dtype

_GATHERED_ELEMENTS: Final = 32 * 1024
"""Elements of a block of a gather: with their offsets, some hundred KB."""

_LONG_ROW: Final = 2 * 1024
"""Elements from which on a gathered row is copied by a call of its own."""

_ELEMENTS_OF_CALL: Final = 1024
"""Elements that amortise one NumPy call."""

_SEARCHED_INDICES: Final = 128 * 1024
"""Indices of one step of the search for a wrong index."""


def numpy_gather_kernel(problem: GatherProblem) -> CpuKernel:
    """The NumPy loops that gather or scatter a problem's elements."""
    verb = "scatter" if problem.scatters else "gather"
    element, row = problem.dense.element, prod(problem.sizes[len(problem.sizes) - problem.row_axes :])
    is_long = row >= _LONG_ROW
    kind, words = ("rows", "a copy for each index") if is_long else ("blocks", "indices looked up in blocks")
    name = f"numpy_{verb}_{kind}_{element}_{problem.index.element}"
    return numpy_kernel(name, f"NumPy: {words}", element.itemsize, element.itemsize)


class NumpyGather:
    """A problem prepared for NumPy; the call takes the bytes of the three operands and moves the elements.

    There are three kinds of loops: *outer* ones, on which the indices do not depend; those with an index of their own;
    and *rows*, which an index selects. NumPy sees a short contiguous row as one opaque item.

    Indices must have been checked. A wrong one is clamped or raises `IndexError`, and no memory outside the operands is
    accessed.
    """

    def __init__(self, problem: GatherProblem) -> None:
        self._problem = problem
        self._mode = problem.mode
        rank = len(problem.sizes)
        self._stop = rank - problem.row_axes
        self._start = self._looped(problem.index_strides[: self._stop])
        self._row_sizes = problem.sizes[self._stop :]
        item = storage_dtype(problem.dense.element, opaque=True)
        row = prod(self._row_sizes)
        self._one_by_one = row >= _LONG_ROW
        joined = problem.row_axes == 1 and problem.dense_strides[-1] == problem.indexed_strides[-1] == 1
        self._joined = joined and 0 < row < _LONG_ROW
        self._dtype = np.dtype((np.void, row * item.itemsize)) if self._joined else item
        self._itemsize = item.itemsize
        steps = [*problem.indexed_strides[self._start : self._stop], *(entry.stride for entry in problem.indexed_axes)]
        lasts = [size - 1 for size in (*self._indexed_sizes, *(entry.size for entry in problem.indexed_axes))]
        reaches = [last * step for last, step in zip(lasts, steps, strict=True)]
        # Items start between these two offsets, both inside the indexed side, at multiples of `unit`.
        self._lowest = sum(reach for reach in reaches if reach < 0)
        self._unit = row if self._joined and not any(step % row for step in steps) else 1
        self._starts = 1 + sum(abs(reach) for reach in reaches) // self._unit
        self._extents = innermost_box(self._indexed_sizes, max(1, _GATHERED_ELEMENTS // max(row, 1)))

    @property
    def _indexed_sizes(self) -> tuple[int, ...]:
        """The sizes of the loops with indices of their own."""
        return self._problem.sizes[self._start : self._stop]

    def _looped(self, index_strides: tuple[int, ...]) -> int:
        """The number of outer loops that share the same indices; 0 if blocks would have too few elements."""
        outer = 0
        while outer < len(index_strides) and index_strides[outer] == 0:
            outer += 1
        return outer if prod(self._problem.sizes[outer:]) >= _ELEMENTS_OF_CALL else 0

    def __call__(self, dense: Array, indexed: Array, index: Array) -> None:
        """Move every element; each operand is an array of bytes from its lowest element on."""
        problem, start, stop = self._problem, self._start, self._stop
        if 0 in problem.sizes:
            return
        rows = () if self._joined else problem.sizes[stop:]
        kept = len(problem.sizes) if not self._joined else stop
        walked = self._items(dense, (*problem.sizes[:stop], *rows), problem.dense_strides[:kept], problem.dense_offset)
        items = self._items(
            indexed,
            (*problem.sizes[:start], self._starts, *rows),
            (*problem.indexed_strides[:start], self._unit, *problem.indexed_strides[stop:kept]),
            problem.indexed_offset + self._lowest,
        )
        dtype = np.dtype(problem.index.element.name)
        numbers = [
            strided(
                index,
                dtype,
                self._indexed_sizes,
                problem.index_strides[start:stop],
                problem.index_offset + entry.component,
            )
            for entry in problem.indexed_axes
        ]
        for block in blocks(self._indexed_sizes, self._extents):
            places = self._places(numbers, block)
            for outer in np.ndindex(problem.sizes[:start]):
                self._move(items[outer], places, walked[(*outer, *block, ...)])

    def _items(self, memory: Array, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Array:
        """An array of items over part of `memory`; strides and offset are in elements."""
        steps = tuple(step * self._itemsize for step in strides)
        return np.ndarray(sizes, self._dtype, memory, offset * self._itemsize, steps)

    def _move(self, items: Array, places: NDArray[np.int64], block: Array) -> None:
        """Move one block between the dense side and its places among `items`."""
        if self._one_by_one:
            for at in np.ndindex(places.shape):
                pair = (block[at], items[places[at]])
                np.copyto(*(pair if not self._problem.scatters else pair[::-1]))
        elif self._problem.scatters:
            # One flat list of places defines the order, so that of duplicates the last wins.
            items[places.reshape(-1)] = block.reshape(-1, *items.shape[1:])
        elif items.ndim > 1 or not items.flags.c_contiguous:
            np.copyto(block, items[places])
        elif block.flags.c_contiguous:
            items.take(places, out=block, mode="clip")
        else:
            np.copyto(block, items.take(places, mode="clip"))

    def _places(self, numbers: list[Array], place: tuple[slice, ...]) -> NDArray[np.int64]:
        problem, unit = self._problem, self._unit
        shape = tuple(min(part.stop, size) - part.start for part, size in zip(place, self._indexed_sizes, strict=True))
        places = np.full(shape, -self._lowest // unit, np.int64)
        for axis, part in enumerate(place):
            step = problem.indexed_strides[self._start + axis] // unit
            if step:
                along = np.arange(part.start, part.start + shape[axis], dtype=np.int64) * step
                places += along.reshape(-1, *(1,) * (len(shape) - axis - 1))
        for entry, values in zip(problem.indexed_axes, numbers, strict=True):
            along = resolved(np.asarray(values[place]), entry.size, self._mode)
            places += along if entry.stride == unit else along * (entry.stride // unit)
        return places


def resolved(block: Array, size: int, mode: Mode) -> NDArray[np.int64]:
    """Resolve indices of any integer type to positions from 0 to `size` - 1; the block itself is not changed.

    Modes that check assume valid indices here.
    """
    if block.dtype.kind == "u":
        numbers = block.astype(np.uint64)
        if mode == "wrap":
            numbers %= np.uint64(size)
        else:
            np.minimum(numbers, np.uint64(size - 1), out=numbers)
        return numbers.view(np.int64)
    places = block.astype(np.int64)
    if mode == "wrap":
        places %= size
    elif mode == "clip":
        np.clip(places, 0, size - 1, out=places)
    else:
        np.add(places, size, out=places, where=np.asarray(places < 0))
    return places


def check_indices(rule: IndexRule, index: Array) -> None:
    """Raise `IndexError` for the first index outside its axis, or for a duplicate.

    `index` is the bytes of the indices from their lowest element on. Memory proportional to the indices is allocated
    only if the rule has pitches: for names of 64 bits, and flags of these or a sorted copy.
    """
    layout = rule.index.layout
    if 0 in layout.sizes:
        return
    numbers = _array_of(rule.index, index)
    for component, (_, size) in enumerate(rule.axes):
        _check_range(rule, numbers[..., component] if rule.has_tuples else numbers, component, size)
    if rule.axis_pitches:
        _check_distinct(rule, numbers)


def _check_range(rule: IndexRule, numbers: Array, component: int, size: int) -> None:
    """Raise unless all numbers are positions along an axis of `size`."""
    # Broadcast elements are checked once.
    seen = numbers[tuple(slice(1) if step == 0 else slice(None) for step in numbers.strides)]
    if -size * rule.is_signed <= int(seen.min()) and int(seen.max()) < size:
        return
    lined = numbers[np.newaxis]  # a scalar has no axis to count along
    step = _SEARCHED_INDICES
    for start in range(0, numbers.size, step):
        places = np.unravel_index(np.arange(start, min(start + step, numbers.size)), lined.shape)
        chunk = lined[places]
        wrong = chunk >= size
        if rule.is_signed:
            wrong |= chunk < -size
        if wrong.any():
            first = int(np.argmax(wrong))
            position = [int(along[first]) for along in places[1:]]
            raise IndexError(
                rule.out_of_range([*position, component] if rule.has_tuples else position, int(chunk[first]))
            )


def _check_distinct(rule: IndexRule, numbers: Array) -> None:
    """Raise when two indices, or tuples of them, name the same element of the result."""
    shape = numbers.shape[:-1] if rule.has_tuples else numbers.shape
    own_pitches, axis_pitches = rule.name_pitches
    names = np.zeros(shape, np.int64)
    for axis, pitch in enumerate(own_pitches):
        names += (np.arange(shape[axis], dtype=np.int64) * pitch).reshape(-1, *(1,) * (len(shape) - axis - 1))
    for component, ((_, size), pitch) in enumerate(zip(rule.axes, axis_pitches, strict=True)):
        names += resolved(numbers[..., component] if rule.has_tuples else numbers, size, "raise") * pitch
    flat = names.reshape(-1)
    if _are_distinct(flat, rule.name_count):
        return
    order = np.argsort(flat, kind="stable")
    same = np.flatnonzero(flat[order[1:]] == flat[order[:-1]])
    if same.size:
        places = [np.unravel_index(order[same[0] + step], shape) for step in (0, 1)]
        first, second = (tuple(int(along) for along in place) for place in places)
        raise IndexError(rule.named_twice(first, second, [numbers[place].tolist() for place in (first, second)]))


def _are_distinct(names: NDArray[np.int64], count: int) -> bool:
    """Whether no two of some names, from 0 to `count` - 1, are equal."""
    if count <= policy().index_check.flags_of_index * names.size:
        flags = np.zeros(count, bool)
        flags[names] = True
        return int(np.count_nonzero(flags)) == names.size
    ordered = np.sort(names)
    return not bool((ordered[1:] == ordered[:-1]).any())


def _array_of(side: TensorSpec, memory: Array) -> Array:
    """The elements of a side as an array over its bytes."""
    layout = side.layout
    return strided(memory, np.dtype(side.element.name), layout.sizes, layout.strides, layout.offset)
