"""The one cache of launches: equal problems share a launch, and settings of the process have launches of their own."""

from __future__ import annotations

import pytest
from harness.compiled_loops import policy_with

import stridedgpu as sg
from stridedgpu.devices.cpu import thread_count
from stridedgpu.devices.selection import CPU
from stridedgpu.problems.channel_matrix_problem import moving_problem
from stridedgpu.values.conversion import conversion

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
        with policy_with(promotion={"calls": 3}):
            return CPU.launch_for(problem())
    sg.set_verbose()
    try:
        return CPU.launch_for(problem())
    finally:
        sg.set_verbose(False)


@pytest.mark.parametrize("name", ["threads", "policy", "verbose lines"])
def test_other_settings_have_a_launch_of_their_own(name, monkeypatch):
    before = CPU.launch_for(problem())
    assert other_settings(name, monkeypatch) is not before
    assert CPU.launch_for(problem()) is before
