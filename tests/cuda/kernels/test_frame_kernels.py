"""The CUDA kernel of frames: executed under sanitizers beside the CPU, compiled, inspected."""

from __future__ import annotations

import dataclasses
import struct
from itertools import product

import numpy as np
import pytest
from harness.emulator.launched import check_launches, check_widths
from harness.emulator.marks import emulated, every_architecture, inspected
from harness.frame_encodes import FrameEncodeCase
from harness.frame_launches import FrameCase
from hypothesis import given, settings, strategies as st

from stridedgpu import DeviceError, LayoutError
from stridedgpu.devices.cuda.frames import choose_frame, frames_launch, window_place
from stridedgpu.devices.cuda.parameters import product_argument
from stridedgpu.values.constants import matrix_rows
from stridedgpu.values.dtypes import element_type

MATRIX = matrix_rows([(0.25, 0.5, 0.25), (1.0, -1.0, 0.1), (0.0, 0.3, 0.7)])
NORMALISED = {"scale": (1 / 58.0, 1 / 57.0, 1 / 57.5), "bias": (-2.1, -2.0, -1.8)}


OVERFLOWING = {"matrix": matrix_rows([(3e38, -3e38, 1.0)]), "scale": 0.5, "bias": 1.0}
NEGATIVE = {"matrix": matrix_rows([(-1.0, -0.0, -0.5)])}

PLANES = FrameCase("nv12", "float16", "CHW", NORMALISED)
LINEAR = dataclasses.replace(PLANES, chroma="linear", size=(6, 24))
GREY = FrameCase("nv12", "float16", "CHW", {"matrix": MATRIX[:1], "scale": 0.01}, origin=(0, 1), size=(3, 20), pitch=4)
CASES = {
    "planes of half": [
        PLANES,
        dataclasses.replace(PLANES, origin=(1, 1), size=(5, 21)),
        dataclasses.replace(PLANES, origin=(3, 0), size=(3, 17), gap=3),
        dataclasses.replace(PLANES, origin=(0, 3), size=(2, 1)),
    ],
    "pixels": [
        FrameCase("nv12", "uint8", "HWC"),
        FrameCase("nv12", "uint8", "HWC", origin=(1, 5), size=(7, 33), gap=1, pitch=8),
    ],
    "pixels, blue first": [FrameCase("nv21", "uint8", "HWC", channels=(2, 1, 0), size=(4, 64))],
    "packed pixels": [
        FrameCase("yuyv", "float32", "CHW", NORMALISED),
        FrameCase("yuyv", "float32", "CHW", NORMALISED, origin=(1, 3), size=(4, 19), gap=2),
    ],
    "packed pixels, chroma first": [FrameCase("uyvy", "uint8", "CHW", origin=(0, 1), size=(3, 32))],
    "three planes": [
        FrameCase("i420", "uint8", "CHW"),
        FrameCase("i420", "uint8", "CHW", origin=(2, 3), size=(3, 45), pitch=3, beyond=(1, 16)),
        FrameCase("i420", "uint8", "CHW", origin=(1, 1), size=(4, 31), pitch=16),
        FrameCase("yv12", "bfloat16", "CHW", {"bias": 0.5}, origin=(2, 1), size=(4, 24)),
    ],
    "ten bits": [
        FrameCase("p010", "float16", "CHW", {"scale": 1 / 65535}),
        FrameCase("p010", "float16", "CHW", {"scale": 1 / 65535}, origin=(1, 1), size=(5, 21)),
        FrameCase("i010", "uint16", "HWC", size=(4, 18)),
    ],
    "chroma of each pixel": [
        FrameCase("nv24", "uint8", "CHW", size=(4, 32)),
        FrameCase("nv42", "float16", "HWC", NORMALISED, origin=(1, 3), size=(5, 19), chroma="linear"),
        FrameCase("i444", "uint8", "HWC", origin=(1, 1), size=(3, 40), beyond=(0, 7)),
        FrameCase("i444", "float16", "CHW", NORMALISED, size=(3, 48)),
        FrameCase("p410", "uint16", "CHW", size=(3, 24)),
        FrameCase("i414", "float32", "CHW", {"matrix": MATRIX[:1]}, origin=(0, 5), size=(2, 21)),
    ],
    "4:2:2 in planes": [
        FrameCase("nv61", "uint8", "CHW", origin=(1, 1), size=(4, 33)),
        FrameCase("i422", "float16", "CHW", NORMALISED, size=(3, 31), chroma="linear"),
        FrameCase("p210", "uint16", "HWC", origin=(2, 3), size=(3, 20), beyond=(1, 2)),
        FrameCase("i209", "float16", "CHW", {"scale": 1 / 65535}, size=(3, 17), chroma="linear"),
    ],
    "planes of colours, and deep packed samples": [
        FrameCase("gbrp", "uint8", "HWC", origin=(1, 1), size=(3, 9)),
        FrameCase("gbrp9", "float16", "CHW", {"scale": 1 / 65535}, size=(3, 7), chroma="linear"),
        FrameCase("gray12", "uint16", "CHW", size=(3, 6)),
        FrameCase("y210", "uint16", "CHW", origin=(1, 1), size=(3, 8)),
        FrameCase("y216", "float32", "HWC", NORMALISED, size=(3, 9), chroma="linear"),
    ],
    "one channel of wide numbers": [FrameCase("p016", "float64", "CHW", {"scale": 0.1}, channels=(1,), size=(3, 15))],
    "linear chroma": [
        LINEAR,
        dataclasses.replace(LINEAR, origin=(3, 5), size=(4, 19), pitch=5),
        FrameCase("uyvy", "uint8", "HWC", chroma="linear", origin=(1, 1), size=(3, 40), channels=(2, 1, 0)),
        FrameCase("yv12", "uint8", "CHW", chroma="linear", origin=(0, 3), size=(7, 37), pitch=11),
        FrameCase("i010", "uint16", "CHW", chroma="linear", origin=(0, 2), size=(6, 24), index_bits=64),
        FrameCase("p010", "float16", "CHW", NORMALISED, chroma="linear", origin=(1, 1), size=(3, 21)),
        FrameCase("nv21", "float64", "CHW", NORMALISED, chroma="linear", size=(5, 9)),
    ],
    "rotated frames": [
        FrameCase("nv12", "uint8", "CHW", turned=90, gap=3, size=(6, 8)),
        FrameCase("i420", "float32", "HWC", NORMALISED, turned=180, origin=(1, 1), size=(4, 5), beyond=(1, 0)),
        FrameCase("p010", "float16", "CHW", NORMALISED, turned=270, gap=2, size=(5, 6), beyond=(1, 0), index_bits=64),
    ],
    "by swscale's arithmetic": [
        FrameCase("i420", "uint8", "HWC", size=(4, 64), chroma="swscale"),
        FrameCase("yv12", "float16", "CHW", NORMALISED, origin=(1, 3), size=(3, 19), chroma="swscale"),
        FrameCase("i422", "uint8", "CHW", size=(2, 37), chroma="swscale"),
        FrameCase("i444", "uint8", "HWC", size=(4, 64), chroma="swscale"),
        FrameCase("i420", "uint8", "CHW", apart=2, size=(4, 6), chroma="swscale"),
    ],
    "samples apart": [
        FrameCase("nv12", "uint8", "CHW", apart=3, size=(4, 6)),
        FrameCase("yv12", "float32", "HWC", NORMALISED, apart=2, origin=(1, 1), size=(4, 5), mirrored=True),
        FrameCase("i420", "float16", "CHW", NORMALISED, apart=2, origin=(1, 1), size=(4, 5), chroma="linear"),
        FrameCase("nv12", "float32", "CHW", {"matrix": MATRIX[:1]}, apart=2, size=(3, 6), chroma="linear"),
        FrameCase("p010", "uint16", "CHW", {"matrix": MATRIX, **NORMALISED}, apart=2, size=(3, 6)),
    ],
    "a matrix": [
        GREY,
        FrameCase("nv12", "uint8", "CHW", {"matrix": MATRIX, "bias": 3.0}, origin=(1, 1), size=(4, 23)),
        FrameCase("p010", "float32", "HWC", {"matrix": MATRIX[:1]}, size=(3, 18), chroma="linear"),
        FrameCase("yuyv", "float64", "CHW", {"matrix": MATRIX, **NORMALISED}, size=(2, 8)),
        FrameCase("i420", "float16", "HWC", {"matrix": MATRIX, **NORMALISED}, origin=(1, 0), size=(4, 27)),
    ],
    "a matrix whose sums are NaN, or zeros below 0": [
        FrameCase("nv12", "float16", "CHW", OVERFLOWING, size=(3, 16)),
        FrameCase("uyvy", "float32", "CHW", NEGATIVE, size=(2, 16)),
        FrameCase("p016", "bfloat16", "CHW", NEGATIVE, size=(2, 16)),
    ],
    "single stores": [
        FrameCase("nv12", "float32", "CHW", mirrored=True, size=(3, 21)),
        FrameCase("nv12", "uint8", "CHW", pitch=1, size=(3, 21)),
        FrameCase("nv12", "uint8", "HWC", channels=(0, 1, 2, 1, 0), size=(3, 11), index_bits=64),
    ],
}


ENCODED = [
    FrameEncodeCase("nv12", matrix="bt601"),
    FrameEncodeCase("yv12", "CHW", (6, 10), full_range=True),
    FrameEncodeCase("uyvy", size=(3, 12), index_bits=64),
    FrameEncodeCase("gray", size=(3, 9)),
    FrameEncodeCase("p010"),
    FrameEncodeCase("i010", "CHW", (2, 6)),
    FrameEncodeCase("i420", size=(3, 7)),
    FrameEncodeCase("nv16", size=(3, 7), matrix="bt601"),
    FrameEncodeCase("yuyv", "CHW", (3, 7)),
    FrameEncodeCase("nv24", size=(3, 7)),
    FrameEncodeCase("i412", "CHW", (2, 5)),
    FrameEncodeCase("y210", size=(2, 5)),
    FrameEncodeCase("gbrp10", size=(2, 5)),
    FrameEncodeCase("gray10", size=(2, 5)),
]


@emulated
def test_an_encoder_s_frame_under_sanitizers_is_that_of_the_cpu():
    check_launches(ENCODED[:1])


@pytest.mark.slow
@emulated
def test_encoders_frames_under_sanitizers_are_those_of_the_cpu():
    check_launches(ENCODED)


@emulated
def test_a_few_frames_under_sanitizers_are_those_of_the_cpu():
    few = [*CASES["planes of half"], *CASES["pixels"], *CASES["linear chroma"][:2], GREY]
    check_launches([*few, *CASES["by swscale's arithmetic"]])


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
@emulated
def test_frames_under_sanitizers_are_those_of_the_cpu(kind):
    check_launches(CASES[kind])


DRAWN = {
    "repeated, pairs": FrameCase("nv12", "float16", "CHW", NORMALISED),
    "repeated, packed": FrameCase("uyvy", "uint8", "CHW"),
    "repeated, apart": FrameCase("yv12", "uint8", "HWC", size=(4, 64)),
    "repeated, deep": FrameCase("p010", "float16", "CHW", {"scale": 1 / 65535}),
    "linear, pairs": FrameCase("nv21", "uint8", "HWC", chroma="linear"),
    "linear, packed": FrameCase("yuyv", "float32", "CHW", NORMALISED, chroma="linear"),
    "linear, apart": FrameCase("i420", "float16", "CHW", NORMALISED, chroma="linear"),
    "linear, deep": FrameCase("i010", "uint16", "CHW", chroma="linear"),
    "linear, a matrix": FrameCase("nv12", "bfloat16", "CHW", {"matrix": MATRIX, "bias": 3.0}, chroma="linear"),
}

DRAWN_STORES = {"repeated, packed": {8}, "repeated, apart": {8, 16}, "linear, pairs": {8}}
"""Bytes of a store, where they are not 16 alone: 8 pixels of bytes."""


def drawn_windows(case: FrameCase, number: int) -> list[FrameCase]:
    """Windows of every place and size in frames that end with them or not, in rows of whole vectors."""
    rng, windows = np.random.default_rng(number), []
    for seed in range(number):
        origin, size, beyond = rng.integers(0, (4, 10)), rng.integers(1, (5, 45)), rng.integers(0, (3, 9))
        if seed % 2:  # samples whose rows begin at multiples of a vector
            beyond[1] += -(origin[1] + size[1] + beyond[1]) % 32
        sides = [tuple(map(int, pair)) for pair in (origin, size, beyond)]
        pitch = -sides[1][1] * (3 if case.order == "HWC" else 1) % 48
        windows.append(
            dataclasses.replace(case, origin=sides[0], size=sides[1], beyond=sides[2], pitch=pitch, seed=seed)
        )
    return windows


@pytest.mark.slow
@pytest.mark.parametrize("kind", DRAWN)
@emulated
def test_drawn_windows_under_sanitizers_are_those_of_the_cpu(kind):
    windows = drawn_windows(DRAWN[kind], 40)
    assert {case.choice.store.nbytes for case in windows} == DRAWN_STORES.get(kind, {16})
    check_launches(windows)


@inspected
@pytest.mark.slow
@every_architecture
def test_the_kernels_compile_without_spills_and_with_the_planned_widths(architecture):
    check_widths([*(case for kind in CASES for case in CASES[kind]), *DRAWN.values(), *ENCODED], architecture)


@inspected
@pytest.mark.sweep
@every_architecture
def test_kernels_of_all_planes_targets_and_matrices_compile_without_spills(architecture):
    formats, targets = ("nv12", "i420", "yuyv", "p010", "i010"), ("uint8", "uint16", "float16", "float32", "float64")
    cases = []
    for name, chroma, target, order in product(formats, ("repeated", "linear"), targets, ("CHW", "HWC")):
        plain = NORMALISED if target.startswith("float") else {}
        rows = (MATRIX[:1], MATRIX, OVERFLOWING["matrix"] * 3)
        mixed = ({"matrix": matrix, "scale": 0.5, "bias": 0.25} for matrix in rows)
        cases += [FrameCase(name, target, order, made, size=(4, 64), chroma=chroma) for made in (plain, *mixed)]
    check_widths(cases, architecture)


MATRICES = {
    "grey": ([(0.25, 0.5, 0.25)], True, True),
    "a negative number beside a positive one": ([(1.0, -1.0, -0.0)], True, True),
    "a row without positive numbers": ([(0.25, 0.5, 0.25), (-1.0, -0.0, -0.5)], False, True),
    "numbers that cannot be raised": ([(1e33, 0.0, 0.0)], False, True),
    "sums that overflow": ([(1e36, 1e36, 0.0)], False, False),
    "an infinite number": ([(float("inf"), 0.0, 0.0)], False, False),
}


@pytest.mark.parametrize("kind", MATRICES)
def test_products_are_fused_and_sums_not_looked_at_for_nan_where_the_bits_allow_it(kind):
    rows, is_fused, is_finite = MATRICES[kind]
    name = FrameCase("nv12", "float16", "CHW", {"matrix": matrix_rows(rows)}).launch.name
    products, sums = name.split("sg::Conversion<")[1:]
    assert products.endswith("sg::Nan::ignore, sg::Arithmetic::fused>, " if is_fused else "sg::Nan::ignore>, ")
    assert ("sg::Nan::ignore" in sums, ".finite = true" in sums) == (is_finite, is_finite)


FACTORS = st.floats(width=32, allow_nan=False) | st.sampled_from((0.0, -0.0, 1.0, -1.0, 2.0**-149, -(2.0**-149)))


@settings(max_examples=60)
@given(st.tuples(FACTORS, FACTORS, FACTORS), st.tuples(*[st.integers(0, 65535) | st.just(0)] * 3))
def test_a_sum_of_fused_products_has_the_bits_of_the_rounded_ones(row, colours):
    """(2^23 + n) m - 2^23 m is exact in float64, and without a sign where it is zero."""
    if ", true>" not in product_argument(element_type("uint16"), element_type("float32"), (row,)):
        return
    factors = list(map(np.float32, row))
    fused = [np.float32((2.0**23 + n) * float(m) - 2.0**23 * float(m)) for n, m in zip(colours, factors, strict=True)]
    plain = [np.float32(n) * m for n, m in zip(colours, factors, strict=True)]
    one, other = (np.float32(products[0] + products[1]) + products[2] for products in (fused, plain))
    assert one.tobytes() == other.tobytes()


def test_what_no_kernel_does_is_refused_in_words():
    packed = FrameCase("yuyv", "uint8", "CHW").problem
    with pytest.raises(DeviceError, match="relayout the plane before"):
        choose_frame(dataclasses.replace(packed, plane_strides=((88, 8, 1),)), 16)
    rows = dataclasses.replace(PLANES.problem.conversion, matrix=MATRIX * 3, scale=None, bias=None)
    with pytest.raises(DeviceError, match="matrix= has 9 rows"):
        choose_frame(dataclasses.replace(PLANES.problem, conversion=rows), 16)
    nothing = dataclasses.replace(PLANES, size=(0, 4))
    with pytest.raises(LayoutError, match="nothing to launch"):
        frames_launch(nothing.choice)


def test_a_window_is_placed_by_its_frame_and_its_first_pixel():
    luma, place = window_place(PLANES.choice, (1000, 5000), (3, 5))
    assert (luma, struct.unpack("<QQII", place)) == (1000, (5000, 0, 3, 5))
    apart = dataclasses.replace(PLANES, apart=2)
    luma, place = window_place(apart.choice, (1000, 5000), (3, 5))
    assert (luma, struct.unpack("<QQII", place)) == (1000, (5000, 5001, 3, 5))
