"""`FrameSources`: frames as the RGB images of a resize, whose rows are converted as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stridedgpu.devices.frame_operand import CHANNELS, FrameOperand
from stridedgpu.devices.interface import Located, ResizeSource
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError

from .crop_sources import CropSources

__all__ = ["FrameSources", "check_frames"]


@dataclass(frozen=True, slots=True)
class FrameSources(CropSources):
    """Frames of any sizes, and of formats with one sample depth; `operands` are all their planes.

    An RGB or gray frame is an image in memory. The layout of a luma-chroma frame is that of its packed RGB pixels.
    """

    frames: Sequence[FrameOperand] = ()

    @classmethod
    def of_frames(cls, frames: Sequence[FrameOperand]) -> FrameSources:
        """Frames, checked. Raises what `check_frames` raises."""
        check_frames(frames)
        layouts = []
        for frame in frames:
            colours = frame.colours
            if colours is None:
                layouts.append(frame.surface.pixels)
            else:
                layouts.append(colours.layout.shifted(-colours.layout.first_offset))
        planes = [plane for frame in frames for plane in frame.planes]
        return cls(layouts, (), planes, is_batch=False, argument="frames", frames=frames)

    @property
    def element(self) -> ElementType:
        """The type of the first frame's colours."""
        return self.frames[0].element

    @property
    def channels(self) -> int:
        """Red, green and blue."""
        return CHANNELS

    @property
    def device(self) -> str:
        """The device of the first frame."""
        return self.frames[0].device

    @property
    def size(self) -> tuple[int, int]:
        """The height and width of the first frame."""
        return self.frames[0].sizes

    @property
    def resized(self) -> Sequence[ResizeSource]:
        """Each luma-chroma frame, or the memory of an RGB or gray frame."""
        return [_source(frame) for frame in self.frames]

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


def check_frames(frames: Sequence[FrameOperand]) -> tuple[ElementType, str]:
    """The common type of the frames' colours, and their common device.

    Raises `LayoutError` for no frames, `ElementTypeError` for frames of different depths, `BindingError` for frames on
    two devices.
    """
    if not frames:
        raise LayoutError("No frames were given: a batch of none has no type.")
    element, device = frames[0].element, frames[0].device
    for number, frame in enumerate(frames):
        if frame.element != element:
            raise ElementTypeError(
                f"frames[{number}] ({frame.samples.name}) has colours of {frame.element} and frames[0] "
                f"({frames[0].samples.name}) of {element}; convert them apart, each with its own scale, or declare "
                "Preprocess(normalize=...), which goes by each frame's type."
            )
        if frame.device != device:
            raise BindingError(f"frames[{number}] is on {frame.device} and frames[0] on {device}.")
    return element, device
