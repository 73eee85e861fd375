"""RGB images into frames: the samples that an encoder takes."""

from __future__ import annotations

from stridedgpu.devices.frame_operand import CHANNELS, FrameOperand
from stridedgpu.devices.operand import Operand, share_memory
from stridedgpu.devices.selection import device_named
from stridedgpu.planning.frame_problem import SamplesProblem
from stridedgpu.values.axis_labels import inferred_labels
from stridedgpu.values.colour_matrix import luma_matrix
from stridedgpu.values.conversion import ConversionOptions
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError

from .move import move_elements
from .relayout import result_sizes

__all__ = ["write_frame"]


def write_frame(
    image: Operand, dims: str | None, values: ConversionOptions, frame: FrameOperand, stream: object
) -> None:
    """Write an image with axes C, H, W into the planes of a frame; the fourth byte of a pixel is not written.

    Raises before anything is written: `ElementTypeError` for an image of another type than the frame's, `LayoutError`
    for axes, sizes and conversions that do not fit, `BindingError` for planes that are read-only, on another device, or
    share memory with the image or with each other.
    """
    layout = image.layout
    labels = inferred_labels(dims, layout.ndim, "CHW" if layout.ndim == 3 else None)
    if labels != ("C", "H", "W"):
        raise LayoutError(f"The picture has sizes {layout.sizes} and dims={dims!r}; a frame takes axes C, H, W.")
    if image.element != frame.element:
        raise ElementTypeError(
            f"The picture holds {image.element}; a frame of {frame.samples.name} takes {frame.element}."
        )
    made = values.conversion(image.element, layout.sizes[0], frame.element)
    if made.has_arithmetic or made.source != made.target:
        raise LayoutError(f"{made}: samples follow from the colours as they are; convert the picture before.")
    if result_sizes(layout.sizes, made, 0) != (CHANNELS, *frame.sizes):
        raise LayoutError(
            f"The picture has sizes {layout.sizes} along C, H, W; the frame takes {CHANNELS} channels (red, green and "
            f"blue, chosen with channels=) of {frame.sizes[0]} x {frame.sizes[1]} pixels."
        )
    for number, plane in enumerate(frame.planes):
        name = f"out.planes[{number}]"
        if plane.buffer.device != image.buffer.device:
            raise BindingError(f"{name} is on {plane.buffer.device} and the picture on {image.buffer.device}.")
        if plane.buffer.readonly:
            raise BindingError(f"{name} is read-only.")
        if plane.layout.has_overlap:
            raise LayoutError(f"{name} repeats or overlaps its own elements: {plane.layout}.")
        if share_memory(image, plane):
            raise BindingError(f"{name} shares memory with the picture; write into another frame, or copy it first.")
        for other in range(number):
            if share_memory(frame.planes[other], plane):
                raise BindingError(f"{name} shares memory with out.planes[{other}], whose samples it would overwrite.")
    if frame.samples.kind == "rgb" and frame.colours is not None:
        move_elements(image, frame.colours, made, 0, stream)
        return
    chosen = tuple(layout.sliced(channel) for channel in made.channels or range(CHANNELS))
    strides = tuple(plane.layout.strides for plane in frame.planes)
    matrix = luma_matrix(frame.matrix, frame.samples, full_range=frame.full_range)
    device = device_named(frame.device)
    launch = device.launch_for(SamplesProblem(frame.samples, frame.sizes, strides, matrix, chosen))
    launch([image.with_layout(one) for one in chosen], frame.planes, stream)
