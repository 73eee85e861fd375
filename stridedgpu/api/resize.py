"""Resize, letterbox and their plans: images at other sizes as by Pillow, OpenCV or torch, converted as they go."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Unpack

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_name
from stridedgpu.exchange.array_like import array_of_values, operand_of
from stridedgpu.operations.images import CropSources, as_batch
from stridedgpu.operations.options import result_options, truth
from stridedgpu.operations.plans import PlanOperand
from stridedgpu.operations.resize import (
    PlannedResize,
    ReadImages,
    ResizeOptions,
    box_of,
    check_pixels,
    placement,
    planned_resize,
    resize_operands,
    resized_size,
    side_resized,
    whole_strides,
)
from stridedgpu.typing import (
    Border,
    ConversionKeywords,
    DeviceLike,
    ImageSize,
    Interpolation,
    Passes,
    ResultKeywords,
    StreamLike,
    SupportsArray,
    TensorLike,
)
from stridedgpu.values.axis_labels import inferred_labels
from stridedgpu.values.conversion import ConversionOptions
from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.errors import ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import integer

from .arguments import (
    GREY,
    FrameLike,
    border,
    is_frames,
    operands_of_list,
    plan_operand,
    refuse_interleaved,
    result_tensor,
)
from .frames import Frame, check_planned, frame_images, frame_operands
from .tensor import StridedTensor, output_tensor

IMAGE_AXES: Final = ("HW", "CHW", "NHW", "NCHW")
"""The axes that images may have, in canonical order."""


def resize(
    src: TensorLike | FrameLike,
    size: ImageSize,
    *,
    dims: str | None = None,
    interpolation: Interpolation = "pillow-bilinear",
    box: Sequence[float] | None = None,
    passes: Passes | None = None,
    premultiply: bool = False,
    device: DeviceLike | None = None,
    out: TensorLike | None = None,
    stream: StreamLike | None = None,
    **options: Unpack[ResultKeywords],
) -> StridedTensor:
    """An image, or each of a batch, at another size, to the bit as Pillow, OpenCV or torch resizes it.

    `src` has the axes H and W, and optionally C and N; `dims` is their order ("HWC", "NHWC"), as in `asarray`. A
    `Frame` is an RGB image, and a list of frames of any sizes and formats a batch. The rows of YUV frames are converted
    as the resize reads them, on the CPU and on a GPU.

    `size` is the height and width of the result, in pixels, or one number for its shorter side: the image keeps its
    shape, as by torchvision's Resize, and the longer side is rounded down. `box` is top, left, bottom and right of the
    part that is resized, in pixels of the source and fractions of them; None is all. Pillow's filters read pixels
    beside it; those of OpenCV and torch read the whole pixels that it touches.

    `interpolation` is the library and its filter. "pillow-box", "pillow-bilinear", "pillow-hamming", "pillow-bicubic",
    "pillow-lanczos" and "pillow-nearest" widen their filter when the image shrinks, and so do "torch-bilinear",
    "torch-bicubic" and "torch-lanczos", torch's `interpolate(antialias=True)` on the CPU, as torchvision and
    transformers resize tensors. "torch-nearest" is `interpolate(mode="nearest")`. The others are "opencv-linear",
    "opencv-linear-exact", "opencv-nearest", "opencv-area" and "opencv-cubic". Images are uint8, uint16 (Pillow's
    "I;16") or float32 (Pillow's "F"); "opencv-linear-exact" takes uint8, those of torch uint8 and float32, and the
    nearest ones every type. `passes` is the first pass of Pillow's filters: "horizontal" (Pillow up to 12), "vertical"
    (12.2 and 12.3, for images more than 100 times as tall as wide), or "pillow-13" (Pillow 13, which goes by the
    sizes). None is "pillow-13", and warns once a process where the installed Pillow is older. `premultiply` weights
    colours by alpha, the last channel, as Pillow does for RGBA.

    The resized pixel has the source's type and is then converted as `relayout` converts, in the same pass: all other
    keywords are those of `relayout`. On a GPU `matrix` is a second pass over the resized pixels, which need memory of
    their own there.

    Raises before anything is written: `LayoutError` for sizes, boxes, axes, rules and layouts that do not fit,
    `ElementTypeError` for a type that the rule does not resize, `BindingError` for an `out` that is read-only, on
    another device or shares memory with the source.

    >>> import numpy as np
    >>> photo = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    >>> small = resize(photo, (2, 2), dims="HWC", interpolation="pillow-box")
    >>> small.sizes, small.numpy()[0].tolist()
    ((3, 2, 2), [[8, 14], [32, 38]])

    Source: Pillow, src/libImaging/Resample.c; OpenCV, modules/imgproc/src/resize.cpp; torch,
    aten/src/ATen/native/cpu/UpSampleKernel.cpp.
    """
    written, weighs = output_tensor(out, stream), truth("premultiply", premultiply)
    values, memory = result_options("resize", options, device)
    sources, labels = _images("src", src, dims, stream)
    boxes = None
    if type(size) is tuple and box is None:
        pair = resized_size(size)
    else:
        whole = box_of(box, sources.size)  # raises for a bad box, even if the batch is empty
        boxes = [box_of(box, (image.sizes[1], image.sizes[2])) for image in sources.layouts]
        pair = side_resized(size, boxes or [whole])
    resize_options = ResizeOptions(labels, pair, interpolation, passes, weighs)
    target = None if written is None else written.operand
    boxes = None if box is None else boxes
    result = resize_operands(sources, resize_options, values, memory, boxes=boxes, out=target, stream=stream)
    return result_tensor(result, labels, written)


def letterbox(
    images: TensorLike | FrameLike,
    size: ImageSize,
    *,
    dims: str | None = None,
    value: complex | Sequence[complex] | SupportsArray | Border = GREY,
    fill: complex | Sequence[complex] | SupportsArray | Border | None = None,
    interpolation: Interpolation = "opencv-linear",
    scale_up: bool = True,
    auto: bool = False,
    stride: int = 32,
    passes: Passes | None = None,
    device: DeviceLike | None = None,
    out: TensorLike | None = None,
    stream: StreamLike | None = None,
    **options: Unpack[ResultKeywords],
) -> StridedTensor:
    """Whole, undistorted images in frames of one `size`, with borders of `value`, as YOLO takes them.

    `size` is height and width in pixels, or one number for a square of this side, as in Ultralytics' `LetterBox`.
    `images` is an image, a batch, or a list of images (C, H, W) of any sizes, which become a batch (N, C, height,
    width); frames are RGB images as for `resize`. `value` is one number of the images' own type or one for each
    channel, which is converted like any pixel; `fill`, its name in `gather_crops` and `Preprocess`, is taken as well.
    The default is YOLO's grey of 8 bits. In uint16 and in frames of more than 8 bits this grey is 29298, in floats of
    0..1 it is 114 / 255; `Preprocess` chooses it by the type of each image. "reflect", "symmetric" and "edge" continue
    the image instead, as `numpy.pad` does, copied within the result. Without `scale_up`, smaller images keep their
    size. With `auto` the result is the least rectangle that lacks whole multiples of `stride` pixels of `size`, as YOLO
    takes images of one size when it predicts: (384, 640) for 1080p in 640. `letterbox_placements` returns where each
    image lies. The other arguments are those of `resize`.

    Raises what `resize` raises, and `LayoutError` for images whose rectangles differ.

    >>> import numpy as np
    >>> photos = [np.full((4, 8, 3), 50, np.uint8), np.full((6, 3, 3), 60, np.uint8)]
    >>> batch = letterbox(photos, (8, 8), dims="HWC")
    >>> batch.sizes, batch.numpy()[:, 0, :, 4].tolist()
    ((2, 3, 8, 8), [[114, 114, 50, 50, 50, 50, 114, 114], [60, 60, 60, 60, 60, 60, 60, 60]])

    Source: Ultralytics' `LetterBox`.
    """
    frame, enlarges, written = resized_size(size), truth("scale_up", scale_up), output_tensor(out, stream)
    automatic, pixels = truth("auto", auto), integer("stride", stride, least=1)
    surrounding, named = border(value, fill)
    sources, labels = _listed_images(images, dims, stream)
    rectangle = _rectangle(sources, frame, pixels, scale_up=enlarges) if automatic else frame
    resize_options = ResizeOptions(
        labels, rectangle, interpolation, passes, scale_up=enlarges, fill=surrounding, fill_name=named, frame=frame
    )
    conversion, memory = result_options("letterbox", options, device)
    target = None if written is None else written.operand
    result = resize_operands(sources, resize_options, conversion, memory, out=target, stream=stream)
    return result_tensor(result, labels, written)


def _rectangle(sources: CropSources, frame: tuple[int, int], stride: int, *, scale_up: bool) -> tuple[int, int]:
    """The size of a letterbox with `auto`. Raises `LayoutError` for images that have several."""
    images = [sources.size] if sources.is_batch else [(layout.sizes[1], layout.sizes[2]) for layout in sources.layouts]
    sizes = {whole_strides(image, frame, stride, scale_up=scale_up) for image in images}
    if len(sizes) > 1:
        raise LayoutError(
            f"auto=True makes rectangles of the sizes {sorted(sizes)} of these images, which are no batch; letterbox "
            "them one by one, or leave auto= out."
        )
    return sizes.pop()


def letterbox_placements(
    sizes: Sequence[Sequence[int]] | NDArray[np.generic],
    size: ImageSize,
    *,
    scale_up: bool = True,
    auto: bool = False,
    stride: int = 32,
) -> NDArray[np.int64]:
    """The placements of images of these `sizes`, (k, 2), by `letterbox`: top, left, height and width in pixels, (k, 4).

    The other arguments are those of `letterbox`; with `auto` each image lies in a rectangle of its own.

    A point of the frame maps back to the image by `(x - left) * image_width / width`, and likewise for rows.

    >>> letterbox_placements([(1080, 1920), (100, 50)], (640, 640)).tolist()
    [[140, 0, 360, 640], [0, 160, 640, 320]]
    """
    frame, enlarges = resized_size(size), truth("scale_up", scale_up)
    try:
        pairs = array_of_values(sizes)
    except ElementTypeError:  # rows of several lengths
        pairs = np.empty(1)
    if pairs.size == 0:
        return np.empty((0, 4), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu" or pairs.min() < 1:
        raise LayoutError(
            f"sizes={sizes!r} must be integers (k, 2) of at least 1: the height and width of each image, in pixels."
        )
    pixels, automatic, placements = integer("stride", stride, least=1), truth("auto", auto), []
    for height, width in pairs.tolist():
        within = whole_strides((height, width), frame, pixels, scale_up=enlarges) if automatic else frame
        placements.append(placement((height, width), frame, scale_up=enlarges, within=within))
    return np.array(placements, np.int64)


def _images(name: str, images: object, dims: str | None, stream: object) -> tuple[CropSources, str]:
    """An image or a batch, or frames, and the labels of their result."""
    if is_frames(images):
        return frame_images(images, stream)
    operand, labels = _image_operand(name, images, dims, stream)
    return CropSources.of_batch(_batched(operand, labels), name), labels


def _listed_images(images: object, dims: str | None, stream: object) -> tuple[CropSources, str]:
    """The same, or images one by one in a list."""
    if not isinstance(images, (list, tuple)) or is_frames(images):
        return _images("images", images, dims, stream)
    if not images:
        raise LayoutError("images is empty: a batch of no images has no type and no channels.")
    operands = operands_of_list("images", images, lambda name, image: _single_image(name, image, dims, stream))
    sources = CropSources.of_images(operands, "images")
    sources.check(sources.channels, sources.element, sources.device)
    return sources, "NCHW"


def _single_image(name: str, image: object, dims: str | None, stream: object) -> Operand:
    """An image of a list, with axes C, H, W."""
    operand, labels = _image_operand(name, image, dims, stream)
    if "N" in labels:
        raise LayoutError(f"{name} has the axes {', '.join(labels)}; a list holds single images.")
    whole = as_batch(operand.layout, labels).sliced(0)
    _, height, width = whole.sizes
    check_pixels(height, width)
    return Operand(operand.buffer, whole, operand.element, operand.owns_padding)


def _batched(operand: Operand, labels: str) -> Operand:
    """The operand with axes N, C, H, W."""
    if labels == "NCHW":
        return operand
    return Operand(operand.buffer, as_batch(operand.layout, labels), operand.element, operand.owns_padding)


def _image_operand(name: str, images: object, dims: str | None, stream: object) -> tuple[Operand, str]:
    """An object with the axes H and W, and optionally N and C, and its labels in canonical order."""
    operand, labels = operand_of(images, dims, stream)
    if labels is None or labels not in IMAGE_AXES or len(labels) != operand.layout.ndim:
        labels = _letters(name, operand.layout, labels, dims)
    return operand, labels


@lru_cache(maxsize=1024)
def _letters(name: str, layout: Layout, labels: str | None, dims: str | None) -> str:
    """The axes of an argument's layout, in canonical order. Raises `LayoutError` for axes that no image has."""
    known = inferred_labels(labels, layout.ndim, "NCHW"[-layout.ndim :] if 2 <= layout.ndim <= 4 else None)
    letters = "".join(label or "?" for label in known)
    if letters not in IMAGE_AXES:
        raise LayoutError(
            f"{name} has sizes {layout.sizes} and dims={dims or labels!r}; it must have the axes H and W, with N and C "
            "or without: say with dims= how they are ordered."
        )
    if labels is None:
        refuse_interleaved(name, layout, letters)
    return letters


def plan_resize(
    src: StridedTensor | BufferTensorDesc | FrameLike,
    dst: StridedTensor | BufferTensorDesc,
    *,
    interpolation: Interpolation = "pillow-bilinear",
    box: Sequence[float] | None = None,
    passes: Passes | None = None,
    premultiply: bool = False,
    device: DeviceLike | None = None,
    **options: Unpack[ConversionKeywords],
) -> PlannedResize:
    """Plan `resize(src, size, out=dst)` once, to run it many times and to explain it.

    Each side is a tensor, or a descriptor of one that will be bound later, with axes in canonical order: (H, W), (C, H,
    W) or (N, C, H, W). `dst` has the new size. `device` is None for the tensors' device (descriptors: the CPU), or
    "cuda" to plan for a GPU. Without a GPU the plan is for a reference GPU and can only be read. The other arguments
    are those of `resize`. With a `matrix` a plan for a GPU has two `steps`: the resize, and the mixing of its channels.
    With a `Frame` as `src`, or a list of frames of any sizes and formats, the plan runs on frames like these.

    Raises what `resize` raises for sides, boxes and rules that do not fit.

    >>> photos = BufferTensorDesc("uint8", (8, 3, 480, 640), (921600, 1, 1920, 3))
    >>> plan = plan_resize(photos, BufferTensorDesc("float16", (8, 3, 224, 224)), scale=1 / 255)
    >>> [line.strip() for line in plan.explain().splitlines()[3:5]]
    ['columns: up to 6 taps a pixel', 'rows: up to 5 taps a pixel']
    """
    written = plan_operand("dst", dst, is_written=True)
    images, labels, where = _planned_images("src", src, written, dst, device)
    values, size = ConversionOptions.of("plan_resize", options), _size_of(written, labels)
    resize_options = ResizeOptions(labels, size, interpolation, passes, truth("premultiply", premultiply))
    return planned_resize(images, written, box, resize_options, values, where)


def plan_letterbox(
    images: StridedTensor | BufferTensorDesc | FrameLike,
    dst: StridedTensor | BufferTensorDesc,
    *,
    value: complex | Sequence[complex] | SupportsArray = GREY,
    fill: complex | Sequence[complex] | SupportsArray | None = None,
    interpolation: Interpolation = "opencv-linear",
    scale_up: bool = True,
    passes: Passes | None = None,
    device: DeviceLike | None = None,
    **options: Unpack[ConversionKeywords],
) -> PlannedResize:
    """Plan `letterbox(images, size, out=dst)` once, to run it many times and to explain it; `size` is that of `dst`.

    `images` are a tensor or a descriptor of one image or a batch, a `Frame`, or a list of frames of any sizes and
    formats, whose `dst` has the axes N, C, H, W. The plan runs on images like these, as `plan(images, dst)`. The other
    arguments are those of `letterbox`, and `device` that of `plan_resize`. Borders that continue images have no plan.

    Raises what `letterbox` raises for sides and rules that do not fit.

    >>> from stridedgpu import Frame
    >>> cameras = [Frame.over("nv12", bytes(96), (8, 8)), Frame.over("yuyv", bytes(64), (4, 8))]
    >>> plan = plan_letterbox(cameras, BufferTensorDesc("float16", (2, 3, 16, 16)), scale=1 / 255)
    >>> plan.explain().splitlines()[1]
    '1: yuyv frames, chroma repeated: rows 0 to 4 and columns 0 to 8 of 4 x 8 become 8 x 16 pixels at row 4, column 0'
    """
    written, enlarges = plan_operand("dst", dst, is_written=True), truth("scale_up", scale_up)
    surrounding, named = border(value, fill)
    read, labels, where = _planned_images("images", images, written, dst, device)
    values, size = ConversionOptions.of("plan_letterbox", options), _size_of(written, labels)
    resize_options = ResizeOptions(
        labels, size, interpolation, passes, scale_up=enlarges, fill=surrounding, fill_name=named
    )
    return planned_resize(read, written, None, resize_options, values, where)


def _size_of(written: PlanOperand, labels: str) -> tuple[int, int]:
    _, _, height, width = as_batch(written.spec.layout, labels).sizes
    return height, width


def _planned_images(
    name: str, src: object, written: PlanOperand, dst: object, device: str | None
) -> tuple[ReadImages, str, str]:
    """The images of a plan, their axes, and the device to plan for."""
    sides = (dst, *(src if isinstance(src, (list, tuple)) else (src,)))
    where = next((side.device for side in sides if isinstance(side, (StridedTensor, Frame))), "cpu")
    where = where if device is None else device_name(device)
    layout = written.spec.layout
    if is_frames(src):
        check_planned(src)
        labels, is_batch = ("NCHW", True) if isinstance(src, (list, tuple)) else ("CHW", False)
        if layout.ndim != len(labels):
            raise LayoutError(f"dst has sizes {layout.sizes}; it must have the axes {', '.join(labels)}.")
        return ReadImages.of_frames(frame_operands(src), where, is_batch=is_batch), labels, where
    read = plan_operand(name, src)
    sizes = read.spec.layout.sizes
    labels = src.dims if isinstance(src, StridedTensor) and src.dims is not None else "NCHW"[-len(sizes) :]
    if labels not in IMAGE_AXES or len(labels) != len(sizes) or layout.ndim != len(sizes):
        raise LayoutError(
            f"{name} has sizes {sizes} and dst {layout.sizes}; both must have the axes H and W, with N and C or "
            "without."
        )
    return ReadImages.of_batch(read, labels, where), labels, where
