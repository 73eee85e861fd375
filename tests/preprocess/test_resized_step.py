"""`Preprocess` resizes as torchvision's transforms do on Pillow's images, and letterboxes as YOLO does."""

from __future__ import annotations

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.profiles import examples
from harness.torchvision_transforms import torchvision_transforms
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.__main__ import main
from stridedgpu.exchange.array_like import operand_of_array
from stridedgpu.operations.images import CropSources
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.preprocess.windows import write_placed
from stridedgpu.problems.resize_problem import ResizeRule
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.interpolation import interpolation_named

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def photo(height, width, seed=0):
    """A random image."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def torchvision_sizes(height, width, size):
    """`_compute_resized_output_size` of torchvision, for one number."""
    short, long = (width, height) if width <= height else (height, width)
    new_short, new_long = size, int(size * long / short)
    return (new_long, new_short) if width <= height else (new_short, new_long)


@settings(max_examples=examples(80))
@given(sizes=st.lists(st.tuples(*(st.integers(24, 130),) * 2), min_size=1, max_size=3), seed=st.integers(0, 999))
def test_resize_crop_to_tensor_normalize(sizes, seed):
    """Resize(32), CenterCrop(24), ToTensor and Normalize on Pillow's images, to the bit of the bytes between."""
    image = pytest.importorskip("PIL.Image", reason="the oracle is Pillow")
    newest = int(pytest.importorskip("PIL").__version__.split(".")[0]) >= 13
    passes = "pillow-13" if newest else "horizontal"
    step = sg.Preprocess(resize=32, crop=24, mean=MEAN, std=STD, passes=passes)
    plain = sg.Preprocess(resize=32, crop=24, dtype="uint8", passes=passes)
    photos = [photo(*size, seed + number) for number, size in enumerate(sizes)]
    expected = []
    for picture in photos:
        height, width = torchvision_sizes(*picture.shape[:2], 32)
        resized = np.asarray(image.fromarray(picture).resize((width, height), 2))
        top, left = round((height - 24) / 2.0), round((width - 24) / 2.0)
        expected.append(resized[top : top + 24, left : left + 24].transpose(2, 0, 1))
    np.testing.assert_array_equal(np.stack(plain(photos)), expected)
    whole = np.stack(expected)
    scale = np.float32(1 / (255 * np.array(STD)))[:, None, None]
    bias = np.float32(-np.array(MEAN) / np.array(STD))[:, None, None]
    np.testing.assert_array_equal(np.stack(step(photos)), whole * scale + bias)
    normal = (whole / np.float32(255) - np.float32(MEAN)[:, None, None]) / np.float32(STD)[:, None, None]
    np.testing.assert_allclose(np.stack(step(photos)), normal, rtol=0, atol=1e-6)


@settings(max_examples=examples(60))
@given(sizes=st.lists(st.tuples(*(st.integers(24, 200),) * 2), min_size=1, max_size=3), most=st.integers(25, 90))
def test_a_shorter_side_with_a_limit_of_the_longer_one(sizes, most):
    """Resize(24, max_size=most) of torchvision, whose results have sizes of their own."""
    functional = torchvision_transforms().functional
    step = sg.Preprocess(resize=24, max_size=most, dtype="uint8", passes="horizontal", device="cpu")
    photos = [photo(*size) for size in sizes]
    expected = [functional._compute_resized_output_size(size, [24], most) for size in sizes]
    results = step(photos)
    assert [list(result.shape) for result in results] == [[3, *size] for size in expected]
    for pixels, size, result in zip(photos, expected, results, strict=True):
        fixed = sg.Preprocess(resize=size, dtype="uint8", passes="horizontal", device="cpu")
        assert result.tobytes() == fixed([pixels])[0].tobytes()
        assert step(pixels[None])[0].tobytes() == result.tobytes()


def test_results_of_several_sizes_need_lists():
    step = sg.Preprocess(resize=24, dtype="uint8", pad=1, passes="horizontal", device="cpu")
    assert [result.shape for result in step([photo(48, 96), photo(96, 48)])] == [(3, 26, 50), (3, 50, 26)]
    assert step(np.stack([photo(48, 96)] * 2)).shape == (2, 3, 26, 50)
    with pytest.raises(sg.LayoutError, match="out= holds results of one size"):
        step([photo(48, 96)], out=np.zeros((1, 3, 26, 50), np.uint8))
    with pytest.raises(sg.LayoutError, match="it is 3000 x 24, of which max_size=25 leaves no pixel"):
        sg.Preprocess(resize=24, max_size=25, passes="horizontal", device="cpu")([photo(3000, 24)])


@pytest.mark.parametrize(
    "declared", [{"max_size": 30}, {"resize": (8, 9), "max_size": 30}, {"resize": 30, "max_size": 30}]
)
def test_a_limit_of_the_longer_side_is_beside_one_for_the_shorter(declared):
    with pytest.raises(sg.LayoutError, match="max_size=30 is the most of a longer side, and above that of the shorter"):
        sg.Preprocess(crop=3, passes="horizontal", **declared)


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("sizes", [(20, 30), (25, 20), (30, 21), (7, 8)], ids=str)
def test_images_smaller_than_the_window_get_a_fill_around_them(sizes, flip):
    step = sg.Preprocess(crop=(26, 25), smaller="pad", fill=9, dtype="uint8", layout="NHWC", flip=flip, device="cpu")
    picture = photo(*sizes)
    before = [max(most - size, 0) // 2 for size, most in zip(sizes, (26, 25), strict=True)]
    behind = [max(most - size + 1, 0) // 2 for size, most in zip(sizes, (26, 25), strict=True)]
    padded = np.pad(picture, [*zip(before, behind, strict=True), (0, 0)], constant_values=9)
    top, left = (round((size - most) / 2) for size, most in zip(padded.shape, (26, 25), strict=False))
    window = padded[top : top + 26, left : left + 25]
    np.testing.assert_array_equal(step([picture])[0], window[:, ::-1] if flip else window)
    np.testing.assert_array_equal(step(picture[None])[0], window[:, ::-1] if flip else window)


@pytest.mark.parametrize("sizes", [(20, 30), (25, 20), (30, 22), (7, 8)], ids=str)
def test_floor_puts_the_one_pixel_more_before_a_smaller_image(sizes):
    """As transformers' `center_crop` does: half of what is missing, rounded up."""
    options = {"center": "floor", "smaller": "pad", "fill": 9, "dtype": "uint8", "layout": "NHWC", "device": "cpu"}
    image = photo(*sizes)
    behind = [max(most - size, 0) // 2 for size, most in zip(sizes, (26, 25), strict=True)]
    before = [max(most - size + 1, 0) // 2 for size, most in zip(sizes, (26, 25), strict=True)]
    padded = np.pad(image, [*zip(before, behind, strict=True), (0, 0)], constant_values=9)
    top, left = ((size - most) // 2 for size, most in zip(padded.shape, (26, 25), strict=False))
    result = sg.Preprocess(crop=(26, 25), **options)([image])[0]
    np.testing.assert_array_equal(result, padded[top : top + 26, left : left + 25])


@pytest.mark.parametrize(
    "declared, sizes",
    [({"resize": 2, "max_size": 3}, (1, 900)), ({"resize": 10}, (0, 5)), ({"letterbox": 8}, (5, 0))],
    ids=["no pixel is left", "no rows", "no columns"],
)
def test_an_array_of_images_that_are_all_skipped_has_no_rows(declared, sizes):
    step = sg.Preprocess(
        errors="skip", passes=None if "letterbox" in declared else "horizontal", device="cpu", **declared
    )
    batch = np.zeros((2, *sizes, 3), np.uint8)
    assert len(step(batch)) == 0 == len(step(list(batch)))
    assert step.skipped == 4
    assert len(step(batch[:0])) == 0


def test_images_without_pixels_have_no_placement():
    step = sg.Preprocess(resize=10, passes="horizontal", device="cpu")
    with pytest.raises(sg.LayoutError, match="an image has 0 x 5 pixels; there is nothing to resize"):
        step.placements([(0, 5)])
    with pytest.raises(sg.LayoutError, match="row 0: it is 0 x 5"):
        step(np.zeros((2, 0, 5, 3), np.uint8))
    boxes = sg.Preprocess("image", pad=1, boxes="box", device="cpu")
    moved = boxes({"image": [np.zeros((0, 5, 3), np.uint8)], "box": [[[0, 0, 1, 1]]]})
    assert moved["box"][0].tolist() == [[1, 1, 2, 2]]


@pytest.mark.parametrize(
    "declared",
    [
        {"resize": 256, "max_size": 300, "crop": 224},
        {"resize": 256, "max_size": 300, "crop": 224, "errors": "skip"},
        {"maximum": 4095, "mean": 0.0, "std": 1.0, "pad": 1, "fill": 255},
    ],
    ids=["wide images are refused", "wide images are skipped", "16 bits"],
)
def test_every_step_can_be_warmed_up(declared):
    step = sg.Preprocess(passes="horizontal" if "resize" in declared else None, device="cpu", **declared)
    assert sg.warmup(step) == ()
    assert step.skipped == 0


@pytest.mark.parametrize("is_batch", [True, False])
@pytest.mark.parametrize("fill", [9, "symmetric"])
def test_a_random_window_contains_a_smaller_image_at_each_of_its_places(fill, is_batch):
    images = np.stack([photo(5, 9)] * 200)
    step = sg.Preprocess(crop=7, smaller="pad", fill=fill, seed=1, dtype="uint8", layout="NHWC", device="cpu")
    results = step(images if is_batch else list(images), keys=range(200))
    placed = step.placements([(5, 9)] * 200, range(200))
    assert {one.place[:2] for one in placed} == {(top, -left) for top in range(3) for left in range(3)}
    how = {"mode": fill} if isinstance(fill, str) else {"constant_values": fill}
    padded = np.pad(images[0], [(2, 2), (0, 0), (0, 0)], **how)
    for result, (top, left, *_) in zip(results, (one.place for one in placed), strict=True):
        np.testing.assert_array_equal(result, padded[2 - top : 9 - top, -left : 7 - left])


@pytest.mark.parametrize("declared", [{}, {"crop": 8, "random_resized_crop": True}, {"letterbox": 8}], ids=str)
def test_only_the_window_of_a_smaller_image_is_padded(declared):
    with pytest.raises(sg.LayoutError, match="smaller='pad' says what surrounds an image in the window of crop="):
        sg.Preprocess(smaller="pad", passes="horizontal", **declared)


CENTRES = {"round": lambda excess: round(excess / 2), "floor": lambda excess: excess // 2}
"""torchvision's CenterCrop, and `center_crop` of transformers (image_transforms.py), without padding."""


@pytest.mark.parametrize("center", CENTRES)
@pytest.mark.parametrize("sizes", [(24, 24), (25, 27), (27, 25), (26, 29), (31, 24)], ids=str)
def test_half_a_pixel_beside_the_middle_goes_where_the_library_puts_it(center, sizes):
    picture = photo(*sizes)
    top, left = (CENTRES[center](size - 24) for size in sizes)
    step = sg.Preprocess(crop=24, center=center, dtype="uint8", layout="NHWC", device="cpu")
    np.testing.assert_array_equal(step([picture])[0], picture[top : top + 24, left : left + 24])
    assert step.placements([sizes])[0].place[:2] == (-top, -left)


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_torchvisions_transforms_of_tensors(mode):
    """A random box is cut out and resized as by v2 on tensors, which are then scaled and normalised."""
    torchvision_transforms()
    torch, v2 = pytest.importorskip("torch"), pytest.importorskip("torchvision.transforms.v2")
    filters = v2.InterpolationMode(mode)
    step = sg.Preprocess(
        random_resized_crop=True,
        crop=24,
        flip=0.5,
        seed=3,
        mean=MEAN,
        std=STD,
        interpolation=f"torch-{mode}",
        arithmetic="torchvision-v2",
        device="cpu",
    )
    finish = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
    for key in range(20):
        picture = np.random.default_rng(key).integers(0, 256, (40 + key, 70 - key, 3), np.uint8)
        [placed] = step.placements([picture.shape[:2]], [key])
        top, left, bottom, right = map(int, placed.box)
        tensor = torch.from_numpy(picture).permute(2, 0, 1)
        resized = v2.functional.resized_crop(tensor, top, left, bottom - top, right - left, [24, 24], filters)
        expected = finish(resized.flip(-1) if placed.flip else resized).numpy()
        np.testing.assert_array_equal(step([picture], keys=[key])[0], expected)


@pytest.mark.parametrize("declared", [{}, {"crop": 8, "random_resized_crop": True}, {"letterbox": 8}], ids=str)
def test_a_rule_for_the_middle_needs_a_window_in_it(declared):
    with pytest.raises(sg.LayoutError, match="center='floor' says where the middle window of crop= lies"):
        sg.Preprocess(center="floor", **declared)


NORMALISATIONS = {
    "ImageNet": (MEAN, STD),
    "CLIP": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "one half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_every_byte_normalised_to_float16_has_the_bits_of_torchvision(name):
    """ToTensor and Normalize in float32, three roundings, then half(); in float32 the last places differ."""
    mean, std = NORMALISATIONS[name]
    every = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2)
    floats = every.transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    normal = (floats - np.float32(mean)[:, None, None]) / np.float32(std)[:, None, None]
    half = sg.Preprocess(resize=16, crop=16, dtype="float16", mean=mean, std=std)([every])[0]
    np.testing.assert_array_equal(np.asarray(half), normal.astype(np.float16))
    whole = sg.Preprocess(resize=16, crop=16, mean=mean, std=std)([every])[0]
    np.testing.assert_allclose(np.asarray(whole), normal, rtol=0, atol=5e-7)


def test_a_division_has_not_the_bits_of_the_newer_transforms_and_its_texts_say_which_it_has(capsys):
    """v2's ToDtype(scale=True) multiplies by 1 / 255."""
    every = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2)
    newer = every.transpose(2, 0, 1).astype(np.float32) * np.float32(1 / 255)
    newer = (newer - np.float32(MEAN)[:, None, None]) / np.float32(STD)[:, None, None]
    made = sg.Preprocess(mean=MEAN, std=STD, arithmetic="divide", device="cpu")([every])[0]
    assert (made != newer).any()
    np.testing.assert_allclose(made, newer, rtol=0, atol=1e-6)
    with pytest.raises(SystemExit, match="0"):
        main(["preprocess", "--help-all"])
    for text in (sg.relayout.__doc__, sg.Preprocess.__doc__, capsys.readouterr().out):
        words = " ".join(text.replace("`", "").split())
        assert "torchvision's ToTensor and Normalize" in words
        assert "v2's ToDtype(scale=True)" in words


@pytest.mark.parametrize(
    "geometry",
    [
        pytest.param({"crop": 24}, id="crop"),
        pytest.param({"resize": 32, "crop": 24}, id="shorter side and crop"),
        pytest.param({"resize": (20, 30), "interpolation": "opencv-linear"}, id="resize"),
        pytest.param({"letterbox": 40}, id="letterbox"),
        pytest.param({"random_resized_crop": True, "crop": 20, "seed": 3, "flip": 0.5}, id="random boxes, mirrored"),
        pytest.param({"crop": 40, "pad": 10, "fill": (1, 2, 3)}, id="padded"),
    ],
)
@pytest.mark.parametrize("kind", ["arrays", "frames"])
def test_every_way_to_a_picture_divides_its_bytes(geometry, kind):
    """Windows, borders and frames: the bytes of the same step, divided."""
    if kind == "frames" and not geometry.keys() & {"resize", "letterbox"}:
        pytest.skip("frames are cut as arrays are")
    pictures = [photo(48, 64, seed) for seed in range(3)]
    if kind == "frames":
        pictures = [sg.Frame.over("nv12", picture.reshape(-1)[: 48 * 96], (48, 64)) for picture in pictures]
    keys = {"keys": [0, 1, 2]} if "seed" in geometry else {}
    whole = np.stack(sg.Preprocess(dtype="uint8", **geometry)(pictures, **keys))
    made = np.stack(sg.Preprocess(mean=MEAN, std=STD, arithmetic="divide", **geometry)(pictures, **keys))
    mean, std = (np.float32(values)[:, None, None] for values in (MEAN, STD))
    assert np.count_nonzero(made != (whole.astype(np.float32) / np.float32(255) - mean) / std) == 0


@pytest.mark.interop
@pytest.mark.parametrize(
    "interpolation, name", [("bilinear", "ImageNet"), ("bicubic", "CLIP"), ("lanczos", "one half")]
)
def test_the_chain_of_torchvision_on_pillows_pictures(interpolation, name):
    """Resize, CenterCrop, ToTensor and Normalize, as float32: no bit differs."""
    transforms = torchvision_transforms()
    image = pytest.importorskip("PIL.Image")
    newest = int(pytest.importorskip("PIL").__version__.split(".")[0]) >= 13
    mean, std = NORMALISATIONS[name]

    @settings(max_examples=examples(60))
    @given(
        sizes=st.tuples(st.integers(1, 400), st.integers(1, 400)),
        size=st.integers(1, 256),
        share=st.floats(0.01, 1),
        seed=st.integers(0, 999),
    )
    def check(sizes, size, share, seed):
        crop = max(1, int(size * share))
        chain = transforms.Compose(
            [
                transforms.Resize(size, interpolation=transforms.InterpolationMode(interpolation)),
                transforms.CenterCrop(crop),
                transforms.ToTensor(),
                transforms.Normalize(mean, std),
            ]
        )
        step = sg.Preprocess(
            resize=size,
            crop=crop,
            interpolation=f"pillow-{interpolation}",
            passes="pillow-13" if newest else "horizontal",
            mean=mean,
            std=std,
            arithmetic="divide",
        )
        picture = image.fromarray(photo(*sizes, seed))
        made, expected = np.asarray(step(picture)), chain(picture).numpy()
        assert made.shape == expected.shape
        assert np.count_nonzero(made.view(np.int32) != expected.view(np.int32)) == 0

    check()


def test_passes_are_of_pillows_filters():
    """The order of Pillow 13 shows where the height shrinks alone; other libraries have none, and no resize neither."""
    picture = photo(300, 40)
    made = {
        passes: sg.Preprocess(resize=(40, 30), dtype="uint8", passes=passes)([picture])[0].tobytes()
        for passes in ("horizontal", "vertical", "pillow-13")
    }
    assert made["pillow-13"] == made["vertical"] != made["horizontal"]
    for options in ({"resize": (9, 9), "interpolation": "opencv-linear"}, {"letterbox": 9}, {"crop": 9}):
        with pytest.raises(sg.LayoutError, match="passes='vertical' is the order of Pillow's filters"):
            sg.Preprocess(passes="vertical", **options)


def test_arrays_and_lists_are_alike():
    """One array of images, and the same images in a list."""
    photos = [photo(50, 40, seed) for seed in range(3)]
    for arguments in ({"resize": 32, "crop": 30}, {"resize": (20, 30)}, {"letterbox": 28}):
        step = sg.Preprocess(dtype="float16", flip=True, **arguments)
        np.testing.assert_array_equal(step(np.stack(photos)), np.stack(step(photos)))


def test_a_mirrored_crop_is_the_mirrored_crop():
    """Mirroring follows the crop, as where transforms are chained."""
    picture = photo(41, 67)
    plain = sg.Preprocess(resize=32, crop=(20, 21), dtype="uint8")([picture])[0]
    mirrored = sg.Preprocess(resize=32, crop=(20, 21), dtype="uint8", flip=True)([picture])[0]
    np.testing.assert_array_equal(mirrored, plain[:, :, ::-1])


def test_letterbox_is_the_function():
    """The step's letterbox is `sg.letterbox`."""
    photos = [photo(50, 40), photo(20, 90)]
    made = sg.Preprocess(letterbox=(64, 48), dtype="float32", scale=1 / 255)(photos)
    expected = sg.letterbox(photos, (64, 48), dims="HWC", dtype="float32", scale=1 / 255)
    np.testing.assert_array_equal(np.stack(made), expected.numpy())


@settings(max_examples=examples(60))
@given(height=st.integers(1, 90), width=st.integers(1, 90), seed=st.integers(0, 2**40))
def test_random_boxes_are_boxes_resized(height, width, seed):
    """What chance decides depends on key and seed alone, and the result is some box of the image, resized."""
    flat = np.broadcast_to(np.arange(width, dtype=np.uint8), (height, width))[..., None]
    step = sg.Preprocess(random_resized_crop=True, crop=16, seed=seed, dtype="uint8", interpolation="opencv-nearest")
    alone = step([flat], keys=["a"], epoch=0)[0]
    among = step([photo(30, 30)[..., :1], flat], keys=["b", "a"], epoch=0)[1]
    np.testing.assert_array_equal(alone, among)
    columns = alone[0, 0].astype(int)
    assert (np.diff(columns) >= 0).all()
    assert columns[-1] - columns[0] < width


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos"])
@settings(max_examples=examples(60))
@given(
    sizes=st.tuples(*(st.integers(1, 200),) * 2), size=st.integers(1, 90), flip=st.booleans(), seed=st.integers(0, 99)
)
def test_random_boxes_are_cut_out_and_resized_as_torchvision_does(interpolation, sizes, size, flip, seed):
    """RandomResizedCrop on Pillow's pictures: `crop`, then `resize`; Pillow 13's passes go by the box's sizes."""
    image = pytest.importorskip("PIL.Image", reason="the oracle is Pillow")
    newest = int(pytest.importorskip("PIL").__version__.split(".")[0]) >= 13
    step = sg.Preprocess(
        random_resized_crop=True,
        crop=size,
        seed=seed,
        dtype="uint8",
        interpolation=f"pillow-{interpolation}",
        passes="pillow-13" if newest else "horizontal",
        flip=flip,
    )
    picture = image.fromarray(photo(*sizes, seed))
    (placed,) = step.placements([sizes], [0])
    top, left, bottom, right = map(int, placed.box)
    numbered = {"bilinear": 2, "bicubic": 3, "lanczos": 1}[interpolation]
    expected = np.asarray(picture.crop((left, top, right, bottom)).resize((size, size), numbered))
    made = np.asarray(step([picture], keys=[0])[0])
    np.testing.assert_array_equal(made, (expected[:, ::-1] if placed.flip else expected).transpose(2, 0, 1))


@pytest.mark.interop
def test_random_boxes_have_the_bits_of_torchvisions_function():
    """`resized_crop` of the boxes that were drawn."""
    transforms = torchvision_transforms()
    image = pytest.importorskip("PIL.Image")
    newest = int(pytest.importorskip("PIL").__version__.split(".")[0]) >= 13
    step = sg.Preprocess(
        random_resized_crop=True, crop=64, seed=5, dtype="uint8", passes="pillow-13" if newest else "horizontal"
    )
    pictures = [
        image.fromarray(photo(*sizes)) for sizes in np.random.default_rng(4).integers(20, 400, (40, 2)).tolist()
    ]
    placed = step.placements([picture.size[::-1] for picture in pictures], range(40))
    for picture, one, made in zip(pictures, placed, step(pictures, keys=range(40)), strict=True):
        top, left, bottom, right = map(int, one.box)
        box = top, left, bottom - top, right - left
        expected = np.asarray(transforms.functional.resized_crop(picture, *box, [64, 64]))
        np.testing.assert_array_equal(np.asarray(made), expected.transpose(2, 0, 1))


def test_areas_are_spread_over_the_range():
    """Boxes of drawn areas and ratios lie within what was declared."""
    step = sg.Preprocess(random_resized_crop=((0.2, 0.6), (0.5, 2.0)), crop=16, seed=4)
    boxes = [placed.box for placed in step.placements([(400, 500)] * 400, range(400))]
    heights, widths = (np.array([box[2 + axis] - box[axis] for box in boxes]) for axis in range(2))
    shares = heights * widths / (400 * 500)
    assert 0.19 < shares.min() < 0.25
    assert 0.55 < shares.max() < 0.61
    assert 0.48 < (widths / heights).min() < 0.6
    assert 1.7 < (widths / heights).max() < 2.1
    assert len(set(boxes)) > 390


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"resize": 32, "letterbox": 32}, "cannot be declared together"),
        ({"crop": 32, "letterbox": 32}, "cannot be declared together"),
        ({"random_resized_crop": True}, "needs crop="),
        ({"letterbox": (0, 4)}, "at least 1 each"),
        ({"interpolation": "pillow-box"}, "is for resize="),
        ({"resize": (3, 4), "interpolation": "box"}, "is unknown"),
    ],
    ids=str,
)
def test_refusals(arguments, words):
    """Declarations that break a rule."""
    with pytest.raises(sg.LayoutError, match=words):
        sg.Preprocess(**arguments)


def test_pictures_too_small_once_resized():
    """The row is named, with both sizes."""
    with pytest.raises(sg.LayoutError, match=r"row 0: it is 40 x 30 .* 21 x 16 when resized, smaller than crop"):
        sg.Preprocess(resize=16, crop=(16, 17))([photo(40, 30)])


@pytest.mark.parametrize("name", ["resize", "pad", "crop", "letterbox"])
def test_more_pixels_than_an_image_can_have_are_refused(name):
    declared = {"passes": "horizontal"} if name == "resize" else {}
    for pixels in (2**31, 10**400):
        with pytest.raises(sg.LayoutError, match=f"{name}=.* is more than 2147483647 pixels along an axis"):
            sg.Preprocess(**{name: pixels}, **declared)
    assert getattr(sg.Preprocess(**{name: 2**31 - 1}, **declared), name)[-1] == 2**31 - 1


def test_sizes_beyond_an_image_have_no_placement():
    step = sg.Preprocess(crop=8)
    with pytest.raises(sg.LayoutError, match=r"sizes\[0\]=.* must be two integers up to 2147483647"):
        step.placements([(2**31, 9)])
    [placed] = step.placements([(2**31 - 1, 9)])
    assert placed.source == (2**31 - 1, 9)


@cpu_paths
def test_an_empty_fill_leaves_what_no_image_covers(path):
    image, batch = photo(30, 40).transpose(2, 0, 1), np.full((2, 3, 20, 30), 7, np.uint8)
    whole, rule = (0.0, 0.0, 30.0, 40.0), ResizeRule(interpolation_named("torch-bilinear"))
    placements = [Placement((30, 40), whole, place, (20, 30)) for place in ((0, 0, 15, 24), (3, 5, 17, 20))]
    same = conversion(ELEMENT_TYPES["uint8"], ELEMENT_TYPES["uint8"])
    with picking_by(path):
        sources = CropSources.of_images([operand_of_array(image)] * 2)
        write_placed(sources, placements, rule, same, b"", operand_of_array(batch))
    for found, placement in zip(batch, placements, strict=True):
        top, left, height, width = placement.place
        expected = np.full((3, 20, 30), 7, np.uint8)
        resized = sg.resize(image, (height, width), dims="CHW", interpolation="torch-bilinear")
        expected[:, top : top + height, left : left + width] = resized.numpy()
        assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    "place, covers",
    [
        ((0, 0, 8, 9), True),
        ((-1, -2, 9, 11), True),
        ((1, 0, 8, 9), False),
        ((0, 1, 8, 9), False),
        ((-1, 0, 8, 9), False),
        ((0, -1, 8, 9), False),
    ],
)
def test_a_box_that_covers_its_result(place, covers):
    assert Placement((8, 9), (0.0, 0.0, 8.0, 9.0), place, (8, 9)).covers == covers
