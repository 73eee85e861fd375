"""Images of every mode of Pillow, upright, as RGB and grey by the stated rules; arrays by their channels."""

from __future__ import annotations

import io

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.preprocess.images import pixels_of

Image = pytest.importorskip("PIL.Image", reason="Pillow makes the images: pip install stridedgpu[cli]")

RANDOM = np.random.default_rng(3)
RGB = RANDOM.integers(0, 256, (12, 17, 3), dtype=np.uint8)
DEEP = RANDOM.integers(0, 65536, (12, 17), dtype=np.uint16)
ORIENTATION = 0x0112


def picture(mode):
    """A random image of a mode."""
    base = Image.fromarray(RGB)
    if mode in ("RGBA", "LA", "PA"):
        alpha = Image.fromarray(RANDOM.integers(0, 256, (12, 17), dtype=np.uint8))
        base.putalpha(alpha)
        return base.convert("LA").convert("PA") if mode == "PA" else base.convert(mode)
    if mode == "I;16":
        return Image.fromarray(DEEP)
    if mode == "F":
        return Image.fromarray(DEEP.astype(np.float32))
    return base.quantize(32) if mode == "P" else base.convert(mode)


def plain(**declared):
    return sg.Preprocess(layout="NHWC", device="cpu", **{"dtype": "uint8", **declared})


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "PA", "CMYK", "1", "YCbCr", "HSV"])
def test_eight_bits_become_what_pillow_makes_of_them(mode):
    given = picture(mode)
    np.testing.assert_array_equal(plain()([given])[0], np.asarray(given.convert("RGB")))
    grey = plain(mode="gray")([given])[0]
    assert grey.shape == (12, 17, 1)
    np.testing.assert_array_equal(grey[..., 0], np.asarray(given.convert("RGB").convert("L")))
    np.testing.assert_array_equal(plain()(given), np.asarray(given.convert("RGB")))


def test_sixteen_bits_keep_their_depth():
    given = picture("I;16")
    assert pixels_of(given).dtype == np.uint16
    made = plain(dtype="float32", normalize="0..1")([given])[0]
    np.testing.assert_array_equal(
        made, np.repeat(DEEP[..., None], 3, axis=2).astype(np.float32) * np.float32(1 / 65535)
    )
    twelve = plain(dtype="float32", normalize="0..1", maximum=4095, mode="gray")([given])[0]
    np.testing.assert_array_equal(twelve[..., 0], DEEP.astype(np.float32) * np.float32(1 / 4095))
    np.testing.assert_array_equal(plain(dtype="float32", mode="gray")([picture("F")])[0][..., 0], DEEP)


def stored(image, kind):
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("how", ["image", "bytes", "load"])
@pytest.mark.parametrize("declared", [{}, {"resize": (5, 7)}, {"maximum": 4095}], ids=str)
def test_samples_of_a_pgm_are_those_of_a_png(declared, how):
    """Pillow opens 16 bits of PGM in mode I, and of PNG in mode I;16."""
    made = []
    for kind in ("PPM", "PNG"):
        content = stored(Image.fromarray(DEEP if kind == "PNG" else DEEP.astype(np.int32)), kind)
        given = Image.open(io.BytesIO(content)) if how == "image" else content
        step = plain(dtype="float32", normalize="0..1", crop=(5, 7), **declared)
        made.append(next(iter(sg.load([given], step, batch=1))) if how == "load" else step([given])[0])
    np.testing.assert_array_equal(*made)
    assert made[0].max() > 0.5


@pytest.mark.parametrize("lowest", [-3, 70000])
def test_samples_of_mode_i_beyond_sixteen_bits_need_a_range(lowest):
    values = np.arange(lowest, lowest + 30, dtype=np.int32).reshape(5, 6)
    given = Image.fromarray(values)
    for declared, words in (
        ({"normalize": "0..1"}, "declare clip="),
        ({"resize": 3}, r"np.asarray\(image, np.float32\)"),
    ):
        for image in (given, stored(given, "TIFF")):
            with pytest.raises(sg.LayoutError, match=f"mode I, {lowest} to {lowest + 29}.*{words}"):
                plain(dtype="float32", **declared)([image])
    np.testing.assert_array_equal(plain(dtype="float32", mode="gray")([given])[0][..., 0], values)
    made = plain(dtype="float32", mode="gray", clip=(lowest, lowest + 29), normalize="0..1")([given])[0]
    assert (made.min(), made.max()) == (0, 1)


@pytest.mark.parametrize(
    "declared, mode, words",
    [
        ({"scale": 1 / 255}, "I;16", "samples of uint16, and scale=.* is for bytes"),
        ({"scale": 0.00392157, "bias": (1, 2, 3)}, "I;16", "scale="),
        ({"dtype": "uint8"}, "I;16", "dtype='uint8'"),
        ({"scale": 0.0078, "mean": 1, "std": 1, "arithmetic": "transformers-pil"}, "I;16", "scale="),
        ({"scale": 1 / 255, "mean": 1, "std": 1, "arithmetic": "transformers"}, "F", "samples of float32"),
    ],
    ids=str,
)
def test_figures_of_bytes_are_none_of_deeper_samples(declared, mode, words):
    """White of 16 bits would be 257, or be cut off: the depth of a file is not in the program's hands."""
    step = plain(**{"dtype": "float32", **declared})
    given = picture(mode)
    with pytest.raises(sg.LayoutError, match=words):
        step([given])
    with pytest.raises(sg.LayoutError, match=words):
        step([stored(given, "TIFF")])
    with pytest.raises(sg.LayoutError, match=words):
        list(sg.load([given], step, batch=1))


@pytest.mark.parametrize(
    "declared, expected",
    [
        ({"scale": 1 / 65535}, 1),
        ({"scale": 0.04, "bias": -273.15}, np.float32(0.04) * np.float32(65535) - np.float32(273.15)),
        ({"dtype": "uint8", "normalize": "0..1"}, 1),
        ({"dtype": "uint8", "clip": (0, 200)}, 200),
        ({"mean": 0.0, "std": 1.0, "arithmetic": "transformers"}, 1),
    ],
    ids=str,
)
def test_figures_of_sixteen_bits_are_taken(declared, expected):
    white = Image.fromarray(np.full((2, 2), 65535, np.uint16))
    np.testing.assert_allclose(plain(**{"dtype": "float32", **declared})([white])[0], expected, rtol=1e-6)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_camera_s_orientation_is_applied(orientation):
    from PIL import ImageOps

    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    file = io.BytesIO()
    Image.fromarray(RGB).save(file, "PNG", exif=exif)
    turned = Image.open(file)
    np.testing.assert_array_equal(plain()([turned])[0], np.asarray(ImageOps.exif_transpose(turned)))
    np.testing.assert_array_equal(plain(exif=False)([turned])[0], RGB)


def test_pictures_of_several_modes_share_a_batch():
    given = [picture(mode) for mode in ("RGB", "L", "RGBA", "P", "CMYK", "1", "I;16")]
    step = sg.Preprocess(crop=(10, 12), normalize="imagenet", device="cpu")
    whole = np.stack(step(given))
    assert whole.shape == (7, 3, 10, 12)
    for row, each in enumerate(given):
        np.testing.assert_array_equal(whole[row], step([each])[0])


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_arrays_have_the_mode_of_their_channels(channels):
    given = RANDOM.integers(0, 256, (2, 9, 11, channels), dtype=np.uint8)
    colours = given[..., [0, 0, 0] if channels < 3 else [0, 1, 2]]
    for batch in (given, list(given)):
        np.testing.assert_array_equal(np.stack(plain(mode="rgb")(batch)), colours)
        luma = np.stack([np.asarray(Image.fromarray(row).convert("L")) for row in colours])
        np.testing.assert_array_equal(np.stack(plain(mode="gray")(batch))[..., 0], luma)
    if channels == 1:
        np.testing.assert_array_equal(np.stack(plain(mode="rgb")(list(given[..., 0]))), colours)


def test_arrays_without_a_mode_stay_as_they_are():
    given = RANDOM.integers(0, 256, (2, 9, 11, 4), dtype=np.uint8)
    np.testing.assert_array_equal(plain()(given), given)


def test_grey_of_more_bits_and_of_floats():
    deep = RANDOM.integers(0, 65536, (5, 6, 3), dtype=np.uint16)
    wide = deep.astype(np.int64) @ np.array([19595, 38470, 7471])
    np.testing.assert_array_equal(plain(mode="gray", dtype="uint16")([deep])[0][..., 0], (wide + 32768) >> 16)
    floats = RANDOM.random((5, 6, 3), dtype=np.float32)
    grey = plain(mode="gray", dtype="float32")([floats])[0][..., 0]
    np.testing.assert_allclose(grey, floats @ np.float32([0.299, 0.587, 0.114]), atol=1e-5)


def test_pictures_without_a_channel_axis_are_grey():
    made = sg.Preprocess(dims="NHW", layout="NHW", dtype="uint8", device="cpu")([picture("L"), picture("RGB")])
    np.testing.assert_array_equal(made[0], made[1])


@pytest.mark.parametrize(
    "declared, given, words",
    [
        ({"mode": "bgr"}, None, "mode='bgr' is unknown; it is 'rgb' or 'gray'"),
        ({"mode": "gray", "mean": (1, 2, 3)}, None, "1 and for 3 channels"),
        ({"mode": "rgb", "dims": "NHW", "layout": "NHW"}, None, "for images with height and width"),
        ({"mode": "rgb"}, np.zeros((4, 4, 7), np.uint8), "7 channels, and mode='rgb' is for 1"),
        ({"dims": "NDHW", "layout": "NDHW"}, "picture", "an image of Pillow"),
    ],
    ids=str,
)
def test_refusals(declared, given, words):
    with pytest.raises(sg.LayoutError, match=words):
        step = sg.Preprocess(device="cpu", **declared)
        step([picture("RGB") if isinstance(given, str) else given])


def test_a_mode_that_pillow_does_not_convert_is_a_bad_row(monkeypatch):
    def convert(self, mode):
        raise ValueError("conversion from HSV to RGB not supported")

    hue = Image.new("HSV", (3, 3))
    monkeypatch.setattr(Image.Image, "convert", convert)
    with pytest.raises(sg.LayoutError, match=r"row 0: it has Pillow's mode 'HSV', which does not become 'rgb'"):
        sg.Preprocess(device="cpu")([hue])
    step = sg.Preprocess("image", device="cpu", errors="skip", crop=3)
    assert step({"image": [hue, Image.new("RGB", (3, 3))], "label": [1, 2]})["label"] == [2]


def opened(kind="PNG", *, damaged=False):
    """An image that Pillow has opened and not yet decoded."""
    memory = io.BytesIO()
    Image.fromarray(RANDOM.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(memory, kind)
    encoded = memory.getvalue()
    return Image.open(io.BytesIO(encoded[: len(encoded) // 2] if damaged else encoded))


@pytest.mark.parametrize("mode", ["rgb", "gray", None])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_damaged_image_that_was_only_opened_is_a_bad_row(kind, mode):
    batch = {"image": [opened(kind), opened(kind, damaged=True), opened(kind)], "label": [0, 1, 2]}
    step = sg.Preprocess("image", mode=mode, crop=8, device="cpu", errors="skip")
    made = step(batch)
    assert (made["label"], len(made["image"]), step.skipped) == ([0, 2], 2, 1)
    with pytest.raises(sg.LayoutError, match="row 1 of column 'image': it cannot be read as an image: "):
        sg.Preprocess("image", mode=mode, crop=8, device="cpu")(batch)
    assert step(opened(kind, damaged=True)) is None


def test_a_damaged_mask_that_was_only_opened_is_named():
    batch = {"image": [Image.new("RGB", (64, 64))], "mask": [opened(damaged=True)]}
    with pytest.raises(sg.LayoutError, match="row 0 of column 'mask': the mask cannot be read as an image: "):
        sg.Preprocess("image", mask="mask", crop=8, device="cpu")(batch)
