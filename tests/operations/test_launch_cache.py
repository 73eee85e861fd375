"""The one cache of launches: equal problems share a launch, and settings of the process have launches of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from harness.native_loops import policy_with

import stridedgpu as sg
from stridedgpu.devices.cpu import thread_count
from stridedgpu.devices.cpu.device import CpuDevice
from stridedgpu.devices.cuda import policy as cuda_policy
from stridedgpu.devices.launch_cache import forget_launches
from stridedgpu.devices.selection import CPU
from stridedgpu.problems.channel_matrix_problem import moving_problem
from stridedgpu.values.conversion import conversion

OTHER_CUDA = replace(cuda_policy.Policy(), transpose=replace(cuda_policy.Policy().transpose, threads=128))
SIDES = sg.zeros((3, 4, 5), "uint8", device="cpu"), sg.zeros((3, 4, 5), "float32", device="cpu")


def problem():
    """A problem, made anew."""
    source, target = (side.operand for side in SIDES)
    return moving_problem.__wrapped__(source.spec, target.spec, conversion(source.element, target.element), None)


def test_equal_problems_share_a_launch():
    assert CPU.launch_for(problem()) is CPU.launch_for(problem())


def other_settings(name, monkeypatch):
    """What the launch is under another setting."""
    if name == "threads":
        with monkeypatch.context() as patch:
            patch.setattr(thread_count.SHARED, "several", not thread_count.SHARED.several)
            return CPU.launch_for(problem())
    if name == "policy":
        with policy_with(sharing={"spins": 3}):
            return CPU.launch_for(problem())
    if name == "policy of CUDA":
        with cuda_policy.using(OTHER_CUDA):
            return CPU.launch_for(problem())
    sg.set_verbose()
    try:
        return CPU.launch_for(problem())
    finally:
        sg.set_verbose(False)


@pytest.mark.parametrize("name", ["threads", "policy", "policy of CUDA", "verbose lines"])
def test_other_settings_have_a_launch_of_their_own(name, monkeypatch):
    before = CPU.launch_for(problem())
    assert other_settings(name, monkeypatch) is not before
    assert CPU.launch_for(problem()) is before


def test_a_plan_for_cuda_obeys_a_policy_at_once():
    data = sg.zeros((64, 64), "uint8", device="cpu")

    def launch():
        return sg.plan_relayout(
            data, sg.empty((64, 64), "uint8", device="cpu").permute((1, 0)), device="cuda"
        ).plan.launch

    before = launch()
    with cuda_policy.using(OTHER_CUDA):
        assert launch().block == (128, 1, 1) != before.block
    assert launch() == before


def operations():
    """Operations that remember launches by their own arguments, each with the names in its verbose lines."""
    data, out = sg.zeros((4, 3), "uint8", device="cpu"), sg.empty((4, 3), "uint8", device="cpu")
    indices, tuples = sg.asarray([3, 2, 1, 0]), sg.asarray([[3], [2], [1], [0]])
    batch = sg.zeros((1, 3, 4, 5), "uint8", device="cpu")
    return {
        "relayout": (lambda: sg.relayout(data, out=out), ["relayout"]),
        "gather": (lambda: sg.gather(data, indices, out=out), ["gather"]),
        "scatter": (lambda: sg.scatter_nd(data, tuples, data, out=out), ["relayout", "scatter"]),
        "scatter into the data": (lambda: sg.scatter_nd(out, tuples, data, out=out), ["scatter"]),
        "crops": (lambda: sg.gather_crops(batch, [[0, 0]], (2, 2)), ["crops"]),
    }


@pytest.mark.parametrize("name", operations())
def test_an_operation_that_remembers_its_launches_obeys_a_setting_at_once(name, capsys):
    call, lines = operations()[name]
    call()
    for is_on in (True, False):
        sg.set_verbose(is_on)
        try:
            call()
        finally:
            sg.set_verbose(False)
        printed = capsys.readouterr().err.splitlines()
        assert [line.split(",")[2] for line in printed] == (lines if is_on else [])


@pytest.mark.parametrize("name", operations())
def test_forgotten_launches_are_prepared_anew_by_every_operation(name, monkeypatch):
    call, _ = operations()[name]
    call()
    prepared, prepare = [], CpuDevice.prepare
    monkeypatch.setattr(CpuDevice, "prepare", lambda self, plan: prepared.append(plan) or prepare(self, plan))
    call()
    assert not prepared
    forget_launches()
    call()
    assert prepared
