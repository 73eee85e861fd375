"""The CUDA kernels that resize frames: executed under sanitizers beside the CPU, compiled, inspected."""

from __future__ import annotations

import pytest
from harness.emulator.launched import check_widths
from harness.emulator.marks import DEFAULT_ARCHITECTURE, emulated, every_architecture, inspected
from harness.frame_resizes import FrameResizeCase as Case
from harness.resize_launches import NORMALISED, check_resizes

FORMATS = (
    ("nv12", (24, 36), "repeated"),
    ("i420", (20, 14), "linear"),
    ("uyvy", (13, 22), "linear"),
    ("bgra", (9, 11), "repeated"),
    ("yv12", (2, 2), "linear"),
    ("gray", (12, 7), "repeated"),
    ("nv24", (9, 13), "linear"),
    ("gbrp", (7, 15), "repeated"),
)
ALIGNED = (
    ("nv12", (24, 40), "repeated"),
    ("nv21", (34, 76), "repeated"),
    ("i420", (20, 46), "repeated"),
    ("yv12", (16, 50), "repeated"),
    ("yuyv", (13, 38), "repeated"),
    ("uyvy", (11, 44), "repeated"),
    ("nv12", (14, 34), "linear"),
    ("bgra", (9, 12), "repeated"),
    ("nv12", (6, 1030), "repeated"),
    ("nv12", (15, 47), "repeated"),
    ("i422", (7, 31), "repeated"),
    ("nv16", (8, 48), "repeated"),
    ("i444", (9, 40), "repeated"),
    ("yuyv", (4, 78), "repeated"),  # its last pixels are no whole group, and the memory of all frames ends behind them
)
DEEP = (
    ("p010", (18, 44), "repeated"),
    ("p016", (12, 22), "repeated"),
    ("i209", (11, 39), "repeated"),
    ("p412", (9, 24), "repeated"),
    ("y210", (6, 32), "repeated"),
    ("gbrp10", (5, 16), "repeated"),
    ("gray12", (5, 16), "repeated"),
    ("i010", (20, 38), "repeated"),  # its last pixels are no whole group either
)
SWSCALE = (("i420", (24, 40), "swscale"), ("nv12", (24, 40), "repeated"), ("i444", (9, 31), "swscale"))
CASES = {
    "aligned": [
        Case(ALIGNED, "pillow-bilinear", source_alignment=16),
        Case((("nv12", (2, 34), "repeated"), ("nv12", (24, 36), "repeated")), "pillow-bilinear", source_alignment=4),
        Case(ALIGNED[:6], "pillow-bilinear", source_alignment=8, size=(9, 70), order="NHWC"),
        Case(DEEP, "pillow-bilinear", source_alignment=16),
        Case(DEEP, "pillow-bilinear", "float16", arithmetic=NORMALISED, source_alignment=16, size=(16, 64)),
        Case(ALIGNED, "pillow-bicubic", "float16", arithmetic=NORMALISED, source_alignment=16, size=(16, 64)),
    ],
    "pillow": [Case(FORMATS, "pillow-bilinear", "float16", arithmetic=NORMALISED, channels=(2, 1, 0))],
    "opencv": [
        Case(FORMATS, "opencv-linear"),
        Case(FORMATS[:2], "opencv-linear", order="NHWC", size=(40, 70)),
        Case(ALIGNED, "opencv-linear", "float16", arithmetic=NORMALISED, channels=(2, 1, 0), size=(16, 64)),
        Case(ALIGNED[:4], "opencv-linear-exact", order="NHWC", channels=(1,)),
        Case((("nv12", (22, 36), "repeated"), ("yuyv", (22, 36), "repeated")), "opencv-linear", size=(11, 18)),
        Case(DEEP, "opencv-linear", "float16", arithmetic=NORMALISED, size=(16, 64)),
    ],
    "area": [Case(FORMATS[:4], "opencv-area", "bfloat16", channels=(1,), size=(5, 6))],
    "nearest": [
        Case(FORMATS, "opencv-nearest", order="NHWC"),
        Case(FORMATS[:3], "pillow-nearest", "float32", arithmetic=NORMALISED),
    ],
    "by swscale's arithmetic": [
        Case(SWSCALE, "pillow-bilinear", source_alignment=16),
        Case(SWSCALE, "opencv-linear"),
        Case(SWSCALE[1:], "opencv-nearest"),
    ],
    "deep": [
        Case((("p010", (18, 20), "repeated"), ("i010", (16, 12), "linear")), "opencv-linear", "float16"),
        Case((("p016", (18, 20), "linear"), ("p010", (4, 6), "repeated")), "pillow-nearest", "uint16"),
    ],
}


@emulated
def test_frames_of_several_formats_in_one_launch_are_those_of_the_cpu():
    check_resizes(CASES["opencv"][:1])


@emulated
def test_frames_by_swscales_arithmetic_beside_others_are_those_of_the_cpu():
    check_resizes(CASES["by swscale's arithmetic"])


@emulated
def test_aligned_frames_whose_pixels_are_read_in_groups_are_those_of_the_cpu():
    check_resizes(CASES["aligned"][:2])


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
@emulated
def test_frames_under_sanitizers_are_those_of_the_cpu(kind):
    check_resizes(CASES[kind])


@inspected
@every_architecture
def test_the_kernels_compile_without_spills_and_with_the_planned_widths(architecture):
    cases = [case for kind in CASES for case in CASES[kind]]
    if architecture == DEFAULT_ARCHITECTURE:
        cases = CASES["opencv"][:1]
    check_widths(cases, architecture)


def test_a_plan_explains_that_rows_are_converted_as_they_are_staged():
    words = "\n".join(CASES["pillow"][0].choice.describe())
    assert "frames: rows are converted from luma and chroma while they are staged" in words
    assert "frames, whose rows are converted as they are read" in words
    assert CASES["pillow"][0].choice.kernel == "resize_frames_uint8x8B_float16x2B"
    assert CASES["opencv"][0].choice.kernel == "resize_pairs_frames_uint8x1B_uint8x1B"
    assert CASES["nearest"][0].choice.kernel == "resize_nearest_frames_uint8x1B_uint8x1B"
