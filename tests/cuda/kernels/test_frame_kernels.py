"""The CUDA kernel of frames: executed under sanitizers beside the CPU, compiled, inspected."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence

import pytest
from harness.emulator import machine_code
from harness.emulator.marks import emulated, every_architecture, inspected
from harness.emulator.runner import ORDERS, Program
from harness.frame_encodes import FrameEncodeCase
from harness.frame_launches import FrameCase

from stridedgpu import DeviceError, LayoutError
from stridedgpu.devices.cuda.launches.frames import frames_launch, window_place
from stridedgpu.devices.cuda.planning.frames import choose_frame
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.values.channel_matrix import matrix_rows

MATRIX = matrix_rows([(0.25, 0.5, 0.25), (1.0, -1.0, 0.1), (0.0, 0.3, 0.7)])
NORMALISED = {"scale": (1 / 58.0, 1 / 57.0, 1 / 57.5), "bias": (-2.1, -2.0, -1.8)}


def check_cases(cases: Sequence[FrameCase | FrameEncodeCase]) -> None:
    """Run the cases in all thread orders; not a byte beside the target's elements is written."""
    for sources in sorted({case.launch.sources for case in cases}):
        alike = [case for case in cases if case.launch.sources == sources]
        program = Program.compile(joined_source(*sources), sorted({case.launch.name for case in alike}))
        jobs = [(case, order) for case in alike for order in ORDERS]
        results = program.run([case.job(order) for case, order in jobs])
        for (case, _), written in zip(jobs, results, strict=True):
            assert case.expected in written, case


PLANES = FrameCase("nv12", "float16", "CHW", NORMALISED)
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
    "pixels, blue first": [FrameCase("nv21", "uint8", "HWC", channels=(2, 1, 0), size=(4, 40))],
    "packed pixels": [
        FrameCase("yuyv", "float32", "CHW", NORMALISED),
        FrameCase("yuyv", "float32", "CHW", NORMALISED, origin=(1, 3), size=(4, 19), gap=2),
    ],
    "packed pixels, chroma first": [FrameCase("uyvy", "uint8", "CHW", origin=(0, 1), size=(3, 32))],
    "three planes": [
        FrameCase("i420", "uint8", "CHW"),
        FrameCase("i420", "uint8", "CHW", origin=(1, 1), size=(4, 31), pitch=16),
        FrameCase("yv12", "bfloat16", "CHW", {"bias": 0.5}, origin=(2, 1), size=(4, 24)),
    ],
    "ten bits": [
        FrameCase("p010", "float16", "CHW", {"scale": 1 / 65535}),
        FrameCase("p010", "float16", "CHW", {"scale": 1 / 65535}, origin=(1, 1), size=(5, 21)),
        FrameCase("i010", "uint16", "HWC", size=(4, 18)),
    ],
    "one channel of wide numbers": [FrameCase("p016", "float64", "CHW", {"scale": 0.1}, channels=(1,), size=(3, 15))],
    "linear chroma": [
        FrameCase("nv12", "float16", "CHW", NORMALISED, chroma="linear", size=(5, 9)),
        FrameCase("nv12", "float16", "CHW", NORMALISED, chroma="linear", origin=(3, 5), size=(4, 7)),
        FrameCase("uyvy", "uint8", "HWC", chroma="linear", origin=(1, 1), size=(3, 8), channels=(2, 1, 0)),
        FrameCase("i010", "uint16", "CHW", chroma="linear", origin=(0, 2), size=(6, 8), index_bits=64),
    ],
    "samples apart": [
        FrameCase("nv12", "uint8", "CHW", apart=3, size=(4, 6)),
        FrameCase("yv12", "float32", "HWC", NORMALISED, apart=2, origin=(1, 1), size=(4, 5), mirrored=True),
    ],
    "a matrix": [
        FrameCase("nv12", "uint8", "CHW", {"matrix": MATRIX, "bias": 3.0}, origin=(1, 1), size=(4, 7)),
        FrameCase("p010", "float32", "HWC", {"matrix": MATRIX[:1]}, size=(3, 6), chroma="linear"),
        FrameCase("yuyv", "float64", "CHW", {"matrix": MATRIX, **NORMALISED}, size=(2, 8)),
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
]


@emulated
def test_an_encoder_s_frame_under_sanitizers_is_that_of_the_cpu():
    check_cases(ENCODED[:1])


@pytest.mark.slow
@emulated
def test_encoders_frames_under_sanitizers_are_those_of_the_cpu():
    check_cases(ENCODED)


@emulated
def test_a_few_frames_under_sanitizers_are_those_of_the_cpu():
    check_cases([*CASES["planes of half"], *CASES["pixels"]])


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
@emulated
def test_frames_under_sanitizers_are_those_of_the_cpu(kind):
    check_cases(CASES[kind])


@inspected
@pytest.mark.slow
@every_architecture
def test_the_kernels_compile_without_spills_and_with_the_planned_widths(architecture):
    cases = [*(case for kind in CASES for case in CASES[kind]), *ENCODED]
    code = {}
    for sources in sorted({case.launch.sources for case in cases}):
        names = sorted({case.launch.name for case in cases if case.launch.sources == sources})
        code |= machine_code.compile_kernels(joined_source(*sources), names, architecture)
    for case in cases:
        made = code[case.launch.name]
        assert (made.local_accesses, made.stack_bytes, made.flushing) == (0, 0, []), case.launch.name
        assert made.loads[8 * case.choice.load.nbytes], (case.launch.name, made.loads)
        assert made.stores[8 * case.choice.store.nbytes], (case.launch.name, made.stores)


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


def test_a_windows_place_is_in_whole_samples():
    luma, place = window_place(PLANES.choice, (1000, 5000), (3, 5))
    assert (luma, struct.unpack("<QQII", place)) == (1000 + 3 * 22 + 5, (5000 + 22 + 4, 0, 1, 1))
    linear = dataclasses.replace(PLANES, chroma="linear")
    luma, place = window_place(linear.choice, (1000, 5000), (3, 5))
    assert (luma, struct.unpack("<QQII", place)) == (1000, (5000, 5001, 3, 5))
