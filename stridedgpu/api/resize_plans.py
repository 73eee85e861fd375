"""Resizes and letterboxes planned once, to be explained and run many times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from stridedgpu.devices.selection import device_name
from stridedgpu.operations.letterbox import placement
from stridedgpu.operations.plans import PlanOperand
from stridedgpu.operations.resize import PlannedResize, ReadImages, box_of, checked_rule, planned_resize
from stridedgpu.planning.resize_problem import Box, Place
from stridedgpu.typing import ConversionKeywords, DeviceLike, Interpolation, Passes, SupportsArray
from stridedgpu.values.conversion import ConversionOptions
from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.errors import LayoutError

from .arguments import GREY, border, truth
from .frame_like import FrameLike, is_frames
from .frames import Frame, frame_operands
from .given import given
from .resize import IMAGE_AXES
from .tensor import StridedTensor

__all__ = ["plan_letterbox", "plan_resize"]


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
    written = given("dst", dst, is_written=True)
    images, labels, where = _planned_images("src", src, written, dst, device)
    values = ConversionOptions.of("plan_resize", options)
    rule = checked_rule(
        interpolation,
        passes,
        premultiply=truth("premultiply", premultiply),
        element=images.element,
        channels=1 if images.channels is None else images.channels,
    )

    def place(size: tuple[int, int], whole: tuple[int, int]) -> tuple[Box, Place]:
        return box_of(box, size), (0, 0, *whole)

    return planned_resize(images, written, labels, place, rule, values, where)


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
    arguments are those of `letterbox`, and `device` that of `plan_resize`.

    Raises what `letterbox` raises for sides and rules that do not fit.

    >>> from stridedgpu import Frame
    >>> cameras = [Frame.over("nv12", bytes(96), (8, 8)), Frame.over("yuyv", bytes(64), (4, 8))]
    >>> plan = plan_letterbox(cameras, BufferTensorDesc("float16", (2, 3, 16, 16)), scale=1 / 255)
    >>> plan.explain().splitlines()[1]
    '1: yuyv frames, chroma repeated: rows 0 to 4 and columns 0 to 8 of 4 x 8 become 8 x 16 pixels at row 4, column 0'
    """
    written, enlarges = given("dst", dst, is_written=True), truth("scale_up", scale_up)
    surrounding = border(value, fill)
    read, labels, where = _planned_images("images", images, written, dst, device)
    values = ConversionOptions.of("plan_letterbox", options)
    count = 1 if read.channels is None else read.channels
    rule = checked_rule(interpolation, passes, premultiply=False, element=read.element, channels=count)

    def place(size: tuple[int, int], whole: tuple[int, int]) -> tuple[Box, Place]:
        return box_of(None, size), placement(size, whole, scale_up=enlarges)

    return planned_resize(read, written, labels, place, rule, values, where, *surrounding)


def _planned_images(
    name: str, src: object, written: PlanOperand, dst: object, device: str | None
) -> tuple[ReadImages, str, str]:
    """The images of a plan, their axes, and the device to plan for."""
    sides = (dst, *(src if isinstance(src, (list, tuple)) else (src,)))
    where = next((side.device for side in sides if isinstance(side, (StridedTensor, Frame))), "cpu")
    where = where if device is None else device_name(device)
    layout = written.spec.layout
    if is_frames(src):
        labels, is_batch = ("CHW", False) if isinstance(src, Frame) else ("NCHW", True)
        if layout.ndim != len(labels):
            raise LayoutError(f"dst has sizes {layout.sizes}; it must have the axes {', '.join(labels)}.")
        return ReadImages.of_frames(frame_operands(src), where, is_batch=is_batch), labels, where
    read = given(name, src)
    sizes = read.spec.layout.sizes
    labels = src.dims if isinstance(src, StridedTensor) and src.dims is not None else "NCHW"[-len(sizes) :]
    if labels not in IMAGE_AXES or len(labels) != len(sizes) or layout.ndim != len(sizes):
        raise LayoutError(
            f"{name} has sizes {sizes} and dst {layout.sizes}; both must have the axes H and W, with N and C or "
            "without."
        )
    return ReadImages.of_batch(read, labels, where), labels, where
