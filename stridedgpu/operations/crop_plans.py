"""`PlannedCrops`: crops planned once for a batch and a type of images, and run many times with any windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from stridedgpu.devices.interface import CropsLaunch, DirectCrops
from stridedgpu.devices.operand import Operand, share_memory
from stridedgpu.devices.selection import device_named, planner_named
from stridedgpu.planning.crop_windows import CropProblem, Crops, source_steps
from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.values.conversion import conversion
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.tensor_spec import TensorSpec

from .channel_mixing import ChannelMixing
from .crop_sources import CropSources
from .crops import CropRequest, flips_of, origins_of
from .planned import HasOperand, Planned, no_tensor
from .requirements import Given, Requirement, check_output_layout

__all__ = ["PlannedCrops", "planned_crops"]

_INT64: Final = np.dtype(np.int64)


@dataclass(frozen=True, slots=True, repr=False)
class PlannedCrops(Planned):
    """Crops that `plan_gather_crops` planned once, to be run many times: `plan(sources, origins, out)`.

    It runs on images of any sizes and row pitches, whose type, channels, and channel and column strides are the planned
    ones. Every call states the windows' origins and flips.
    """

    plan: DevicePlan
    target: Requirement
    launch: CropsLaunch | None = field(compare=False)
    missing: str | None = None
    mixing: ChannelMixing | None = None
    direct: tuple[Requirement, DirectCrops] | None = field(default=None, init=False, compare=False)

    @classmethod
    def of(cls, problem: CropProblem, target: Requirement, mixing: ChannelMixing | None = None) -> PlannedCrops:
        """Plan windows for the device that the requirement of the target names, and prepare the launch if it can."""
        planner, missing = planner_named(target.device)
        plan = planner.plan(problem)
        launch = device_named(target.device).launch_for(problem) if missing is None else None
        return cls(plan, target, launch, missing, mixing)

    @property
    def steps(self) -> tuple[DevicePlan, ...]:
        """The windows, and the mixing of their channels, if there is a matrix."""
        return (self.plan,) if self.mixing is None else (self.plan, self.mixing.plan)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the problem, the requirement and the second step."""
        return PlannedCrops.of, (self.plan.problem, self.target, self.mixing)

    def __call__(
        self,
        sources: HasOperand | Sequence[HasOperand],
        origins: object,
        out: HasOperand,
        flip: object = None,
        stream: object = None,
    ) -> None:
        """Write one window of each image into `out`; the arguments are those of `gather_crops`.

        `sources` are tensors: a batch with axes N, C, H, W or images with axes C, H, W. Raises before anything is
        written: `LayoutError` for another number of images, origins or flips; `BindingError` for images or an `out` of
        other types, strides, alignment or device than planned, and for an `out` that is read-only or shares memory with
        an image; `DeviceError` if the plan's device is unavailable.
        """
        launch = self.launch
        if launch is None:
            self.check_runnable()
            return
        if self.direct is not None and flip is None is stream and self._ran(*self.direct, sources, origins, out):
            return
        problem: CropProblem = self.plan.problem
        images = _images(sources)
        count = problem.target.layout.sizes[0]
        if len(images.places) != count:
            raise LayoutError(f"sources are {len(images.places)} images; the plan is for {count}.")
        if not hasattr(out, "operand"):
            raise no_tensor(out=out)
        element, target = problem.conversion.source, out.operand
        images.check(problem.source_channels, element, self.device, "the plan")
        self.target.check("out", target)
        for name, operand in images.near(target).items():
            if share_memory(operand, target):
                raise BindingError(f"out shares memory with {name}.")
        steps = source_steps(images.layouts)
        if count and not problem.takes(steps):
            raise BindingError(
                f"sources have channel and column strides {steps}; the plan is for {problem.source_steps}."
            )
        crops = Crops(images.layouts, origins_of(origins, count), flips_of(flip, count))
        if self.mixing is None:
            direct = launch(crops, images.places, (target.buffer, target.start_bytes), stream)
            if direct is not None and images.begins_lowest:
                batch = Given(images.operands[0].spec).required(self.device)
                object.__setattr__(self, "direct", (batch, direct))
        else:
            self.mixing.run(lambda unmixed: launch(crops, images.places, unmixed, stream), target, stream)

    def _ran(
        self, required: Requirement, direct: DirectCrops, sources: object, origins: object, out: HasOperand
    ) -> bool:
        """Run on a batch like the one that `required` is of, if nothing more has to be looked at than its memory."""
        if type(origins) is not np.ndarray or not hasattr(sources, "operand") or not hasattr(out, "operand"):
            return False
        batch, target = sources.operand, out.operand
        if origins.dtype is not _INT64 or origins.shape != (batch.layout.sizes[0], 2) or not origins.flags.c_contiguous:
            return False
        if batch.fitted is not required and not required.fits(batch):
            return False
        self.target.check("out", target)
        (begin, end), (start, stop) = batch.reach, target.reach
        return (start >= end or stop <= begin) and direct(begin, start, origins)


def planned_crops(request: CropRequest, sources: Sequence[TensorSpec], out: Given, device: str) -> PlannedCrops:
    """The plan of crops from images with these specs into `out`.

    Raises `LayoutError` for an `out` of other sizes or another type, or one that overlaps itself.
    """
    check_output_layout(out.spec.layout, out.spec.element, request.sizes, request.conversion.target)
    planner, _ = planner_named(device)
    target = out.within(planner.widest_access)
    steps = source_steps([side.layout for side in sources])
    required = target.required(device, is_written=True)
    spec, made, mixing = target.spec, request.conversion, None
    if made.matrix is not None and not planner.mixes_windows:
        mixing = ChannelMixing.into(spec, made, device)
        spec, made = mixing.room.spec, conversion(made.source, made.source)
    return PlannedCrops.of(CropProblem(spec, steps, made, request.fill), required, mixing)


def _images(sources: HasOperand | Sequence[HasOperand]) -> CropSources:
    """The images of a batch or a list. Raises `LayoutError` for objects with other axes."""
    if not isinstance(sources, Sequence):
        if not hasattr(sources, "operand"):
            raise no_tensor(sources=sources)
        batch = sources.operand
        if batch.layout.ndim != 4:
            raise LayoutError(f"sources has sizes {batch.layout.sizes}; a batch has the axes N, C, H, W.")
        return CropSources.of_batch(batch)
    if not sources:
        raise LayoutError("sources is empty: a batch of no images has no type and no channels.")
    for number, source in enumerate(sources):
        if not isinstance(getattr(source, "operand", None), Operand):
            raise no_tensor(**{f"sources[{number}]": source})
    images = [image.operand for image in sources]
    for number, image in enumerate(images):
        if image.layout.ndim != 3:
            raise LayoutError(f"sources[{number}] has sizes {image.layout.sizes}; an image has the axes C, H, W.")
    return CropSources.of_images(images)
