"""Launches of resizes (`resize_tiles.cu`, `resize_nearest.cu`), and the records of their samples.

A kernel's parameters begin with two addresses: that of the records, packed by `resize_records`, and that of the
batch's lowest element. The device writes both; here they are 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from stridedgpu.devices.cuda.planning.gpu import KernelLaunch, divisor_words, grid_of
from stridedgpu.devices.cuda.planning.policy import policy
from stridedgpu.devices.cuda.planning.resize import ResizeFamily, ResizePlan
from stridedgpu.devices.cuda.planning.resize_tiles import ResizeTiles
from stridedgpu.planning.device_plan import index_bits
from stridedgpu.planning.resize_arithmetic import Arithmetic
from stridedgpu.planning.resize_problem import ResizeWindow, WindowTaps
from stridedgpu.planning.resize_taps import AxisTaps
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import LayoutError

from .instantiation import instantiation
from .parameters import ParameterBlock, conversion_argument, index_argument

__all__ = ["ResizeSample", "resize_launch", "resize_records"]

_SAMPLE: Final = struct.Struct("<3Q 3q 3I2iI 3I2iI 4i I f 8x")
"""`sg::ResizeSample`, aligned to 16 bytes."""

_SPAN_BYTES: Final = 8
"""Of a `sg::TapSpan`, at whose multiples tables lie."""

_LONGEST_ROW: Final = 2**31 - 1

_COPIED: Final = {Arithmetic.COPY: 1, Arithmetic.PILLOW_FIXED: 1 << 22, Arithmetic.PILLOW_DOUBLE: 1}
"""The weight of the one tap of an axis that has no pass: sums come out as they went in."""


@dataclass(frozen=True, slots=True)
class ResizeSample:
    """One picture of a launch: window, taps, its source's lowest address, its number and place in the target."""

    window: ResizeWindow
    taps: WindowTaps
    address: int
    number: int
    place: tuple[int, int, int, int]


def resize_launch(plan: ResizePlan, taps: Sequence[WindowTaps]) -> KernelLaunch:
    """The kernel, grid and parameters for samples with these taps, all summed alike and in one order of passes.

    Raises `LayoutError` for a plan without elements, and `DeviceError` for windows that no tile can be made for.
    """
    layout = plan.problem.target.layout
    if layout.element_count == 0 or not taps:
        raise LayoutError(f"Windows of sizes {layout.sizes} have no elements; there is nothing to launch.")
    _, channels, height, width = layout.sizes
    if max(width * channels, height) > _LONGEST_ROW:
        raise LayoutError(f"Windows of sizes {layout.sizes}: a GPU takes rows of up to {_LONGEST_ROW} elements.")
    if plan.family is ResizeFamily.NEAREST:
        return _nearest(plan, len(taps))
    return _tiled(plan, taps, plan.tiles_for(taps))


def _tiled(plan: ResizePlan, taps: Sequence[WindowTaps], tiles: ResizeTiles) -> KernelLaunch:
    """A block for each tile of each sample, and for each group of channels."""
    problem, layout = plan.problem, plan.problem.target.layout
    _, channels, height, width = layout.sizes
    made = problem.conversion
    grid = (-(-width // tiles.width), -(-height // tiles.height), plan.groups)
    run = tiles.width * (channels if plan.stores_pixels else 1)
    block = ParameterBlock()
    block.add(bytes(8), 8)
    block.add_table(problem.fill)
    affines = block.add_affines(made)
    order = block.add_order(made, 1, 32)
    for step in (layout.offset, *layout.strides):
        block.add_index(step, 64)
    for divisor in (*grid, run // tiles.length, channels):
        for word in divisor_words(divisor, 32):
            block.add_index(word, 32)
    for value in (height, width, tiles.height, tiles.width, *tiles.memory):
        block.add_index(value, 32)
    name = instantiation(
        "resize_tiles",
        (_reader(plan, made.source), conversion_argument(made)),
        "ResizePolicy",
        arithmetic=f"sg::ResizeArithmetic::{taps[0].arithmetic.replace('-', '_')}",
        columns_first=taps[0].columns_first,
        pixels=plan.stores_pixels,
        store_bytes=tiles.length * made.target.itemsize,
        affines=affines,
        order=order,
    )
    return KernelLaunch(
        sources=("resize_tiles.cu",),
        name=name,
        grid=grid_of(grid[0] * grid[1] * grid[2] * len(taps)),
        block=(policy().resize.threads, 1, 1),
        shared_bytes=tiles.shared_bytes,
        parameters=block.parameters,
        tables=block.tables,
    )


def _nearest(plan: ResizePlan, samples: int) -> KernelLaunch:
    """A thread for each vector of the target."""
    problem, layout = plan.problem, plan.problem.target.layout
    _, channels, height, width = layout.sizes
    made = problem.conversion
    planes, run = (1, width * channels) if plan.stores_pixels else (channels, width)
    vectors = -(-run * made.target.itemsize // plan.store.nbytes)
    items = samples * planes * height * vectors
    bits = index_bits(items)
    block = ParameterBlock()
    block.add(bytes(8), 8)
    block.add_table(problem.fill)
    affines = block.add_affines(made)
    order = block.add_order(made, 1, 32)
    for step in (layout.offset, *layout.strides, items):
        block.add_index(step, 64)
    for divisor in (vectors, height, planes):
        for word in divisor_words(divisor, bits):
            block.add_index(word, bits)
    for word in (*divisor_words(channels, 32), width):
        block.add_index(word, 32)
    name = instantiation(
        "resize_nearest",
        (conversion_argument(made), index_argument(bits)),
        "ResizeNearestPolicy",
        pixels=plan.stores_pixels,
        store_bytes=plan.store.nbytes,
        affines=affines,
        order=order,
    )
    return KernelLaunch(
        sources=("resize_nearest.cu",),
        name=name,
        grid=grid_of(-(-items // policy().resize.threads)),
        block=(policy().resize.threads, 1, 1),
        shared_bytes=0,
        parameters=block.parameters,
        tables=block.tables,
    )


def _reader(plan: ResizePlan, element: ElementType) -> str:
    """The type that reads the source."""
    kind = "ElementReader" if plan.family is ResizeFamily.ELEMENTS else "RunReader"
    return f"sg::{kind}<sg::{element}, {plan.count}>"


def resize_records(samples: Sequence[ResizeSample], itemsize: int) -> bytes:
    """The records of a launch's samples, and behind them their taps, each geometry's once."""
    tables: list[bytes] = []
    places: dict[int, tuple[int, int, int, int, int, bool]] = {}
    end = len(samples) * _SAMPLE.size

    def axis(taps: AxisTaps, arithmetic: Arithmetic) -> tuple[int, int, int, int, int, bool]:
        nonlocal end
        found = places.get(id(taps))
        if found is None:
            spans, weights = _table(taps, arithmetic)
            tables.extend((spans, weights))
            most = 1 if taps.copies else taps.most
            found = places[id(taps)] = (end, end + len(spans), most, taps.first, taps.stop, taps.copies)
            end += len(spans) + len(weights)
        return found

    records = []
    for sample in samples:
        layout, taps = sample.window.layout, sample.taps
        low, high = sample.address, sample.address + layout.span * itemsize
        first = low + (layout.offset - layout.first_offset) * itemsize
        rows, columns = axis(taps.rows, taps.arithmetic), axis(taps.columns, taps.arithmetic)
        place = (*sample.place, sample.number, taps.factor)
        records.append(_SAMPLE.pack(first, low, high, *layout.strides, *rows, *columns, *place))
    return b"".join((*records, *tables))


@lru_cache(maxsize=8192)
def _table(taps: AxisTaps, arithmetic: Arithmetic) -> tuple[bytes, bytes]:
    """The spans and the weights of one axis, each whole multiples of 8 bytes."""
    spans = np.stack([taps.starts, taps.counts], axis=1).astype("<i4").tobytes()
    weights = np.full((taps.count, 1), _COPIED[arithmetic]) if taps.copies else taps.weights
    packed = weights.astype(np.dtype(arithmetic.spec.weights).newbyteorder("<")).tobytes()
    return spans, packed + bytes(-len(packed) % _SPAN_BYTES)
