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

from stridedgpu.devices.cuda.planning.gpu import LONGEST_ROW, KernelLaunch, divisor_words, grid_of
from stridedgpu.devices.cuda.planning.resize import ResizeChoice, ResizeFamily
from stridedgpu.devices.cuda.planning.resize_tiles import ResizeTiles
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.interface import ResizeSource
from stridedgpu.planning.device_plan import index_bits
from stridedgpu.planning.resize_arithmetic import Arithmetic
from stridedgpu.planning.resize_problem import ResizeProblem, ResizeWindow, WindowTaps
from stridedgpu.planning.resize_taps import AxisTaps
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import LayoutError

from .frame_records import colours_record, frame_record
from .instantiation import instantiation
from .parameters import ParameterBlock, conversion_argument, index_argument

__all__ = ["ResizeSample", "resize_launch", "resize_records", "resize_samples", "window_launch"]

_SAMPLE: Final = struct.Struct("<3Q 3q 3I2iI 3I2iI 4i I f I 4x")
"""`sg::ResizeSample`, aligned to 16 bytes."""

_SPAN_BYTES: Final = 8
"""Of a `sg::TapSpan`, at whose multiples tables lie."""

_COPIED: Final = {Arithmetic.COPY: 1, Arithmetic.PILLOW_FIXED: 1 << 22, Arithmetic.PILLOW_DOUBLE: 1}
"""The weight of the one tap of an axis that has no pass: sums come out as they went in."""


@dataclass(frozen=True, slots=True)
class ResizeSample:
    """One image of a launch: window, taps, its source's lowest address, its number and place in the target.

    `frame` is its `sg::FrameRecord` if the problem reads frames; it then has the addresses, and `address` is not used.
    """

    window: ResizeWindow
    taps: WindowTaps
    address: int
    number: int
    place: tuple[int, int, int, int]
    frame: bytes = b""


def window_launch(choice: ResizeChoice) -> KernelLaunch | None:
    """The launch of a problem whose images share one window; None if every call states its windows."""
    window = choice.problem.window
    if window is None:
        return None
    return resize_launch(choice, [choice.problem.taps(window)] * choice.problem.target.layout.sizes[0])


def resize_launch(choice: ResizeChoice, taps: Sequence[WindowTaps]) -> KernelLaunch:
    """The kernel, grid and parameters for samples with these taps, all summed alike and in one order of passes.

    The choice is that for these taps. Raises `LayoutError` for a batch without elements.
    """
    layout = choice.problem.target.layout
    if layout.element_count == 0 or not taps:
        raise LayoutError(f"Windows of sizes {layout.sizes} have no elements; there is nothing to launch.")
    _, channels, height, width = layout.sizes
    if max(width * channels, height) > LONGEST_ROW:
        raise LayoutError(f"Windows of sizes {layout.sizes}: a GPU takes rows of up to {LONGEST_ROW} elements.")
    if choice.family is ResizeFamily.NEAREST:
        return _nearest(choice, len(taps))
    assert choice.tiles is not None, "the choice is that for these taps"
    return _tiled(choice, taps, choice.tiles)


def _tiled(choice: ResizeChoice, taps: Sequence[WindowTaps], tiles: ResizeTiles) -> KernelLaunch:
    """A block for each tile of each sample, and for each group of channels."""
    problem, layout = choice.problem, choice.problem.target.layout
    _, channels, height, width = layout.sizes
    made = problem.conversion
    grid = (-(-width // tiles.width), -(-height // tiles.height), choice.groups)
    run = tiles.width * (channels if choice.stores_pixels else 1)
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
        (_reader(choice, made.source), conversion_argument(made)),
        "ResizePolicy",
        arithmetic=f"sg::ResizeArithmetic::{taps[0].arithmetic.replace('-', '_')}",
        columns_first=taps[0].columns_first,
        pixels=choice.stores_pixels,
        premultiplies=problem.rule.premultiplies,
        store_bytes=tiles.length * made.target.itemsize,
        affines=affines,
        order=order,
    )
    return KernelLaunch(
        sources=("resize_tiles.cu",),
        name=name,
        grid=grid_of(grid[0] * grid[1] * grid[2] * len(taps)),
        block=(choice.limits.threads, 1, 1),
        shared_bytes=tiles.shared_bytes,
        parameters=block.parameters,
        tables=block.tables,
        tile=(tiles.height, tiles.width),
    )


def _nearest(choice: ResizeChoice, samples: int) -> KernelLaunch:
    """A thread for each vector of the target."""
    problem, layout = choice.problem, choice.problem.target.layout
    _, channels, height, width = layout.sizes
    made = problem.conversion
    planes, run = (1, width * channels) if choice.stores_pixels else (channels, width)
    vectors = -(-run * made.target.itemsize // choice.store.nbytes)
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
        pixels=choice.stores_pixels,
        frames=problem.reads_frames,
        store_bytes=choice.store.nbytes,
        affines=affines,
        order=order,
    )
    return KernelLaunch(
        sources=("resize_nearest.cu",),
        name=name,
        grid=grid_of(-(-items // choice.limits.threads)),
        block=(choice.limits.threads, 1, 1),
        shared_bytes=0,
        parameters=block.parameters,
        tables=block.tables,
    )


def _reader(choice: ResizeChoice, element: ElementType) -> str:
    """The type that reads the source."""
    if choice.family is ResizeFamily.FRAMES:
        return f"sg::FrameReader<sg::{element}>"
    kind = "ElementReader" if choice.family is ResizeFamily.ELEMENTS else "RunReader"
    return f"sg::{kind}<sg::{element}, {choice.count}>"


def resize_samples(
    problem: ResizeProblem, windows: Sequence[ResizeWindow], sources: Sequence[ResizeSource]
) -> list[list[ResizeSample]]:
    """The samples of each launch: those that are summed alike, in one order of passes.

    Raises `DeviceError` for a frame whose samples have no common step.
    """
    together: dict[tuple[Arithmetic, bool], list[ResizeSample]] = {}
    found = zip(windows, problem.taps_of(windows), sources, strict=True)
    for number, (window, taps, source) in enumerate(found):
        frame, address = b"", 0
        if isinstance(source, FrameOperand):
            frame = frame_record(source)
        else:
            buffer, start = source
            address = buffer.address + start
            if problem.reads_frames:
                frame = colours_record(window.layout, address, problem.conversion.source)
        sample = ResizeSample(window, taps, address, number, problem.visible(window), frame)
        together.setdefault((taps.arithmetic, taps.columns_first), []).append(sample)
    return list(together.values())


def resize_records(samples: Sequence[ResizeSample], itemsize: int) -> bytes:
    """The records of a launch's samples, and behind them their taps, each geometry's once, and their frames."""
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
        rows, columns = axis(taps.rows, taps.arithmetic), axis(taps.columns, taps.arithmetic)
        place = (*sample.place, sample.number, taps.factor)
        if sample.frame:
            records.append(_SAMPLE.pack(*(0,) * 6, *rows, *columns, *place, end))
            tables.append(sample.frame)
            end += len(sample.frame)
            continue
        low, high = sample.address, sample.address + layout.span * itemsize
        first = low + (layout.offset - layout.first_offset) * itemsize
        records.append(_SAMPLE.pack(first, low, high, *layout.strides, *rows, *columns, *place, 0))
    return b"".join((*records, *tables))


@lru_cache(maxsize=512)
def _table(taps: AxisTaps, arithmetic: Arithmetic) -> tuple[bytes, bytes]:
    """The spans and the weights of one axis, each whole multiples of 8 bytes."""
    spans = np.stack([taps.starts, taps.counts], axis=1).astype("<i4").tobytes()
    weights = np.full((taps.count, 1), _COPIED[arithmetic]) if taps.copies else taps.weights
    packed = weights.astype(np.dtype(arithmetic.spec.weights).newbyteorder("<")).tobytes()
    return spans, packed + bytes(-len(packed) % _SPAN_BYTES)
