"""The CPU's policy: thresholds that follow the caches of the machine, and others for the length of a block."""

from __future__ import annotations

import pytest
from harness.compiled_loops import needs_compiler, policy_with

import stridedgpu as sg
from stridedgpu.devices.cpu import cache_size, policy as module, thread_count, vendor
from stridedgpu.devices.cpu.policy import GatherPolicy, IndexCheckPolicy, Policy, RelayoutPolicy, policy, using

MB = 1 << 20


@pytest.mark.parametrize("amd", [False, True], ids=["Intel", "AMD"])
@pytest.mark.parametrize("cache, share", [(8 * MB, 0.25), (32 * MB, 1.0), (256 * MB, 1.0)], ids=str)
def test_a_smaller_cache_is_written_past_sooner(monkeypatch, cache, share, amd):
    monkeypatch.setattr(module, "is_amd", lambda: amd)
    monkeypatch.setattr(module, "last_level_cache_bytes", lambda: cache)
    made = module._of_this_machine()
    assert made.relayout == RelayoutPolicy()._replace(
        streamed_bytes=int((20 if amd else 24) * MB * share),
        streamed_written=2.6 if amd else 0,
        streamed_shared_written=5.4 if amd else 0,
        streamed_out_of_order=0.7 if amd else 1,
        streamed_tiles_bytes=int((14 if amd else 8) * MB * share),
        streamed_crowds_bytes=int(8 * MB * share),
        blocks_bytes=int(8 * MB * share),
        ordered_bytes=int((16 * MB if amd else 1 << 62) * share),
        ordered_ways_bytes=MB if amd else 1 << 62,
        paired_row_bytes=192 if amd else 0,
        cached_blocks_bytes=int((1 << 62 if amd else 8 * MB) * share),
        byte_squares=not amd,
        strips=amd,
        prefetched_targets_bytes=1 << 62 if amd else MB,
        short_rows_bytes=1 << 62 if amd else 16 * MB,
        step_bytes=256 if amd else 128,
        streamed_short_row_bytes=64 if amd else 256,
        long_backward_row_bytes=1024 if amd else 8192,
        long_pixels_bytes=int((24 if amd else 8) * MB * share),
    )
    streamed = 16 * MB if amd else 4 * MB
    assert made.gather == GatherPolicy()._replace(
        streamed_bytes=int(streamed * share), streamed_shared=3 if amd else 1, hardware=not amd
    )
    assert made.index_check == IndexCheckPolicy()._replace(
        crowded_bytes=range(int(20 * MB * share), int(32 * MB * share)),
        narrowed_bytes=192 * 1024 if amd else 1 << 62,
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


@needs_compiler
@pytest.mark.parametrize(
    "step, streams", [((1, 1), False), ((1, -1), True), ((2, 2), True)], ids=["all", "back", "gaps"]
)
def test_rows_that_are_not_read_in_order_leave_the_caches_sooner(step, streams):
    down, along = step
    source = sg.empty((1024 * down, 1024 * abs(along)), "float32")[::down, ::along]
    limits = {"streamed_bytes": 4 * MB, "streamed_written": 8, "streamed_shared_written": 8, "streamed_out_of_order": 0}
    with policy_with(relayout=limits):
        plan = sg.plan_relayout(source, sg.empty(source.sizes, "float32")).plan
        assert plan.compiled.walks[0].kernel.streaming == streams


@needs_compiler
def test_a_plan_for_several_threads_writes_more_into_the_caches(monkeypatch):
    sides = sg.empty((1 << 20,), "float32"), sg.empty((1 << 20,), "float64")
    limits = {"streamed_bytes": 6 * MB, "streamed_written": 1, "streamed_shared_written": 4}
    plans = []
    for count in (1, 2, 1):
        monkeypatch.setattr(thread_count, "_chosen", count)
        with policy_with(relayout=limits):
            plans.append(sg.plan_relayout(*sides).plan)
            assert plans[-1].compiled.walks[0].kernel.streaming == (count == 1)
    assert plans[0] == plans[2] != plans[1]


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


@pytest.mark.parametrize(
    "said, expected",
    [
        (b"processor\t: 0\nvendor_id\t: AuthenticAMD\n", True),
        (b"processor\t: 0\nvendor_id\t: GenuineIntel\n", False),
        (b"processor\t: 0\nBogoMIPS\t: 243.75\n", False),
        (b"\xff\xfe", False),
        (None, False),
    ],
    ids=["AMD", "Intel", "Arm", "no text", "no file"],
)
def test_linux_says_who_made_the_processor(monkeypatch, tmp_path, said, expected):
    if said is not None:
        (tmp_path / "cpuinfo").write_bytes(said)
    monkeypatch.setattr(vendor, "_PROCESSORS", str(tmp_path / "cpuinfo"))
    assert vendor.is_amd.__wrapped__() is expected


@pytest.mark.parametrize(
    "sizes, expected",
    [({"index0": "48K", "index2": "2048K", "index3": "107520K"}, 107520 << 10), ({"index3": "32M"}, 32 * MB), ({}, 0)],
    ids=["three levels", "megabytes", "none"],
)
def test_linux_says_how_large_the_last_cache_is(monkeypatch, tmp_path, sizes, expected):
    for name, said in sizes.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "size").write_text(f"{said}\n")
    monkeypatch.setattr(cache_size, "_CACHES", tmp_path)
    assert cache_size._said_by_linux() == expected


def test_where_the_system_says_nothing_the_usual_cache_is_assumed(monkeypatch):
    monkeypatch.setattr(cache_size, "_said_by_linux", lambda: 0)
    monkeypatch.setattr(cache_size, "_said_by_posix", lambda: 0)
    assert cache_size.last_level_cache_bytes.__wrapped__() == 32 * MB


def test_another_policy_holds_for_a_block():
    before = policy()
    other = Policy()._replace(gather=GatherPolicy()._replace(items=3))
    with pytest.raises(ZeroDivisionError), using(other):
        assert policy() is other
        raise ZeroDivisionError
    assert policy() is before
