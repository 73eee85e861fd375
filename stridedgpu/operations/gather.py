"""Gather: pick elements, rows and windows of an operand by indices, into another operand of any layout."""

from __future__ import annotations

from functools import lru_cache

from stridedgpu.devices.cuda.planning.gather import GatherPlan, Mode, plan_gather
from stridedgpu.devices.gather_selection import gather_backend_named
from stridedgpu.devices.operand import Operand
from stridedgpu.values.axis_labels import Labels, dims_of, labels_of
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .allocation import DEFAULT_ALIGNMENT, allocate_operand
from .index_arguments import Picking, elements_picking, slices_picking, tuples_picking
from .indices import check_index_operand, checked_mode
from .outputs import check_output

__all__ = ["gather_elements_operand", "gather_nd_operand", "gather_operand", "pick", "run_plan"]


def gather_operand(
    data: Operand, dims: str | None, indices: Operand, axis: int, mode: str, out: Operand | None, stream: object
) -> tuple[Operand, str | None]:
    """What `stridedgpu.gather` does, on operands; the labels of the result stand beside it."""
    wanted = checked_mode(mode)
    check_index_operand(indices, data.buffer.device)
    picking = slices_picking(data.spec, indices.spec, axis)
    target = _gathered(picking, wanted, data, indices, out, stream)
    place, rank = picking.axes.start, indices.layout.ndim
    labels = labels_of(dims, data.layout.ndim)
    kept: Labels = (labels[place],) if rank == 1 else (None,) * rank
    return target, dims_of((*labels[:place], *kept, *labels[place + 1 :]))


def gather_elements_operand(
    data: Operand, dims: str | None, indices: Operand, axis: int, mode: str, out: Operand | None, stream: object
) -> tuple[Operand, str | None]:
    """What `stridedgpu.gather_elements` does, on operands."""
    wanted = checked_mode(mode)
    check_index_operand(indices, data.buffer.device)
    picking = elements_picking(data.spec, indices.spec, axis)
    return _gathered(picking, wanted, data, indices, out, stream), dims


def gather_nd_operand(
    data: Operand, dims: str | None, indices: Operand, batch_dims: int, mode: str, out: Operand | None, stream: object
) -> tuple[Operand, str | None]:
    """What `stridedgpu.gather_nd` does, on operands."""
    wanted = checked_mode(mode)
    check_index_operand(indices, data.buffer.device)
    picking = tuples_picking(data.spec, indices.spec, batch_dims)
    target = _gathered(picking, wanted, data, indices, out, stream)
    axes, labels = picking.axes, labels_of(dims, data.layout.ndim)
    between = indices.layout.ndim - 1 - axes.start
    return target, dims_of((*labels[: axes.start], *(None,) * between, *labels[axes.stop :]))


def pick(
    picking: Picking,
    mode: Mode,
    plain: Operand,
    picked: Operand,
    indices: Operand,
    stream: object,
    *,
    scatters: bool = False,
) -> None:
    """Plan, and run."""
    device = picked.buffer.device
    widest = gather_backend_named(device).widest_access
    run_plan(_planned(picking, picked.spec, plain.spec, mode, device, widest, scatters), plain, picked, indices, stream)


@lru_cache(maxsize=1024)
def _planned(
    picking: Picking, picked: TensorSpec, plain: TensorSpec, mode: Mode, device: str, widest: int, scatters: bool
) -> GatherPlan:
    """The plan for operands like these: those of an earlier call, and nothing is worked out again."""
    return plan_gather(picking.problem(picked, plain, scatters=scatters), mode, device, widest)


def run_plan(plan: GatherPlan, plain: Operand, picked: Operand, indices: Operand, stream: object) -> None:
    """Run a plan on the operands that it was made for."""
    gather_backend_named(plan.device).prepare_gather(plan)(
        (plain.buffer, plain.start_bytes),
        (picked.buffer, picked.start_bytes),
        (indices.buffer, indices.start_bytes),
        stream,
    )


def _gathered(
    picking: Picking, mode: Mode, data: Operand, indices: Operand, out: Operand | None, stream: object
) -> Operand:
    """Check the indices, then move into `out`, checked, or into new memory, packed."""
    device = data.buffer.device
    if out is None:
        target = allocate_operand(Layout(picking.sizes), data.element, DEFAULT_ALIGNMENT, device, stream=stream)
    else:
        check_output(out, picking.sizes, data.element, device, {"data": data, "indices": indices})
        target = out
    backend = gather_backend_named(device)
    backend.check_indices(picking.rule, (indices.buffer, indices.start_bytes), mode, stream)
    pick(picking, mode, target, data, indices, stream)
    return target
