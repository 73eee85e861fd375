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

from stridedgpu.devices.cpu.numpy_loops.resize import resize_windows
from stridedgpu.devices.cuda.launches import resize
from stridedgpu.planning.resize_problem import ResizeProblem, ResizeWindow, WindowTaps
from stridedgpu.planning.resize_taps import AxisTaps
from stridedgpu.values.layout import Layout

from .fake_gathers import memory

RECORD = struct.Struct("<QQQqqq IIIiiI IIIiiI iiii If 8x")
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
    assert source == 0, "samples say where their pictures are"
    problem, weight = choice.problem, np.dtype(taps[0].arithmetic.spec.weights)
    spec, values = problem.target, {field.name: getattr(problem, field.name) for field in FIELDS}
    for number, one in enumerate(taps):
        record = RECORD.unpack(ctypes.string_at(records + RECORD.size * number, RECORD.size))
        address, strides, rows, columns = record[0], record[3:6], record[6:12], record[12:18]
        top, left, height, width, place, factor = record[18:]
        decoded = WindowTaps(
            one.arithmetic,
            axis_of(records, height, weight, *rows),
            axis_of(records, width, weight, *columns),
            one.columns_first,
            factor,
        )
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


@pytest.fixture
def resizing(device, monkeypatch):
    """The stand-in with kernels for gathers and resizes."""
    planner = resize.resize_launch

    def remembering(choice, taps):
        launch = planner(choice, taps)
        device.runs_as(launch, partial(run_resizes, choice, taps))
        return launch

    for module in (resize, importlib.import_module("stridedgpu.devices.cuda.runtime.launches")):
        monkeypatch.setattr(module, "resize_launch", remembering)
    forget()
    yield device
    forget()
