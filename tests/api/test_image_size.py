"""`size=224`: one number is the shorter side of the result: of a square, or for `resize` of an image's shape."""

from __future__ import annotations

import numpy as np
import pytest
from harness.sample_tensors import same_bits

import stridedgpu as sg

PHOTO = np.random.default_rng(0).integers(0, 256, (30, 47, 3), np.uint8)
BATCH = np.stack([PHOTO, PHOTO[::-1]])

SQUARES = {
    "letterbox": lambda size: sg.letterbox(PHOTO, size, dims="HWC"),
    "gather_crops": lambda size: sg.gather_crops(BATCH, [[0, 1], [2, 3]], size, dims="NHWC"),
    "boxes": lambda size: sg.gather_crops(BATCH, boxes=[[0, 1, 20, 30]] * 2, size=size, dims="NHWC"),
}


@pytest.mark.parametrize("name", SQUARES)
def test_one_number_is_height_and_width(name):
    made = SQUARES[name](np.int64(16))
    assert made.sizes[-2:] == (16, 16)
    assert same_bits(made.numpy(), SQUARES[name]((16, 16)).numpy())


@pytest.mark.parametrize("name", [*SQUARES, "resize"])
def test_one_number_is_the_shorter_side_of_every_result(name):
    made = SQUARES[name](16) if name in SQUARES else sg.resize(BATCH, 16, dims="NHWC")
    assert min(made.sizes[-2:]) == 16


def test_placements_of_a_square_letterbox():
    assert sg.letterbox_placements([(30, 47)], 16).tolist() == sg.letterbox_placements([(30, 47)], (16, 16)).tolist()


@pytest.mark.parametrize("turned", [False, True], ids=["landscape", "portrait"])
@pytest.mark.parametrize("side", [7, 16, 30, 64])
def test_one_number_is_the_shorter_side_of_a_resized_image(side, turned):
    photo = PHOTO.transpose(1, 0, 2) if turned else PHOTO
    height, width, _ = photo.shape
    longer = int(side * max(height, width) / min(height, width))  # as torchvision's Resize
    made = sg.resize(photo, side, dims="HWC")
    assert made.sizes[-2:] == ((longer, side) if turned else (side, longer))
    assert same_bits(made.numpy(), sg.resize(photo, made.sizes[-2:], dims="HWC").numpy())


def test_the_shorter_side_is_that_of_the_box():
    assert sg.resize(PHOTO, 8, dims="HWC", box=(0, 0, 10, 40)).sizes == (3, 8, 32)


def test_it_is_the_shorter_side_of_preprocess():
    step = sg.Preprocess(resize=16, crop=16, layout="NHWC", dtype="uint8", device="cpu")
    resized = sg.resize(BATCH, 16, dims="NHWC").permute("NHWC").numpy()
    assert same_bits(step(BATCH), resized[:, :, 4:20])


def test_frames_of_several_shapes_have_no_common_size():
    frames = [sg.Frame.over("gray", np.zeros(sizes, np.uint8), sizes) for sizes in ((8, 16), (8, 8))]
    with pytest.raises(sg.LayoutError, match=r"shorter side.*\(4, 4\), \(4, 8\)"):
        sg.resize(frames, 4)


@pytest.mark.parametrize("border", [7, (1, 2, 3)], ids=str)
def test_fill_is_another_name_of_the_value_of_a_letterbox(border):
    out = sg.empty((3, 16, 16), "uint8", device="cpu")
    photo = sg.asarray(PHOTO, dims="HWC")
    sg.plan_letterbox(photo, out, fill=border)(photo, out)
    expected = sg.letterbox(PHOTO, 16, dims="HWC", value=border).numpy()
    assert same_bits(sg.letterbox(PHOTO, 16, dims="HWC", fill=border).numpy(), expected)
    assert same_bits(out.numpy(), expected)


def test_a_border_has_one_value():
    with pytest.raises(sg.LayoutError, match="value=3 and fill=4 both say what surrounds an image"):
        sg.letterbox(PHOTO, 16, dims="HWC", value=3, fill=4)
