"""The stand-in's kernels for channel matrices and raw samples: the CPU's loops at the addresses of a launch."""

from __future__ import annotations

import ctypes
import struct
from functools import partial

import numpy as np
import pytest
from harness.fake_gpus import forget

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.numpy_loops.channel_matrix import mix_channels
from stridedgpu.devices.cpu.numpy_loops.raw import unpack_samples
from stridedgpu.devices.cuda import plan as cuda_plan
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem
from stridedgpu.problems.raw_problem import RawProblem


def memory_at(address, nbytes):
    """Memory of this process as a buffer."""
    held = np.frombuffer((ctypes.c_char * nbytes).from_address(address), np.uint8)
    return Buffer(address, nbytes, owner=held)


def run_matrix(problem, block):
    """Every pixel, where a parameter block says."""
    source, target = struct.unpack("<QQ", ctypes.string_at(block, 16))
    sides = []
    for address, spec in ((source, problem.source), (target, problem.target)):
        sides += [memory_at(address, spec.layout.span * spec.element.itemsize), 0]
    mix_channels(problem, *sides)


def run_raw(problem, block):
    """Every sample, where a parameter block says."""
    source, target = struct.unpack("<QQ", ctypes.string_at(block, 16))
    rows = (problem.target.layout.sizes[0] - 1) * problem.pitch + problem.groups * problem.samples.nbytes
    written = memory_at(target, 2 * problem.target.layout.span)
    unpack_samples(problem, memory_at(source, rows), 0, written, 0)


@pytest.fixture
def mixing(device, monkeypatch):
    """The stand-in with these kernels."""
    planners = dict(cuda_plan._PLANNERS)
    for problem, run in ((ChannelMatrixProblem, run_matrix), (RawProblem, run_raw)):
        choose, lay_out = planners[problem]

        def remembering(choice, gpu, lay_out=lay_out, run=run):
            launch = lay_out(choice, gpu)
            device.runs_as(launch, partial(run, choice.problem))
            return launch

        planners[problem] = (choose, remembering)
    monkeypatch.setattr(cuda_plan, "_PLANNERS", planners)
    forget()
    yield device
    forget()
