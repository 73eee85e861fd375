"""`PlannedResize`: a resize or letterbox planned once for layouts of tensors and frames, and run many times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from stridedgpu.devices.frame_operand import CHANNELS, FrameOperand
from stridedgpu.devices.interface import EvenlyLocated, ResizeLaunch, ResizeSource
from stridedgpu.devices.operand import Operand, share_memory
from stridedgpu.devices.selection import device_named, planner_named
from stridedgpu.planning.crop_windows import source_steps
from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.planning.frame_problem import FrameSurface
from stridedgpu.planning.resize_problem import Box, Place, ResizeProblem, ResizeRule, ResizeWindow
from stridedgpu.values.conversion import ConversionOptions, conversion
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.layout import Layout

from .channel_mixing import ChannelMixing
from .crops import fill_bytes
from .frame_requirement import FrameRequirement, frames_like
from .frame_sources import FrameSources
from .planned import HasOperand, Planned, no_tensor, steps_in_words
from .requirements import Given, Requirement
from .resize import as_batch

__all__ = ["PlannedResize", "ReadImages", "planned_resize"]


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """What a plan reads: a tensor of `count` images, the first one `first_bytes` behind its lowest element."""

    required: Requirement
    count: int
    first_bytes: int
    step_bytes: int

    def located(self, src: object) -> tuple[Sequence[ResizeSource], Sequence[Operand]]:
        """Each image's memory, and the operand. Raises `BindingError` and `ElementTypeError` for others."""
        if not hasattr(src, "operand"):
            raise no_tensor(src=src)
        source: Operand = src.operand
        if not isinstance(source, Operand):
            raise BindingError(f"src={src!r} is no tensor like the one that was planned for.")
        self.required.check("src", source)
        start = source.start_bytes + self.first_bytes
        return EvenlyLocated(source.buffer, start, self.step_bytes, self.count), [source]


@dataclass(frozen=True, slots=True)
class ReadFrames:
    """What a plan reads: a frame, or a list of frames."""

    required: tuple[FrameRequirement, ...]
    is_batch: bool

    def located(self, src: object) -> tuple[Sequence[ResizeSource], Sequence[Operand]]:
        """Each frame, or its memory, and all planes. Raises `BindingError` and `LayoutError` for others."""
        sources = FrameSources.of_frames(frames_like(self.required, src, is_batch=self.is_batch))
        return list(sources.resized), sources.operands


class ReadImages(NamedTuple):
    """The images of a plan: their layouts and surfaces, type and channels, and what a run is given in their place.

    `channels` is None for images without a channel axis.
    """

    layouts: Sequence[Layout]
    surfaces: Sequence[FrameSurface | None]
    element: ElementType
    channels: int | None
    given: ReadBatch | ReadFrames

    @classmethod
    def of_batch(cls, source: Given, labels: str, device: str) -> ReadImages:
        """The images of a tensor with the axes `labels`, or of a descriptor."""
        batch = as_batch(source.spec.layout, labels)
        layouts, first, itemsize = [], 0, source.spec.element.itemsize
        if batch.sizes[0]:
            image = batch.sliced(0)
            first = image.first_offset
            layouts = [image.shifted(-first)] * batch.sizes[0]
        channels = batch.sizes[1] if "C" in labels else None
        given = ReadBatch(source.required(device), len(layouts), first * itemsize, batch.strides[0] * itemsize)
        return cls(layouts, [None] * len(layouts), source.spec.element, channels, given)

    @classmethod
    def of_frames(cls, frames: Sequence[FrameOperand], device: str, *, is_batch: bool) -> ReadImages:
        """Frames of any sizes and formats. Raises what `check_frames` raises."""
        sources = FrameSources.of_frames(frames)
        surfaces = [frame.surface if frame.colours is None else None for frame in frames]
        required = tuple(FrameRequirement.of(frame, device) for frame in frames)
        return cls(sources.layouts, surfaces, sources.element, CHANNELS, ReadFrames(required, is_batch))


@dataclass(frozen=True, slots=True, repr=False)
class PlannedResize(Planned):
    """A resize or letterbox, planned once by `plan_resize` or `plan_letterbox` and run many times: `plan(src, out)`.

    It runs on tensors with the sizes, strides and types of the plan, or on frames of the same formats, sizes, pitches,
    matrices and chroma. If the plan's device is unavailable, as `missing` tells, the plan is for a reference GPU and
    can only be read.
    """

    plan: DevicePlan
    windows: tuple[ResizeWindow, ...]
    read: ReadBatch | ReadFrames
    target: Requirement
    missing: str | None = None
    mixing: ChannelMixing | None = None

    @classmethod
    def of(
        cls,
        problem: ResizeProblem,
        windows: tuple[ResizeWindow, ...],
        read: ReadBatch | ReadFrames,
        target: Requirement,
        mixing: ChannelMixing | None = None,
    ) -> PlannedResize:
        """Plan for the device that both sides must be on."""
        planner, missing = planner_named(target.device)
        return cls(planner.plan(problem), windows, read, target, missing, mixing)

    @property
    def steps(self) -> tuple[DevicePlan, ...]:
        """The resize, and the mixing of its channels, if there is a matrix."""
        return (self.plan,) if self.mixing is None else (self.plan, self.mixing.plan)

    @property
    def heading(self) -> list[str]:
        """The steps, and a line for each window where they differ."""
        alike = self.plan.problem.window is not None
        lines = [] if alike else [f"{number}: {window.in_words()}" for number, window in enumerate(self.windows)]
        return [*steps_in_words(self.steps), *lines]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the problem, the windows, the requirements and the second step."""
        return PlannedResize.of, (self.plan.problem, self.windows, self.read, self.target, self.mixing)

    def __call__(self, src: object, out: HasOperand, stream: object = None) -> None:
        """Run on a tensor, a frame or a list of frames, and a tensor; nothing is written if they do not fit the plan.

        Raises `BindingError` for another layout, type, format, device or alignment than planned, a read-only `out`, or
        sides that share memory. Raises `LayoutError` for another number of frames, and `DeviceError` if the plan's
        device is unavailable.
        """
        self.check_runnable()
        if not hasattr(out, "operand"):
            raise no_tensor(out=out)
        places, operands = self.read.located(src)
        target = out.operand
        self.target.check("out", target)
        if any(share_memory(operand, target) for operand in operands):
            raise BindingError("out shares memory with src.")
        if not self.windows:
            return
        launch: ResizeLaunch = device_named(self.plan.device).launch_for(self.plan.problem)
        if self.mixing is None:
            launch(self.windows, places, (target.buffer, target.start_bytes), stream)
        else:
            self.mixing.run(lambda unmixed: launch(self.windows, places, unmixed, stream), target, stream)


def planned_resize(
    read: ReadImages,
    target: Given,
    labels: str,
    place: Callable[[tuple[int, int], tuple[int, int]], tuple[Box, Place]],
    rule: ResizeRule,
    values: ConversionOptions,
    device: str,
    fill: object = 0,
    fill_name: str = "fill",
) -> PlannedResize:
    """The plan of a resize into a target with the axes `labels`.

    `place` is the box of an image, and where it goes, of the image's height and width and those of the target. Raises
    `LayoutError` if the target does not fit.
    """
    written = as_batch(target.spec.layout, labels)
    channels = 1 if read.channels is None else read.channels
    made = values.conversion(read.element, read.channels, target.spec.element)
    wanted = len(read.layouts), made.output_channels(channels)
    if written.sizes[:2] != wanted or 0 in written.sizes[2:]:
        raise LayoutError(
            f"dst has sizes {target.spec.layout.sizes}; this resize makes {wanted[0]} pictures of {wanted[1]} "
            "channels, of at least 1 x 1 pixels."
        )
    if written.has_overlap:
        raise LayoutError(f"dst repeats or overlaps its own elements: {target.spec.layout}.")
    size = written.sizes[2], written.sizes[3]
    windows = tuple(
        ResizeWindow(image, *place((image.sizes[1], image.sizes[2]), size), surface=surface)
        for image, surface in zip(read.layouts, read.surfaces, strict=True)
    )
    shared = windows[0] if len(set(windows)) == 1 else None
    color, mixing, spec = (
        fill_bytes(fill, read.element, channels, fill_name),
        None,
        replace(target.spec, layout=written),
    )
    if made.matrix is not None and not planner_named(device)[0].mixes_windows:
        mixing = ChannelMixing.into(spec, made, device)
        spec, made = mixing.room.spec, conversion(made.source, made.source)
    steps, reads_frames = source_steps(read.layouts), any(window.surface is not None for window in windows)
    problem = ResizeProblem(spec, made, rule, channels, steps, color, shared, reads_frames)
    return PlannedResize.of(problem, windows, read.given, target.required(device, is_written=True), mixing)
