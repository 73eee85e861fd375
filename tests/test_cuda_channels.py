"""The kernel of channels.cu: run in the emulator from real plans, compiled and inspected, its banks counted."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from cuda_emulation import machine_code, runner
from cuda_emulation.exact_conversion import REALS
from cuda_emulation.planned import Case, check_cases
from cuda_emulation.runner import EmulationError
from cuda_emulation.tiled_cases import (
    LARGE,
    WIDE,
    WORDS,
    case,
    check_machine_code,
    drawn,
    flipped,
    in_order,
    ramp,
    replaced,
    wavefronts,
)

from stridedgpu.kernel_sources import joined_source
from stridedgpu.layout import Layout
from stridedgpu.planning.cuda_channels import PixelGroup
from stridedgpu.planning.families import Family

emulated = [
    pytest.mark.emulation,
    pytest.mark.skipif(runner.why_unavailable() is not None, reason=str(runner.why_unavailable())),
]
inspected = pytest.mark.skipif(machine_code.why_unavailable() is not None, reason=str(machine_code.why_unavailable()))

SOURCES = ("channels.cu",)


def nhwc(channels: int, width: int, pixel: int = 0, row: int = 0, sizes: tuple[int, int] = (2, 5)) -> Layout:
    """Pixels `pixel` elements apart in rows `row` elements apart, with sizes in the order N C H W."""
    return in_order((sizes[0], channels, sizes[1], width), (0, 2, 3, 1), {3: pixel, 2: row})


def nchw(channels: int, width: int, row: int = 0, sizes: tuple[int, int] = (2, 5)) -> Layout:
    """Planes with rows `row` elements apart."""
    return in_order((sizes[0], channels, sizes[1], width), (0, 1, 2, 3), {2: row})


def both_ways(pixels: Layout, planes: Layout, types: str = "uint8", **options) -> list[Case]:
    """Pixels split, and planes joined: in gaps that are ours and in gaps that are not."""
    back = ">".join(reversed(types.split(">")))
    found = [case(pixels, planes, types, **options), case(planes, pixels, back, **options)]
    if pixels.is_padded:
        found.append(case(planes, pixels, back, owned=True, slack=(0, 32), **options))
    return found


def size_cases() -> list[Case]:
    """Numbers of channels, paddings of pixels and rows, flips and widths, for every size of element."""
    found = []
    for itemsize, name in WORDS.items():
        for channels, pixel in ((2, 2), (3, 3), (3, 4), (4, 4), (3, 8), (5, 5)):
            found += both_ways(nhwc(channels, 45, pixel), nchw(channels, 45), name)
        found += both_ways(nhwc(3, 96, 3, 304), nchw(3, 96, 112), name)
        found += both_ways(nhwc(3, 96, 3, 304), nchw(3, 96, 112), name, gpu=LARGE, bits=64)
        found += both_ways(nhwc(4, 64, 4, 288), nchw(4, 64, 96), name, aligned=(32, 32), gpu=WIDE)
        for width in (96, 45):
            pixels, planes = nhwc(3, width, 3, 304), nchw(3, width, 112)
            for axes in ((1,), (3,), (1, 2, 3)):
                found.append(case(flipped(pixels, *axes), planes, name))
                found.append(case(flipped(planes, *axes), pixels, name))
        for aligned in (1, 4):
            if aligned >= itemsize:
                found += both_ways(nhwc(3, 96, 3, 304), nchw(3, 96, 112), name, aligned=(aligned, 16))
                found += both_ways(nhwc(3, 96, 4, 400), nchw(3, 96, 112), name, aligned=(16, aligned))
    long = {"sizes": (1, 1)}
    found += both_ways(nhwc(3, 9001, **long), nchw(3, 9001, **long))
    found += both_ways(nhwc(3, 18, 3, 61, sizes=(3, 700)), nchw(3, 18, 19, sizes=(3, 700)))
    found += both_ways(nhwc(2, 64), nchw(2, 64, 69), aligned=(32, 32), gpu=WIDE)
    # Other pixels lie in the gaps between pixels.
    found.append(case(Layout((2, 3, 40)), Layout((2, 3, 40), (4, 1, 8)), owned=True, slack=(0, 32)))
    return found


def conversion_cases() -> list[Case]:
    """Casts both ways, with constants along every axis, and channels in every order."""
    found = []
    orders = (None, (2, 1, 0), (1, 2, 0), (0, 0, 2))
    for types, pixel, order in itertools.product(("uint8>float16", "uint8>float32", "uint8>float64"), (3, 4), orders):
        options = {"axis": 1, "channels": order, "scale": ramp(3), "bias": ramp(3)[::-1]}
        found += both_ways(nhwc(3, 40, pixel), nchw(3, 40), types, **options)
    for axis in range(4):
        pixels, planes = nhwc(3, 40, 3, 128), nchw(3, 40, 48)
        constants = {"axis": axis, "scale": ramp(pixels.sizes[axis])}
        found += both_ways(pixels, planes, "uint8>float16", **constants)
        found += both_ways(flipped(pixels, axis), planes, "uint8>float16", bits=64, **constants)
    found += both_ways(nhwc(3, 40, 3), nchw(3, 40), "uint8>float32", scale=1 / 255, gpu=LARGE)
    for types, pixel in itertools.product(("float32>uint8", "float64>uint8", "float64>float16"), (3, 8)):
        found += both_ways(nhwc(3, 48, pixel), nchw(3, 48), types, aligned=(32, 32))
    found += both_ways(nhwc(4, 40), nchw(4, 40), "int16>bfloat16", axis=1, channels=(3, 0, 1, 2), bits=64)
    planes, some = nchw(2, 40), {"axis": 1, "channels": (2, 0), "scale": (0.5, 3.0)}
    found.append(case(nhwc(3, 40, 4), planes, "uint8>float32", **some))
    found.append(case(nhwc(3, 40, 4), nchw(5, 40), "uint8>float32", axis=1, channels=(1, 1, 0, 2, 0), scale=ramp(5)))
    return found


TABLES = {"sizes": size_cases, "conversions": conversion_cases}


@pytest.mark.parametrize("table", [pytest.param(name, marks=emulated) for name in TABLES])
def test_every_byte_is_right(table):
    cases = TABLES[table]()
    sources = Counter(one.launch.sources for one in cases)
    assert sources[SOURCES] > 0.9 * len(cases), sources
    check_cases(cases)


@pytest.mark.parametrize("number", [pytest.param(1, marks=emulated)])
def test_layouts_at_random(number):
    check_cases(drawn(Family.CHANNELS, 250, number))


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [pytest.param(number, marks=emulated) for number in range(2, 8)])
def test_many_layouts_at_random(number):
    check_cases(drawn(Family.CHANNELS, 1500, number))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [pytest.param(name, marks=emulated) for name in REALS])
def test_every_conversion(name):
    check_cases(
        case(*sides, f"{name}>{other}", **options)
        for other in REALS
        for sides in ((nhwc(3, 40), nchw(3, 40)), (nchw(3, 40), nhwc(3, 40)))
        for options in ({}, {"scale": 1.5, "bias": -0.25}, {"scale": 1.5, "rounding": "truncate"})
    )


FAULTS = {
    "split: no barrier": (
        "        tile.read_pixels(parameters, source);\n        __syncthreads();",
        "        tile.read_pixels(parameters, source);",
    ),
    "join: no barrier": (
        "        tile.read_planes(parameters, source, channel);\n        __syncthreads();",
        "        tile.read_planes(parameters, source, channel);",
    ),
    "one element too many is read": (
        "number < vectors ? elements_left - element : 0",
        "number < vectors ? elements_left - element + 1 : 0",
    ),
    "one element too many is written": ("left = elements_left - element;", "left = elements_left - element + 1;"),
    "gaps are overwritten": ("element % Pitch >= RowPitch", "element % Pitch >= Pitch"),
    "green is blue": (
        "__byte_perm(__byte_perm(a, b, 0x0741), c, 0x6210)",
        "__byte_perm(__byte_perm(a, b, 0x0741), c, 0x7210)",
    ),
    "the filling is left out on one side": ("return b + b / bytes * (shared_bytes - bytes);", "return b;"),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=emulated) for name in FAULTS])
def test_a_broken_kernel_is_caught(name):
    cases = [one for pixel in (3, 4) for one in both_ways(nhwc(3, 45, pixel), nchw(3, 45))]
    cases += [one for pixel in (3, 4) for one in both_ways(nhwc(3, 64, pixel), nchw(3, 64))]
    with pytest.raises((AssertionError, EmulationError), match=r"bytes wrong|AddressSanitizer"):
        check_cases(cases, source_of=replaced(*FAULTS[name]))


@pytest.mark.parametrize("itemsize", WORDS)
@pytest.mark.parametrize("pitch", range(2, 9))
def test_no_bank_conflicts_between_groups(itemsize, pitch):
    """Neighbouring threads read the same unit of neighbouring groups."""
    assert "bytes + (filled ? unit_bytes : 0)" in joined_source("channels.cu")
    for length in (1, 2, 4, 8, 16, 32):
        unit = min(length * itemsize, 16)
        if length * itemsize > 32 or unit < 4:
            continue
        group = PixelGroup(length, pitch, itemsize)
        for place in range(0, length * pitch * itemsize, unit):
            assert wavefronts([lane * group.shared_bytes + place for lane in range(32)], unit) == 1, length


def representative() -> list[Case]:
    sizes = {"sizes": (8, 64)}
    found = []
    for types in (*WORDS.values(), "uint8>float16", "uint8>float32"):
        for channels, pixel in ((3, 3), (3, 4), (4, 4)):
            found += both_ways(
                nhwc(channels, 256, pixel, **sizes), nchw(channels, 256, **sizes), types, aligned=(32, 32)
            )
    normalised = {"axis": 1, "scale": ramp(3), "bias": ramp(3), "aligned": (32, 32)}
    found.append(case(nhwc(3, 224, **sizes), nchw(3, 224, **sizes), "uint8>float16", **normalised))
    return found


@inspected
@pytest.mark.parametrize("architecture", machine_code.ARCHITECTURES)
def test_machine_code_has_the_widths_of_the_plan_and_no_spills(architecture):
    cases = representative()
    check_machine_code(cases if architecture == "sm_90" else cases[::4] + cases[-1:], architecture)


@inspected
@pytest.mark.exhaustive
@pytest.mark.parametrize("architecture", machine_code.ARCHITECTURES)
def test_all_machine_code_has_the_widths_of_the_plan_and_no_spills(architecture):
    cases = [*representative(), *size_cases(), *conversion_cases()]
    for pitch, name, gpu in itertools.product(range(2, 9), WORDS.values(), (LARGE, WIDE)):
        cases += both_ways(nhwc(pitch, 256), nchw(pitch, 256), name, aligned=(32, 32), gpu=gpu)
    for one, other in itertools.product(REALS, repeat=2):
        cases += both_ways(nhwc(3, 256), nchw(3, 256), f"{one}>{other}", aligned=(32, 32), scale=2.0, bias=1.0)
    check_machine_code([one for one in cases if one.launch.sources == SOURCES], architecture)
