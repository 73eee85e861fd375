"""Launches of batched crops (`kernels/crops.cu`, `kernels/crops_split.cu`, `kernels/crops_pixels.cu`).

A kernel's parameters begin with two addresses: that of the samples' records, packed by `sample_record`, and that of
the batch's lowest element. The device writes both; here they are 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stridedgpu.errors import LayoutError

from .crops import Crop, CropFamily, CropPlan
from .gpu import KernelLaunch, divisor_words, grid_of
from .kernel_parameters import ParameterBlock, conversion_argument, index_argument

__all__ = ["crops_launch", "sample_record"]

_THREADS: Final = 256

_SAMPLE: Final = struct.Struct("<QQQqqqqqqqQ8x")
"""`sg::CropSample`, aligned to 16 bytes."""

_LONGEST_ROW: Final = 2**31 - 1

_FILL_AT: Final = 16
"""Where the address of the fill elements goes."""


def crops_launch(plan: CropPlan) -> KernelLaunch:
    """The kernel, grid and parameters that carry out `plan`.

    Raises `LayoutError` for a plan without elements: there is nothing to launch.
    """
    layout = plan.target.layout
    if layout.element_count == 0:
        raise LayoutError(f"Windows of sizes {layout.sizes} have no elements; there is nothing to launch.")
    _, channels, height, width = layout.sizes
    if max(width * channels, height) > _LONGEST_ROW:
        raise LayoutError(f"Windows of sizes {layout.sizes}: a GPU takes rows of up to {_LONGEST_ROW} elements.")
    if plan.family is CropFamily.SPLIT:
        return _split(plan)
    return _pixels(plan) if plan.family is CropFamily.PIXELS else _runs(plan)


def _runs(plan: CropPlan) -> KernelLaunch:
    """A thread for every vector of the target."""
    layout, bits = plan.target.layout, plan.index_bits
    samples, channels, height, width = layout.sizes
    pixels_run = plan.family is CropFamily.RUNS
    length = plan.store.nbytes // plan.target.element.itemsize
    vectors = -(-(width * channels if pixels_run else width) // length)
    items = samples * height * vectors * (1 if pixels_run else channels)
    block = ParameterBlock()
    block.add(bytes(8), 8)
    affines = block.add_affines(plan.conversion)
    order = block.add_order(plan.conversion, 1, bits)
    for divisor in (vectors, height, channels):
        for word in divisor_words(divisor, bits):
            block.add_index(word, bits)
    sample_stride, channel_stride, row_stride, column_stride = layout.strides
    # A vector starts `length` columns after the last one, or as many elements of side by side pixels.
    step = 1 if length > 1 or pixels_run else column_stride
    for value in (sample_stride, channel_stride, row_stride, step, layout.offset, items):
        block.add_index(value, bits)
    for word in (*divisor_words(channels, 32), width):
        block.add_index(word, 32)
    arguments = (
        conversion_argument(plan.conversion),
        index_argument(bits),
        plan.load.nbytes if plan.reads_runs else 0,
        plan.store.nbytes,
        str(pixels_run).lower(),
        affines,
        order,
    )
    return _launch("crops.cu", arguments, items, block, plan.fill)


def _split(plan: CropPlan) -> KernelLaunch:
    """A thread for a vector of every plane."""
    layout, bits, pitch = plan.target.layout, plan.index_bits, plan.source_steps[1]
    samples, channels, height, width = layout.sizes
    vectors = -(-width // (plan.store.nbytes // plan.target.element.itemsize))
    items = samples * height * vectors
    block = ParameterBlock()
    block.add(bytes(8), 8)
    affines = block.add_affines(plan.conversion)
    chosen = plan.conversion.channels or range(channels)
    # Where each place of a pixel goes: to no plane is -1.
    planes = tuple(chosen.index(place) if place in chosen else -1 for place in range(pitch))
    in_order = planes == tuple(range(channels))
    order = block.add_order(replace(plan.conversion, channels=None if in_order else planes), 1, bits)
    for divisor in (vectors, height):
        for word in divisor_words(divisor, bits):
            block.add_index(word, bits)
    sample_stride, channel_stride, row_stride, _ = layout.strides
    for value in (sample_stride, channel_stride, row_stride, layout.offset, items):
        block.add_index(value, bits)
    block.add_index(width, 32)
    arguments = (
        conversion_argument(plan.conversion),
        index_argument(bits),
        pitch,
        plan.load.nbytes,
        plan.store.nbytes,
        affines,
        order,
    )
    return _launch("crops_split.cu", arguments, items, block, plan.fill)


def _pixels(plan: CropPlan) -> KernelLaunch:
    """A thread for as many pixels as a vector has elements."""
    layout, bits = plan.target.layout, plan.index_bits
    samples, channels, height, width = layout.sizes
    vectors = -(-width // (plan.store.nbytes // plan.target.element.itemsize))
    items = samples * height * vectors
    block = ParameterBlock()
    block.add(bytes(8), 8)
    affines = block.add_affines(plan.conversion)
    for divisor in (vectors, height):
        for word in divisor_words(divisor, bits):
            block.add_index(word, bits)
    for value in (layout.strides[0], layout.strides[2], layout.offset, items):
        block.add_index(value, bits)
    block.add_index(width, 32)
    is_reversed = plan.conversion.channels is not None and plan.conversion.channels[0] != 0
    arguments = (
        conversion_argument(plan.conversion),
        index_argument(bits),
        plan.source_steps[1],
        channels,
        str(is_reversed).lower(),
        plan.load.nbytes,
        plan.store.nbytes,
        affines,
    )
    return _launch("crops_pixels.cu", arguments, items, block, plan.fill)


def _launch(source: str, arguments: Sequence[object], items: int, block: ParameterBlock, fill: bytes) -> KernelLaunch:
    """A thread for each item."""
    return KernelLaunch(
        sources=(source,),
        name=f"sg::{source.removesuffix('.cu')}<{', '.join(map(str, arguments))}>",
        grid=grid_of(-(-items // _THREADS)),
        block=(_THREADS, 1, 1),
        shared_bytes=0,
        parameters=block.parameters,
        tables=(*block.tables, (_FILL_AT, fill)),
    )


def sample_record(crop: Crop, address: int, size: tuple[int, int], itemsize: int) -> bytes:
    """The record of one sample whose lowest element is at `address`; `size` is a window's, in pixels."""
    layout = crop.layout
    _, height, width = layout.sizes
    # Further out than one window, every pixel is outside; no kernel needs to know how far.
    top, left = (
        min(max(place, -most), limit) for place, most, limit in zip(crop.origin, size, (height, width), strict=True)
    )
    first = address + layout.offset * itemsize
    end = address + layout.span * itemsize
    return _SAMPLE.pack(first, address, end, *layout.strides, height, width, top, left, crop.flip)
