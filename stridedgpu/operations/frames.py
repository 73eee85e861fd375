"""Frames, luma-chroma, RGB or gray: as RGB images, written from them, and the planes that they lie in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stridedgpu.devices.frame_operand import CHANNELS, FrameOperand
from stridedgpu.devices.operand import Operand, share_memory
from stridedgpu.devices.selection import device_named
from stridedgpu.problems.frame_problem import SamplesProblem
from stridedgpu.values.axis_labels import inferred_labels
from stridedgpu.values.colour_matrix import luma_matrix
from stridedgpu.values.conversion import AS_IT_IS, Conversion, ConversionOptions
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.pixel_formats import PIXEL_FORMATS, PixelFormat
from stridedgpu.values.strides import integers

from .batches import batch_result
from .crops import batch_image, launches_of_frames, window_problem
from .frame_colours import write_frame_window
from .images import FrameSources, FramesRequirement, checked_target
from .move import move_elements
from .options import MemoryOptions
from .plans import HasOperand, Plan, PlanOperand
from .relayout import relayout_operand, result_sizes

_BYTES: Final = ELEMENT_TYPES["uint8"]
"""The elements of memory that surfaces of every format lie in."""


def relayout_frames(
    sources: FrameSources,
    labels: str,
    values: ConversionOptions,
    memory: MemoryOptions,
    out: Operand | None,
    stream: object,
) -> Operand:
    """Frames of one size as RGB: one image with the labels CHW, or a batch with the labels NCHW."""
    frames, (height, width) = sources.frames, sources.size
    for number, frame in enumerate(frames):
        if frame.sizes != (height, width):
            raise LayoutError(
                f"frames[{number}] is {frame.sizes[0]} x {frame.sizes[1]} and frames[0] {height} x {width}; frames of "
                "different sizes need a common one: resize, letterbox or gather_crops."
            )
    if out is not None:
        memory.check_beside_out()
    conversion = values.conversion(sources.element, CHANNELS, sources.element if out is None else out.element)
    sizes = (len(frames), conversion.output_channels(CHANNELS), height, width)[-len(labels) :]

    def write(batch: Operand, part: Conversion) -> None:
        for number, frame in enumerate(frames):
            write_frame_window(frame, (0, 0), batch.with_layout(batch.layout.sliced(number)), part, stream)

    return batch_result(sources, (sizes, tuple(labels)), conversion, memory, out, write, stream)


def moved_frame(frame: FrameOperand, device: str) -> FrameOperand:
    """The frame on a device, with packed planes; the frame itself if it is there already."""
    if frame.device == device:
        return frame
    there = MemoryOptions(device=device)
    planes = tuple(relayout_operand(plane, None, AS_IT_IS, there, None, None)[0] for plane in frame.planes)
    return replace(frame, planes=planes)


def rgb_image(frame: FrameOperand) -> Operand:
    """One frame as an RGB image in memory."""
    colours = frame.colours
    if colours is not None:
        return colours
    return relayout_frames(FrameSources.of_frames([frame]), "CHW", AS_IT_IS, MemoryOptions("HWC"), None, None)


class PlannedFrames(Plan):
    """The relayout of a frame, or of a list of frames, planned by `plan_relayout`: `plan(frame, out)`.

    It runs on frames of the same formats, sizes, pitches, matrices and chroma, and on tensors of the same layout and
    type. Each frame has a launch of its own. If the plan's device is unavailable, as `missing` tells, the plan is for a
    reference GPU, and can be read but not run.
    """

    __slots__ = ()

    @property
    def heading(self) -> list[str]:
        """How many launches there are, and of how many kinds."""
        return launches_of_frames(self)

    def __call__(self, frames: object, out: HasOperand, stream: object = None) -> None:
        """Run on a frame, or on a list of frames, and a tensor; nothing is written if they do not fit the plan.

        Raises `BindingError` for another format, layout, type, device or alignment than planned, a read-only `out`, or
        one that shares memory with a frame; `LayoutError` for another number of frames; `DeviceError` if the plan's
        device is unavailable.
        """
        self.check_runnable()
        for_out, for_frames = self.sides
        sources: FrameSources = for_frames.sources(frames)
        target = checked_target(for_out, sources, out)
        for number, (frame, launch) in enumerate(zip(sources.frames, self.launches, strict=True)):
            image = target.with_layout(target.layout.sliced(number)) if for_frames.is_batch else target
            colours = frame.colours
            if not image.layout.element_count:
                continue
            if colours is None:
                launch(frame.planes, (0, 0), image, stream)
            else:
                launch(colours, image, stream)


def planned_frames(
    sources: FrameSources, labels: str, target: PlanOperand, values: ConversionOptions, device: str
) -> PlannedFrames:
    """The plan for frames of one size into a target with the axes `labels`, CHW or NCHW.

    Raises `LayoutError` for a target of other sizes, or one that overlaps itself.
    """
    frames, spec, is_batch = sources.frames, target.spec, labels == "NCHW"
    conversion = values.conversion(sources.element, CHANNELS, spec.element)
    for frame in frames:
        wanted = (len(frames), conversion.output_channels(CHANNELS), *frame.sizes)[-len(labels) :]
        if spec.layout.sizes != wanted:
            axes = ", ".join(labels)
            raise LayoutError(f"dst has sizes {spec.layout.sizes}; this frame makes sizes {wanted}, along {axes}.")
    if spec.layout.has_overlap:
        raise LayoutError(f"dst repeats or overlaps its own elements: {spec.layout}.")
    images = [batch_image(spec, number) if is_batch else spec for number in range(len(frames))]
    problems = tuple(window_problem(frame, image, conversion) for frame, image in zip(frames, images, strict=True))
    sides = target.required(device, is_written=True), FramesRequirement.of(sources, device, is_batch=is_batch)
    return PlannedFrames.of(device, problems, sides)


def write_frame(
    image: Operand, dims: str | None, values: ConversionOptions, frame: FrameOperand, stream: object
) -> None:
    """Write an image with axes C, H, W into the planes of a frame; the fourth byte of a pixel is not written.

    Raises before anything is written: `ElementTypeError` for an image of another type than the frame's, `LayoutError`
    for axes, sizes and conversions that do not fit and for a frame with another arithmetic than "rounded",
    `BindingError` for planes that are read-only, on another device, or share memory with the image or with each other.
    """
    layout = image.layout
    labels = inferred_labels(dims, layout.ndim, "CHW" if layout.ndim == 3 else None)
    if labels != ("C", "H", "W"):
        raise LayoutError(f"The image has sizes {layout.sizes} and dims={dims!r}; a frame takes axes C, H, W.")
    if image.element != frame.element:
        raise ElementTypeError(
            f"The image holds {image.element}; a frame of {frame.samples.name} takes {frame.element}."
        )
    conversion = values.conversion(image.element, layout.sizes[0], frame.element)
    if conversion.has_arithmetic or conversion.source != conversion.target:
        raise LayoutError(f"{conversion}: samples follow from the colours as they are; convert the image before.")
    if result_sizes(layout.sizes, conversion, 0) != (CHANNELS, *frame.sizes):
        raise LayoutError(
            f"The image has sizes {layout.sizes} along C, H, W; the frame takes {CHANNELS} channels (red, green and "
            f"blue, chosen with channels=) of {frame.sizes[0]} x {frame.sizes[1]} pixels."
        )
    for number, plane in enumerate(frame.planes):
        name = f"out.planes[{number}]"
        if plane.buffer.device != image.buffer.device:
            raise BindingError(f"{name} is on {plane.buffer.device} and the image on {image.buffer.device}.")
        if plane.buffer.readonly:
            raise BindingError(f"{name} is read-only.")
        if plane.layout.has_overlap:
            raise LayoutError(f"{name} repeats or overlaps its own elements: {plane.layout}.")
        if share_memory(image, plane):
            raise BindingError(f"{name} shares memory with the image; write into another frame, or copy it first.")
        for other in range(number):
            if share_memory(frame.planes[other], plane):
                raise BindingError(f"{name} shares memory with out.planes[{other}], whose samples it would overwrite.")
    if frame.light is not None:
        raise LayoutError(f"out has light={frame.light!r}, by which a frame is read alone; write into one without it.")
    if frame.samples.kind == "rgb" and frame.colours is not None:
        move_elements(image, frame.colours, conversion, 0, stream)
        return
    if frame.arithmetic != "rounded" and frame.samples.kind == "yuv":
        raise LayoutError(
            f"out has arithmetic={frame.arithmetic!r}, by which a frame is read alone; write into a frame over the "
            "same planes without it."
        )
    chosen = tuple(layout.sliced(channel) for channel in conversion.channels or range(CHANNELS))
    strides = tuple(plane.layout.strides for plane in frame.planes)
    matrix = luma_matrix(frame.matrix, frame.samples, full_range=frame.full_range)
    device = device_named(frame.device)
    launch = device.launch_for(SamplesProblem(frame.samples, frame.sizes, strides, matrix, chosen))
    launch([image.with_layout(one) for one in chosen], frame.planes, stream)


def checked_sizes(sizes: Sequence[int]) -> tuple[int, int]:
    """Height and width of a frame, in pixels. Raises `LayoutError` for other sizes."""
    size = integers("sizes", sizes, least=1)
    if len(size) != 2:
        raise LayoutError(f"sizes={size} must be the height and the width of the image, in pixels.")
    return (size[0], size[1])


def checked_planes(
    names: Sequence[str], operands: Sequence[Operand], samples: PixelFormat, size: tuple[int, int]
) -> tuple[Operand, ...]:
    """Planes with their format's axes; `names` are what messages call them.

    Raises what `checked_plane` does, and `BindingError` for planes on two devices.
    """
    device = operands[0].buffer.device
    for name, operand in zip(names, operands, strict=True):
        if operand.buffer.device != device:
            raise BindingError(f"{name} is on {operand.buffer.device} and {names[0]} on {device}.")
    numbered = enumerate(zip(names, operands, strict=True))
    return tuple(checked_plane(number, name, operand, samples, size) for number, (name, operand) in numbered)


def checked_plane(number: int, name: str, operand: Operand, samples: PixelFormat, size: tuple[int, int]) -> Operand:
    """One plane with its format's axes; the given plane may have the last two merged, or split otherwise.

    Raises `ElementTypeError` for another element type, `LayoutError` for other sizes.
    """
    plane = samples.planes[number]
    wanted, layout = plane.sizes(size), operand.layout
    if operand.element != samples.element:
        raise ElementTypeError(f"{name} holds {operand.element}; planes of {samples.name} hold {samples.element}.")
    if layout.sizes == wanted:
        return operand
    row = plane.row_elements(size[1])
    joined = Layout(layout.sizes[1:]).element_count if layout.ndim > 1 else 0
    if layout.ndim in (2, 3) and layout.sizes[0] == wanted[0] and joined == row:
        try:
            return operand.with_layout(layout.reshaped(wanted))
        except LayoutError:
            pass  # its elements are not contiguous: the error below says so
    raise LayoutError(
        f"{name} has sizes {layout.sizes} and strides {layout.strides}; that plane of a {samples.name} frame of "
        f"{size[0]} x {size[1]} pixels has sizes {wanted}."
    )


def planes_over(
    memory: Operand,
    samples: PixelFormat,
    size: tuple[int, int],
    row_pitch_bytes: int | Sequence[int] | None,
    plane_offsets_bytes: Sequence[int] | None,
) -> tuple[Operand, ...]:
    """Every plane as a view of `memory`, whose elements are the format's, or bytes.

    Raises `ElementTypeError` for other elements, `LayoutError` for rows, pitches and offsets that the format cannot
    have, `BindingError` if the memory is too small.
    """
    layout = memory.layout
    if memory.element not in (samples.element, _BYTES):
        alike = [
            row.name for row in PIXEL_FORMATS.values() if (row.planes, row.element) == (samples.planes, memory.element)
        ]
        others = f" Of {memory.element} are {', '.join(alike)}." if alike else ""
        raise ElementTypeError(
            f"memory holds {memory.element}; a surface of {samples.name} holds {samples.element}, or is given as its "
            f"bytes.{others}"
        )
    if layout.first_offset != layout.offset:
        raise LayoutError(f"memory runs backwards, with strides {layout.strides}; turn it round before.")
    itemsize = samples.element.itemsize
    pitches = _pitches(row_pitch_bytes, memory, samples, size[1])
    if plane_offsets_bytes is None:
        _check_rows(memory, samples, size, pitches)
    offsets = _offsets(plane_offsets_bytes, samples, size[0], pitches)
    start, nbytes = layout.offset * memory.element.itemsize, layout.span * memory.element.itemsize
    planes = []
    for number, (plane, pitch, offset) in enumerate(zip(samples.planes, pitches, offsets, strict=True)):
        sizes = plane.sizes(size)
        rows = sizes[0]
        end = offset + (rows - 1) * pitch + plane.row_elements(size[1]) * itemsize
        if end > nbytes:
            raise BindingError(
                f"memory has {nbytes} bytes, and plane {number} of {samples.name} lies from byte {offset} to {end}: "
                f"{rows} rows {pitch} bytes apart."
            )
        if (start + offset) % itemsize:
            whose = "memory" if plane_offsets_bytes is None else f"plane_offsets_bytes={offsets}"
            raise BindingError(
                f"{whose}: plane {number} begins {start + offset} bytes into its buffer, inside of an element; a plane "
                f"of {samples.name} begins at a multiple of {itemsize} bytes."
            )
        strides = (pitch // itemsize, *((plane.samples, 1) if plane.samples > 1 else (1,)))
        planes.append(Operand(memory.buffer, Layout(sizes, strides, (start + offset) // itemsize), samples.element))
    return tuple(planes)


def _pitches(
    row_pitch_bytes: int | Sequence[int] | None, memory: Operand, samples: PixelFormat, width: int
) -> tuple[int, ...]:
    itemsize = samples.element.itemsize
    rows = [plane.row_elements(width) * itemsize for plane in samples.planes]
    own = _own_pitch(memory)
    if row_pitch_bytes is None:
        pitches = tuple(rows) if own is None else _of_first(own, samples)
    elif isinstance(row_pitch_bytes, Sequence):
        pitches = integers("row_pitch_bytes", row_pitch_bytes, least=1)
        if len(pitches) != len(rows):
            raise LayoutError(f"row_pitch_bytes={pitches}: {samples.name} has {len(rows)} planes; give one for each.")
    else:
        pitches = _of_first(integers("row_pitch_bytes", (row_pitch_bytes,), least=1)[0], samples)
    for number, (pitch, row) in enumerate(zip(pitches, rows, strict=True)):
        if pitch < row or pitch % itemsize:
            said = "row_pitch_bytes" if row_pitch_bytes is not None else "the step from row to row of memory"
            raise LayoutError(
                f"{said} is {pitch} for plane {number}, whose rows of {width} pixels take {row} bytes in whole "
                f"elements of {itemsize}: the pitch would cut them."
            )
    if own is not None and pitches[0] != own and not memory.layout.is_packed:
        raise LayoutError(
            f"row_pitch_bytes={pitches[0]}, but the rows of memory are {own} bytes apart, with gaps between them."
        )
    return pitches


def _of_first(pitch: int, samples: PixelFormat) -> tuple[int, ...]:
    """Every plane's pitch from the first one's: a chroma plane whose rows have half the bytes has half the pitch.

    Half of an odd number of elements is rounded up.
    """
    itemsize = samples.element.itemsize
    elements = pitch // itemsize
    others = (-(-elements * plane.samples // plane.columns) * itemsize for plane in samples.planes[1:])
    return (pitch, *others)


def _own_pitch(memory: Operand) -> int | None:
    """The row pitch, in bytes, of memory with rows. Raises `LayoutError` if the bytes of a row are not contiguous."""
    layout = memory.layout
    if layout.ndim < 2:
        if not layout.is_packed:
            raise LayoutError(f"memory has strides {layout.strides}; its bytes must follow each other.")
        return None
    if not Layout(layout.sizes[1:], layout.strides[1:]).is_packed:
        raise LayoutError(f"memory has strides {layout.strides}; the elements of a row must follow each other.")
    rows, *row = layout.sizes
    return (math.prod(row) if rows == 1 else layout.strides[0]) * memory.element.itemsize  # one row has any stride


def _check_rows(memory: Operand, samples: PixelFormat, size: tuple[int, int], pitches: tuple[int, ...]) -> None:
    """Raise `LayoutError` for memory of two or more axes whose rows are not those of the format.

    Of two axes, a row may have more elements than the image: its padding. Of more, it has those of the image. Memory of
    one axis may go on behind the planes, and so may memory that is read with another pitch than its own.
    """
    sizes, itemsize = memory.layout.sizes, memory.element.itemsize
    if len(sizes) < 2 or _own_pitch(memory) != pitches[0]:
        return
    nbytes = sum(plane.sizes(size)[0] * pitch for plane, pitch in zip(samples.planes, pitches, strict=True))
    row = samples.planes[0].row_elements(size[1])
    is_whole = len(sizes) == 2 or math.prod(sizes[1:]) * itemsize == row * samples.element.itemsize
    if is_whole and sizes[0] * pitches[0] == nbytes:
        return
    planes = ", ".join(" x ".join(map(str, plane.sizes(size))) for plane in samples.planes)
    rows, rest = divmod(nbytes, pitches[0])
    has = f"{nbytes} bytes" if rest else f"{rows} rows of {row} {samples.element} and their padding"
    raise LayoutError(
        f"memory has sizes {sizes}; a surface of {samples.name}, {size[0]} x {size[1]}, has {has} (planes of "
        f"{planes}). Give the memory of such a surface, or with plane_offsets_bytes= where each plane begins in this "
        "one."
    )


def _offsets(
    plane_offsets_bytes: Sequence[int] | None, samples: PixelFormat, height: int, pitches: tuple[int, ...]
) -> tuple[int, ...]:
    """The start of each plane, in bytes: one after the other, or the given offsets."""
    if plane_offsets_bytes is not None:
        offsets = integers("plane_offsets_bytes", plane_offsets_bytes, least=0)
        if len(offsets) != len(pitches):
            raise LayoutError(
                f"plane_offsets_bytes={offsets}: {samples.name} has {len(pitches)} planes; give one for each."
            )
        return offsets
    starts = [0]
    for plane, pitch in zip(samples.planes[:-1], pitches[:-1], strict=True):
        starts.append(starts[-1] + -(-height // plane.rows) * pitch)
    return tuple(starts)
