"""The CPU's policy: thresholds that follow the caches of the machine, and others for the length of a block."""

from __future__ import annotations

import pytest

from stridedgpu.devices.cpu import cache_size, policy as module, vendor
from stridedgpu.devices.cpu.policy import GatherPolicy, IndexCheckPolicy, Policy, RelayoutPolicy, policy, using

MB = 1 << 20


@pytest.mark.parametrize("amd", [False, True], ids=["Intel", "AMD"])
@pytest.mark.parametrize("cache, share", [(8 * MB, 0.25), (32 * MB, 1.0), (256 * MB, 1.0)], ids=str)
def test_a_smaller_cache_is_written_past_sooner(monkeypatch, cache, share, amd):
    monkeypatch.setattr(module, "is_amd", lambda: amd)
    monkeypatch.setattr(module, "last_level_cache_bytes", lambda: cache)
    made = module._of_this_machine()
    assert made.relayout == RelayoutPolicy()._replace(
        streamed_bytes=int(24 * MB * share),
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
        streamed_short_row_bytes=128 if amd else 256,
        long_backward_row_bytes=1024 if amd else 8192,
        long_pixels_bytes=int((24 if amd else 8) * MB * share),
    )
    streamed = 16 * MB if amd else 4 * MB
    assert made.gather == GatherPolicy()._replace(streamed_bytes=int(streamed * share), hardware=not amd)
    assert made.index_check == IndexCheckPolicy()._replace(
        crowded_bytes=range(int(20 * MB * share), int(32 * MB * share)),
        narrowed_bytes=192 * 1024 if amd else 1 << 62,
    )


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
