"""Scatter updates into an operand, or into a copy of it, by indices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from stridedgpu.devices.interface import Device, DirectCheck, DirectLaunch, GatherLaunch
from stridedgpu.devices.operand import AllocationSpec, Operand
from stridedgpu.devices.selection import CPU, device_named
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import integer
from stridedgpu.values.tensor_spec import TensorSpec

from .allocation import DEFAULT_ALIGNMENT
from .device_move import Move, move_for
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


@dataclass(slots=True)
class _Scattering:
    """A scatter of operands with known specs: its access, its result if it is new, and what is prepared of it.

    `target` is the spec of the result, new or not. `alike`: its layout is the data's, so that it may be the data.
    """

    access: IndexedAccess
    allocation: AllocationSpec | None
    data: TensorSpec
    updates: TensorSpec
    target: TensorSpec
    device: Device
    alike: bool
    check: DirectCheck | None = None
    copy: Move | None = None
    launch: GatherLaunch | None = None
    direct: DirectLaunch | None = None

    def copied(self) -> Move:
        """The copy of the data, prepared once and kept."""
        element = self.data.element
        # mypy has no protocol for hashable
        self.copy = move_for(self.data, self.target, conversion(element, element), None, self.device)  # type: ignore[arg-type]
        return self.copy

    def prepared(self) -> GatherLaunch:
        """The launch, prepared once and kept."""
        problem = self.access.problem(self.target, self.updates, scatters=True)
        self.launch = self.device.prepare(self.device.plan(problem))
        return self.launch


@lru_cache(maxsize=4096)
def _scattering(
    access_of: _Access,
    data: TensorSpec,
    index: TensorSpec,
    updates: TensorSpec,
    place: int,
    unique: bool,
    out: TensorSpec | None,
    device: Device,
) -> _Scattering:
    """A scatter, whose arguments are checked but for what their memory decides; cached."""
    access = access_of(data, index, place, unique=unique)
    check_updates(updates, data.element, access.sizes)
    sizes = data.layout.sizes
    if out is None:
        allocation = AllocationSpec.of(Layout(sizes), data.element, DEFAULT_ALIGNMENT)
        return _Scattering(access, allocation, data, updates, allocation.spec, device, alike=False)
    check_output_layout(out.layout, out.element, sizes, data.element)
    return _Scattering(access, None, data, updates, out, device, alike=out.layout == data.layout)


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
    # mypy has no protocol for hashable
    made = _scattering(access_of, data.spec, indices.spec, updates.spec, place, unique, written, device)  # type: ignore[arg-type]
    if updates.buffer.device != here:
        raise BindingError(f"updates are on {updates.buffer.device} and the data on {here}.")
    replaces = False
    if out is not None:
        start, end = out.reach
        replaces = made.alike and data.reach[0] == start and out.buffer.device == here
        is_apart = (
            (indices.reach[1] <= start or end <= indices.reach[0])
            and (updates.reach[1] <= start or end <= updates.reach[0])
            and (replaces or data.reach[1] <= start or end <= data.reach[0])
        )
        if not is_apart or out.buffer.readonly or out.buffer.device != here:
            inputs = {"indices": indices, "updates": updates} | ({} if replaces else {"data": data})
            check_output_memory(out, here, **inputs)
        target = out
    elif made.allocation is not None:
        target = made.allocation.allocate(made.device, stream)
    check = made.check
    if check is not None and stream is None:
        check(indices.reach[0])
    else:
        made.check = made.device.check_indices(made.access.rule, (indices.buffer, indices.start_bytes), stream)
    if not replaces:
        (made.copy or made.copied())(data, target, stream)
    direct = made.direct
    if direct is not None and stream is None:
        direct(updates.reach[0], target.reach[0], indices.reach[0])
        return target
    launch = made.launch or made.prepared()
    made.direct = launch(
        updates.buffer,
        updates.start_bytes,
        target.buffer,
        target.start_bytes,
        indices.buffer,
        indices.start_bytes,
        stream,
    )
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
