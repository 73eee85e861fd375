"""The kernel of channels.cu: run in the emulator from real plans, compiled and inspected, its banks counted."""

from __future__ import annotations

import itertools
from typing import ClassVar

import pytest
from harness.emulator.cases import LARGE, WIDE, WORDS, case, flipped, ramp
from harness.emulator.pixel_cases import both_ways, nchw, nhwc
from harness.emulator.planned import Case
from harness.emulator.tiled_cases import wavefronts
from harness.emulator.tiled_tests import Fault, TiledTests

from stridedgpu.devices.cuda.relayout.choice import Family
from stridedgpu.devices.cuda.relayout.pixels import PixelGroup
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.values.layout import Layout


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


FAULTS = {
    "split: no barrier": Fault(
        "parameters.source_vectors);\n        __syncthreads();\n        tile.template write_planes",
        "parameters.source_vectors);\n        tile.template write_planes",
    ),
    "join: no barrier": Fault(
        "        tile.read_planes(parameters, source, place.channel);\n        __syncthreads();",
        "        tile.read_planes(parameters, source, place.channel);",
    ),
    "one element too many is read": Fault("if (element < elements_left) move(", "if (element <= elements_left) move("),
    "the last vector of a row is left out": Fault(
        "const bool there = number < vectors && int(at.remainder) < whole;",
        "const bool there = number < vectors && int(at.remainder) + 1 < whole;",
    ),
    "gaps are overwritten": Fault("element % Group::pitch >= Written", "element % Group::pitch >= Group::pitch"),
    "green is blue": Fault(
        "__byte_perm(__byte_perm(a, b, 0x0741), c, 0x6210)",
        "__byte_perm(__byte_perm(a, b, 0x0741), c, 0x7210)",
    ),
    "the filling is left out on one side": Fault("return b + b / bytes * (shared_bytes - bytes);", "return b;"),
}


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


class TestChannels(TiledTests):
    source = "channels.cu"
    family = Family.CHANNELS
    tables: ClassVar = {"sizes": size_cases, "conversions": conversion_cases}
    at_home = 0.8
    random_layouts = 500
    faults = FAULTS

    def broken_cases(self) -> list[Case]:
        # Rows of fewer than 128 bytes, in one tile and in several of its rows: longer ones have their words shifted.
        found = []
        for width, pixel, batch in itertools.product((45, 64), (3, 4), (1, 2)):
            shape = {"sizes": (batch, 2)}
            found += both_ways(nhwc(3, width, pixel, **shape), nchw(3, width, **shape))
        return found

    def compiled_cases(self) -> list[Case]:
        sizes, wide = {"sizes": (8, 64)}, {"aligned": (32, 32)}
        found = []
        for types in (*WORDS.values(), "uint8>float16", "uint8>float32"):
            for channels, pixel in ((3, 3), (3, 4), (4, 4)):
                found += both_ways(nhwc(channels, 256, pixel, **sizes), nchw(channels, 256, **sizes), types, **wide)
        normalised = {"axis": 1, "scale": ramp(3), "bias": ramp(3), **wide}
        found.append(case(nhwc(3, 224, **sizes), nchw(3, 224, **sizes), "uint8>float16", **normalised))
        return found
