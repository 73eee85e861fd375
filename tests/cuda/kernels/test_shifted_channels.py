"""Pixels and planes that begin anywhere in their vectors (shifted_channels.cu): run in the emulator, inspected."""

from __future__ import annotations

import dataclasses

import pytest
from harness.emulator import machine_code
from harness.emulator.cases import LARGE, WIDE, case, collected, flipped, ramp
from harness.emulator.chosen import few
from harness.emulator.launched import instructions_per_byte
from harness.emulator.marks import DEFAULT_ARCHITECTURE, emulated, inspected
from harness.emulator.pixel_cases import both_ways, nchw, nhwc
from harness.emulator.planned import Case, check_cases
from harness.emulator.tiled_cases import check_machine_code
from harness.emulator.tiled_tests import Fault
from hypothesis import strategies as st

from stridedgpu.devices.cuda.gpu import REFERENCE_GPU
from stridedgpu.devices.cuda.relayout.choice import Family

TYPES = ("uint8", "uint8>float16", "uint8>float32", "float16", "float32", "float32>uint8")


def repacked(types: str) -> list[Case]:
    """Pixels that stay pixels, in rows of their own: turned either way, in gaps that are ours, filled up."""
    found = []
    for source, target, axes in ((3, 3, (1,)), (3, 4, ()), (4, 3, (3,)), (3, 3, (2, 3))):
        pixels, others = nhwc(3, 131, source, 131 * source + 4), nhwc(3, 131, target, 131 * target + 9)
        found.append(case(flipped(pixels, *axes), others, types, owned=True, slack=(0, 32)))
        if target > 3:
            found.append(dataclasses.replace(case(pixels, others, types), channel_axis=1, filler=target - 3))
    return found


def written_out() -> list[Case]:
    """Every pair of sizes of elements, with and without gaps, in one long row and in rows of their own."""
    found = []
    for types in TYPES:
        for channels, pixel in ((3, 3), (3, 4), (2, 2)):
            found += both_ways(nhwc(channels, 317, pixel), nchw(channels, 317), types)
        found += both_ways(nhwc(3, 317, 3, 957), nchw(3, 317, 330), types, aligned=(4, 4), gpu=LARGE)
        found += both_ways(flipped(nhwc(3, 317), 3), nchw(3, 317), types)
        found.append(case(flipped(nchw(3, 317), 3), nhwc(3, 317, 4), types, owned=True, slack=(0, 32)))
        found += repacked(types)
    normalised = {"axis": 1, "scale": ramp(3), "bias": ramp(3)[::-1]}
    found += both_ways(nhwc(3, 317), nchw(3, 317), "uint8>float16", **normalised)
    found += both_ways(nhwc(3, 317), nchw(3, 317), "uint8>float32", axis=0, scale=ramp(2))
    found += both_ways(flipped(nhwc(3, 317), 1, 2), nchw(3, 317), "uint8>float16", **normalised)
    found += both_ways(nhwc(3, 317), nchw(3, 317), bits=64, gpu=WIDE)
    chosen = case(nchw(3, 317), nhwc(3, 317), axis=1, channels=(1, 2, 0))
    filled = dataclasses.replace(case(nchw(3, 317), nhwc(3, 317, 4)), channel_axis=1, filler=1)
    one_long_row = both_ways(nhwc(3, 20011, sizes=(1, 1)), nchw(3, 20011, sizes=(1, 1)))
    return [*found, *one_long_row, chosen, filled]


@st.composite
def odd_images(draw: st.DrawFn) -> Case:
    """Images of any width and pitch, at any address on either side."""
    types = draw(st.sampled_from(TYPES))
    channels = draw(st.integers(2, 4))
    pixel = draw(st.integers(channels, 4))
    width, height = draw(st.integers(128, 400) | st.integers(2000, 5100)), draw(st.sampled_from((1, 2, 5)))
    rows = [step * width + draw(st.sampled_from((0, 0, 1, 33))) for step in (pixel, 1)]
    pixels = nhwc(channels, width, pixel, rows[0], (draw(st.sampled_from((1, 3))), height))
    planes = nchw(channels, width, rows[1], (pixels.sizes[0], height))
    options: dict = {"slack": draw(st.sampled_from(((0, 0), (32, 32), (3, 7)))), "owned": draw(st.booleans())}
    options["aligned"] = draw(st.tuples(*[st.sampled_from((1, 2, 4, 16))] * 2))
    options["bits"] = draw(st.sampled_from((None, None, 64)))
    if types != "float32" and draw(st.booleans()):
        options |= {"axis": 1, "scale": ramp(channels)}
    source, target = draw(st.permutations((pixels, planes, nhwc(channels, width, 4, 0, pixels.sizes[::2]))))[:2]
    return case(flipped(source, *draw(st.sets(st.sampled_from((1, 2, 3))))), target, types, **options)


def drawn(count: int, number: int) -> list[Case]:
    """Cases whose vectors are shifted."""
    found = collected(odd_images(), count, number)
    assert {one.plan.family for one in found if one.plan.shifts} >= {Family.CHANNELS, Family.PIXELS}
    return [one for one in found if one.launch.sources == ("shifted_channels.cu",)]


@emulated
def test_every_byte_of_a_few_kernels_is_right():
    check_cases(few(one for one in written_out() if one.launch.sources == ("shifted_channels.cu",)))


@emulated
@pytest.mark.slow
def test_every_byte_is_right():
    cases = written_out()
    assert sum(one.launch.sources == ("shifted_channels.cu",) for one in cases) > 0.8 * len(cases)
    check_cases(cases)


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("number", [2, pytest.param(3, marks=pytest.mark.sweep)])
def test_images_of_odd_widths(number):
    check_cases(drawn(80, number))


FAULTS = {
    "no barrier before pixels are taken": Fault(
        "parameters.source_vectors);\n        __syncthreads();", "parameters.source_vectors);\n"
    ),
    "no barrier before runs are stored": Fault(
        "        __syncthreads();\n        written.write(", "        written.write("
    ),
    "words are not shifted": Fault("__funnelshift_r(low, high, beside * 8)", "low"),
    "vectors are not shifted": Fault("__funnelshift_r(vector.word[w], next, shift)", "vector.word[w]"),
    "a vector behind the run is read": Fault("element >= 0 && (is_one || element + length <= count);", "element >= 0;"),
    "a run's beginning is left out": Fault("at_start ? before > 0 || whole == 0 : whole > 0", "!at_start && whole > 0"),
    "a run's end is left out": Fault("element >= 0 && element < count", "element >= 0 && element + 1 < count"),
    "channels are not turned": Fault("policy.turned ? policy.channels - 1 - c : c", "c"),
    "pixels are not turned": Fault(
        "if constexpr (policy.backwards) made[c] = reversed(plane);", "if constexpr (false) {}"
    ),
    "green is blue": Fault(
        "__byte_perm(__byte_perm(a, b, 0x0741), c, 0x6210)",
        "__byte_perm(__byte_perm(a, b, 0x0741), c, 0x7210)",
    ),
}


@emulated
@pytest.mark.faults
@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_kernel_is_caught(name):
    cases = [*both_ways(nhwc(3, 317), nchw(3, 317)), *repacked("uint8")]
    FAULTS[name].check_is_caught(cases)


def test_the_plan_says_what_is_shifted():
    plan = case(nhwc(3, 317), nchw(3, 317)).plan
    assert plan.shifts
    assert plan.kernel == "channels_uint8x16B_uint8x16B"
    assert (
        "loads 16 B; stores 16 B\n  rows begin anywhere in their vectors: words are shifted into place"
        in "\n  ".join(plan.describe())
    )


@pytest.mark.parametrize(
    "source, target, types, shifts",
    [
        (nhwc(3, 317), nchw(3, 317), "uint8", True),
        (nhwc(3, 320), nchw(3, 320), "uint8", False),
        (nhwc(3, 317, 5), nchw(3, 317), "uint8", False),
        (nhwc(3, 127, 3, 403), nchw(3, 127, 129), "uint8", False),
        (nhwc(3, 128, 3, 403), nchw(3, 128, 129), "uint8", True),
        (flipped(nhwc(3, 317), 3), nchw(3, 317), "uint8", True),
        (flipped(nhwc(3, 317), 3), nhwc(3, 317), "uint8", True),
        (flipped(nhwc(3, 317), 3), nhwc(3, 317), "float64", False),
        (nhwc(3, 317), nchw(3, 317), "float64", False),
        (nchw(3, 317), nhwc(3, 317), "uint8>float16", True),
        (nchw(3, 317), nhwc(3, 317, 4), "uint8", False),
    ],
)
def test_vectors_are_shifted_where_they_are_not_to_be_had(source, target, types, shifts):
    assert case(source, target, types).plan.shifts is shifts


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("architecture", machine_code.ARCHITECTURES)
def test_machine_code_has_whole_vectors_and_no_spills(architecture):
    """All kernels on the architecture that plans are made for where there is no GPU, a part of them on the others."""
    turn, turns = machine_code.ARCHITECTURES.index(architecture), len(machine_code.ARCHITECTURES)
    cases = written_out()
    check_machine_code(cases if architecture == DEFAULT_ARCHITECTURE else cases[turn::turns], architecture)


@inspected
def test_few_instructions_for_each_byte():
    """Of all rows' ends and of both paths, one row and several: one of them alone is below 7 a byte."""
    sizes = {"sizes": (64, 223)}
    one = case(nhwc(3, 317, **sizes), nchw(3, 317, **sizes), gpu=REFERENCE_GPU)
    assert instructions_per_byte(one) < 10
