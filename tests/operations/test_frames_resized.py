"""Frames resized, letterboxed, cut and preprocessed: the bits of their colours resized."""

from __future__ import annotations

import numpy as np
import pytest
from harness.frame_cases import opencv, opencv_colours, surface

import stridedgpu as sg

SURFACES = [surface(name, size, seed=7) for name, size in (("nv12", (36, 64)), ("yuyv", (50, 20)), ("i420", (24, 24)))]
FRAMES = [made.frame() for made in SURFACES]
PICTURES = [frame.relayout(layout="HWC") for frame in FRAMES]
OPTIONS = {"dtype": "float16", "scale": 1 / 255, "channels": (2, 1, 0)}


@pytest.mark.parametrize("interpolation", ["pillow-bilinear", "pillow-nearest", "opencv-linear", "opencv-area"])
@pytest.mark.parametrize("number", range(3))
def test_a_frame_is_resized_as_its_picture(number, interpolation):
    options = {"interpolation": interpolation, "box": (1.5, 2, 20, 19.25), **OPTIONS}
    made = sg.resize(FRAMES[number], (17, 13), **options)
    assert (made.sizes, made.dims) == ((3, 17, 13), "CHW")
    assert made.numpy().tobytes() == sg.resize(PICTURES[number], (17, 13), **options).numpy().tobytes()


def test_frames_of_any_sizes_are_resized_to_a_batch():
    made = sg.resize(FRAMES, (16, 16), layout="NHWC", **OPTIONS)
    assert (made.sizes, made.dims, made.strides[1]) == ((3, 3, 16, 16), "NCHW", 1)
    for number, picture in enumerate(PICTURES):
        assert made[number].numpy().tobytes() == sg.resize(picture, (16, 16), **OPTIONS).numpy().tobytes()


def test_letterboxed_frames_have_the_bits_of_opencv():
    cv2 = opencv()
    made = sg.letterbox(FRAMES[:1], (40, 40))
    top, left, height, width = sg.letterbox_placements([(36, 64)], (40, 40))[0]
    expected = np.full((40, 40, 3), 114, np.uint8)
    expected[top : top + height, left : left + width] = cv2.resize(opencv_colours(SURFACES[0]), (width, height))
    assert np.array_equal(made.permute("NHWC").numpy()[0], expected)


def test_boxes_of_frames_are_those_of_their_pictures():
    boxes = [[0, 0.5, 30, 40], [5, 5, 45, 20], [0, 0, 24, 24]]
    made = sg.gather_crops(FRAMES, size=(9, 11), boxes=boxes, flip=[True, False, True], **OPTIONS)
    wanted = sg.gather_crops(PICTURES, size=(9, 11), boxes=boxes, flip=[True, False, True], **OPTIONS)
    assert made.numpy().tobytes() == wanted.numpy().tobytes()


def test_a_step_takes_frames_among_pictures():
    step = sg.Preprocess("image", crop=16, mean=0.5, std=0.25, dtype="float32", layout="NCHW")
    made = step({"image": [FRAMES[0], PICTURES[1].permute("HWC").numpy(), FRAMES[2]]})["image"]
    wanted = step({"image": [picture.permute("HWC").numpy() for picture in PICTURES]})["image"]
    assert made.tobytes() == wanted.tobytes()
