"""Frames in a step: the values of their RGB images, alone, in lists of any sizes and formats, on both devices."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.fake_frames import converting  # noqa: F401 - a fixture
from harness.fake_gathers import device  # noqa: F401 - a fixture that others want
from harness.fake_gpus import gpus  # noqa: F401 - a fixture that `device` wants
from harness.fake_resizes import resizing  # noqa: F401 - a fixture
from harness.frame_cases import surface

import stridedgpu as sg

KINDS = (("nv12", (36, 64)), ("yuyv", (50, 20)), ("i420", (24, 24)), ("bgra", (30, 31)), ("gray", (20, 22)))
FRAMES = [surface(name, size, seed=7).frame(matrix="bt709") for name, size in KINDS]
PICTURES = [frame.relayout(layout="HWC").permute("HWC").numpy() for frame in FRAMES]

STEPS = {
    "conversion": {},
    "resize": {"resize": (20, 24), "layout": "NHWC"},
    "shorter side and crop": {"resize": 19, "crop": 16, "channels": (2, 1, 0)},
    "crop and flip": {"crop": 16, "flip": True},
    "pad": {"pad": 4, "crop": 28, "fill": (1, 2, 3)},
    "letterbox": {"letterbox": 32, "normalize": "imagenet"},
    "random box": {"crop": 16, "random_resized_crop": True, "seed": 3, "flip": 0.5},
    "drawn colours": {"crop": 16, "seed": 3, "gain": (0.5, 1.5)},
    "gray": {"mode": "gray", "crop": 16},
    "clip": {"clip": (10, 200), "crop": 16},
}


def check(step, frames, pictures):
    """Alone, in a list, and among images."""
    keys = range(len(frames))
    made, mixed = step(frames, keys, epoch=1), step([frames[0], *pictures[1:]], keys, epoch=1)
    wanted = step(pictures, keys, epoch=1)
    for number, array in enumerate(wanted):
        assert made[number].tobytes() == mixed[number].tobytes() == array.tobytes(), number
        assert made[number].shape == array.shape
    assert step(frames[0], 0, epoch=1).tobytes() == wanted[0].tobytes()


@pytest.mark.parametrize("kind", STEPS)
@cpu_paths
def test_frames_have_the_values_of_their_pictures(path, kind):
    with picking_by(path):
        check(sg.Preprocess(dtype="float32", device="cpu", **STEPS[kind]), FRAMES, PICTURES)


@pytest.mark.parametrize("kind", ["conversion", "resize", "crop and flip", "pad", "letterbox", "random box"])
def test_frames_of_a_gpu_have_the_values_of_the_cpu(converting, resizing, kind):  # noqa: F811
    step = {**STEPS[kind], "dtype": "float32"}
    wanted = sg.Preprocess(device="cpu", **step)(PICTURES, range(5), epoch=1)
    far = [frame.to_device("cuda:1") for frame in FRAMES]
    for frames in (FRAMES, far):
        made = sg.Preprocess(device="cuda:1", **step)(frames, range(5), epoch=1)
        assert [array.tobytes() for array in made] == [array.tobytes() for array in wanted]


def test_gray_frames_of_a_gpu_have_the_values_of_the_cpu(converting, resizing):  # noqa: F811
    numbers = [0, 1, 2, 4]  # the stand-in has no kernel that mixes the channels of pixels in memory
    step = {"mode": "gray", "crop": 16, "dtype": "float32"}
    wanted = sg.Preprocess(device="cpu", **step)([PICTURES[number] for number in numbers])
    made = sg.Preprocess(device="cuda:1", **step)([FRAMES[number] for number in numbers])
    assert [array.tobytes() for array in made] == [array.tobytes() for array in wanted]


@cpu_paths
def test_gray_is_the_luma_of_pillow(path):
    pixels = np.random.default_rng(5).integers(0, 256, (64, 512, 4), np.uint8)
    pixels[0, :256, :3] = np.arange(256)[:, None]
    frame = sg.Frame("rgbx", [pixels], sizes=pixels.shape[:2])
    red, green, blue = pixels[..., :3].transpose(2, 0, 1).astype(np.uint32)
    with picking_by(path):
        made = sg.Preprocess(mode="gray", dtype="uint8", scale=1, device="cpu")([frame])
    assert np.array_equal(made[0][0], (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16)


@pytest.mark.parametrize("name", ["nv12", "p010", "bgra", "gray"])
def test_frames_of_a_step_without_channels_are_gray(name):
    frame = surface(name, (20, 30), seed=3).frame()
    named = {"mode": "gray", "dtype": "float32", "normalize": "0..1", "device": "cpu"}
    (made,) = sg.Preprocess(dims="NHW", layout="NHW", **named)([frame])
    (wanted,) = sg.Preprocess(**named)([frame.relayout(layout="HWC").permute("HWC").numpy()])
    assert np.array_equal(made, wanted[0])


def test_gray_makes_no_rgb():
    frame = sg.Frame.over("nv12", np.full((1620, 2048), 90, np.uint8), (1080, 2048))
    step = sg.Preprocess(mode="gray", dtype="uint8", scale=1, resize=(64, 64), device="cpu")
    step([frame])  # loads what this way needs
    tracemalloc.start()
    try:
        step([frame])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * 1080 * 2048, "the bytes of RGB"


def test_a_key_of_pixels_is_that_of_the_picture():
    step = sg.Preprocess(crop=8, seed=5, device="cpu")
    made, wanted = (step(images, epoch=2) for images in (FRAMES, PICTURES))
    assert [array.tobytes() for array in made] == [array.tobytes() for array in wanted]


def test_a_result_in_the_callers_memory():
    step, out = sg.Preprocess(letterbox=16, dtype="float16", device="cpu"), np.empty((5, 3, 16, 16), np.float16)
    assert step(FRAMES, out=out) is out
    assert np.array_equal(out, step(PICTURES))
    planes = sg.Frame.over("nv12", np.zeros(24 * 16, np.uint8), (16, 16))
    inside = planes.planes[0].numpy()[None, None].view(np.uint8)
    with pytest.raises(sg.BindingError, match="plane 0 of image 0"):
        sg.Preprocess(crop=16, dtype="uint8", scale=1, channels=(0,), device="cpu")([planes], out=inside)


def test_frames_among_pictures_are_refused_where_one_call_reads_one_kind():
    for call in (sg.letterbox, sg.resize):
        with pytest.raises(sg.LayoutError, match=r"Frames and other images \(ndarray\)"):
            call([FRAMES[0], PICTURES[1]], (8, 8))
