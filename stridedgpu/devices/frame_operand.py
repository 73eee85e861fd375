"""`FrameOperand`: the operand of operations on frames: planes, pixel format and colour matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from stridedgpu.problems.frame_problem import FrameProblem, FrameSurface
from stridedgpu.values.colour_matrix import ColourMatrix, colour_matrix
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.layout import Layout
from stridedgpu.values.pixel_formats import PixelFormat
from stridedgpu.values.tensor_spec import TensorSpec

from .operand import Operand

CHANNELS: Final = 3
"""The channels of a frame as operations see it: red, green and blue."""


@dataclass(frozen=True, slots=True)
class FrameOperand:
    """A frame of `sizes` (height, width) in planes with the sizes that its format states.

    `matrix` is the name of the standard; `chroma` is the upsampling of chroma to the size of luma; `arithmetic` is a
    name of `stridedgpu.values.colour_matrix`. `transfer` is the transfer function of high dynamic range, and
    `light` what operations see of such codes: names of `stridedgpu.problems.transfer_functions`, or None.
    """

    samples: PixelFormat
    sizes: tuple[int, int]
    planes: tuple[Operand, ...]
    matrix: str
    full_range: bool
    chroma: str
    arithmetic: str = "rounded"
    transfer: str | None = None
    light: str | None = None

    fitted: ClassVar[None] = None
    """No requirement on a tensor was met, as `Operand.fitted` may say of one."""

    @property
    def device(self) -> str:
        """The device of the planes."""
        return self.planes[0].buffer.device

    @property
    def element(self) -> ElementType:
        """The type of a colour: uint8, or uint16 for deeper samples."""
        return self.samples.element

    @property
    def layout(self) -> Layout:
        """The layout of the frame's RGB pixels in packed memory, with axes C, H, W."""
        return self.surface.pixels

    @property
    def constants(self) -> ColourMatrix:
        """The integer constants from samples to colours."""
        return colour_matrix(self.matrix, self.samples, full_range=self.full_range, arithmetic=self.arithmetic)

    @property
    def surface(self) -> FrameSurface:
        """Format, size and layout of the frame, without its memory."""
        return FrameSurface(self.samples, self.sizes, self._strides, self.constants, self.chroma)

    def window(self, target: TensorSpec, conversion: Conversion) -> FrameProblem:
        """The problem of a window of the frame, written as RGB with axes C, H, W."""
        surface = self.samples, self.sizes, self._strides, self.constants, self.chroma
        return FrameProblem(*surface, target, conversion)

    @property
    def _strides(self) -> tuple[tuple[int, ...], ...]:
        return tuple(plane.layout.strides for plane in self.planes)

    @property
    def colours(self) -> Operand | None:
        """Red, green and blue as a view with axes C, H, W; None if they must be computed."""
        if self.samples.kind == "yuv" or self.samples.shift or len(self.planes) > 1:
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
