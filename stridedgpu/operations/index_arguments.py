"""`Picking`: what a gather or scatter is asked for, checked, before there is any memory for its result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from stridedgpu.planning.gather_problem import GatherProblem, elements_problem, gather_problem, tuples_problem
from stridedgpu.planning.index_rule import IndexRule
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import integer
from stridedgpu.values.tensor_spec import TensorSpec

from .indices import check_index_type, index_rule

__all__ = ["Picking", "elements_picking", "slices_picking", "tuples_picking"]


@dataclass(frozen=True, slots=True)
class Picking:
    """Indices into some axes of data.

    `sizes` are those of what the indices name: a gather's result, a scatter's updates. `names_slices` says that each
    index stands for a whole slice; otherwise it has a place of its own in the other axes, or is part of a tuple, as the
    rule says.
    """

    index: TensorSpec
    axes: range
    sizes: tuple[int, ...]
    rule: IndexRule
    names_slices: bool = False

    def problem(self, picked: TensorSpec, plain: TensorSpec, *, scatters: bool = False) -> GatherProblem:
        """The loops between the side that indices name places of, and the one that lies in their order."""
        axis = self.axes.start
        if self.names_slices:
            return gather_problem(picked, self.index, plain, axis)
        if self.rule.has_tuples:
            return tuples_problem(picked, self.index, plain, axis, scatters=scatters)
        return elements_problem(picked, self.index, plain, axis, scatters=scatters)


def slices_picking(data: TensorSpec, index: TensorSpec, axis: int) -> Picking:
    """Slices along one axis, which the axes of the indices take the place of.

    Raises `ElementTypeError`, `LayoutError` or `IndexError` for indices that no data like this has.
    """
    return _slices(data, index, data.layout.axis_of(axis))


@lru_cache(maxsize=1024)
def _slices(data: TensorSpec, index: TensorSpec, place: int) -> Picking:
    """The same for an axis counted from 0: operands like those of an earlier call are not looked at again."""
    check_index_type(index.element)
    axes, sizes = range(place, place + 1), data.layout.sizes
    rule = index_rule(index, sizes, axes)
    made = (*sizes[:place], *index.layout.sizes, *sizes[place + 1 :])
    return Picking(index, axes, made, rule, names_slices=True)


def elements_picking(data: TensorSpec, index: TensorSpec, axis: int, *, unique: bool = False) -> Picking:
    """One element for each index, which is its coordinate along `axis`; errors as of `slices_picking`."""
    return _elements(data, index, data.layout.axis_of(axis), unique=_checked_unique(unique))


@lru_cache(maxsize=1024)
def _elements(data: TensorSpec, index: TensorSpec, place: int, *, unique: bool) -> Picking:
    """The same for an axis counted from 0."""
    check_index_type(index.element)
    _check_sizes(data.layout, index.layout, place)
    axes = range(place, place + 1)
    return Picking(index, axes, index.layout.sizes, index_rule(index, data.layout.sizes, axes, unique=unique))


def tuples_picking(data: TensorSpec, index: TensorSpec, batch_dims: int, *, unique: bool = False) -> Picking:
    """Elements or slices for tuples of coordinates behind `batch_dims` common axes; errors as of `slices_picking`."""
    return _tuples(data, index, _tuple_axes(data.layout, index.layout, batch_dims), unique=_checked_unique(unique))


@lru_cache(maxsize=1024)
def _tuples(data: TensorSpec, index: TensorSpec, axes: range, *, unique: bool) -> Picking:
    """The same for axes that were found to fit."""
    check_index_type(index.element)
    rule = index_rule(index, data.layout.sizes, axes, has_tuples=True, unique=unique)
    return Picking(index, axes, (*index.layout.sizes[:-1], *data.layout.sizes[axes.stop :]), rule)


def _checked_unique(unique: bool) -> bool:
    """`unique` as it is. Raises `LayoutError` for anything but a bool."""
    if not isinstance(unique, bool):
        raise LayoutError(f"unique={unique!r} is not a bool.")
    return unique


def _check_sizes(data: Layout, indices: Layout, axis: int) -> None:
    """Raise `LayoutError` unless the indices have the data's rank, and no more than its sizes on the other axes."""
    if indices.ndim != data.ndim:
        raise LayoutError(
            f"indices have rank {indices.ndim} (sizes {indices.sizes}) and data rank {data.ndim} "
            f"(sizes {data.sizes}); the ranks must be equal."
        )
    for place, (own, most) in enumerate(zip(indices.sizes, data.sizes, strict=True)):
        if place != axis and own > most:
            raise LayoutError(
                f"indices have size {own} along axis {place}, and data {most}; "
                f"on every axis but {axis} they may be smaller, not larger."
            )


def _tuple_axes(data: Layout, indices: Layout, batch_dims: int) -> range:
    """The axes that tuples along the last axis of `indices` name, behind `batch_dims` common ones.

    Raises `LayoutError` for ranks and sizes that do not fit each other.
    """
    common = integer("batch_dims", batch_dims)
    if not indices.ndim:
        raise LayoutError("indices are a scalar; their last axis must hold the tuples, such as sizes (n, 2).")
    if not 0 <= common < min(indices.ndim, data.ndim):
        raise LayoutError(
            f"batch_dims={common} must be from 0 to {min(indices.ndim, data.ndim) - 1}, "
            f"below the ranks of data {data.sizes} and indices {indices.sizes}."
        )
    if data.sizes[:common] != indices.sizes[:common]:
        raise LayoutError(
            f"the first batch_dims={common} sizes of data {data.sizes} and indices {indices.sizes} must be equal."
        )
    length = indices.sizes[-1]
    if not 1 <= length <= data.ndim - common:
        raise LayoutError(
            f"indices {indices.sizes} hold tuples of {length}; data {data.sizes} has "
            f"{data.ndim - common} axes behind batch_dims={common} for them, and each names at least one."
        )
    return range(common, common + length)
