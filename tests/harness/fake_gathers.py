"""The stand-in's kernels for gathers, crops and index checks: the CPU's loops over the launch's parameters."""

from __future__ import annotations

import ctypes
import importlib
import struct
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from harness.fake_gpus import forget

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.numpy_loops.crops import run_crops
from stridedgpu.devices.cpu.numpy_loops.gather import NumpyGather, check_indices
from stridedgpu.devices.cuda import plan as cuda_plan
from stridedgpu.devices.cuda.gather import REPORT, take_launch
from stridedgpu.problems.crop_windows import Crop, CropProblem
from stridedgpu.problems.gather_problem import GatherProblem
from stridedgpu.problems.index_rule import IndexRule
from stridedgpu.values.layout import Layout

REACH = 1 << 40


def memory(address):
    return Buffer(address, REACH, owner=None).bytes


def found_in(rule, index_address):
    """The first wrong index, as a report has it: found by the CPU's own search."""
    rule = replace(rule, own_pitches=(), axis_pitches=())  # whether they are distinct is another kernel's work
    try:
        check_indices(rule, memory(index_address))
    except IndexError as error:
        at, value = str(error).split(" is out")[0].removeprefix("indices").split(" = ")
        position = [int(place) for place in at.strip("[]").split(",")] if at else []
        sizes = rule.index.layout.sizes
        return int(np.ravel_multi_index(position, sizes)) if sizes else 0, int(value) % 2**64
    return None


def report_first(report, launch, found):
    """What `record` in gather_indices.cuh does."""
    if found is None:
        return
    number, value = found
    precedence = ~(launch >> 16 << 40 | number) % 2**56
    said = (launch % 2**16).to_bytes(2, "little") + value.to_bytes(8, "little")
    words = REPORT.unpack(ctypes.string_at(report, REPORT.size))
    largest = [max(word, precedence << 8 | byte) for word, byte in zip(words, said, strict=True)]
    ctypes.memmove(report, REPORT.pack(*largest), REPORT.size)


def run_take(block):
    report, taken = struct.unpack("<QQ", ctypes.string_at(block, 16))
    ctypes.memmove(taken, report, REPORT.size)
    ctypes.memset(report, 0, REPORT.size)


def run_gather(plan, block):
    source, target, index, report, launch = struct.unpack("<QQQQI", ctypes.string_at(block, 36))
    problem = plan.problem
    axes = tuple((entry.axis, entry.size) for entry in problem.indexed_axes)
    found = found_in(IndexRule(problem.index, axes, len(axes) > 1), index)
    if problem.mode == "deferred" and found is not None:
        report_first(report, launch, found)
        return
    if problem.mode == "raise" and report and any(ctypes.string_at(report, REPORT.size)):
        return
    dense, indexed = (source, target) if problem.scatters else (target, source)
    NumpyGather(problem)(memory(dense), memory(indexed), memory(index))


def run_check(rule, block):
    index, report = struct.unpack("<QQ", ctypes.string_at(block, 16))
    report_first(report, 0, found_in(rule, index))


def run_distinct(rule, block):
    index, report = struct.unpack("<QQ", ctypes.string_at(block, 16))
    try:
        check_indices(rule, memory(index))
    except IndexError:
        report_first(report, 0, (0, 0))


def run_windows(plan, block):
    problem = plan.problem
    records, target = struct.unpack("<QQ", ctypes.string_at(block, 16))
    crops, sources = [], []
    for n in range(problem.target.layout.sizes[0]):
        address, first, end, *strides, top, bottom, left, right, flip = struct.unpack(
            "<QQQqqqIIIIQ8x", ctypes.string_at(records + 80 * n, 80)
        )
        itemsize = problem.conversion.source.itemsize
        # The part of the image that the window shows, as an image of its own.
        layout = Layout((len(problem.fill) // itemsize, bottom - top, right - left), strides)
        lowest = layout.first_offset
        start = address + (top * strides[1] + left * strides[2] + lowest) * itemsize
        assert first <= start
        assert start + layout.span * itemsize <= end
        crops.append(Crop(layout.shifted(-lowest), (-top, -left), bool(flip)))
        sources.append((Buffer(start, REACH, owner=None), 0))
    run_crops(problem, crops, sources, (Buffer(target, REACH, owner=None), 0))


@pytest.fixture
def device(gpus, monkeypatch):
    """The stand-in with kernels for gathers."""
    checks = importlib.import_module("stridedgpu.devices.cuda.runtime.index_checks")

    def remembering(planner, run, first=16):
        def made(value, *rest):
            launch = planner(value, *rest)
            gpus.runs_as(launch, partial(run, value), first)
            return launch

        return made

    gpus.runs_as(take_launch(), run_take)
    planners = dict(cuda_plan._PLANNERS)
    for problem, run, first in ((GatherProblem, run_gather, 40), (CropProblem, run_windows, 16)):
        choose, lay_out = planners[problem]
        planners[problem] = (choose, remembering(lay_out, run, first))
    monkeypatch.setattr(cuda_plan, "_PLANNERS", planners)
    for name, run in (("check_launch", run_check), ("distinct_launch", run_distinct)):
        monkeypatch.setattr(checks, name, remembering(getattr(checks, name), run))
    forget()
    yield gpus
    forget()
