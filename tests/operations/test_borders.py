"""Borders that continue an image: numpy.pad's modes, copied within the result, in windows that have their pixels."""

from __future__ import annotations

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.exchange.array_like import operand_of_array
from stridedgpu.operations.borders import BORDERS, _runs, covering, fill_borders


def continued(images, place, window, border):
    """NumPy's padding of images (N, C, H, W), and of it the window in which they lie at `place`."""
    top, left, height, width = place
    far = max(window) + max(abs(top), abs(left)) + max(height, width)
    padded = np.pad(images, ((0, 0), (0, 0), (far, far), (far, far)), mode=border)
    return padded[..., far - top : far - top + window[0], far - left : far - left + window[1]]


@cpu_paths
@pytest.mark.parametrize("border", BORDERS)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_a_border_is_that_of_numpy(path, border, data):
    """The window has all pixels of its border, as `covering` says, and lies in memory of any order of axes."""
    height, width = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    place = (data.draw(st.integers(-9, 9)), data.draw(st.integers(-9, 9)), height, width)
    asked = data.draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    element = data.draw(st.sampled_from(["uint8", "float16", "float32", "float64"]))
    seen = covering(place, asked, border)
    wanted = continued(np.random.default_rng(1).integers(0, 99, (2, 3, height, width)), seen.place, seen.size, border)
    axes = data.draw(st.permutations(range(4)))
    batch = np.zeros([wanted.shape[axis] for axis in axes], element).transpose(np.argsort(axes))
    top, left = seen.place[:2]
    rows, columns = slice(max(top, 0), max(top + height, 0)), slice(max(left, 0), max(left + width, 0))
    batch[..., rows, columns] = wanted[..., rows, columns]
    with picking_by(path):
        fill_borders(operand_of_array(batch), [seen.place] * 2, border)
    assert np.array_equal(batch, wanted)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("extent", [1, 2, 3, 40])
def test_a_border_far_larger_than_its_image_takes_few_copies(border, extent):
    size, left = 20_000, 9_999
    pixels = np.arange(5, 5 + extent, dtype=np.uint16)
    row = np.zeros((1, 1, 1, size), np.uint16)
    row[..., left : left + extent] = pixels
    fill_borders(operand_of_array(row), [(0, left, 1, extent)], border)
    assert np.array_equal(row[0, 0, 0], np.pad(pixels, (left, size - left - extent), border))
    assert len(_runs(left, extent, size, border)) <= 2 * size.bit_length()


PLACES = st.integers(-9, 9) | st.integers(-(10**12), 10**12)


@settings(max_examples=examples(200))
@given(
    place=st.tuples(PLACES, PLACES, st.integers(1, 7), st.integers(1, 7)),
    window=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    border=st.sampled_from(BORDERS),
)
def test_a_covering_window_is_no_larger_than_it_must_be(place, window, border):
    seen = covering(place, window, border)
    assert covering(seen.place, seen.size, border) == (seen.place, seen.size, (0, 0))
    for axis in range(2):
        first, extent = seen.origin[axis], place[axis + 2]
        is_near = -extent < place[axis] < window[axis]
        assert not is_near or seen.place[axis] == place[axis] + first
        assert first + window[axis] <= seen.size[axis] <= 3 * extent + window[axis]
        is_inside = place[axis] >= 0 and place[axis] + place[axis + 2] <= window[axis]
        assert not is_inside or seen.size[axis] == window[axis]


@pytest.mark.parametrize("border", BORDERS)
def test_a_random_crop_of_a_huge_pad_takes_no_more_than_the_image(border):
    photos = np.random.default_rng(0).permutation(256).astype(np.uint8)[:160].reshape(4, 5, 8, 1)
    step = sg.Preprocess("photo", pad=10**9, crop=(6, 7), seed=2, fill=border, device="cpu")
    for window, photo in zip(step({"photo": photos})["photo"], photos, strict=True):
        assert np.isin(window, photo).all()
        assert window.size == 6 * 7


def test_images_side_by_side_with_one_place_are_filled_together(monkeypatch):
    counts = []

    def counted(source, *_):
        counts.append(source.layout.sizes[0])

    monkeypatch.setattr("stridedgpu.operations.borders.move_elements", counted)
    batch = operand_of_array(np.zeros((5, 1, 4, 4), np.uint8))
    fill_borders(batch, [(1, 0, 3, 4)] * 3 + [(0, 1, 4, 3)] * 2, "edge")
    assert counts == [3, 2]


@st.composite
def ragged(draw: st.DrawFn) -> list[np.ndarray]:
    """One to three images (C, H, W) of any sizes."""
    sizes = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3))
    rng = np.random.default_rng(3)
    return [rng.integers(0, 256, (3, *size), np.uint8) for size in sizes]


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("device", ["cpu", "cuda-emulated"])
@settings(max_examples=examples(40))
@given(images=ragged(), size=st.tuples(st.integers(1, 9), st.integers(1, 9)), data=st.data())
def test_windows_of_gather_crops_have_numpys_borders(device, border, images, size, data):
    """Beside an image and far from it, mirrored or not, and converted after."""
    places = st.tuples(st.integers(-25, 25), st.integers(-25, 25))
    origins = data.draw(st.lists(places, min_size=len(images), max_size=len(images)))
    flips = data.draw(st.lists(st.booleans(), min_size=len(images), max_size=len(images)))
    tensors = [sg.asarray(image, device=device) for image in images]
    found = sg.gather_crops(tensors, origins, size, flip=flips, fill=border, dtype="float32", scale=0.5).numpy()
    for window, image, (top, left), flip in zip(found, images, origins, flips, strict=True):
        whole = continued(image[None], (-top, -left, *image.shape[1:]), size, border)[0]
        assert np.array_equal(window, (whole[..., ::-1] if flip else whole) * np.float32(0.5))


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("device", ["cpu", "cuda-emulated"])
@settings(max_examples=examples(20))
@given(images=ragged(), size=st.tuples(st.integers(9, 30), st.integers(9, 30)))
def test_letterboxes_have_numpys_borders(device, border, images, size):
    """Around the pixels that a border of one colour surrounds, in lists, batches and single images."""
    tensors = [sg.asarray(image, device=device) for image in images]
    places = sg.letterbox_placements([image.shape[1:] for image in images], size)
    plain = sg.letterbox(tensors, size, fill=0, layout="NHWC").numpy()
    for found in (
        sg.letterbox(tensors, size, fill=border, layout="NHWC").numpy(),
        np.stack([sg.letterbox(tensor, size, value=border).numpy() for tensor in tensors]),
    ):
        for window, pixels, (top, left, height, width) in zip(found, plain, places, strict=True):
            inside = pixels[None, :, top : top + height, left : left + width]
            assert np.array_equal(window, continued(inside, (top, left, height, width), size, border)[0])


def test_frames_have_borders_of_their_own_pixels():
    frame = sg.Frame.over("nv12", bytes(range(96)), (8, 8))
    picture = frame.relayout().numpy()
    for device_frame in (frame, frame.to_device("cuda-emulated")):
        crops = sg.gather_crops([device_frame], [[-3, -20]], (12, 9), fill="symmetric").numpy()
        assert np.array_equal(crops, continued(picture[None], (3, 20, 8, 8), (12, 9), "symmetric"))
        boxed = sg.letterbox([device_frame], (8, 20), fill="edge").numpy()
        assert np.array_equal(boxed, continued(picture[None], (0, 6, 8, 8), (8, 20), "edge"))


def test_a_window_far_away_needs_no_memory_for_the_way():
    image = np.arange(12, dtype=np.uint8).reshape(1, 3, 4)
    for border in BORDERS:
        found = sg.gather_crops([image], [[2**62, -(2**62)]], (2, 2), fill=border)
        near = sg.gather_crops([image], [[2**62 % 12 + 12, -(2**62) % 24 - 24]], (2, 2), fill=border)
        assert np.array_equal(found.numpy(), near.numpy()), border


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: sg.letterbox(IMAGE, 8, fill="mirror"), "fill='mirror' is unknown; .*'reflect', 'symmetric' or 'edge'"),
        (lambda: sg.letterbox(IMAGE, 8, value="wrap"), "value='wrap' is unknown"),
        (lambda: sg.letterbox(IMAGE, 8, value=0, fill="edge"), "value=0 and fill='edge' both say"),
        (lambda: sg.gather_crops([IMAGE], [[0, 0]], 4, fill="wrap"), "fill='wrap' is unknown"),
        (lambda: sg.gather_crops([IMAGE[:, :0]], [[0, 0]], 4, fill="edge"), r"sources\[0\] has 0 x 6 pixels"),
        (lambda: sg.gather_crops(IMAGE[None, None], [[0, 0, 0]], (1, 2, 2), fill="edge"), "continues images; around"),
        (lambda: sg.gather_crops([IMAGE], size=2, boxes=[[0, 0, 2, 2]], fill="wrap"), "fill='wrap' is unknown"),
        (lambda: sg.plan_letterbox(sg.asarray(IMAGE), sg.zeros((3, 8, 8), "uint8"), fill="edge"), "must be a number"),
        (lambda: sg.plan_gather_crops(IMAGE[None], (8, 8), fill="edge"), "must be a number"),
    ],
)
def test_words_and_images_without_a_border_are_refused(call, words):
    with pytest.raises(sg.LayoutError, match=words):
        call()


IMAGE = np.zeros((3, 5, 6), np.uint8)
