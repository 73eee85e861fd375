"""Frames, luma-chroma, RGB or gray, as RGB images: converted and laid out in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.frame_operand import CHANNELS, FrameOperand
from stridedgpu.devices.interface import FrameLaunch, Launch
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_named
from stridedgpu.planning.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.planning.crop_windows import Crops, Rectangle, rectangles
from stridedgpu.planning.frame_problem import FrameProblem
from stridedgpu.planning.relayout_problem import RelayoutProblem
from stridedgpu.typing import ImageSize
from stridedgpu.values.axis_labels import Labels
from stridedgpu.values.conversion import AS_IT_IS, Conversion, ConversionOptions
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .channel_blocks import parse_order
from .crops import CropRequest, batch_parts, crop_request, filled, flips_of, origins_of
from .images import FrameRequirement, check_apart, check_frames, frames_like
from .move import move_elements
from .options import MemoryOptions
from .plans import HasOperand, Plan, PlanOperand, check_output, check_output_layout, no_tensor
from .relayout import relayout_operand, result_sizes

__all__ = [
    "FRAME_LABELS",
    "PlannedFrameCrops",
    "PlannedFrames",
    "frame_problem",
    "gather_frame_crops",
    "moved_frame",
    "planned_frame_crops",
    "planned_frames",
    "relayout_frames",
    "rgb_image",
    "write_frame_crops",
]

FRAME_LABELS: Labels = ("C", "H", "W")

_BATCH_LABELS: Labels = ("N", *FRAME_LABELS)


def relayout_frames(
    frames: Sequence[FrameOperand],
    values: ConversionOptions,
    memory: MemoryOptions,
    out: Operand | None,
    stream: object,
    *,
    is_batch: bool,
) -> Operand:
    """Frames of one size as RGB: one image (C, H, W), or with `is_batch` a batch (N, C, H, W)."""
    element, device = check_frames(frames)
    for number, frame in enumerate(frames):
        if frame.sizes != frames[0].sizes:
            raise LayoutError(
                f"frames[{number}] is {frame.sizes[0]} x {frame.sizes[1]} and frames[0] "
                f"{frames[0].sizes[0]} x {frames[0].sizes[1]}; frames of different sizes need a common one: "
                "resize, letterbox or gather_crops."
            )
    if out is not None:
        memory.check_beside_out()
    made = values.conversion(element, CHANNELS, element if out is None else out.element)
    image = result_sizes((CHANNELS, *frames[0].sizes), made, 0)
    sizes, labels = ((len(frames), *image), _BATCH_LABELS) if is_batch else (image, FRAME_LABELS)
    target = _target(frames, sizes, labels, made, memory, out, device, stream)
    batch = target if is_batch else target.with_layout(target.layout.unsqueezed(0))
    order = parse_order(memory.layout) if isinstance(memory.layout, str) else None
    for into, part in batch_parts(batch, made, CHANNELS, order, stream):
        for number, frame in enumerate(frames):
            _write(frame, (0, 0), into.with_layout(into.layout.sliced(number)), part, stream)
    return target


def gather_frame_crops(
    frames: Sequence[FrameOperand],
    origins: object,
    size: ImageSize,
    values: ConversionOptions,
    memory: MemoryOptions,
    *,
    flip: object,
    fill: object,
    out: Operand | None,
    stream: object,
) -> Operand:
    """`stridedgpu.gather_crops` of frames of any sizes, and of formats with one sample depth."""
    element, device = check_frames(frames)
    if out is not None:
        memory.check_beside_out()
        values = values if values.dtype is not None else values._replace(dtype=out.element)
    request = crop_request((len(frames), CHANNELS), element, size, values, fill)
    made = request.conversion
    flips = flips_of(flip, len(frames))
    starts = origins_of(origins, len(frames))
    target = _target(frames, request.sizes, _BATCH_LABELS, made, memory, out, device, stream)
    order = parse_order(memory.layout) if isinstance(memory.layout, str) else None
    for into, part in batch_parts(target, made, CHANNELS, order, stream):
        write_frame_crops(frames, starts, flips, part, request.fill, into, stream)
    return target


def write_frame_crops(
    frames: Sequence[FrameOperand],
    origins: NDArray[np.int64],
    flips: Sequence[bool],
    made: Conversion,
    fill: bytes,
    target: Operand,
    stream: object,
) -> None:
    """Write one window of each frame into `target`, axes N, C, H, W; all arguments are checked already."""
    layouts = [Layout((CHANNELS, *frame.sizes)) for frame in frames]
    _, _, *window = target.layout.sizes
    for number, (frame, crop) in enumerate(zip(frames, Crops(layouts, origins, flips), strict=True)):
        layout = target.layout.sliced(number)
        if crop.flip:
            layout = layout.sliced((slice(None), slice(None), slice(None, None, -1)))
        for rectangle in rectangles(crop, (window[0], window[1])):
            part_of = target.with_layout(layout.sliced((slice(None), rectangle.rows, rectangle.columns)))
            _write_rectangle(frame, rectangle, part_of, made, fill, stream)


def moved_frame(frame: FrameOperand, device: str) -> FrameOperand:
    """The frame on a device, with packed planes; the frame itself if it is there already."""
    if frame.device == device:
        return frame
    there = MemoryOptions(device=device)
    planes = tuple(relayout_operand(plane, None, AS_IT_IS, there, None, None)[0] for plane in frame.planes)
    return replace(frame, planes=planes)


def rgb_image(frame: FrameOperand, stream: object) -> Operand:
    """One frame as an RGB image in memory."""
    colours = frame.colours
    if colours is not None:
        return colours
    same = AS_IT_IS.conversion(frame.element, CHANNELS, frame.element)
    room = MemoryOptions("HWC").allocation((CHANNELS, *frame.sizes), FRAME_LABELS, frame.element)
    made = room.allocate(device_named(frame.device), stream)
    _write(frame, (0, 0), made, same, stream)
    return made


def frame_problem(frame: FrameOperand, target: TensorSpec, made: Conversion) -> FrameProblem:
    """The problem of a luma-chroma frame's window, written as RGB with axes C, H, W."""
    strides = tuple(plane.layout.strides for plane in frame.planes)
    return FrameProblem(frame.samples, frame.sizes, strides, frame.constants, frame.chroma, target, made)


def _target(
    frames: Sequence[FrameOperand],
    sizes: tuple[int, ...],
    labels: Labels,
    made: Conversion,
    memory: MemoryOptions,
    out: Operand | None,
    device: str,
    stream: object,
) -> Operand:
    """`out` checked, or new memory."""
    if out is None:
        return memory.allocation(sizes, labels, made.target).allocate(device_named(device), stream)
    planes = {
        f"frames[{number}].planes[{place}]": plane
        for number, frame in enumerate(frames)
        for place, plane in enumerate(frame.planes)
    }
    check_output(out, sizes, made.target, device, planes)
    return out


def _write_rectangle(
    frame: FrameOperand, part: Rectangle, target: Operand, made: Conversion, fill: bytes, stream: object
) -> None:
    """Write part of a window: pixels of the frame, or the fill value outside it."""
    if part.source is not None:
        _write(frame, part.source, target, made, stream)
        return
    source = filled(fill, frame.element, target.layout.sizes[1:], frame.device)
    move_elements(source, target, made, 0, stream)


def _write(frame: FrameOperand, origin: tuple[int, int], target: Operand, made: Conversion, stream: object) -> None:
    """Write the window of a frame from pixel `origin` on to a target with axes C, H, W."""
    if not target.layout.element_count:
        return
    colours = frame.colours
    _, height, width = target.layout.sizes
    if colours is not None:
        rows, columns = slice(origin[0], origin[0] + height), slice(origin[1], origin[1] + width)
        window = colours.with_layout(colours.layout.sliced((slice(None), rows, columns)))
        move_elements(window, target, made, 0, stream)
        return
    device = device_named(frame.device)
    launch: FrameLaunch = device.launch_for(frame_problem(frame, target.spec, made))
    launch(frame.planes, origin, target, stream)


WindowProblem = FrameProblem | RelayoutProblem | ChannelMatrixProblem
"""The problem of one frame's window: of luma and chroma, or of RGB and gray pixels."""


class _OfFrames(Plan):
    """Plans with a launch for each frame; `plan` is the first frame's, and frames that are alike have one step."""

    __slots__ = ()

    @property
    def heading(self) -> list[str]:
        """How many launches there are, and of how many kinds."""
        kinds = len(self.steps)
        words = f"{len(self.plans)} frames, each with a launch of its own"
        return [words + (f", of {kinds} kinds" if kinds > 1 else "")]

    def checked(self, frames: object, out: HasOperand, *, is_batch: bool) -> tuple[list[FrameOperand], Operand]:
        """The operands of a call that fit the plan."""
        self.check_runnable()
        for_out, *required = self.sides
        read = frames_like(required, frames, is_batch=is_batch)
        if not hasattr(out, "operand"):
            raise no_tensor(out=out)
        for_out.check("out", out.operand)
        check_apart(read, out.operand)
        return read, out.operand


class PlannedFrames(_OfFrames):
    """The relayout of a frame, or of a list of frames, planned by `plan_relayout`: `plan(frame, out)`.

    It runs on frames of the same formats, sizes, pitches, matrices and chroma, and on tensors of the same layout and
    type. Each frame has a launch of its own. If the plan's device is unavailable, as `missing` tells, the plan is for a
    reference GPU, and can be read but not run.
    """

    __slots__ = ()

    def __call__(self, frames: object, out: HasOperand, stream: object = None) -> None:
        """Run on a frame, or on a list of frames, and a tensor; nothing is written if they do not fit the plan.

        Raises `BindingError` for another format, layout, type, device or alignment than planned, a read-only `out`, or
        one that shares memory with a frame; `LayoutError` for another number of frames; `DeviceError` if the plan's
        device is unavailable.
        """
        (is_batch,) = self.options
        read, target = self.checked(frames, out, is_batch=is_batch)
        for number, (frame, launch) in enumerate(zip(read, self.launches, strict=True)):
            image = target.with_layout(target.layout.sliced(number)) if is_batch else target
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


class PlannedFrameCrops(_OfFrames):
    """A window of each frame of a list, planned by `plan_gather_crops`: `plan(frames, origins, out, flip)`.

    It runs on frames of the same formats, sizes, pitches, matrices and chroma. The plans are those of windows inside
    their frames. A window that reaches beyond its frame is the smaller window inside it, and the fill value beside it.
    """

    __slots__ = ()

    def __call__(
        self, frames: object, origins: object, out: HasOperand, flip: object = None, stream: object = None
    ) -> None:
        """Write one window of each frame into `out`; the arguments are those of `gather_crops`.

        Raises what `PlannedFrames` raises, and `LayoutError` for another number of origins or flips.
        """
        # One frame in place of a list of one, as `gather_crops` takes it.
        given = frames if isinstance(frames, Sequence) else [frames]
        read, target = self.checked(given, out, is_batch=True)
        (request,) = self.options
        starts, flips = origins_of(origins, len(read)), flips_of(flip, len(read))
        write_frame_crops(read, starts, flips, request.conversion, request.fill, target, stream)


def planned_frames(
    frames: Sequence[FrameOperand], target: PlanOperand, values: ConversionOptions, device: str, *, is_batch: bool
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
    return PlannedFrames.of(device, problems, (target.required(device, is_written=True), *required), (is_batch,))


def planned_frame_crops(
    frames: Sequence[FrameOperand], request: CropRequest, target: PlanOperand, device: str
) -> PlannedFrameCrops:
    """The plan for a window of each frame into a target with axes N, C, H, W.

    Raises `LayoutError` for a target of other sizes or another type, or one that overlaps itself.
    """
    spec = target.spec
    check_output_layout(spec.layout, spec.element, request.sizes, request.conversion.target)
    problems = tuple(_problem(frame, _image(spec, number), request.conversion) for number, frame in enumerate(frames))
    required = tuple(FrameRequirement.of(frame, device) for frame in frames)
    return PlannedFrameCrops.of(device, problems, (target.required(device, is_written=True), *required), (request,))


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
