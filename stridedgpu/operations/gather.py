"""Gather elements, rows and slices of an operand by indices."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from stridedgpu.devices.interface import Device, IndexedLaunch
from stridedgpu.devices.launch_cache import cached_launches, settings
from stridedgpu.devices.operand import AllocationSpec, Operand, share_memory
from stridedgpu.devices.selection import CPU, device_named, planner_named
from stridedgpu.problems.gather_problem import GatherProblem
from stridedgpu.problems.index_rule import Mode
from stridedgpu.values.axis_labels import Labels, dims_of, labels_of
from stridedgpu.values.errors import BindingError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import integer
from stridedgpu.values.tensor_spec import TensorSpec

from .index_arguments import (
    INDEX_TYPES,
    IndexedAccess,
    check_index_operand,
    checked_mode,
    elements_access,
    slices_access,
    tuples_access,
)
from .options import DEFAULT_ALIGNMENT
from .plans import HasOperand, Plan, PlanOperand, check_output_layout, check_output_memory

Access = Callable[[TensorSpec, str | None, TensorSpec, int], tuple[IndexedAccess, str | None]]
"""From the specs of data and indices, the data's labels and the axis: the access, and the labels of its result."""


def slices(data: TensorSpec, dims: str | None, index: TensorSpec, axis: int) -> tuple[IndexedAccess, str | None]:
    """Slices along an axis, whose label is that of the result's axis if one axis of indices replaces it."""
    access = slices_access(data, index, axis)
    place, rank = access.axes.start, index.layout.ndim
    labels = labels_of(dims, data.layout.ndim)
    kept: Labels = (labels[place],) if rank == 1 else (None,) * rank
    return access, dims_of((*labels[:place], *kept, *labels[place + 1 :]))


def elements(data: TensorSpec, dims: str | None, index: TensorSpec, axis: int) -> tuple[IndexedAccess, str | None]:
    """Elements along an axis; the labels are the data's."""
    return elements_access(data, index, axis), dims


def tuples(data: TensorSpec, dims: str | None, index: TensorSpec, batch_dims: int) -> tuple[IndexedAccess, str | None]:
    """Slices at tuples of coordinates, which take the place of the indexed axes."""
    access = tuples_access(data, index, batch_dims)
    axes, labels = access.axes, labels_of(dims, data.layout.ndim)
    between = index.layout.ndim - 1 - axes.start
    return access, dims_of((*labels[: axes.start], *(None,) * between, *labels[axes.stop :]))


class _Gathering(NamedTuple):
    """A gather of operands with known specs: its problem, the labels of its result, and what to allocate or a launch.

    A new result has no launch yet: an allocation that fails compiles nothing.
    """

    problem: GatherProblem
    dims: str | None
    allocation: AllocationSpec | None
    launch: IndexedLaunch | None


@cached_launches
def _gathering(
    access_of: Access,
    data: TensorSpec,
    dims: str | None,
    index: TensorSpec,
    place: int,
    mode: str,
    out: TensorSpec | None,
    device: Device,
    key: Hashable,  # noqa: ARG001 - of the cache: the settings
) -> _Gathering:
    """A gather, whose arguments are checked but for what their memory decides; cached."""
    wanted = checked_mode(mode)
    access, labels = access_of(data, dims, index, place)
    if out is not None:
        check_output_layout(out.layout, out.element, access.sizes, data.element)
        problem = access.problem(data, out, wanted)
        return _Gathering(problem, labels, None, device.launch_for(problem))
    allocation = AllocationSpec.of(Layout(access.sizes), data.element, DEFAULT_ALIGNMENT)
    return _Gathering(access.problem(data, allocation.spec, wanted), labels, allocation, None)


def gather_operand(
    access_of: Access,
    data: Operand,
    dims: str | None,
    indices: Operand,
    place: int,
    mode: str,
    out: Operand | None,
    stream: object,
) -> tuple[Operand, str | None]:
    """`gather`, `gather_elements` or `gather_nd` into a checked `out`, or into new packed memory; also the labels.

    `access_of` is `slices`, `elements` or `tuples`, and `place` the axis, or the number of shared axes.
    """
    here = data.buffer.device
    if type(mode) is not str:
        checked_mode(mode)
    if indices.buffer.device != here or indices.element.name not in INDEX_TYPES:
        check_index_operand(indices, here)
    if type(place) is not int:
        place = integer("axis" if access_of is not tuples else "batch_dims", place)
    device = CPU if here == "cpu" else device_named(here)
    if out is None:
        gathering = _gathering(access_of, data.spec, dims, indices.spec, place, mode, None, device, settings())
        assert gathering.allocation is not None, "a new result has memory"
        target = gathering.allocation.allocate(device, stream)
    else:
        gathering = _gathering(access_of, data.spec, dims, indices.spec, place, mode, out.spec, device, settings())
        start, end = out.reach
        is_apart = (data.reach[1] <= start or end <= data.reach[0]) and (
            indices.reach[1] <= start or end <= indices.reach[0]
        )
        if not is_apart or out.buffer.readonly or out.buffer.fillers is not None or out.buffer.device != here:
            check_output_memory(out, here, data=data, indices=indices)
        target = out
    (gathering.launch or device.launch_for(gathering.problem))(target, data, indices, stream)
    return target, gathering.dims


class PlannedGather(Plan):
    """A gather, planned once by `plan_gather` or its variants and run many times: `plan(data, indices, out)`.

    It runs on tensors that meet `sides`, the requirements of `data`, `indices` and `out`, as a `RelayoutPlan` does.
    Their indices may be any, and every run checks them.
    """

    __slots__ = ()

    def __call__(self, data: HasOperand, indices: HasOperand, out: HasOperand, stream: object = None) -> None:
        """Run on three tensors; nothing is written if they do not fit the plan, or if an index is wrong.

        Raises `IndexError` by the plan's mode. Raises `BindingError` for another layout, type, device or alignment than
        planned, and for an `out` that is read-only or shares memory with `data` or `indices`. Raises `DeviceError` if
        the plan's device is unavailable.
        """
        try:
            source, index, target = data.operand, indices.operand, out.operand
            (launch,) = self.launches
            data_fits, indices_fit, out_fits = source.fitted, index.fitted, target.fitted
        except BindingError:
            raise  # of a tensor that was released
        except (AttributeError, ValueError):
            self.refuse(data=data, indices=indices, out=out)
        for_data, for_indices, for_out = self.sides
        if data_fits is not for_data:
            for_data.check("data", source)
        if indices_fit is not for_indices:
            for_indices.check("indices", index)
        if out_fits is not for_out:
            for_out.check("out", target)
        (start, end), (read, read_end), (numbers, numbers_end) = target.reach, source.reach, index.reach
        if read < end and start < read_end and share_memory(source, target):
            raise BindingError("out shares memory with data.")
        if numbers < end and start < numbers_end and share_memory(index, target):
            raise BindingError("out shares memory with indices.")
        direct = self.direct
        if direct is not None and stream is None:
            direct(start, read, numbers)
            return
        direct = launch(target, source, index, stream)
        if direct is not None:
            self.keep(direct)


def planned_gather(
    access: IndexedAccess, mode: Mode, data: PlanOperand, indices: PlanOperand, out: PlanOperand | None, device: str
) -> PlannedGather:
    """The plan of a gather into `out`, or into new memory.

    Raises `LayoutError` for an `out` of other sizes or another type, or one that overlaps itself.
    """
    widest = planner_named(device)[0].widest_access
    source, target = data.within(widest), planned_output(out, access.sizes, data).within(widest)
    problem = access.problem(source.spec, target.spec, mode)
    sides = source.required(device), indices.required(device), target.required(device, is_written=True)
    return PlannedGather.of(device, (problem,), sides)


def planned_output(out: PlanOperand | None, sizes: tuple[int, ...], data: PlanOperand) -> PlanOperand:
    """The spec of the written operand: a checked `out`, or what would be allocated."""
    element = data.spec.element
    if out is None:
        return PlanOperand(TensorSpec.of(Layout(sizes), element, base_alignment=DEFAULT_ALIGNMENT, owns_padding=True))
    check_output_layout(out.spec.layout, out.spec.element, sizes, element)
    return out
