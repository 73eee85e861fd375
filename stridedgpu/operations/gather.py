"""Gather: pick elements, rows and windows of an operand by indices, into another operand of any layout."""

from __future__ import annotations

from operator import index as as_index

from stridedgpu.backends.gather_selection import gather_backend_named
from stridedgpu.backends.selection import device_name
from stridedgpu.dims import Labels, dims_of, labels_of
from stridedgpu.errors import DeviceError, LayoutError
from stridedgpu.layout import Layout
from stridedgpu.operand import Operand
from stridedgpu.planning.gather import GatherPlan, Mode, plan_gather
from stridedgpu.planning.gather_problem import GatherProblem, elements_problem, gather_problem, tuples_problem
from stridedgpu.planning.gpu import REFERENCE_GPU
from stridedgpu.planning.index_rule import IndexRule
from stridedgpu.planning.problem import Side

from .allocation import DEFAULT_ALIGNMENT, allocate_operand
from .indices import check_index_operand, checked_mode, index_rule
from .outputs import check_output

__all__ = [
    "checked_axis",
    "gather_elements_operand",
    "gather_nd_operand",
    "gather_operand",
    "gather_plan",
    "pick",
    "tuple_axes",
]


def gather_operand(
    data: Operand, dims: str | None, indices: Operand, axis: int, mode: str, out: Operand | None, stream: object
) -> tuple[Operand, str | None]:
    """What `stridedgpu.gather` does, on operands; the labels of the result stand beside it."""
    wanted = checked_mode(mode)
    check_index_operand(indices, data.buffer.device)
    place = checked_axis(data.layout, axis)
    rule = index_rule(indices, data.layout.sizes, range(place, place + 1))
    sizes, rank = data.layout.sizes, indices.layout.ndim
    target = _target(data, indices, (*sizes[:place], *indices.layout.sizes, *sizes[place + 1 :]), out)
    labels = labels_of(dims, data.layout.ndim)
    kept: Labels = (labels[place],) if rank == 1 else (None,) * rank
    problem = gather_problem(data.side, indices.side, target.side, place)
    _gather(problem, rule, wanted, data, indices, target, stream)
    return target, dims_of((*labels[:place], *kept, *labels[place + 1 :]))


def gather_elements_operand(
    data: Operand, dims: str | None, indices: Operand, axis: int, mode: str, out: Operand | None, stream: object
) -> tuple[Operand, str | None]:
    """What `stridedgpu.gather_elements` does, on operands."""
    wanted = checked_mode(mode)
    check_index_operand(indices, data.buffer.device)
    place = checked_axis(data.layout, axis)
    check_element_indices(data.layout, indices.layout, place)
    rule = index_rule(indices, data.layout.sizes, range(place, place + 1))
    target = _target(data, indices, indices.layout.sizes, out)
    problem = elements_problem(data.side, indices.side, target.side, place, scatters=False)
    _gather(problem, rule, wanted, data, indices, target, stream)
    return target, dims


def gather_nd_operand(
    data: Operand, dims: str | None, indices: Operand, batch_dims: int, mode: str, out: Operand | None, stream: object
) -> tuple[Operand, str | None]:
    """What `stridedgpu.gather_nd` does, on operands."""
    wanted = checked_mode(mode)
    check_index_operand(indices, data.buffer.device)
    axes = tuple_axes(data.layout, indices.layout, batch_dims)
    rule = index_rule(indices, data.layout.sizes, axes, has_tuples=True)
    rest = data.layout.sizes[axes.stop :]
    target = _target(data, indices, (*indices.layout.sizes[:-1], *rest), out)
    problem = tuples_problem(data.side, indices.side, target.side, axes.start, scatters=False)
    _gather(problem, rule, wanted, data, indices, target, stream)
    labels = labels_of(dims, data.layout.ndim)
    between = indices.layout.ndim - 1 - axes.start
    return target, dims_of((*labels[: axes.start], *(None,) * between, *labels[axes.stop :]))


def gather_plan(data: Operand, indices: Operand, axis: int, mode: str, device: str | None) -> GatherPlan:
    """The plan of a gather into new memory, on any device, without reading or moving anything."""
    wanted = checked_mode(mode)
    check_index_operand(indices, data.buffer.device)
    place = checked_axis(data.layout, axis)
    index_rule(indices, data.layout.sizes, range(place, place + 1))
    sizes = data.layout.sizes
    layout = Layout((*sizes[:place], *indices.layout.sizes, *sizes[place + 1 :]))
    target = Side.of(layout, data.element, base_alignment=DEFAULT_ALIGNMENT, owns_padding=True)
    problem = gather_problem(data.side, indices.side, target, place)
    name = data.buffer.device if device is None else device_name(device)
    try:
        widest = gather_backend_named(name).widest_access
    except DeviceError:
        widest = REFERENCE_GPU.widest_access
    return plan_gather(problem, wanted, name, widest)


def pick(problem: GatherProblem, mode: Mode, plain: Operand, picked: Operand, indices: Operand, stream: object) -> None:
    """Plan, and run."""
    device = picked.buffer.device
    backend = gather_backend_named(device)
    launch = backend.prepare_gather(plan_gather(problem, mode, device, backend.widest_access))
    launch(
        plain.buffer,
        plain.start_bytes,
        picked.buffer,
        picked.start_bytes,
        indices.buffer,
        indices.start_bytes,
        stream,
    )


def checked_axis(layout: Layout, axis: int) -> int:
    """`axis` counted from 0. Raises `LayoutError` for what is no axis of `layout`."""
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise LayoutError(f"axis={axis!r} is not an integer.")
    return layout.axis_of(as_index(axis))


def check_element_indices(data: Layout, indices: Layout, axis: int) -> None:
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


def tuple_axes(data: Layout, indices: Layout, batch_dims: int) -> range:
    """The axes that tuples along the last axis of `indices` name, behind `batch_dims` common ones.

    Raises `LayoutError` for ranks and sizes that do not fit each other.
    """
    if isinstance(batch_dims, bool) or not hasattr(batch_dims, "__index__"):
        raise LayoutError(f"batch_dims={batch_dims!r} is not an integer.")
    common = as_index(batch_dims)
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


def _target(data: Operand, indices: Operand, sizes: tuple[int, ...], out: Operand | None) -> Operand:
    """`out`, checked, or new memory, packed."""
    device = data.buffer.device
    if out is None:
        return allocate_operand(Layout(sizes), data.element, DEFAULT_ALIGNMENT, device)
    check_output(out, sizes, data.element, device, {"data": data, "indices": indices})
    return out


def _gather(
    problem: GatherProblem,
    rule: IndexRule,
    mode: Mode,
    data: Operand,
    indices: Operand,
    target: Operand,
    stream: object,
) -> None:
    """Check the indices, then move."""
    backend = gather_backend_named(data.buffer.device)
    backend.check_indices(rule, indices.buffer, indices.start_bytes, mode, stream)
    pick(problem, mode, target, data, indices, stream)
