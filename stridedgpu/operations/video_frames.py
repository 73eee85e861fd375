"""Decoders' frames as the operands of frames: format, colours, pitch and size as FFmpeg states them; nothing is copied.

PyAV has a buffer for each plane, and states colours by FFmpeg's numbers. TorchCodec has a tensor for each kind of
sample, of which several may lie in one plane, and states colours by FFmpeg's names.

Sources: FFmpeg's `pixfmt.h` for names, `AVColorSpace`, `AVColorTransferCharacteristic` and `AVColorRange`, `pixdesc.c`
for their names, and swscale, which takes a frame that states no colour space for BT.601 of limited range, and yuvj
formats for full range; TorchCodec's `decoders/_blocks/_frame.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import CPU
from stridedgpu.exchange.array_like import is_raw_frame, is_video_frame, operand_of_array, shared_operand
from stridedgpu.exchange.foreign_memory import foreign_memory
from stridedgpu.values.colour_matrix import check_matrix
from stridedgpu.values.conversion import AS_IT_IS
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.pixel_formats import FFMPEG_NAMES, FULL_RANGE_NAMES, LOW_DEPTHS, PIXEL_FORMATS, PixelFormat
from stridedgpu.values.strides import integers, listed

from .frame_colours import with_light
from .options import MemoryOptions
from .relayout import relayout_operand

_MATRICES: Final[dict[int | str, str]] = {
    0: "bt601",
    1: "bt709",
    2: "bt601",
    5: "bt601",
    6: "bt601",
    9: "bt2020",
    "gbr": "bt601",
    "bt709": "bt709",
    "unknown": "bt601",
    "unspecified": "bt601",
    "bt470bg": "bt601",
    "smpte170m": "bt601",
    "bt2020nc": "bt2020",
}
"""The matrix of each `AVColorSpace` that has one here, by its number and its name. 2 is unspecified, and 0, of RGB, is
swscale's for YUV too."""

_TRANSFERS: Final[dict[int | None, str]] = {16: "pq", 18: "hlg"}
"""`AVCOL_TRC_SMPTE2084` and `AVCOL_TRC_ARIB_STD_B67`."""

_FULL: Final = (2, "pc")
"""`AVCOL_RANGE_JPEG`."""


def is_frame(thing: object) -> bool:
    """True for a `Frame`, and for a decoder's frame."""
    return isinstance(getattr(thing, "operand", None), FrameOperand) or is_video_frame(thing)


def frame_operand(frame: Any, matrix: str | None = None, stream: object = None) -> FrameOperand:
    """The operand of a `Frame` for work on a stream, or of a decoder's frame, whose own matrix `matrix` replaces.

    Raises `LayoutError` for a format, a size or a matrix that no `Frame` has, and `BindingError` for planes whose
    buffers do not hold their rows.
    """
    if not is_video_frame(frame):
        return with_light(with_whole_rows(frame.operand), stream)
    if is_raw_frame(frame):
        return _raw_operand(frame, matrix)
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
    stated = frame.colorspace, frame.color_range, _TRANSFERS.get(getattr(frame, "color_trc", None))
    return _described_frame(samples, size, planes, named, stated, matrix)


def _described_frame(
    samples: PixelFormat,
    size: tuple[int, int],
    planes: tuple[Operand, ...],
    named: str,
    stated: tuple[Any, Any, str | None],
    matrix: str | None,
) -> FrameOperand:
    """The operand of planes whose colour space, range and transfer function are `stated`, by number or by name."""
    space, levels, transfer = stated
    standard = _matrix(space, samples) if matrix is None else check_matrix(matrix)
    is_full = samples.kind == "yuv" and (named in FULL_RANGE_NAMES or levels in _FULL)
    return FrameOperand(samples, size, planes, standard, is_full, "repeated", transfer=transfer)


def _raw_operand(frame: Any, matrix: str | None) -> FrameOperand:
    """The operand of a RawFrame of TorchCodec."""
    named, space, levels = (_text_of(frame, name) for name in ("pixel_format", "color_space", "color_range"))
    height, width = integers("height and width of the RawFrame", (frame.height, frame.width), least=1)
    samples, size = PIXEL_FORMATS.get(FFMPEG_NAMES.get(named, named)), (height, width)
    if samples is None:
        raise LayoutError(
            f"A RawFrame of {named} is none of the formats of Frame; ColorConverter().convert(frame).data is its RGB "
            "tensor."
        )
    given = listed(frame.planes)
    if given is None:
        raise LayoutError(f"planes={frame.planes!r} of the RawFrame is not a sequence of planes.")
    shared = [shared_operand(f"planes[{number}]", one) for number, one in enumerate(given)]
    if len(shared) < len(samples.channels):
        raise LayoutError(f"This RawFrame of {named} has {len(shared)} planes, fewer than its kinds of samples.")
    planes = tuple(_joined_plane(number, shared, samples, size) for number in range(len(samples.planes)))
    return _described_frame(samples, size, planes, named, (space, levels, None), matrix)


def _text_of(frame: Any, name: str) -> str:
    """A name that a RawFrame states. Raises `LayoutError` for what is no text."""
    text = getattr(frame, name)
    if not isinstance(text, str):
        raise LayoutError(f"{name}={text!r} of the RawFrame must be one of FFmpeg's names, as TorchCodec states it.")
    return text


def _joined_plane(number: int, shared: Sequence[Operand], samples: PixelFormat, size: tuple[int, int]) -> Operand:
    """The plane in which samples lie that come apart, such as both chromas of NV12.

    Raises `BindingError` for samples that do not lie in the plane as the format says.
    """
    plane, itemsize = samples.planes[number], samples.element.itemsize
    sizes = plane.sizes(size)
    parts = [(one, own) for one, own in zip(shared, samples.channels, strict=False) if own.plane == number]
    starts = {part.address - own.first * itemsize for part, own in parts}
    pitches = {part.layout.strides[:1] for part, _ in parts}
    for part, own in parts:
        wanted = (sizes[0], plane.row_elements(size[1]) // own.step)
        whole = part.element == samples.element and part.layout.sizes == wanted and part.layout.strides[1] == own.step
        if not whole or len(starts) > 1 or len(pitches) > 1:
            raise BindingError(
                f"The samples of this RawFrame of {samples.name}, {part.element} of sizes {part.layout.sizes} and "
                f"strides {part.layout.strides}, do not lie in one plane of {samples.element} as the format says."
            )
    (start,), (pitch,), buffer = starts, pitches, parts[0][0].buffer
    strides = (*pitch, *((plane.samples, 1) if plane.samples > 1 else (1,)))
    return foreign_memory(
        "RawFrame",
        start,
        sizes,
        strides,
        samples.element,
        owner=buffer,
        device=buffer.device,
        readonly=buffer.readonly,
    )


def with_whole_rows(frame: FrameOperand) -> FrameOperand:
    """The frame, on the CPU with planes whose rows are contiguous: those of rotated and mirrored frames are copied.

    Native loops read rows. The copies of 1080p take some 0.2 ms, and NumPy's loops would take 25 to 90 ms.
    """
    if frame.device != CPU.name or all(_has_rows(plane.layout) for plane in frame.planes):
        return frame
    return replace(frame, planes=tuple(map(_with_rows, frame.planes)))


def _has_rows(plane: Layout) -> bool:
    """Whether the elements of each row of a plane, in one or two axes, are contiguous; a repeated one stays as it is.

    A plane that repeats its elements can have more of them than there is memory for copies.
    """
    has_rows = plane.strides[-1] == 1 and (plane.ndim == 2 or plane.strides[1] == plane.sizes[2])
    return has_rows or plane.is_broadcast


def _with_rows(plane: Operand) -> Operand:
    """The plane, or a packed copy if the elements of its rows lie apart."""
    if _has_rows(plane.layout):
        return plane
    packed = MemoryOptions(Layout(plane.layout.sizes))
    return relayout_operand(plane, None, AS_IT_IS, packed, None, None)[0]


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


def _matrix(space: int | str, samples: PixelFormat) -> str:
    """The matrix of a frame's colour space. Raises `LayoutError` for one that has none here."""
    if samples.kind != "yuv":
        return "bt601"
    if space not in _MATRICES:
        stated = space if isinstance(space, str) else int(space)
        raise LayoutError(
            f"This frame has colorspace {stated}, whose matrix is none of those of Frame; say one that is close "
            "enough with sg.Frame.of(frame, matrix=...), or have its decoder convert it to RGB."
        )
    return _MATRICES[space]


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
