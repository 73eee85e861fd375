"""Scatter updates into an operand, or into a copy of it, by indices."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Protocol

from stridedgpu.devices.operand import AllocationSpec, Operand
from stridedgpu.devices.selection import CPU, device_named
from stridedgpu.planning.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.planning.gather_problem import GatherProblem
from stridedgpu.planning.index_rule import IndexRule
from stridedgpu.planning.relayout_problem import RelayoutProblem
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import integer
from stridedgpu.values.tensor_spec import TensorSpec

from .allocation import DEFAULT_ALIGNMENT
from .index_arguments import (
    INDEX_TYPES,
    IndexedAccess,
    check_index_operand,
    checked_unique,
    elements_access,
    tuples_access,
)
from .requirements import check_output_layout, check_output_memory

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
    """`stridedgpu.scatter_elements` on operands."""
    if type(axis) is not int:
        axis = integer("axis", axis)
    return _scattered(elements_access, data, indices, updates, axis, unique, out, stream)


def scatter_nd_operand(
    data: Operand, indices: Operand, updates: Operand, *, unique: bool, out: Operand | None, stream: object
) -> Operand:
    """`stridedgpu.scatter_nd` on operands."""
    return _scattered(tuples_access, data, indices, updates, 0, unique, out, stream)


class _Access(Protocol):
    """From the specs of data and indices, and the axis: the access."""

    def __call__(self, data: TensorSpec, index: TensorSpec, place: int, /, *, unique: bool) -> IndexedAccess: ...


class _Scattering(NamedTuple):
    """A scatter of operands with known specs: the check of its indices, the copy of its data, and the updates.

    `allocation` is that of a new result. `alike`: its layout is the data's, so that it may be the data.
    """

    rule: IndexRule
    copy: RelayoutProblem | ChannelMatrixProblem
    updates: GatherProblem
    allocation: AllocationSpec | None
    alike: bool


@lru_cache(maxsize=4096)
def _scattering(
    access_of: _Access,
    data: TensorSpec,
    index: TensorSpec,
    updates: TensorSpec,
    place: int,
    unique: bool,
    out: TensorSpec | None,
) -> _Scattering:
    """A scatter, whose arguments are checked but for what their memory decides; cached."""
    access = access_of(data, index, place, unique=unique)
    check_updates(updates, data.element, access.sizes)
    sizes, element, allocation, target = data.layout.sizes, data.element, None, out
    if target is None:
        allocation = AllocationSpec.of(Layout(sizes), element, DEFAULT_ALIGNMENT)
        target = allocation.spec
    else:
        check_output_layout(target.layout, target.element, sizes, element)
    copy = moving_problem(data, target, conversion(element, element), None)
    problem = access.problem(target, updates, scatters=True)
    return _Scattering(access.rule, copy, problem, allocation, out is not None and out.layout == data.layout)


def _scattered(
    access_of: _Access,
    data: Operand,
    indices: Operand,
    updates: Operand,
    place: int,
    unique: bool,
    out: Operand | None,
    stream: object,
) -> Operand:
    """Check everything, copy the data unless `out` is the data itself, then write the updates over it."""
    here = data.buffer.device
    if indices.buffer.device != here or indices.element.name not in INDEX_TYPES:
        check_index_operand(indices, here)
    if type(unique) is not bool:
        checked_unique(unique)
    written, device = None if out is None else out.spec, CPU if here == "cpu" else device_named(here)
    scattering = _scattering(access_of, data.spec, indices.spec, updates.spec, place, unique, written)  # type: ignore[arg-type]
    if updates.buffer.device != here:
        raise BindingError(f"updates are on {updates.buffer.device} and the data on {here}.")
    replaces = False
    if out is not None:
        start, end = out.reach
        replaces = scattering.alike and data.reach[0] == start and out.buffer.device == here
        is_apart = (
            (indices.reach[1] <= start or end <= indices.reach[0])
            and (updates.reach[1] <= start or end <= updates.reach[0])
            and (replaces or data.reach[1] <= start or end <= data.reach[0])
        )
        if not is_apart or out.buffer.readonly or out.buffer.device != here:
            inputs = {"indices": indices, "updates": updates} | ({} if replaces else {"data": data})
            check_output_memory(out, here, **inputs)
        target = out
    elif scattering.allocation is not None:
        target = scattering.allocation.allocate(device, stream)
    device.launch_for(scattering.rule)(indices, stream)
    if not replaces:
        device.launch_for(scattering.copy)(data, target, stream)
    device.launch_for(scattering.updates)(updates, target, indices, stream)
    return target


def check_updates(updates: TensorSpec, element: ElementType, sizes: tuple[int, ...]) -> None:
    """Raise unless the updates have the data's element type and the sizes that the indices select."""
    if updates.element != element:
        raise ElementTypeError(
            f"updates hold {updates.element} and data {element}; both must be of one type: "
            f"convert with relayout(updates, dtype={element.name!r})."
        )
    if updates.layout.sizes != sizes:
        raise LayoutError(f"updates have sizes {updates.layout.sizes}; these indices need sizes {sizes}.")
