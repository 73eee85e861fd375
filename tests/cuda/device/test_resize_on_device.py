"""Resizes on a GPU: what is sent, what is launched, and the pixels of the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from harness.fake_gpus import gpus  # noqa: F401 - a fixture that `device` wants

import stridedgpu as sg


def photographs(count):
    random = np.random.default_rng(count)
    return [random.integers(0, 256, (*size, 3), np.uint8) for size in random.integers(9, 60, (count, 2))]


@pytest.mark.parametrize("interpolation", ["pillow-bicubic", "opencv-linear", "opencv-area", "pillow-nearest"])
def test_a_picture_has_the_pixels_of_the_cpu(resizing, interpolation):
    picture = photographs(1)[0]
    there = sg.asarray(picture, dims="HWC", device="cuda:1")
    options = {"dims": "HWC", "interpolation": interpolation, "layout": "CHW", "dtype": "float16", "scale": 1 / 255}
    before = len(resizing.launched)
    made = sg.resize(there, (13, 21), **{**options, "dims": None})
    assert len(resizing.launched) == before + 1
    assert made.numpy().tobytes() == sg.resize(picture, (13, 21), **options).numpy().tobytes()


def test_boxes_of_many_pictures_are_one_launch(resizing):
    pictures = photographs(6)
    boxes = [(1.5, 2, *(size - 0.5 for size in picture.shape[:2])) for picture in pictures]
    options = {"boxes": boxes, "passes": "horizontal", "flip": [True, False] * 3, "dtype": "float32"}
    expected = sg.gather_crops(pictures, size=(12, 16), dims="HWC", **options).numpy()
    there = [sg.asarray(picture, dims="HWC", device="cuda:1") for picture in pictures]
    before = len(resizing.launched)
    made = sg.gather_crops(there, size=(12, 16), **options)
    assert len(resizing.launched) == before + 1
    assert made.numpy().tobytes() == expected.tobytes()


def test_a_second_call_compiles_nothing(resizing):
    there = sg.asarray(photographs(1)[0], dims="HWC", device="cuda:1")
    sg.resize(there, (13, 21))
    compiled = len(resizing.compiled)
    sg.resize(there, (13, 21))
    assert len(resizing.compiled) == compiled


def test_letterboxes_have_their_border(resizing):
    pictures = photographs(3)
    there = [sg.asarray(picture, dims="HWC", device="cuda:1") for picture in pictures]
    expected = sg.letterbox(pictures, (32, 48), dims="HWC").numpy()
    assert sg.letterbox(there, (32, 48)).numpy().tobytes() == expected.tobytes()


def test_alpha_weights_the_colours_of_pixels_and_not_of_planes(resizing):
    pixels = np.random.default_rng(5).integers(0, 256, (9, 19, 4), np.uint8)
    there = sg.relayout(pixels, dims="HWC", layout="HWC", device="cuda:1")
    expected = sg.resize(pixels, (4, 8), dims="HWC", premultiply=True).numpy()
    assert sg.resize(there, (4, 8), premultiply=True).numpy().tobytes() == expected.tobytes()
    planes = sg.asarray(np.zeros((4, 9, 9), np.uint8), device="cuda:1")
    with pytest.raises(sg.DeviceError, match="relayout to NHWC first"):
        sg.resize(planes, (4, 4), premultiply=True)
