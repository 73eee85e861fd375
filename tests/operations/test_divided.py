"""`arithmetic="divide"`: `((x / maximum) - mean) / std`, each step rounded, on NumPy and by compiled loops."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.values.arithmetic import normalisation
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES

SMALL, WIDE = ("uint8", "int8", "uint16", "int16"), ("uint32", "int32")

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

NORMALISATIONS = {
    "ImageNet": IMAGENET,
    "CLIP": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "one half": (0.5, 0.5),
    "0..1": (0.0, 1.0),
}


def divided(values, mean, std, number=np.float32):
    """As NumPy computes it, with channels last."""
    unit, centre, deviation = (np.asarray(given, number) for given in (np.iinfo(values.dtype).max, mean, std))
    return (values.astype(number) / unit - centre) / deviation


def assert_same_bits(made, expected):
    """No bit differs, the sign of zero included."""
    assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
    differing = np.frombuffer(made.tobytes(), np.uint8) != np.frombuffer(expected.tobytes(), np.uint8)
    assert np.count_nonzero(differing) == 0


@cpu_paths
@pytest.mark.parametrize("name", NORMALISATIONS)
@pytest.mark.parametrize("source", SMALL)
def test_every_small_integer(source, name, path):
    """All 256 or 65,536 values, in float32."""
    mean, std = NORMALISATIONS[name]
    every = np.arange(1 << 8 * np.dtype(source).itemsize, dtype=f"u{np.dtype(source).itemsize}").view(source)
    pixels = np.repeat(every.reshape(1, 16, -1, 1), 3, axis=3)
    with picking_by(path):
        made = sg.relayout(pixels, dims="NHWC", dtype="float32", mean=mean, std=std, arithmetic="divide")
    assert_same_bits(made.numpy(), np.ascontiguousarray(divided(pixels, mean, std).transpose(0, 3, 1, 2)))


@cpu_paths
@settings(max_examples=examples(40))
@given(
    source=st.sampled_from([*SMALL, *WIDE]),
    target=st.sampled_from(["float32", "float32", "float16", "float64"]),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 40), st.integers(1, 20)),
    order=st.sampled_from(["NCHW", "NHWC", "CHWN", "NCWH"]),
    each=st.booleans(),
    reverse=st.booleans(),
    seed=st.integers(0, 2**20),
)
def test_layouts_types_and_channels(path, source, target, sizes, order, each, reverse, seed):
    """Drawn sizes, memory orders, types, constants and channel orders."""
    rng = np.random.default_rng(seed)
    limits = np.iinfo(source)
    pixels = rng.integers(limits.min, limits.max, sizes, source, endpoint=True)[:, :, :: -1 if seed % 2 else 1]
    channels = sizes[3] if each else 1
    mean, std = rng.uniform(-0.5, 1, channels), rng.uniform(0.1, 2, channels)
    chosen = tuple(range(sizes[3]))[::-1] if reverse else None
    with picking_by(path):
        made = sg.relayout(
            pixels,
            dims="NHWC",
            layout=order,
            dtype=target,
            mean=mean.tolist(),
            std=std.tolist(),
            channels=chosen,
            arithmetic="divide",
        )
    values = pixels[..., ::-1] if reverse else pixels
    expected = divided(values, mean, std, np.float64 if source in WIDE or target == "float64" else np.float32)
    assert_same_bits(made.numpy(), np.ascontiguousarray(expected.transpose(0, 3, 1, 2).astype(target)))


def test_a_tensor_and_a_frame_normalise_alike():
    """`StridedTensor.relayout`, and a `Frame` as an RGB image."""
    mean, std = IMAGENET
    memory = np.random.default_rng(1).integers(0, 256, 24 * 16 * 3 // 2, dtype=np.uint8)
    frame = sg.Frame.over("nv12", memory, (16, 24))
    picture = sg.relayout(frame)
    expected = divided(picture.numpy().transpose(1, 2, 0), mean, std).transpose(2, 0, 1)
    options = {"dtype": "float32", "mean": mean, "std": std, "arithmetic": "divide"}
    for made in (picture.relayout(**options), sg.relayout(frame, **options)):
        assert_same_bits(made.numpy(), np.ascontiguousarray(expected))


def test_both_forms_are_different_values():
    """A cache, a comparison or a pickle tells one from the other."""
    source, target = ELEMENT_TYPES["uint8"], ELEMENT_TYPES["float32"]
    made = normalisation(source, 0.5, 2.0, "divide")
    assert made == ((2.0,), (-0.5,), 255)
    forms = [
        Conversion(source, target, made.scale, made.bias, arithmetic=arithmetic, unit=unit)
        for arithmetic, unit in (("multiply", None), ("divide", made.unit), ("divide", 4095))
    ]
    assert len(set(forms)) == 3
    assert [pickle.loads(pickle.dumps(form)) for form in forms] == forms
    assert [str(form) for form in forms[:2]] == [
        "uint8 -> float32, scale, bias",
        "uint8 -> float32, / 255, - mean, / std",
    ]


@pytest.mark.parametrize(
    "options, message",
    [
        pytest.param({"mean": 0.5, "arithmetic": "exact"}, "arithmetic='exact' is unknown", id="an unknown form"),
        pytest.param({"arithmetic": "divide"}, "give mean=, std= or both", id="nothing to normalise"),
        pytest.param({"scale": 2.0, "arithmetic": "divide"}, "give mean=, std= or both", id="a scale"),
        pytest.param({"mean": 0.5, "bias": 2.0, "arithmetic": "divide"}, "one pair of them", id="both pairs"),
        pytest.param({"std": 1e-60, "arithmetic": "divide"}, "std=1e-60 is 0.0 in float32", id="0 in float32"),
        pytest.param({"std": 1e60, "arithmetic": "divide"}, "std=1e[+]60 is inf in float32", id="infinite in float32"),
        pytest.param({"mean": 0.5, "matrix": [[1, 1, 1]], "arithmetic": "divide"}, "leave matrix= out", id="a matrix"),
    ],
)
def test_refusals(options, message):
    """A division that means nothing is refused in words."""
    with pytest.raises(sg.LayoutError, match=message):
        sg.relayout(np.zeros((1, 2, 2, 3), np.uint8), dims="NHWC", dtype="float32", **options)


@pytest.mark.parametrize("source", ["float32", "float16", "bool", "int64"])
def test_sources_that_are_no_small_integers(source):
    """Without a largest value, or with one that no float64 has."""
    with pytest.raises(sg.LayoutError, match=f"the source has {source}"):
        sg.relayout(np.zeros((2, 2), source), dtype="float32", mean=0.5, arithmetic="divide")
