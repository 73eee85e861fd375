"""Pixel formats: how an image's samples lie in the planes of a camera's or decoder's surface, as a table.

    nv12   Y Y Y Y        yuyv   Y U Y V Y U Y V        rgbx   R G B x R G B x
           Y Y Y Y               Y U Y V Y U Y V               R G B x R G B x
           U V U V

Formats of brightness and colour difference (YUV) have chroma at half size, along both axes (4:2:0) or along rows only
(4:2:2). Sources: Microsoft, "Recommended 8-Bit YUV Formats for Video Rendering" and "10-bit and 16-bit YUV Video
Formats"; the kernel's "V4L2 Image Formats"; FFmpeg's `pixfmt.h`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .dtypes import ELEMENT_TYPES, ElementType
from .errors import LayoutError


@dataclass(frozen=True, slots=True)
class Plane:
    """One plane of a surface.

    One row and column of the plane cover `rows` rows and `columns` columns of the image. Each place in the plane has
    `samples` elements side by side.
    """

    rows: int
    columns: int
    samples: int

    def sizes(self, size: tuple[int, int]) -> tuple[int, ...]:
        """The sizes of this plane for an image of this height and width, with a last axis for several samples.

        >>> Plane(2, 2, 2).sizes((1080, 1920))
        (540, 960, 2)
        """
        place = (size[0] // self.rows, size[1] // self.columns)
        return place if self.samples == 1 else (*place, self.samples)

    def row_elements(self, width: int) -> int:
        """The elements of one row for an image of this width."""
        return width // self.columns * self.samples


@dataclass(frozen=True, slots=True)
class Samples:
    """Where the samples of one kind lie: the plane, the first sample's place in a row, and the step between samples."""

    plane: int
    first: int
    step: int


@dataclass(frozen=True, slots=True)
class PixelFormat:
    """The planes of a surface and the samples in them.

    `channels` are the samples of luma, blue and red difference if `kind` is "yuv", of red, green and blue if it is
    "rgb", and of brightness alone if it is "gray". `bits` is the depth of a sample. `shift` is the left shift, in bits,
    that aligns a sample with the top of its element: 6 if 10 bits lie at the bottom of 16.
    """

    name: str
    kind: str
    element: ElementType
    bits: int
    shift: int
    planes: tuple[Plane, ...]
    channels: tuple[Samples, ...]

    @property
    def multiple(self) -> tuple[int, int]:
        """What the height and the width of an image must be multiples of."""
        return max(plane.rows for plane in self.planes), max(plane.columns for plane in self.planes)

    @property
    def chroma_step(self) -> tuple[int, int]:
        """The rows and columns of pixels that share one sample of chroma; (1, 1) where there is no chroma.

        >>> PIXEL_FORMATS["nv12"].chroma_step, PIXEL_FORMATS["yuyv"].chroma_step
        ((2, 2), (1, 2))
        """
        return self.multiple if self.kind == "yuv" else (1, 1)


def pixel_format(name: object) -> PixelFormat:
    """The format of this name, or of FFmpeg's name for it. Raises `LayoutError` for an unknown name.

    >>> pixel_format("yuv420p").name
    'i420'
    """
    known = PIXEL_FORMATS.get(FFMPEG_NAMES.get(name, name)) if isinstance(name, str) else None
    if known is None:
        raise LayoutError(
            f"format={name!r} is unknown; the formats are {', '.join(PIXEL_FORMATS)}, and FFmpeg's names of these."
        )
    return known


_WHOLE: Final = Plane(1, 1, 1)
_QUARTER: Final = Plane(2, 2, 1)
_PAIRS: Final = Plane(2, 2, 2)


def _semi_planar(name: str, element: str, bits: int, shift: int, order: tuple[int, int] = (0, 1)) -> PixelFormat:
    """A plane of luma and one of chroma pairs for 2 x 2 pixels; `order` is the place of blue and red difference."""
    channels = (Samples(0, 0, 1), Samples(1, order[0], 2), Samples(1, order[1], 2))
    return PixelFormat(name, "yuv", ELEMENT_TYPES[element], bits, shift, (_WHOLE, _PAIRS), channels)


def _planar(name: str, element: str, bits: int, shift: int, order: tuple[int, int] = (1, 2)) -> PixelFormat:
    """A plane of luma and two of chroma for 2 x 2 pixels; `order` is the plane of blue and of red difference."""
    channels = (Samples(0, 0, 1), Samples(order[0], 0, 1), Samples(order[1], 0, 1))
    return PixelFormat(name, "yuv", ELEMENT_TYPES[element], bits, shift, (_WHOLE, _QUARTER, _QUARTER), channels)


def _packed(name: str, order: str) -> PixelFormat:
    """One plane of two pixels in four bytes, in this order."""
    places = (order.index("Y"), order.index("U"), order.index("V"))
    channels = tuple(Samples(0, place, step) for place, step in zip(places, (2, 4, 4), strict=True))
    return PixelFormat(name, "yuv", ELEMENT_TYPES["uint8"], 8, 0, (Plane(1, 2, 4),), channels)


def _colours(name: str) -> PixelFormat:
    """One plane of pixels of four bytes, in the order that the name spells."""
    channels = tuple(Samples(0, name.index(letter), 4) for letter in "rgb")
    return PixelFormat(name, "rgb", ELEMENT_TYPES["uint8"], 8, 0, (Plane(1, 1, 4),), channels)


PIXEL_FORMATS: Final[dict[str, PixelFormat]] = {
    row.name: row
    for row in (
        _semi_planar("nv12", "uint8", 8, 0),
        _semi_planar("nv21", "uint8", 8, 0, (1, 0)),
        _planar("i420", "uint8", 8, 0),
        _planar("yv12", "uint8", 8, 0, (2, 1)),
        _packed("yuyv", "YUYV"),
        _packed("uyvy", "UYVY"),
        _semi_planar("p010", "uint16", 10, 0),
        _semi_planar("p016", "uint16", 16, 0),
        _planar("i010", "uint16", 10, 6),
        *map(_colours, ("rgbx", "bgrx", "rgba", "bgra", "argb", "abgr")),
        PixelFormat("gray", "gray", ELEMENT_TYPES["uint8"], 8, 0, (_WHOLE,), (Samples(0, 0, 1),)),
    )
}
"""Every format by its name. 12 bits in the high bits of 16 are read as "p016"."""

FFMPEG_NAMES: Final = {
    "yuv420p": "i420",
    "yuvj420p": "i420",
    "yuyv422": "yuyv",
    "uyvy422": "uyvy",
    "p010le": "p010",
    "p012": "p016",
    "p012le": "p016",
    "p016le": "p016",
    "yuv420p10": "i010",
    "yuv420p10le": "i010",
    "rgb0": "rgbx",
    "bgr0": "bgrx",
    "0rgb": "argb",
    "0bgr": "abgr",
    "gray8": "gray",
    "y8": "gray",
}
"""FFmpeg's names of formats that have another name here; the other formats have FFmpeg's, and "yv12" has none there."""

PLANE_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "nv12": ("y", "uv"),
    "nv21": ("y", "vu"),
    "i420": ("y", "u", "v"),
    **{name: (name,) for name, row in PIXEL_FORMATS.items() if len(row.planes) == 1},
}
"""The names of the planes of formats of bytes, in the order of memory."""

FULL_RANGE_NAMES: Final = frozenset({"yuvj420p"})
"""FFmpeg's names that state full range."""
