"""Every workload, by the library and by each peer that is installed.

pytest benchmarks/test_workloads.py --benchmark-only        through pytest-benchmark, in the CPU's sizes
pytest benchmarks/test_workloads.py --benchmark-disable     once each in small sizes: that they agree, to the bit
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import stridedgpu as sg
from benchmarks.suite.measure import check_result, our_result
from benchmarks.suite.peers.peer import CannotDoError
from benchmarks.suite.peers.registry import PEERS, installed_peers
from benchmarks.suite.records import OURS
from benchmarks.suite.work import make_work, our_call
from benchmarks.suite.workloads import CURVES, WORKLOADS, curve_of, workloads_named

DEVICES = [device.name for device in sg.devices() if device.available]
CURVED = [curve_of(workload, 1 << power) for workload in workloads_named(CURVES) for power in (12, 13, 17)]


@functools.cache
def peers_on(device):
    found, absent = installed_peers(device)
    return {peer.name: peer for peer in found}, absent


def scale_of(benchmark, device):
    if benchmark.disabled:
        return "test"
    return "cpu" if device == "cpu" else "gpu"


def timed(benchmark, call, device):
    def whole():
        made = call()
        sg.synchronize(device)
        return made

    return benchmark(whole)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_ours(benchmark, workload, device):
    work = make_work(workload, scale_of(benchmark, device), device)
    benchmark.group = f"{workload.name} on {device}"
    made = timed(benchmark, our_call(work), device)
    assert check_result(our_result(work, made), work.expected()) == "equal"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("peer", [name for name in PEERS if name != OURS])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
# PyTorch, JAX and their dependencies warn of their own matters.
@pytest.mark.filterwarnings("ignore")
def test_peer(benchmark, workload, peer, device):
    found, absent = peers_on(device)
    if peer not in found:
        pytest.skip(f"{peer} on {device}: {absent[peer]}")
    work = make_work(workload, scale_of(benchmark, device), device)
    work.target[...] = 0
    try:
        call = found[peer].call(work)
    except CannotDoError as reason:
        pytest.skip(f"{peer} {reason}")
    benchmark.group = f"{workload.name} on {device}"
    made = timed(benchmark, call, device)
    theirs = work.target.numpy() if made is None else found[peer].host(work, made)
    assert check_result(theirs, work.expected()) in {"equal", "close"}


@pytest.mark.parametrize("workload", CURVED, ids=lambda workload: f"{workload.name}-{workload.sizes['test']}")
def test_points_of_curves(workload):
    work = make_work(workload, "test", "cpu")
    made = our_call(work)()
    assert np.array_equal(our_result(work, made), work.expected())
