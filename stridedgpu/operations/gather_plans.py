"""`PlannedGather` and `PlannedScatter`: planned once for their operands' layouts, and run with any indices."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from stridedgpu.devices.interface import DirectCheck, DirectLaunch, IndexCheck, IndexedLaunch, MoveLaunch
from stridedgpu.devices.operand import share_memory
from stridedgpu.devices.selection import device_named, planner_named
from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.planning.gather_problem import GatherProblem
from stridedgpu.planning.index_rule import IndexRule, Mode
from stridedgpu.planning.relayout_problem import RelayoutProblem, relayout_problem
from stridedgpu.values.conversion import conversion
from stridedgpu.values.errors import BindingError
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .allocation import DEFAULT_ALIGNMENT
from .index_arguments import IndexedAccess
from .planned import HasOperand, Planned, no_tensor
from .requirements import Given, Requirement, check_output_layout, steps_alike
from .scatter import check_updates

__all__ = ["PlannedGather", "PlannedScatter", "planned_gather", "planned_scatter"]


@dataclass(frozen=True, slots=True, repr=False)
class PlannedGather(Planned):
    """A gather, planned once by `plan_gather` or its variants and run many times: `plan(data, indices, out)`.

    It runs on tensors that meet `required`, the requirements of `data`, `indices` and `out`, as a `RelayoutPlan` does.
    Their indices may be any, and every run checks them.
    """

    plan: DevicePlan
    required: tuple[Requirement, Requirement, Requirement]
    launch: IndexedLaunch | None = field(compare=False)
    missing: str | None = None
    direct: DirectLaunch | None = field(default=None, init=False, compare=False)

    @classmethod
    def of(cls, problem: GatherProblem, *required: Requirement) -> PlannedGather:
        """Plan for the device that the tensors are on, and prepare the launch if it is available."""
        device = required[0].device
        planner, missing = planner_named(device)
        plan = planner.plan(problem)
        data, indices, out = required
        launch = device_named(device).launch_for(problem) if missing is None else None
        return cls(plan, (data, indices, out), launch, missing)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the problem and the requirements."""
        return PlannedGather.of, (self.plan.problem, *self.required)

    def __call__(self, data: HasOperand, indices: HasOperand, out: HasOperand, stream: object = None) -> None:
        """Run on three tensors; nothing is written if they do not fit the plan, or if an index is wrong.

        Raises `IndexError` by the plan's mode. Raises `BindingError` for another layout, type, device or alignment than
        planned, and for an `out` that is read-only or shares memory with `data` or `indices`. Raises `DeviceError` if
        the plan's device is unavailable.
        """
        launch = self.launch
        if launch is None:
            self.check_runnable()
            return
        try:
            source, index, target = data.operand, indices.operand, out.operand
        except AttributeError:
            raise no_tensor(data=data, indices=indices, out=out) from None
        for_data, for_indices, for_out = self.required
        if source.fitted is not for_data:
            for_data.check("data", source)
        if index.fitted is not for_indices:
            for_indices.check("indices", index)
        if target.fitted is not for_out:
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
            object.__setattr__(self, "direct", direct)


_DirectScatter = tuple[DirectCheck, DirectLaunch | None, DirectLaunch]
"""The check, the copy if there was one, and the updates."""


@dataclass(frozen=True, slots=True, repr=False)
class PlannedScatter(Planned):
    """A scatter, planned once by `plan_scatter_nd` or its variants: `plan(data, indices, updates, out)`.

    `copy` is the plan of the first step, the data into `out`; `plan` is that of the updates over it. `required` are the
    requirements of `data`, `indices`, `updates` and `out`, which tensors must meet as for a `PlannedGather`;
    `alike`: what is `data` may be `out`. With the data as `out` elements are replaced in place, and nothing is copied.
    """

    plan: DevicePlan
    rule: IndexRule
    copy: DevicePlan
    required: tuple[Requirement, Requirement, Requirement, Requirement]
    launches: tuple[IndexCheck, MoveLaunch, IndexedLaunch] | None = field(compare=False)
    alike: bool
    missing: str | None = None
    direct: _DirectScatter | None = field(default=None, init=False, compare=False)

    @classmethod
    def of(
        cls, problem: GatherProblem, rule: IndexRule, copy: RelayoutProblem, *required: Requirement
    ) -> PlannedScatter:
        """Plan for the device that the tensors are on, and prepare its launches if it is available."""
        data, indices, updates, out = required
        planner, missing = planner_named(data.device)
        plan, first = planner.plan(problem), planner.plan(copy)
        launches = None
        if missing is None:
            device = device_named(data.device)
            launches = device.launch_for(rule), device.launch_for(copy), device.launch_for(problem)
        alike = replace(data, is_written=True) == out
        return cls(plan, rule, first, (data, indices, updates, out), launches, alike, missing)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the problem and the requirements."""
        return PlannedScatter.of, (self.plan.problem, self.rule, self.copy.problem, *self.required)

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, by the copy and by the updates."""
        return self.copy.bytes_moved + self.plan.bytes_moved

    def explain(self) -> str:
        """Both plans in words."""
        updates = Planned.explain(self)
        return f"the data first:\n{self.copy.explain()}\nthen the updates over it:\n{updates}"

    def __call__(
        self, data: HasOperand, indices: HasOperand, updates: HasOperand, out: HasOperand, stream: object = None
    ) -> None:
        """Run on four tensors; raises what a `PlannedGather` raises, before anything is written."""
        launches = self.launches
        if launches is None:
            self.check_runnable()
            return
        try:
            source, index, new, target = data.operand, indices.operand, updates.operand, out.operand
        except AttributeError:
            raise no_tensor(data=data, indices=indices, updates=updates, out=out) from None
        data_required, indices_required, updates_required, out_required = self.required
        # One tensor in both places does not forget that it fits.
        if source.fitted is not (out_required if self.alike and source is target else data_required):
            data_required.check("data", source)
        if index.fitted is not indices_required:
            indices_required.check("indices", index)
        if new.fitted is not updates_required:
            updates_required.check("updates", new)
        if target.fitted is not out_required:
            out_required.check("out", target)
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
            check, copy, write = direct
            check(named)
            if copy is not None and not replaces:
                copy(read, start)
            if copy is not None or replaces:
                write(written, start, named)
                return
        checks, copies, writes = launches
        checked = checks(index, stream)
        copied = None if replaces else copies(source, target, stream)
        moved = writes(new, target, index, stream)
        if checked is not None and moved is not None:
            object.__setattr__(self, "direct", (checked, copied, moved))


def planned_gather(
    access: IndexedAccess, mode: Mode, data: Given, indices: Given, out: Given | None, device: str
) -> PlannedGather:
    """The plan of a gather into `out`, or into new memory.

    Raises `LayoutError` for an `out` of other sizes or another type, or one that overlaps itself.
    """
    widest = planner_named(device)[0].widest_access
    source, target = data.within(widest), _output(out, access.sizes, data).within(widest)
    problem = access.problem(source.spec, target.spec, mode)
    required = source.required(device), indices.required(device), target.required(device, is_written=True)
    return PlannedGather.of(problem, *required)


def planned_scatter(
    access: IndexedAccess, data: Given, indices: Given, updates: Given, out: Given | None, device: str
) -> PlannedScatter:
    """The plan of a scatter of `updates` into a copy of `data` in `out`, or in new memory.

    Raises `LayoutError` and `ElementTypeError` for sides that do not fit.
    """
    check_updates(updates.spec, data.spec.element, access.sizes)
    widest = planner_named(device)[0].widest_access
    source, over = data.within(widest), updates.within(widest)
    target = _output(out, data.spec.layout.sizes, data).within(widest)
    problem = access.problem(target.spec, over.spec, scatters=True)
    element = data.spec.element
    copy = relayout_problem(source.spec, target.spec, conversion(element, element), None)
    read = (given.required(device) for given in (source, indices, over))
    return PlannedScatter.of(problem, access.rule, copy, *read, target.required(device, is_written=True))


def _output(out: Given | None, sizes: tuple[int, ...], data: Given) -> Given:
    """The spec of the written operand: a checked `out`, or what would be allocated."""
    element = data.spec.element
    if out is None:
        return Given(TensorSpec.of(Layout(sizes), element, base_alignment=DEFAULT_ALIGNMENT, owns_padding=True))
    check_output_layout(out.spec.layout, out.spec.element, sizes, element)
    return out
