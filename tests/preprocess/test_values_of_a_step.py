"""What a step makes of values: named normalisations, largest values, windows of values, padding, and random colour."""

from __future__ import annotations

import numpy as np
import pytest
from harness.frame_cases import surface
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

import stridedgpu as sg

RANDOM = np.random.default_rng(5)


def cpu(**declared):
    return sg.Preprocess(device="cpu", layout="NHWC", **declared)


# The figures as their sources have them, not as the library does.
NAMED = {
    "0..1": ((0, 0, 0), (1, 1, 1)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "siglip": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "inception": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("channels", [None, (2, 1, 0)], ids=["rgb", "bgr"])
def test_a_name_stands_for_its_numbers(name, channels):
    batch = RANDOM.integers(0, 256, (2, 5, 6, 3), dtype=np.uint8)
    order = [0, 1, 2] if channels is None else list(channels)
    mean, std = (np.array(numbers, np.float32)[order] for numbers in NAMED[name])
    made = cpu(normalize=name, channels=channels)(batch)
    np.testing.assert_allclose(made, (batch[..., order] / np.float32(255) - mean) / std, atol=2e-6)
    by_numbers = cpu(mean=[NAMED[name][0][c] for c in order], std=[NAMED[name][1][c] for c in order], channels=channels)
    np.testing.assert_array_equal(made, by_numbers(batch))


@pytest.mark.parametrize("bits", [10, 12, 16])
def test_the_largest_value_becomes_one(bits):
    most = 2**bits - 1
    batch = RANDOM.integers(0, most + 1, (1, 4, 5, 1), dtype=np.uint16)
    batch[0, 0, 0] = most
    made = cpu(normalize="0..1", maximum=most)(batch)
    np.testing.assert_array_equal(made, batch.astype(np.float32) * np.float32(1 / most))
    assert made.max() == np.float32(most) * np.float32(1 / most)


@settings(max_examples=examples(60))
@given(
    low=st.integers(-1200, 300),
    span=st.integers(1, 3000),
    dtype=st.sampled_from(["int16", "float32", "int32"]),
    seed=st.integers(0, 999),
)
def test_a_window_of_values_is_clamped_and_becomes_the_unit(low, span, dtype, seed):
    batch = np.random.default_rng(seed).integers(-2000, 3000, (1, 5, 6, 1)).astype(dtype)
    made = cpu(clip=(low, low + span), normalize="0..1")(batch)
    expected = (np.clip(batch.astype(np.float64), low, low + span) - low) / span
    np.testing.assert_allclose(made, expected, atol=2e-4 if dtype == "float32" else 2e-3)
    assert made.min() >= -1e-3
    assert made.max() <= 1.001
    clamped = cpu(clip=(low, low + span), dtype=dtype)(list(batch))[0]
    np.testing.assert_array_equal(clamped, np.clip(batch[0], low, low + span))


def test_clipping_leaves_the_input_alone():
    batch = np.full((1, 3, 3, 1), 900, np.int16)
    cpu(clip=(0, 100))(batch)
    assert (batch == 900).all()


@settings(max_examples=examples(60))
@given(
    height=st.integers(1, 20),
    width=st.integers(1, 20),
    pad=st.tuples(*(st.integers(0, 6),) * 4),
    fill=st.one_of(st.integers(0, 255), st.tuples(*(st.integers(0, 255),) * 3)),
    flip=st.booleans(),
)
def test_padding_is_numpy_s(height, width, pad, fill, flip):
    picture = RANDOM.integers(0, 256, (height, width, 3), dtype=np.uint8)
    expected = np.empty((height + pad[0] + pad[2], width + pad[1] + pad[3], 3), np.uint8)
    expected[...] = fill
    expected[pad[0] : pad[0] + height, pad[1] : pad[1] + width] = picture
    made = cpu(pad=pad, fill=fill, flip=flip, dtype="uint8")([picture])[0]
    np.testing.assert_array_equal(made, expected[:, ::-1] if flip else expected)
    resized = cpu(resize=(7, 9), pad=pad, fill=fill, flip=flip, dtype="uint8")([picture])[0]
    inner = cpu(resize=(7, 9), dtype="uint8")([picture])[0]
    framed = np.empty((7 + pad[0] + pad[2], 9 + pad[1] + pad[3], 3), np.uint8)
    framed[...] = fill
    framed[pad[0] : pad[0] + 7, pad[1] : pad[1] + 9] = inner
    np.testing.assert_array_equal(resized, framed[:, ::-1] if flip else framed)


def test_the_crop_of_a_padded_picture_is_one_of_its_windows():
    """CIFAR's recipe: 4 pixels around, then a random window of the old size."""
    picture = RANDOM.integers(1, 256, (32, 32, 3), dtype=np.uint8)
    padded = np.pad(picture, ((4, 4), (4, 4), (0, 0)))
    step = cpu(pad=4, crop=32, seed=2, dtype="uint8")
    made = step([picture] * 40, range(40))
    windows = {padded[y : y + 32, x : x + 32].tobytes() for y in range(9) for x in range(9)}
    assert {row.tobytes() for row in made} <= windows
    assert len({row.tobytes() for row in made}) > 20


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "CHWN"])
@pytest.mark.parametrize("resize", [{}, {"random_resized_crop": True}], ids=["crop", "resized"])
def test_random_colour_is_a_gain_and_an_offset_for_each_channel(layout, resize):
    batch = RANDOM.integers(0, 256, (6, 20, 22, 3), dtype=np.uint8)
    common = {"crop": 16, "seed": 4, "layout": layout, "device": "cpu", **resize}
    pixels = sg.Preprocess(dtype="uint8", **common)(batch, range(6))
    step = sg.Preprocess(normalize="imagenet", gain=(0.5, 1.5), offset=(-0.2, 0.2), **common)
    made = step(batch, range(6), epoch=0)
    pixels, colours = (np.transpose(array, [layout.index(axis) for axis in "NHWC"]) for array in (pixels, made))
    mean, std = (np.array(numbers) for numbers in NAMED["imagenet"])
    drawn = set()
    for row in range(6):
        for channel in range(3):
            x = pixels[row, ..., channel].ravel() / 255
            y = colours[row, ..., channel].ravel() * std[channel] + mean[channel]
            gain, offset = np.polyfit(x, y, 1)
            assert 0.49 < gain < 1.51
            assert -0.21 < offset < 0.21
            np.testing.assert_allclose(gain * x + offset, y, atol=1e-5)
            drawn.add((round(gain, 4), round(offset, 4)))
    assert len(drawn) == 18
    alone = np.stack([step([picture], [row], epoch=0)[0] for row, picture in enumerate(batch)])
    np.testing.assert_array_equal(alone, np.moveaxis(made, layout.index("N"), 0))
    assert not np.array_equal(step(batch, range(6), epoch=1), made)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "int32", "float32"])
def test_an_offset_of_a_quarter_is_one_in_units_of_the_result(dtype):
    made = cpu(normalize="0..1", offset=(0.25, 0.25), seed=1)(np.zeros((1, 4, 4, 1), dtype), [0])
    np.testing.assert_allclose(made, 0.25, rtol=1e-6)


def test_colour_keeps_the_low_end_of_a_window_of_values():
    batch = np.full((1, 4, 4, 1), -1000, np.int16)
    made = cpu(clip=(-1000, 400), normalize="0..1", gain=(0.5, 1.5), seed=1)(batch, [0])
    np.testing.assert_allclose(made, 0, atol=1e-6)


@pytest.mark.parametrize(
    "declared, words",
    [
        ({"normalize": "imagenet", "mean": 0.5}, "names mean and std"),
        ({"normalize": "imagenet", "channels": (0, 3)}, "red, green and blue"),
        ({"maximum": 4095, "clip": (0, 1), "normalize": "0..1"}, "which value becomes 1"),
        ({"clip": (3, 3)}, "two numbers in order"),
        ({"gain": (0.8, 1.2)}, "needs seed="),
        ({"gain": (1.2, 0.8), "seed": 1}, "the range of a factor"),
        ({"random_crop": True, "crop": 3}, "needs seed="),
        ({"random_crop": False, "seed": 1}, "give crop= alone"),
        ({"pad": 2, "letterbox": 8}, "would surround nothing"),
        ({"fill": 3}, "for pad=, letterbox= and smaller='pad'"),
    ],
    ids=str,
)
def test_refusals(declared, words):
    with pytest.raises(sg.LayoutError, match=words):
        sg.Preprocess(**declared)


def test_a_fill_that_the_pictures_cannot_hold_is_a_bad_row():
    with pytest.raises(sg.LayoutError, match=r"row 0.*fill"):
        cpu(pad=1, fill=0.5)([np.zeros((3, 3, 3), np.uint8)])
    with pytest.raises(sg.LayoutError, match=r"row 0: fill=300.0 is 77100 in images of uint16, which hold 0 to 65535"):
        cpu(pad=1, fill=300)([np.zeros((3, 3, 3), np.uint16)])


SURFACES = [surface(name, (8, 12), seed=3).frame() for name in ("nv12", "p010", "i010", "bgra")]
ARRAYS = [np.zeros((8, 12, 3), dtype) for dtype in ("uint8", "uint16", "float32")]


@pytest.mark.parametrize(
    "declared, grey",
    [({}, 114), ({"fill": 51}, 51), ({"fill": (0, 51, 255)}, (0, 51, 255))],
    ids=["yolo", "one", "rgb"],
)
def test_the_border_of_a_batch_is_one_colour_whatever_the_types(declared, grey):
    made = cpu(letterbox=16, normalize="0..1", **declared)([*SURFACES, *ARRAYS])
    for image in made:
        np.testing.assert_allclose(image[[0, -1]], np.broadcast_to(np.array(grey) / 255, (2, 16, 3)), atol=1e-5)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "int32", "float16", "float32", "float64"])
def test_a_byte_of_fill_is_a_255th_of_what_becomes_one(dtype):
    made = cpu(pad=1, fill=102, normalize="0..1", dtype="float64")([np.zeros((2, 2, 1), dtype)])[0]
    half_a_step = 0.5 / np.iinfo(dtype).max if np.dtype(dtype).kind in "iu" else 1e-3
    assert abs(made[0, 0, 0] - 102 / 255) <= half_a_step


BORDERS = {
    "bytes": ("uint8", {}, 30),
    "two bytes": ("uint16", {}, 30 * 257),
    "signed": ("int16", {}, round(30 / 255 * 32767)),
    "floats": ("float32", {}, np.float32(30 / 255)),
    "10 bits": ("uint16", {"maximum": 1023, "normalize": "0..1"}, round(30 / 255 * 1023)),
    "floats of bytes": ("float32", {"maximum": 255, "normalize": "0..1"}, 30),
    "a window of values": ("int16", {"clip": (-1000, 400)}, round(-1000 + 30 / 255 * 1400)),
    "a window of bytes": ("uint8", {"clip": (100.5, 151.5)}, round(100.5 + 30 / 5)),
}


@pytest.mark.parametrize("dtype, declared, value", BORDERS.values(), ids=BORDERS)
def test_the_value_of_a_border_in_the_images_own_type(dtype, declared, value):
    step = cpu(pad=1, fill=30, dtype=dtype, **(declared if "normalize" not in declared else {}))
    normal = cpu(pad=1, fill=30, **declared)
    image = np.full((2, 2, 1), 120, dtype)
    if "normalize" in declared:
        assert normal([image])[0][0, 0, 0] == np.float32(value) * np.float32(1 / declared["maximum"])
    else:
        assert step([image])[0][0, 0, 0] == value


@settings(max_examples=examples(100))
@given(
    low=st.integers(-1200, 3000),
    span=st.integers(1, 5000),
    source=st.sampled_from(["int16", "uint16", "int32", "float32"]),
    target=st.sampled_from(["float16", "float32", "float64"]),
    given=st.sampled_from([{"normalize": "0..1"}, {"mean": 0, "std": (1, 1, 1)}]),
)
def test_a_window_of_values_does_not_leave_the_unit(low, span, source, target, given):
    low = abs(low) if source == "uint16" else low
    values = np.unique(
        np.clip(np.linspace(low - 9, low + span + 9, 999).round(), 0 if source == "uint16" else -9999, 9999)
    )
    batch = np.broadcast_to(values.astype(source)[None, None, :, None], (1, 1, len(values), 3))
    made = cpu(clip=(low, low + span), dtype=target, pad=1, **given)(batch)
    assert made.min() == 0
    assert 1 - 2e-3 <= made.max() <= 1


def test_the_values_of_a_stated_window_are_from_0_to_1():
    batch = np.arange(800, 1300, dtype=np.int16).reshape(1, 1, -1, 1)
    made = cpu(clip=(864, 1264), normalize="0..1")(batch)
    assert (made.min(), made.max()) == (0, 1)
    assert np.isfinite(np.sqrt(made)).all()


@pytest.mark.parametrize("declared", [{"mode": "gray"}, {}], ids=["made grey", "one channel"])
def test_a_grey_image_that_is_repeated_has_the_figures_of_three_colours(declared):
    channels = 3 if declared else 1
    batch = np.full((1, 2, 2, channels), 128, np.uint8)
    made = cpu(channels=(0, 0, 0), normalize="imagenet", **declared)(batch)[0, 0, 0]
    mean, std = (np.array(figures) for figures in NAMED["imagenet"])
    np.testing.assert_allclose(made, (128 / 255 - mean) / std, atol=1e-6)
    coloured = cpu(channels=(0, 0, 0), normalize="imagenet", gain=(1, 1), seed=1, **declared)(batch, [0])[0, 0, 0]
    np.testing.assert_allclose(coloured, made, atol=1e-6)


def test_red_that_is_repeated_has_the_figures_of_red():
    made = cpu(channels=(0, 0, 0), normalize="imagenet")(np.full((1, 2, 2, 3), 128, np.uint8))
    assert len(np.unique(made)) == 1


def test_grey_has_not_the_figures_of_two_colours():
    with pytest.raises(sg.LayoutError, match="for 2 and for 3 channels"):
        sg.Preprocess(mode="gray", channels=(0, 0), normalize="imagenet")


def test_a_window_of_values_below_those_of_the_images_needs_no_border():
    """The fill around images, which a crop does not have, was refused: -10 is no value of bytes."""
    batch = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    cropped = sg.Preprocess(crop=2, clip=(-10, 60), normalize="0..1", device="cpu")(batch)
    whole = sg.Preprocess(clip=(-10, 60), normalize="0..1", device="cpu")(batch)
    assert cropped.tobytes() == whole[:, :, 1:3, 1:3].tobytes()


def test_images_that_keep_their_sizes_have_the_colours_of_their_keys():
    step = sg.Preprocess(pad=1, gain=(0.5, 1.5), offset=(-0.2, 0.2), seed=3, dtype="float32", device="cpu")
    images = [np.full((4 + row, 5, 3), 100, np.uint8) for row in range(3)]
    together = step(images, [7, 8, 9], epoch=2)
    for key, image, result in zip((7, 8, 9), images, together, strict=True):
        assert result.tolist() == step([image], [key], epoch=2)[0].tolist()
    assert len({result[0, 1, 1] for result in together}) == 3
