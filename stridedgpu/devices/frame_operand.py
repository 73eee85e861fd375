"""`FrameOperand`: the planes of one picture and what their samples mean: what operations on frames work on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stridedgpu.planning.frame_problem import FrameSurface
from stridedgpu.values.colour_matrix import ColourMatrix, colour_matrix
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.layout import Layout
from stridedgpu.values.pixel_formats import PixelFormat

from .operand import Operand

__all__ = ["CHANNELS", "FrameOperand"]

CHANNELS: Final = 3
"""Red, green and blue: what every frame is to an operation."""


@dataclass(frozen=True, slots=True)
class FrameOperand:
    """A frame of `sizes` (height, width) in planes with the sizes that its format states.

    `matrix` is the standard's name; `chroma` says how chroma is brought to the size of luma.
    """

    samples: PixelFormat
    sizes: tuple[int, int]
    planes: tuple[Operand, ...]
    matrix: str
    full_range: bool
    chroma: str

    @property
    def device(self) -> str:
        """Where the planes lie."""
        return self.planes[0].buffer.device

    @property
    def element(self) -> ElementType:
        """The type of a colour: uint8, or uint16 where samples are deeper."""
        return self.samples.element

    @property
    def constants(self) -> ColourMatrix:
        """The integers from samples to colours."""
        return colour_matrix(self.matrix, self.samples, full_range=self.full_range)

    @property
    def surface(self) -> FrameSurface:
        """What is known of the frame but for its memory."""
        strides = tuple(plane.layout.strides for plane in self.planes)
        return FrameSurface(self.samples, self.sizes, strides, self.constants, self.chroma)

    @property
    def colours(self) -> Operand | None:
        """Red, green and blue as a view with axes C, H, W; None where they have to be computed."""
        if self.samples.kind == "yuv":
            return None
        (plane,) = self.planes
        layout = plane.layout
        if self.samples.kind == "gray":
            wanted = Layout((CHANNELS, *layout.sizes), (0, *layout.strides), layout.offset)
        else:
            first, second, _ = (channel.first for channel in self.samples.channels)
            down, right, across = layout.strides
            strides = ((second - first) * across, down, right)
            wanted = Layout((CHANNELS, *self.sizes), strides, layout.offset + first * across)
        return Operand(plane.buffer, wanted, plane.element)
