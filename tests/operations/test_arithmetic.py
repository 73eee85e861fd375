"""`arithmetic=`: every value of a type has the bits of the library that normalises so, on NumPy and native loops."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.normalised import normalised
from harness.profiles import examples
from harness.torchvision_transforms import torchvision_transforms
from harness.transformers_processors import transformers_library
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.values.arithmetic import ARITHMETIC_RULES, NORMALISATIONS
from stridedgpu.values.conversion import Conversion, conversion_options
from stridedgpu.values.dtypes import ELEMENT_TYPES

Array = np.ndarray[Any, Any]

OF_LIBRARIES = [name for name in ARITHMETIC_RULES if name != "multiply"]
RESCALED = [name for name, rule in ARITHMETIC_RULES.items() if rule.alone is not None]
FACTORS = (1 / 255, 0.00392156862745098, 1 / 127.5, 1 / 256, 1.0, 0.1, 1 / 3, 2.0**-20)
BYTES = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2)


def assert_same_bits(made: Array, expected: Array) -> None:
    """No bit differs, the sign of zero included."""
    assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
    differing = np.frombuffer(made.tobytes(), np.uint8) != np.frombuffer(expected.tobytes(), np.uint8)
    assert np.count_nonzero(differing) == 0


def relaid(pixels: Array, arithmetic: str, **options: Any) -> Array:
    """Pixels (H, W, C) as `relayout` normalises them, in their own order."""
    made = sg.relayout(pixels, dims="HWC", layout="HWC", dtype="float32", arithmetic=arithmetic, **options)
    return np.moveaxis(made.numpy(), 0, -1)


# By formula


@cpu_paths
@pytest.mark.parametrize("arithmetic", ARITHMETIC_RULES)
@pytest.mark.parametrize("source", ["uint8", "int8", "uint16", "int16"])
def test_every_small_integer(source: str, arithmetic: str, path: str) -> None:
    """All 256 or 65,536 values, with the figures of each name."""
    unsigned = f"u{np.dtype(source).itemsize}"
    every = np.arange(1 << 8 * np.dtype(source).itemsize, dtype=unsigned).view(source)
    pixels = np.repeat(every.reshape(16, -1, 1), 3, axis=2)
    with picking_by(path):
        for name, (mean, std) in NORMALISATIONS.items():
            made = relaid(pixels, arithmetic, normalize=name)
            assert_same_bits(made, normalised(pixels, mean, std, arithmetic))


@cpu_paths
@pytest.mark.parametrize("arithmetic", RESCALED)
@settings(max_examples=examples(40))
@given(
    factor=st.sampled_from(FACTORS) | st.floats(1e-6, 8),
    source=st.sampled_from(["uint8", "uint8", "int16", "float16", "float32"]),
    target=st.sampled_from(["float32", "float16", "uint8"]),
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 40), st.integers(1, 5)),
    seed=st.integers(0, 2**20),
)
def test_rescale_factors(
    path: str, arithmetic: str, factor: float, source: str, target: str, sizes: tuple[int, ...], seed: int
) -> None:
    """`scale=` beside mean and std is the rescale factor, of integers and of floats."""
    rng = np.random.default_rng(seed)
    pixels = rng.random(sizes).astype(source) if source[0] == "f" else rng.integers(0, 128, sizes, source)
    mean, std = rng.uniform(-0.5, 1, sizes[-1]), rng.uniform(0.1, 2, sizes[-1])
    with picking_by(path):
        options = {"scale": factor, "mean": mean.tolist(), "std": std.tolist(), "arithmetic": arithmetic}
        made = sg.relayout(pixels, dims="HWC", layout="HWC", dtype=target, **options).numpy()
    expected = normalised(pixels, mean, std, arithmetic, factor)
    if target == "uint8":
        expected = np.clip(np.rint(expected), 0, 255)
    assert_same_bits(np.moveaxis(made, 0, -1), expected.astype(target))


@cpu_paths
@settings(max_examples=examples(40))
@given(
    source=st.sampled_from(["uint8", "int8", "uint16", "int16", "uint32", "int32"]),
    target=st.sampled_from(["float32", "float32", "float16", "float64"]),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 40), st.integers(1, 20)),
    order=st.sampled_from(["NCHW", "NHWC", "CHWN", "NCWH"]),
    each=st.booleans(),
    reverse=st.booleans(),
    seed=st.integers(0, 2**20),
)
def test_divided_in_any_layout_and_type(
    path: str, source: str, target: str, sizes: tuple[int, ...], order: str, each: bool, reverse: bool, seed: int
) -> None:
    """ "divide", which is for integers of 32 bits and for float64 as well: in drawn layouts, with drawn constants."""
    rng, limits = np.random.default_rng(seed), np.iinfo(source)
    pixels = rng.integers(limits.min, limits.max, sizes, source, endpoint=True)[:, :, :: -1 if seed % 2 else 1]
    channels = sizes[3] if each else 1
    mean, std = rng.uniform(-0.5, 1, channels), rng.uniform(0.1, 2, channels)
    chosen = tuple(range(sizes[3]))[::-1] if reverse else None
    options = {"mean": mean.tolist(), "std": std.tolist(), "channels": chosen, "arithmetic": "divide"}
    with picking_by(path):
        made = sg.relayout(pixels, dims="NHWC", layout=order, dtype=target, **options).numpy()
    number = np.float64 if np.dtype(source).itemsize == 4 or target == "float64" else np.float32
    values = (pixels[..., ::-1] if reverse else pixels).astype(number)
    expected = (values / number(limits.max) - mean.astype(number)) / std.astype(number)
    assert_same_bits(made, np.ascontiguousarray(expected.transpose(0, 3, 1, 2).astype(target)))


def test_a_tensor_and_a_frame_normalise_alike() -> None:
    """`StridedTensor.relayout`, and a `Frame` as an RGB image."""
    mean, std = NORMALISATIONS["imagenet"]
    memory = np.random.default_rng(1).integers(0, 256, 24 * 16 * 3 // 2, dtype=np.uint8)
    frame = sg.Frame.over("nv12", memory, (16, 24))
    picture = sg.relayout(frame)
    expected = np.moveaxis(normalised(np.moveaxis(picture.numpy(), 0, -1), mean, std, "divide"), -1, 0)
    options = {"dtype": "float32", "mean": mean, "std": std, "arithmetic": "divide"}
    for made in (picture.relayout(**options), sg.relayout(frame, **options)):
        assert_same_bits(made.numpy(), np.ascontiguousarray(expected))


@cpu_paths
@pytest.mark.parametrize("factor", FACTORS)
def test_a_rescale_factor_alone(factor: float, path: str) -> None:
    """float32(x) times float32(factor) with torchvision; in float64, then rounded, with Pillow."""
    with picking_by(path):
        made = [relaid(BYTES, arithmetic, scale=factor) for arithmetic in RESCALED]
    assert_same_bits(made[0], BYTES.astype(np.float32) * np.float32(factor))
    assert_same_bits(made[1], (BYTES * np.float64(factor)).astype(np.float32))


@cpu_paths
@pytest.mark.parametrize("arithmetic", ["multiply", "torchvision-v2", "transformers", "transformers-pil"])
@pytest.mark.parametrize("source", ["float16", "float32"])
def test_floats_are_not_divided(source: str, arithmetic: str, path: str) -> None:
    """Without a factor, the mean and std of floats are in their own units."""
    values = np.random.default_rng(4).normal(0, 1, (5, 40, 3)).astype(source)
    with picking_by(path):
        made = relaid(values, arithmetic, normalize="imagenet")
    assert_same_bits(made, normalised(values, *FIGURES["ImageNet"], arithmetic))


@pytest.mark.parametrize("arithmetic", OF_LIBRARIES)
def test_a_step_normalises_alike(arithmetic: str) -> None:
    """`Preprocess`, with a largest value of its own too."""
    mean, std = NORMALISATIONS["clip"]
    step = sg.Preprocess(mean=mean, std=std, arithmetic=arithmetic, layout="NHWC", device="cpu")
    assert_same_bits(step([BYTES])[0], normalised(BYTES, mean, std, arithmetic))
    values = np.arange(0, 4096, dtype=np.uint16).reshape(16, -1, 1)
    step = sg.Preprocess(mean=0.5, std=0.25, maximum=4095, arithmetic=arithmetic, layout="NHWC", device="cpu")
    number, unit = np.float32, np.float32(4095)
    expected = {
        "divide": (values.astype(number) / unit - number(0.5)) / number(0.25),
        "torchvision-v2": (values.astype(number) * number(1 / 4095) - number(0.5)) / number(0.25),
        "transformers": (values.astype(number) - number(0.5) * unit) / (number(0.25) * unit),
        "transformers-pil": ((values * (1 / 4095)).astype(number) - number(0.5)) / number(0.25),
    }
    assert_same_bits(step([values])[0], expected[arithmetic])


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("arithmetic", RESCALED)
def test_a_step_takes_a_rescale_factor(arithmetic: str, factor: float) -> None:
    """With mean and std, with a name, and alone."""
    options = {"scale": factor, "arithmetic": arithmetic, "layout": "NHWC", "device": "cpu"}
    for figures in ({"mean": 0.5, "std": 0.25}, {"normalize": "imagenet"}, {}):
        [made] = sg.Preprocess(**figures, **options)([BYTES])
        assert_same_bits(made, relaid(BYTES, arithmetic, scale=factor, **figures))


def test_forms_are_different_values() -> None:
    """A cache, a comparison or a pickle tells one from the other."""
    source, target = ELEMENT_TYPES["uint8"], ELEMENT_TYPES["float32"]
    forms = [
        conversion_options("float32", mean=0.5, arithmetic=arithmetic).conversion(source, 3, target)
        for arithmetic in ARITHMETIC_RULES
    ]
    forms += [Conversion(source, target, (0.5,), (0.25,), arithmetic=arithmetic) for arithmetic in ARITHMETIC_RULES]
    forms.append(Conversion(source, target, (0.5,), (0.25,), arithmetic="divide", unit=4095))
    assert len({*forms}) == 2 * len(ARITHMETIC_RULES) + 1
    assert [pickle.loads(pickle.dumps(form)) for form in forms] == forms
    assert [str(form) for form in forms[: len(ARITHMETIC_RULES)]] == [
        "uint8 -> float32, scale, bias",
        "uint8 -> float32, / 255, - mean, / std",
        "uint8 -> float32, * 0.00392156862745098, - mean, / std",
        "uint8 -> float32, - mean, / std",
        "uint8 -> float32, * 0.00392156862745098 in float64, - mean, / std",
    ]


# By library

FIGURES = {
    "ImageNet": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    "CLIP": ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]),
    "one half": ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
    "none": ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
    "drawn": ([0.1234567, 0.7654321, 0.3333333], [0.9876543, 0.1111111, 0.0333333]),
}


def test_names_have_the_figures_that_models_were_published_with() -> None:
    for name, figures in {"imagenet": "ImageNet", "clip": "CLIP", "siglip": "one half", "0..1": "none"}.items():
        stated = relaid(BYTES, "divide", normalize=name)
        assert_same_bits(stated, relaid(BYTES, "divide", mean=FIGURES[figures][0], std=FIGURES[figures][1]))


@pytest.mark.interop
@pytest.mark.parametrize("figures", FIGURES)
def test_torchvision(figures: str) -> None:
    """All bytes in each channel: ToTensor and Normalize, and those of v2."""
    transforms, torch = torchvision_transforms(), pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    mean, std = FIGURES[figures]
    pipelines = {
        "divide": [transforms.ToTensor(), transforms.Normalize(mean, std)],
        "torchvision-v2": [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)],
    }
    for arithmetic, steps in pipelines.items():
        expected = np.moveaxis(transforms.Compose(steps)(BYTES).numpy(), 0, -1)
        assert_same_bits(relaid(BYTES, arithmetic, mean=mean, std=std), expected)


@pytest.mark.interop
@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("figures", FIGURES)
def test_transformers(figures: str, factor: float) -> None:
    """All bytes in each channel by both backends: rescaled and normalised, one of the two, and neither."""
    transformers = transformers_library()
    mean, std = FIGURES[figures]
    for arithmetic, backend in (("transformers", "CLIPImageProcessor"), ("transformers-pil", "CLIPImageProcessorPil")):
        for rescales, normalises in ((True, True), (True, False), (False, True)):
            processor = getattr(transformers, backend)(
                do_resize=False,
                do_center_crop=False,
                do_rescale=rescales,
                rescale_factor=factor,
                do_normalize=normalises,
                image_mean=mean,
                image_std=std,
            )
            expected = np.asarray(processor(BYTES, return_tensors="np").pixel_values[0], np.float32)
            options = {"mean": mean, "std": std} if normalises else {}
            made = relaid(BYTES, arithmetic, scale=factor if rescales else 1.0, **options)
            assert_same_bits(made, np.ascontiguousarray(np.moveaxis(expected, 0, -1)))


# Refusals

PIXELS = np.zeros((1, 2, 2, 3), np.uint8)


@pytest.mark.parametrize(
    "options, message",
    [
        pytest.param({"mean": 0.5, "arithmetic": "exact"}, "arithmetic='exact' is unknown", id="an unknown form"),
        pytest.param({"arithmetic": "torchvision-v2"}, "give mean=, std= or both", id="nothing to normalise"),
        pytest.param({"scale": 2.0, "arithmetic": "divide"}, "give mean=, std= or both", id="a scale"),
        pytest.param({"std": 1e60, "arithmetic": "divide"}, "std=1e[+]60 is inf in float32", id="infinite in float32"),
        pytest.param({"arithmetic": "transformers"}, "a rescale factor are computed: give mean=", id="nothing at all"),
        pytest.param({"scale": 1, "mean": 0.5, "arithmetic": "torchvision-v2"}, "one pair of them", id="a scale of v2"),
        pytest.param({"mean": 0.5, "bias": 2.0, "arithmetic": "transformers"}, "one pair of them", id="a bias"),
        pytest.param({"bias": 2.0, "arithmetic": "transformers"}, "give mean=, std= or both", id="a bias alone"),
        pytest.param(
            {"normalize": "clip", "bias": 2.0, "scale": 1.0, "arithmetic": "transformers"},
            "names mean and std",
            id="a bias beside a name",
        ),
        pytest.param(
            {"mean": 0.5, "scale": (1, 2, 3), "arithmetic": "transformers"}, "give one number", id="three factors"
        ),
        pytest.param({"mean": 0.5, "scale": 0.0, "arithmetic": "transformers-pil"}, "other than 0", id="a factor of 0"),
        pytest.param(
            {"mean": 0.5, "scale": float("nan"), "arithmetic": "transformers-pil"}, "other than 0", id="a factor of NaN"
        ),
        pytest.param(
            {"mean": 100, "arithmetic": "transformers"},
            r"mean=\(100.0,\) is for values up to 255",
            id="a mean of bytes",
        ),
        pytest.param({"std": (1, 0, 1), "arithmetic": "torchvision-v2"}, "must not hold 0", id="a std of 0"),
        pytest.param({"std": 1e-60, "arithmetic": "transformers"}, "std=0.0 is 0.0 in float32", id="0 in float32"),
        pytest.param(
            {"mean": 0.5, "matrix": [[1, 1, 1]], "arithmetic": "transformers"}, "leave matrix= out", id="a matrix"
        ),
        pytest.param(
            {"mean": 0.5, "dtype": "float64", "arithmetic": "transformers-pil"},
            "computes in float32, and uint8 -> float64 in float64",
            id="a wide result",
        ),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    """What no library computes is refused in words."""
    with pytest.raises(sg.LayoutError, match=message):
        sg.relayout(PIXELS, dims="NHWC", **{"dtype": "float32", **options})


@pytest.mark.parametrize(
    "arithmetic, source",
    [
        *itertools.product(
            ("torchvision-v2", "transformers", "transformers-pil"), ("bool", "int32", "uint32", "int64", "float64")
        ),
        *itertools.product(("divide",), ("bool", "int64", "float16", "float32")),
    ],
)
def test_sources_of_other_types(arithmetic: str, source: str) -> None:
    """Arithmetic of float32 is for what float32 has, and a division for what has a largest value in float64."""
    with pytest.raises(sg.LayoutError, match=f"the source has {source}"):
        sg.relayout(np.zeros((2, 2), source), dtype="float32", mean=0.5, arithmetic=arithmetic)


def test_bytes_that_were_normalised_before() -> None:
    """`scale=1` takes mean and std in units of bytes, as processors with do_rescale=False have them."""
    mean, std = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
    made = relaid(BYTES, "transformers", scale=1, mean=mean, std=std)
    assert_same_bits(made, (BYTES.astype(np.float32) - np.float32(mean)) / np.float32(std))


@pytest.mark.parametrize(
    "options, message",
    [
        pytest.param({"mean": 0.5, "maximum": 40.5, "arithmetic": "divide"}, "whole number", id="half a step"),
        pytest.param({"mean": 0.5, "clip": (0, 9)}, "leave arithmetic='transformers' out", id="a window of values"),
        pytest.param({"mean": 0.5, "gain": (1, 2), "seed": 1}, "leave arithmetic='transformers' out", id="colour"),
        pytest.param({"mean": 0.5, "maximum": 9, "scale": 0.1}, "both say which value becomes 1", id="two units"),
        pytest.param({}, "give mean=, std= or both", id="nothing"),
    ],
)
def test_steps_that_mean_nothing(options: dict[str, Any], message: str) -> None:
    with pytest.raises(sg.LayoutError, match=message):
        sg.Preprocess(**{"arithmetic": "transformers", **options})([np.zeros((2, 2, 3), np.uint16)])
