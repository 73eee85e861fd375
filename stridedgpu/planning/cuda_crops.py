"""Launches of batched crops (`kernels/crops.cu`).

A kernel's parameters begin with two addresses: that of the samples' records, packed by `sample_record`, and that of
the batch's lowest element. The device writes both; here they are 0.
"""

from __future__ import annotations

import struct
from typing import Final

from stridedgpu.errors import LayoutError

from .crops import Crop, CropPlan
from .gpu import KernelLaunch, divisor_words, grid_of
from .kernel_parameters import ParameterBlock, conversion_argument, index_argument

__all__ = ["crops_launch", "sample_record"]

_THREADS: Final = 256

_SAMPLE: Final = struct.Struct("<QqqqqqqqQ")
"""`sg::CropSample`."""

_LONGEST_ROW: Final = 2**31 - 1

_FILL_AT: Final = 16
"""Where the address of the fill elements goes."""


def crops_launch(plan: CropPlan) -> KernelLaunch:
    """The kernel, grid and parameters that carry out `plan`.

    Raises `LayoutError` for a plan without elements: there is nothing to launch.
    """
    layout, bits = plan.target.layout, plan.index_bits
    if layout.element_count == 0:
        raise LayoutError(f"Windows of sizes {layout.sizes} have no elements; there is nothing to launch.")
    samples, channels, height, width = layout.sizes
    if max(width * channels, height) > _LONGEST_ROW:
        raise LayoutError(f"Windows of sizes {layout.sizes}: a GPU takes rows of up to {_LONGEST_ROW} elements.")
    length = plan.store.nbytes // plan.target.element.itemsize
    vectors = -(-(width * channels if plan.pixels_run else width) // length)
    items = samples * height * vectors * (1 if plan.pixels_run else channels)
    block = ParameterBlock()
    block.add(bytes(8), 8)
    affines = block.add_affines(plan.conversion)
    order = block.add_order(plan.conversion, 1, bits)
    for divisor in (vectors, height, channels):
        for word in divisor_words(divisor, bits):
            block.add_index(word, bits)
    sample_stride, channel_stride, row_stride, column_stride = layout.strides
    # A vector starts `length` columns after the last one, or as many elements of side by side pixels.
    step = 1 if length > 1 or plan.pixels_run else column_stride
    for value in (sample_stride, channel_stride, row_stride, step, layout.offset, items):
        block.add_index(value, bits)
    for word in (*divisor_words(channels, 32), width):
        block.add_index(word, 32)
    arguments = (
        conversion_argument(plan.conversion),
        index_argument(bits),
        plan.load.nbytes,
        plan.store.nbytes,
        str(plan.pixels_run).lower(),
        affines,
        order,
    )
    return KernelLaunch(
        sources=("crops.cu",),
        name=f"sg::crops<{', '.join(map(str, arguments))}>",
        grid=grid_of(-(-items // _THREADS)),
        block=(_THREADS, 1, 1),
        shared_bytes=0,
        parameters=block.parameters,
        tables=(*block.tables, (_FILL_AT, plan.fill)),
    )


def sample_record(crop: Crop, address: int, size: tuple[int, int]) -> bytes:
    """The record of one sample whose element of channel 0, row 0 and column 0 is at `address`; `size` is a window's."""
    _, height, width = crop.layout.sizes
    # Further out than one window, every pixel is outside; no kernel needs to know how far.
    top, left = (
        min(max(place, -most), limit) for place, most, limit in zip(crop.origin, size, (height, width), strict=True)
    )
    return _SAMPLE.pack(address, *crop.layout.strides, height, width, top, left, crop.flip)
