"""Images of Pillow in several blocks of memory are read where their rows lie, and joined where that is not possible."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from harness.native_loops import needs_library

import stridedgpu as sg
from stridedgpu.devices.row_buffer import RowBuffer, RowOperand
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.preprocess import pillow_memory
from stridedgpu.preprocess.pillow_memory import shared_operand

Image = pytest.importorskip("PIL.Image", reason="it has the images: pip install stridedgpu[cli]")
pytestmark = pytest.mark.skipif(
    not hasattr(Image.Image, "__arrow_c_array__"), reason="Pillow shares no memory before 11.2"
)

BLOCK_BYTES = 4096


@pytest.fixture
def small_blocks():
    """Images that are created here have blocks of 4,096 bytes."""
    before = Image.core.get_block_size()
    Image.core.set_block_size(BLOCK_BYTES)
    yield
    Image.core.set_block_size(before)


@pytest.fixture
def unjoined(monkeypatch):
    """Rows that are joined fail the test."""

    def address(buffer, name):
        raise AssertionError(f"{name} was read")

    monkeypatch.setattr(RowBuffer, "__getattr__", address)


def picture(height=180, width=130, seed=0):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def test_the_list_of_rows_is_found_in_the_pillow_that_is_installed():
    assert pillow_memory._list_place() is not None


def test_rows_in_several_blocks_are_those_of_the_image(small_blocks):
    image = picture()
    operand = shared_operand(image)
    assert isinstance(operand, RowOperand)
    assert len(set(np.diff(operand.buffer.rows))) > 1  # rows of one block follow each other
    assert np.array_equal(array_of_operand(operand), np.asarray(image))
    assert not array_of_operand(operand).flags.writeable


def test_rows_outlive_their_image(small_blocks):
    image = picture(seed=1)
    expected, operand = np.array(image), shared_operand(image)
    del image
    gc.collect()
    assert len([picture(seed=seed) for seed in range(2, 30)]) == 28  # they would take freed memory
    assert np.array_equal(array_of_operand(operand), expected)


def test_the_reach_of_rows_is_that_of_their_copy(small_blocks):
    operand = shared_operand(picture())
    part = operand.with_layout(operand.layout.sliced((slice(3, 9), slice(2, 5))))
    start = operand.buffer.address
    assert operand.reach == (start, start + 4 * 130 * 180 - 1)
    assert part.reach == (start + 4 * (3 * 130 + 2), start + 4 * (8 * 130 + 4) + 3)
    with pytest.raises(AttributeError, match="rich"):
        operand.rich  # noqa: B018 - read for what it raises
    with pytest.raises(AttributeError, match="place"):
        operand.buffer.place  # noqa: B018 - likewise


def test_one_block_is_shared_as_before():
    operand = shared_operand(picture())
    assert not isinstance(operand, RowOperand)
    assert np.array_equal(array_of_operand(operand), np.asarray(picture()))


@pytest.mark.parametrize("missing", ["_list_place", "_description"])
def test_without_the_list_an_image_is_copied(small_blocks, monkeypatch, missing):
    image = picture()
    pillow_memory._list_place()
    monkeypatch.setattr(pillow_memory, missing, lambda *_: None)
    operand = shared_operand(image)
    assert not isinstance(operand, RowOperand)
    assert np.array_equal(array_of_operand(operand), np.asarray(image))


class Changing(Image.Image):
    """An image that another thread gives other memory and another size whenever it is looked at."""

    @classmethod
    def of(cls, image, *cores):
        changing = cls()
        changing.__dict__.update(image.__dict__, cores=[image.im, *cores])
        return changing

    @property
    def im(self):
        return self.cores[0] if len(self.cores) == 1 else self.cores.pop(0)

    @property
    def height(self):
        return super().height + 1

    @property
    def width(self):
        return super().width + 1

    def load(self):
        return None


class Growing(Changing):
    """One whose size as a pair is another, too."""

    @property
    def size(self):
        width, height = super().size
        return width + 1, height + 1


@pytest.mark.parametrize("kind", [Changing, Growing])
def test_rows_are_those_of_the_memory_that_they_keep(small_blocks, kind):
    image = picture()
    operand = shared_operand(kind.of(image, picture(9, 2000).im))
    assert operand.buffer.owner is image.im
    assert operand.layout.sizes == (180, 130, 3)
    assert np.array_equal(array_of_operand(operand), np.asarray(image))


@pytest.mark.parametrize("mode", ["L", "RGBA", "F"])
def test_memory_that_has_another_mode_by_now_is_not_read_as_rgb(small_blocks, mode):
    image = picture()
    with pytest.raises(sg.BindingError, match="beyond its ends"):  # of the bytes that Pillow copies
        shared_operand(Changing.of(image.convert(mode)))


def step_of(**options):
    return sg.Preprocess(exif=False, device="cpu", **options)


RESIZES = [
    {"interpolation": "torch-bicubic"},
    {"interpolation": "pillow-lanczos", "passes": "horizontal"},
    {"interpolation": "pillow-bicubic", "passes": "pillow-13"},
    {"interpolation": "opencv-linear"},
    {"interpolation": "pillow-nearest"},
]


@pytest.mark.parametrize("options", RESIZES, ids=lambda options: options["interpolation"])
@pytest.mark.parametrize("shape", [(180, 130), (70, 400), (600, 33)], ids=str)
@pytest.mark.parametrize("crop", [None, 20])
def test_a_step_has_the_bits_of_the_array(small_blocks, options, shape, crop):
    images = [picture(*shape, seed=seed) for seed in range(3)]
    step = step_of(resize=(31, 27), crop=crop, normalize="0..1", **options)
    assert isinstance(shared_operand(images[0]), RowOperand)
    for found, expected in zip(step(images), step([np.asarray(image) for image in images]), strict=True):
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("device", ["cpu", "cuda-emulated"])
@pytest.mark.parametrize("options", [{"crop": 33}, {"mode": "gray", "resize": (9, 9)}, {"clip": (9, 99), "crop": 7}])
def test_what_is_no_resize_on_the_cpu_joins_the_rows(small_blocks, device, options):
    image = picture()
    step = sg.Preprocess(exif=False, device=device, **options)
    (found,), (expected,) = step([image]), step([np.asarray(image)])
    assert np.array_equal(*(sg.asarray(pixels).to_device("cpu").numpy() for pixels in (found, expected)))


@needs_library
@pytest.mark.parametrize("backend", ["torchvision", "pil"])
def test_an_image_processor_joins_no_rows(small_blocks, backend, request):
    processor = sg.image_processor({"image_processor_type": "CLIPImageProcessor"}, backend=backend)
    images = [picture(300, 260), picture(90, 400)]
    expected = processor([np.asarray(image) for image in images], return_tensors="np").pixel_values
    request.getfixturevalue("unjoined")
    assert np.array_equal(processor(images, return_tensors="np").pixel_values, expected)


def test_an_output_beside_the_rows_is_written(small_blocks):
    image = picture()
    step = step_of(resize=(31, 27), interpolation="pillow-bilinear", passes="horizontal")
    (expected,) = step([image])
    out = sg.empty((1, 3, 31, 27), "float32")
    step([image], out=out)
    assert np.array_equal(out.numpy()[0], expected)
