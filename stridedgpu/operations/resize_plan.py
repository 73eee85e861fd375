"""`PlannedResize`: a resize planned once for two tensors' layouts, and run many times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stridedgpu.devices.interface import ResizeLaunch
from stridedgpu.devices.operand import Operand, share_memory
from stridedgpu.devices.selection import device_named, planner_named
from stridedgpu.planning.crop_windows import source_steps
from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.planning.resize_problem import ResizeProblem, ResizeRule, ResizeWindow
from stridedgpu.values.conversion import conversion
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.layout import Layout

from .channel_mixing import ChannelMixing
from .options import ValueOptions
from .planned import HasOperand, Planned, no_tensor
from .requirements import Given, Requirement
from .resize import as_batch, box_of

__all__ = ["PlannedResize", "planned_resize"]


@dataclass(frozen=True, slots=True, repr=False)
class PlannedResize(Planned):
    """A resize, planned once by `plan_resize` and run many times: `plan(src, out)`.

    It runs on tensors with the sizes, strides and types of the plan. If the plan's device is unavailable, as `missing`
    tells, the plan is for a reference GPU and can only be read.
    """

    plan: DevicePlan
    labels: str
    source: Requirement
    target: Requirement
    missing: str | None = None
    mixing: ChannelMixing | None = None

    @classmethod
    def of(
        cls,
        problem: ResizeProblem,
        labels: str,
        source: Requirement,
        target: Requirement,
        mixing: ChannelMixing | None = None,
    ) -> PlannedResize:
        """Plan for the device that both sides must be on."""
        planner, missing = planner_named(target.device)
        return cls(planner.plan(problem), labels, source, target, missing, mixing)

    @property
    def steps(self) -> tuple[DevicePlan, ...]:
        """The resize, and the mixing of its channels, if there is a matrix."""
        return (self.plan,) if self.mixing is None else (self.plan, self.mixing.plan)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the problem, the requirements and the second step."""
        return PlannedResize.of, (self.plan.problem, self.labels, self.source, self.target, self.mixing)

    def __call__(self, src: HasOperand, out: HasOperand, stream: object = None) -> None:
        """Run on two tensors; nothing is written if they do not fit the plan.

        Raises `BindingError` for another layout, type, device or alignment than planned, a read-only `out`, or tensors
        that share memory. Raises `DeviceError` if the plan's device is unavailable.
        """
        self.check_runnable()
        if not hasattr(src, "operand") or not hasattr(out, "operand"):
            raise no_tensor(src=src, out=out)
        source, target = src.operand, out.operand
        self.source.check("src", source)
        self.target.check("out", target)
        if target.buffer.readonly:
            raise BindingError("out is read-only.")
        if share_memory(source, target):
            raise BindingError("out shares memory with src.")
        problem = self.plan.problem
        if problem.window is None:
            return
        count = problem.target.layout.sizes[0]
        launch: ResizeLaunch = device_named(self.plan.device).prepare(self.plan)
        places = _located_images(source, self.labels, count)
        windows = [problem.window] * count
        if self.mixing is None:
            launch(windows, places, (target.buffer, target.start_bytes), stream)
        else:
            self.mixing.run(lambda unmixed: launch(windows, places, unmixed, stream), target, stream)


def _located_images(source: Operand, labels: str, count: int) -> list[tuple[Any, int]]:
    """The memory of each image of a batch."""
    batch = as_batch(source.layout, labels)
    itemsize = source.element.itemsize
    first = batch.sliced(0).first_offset * itemsize
    step = batch.strides[0] * itemsize
    return [(source.buffer, first + number * step) for number in range(count)]


def planned_resize(
    source: Given,
    target: Given,
    labels: str,
    box: Sequence[float] | None,
    rule: ResizeRule,
    values: ValueOptions,
    device: str,
) -> PlannedResize:
    """The plan of a resize between two sides with the axes `labels`.

    Raises `LayoutError` if the target does not fit.
    """
    read, written = as_batch(source.spec.layout, labels), as_batch(target.spec.layout, labels)
    count, channels, height, width = read.sizes
    made = values.conversion(source.spec.element, channels if "C" in labels else None, target.spec.element)
    wanted = count, made.output_channels(channels)
    if written.sizes[:2] != wanted or 0 in written.sizes[2:]:
        raise LayoutError(
            f"dst has sizes {target.spec.layout.sizes}; this resize makes {wanted[0]} pictures of {wanted[1]} "
            "channels, of at least 1 x 1 pixels."
        )
    if written.has_overlap:
        raise LayoutError(f"dst repeats or overlaps its own elements: {target.spec.layout}.")
    image = read.sliced(0) if count else Layout((channels, height, width))
    image = image.shifted(-image.first_offset)
    place = (0, 0, written.sizes[2], written.sizes[3])
    window = ResizeWindow(image, box_of(box, (height, width)), place) if count else None
    fill, mixing, spec = bytes(channels * made.source.itemsize), None, replace(target.spec, layout=written)
    if made.matrix is not None:
        mixing = ChannelMixing.into(spec, made, device)
        spec, made = mixing.room.spec, conversion(made.source, made.source)
    problem = ResizeProblem(spec, made, rule, channels, source_steps([image]), fill, window)
    required = source.required(device), target.required(device, is_written=True)
    return PlannedResize.of(problem, labels, *required, mixing)
