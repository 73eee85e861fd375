"""Gathers and scatters planned once for their operands' layouts, and run with any indices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stridedgpu.backends.gather_selection import gather_backend_named
from stridedgpu.convert import conversion
from stridedgpu.errors import BindingError, DeviceError, LayoutError
from stridedgpu.layout import Layout
from stridedgpu.operand import Operand, share_memory
from stridedgpu.planning.gather import GatherPlan, Mode, plan_gather
from stridedgpu.planning.gpu import REFERENCE_GPU
from stridedgpu.planning.index_rule import IndexRule
from stridedgpu.planning.plan import Plan, plan_relayout
from stridedgpu.planning.problem import Side

from .allocation import DEFAULT_ALIGNMENT
from .gather import run_plan
from .picking import Picking
from .planned import HasOperand, Planned, no_tensor
from .relayout import assign_operand
from .scatter import check_updates

__all__ = ["PlannedGather", "PlannedScatter", "needed_side", "planned_gather", "planned_scatter", "reach_of"]


@dataclass(frozen=True, slots=True)
class PlannedGather(Planned):
    """A gather that is planned once and run many times: `plan(data, indices, out)`.

    It runs on tensors whose sizes, strides and types are those it was made for, at addresses that keep the alignment
    it was promised, with any indices, which are looked at every time.
    """

    plan: GatherPlan
    rule: IndexRule
    missing: str | None = None

    def __call__(self, data: HasOperand, indices: HasOperand, out: HasOperand, stream: object = None) -> None:
        """Run on three tensors; nothing is written when they do not fit the plan, or an index is wrong.

        Raises `IndexError` as the plan's mode says; `BindingError` for another layout, type, device or alignment than
        planned, a read-only `out`, or one that shares memory with `data` or `indices`; `DeviceError` where the plan's
        device cannot be had.
        """
        self.check_runnable()
        problem = self.plan.problem
        try:
            operands = {"data": data.operand, "indices": indices.operand, "out": out.operand}
        except AttributeError:
            raise no_tensor(data=data, indices=indices, out=out) from None
        sides = {"data": problem.picked, "indices": problem.index, "out": problem.plain}
        _check_operands(operands, sides, self.device)
        index = indices.operand
        backend = gather_backend_named(self.device)
        backend.check_indices(self.rule, index.buffer, index.start_bytes, self.plan.mode, stream)
        run_plan(self.plan, out.operand, data.operand, index, stream)


@dataclass(frozen=True, slots=True)
class PlannedScatter(Planned):
    """A scatter that is planned once and run many times: `plan(data, indices, updates, out)`.

    `copy` is the plan of what comes first, the data into `out`; `plan` that of the updates over it. It runs on what
    fits it, as a `PlannedGather` does.
    """

    plan: GatherPlan
    rule: IndexRule
    copy: Plan
    missing: str | None = None

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, by the copy and by the updates."""
        return self.copy.bytes_moved + self.plan.bytes_moved

    def explain(self) -> str:
        """Both plans in plain words."""
        updates = Planned.explain(self)
        return f"the data first:\n{self.copy.explain()}\nthen the updates over it:\n{updates}"

    def __call__(
        self, data: HasOperand, indices: HasOperand, updates: HasOperand, out: HasOperand, stream: object = None
    ) -> None:
        """Run on four tensors; raises as a `PlannedGather` does, before anything is written."""
        self.check_runnable()
        problem = self.plan.problem
        try:
            index, target = indices.operand, out.operand
            operands = {"data": data.operand, "indices": index, "updates": updates.operand, "out": target}
        except AttributeError:
            raise no_tensor(data=data, indices=indices, updates=updates, out=out) from None
        source = self.copy.problem.source
        sides = {"data": source, "indices": problem.index, "updates": problem.plain, "out": problem.picked}
        _check_operands(operands, sides, self.device)
        backend = gather_backend_named(self.device)
        backend.check_indices(self.rule, index.buffer, index.start_bytes, "raise", stream)
        assign_operand(data.operand, target, stream)
        run_plan(self.plan, updates.operand, target, index, stream)


def planned_gather(picking: Picking, mode: Mode, data: Side, out: Side | None, device: str) -> PlannedGather:
    """The plan of a gather into `out`, or into new memory.

    Raises `LayoutError` for an `out` of other sizes or type, or one that overlaps itself.
    """
    target = _output(out, picking.sizes, data)
    widest, missing = reach_of(device)
    problem = picking.problem(needed_side(data, widest), needed_side(target, widest))
    return PlannedGather(plan_gather(problem, mode, device, widest), picking.rule, missing)


def planned_scatter(picking: Picking, data: Side, updates: Side, out: Side | None, device: str) -> PlannedScatter:
    """The plan of a scatter of `updates` into a copy of `data` in `out`, or in new memory.

    Raises `LayoutError` and `ElementTypeError` for sides that do not fit.
    """
    check_updates(updates, data.element, picking.sizes)
    widest, missing = reach_of(device)
    source, target = (needed_side(side, widest) for side in (data, _output(out, data.layout.sizes, data)))
    problem = picking.problem(target, needed_side(updates, widest), scatters=True)
    plan = plan_gather(problem, "raise", device, widest)
    copy = plan_relayout(source, target, conversion(data.element, data.element), None, device, widest)
    return PlannedScatter(plan, picking.rule, copy, missing)


def needed_side(side: Side, widest: int) -> Side:
    """A side of which no more alignment is asked than the widest access can make use of."""
    return replace(side, alignment=min(side.alignment, widest))


def _output(out: Side | None, sizes: tuple[int, ...], data: Side) -> Side:
    """What is written: `out`, checked, or what would be allocated."""
    if out is None:
        return Side.of(Layout(sizes), data.element, base_alignment=DEFAULT_ALIGNMENT, owns_padding=True)
    if out.layout.sizes != sizes:
        raise LayoutError(f"out has sizes {out.layout.sizes}; the result has sizes {sizes}.")
    if out.element != data.element:
        raise LayoutError(f"out holds {out.element}; the result is {data.element}.")
    if out.layout.has_overlap:
        raise LayoutError(f"out repeats or overlaps its own elements: {out.layout}; write into a packed tensor.")
    return out


def reach_of(device: str) -> tuple[int, str | None]:
    """The bytes of a device's widest access, and why it cannot be had, if so: then a reference GPU's."""
    try:
        return gather_backend_named(device).widest_access, None
    except DeviceError as error:
        return REFERENCE_GPU.widest_access, str(error)


def _check_operands(operands: Mapping[str, Operand], sides: Mapping[str, Side], device: str) -> None:
    """Raise `BindingError` unless each operand is what was planned for, and `out` may be written."""
    for name, operand in operands.items():
        operand.check_fits(name, sides[name], device)
    target = operands["out"]
    if target.buffer.readonly:
        raise BindingError("out is read-only.")
    for name, operand in operands.items():
        if name != "out" and share_memory(operand, target):
            raise BindingError(f"out shares memory with {name}.")
