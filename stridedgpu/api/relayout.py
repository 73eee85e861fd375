"""`relayout` and its plans, axes named by patterns as in einops, and waiting for a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack, overload

from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_name, device_named, devices_in_use
from stridedgpu.exchange.array_like import operand_of
from stridedgpu.operations.options import result_options
from stridedgpu.operations.relayout import RelayoutPlan, planned_relayout, relayout_operand
from stridedgpu.typing import ConversionKeywords, DeviceLike, ResultKeywords, StreamLike, TensorLike
from stridedgpu.values.axis_pattern import AxisPattern
from stridedgpu.values.conversion import ConversionOptions
from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout

from .arguments import FrameBase, FrameLike, is_frames, plan_operand, refuse_unlabelled
from .tensor import StridedTensor, output_tensor

if TYPE_CHECKING:
    from stridedgpu.operations.frames import PlannedFrames

    from .frames import Frame


@overload
def relayout(
    src: TensorLike,
    *,
    dims: str | None = None,
    channels: Sequence[int] | None = None,
    out: Frame,
    stream: StreamLike | None = None,
) -> Frame: ...


@overload
def relayout(
    src: TensorLike | FrameLike,
    *,
    dims: str | None = None,
    device: DeviceLike | None = None,
    out: TensorLike | None = None,
    stream: StreamLike | None = None,
    **options: Unpack[ResultKeywords],
) -> StridedTensor: ...


def relayout(
    src: TensorLike | FrameLike,
    *,
    dims: str | None = None,
    device: DeviceLike | None = None,
    out: TensorLike | Frame | None = None,
    stream: StreamLike | None = None,
    **options: Unpack[ResultKeywords],
) -> StridedTensor | Frame:
    """Copy the elements of `src` into another memory layout, and convert them, in one pass.

    `dims` is the order of an array's axes ("NHWC"), as in `asarray`; a tensor with labels needs none. The result's axes
    are in canonical order. An order string as `layout` needs `dims` if `src` is an array.
    `layout` is the memory order of the result ("NHWC"), an exact `Layout`, or None: packed in the source's axis order,
    whatever its strides. Logical axes and sizes do not change. "NHWC8" pads each pixel with zeros to a multiple of 8
    channels. "NCHW4" splits C into innermost blocks of 4, the last padded with zeros, and the result has one axis more:
    sizes (N, ceil(C/4), 4, H, W). `row_pitch_bytes` is the bytes from one row to the next, `alignment` that of the
    result's address in bytes (default 32).

    `dtype` is the result's type. `scale` and `bias` are one value or one for each output channel: `x * scale + bias`,
    computed in float32, or in float64 when either side is float64 or a 32- or 64-bit integer. `mean` and `std` replace
    them, in units of 0..1 of an integer source, as in torchvision: for uint8, scale = 1 / (255 * std) and
    bias = -mean / std. `normalize` names both: "0..1", "imagenet", "clip", "siglip" or "inception". Named figures of
    red, green and blue follow `channels`; a grey image that `channels` repeats three times has all three.
    `arithmetic` names other steps from `mean` and `std` to a value, each rounded. "divide" is
    `((x / 255) - mean) / std`, as by torchvision's `ToTensor` and `Normalize`; "torchvision-v2" is
    `((x * (1 / 255)) - mean) / std`, as by v2's `ToDtype(scale=True)`. "transformers" and "transformers-pil" are the
    steps of transformers' image processors with torchvision and with Pillow; `scale` is then their `rescale_factor`.
    "divide" is for integers of up to 32 bits, the others are for types of up to 16 bits and float32, and none is for a
    `matrix`. `channels` is the source channel of each output channel: `(2, 1, 0)` swaps RGB and BGR.
    `matrix` mixes channels before scale and bias: a row for each output channel, with a number for each source channel,
    such as `[[0.299, 0.587, 0.114]]` for grey. Each product is rounded; products are added in the source's channel
    order. `rounding` to integers is "nearest" (half to even) or "truncate"; it saturates, and NaN becomes 0.

    `device` is the result's: "cpu", "cuda", "cuda:N", "auto" (the first CUDA device that works, else the CPU), or None
    for the source's. `out` is a tensor of any layout, or an array whose memory can be shared and written, with its axes
    in the result's order; of channels in blocks it has the sizes that "NCHW4" gives. The elements are written into it,
    and a tensor over it is returned; nothing else is written but a tensor's own padding. `stream` is for CUDA.

    A `Frame` is an RGB image with the axes C, H, W, and a list of frames of one size is a batch of them, N, C, H, W. A
    `VideoFrame` of PyAV is a frame as `Frame.of` reads it, here and in the other operations.
    With a `Frame` as `out`, an RGB image (C, H, W) of the frame's type, uint8 or uint16, is written into its planes.
    Chroma is that of the upper left of four pixels, or of the mean of two for 4:2:2. The bits of gray, and of limited
    BT.601 with 8 bits, are those of `cv2.cvtColor`: `COLOR_RGB2GRAY`, `COLOR_RGB2YUV_I420` and `COLOR_RGB2YUV_YUY2`.
    Otherwise samples are within a level of the standard.

    Apart from the result, no memory of the data's size is allocated. Raises before anything is written: `LayoutError`
    for layouts, channels or sizes that do not fit, `BindingError` for an `out` that is read-only, is on another device
    or shares memory with the source, `ElementTypeError` for a conversion that does not exist, and `DeviceError` if the
    device or its memory is unavailable.

    >>> import numpy as np
    >>> frame = np.arange(24, dtype=np.uint8).reshape(1, 2, 4, 3)
    >>> planes = relayout(frame, dims="NHWC", layout="NCHW", dtype="float32", scale=1 / 255)
    >>> planes.sizes, planes.strides, bool(planes.numpy()[0, 1, 0, 0] == np.float32(1) * np.float32(1 / 255))
    ((1, 3, 2, 4), (24, 8, 4, 1), True)
    >>> divided = relayout(frame, dims="NHWC", dtype="float32", mean=0.5, std=0.25, arithmetic="divide").numpy()
    >>> bool(divided[0, 1, 0, 0] == (np.float32(1) / np.float32(255) - np.float32(0.5)) / np.float32(0.25))
    True
    >>> relayout(frame, dims="NHWC", matrix=[[0.299, 0.587, 0.114]]).numpy()[0, 0].tolist()
    [[1, 4, 7, 10], [13, 16, 19, 22]]
    """
    conversion, memory = result_options("relayout", options, device)
    if isinstance(out, FrameBase):
        memory.check_beside_out()
        if conversion.is_normalised:
            raise LayoutError("mean= and std= normalise an image, and a Frame as out= holds pixels; leave them out.")
        if is_frames(src):
            raise LayoutError("src and out are frames; relayout src into RGB, and that into out.")
        from stridedgpu.operations.frames import write_frame

        write_frame(*operand_of(src, dims, stream), conversion, out.operand, stream)
        return out
    if isinstance(src, StridedTensor) and dims is None:
        source, labels = src.operand, src.dims
    elif is_frames(src):
        from .frames import frames_relaid

        return frames_relaid(src, conversion, memory, out, stream)
    else:
        source, labels = operand_of(src, dims, stream)
        if labels is None and isinstance(memory.layout, str):
            refuse_unlabelled(source.layout, memory.layout)
    written = out if out is None or type(out) is StridedTensor else output_tensor(out, stream)
    target = None if written is None else written.operand
    operand, labels = relayout_operand(source, labels, conversion, memory, target, stream)
    return StridedTensor.over(operand, labels) if written is None else written


def synchronize(device: DeviceLike | None = None) -> None:
    """Wait until the work of a device is done (None: of every device in use), and raise its deferred errors.

    >>> synchronize("cpu")
    """
    for used in devices_in_use() if device is None else (device_named(device),):
        used.synchronize()


@overload
def plan_relayout(
    src: FrameLike,
    dst: StridedTensor | BufferTensorDesc,
    *,
    device: DeviceLike | None = None,
    **options: Unpack[ConversionKeywords],
) -> PlannedFrames: ...


@overload
def plan_relayout(
    src: StridedTensor | BufferTensorDesc,
    dst: StridedTensor | BufferTensorDesc,
    *,
    device: DeviceLike | None = None,
    **options: Unpack[ConversionKeywords],
) -> RelayoutPlan: ...


def plan_relayout(
    src: StridedTensor | BufferTensorDesc | FrameLike,
    dst: StridedTensor | BufferTensorDesc,
    *,
    device: DeviceLike | None = None,
    **options: Unpack[ConversionKeywords],
) -> RelayoutPlan | PlannedFrames:
    """Plan `relayout(src, out=dst)` once; the plan runs many times, and explains itself.

    Each side is a tensor, or a descriptor of one that will be bound later. The plan runs on every tensor of the same
    type, sizes and strides, such as each `batch[i]` in turn. On a GPU these tensors need the alignment of the planned
    one; on the CPU an address need only be aligned to an element. A descriptor guarantees an alignment and a size; the
    plan relies on no more, and every run checks both. `device` is None for the tensors' device (descriptors: the CPU),
    or "cuda" to plan for a GPU. Without a GPU the plan is for a reference GPU, and can be read but not run.
    With a `Frame` as `src`, the plan runs on frames of its format, sizes, pitches, matrix and chroma; with a list of
    frames of one size, whose `dst` has the axes N, C, H, W, on lists of frames like these.

    Plans pickle: unpickling prepares them again, for the device of the same name in the new process.

    Raises `LayoutError` when the sides do not fit each other.

    >>> plan = plan_relayout(BufferTensorDesc("uint8", (1, 3, 64, 64), (12288, 1, 192, 3)),
    ...                      BufferTensorDesc("uint8", (1, 3, 64, 64)), device="cuda")
    >>> plan.load_bytes, plan.store_bytes, plan.index_bits, plan.bytes_moved
    (16, 16, 32, 24576)
    """
    written = plan_operand("dst", dst, is_written=True)
    conversion = ConversionOptions.of("plan_relayout", options)
    if type(src) is not StridedTensor and is_frames(src):
        from stridedgpu.operations.frames import planned_frames  # only programs with frames load it

        from .frames import check_planned, frame_images

        check_planned(src)
        there = None if device is None else device_name(device)
        sources, labels = frame_images(src)
        return planned_frames(sources, labels, written, conversion, there or sources.device)
    read = plan_operand("src", src)
    dims = src.dims if isinstance(src, StridedTensor) else None
    if device is not None:
        where = device_name(device)
    elif isinstance(dst, StridedTensor):
        where = dst.operand.buffer.device
    else:
        where = src.device if isinstance(src, StridedTensor) else "cpu"
    return planned_relayout(read, written, dims, conversion, where)


def view(src: TensorLike, pattern: str, /, **sizes: int) -> StridedTensor:
    """The same memory with its axes in the form of an einops pattern: never a copy.

    `pattern` names the axes of `src`, in the order of `src.sizes`, and then those of the result, as in einops'
    `rearrange`: parentheses split an axis on the left and merge axes on the right, `...` stands for all unnamed axes,
    `1` for an axis of size 1. `sizes` are sizes of named axes, in elements, if they do not follow from the others.

    Raises `LayoutError` if the pattern does not fit the sizes, or if it merges axes that are not contiguous in memory:
    `rearrange` then copies the elements.

    >>> import numpy as np
    >>> frames = np.zeros((2, 28, 42, 3), np.uint8)
    >>> view(frames, "n (h p) (w q) c -> n h w p q c", p=14, q=14).sizes
    (2, 2, 3, 14, 14, 3)
    """
    operand, opened, wanted = _opened(src, pattern, sizes)
    try:
        merged = opened.reshaped(wanted)
    except LayoutError:
        raise LayoutError(
            f"pattern={pattern!r} merges axes that do not follow each other in memory (opened: sizes {opened.sizes}, "
            f"strides {opened.strides}); rearrange moves the elements."
        ) from None
    return StridedTensor.over(Operand(operand.buffer, merged, operand.element))


def rearrange(src: TensorLike, pattern: str, /, **sizes: int) -> StridedTensor:
    """The same as `view` if there is such a view, else a packed copy of the elements, in one pass.

    Arguments and errors are those of `view`. `result.buffer is src.buffer` is True if memory is shared.

    >>> import numpy as np
    >>> patches = rearrange(np.arange(24).reshape(1, 4, 6, 1), "n (h p) (w q) c -> n h w (p q c)", p=2, q=3)
    >>> patches.sizes, patches.numpy()[0, 0, 1].tolist()
    ((1, 2, 2, 6), [3, 4, 5, 9, 10, 11])
    """
    operand, opened, wanted = _opened(src, pattern, sizes)
    try:
        merged = opened.reshaped(wanted)
    except LayoutError:
        operand = relayout(StridedTensor.over(Operand(operand.buffer, opened, operand.element))).operand
        merged = operand.layout.reshaped(wanted)
    return StridedTensor.over(Operand(operand.buffer, merged, operand.element))


def _opened(src: TensorLike, pattern: str, sizes: dict[str, int]) -> tuple[Operand, Layout, tuple[int, ...]]:
    """The operand, its layout with an axis for each name of the pattern, and the sizes of the result."""
    operand, _ = operand_of(src)
    return operand, *AxisPattern.of(str(pattern), operand.layout.ndim).opened(operand.layout, sizes)
