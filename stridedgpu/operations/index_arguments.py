"""The arguments of a gather or scatter, checked before memory is allocated: indices, their rule, their targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from stridedgpu.devices.operand import Operand
from stridedgpu.problems.gather_problem import GatherProblem, elements_problem, gather_problem, tuples_problem
from stridedgpu.problems.index_rule import IndexRule, Mode
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.memoized import interned
from stridedgpu.values.strides import integer
from stridedgpu.values.tensor_spec import TensorSpec

from .options import truth

INDEX_TYPES: Final = ("int32", "int64", "uint32", "uint64")

_MODES: Final[Mapping[str, str]] = {
    "raise": "refuse indices out of range",
    "clip": "take the nearest valid one",
    "wrap": "count round the axis",
    "deferred": "on CUDA, clamp and raise at the next synchronisation",
}


def check_index_operand(indices: Operand, device: str) -> None:
    """Raise `ElementTypeError` for indices other than 32- or 64-bit integers, `BindingError` on another device."""
    check_index_type(indices.element)
    if indices.buffer.device != device:
        raise BindingError(f"indices are on {indices.buffer.device} and the data on {device}; move one to the other.")


def check_index_type(element: ElementType) -> None:
    """Raise `ElementTypeError` for types other than 32- and 64-bit integers."""
    if element.name not in INDEX_TYPES:
        advice = (
            "numpy.flatnonzero(mask) makes them of a mask"
            if element.kind == "b"
            else "convert them with asarray(indices, dtype='int64')"
        )
        raise ElementTypeError(f"indices hold {element}; they must be {', '.join(INDEX_TYPES)}: {advice}.")


def checked_mode(mode: object) -> Mode:
    """`mode`, checked. Raises `LayoutError` for anything but the four modes."""
    if not isinstance(mode, str) or mode not in _MODES:
        choices = ", ".join(f"{name!r} ({meaning})" for name, meaning in _MODES.items())
        raise LayoutError(f"mode={mode!r} is unknown; it is {choices}.")
    return cast("Mode", mode)


def check_axes(rule: IndexRule) -> None:
    """Raise `IndexError` if no index can be valid: there are indices, and an indexed axis has size 0."""
    layout = rule.index.layout
    for component, (_, size) in enumerate(rule.axes):
        if size == 0 and layout.element_count:
            axis = rule.axes[component][0]
            raise IndexError(
                f"axis {axis} has no elements, so none of the {layout.element_count} indices is valid in any mode."
            )


def index_rule(
    indices: TensorSpec, sizes: tuple[int, ...], axes: range, *, has_tuples: bool = False, unique: bool = False
) -> IndexRule:
    """The rule for indices into axes of a tensor of `sizes`; with `unique`, no two may select one element.

    Raises `IndexError` if an axis has size 0.
    """
    own: tuple[int, ...] = ()
    named: tuple[int, ...] = ()
    if unique and 0 not in sizes:
        pitches = _pitches(sizes)
        named = tuple(pitches[axis] for axis in axes)
        if not has_tuples:
            own = tuple(0 if axis in axes else pitch for axis, pitch in enumerate(pitches))
    rule = IndexRule(indices, tuple((axis, sizes[axis]) for axis in axes), has_tuples, own, named)
    check_axes(rule)
    return rule


def _pitches(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a row-major numbering of the elements."""
    pitches = [1] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        pitches[axis] = pitches[axis + 1] * sizes[axis + 1]
    return tuple(pitches)


@dataclass(frozen=True, slots=True)
class IndexedAccess:
    """Indices into some axes of data.

    `sizes` are the sizes that the indices select: a gather's result, a scatter's updates. With `names_slices` each
    index selects a whole slice. Otherwise each index either has its own position in the other axes, or is part of a
    tuple; the rule tells which.
    """

    index: TensorSpec
    axes: range
    sizes: tuple[int, ...]
    rule: IndexRule
    names_slices: bool = False

    def problem(
        self, indexed: TensorSpec, dense: TensorSpec, mode: Mode = "raise", *, scatters: bool = False
    ) -> GatherProblem:
        """The loops between the indexed side and the dense side."""
        axis = self.axes.start
        if self.names_slices:
            return interned(replace(gather_problem(indexed, self.index, dense, axis), mode=mode))
        if self.rule.has_tuples:
            result = tuples_problem(indexed, self.index, dense, axis, scatters=scatters)
        else:
            result = elements_problem(indexed, self.index, dense, axis, scatters=scatters)
        return interned(replace(result, mode=mode))


def slices_access(data: TensorSpec, index: TensorSpec, axis: int) -> IndexedAccess:
    """Slices along one axis, which the axes of the indices replace.

    Raises `ElementTypeError`, `LayoutError` or `IndexError` for indices that do not fit the data's spec.
    """
    place, sizes = data.layout.axis_of(axis), data.layout.sizes
    check_index_type(index.element)
    axes = range(place, place + 1)
    rule = index_rule(index, sizes, axes)
    return IndexedAccess(
        index, axes, (*sizes[:place], *index.layout.sizes, *sizes[place + 1 :]), rule, names_slices=True
    )


def elements_access(data: TensorSpec, index: TensorSpec, axis: int, *, unique: bool = False) -> IndexedAccess:
    """One element for each index, which is its coordinate along `axis`. Raises what `slices_access` raises."""
    place, named_once = data.layout.axis_of(axis), truth("unique", unique)
    check_index_type(index.element)
    _check_sizes(data.layout, index.layout, place)
    axes = range(place, place + 1)
    rule = index_rule(index, data.layout.sizes, axes, unique=named_once)
    return IndexedAccess(index, axes, index.layout.sizes, rule)


def tuples_access(data: TensorSpec, index: TensorSpec, batch_dims: int, *, unique: bool = False) -> IndexedAccess:
    """Elements or slices for tuples of coordinates after `batch_dims` shared axes. Raises as `slices_access`."""
    axes, named_once = _tuple_axes(data.layout, index.layout, batch_dims), truth("unique", unique)
    check_index_type(index.element)
    rule = index_rule(index, data.layout.sizes, axes, has_tuples=True, unique=named_once)
    return IndexedAccess(index, axes, (*index.layout.sizes[:-1], *data.layout.sizes[axes.stop :]), rule)


def _check_sizes(data: Layout, indices: Layout, axis: int) -> None:
    """Raise `LayoutError` unless the indices have the data's rank and, on other axes, at most its sizes."""
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
    """The axes that tuples along the last axis of `indices` address, after `batch_dims` shared ones.

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
