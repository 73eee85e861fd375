"""Plans of frames: relayouts of one frame or several, and windows of several, planned once and run many times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stridedgpu.devices.frame_operand import CHANNELS, FrameOperand
from stridedgpu.devices.interface import Launch
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_named, planner_named
from stridedgpu.planning.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.planning.frame_problem import FrameProblem
from stridedgpu.planning.relayout_problem import RelayoutProblem
from stridedgpu.values.conversion import Conversion, ConversionOptions
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.tensor_spec import TensorSpec

from .crops import CropRequest, flips_of, origins_of
from .frame_requirement import FrameRequirement, check_apart, frames_like
from .frame_sources import check_frames
from .frames import frame_problem, write_frame_crops
from .planned import HasOperand, Planned, no_tensor
from .relayout import result_sizes
from .requirements import Given, Requirement, check_output_layout

__all__ = ["PlannedFrameCrops", "PlannedFrames", "planned_frame_crops", "planned_frames"]

WindowProblem = FrameProblem | RelayoutProblem | ChannelMatrixProblem
"""The problem of one frame's window: of luma and chroma, or of RGB and gray pixels."""


class _OfFrames(Planned):
    """Plans with a launch for each frame; `plan` is the first frame's."""

    __slots__ = ()

    plans: tuple[DevicePlan, ...]

    @property
    def steps(self) -> tuple[DevicePlan, ...]:
        """The plans of the frames; frames that are alike have one."""
        return tuple(dict.fromkeys(self.plans))

    @property
    def heading(self) -> list[str]:
        """How many launches there are, and of how many kinds."""
        kinds = len(self.steps)
        words = f"{len(self.plans)} frames, each with a launch of its own"
        return [words + (f", of {kinds} kinds" if kinds > 1 else "")]

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read, if all windows lie inside their frames, and written."""
        return sum(plan.bytes_moved for plan in self.plans)


@dataclass(frozen=True, slots=True, repr=False)
class PlannedFrames(_OfFrames):
    """The relayout of a frame, or of a list of frames, planned by `plan_relayout`: `plan(frame, out)`.

    It runs on frames of the same formats, sizes, pitches, matrices and chroma, and on tensors of the same layout and
    type. Each frame has a launch of its own. If the plan's device is unavailable, as `missing` tells, the plan is for a
    reference GPU, and can be read but not run.
    """

    plan: DevicePlan
    plans: tuple[DevicePlan, ...]
    frames: tuple[FrameRequirement, ...]
    target: Requirement
    is_batch: bool
    launches: tuple[Launch, ...]
    missing: str | None = None

    @classmethod
    def of(
        cls,
        problems: tuple[WindowProblem, ...],
        frames: tuple[FrameRequirement, ...],
        target: Requirement,
        is_batch: bool,
    ) -> PlannedFrames:
        """Plan a problem for each frame, and prepare the launches if the device is available."""
        planner, missing = planner_named(target.device)
        plans = tuple(planner.plan(problem) for problem in problems)
        launches = () if missing is not None else tuple(map(device_named(target.device).launch_for, problems))
        return cls(plans[0], plans, frames, target, is_batch, launches, missing)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the problems and the requirements, not the prepared kernels."""
        problems = tuple(plan.problem for plan in self.plans)
        return PlannedFrames.of, (problems, self.frames, self.target, self.is_batch)

    def __call__(self, frames: object, out: HasOperand, stream: object = None) -> None:
        """Run on a frame, or on a list of frames, and a tensor; nothing is written if they do not fit the plan.

        Raises `BindingError` for another format, layout, type, device or alignment than planned, a read-only `out`, or
        one that shares memory with a frame; `LayoutError` for another number of frames; `DeviceError` if the plan's
        device is unavailable.
        """
        if not self.launches:
            self.check_runnable()
        read = frames_like(self.frames, frames, is_batch=self.is_batch)
        if not hasattr(out, "operand"):
            raise no_tensor(out=out)
        target = out.operand
        self.target.check("out", target)
        check_apart(read, target)
        for number, (frame, launch) in enumerate(zip(read, self.launches, strict=True)):
            image = target.with_layout(target.layout.sliced(number)) if self.is_batch else target
            _run(launch, frame, image, stream)


def _run(launch: Launch, frame: FrameOperand, image: Operand, stream: object) -> None:
    """Launch the window of a whole frame into an image."""
    colours = frame.colours
    if not image.layout.element_count:
        return
    if colours is None:
        launch(frame.planes, (0, 0), image, stream)
    else:
        launch(colours, image, stream)


@dataclass(frozen=True, slots=True, repr=False)
class PlannedFrameCrops(_OfFrames):
    """A window of each frame of a list, planned by `plan_gather_crops`: `plan(frames, origins, out, flip)`.

    It runs on frames of the same formats, sizes, pitches, matrices and chroma. The plans are those of windows inside
    their frames. A window that reaches beyond its frame is the smaller window inside it, and the fill value beside it.
    """

    plan: DevicePlan
    plans: tuple[DevicePlan, ...]
    frames: tuple[FrameRequirement, ...]
    request: CropRequest
    target: Requirement
    missing: str | None = None

    @classmethod
    def of(
        cls,
        problems: tuple[WindowProblem, ...],
        frames: tuple[FrameRequirement, ...],
        request: CropRequest,
        target: Requirement,
    ) -> PlannedFrameCrops:
        """Plan a problem for each frame."""
        planner, missing = planner_named(target.device)
        plans = tuple(planner.plan(problem) for problem in problems)
        return cls(plans[0], plans, frames, request, target, missing)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the problems, the request and the requirements."""
        problems = tuple(plan.problem for plan in self.plans)
        return PlannedFrameCrops.of, (problems, self.frames, self.request, self.target)

    def __call__(
        self, frames: object, origins: object, out: HasOperand, flip: object = None, stream: object = None
    ) -> None:
        """Write one window of each frame into `out`; the arguments are those of `gather_crops`.

        Raises what `PlannedFrames` raises, and `LayoutError` for another number of origins or flips.
        """
        self.check_runnable()
        # One frame in place of a list of one, as `gather_crops` takes it.
        given = frames if isinstance(frames, Sequence) else [frames]
        read = frames_like(self.frames, given, is_batch=True)
        if not hasattr(out, "operand"):
            raise no_tensor(out=out)
        target, count = out.operand, len(read)
        self.target.check("out", target)
        check_apart(read, target)
        starts, flips = origins_of(origins, count), flips_of(flip, count)
        write_frame_crops(read, starts, flips, self.request.conversion, self.request.fill, target, stream)


def planned_frames(
    frames: Sequence[FrameOperand], target: Given, values: ConversionOptions, device: str, *, is_batch: bool
) -> PlannedFrames:
    """The plan for frames of one size into a target with axes C, H, W, and N before them for a list.

    Raises `LayoutError` for a target of other sizes or one that overlaps itself, and what `check_frames` raises.
    """
    element, _ = check_frames(frames)
    spec = target.spec
    made = values.conversion(element, CHANNELS, spec.element)
    counted = (len(frames),) if is_batch else ()
    for frame in frames:
        wanted = (*counted, *result_sizes((CHANNELS, *frame.sizes), made, 0))
        if spec.layout.sizes != wanted:
            axes = "N, C, H, W" if is_batch else "C, H, W"
            raise LayoutError(f"dst has sizes {spec.layout.sizes}; this frame makes sizes {wanted}, along {axes}.")
    if spec.layout.has_overlap:
        raise LayoutError(f"dst repeats or overlaps its own elements: {spec.layout}.")
    images = [_image(spec, number) if is_batch else spec for number in range(len(frames))]
    problems = tuple(_problem(frame, image, made) for frame, image in zip(frames, images, strict=True))
    required = tuple(FrameRequirement.of(frame, device) for frame in frames)
    return PlannedFrames.of(problems, required, target.required(device, is_written=True), is_batch)


def planned_frame_crops(
    frames: Sequence[FrameOperand], request: CropRequest, target: Given, device: str
) -> PlannedFrameCrops:
    """The plan for a window of each frame into a target with axes N, C, H, W.

    Raises `LayoutError` for a target of other sizes or another type, or one that overlaps itself.
    """
    spec = target.spec
    check_output_layout(spec.layout, spec.element, request.sizes, request.conversion.target)
    problems = tuple(_problem(frame, _image(spec, number), request.conversion) for number, frame in enumerate(frames))
    required = tuple(FrameRequirement.of(frame, device) for frame in frames)
    return PlannedFrameCrops.of(problems, required, request, target.required(device, is_written=True))


def _image(batch: TensorSpec, number: int) -> TensorSpec:
    """The spec of one image of a batch, whose gaps may belong to the others."""
    return TensorSpec.of(batch.layout.sliced(number), batch.element, base_alignment=batch.alignment)


def _problem(frame: FrameOperand, target: TensorSpec, made: Conversion) -> WindowProblem:
    """The problem of a window of the target's height and width, or of the frame's where those are less."""
    _, *window = target.layout.sizes
    height, width = map(min, frame.sizes, window)
    rows_and_columns = (slice(None), slice(0, height), slice(0, width))
    if (height, width) != tuple(window):
        inside = target.layout.sliced(rows_and_columns)
        target = TensorSpec.of(inside, target.element, base_alignment=target.alignment)
    colours = frame.colours
    if colours is None:
        return frame_problem(frame, target, made)
    read = colours.with_layout(colours.layout.sliced(rows_and_columns))
    return moving_problem(read.spec, target, made, 0)
