"""`CropSources`: the images, or volumes, that windows are taken from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from stridedgpu.devices.interface import EvenlyLocated, Located, LocatedOperands, ResizeSource
from stridedgpu.devices.operand import Operand
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout

__all__ = ["MOST_IMAGES", "CropSources"]

MOST_IMAGES: Final = 1 << 28
"""More images than there is memory to list: a view that repeats one can have as many."""


@dataclass(frozen=True, slots=True)
class CropSources:
    """Images with axes C, H, W: their layouts from the lowest element, and where that element is.

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
                made = known.get(shape)
                if made is None:
                    made = known[shape] = layout.shifted(-layout.first_offset)
                layouts.append(made)
        axes = len(sizes) - 1
        places = LocatedOperands(images, [image.reach[0] for image in images])
        return cls(layouts, places, images, is_batch=False, argument=argument, axes=axes, are_alike=are_alike)

    @classmethod
    def of_batch(cls, batch: Operand, argument: str = "sources") -> CropSources:
        """The images of an operand with axes N, C, H, W, or its volumes: one layout, at even steps."""
        layout, itemsize = batch.layout, batch.element.itemsize
        count, step = layout.sizes[0], layout.strides[0] * itemsize
        axes = len(layout.sizes) - 2
        if not count:
            return cls((), (), (batch,), is_batch=True, argument=argument, axes=axes)
        if count > MOST_IMAGES:
            raise LayoutError(f"{argument} has {count} images, more than there is memory to list them.")
        image, lowest = _first_image(layout)
        start = lowest * itemsize
        places = EvenlyLocated(batch.buffer, start, step, count)
        return cls((image,) * count, places, (batch,), is_batch=True, argument=argument, axes=axes)

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

    def repeated(self, count: int) -> CropSources:
        """The same images `count` times."""
        return replace(self, layouts=list(self.layouts) * count, places=list(self.places) * count)

    @property
    def element(self) -> ElementType:
        """The element type of the first image."""
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
def _first_image(batch: Layout) -> tuple[Layout, int]:
    """The layout of a batch's first image from its lowest element, and the elements before that in the buffer."""
    image = batch.sliced(0)
    return image.shifted(-image.first_offset), image.first_offset
