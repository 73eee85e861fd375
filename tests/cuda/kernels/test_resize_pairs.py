"""Resizes by two taps along either axis: executed under sanitizers beside the CPU, broken on purpose, compiled."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from harness.emulator import machine_code
from harness.emulator.launched import unspilled
from harness.emulator.marks import DEFAULT_ARCHITECTURE, emulated, every_architecture, inspected
from harness.frame_resizes import FrameResizeCase as FrameCase
from harness.resize_launches import NORMALISED, LaunchedResize, ResizeCase as Case, check_fault_is_caught, check_resizes

from stridedgpu.devices.cuda.policy import policy, using
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.problems.resize_problem import ResizeWindow
from stridedgpu.values.layout import Layout

KINDS = {
    "photographs to half": Case("opencv-linear", "uint8", "float16", arithmetic=NORMALISED),
    "blue first, to pixels": Case("opencv-linear", "uint8", "float32", "NHWC", channels=(2, 1, 0), size=(9, 33)),
    "one of four channels": Case("opencv-linear", channel_count=4, channels=(3,), size=(5, 40)),
    "channels twice": Case("opencv-linear-exact", channels=(1, 1, 0, 2, 0), size=(20, 7)),
    "planes": Case("opencv-linear", source_order="CHW", channel_count=2, samples=5, largest=90),
    "one plane": Case("opencv-linear-exact", channel_count=1, size=(30, 31)),
    "columns first": Case("opencv-linear", source_order="CWH", size=(12, 40)),
    "twelve channels in disorder": Case("opencv-linear", channel_count=12, channels=tuple(range(0, 12, 2))[::-1]),
    "16 bits": Case("opencv-linear", "uint16", "float16", "NHWC", size=(13, 19)),
    "floats": Case("opencv-linear", "float32", "float32", channel_count=4, largest=20),
    "upscales": Case("opencv-linear", "uint8", "float16", size=(60, 70), largest=9),
    "areas that grow": Case("opencv-area", "uint8", "bfloat16", size=(60, 70), largest=9, samples=1),
    "more rows than a thread has": Case("opencv-linear", size=(35, 5), samples=5, largest=70),
}
"""Every reader, type and order of channels. Every second image is upside down, and some are mirrored."""


def of_seeds(case: Case, count: int) -> list[Case]:
    """The same with other images."""
    return [dataclasses.replace(case, seed=seed) for seed in range(count)]


def halved(**values: object) -> Case:
    """An image of exactly twice the size of its window, which is a mean of four pixels."""
    case = Case("opencv-linear", size=(6, 10), samples=1, **values)
    channels = case.channel_count
    layout = Layout((channels, 12, 20), (1, 20 * channels, channels))
    case.__dict__["windows"] = [ResizeWindow(layout, (0.0, 0.0, 12.0, 20.0), (0, 0, 6, 10))]
    return case


def of_rows(cases: list[LaunchedResize]) -> list[LaunchedResize]:
    """The cases, planned for threads of several rows each, however few threads these are."""
    pairs = dataclasses.replace(policy().resize.pairs, least_threads=0)
    with using(dataclasses.replace(policy(), resize=dataclasses.replace(policy().resize, pairs=pairs))):
        assert all(case.choice.limits.pairs is pairs for case in cases)
    return cases


def by_pairs(cases: list[LaunchedResize]) -> list[LaunchedResize]:
    """The cases, after a look whether all are of two taps."""
    others = {launch.sources for case in cases for launch in case.launches} - {("resize_pairs.cu",)}
    assert not others, others
    return cases


@emulated
def test_two_taps_under_sanitizers_have_the_bytes_of_the_cpu():
    kinds = ("photographs to half", "blue first, to pixels", "twelve channels in disorder")
    check_resizes(by_pairs(of_rows([case for kind in kinds for case in of_seeds(KINDS[kind], 4)])))


FRAMES = (
    ("nv12", (24, 36), "repeated"),
    ("i420", (20, 14), "linear"),
    ("yuyv", (13, 22), "repeated"),
    ("bgra", (9, 11), "repeated"),
    ("i444", (9, 15), "repeated"),
    ("nv16", (9, 13), "repeated"),
)


@emulated
def test_frames_of_several_formats_are_converted_where_taps_read_them():
    frames = FrameCase(FRAMES, "opencv-linear", "float16", arithmetic=NORMALISED, size=(12, 40))
    check_resizes(by_pairs(of_rows([frames])))


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_under_sanitizers(kind):
    cases = of_seeds(KINDS[kind], 6) + of_rows(of_seeds(KINDS[kind], 12)[6:])
    check_resizes(by_pairs(cases) if KINDS[kind].interpolation != "opencv-area" else cases)


@emulated
@pytest.mark.slow
def test_means_of_four_pixels_are_rounded_as_their_number_of_channels_asks():
    cases = [
        halved(channel_count=count, source=source, target=source)
        for count in (1, 2, 3)
        for source in ("uint8", "uint16")
    ]
    sums = {launch.name.split("ResizeArithmetic::")[1].split(",")[0] for case in cases for launch in case.launches}
    assert sums == {"opencv_quarter", "opencv_mean"}
    check_resizes(by_pairs(cases))


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("interpolation", ["opencv-linear", "opencv-linear-exact"])
def test_up_and_down(interpolation):
    draw = random.Random(interpolation)
    cases = [
        Case(
            interpolation,
            target=draw.choice(("uint8", "float16")),
            order=draw.choice(("NCHW", "NHWC")),
            seed=seed,
            size=(draw.randint(1, 90), draw.randint(1, 90)),
            largest=draw.choice((2, 8, 60, 300)),
            samples=3,
        )
        for seed in range(48)
    ]
    check_resizes(by_pairs(cases[:24] + of_rows(cases[24:])))


@emulated
def test_weights_need_not_add_up():
    """Two weights rounded half to even are 2048 and 1 where the distance of a pixel is just above a half of a step."""
    edge = 1 + 2.0**-11 + 2.0**-25
    case = Case("opencv-linear", size=(1, 40), samples=1)
    case.__dict__["windows"] = [ResizeWindow(Layout((3, 2, 50), (1, 150, 3)), (0.0, 0.0, edge, 50.0), (0, 0, 1, 40))]
    (taps,) = (case.problem.taps(window) for window in case.windows)
    assert taps.rows.weights.tolist() == [[2048, 1]]
    check_resizes(by_pairs(of_rows([case])), orders=("random",))


def test_chains_of_fused_sums_are_the_shifts_of_every_weight():
    """Both passes in float32 rounded toward zero, modelled with integers, beside the rule's words."""
    rng = np.random.default_rng(1)
    first = np.arange(2049)[:, None]
    for off in (-1, 0, 1):
        second = np.clip(2048 - first + off, 0, 2048)
        x = np.concatenate([rng.integers(0, 32641, (2, 2049, 300)), np.full((2, 2049, 1), 32640)], axis=2)
        expected = ((first * x[0] >> 16) + (second * x[1] >> 16) + 2) >> 2
        total = np.full(x.shape[1:], (1 << 23) + 2, np.int64)
        for weight, number in zip((first, second), x, strict=True):
            total += weight * ((1 << 23) + number) >> 16
            assert total.max() < 1 << 24
        behind = (1 << 23) - (1 << 21) - 32 * (first + second)
        np.testing.assert_array_equal((total + 4 * behind >> 2) - (1 << 23), expected)


FAULTS = {
    "no other row": ("down.place[1] * row_stride", "down.place[0] * row_stride"),
    "chroma of each column": ("along.place[tap % 2] >> (kind > 0 ? 1 : 0);", "along.place[tap % 2];"),
    "chroma of each row": ("down.place[i] >> (kind > 0 ? frame.shape.row_shift : 0);", "down.place[i];"),
    "taps beyond the edge": ("place{clamped(first, axis), clamped(first + 1, axis)}", "place{first, first + 1}"),
    "a pixel beyond the image": ("(left + int32((length - 1) * step) < sample.width)", "true"),
    "a pixel before the image": ("(left >= 0)", "true"),
    "frames that are not quick": ("bool is_quick() const { return quick; }", "bool is_quick() const { return true; }"),
    "rounded to nearest": (
        "total = fma_toward_zero(x, down.weights[row], total);",
        "total = fused_rn(x, down.weights[row], total);",
    ),
    "weights exchanged": ("uint32(weights.word[0]) | uint32(weights.word[1]) << 16", "uint32(weights.word[1])"),
    "rows of another thread": ("top + smaller(int32(p.rows), int32(p.height) - top);", "top + int32(p.rows);"),
    "the fill of another channel": ("load<Element>(p.fill + from);", "load<Element>(p.fill);"),
}
"""What the kernel has, and what is there instead."""


@emulated
@pytest.mark.faults
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_kernel_is_caught(fault):
    frames = FrameCase(FRAMES, "opencv-linear", size=(12, 41))
    cases = of_rows([*of_seeds(KINDS["photographs to half"], 6), *of_seeds(KINDS["blue first, to pixels"], 3), frames])
    check_fault_is_caught("resize_pairs.cu", FAULTS[fault], cases)


@inspected
@every_architecture
def test_the_kernels_compile_without_spills_and_sum_pairs_at_once(architecture):
    cases: list[LaunchedResize] = [dataclasses.replace(case, samples=1) for case in KINDS.values()]
    cases = [case for case in cases if case.launches[0].sources == ("resize_pairs.cu",)]
    if architecture == DEFAULT_ARCHITECTURE:
        cases = [KINDS["photographs to half"], FrameCase(FRAMES, "opencv-linear", "float16", arithmetic=NORMALISED)]
    unspilled([case.launch for case in cases], architecture)
    name = KINDS["photographs to half"].launches[0].name
    text = machine_code.disassembled(joined_source("resize_pairs.cu"), [name], architecture)[name].text
    assert all(instruction in text for instruction in ("IDP.2A.LO", "IDP.2A.HI", "FFMA.RZ"))
