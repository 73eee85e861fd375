"""Gathers, scatters and crops on a CUDA device that a stand-in takes the place of: addresses, errors, and when."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.devices.cuda.gather import REPORT

DATA = np.arange(24, dtype=np.int32).reshape(4, 6)


def on_device(array):
    return sg.asarray(array, device="cuda:1")


@pytest.mark.parametrize("mode", ["raise", "clip", "wrap", "deferred"])
@pytest.mark.parametrize("indices", [[3, 0, -1], np.array([[1, 2]], np.uint32)], ids=str)
def test_gathers_on_a_device_are_those_of_the_cpu(device, mode, indices):
    found = sg.gather(on_device(DATA), indices, mode=mode)
    assert found.device == "cuda:1"
    assert found.numpy().tolist() == sg.gather(DATA, indices, mode=mode).numpy().tolist()
    assert sg.gather(on_device(DATA), indices, axis=1, mode=mode).numpy().tolist() == (
        sg.gather(DATA, indices, axis=1, mode=mode).numpy().tolist()
    )


def test_results_and_what_is_sent_besides_belong_to_the_stream_of_the_work(device):
    data, updates = on_device(DATA), on_device(DATA[:2])
    photo = sg.asarray(np.zeros((9, 12, 3), np.uint8), dims="HWC", device="cuda:1")
    for _ in ("prepared", "run again"):
        device.calls.clear()
        sg.gather(data, [3, 0], stream=77)
        sg.gather_nd(data, [[3], [0]], stream=77)
        sg.scatter_nd(data, [[3], [0]], updates, stream=77)
        sg.gather_crops([photo], [[0, 0]], (3, 4), stream=77)
    assert {stream for _, _, _, stream in device.named("alloc")} == {77}
    assert {stream for _, _, _, stream, _ in device.named("memcpyAsync")} == {77}


def test_zeros_of_filled_up_channels_belong_to_the_stream_of_the_work(device):
    photo = sg.asarray(np.ones((9, 12, 3), np.uint8), dims="HWC", device="cuda:1")
    device.launched.clear()
    batch = sg.gather_crops([photo], [[0, 0]], (3, 4), layout="NHWC8", stream=77)
    assert {launch["stream"] for launch in device.launched} == {77}
    assert len(device.launched) == 2  # the windows, and the zeros
    assert batch.numpy().sum() == 3 * 3 * 4


def test_tuples_and_scatters(device):
    data = on_device(DATA)
    assert sg.gather_nd(data, [[3, 1], [0, -1]]).numpy().tolist() == [19, 5]
    assert sg.gather_elements(data, [[1], [2]], axis=1).numpy().tolist() == [[1], [8]]
    updates = on_device(np.array([[-1], [-2]], np.int32))
    scattered = sg.scatter_elements(data, [[1], [2]], updates, axis=1, unique=True).numpy()
    assert (scattered[0, 1], scattered[1, 2], scattered.sum()) == (-1, -2, DATA.sum() - 1 - 2 - 1 - 8)
    with pytest.raises(IndexError, match="name the same element"):
        sg.scatter_nd(data, [[0, 0], [-4, -6]], on_device(np.zeros(2, np.int32)), unique=True)


def test_distinct_indices_stay_on_the_device(device):
    data, indices = on_device(DATA), on_device(np.array([[5, -5], [0, 1], [2, 3], [4, -1]]))
    updates = on_device(np.zeros((4, 2), np.int32))
    before = len(device.named("memcpyAsync"))
    sg.scatter_elements(data, indices, updates, axis=1, unique=True)
    assert any("check_distinct" in launch["name"] for launch in device.launched)
    copied = [nbytes for _, nbytes, *_ in device.named("memcpyAsync")[before:]]
    assert copied
    assert max(copied) <= REPORT.size


def test_mode_raise_names_the_index_before_anything_is_written(device):
    out = on_device(np.full((2, 6), 7, np.int32))
    with pytest.raises(IndexError, match=r"indices\[1\] = 4 is out of range for axis 0 of size 4: valid are -4 to 3"):
        sg.gather(on_device(DATA), [0, 4], out=out)
    assert (out.numpy() == 7).all()


def test_mode_deferred_raises_when_the_host_waits_and_the_device_lives_on(device):
    data = on_device(DATA)
    for wait in (lambda made: made.numpy(), lambda made: sg.synchronize("cuda:1"), lambda made: made.to_device("cpu")):
        made = sg.gather_nd(data, np.array([[0, 0], [9, 2**64 - 1]], np.uint64), mode="deferred")
        sg.gather(data, [-9], mode="deferred")
        with pytest.raises(
            IndexError, match=r"indices\[1, 0\] = 9 is out of range for axis 0 of size 4: valid are 0 to 3"
        ):
            wait(made)
        sg.synchronize("cuda:1")
        assert sg.gather(data, [1], mode="deferred").numpy().tolist() == DATA[1:2].tolist()


def test_a_report_is_never_cleared_while_kernels_may_write_to_it(device):
    """Only its new memory is; an atomic kernel takes what it says."""
    data = on_device(DATA)
    sg.gather(data, [0], mode="deferred").numpy()
    device.calls.clear()
    for _ in range(2):
        sg.gather(data, [9], mode="deferred")
        with pytest.raises(IndexError, match=r"indices\[0\] = 9 is out of range"):
            sg.synchronize("cuda:1")
    assert device.named("memsetAsync") == []
    taken = [launch for launch in device.launched if launch["name"] == "sg::take_report"]
    assert [launch["device"] for launch in taken] == [1, 1]


def test_rules_keep_their_numbers_and_no_launch_waits_for_the_device(device, monkeypatch):
    index_errors = sys.modules["stridedgpu.devices.cuda.runtime.index_checks"]
    monkeypatch.setattr(index_errors, "RULES", 3)
    data = on_device(DATA)
    device.calls.clear()
    for count in range(1, 6):  # rules of five sizes, of which two have numbers
        sg.gather(data, [0] * count, mode="deferred")
    assert device.named("deviceSynchronize") == []
    sg.gather(data, [0, 8], mode="deferred")
    with pytest.raises(IndexError, match=r"indices\[1\] = 8 is out of range for axis 0"):
        sg.synchronize("cuda:1")
    sg.gather(data, [0, 0, 0, 8], mode="deferred")
    with pytest.raises(IndexError, match=r'indices = 8, number 3 in row-major order, of a gather with mode="deferred"'):
        sg.synchronize("cuda:1")


@pytest.mark.parametrize("has_out,refused", [(True, 'a gather with mode="raise"'), (False, "New memory")])
def test_what_a_graph_cannot_record_of_a_gather_is_refused(device, has_out, refused):
    data, indices, out = on_device(DATA), on_device(np.array([1])), on_device(DATA[:1])
    device.capturing.add(77)
    with pytest.raises(sg.DeviceError, match=f"{refused} cannot be captured"):
        sg.gather(data, indices, out=out if has_out else None, stream=77)


def test_crops_are_one_launch_and_those_of_the_cpu(device):
    photos = [np.random.default_rng(n).integers(0, 256, (9 + n, 12, 3), np.uint8) for n in range(3)]
    there = [sg.asarray(photo, dims="HWC", device="cuda:1") for photo in photos]
    keywords = {"flip": [True, False, True], "dtype": "float32", "scale": 1 / 255, "fill": 9}
    before = len(device.launched)
    batch = sg.gather_crops(there, [[0, 3], [-2, 9], [4, 4]], (6, 5), **keywords)
    assert len(device.launched) == before + 1
    expected = sg.gather_crops(photos, [[0, 3], [-2, 9], [4, 4]], (6, 5), dims="HWC", **keywords)
    assert batch.numpy().tobytes() == expected.numpy().tobytes()


def test_plans_run_on_their_device(device):
    data, indices, out = on_device(DATA), on_device(np.array([2, 0])), on_device(np.zeros((2, 6), np.int32))
    plan = sg.plan_gather(data, indices, out=out)
    assert plan.device == "cuda:1"
    assert "reference GPU" not in plan.explain()
    plan(data, indices, out)
    assert out.numpy().tolist() == DATA[[2, 0]].tolist()
    with pytest.raises(IndexError, match=r"indices\[0\] = 4 is out of range"):
        plan(data, on_device(np.array([4, 0])), out)
    photos = [sg.asarray(np.full((6, 8, 3), n, np.uint8), dims="HWC", device="cuda:1") for n in range(2)]
    crops = sg.plan_gather_crops(photos, (4, 8), dtype="float32", scale=0.5)
    batch = sg.empty((2, 3, 4, 8), "float32", device="cuda:1")
    crops(photos, [[0, 0], [1, 0]], batch)
    assert batch.numpy()[:, 2, 3, 7].tolist() == [0.0, 0.5]
    with pytest.raises(sg.BindingError, match="out is on cpu; the plan is for cuda:1"):
        plan(data, indices, sg.asarray(np.zeros((2, 6), np.int32)))


def test_operands_on_different_devices_are_refused(device):
    with pytest.raises(sg.BindingError, match="indices are on cpu and the data on cuda:1"):
        sg.gather(on_device(DATA), sg.asarray(np.array([0])))
    with pytest.raises(sg.BindingError, match="updates are on cpu"):
        sg.scatter_nd(on_device(DATA), [[0, 0]], np.zeros(1, np.int32))
    with pytest.raises(sg.BindingError, match=r"sources\[1\] is on cpu and sources\[0\] on cuda:1"):
        sg.gather_crops([on_device(np.zeros((3, 4, 4))), np.zeros((3, 4, 4))], [[0, 0]] * 2, (2, 2))


@pytest.mark.parametrize("layout, launches", [("NDHWC", 1), ("NCDHW", 2)], ids=str)
def test_windows_of_volumes_are_windows_of_their_slices(device, layout, launches):
    volumes = [np.random.default_rng(n).integers(0, 256, (2, 4 + n, 6, 7), np.uint8) for n in range(2)]
    there = [sg.asarray(volume, dims="CDHW", device="cuda:1") for volume in volumes]
    keywords = {"flip": [True, False], "dtype": "float32", "scale": 1 / 255, "fill": 9, "layout": layout}
    before = len(device.launched)
    batch = sg.gather_crops(there, [[2, 1, 3], [-1, 2, -2]], (3, 5, 4), **keywords)
    assert len(device.launched) == before + launches
    expected = sg.gather_crops(volumes, [[2, 1, 3], [-1, 2, -2]], (3, 5, 4), dims="CDHW", **keywords)
    assert batch.numpy().tobytes() == expected.numpy().tobytes()
