"""Scatter updates into an operand, or into a copy of it, by indices."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Protocol

from stridedgpu.devices.interface import Device, DirectLaunch, IndexCheck, IndexedLaunch, MoveLaunch
from stridedgpu.devices.launch_cache import cached_launches, settings
from stridedgpu.devices.operand import AllocationSpec, Operand, share_memory
from stridedgpu.devices.selection import CPU, device_named, planner_named
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.problems.device_plan import DevicePlan
from stridedgpu.problems.gather_problem import GatherProblem
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import integer
from stridedgpu.values.tensor_spec import TensorSpec

from .gather import planned_output
from .index_arguments import INDEX_TYPES, IndexedAccess, check_index_operand
from .options import DEFAULT_ALIGNMENT, truth
from .plans import HasOperand, Plan, PlanOperand, check_output_layout, check_output_memory, steps_alike


class _Access(Protocol):
    """From the specs of data and indices, and the axis: the access."""

    def __call__(self, data: TensorSpec, index: TensorSpec, place: int, /, *, unique: bool) -> IndexedAccess: ...


@dataclass(slots=True)
class _Scattering:
    """A scatter of operands with known specs: the check of its indices, the copy of its data, and the updates.

    `allocation` is that of a new result. `alike`: its layout is the data's, so that it may be the data.
    Launches are prepared when they are first needed: a scatter into the data copies nothing.
    """

    check: IndexCheck
    copy: RelayoutProblem | ChannelMatrixProblem
    updates: GatherProblem
    allocation: AllocationSpec | None
    alike: bool
    device: Device
    copying: MoveLaunch | None = None
    updating: IndexedLaunch | None = None
    direct: DirectLaunch | None = None

    def prepared_copy(self) -> MoveLaunch:
        """The launch of the copy, kept for the calls after this one."""
        launch = self.device.launch_for(self.copy)
        self.copying = launch
        return launch

    def prepared_updates(self) -> IndexedLaunch:
        """The launch of the updates, kept likewise."""
        launch = self.device.launch_for(self.updates)
        self.updating = launch
        return launch


@cached_launches
def _scattering(
    access_of: _Access,
    data: TensorSpec,
    index: TensorSpec,
    updates: TensorSpec,
    place: int,
    unique: bool,
    out: TensorSpec | None,
    device: Device,
    key: Hashable,  # noqa: ARG001 - of the cache: the settings
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
    check = device.launch_for(access.rule)
    return _Scattering(check, copy, problem, allocation, out is not None and out.layout == data.layout, device)


def scatter_operand(
    access_of: _Access,
    data: Operand,
    indices: Operand,
    updates: Operand,
    place: int,
    unique: bool,
    out: Operand | None,
    stream: object,
) -> Operand:
    """`scatter_elements` or `scatter_nd`, by `access_of` `elements_access` or `tuples_access`; `place` is the axis.

    Checks everything, copies the data unless `out` is the data itself, then writes the updates over it.
    """
    if type(place) is not int:
        place = integer("axis", place)
    here = data.buffer.device
    if indices.buffer.device != here or indices.element.name not in INDEX_TYPES:
        check_index_operand(indices, here)
    if type(unique) is not bool:
        unique = truth("unique", unique)
    written, device = None if out is None else out.spec, CPU if here == "cpu" else device_named(here)
    scattering = _scattering(
        access_of, data.spec, indices.spec, updates.spec, place, unique, written, device, settings()
    )
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
        if not is_apart or out.buffer.readonly or out.buffer.fillers is not None or out.buffer.device != here:
            inputs = {"indices": indices, "updates": updates} | ({} if replaces else {"data": data})
            check_output_memory(out, here, **inputs)
        target = out
    elif scattering.allocation is not None:
        target = scattering.allocation.allocate(device, stream)
    scattering.check(indices, stream)
    if not replaces:
        (scattering.copying or scattering.prepared_copy())(data, target, stream)
    direct = scattering.direct
    if direct is not None and stream is None:
        direct(updates.reach[0], target.reach[0], indices.reach[0])
    else:
        scattering.direct = (scattering.updating or scattering.prepared_updates())(updates, target, indices, stream)
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


class PlannedScatter(Plan):
    """A scatter, planned once by `plan_scatter_nd` or its variants: `plan(data, indices, updates, out)`.

    `copy` is the plan of the first step, the data into `out`; `plan` is that of the updates over it. `sides` are the
    requirements of `data`, `indices`, `updates` and `out`, which tensors must meet as for a `PlannedGather`. With the
    data as `out` elements are replaced in place, and nothing is copied.
    """

    __slots__ = ()

    @property
    def steps(self) -> tuple[DevicePlan, ...]:
        """The updates, which `kernel` and widths are those of."""
        return (self.plan,)

    @property
    def copy(self) -> DevicePlan:
        """The plan of the data's copy into `out`."""
        return self.plans[1]

    def explain(self) -> str:
        """Both plans in words."""
        return f"the data first:\n{self.copy.explain()}\nthen the updates over it:\n{Plan.explain(self)}"

    def __call__(
        self, data: HasOperand, indices: HasOperand, updates: HasOperand, out: HasOperand, stream: object = None
    ) -> None:
        """Run on four tensors; raises what a `PlannedGather` raises, before anything is written."""
        try:
            source, index, new, target = data.operand, indices.operand, updates.operand, out.operand
            write, copy = self.launches
            data_fits, indices_fit, updates_fit, out_fits = source.fitted, index.fitted, new.fitted, target.fitted
        except BindingError:
            raise  # of a tensor that was released
        except (AttributeError, ValueError):
            self.refuse(data=data, indices=indices, updates=updates, out=out)
        for_data, for_indices, for_updates, for_out = self.sides
        rule, alike = self.options
        # One tensor in both places does not forget that it fits.
        if data_fits is not (for_out if alike and source is target else for_data):
            for_data.check("data", source)
        if indices_fit is not for_indices:
            for_indices.check("indices", index)
        if updates_fit is not for_updates:
            for_updates.check("updates", new)
        if out_fits is not for_out:
            for_out.check("out", target)
        (start, end), (read, read_end) = target.reach, source.reach
        (named, named_end), (written, written_end) = index.reach, new.reach
        replaces = read == start and steps_alike(source.layout, target.layout)
        if not replaces and read < end and start < read_end and share_memory(source, target):
            raise BindingError("out shares memory with data.")
        if named < end and start < named_end and share_memory(index, target):
            raise BindingError("out shares memory with indices.")
        if written < end and start < written_end and share_memory(new, target):
            raise BindingError("out shares memory with updates.")
        direct = self.direct
        if direct is not None and stream is None:
            check, copied, moved = direct
            if copied is not None or replaces:
                check(named)
                if not replaces:
                    copied(read, start)
                moved(written, start, named)
                return
        check_indices: IndexCheck = device_named(self.device).launch_for(rule)
        checked = check_indices(index, stream)
        copied = None if replaces else copy(source, target, stream)
        moved = write(new, target, index, stream)
        if checked is not None and moved is not None:
            self.keep((checked, copied, moved))


def planned_scatter(
    access: IndexedAccess,
    data: PlanOperand,
    indices: PlanOperand,
    updates: PlanOperand,
    out: PlanOperand | None,
    device: str,
) -> PlannedScatter:
    """The plan of a scatter of `updates` into a copy of `data` in `out`, or in new memory.

    Raises `LayoutError` and `ElementTypeError` for sides that do not fit.
    """
    check_updates(updates.spec, data.spec.element, access.sizes)
    widest = planner_named(device)[0].widest_access
    source, over = data.within(widest), updates.within(widest)
    target = planned_output(out, data.spec.layout.sizes, data).within(widest)
    element = data.spec.element
    copy = moving_problem(source.spec, target.spec, conversion(element, element), None)
    problems = access.problem(target.spec, over.spec, scatters=True), copy
    for_data, for_out = source.required(device), target.required(device, is_written=True)
    sides = for_data, indices.required(device), over.required(device), for_out
    return PlannedScatter.of(device, problems, sides, (access.rule, replace(for_data, is_written=True) == for_out))
