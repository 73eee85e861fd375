"""Resizes of a tensor's whole images: what does not depend on their memory is prepared once and cached by value."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from stridedgpu.devices.interface import EvenlyLocated, ResizeLaunch
from stridedgpu.devices.operand import AllocationSpec, Operand
from stridedgpu.devices.selection import CPU, device_named
from stridedgpu.planning.crop_windows import source_steps
from stridedgpu.planning.resize_problem import ResizeProblem, ResizeWindow
from stridedgpu.values.conversion import ConversionOptions
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .channel_blocks import parse_order
from .crops import fill_bytes
from .images import MOST_IMAGES
from .options import MemoryOptions
from .resize import as_batch, box_of, checked_rule

__all__ = ["whole_images_resized"]

_WORDS: Final = (str, type(None))
"""Types of `layout` and `passes` that are part of a cache key."""


def whole_images_resized(
    source: Operand,
    labels: str,
    size: tuple[int, int],
    rule: tuple[object, object],
    values: ConversionOptions,
    memory: MemoryOptions,
    *,
    premultiply: bool,
    stream: object,
) -> Operand | None:
    """The images of a tensor with the axes `labels`, resized to `size` in new memory on their device.

    `rule` is the interpolation and the first pass. The result is None for options that are not cached: an exact layout,
    an order that fills channels up, another device, a matrix, and an empty batch.
    """
    interpolation, passes = rule
    layout, row_pitch_bytes, alignment, there = memory
    plain = row_pitch_bytes is None and alignment is None and there is None and values.matrix is None
    words = type(interpolation) is str and type(passes) in _WORDS
    if not plain or not words or type(layout) not in _WORDS:
        return None
    here = source.buffer.device
    device = CPU if here == "cpu" else device_named(here)
    read = source.layout
    key = read.sizes, read.strides, source.element.name, labels, size, interpolation, passes, premultiply
    prepared = _prepared(*key, values, layout)
    if prepared is None:
        return None
    target = prepared.allocation.allocate(device, stream)
    launch: ResizeLaunch = device.launch_for(prepared.problem)
    start = source.start_bytes + prepared.first_bytes
    sources = EvenlyLocated(source.buffer, start, prepared.step_bytes, len(prepared.windows))
    launch(prepared.windows, sources, (target.buffer, target.start_bytes), stream)
    return target


class _Prepared(NamedTuple):
    """A resize but for its memory: the allocation of the result, the problem and the windows.

    The first image begins `first_bytes` behind the lowest element of the source, and each further one `step_bytes`
    behind the one before.
    """

    allocation: AllocationSpec
    problem: ResizeProblem
    windows: tuple[ResizeWindow, ...]
    first_bytes: int
    step_bytes: int


@lru_cache(maxsize=512, typed=True)
def _prepared(
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    element_name: str,
    labels: str,
    size: tuple[int, int],
    interpolation: str,
    passes: str | None,
    premultiply: bool,
    values: ConversionOptions,
    layout: str | None,
) -> _Prepared | None:
    """What is prepared for images of a layout and type; None for an order that fills channels up and an empty batch."""
    element, layout_read = ELEMENT_TYPES[element_name], Layout(sizes, strides)
    batch = as_batch(layout_read.shifted(-layout_read.first_offset), labels)
    count, channel_count, *extents = batch.sizes
    if not count or count > MOST_IMAGES or (layout is not None and parse_order(layout).multiple != 1):
        return None
    rule = checked_rule(interpolation, passes, premultiply=premultiply, element=element, channels=channel_count)
    image = batch.sliced(0)
    box = box_of(None, (extents[0], extents[1]))
    windows = (ResizeWindow(image.shifted(-image.first_offset), box, (0, 0, *size)),) * count
    made = values.conversion(element, channel_count if "C" in labels else None, element)
    extents_made = dict(zip("NCHW", (count, made.output_channels(channel_count), *size), strict=True))
    wanted = tuple(extents_made[axis] for axis in labels)
    allocation = MemoryOptions(layout).allocation(wanted, tuple(labels), made.target)
    target = TensorSpec.of(
        as_batch(allocation.layout, labels),
        made.target,
        base_alignment=allocation.alignment,
        buffer_bytes=allocation.nbytes,
        owns_padding=allocation.owns_padding,
    )
    steps = source_steps([window.layout for window in windows[:1]])
    fill = fill_bytes(0, element, channel_count, "fill")
    return _Prepared(
        allocation,
        ResizeProblem(target, made, rule, channel_count, steps, fill, windows[0]),
        windows,
        image.first_offset * element.itemsize,
        batch.strides[0] * element.itemsize,
    )
