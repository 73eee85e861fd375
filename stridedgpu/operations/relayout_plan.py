"""`RelayoutPlan`: a relayout planned once for two tensors' layouts, and run many times."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from stridedgpu.devices.interface import DirectLaunch, MoveLaunch
from stridedgpu.devices.launch_cache import settings
from stridedgpu.devices.operand import share_memory
from stridedgpu.devices.selection import device_named, planner_named
from stridedgpu.planning.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.planning.relayout_problem import RelayoutProblem
from stridedgpu.values.axis_labels import Labels, inferred_labels
from stridedgpu.values.conversion import Conversion, ConversionOptions
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.tensor_spec import TensorSpec

from .planned import HasOperand, Planned, no_tensor
from .relayout import result_sizes
from .requirements import Given, Requirement

__all__ = ["RelayoutPlan", "move_between"]


def move_between(
    source: TensorSpec, target: TensorSpec, labels: Labels, values: ConversionOptions, name: str
) -> tuple[Conversion, int | None]:
    """The conversion from one side to another, and its channel axis.

    Raises `LayoutError` if the target, the argument `name`, does not fit.
    """
    channel_axis = labels.index("C") if "C" in labels else None
    source_channels = None if channel_axis is None else source.layout.sizes[channel_axis]
    made = values.conversion(source.element, source_channels, target.element)
    wanted = result_sizes(source.layout.sizes, made, channel_axis)
    if target.layout.sizes != wanted:
        raise LayoutError(f"{name} has sizes {target.layout.sizes}; this relayout makes sizes {wanted}.")
    if target.layout.has_overlap:
        raise LayoutError(f"{name} repeats or overlaps its own elements: {target.layout}.")
    return made, channel_axis


@dataclass(frozen=True, slots=True, repr=False)
class RelayoutPlan(Planned):
    """A relayout, planned once by `plan_relayout` and run many times: `plan(src, out)`.

    It runs on tensors with the sizes, strides and types of the plan; their offsets may differ. On a GPU, and in place
    of a descriptor on any device, tensors must also have the planned alignment and slack. On the CPU a tensor in place
    of a tensor may have any address that is a whole number of elements. If the plan's device is unavailable, as
    `missing` tells, the plan is for a reference GPU and can only be read.
    """

    plan: DevicePlan
    source: Requirement
    target: Requirement
    launch: MoveLaunch | None = field(compare=False)
    missing: str | None = None
    direct: DirectLaunch | None = field(default=None, init=False, compare=False)

    @classmethod
    def between(
        cls, source: Given, target: Given, dims: str | None, values: ConversionOptions, device: str
    ) -> RelayoutPlan:
        """Plan from a source with these labels, and make ready on a device where it can be had.

        Raises `LayoutError` where the target does not fit.
        """
        required = source, target, dims, values, device
        if device == "cpu":
            return _plan_on_cpu(settings(), *required)
        return cls.of(*_required(*required))

    @classmethod
    def of(
        cls, problem: RelayoutProblem | ChannelMatrixProblem, source: Requirement, target: Requirement
    ) -> RelayoutPlan:
        """Plan for the device that the requirements name, and prepare the launch if it is available."""
        planner, missing = planner_named(source.device)
        plan = planner.plan(problem)
        return cls(
            plan, source, target, device_named(source.device).launch_for(problem) if missing is None else None, missing
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the problem and the requirements; a prepared kernel is not pickled."""
        return RelayoutPlan.of, (self.plan.problem, self.source, self.target)

    def __call__(self, src: HasOperand, out: HasOperand, stream: object = None) -> None:
        """Run on two tensors; nothing is written if they do not fit the plan.

        Raises `BindingError` for another layout, type, device or alignment than planned, a read-only `out`, or tensors
        that share memory. Raises `DeviceError` if the plan's device is unavailable.
        """
        launch = self.launch
        if launch is None:
            self.check_runnable()
            return
        try:
            source, target = src.operand, out.operand
        except AttributeError:
            raise no_tensor(src=src, out=out) from None
        if source.fitted is not self.source:
            self.source.check("src", source)
        if target.fitted is not self.target:
            self.target.check("out", target)
        (read, read_end), (start, end) = source.reach, target.reach
        if read < end and start < read_end and share_memory(source, target):
            raise BindingError("out shares memory with src.")
        direct = self.direct
        if direct is not None and stream is None:
            direct(read, start)
            return
        direct = launch(source, target, stream)
        if direct is not None:
            object.__setattr__(self, "direct", direct)


@lru_cache(maxsize=1024, typed=True)
def _plan_on_cpu(key: Hashable, *required: Any) -> RelayoutPlan:  # noqa: ARG001 - of the cache's key
    """A plan for this processor: one value for all calls alike under the same settings."""
    return RelayoutPlan.of(*_required(*required))


@lru_cache(maxsize=1024, typed=True)
def _required(
    source: Given,
    target: Given,
    dims: str | None,
    options: ConversionOptions,
    device: str,
) -> tuple[RelayoutProblem | ChannelMatrixProblem, Requirement, Requirement]:
    """The problem between two sides, and what the tensors in their places must be: worked out once."""
    labels = inferred_labels(dims, source.spec.layout.ndim)
    made, channel_axis = move_between(source.spec, target.spec, labels, options, "dst")
    problem = moving_problem(source.spec, target.spec, made, channel_axis)
    return problem, source.required(device), target.required(device, is_written=True)
