"""Memory of decoded images is used again, and never while an array refers to it."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from stridedgpu.preprocess.decoding import Decoder, PixelMemory
from stridedgpu.preprocess.files import ImageError

Image = pytest.importorskip("PIL.Image", reason="Pillow decodes the images: pip install stridedgpu[cli]")
ImageFile = pytest.importorskip("PIL.ImageFile", reason="Pillow decodes the images: pip install stridedgpu[cli]")

SIZES = [(1, 1), (8, 24), (17, 5), (24, 8), (40, 33), (64, 3)]


def jpeg(height, width):
    pixels = np.random.default_rng(height * width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    stored = BytesIO()
    Image.fromarray(pixels).save(stored, "JPEG")
    return stored.getvalue()


STORED = {sizes: jpeg(*sizes) for sizes in SIZES}


@pytest.fixture(params=["pillow", "simplejpeg"])
def decoder(request):
    if request.param == "simplejpeg":
        pytest.importorskip("simplejpeg", reason="an optional decoder: pip install stridedgpu[load]")
    return Decoder(request.param)


@given(order=st.lists(st.tuples(st.sampled_from(SIZES), st.integers(0, 3)), max_size=12))
@settings(max_examples=20)
@pytest.mark.parametrize("name", ["pillow", "simplejpeg"])
def test_pixels_that_are_kept_stay_as_pillow_decodes_them(name, order):
    if name == "simplejpeg":
        pytest.importorskip("simplejpeg", reason="an optional decoder: pip install stridedgpu[load]")
    decoder, kept = Decoder(name), {}
    for sizes, place in order:  # what was in that place is released, and its memory is free
        kept[place] = sizes, decoder.frame(STORED[sizes], "image")
    for sizes, pixels in kept.values():
        assert np.array_equal(pixels, np.asarray(Image.open(BytesIO(STORED[sizes]))))


def test_memory_is_used_again_once_no_view_refers_to_it(decoder):
    def address(pixels):
        return pixels.__array_interface__["data"][0]

    first = decoder.frame(STORED[40, 33], "image")
    view, place = first[3:, ::2], address(first)
    del first
    other = decoder.frame(STORED[24, 8], "image")
    assert address(other) != place
    del view
    assert address(decoder.frame(STORED[17, 5], "image")) == place


def test_memory_that_is_too_small_is_replaced():
    memory = PixelMemory()
    small = memory.allocate(2, 2, 4)
    del small
    large = memory.allocate(30, 20, 4)
    large[...] = 7
    assert large.shape == (30, 20, 4)
    assert large.flags.c_contiguous
    assert large.flags.writeable


def test_files_that_end_early_are_refused_or_end_in_black_whatever_was_decoded_before(tmp_path, monkeypatch):
    decoder, path = Decoder(), tmp_path / "cut.jpg"
    path.write_bytes(STORED[40, 33][: len(STORED[40, 33]) // 2])
    decoder.frame(STORED[40, 33], "image")  # whose pixels the memory holds
    with pytest.raises(ImageError, match="truncated"):
        decoder.frame(path, "image")
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert np.array_equal(decoder.frame(path, "image"), np.asarray(Image.open(path)))


def test_an_image_of_the_caller_keeps_its_own_memory():
    image = Image.open(BytesIO(STORED[24, 8]))
    pixels = Decoder().of_pillow(image, "image")
    assert image.im.mode == "RGB"
    assert np.array_equal(pixels, np.asarray(image))
