"""Windows of images on their way to a GPU: one copy through pinned memory, and the pixels of the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from harness.fake_gpus import gpus  # noqa: F401 - a fixture that `device` wants

import stridedgpu as sg
from stridedgpu.__main__ import main

UPLOAD = 1


def photographs(count, channels_last=True):
    random = np.random.default_rng(count)
    sizes = random.integers(20, 60, (count, 2))
    pixels = [random.integers(0, 256, (*size, 3), np.uint8) for size in sizes]
    return pixels if channels_last else [np.ascontiguousarray(frame.transpose(2, 0, 1)) for frame in pixels]


def step(**changes):
    declared = {"crop": 16, "flip": 0.5, "seed": 2, "scale": 1 / 255, "device": "cuda:1", **changes}
    return sg.Preprocess("image", **declared)


def batch(pictures):
    return {"image": pictures}


def uploads(gpu, nbytes):
    return [call for call in gpu.named("memcpyAsync") if call[1] == nbytes and call[2] == UPLOAD]


@pytest.mark.parametrize("count", [1, 2, 17])
@pytest.mark.parametrize("order", ["NHWC", "NCHW"])
def test_a_list_of_pictures_is_one_upload_of_its_windows(device, count, order):
    pictures = photographs(count, order == "NHWC")
    made = step(dims=order, layout=order)(batch(pictures), range(count))["image"]
    expected = step(dims=order, layout=order, device="cpu")(batch(pictures), range(count))["image"]
    assert made.tobytes() == expected.tobytes()
    window_bytes = count * 16 * 16 * 3
    assert len(uploads(device, window_bytes)) == 1
    assert sum(call[1] for call in device.named("memcpyAsync") if call[2] == UPLOAD) < window_bytes + 100 * count


def test_an_array_sends_its_windows_too(device):
    frames = np.random.default_rng(0).integers(0, 256, (5, 40, 50, 3), np.uint8)
    made = step()(batch(frames), range(5))["image"]
    assert made.tobytes() == step(device="cpu")(batch(frames), range(5))["image"].tobytes()
    assert len(uploads(device, 5 * 16 * 16 * 3)) == 1


def test_pictures_that_are_there_already_stay(device):
    pictures = photographs(4)
    there = [sg.asarray(frame, device="cuda:1") if place % 2 else frame for place, frame in enumerate(pictures)]
    made = step()(batch(there), range(4))["image"]
    assert made.tobytes() == step(device="cpu")(batch(pictures), range(4))["image"].tobytes()
    assert len(uploads(device, 2 * 16 * 16 * 3)) == 1


def test_pictures_of_several_types_go_by_themselves(device):
    pictures = photographs(3)
    pictures[1] = pictures[1].astype(np.float32) / 255
    declared = {"scale": None, "mean": 0.5, "std": 0.5}
    made = step(**declared)(batch(pictures), range(3))["image"]
    assert made.tobytes() == step(**declared, device="cpu")(batch(pictures), range(3))["image"].tobytes()


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_the_command_line_makes_the_same_bits_there(device, tmp_path, monkeypatch, layout):
    monkeypatch.chdir(tmp_path)
    for number, frame in enumerate(photographs(18)):
        np.save(f"{number:02}.npy", frame)
    names = [f"{number:02}.npy" for number in range(18)]
    options = ["--size", "16", "--random-crop", "--flip", "--normalize", "imagenet", "--layout", layout]
    for where in ("cuda:1", "cpu"):
        out = f"{where[:3]}.npy"
        assert main(["preprocess", *names, *options, "--device", where, "--out", out]) == 0
    assert np.load("cud.npy").tobytes() == np.load("cpu.npy").tobytes()
    window = 16 * 16 * 3
    sent = [call[1] for call in device.named("memcpyAsync") if call[2] == UPLOAD and call[1] % window == 0]  # windows
    assert sum(sent) == 18 * window  # each once


def test_downloads_are_given_memory_again(device):
    del device
    pictures = photographs(8)
    large = step(crop=None, flip=None, layout="NHWC")
    frames = np.zeros((4, 160, 160, 3), np.uint8)
    addresses = set()
    for _ in range(5):
        made = large(batch(frames))["image"]
        addresses.add(made.__array_interface__["data"][0])
        del made
    assert len(addresses) == 1
    assert step()(batch(pictures), range(8))["image"].shape == (8, 3, 16, 16)
