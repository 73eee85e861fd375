"""The stand-in's kernel for frames: the CPU's loops over the planes that a launch's parameters name."""

from __future__ import annotations

import ctypes
import struct
from functools import partial

import numpy as np
import pytest
from harness.fake_gpus import forget

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.numpy_loops.frames import frame_loops, write_samples
from stridedgpu.devices.cuda import plan as cuda_plan
from stridedgpu.devices.cuda.frames import FramePixelsChoice
from stridedgpu.devices.operand import Operand
from stridedgpu.problems.frame_problem import FrameProblem, SamplesProblem
from stridedgpu.values.layout import Layout


def run_frames(choice, block):
    """The window whose frame, origin and target a parameter block says."""
    luma, target, *chroma, top, left = struct.unpack("<QQQQII", ctypes.string_at(block, 40))
    problem, samples = choice.problem, choice.problem.samples
    spec = problem.target
    begins = dict(enumerate((luma, *chroma)))
    if isinstance(choice, FramePixelsChoice):  # addresses of each kind's first sample, not of the planes
        begins = {}
        for kind, address in zip(samples.channels, (luma, *chroma), strict=False):
            inner = problem.plane_strides[kind.plane][-1]
            begins.setdefault(kind.plane, address - kind.first * inner * samples.element.itemsize)
    planes = [
        operand_at(begins[number], Layout(samples.planes[number].sizes(problem.sizes), strides), samples.element)
        for number, strides in enumerate(problem.plane_strides)
    ]
    frame_loops(problem, planes, (top, left), operand_at(target, spec.layout, spec.element))


def run_encode(problem, block):
    """The frame whose colours and samples a parameter block says."""
    red, luma, *others = struct.unpack("<6Q", ctypes.string_at(block, 48))
    samples, element = problem.samples, problem.samples.element
    colours = [
        operand_at(address, Layout(layout.sizes, layout.strides), element)
        for address, layout in zip((red, *others[:2]), problem.colours, strict=True)
    ]
    begins = {}
    for kind, address in zip(samples.channels, (luma, *others[2:]), strict=False):
        inner = problem.plane_strides[kind.plane][-1]
        begins.setdefault(kind.plane, address - kind.first * inner * element.itemsize)
    planes = [
        operand_at(begins[number], Layout(samples.planes[number].sizes(problem.sizes), strides), element)
        for number, strides in enumerate(problem.plane_strides)
    ]
    write_samples(problem, colours, planes)


def operand_at(address, layout, element):
    """Memory of this process as an operand."""
    nbytes = (layout.first_offset + layout.span) * element.itemsize
    held = np.frombuffer((ctypes.c_char * nbytes).from_address(address), np.uint8)
    return Operand(Buffer(address, nbytes, owner=held), layout, element)


@pytest.fixture
def converting(device, monkeypatch):
    """The stand-in with a kernel for frames."""
    choose, lay_out = cuda_plan._PLANNERS[FrameProblem]
    choose_encode, lay_out_encode = cuda_plan._PLANNERS[SamplesProblem]

    def remembering(choice, gpu):
        launch = lay_out(choice, gpu)
        device.runs_as(launch, partial(run_frames, choice), first=40)
        return launch

    def remembering_encode(choice, gpu):
        launch = lay_out_encode(choice, gpu)
        device.runs_as(launch, partial(run_encode, choice.problem), first=48)
        return launch

    rows = {FrameProblem: (choose, remembering), SamplesProblem: (choose_encode, remembering_encode)}
    monkeypatch.setattr(cuda_plan, "_PLANNERS", {**cuda_plan._PLANNERS, **rows})
    forget()
    yield device
    forget()
