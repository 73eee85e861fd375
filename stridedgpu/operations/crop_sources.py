"""`CropSources`: the images that windows are taken of, one by one or as a batch, and what is checked of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stridedgpu.devices.gather_interface import Located
from stridedgpu.devices.operand import Operand
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout

__all__ = ["CropSources"]


@dataclass(frozen=True, slots=True)
class CropSources:
    """Images with axes C, H, W: their layouts from the lowest element on, and where that lies.

    `operands` hold them: one for each, or their batch alone, of which there may be no image.
    """

    layouts: Sequence[Layout]
    places: Sequence[Located]
    operands: Sequence[Operand]
    is_batch: bool

    @classmethod
    def of_images(cls, images: Sequence[Operand]) -> CropSources:
        """Images that are operands of their own, of any sizes; at least one."""
        layouts = [image.layout.shifted(-image.layout.first_offset) for image in images]
        return cls(layouts, [(image.buffer, image.start_bytes) for image in images], images, is_batch=False)

    @classmethod
    def of_batch(cls, batch: Operand) -> CropSources:
        """The images of an operand with axes N, C, H, W: one layout, at even steps."""
        layout, itemsize = batch.layout, batch.element.itemsize
        count, step = layout.sizes[0], layout.strides[0] * itemsize
        if not count:
            return cls((), (), (batch,), is_batch=True)
        image = layout.sliced(0)
        start = image.first_offset * itemsize
        places = [(batch.buffer, start + number * step) for number in range(count)]
        return cls((image.shifted(-image.first_offset),) * count, places, (batch,), is_batch=True)

    @property
    def element(self) -> ElementType:
        """The type of the first."""
        return self.operands[0].element

    @property
    def channels(self) -> int:
        """The channels of the first."""
        return self.operands[0].layout.sizes[-3]

    @property
    def device(self) -> str:
        """Where the first lies."""
        return self.operands[0].buffer.device

    def name(self, number: int) -> str:
        """What messages call an operand."""
        return "sources" if self.is_batch else f"sources[{number}]"

    def check(self, channels: int, element: ElementType, device: str, beside: str = "sources[0]") -> None:
        """Raise unless every image has the type, channels and device of what stands `beside` them."""
        for number, operand in enumerate(self.operands):
            name, layout = self.name(number), operand.layout
            if operand.element != element:
                raise ElementTypeError(f"{name} holds {operand.element} and {beside} {element}; both must be one.")
            if layout.sizes[-3] != channels:
                axes = "N, C, H, W" if self.is_batch else "C, H, W"
                raise LayoutError(
                    f"{name} has {layout.sizes[-3]} channels and {beside} {channels}; "
                    f"its sizes are {layout.sizes} along {axes}."
                )
            if operand.buffer.device != device:
                raise BindingError(f"{name} is on {operand.buffer.device} and {beside} on {device}.")
