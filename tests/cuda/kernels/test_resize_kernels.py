"""The CUDA kernels of resizes: executed under sanitizers beside the CPU, broken on purpose, compiled, inspected."""

from __future__ import annotations

import dataclasses
import functools
import random

import pytest
from harness.emulator import machine_code
from harness.emulator.launched import unspilled
from harness.emulator.marks import emulated, inspected
from harness.resize_launches import NORMALISED, ResizeCase, check_fault_is_caught, check_resizes

from stridedgpu import DeviceError, LayoutError
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU
from stridedgpu.devices.cuda.resize import choose_resize, resize_launch
from stridedgpu.values.interpolation import INTERPOLATIONS

Case = functools.partial(ResizeCase, gpu=dataclasses.replace(REFERENCE_GPU, compute_capability=75))
"""Without products of matrices, which `test_resize_products.py` has."""

KINDS = {
    "photographs to half": Case("pillow-bilinear", "uint8", "float16", arithmetic=NORMALISED),
    "rows first": Case("pillow-bicubic", passes="vertical"),
    "the order of Pillow 13": Case("pillow-box", passes="pillow-13", samples=5),
    "blue first": Case("pillow-bicubic", "uint8", "float32", arithmetic=NORMALISED, channels=(2, 1, 0)),
    "pixels to pixels": Case("opencv-cubic", order="NHWC", size=(8, 16)),
    "pixels of two channels": Case("opencv-area", "uint8", "float16", "NHWC", channels=(2, 0)),
    "whole factors": Case("opencv-area", samples=1, size=(5, 4), largest=17),
    "planes to planes": Case("pillow-lanczos", source_order="CHW", channel_count=5),
    "planes to pixels": Case("opencv-cubic", order="NHWC", source_order="CHW"),
    "alpha": Case("pillow-bicubic", "uint8", "float16", channel_count=4, channels=(2, 1, 0), premultiplies=True),
    "alpha, rows first": Case(
        "pillow-lanczos", order="NHWC", size=(8, 16), channel_count=2, passes="vertical", premultiplies=True
    ),
    "twelve channels": Case("opencv-cubic", "uint8", "float32", channel_count=12),
    "many channels in disorder": Case("pillow-hamming", channel_count=20, channels=tuple(range(0, 20, 3))[::-1]),
    "16 bits of Pillow": Case("pillow-lanczos", "uint16", "uint16", fractions=True),
    "16 bits of Pillow, means of two": Case("pillow-box", "uint16", "uint16"),
    "16 bits of OpenCV": Case("opencv-cubic", "uint16", "float32", "NHWC"),
    "floats of Pillow": Case("pillow-lanczos", "float32", "float32", passes="vertical", fractions=True),
    "floats of Pillow, zeros below zero": Case("pillow-box", "float32", "float32"),
    "floats of OpenCV": Case("opencv-cubic", "float32", "float16", channel_count=4),
    "floats of torch": Case("torch-bicubic", "float32", "float32"),
    "copies": Case("pillow-nearest", "uint8", "float16", arithmetic=NORMALISED, channels=(2, 1, 0)),
    "copies of pixels": Case("opencv-nearest", order="NHWC", size=(8, 16)),
    "copies of any bits": Case("pillow-nearest", "complex128", "complex128", source_order="CHW"),
}

BY_DEFAULT = ("photographs to half", "rows first", "pixels to pixels", "twelve channels", "copies of pixels")
"""Every reader and every store, and both orders of passes."""


def of_seeds(case: ResizeCase, count: int) -> list[ResizeCase]:
    """The same with other images; the last ones have the memory of several chunks of rows."""
    cases = [dataclasses.replace(case, seed=seed) for seed in range(count)]
    small = dataclasses.replace(case.gpu, shared_bytes=4500)
    return [*cases, dataclasses.replace(case, seed=count, size=(4, 8), largest=70, gpu=small)]


@emulated
def test_resizes_under_sanitizers_are_those_of_the_cpu():
    check_resizes([case for kind in BY_DEFAULT for case in of_seeds(KINDS[kind], 2)])


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_under_sanitizers(kind):
    check_resizes(of_seeds(KINDS[kind], 12))


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_each_interpolation_up_and_down(interpolation):
    draw = random.Random(interpolation)
    cases = [
        Case(
            interpolation,
            target=draw.choice(("uint8", "float16")),
            seed=seed,
            passes=draw.choice(("horizontal", "vertical")),
            size=(draw.randint(1, 90), draw.randint(1, 90)),
            largest=draw.choice((8, 60, 300)),
            samples=3,
            fractions=draw.random() < 0.5,
        )
        for seed in range(24)
    ]
    check_resizes(cases)


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("passes", ["horizontal", "vertical"])
def test_pictures_that_shrink_a_thousandfold(passes):
    cases = [
        Case("pillow-lanczos", "uint8", "float16", seed=seed, passes=passes, size=(2, 2), largest=1500, samples=3)
        for seed in range(3)
    ]
    assert max(case.launches[0].shared_bytes for case in cases) > 48 * 1024
    check_resizes(cases)


WIDE = Case("pillow-bilinear", "uint8", "float16", size=(9, 60), largest=60, samples=1)
"""Tiles of more columns than have their taps loaded at once, of images with several rows for each warp."""


@emulated
def test_wide_tiles_have_all_their_taps_and_rows():
    check_resizes(of_seeds(WIDE, 12))


FAULTS = {
    "no barrier behind the rows": (
        "            __syncthreads();\n            const auto staged",
        "            const auto staged",
    ),
    "no barrier between the passes": (
        "across<First>(some, staged, to_between);\n                __syncthreads();",
        "across<First>(some, staged, to_between);",
    ),
    "no barrier behind repeated edges": ("missing, inside);\n                __syncthreads();", "missing, inside);"),
    "no barrier before the stores": ("    __syncthreads();\n\n    Target*", "    Target*"),
    "half a level less": ("IntegerPass<uint8, uint8, 1 << 21, 22>", "IntegerPass<uint8, uint8, 0, 22>"),
    "no clamp": ("return uint8(x < 0 ? 0 : x > 255 ? 255 : x);", "return uint8(x);"),
    "edges not repeated": ("row[e] = row[missing + e % count];", "row[e] = 0;"),
    "rows beyond the edge": ("return smaller(larger(pixel, axis.first), axis.stop - 1);", "return pixel;"),
    "a tap too many": (
        "weights + span.count * int32(p.tile_width)",
        "weights + (span.count + 1) * int32(p.tile_width)",
    ),
    "a chunk's last row left out": ("end = smaller(row_end - span.first,", "end = smaller(row_end - 1 - span.first,"),
    "torch's last taps rounded": ("((count - 1) & ~3) + 1 : count", "count : count"),
    "torch's second tap fused": ("((count - 1) & ~3) + 1 : count", "1 : count"),
    "colours not divided": ("if constexpr (policy.premultiplies) tile.divide();", ""),
    "cut vectors left out": (
        "if (address + i < begin || address + i + sizeof(Element) > end) continue;",
        "continue;",
    ),
    "vectors beyond the memory": ("if (address >= begin && address + 16 <= end) {", "if (true) {"),
    "rows not looked at": (
        "begin_of(one) < begin || end_of(one, run) > end || begin_of(other) < begin || end_of(other, run) > end",
        "false",
    ),
    "the last row not looked at": ("|| begin_of(other) < begin || end_of(other, run) > end", ""),
    "taps of the second turn left out": (
        "if (has(turn, load)) kept[pixel(turn)",
        "if (turn == 0 && has(turn, load)) kept[pixel(turn)",
    ),
    "taps that are not loaded at once left out": (
        "if (count <= Turns * pixels && taps <= loads * lanes) return;",
        "return;",
    ),
}
"""What the kernels have, and what is there instead."""


@emulated
@pytest.mark.faults
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_kernel_is_caught(fault):
    cases = [
        *of_seeds(Case("pillow-lanczos", "uint8", "float16"), 4),
        *of_seeds(Case("opencv-cubic", samples=3), 4),
        *of_seeds(KINDS["alpha"], 1),
        *of_seeds(KINDS["floats of torch"], 1),
        *of_seeds(WIDE, 12),
    ]
    check_fault_is_caught("resize_tiles.cu", FAULTS[fault], cases)


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("architecture", machine_code.ARCHITECTURES)
def test_the_kernels_compile_without_spills_and_with_the_planned_widths(architecture):
    cases = [dataclasses.replace(case, size=(224, 224), samples=1) for case in KINDS.values()]
    code = unspilled([case.launch for case in cases], architecture)
    for case in cases:
        made = code[case.launch.name]
        if case.launch.sources == ("resize_pairs.cu",):
            continue  # growing areas, which have no tile
        assert made.loads[8 * min(case.choice.load.nbytes, 8)] or made.loads[8 * case.choice.load.nbytes], made.loads
        assert made.stores[8 * case.choice.store.nbytes], (case.launch.name, made.stores)


TYPES = ("uint8", "int16", "float16", "bfloat16", "float32", "int64", "float64")
SOURCES = (
    *(("uint8", name) for name in INTERPOLATIONS if not name.endswith(("nearest", "box", "hamming", "bicubic"))),
    ("uint16", "pillow-lanczos"),
    ("uint16", "opencv-cubic"),
    ("float32", "pillow-lanczos"),
    ("float32", "opencv-linear"),
    ("float32", "torch-bilinear"),
)


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("architecture", machine_code.ARCHITECTURES)
def test_arithmetic_and_types_in_turn_compile_without_spills(architecture):
    """Every arithmetic with a type, a reader, a store and an order of passes in its turn; others on the next."""
    turn = machine_code.ARCHITECTURES.index(architecture)
    draw = random.Random(turn)
    cases = []
    for source, interpolation in SOURCES:
        for target in draw.sample(TYPES, 3):
            channels = draw.randint(1, 5)
            cases.append(
                Case(
                    interpolation,
                    source,
                    target,
                    draw.choice(("NCHW", "NHWC")),
                    draw.choice(("HWC", "HWC", "CHW")),
                    passes=draw.choice(("horizontal", "vertical"))
                    if interpolation.startswith("pillow")
                    else "horizontal",
                    arithmetic=draw.choice(({}, {"scale": 0.5}, {"scale": (0.5,) * channels, "bias": 1.0})),
                    channels=draw.choice((None, tuple(range(channels))[::-1])),
                    channel_count=channels,
                    size=(224, 224),
                    samples=1,
                )
            )
    unspilled([case.launch for case in cases], architecture)


def test_windows_without_elements_are_not_launched():
    case = Case("pillow-box")
    with pytest.raises(LayoutError, match="nothing to launch"):
        resize_launch(case.choice, [])


def test_pixels_that_shared_memory_does_not_hold_are_refused_in_words():
    case = Case("pillow-box", size=(1, 1), samples=1, largest=300)
    tiny = dataclasses.replace(case.gpu, shared_bytes=64)
    with pytest.raises(DeviceError, match=r"made of up to \d+ x \d+ pixels, more than the 64 B of shared memory"):
        choose_resize(case.problem, tiny).for_taps([case.problem.taps(case.windows[0])])
