"""Allocations that Linux grants and cannot fill: they are refused before they are made, with what is left."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.devices.cpu import memory_left as module
from stridedgpu.devices.cpu.device import CpuDevice
from stridedgpu.devices.cpu.memory_left import memory_left

GIB = 1 << 30
MEMINFO = """MemTotal:       16777216 kB
MemFree:         1048576 kB
MemAvailable:    4194304 kB
Cached:          3145728 kB
SwapFree:        {swap} kB
AnonPages:       8388608 kB
Shmem:           1048576 kB
HugePages_Total:       0
Hugetlb:         1048576 kB
"""
V2 = "0::/user.slice/job\n"
V1 = "9:name=systemd:/\n4:cpu,memory:/docker/1f\n0::/\n"


def machine(root, groups=None, swap=0, **files):
    """The files of a machine of 16 GiB, 10 of which processes hold."""
    files = {"proc/meminfo": MEMINFO.format(swap=swap)} | files
    if groups is not None:
        files["proc/self/cgroup"] = groups
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="ascii")
    return str(root)


def group(folder, limit, anon, shmem=0, *, version=2):
    """The files of a control group."""
    file, names = ("memory.max", ("anon", "shmem"))
    if version == 1:
        file, names = ("memory.limit_in_bytes", ("total_rss", "total_shmem"))
    stat = f"cache 123\n{names[0]} {anon}\nfile 99999999999\n{names[1]} {shmem}\n"
    return {f"{folder}/{file}": f"{limit}\n", f"{folder}/memory.stat": stat}


@pytest.mark.parametrize("groups", [None, "", V2, V1], ids=["unknown", "none", "version 2", "version 1"])
def test_caches_of_files_count_as_free_and_swap_as_memory(tmp_path, groups):
    assert memory_left(machine(tmp_path, groups)) == 6 * GIB
    assert memory_left(machine(tmp_path, groups, swap=2 << 20)) == 8 * GIB


@pytest.mark.parametrize(
    "groups, files, left",
    [
        (V2, group("sys/fs/cgroup/user.slice/job", 4 * GIB, GIB, GIB // 2), 5 * GIB // 2),
        (V2, group("sys/fs/cgroup/user.slice", 5 * GIB, 2 * GIB), 3 * GIB),
        (V2, group("sys/fs/cgroup/user.slice/job", "max", GIB), 6 * GIB),
        (V2, group("sys/fs/cgroup/user.slice/job", 4 * GIB, 5 * GIB), 0),
        (V2, group("sys/fs/cgroup/user.slice/other", 4 * GIB, GIB), 6 * GIB),
        (V2, group("sys/fs/cgroup", 4 * GIB, GIB), 3 * GIB),  # the mount of a container is its own group
        (V1, group("sys/fs/cgroup/memory/docker/1f", 4 * GIB, GIB, GIB // 2, version=1), 5 * GIB // 2),
        (V1, group("sys/fs/cgroup/memory", 4 * GIB, GIB, version=1), 3 * GIB),
        (V1, group("sys/fs/cgroup/memory", 2**63 - 4096, GIB, version=1), 6 * GIB),
        (V1, group("sys/fs/cgroup/memory/docker", 4 * GIB, GIB), 6 * GIB),  # a file of the other version
    ],
)
def test_the_smallest_limit_of_the_control_groups_decides(tmp_path, groups, files, left):
    assert memory_left(machine(tmp_path, groups, **files)) == left


def test_a_system_that_does_not_say_refuses_nothing(tmp_path, monkeypatch):
    assert memory_left(str(tmp_path)) is None
    assert memory_left(machine(tmp_path, **{"proc/meminfo": "Mem: much\n\n"})) is None
    monkeypatch.setattr(module, "memory_left", lambda: None)
    assert sg.empty((GIB,), "uint8", device="cpu").nbytes == GIB


@pytest.mark.skipif(sys.platform != "linux", reason="the sizes of /proc are Linux's")
def test_this_machine_has_some_memory_left():
    assert 0 < memory_left() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") * 64


@pytest.fixture
def four_left(monkeypatch):
    """4 GiB of memory are left, and no allocation of a GiB is made."""

    def new_bytes(nbytes, dtype):
        assert nbytes < GIB, "this is to be refused"
        return np.empty(nbytes, dtype)

    monkeypatch.setattr(module, "memory_left", lambda: 4 * GIB)
    monkeypatch.setattr(CpuDevice, "_new_bytes", staticmethod(new_bytes))


IMAGE = np.zeros((4, 6, 3), np.uint8)
HUGE = (45_000, 45_000)
CALLS = {
    "resize": lambda: sg.resize(IMAGE, HUGE, dims="HWC", passes="horizontal"),
    "letterbox": lambda: sg.letterbox([IMAGE], HUGE, dims="HWC"),
    "gather_crops": lambda: sg.gather_crops([IMAGE], [(0, 0)], HUGE, dims="HWC"),
    "boxes": lambda: sg.gather_crops(
        [IMAGE], size=HUGE, boxes=[(0, 0, 4, 4)], dims="HWC", interpolation="opencv-linear"
    ),
    "relayout": lambda: sg.relayout(np.broadcast_to(IMAGE, (100_000_000, 4, 6, 3)), dims="NHWC", layout="NCHW"),
    "gather": lambda: sg.gather(IMAGE, np.broadcast_to(0, (400_000_000,))),
    "full": lambda: sg.full(HUGE, 1, "float32", device="cpu"),
    "emulated": lambda: sg.empty(HUGE, "float32", device="cuda-emulated"),
    "Preprocess": lambda: sg.Preprocess(dims="NHWC", resize=HUGE, device="cpu", passes="horizontal")(IMAGE[None]),
    "Preprocess letterbox": lambda: sg.Preprocess(dims="NHWC", letterbox=HUGE, device="cpu")([IMAGE]),
    "load": lambda: list(sg.load([IMAGE], sg.Preprocess(resize=HUGE, device="cpu", passes="horizontal"), batch=1)),
}


@pytest.mark.usefixtures("four_left")
@pytest.mark.parametrize("name", CALLS)
def test_what_the_machine_cannot_fill_is_refused_before_it_is_allocated(name):
    with pytest.raises(sg.DeviceError, match=rf"no \d+ bytes of memory left to allocate: {4 * GIB} are free\. Work on"):
        CALLS[name]()


LONG = np.broadcast_to(IMAGE[:1, :1], (1, 60_000, 3))
ONE_OF_SEVERAL = {
    "the tables of its taps": (LONG, {"resize": 4000, "crop": 4}, r"no 38\d{9} bytes"),
    "its result": (IMAGE[:1], {"resize": 30_000}, r"no 64800000000 bytes"),
    "more pixels than taps name": (LONG, {"resize": 40_000, "crop": 4}, r"a resized image has 2400000000 pixels along"),
}


@pytest.mark.usefixtures("four_left")
@pytest.mark.parametrize("image, declared, said", ONE_OF_SEVERAL.values(), ids=ONE_OF_SEVERAL)
def test_an_image_that_asks_for_more_than_there_is_is_a_bad_row(image, declared, said):
    """Its own size decides, as in a folder of other people's files."""
    step = sg.Preprocess(device="cpu", passes="horizontal", errors="skip", **declared)
    loader = sg.load([image, np.full((9, 9, 3), 7, np.uint8)][: 1 + ("crop" in declared)], step, batch=2)
    assert [batch.shape for batch in loader] == [(1, 3, 4, 4)] * ("crop" in declared)
    assert loader.skipped == 1
    with pytest.raises(sg.StridedGpuError, match=f"row 0: .*{said}"):
        sg.Preprocess(device="cpu", passes="horizontal", **declared)([image])


TABLES = {
    "a long result": (IMAGE, (1, 7_000_000)),
    "a long source": (np.broadcast_to(IMAGE[:1, :1], (7_000_000, 1, 3)), (2, 2)),
}


@pytest.mark.parametrize("interpolation", ["pillow-lanczos", "opencv-linear"])
@pytest.mark.parametrize("image, size", TABLES.values(), ids=TABLES)
def test_tables_of_taps_that_the_machine_cannot_fill_are_refused(monkeypatch, image, size, interpolation):
    monkeypatch.setattr(module, "memory_left", lambda: GIB)
    with pytest.raises(sg.DeviceError, match=r"no 11\d{8} bytes of memory left to allocate"):
        sg.resize(image, size, dims="HWC", interpolation=interpolation, passes="horizontal")


def test_what_is_left_may_be_allocated_and_stay_untouched(monkeypatch):
    monkeypatch.setattr(module, "memory_left", lambda: GIB)
    assert sg.empty((GIB,), "uint8", device="cpu").nbytes == GIB
    assert sg.zeros((GIB,), "uint8", device="cpu")[:2].numpy().tolist() == [0, 0]
    with pytest.raises(sg.DeviceError, match=f"no {GIB + 4} bytes"):
        sg.zeros((GIB + 4,), "uint8", device="cpu")
