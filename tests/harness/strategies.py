"""Hypothesis strategies for layouts, chains of views, element types and axis orders, to be shared by tests.

Layouts are small enough to be walked element by element, and lie at offsets of 0 or more, so that a NumPy array
over `arange(extent_of(layout))` can stand in for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from stridedgpu.values.dtypes import ELEMENT_TYPES, DataType, ElementType
from stridedgpu.values.layout import Layout

__all__ = [
    "View",
    "any_layouts",
    "as_array",
    "coordinates_of",
    "data_types",
    "element_types",
    "extent_of",
    "layout_offsets",
    "layouts",
    "layouts_of",
    "offsets_of",
    "order_strings",
    "tensor_sizes",
    "views",
]

# What a layout means, spelled out


def coordinates_of(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every coordinate, in row-major order."""
    return product(*map(range, sizes))


def layout_offsets(sizes: Sequence[int], strides: Sequence[int], offset: int = 0) -> list[int]:
    """The offset of every coordinate, in row-major order, by the definition: offset + dot(coordinate, strides)."""
    return [offset + sum(x * s for x, s in zip(at, strides, strict=True)) for at in coordinates_of(sizes)]


def offsets_of(layout: Layout) -> list[int]:
    """The offset of every element of a layout, in row-major order."""
    return layout_offsets(layout.sizes, layout.strides, layout.offset)


def extent_of(layout: Layout) -> int:
    """Elements of a buffer that holds the layout."""
    return max(offsets_of(layout), default=layout.offset) + 1


def as_array(layout: Layout, buffer: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The NumPy view of a one-dimensional buffer that lies as `layout` says."""
    return as_strided(
        buffer[layout.offset :], layout.sizes, tuple(stride * buffer.itemsize for stride in layout.strides)
    )


# Element types and axis orders

_ORDERS = [
    "".join(order)
    for canonical in ("W", "C", "HW", "CW", "CHW", "DHW", "NCHW", "NCDHW")
    for order in permutations(canonical)
]


def element_types(kinds: str = "buifco") -> st.SearchStrategy[ElementType]:
    """Element types that a tensor holds, of the given kinds."""
    return st.sampled_from([element for element in ELEMENT_TYPES.values() if element.kind in kinds])


def data_types(*, whole_bytes: bool = False) -> st.SearchStrategy[DataType]:
    """DirectML's element types without UNKNOWN; with `whole_bytes` without the 4-bit ones too."""
    return st.sampled_from([type_ for type_ in DataType if type_ and (type_.itemsize or not whole_bytes)])


def order_strings(rank: int | None = None) -> st.SearchStrategy[str]:
    """Axis orders such as "NHWC" and "WHD", of the given rank or any from 1 to 5."""
    return st.sampled_from([order for order in _ORDERS if rank is None or len(order) == rank])


# Layouts


@st.composite
def tensor_sizes(
    draw: st.DrawFn,
    min_rank: int = 0,
    max_rank: int = 8,
    *,
    least: int = 1,
    max_size: int = 5,
    max_elements: int = 300,
) -> tuple[int, ...]:
    """Sizes whose product stays small; ones are as likely as anything else."""
    sizes: list[int] = []
    for _ in range(draw(st.integers(min_rank, max_rank))):
        most = min(max_size, max_elements // max(prod(sizes), 1))
        sizes.append(draw(st.integers(least, max(most, 1))))
    return tuple(sizes)


@st.composite
def layouts_of(
    draw: st.DrawFn, sizes: tuple[int, ...], *, flips: bool = True, broadcast: bool = True, padding: bool = True
) -> Layout:
    """Layouts of given sizes whose axes nest in memory: in any order, with gaps, flips and repeats where allowed."""
    strides = [0] * len(sizes)
    step = draw(st.integers(1, 3)) if padding else 1
    offset = draw(st.integers(0, 9))
    for axis in reversed(draw(st.permutations(range(len(sizes))))):
        size = sizes[axis]
        if broadcast and draw(st.integers(0, 5)) == 0:
            continue
        backwards = flips and draw(st.integers(0, 3)) == 0
        strides[axis] = -step if backwards else step
        offset += (size - 1) * step if backwards and size else 0
        step *= max(size, 1)
        if padding and draw(st.integers(0, 3)) == 0:
            step += draw(st.integers(1, 4))
    return Layout(sizes, strides, offset)


@st.composite
def layouts(
    draw: st.DrawFn,
    min_rank: int = 0,
    max_rank: int = 8,
    *,
    least: int = 1,
    flips: bool = True,
    broadcast: bool = True,
    padding: bool = True,
) -> Layout:
    """Layouts of any sizes: packed, permuted, padded, broadcast, flipped and at an offset."""
    sizes = draw(tensor_sizes(min_rank, max_rank, least=least))
    return draw(layouts_of(sizes, flips=flips, broadcast=broadcast, padding=padding))


@st.composite
def any_layouts(draw: st.DrawFn, max_rank: int = 4, *, least: int = 0, reach: int = 7) -> Layout:
    """Layouts with strides at random: most overlap themselves, in ways that no padded image does."""
    sizes = draw(tensor_sizes(0, max_rank, least=least, max_size=4))
    strides = tuple(draw(st.integers(-reach, reach)) for _ in sizes)
    return Layout(sizes, strides, draw(st.integers(-5, 5)))


# Views


@dataclass(frozen=True)
class View:
    """One view with its arguments, for a `Layout` and, meaning the same, for a NumPy array.

    NumPy copies where a view cannot be had; a `Layout` then has to raise.
    """

    name: str
    arguments: tuple[Any, ...]
    numpy: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]

    def of_layout(self, layout: Layout) -> Layout:
        """The view of a layout."""
        view: Layout = getattr(layout, self.name)(*self.arguments)
        return view

    def of_array(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The same view of an array."""
        return self.numpy(array)

    def __repr__(self) -> str:
        """The call, as it would be written on a layout."""
        return f".{self.name}({', '.join(map(repr, self.arguments))})"


@st.composite
def views(draw: st.DrawFn, sizes: tuple[int, ...]) -> View:
    """A view that tensors of these sizes have, or, for those that join axes, may have."""
    choices = [_sliced, _broadcast_to, _unsqueezed, _reshaped, _flattened, _aligned_to_rank]
    if sizes:
        choices += [_permuted, _permuted, _sliced, _squeezed, _split_axis, _merged_axes]
    return draw(draw(st.sampled_from(choices))(sizes))


@st.composite
def _permuted(draw: st.DrawFn, sizes: tuple[int, ...]) -> View:
    axes = tuple(axis - draw(st.sampled_from((0, len(sizes)))) for axis in draw(st.permutations(range(len(sizes)))))
    return View("permuted", (axes,), lambda array: np.transpose(array, axes))


@st.composite
def _sliced(draw: st.DrawFn, sizes: tuple[int, ...]) -> View:
    index: list[Any] = []
    for size in sizes:
        kind = draw(st.integers(0, 3))
        if kind == 0 and size:
            index.append(draw(st.integers(-size, size - 1)))
        elif kind < 3:
            bound = st.none() | st.integers(-size - 1, size + 1)
            step = st.none() | st.integers(-3, 3).filter(bool)
            index.append(slice(draw(bound), draw(bound), draw(step)))
        else:
            index.append(slice(None))
        if len(sizes) + len(index) < 20 and draw(st.integers(0, 7)) == 0:
            index.append(None)
    if draw(st.booleans()):  # '...' in place of some neighbours, or of none
        start = draw(st.integers(0, len(index)))
        stop = draw(st.integers(start, len(index)))
        index[start:stop] = [Ellipsis]
    key = tuple(index)
    # With '...', NumPy answers with an array of rank 0 and not with a scalar.
    return View("sliced", (key,), lambda array: array[key if Ellipsis in key else (*key, ...)])


@st.composite
def _broadcast_to(draw: st.DrawFn, sizes: tuple[int, ...]) -> View:
    leading = tuple(draw(st.lists(st.integers(1, 3), max_size=1)))
    wanted = leading + tuple(draw(st.integers(0, 3)) if size == 1 and draw(st.booleans()) else size for size in sizes)
    return View("broadcast_to", (wanted,), lambda array: np.broadcast_to(array, wanted))


@st.composite
def _squeezed(draw: st.DrawFn, sizes: tuple[int, ...]) -> View:
    ones = [axis for axis, size in enumerate(sizes) if size == 1]
    if not ones or draw(st.booleans()):
        return View("squeezed", (), np.squeeze)
    axes = tuple(draw(st.lists(st.sampled_from(ones), unique=True)))
    return View("squeezed", (axes,), lambda array: np.squeeze(array, axes))


@st.composite
def _unsqueezed(draw: st.DrawFn, sizes: tuple[int, ...]) -> View:
    axis = draw(st.integers(-len(sizes) - 1, len(sizes)))
    return View("unsqueezed", (axis,), lambda array: np.expand_dims(array, axis))


def _seen_as(name: str, arguments: tuple[Any, ...], sizes: tuple[int, ...]) -> View:
    return View(name, arguments, lambda array: array.reshape(sizes))


def _factors(count: int) -> list[int]:
    return [factor for factor in range(1, count + 1) if count % factor == 0] or [0]


@st.composite
def _reshaped(draw: st.DrawFn, sizes: tuple[int, ...]) -> View:
    left = prod(sizes)
    wanted: list[int] = []
    for _ in range(draw(st.integers(0, 3))):
        wanted.append(draw(st.sampled_from(_factors(left))))
        left //= wanted[-1] or 1
    wanted.append(left)
    return _seen_as("reshaped", (tuple(wanted),), tuple(wanted))


@st.composite
def _split_axis(draw: st.DrawFn, sizes: tuple[int, ...]) -> View:
    axis = draw(st.integers(0, len(sizes) - 1))
    outer = draw(st.sampled_from(_factors(sizes[axis])))
    parts = (outer, sizes[axis] // outer if outer else draw(st.integers(0, 3)))
    named = axis - draw(st.sampled_from((0, len(sizes))))
    return _seen_as("split_axis", (named, parts), (*sizes[:axis], *parts, *sizes[axis + 1 :]))


@st.composite
def _merged_axes(draw: st.DrawFn, sizes: tuple[int, ...]) -> View:
    first = draw(st.integers(0, len(sizes) - 1))
    last = draw(st.integers(first, len(sizes) - 1))
    merged = prod(sizes[first : last + 1])
    return _seen_as("merged_axes", (first, last - len(sizes)), (*sizes[:first], merged, *sizes[last + 1 :]))


@st.composite
def _flattened(draw: st.DrawFn, sizes: tuple[int, ...]) -> View:
    draw(st.none())
    return _seen_as("flattened", (), (prod(sizes),))


@st.composite
def _aligned_to_rank(draw: st.DrawFn, sizes: tuple[int, ...]) -> View:
    ones = next((axis for axis, size in enumerate(sizes) if size != 1), len(sizes))
    rank = draw(st.integers(len(sizes) - ones, len(sizes) + 2))
    wanted = sizes[len(sizes) - rank :] if rank < len(sizes) else (1,) * (rank - len(sizes)) + sizes
    return _seen_as("aligned_to_rank", (rank,), wanted)
