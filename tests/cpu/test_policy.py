"""The CPU's policy: thresholds that follow the caches of the machine, and others for the length of a block."""

from __future__ import annotations

import pytest
from harness.compiled_loops import CLASSES, policy_with

import stridedgpu as sg
from stridedgpu.devices.cpu import thread_count
from stridedgpu.devices.cpu.compiled.relayout import walk_of
from stridedgpu.devices.cpu.policy import GatherPolicy, IndexCheckPolicy, Policy, RelayoutPolicy, policy, using
from stridedgpu.devices.cpu.target import Target

MB = 1 << 20

OF_THE_LAST_CACHE = {
    "relayout": (
        "streamed_bytes",
        "streamed_tiles_bytes",
        "streamed_crowds_bytes",
        "blocks_bytes",
        "ordered_bytes",
        "cached_blocks_bytes",
        "long_pixels_bytes",
    ),
    "gather": ("streamed_bytes",),
    "index_check": ("crowded_bytes",),
}


@pytest.mark.parametrize("cores", [1, 2, 64])
@pytest.mark.parametrize("cache, share", [(8 * MB, 0.25), (32 * MB, 1.0), (256 * MB, 1.0)], ids=str)
def test_a_smaller_cache_is_written_past_sooner(cache, share, cores):
    """Limits of the last-level cache shrink with it, and nothing else follows the caches, the cores or the features."""
    measured = Policy.of(Target.stated("x86-64-v3", last_level_bytes=32 * MB))
    for target in CLASSES.values():
        made = Policy.of(target._replace(cores=cores, last_level_bytes=cache))
        for section in made._fields[1:]:
            expected = getattr(measured, section)
            names = OF_THE_LAST_CACHE.get(section, ())
            shrunk = {name: scaled(getattr(expected, name), share) for name in names}
            assert getattr(made, section) == expected._replace(**shrunk)


def scaled(limit, share):
    return (
        range(*(int(end * share) for end in (limit.start, limit.stop)))
        if isinstance(limit, range)
        else int(limit * share)
    )


@pytest.mark.parametrize(
    "written, shared, in_order, least",
    [
        (100, False, True, 26), (50, False, True, 13), (20, False, True, 10), (100, False, False, 13),
        (100, True, True, 54), (50, True, True, 27), (10, True, True, 10), (50, True, False, 13.5),
    ],
)  # fmt: skip
def test_what_is_read_alone_and_out_of_order_leaves_the_caches_sooner(written, shared, in_order, least):
    limits = RelayoutPolicy()._replace(
        streamed_bytes=10_000, streamed_written=2.6, streamed_shared_written=5.4, streamed_out_of_order=0.5
    )
    case = {"shared": shared, "in_order": in_order}
    for nbytes, streams in ((round(1000 * least), True), (round(1000 * least) - 100, False)):
        assert limits.streams(nbytes, nbytes * written // 100, **case) == streams
    assert limits._replace(streamed_bytes=0).streams(0, 0, **case)
    assert not limits._replace(streamed_bytes=1 << 40).streams(nbytes, nbytes, **case)


@pytest.mark.parametrize(
    "step, streams", [((1, 1), False), ((1, -1), True), ((2, 2), True)], ids=["all", "back", "gaps"]
)
def test_rows_that_are_not_read_in_order_leave_the_caches_sooner(step, streams):
    down, along = step
    source = sg.empty((1024 * down, 1024 * abs(along)), "float32")[::down, ::along]
    problem = sg.plan_relayout(source, sg.empty(source.sizes, "float32")).plan.problem
    limits = {"streamed_bytes": 4 * MB, "streamed_written": 8, "streamed_shared_written": 8, "streamed_out_of_order": 0}
    with using(Policy.of(CLASSES["AVX-512"])), policy_with(relayout=limits):
        assert walk_of(problem).kernel.streaming == streams


def test_a_plan_for_several_threads_writes_more_into_the_caches(monkeypatch):
    problem = sg.plan_relayout(sg.empty((1 << 20,), "float32"), sg.empty((1 << 20,), "float64")).plan.problem
    limits = {"streamed_bytes": 6 * MB, "streamed_written": 1, "streamed_shared_written": 4}
    walks = []
    for count in (1, 2, 1):
        monkeypatch.setattr(thread_count, "_chosen", count)
        with using(Policy.of(CLASSES["AVX2"])), policy_with(relayout=limits):
            walks.append(walk_of(problem))
            assert walks[-1].kernel.streaming == (count == 1)
    assert walks[0] == walks[2] != walks[1]


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
