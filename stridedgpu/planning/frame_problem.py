"""`FrameProblem`: a window of a surface of luma and chroma as red, green and blue, converted and laid out, as a value.

Where the window begins in the surface changes with every call and is no part of the problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stridedgpu.values.colour_matrix import ColourMatrix
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.pixel_formats import PixelFormat
from stridedgpu.values.tensor_spec import TensorSpec

from .device_plan import Width, in_words

__all__ = ["CHROMA", "FramePlan", "FrameProblem"]

CHROMA: Final = {
    "repeated": "each sample of chroma is that of all its pixels",
    "linear": "chroma between two samples is their mean by distance, rounded; samples lie left in the middle",
}
"""How chroma is brought to the size of luma.

"repeated" is what OpenCV does. "linear" takes samples to lie where MPEG-2 and H.264 put them by default: at the left
one of two columns, and half-way between two rows. With s the sum of the nearer row's sample three times and of the
other row's once (4:2:0), or four times the row's own (4:2:2), an even column is (s + 2) >> 2, and an odd one the sum of
both neighbours' s, (s + s' + 4) >> 3. At the edges the last sample is its own neighbour.
"""


@dataclass(frozen=True, slots=True)
class FrameProblem:
    """One window of frames of one format and layout.

    `sizes` are the frame's height and width in pixels, `plane_strides` the strides of each plane in elements of the
    format. `target` has the axes C, H, W, H and W being the window's; `conversion` is from colours to its elements.
    """

    samples: PixelFormat
    sizes: tuple[int, int]
    plane_strides: tuple[tuple[int, ...], ...]
    matrix: ColourMatrix
    chroma: str
    target: TensorSpec
    conversion: Conversion

    @property
    def order(self) -> tuple[int, ...]:
        """Which of red, green and blue each output channel is."""
        return self.conversion.channels or (0, 1, 2)

    def in_words(self) -> str:
        """What it is a window of."""
        _, height, width = self.target.layout.sizes
        return (
            f"a window of {height} x {width} pixels of {self.samples.name} frames of {self.sizes[0]} x {self.sizes[1]}"
            f" with plane strides {self.plane_strides}"
        )

    @property
    def bytes_moved(self) -> int:
        """The bytes of samples that must be read, and those that are written."""
        channels, height, width = self.target.layout.sizes
        down, right = self.samples.chroma_step
        samples = height * width + 2 * -(-height // down) * -(-width // right)
        return samples * self.samples.element.itemsize + channels * height * width * self.target.element.itemsize


@dataclass(frozen=True, slots=True)
class FramePlan:
    """A problem, and how a device does it: `kernel` is the name of what runs there, and `reason` why not another.

    `load` is the width of a load of luma, `store` that of one channel's pixels of a step.
    """

    problem: FrameProblem
    device: str
    kernel: str
    load: Width
    store: Width
    index_bits: int
    reason: str = ""

    @property
    def tile(self) -> tuple[int, ...]:
        """No box of its own: steps along rows."""
        return ()

    @property
    def shape(self) -> str:
        """How the work is divided."""
        return "steps along rows, several rows at a time"

    @property
    def bytes_moved(self) -> int:
        """The bytes of samples that must be read, and those that are written."""
        return self.problem.bytes_moved

    def explain(self) -> str:
        """The plan in plain words."""
        problem = self.problem
        lines = [
            f"{self.kernel} on {self.device}" + (f" ({self.reason})" if self.reason else ""),
            f"  {problem.in_words()}",
            f"  chroma {problem.chroma}: {CHROMA[problem.chroma]}",
            f"  {in_words('loads', self.load)}",
            f"  {in_words('stores', self.store)}",
            f"  colours 0 to {problem.matrix.most}, then {problem.conversion}",
            f"  writes in steps of {problem.target.layout.strides} elements along C, H, W",
            f"  {self.bytes_moved} bytes must move",
        ]
        return "\n".join(lines)
