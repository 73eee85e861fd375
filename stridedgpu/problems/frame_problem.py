"""`FrameProblem`: a window of a frame as RGB, converted and laid out, as a value.

The window's origin changes with every call and is not part of the problem. `SamplesProblem` is the inverse: RGB to the
samples of a frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from stridedgpu.values.colour_matrix import ColourMatrix, LumaMatrix
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.layout import Layout
from stridedgpu.values.pixel_formats import PixelFormat
from stridedgpu.values.tensor_spec import TensorSpec

CHROMA: Final = {
    "repeated": "each sample of chroma is that of all its pixels",
    "linear": "chroma between two samples is their mean by distance, rounded; samples lie left in the middle",
}
"""The upsampling of chroma to the size of luma.

Of a frame of H rows and W columns, chroma has ceil(H / 2) and ceil(W / 2): the last sample of an odd size is that of
one row or column alone. Rows and columns count from the frame's first pixel, wherever a window begins.

"repeated" is nearest-neighbour, as in OpenCV. "linear" assumes the default siting of MPEG-2 and H.264: in the left one
of two columns, and half-way between two rows. Let s be 3 times the sample of the nearer row plus that of the other row
(4:2:0), or 4 times the row's own sample (4:2:2). An even column is (s + 2) >> 2. An odd column is (s + s' + 4) >> 3,
with s' of the next sample. At the edges the last sample is its own neighbour: of an odd height, the last row's nearer
sample is the last, and the other one is above it. 4:4:4 has a sample for each pixel, and both are that.
"""


@dataclass(frozen=True, slots=True)
class FrameSurface:
    """The format, size and layout of frames, without their memory.

    `sizes` are the frame's height and width in pixels, `plane_strides` the strides of each plane in elements of the
    format.
    """

    samples: PixelFormat
    sizes: tuple[int, int]
    plane_strides: tuple[tuple[int, ...], ...]
    matrix: ColourMatrix
    chroma: str

    @property
    def pixels(self) -> Layout:
        """The layout of the frame's RGB pixels in packed memory, with axes C, H, W."""
        return packed_pixels(*self.sizes)

    def window(self, height: int, width: int) -> FrameProblem:
        """The problem of a window as packed RGB pixels of the samples' type."""
        element = self.samples.element
        target = TensorSpec(packed_pixels(height, width), element, element.itemsize)
        conversion = Conversion(element, element)
        return FrameProblem(self.samples, self.sizes, self.plane_strides, self.matrix, self.chroma, target, conversion)

    def __str__(self) -> str:
        """The format and the upsampling of chroma: "nv12 frames, chroma repeated"."""
        return f"{self.samples.name} frames, chroma {self.chroma}"


def packed_pixels(height: int, width: int) -> Layout:
    """RGB pixels without gaps, with axes C, H, W."""
    return Layout((3, height, width), (1, 3 * width, 3))


@dataclass(frozen=True, slots=True)
class FrameProblem(FrameSurface):
    """One window of the frames of one surface.

    `target` has the axes C, H, W, H and W being the window's; `conversion` is from RGB to its elements.
    """

    target: TensorSpec
    conversion: Conversion

    @property
    def order(self) -> tuple[int, ...]:
        """The colour of each output channel: 0 red, 1 green, 2 blue."""
        return self.conversion.channels or (0, 1, 2)

    @property
    def is_empty(self) -> bool:
        """True if the window has no pixels."""
        return self.target.layout.element_count == 0

    def describe(self) -> list[str]:
        """The problem in lines, as plans explain it."""
        _, height, width = self.target.layout.sizes
        frames = f"{self.samples.name} frames of {self.sizes[0]} x {self.sizes[1]}"
        down = ", of products rounded down" if self.matrix.floors else ""
        return [
            f"a window of {height} x {width} pixels of {frames} with plane strides {self.plane_strides}",
            f"chroma {self.chroma}: {CHROMA[self.chroma]}",
            f"colours 0 to {self.matrix.most}{down}, then {self.conversion}",
            f"writes in steps of {self.target.layout.strides} elements along C, H, W",
            f"{self.bytes_moved} bytes must move",
        ]

    @property
    def bytes_moved(self) -> int:
        """The bytes of samples to read, plus the bytes to write."""
        channels, height, width = self.target.layout.sizes
        down, right = self.samples.chroma_step
        others = len(self.samples.channels) - 1
        samples = height * width + others * -(-height // down) * -(-width // right)
        return samples * self.samples.element.itemsize + channels * height * width * self.target.element.itemsize


_CHROMA_TAKEN: Final = {
    (2, 2): "chroma is that of the upper left of four pixels",
    (1, 2): "chroma is that of the mean of two pixels",
    (1, 1): "each pixel has samples of its own",
}


@dataclass(frozen=True, slots=True)
class SamplesProblem:
    """The inverse: RGB images of the format's element type as the samples of frames of one format and layout.

    `colours` are the layouts of red, green and blue, with axes H, W. The sample of chroma of an odd size's last row or
    column is that of the pixels that there are. Of packed pixels whose last pair the image cuts, the second luma is the
    first one again.
    """

    samples: PixelFormat
    sizes: tuple[int, int]
    plane_strides: tuple[tuple[int, ...], ...]
    matrix: LumaMatrix
    colours: tuple[Layout, ...]

    @property
    def is_empty(self) -> bool:
        """True if there are no pixels."""
        return 0 in self.sizes

    @property
    def bytes_moved(self) -> int:
        """The bytes of RGB to read, plus the bytes of samples to write."""
        planes = sum(prod(plane.sizes(self.sizes)) for plane in self.samples.planes)
        return (len(self.colours) * prod(self.sizes) + planes) * self.samples.element.itemsize

    def describe(self) -> list[str]:
        """The problem in lines, as plans explain it."""
        height, width = self.sizes
        return [
            f"{self.samples.name} frames of {height} x {width} of colours, with plane strides {self.plane_strides}",
            f"reads in steps of {tuple(layout.strides for layout in self.colours)} elements along H, W",
            _CHROMA_TAKEN[self.samples.chroma_step],
            f"{self.bytes_moved} bytes must move",
        ]
