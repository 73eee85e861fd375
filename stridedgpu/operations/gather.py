"""Gather elements, rows and slices of an operand by indices, and scatter them into one."""

from __future__ import annotations

from functools import lru_cache

from stridedgpu.devices.interface import Device, GatherLaunch
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_named
from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.planning.index_rule import Mode
from stridedgpu.values.axis_labels import Labels, dims_of, labels_of
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .allocation import DEFAULT_ALIGNMENT, allocate_operand
from .index_arguments import (
    IndexedAccess,
    check_index_operand,
    checked_mode,
    elements_access,
    slices_access,
    tuples_access,
)
from .relayout import assign_operand
from .requirements import check_output

__all__ = [
    "check_updates",
    "gather_elements_operand",
    "gather_nd_operand",
    "gather_operand",
    "move_indexed",
    "run_plan",
    "scatter_elements_operand",
    "scatter_nd_operand",
]


def gather_operand(
    data: Operand, dims: str | None, indices: Operand, axis: int, mode: str, out: Operand | None, stream: object
) -> tuple[Operand, str | None]:
    """`stridedgpu.gather` on operands; also returns the labels of the result."""
    wanted = checked_mode(mode)
    check_index_operand(indices, data.buffer.device)
    access = slices_access(data.spec, indices.spec, axis)
    target = _gathered(access, wanted, data, indices, out, stream)
    place, rank = access.axes.start, indices.layout.ndim
    labels = labels_of(dims, data.layout.ndim)
    kept: Labels = (labels[place],) if rank == 1 else (None,) * rank
    return target, dims_of((*labels[:place], *kept, *labels[place + 1 :]))


def gather_elements_operand(
    data: Operand, dims: str | None, indices: Operand, axis: int, mode: str, out: Operand | None, stream: object
) -> tuple[Operand, str | None]:
    """`stridedgpu.gather_elements` on operands."""
    wanted = checked_mode(mode)
    check_index_operand(indices, data.buffer.device)
    access = elements_access(data.spec, indices.spec, axis)
    return _gathered(access, wanted, data, indices, out, stream), dims


def gather_nd_operand(
    data: Operand, dims: str | None, indices: Operand, batch_dims: int, mode: str, out: Operand | None, stream: object
) -> tuple[Operand, str | None]:
    """`stridedgpu.gather_nd` on operands."""
    wanted = checked_mode(mode)
    check_index_operand(indices, data.buffer.device)
    access = tuples_access(data.spec, indices.spec, batch_dims)
    target = _gathered(access, wanted, data, indices, out, stream)
    axes, labels = access.axes, labels_of(dims, data.layout.ndim)
    between = indices.layout.ndim - 1 - axes.start
    return target, dims_of((*labels[: axes.start], *(None,) * between, *labels[axes.stop :]))


def move_indexed(
    access: IndexedAccess,
    mode: Mode,
    dense: Operand,
    indexed: Operand,
    indices: Operand,
    stream: object,
    *,
    scatters: bool = False,
) -> None:
    """Plan, and run."""
    device = device_named(indexed.buffer.device)
    # mypy has no protocol for hashable
    plan = _planned(access, indexed.spec, dense.spec, mode, device, scatters)  # type: ignore[arg-type]
    run_plan(plan, dense, indexed, indices, stream)


@lru_cache(maxsize=1024)
def _planned(
    access: IndexedAccess, indexed: TensorSpec, dense: TensorSpec, mode: Mode, device: Device, scatters: bool
) -> DevicePlan:
    """The plan for operands with these specs, cached."""
    return device.plan(access.problem(indexed, dense, mode, scatters=scatters))


def run_plan(plan: DevicePlan, dense: Operand, indexed: Operand, indices: Operand, stream: object) -> None:
    """Run a plan on operands that fit it."""
    launch: GatherLaunch = device_named(plan.device).prepare(plan)
    launch(
        (dense.buffer, dense.start_bytes),
        (indexed.buffer, indexed.start_bytes),
        (indices.buffer, indices.start_bytes),
        stream,
    )


def _gathered(
    access: IndexedAccess, mode: Mode, data: Operand, indices: Operand, out: Operand | None, stream: object
) -> Operand:
    """Check the indices, then gather into a checked `out`, or into new packed memory."""
    device = data.buffer.device
    if out is None:
        target = allocate_operand(Layout(access.sizes), data.element, DEFAULT_ALIGNMENT, device, stream=stream)
    else:
        check_output(out, access.sizes, data.element, device, {"data": data, "indices": indices})
        target = out
    device_named(device).check_indices(access.rule, (indices.buffer, indices.start_bytes), mode, stream)
    move_indexed(access, mode, target, data, indices, stream)
    return target


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
    check_index_operand(indices, data.buffer.device)
    access = elements_access(data.spec, indices.spec, axis, unique=unique)
    return _scattered(access, data, indices, updates, out, stream)


def scatter_nd_operand(
    data: Operand, indices: Operand, updates: Operand, *, unique: bool, out: Operand | None, stream: object
) -> Operand:
    """`stridedgpu.scatter_nd` on operands."""
    check_index_operand(indices, data.buffer.device)
    access = tuples_access(data.spec, indices.spec, 0, unique=unique)
    return _scattered(access, data, indices, updates, out, stream)


def _scattered(
    access: IndexedAccess, data: Operand, indices: Operand, updates: Operand, out: Operand | None, stream: object
) -> Operand:
    """Check everything, copy the data, then write the updates over the copy."""
    device = data.buffer.device
    check_updates(updates.spec, data.element, access.sizes)
    if updates.buffer.device != device:
        raise BindingError(f"updates are on {updates.buffer.device} and the data on {device}.")
    if out is None:
        target = allocate_operand(Layout(data.layout.sizes), data.element, DEFAULT_ALIGNMENT, device, stream=stream)
    else:
        inputs = {"data": data, "indices": indices, "updates": updates}
        check_output(out, data.layout.sizes, data.element, device, inputs)
        target = out
    device_named(device).check_indices(access.rule, (indices.buffer, indices.start_bytes), "raise", stream)
    assign_operand(data, target, stream)
    move_indexed(access, "raise", updates, target, indices, stream, scatters=True)
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
