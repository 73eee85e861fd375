"""What belongs to an image moves with it: masks as nearest pixels, boxes and points there and back again."""

from __future__ import annotations

import numpy as np
import pytest
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.preprocess.geometry import Placement

GEOMETRIES = {
    "crop": {"crop": (20, 24), "seed": 1},
    "middle": {"crop": (20, 24)},
    "mirrored": {"flip": True},
    "crop and flip": {"crop": (20, 24), "flip": 0.5, "seed": 2},
    "resize": {"resize": (31, 44), "flip": 0.5, "seed": 3},
    "resize and crop": {"resize": 26, "crop": (20, 24), "flip": 0.5, "seed": 4},
    "area": {"random_resized_crop": True, "crop": (20, 24), "flip": 0.5, "seed": 5},
    "letterbox": {"letterbox": (40, 37), "flip": 0.5, "seed": 6},
    "pad": {"pad": (1, 2, 3, 4), "crop": (28, 30), "flip": 0.5, "seed": 7},
}


OF_CORNERS = {
    "xyxy": lambda boxes: boxes,
    "tlbr": lambda boxes: boxes[:, [1, 0, 3, 2]],
    "xywh": lambda boxes: np.concatenate((boxes[:, :2], boxes[:, 2:] - boxes[:, :2]), axis=1),
    "cxcywh": lambda boxes: np.concatenate(((boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]), axis=1),
}


def photographs(count=8, seed=1):
    random = np.random.default_rng(seed)
    sizes = random.integers(28, 60, (count, 2))
    return [random.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes]


@pytest.mark.parametrize("declared", GEOMETRIES.values(), ids=GEOMETRIES)
def test_a_mask_is_its_image_by_nearest_pixels(declared):
    images = photographs()
    masks = [image[..., 0].astype(np.int32) * 1000 for image in images]
    common = {"layout": "NHWC", "dtype": "uint8", "device": "cpu", "fill": 0 if "pad" in declared else None}
    if "resize" in declared or "random_resized_crop" in declared:
        common["interpolation"] = "pillow-nearest"
    if "letterbox" in declared:
        common |= {"interpolation": "opencv-nearest", "fill": 0}
    step = sg.Preprocess("image", mask="mask", **common, **declared)
    made = step({"image": images, "mask": masks, "label": list(range(8))}, list(range(8)))
    assert made["label"] == list(range(8))
    for mask, image in zip(made["mask"], made["image"], strict=True):
        assert mask.dtype == np.int32
        np.testing.assert_array_equal(mask, image[..., 0].astype(np.int32) * 1000)


def test_masks_of_images_of_one_size_are_one_array_and_others_a_list():
    images = photographs(3)
    step = sg.Preprocess("image", mask="mask", flip=True, device="cpu")
    made = step({"image": images, "mask": [image[..., 1] for image in images]})
    assert [mask.shape for mask in made["mask"]] == [image.shape[:2] for image in images]
    np.testing.assert_array_equal(made["mask"][2], images[2][:, ::-1, 1])
    alike = np.stack([image[:28, :28] for image in images])
    both = step({"image": alike, "mask": alike[..., 0]})
    np.testing.assert_array_equal(both["mask"], alike[:, :, ::-1, 0])


@pytest.mark.parametrize("how", ["step", "load"])
@pytest.mark.parametrize("counts", [(2, 2), (0, 3), (1, None)], ids=str)
@pytest.mark.parametrize("declared", GEOMETRIES.values(), ids=GEOMETRIES)
def test_masks_of_single_objects_are_moved_one_by_one(declared, counts, how):
    images = photographs(2)
    random = np.random.default_rng(4)
    masks = [
        random.integers(0, 2, image.shape[:2] if count is None else (count, *image.shape[:2]), dtype=np.uint8)
        for image, count in zip(images, counts, strict=True)
    ]

    def moved(images, masks, keys):
        step = sg.Preprocess("image", mask="mask", key="key", device="cpu", **declared)
        batch = {"image": images, "mask": masks, "key": keys}
        if how == "step" or step.window is None:
            return step(batch)["mask"]
        samples = [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]
        return next(iter(sg.load(samples, step, batch=2)))["mask"]

    made = moved(images, masks, [0, 1])
    assert type(made) is list
    for image, mask, result, key in zip(images, masks, made, [0, 1], strict=True):
        if mask.ndim == 2:
            np.testing.assert_array_equal(result, moved([image], [mask], [key])[0])
        else:
            assert (result.ndim, result.dtype, len(result)) == (3, np.uint8, len(mask))
            for one, whole in zip(result, mask, strict=True):
                np.testing.assert_array_equal(one, moved([image], [whole], [key])[0])


def test_a_mask_of_pillow_keeps_the_numbers_of_its_palette():
    image = pytest.importorskip("PIL.Image", reason="Pillow makes the mask")
    numbers = np.random.default_rng(2).integers(0, 5, (30, 32), dtype=np.uint8)
    mask = image.fromarray(numbers, "L").convert("P")
    mask.putpalette(list(range(255, -1, -1)) * 3)
    held = np.asarray(mask)
    made = sg.Preprocess("image", mask="mask", crop=20, pad=3, mask_fill=255, device="cpu")(
        {"image": [image.new("RGB", (32, 30))], "mask": [mask]}
    )
    np.testing.assert_array_equal(made["mask"][0], held[5:25, 6:26])


def blob(height, width, x, y):
    """An image with a smooth spot whose centre is at x, y."""
    rows, columns = np.mgrid[:height, :width] + 0.5
    spot = 255 * np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 18)
    return np.repeat(np.rint(spot).astype(np.uint8)[..., None], 3, axis=2)


@settings(max_examples=examples(60))
@given(
    name=st.sampled_from(sorted(GEOMETRIES)),
    height=st.integers(40, 70),
    width=st.integers(40, 70),
    key=st.integers(0, 99),
    data=st.data(),
)
def test_points_are_where_the_pixels_went(name, height, width, key, data):
    x, y = (data.draw(st.integers(15, size - 15)) for size in (width, height))
    declared = {**GEOMETRIES[name], **({"fill": 0} if name == "letterbox" else {})}
    step = sg.Preprocess("image", points="spot", boxes="box", layout="NHWC", dtype="float32", device="cpu", **declared)
    given = {"image": [blob(height, width, x, y)], "spot": [[[x, y]]], "box": [[[x - 4, y - 3, x + 4, y + 3]]]}
    made = step(given, [key])
    picture, (point,), (box,) = made["image"][0][..., 0], made["spot"][0], made["box"][0]
    rows, columns = picture.shape
    assert made["spot"][0].dtype == np.float32
    np.testing.assert_allclose((box[:2] + box[2:]) / 2, point, atol=1e-3)
    assert (box[:2] < box[2:]).all()
    if 10 < point[0] < columns - 10 and 10 < point[1] < rows - 10:
        weights = picture / picture.sum()
        centre = (weights.sum(0) @ (np.arange(columns) + 0.5), weights.sum(1) @ (np.arange(rows) + 0.5))
        np.testing.assert_allclose(point, centre, atol=1.2)


@settings(max_examples=examples(100))
@given(
    name=st.sampled_from(sorted(GEOMETRIES)),
    height=st.integers(28, 90),
    width=st.integers(28, 90),
    key=st.integers(0, 99),
    box_format=st.sampled_from(["xyxy", "xywh", "cxcywh", "tlbr"]),
)
def test_boxes_and_points_come_back(name, height, width, key, box_format):
    [placed] = sg.Preprocess(**GEOMETRIES[name]).placements([(height, width)], [key])
    random = np.random.default_rng(key)
    low = random.random((5, 2)) * 20
    corners = np.concatenate((low, low + 1 + random.random((5, 2)) * 20), axis=1)
    boxes = OF_CORNERS[box_format](corners)
    np.testing.assert_allclose(placed.boxes_back(placed.boxes(boxes, box_format), box_format), boxes, atol=1e-9)
    np.testing.assert_allclose(placed.points_back(placed.points(low)), low, atol=1e-9)
    same = placed.boxes(corners)
    moved = placed.boxes(boxes, box_format)
    if box_format == "tlbr":
        np.testing.assert_allclose(moved[:, [1, 0, 3, 2]], same, atol=1e-9)


@settings(max_examples=examples(60))
@given(
    name=st.sampled_from(sorted(GEOMETRIES)),
    box_format=st.sampled_from(["xyxy", "xywh", "cxcywh", "tlbr"]),
    seed=st.integers(0, 99),
)
def test_clamped_boxes_are_what_is_inside(name, box_format, seed):
    random = np.random.default_rng(seed)
    low = random.uniform(-40, 60, (6, 2))
    corners = np.concatenate([low, low + random.uniform(0, 80, (6, 2))], axis=1)
    common = {"boxes": "box", "device": "cpu", **GEOMETRIES[name]}
    batch = {"image": photographs(1), "box": [corners]}
    kept = sg.Preprocess("image", **common)(batch, [seed])
    expected = np.clip(kept["box"][0], 0, np.tile(kept["image"][0].shape[:0:-1], 2))
    step = sg.Preprocess("image", clamp_boxes=True, box_format=box_format, **common)
    made = step({**batch, "box": [OF_CORNERS[box_format](corners)]}, [seed])["box"][0]
    np.testing.assert_allclose(made, OF_CORNERS[box_format](expected), atol=1e-9)


def test_a_picture_without_boxes_has_an_empty_array():
    step = sg.Preprocess("image", boxes="box", crop=8, device="cpu")
    made = step({"image": [np.zeros((9, 9, 3), np.uint8)] * 2, "box": [[], [[0, 0, 2, 2]]]})
    assert [boxes.shape for boxes in made["box"]] == [(0, 4), (1, 4)]
    whole = step({"image": np.zeros((2, 9, 9, 3), np.uint8), "box": np.zeros((2, 3, 4))})["box"]
    assert (whole.shape, whole.dtype) == ((2, 3, 4), np.float64)


def test_rows_that_are_dropped_take_what_belongs_to_them_along():
    images = [np.zeros((9, 9, 3), np.uint8), np.zeros((3, 9, 3), np.uint8), np.zeros((9, 9, 3), np.uint8)]
    step = sg.Preprocess("image", boxes="box", mask="mask", crop=8, errors="skip", device="cpu")
    made = step(
        {"image": images, "box": [[[row] * 4] for row in range(3)], "mask": [image[..., 0] for image in images]}
    )
    assert [boxes[0].tolist() for boxes in made["box"]] == [[0, 0, 0, 0], [2, 2, 2, 2]]
    assert made["mask"].shape == (2, 8, 8)


def test_placements_read_alone():
    placed = Placement((10, 20), (0.0, 0.0, 10.0, 20.0), (0, 0, 20, 40), (20, 40), flip=True)
    assert placed.points([[0, 0], [5, 5]]).tolist() == [[40, 0], [30, 10]]
    assert placed.boxes([[0, 0, 5, 5]]).tolist() == [[30, 0, 40, 10]]


@pytest.mark.parametrize(
    "declared, batch, words",
    [
        ({"mask": "mask"}, {}, "mask='mask' is not in the batch"),
        ({"mask": "mask"}, {"mask": [np.zeros((9, 8), np.uint8)]}, "row 0 of column 'mask': the mask has sizes"),
        ({"boxes": "box"}, {"box": [[1, 2, 3, 4]]}, r"row 0 of column 'box': boxes of an image are numbers of sizes"),
        ({"boxes": "box"}, {"box": []}, "column 'box' holds 0 rows beside 1"),
        ({"points": "at"}, {"at": ["x"]}, "row 0 of column 'at'"),
        ({"points": "at"}, {"at": frozenset({1})}, "column 'at' holds a frozenset beside 1"),
        ({"boxes": "box"}, {"box": [np.full((1, 4), 1j)]}, "row 0 of column 'box': boxes of an image are numbers"),
        ({"boxes": "image"}, {}, "columns of their own"),
    ],
    ids=str,
)
def test_refusals(declared, batch, words):
    with pytest.raises(sg.LayoutError, match=words):
        sg.Preprocess("image", crop=8, device="cpu", **declared)({"image": [np.zeros((9, 9, 3), np.uint8)], **batch})


def test_without_columns_nothing_could_move():
    with pytest.raises(sg.LayoutError, match="names columns that belong to the images"):
        sg.Preprocess("image", boxes="box", device="cpu")([np.zeros((9, 9, 3), np.uint8)])
    with pytest.raises(sg.LayoutError, match="placements by chance need keys="):
        sg.Preprocess(crop=3, seed=1).placements([(9, 9)])


def test_an_unknown_format_of_boxes_is_refused():
    placed = sg.Preprocess(crop=2).placements([(4, 6)])[0]
    with pytest.raises(sg.LayoutError, match="box_format='yolo' is unknown; it is 'xyxy', 'xywh', 'cxcywh' or 'tlbr'"):
        placed.boxes([[1, 2, 3, 4]], "yolo")
    with pytest.raises(sg.LayoutError, match=r"box_format=array\(\[0., 0.\]\) is unknown"):
        placed.boxes([[1, 2, 3, 4]], np.zeros(2))
