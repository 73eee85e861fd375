"""PyAV's frames as the operands of frames: format, colours, pitch and size as FFmpeg states them; nothing is copied.

Sources: FFmpeg's `pixfmt.h` for names, `AVColorSpace` and `AVColorRange`, and swscale, which takes a frame that states
no colour space for BT.601 of limited range, and yuvj formats for full range.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np

from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.array_like import is_video_frame, operand_of_array
from stridedgpu.values.colour_matrix import check_matrix
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.pixel_formats import FFMPEG_NAMES, FULL_RANGE_NAMES, LOW_DEPTHS, PIXEL_FORMATS, PixelFormat

_MATRICES: Final = {0: "bt601", 1: "bt709", 2: "bt601", 5: "bt601", 6: "bt601", 9: "bt2020"}
"""The matrix of each `AVColorSpace` that has one here. 2 is "unspecified", and 0, of RGB, is swscale's for YUV too."""

_FULL: Final = 2
"""`AVCOL_RANGE_JPEG`."""


def is_frame(thing: object) -> bool:
    """True for a `Frame`, and for a VideoFrame of PyAV."""
    return isinstance(getattr(thing, "operand", None), FrameOperand) or is_video_frame(thing)


def frame_operand(frame: Any, matrix: str | None = None) -> FrameOperand:
    """The operand of a `Frame`, or of a VideoFrame of PyAV, whose own matrix `matrix` replaces.

    Raises `LayoutError` for a format, a size or a matrix that no `Frame` has, and `BindingError` for planes whose
    buffers do not hold their rows.
    """
    if not is_video_frame(frame):
        operand: FrameOperand = frame.operand
        return operand
    named: str = frame.format.name
    size = (frame.height, frame.width)
    samples = PIXEL_FORMATS.get(FFMPEG_NAMES.get(named, named))
    if samples is None:
        raise LayoutError(_refusal(frame.format))
    given = frame.planes
    if len(given) != len(samples.planes):  # as of VideoFrame(), which has no memory
        raise LayoutError(
            f"This VideoFrame of {named} has {len(given)} planes; {samples.name} has {len(samples.planes)}."
        )
    planes = tuple(_plane(number, plane, samples, size) for number, plane in enumerate(given))
    standard = _matrix(frame, samples) if matrix is None else check_matrix(matrix)
    is_full = samples.kind == "yuv" and (named in FULL_RANGE_NAMES or frame.color_range == _FULL)
    return FrameOperand(samples, size, planes, standard, is_full, "repeated")


def pitched_plane(number: int, memory: Operand, pitch: int, samples: PixelFormat, size: tuple[int, int]) -> Operand:
    """One plane over the bytes of its rows alone, which lie `pitch` bytes apart; a negative pitch begins at the last.

    Raises `LayoutError` for more rows and for a pitch that cuts them, `BindingError` for fewer bytes.
    """
    layout = memory.layout
    if layout.offset % samples.element.itemsize:
        raise BindingError(f"planes[{number}] begins {layout.offset} bytes into its buffer, inside of an element.")
    rows = _plane_layout(number, samples.name, size, pitch, layout.span)
    return Operand(memory.buffer, rows.shifted(layout.offset // samples.element.itemsize), samples.element)


@lru_cache(maxsize=256)
def _plane_layout(number: int, format_name: str, size: tuple[int, int], pitch: int, nbytes: int) -> Layout:
    """The layout of a plane in `nbytes` of its rows: that of all frames of a video."""
    samples = PIXEL_FORMATS[format_name]
    plane, name, itemsize = samples.planes[number], f"planes[{number}]", samples.element.itemsize
    sizes, row = plane.sizes(size), plane.row_elements(size[1]) * itemsize
    if abs(pitch) < row or pitch % itemsize:
        raise LayoutError(
            f"{name} has rows {pitch} bytes apart; those of that plane of {samples.name} take {row} bytes, in whole "
            f"elements of {itemsize}."
        )
    rows = nbytes // abs(pitch)
    if rows < sizes[0]:
        raise BindingError(f"{name} has {nbytes} bytes, fewer than {sizes[0]} rows {abs(pitch)} bytes apart.")
    if rows > sizes[0]:
        raise LayoutError(
            f"{name} has {rows} rows of {abs(pitch)} bytes; that plane of a {samples.name} frame of {size[0]} x "
            f"{size[1]} pixels has {sizes[0]} rows."
        )
    strides = (pitch // itemsize, *((plane.samples, 1) if plane.samples > 1 else (1,)))
    return Layout(sizes, strides, (rows - 1) * -pitch // itemsize if pitch < 0 else 0)


def _plane(number: int, plane: Any, samples: PixelFormat, size: tuple[int, int]) -> Operand:
    """One plane over the bytes of its buffer, whose rows are `line_size` bytes apart."""
    memory, pitch = operand_of_array(np.frombuffer(plane, np.uint8)), plane.line_size
    operand = pitched_plane(number, memory, pitch, samples, size)
    if operand.address != plane.buffer_ptr:  # the buffer of a negative line size need not begin at the lowest row
        raise BindingError(
            f"planes[{number}] has rows {pitch} bytes apart, which are not in its buffer of {memory.layout.span} "
            "bytes; frame.to_ndarray() copies them."
        )
    return operand


def _matrix(frame: Any, samples: PixelFormat) -> str:
    """The matrix of a frame's colour space. Raises `LayoutError` for one that has none here."""
    if samples.kind != "yuv":
        return "bt601"
    number = int(frame.colorspace)
    if number not in _MATRICES:
        raise LayoutError(
            f"This VideoFrame has colorspace {number}, whose matrix is none of those of Frame; say one that is close "
            "enough with sg.Frame.of(frame, matrix=...), or convert it by frame.reformat(format='rgba')."
        )
    return _MATRICES[number]


def _refusal(form: Any) -> str:
    """What a format is that no `Frame` has, and what helps."""
    name, components = form.name, form.components
    if not components:
        return (
            f"A VideoFrame of {name} lies in a decoder's own memory; frame.reformat(format='nv12') brings it to the "
            "CPU, and sg.Frame('nv12', frame.planes, sizes=(frame.height, frame.width)) takes planes on a GPU."
        )
    if name in ("rgb24", "bgr24"):
        order = ", channels=(2, 1, 0)" if name == "bgr24" else ""
        return (
            f"A VideoFrame of {name} is an image (H, W, 3) in one plane, no Frame: give frame.planes[0], which shares "
            f"it, with dims='HWC'{order}."
        )
    return (
        f"A VideoFrame of {name}, {_described(form)}, is none of the formats of Frame; "
        f"frame.reformat(format={_nearest(form)!r}) converts it to the nearest."
    )


def _described(form: Any) -> str:
    """A format in words: colours, bits and planes."""
    components = form.components
    bits, planes = max(one.bits for one in components), 1 + max(one.plane for one in components)
    if form.has_palette or form.is_bayer:
        return "a palette" if form.has_palette else "a sensor's mosaic"
    end = "big-endian, " if _is_big_endian(form.name) and bits > 8 else ""
    where = "one plane" if planes == 1 else f"{planes} planes"
    if form.is_rgb or not components[0].is_luma:
        return f"{end}RGB of {bits} bits in {where}"
    if _colours(form) == 1:
        return f"{end}gray of {bits} bits in {where}"
    chroma = components[1]
    return f"{end}YUV of {bits} bits with {chroma.height} x {chroma.width} samples of chroma in {where}"


def _is_big_endian(name: str) -> bool:
    """Whether FFmpeg's name says so: PyAV's flag is set for formats of bytes, too."""
    return name.endswith("be")


def _colours(form: Any) -> int:
    """The components without alpha."""
    return sum(not one.is_alpha for one in form.components)


def _nearest(form: Any) -> str:
    """The format of `Frame`, by FFmpeg's name, that loses least."""
    components = form.components
    bits = max(one.bits for one in components)
    depth = "" if bits <= 8 else f"{next((most for most in LOW_DEPTHS if bits <= most), 16)}le"
    if form.is_rgb or form.has_palette or not components[0].is_luma:
        return f"gbrp{depth}" if depth else "rgba"
    if _colours(form) == 1:
        return f"gray{depth}"
    luma, chroma = components[:2]
    if chroma.width == luma.width:
        return f"yuv444p{depth}"
    return f"yuv42{0 if chroma.height < luma.height else 2}p{depth}"
