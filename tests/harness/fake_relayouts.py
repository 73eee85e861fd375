"""The stand-in's kernels for relayouts with their real launches: the CPU's loops over the two addresses."""

from __future__ import annotations

import ctypes
import struct
from functools import partial

import pytest
from harness.fake_gathers import memory
from harness.fake_gpus import forget

from stridedgpu.devices.cpu.numpy_loops.relayout import NumpyRelayout
from stridedgpu.devices.cuda import plan as cuda_plan
from stridedgpu.devices.cuda.relayout.families import relayout_launch as cuda_launch
from stridedgpu.problems.relayout_problem import RelayoutProblem


def run_relayout(problem, block):
    source, target = struct.unpack("<QQ", ctypes.string_at(block, 16))
    NumpyRelayout(problem)(memory(source), memory(target))


@pytest.fixture
def relaying(device, monkeypatch):
    """The stand-in with kernels for gathers and relayouts, launched as they are planned."""
    choose, _ = cuda_plan._PLANNERS[RelayoutProblem]

    def remembering(choice, gpu):
        launch = cuda_launch(choice, gpu)
        device.runs_as(launch, partial(run_relayout, choice.problem))
        return launch

    monkeypatch.setattr(cuda_plan, "_PLANNERS", {**cuda_plan._PLANNERS, RelayoutProblem: (choose, remembering)})
    forget()
    yield device
    forget()
