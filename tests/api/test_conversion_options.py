"""Every operation and plan takes the conversion options of `relayout`, with its bits; unknown ones are refused."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.values.arithmetic import ARITHMETIC_RULES, NORMALISATIONS

RNG = np.random.default_rng(5)
PHOTOS = sg.asarray(RNG.integers(0, 256, (2, 12, 16, 3), np.uint8), dims="NHWC")
FRAME = sg.Frame.over("nv12", RNG.integers(0, 256, 12 * 16 * 3 // 2, np.uint8), (12, 16))
CORNERS, BOXES = [[1, 2], [-1, 3]], [[0, 1, 6.5, 9], [2, 2, 12, 16]]
PASSES = {"passes": "horizontal"}

CALLS = {
    "relayout": lambda **options: sg.relayout(PHOTOS, **options),
    "tensor.relayout": PHOTOS.relayout,
    "frame": lambda **options: sg.relayout(FRAME, **options),
    "frame.relayout": FRAME.relayout,
    "frames": lambda **options: sg.relayout([FRAME, FRAME], **options),
    "resize": lambda **options: sg.resize(PHOTOS, (5, 7), **PASSES, **options),
    "resize into a layout": lambda **options: sg.resize(PHOTOS, (5, 7), layout="NHWC4", **PASSES, **options),
    "resize of a frame": lambda **options: sg.resize(FRAME, (5, 7), **PASSES, **options),
    "letterbox": lambda **options: sg.letterbox(PHOTOS, (8, 8), **options),
    "letterbox of frames": lambda **options: sg.letterbox([FRAME], (8, 8), **options),
    "crops": lambda **options: sg.gather_crops(PHOTOS, CORNERS, (6, 6), fill=7, **options),
    "crops of frames": lambda **options: sg.gather_crops([FRAME, FRAME], CORNERS, (6, 6), fill=7, **options),
    "boxes": lambda **options: sg.gather_crops(PHOTOS, size=(4, 5), boxes=BOXES, **PASSES, **options),
    "boxes of a frame": lambda **options: sg.gather_crops([FRAME], size=(4, 5), boxes=BOXES, **PASSES, **options),
}
OPTIONS = {
    "mean and std": {"mean": [0.4, 0.5, 0.6], "std": (0.2, 0.3, 0.4)},
    "std": {"std": 0.25},
    "division": {"mean": [0.4, 0.5, 0.6], "std": 0.5, "arithmetic": "divide"},
    "torchvision's v2": {"normalize": "clip", "arithmetic": "torchvision-v2"},
    "transformers": {"mean": [0.4, 0.5, 0.6], "std": 0.5, "arithmetic": "transformers"},
    "transformers' factor": {"mean": 0.4, "scale": 1 / 127.5, "arithmetic": "transformers-pil"},
    "channels": {"mean": [0.4, 0.5], "std": np.array([0.5, 0.25]), "channels": [2, 0]},
    "matrix": {"matrix": np.array([[0.299, 0.587, 0.114]]), "scale": 0.5, "bias": [-1.0]},
    "a name": {"normalize": "imagenet"},
    "a name and channels": {"normalize": "clip", "channels": (2, 0), "arithmetic": "divide"},
    "a name and a matrix": {"normalize": "siglip", "matrix": [[0.299, 0.587, 0.114]]},
    "integers": {"mean": 0.5, "std": 1 / 255, "dtype": "int16", "rounding": "truncate"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_operation_converts_as_relayout_does(call, options):
    options = {"dtype": "float32", **options}
    if "matrix" in options and call is CALLS["resize into a layout"]:
        pytest.skip("a matrix does not fill channels up")
    expected = sg.relayout(call(), **options).numpy()
    assert call(**options).numpy().tobytes() == expected.tobytes()


def planned_relayout(out, **options):
    sg.plan_relayout(PHOTOS, out, **options)(PHOTOS, out)


def planned_frame(out, **options):
    sg.plan_relayout([FRAME, FRAME], out, **options)([FRAME, FRAME], out)


def planned_resize(out, **options):
    sg.plan_resize(PHOTOS, out, **PASSES, **options)(PHOTOS, out)


def planned_letterbox(out, **options):
    sg.plan_letterbox([FRAME, FRAME], out, **options)([FRAME, FRAME], out)


def planned_crops(out, **options):
    size = out.sizes[2:]
    sg.plan_gather_crops(PHOTOS, size, out=out, **options)(PHOTOS, CORNERS, out)


def planned_frame_crops(out, **options):
    size = out.sizes[2:]
    sg.plan_gather_crops([FRAME, FRAME], size, out=out, **options)([FRAME, FRAME], CORNERS, out)


PLANS = {
    "relayout": (planned_relayout, (12, 16)),
    "frames": (planned_frame, (12, 16)),
    "resize": (planned_resize, (5, 7)),
    "letterbox": (planned_letterbox, (8, 8)),
    "crops": (planned_crops, (6, 6)),
    "crops of frames": (planned_frame_crops, (6, 6)),
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("plan, size", PLANS.values(), ids=PLANS)
def test_every_plan_converts_as_relayout_does(plan, size, options):
    options = dict(options)
    dtype = options.pop("dtype", "float32")
    same = sg.empty((2, 3, *size), "uint8", dims="NCHW", device="cpu")
    plan(same)
    expected = same.relayout(dtype=dtype, **options)
    out = sg.empty(expected.sizes, dtype, dims="NCHW", device="cpu")
    plan(out, **options)
    assert out.numpy().tobytes() == expected.numpy().tobytes()


FUNCTIONS = {
    "relayout": lambda **options: sg.relayout(PHOTOS, **options),
    "resize": lambda **options: sg.resize(PHOTOS, (5, 7), **options),
    "letterbox": lambda **options: sg.letterbox(PHOTOS, (5, 7), **options),
    "gather_crops": lambda **options: sg.gather_crops(PHOTOS, CORNERS, (6, 6), **options),
    "plan_relayout": lambda **options: sg.plan_relayout(PHOTOS, PHOTOS, **options),
    "plan_resize": lambda **options: sg.plan_resize(PHOTOS, PHOTOS, **options),
    "plan_letterbox": lambda **options: sg.plan_letterbox(PHOTOS, PHOTOS, **options),
    "plan_gather_crops": lambda **options: sg.plan_gather_crops(PHOTOS, (6, 6), **options),
    "StridedTensor.relayout": PHOTOS.relayout,
    "Frame.relayout": FRAME.relayout,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("keyword", ["scales", "unit", "function"])
def test_an_unknown_keyword_is_pythons_error(name, keyword):
    with pytest.raises(TypeError) as raised:
        FUNCTIONS[name](**{keyword: 3})
    assert str(raised.value) == f"{name}() got an unexpected keyword argument {keyword!r}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_contradicts_itself_is_refused_alike(name):
    with pytest.raises(sg.LayoutError, match="mean and std say the same as scale and bias in other units"):
        FUNCTIONS[name](scale=2, mean=0.5)
    with pytest.raises(sg.LayoutError, match="arithmetic='divide' is how mean and std are computed"):
        FUNCTIONS[name](arithmetic="divide")
    with pytest.raises(sg.LayoutError, match="arithmetic='add' is unknown"):
        FUNCTIONS[name](arithmetic="add")
    for beside in ({"mean": 0.5}, {"std": 0.5}, {"scale": 2}, {"bias": 2.0}):
        with pytest.raises(sg.LayoutError, match="normalize='clip' names mean and std: leave mean, std, scale"):
            FUNCTIONS[name](normalize="clip", **beside)
    for unknown in ("vgg", ["clip"], 3):
        with pytest.raises(sg.LayoutError, match=r"normalize=.* is unknown; it is '0..1', 'unit', .* or 'inception'"):
            FUNCTIONS[name](normalize=unknown)


@pytest.mark.parametrize("name", NORMALISATIONS)
@pytest.mark.parametrize("arithmetic", ARITHMETIC_RULES)
def test_a_name_stands_for_its_mean_and_std(name, arithmetic):
    mean, std = NORMALISATIONS[name]
    stated = sg.relayout(PHOTOS, dtype="float32", mean=mean, std=std, arithmetic=arithmetic)
    assert sg.relayout(PHOTOS, dtype="float32", normalize=name, arithmetic=arithmetic).numpy().tobytes() == (
        stated.numpy().tobytes()
    )
    step = sg.Preprocess(normalize=name, arithmetic=arithmetic, device="cpu")
    assert step(PHOTOS.numpy().transpose(0, 2, 3, 1)).tobytes() == stated.numpy().tobytes()


def test_named_figures_follow_the_channels():
    (red, green, blue), deviations = NORMALISATIONS["imagenet"]
    swapped = sg.relayout(PHOTOS, dtype="float32", normalize="imagenet", channels=(2, 1, 0))
    stated = sg.relayout(PHOTOS, dtype="float32", mean=(blue, green, red), std=deviations[::-1], channels=(2, 1, 0))
    assert swapped.numpy().tobytes() == stated.numpy().tobytes()
    grey = sg.relayout(PHOTOS[:, :1], dtype="float32", normalize="imagenet", channels=(0, 0, 0))
    stated = sg.relayout(PHOTOS[:, :1], dtype="float32", mean=(red, green, blue), std=deviations, channels=(0, 0, 0))
    assert grey.numpy().tobytes() == stated.numpy().tobytes()


def test_named_figures_are_those_of_three_colours():
    four = sg.empty((1, 4, 2, 2), "uint8", dims="NCHW", device="cpu")
    with pytest.raises(sg.LayoutError, match=r"normalize='clip' is for red, green and blue, and channels="):
        sg.relayout(four, dtype="float32", normalize="clip", channels=[0, 3])
    with pytest.raises(sg.LayoutError, match="have 3 values for 4 output channels"):
        sg.relayout(four, dtype="float32", normalize="clip")
    with pytest.raises(sg.LayoutError, match="mean= and std= normalise an image, and a Frame as out= holds pixels"):
        sg.relayout(PHOTOS[0], out=FRAME, normalize="clip")


def test_an_array_of_options_is_not_kept():
    mean = np.array([0.4, 0.5, 0.6])
    alive = weakref.ref(mean)
    sg.relayout(PHOTOS, dtype="float32", mean=mean)
    del mean
    gc.collect()
    assert alive() is None
