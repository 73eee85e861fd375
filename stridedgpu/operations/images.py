"""Images as operations take them, whatever they come as: a batch, a list of tensors, or frames.

`CropSources` are images or volumes in memory, `FrameSources` frames as RGB images. `FramesRequirement` is
what frames must be for a plan to run on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from stridedgpu.devices.frame_operand import CHANNELS, FrameOperand
from stridedgpu.devices.interface import EvenlyLocated, Located, LocatedOperands, ResizeSource
from stridedgpu.devices.operand import Operand, share_memory
from stridedgpu.problems.crop_windows import CropProblem, source_steps
from stridedgpu.problems.frame_problem import FrameSurface, packed_pixels
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout

from .plans import PlanOperand, Requirement, has_operand, no_tensor
from .video_frames import frame_operand, is_frame

MOST_IMAGES: Final = 1 << 28
"""More images than there is memory to list: a view that repeats one can have as many."""


@lru_cache(maxsize=1024)
def as_batch(layout: Layout, labels: str) -> Layout:
    """A layout of images with the axes N, C, H, W; an axis that `labels` lacks has size 1."""
    places = [labels.find(axis) for axis in "NCHW"]
    sizes = [1 if place < 0 else layout.sizes[place] for place in places]
    strides = [0 if place < 0 else layout.strides[place] for place in places]
    return Layout(sizes, strides, layout.offset)


@dataclass(slots=True, eq=False)
class CropSources:
    """Images with axes C, H, W: their layouts from the lowest element, and where that element is.

    A value that nothing changes; every call makes one, and a frozen dataclass would take twice as long.

    Volumes have the axes C, D, H, W; `axes` is the number of a window's axes, 2 or 3.

    `operands` hold them: one for each, or their batch alone, of which there may be no image. `argument` is what
    messages call them. `are_alike`: operands of their own have one layout, element type and device.
    """

    layouts: Sequence[Layout]
    places: Sequence[Located]
    operands: Sequence[Operand]
    is_batch: bool
    argument: str = "sources"
    axes: int = 2
    are_alike: bool = False

    @classmethod
    def of_images(cls, images: Sequence[Operand], argument: str = "sources") -> CropSources:
        """Images or volumes that are operands of their own, of any sizes; at least one."""
        first, element, device = images[0].layout, images[0].element, images[0].buffer.device
        sizes, strides = first.sizes, first.strides
        alike = [
            image.layout.sizes == sizes
            and image.layout.strides == strides
            and image.element is element
            and image.buffer.device == device
            for image in images
        ]
        are_alike = all(alike)
        if are_alike:  # as the images of a batch are, which share a layout
            lowest = first.offset + first.extent[0]
            layouts = [first.shifted(-lowest) if lowest else first] * len(images)
        else:
            known: dict[object, Layout] = {}
            layouts = []
            for image in images:
                layout = image.layout
                shape = layout.sizes, layout.strides
                shifted = known.get(shape)
                if shifted is None:
                    shifted = known[shape] = layout.shifted(-layout.first_offset)
                layouts.append(shifted)
        axes = len(sizes) - 1
        places = LocatedOperands(images)
        return cls(layouts, places, images, is_batch=False, argument=argument, axes=axes, are_alike=are_alike)

    @classmethod
    def of_batch(cls, batch: Operand, argument: str = "sources") -> CropSources:
        """The images of an operand with axes N, C, H, W, or its volumes: one layout, at even steps."""
        layout, itemsize = batch.layout, batch.element.itemsize
        sizes = layout.sizes
        count, axes = sizes[0], len(sizes) - 2
        if not count:
            return cls((), (), (batch,), True, argument, axes)  # noqa: FBT003 - names would cost a small call
        if count > MOST_IMAGES:
            raise LayoutError(f"{argument} has {count} images, more than there is memory to list them.")
        image, lowest = first_image(layout)
        places = EvenlyLocated(batch.buffer, lowest * itemsize, layout.strides[0] * itemsize, count)
        return cls((image,) * count, places, (batch,), True, argument, axes)  # noqa: FBT003 - names would cost a small call

    def images(self) -> Sequence[Operand]:
        """Each image as a separate operand."""
        if not self.is_batch:
            return self.operands
        (batch,) = self.operands
        return [batch.with_layout(batch.layout.sliced(number)) for number in range(len(self.places))]

    @property
    def resized(self) -> Sequence[ResizeSource]:
        """What a resize reads of each image: its memory."""
        return self.places

    @property
    def surfaces(self) -> Sequence[FrameSurface | None] | None:
        """The surface of each luma-chroma frame, None for other frames; or None where there are no frames."""
        return None

    def only(self, number: int) -> CropSources:
        """One of the images."""
        return CropSources.of_images([self.images()[number]])

    def repeated(self, count: int) -> CropSources:
        """The same images `count` times."""
        return replace(self, layouts=list(self.layouts) * count, places=list(self.places) * count)

    @property
    def element(self) -> ElementType:
        """The element type of the first image, or of a frame's planes."""
        return self.operands[0].element

    @property
    def channels(self) -> int:
        """The channels of the first image."""
        return self.operands[0].layout.sizes[-1 - self.axes]

    @property
    def device(self) -> str:
        """The device of the first image."""
        return self.operands[0].buffer.device

    @property
    def size(self) -> tuple[int, int]:
        """The height and width of the first image."""
        *_, height, width = self.operands[0].layout.sizes
        return height, width

    @property
    def begins_lowest(self) -> bool:
        """Whether these are the images of a batch in ascending order: the first one has its lowest element."""
        return self.is_batch and self.operands[0].layout.strides[0] >= 0

    def name(self, number: int) -> str:
        """What messages call an operand."""
        return self.argument if self.is_batch else f"{self.argument}[{number}]"

    def near(self, out: Operand) -> dict[str, Operand]:
        """The operands, by name, whose memory begins before the end of `out` and ends after its beginning."""
        start, end = out.reach
        if self.are_alike and isinstance(self.places, LocatedOperands):
            addresses, nbytes = self.places.addresses, self.operands[0].span_bytes
            if end <= min(addresses) or max(addresses) + nbytes <= start:
                return {}
        return {
            self.name(number): operand
            for number, operand in enumerate(self.operands)
            if operand.reach[0] < end and start < operand.reach[1]
        }

    def check(self, channels: int, element: ElementType, device: str, beside: str | None = None) -> None:
        """Raise unless every image has the type, channels and device of what stands `beside` them: the first."""
        beside, axis = beside or f"{self.argument}[0]", -1 - self.axes
        other = [
            number
            for number, operand in enumerate(self.operands[:1] if self.are_alike else self.operands)
            if operand.layout.sizes[axis] != channels
            or operand.element is not element
            or operand.buffer.device != device
        ]
        for number in other:
            operand, name = self.operands[number], self.name(number)
            layout = operand.layout
            if operand.element != element:
                raise ElementTypeError(f"{name} holds {operand.element} and {beside} {element}; both must be one.")
            if layout.sizes[axis] != channels:
                axes = ", ".join("NCDHW"[not self.is_batch :] if self.axes == 3 else "NCHW"[not self.is_batch :])
                raise LayoutError(
                    f"{name} has {layout.sizes[axis]} channels and {beside} {channels}; "
                    f"its sizes are {layout.sizes} along {axes}."
                )
            if operand.buffer.device != device:
                raise BindingError(f"{name} is on {operand.buffer.device} and {beside} on {device}.")


@lru_cache(maxsize=256)
def first_image(batch: Layout) -> tuple[Layout, int]:
    """The layout of a batch's first image from its lowest element, and the elements before that in the buffer."""
    image = batch.sliced(0)
    return image.shifted(-image.first_offset), image.first_offset


@dataclass(slots=True, eq=False)
class FrameSources(CropSources):
    """Frames of any sizes, and of formats with one sample depth; `operands` are all their planes.

    An RGB or gray frame is an image in memory. The layout of a luma-chroma frame is that of its packed RGB pixels.
    """

    frames: Sequence[FrameOperand] = ()

    @classmethod
    def of_frames(cls, frames: Sequence[FrameOperand]) -> FrameSources:
        """Frames, checked.

        Raises `LayoutError` for no frames, `ElementTypeError` for frames of different depths, `BindingError` for frames
        on two devices.
        """
        if not frames:
            raise LayoutError("No frames were given: a batch of none has no type.")
        element, device, layouts = frames[0].element, frames[0].device, []
        for number, frame in enumerate(frames):
            if frame.element != element:
                raise ElementTypeError(
                    f"frames[{number}] ({frame.samples.name}) has colours of {frame.element} and frames[0] "
                    f"({frames[0].samples.name}) of {element}; convert them apart, each with its own scale, or declare "
                    "Preprocess(normalize=...), which goes by each frame's type."
                )
            if frame.device != device:
                raise BindingError(f"frames[{number}] is on {frame.device} and frames[0] on {device}.")
            colours = frame.colours
            if colours is None:
                layouts.append(packed_pixels(*frame.sizes))
            else:
                first = colours.layout.first_offset
                layouts.append(colours.layout.shifted(-first) if first else colours.layout)
        planes = [plane for frame in frames for plane in frame.planes]
        return cls(layouts, (), planes, is_batch=False, argument="frames", frames=frames)

    @property
    def channels(self) -> int:
        """Red, green and blue."""
        return CHANNELS

    @property
    def size(self) -> tuple[int, int]:
        """The height and width of the first frame."""
        return self.frames[0].sizes

    @property
    def resized(self) -> Sequence[ResizeSource]:
        """Each luma-chroma frame, or the memory of an RGB or gray frame."""
        return [_source(frame) for frame in self.frames]

    @property
    def surfaces(self) -> Sequence[FrameSurface | None]:
        """The surface of each luma-chroma frame, None for the others."""
        return [frame.surface if frame.colours is None else None for frame in self.frames]

    def only(self, number: int) -> FrameSources:
        """One of the frames."""
        return FrameSources.of_frames([self.frames[number]])

    def repeated(self, count: int) -> FrameSources:
        """The same frames `count` times."""
        return replace(self, layouts=list(self.layouts) * count, frames=list(self.frames) * count)

    def name(self, number: int) -> str:
        """The name of a plane in messages; planes are numbered over all frames."""
        for place, frame in enumerate(self.frames):
            if number < len(frame.planes):
                return f"frames[{place}].planes[{number}]"
            number -= len(frame.planes)
        return self.argument

    def check(self, channels: int, element: ElementType, device: str, beside: str | None = None) -> None:
        """Check nothing: `of_frames` has checked the frames together."""


def _source(frame: FrameOperand) -> FrameOperand | Located:
    """A luma-chroma frame, or the memory of another frame from its lowest element on."""
    colours = frame.colours
    return frame if colours is None else (colours.buffer, colours.start_bytes)


@dataclass(frozen=True, slots=True)
class FrameRequirement:
    """The format, sizes, plane strides, matrix, chroma and device of a frame; `pixels` is that of RGB and gray pixels.

    `pixels` is None for a frame of luma and chroma, whose kernels go by the actual addresses.
    """

    surface: FrameSurface
    device: str
    pixels: Requirement | None = None

    @classmethod
    def of(cls, frame: FrameOperand, device: str) -> FrameRequirement:
        """What every frame like this one is, on a device."""
        colours = frame.colours
        return cls(frame.surface, device, None if colours is None else PlanOperand(colours.spec).required(device))

    def check(self, name: str, frame: object) -> FrameOperand:
        """The operand of a frame. Raises `BindingError` unless it meets the requirement."""
        operand = frame_operand(frame) if is_frame(frame) else None
        if operand is None or operand.surface != self.surface:
            planned = self.surface
            raise BindingError(
                f"{name}={frame!r} is not a frame like the one that was planned for: {planned.samples.name} frames of "
                f"{planned.sizes[0]} x {planned.sizes[1]} with plane strides {planned.plane_strides}, chroma "
                f"{planned.chroma}, and one matrix and range."
            )
        if operand.device != self.device:
            raise BindingError(f"{name} is on {operand.device}; the plan is for {self.device}.")
        colours = operand.colours
        if self.pixels is not None and colours is not None:
            self.pixels.check(name, colours)
        return operand


@dataclass(frozen=True, slots=True)
class FramesRequirement:
    """What a frame, or each of a list of frames, must be for a plan to run on them."""

    required: tuple[FrameRequirement, ...]
    is_batch: bool
    layouts: tuple[Layout, ...]

    @classmethod
    def of(cls, sources: FrameSources, device: str, *, is_batch: bool) -> FramesRequirement:
        """What frames like these are, on a device."""
        required = tuple(FrameRequirement.of(frame, device) for frame in sources.frames)
        return cls(required, is_batch, tuple(sources.layouts))

    def check(self, frames: object) -> list[FrameOperand]:
        """The operands. Raises `LayoutError` for another number of frames, and `BindingError` for others."""
        if not self.is_batch:
            return [self.required[0].check("frame", frames)]
        if not isinstance(frames, Sequence) or len(frames) != len(self.required):
            passed = f"{len(frames)} frames" if isinstance(frames, Sequence) else f"a {type(frames).__name__}"
            raise LayoutError(f"frames are {passed}; the plan is for a list of {len(self.required)}.")
        pairs = enumerate(zip(self.required, frames, strict=True))
        return [required.check(f"frames[{number}]", frame) for number, (required, frame) in pairs]

    def sources(self, frames: object) -> FrameSources:
        """The frames as images; raises as `check`."""
        checked = self.check(frames)
        planes = [plane for frame in checked for plane in frame.planes]
        return FrameSources(self.layouts, (), planes, False, "frames", 2, False, checked)  # noqa: FBT003 - as above

    def located(self, frames: object) -> tuple[Sequence[ResizeSource], Sequence[Operand]]:
        """Each frame, or its memory, and all planes; raises as `check`."""
        sources = self.sources(frames)
        return sources.resized, sources.operands

    def images(self, frames: object) -> FrameSources:
        """The frames of a list, or one frame in place of a list of one; raises as `check`."""
        return self.sources(frames if isinstance(frames, Sequence) else [frames])


@dataclass(frozen=True, slots=True)
class ImagesRequirement:
    """What images must be for a plan of their windows: as many, of one type, channels, and channel and column strides.

    Heights, widths and row pitches may differ.
    """

    problem: CropProblem
    device: str

    def images(self, sources: object) -> CropSources:
        """The images of a batch or of a list.

        Raises `LayoutError` for objects with other axes and for another number of images, `BindingError` and
        `ElementTypeError` for images of other types, strides and devices.
        """
        problem, images = self.problem, _images_of(sources)
        count = problem.target.layout.sizes[0]
        if len(images.places) != count:
            raise LayoutError(f"sources are {len(images.places)} images; the plan is for {count}.")
        images.check(problem.source_channels, problem.conversion.source, self.device, "the plan")
        steps = source_steps(images.layouts)
        if count and not problem.takes(steps):
            raise BindingError(
                f"sources have channel and column strides {steps}; the plan is for {problem.source_steps}."
            )
        return images


def _images_of(sources: object) -> CropSources:
    """The images of a batch or a list. Raises `LayoutError` for objects with other axes."""
    if not isinstance(sources, Sequence):
        if not has_operand(sources):
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


def checked_target(required: Requirement, images: CropSources, out: object) -> Operand:
    """The operand of `out`, for a plan. Raises unless it meets the requirement and shares no memory with the images."""
    if not has_operand(out):
        raise no_tensor(out=out)
    target = out.operand
    required.check("out", target)
    for name, operand in images.near(target).items():
        if share_memory(operand, target):
            raise BindingError(f"out shares memory with {name}.")
    return target
