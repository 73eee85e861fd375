"""`RelayoutPlan`: a relayout planned once for two tensors' layouts, and run many times."""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.backends.interface import Launch
from stridedgpu.backends.selection import backend_named
from stridedgpu.convert import Conversion
from stridedgpu.errors import BindingError, DeviceError
from stridedgpu.operand import share_memory
from stridedgpu.planning.gpu import REFERENCE_GPU
from stridedgpu.planning.plan import Plan, plan_relayout
from stridedgpu.planning.problem import Side

from .planned import HasOperand, Planned, no_tensor

__all__ = ["RelayoutPlan"]


@dataclass(frozen=True, slots=True)
class RelayoutPlan(Planned):
    """A relayout that is planned once and run many times: `plan(src, out)`.

    It runs on tensors whose sizes, strides and types are those it was made for, at addresses that keep the
    alignment it was promised; their offsets may differ. Where the plan's device cannot be had, which `missing` tells,
    it is for a reference GPU and can only be read.
    """

    plan: Plan
    launch: Launch | None
    missing: str | None = None

    @classmethod
    def make(
        cls, source: Side, target: Side, conversion: Conversion, channel_axis: int | None, device: str
    ) -> RelayoutPlan:
        """Plan, and make ready on a device where it can be had."""
        try:
            backend = backend_named(device)
        except DeviceError as error:
            widest = REFERENCE_GPU.widest_access
            return cls(plan_relayout(source, target, conversion, channel_axis, device, widest), None, str(error))
        plan = plan_relayout(source, target, conversion, channel_axis, backend.name, backend.widest_access)
        return cls(plan, backend.prepare(plan))

    def runnable(self) -> Launch:
        """What runs the plan on its device. Raises `DeviceError` where that cannot be had."""
        self.check_runnable()
        assert self.launch is not None
        return self.launch

    def __call__(self, src: HasOperand, out: HasOperand, stream: object = None) -> None:
        """Run on two tensors; nothing is written when they do not fit the plan.

        Raises `BindingError` for another layout, type, device or alignment than planned, a read-only `out`, or
        tensors that share memory; `DeviceError` where the plan's device cannot be had.
        """
        launch = self.runnable()
        try:
            source, target = src.operand, out.operand
        except AttributeError:
            raise no_tensor(src=src, out=out) from None
        problem = self.plan.problem
        source.check_fits("src", problem.source, self.plan.device)
        target.check_fits("out", problem.target, self.plan.device)
        if target.buffer.readonly:
            raise BindingError("out is read-only.")
        if problem.target.owns_padding and not target.owns_padding:
            raise BindingError("out does not own its padding, which this plan may write; plan for this tensor instead.")
        if share_memory(source, target):
            raise BindingError("out shares memory with src.")
        launch(source.buffer, source.start_bytes, target.buffer, target.start_bytes, stream)
