"""Scatter: a copy of an operand with elements or rows replaced where indices say."""

from __future__ import annotations

from stridedgpu.backends.gather_selection import gather_backend_named
from stridedgpu.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.layout import Layout
from stridedgpu.operand import Operand
from stridedgpu.planning.gather_problem import elements_problem, tuples_problem

from .allocation import DEFAULT_ALIGNMENT, allocate_operand
from .gather import check_element_indices, checked_axis, pick, tuple_axes
from .indices import check_index_operand, index_rule
from .outputs import check_output
from .relayout import assign_operand

__all__ = ["scatter_elements_operand", "scatter_nd_operand"]


def scatter_elements_operand(
    data: Operand,
    indices: Operand,
    updates: Operand,
    axis: int,
    *,
    unique: bool,
    out: Operand | None,
    stream: object,
) -> Operand:
    """What `stridedgpu.scatter_elements` does, on operands."""
    check_index_operand(indices, data.buffer.device)
    place = checked_axis(data.layout, axis)
    check_element_indices(data.layout, indices.layout, place)
    _check_updates(data, updates, indices.layout.sizes)
    return _scatter(data, indices, updates, range(place, place + 1), unique, out, stream, has_tuples=False)


def scatter_nd_operand(
    data: Operand, indices: Operand, updates: Operand, *, unique: bool, out: Operand | None, stream: object
) -> Operand:
    """What `stridedgpu.scatter_nd` does, on operands."""
    check_index_operand(indices, data.buffer.device)
    axes = tuple_axes(data.layout, indices.layout, 0)
    _check_updates(data, updates, (*indices.layout.sizes[:-1], *data.layout.sizes[axes.stop :]))
    return _scatter(data, indices, updates, axes, unique, out, stream, has_tuples=True)


def _scatter(
    data: Operand,
    indices: Operand,
    updates: Operand,
    axes: range,
    unique: bool,
    out: Operand | None,
    stream: object,
    *,
    has_tuples: bool,
) -> Operand:
    """Check everything, copy the data, then write the updates over it."""
    rule = index_rule(indices, data.layout.sizes, axes, has_tuples=has_tuples, unique=unique)
    device = data.buffer.device
    if out is None:
        target = allocate_operand(Layout(data.layout.sizes), data.element, DEFAULT_ALIGNMENT, device)
    else:
        inputs = {"data": data, "indices": indices, "updates": updates}
        check_output(out, data.layout.sizes, data.element, device, inputs)
        target = out
    gather_backend_named(device).check_indices(rule, indices.buffer, indices.start_bytes, "raise", stream)
    assign_operand(data, target, stream)
    sides = (target.side, indices.side, updates.side)
    if has_tuples:
        problem = tuples_problem(*sides, 0, scatters=True)
    else:
        problem = elements_problem(*sides, axes.start, scatters=True)
    pick(problem, "raise", updates, target, indices, stream)
    return target


def _check_updates(data: Operand, updates: Operand, sizes: tuple[int, ...]) -> None:
    """Raise unless the updates are elements of the data's type, as many as the indices name."""
    if updates.element != data.element:
        raise ElementTypeError(
            f"updates hold {updates.element} and data {data.element}; both must be of one type: "
            f"convert with relayout(updates, dtype={data.element.name!r})."
        )
    if updates.layout.sizes != sizes:
        raise LayoutError(f"updates have sizes {updates.layout.sizes}; these indices need sizes {sizes}.")
    if updates.buffer.device != data.buffer.device:
        raise BindingError(f"updates are on {updates.buffer.device} and the data on {data.buffer.device}.")
