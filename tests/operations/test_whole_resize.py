"""Resizes of whole images are prepared once: the same bytes as into memory that is given, and nothing planned again."""

from __future__ import annotations

import numpy as np
import pytest
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.operations import resize


@st.composite
def images(draw):
    """Pictures with or without N and C, in any memory order, some of them backwards, and the order of their axes."""
    dims = draw(st.sampled_from(["HW", "HWC", "CHW", "NHW", "NHWC", "NCHW", "HNWC"]))
    sizes = {"N": draw(st.integers(1, 3)), "C": draw(st.integers(1, 5)), "H": 9, "W": draw(st.integers(1, 30))}
    shape = tuple(sizes[axis] for axis in dims)
    pixels = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 256, shape, np.uint8)
    steps = tuple(slice(None, None, draw(st.sampled_from([1, 1, -1]))) for _ in dims)
    return pixels[steps], dims


@settings(max_examples=examples(60))
@given(
    given=images(),
    size=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    interpolation=st.sampled_from(["pillow-bicubic", "opencv-linear", "opencv-nearest"]),
    options=st.sampled_from([{}, {"dtype": "float32", "scale": 1 / 255, "bias": -0.5}, {"dtype": "int16"}]),
    turned=st.booleans(),
)
def test_new_memory_holds_what_given_memory_does(given, size, interpolation, options, turned):
    """Memory of the caller has other strides and alignments than new memory."""
    pixels, dims = given
    options = options | {"dims": dims, "interpolation": interpolation}
    options |= {"channels": tuple(range(pixels.shape[dims.index("C")]))[::-1]} if turned and "C" in dims else {}
    made = sg.resize(pixels, size, **options)
    again = sg.resize(pixels.copy(), size, **options)
    into = sg.resize(pixels, size, out=sg.empty(made.sizes, made.dtype, dims=made.dims), **options)
    assert made.dims == again.dims == into.dims
    np.testing.assert_array_equal(made.numpy(), into.numpy())
    np.testing.assert_array_equal(again.numpy(), into.numpy())


def test_the_second_call_plans_nothing(monkeypatch):
    """Other memory of the same layout and alignment, too; other options are planned."""
    planned = []
    plain = resize.checked_rule
    monkeypatch.setattr(resize, "checked_rule", lambda *args, **named: planned.append(args) or plain(*args, **named))
    resize._resizing_of_batch.cache_clear()
    pictures = [sg.full((3, 19, 23), value, "uint8", dims="CHW") for value in range(3)]
    for picture in pictures:
        sg.resize(picture, (7, 5), layout="HWC")
    assert len(planned) == 1
    sg.resize(pictures[0], (7, 5), layout="HWC", scale=2.0)
    assert len(planned) == 2
    out = sg.empty((3, 7, 5), "uint8", dims="CHW")
    for picture in pictures:
        sg.resize(picture, (7, 5), out=out)
    assert len(planned) == 3
    for picture in pictures:
        sg.letterbox(picture, (7, 5))
    assert len(planned) == 4


def test_a_border_of_minus_zero_is_not_one_of_zero():
    """Both are equal, and no cache takes one for the other."""
    image = sg.zeros((1, 4, 8), "float32", dims="CHW")
    borders = [sg.letterbox(image, (8, 8), fill=fill).numpy()[0, 0] for fill in (0, -0.0, 0.0)]
    assert [bool(np.signbit(border).all()) for border in borders] == [False, True, False]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"row_pitch_bytes": 64}, id="a pitch"),
        pytest.param({"alignment": 256}, id="an alignment"),
        pytest.param({"layout": "NHWC4"}, id="channels filled up"),
        pytest.param({"layout": "NCHW4"}, id="blocks of channels"),
        pytest.param({"device": "cpu"}, id="a device"),
        pytest.param({"layout": sg.Layout((2, 3, 8, 8), (192, 1, 24, 3))}, id="an exact layout"),
    ],
)
def test_options_that_are_planned_with_each_call(options):
    """The pixels are the same."""
    pixels = np.random.default_rng(2).integers(0, 256, (2, 16, 20, 3), np.uint8)
    made = sg.resize(pixels, (8, 8), dims="NHWC", **options).numpy()
    plain = sg.resize(pixels, (8, 8), dims="NHWC").numpy()
    if made.ndim == 5:
        made = made.reshape(2, 4, 8, 8)
    np.testing.assert_array_equal(made[:, :3], plain)


def test_an_empty_batch_and_pictures_without_pixels():
    """No images are none; an image of no pixels is refused."""
    assert sg.resize(np.zeros((0, 4, 4, 3), np.uint8), (2, 2), dims="NHWC").sizes == (0, 3, 2, 2)
    with pytest.raises(sg.LayoutError, match="nothing to resize"):
        sg.resize(np.zeros((2, 0, 4, 3), np.uint8), (2, 2), dims="NHWC")
