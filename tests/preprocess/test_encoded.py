"""Encoded images where images are taken: the pixels of the opened file, and refusals that show the bytes."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.preprocess.files import ImageError
from stridedgpu.preprocess.images import is_encoded

Image = pytest.importorskip("PIL.Image", reason="Pillow decodes the images: pip install stridedgpu[cli]")

ORIENTATION = 0x0112
STEP = sg.Preprocess(resize=12, crop=10, dtype="uint8", device="cpu")


def picture(mode="RGB", height=20, width=26):
    pixels = np.random.default_rng(7).integers(0, 256, (height, width, 3), dtype=np.uint8)
    if mode in ("I;16", "F"):
        return Image.fromarray(
            (pixels[..., 0] * (257.0 if mode == "I;16" else 1 / 255)).astype(mode.replace("I;16", "u2").lower())
        )
    return Image.fromarray(pixels).convert(mode)


def encoded(kind="PNG", mode="RGB", orientation=1):
    stored, exif = BytesIO(), Image.Exif()
    exif[ORIENTATION] = orientation
    picture(mode).save(stored, kind, exif=exif)
    return stored.getvalue()


KINDS = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "view of a part": lambda stored: memoryview(b"xx" + stored + b"x")[2:-1],
    "chars": lambda stored: memoryview(stored).cast("c"),
}
MODES = [("JPEG", "RGB"), ("JPEG", "L"), ("JPEG", "CMYK"), ("WEBP", "RGB"), ("WEBP", "RGBA"), ("TIFF", "F")]
MODES += [("PNG", mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_bytes_is_an_encoded_image(kind):
    assert is_encoded(KINDS[kind](encoded()))
    assert STEP(KINDS[kind](encoded())).tobytes() == STEP(picture()).tobytes()


@pytest.mark.parametrize(
    "value", [memoryview(bytes(12)).cast("B", (3, 4)), memoryview(bytes(8)).cast("i"), "text", None]
)
def test_other_memory_and_text_are_none(value):
    assert not is_encoded(value)


@pytest.mark.parametrize(
    "declared", [{}, {"mode": "rgb"}, {"mode": "gray"}, {"dims": "NCHW"}, {"exif": False}], ids=str
)
@pytest.mark.parametrize("kind, mode", MODES)
def test_the_pixels_are_those_of_the_opened_image(kind, mode, declared):
    step = sg.Preprocess(layout="NHWC", crop=(9, 11), dtype="float32", scale=0.5, device="cpu", **declared)
    stored = encoded(kind, mode, orientation=6)
    expected = step(Image.open(BytesIO(stored)))
    assert step(stored).tobytes() == expected.tobytes()
    assert next(iter(sg.load([stored], sg.Preprocess(**vars_of(step, "NHWC")))))[0].tobytes() == expected.tobytes()


def vars_of(step, dims):
    """The arguments of a step, for decoded images with these axes."""
    return {name: getattr(step, name) for name in ("mode", "exif", "layout", "crop", "dtype", "scale", "device")} | {
        "dims": dims
    }


def test_images_without_channels_are_the_luma():
    step = sg.Preprocess(dims="NHW", layout="NHW", dtype="uint8", device="cpu")
    assert step(encoded()).tobytes() == step(picture()).tobytes()


def test_images_of_other_axes_are_refused():
    with pytest.raises(sg.LayoutError, match="row 0: it is an encoded image, with height and width"):
        sg.Preprocess(dims="NDHWC", layout="NCDHW", device="cpu")([encoded()])


def test_columns_and_lists_hold_them_among_others():
    stored = [encoded(), picture(), np.asarray(picture()), encoded("PNG", "L")]
    expected = np.stack(
        [
            STEP(Image.open(BytesIO(one)) if is_encoded(one) else one)
            if not isinstance(one, np.ndarray)
            else STEP([one])[0]
            for one in stored
        ]
    )
    assert np.stack(STEP(stored)).tobytes() == expected.tobytes()
    step = sg.Preprocess("image", resize=12, crop=10, dtype="uint8", device="cpu")
    assert step({"image": stored})["image"].tobytes() == expected.tobytes()
    column = np.empty(4, object)
    column[:] = stored
    assert np.stack(list(step({"image": column})["image"])).tobytes() == expected.tobytes()


def test_a_key_of_one_encoded_image_is_its_chance():
    step = sg.Preprocess(crop=6, seed=3, dtype="uint8", device="cpu")
    assert step(encoded(), 5, epoch=0).tobytes() == step(picture(), 5, epoch=0).tobytes()
    assert step(encoded(), epoch=0).tobytes() == step(picture(), epoch=0).tobytes()


@pytest.mark.parametrize("kind", ["bytes", "memoryview"])
def test_masks_may_be_encoded(kind):
    step = sg.Preprocess("image", resize=12, crop=10, mask="mask", dtype="uint8", device="cpu")
    mask = picture("L")
    row = {"image": [encoded()], "mask": [KINDS[kind](encoded("PNG", "L"))]}
    assert step(row)["mask"][0].tobytes() == step({"image": [picture()], "mask": [mask]})["mask"][0].tobytes()
    ((_, moved),) = sg.load([(encoded(), row["mask"][0])], sg.Preprocess(0, resize=12, crop=10, mask=1, device="cpu"))
    assert moved[0].tobytes() == step(row)["mask"][0].tobytes()
    with pytest.raises(sg.LayoutError, match=r"row 0 of column 'mask': the mask \(2 bytes: 61 62\) is not an image"):
        step({"image": [encoded()], "mask": [b"ab"]})


DAMAGED = {
    "nothing": (b"", r"the image \(0 bytes\) is not an image in a format that Pillow reads"),
    "text": (b"no image", r"the image \(8 bytes: 6e 6f 20 69 6d 61 67 65\) is not an image in a format"),
    "half": (encoded()[:900], r"the image \(900 bytes: 89 50 4e 47 0d 0a 1a 0a 00 00 00 0d \.\.\.\) cannot be read"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_bytes_that_are_no_image_are_refused_with_their_row_and_first_bytes(damage):
    stored, said = DAMAGED[damage]
    with pytest.raises(sg.LayoutError, match=f"^row 1: {said}"):
        STEP([encoded(), stored])
    with pytest.raises(sg.LayoutError, match=rf"^row 1 \(key 1\): {said}"):
        list(sg.load([encoded(), memoryview(stored)], STEP))
    with pytest.raises(sg.StridedGpuError, match=said.replace("the image", r"images\[1\]", 1)):
        processor()([encoded(), stored])


def test_they_are_left_out_and_counted_as_files_are():
    step = sg.Preprocess(resize=12, crop=10, dtype="uint8", device="cpu", errors="skip")
    stored = [encoded(), b"no image", encoded("JPEG")]
    assert np.stack(step(stored)).tobytes() == np.stack(step(stored[::2])).tobytes()
    assert step(b"no image") is None
    loader = sg.load(stored, step)
    assert np.concatenate(list(loader)).tobytes() == np.stack(step(stored[::2])).tobytes()
    assert step.skipped == 3


@pytest.mark.parametrize("call", [STEP, lambda stored: processor()([stored]), lambda stored: sg.which(stored, stored)])
def test_bombs_are_refused_before_they_are_decoded(call, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 400)
    with pytest.raises(sg.StridedGpuError, match="decompression bomb: at most 400 pixels are read"):
        call(encoded())


def processor():
    return sg.image_processor({"image_processor_type": "ViTImageProcessor", "size": 8}, backend="pil")


@pytest.mark.parametrize("kind", KINDS)
def test_image_processors_open_them(kind):
    turned = encoded("JPEG", orientation=6)
    expected = processor()([picture(), Image.open(BytesIO(turned))], return_tensors="np")["pixel_values"]
    images = [KINDS[kind](encoded()), KINDS[kind](turned)]
    assert processor()(images, return_tensors="np")["pixel_values"].tobytes() == expected.tobytes()
    assert all(map(is_encoded, images)), "the caller's list is as it was"
    assert processor()(images[0], return_tensors="np")["pixel_values"].tobytes() == expected[:1].tobytes()


def test_what_made_pixels_is_told_of_encoded_images():
    small = sg.resize(picture(), (8, 10), dims="HWC", interpolation="pillow-bicubic").permute("HWC").numpy()
    stored = BytesIO()
    Image.fromarray(small).save(stored, "PNG")
    answer = sg.which(encoded(), stored.getvalue())
    assert answer.is_exact
    assert answer.stage("interpolation") == ("pillow-bicubic",)


def test_a_file_that_cannot_be_is_no_text_of_bytes():
    with pytest.raises(ImageError, match=r"^after \(2 bytes: 61 62\) is not an image"):
        sg.which(picture(), b"ab")


def released():
    view = memoryview(encoded())
    view.release()
    return view


@pytest.mark.parametrize(
    "call",
    [
        STEP,
        lambda images: STEP(images[1]),
        lambda images: list(sg.load(images, STEP, batch=2)),
        sg.image_processor({"image_processor_type": "ViTImageProcessor", "size": 8}),
        lambda images: sg.Preprocess("image", mask="mask", device="cpu")({"image": [picture()], "mask": images[1:]}),
    ],
    ids=["list", "one", "load", "processor", "mask"],
)
def test_a_released_memoryview_is_refused_by_its_row_and_what_it_is(call):
    images = [encoded(), released()]
    with pytest.raises(sg.StridedGpuError, match=r"(row [01]|images\[1\]|1).*released memoryview\) cannot be read"):
        call(images)
