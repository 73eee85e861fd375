"""Decoders: the pixels of Pillow in every mode and orientation, without a copy where its memory can be shared."""

from __future__ import annotations

import ctypes
import gc
from io import BytesIO

import numpy as np
import pytest

from stridedgpu.preprocess import pillow_memory
from stridedgpu.preprocess.decoding import DECODERS, Decoder, _formats
from stridedgpu.preprocess.files import ImageError
from stridedgpu.preprocess.pillow_memory import _ArrowArray, shared_pixels

Image = pytest.importorskip("PIL.Image", reason="Pillow decodes the images: pip install stridedgpu[cli]")
ImageOps = pytest.importorskip("PIL.ImageOps", reason="Pillow decodes the images: pip install stridedgpu[cli]")

ORIENTATION = 0x0112


def picture(height=33, width=47, mode="RGB", seed=0):
    smooth = np.linspace(0, 1, height)[:, None, None] * np.linspace(0, 200, width)[None, :, None]
    noise = np.random.default_rng(seed).integers(0, 50, (height, width, 3))
    return Image.fromarray((smooth + noise).astype(np.uint8)).convert(mode)


def encoded(image, kind, **options):
    stored = BytesIO()
    image.save(stored, kind, **options)
    return stored.getvalue()


def by_pillow(stored):
    return np.asarray(ImageOps.exif_transpose(Image.open(BytesIO(stored))).convert("RGB"))


@pytest.fixture(params=["pillow", "simplejpeg"])
def decoder(request):
    if request.param == "simplejpeg":
        pytest.importorskip("simplejpeg", reason="an optional decoder: pip install stridedgpu[load]")
    return Decoder(request.param)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP", "MPO", "AVIF"])
def test_images_stand_upright_as_pillow_turns_them(kind, orientation, decoder):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    if kind == "AVIF" and kind not in _formats():
        pytest.skip("Pillow has AVIF from 11.3 on")
    several = {"save_all": True, "append_images": [picture(seed=1)]} if kind == "MPO" else {}
    stored = encoded(picture(), kind, exif=exif, **several)
    assert np.array_equal(decoder.frame(stored, "image"), by_pillow(stored))


@pytest.mark.parametrize(
    "kind, mode",
    [("JPEG", "L"), ("JPEG", "CMYK"), *(("PNG", mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA")), ("GIF", "P")],
)
def test_modes_become_rgb_as_pillow_converts_them(kind, mode, decoder):
    stored = encoded(picture(mode=mode), kind)
    assert np.array_equal(decoder.frame(stored, "image"), by_pillow(stored))


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("quality", [40, 90])
def test_jpegs_of_every_subsampling(decoder, subsampling, quality):
    stored = encoded(picture(101, 67), "JPEG", subsampling=subsampling, quality=quality)
    assert np.array_equal(decoder.frame(stored, "image"), by_pillow(stored))


def test_files_and_opened_images_are_the_same(tmp_path, decoder):
    path = tmp_path / "image.jpg"
    path.write_bytes(encoded(picture(), "JPEG"))
    expected = by_pillow(path.read_bytes())
    assert np.array_equal(decoder.frame(path, "image"), expected)
    assert np.array_equal(decoder.of_pillow(Image.open(path), "image"), expected)


def test_shared_memory_outlives_its_image():
    image = picture(300, 200)
    expected = np.array(image)
    shared = shared_pixels(image)
    del image
    gc.collect()
    assert len([picture(300, 200, seed=seed) for seed in range(1, 20)]) == 19  # they would take freed memory
    assert np.array_equal(shared, expected)
    assert not shared.flags.writeable


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (2600, 2100), (2_500_000, 2)], ids=str)
def test_shared_memory_of_every_size(size):
    image = picture(*size)
    assert np.array_equal(shared_pixels(image), np.asarray(image))


def test_an_image_in_several_blocks_is_copied_without_a_chain_of_byte_strings(monkeypatch):
    image = picture(2600, 2100)
    expected = np.asarray(image)
    monkeypatch.setattr(type(image), "tobytes", None)
    assert np.array_equal(shared_pixels(image), expected)


class ArrowCore:
    """The memory of an image of 2 x 3 pixels, which Arrow's interface describes by these fields."""

    size, mode = (3, 2), "RGB"

    def __init__(self, **fields):
        self.pixels = np.arange(24, dtype=np.uint8)
        self.buffers = (ctypes.c_void_p * 2)(None, self.pixels.ctypes.data)
        self.described = _ArrowArray(length=24, n_buffers=2, buffers=self.buffers)
        for name, value in fields.items():
            setattr(self.described, name, value)

    def __arrow_c_array__(self):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.described), b"arrow_array", None)


class OlderCore:
    """Memory of Pillow before 11.2."""

    size, mode = (3, 2), "RGB"


class CoreImage:
    """An image over such memory, whose copy is black."""

    def __init__(self, core):
        self.im = core

    def load(self):
        pass

    def __array__(self, dtype=None, copy=None):
        return np.zeros((2, 3, 3), np.uint8)


def pixels_over(monkeypatch, core):
    monkeypatch.setattr(pillow_memory, "_type_of_cores", lambda: type(core))
    return shared_pixels(CoreImage(core))


def test_pixels_of_arrow_are_shared_where_they_are_all_there(monkeypatch):
    core = ArrowCore()
    pixels = pixels_over(monkeypatch, core)
    assert pixels.tolist() == core.pixels.reshape(2, 3, 4)[..., :3].tolist()
    assert np.shares_memory(pixels, core.pixels)


@pytest.mark.parametrize("fields", [{"length": 23}, {"length": 25}, {"n_buffers": 1}, {"offset": 1}], ids=str)
def test_pixels_that_arrow_describes_otherwise_are_copied(monkeypatch, fields):
    assert pixels_over(monkeypatch, ArrowCore(**fields)).tolist() == np.zeros((2, 3, 3)).tolist()


def test_an_image_without_an_arrow_interface_is_copied(monkeypatch):
    assert pixels_over(monkeypatch, OlderCore()).tolist() == np.zeros((2, 3, 3)).tolist()


def test_memory_of_another_type_is_not_believed():
    assert shared_pixels(CoreImage(ArrowCore())).tolist() == np.zeros((2, 3, 3)).tolist()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("needed, factor", [((100, 80), 1), ((50, 40), 2), ((49, 33), 2), ((25, 20), 4), ((5, 5), 8)])
def test_a_draft_is_no_smaller_than_needed(needed, factor, orientation):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    stored = encoded(picture(80, 100) if orientation >= 5 else picture(100, 80), "JPEG", exif=exif)
    pixels = Decoder("pillow-draft", lambda sizes: needed if sizes == (100, 80) else (0, 0)).frame(stored, "image")
    assert pixels.shape[:2] == (-(-100 // factor), -(-80 // factor))
    assert pixels.shape[0] >= needed[0]
    assert pixels.shape[1] >= needed[1]


@pytest.mark.parametrize(
    "stored, said",
    [
        (b"", "is not an image in a format that Pillow reads"),
        (b"\xff\xd8\xff" + bytes(30), "is not an image|cannot be read as an image"),
        (encoded(picture(), "JPEG")[:400], "cannot be read as an image"),
        (encoded(picture(), "PNG")[:-200], "cannot be read as an image"),
    ],
    ids=["empty", "start alone", "half a JPEG", "half a PNG"],
)
def test_what_is_no_image_is_refused_by_name(stored, said, decoder):
    first = f": {stored[:12].hex(' ')} ..." if stored else ""
    with pytest.raises(ImageError, match=rf"^the name \({len(stored)} bytes{first}\) ({said})"):
        decoder.frame(stored, "the name")


def test_bombs_are_refused(monkeypatch, decoder):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    said = r"at most 1000 pixels are read, which is PIL\.Image\.MAX_IMAGE_PIXELS: set that to more"
    with pytest.raises(ImageError, match=said):
        decoder.frame(encoded(picture(), "JPEG"), "image")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 33 * 47)
    assert decoder.frame(encoded(picture(), "JPEG"), "image").shape == (33, 47, 3)


def test_versions_name_the_decoder():
    versions = [Decoder(name).version for name in DECODERS if name != "simplejpeg"]
    assert versions[0].startswith(f"Pillow {Image.__version__}")
    assert versions[1] == f"{versions[0]}, draft"
