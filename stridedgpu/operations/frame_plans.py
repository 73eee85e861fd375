"""`PlannedFrame`: frames of one format and layout into tensors of one layout, planned once and run many times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stridedgpu.devices.frame_operand import CHANNELS, FrameOperand
from stridedgpu.devices.interface import FrameLaunch
from stridedgpu.devices.operand import share_memory
from stridedgpu.devices.selection import device_named, planner_named
from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.planning.frame_problem import FrameProblem
from stridedgpu.values.errors import BindingError, LayoutError

from .frames import frame_problem
from .options import ValueOptions
from .planned import HasOperand, Planned, no_tensor
from .relayout import result_sizes
from .requirements import Given, Requirement

__all__ = ["PlannedFrame", "planned_frame"]


@dataclass(frozen=True, slots=True, repr=False)
class PlannedFrame(Planned):
    """A frame's relayout, planned once by `plan_relayout` and run many times: `plan(frame, out)`.

    It runs on frames of the same format, sizes, pitches, matrix and chroma, and on tensors of the same layout and type.
    If the plan's device is unavailable, which `missing` tells, it is for a reference GPU, and can be read but not run.
    """

    plan: DevicePlan
    target: Requirement
    launch: FrameLaunch | None
    missing: str | None = None

    @classmethod
    def make(cls, problem: FrameProblem, target: Requirement) -> PlannedFrame:
        """Plan, and prepare the launch if the device is available."""
        planner, missing = planner_named(target.device)
        plan = planner.plan(problem)
        launch = device_named(target.device).prepare(plan) if missing is None else None
        return cls(plan, target, launch, missing)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the problem and the requirement of the target, not the prepared kernel."""
        return PlannedFrame.make, (self.plan.problem, self.target)

    def __call__(self, frame: object, out: HasOperand, stream: object = None) -> None:
        """Run on a frame and a tensor; nothing is written if they do not fit the plan.

        Raises `BindingError` for another format, layout, type, device or alignment than planned, a read-only `out`, or
        one that shares memory with the frame; `DeviceError` if the plan's device is unavailable.
        """
        launch = self.launch
        if launch is None:
            self.check_runnable()
            return
        source: object = getattr(frame, "operand", None)
        try:
            target = out.operand
        except AttributeError:
            raise no_tensor(out=out) from None
        problem = self.plan.problem
        if not isinstance(source, FrameOperand) or frame_problem(source, problem.target, problem.conversion) != problem:
            raise BindingError(f"{frame!r} is not a frame like the one that was planned for: {problem.in_words()[0]}.")
        self.target.check("out", target)
        if source.device != self.device:
            raise BindingError(f"frame is on {source.device}; the plan is for {self.device}.")
        if target.buffer.readonly:
            raise BindingError("out is read-only.")
        if any(share_memory(plane, target) for plane in source.planes):
            raise BindingError("out shares memory with the frame.")
        launch(source.planes, (0, 0), target, stream)


def planned_frame(frame: FrameOperand, target: Given, values: ValueOptions, device: str) -> PlannedFrame:
    """The plan for a frame of luma and chroma into a target with axes C, H, W.

    Raises `LayoutError` for a target of other sizes, and for RGB and gray frames, which are strided pixels.
    """
    if frame.colours is not None:
        raise LayoutError(
            f"A frame of {frame.samples.name} is strided pixels: plan for asarray(frame.planes[0], dims='HWC'), with "
            "channels= in the order wanted."
        )
    spec = target.spec
    made = values.conversion(frame.element, CHANNELS, spec.element)
    wanted = result_sizes((CHANNELS, *frame.sizes), made, 0)
    if spec.layout.sizes != wanted:
        raise LayoutError(f"dst has sizes {spec.layout.sizes}; this frame makes sizes {wanted}, along C, H, W.")
    if spec.layout.has_overlap:
        raise LayoutError(f"dst repeats or overlaps its own elements: {spec.layout}.")
    return PlannedFrame.make(frame_problem(frame, spec, made), target.required(device, is_written=True))
