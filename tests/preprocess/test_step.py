"""`Preprocess`: pixels against NumPy, the same in any batch and order, bad rows, and what may be pickled."""

from __future__ import annotations

import base64
import inspect
import logging
import pickle
import re
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.exchange.array_like import operand_of
from stridedgpu.preprocess.epochs import pixel_key

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def frames(count=6, height=20, width=24, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, height, width, channels), dtype=np.uint8)


def photographs(count=12, seed=1):
    """Pictures of different sizes."""
    random = np.random.default_rng(seed)
    sizes = random.integers(16, 40, (count, 2))
    return [random.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes]


def normalised(pixels, mean=MEAN, std=STD, dtype=np.float32):
    scale = np.float32([1 / (255 * s) for s in std])
    bias = np.float32([-m / s for m, s in zip(mean, std, strict=True)])
    return (pixels.astype(np.float32) * scale + bias).astype(dtype)


def same_bits(first, second):
    return first.shape == second.shape and first.dtype == second.dtype and first.tobytes() == second.tobytes()


def random_step(**changes):
    declared = {"crop": (12, 10), "flip": 0.5, "seed": 7, "key": "name", "mean": MEAN, "std": STD}
    return sg.Preprocess("image", **{**declared, **changes})


# ---- pixels


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "CHWN", "HWNC"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_column_becomes_what_numpy_makes_of_it(layout, dtype):
    batch = {"image": frames(), "label": np.arange(6)}
    made = sg.Preprocess("image", layout=layout, dtype=dtype, mean=MEAN, std=STD)(batch)
    expected = normalised(batch["image"], dtype=dtype).transpose(["NHWC".index(letter) for letter in layout])
    assert same_bits(made["image"], expected)
    assert list(made) == ["image", "label"]
    assert made["label"] is batch["label"]


def test_a_bare_array_and_its_channels_scale_and_bias():
    made = sg.Preprocess(dims="NHWC", channels=(2, 1, 0), scale=2.0, bias=(1, 2, 3), layout="NHWC")(frames())
    assert same_bits(made, frames()[..., ::-1].astype(np.float32) * 2 + np.float32([1, 2, 3]))


@pytest.mark.parametrize("dims", ["NHW", "NCHW", "NDHWC"])
def test_other_axes(dims):
    given = np.random.default_rng(0).integers(0, 256, range(2, 2 + len(dims)), dtype=np.uint8)
    made = sg.Preprocess(dims=dims, layout=dims, dtype="float32", scale=0.5)(given)
    assert same_bits(made, given.astype(np.float32) * np.float32(0.5))


def test_signed_and_float_pictures_are_normalised_in_their_own_units():
    step = sg.Preprocess(mean=0.5, std=0.25, layout="NHWC")
    floats = np.random.default_rng(0).random((2, 4, 4, 3), dtype=np.float32)
    assert same_bits(step(floats), floats * np.float32(4) + np.float32(-2))
    signed = np.full((1, 2, 2, 1), 127, np.int8)
    assert np.allclose(step(signed), 2)


def test_the_crop_is_the_middle_and_the_flip_mirrors():
    given = frames(3, 21, 24)
    made = sg.Preprocess(crop=(10, 11), flip=True, layout="NHWC", dtype="uint8")(given)
    assert same_bits(made, given[:, 6:16, 6:17][:, :, ::-1])


def test_pictures_of_different_sizes_stay_a_list():
    given = photographs()
    made = sg.Preprocess(mean=MEAN, std=STD)(given)
    assert isinstance(made, list)
    for array, photograph in zip(made, given, strict=True):
        assert same_bits(array, normalised(photograph).transpose(2, 0, 1))


@pytest.mark.parametrize("crop", [None, 16])
@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_comes_back_as_a_list_and_a_tuple_as_a_tuple(kind, crop):
    made = sg.Preprocess(crop=crop)(kind(photographs(3)))
    assert type(made) is kind
    assert len(made) == 3


@pytest.mark.parametrize("flip", [None, True])
def test_pictures_of_different_sizes_become_one_column_with_a_crop(flip):
    given = photographs()
    step = sg.Preprocess("image", crop=16, flip=flip, layout="NHWC", dtype="uint8")
    made = step({"image": given})["image"]
    assert made.shape == (12, 16, 16, 3)
    for array, photograph in zip(made, given, strict=True):
        top, left = round((photograph.shape[0] - 16) / 2), round((photograph.shape[1] - 16) / 2)
        expected = photograph[top : top + 16, left : left + 16]
        assert same_bits(array, expected[:, ::-1] if flip else expected)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_an_object_array_stays_one(count):
    column = np.empty(count, object)
    for row, photograph in enumerate(photographs(count)):
        column[row] = photograph
    made = sg.Preprocess("image", flip=True)({"image": column})["image"]
    assert made.dtype == object
    assert made.shape == (count,)
    assert all(array.dtype == np.float32 for array in made)


def test_a_tensor_that_names_its_axes_is_taken_at_its_word():
    pictures = np.random.default_rng(0).integers(0, 256, (2, 5, 6, 3), np.uint8)
    step = sg.Preprocess(crop=2, device="cpu")
    assert np.array_equal(step(sg.asarray(pictures, dims="NHWC")), step(pictures))


@pytest.mark.parametrize(
    "given", [np.zeros((2, 3, 5, 6), np.uint8), [np.zeros((3, 5, 6), np.uint8)]], ids=["batch", "list"]
)
def test_planes_that_are_given_as_pixels_are_refused(given):
    with pytest.raises(sg.LayoutError, match="look like channels that come first: declare dims='NCHW'"):
        sg.Preprocess(crop=2, device="cpu")(given)
    assert np.shape(sg.Preprocess(dims="NCHW", crop=2, device="cpu")(given))[1:] == (3, 2, 2)


@pytest.mark.parametrize(
    "sizes, is_doubtful", [((4, 5, 5), True), ((5, 6, 6), False), ((4, 4, 5), False), ((4, 5, 4), False)]
)
def test_planes_have_at_most_four_channels_and_pictures_more_rows(sizes, is_doubtful):
    step, given = sg.Preprocess(crop=2, device="cpu"), np.zeros((2, *sizes), np.uint8)
    if is_doubtful:
        with pytest.raises(sg.LayoutError, match="look like channels that come first"):
            step(given)
    else:
        assert step(given).shape == (2, sizes[-1], 2, 2)


def test_grey_colour_and_alpha_in_one_list():
    given = [frames(1, channels=channels)[0] for channels in (3, 4, 3)] + [frames(1)[0].astype(np.float32) / 255]
    step = sg.Preprocess(channels=(0, 1, 2), crop=(20, 24), mean=0.5, std=0.5)
    made = step(given)
    for array, picture in zip(made, given, strict=True):
        assert same_bits(array, step([picture])[0])


def test_tensors_where_they_are_asked_for():
    made = sg.Preprocess(layout="NHWC", output="tensor", row_pitch_bytes=512, alignment=64)(frames())
    assert isinstance(made, sg.StridedTensor)
    assert made.sizes == (6, 3, 20, 24)
    assert made.strides == (20 * 128, 1, 128, 3)
    assert made.alignment >= 64
    tensors = sg.Preprocess(crop=8, output="tensor")(photographs(3))
    assert [tensor.sizes for tensor in tensors] == [(3, 8, 8)] * 3


def test_read_only_inputs_are_fine_and_never_written():
    given = frames()
    before = given.copy()
    given.flags.writeable = False
    for step in (sg.Preprocess(), sg.Preprocess(crop=8, flip=0.5, seed=1)):
        step(given)
    assert same_bits(given, before)


@pytest.mark.parametrize("given", [frames(0), []], ids=["array", "list"])
@pytest.mark.parametrize("crop", [None, 8])
def test_an_empty_batch_is_an_ordinary_one(given, crop):
    assert len(sg.Preprocess("image", crop=crop)({"image": given})["image"]) == 0


# ---- chance


def split(batch, *places):
    bounds = [0, *places, len(batch["image"])]
    for first, last in pairwise(bounds):
        yield {name: values[first:last] for name, values in batch.items()}


def test_chance_depends_on_seed_and_key_alone():
    batch = {"image": photographs(40), "name": [f"{row}.png" for row in range(40)]}
    whole = random_step()(batch)["image"]
    parts = [random_step()(part)["image"] for part in split(batch, 1, 8, 9, 30)]
    assert same_bits(np.concatenate(parts), whole)
    backwards = random_step()({name: values[::-1] for name, values in batch.items()})["image"]
    assert same_bits(backwards[::-1].copy(), whole)
    assert not same_bits(random_step(seed=8)(batch)["image"], whole)
    assert same_bits(random_step(key=None)({"image": batch["image"]}, batch["name"])["image"], whole)


def test_without_a_key_the_pixels_are_it():
    given = photographs(20)
    step = random_step(key=None)
    whole = np.stack(step(given, epoch=0))
    # However they lie in memory.
    turned = [np.ascontiguousarray(picture.transpose(2, 0, 1)).transpose(1, 2, 0) for picture in given]
    assert same_bits(np.stack([array for picture in turned for array in step([picture], epoch=0)]), whole)


def test_a_key_of_pixels_is_made_of_up_to_32_rows_and_columns_that_lie_evenly():
    image = np.zeros((1, 64, 66), np.uint8)
    same = pixel_key(operand_of(image, "CHW")[0], "CHW")
    changing = set()
    for row, column in np.ndindex(64, 66):
        image[0, row, column] = 1
        if pixel_key(operand_of(image, "CHW")[0], "CHW") != same:
            changing.add((row, column))
        image[0, row, column] = 0
    assert changing == {(row, column) for row in range(0, 64, 2) for column in range(0, 66, 3)}


def test_chance_is_fair():
    given = np.broadcast_to(np.arange(16, dtype=np.uint8)[:, None] * 16 + np.arange(16, dtype=np.uint8), (4000, 16, 16))
    step = sg.Preprocess(dims="NHWC", crop=13, flip=0.25, seed=3, dtype="uint8")
    made = step(given[..., None], range(4000))[:, 0]
    mirrored = made[:, 0, 0] > made[:, 0, -1]
    assert 850 < mirrored.sum() < 1150
    corners = np.where(mirrored, made[:, 0, -1], made[:, 0, 0])
    places, counts = np.unique(corners, return_counts=True)
    assert places.tolist() == [16 * row + column for row in range(4) for column in range(4)]
    assert counts.min() > 180
    assert counts.max() < 320


@pytest.mark.parametrize("keys", [[1, 2], ["a", b"b", 3, np.int64(4), np.str_("e"), 2**70]])
def test_keys_are_integers_strings_and_bytes(keys):
    step = random_step(key=None)
    made = np.stack(step(photographs(len(keys)), keys, epoch=0))
    again = np.stack(step(photographs(len(keys)), np.array(keys) if len(keys) == 2 else keys, epoch=0))
    assert same_bits(made, again)


# ---- a value


def test_a_step_is_a_value():
    step = random_step()
    assert step == random_step(mean=list(MEAN), std=np.array(STD), crop=[12, 10])
    assert hash(step) == hash(random_step())
    assert random_step(seed=np.int64(7)) == step
    assert eval(repr(step), {"Preprocess": sg.Preprocess}) == step
    with pytest.raises(AttributeError):
        step.seed = 2


def test_a_used_step_is_pickled_without_what_it_holds():
    step = random_step()
    batch = {"image": photographs(), "name": list(range(12))}
    made = step(batch, epoch=0)["image"]
    held = pickle.dumps(step)
    assert len(held) < 1200
    assert same_bits(pickle.loads(held)(batch, epoch=0)["image"], made)


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_make_the_same_bits(workers):
    batch = {"image": photographs(24), "name": list(range(24))}
    parts = list(split(batch, 5, 11, 17))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        made = [part["image"] for part in pool.map(random_step(), parts)]
    assert same_bits(np.concatenate(made), random_step()(batch)["image"])


def test_no_engine_is_imported():
    code = (
        "import sys, numpy, stridedgpu as sg; step = sg.Preprocess('x', crop=2, flip=.5, seed=1);"
        "step({'x': numpy.zeros((2, 4, 4, 3), 'uint8')});"
        "print(sorted({'ray', 'dask', 'datasets', 'pyarrow', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# ---- bad rows


def bad_batch():
    images = photographs(8)
    images[2] = None
    images[4] = images[4][:9]
    images[5] = images[5][..., :2]
    images[7] = [[1, 2], [3, 4]]
    return {"image": images, "name": [f"{row}.png" for row in range(8)], "label": np.arange(8)}


@pytest.mark.parametrize(
    "row, said",
    [
        (2, "NoneType"),
        (4, "smaller than crop"),
        (5, "for 3 channels, and an image here gives 2"),
        (7, "no element type"),
    ],
)
def test_a_bad_row_is_named(row, said):
    batch = {name: [values[0], values[row]] for name, values in bad_batch().items()}
    with pytest.raises(sg.LayoutError, match=rf"row 1 of column 'image' \(key '{row}\.png'\): .*{said}"):
        random_step()(batch)


def test_bad_rows_are_dropped_from_every_column_and_counted(caplog):
    step = random_step(errors="skip")
    with caplog.at_level(logging.WARNING, "stridedgpu"):
        made = step(bad_batch())
    assert made["label"].tolist() == [0, 1, 3, 6]
    assert made["name"] == ["0.png", "1.png", "3.png", "6.png"]
    assert step.skipped == 4
    assert len(caplog.records) == 4
    good = {name: [values[row] for row in (0, 1, 3, 6)] for name, values in bad_batch().items()}
    assert same_bits(made["image"], random_step()(good)["image"])


def test_threads_lose_no_count():
    step = random_step(errors="skip")
    begin = threading.Barrier(8)

    def work(_):
        begin.wait()
        for _ in range(5):
            step(bad_batch(), epoch=0)

    logging.getLogger("stridedgpu").disabled = True
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
    finally:
        logging.getLogger("stridedgpu").disabled = False
    assert step.skipped == 8 * 5 * 4


def test_a_batch_in_which_every_row_is_bad():
    step = sg.Preprocess("image", crop=30, errors="skip")
    made = step({"image": frames(4), "label": np.arange(4)})
    assert made["image"].shape == (0, 3, 30, 30)
    assert made["label"].shape == (0,)
    assert step([None]) == []
    assert step.skipped == 5


@pytest.mark.parametrize("orders", [{"dims": "HWC", "layout": "CHW"}, {"dims": "HWC"}, {"layout": "CHW"}], ids=str)
@pytest.mark.parametrize("crop", [None, 2], ids=["whole", "cropped"])
def test_orders_without_rows_are_those_of_images_in_a_list(orders, crop):
    images = list(frames())
    step, usual = (sg.Preprocess("image", crop=crop, device="cpu", **given) for given in (orders, {}))
    assert step == usual
    made = step({"image": images})["image"]
    assert same_bits(np.stack(made), np.stack(usual({"image": images})["image"]))
    assert all(same_bits(image, whole) for image, whole in zip(step(images), usual(images), strict=True))
    assert sg.Preprocess(dims="HW", layout="WH") == sg.Preprocess(dims="NHW", layout="NWH")


# ---- refusals


@pytest.mark.parametrize(
    "declared, said",
    [
        ({"dims": "HW", "layout": "CHW"}, "N among them"),
        ({"layout": "NCDHW"}, "the same axes"),
        ({"layout": "NCHW8"}, "splits channels"),
        ({"dims": "NHW", "layout": "NHW", "crop": 3}, "crop and flip"),
        ({"mean": 0.5, "scale": 2}, "one pair"),
        ({"std": (1, -1, 1)}, "must be above 0"),
        ({"bias": (0, float("inf"), 0)}, "must be finite"),
        ({"channels": (0, -1)}, "counted from 0"),
        ({"key": ["a"]}, "must be one column's name"),
        ({"mean": (1, 2), "std": (1, 2, 3)}, "2 and for 3 channels"),
        ({"mean": (1, 2), "channels": (0, 1, 2)}, "2 and for 3 channels"),
        ({"flip": 0.5}, "needs seed="),
    ],
)
def test_what_no_picture_could_fit_is_refused_when_declared(declared, said):
    with pytest.raises(sg.LayoutError, match=said):
        sg.Preprocess("image", **declared)


@pytest.mark.parametrize(
    "given, keys, said",
    [
        ({"picture": frames()}, None, "columns are 'picture'"),
        ({"image": frames()}, [1, 2], "2 keys for 6 rows"),
        ({"image": frames()}, iter(range(6)), "must be a sequence with a key for each row"),
        ({}, None, "the batch, which is empty"),
        (None, None, "The batch is a NoneType; it is a dict of columns"),
        ("photo.jpg", None, "The batch is a str"),
        ({"image": frames()[0]}, None, "means 4 axes"),
        ({"image": frames()}, [1.5] * 6, "no integer, string or bytes"),
        ({"image": frames(channels=2)}, None, "for 3 channels, and an image here gives 2"),
    ],
)
def test_what_a_batch_lacks_is_said(given, keys, said):
    with pytest.raises(sg.LayoutError, match=said):
        random_step(key=None)(given, keys)


def of_kind(kind, pixels):
    if kind == "pillow":
        return pytest.importorskip("PIL.Image").fromarray(pixels)
    return sg.asarray(pixels, dims="HWC") if kind == "tensor" else pixels


@pytest.mark.parametrize("kind", ["array", "tensor", "pillow"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "CHWN"])
@pytest.mark.parametrize("declared", [{}, {"crop": 3}, {"resize": 4}], ids=str)
def test_one_image_is_the_one_of_a_list(kind, layout, declared):
    image = of_kind(kind, frames()[0])
    step = sg.Preprocess(layout=layout, device="cpu", **declared)
    (expected,) = step([image])
    made = step(image)
    np.testing.assert_array_equal(made, expected)
    if declared != {}:
        out = np.zeros(np.expand_dims(expected, layout.index("N")).shape, np.float32)
        if "resize" in declared:
            with pytest.raises(sg.LayoutError, match="out= holds results of one size"):
                step(image, out=out)
        else:
            assert step(image, out=out) is out
            np.testing.assert_array_equal(np.moveaxis(out, layout.index("N"), 0)[0], expected)


@pytest.mark.parametrize("device", ["cpu", "cuda-emulated"])
@pytest.mark.parametrize(
    "declared",
    [
        {},
        {"crop": 3},
        {"resize": (4, 5)},
        {"letterbox": 7},
        {"crop": 3, "seed": 1, "gain": (0.5, 2), "normalize": "0..1"},
    ],
    ids=str,
)
def test_zeros_lie_behind_the_pixels_of_nhwc8(declared, device):
    """Also in memory that results before had."""
    filled, plain = (
        sg.Preprocess(layout=layout, dtype="float16", output="tensor", device=device, **declared)
        for layout in ("NHWC8", "NHWC")
    )
    for batch in (frames(), list(frames())):
        for _ in range(2):
            made, expected = (
                [one.to_device("cpu") for one in step(batch, range(6), epoch=0)] for step in (filled, plain)
            )
            for image, same in zip(made, expected, strict=True):
                np.testing.assert_array_equal(image.numpy(), same.numpy())
            whole = filled(batch, range(6), epoch=0)
            if not isinstance(whole, list):
                every = whole.as_strided((6, 8, *whole.sizes[2:]), whole.strides).to_device("cpu").numpy()
                assert whole.strides[3] == 8
                assert not every[:, 3:].any()
                assert every[:, :3].any()
                whole.as_strided((6, 8, *whole.sizes[2:]), whole.strides)[...] = np.float16(7)
            del whole, made


def test_arrays_of_nhwc8_have_the_axes_of_nhwc():
    step = sg.Preprocess(layout="HWC8", crop=3, device="cpu")
    made = step(frames())
    assert (made.shape, made.strides[2]) == ((6, 3, 3, 3), 32)
    (batch,) = sg.load(list(frames()), step, batch=6)
    np.testing.assert_array_equal(batch, made)
    with pytest.raises(sg.LayoutError, match="'NCHW4' splits channels into an axis more"):
        sg.Preprocess(layout="NCHW4")


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_one_array_has_channels_where_the_step_says(channels):
    planes = np.moveaxis(frames(channels=channels)[0], -1, 0)
    step = sg.Preprocess(dims="NCHW", dtype="uint8", device="cpu")
    np.testing.assert_array_equal(step(planes), planes)
    np.testing.assert_array_equal(sg.Preprocess(dims="NHW", layout="NHW", device="cpu")(planes[0]), planes[0])


@pytest.mark.parametrize("sizes", [(8, 28, 28), (5, 4), (1, 2, 5, 4, 3)], ids=str)
def test_an_array_that_may_be_a_batch_of_grey_images_is_none(sizes):
    with pytest.raises(sg.LayoutError, match="means 4 axes, or 3 of one image of 1 to 4 channels"):
        sg.Preprocess(device="cpu")(np.zeros(sizes, np.uint8))
    if len(sizes) == 3:
        with pytest.raises(sg.LayoutError, match="means 4 axes"):
            sg.Preprocess(dims="NHWC", device="cpu")(sg.asarray(np.zeros((3, 9, 3), np.uint8), dims="NHW"))


def test_a_column_that_is_not_named_is_asked_for():
    with pytest.raises(
        sg.LayoutError, match=r"column= has to say where .* whose columns are 'image': Preprocess\('image'"
    ):
        sg.Preprocess()({"image": frames()})
    with pytest.raises(sg.LayoutError, match="key='name' is a column, and the batch has none: give keys="):
        random_step()(frames())
    with pytest.raises(sg.LayoutError, match=r"column=.* must be one column's name"):
        sg.Preprocess(["image"])


@pytest.mark.parametrize("label, said", [(np.arange(3), "3 rows"), (7, "a int")])
def test_rows_are_not_dropped_from_what_has_others(label, said):
    with pytest.raises(sg.LayoutError, match=f"column 'label' holds {said} beside 4 images"):
        sg.Preprocess("image", crop=30, errors="skip")({"image": frames(4), "label": label})


@pytest.mark.parametrize(
    "name, said",
    [
        ("size", "crop=, resize= or letterbox= do that"),
        ("num_workers", "batch= and threads= of sg.load do that"),
        ("normalise", "normalize= is one"),
        ("padding", "pad= does that"),
        ("random_horizontal_flip", "flip=, with seed= do that"),
        ("random_erasing", "help(stridedgpu.Preprocess) describes"),
        ("random_rotation", "help(stridedgpu.Preprocess) describes"),
        ("mask_column", "help(stridedgpu.Preprocess) describes"),
        ("Crop", "crop= is one"),
        ("xyzzy", "help(stridedgpu.Preprocess) describes"),
    ],
)
def test_an_argument_that_does_not_exist_is_refused_with_one_that_does(name, said):
    with pytest.raises(TypeError, match=rf"^Preprocess has no argument {name}=; {re.escape(said)}"):
        sg.Preprocess(**{name: 1})


def test_a_device_is_found_in_the_worker(gpus):
    step = sg.Preprocess(output="tensor", layout="NHWC")
    made = step(frames())
    assert made.device == "cuda:0"
    assert same_bits(made.permute("NHWC").numpy(), sg.Preprocess(device="cpu", layout="NHWC")(frames()))


PICKLED_BY_VERSION_0_1 = (
    b"gAJjc3RyaWRlZGdwdS5wcmVwcm9jZXNzClByZXByb2Nlc3MKcQApgXEBfXECKFgGAAAAY29sdW1ucQNYBQAAAGltYWdlcQRYBAAAAGRpbXNxBVgE"
    b"AAAATkhXQ3EGWAYAAABsYXlvdXRxB1gEAAAATkNIV3EIWAUAAABkdHlwZXEJWAcAAABmbG9hdDE2cQpYBAAAAG1lYW5xC0c/3wo9cKPXCkc/3S8a"
    b"n752yUc/2fvnbItDlodxDFgDAAAAc3RkcQ1HP9AAAAAAAACFcQ5YBQAAAHNjYWxlcQ9OWAQAAABiaWFzcRBOWAgAAABjaGFubmVsc3ERTlgEAAAA"
    b"Y3JvcHESSwJLAoZxE1gEAAAAZmxpcHEURz/gAAAAAAAAWAQAAABzZWVkcRVLB1gDAAAAa2V5cRZOWA8AAAByb3dfcGl0Y2hfYnl0ZXNxF05YCQAA"
    b"AGFsaWdubWVudHEYSyBYBgAAAGRldmljZXEZWAQAAABhdXRvcRpYBgAAAGVycm9yc3EbWAUAAAByYWlzZXEcWAYAAABvdXRwdXRxHVgFAAAAbnVt"
    b"cHlxHnViLg=="
)
"""Of `stridedgpu.preprocess.Preprocess` when that was one module, in base64."""


def test_steps_pickled_before_the_package_had_rooms_keep_working():
    given = {"crop": 2, "flip": 0.5, "seed": 7}
    step = sg.Preprocess("image", dtype="float16", mean=(0.485, 0.456, 0.406), std=0.25, **given)
    arrived = pickle.loads(base64.b64decode(PICKLED_BY_VERSION_0_1))
    assert arrived == step
    assert repr(arrived) == repr(step)
    batch = {"image": np.arange(2 * 5 * 6 * 3, dtype=np.uint8).reshape(2, 5, 6, 3)}
    assert same_bits(arrived(batch, [0, 1])["image"], step(batch, [0, 1])["image"])


@pytest.mark.parametrize("keys", [3, np.array(3), list], ids=str)
def test_keys_are_a_sequence(keys):
    with pytest.raises(sg.LayoutError, match="must be a sequence with a key for each row"):
        sg.Preprocess(crop=2, seed=1, device="cpu", dims="NHWC")(np.zeros((2, 4, 4, 3), np.uint8), keys)


def test_a_batch_repeated_beyond_memory_is_refused():
    batch = np.broadcast_to(np.zeros((4, 4, 3), np.uint8), (2**40, 4, 4, 3))
    with pytest.raises(sg.LayoutError, match="1099511627776 images"):
        sg.Preprocess(crop=2, device="cpu", dims="NHWC")(batch)


@pytest.mark.parametrize("declared", [{"resize": (2, 2)}, {"crop": 2}, {"letterbox": 2}], ids=str)
def test_an_image_of_another_device_is_not_read_by_the_cpu(declared):
    step = sg.Preprocess(device="cpu", **declared)
    here = np.zeros((4, 4, 3), np.uint8)
    there = sg.asarray(here).to_device("cuda-emulated")
    with pytest.raises(sg.BindingError, match="An image is on cuda-emulated, and the step on the CPU"):
        step([here, there])


def test_a_batch_of_no_arrays_is_refused_in_words():
    step = sg.Preprocess(crop=2, device="cpu", dims="NHWC")
    for batch in (np, np.ndarray):  # a module and a class, whose `shape` is none
        with pytest.raises(sg.ElementTypeError, match="is not array-like"):
            step(batch)


def test_sizes_that_no_crop_has():
    with pytest.raises(sg.LayoutError, match="0 x 5 pixels; there is nothing"):
        sg.Preprocess(random_resized_crop=True, crop=4, device="cpu").placements([(0, 5)])
    with pytest.raises(sg.LayoutError, match="more than 2147483647 pixels"):
        sg.Preprocess(resize=2**40, crop=4, device="cpu")


def blocks(shape, *chunks):
    """What `dask_kwargs` reads of an array of Dask."""
    return SimpleNamespace(shape=shape, chunks=chunks)


def test_dask_is_told_the_type_and_the_chunks_of_the_result():
    frames = blocks((5, 8, 9, 3), (2, 3), (8,), (9,), (3,))
    told = sg.Preprocess(crop=(4, 6), layout="NCHW", dtype="float16").dask_kwargs(frames)
    assert told["chunks"] == ((2, 3), (3,), (4,), (6,))
    assert (told["dtype"], told["meta"].shape, told["meta"].dtype) == (np.float16, (0, 0, 0, 0), np.float16)
    assert sg.Preprocess(layout="NHWC").dask_kwargs(frames)["chunks"] == ((2, 3), (8,), (9,), (3,))
    picked = sg.Preprocess(channels=(0, 0, 1, 2), layout="NHWC").dask_kwargs(frames)
    assert picked["chunks"] == ((2, 3), (8,), (9,), (4,))
    for mode, channels in (("gray", 1), ("rgb", 3)):
        step = sg.Preprocess(mode=mode, layout="NHWC", device="cpu")
        assert step.dask_kwargs(blocks((5, 8, 9, 4), (5,), (8,), (9,), (4,)))["chunks"][-1] == (channels,)
        assert step(np.zeros((5, 8, 9, 4), np.uint8)).shape[-1] == channels


def test_the_rows_of_a_block_of_dask_have_their_places_in_the_whole_array_as_keys():
    step = partial(sg.Preprocess(crop=4, flip=0.5, random_crop=True, seed=1, device="cpu"), frames(6)[:3], epoch=0)
    whole = {"array-location": [(4, 7), (0, 20), (0, 24), (0, 3)]}
    assert same_bits(step(block_info={0: whole, None: {"array-location": [(0, 3)] * 4}}), step(range(4, 7)))
    assert same_bits(step([9, 8, 7], block_info={0: whole}), step([9, 8, 7]))
    assert same_bits(step(block_info={None: whole}), step())


@pytest.mark.parametrize(
    "declared, array, words",
    [
        ({"errors": "skip"}, blocks((5, 8, 9, 3), (5,), (8,), (9,), (3,)), "errors='raise' and output='numpy'"),
        ({"output": "tensor"}, blocks((5, 8, 9, 3), (5,), (8,), (9,), (3,)), "errors='raise' and output='numpy'"),
        ({}, np.zeros((5, 8, 9, 3), np.uint8), "takes a Dask array, not a ndarray"),
        ({}, blocks((5, 8, 9), (5,), (8,), (9,)), "has not the axes NHWC"),
        ({"layout": "CHWN"}, blocks((5, 8, 9, 3), (5,), (8,), (9,), (3,)), "moves its rows"),
        ({}, blocks((5, 8, 9, 3), (5,), (4, 4), (9,), (1, 2)), r"cut along H, C; array.rechunk\(\{1: -1, 3: -1\}\)"),
    ],
    ids=["skipped rows", "tensors", "no array of Dask", "rank", "order", "cut pictures"],
)
def test_blocks_that_dask_cannot_know_are_refused(declared, array, words):
    with pytest.raises(sg.LayoutError, match=words):
        sg.Preprocess(device="cpu", **declared).dask_kwargs(array)


def test_an_image_of_other_channels_is_named_with_both_counts():
    images = [np.zeros((4, 5, 3), np.uint8), np.zeros((4, 5, 1), np.uint8)]
    with pytest.raises(sg.LayoutError, match="it has 1 channels and others 3; channels= picks from each"):
        sg.Preprocess("image", resize=(2, 2), device="cpu")({"image": images})


@pytest.mark.parametrize("declared", [{"dims": "NC", "layout": "NC"}, {"dims": "C", "layout": "NC"}])
def test_rows_of_one_axis_are_refused_in_a_list_and_taken_as_one_array(declared):
    rows = [np.arange(3, dtype=np.uint8), np.arange(3, 6, dtype=np.uint8)]
    step = sg.Preprocess(device="cpu", **declared)
    with pytest.raises(sg.LayoutError, match=r"row 0: it has the one axis C; an image of a list has two or more"):
        step(rows)
    assert np.array_equal(step(np.stack(rows)), np.stack(rows))


def test_images_of_two_axes_and_different_sizes_stay_a_list():
    images = [np.arange(6, dtype=np.uint8).reshape(2, 3), np.arange(9, dtype=np.uint8).reshape(3, 3)]
    results = sg.Preprocess(dims="NWC", layout="NCW", device="cpu")(images)
    assert all(np.array_equal(result, image.T) for result, image in zip(results, images, strict=True))


def test_what_a_step_hands_out_is_named():
    assert inspect.signature(sg.Preprocess).parameters["output"].kind is inspect.Parameter.KEYWORD_ONLY
