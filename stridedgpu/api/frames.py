"""Images of cameras and decoders: `Frame`, views of the planes that hold its samples; `unpack_raw` of a sensor's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Unpack

from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import chosen_device
from stridedgpu.exchange.array_like import foreign_operand, is_video_frame, shared_operand
from stridedgpu.operations.frame_colours import check_light
from stridedgpu.operations.frame_views import fields_of, mirrored, rotated
from stridedgpu.operations.frames import (
    checked_planes,
    checked_sizes,
    moved_frame,
    planes_over,
    relayout_frames,
)
from stridedgpu.operations.images import FrameSources
from stridedgpu.operations.options import MemoryOptions, result_options, truth
from stridedgpu.operations.raw import unpack_operand
from stridedgpu.operations.video_frames import frame_operand, pitched_plane
from stridedgpu.problems.frame_problem import CHROMA
from stridedgpu.typing import DeviceLike, ResultKeywords, StreamLike, TensorLike, VideoFrameLike
from stridedgpu.values.colour_matrix import check_arithmetic, check_matrix
from stridedgpu.values.conversion import ConversionOptions
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.pixel_formats import FULL_RANGE_NAMES, PIXEL_FORMATS, PLANE_NAMES, PixelFormat, pixel_format
from stridedgpu.values.strides import is_one_of, listed

from .arguments import FrameBase, FrameLike, operands_of_list, result_tensor
from .tensor import StridedTensor, output_tensor


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Frame(FrameBase):
    """An image in the planes of a camera's or decoder's surface; no plane is copied.

    `format` is a name of the table, or FFmpeg's, such as "yuv420p" and "p010le"; "yuvj420p", "yuvj422p" and "yuvj444p"
    are of full range. `Frame.of` reads all arguments from a decoder's frame.

    `planes` are arrays of the format's element type, of any row pitch, on one device: uint8, or uint16 for names that
    end with a depth. `sizes` are the image's height and width in pixels, and h and w are half of these, rounded up:

    | chroma | planes of luma and of pairs of chroma | planes of luma and two of chroma, in the order of memory |
    |---|---|---|
    | 4:2:0 (h, w) | nv12 nv21 p010 p012 p016 | i420 yv12 i009 i010 i012 i014 i016 |
    | 4:2:2 (H, w) | nv16 nv61 p210 p212 p216 | i422 i209 i210 i212 i214 i216 |
    | 4:4:4 (H, W) | nv24 nv42 p410 p412 p416 | i444 i409 i410 i412 i414 i416 |

    | formats | planes |
    |---|---|
    | yuyv uyvy y210 y212 y216 | (H, w, 4) |
    | rgbx bgrx rgba bgra argb abgr | (H, W, 4) |
    | gbrp gbrp9 gbrp10 gbrp12 gbrp14 gbrp16 | green, blue and red (H, W) |
    | gray gray9 gray10 gray12 gray14 gray16 | (H, W) |

    The last two digits are the bits of a sample, at the top of 16 in "p..." and "y2...", and at the bottom in the
    others. Planes of luma have the sizes (H, W), those of pairs a last axis of 2. The last two axes of a plane may be
    merged, as in OpenCV's and PyAV's chroma, or split otherwise, as in yuyv of sizes (H, W, 2).

    `relayout`, `gather_crops` and the other operations see an RGB image with the axes C, H, W and three channels. Its
    type is uint8, or uint16 for formats with deeper samples, with the same white, 65535, for all depths. `matrix` is
    "bt601", "bt709" or "bt2020". With `full_range`, black is 0 and white the largest sample, as in JPEG; colours and
    gray always are of full range. `stridedgpu.values.colour_matrix` states the integers; "bt601" of limited range has
    the bits of OpenCV. `chroma` is "repeated" (nearest, as in OpenCV) or "linear" (interpolated between samples that
    are sited left and vertically centred, the default of MPEG-2 and H.264). "gray" is copied to all three channels;
    alpha is dropped.

    `arithmetic` is "rounded", which is all of the above, or "swscale": the pixels of FFmpeg's swscale on x86-64, which
    are those of PyAV's `frame.to_ndarray(format="rgb24")`, of TorchCodec on the CPU and of OpenCV's `VideoCapture`, for
    every matrix and range. It is for i420, yv12 and i422 of even height, and for i444. Of an interlaced frame of 4:2:0,
    PyAV from 17 on has the pixels of `fields`.

    `transfer` says what codes of high dynamic range mean, "pq" or "hlg" of BT.2100, and `light` what operations see of
    them: "linear" light in float32 (of PQ 1.0 is 10,000 cd/m2, of HLG the peak of the scene), or "sdr", sRGB colours of
    uint8, within 0.53 of a level of the formulas of `stridedgpu.problems.transfer_functions`. Operations then make the
    image of the whole frame first. With `light=None`, codes are colours like any others.

    Raises `LayoutError` for sizes, planes and names that do not fit, for a `full_range` that is no bool, for `light`
    without `transfer`, and for "swscale" beside linear chroma and where its rule is not known; `ElementTypeError` for
    another element type and `BindingError` for planes on two devices.

    >>> import numpy as np
    >>> frame = Frame("nv12", [np.full((4, 6), 235, np.uint8), np.full((2, 3, 2), 128, np.uint8)], sizes=(4, 6))
    >>> frame
    <Frame nv12, 4 x 6, bt601, on cpu>
    >>> frame.relayout(dtype="float32", scale=1 / 255).numpy()[:, 0, 0].tolist()
    [1.0, 1.0, 1.0]
    """

    format: str
    sizes: tuple[int, int]
    planes: tuple[StridedTensor, ...]
    matrix: str
    full_range: bool
    chroma: str
    arithmetic: str
    transfer: str | None
    light: str | None
    operand: FrameOperand

    def __init__(
        self,
        format: str,  # noqa: A002 - the field's word, as in `memoryview.format`
        planes: Sequence[TensorLike],
        *,
        sizes: Sequence[int],
        matrix: str = "bt601",
        full_range: bool = False,
        chroma: str = "repeated",
        arithmetic: str = "rounded",
        transfer: str | None = None,
        light: str | None = None,
    ) -> None:
        """Check the planes against the format and the sizes."""
        samples = pixel_format(format)
        size = checked_sizes(sizes)
        memories = listed(planes)
        if memories is None:
            raise LayoutError(f"planes={planes!r} is not a sequence of planes.")
        if len(memories) != len(samples.planes):
            raise LayoutError(f"planes: {format} has {len(samples.planes)}, and {len(memories)} came.")
        names = [f"planes[{number}]" for number in range(len(memories))]
        shared = [shared_operand(name, memory) for name, memory in zip(names, memories, strict=True)]
        pitch = getattr(memories[0], "line_size", None)
        if len(shared) == 1 == shared[0].layout.ndim and isinstance(pitch, int):  # PyAV's plane of packed samples
            operands: tuple[Operand, ...] = (pitched_plane(0, shared[0], pitch, samples, size),)
        else:
            operands = checked_planes(names, shared, samples, size)
        is_full = truth("full_range", full_range) or format in FULL_RANGE_NAMES
        check_matrix(matrix)
        _check_colours(samples, size, chroma, arithmetic, transfer, light)
        self._set(FrameOperand(samples, size, operands, matrix, is_full, chroma, arithmetic, transfer, light))

    def _set(self, operand: FrameOperand) -> None:
        """Set the fields to those of an operand, whose planes become tensors."""
        tensors = tuple(StridedTensor.over(plane, "HW" if plane.layout.ndim == 2 else None) for plane in operand.planes)
        for name in _FACTS:
            object.__setattr__(self, name, getattr(operand, name))
        for name, value in (("format", operand.samples.name), ("planes", tensors), ("operand", operand)):
            object.__setattr__(self, name, value)

    @classmethod
    def over(
        cls,
        format: str,  # noqa: A002
        memory: TensorLike,
        sizes: Sequence[int],
        *,
        row_pitch_bytes: int | Sequence[int] | None = None,
        plane_offsets_bytes: Sequence[int] | None = None,
        matrix: str = "bt601",
        full_range: bool = False,
        chroma: str = "repeated",
        arithmetic: str = "rounded",
        transfer: str | None = None,
        light: str | None = None,
    ) -> Frame:
        """A frame over one piece of memory that holds all its planes: bytes, an array, DLPack, a CUDA array.

        The memory holds the format's element type, or bytes (uint8). An array of two or more axes has the rows of the
        format, such as 3/2 of the height for NV12, unless `plane_offsets_bytes` is given; of three or more axes, it has
        the image's elements in each row.

        `row_pitch_bytes` is the bytes from one row to the next: one number for the first plane (chroma planes of half
        the width have half of it, rounded up), or one for each plane. By default an array of two or more axes has its
        own row stride, and other memory has packed rows. `plane_offsets_bytes` is the start of each plane, in bytes
        from the start of the memory; by default planes follow one another. The other arguments are those of `Frame`.

        Raises what `Frame` does, `LayoutError` for other rows than the format's, and `LayoutError` or `BindingError`
        for a pitch that cuts rows and for memory that is too small, naming the plane.

        >>> surface = bytearray(512 * (64 + 32))  # a decoder's: rows of 480 pixels, 512 bytes apart
        >>> frame = Frame.over("nv12", surface, (64, 480), row_pitch_bytes=512)
        >>> [(plane.sizes, plane.strides) for plane in frame.planes]
        [((64, 480), (512, 1)), ((32, 240, 2), (512, 2, 1))]
        """
        samples = pixel_format(format)
        size = checked_sizes(sizes)
        planes = planes_over(shared_operand("memory", memory), samples, size, row_pitch_bytes, plane_offsets_bytes)
        is_full = truth("full_range", full_range) or format in FULL_RANGE_NAMES
        check_matrix(matrix)
        _check_colours(samples, size, chroma, arithmetic, transfer, light)
        facts = matrix, is_full, chroma, arithmetic, transfer, light
        return cls._over_operand(FrameOperand(samples, size, planes, *facts))

    @classmethod
    def of(
        cls,
        frame: VideoFrameLike | Mapping[str, TensorLike],
        *,
        matrix: str | None = None,
        full_range: bool | None = None,
        chroma: str = "repeated",
        arithmetic: str = "rounded",
        transfer: str | None = None,
        light: str | None = None,
    ) -> Frame:
        """A decoder's frame over its own planes, with the format, matrix, range, pitch and size that it states.

        `frame` is a `VideoFrame` of PyAV in one of the formats of `Frame`, by FFmpeg's names: yuv420p, yuv422p and
        yuv444p of 8 to 16 bits, yuvj420p, yuvj422p and yuvj444p (full range), nv12, nv21, nv16, nv24 and nv42, p010le
        to p416le, yuyv422, uyvy422, y210le to y216le, gbrp and gray of 8 to 16 bits, rgb0, bgr0, 0rgb ("argb"), 0bgr
        ("abgr"), rgba, bgra, argb and abgr. Rows are `line_size` bytes apart, from the last one upwards where that is
        negative. A frame that states no colour space is BT.601, and one that states no range is limited, which are the
        defaults of FFmpeg's swscale. HD video without a colour space is BT.709 as a rule: say `matrix="bt709"`.
        `matrix` and `full_range` replace what the frame states. `arithmetic` is that of `Frame`: "swscale" has the
        pixels of PyAV's `frame.to_ndarray(format="rgb24")`. So is `light`, which needs the `transfer` function that the
        frame states, or that is given: "pq" (SMPTE 2084) or "hlg" (ARIB STD-B67).

        A `RawFrame` of TorchCodec is read likewise, on the CPU or a GPU. Its tensors of samples that share a plane,
        such as both chromas of NV12, become views of that plane. No rotation is applied that a frame states: `rotated`
        takes its angle.

        Or `frame` is a dict of planes by name, which are arrays of uint8 of any pitch: "y" and "uv" (NV12, NV16, NV24),
        "y" and "vu" (NV21, NV61, NV42), "y", "u" and "v" (I420, I422, I444), "g", "b" and "r" (GBRP), or a format of
        one plane, such as "yuyv" or "rgba". The first plane says the sizes, and those of chroma which format it is.

        Operations and `Preprocess` take a decoder's frame as it is; it is then what `of` makes of it.

        Raises `LayoutError` for a format, a colour space or names of planes that no `Frame` has, `ElementTypeError` for
        planes of another type than the format's, and `BindingError` for samples that do not lie in their planes.

        >>> import numpy as np
        >>> luma, chroma = np.full((4, 6), 235, np.uint8), np.full((2, 6), 128, np.uint8)
        >>> Frame.of({"y": luma, "uv": chroma}, matrix="bt709")
        <Frame nv12, 4 x 6, bt709, on cpu>

        Source of the defaults: FFmpeg, libswscale/utils.c (`sws_getCoefficients`, `handle_jpeg`).
        """
        if isinstance(frame, Mapping):
            standard, is_full = "bt601" if matrix is None else matrix, False if full_range is None else full_range
            return _of_named_planes(frame, standard, is_full, chroma, arithmetic, transfer, light)
        if not is_video_frame(frame):
            raise LayoutError(
                f"frame is of type {type(frame).__name__}; Frame.of takes a VideoFrame of PyAV, a RawFrame of "
                "TorchCodec or a dict of planes, and Frame(format, planes, sizes=...) or Frame.over(format, memory, "
                "sizes) other memory."
            )
        read = frame_operand(frame, matrix)
        is_full = read.full_range if full_range is None else truth("full_range", full_range)
        stated = read.transfer if transfer is None else transfer
        _check_colours(read.samples, read.sizes, chroma, arithmetic, stated, light)
        facts = read.matrix, is_full, chroma, arithmetic, stated, light
        return cls._over_operand(FrameOperand(read.samples, read.sizes, read.planes, *facts))

    @classmethod
    def _over_operand(cls, frame: FrameOperand) -> Frame:
        """The frame of an operand."""
        result = cls.__new__(cls)
        result._set(frame)
        return result

    @property
    def device(self) -> str:
        """The device of the planes."""
        return self.operand.device

    def relayout(
        self,
        *,
        device: DeviceLike | None = None,
        out: TensorLike | None = None,
        stream: StreamLike | None = None,
        **options: Unpack[ResultKeywords],
    ) -> StridedTensor:
        """The image as a tensor with the axes C, H, W: see `stridedgpu.relayout`."""
        return frames_relaid(self, *result_options("Frame.relayout", options, device), out, stream)

    def to_device(self, device: str) -> Frame:
        """This frame on another device, with packed planes; itself if it is there already."""
        moved = moved_frame(self.operand, chosen_device(device))
        return self if moved is self.operand else Frame._over_operand(moved)

    @property
    def fields(self) -> tuple[Frame, Frame]:
        """The top and the bottom field of an interlaced frame, each of half the height, over the same planes.

        The top field has the rows 0, 2, 4 and so on, of luma and of chroma. PyAV's `interlaced_frame` says whether a
        frame is interlaced. Raises `LayoutError` unless the height is a multiple of 2, and of 4 where two rows share
        chroma.

        >>> top, bottom = Frame.over("i420", bytes(480 * 720 * 3 // 2), (480, 720)).fields
        >>> bottom, bottom.planes[0].layout.offset
        (<Frame i420, 240 x 720, bt601, on cpu>, 720)
        """
        top, bottom = fields_of(self.operand)
        return Frame._over_operand(top), Frame._over_operand(bottom)

    def rotated(self, degrees: float) -> Frame:
        """The frame rotated counter-clockwise by a multiple of 90 degrees, over the same planes.

        `Frame.of(frame).rotated(frame.rotation)` is upright: so PyAV and TorchCodec state the angle that a phone's
        video is to be rotated by. Its pixels are those of `numpy.rot90`. Rows of such planes do not follow one another
        in memory, so that work on them is slower.

        Raises `LayoutError` for another angle, and for frames whose chroma would not lie as their format has it: yuyv
        and its like, 4:2:2 by 90 degrees, an odd size whose last column or row would come first, and frames with
        `chroma="linear"`.

        >>> Frame.over("nv12", bytes(48), (4, 8)).rotated(-90)
        <Frame nv12, 8 x 4, bt601, on cpu>
        """
        return Frame._over_operand(rotated(self.operand, degrees))

    def mirrored(self) -> Frame:
        """The frame with left and right exchanged, over the same planes. Raises what `rotated` does.

        >>> Frame.over("gray", bytes(range(4)), (1, 4)).mirrored().planes[0].numpy().tolist()
        [[3, 2, 1, 0]]
        """
        return Frame._over_operand(mirrored(self.operand))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the planes, as tensors are pickled, and the arguments of `Frame`."""
        return _unpickled, (self.format, self.planes, {name: getattr(self, name) for name in _FACTS})

    def describe(self) -> str:
        """One line for the frame and one for each plane: samples, sizes, pitch, padding and offset.

        >>> print(Frame.over("i420", bytes(96), (4, 6), row_pitch_bytes=16).describe())
        <Frame i420, 4 x 6, bt601, on cpu>
        plane 0: Y, 4 x 6 uint8, rows 16 B apart, 10 of them padding, from byte 0
        plane 1: U, 2 x 3 uint8, rows 8 B apart, 5 of them padding, from byte 64
        plane 2: V, 2 x 3 uint8, rows 8 B apart, 5 of them padding, from byte 80
        """
        from stridedgpu.drawing.svg import plane_lines

        return "\n".join([repr(self), *plane_lines(self.operand)])

    def _repr_svg_(self) -> str:
        """The picture that notebooks show: each plane to scale, and the padding of its rows."""
        from stridedgpu.drawing.svg import frame_svg

        return frame_svg(self.operand, repr(self)[1:-1])

    def __repr__(self) -> str:
        """Format, sizes, matrix and device in one line."""
        height, width = self.sizes
        full = " full range" if self.full_range else ""
        rule = "" if self.arithmetic == "rounded" else f" by {self.arithmetic}"
        colour = f", {self.matrix}{full}{rule}" if self.operand.samples.kind == "yuv" else ""
        transfer = "" if self.transfer is None else f", {self.transfer}"
        light = "" if self.light is None else f" as {_SEEN[self.light]}"
        return f"<Frame {self.format}, {height} x {width}{colour}{transfer}{light}, on {self.device}>"


_FACTS: Final = ("sizes", "matrix", "full_range", "chroma", "arithmetic", "transfer", "light")
"""What a `Frame` says as its operand does."""

_SEEN: Final = {"linear": "linear light", "sdr": "SDR"}


def _check_colours(
    samples: PixelFormat,
    sizes: tuple[int, int],
    chroma: str,
    arithmetic: str,
    transfer: str | None,
    light: str | None,
) -> None:
    """Raise `LayoutError` for an unknown name, and for names that do not fit together."""
    if not is_one_of(chroma, CHROMA):
        raise LayoutError(f"chroma={chroma!r} is unknown; it is one of {', '.join(map(repr, CHROMA))}.")
    check_arithmetic(arithmetic, samples, sizes[0], chroma)
    if transfer is not None or light is not None:
        check_light(transfer, light)


def _unpickled(
    format: str,  # noqa: A002
    planes: tuple[StridedTensor, ...],
    facts: dict[str, Any],
) -> Frame:
    frame = Frame(format, planes, sizes=facts["sizes"])
    return Frame._over_operand(replace(frame.operand, **facts))  # of views, whose height may be odd, too


def _of_named_planes(
    planes: Mapping[str, TensorLike],
    matrix: str,
    full_range: bool,
    chroma: str,
    arithmetic: str,
    transfer: str | None,
    light: str | None,
) -> Frame:
    """A frame of planes by their names, of the size that the first of the format's planes has."""
    formats = [known for known, names in PLANE_NAMES.items() if set(names) == set(planes)]
    if not formats:
        known = "; ".join(", ".join(map(repr, names)) for names in dict.fromkeys(PLANE_NAMES.values()))
        raise LayoutError(f"frame has planes named {', '.join(map(repr, planes))}; the names of a format are: {known}.")
    names = PLANE_NAMES[formats[0]]
    operands = [shared_operand(name, planes[name]) for name in names]
    first, plane = operands[0].layout, PIXEL_FORMATS[formats[0]].planes[0]
    if first.ndim < 2:
        raise LayoutError(f"{names[0]} has sizes {first.sizes}; a plane has rows and columns.")
    rows, elements = first.sizes[0], math.prod(first.sizes[1:])
    if not rows * elements:
        raise LayoutError(f"{names[0]} has sizes {first.sizes}, and no samples.")
    size = rows * plane.rows, -(-elements // plane.samples) * plane.columns
    counts = [operand.layout.element_count for operand in operands]
    described = (PIXEL_FORMATS[one] for one in formats)
    suited = (row for row in described if [math.prod(each.sizes(size)) for each in row.planes] == counts)
    samples = next(suited, PIXEL_FORMATS[formats[0]])
    fitting = checked_planes(names, operands, samples, size)
    _check_colours(samples, size, chroma, arithmetic, transfer, light)
    facts = check_matrix(matrix), truth("full_range", full_range), chroma, arithmetic, transfer, light
    return Frame._over_operand(FrameOperand(samples, size, fitting, *facts))


def frame_operands(frames: FrameLike, stream: object = None) -> list[FrameOperand]:
    """The operands of one frame or of several, for work on a stream."""
    if not isinstance(frames, (list, tuple)):
        return [frame_operand(frames, stream=stream)]
    return operands_of_list("frames", frames, lambda _, frame: frame_operand(frame, stream=stream))


def frame_images(frames: FrameLike, stream: object = None) -> tuple[FrameSources, str]:
    """Frames as RGB images, and the axis labels of a result."""
    sources = FrameSources.of_frames(frame_operands(frames, stream))
    return sources, "NCHW" if isinstance(frames, (list, tuple)) else "CHW"


def check_planned(frames: FrameLike) -> None:
    """Raise `LayoutError` for frames with `light`, whose image takes launches of its own."""
    for frame in frames if isinstance(frames, (list, tuple)) else [frames]:
        if getattr(frame, "light", None) is not None:
            raise LayoutError(
                f"{frame!r} becomes an image before other work, which no plan has; plan for its relayout(), a tensor."
            )


def frames_relaid(
    frames: FrameLike,
    values: ConversionOptions,
    memory: MemoryOptions,
    out: TensorLike | None,
    stream: StreamLike | None,
) -> StridedTensor:
    """`stridedgpu.relayout` of frames."""
    written = output_tensor(out, stream)
    target = None if written is None else written.operand
    sources, labels = frame_images(frames, stream)
    return result_tensor(relayout_frames(sources, labels, values, memory, target, stream), labels, written)


def unpack_raw(
    memory: TensorLike,
    format: str,  # noqa: A002 - the field's word, as in `Frame`
    sizes: Sequence[int],
    *,
    row_pitch_bytes: int | None = None,
    alignment: int | None = None,
    out: TensorLike | None = None,
    stream: StreamLike | None = None,
) -> StridedTensor:
    """Unpack an image sensor's samples of 10 or 12 bits each into an image (H, W) of uint16.

    `memory` is bytes or an array of uint8, flat or with one row of bytes for each row of the image. `format` is
    "mipi-raw10" or "mipi-raw12" (MIPI CSI-2; V4L2's `SRGGB10P` and `SRGGB12P`), "mono10p" or "mono12p" (GenICam), or
    "mono12packed" (GigE Vision). `sizes` are the image's height and width in samples; the width is a multiple of 4 for
    10 bits and of 2 for 12. `row_pitch_bytes` is the bytes from one row to the next; by default an array with rows has
    its own row stride, and other memory has packed rows. Samples are 0 to 1023 or 4095. A view shows a Bayer mosaic as
    four planes of half the size: `view(image, "(h y) (w x) -> y x h w", y=2, x=2)`. `alignment`, `out` and `stream` are
    those of `relayout`.

    Raises `LayoutError` for formats, sizes and pitches that do not fit, `BindingError` for memory that is too small,
    and `ElementTypeError` for memory of another type than uint8.

    >>> packed = bytes([0x12, 0x34, 0x56, 0x78, 0b11_10_01_00])  # four samples: upper 8 bits, then the lower 2 of each
    >>> [hex(sample) for sample in unpack_raw(packed, "mipi-raw10", (1, 4)).numpy()[0].tolist()]
    ['0x48', '0xd1', '0x15a', '0x1e3']
    """
    operand = memory.operand if isinstance(memory, StridedTensor) else foreign_operand(memory, None, stream)[0]
    written = output_tensor(out, stream)
    target = None if written is None else written.operand
    options = MemoryOptions(None, None, alignment, None)
    result = unpack_operand(operand, format, sizes, row_pitch_bytes, options, target, stream)
    return StridedTensor.over(result, "HW") if written is None else written
