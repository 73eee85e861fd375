"""The stand-in's kernels for resizes: the CPU's loops over what a launch's records and tables say."""

from __future__ import annotations

import ctypes
import dataclasses
import importlib
import struct
from functools import partial

import numpy as np
import pytest
from harness.fake_gpus import forget

from stridedgpu.devices.cpu.numpy_loops.frames import colours_of
from stridedgpu.devices.cpu.numpy_loops.resize import resize_windows
from stridedgpu.devices.cuda import resize
from stridedgpu.problems.resize_problem import ResizeProblem, ResizeWindow
from stridedgpu.problems.resize_taps import AxisTaps, WindowTaps
from stridedgpu.values.colour_matrix import ColourMatrix
from stridedgpu.values.layout import Layout

from .fake_gathers import memory

RECORD = struct.Struct("<QQQqqq IIIiiI IIIiiI iiii IfI 4x")
FRAME = struct.Struct("<3Q 3q 3q 5i 10i 4x")
FIELDS = dataclasses.fields(ResizeProblem)


@dataclasses.dataclass(frozen=True)
class Decoded(ResizeProblem):
    """A problem whose taps are those of a launch's tables; a window's box names its record."""

    records: tuple[WindowTaps, ...] = ()

    def __hash__(self):
        return id(self)

    def taps(self, window):
        return self.records[int(window.box[0])]


def axis_of(records, count, weight, spans_at, weights_at, taps, first, stop, copies):
    """The taps of one axis of `count` pixels."""
    spans = np.frombuffer(ctypes.string_at(records + spans_at, 8 * count), "<i4").reshape(count, 2)
    weights = np.frombuffer(ctypes.string_at(records + weights_at, weight.itemsize * taps * count), weight)
    return AxisTaps(spans[:, 0], spans[:, 1], weights.reshape(count, taps), first, stop, bool(copies))


def run_resizes(choice, taps, block):
    """Each sample as a batch of its own, where the target's window lies."""
    records, target, source = struct.unpack("<QQQ", ctypes.string_at(block, 24))
    assert source == 0, "samples say where their images are"
    problem, weight = choice.problem, np.dtype(taps[0].arithmetic.spec.weights)
    spec, values = problem.target, {field.name: getattr(problem, field.name) for field in FIELDS}
    for number, one in enumerate(taps):
        record = RECORD.unpack(ctypes.string_at(records + RECORD.size * number, RECORD.size))
        address, strides, rows, columns = record[0], record[3:6], record[6:12], record[12:18]
        top, left, height, width, place, factor, frame_at = record[18:]
        decoded = WindowTaps(
            one.arithmetic,
            axis_of(records, height, weight, *rows),
            axis_of(records, width, weight, *columns),
            one.columns_first,
            factor,
        )
        frame = None
        if problem.reads_frames:
            element = np.dtype(problem.conversion.source.name)
            frame = colours_at(ctypes.string_at(records + frame_at, FRAME.size), rows[4], columns[4], element)
            address, strides = frame.ctypes.data, (1, 3 * columns[4], 3)
        layout = Layout((problem.channels, rows[4], columns[4]), strides)
        lowest = layout.first_offset
        window = ResizeWindow(layout.shifted(-lowest), (0.0, 0.0, 0.0, 0.0), (top, left, height, width))
        alone = spec.layout.sliced((slice(place, place + 1),))
        first = alone.first_offset
        values["target"] = dataclasses.replace(spec, layout=alone.shifted(-first))
        read = memory(address + lowest * problem.conversion.source.itemsize)
        resize_windows(
            Decoded(**values, records=(decoded,)), [window], [read], memory(target + first * spec.element.itemsize)
        )


def colours_at(record, height, width, element):
    """The first rows and columns of the frame that a record describes, as RGB pixels (H, W, 3)."""
    addresses, (*strides, shift, chroma_height, chroma_width, whole_width, kind), matrix = (
        (numbers := FRAME.unpack(record))[:3],
        numbers[3:14],
        numbers[14:],
    )
    across = int(kind < 2)
    assert kind == 3 or chroma_width == -(-whole_width >> across)
    rows, columns = np.arange(height), np.arange(width)

    def samples(number, row, column):
        step = element.itemsize
        places = addresses[number] + (row * strides[number] + column * strides[3 + number]) * step
        low, high = int(places.min()), int(places.max()) + step
        held = np.frombuffer((ctypes.c_char * (high - low)).from_address(low), np.uint8)
        picked = held[(places - low)[..., None] + np.arange(step)]
        return np.ascontiguousarray(picked).view(element)[..., 0].astype(np.int64)

    def chroma(number):
        own, pair = rows[:, None] >> shift, columns >> across
        if kind != 1:
            return samples(number, own, pair)
        beside = np.clip(own + np.where(rows[:, None] % 2, 1, -1), 0, chroma_height - 1)

        def sums(column):
            near = samples(number, own, column)
            return 3 * near + samples(number, beside, column) if shift else 4 * near

        left, right = sums(pair), sums(np.minimum(pair + 1, chroma_width - 1))
        return np.where(columns % 2, left + right + 4 >> 3, left + 2 >> 2)

    if kind == 3:
        scaled = [samples(number, rows[:, None], columns) * matrix[3] + 2**19 >> 20 for number in range(3)]
        return np.ascontiguousarray(np.minimum(np.stack(scaled, -1), np.iinfo(element).max).astype(element))
    constants = ColourMatrix(*matrix[:8], np.iinfo(element).max, *matrix[8:])
    luma = samples(0, rows[:, None], columns)
    return np.ascontiguousarray(np.stack(colours_of(luma, chroma(1), chroma(2), constants), -1))


@pytest.fixture
def resizing(device, monkeypatch):
    """The stand-in with kernels for gathers and resizes."""
    planner = resize.resize_launch

    def remembering(choice, taps):
        launch = planner(choice, taps)
        device.runs_as(launch, partial(run_resizes, choice, taps))
        return launch

    for module in (resize, importlib.import_module("stridedgpu.devices.cuda.plan")):
        monkeypatch.setattr(module, "resize_launch", remembering)
    forget()
    yield device
    forget()
