"""The kernel of turned_pixels.cu: run in the emulator from real plans, compiled and inspected, its banks counted."""

from __future__ import annotations

import struct
from typing import ClassVar

import pytest
from harness.emulator.cases import LARGE, WIDE, WORDS, case, flipped, in_order, ramp
from harness.emulator.planned import Case
from harness.emulator.tiled_cases import wavefronts
from harness.emulator.tiled_tests import Fault, TiledTests

from stridedgpu.devices.cuda.relayout.choice import Family
from stridedgpu.devices.cuda.relayout.transpose import turned_pixels_of
from stridedgpu.values.layout import Layout

NAMES = {itemsize: name for itemsize, name in WORDS.items() if itemsize <= 4}


def image(height: int, width: int, channels: int, batch: int = 2, row: int = 0) -> Layout:
    """Pixels in rows of `row` elements, if not packed; axes N H W C."""
    return in_order((batch, height, width, channels), range(4), {1: row})


def turned(height: int, width: int, channels: int, batch: int = 2, row: int = 0) -> Layout:
    """The same axes; columns of the image follow each other in memory."""
    return in_order((batch, height, width, channels), (0, 2, 1, 3), {2: row})


def size_cases() -> list[Case]:
    """Every number of elements, every width, flips of every axis, rows with gaps, and edges of tiles."""
    found = []
    for name in NAMES.values():
        for channels in (2, 3, 5, 6, 7, 12) if name == "uint8" else (2, 3, 5) if name == "float16" else (2, 3):
            for height, width in ((33, 50), (64, 32)):
                found.append(case(image(height, width, channels), turned(height, width, channels), name))
        flips = ((1,), (2,), (3,), (1, 2, 3))
        found += [case(flipped(image(40, 48, 3), *axes), turned(40, 48, 3), name) for axes in flips]
        found.append(case(image(37, 45, 3, row=160), turned(37, 45, 3, row=128), name))
        found.append(case(image(40, 48, 3), turned(40, 48, 3), name, owned=True, slack=(0, 32), bits=64))
        found.append(case(image(64, 64, 3, 5), turned(64, 64, 3, 5), name, aligned=(32, 32), gpu=WIDE))
    found.append(case(image(300, 70, 3, 1), turned(300, 70, 3, 1), gpu=LARGE))
    found += [case(image(460, 33, 3, 1), turned(460, 33, 3, 1)), case(image(33, 460, 3, 1), turned(33, 460, 3, 1))]
    # Repeated rows, and images in another order.
    found.append(case(Layout((2, 40, 48, 3), (144, 0, 3, 1)), turned(40, 48, 3)))
    found.append(case(image(20, 30, 3, 4), in_order((4, 20, 30, 3), (2, 0, 1, 3))))
    return found


def conversion_cases() -> list[Case]:
    """Casts to wider and to narrower types, with constants alike and of each channel, and channels backwards."""
    found = []
    for types in ("uint8>float16", "uint8>float32", "float32>uint8", "int16>bfloat16", "float16>float32"):
        one, other = image(21, 36, 3), turned(21, 36, 3)
        found += [case(one, other, types), case(flipped(one, 2, 3), other, types, axis=3, scale=ramp(3), bias=2.0)]
        found += [case(one, other, types, axis=3, scale=ramp(3)), case(one, other, types, scale=0.5, bits=64)]
    return found


FAULTS = {
    "no barrier before a group": Fault(
        "source_row_step, parameters.source_columns);\n    __syncthreads();\n",
        "source_row_step, parameters.source_columns);\n",
    ),
    "rows that are not there": Fault("if (number + i * step < rows_left) held", "if (true) held"),
    "a row's end is not moved": Fault("if (whole == elements_left) return;", "return;"),
    "a whole vector at a row's end": Fault(
        "vector < elements_left / V::length; vector", "vector < (elements_left + 1) / V::length; vector"
    ),
    "channels the wrong way round": Fault("Turned ? Channels", "!Turned ? Channels"),
    "a gap left out on one side": Fault("number / uint32(Band) * gap", "number / uint32(Band + 1) * gap"),
}


@pytest.mark.parametrize("channels", [3, 5, 6, 7])
@pytest.mark.parametrize("width", [32, 50, 120])
def test_groups_of_a_warp_lie_in_different_banks(channels, width):
    """Groups have an odd number of words; rows are of any length."""
    one = case(image(width, width, channels), turned(width, width, channels))
    shape, plan = turned_pixels_of(one.plan.problem), one.plan
    extents = one.launch.tile[shape.source_axis], one.launch.tile[shape.target_axis]
    source_gap, target_gap, shared = struct.unpack_from("<3I", one.launch.parameters, _gaps_at(one))
    assert shared <= one.launch.shared_bytes
    for place, (extent, gap) in enumerate(zip(extents, (source_gap, target_gap), strict=True)):
        unit = max(shape.length, (plan.load.nbytes, plan.store.nbytes)[place])
        band = shape.length * -(-extent // unit) * unit * channels + gap
        group = shape.length * channels
        steps = (group, band) if place == 0 else (band, group)
        addresses = [lane // 8 * steps[0] + lane % 8 * steps[1] for lane in range(32)]
        assert wavefronts(addresses, 4) == 1


def _gaps_at(one: Case) -> int:
    """The offset of the gaps among the parameters: behind addresses, 7 numbers, 5 divisors, and 3 numbers."""
    assert one.plan.index_bits == 32
    return 16 + 4 * (7 + 15 + 3)


class TestTurnedPixels(TiledTests):
    source = "turned_pixels.cu"
    family = Family.TURNED_PIXELS
    tables: ClassVar = {"sizes": size_cases, "conversions": conversion_cases}
    at_home = 0.9
    random_layouts = 800
    faults = FAULTS

    def broken_cases(self) -> list[Case]:
        ends = case(image(37, 45, 3, row=160), turned(37, 45, 3, row=128))
        return [*size_cases()[:6], ends, case(flipped(image(40, 48, 3), 3), turned(40, 48, 3))]

    def compiled_cases(self) -> list[Case]:
        wide = {"aligned": (32, 32), "slack": (0, 32), "owned": True}
        one, other = image(64, 64, 3, 4), turned(64, 64, 3, 4)
        found = [case(one, other, types, **wide) for types in ("uint8", "int16", "float32", "uint8>float16")]
        found += [case(one, other, "uint8>float32", axis=3, scale=ramp(3), **wide), case(one, other, "float32>uint8")]
        return [*found, *(case(image(64, 64, n, 4), turned(64, 64, n, 4), **wide) for n in (2, 5, 7))]
