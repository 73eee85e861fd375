"""Pixel formats: how an image's samples lie in the planes of a camera's or decoder's surface, as a table.

    nv12   Y Y Y Y        yuyv   Y U Y V Y U Y V        rgbx   R G B x R G B x
           Y Y Y Y               Y U Y V Y U Y V               R G B x R G B x
           U V U V

Formats of brightness and colour difference (YUV) have chroma at half size along both axes (4:2:0), at half size along
rows (4:2:2), or at full size (4:4:4). Half of an odd size is rounded up. Sources: Microsoft, "Recommended 8-Bit YUV
Formats for Video Rendering" and "10-bit and 16-bit YUV Video Formats"; the kernel's "V4L2 Image Formats"; FFmpeg's
`pixfmt.h` and `pixdesc.c`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
        >>> Plane(2, 2, 1).sizes((35, 47))
        (18, 24)
        """
        place = (-(-size[0] // self.rows), -(-size[1] // self.columns))
        return place if self.samples == 1 else (*place, self.samples)

    def row_elements(self, width: int) -> int:
        """The elements of one row for an image of this width."""
        return -(-width // self.columns) * self.samples


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
    def chroma_step(self) -> tuple[int, int]:
        """The rows and columns of pixels that share one sample of chroma; (1, 1) where there is no chroma.

        >>> PIXEL_FORMATS["nv12"].chroma_step, PIXEL_FORMATS["yuyv"].chroma_step
        ((2, 2), (1, 2))
        """
        return max(plane.rows for plane in self.planes), max(plane.columns for plane in self.planes)


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

_CHROMA_STEPS: Final = {"420": (2, 2), "422": (1, 2), "444": (1, 1)}
"""Rows and columns of pixels that share chroma."""

HIGH_DEPTHS: Final = (10, 12, 16)
LOW_DEPTHS: Final = (9, 10, 12, 14, 16)
"""Bits of samples at the top of 16, and of those at the bottom."""


def _format(name: str, kind: str, bits: int, planes: tuple[Plane, ...], channels: tuple[Samples, ...]) -> PixelFormat:
    """A format of bytes, or of deeper samples at the bottom of 16 bits."""
    element = ELEMENT_TYPES["uint8" if bits == 8 else "uint16"]
    return PixelFormat(name, kind, element, bits, 8 * element.itemsize - bits, planes, channels)


def _at_top(row: PixelFormat) -> PixelFormat:
    """The format with its samples at the top of 16 bits."""
    return replace(row, shift=0)


def _planar(name: str, ratio: str, bits: int = 8, order: tuple[int, int] = (1, 2)) -> PixelFormat:
    """A plane of luma and two of chroma; `order` is the plane of blue and of red difference."""
    channels = (Samples(0, 0, 1), Samples(order[0], 0, 1), Samples(order[1], 0, 1))
    chroma = Plane(*_CHROMA_STEPS[ratio], 1)
    return _format(name, "yuv", bits, (_WHOLE, chroma, chroma), channels)


def _semi_planar(name: str, ratio: str, bits: int = 8, order: tuple[int, int] = (0, 1)) -> PixelFormat:
    """A plane of luma and one of chroma pairs; `order` is the place of blue and red difference."""
    channels = (Samples(0, 0, 1), Samples(1, order[0], 2), Samples(1, order[1], 2))
    return _at_top(_format(name, "yuv", bits, (_WHOLE, Plane(*_CHROMA_STEPS[ratio], 2)), channels))


def _packed(name: str, order: str, bits: int = 8) -> PixelFormat:
    """One plane of two pixels in four elements, in this order."""
    places = (order.index("Y"), order.index("U"), order.index("V"))
    channels = tuple(Samples(0, place, step) for place, step in zip(places, (2, 4, 4), strict=True))
    return _at_top(_format(name, "yuv", bits, (Plane(1, 2, 4),), channels))


def _colours(name: str) -> PixelFormat:
    """One plane of pixels of four bytes, in the order that the name spells."""
    channels = tuple(Samples(0, name.index(letter), 4) for letter in "rgb")
    return _format(name, "rgb", 8, (Plane(1, 1, 4),), channels)


def _colour_planes(name: str, bits: int = 8) -> PixelFormat:
    """A plane of green, of blue and of red."""
    return _format(name, "rgb", bits, (_WHOLE,) * 3, tuple(Samples(plane, 0, 1) for plane in (2, 0, 1)))


def _gray(name: str, bits: int = 8) -> PixelFormat:
    """One plane of brightness."""
    return _format(name, "gray", bits, (_WHOLE,), (Samples(0, 0, 1),))


PIXEL_FORMATS: Final[dict[str, PixelFormat]] = {
    row.name: row
    for row in (
        *map(_semi_planar, ("nv12", "nv16", "nv24"), _CHROMA_STEPS),
        *(_semi_planar(*named, 8, (1, 0)) for named in zip(("nv21", "nv61", "nv42"), _CHROMA_STEPS, strict=True)),
        *(_planar(f"i{ratio}", ratio) for ratio in _CHROMA_STEPS),
        _planar("yv12", "420", 8, (2, 1)),
        _packed("yuyv", "YUYV"),
        _packed("uyvy", "UYVY"),
        *(_semi_planar(f"p{ratio[2]}{bits}", ratio, bits) for ratio in _CHROMA_STEPS for bits in HIGH_DEPTHS),
        *(_planar(f"i{ratio[2]}{bits:02}", ratio, bits) for ratio in _CHROMA_STEPS for bits in LOW_DEPTHS),
        *(_packed(f"y2{bits}", "YUYV", bits) for bits in HIGH_DEPTHS),
        *map(_colours, ("rgbx", "bgrx", "rgba", "bgra", "argb", "abgr")),
        *(_colour_planes(f"gbrp{bits or ''}", bits or 8) for bits in (0, *LOW_DEPTHS)),
        *(_gray(f"gray{bits or ''}", bits or 8) for bits in (0, *LOW_DEPTHS)),
    )
}
"""Every format by its name."""

FFMPEG_NAMES: Final = {
    **{f"yuv{full}{ratio}p": f"i{ratio}" for ratio in _CHROMA_STEPS for full in ("", "j")},
    **{
        f"yuv{ratio}p{bits}{end}": f"i{ratio[2]}{bits:02}"
        for ratio in _CHROMA_STEPS
        for bits in LOW_DEPTHS
        for end in ("", "le")
    },
    **{f"{name}le": name for name, row in PIXEL_FORMATS.items() if row.bits > 8 and row.name[0] != "i"},
    "yuyv422": "yuyv",
    "uyvy422": "uyvy",
    "rgb0": "rgbx",
    "bgr0": "bgrx",
    "0rgb": "argb",
    "0bgr": "abgr",
    "gray8": "gray",
    "y8": "gray",
}
"""FFmpeg's names of formats that have another name here; the other formats have FFmpeg's, and "yv12" has none there."""

PLANE_NAMES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("nv12", "nv16", "nv24"), ("y", "uv")),
    **dict.fromkeys(("nv21", "nv61", "nv42"), ("y", "vu")),
    **dict.fromkeys(("i420", "i422", "i444"), ("y", "u", "v")),
    "gbrp": ("g", "b", "r"),
    **{name: (name,) for name, row in PIXEL_FORMATS.items() if len(row.planes) == 1},
}
"""The names of the planes of formats of bytes and of formats of one plane, in the order of memory."""

FULL_RANGE_NAMES: Final = frozenset(f"yuvj{ratio}p" for ratio in _CHROMA_STEPS)
"""FFmpeg's names that state full range."""
