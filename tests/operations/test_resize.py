"""`resize` has the bits of Pillow, OpenCV and torch, in every layout, and converts as `relayout` does."""

from __future__ import annotations

import platform
from hashlib import sha256

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.profiles import examples
from harness.resize_cases import (
    PILLOW_FILTERS,
    Resize,
    cv2_resize,
    pictures,
    pillow_passes,
    pillow_resize,
    resizes,
    torch_resize,
)
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.operations import resize as resize_module

ANTIALIASED = sorted(set(PILLOW_FILTERS) - {"nearest"})
TORCH = ("bilinear", "bicubic", "lanczos")
OPENCV = ("linear", "linear-exact", "nearest", "area")
PILLOW_TYPES = ["uint8", "uint8", "uint8"]
if platform.machine() not in ("aarch64", "arm64"):
    PILLOW_TYPES += ["uint16", "float32"]  # there Pillow's build fuses products and sums, and rounds them once


@pytest.mark.parametrize("name", sorted(PILLOW_FILTERS))
@settings(max_examples=examples(120))
@given(case=resizes(), dtype=st.sampled_from(PILLOW_TYPES))
def test_pillow(name: str, case: Resize, dtype: str) -> None:
    """uint8, "I;16" and "F" have the bits of the installed Pillow, whichever version's order of passes it has."""
    passes = "horizontal" if name == "nearest" else pillow_passes(case)
    picture = case.picture(dtype)
    expected = pillow_resize(picture, case, name)
    made = sg.resize(
        picture, case.target, dims="HWC", interpolation=f"pillow-{name}", box=case.box, passes=passes, layout="HWC"
    )
    np.testing.assert_array_equal(np.moveaxis(made.numpy(), 0, -1), expected)


@pytest.mark.parametrize("target", [(101, 1), (202, 1), (50, 2)], ids=str)
def test_very_tall_pictures(target: tuple[int, int]) -> None:
    """Pillow 12.2 and 12.3 take their rows first, where the height shrinks."""
    case = Resize((202, 2), target, None, 1, 0)
    expected, picture = pillow_resize(case.picture(), case, "bicubic"), case.picture()
    made = sg.resize(
        picture, target, dims="HWC", interpolation="pillow-bicubic", passes=pillow_passes(case), layout="HWC"
    )
    np.testing.assert_array_equal(np.moveaxis(made.numpy(), 0, -1), expected)


@pytest.mark.parametrize("name", OPENCV)
@settings(max_examples=examples(120))
@given(case=resizes(boxes="whole"), dtype=st.sampled_from(["uint8", "uint8", "uint16"]))
def test_opencv(name: str, case: Resize, dtype: str) -> None:
    """uint8 and uint16 have OpenCV's bits."""
    if name == "linear-exact":
        dtype = "uint8"
    if name == "area":
        case = Resize(case.source, case.target, case.box, min(case.channels, 4), case.seed)  # OpenCV takes no more
    picture = case.picture(dtype)
    expected = cv2_resize(picture, case, name)
    made = sg.resize(picture, case.target, dims="HWC", interpolation=f"opencv-{name}", box=case.box)
    np.testing.assert_array_equal(np.moveaxis(made.numpy(), 0, -1), expected)


@settings(max_examples=examples(60))
@given(case=resizes(boxes="whole"))
def test_opencv_cubic_is_the_documented_rule(case: Resize) -> None:
    """INTER_CUBIC's fixed point is what rows too short for OpenCV's vectors have; the vectors round in float32."""
    picture = case.picture()
    expected = cv2_resize(picture, case, "cubic")
    made = np.moveaxis(
        sg.resize(picture, case.target, dims="HWC", interpolation="opencv-cubic", box=case.box).numpy(), 0, -1
    )
    if case.target[1] * case.channels < 8:
        np.testing.assert_array_equal(made, expected)
    assert np.abs(made.astype(int) - expected).max() <= 1


@settings(max_examples=examples(60))
@given(case=resizes(boxes="whole"))
def test_opencv_float32(case: Resize) -> None:
    """INTER_LINEAR of float32 agrees with OpenCV's, whose vectors may fuse products and sums, to the last places."""
    picture = case.picture("float32")
    expected = cv2_resize(picture, case, "linear")
    made = np.moveaxis(
        sg.resize(picture, case.target, dims="HWC", interpolation="opencv-linear", box=case.box).numpy(), 0, -1
    )
    np.testing.assert_allclose(made, expected, rtol=0, atol=1e-3)


@pytest.mark.interop
@pytest.mark.parametrize("name", [*TORCH, "nearest"])
@settings(max_examples=examples(120))
@given(case=resizes(boxes="whole"), extreme=st.booleans())
def test_torch(name: str, case: Resize, extreme: bool) -> None:
    """uint8 has torch's bits; a box is cut out first, as by torchvision's `resized_crop`."""
    picture = case.picture()
    picture = (picture > 127).astype(np.uint8) * 255 if extreme else picture
    made = sg.resize(picture, case.target, dims="HWC", interpolation=f"torch-{name}", box=case.box)
    np.testing.assert_array_equal(np.moveaxis(made.numpy(), 0, -1), torch_resize(picture, case, name))


@pytest.mark.parametrize("source, target, first", [(2, 218, 110), (3, 141, 48), (3, 183, 62)])
def test_torch_nearest_rounds_its_edges_to_float32(source: int, target: int, first: int) -> None:
    """By torch 2.13 the first pixel is repeated once more than by OpenCV, whose edges are float64."""
    pixels = np.arange(source, dtype=np.int64).reshape(1, source)
    torchs, opencvs = (sg.resize(pixels, (1, target), interpolation=f"{one}-nearest") for one in ("torch", "opencv"))
    assert (np.count_nonzero(torchs.numpy() == 0), np.count_nonzero(opencvs.numpy() == 0)) == (first, first - 1)


@pytest.mark.interop
@pytest.mark.parametrize("name", TORCH)
@settings(max_examples=examples(60))
@given(case=resizes(boxes="whole"))
def test_torch_float32(name: str, case: Resize) -> None:
    """float32 has the bits of torch's loops for AVX2 and AVX-512, apart from Lanczos; others are near."""
    torch = pytest.importorskip("torch", reason="the oracle is torch")
    picture = case.picture("float32")
    if case.target[1] == 1:
        return
    made = sg.resize(picture, case.target, dims="HWC", interpolation=f"torch-{name}", box=case.box, layout="HWC")
    expected, resized = torch_resize(picture, case, name), np.moveaxis(made.numpy(), 0, -1)
    np.testing.assert_allclose(resized, expected, rtol=0, atol=3e-6 * np.abs(picture).max())
    if name != "lanczos" and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512"):
        np.testing.assert_array_equal(resized, expected)


FROZEN = {
    "bilinear": (
        ((30, 40), (7, 9), "6bf001f1ff95ef3a"),
        ((7, 9), (30, 40), "1900a5b7c0599a5b"),
        ((33, 20), (33, 7), "a59c1475af812e24"),
        ((20, 33), (7, 33), "238fec5223c6ab57"),
        ((101, 211), (23, 24), "799317292866d09b"),
        ((5, 160), (160, 5), "5d8551eebded125b"),
        ((64, 48), (32, 24), "306bd549438b41ad"),
        ((90, 17), (1, 16), "7c0042ef2d7c447f"),
        ((17, 90), (50, 50), "23dad7459a76c602"),
        ((300, 200), (224, 224), "04bbca5856cd0af5"),
        ((224, 224), (61, 301), "024d0971e7b93226"),
        ((12, 500), (12, 224), "3fd38bc014dd7cae"),
    ),
    "bicubic": (
        ((30, 40), (7, 9), "49374faa8c53ad8b"),
        ((7, 9), (30, 40), "4009b13639139f76"),
        ((33, 20), (33, 7), "0633005489c17933"),
        ((20, 33), (7, 33), "8e288f93aadc52b8"),
        ((101, 211), (23, 24), "fb2ae292155b8d11"),
        ((5, 160), (160, 5), "d1bb2361771f9b87"),
        ((64, 48), (32, 24), "b1155d6bb6bc68e8"),
        ((90, 17), (1, 16), "72ece4044380f19a"),
        ((17, 90), (50, 50), "6f0f64dfffd8eb38"),
        ((300, 200), (224, 224), "a1caccbd8f15d97b"),
        ((224, 224), (61, 301), "fd2c81810ccbc66e"),
        ((12, 500), (12, 224), "19512cca92fc26e7"),
    ),
    "lanczos": (
        ((30, 40), (7, 9), "cc889d0d43b5ae60"),
        ((7, 9), (30, 40), "d89acb33a9fdb428"),
        ((33, 20), (33, 7), "3c8ef9551bdc0ed3"),
        ((20, 33), (7, 33), "91ee5afcebb70c19"),
        ((101, 211), (23, 24), "3464beacf017f616"),
        ((5, 160), (160, 5), "fb43082a2b9a7ed9"),
        ((64, 48), (32, 24), "afc98d505ba35638"),
        ((90, 17), (1, 16), "593567b6fde5d456"),
        ((17, 90), (50, 50), "e3a128703f18127b"),
        ((300, 200), (224, 224), "7a490a417cbcb2ef"),
        ((224, 224), (61, 301), "137e3fdcdead9d99"),
        ((12, 500), (12, 224), "e82902cb5377d1d1"),
    ),
}  # fmt: skip
"""Sizes of source and result, and the beginning of the SHA-256 of torch 2.13's bytes, by filter."""


@pytest.mark.parametrize("name", TORCH)
@settings(max_examples=examples(30))
@given(case=resizes(60, boxes="whole"), frame=st.tuples(st.integers(1, 50), st.integers(1, 50)))
def test_crops_and_letterboxes_by_torch(name: str, case: Resize, frame: tuple[int, int]) -> None:
    """Boxes of a batch, mirrored or not, and letterboxes are `resize` of what they show."""
    picture, rule = Resize(case.source, case.target, None, 3, case.seed).picture(), f"torch-{name}"
    box = case.box or (0.0, 0.0, *map(float, case.source))
    top, left, bottom, right = map(int, box)
    crops = sg.gather_crops(
        [picture] * 2, size=case.target, boxes=[box] * 2, flip=[False, True], dims="HWC", interpolation=rule
    ).numpy()
    cut = sg.resize(picture[top:bottom, left:right], case.target, dims="HWC", interpolation=rule).numpy()
    np.testing.assert_array_equal(crops, [cut, cut[..., ::-1]])
    [(top, left, height, width)] = sg.letterbox_placements([case.source], frame).tolist()
    inner = np.full((3, *frame), 114, np.uint8)
    resized = sg.resize(picture, (height, width), dims="HWC", interpolation=rule).numpy()
    inner[:, top : top + height, left : left + width] = resized
    np.testing.assert_array_equal(sg.letterbox(picture, frame, dims="HWC", interpolation=rule).numpy(), inner)


@cpu_paths
@pytest.mark.parametrize("name", TORCH)
def test_torch_where_it_is_not_installed(name: str, path: str) -> None:
    """The bytes that torch 2.13 gives for images of a formula: every value within 251, in no order."""
    with picking_by(path):
        for source, target, beginning in FROZEN[name]:
            picture = (np.arange(source[0] * source[1] * 3, dtype=np.uint64) ** 2 * 7 % 251).astype(np.uint8)
            resized = sg.resize(picture.reshape(*source, 3), target, dims="HWC", interpolation=f"torch-{name}")
            pixels = np.ascontiguousarray(np.moveaxis(resized.numpy(), 0, -1))
            assert sha256(pixels).hexdigest().startswith(beginning), (source, target)


@pytest.mark.parametrize("name", TORCH)
def test_what_torch_has_no_rule_for(name: str) -> None:
    """16 bits, another first pass, alpha; a fractional box has no pixels of its neighbours."""
    picture, rule = Resize((20, 30), (7, 8), None, 4, 1).picture(), {"interpolation": f"torch-{name}", "dims": "HWC"}
    with pytest.raises(sg.ElementTypeError, match="resizes uint8 and float32, and the source holds uint16"):
        sg.resize(picture.astype(np.uint16), (7, 8), **rule)
    with pytest.raises(sg.LayoutError, match="passes='vertical' is Pillow's"):
        sg.resize(picture, (7, 8), passes="vertical", **rule)
    with pytest.raises(sg.LayoutError, match="with Pillow's interpolations"):
        sg.resize(picture, (7, 8), premultiply=True, **rule)
    part = sg.resize(picture, (7, 8), box=(2.5, 3.25, 14.5, 20.0), **rule).numpy()
    cut = sg.resize(picture[2:15, 3:20], (7, 8), box=(0.5, 0.25, 12.5, 17.0), **rule).numpy()
    np.testing.assert_array_equal(part, cut)


@pytest.mark.parametrize("name", ANTIALIASED)
@settings(max_examples=examples(40))
@given(case=resizes(), clear=st.booleans())
def test_premultiplied_alpha(name: str, case: Resize, clear: bool) -> None:
    """RGBA as Pillow resizes it: colours are weighted by alpha."""
    image = pytest.importorskip("PIL.Image", reason="the oracle is Pillow")
    picture = Resize(case.source, case.target, case.box, 4, case.seed).picture()
    if clear:
        picture[::2, :, 3] = 0
        picture[1::3, :, 3] = 255
    box = None if case.box is None else (case.box[1], case.box[0], case.box[3], case.box[2])
    expected = np.asarray(image.fromarray(picture).resize(case.target[::-1], PILLOW_FILTERS[name], box=box))
    made = sg.resize(
        picture,
        case.target,
        dims="HWC",
        interpolation=f"pillow-{name}",
        box=case.box,
        passes=pillow_passes(case),
        premultiply=True,
    )
    np.testing.assert_array_equal(np.moveaxis(made.numpy(), 0, -1), expected)


@settings(max_examples=examples(60))
@given(
    case=resizes(60),
    interpolation=st.sampled_from(["pillow-bicubic", "opencv-linear", "pillow-nearest", "torch-bicubic"]),
    dtype=st.sampled_from([None, "float16", "float32", "int16"]),
    swaps=st.booleans(),
    layout=st.sampled_from(["CHW", "HWC"]),
)
def test_layouts_and_conversion(case: Resize, interpolation: str, dtype: str | None, swaps: bool, layout: str) -> None:
    """Every layout has one result, and the conversion is that of `relayout` on the resized image."""
    picture = case.picture()
    channels = tuple(range(case.channels))[::-1] if swaps else None
    values = {"dtype": dtype, "scale": 0.3 if dtype else None, "channels": channels}
    plain = sg.resize(picture, case.target, dims="HWC", interpolation=interpolation, box=case.box)
    expected = sg.relayout(plain, **values).numpy()
    for source, dims in pictures(picture):
        made = sg.resize(
            source, case.target, dims=dims, interpolation=interpolation, box=case.box, layout=layout, **values
        )
        np.testing.assert_array_equal(made.numpy(), expected)
    out = sg.empty((2, *expected.shape), expected.dtype)
    sg.resize(
        picture,
        case.target,
        dims="HWC",
        interpolation=interpolation,
        box=case.box,
        channels=channels,
        out=out[1],
        scale=values["scale"],
    )
    np.testing.assert_array_equal(out[1].numpy(), expected)


@settings(max_examples=examples(40))
@given(data=st.data())
def test_boxes_of_ragged_images(data: st.DataObject) -> None:
    """Each box of `gather_crops` is `resize` of that box, mirrored where `flip` says so."""
    cases = data.draw(st.lists(resizes(60), min_size=1, max_size=4))
    size = cases[0].target
    photos = [Resize(case.source, size, None, 3, case.seed).picture() for case in cases]
    boxes = [case.box or (0, 0, *case.source) for case in cases]
    flips = [case.seed % 2 == 1 for case in cases]
    batch = sg.gather_crops(
        photos, size=size, boxes=boxes, dims="HWC", interpolation="pillow-bicubic", flip=flips, dtype="float32", scale=2
    )
    for photo, box, flip, made in zip(photos, boxes, flips, batch.numpy(), strict=True):
        whole = sg.resize(photo, size, dims="HWC", box=box, interpolation="pillow-bicubic", dtype="float32", scale=2)
        np.testing.assert_array_equal(made, whole.numpy()[:, :, ::-1] if flip else whole.numpy())


def test_boxes_of_one_image() -> None:
    """Any number of boxes may be of a single image."""
    photo = Resize((40, 50), (8, 9), None, 3, 7).picture()
    boxes = np.array([[0, 0, 40, 50], [1.5, 2, 20, 30.25], [3, 4, 5, 6]])
    batch = sg.gather_crops([photo], size=(8, 9), boxes=boxes, dims="HWC")
    for box, made in zip(boxes, batch.numpy(), strict=True):
        np.testing.assert_array_equal(made, sg.resize(photo, (8, 9), dims="HWC", box=box).numpy())


@settings(max_examples=examples(60))
@given(case=resizes(100, boxes="none"), scale_up=st.booleans())
def test_letterbox(case: Resize, scale_up: bool) -> None:
    """YOLO's letterbox, as Ultralytics writes it with OpenCV."""
    cv2 = pytest.importorskip("cv2", reason="the oracle is OpenCV")
    picture = Resize(case.source, case.target, None, 3, case.seed).picture()
    shape, new = picture.shape[:2], case.target
    ratio = min(new[0] / shape[0], new[1] / shape[1])
    ratio = ratio if scale_up else min(ratio, 1.0)
    unpadded = round(shape[1] * ratio), round(shape[0] * ratio)
    if 0 in unpadded:
        return
    across, down = (new[1] - unpadded[0]) / 2, (new[0] - unpadded[1]) / 2
    inner = cv2.resize(picture, unpadded, interpolation=cv2.INTER_LINEAR) if shape[::-1] != unpadded else picture
    top, bottom, left, right = round(down - 0.1), round(down + 0.1), round(across - 0.1), round(across + 0.1)
    expected = cv2.copyMakeBorder(inner, top, bottom, left, right, cv2.BORDER_CONSTANT, value=(114, 114, 114))
    made = sg.letterbox(picture, new, dims="HWC", scale_up=scale_up, layout="HWC")
    np.testing.assert_array_equal(np.moveaxis(made.numpy(), 0, -1), expected)
    assert sg.letterbox_placements([shape], new, scale_up=scale_up).tolist() == [[top, left, *unpadded[::-1]]]


def test_batches_and_single_channels() -> None:
    """N images, images without channels, and an empty batch."""
    batch = np.stack([Resize((9, 11), (4, 5), None, 3, seed).picture() for seed in range(3)])
    made = sg.resize(batch, (4, 5), dims="NHWC", layout="NHWC")
    for picture, result in zip(batch, made.numpy(), strict=True):
        np.testing.assert_array_equal(result, sg.resize(picture, (4, 5), dims="HWC").numpy())
    gray = batch[0, :, :, 1]
    np.testing.assert_array_equal(sg.resize(gray, (4, 5)).numpy(), made.numpy()[0, 1])
    assert sg.resize(batch[:0], (4, 5), dims="NHWC").sizes == (0, 3, 4, 5)


PHOTO = np.zeros((8, 9, 3), np.uint8)
REFUSALS = {
    "size of one number": (lambda: sg.resize(PHOTO, (4,), dims="HWC"), r"size=\(4,\) must be height and width"),
    "size of nothing": (lambda: sg.resize(PHOTO, (0, 4), dims="HWC"), r"size=\(0, 4\) must be"),
    "unknown interpolation": (
        lambda: sg.resize(PHOTO, (4, 4), dims="HWC", interpolation="cubic"),
        "'cubic' is unknown",
    ),
    "unknown passes": (lambda: sg.resize(PHOTO, (4, 4), dims="HWC", passes="both"), "passes='both' is unknown"),
    "passes of an array": (lambda: sg.resize(PHOTO, (4, 4), dims="HWC", passes=np.zeros(2)), "passes=.* is unknown"),
    "boxes and no interpolation": (
        lambda: sg.gather_crops([PHOTO], size=(4, 4), boxes=[[0, 0, 4, 4]], interpolation=np.zeros(2), dims="HWC"),
        "interpolation=.* is unknown",
    ),
    "placements beyond 32 bits": (lambda: sg.letterbox_placements([(1, 1)], 2**31), r"below 2\*\*31 pixels"),
    "more pictures than there is memory": (
        lambda: sg.resize(np.broadcast_to(PHOTO, (2**40, *PHOTO.shape)), (4, 4), dims="NHWC"),
        "1099511627776 images",
    ),
    "passes of OpenCV": (
        lambda: sg.resize(PHOTO, (4, 4), dims="HWC", interpolation="opencv-area", passes="vertical"),
        "passes='vertical' is Pillow's",
    ),
    "box outside": (lambda: sg.resize(PHOTO, (4, 4), dims="HWC", box=(0, 0, 9, 9)), "box inside the image"),
    "box of complex": (
        lambda: sg.resize(PHOTO, (4, 4), dims="HWC", box=np.array([0, 0, 3j, 4])),
        "must be four numbers",
    ),
    "more pixels than are counted": (
        lambda: sg.resize(np.broadcast_to(np.uint8(0), (2**31, 4)), (4, 4), dims="HW"),
        "2147483648 pixels along an axis; a resize takes up to 2147483647.",
    ),
    "more pixels than are counted, by nearest": (
        lambda: sg.resize(
            np.broadcast_to(np.uint8(0), (4, 2**33)),
            (4, 4),
            dims="HW",
            interpolation="opencv-nearest",
            box=(0, 2**32, 4, 2**32 + 9),
        ),
        "8589934592 pixels along an axis",
    ),
    "more pixels than are counted, by two taps": (
        lambda: sg.resize(np.broadcast_to(np.uint8(0), (2**31, 4)), (4, 4), dims="HW", interpolation="opencv-linear"),
        "2147483648 pixels along an axis",
    ),
    "box beyond floats": (lambda: sg.resize(PHOTO, (4, 4), dims="HWC", box=(0, 0, 10**400, 9)), "must be four numbers"),
    "box of nothing": (lambda: sg.resize(PHOTO, (4, 4), dims="HWC", box=(3, 0, 3, 9)), "box inside the image"),
    "box of NaN": (lambda: sg.resize(PHOTO, (4, 4), dims="HWC", box=(float("nan"), 0, 3, 9)), "box inside"),
    "channels that may come last": (lambda: sg.resize(PHOTO, (4, 4)), "say dims='HWC' if they do"),
    "an axis that is no picture's": (lambda: sg.resize(PHOTO, (4, 4), dims="DHW"), "must have the axes H and W"),
    "alpha of three channels": (lambda: sg.resize(PHOTO, (4, 4), dims="HWC", premultiply=True), "premultiply=True"),
    "an empty picture": (lambda: sg.resize(PHOTO[:0], (4, 4), dims="HWC"), "nothing to resize"),
    "origins and boxes": (
        lambda: sg.gather_crops([PHOTO], [[0, 0]], (4, 4), boxes=[[0, 0, 4, 4]], dims="HWC"),
        "origins= and boxes=",
    ),
    "one box without its row": (
        lambda: sg.gather_crops([PHOTO], size=(4, 4), boxes=[0, 0, 4, 4], dims="HWC"),
        r"boxes have sizes \(4,\); they must be \(k, 4\)",
    ),
    "a word for a bool": (lambda: sg.resize(PHOTO, (4, 4), dims="HWC", premultiply="no"), "premultiply='no' must be"),
    "a word for another bool": (lambda: sg.letterbox(PHOTO, (4, 4), dims="HWC", scale_up="no"), "scale_up='no' must"),
    "borders that do not fit": (lambda: sg.letterbox(PHOTO, (4, 4), dims="HWC", value=300), "value=300 does not fit"),
    "letterboxes of unlike channels": (
        lambda: sg.letterbox([PHOTO, PHOTO[..., :1]], (4, 4), dims="HWC"),
        r"images\[1\] has 1 channels and images\[0\] 3",
    ),
    "sizes below one": (lambda: sg.letterbox_placements([(-3, 2)], (4, 4)), r"sizes=\[\(-3, 2\)\] must be integers"),
    "ragged sizes": (lambda: sg.letterbox_placements([(3, 2), (1,)], (4, 4)), "must be integers"),
    "neither": (lambda: sg.gather_crops([PHOTO], size=(4, 4), dims="HWC"), "origins= or boxes= is missing"),
    "boxes of three numbers": (
        lambda: sg.gather_crops([PHOTO], size=(4, 4), boxes=[[0, 0, 4]], dims="HWC"),
        r"boxes have sizes \(1, 3\)",
    ),
    "interpolation without boxes": (
        lambda: sg.gather_crops([PHOTO], [[0, 0]], (4, 4), interpolation="opencv-area", dims="HWC"),
        "are for boxes=",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    """What cannot be done is refused in words."""
    attempt, words = REFUSALS[name]
    with pytest.raises(sg.LayoutError, match=words):
        attempt()


def test_a_letterbox_without_channels_is_empty() -> None:
    """Nothing is written."""
    assert sg.letterbox(PHOTO[..., :0], (4, 4), dims="HWC").sizes == (0, 4, 4)


def test_types_that_no_library_resizes() -> None:
    """Other types are for the nearest interpolations."""
    picture = np.arange(24, dtype=np.int64).reshape(4, 6)
    with pytest.raises(sg.ElementTypeError, match="relayout it with dtype="):
        sg.resize(picture, (2, 3))
    np.testing.assert_array_equal(sg.resize(picture, (2, 3), interpolation="opencv-nearest").numpy(), picture[::2, ::2])
    with pytest.raises(sg.ElementTypeError, match="resizes uint8, and"):
        sg.resize(PHOTO.astype(np.uint16), (2, 3), dims="HWC", interpolation="opencv-linear-exact")
    with pytest.raises(sg.ElementTypeError, match="resizes uint8, uint16 and float32, and"):
        sg.resize(picture, (2, 3), interpolation="pillow-box")


def test_a_pixel_at_the_filters_end_has_no_weight() -> None:
    """Thirds: the last tap lies one whole support from the centre, where Hamming's window times a sinc is not 0."""
    picture = np.zeros((9, 9, 1), np.float32)
    picture[:, 4] = 1.0
    case = Resize((9, 9), (3, 3), None, 1, 0)
    expected, passes = pillow_resize(picture, case, "hamming"), pillow_passes(case)
    made = sg.resize(picture, (3, 3), dims="HWC", interpolation="pillow-hamming", passes=passes, layout="HWC")
    np.testing.assert_array_equal(np.moveaxis(made.numpy(), 0, -1), expected)
    assert not expected[:, 0].any()


def test_nothing_is_written_where_out_does_not_fit() -> None:
    """An `out` of other sizes, or one that is the image, is refused."""
    out = sg.zeros((3, 4, 5), "uint8")
    with pytest.raises(sg.LayoutError, match="out has sizes"):
        sg.resize(PHOTO + 1, (4, 4), dims="HWC", out=out)
    tensor = sg.full((1, 3, 4, 4), 3, "uint8")
    with pytest.raises(sg.BindingError, match="shares memory"):
        sg.resize(tensor, (4, 4), out=tensor)
    assert not out.numpy().any()
    assert (tensor.numpy() == 3).all()


def test_the_exact_linear_weights_are_rounded_from_double() -> None:
    """A weight that lies half-way between two of 8 bits in float32, and not in float64."""
    case = Resize((60, 271), (2, 299), None, 4, 1)
    made = sg.resize(case.picture(), case.target, dims="HWC", interpolation="opencv-linear-exact")
    expected = cv2_resize(case.picture(), case, "linear-exact")
    np.testing.assert_array_equal(np.moveaxis(made.numpy(), 0, -1), expected)


@pytest.mark.parametrize("interpolation", ["pillow-bicubic", "opencv-linear"])
def test_infinities_and_nan_are_pixels_like_others(interpolation: str) -> None:
    """Nothing warns, and those without them among their taps are what they were."""
    picture = Resize((9, 30), (5, 40), None, 1, 8).picture("float32")
    around = sg.resize(picture, (5, 40), dims="HWC", interpolation=interpolation).numpy()
    picture[:, :2] = np.inf
    picture[:, 2:4] = -np.inf
    picture[:, 4] = np.nan
    made = sg.resize(picture, (5, 40), dims="HWC", interpolation=interpolation).numpy()
    assert np.isnan(made).any()
    np.testing.assert_array_equal(made[..., 20:], around[..., 20:])


def test_no_sizes_have_no_placements() -> None:
    """An array of four columns."""
    assert sg.letterbox_placements([], (4, 4)).shape == (0, 4)
    assert sg.letterbox_placements(np.zeros((0, 2), np.int64), 4).dtype == np.int64


@pytest.mark.parametrize("size", [10**400, 2**62, (2**31, 1), (1, 2**31)], ids=["10^400", "2^62", "rows", "columns"])
@pytest.mark.parametrize("operation", [sg.resize, sg.letterbox], ids=["resize", "letterbox"])
def test_sizes_beyond_32_bits_are_refused(operation, size):
    with pytest.raises(sg.LayoutError, match=r"must be a height and a width below 2\*\*31 pixels"):
        operation(np.zeros((4, 4, 3), np.uint8), size, dims="HWC")


def test_windows_of_large_batches_are_not_kept(monkeypatch):
    """A batch may be a view that repeats one image: a window for each would outlive it."""
    image = np.arange(12, dtype=np.uint8).reshape(1, 1, 3, 4)
    batch = np.broadcast_to(image, (5000, 1, 3, 4))
    expected = sg.resize(image, (2, 2), dims="NCHW", interpolation="opencv-area").numpy()
    monkeypatch.setattr(resize_module, "_resizing_of_batch", None)
    result = sg.resize(batch, (2, 2), dims="NCHW", interpolation="opencv-area").numpy()
    assert np.array_equal(result, expected.repeat(5000, axis=0))
    with pytest.raises(TypeError):
        sg.resize(batch[:9], (2, 2), dims="NCHW", interpolation="opencv-area")


def ultralytics(picture: np.ndarray, new: tuple[int, int], stride: int, *, auto: bool, scale_up: bool) -> np.ndarray:
    """Ultralytics' `LetterBox(new, auto, scaleup=scale_up, stride=stride)`, with OpenCV.

    Source: https://github.com/ultralytics/ultralytics, ultralytics/data/augment.py.
    """
    cv2 = pytest.importorskip("cv2", reason="the oracle is OpenCV")
    shape = picture.shape[:2]
    ratio = min(new[0] / shape[0], new[1] / shape[1])
    if not scale_up:
        ratio = min(ratio, 1.0)
    unpadded = round(shape[1] * ratio), round(shape[0] * ratio)
    across, down = new[1] - unpadded[0], new[0] - unpadded[1]
    if auto:
        across, down = across % stride, down % stride
    across, down = across / 2, down / 2
    if shape[::-1] != unpadded:
        picture = cv2.resize(picture, unpadded, interpolation=cv2.INTER_LINEAR)
    top, bottom = round(down - 0.1), round(down + 0.1)
    left, right = round(across - 0.1), round(across + 0.1)
    return cv2.copyMakeBorder(picture, top, bottom, left, right, cv2.BORDER_CONSTANT, value=(114, 114, 114))


@settings(max_examples=examples(80))
@given(
    source=st.tuples(st.integers(4, 90), st.integers(4, 90)),
    frame=st.tuples(st.integers(8, 70), st.integers(8, 70)),
    stride=st.sampled_from([1, 2, 5, 8, 32, 100]),
    auto=st.booleans(),
    scale_up=st.booleans(),
)
def test_an_automatic_letterbox_is_that_of_ultralytics(source, frame, stride, auto, scale_up) -> None:
    picture = np.random.default_rng(6).integers(0, 256, (*source, 3), np.uint8)
    if 0 in (round(side * min(frame[0] / source[0], frame[1] / source[1])) for side in source):
        return
    expected = ultralytics(picture, frame, stride, auto=auto, scale_up=scale_up)
    options = {"auto": auto, "stride": stride, "scale_up": scale_up}
    made = sg.letterbox(picture, frame, dims="HWC", layout="HWC", **options)
    np.testing.assert_array_equal(np.moveaxis(made.numpy(), 0, -1), expected)
    [(top, left, height, width)] = sg.letterbox_placements([source], frame, **options).tolist()
    inside = expected[top : top + height, left : left + width]
    assert (expected == 114).sum() - (inside == 114).sum() == expected.size - inside.size
    batch = sg.letterbox([picture, picture], frame, dims="HWC", **options)
    assert np.array_equal(batch[1].numpy(), made.numpy())


def test_an_automatic_letterbox_is_a_rectangle_of_whole_strides() -> None:
    photo = np.zeros((1080, 1920, 3), np.uint8)
    assert sg.letterbox(photo, 640, dims="HWC", auto=True).sizes == (3, 384, 640)
    assert sg.letterbox(photo, 640, dims="HWC", auto=True, stride=64).sizes == (3, 384, 640)
    assert sg.letterbox(photo[None], 640, dims="NHWC", auto=True).sizes == (1, 3, 384, 640)
    assert sg.letterbox(photo[:0][None].reshape(0, 1080, 1920, 3), 640, dims="NHWC", auto=True).sizes[2:] == (384, 640)
    out = sg.zeros((3, 384, 640), "uint8", device="cpu")
    assert sg.letterbox(photo, 640, dims="HWC", auto=True, out=out) is out
    assert sg.letterbox_placements([(1080, 1920)], 640, auto=True).tolist() == [[12, 0, 360, 640]]
    with pytest.raises(sg.LayoutError, match=r"rectangles of the sizes \[\(384, 640\), \(640, 384\)\]"):
        sg.letterbox([photo, photo.transpose(1, 0, 2)], 640, dims="HWC", auto=True)
    for wrong in ({"auto": 1}, {"auto": True, "stride": 0}, {"stride": "32"}):
        with pytest.raises(sg.LayoutError):
            sg.letterbox(photo, 640, dims="HWC", **wrong)
        with pytest.raises(sg.LayoutError):
            sg.letterbox_placements([(4, 4)], 640, **wrong)
