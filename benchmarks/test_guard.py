"""What keeps fast paths fast without a clock, and two looks at one that no noise can mislead."""

from __future__ import annotations

import pytest
from kernel_facts import changed_code, changed_model, changed_plans, machine_code, recorded

from benchmarks.suite.measure import Bench
from benchmarks.suite.peers.numpy_peer import NumpyPeer
from benchmarks.suite.workloads import workloads_named
from stridedgpu.devices.cpu.policy import policy

HINT = "read the difference; if it is meant: python benchmarks/kernel_facts.py --write"

TIMES_AS_FAST = {
    # Measured at 4 to 20 times on two busy cores.
    "train": 2.0,
    "video": 2.0,
    "features-to-NCHW": 1.5,
    "volume-to-NDHWC": 1.5,
    "transpose-1B": 3.0,
    "transpose-4B": 1.5,
}


def test_plans_and_launches_are_those_recorded():
    changed = changed_plans(recorded())
    assert not changed, "\n".join([*changed, HINT])


@pytest.mark.slow
def test_machine_code_is_as_long_as_recorded():
    if machine_code.why_unavailable():
        pytest.skip(machine_code.why_unavailable())
    changed = changed_code(recorded())
    assert not changed, "\n".join([*changed, HINT])


@pytest.mark.slow
def test_machine_code_asks_of_a_gpu_what_is_recorded():
    if machine_code.why_unavailable():
        pytest.skip(machine_code.why_unavailable())
    changed = changed_model(recorded())
    assert not changed, "\n".join([*changed, HINT])


@pytest.mark.slow
@pytest.mark.skipif(policy().native_level is None, reason="there are no native loops")
@pytest.mark.parametrize("name, times", TIMES_AS_FAST.items())
def test_faster_than_numpy_in_the_same_run(name, times):
    (workload,) = workloads_named((name,))
    record = Bench("cpu", [NumpyPeer()], "quick", seconds=1.0).record(workload)
    assert record.ratio > times, f"{record.seconds} s, numpy {record.peers['numpy']} s"
