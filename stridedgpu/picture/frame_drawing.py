"""A frame as an SVG picture: each plane to scale, with its samples and the padding of its rows."""

from __future__ import annotations

from typing import Final

from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.values.pixel_formats import PixelFormat

from .canvas import COLOURS, MARGIN, ROW, Canvas, box, centred

__all__ = ["frame_svg", "plane_words"]

_WIDTH: Final = 480
"""Pixels of the longest row, padding included."""

_LEAST: Final = 2
"""Pixels of the narrowest padding and of the lowest plane, so that both stay visible."""

_LETTERS: Final = {"yuv": "YUV", "rgb": "RGB", "gray": "Y"}


def frame_svg(frame: FrameOperand, title: str) -> str:
    """The planes below each other, all at one scale, with their bytes in words."""
    canvas = Canvas()
    canvas.words(MARGIN, MARGIN + ROW / 2, title, "sg-title")
    scale = _WIDTH / max(max(_pitch(plane), _row(plane)) for plane in frame.planes)
    top = MARGIN + 1.5 * ROW
    first = frame.planes[0].address
    for number, plane in enumerate(frame.planes):
        canvas.words(MARGIN, top + ROW / 2, plane_words(frame.samples, number, plane, plane.address - first))
        top += ROW * 0.75
        row, gap = _row(plane) * scale, (_pitch(plane) - _row(plane)) * scale
        height = max(plane.layout.sizes[0] * scale, _LEAST)
        colour = COLOURS[number]
        canvas.add(box(MARGIN, top, row, height, colour, touched=False), MARGIN + row, top + height)
        if height >= ROW:
            canvas.add(centred(_order(frame.samples, number), MARGIN + row / 2, top + height / 2 + 4), 0, 0)
        if gap > 0:
            shown = max(gap, _LEAST)
            padding = box(MARGIN + row, top, shown, height, "url(#sg-hatch)", touched=False)
            canvas.add(padding, MARGIN + row + shown, top + height)
        top += height + ROW / 2
    return canvas.document(title)


def plane_words(samples: PixelFormat, number: int, plane: Operand, offset: int) -> str:
    """One plane in a line: its samples, sizes, pitch and padding in bytes, and where it begins.

    `offset` is the bytes from the first plane's first sample.
    """
    row, pitch = _row(plane), _pitch(plane)
    padding = f", {pitch - row} of them padding" if pitch > row else ""
    sizes = " x ".join(map(str, plane.layout.sizes))
    return (
        f"plane {number}: {_order(samples, number)}, {sizes} {plane.element}, rows {pitch} B apart{padding}, from byte "
        f"{offset}"
    )


def _order(samples: PixelFormat, number: int) -> str:
    """The samples of a plane in the order of memory: "Y", "U V", "Y U Y V", "B G R x"."""
    places = ["x"] * samples.planes[number].samples
    for letter, channel in zip(_LETTERS[samples.kind], samples.channels, strict=True):
        if channel.plane == number:
            for place in range(channel.first, len(places), channel.step):
                places[place] = letter
    return " ".join(places)


def _row(plane: Operand) -> int:
    """Bytes of a row's samples."""
    return plane.layout.sliced(0).span * plane.element.itemsize


def _pitch(plane: Operand) -> int:
    """Bytes from row to row."""
    return abs(plane.layout.strides[0]) * plane.element.itemsize
