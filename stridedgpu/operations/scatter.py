"""Scatter: a copy of an operand with elements or rows replaced where indices say."""

from __future__ import annotations

from stridedgpu.devices.gather_selection import gather_backend_named
from stridedgpu.devices.operand import Operand
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .allocation import DEFAULT_ALIGNMENT, allocate_operand
from .gather import pick
from .index_arguments import Picking, elements_picking, tuples_picking
from .indices import check_index_operand
from .outputs import check_output
from .relayout import assign_operand

__all__ = ["check_updates", "scatter_elements_operand", "scatter_nd_operand"]


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
    picking = elements_picking(data.spec, indices.spec, axis, unique=unique)
    return _scattered(picking, data, indices, updates, out, stream)


def scatter_nd_operand(
    data: Operand, indices: Operand, updates: Operand, *, unique: bool, out: Operand | None, stream: object
) -> Operand:
    """What `stridedgpu.scatter_nd` does, on operands."""
    check_index_operand(indices, data.buffer.device)
    picking = tuples_picking(data.spec, indices.spec, 0, unique=unique)
    return _scattered(picking, data, indices, updates, out, stream)


def _scattered(
    picking: Picking, data: Operand, indices: Operand, updates: Operand, out: Operand | None, stream: object
) -> Operand:
    """Check everything, copy the data, then write the updates over it."""
    device = data.buffer.device
    check_updates(updates.spec, data.element, picking.sizes)
    if updates.buffer.device != device:
        raise BindingError(f"updates are on {updates.buffer.device} and the data on {device}.")
    if out is None:
        target = allocate_operand(Layout(data.layout.sizes), data.element, DEFAULT_ALIGNMENT, device, stream=stream)
    else:
        inputs = {"data": data, "indices": indices, "updates": updates}
        check_output(out, data.layout.sizes, data.element, device, inputs)
        target = out
    gather_backend_named(device).check_indices(picking.rule, (indices.buffer, indices.start_bytes), "raise", stream)
    assign_operand(data, target, stream)
    pick(picking, "raise", updates, target, indices, stream, scatters=True)
    return target


def check_updates(updates: TensorSpec, element: ElementType, sizes: tuple[int, ...]) -> None:
    """Raise unless the updates are elements of the data's type, as many as the indices name."""
    if updates.element != element:
        raise ElementTypeError(
            f"updates hold {updates.element} and data {element}; both must be of one type: "
            f"convert with relayout(updates, dtype={element.name!r})."
        )
    if updates.layout.sizes != sizes:
        raise LayoutError(f"updates have sizes {updates.layout.sizes}; these indices need sizes {sizes}.")
