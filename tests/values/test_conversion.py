"""`Conversion`: what is checked and kept before any element moves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stridedgpu.values.arithmetic import normalisation
from stridedgpu.values.conversion import Conversion, conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.errors import ElementTypeError, LayoutError

E = ELEMENT_TYPES
U8, F16, F32, F64 = E["uint8"], E["float16"], E["float32"], E["float64"]


@pytest.mark.parametrize(
    "options, is_bitwise_copy, has_arithmetic, is_per_channel",
    [
        pytest.param({}, True, False, False, id="nothing"),
        pytest.param({"channels": (2, 1, 0)}, True, False, True, id="channel order"),
        pytest.param({"scale": 2.0}, False, True, False, id="scale"),
        pytest.param({"bias": 0.0}, False, True, False, id="a bias of 0 is still computed"),
        pytest.param({"scale": [1, 2, 3]}, False, True, True, id="scale a channel"),
        pytest.param({"bias": [1, 2, 3]}, False, True, True, id="bias a channel"),
        pytest.param({"scale": [2, 2, 2]}, False, True, False, id="equal scales are one"),
        pytest.param({"rounding": "truncate"}, True, False, False, id="rounding of nothing"),
    ],
)
def test_what_a_conversion_is(options, is_bitwise_copy, has_arithmetic, is_per_channel):
    made = conversion(U8, U8, source_channels=3, **options)
    assert (made.is_bitwise_copy, made.has_arithmetic, made.is_per_channel) == (
        is_bitwise_copy,
        has_arithmetic,
        is_per_channel,
    )


def test_a_cast_moves_no_bits():
    assert not conversion(U8, F32).is_bitwise_copy
    assert not conversion(U8, F32).has_arithmetic


def test_float8_and_complex_move_as_bits():
    for name in ("float8_e4m3fn", "float8_e5m2", "complex64", "complex128", "bool", "bfloat16"):
        assert conversion(E[name], E[name], channels=(1, 0), source_channels=2).is_bitwise_copy


# float64 as soon as either side is float64 or an integer of 32 or 64 bits
WIDE = {"int32", "uint32", "int64", "uint64", "float64"}


@pytest.mark.parametrize("source", [name for name, element in E.items() if element.kind in "buif"])
@pytest.mark.parametrize(
    "target", ["bool", "uint8", "int16", "uint32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_the_type_of_arithmetic(source, target):
    made = conversion(E[source], E[target], scale=0.5)
    assert made.compute is (F64 if WIDE & {source, target} else F32)


@pytest.mark.parametrize(
    "given, kept",
    [
        pytest.param(2, (2.0,), id="int"),
        pytest.param(np.float32(0.5), (0.5,), id="NumPy scalar"),
        pytest.param([1, 2, 3], (1.0, 2.0, 3.0), id="list"),
        pytest.param(np.array([1.5, 2, 3]), (1.5, 2.0, 3.0), id="array"),
        pytest.param((x / 2 for x in range(3)), (0.0, 0.5, 1.0), id="generator"),
        pytest.param([5], (5.0,), id="list of one"),
        pytest.param([4, 4.0, 4], (4.0,), id="equal values"),
        pytest.param([math.nan] * 3, (math.nan,), id="NaNs"),
        pytest.param([0.0, -0.0, 0.0], (0.0, -0.0, 0.0), id="zeros of both signs"),
    ],
)
def test_scales_and_biases_that_are_taken(given, kept):
    made = conversion(U8, F32, scale=given, source_channels=3)
    assert repr(made.scale) == repr(kept)
    assert all(type(number) is float for number in made.scale)


def test_values_go_with_the_output_channels():
    made = conversion(U8, F32, scale=[1, 2], bias=3, channels=(3, 0), source_channels=4)
    assert (made.scale, made.bias, made.channels) == ((1.0, 2.0), (3.0,), (3, 0))
    assert conversion(U8, U8, channels=[0] * 5, source_channels=1).channels == (0,) * 5
    assert conversion(U8, U8, channels=np.array([1, 0]), source_channels=2).channels == (1, 0)


@pytest.mark.parametrize("channels", [(True, False), [1, False], np.array([True, False])], ids=repr)
def test_bools_name_no_channels(channels):
    with pytest.raises(LayoutError, match=r"must be a sequence of channel numbers, such as \(2, 1, 0\)"):
        conversion(U8, U8, channels=channels, source_channels=2)


def test_conversions_are_values_to_the_bit():
    assert conversion(U8, F32, scale=2) == conversion(U8, F32, scale=[2.0])
    assert hash(conversion(U8, F32, scale=2)) == hash(conversion(U8, F32, scale=[2.0]))
    assert conversion(U8, F32, bias=0.0) != conversion(U8, F32, bias=-0.0)
    assert conversion(U8, F32, bias=math.nan) == conversion(U8, F32, bias=float("nan"))
    different = [
        conversion(U8, F32),
        conversion(U8, F16),
        conversion(F16, F32),
        conversion(U8, F32, scale=2),
        conversion(U8, F32, bias=2),
        conversion(U8, F32, rounding="truncate"),
        conversion(U8, F32, channels=(0, 1), source_channels=2),
    ]
    assert len(set(different)) == len(different)
    assert different[0] != "uint8 -> float32"
    with pytest.raises(AttributeError):
        different[0].scale = None


@pytest.mark.parametrize(
    "made, text",
    [
        (conversion(U8, U8), "uint8"),
        (conversion(U8, F16), "uint8 -> float16"),
        (conversion(U8, U8, scale=1), "uint8 -> uint8, scale"),
        (
            conversion(U8, F16, scale=2, bias=1, channels=(2, 1, 0), source_channels=3),
            "uint8 -> float16, scale, bias, channels (2, 1, 0)",
        ),
        (conversion(U8, U8, channels=(1, 0), source_channels=2), "uint8, channels (1, 0)"),
    ],
    ids=["bits", "cast", "scale", "all", "channels"],
)
def test_in_words(made, text):
    assert str(made) == text


# torchvision's numbers for ImageNet
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.mark.parametrize("name, most", [("uint8", 255), ("int8", 127), ("uint16", 65535), ("int32", 2**31 - 1)])
def test_normalisation_of_integers_counts_from_0_to_1(name, most):
    scale, bias, unit = normalisation(E[name], MEAN, STD)
    assert unit is None
    for channel in range(3):
        for value in (0, 1, most):
            expected = (value / most - MEAN[channel]) / STD[channel]
            assert value * scale[channel] + bias[channel] == pytest.approx(expected, rel=1e-12)


def test_normalisation_of_floats_takes_values_as_they_are():
    assert normalisation(F32, 0.5, 0.25) == ((4.0,), (-2.0,), None)
    assert normalisation(U8, None, None) == ((1 / 255,), (0.0,), None)
    assert normalisation(F16, MEAN, None) == ((1.0, 1.0, 1.0), tuple(-mean for mean in MEAN), None)
    assert normalisation(F16, None, (1, 2)) == ((1.0, 0.5), (0.0, 0.0), None)
    assert normalisation(F32, 1, (1, 2)) == ((1.0, 0.5), (-1.0, -0.5), None)


def make(**options: object) -> object:
    arguments = {"source": U8, "target": F32, "source_channels": 3} | options
    return lambda: conversion(arguments.pop("source"), arguments.pop("target"), **arguments)


REFUSALS = {
    "channels without an axis": (
        make(channels=(2, 1, 0), source_channels=None),
        LayoutError,
        r"channels=\(2, 1, 0\) needs a channel axis; label the source's axes, such as dims='NHWC'",
    ),
    "channels too high": (
        make(channels=(0, 3)),
        LayoutError,
        r"channels=\(0, 3\) asks for channel 3; the source has 3",
    ),
    "channels negative": (make(channels=(-1,)), LayoutError, r"channels=\(-1,\) asks for channel -1"),
    "scale too many": (make(scale=[1, 2, 3, 4]), LayoutError, "scale has 4 values for 3 output channels"),
    "scale for the source's channels": (
        make(scale=[1, 2, 3], channels=(0, 1)),
        LayoutError,
        "scale has 3 values for 2 output channels",
    ),
    "bias without an axis": (
        make(bias=[1, 2], source_channels=None),
        LayoutError,
        "bias has 2 values for no labelled channel axis",
    ),
    "scale none": (make(scale=[]), LayoutError, r"scale=\[\] must be a number, or one number a channel"),
    "scale beyond a double": (make(scale=10**400), LayoutError, "scale has a number beyond the largest float64"),
    "scale complex": (make(scale=1j), LayoutError, "scale=1j must be a number"),
    "bias of None": (make(bias=[None] * 3), LayoutError, r"bias=\[None, None, None\] must be a number"),
    "float8 to a float": (
        make(source=E["float8_e4m3fn"]),
        ElementTypeError,
        r"float8_e4m3fn -> float32: float8 moves as bits only; see it as uint8 with reinterpret\(dtype='uint8'\)",
    ),
    "to float8": (make(target=E["float8_e5m2"]), ElementTypeError, "uint8 -> float8_e5m2: float8 moves as bits"),
    "between float8s": (
        make(source=E["float8_e4m3fn"], target=E["float8_e5m2"]),
        ElementTypeError,
        "float8_e4m3fn -> float8_e5m2",
    ),
    "scaled float8": (
        make(source=E["float8_e5m2"], target=E["float8_e5m2"], scale=2),
        ElementTypeError,
        "float8_e5m2 -> float8_e5m2: float8 moves as bits only",
    ),
    "complex to real": (
        make(source=E["complex64"]),
        ElementTypeError,
        r"complex64 -> float32 would drop the imaginary part; .* reinterpret\(dtype='float32'\)",
    ),
    "complex128 to real": (make(source=E["complex128"]), ElementTypeError, r"reinterpret\(dtype='float64'\)"),
    "scaled complex": (
        make(source=E["complex64"], target=E["complex64"], scale=2),
        ElementTypeError,
        "scale, bias and matrix are for real elements, not complex64 -> complex64",
    ),
    "biased into complex": (make(target=E["complex64"], bias=2), ElementTypeError, "not uint8 -> complex64"),
    "std of 0": (lambda: normalisation(U8, 0, (1, 0, 1)), LayoutError, r"std=\(1.0, 0.0, 1.0\) must not hold 0"),
    "mean and std that differ": (
        lambda: normalisation(U8, (1, 2), (1, 2, 3)),
        LayoutError,
        "mean has 2 values and std has 3; give one, or one a channel",
    ),
    "a mean of 0..255": (
        lambda: normalisation(U8, (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
        LayoutError,
        r"mean=\(123.675, 116.28, 103.53\) is for values up to 255, and they are divided by 255 first",
    ),
    "std of None": (lambda: normalisation(U8, None, (None,)), LayoutError, r"std=\(None,\) must be a number"),
}


@pytest.mark.parametrize("call, error, message", REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert caught.type is error


def test_complex_numbers_widen_and_take_reals():
    for source, target in (("complex64", "complex128"), ("float32", "complex64"), ("uint8", "complex64")):
        assert isinstance(conversion(E[source], E[target]), Conversion)


def test_two_constants_are_those_of_two_channels():
    assert conversion(
        ELEMENT_TYPES["uint8"], ELEMENT_TYPES["float32"], scale=(0.5, 2.0), source_channels=2
    ).is_per_channel
    assert not conversion(ELEMENT_TYPES["uint8"], ELEMENT_TYPES["float32"], scale=0.5, bias=1.0).is_per_channel
