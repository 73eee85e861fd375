"""fill="reflect", "symmetric" and "edge" of a step: numpy.pad of the images, then what the step does without it."""

from __future__ import annotations

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.frame_cases import surface
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.operations.borders import BORDERS

PLAIN = {"dtype": "uint8", "layout": "NHWC", "device": "cpu"}
SIDES = [(3, 2, 1, 4), (0, 5, 0, 0), (20, 1, 3, 30)]


def photo(seed, *sizes):
    return np.random.default_rng(seed).integers(0, 256, (*(sizes or (7, 9)), 3), dtype=np.uint8)


def padded(image, sides, border):
    top, left, bottom, right = sides
    return np.pad(image, ((top, bottom), (left, right), (0, 0)), mode=border)


@cpu_paths
@pytest.mark.parametrize("border", BORDERS)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_a_step_is_that_of_padded_images(path, border, data):
    sides = data.draw(st.tuples(*[st.integers(0, 15)] * 4))
    images = [photo(row, *data.draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))) for row in range(3)]
    least = [min(image.shape[axis] + sides[axis] + sides[axis + 2] for image in images) for axis in range(2)]
    crop = tuple(data.draw(st.integers(1, size)) for size in least)
    declared = {
        "crop": crop,
        "seed": data.draw(st.sampled_from([None, 3])),
        "mean": (0.1, 0.2, 0.3),
        "channels": (2, 1, 0),
        "dtype": data.draw(st.sampled_from(["float32", "float16"])),
        "layout": data.draw(st.sampled_from(["NCHW", "NHWC"])),
        "device": "cpu",
    }
    declared["flip"] = 0.5 if declared["seed"] is not None else data.draw(st.booleans())
    keys = range(3)
    with picking_by(path):
        ours = sg.Preprocess(pad=sides, fill=border, **declared)(images, keys, epoch=0)
        theirs = sg.Preprocess(**declared)([padded(image, sides, border) for image in images], keys, epoch=0)
    assert np.stack(ours).tobytes() == np.stack(theirs).tobytes()


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("device", ["cpu", "cuda-emulated"])
@pytest.mark.parametrize("sides", SIDES, ids=str)
def test_a_batch_of_one_size(sides, device, border):
    images = np.stack([photo(row) for row in range(4)])
    step = sg.Preprocess(pad=sides, fill=border, **(PLAIN | {"device": device}))
    assert np.array_equal(step(images), np.stack([padded(image, sides, border) for image in images]))


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("crop", [None, (12, 11), (3, 2)], ids=str)
def test_a_resized_image_is_continued_by_its_resized_pixels(border, crop):
    images = [photo(row, 20 + row, 30) for row in range(3)]
    resized = sg.Preprocess(resize=(10, 8), **PLAIN)(images)
    step = sg.Preprocess(resize=(10, 8), pad=(9, 2, 3, 4), crop=crop, fill=border, flip=True, **PLAIN)
    wanted = [padded(image, (9, 2, 3, 4), border) for image in resized]
    assert np.array_equal(np.stack(step(images)), np.stack(sg.Preprocess(crop=crop, flip=True, **PLAIN)(wanted)))


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("sizes", [(20, 31), (31, 20), (20, 20)], ids=str)
def test_letterboxed_images_go_on_around_themselves(sizes, border):
    image = photo(1, *sizes)
    whole = sg.Preprocess(letterbox=24, fill=7, **PLAIN)([image])[0]
    ((_, _, (top, left, height, width), _, _),) = sg.Preprocess(letterbox=24).placements([sizes])
    inside = whole[top : top + height, left : left + width]
    wanted = padded(inside, (top, left, 24 - top - height, 24 - left - width), border)
    assert np.array_equal(sg.Preprocess(letterbox=24, fill=border, **PLAIN)([image])[0], wanted)


@pytest.mark.parametrize("border", BORDERS)
def test_smaller_images_go_on_around_themselves(border):
    image = photo(1, 6, 7)
    wanted = padded(image, (2, 1, 2, 2), border)
    assert np.array_equal(sg.Preprocess(crop=10, smaller="pad", fill=border, **PLAIN)([image])[0], wanted)


@pytest.mark.parametrize("border", BORDERS)
def test_masks_go_on_as_their_images_do_and_boxes_move(border):
    step = sg.Preprocess(
        "image", pad=(3, 2, 1, 4), crop=(9, 8), seed=1, fill=border, mask="mask", boxes="boxes", **PLAIN
    )
    plain = sg.Preprocess("image", crop=(9, 8), seed=1, mask="mask", boxes="boxes", **PLAIN)
    images, masks = [photo(row) for row in range(5)], [photo(row + 9)[..., 0] for row in range(5)]
    boxes = [np.array([[1.0, 2, 3, 4]], np.float32)] * 5
    ours = step({"image": images, "mask": masks, "boxes": boxes}, range(5))
    theirs = plain(
        {
            "image": [padded(image, (3, 2, 1, 4), border) for image in images],
            "mask": [padded(mask[..., None], (3, 2, 1, 4), border)[..., 0] for mask in masks],
            "boxes": [moved + np.float32((2, 3, 2, 3)) for moved in boxes],
        },
        range(5),
    )
    for name in ("image", "mask", "boxes"):
        assert np.array_equal(ours[name], theirs[name])


def test_colours_change_borders_as_they_change_images():
    declared = {"seed": 3, "gain": (0.5, 1.5), "offset": (-0.1, 0.1), "dtype": "float32", "device": "cpu"}
    images = [photo(row) for row in range(3)]
    ours = sg.Preprocess(pad=3, fill="reflect", **declared)(images, range(3))
    larger = [padded(image, (3,) * 4, "reflect") for image in images]
    theirs = sg.Preprocess(crop=(13, 15), random_crop=False, **declared)(larger, range(3))
    assert np.stack(ours).tobytes() == np.stack(theirs).tobytes()


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("crop", [(14, 15), (4, 5)], ids=str)
def test_frames_go_on_as_their_pixels_do(crop, border):
    frames = [surface(name, (8, 10), seed=3).frame() for name in ("nv12", "bgra")]
    declared = {"pad": 5, "crop": crop, "seed": 2, "fill": border, **PLAIN}
    pixels = [frame.relayout(layout="HWC").permute("HWC").numpy() for frame in frames]
    ours = sg.Preprocess(**declared)(frames, range(2))
    assert np.array_equal(np.stack(ours), np.stack(sg.Preprocess(**declared)(pixels, range(2))))


def test_a_result_goes_into_memory_of_the_caller():
    out = np.empty((2, 9, 11, 3), np.uint8)
    images = np.stack([photo(1), photo(2)])
    assert sg.Preprocess(pad=1, fill="edge", **PLAIN)(images, out=out) is out
    assert np.array_equal(out, np.stack([padded(image, (1,) * 4, "edge") for image in images]))


@pytest.mark.parametrize(
    "declared, said",
    [
        (
            {"pad": 2, "fill": "wrap"},
            "fill='wrap' must be a number, one for each channel, or a word: 'reflect', 'symmetric'",
        ),
        ({"fill": "edge"}, "fill='edge' is what surrounds an image, for pad=, letterbox= and smaller='pad'"),
        ({"column": 0, "pad": 1, "fill": "edge", "mask": 1, "mask_fill": 9}, "mask_fill=9 and fill='edge' both say"),
    ],
)
def test_declarations_without_a_meaning_are_refused(declared, said):
    with pytest.raises(sg.LayoutError, match=said):
        sg.Preprocess(**declared)


def test_an_image_without_pixels_has_nothing_to_go_on_with():
    with pytest.raises(
        sg.LayoutError, match=r"row 0: it is 0 x 9 \(height x width\); there is nothing for fill='edge'"
    ):
        sg.Preprocess(pad=1, fill="edge", **PLAIN)([np.zeros((0, 9, 3), np.uint8)])
