"""The CPU's policy: thresholds that follow the caches of the machine, and others for the length of a block."""

from __future__ import annotations

import pytest
from harness.native_loops import CLASSES, policy_with

import stridedgpu as sg
from stridedgpu.devices.cpu import thread_count
from stridedgpu.devices.cpu.native.relayout import plan_relayout
from stridedgpu.devices.cpu.policy import GatherPolicy, IndexCheckPolicy, Policy, RelayoutPolicy, policy, using
from stridedgpu.devices.cpu.target import Target

MB = 1 << 20

TARGETS = [
    pytest.param(target._replace(cores=cores, last_level_bytes=last), id=f"{name}, {cores}")
    for name, target in CLASSES.items()
    for cores, last in ((1, 8 * MB), (2, 32 * MB), (64, 256 * MB))
]


@pytest.mark.parametrize("target", TARGETS)
def test_thresholds_follow_the_sizes_of_the_caches_and_nothing_else(target):
    """A last-level cache of more than 32 MB is shared by more cores, and counts as one of 32."""
    made, last = Policy.of(target), min(target.last_level_bytes, 32 * MB)
    following = {
        "relayout": {"streamed_bytes": last * 5 // 8, "cached_bytes": last // 2},
    }
    plain = Policy(target)
    for section in made._fields[2:]:
        assert getattr(made, section) == getattr(plain, section)._replace(**following.get(section, {}))


def test_defaults_are_those_of_the_stated_processor():
    made = Policy.of(Target.stated("x86-64-v3"))
    assert (made.relayout, made.gather, made.index_check) == (RelayoutPolicy(), GatherPolicy(), IndexCheckPolicy())


@pytest.mark.parametrize(
    "step, streams", [((1, 1), False), ((1, -1), False), ((2, 2), True)], ids=["all", "back", "gaps"]
)
def test_gaps_of_rows_count_as_bytes_moved(monkeypatch, step, streams):
    monkeypatch.setattr(thread_count, "_chosen", 1)
    down, along = step
    source = sg.empty((1024 * down, 1024 * abs(along)), "float32")[::down, ::along]
    problem = sg.plan_relayout(source, sg.empty(source.sizes, "float32")).plan.problem
    with using(Policy.of(CLASSES["AVX-512"])), policy_with(relayout={"streamed_bytes": 10 * MB}):
        assert plan_relayout(problem).kernel.streaming == streams


def test_a_plan_for_several_threads_writes_more_into_the_caches(monkeypatch):
    problem = sg.plan_relayout(sg.empty((1 << 20,), "float32"), sg.empty((1 << 20,), "float64")).plan.problem
    limits = {"streamed_bytes": 8 * MB}
    calls = []
    for count in (1, 2, 1):
        monkeypatch.setattr(thread_count, "_chosen", count)
        with using(Policy.of(CLASSES["AVX2"])), policy_with(relayout=limits):
            calls.append(plan_relayout(problem))
            assert calls[-1].kernel.streaming == (count == 1)
    assert calls[0] == calls[2] != calls[1]


def test_what_threads_share_has_some_items():
    moves, gathers, checks = RelayoutPolicy(), GatherPolicy(), IndexCheckPolicy()
    least = moves.shared_bytes
    assert [moves.bytes_of_item(nbytes) for nbytes in (least - 1, least, MB, 4)] == [
        MB // 8,
        least // 8,
        MB // 8,
        MB // 8,
    ]
    least = gathers.shared_bytes
    assert [gathers.bytes_of_item(80_000, moved) for moved in (least - 1, least)] == [MB // 16, 10_000]
    assert gathers.bytes_of_item(MB, 2 * MB) == MB // 16
    least = checks.shared_bytes
    assert [checks.indices_of_item(80_000, nbytes) for nbytes in (least - 1, least)] == [MB // 64, 10_000]
    assert [checks.indices_of_item(count, least) for count in (1, MB)] == [2048, MB // 64]


def test_another_policy_holds_for_a_block():
    before = policy()
    other = before._replace(gather=GatherPolicy()._replace(items=3))
    with pytest.raises(ZeroDivisionError), using(other):
        assert policy() is other
        raise ZeroDivisionError
    assert policy() is before
