"""The kernel of pixels.cu: run in the emulator from real plans, compiled and inspected, its instructions counted."""

from __future__ import annotations

import dataclasses
import itertools
from typing import ClassVar

import pytest
from harness.emulator.cases import LARGE, WIDE, WORDS, case, flipped, in_order, ramp
from harness.emulator.launched import instructions_per_byte
from harness.emulator.marks import inspected
from harness.emulator.planned import Case
from harness.emulator.tiled_tests import Fault, TiledTests

from stridedgpu.devices.cuda.gpu import REFERENCE_GPU
from stridedgpu.devices.cuda.relayout.choice import Family
from stridedgpu.devices.cuda.relayout.pixels import whole_pixels_of
from stridedgpu.values.layout import Layout

OWNED = {"owned": True, "slack": (0, 32)}


def frames(channels: int, width: int, pixel: int = 0, row: int = 0, sizes: tuple[int, int] = (2, 5)) -> Layout:
    """Pixels `pixel` elements apart in rows `row` elements apart, with sizes in the order N H W C."""
    return in_order((*sizes, width, channels), (0, 1, 2, 3), {2: pixel, 1: row})


def filled(one: Case) -> Case:
    """The same with zeros up to the next pixel."""
    pitch, count = one.target.layout.strides[2], one.target.layout.sizes[3]
    return dataclasses.replace(one, channel_axis=3, filler=pitch - count)


def pixel_cases(types: str, channels: int, source: int, target: int, width: int, **options) -> list[Case]:
    """Pixels at two pitches, in rows that follow each other and in rows that do not, with gaps of either kind."""
    found = []
    for row in (0, width * 8 + 32):
        one, other = frames(channels, width, source, row), frames(channels, width, target, row)
        found.append(case(one, other, types, **options))
        if target > channels:
            found.append(case(one, other, types, **OWNED, **options))
            found.append(filled(case(one, other, types, **options)))
    return found


def size_cases() -> list[Case]:
    """Pitches, numbers of channels, flips and widths, for every size of element that pixels are made of."""
    found = []
    for itemsize in (1, 2, 4):
        name = WORDS[itemsize]
        found += pixel_cases(name, 3, 3, 4, 33) + pixel_cases(name, 3, 3, 4, 96, gpu=LARGE)
        found += pixel_cases(name, 3, 4, 3, 33) + pixel_cases(name, 2, 4, 3, 96) + pixel_cases(name, 3, 5, 8, 96)
        found += pixel_cases(name, 3, 3, 4, 64, aligned=(32, 32), gpu=WIDE)
        found += pixel_cases(name, 3, 3, 4, 64, bits=64)
        found += pixel_cases(name, 3, 3, 4, 45, aligned=(itemsize, 4))
        for axes in ((3,), (2,), (1, 2, 3)):
            found.append(case(flipped(frames(3, 96, 3, 304), *axes), frames(3, 96, 4, 400), name, **OWNED))
            found.append(case(flipped(frames(3, 96, 4, 400), *axes), frames(3, 96, 3, 304), name))
            # Rows of whole vectors, in which the pixels end in the middle of one.
            found.append(case(flipped(frames(3, 100, 3, 304), *axes), frames(3, 100, 4, 400), name, **OWNED))
    for channels, target in ((3, 8), (3, 16), (3, 32), (7, 8), (6, 16)):
        found.append(filled(case(frames(channels, 45), frames(channels, 45, target))))
        found.append(filled(case(frames(channels, 45), frames(channels, 45, target), "float16")))
    long = {"sizes": (1, 1)}
    found += [filled(case(frames(3, 9001, **long), frames(3, 9001, 4, **long)))]
    found += [case(frames(3, 18, 3, 61, (3, 700)), frames(3, 18, 4, 80, (3, 700)), **OWNED)]
    # Other pixels lie in the gaps between pixels.
    found.append(case(frames(3, 40), Layout((2, 5, 40, 3), (1600, 320, 8, 1)), **OWNED))
    return found


def conversion_cases() -> list[Case]:
    """Casts, with constants along every axis, and channels in every order."""
    found = []
    for types, order in itertools.product(
        ("uint8>float16", "uint8>float32", "float32>uint8", "int16>bfloat16"),
        (None, (2, 1, 0), (1, 2, 0)),
    ):
        options = {"axis": 3, "channels": order, "scale": ramp(3), "bias": ramp(3)[::-1]}
        found.append(case(frames(3, 40, 4), frames(3, 40), types, **options))
        found.append(case(frames(3, 40), frames(3, 40, 4), types, **OWNED, **options))
    for axis in range(4):
        one, other = frames(3, 40, 3, 128), frames(3, 40, 4, 192)
        constants = {"axis": axis, "scale": ramp(one.sizes[axis])}
        found.append(case(one, other, "uint8>float16", **constants))
        found.append(case(flipped(one, axis), other, "uint8>float16", bits=64, **constants))
    chosen = {"axis": 0, "channels": (1, 1)}
    found.append(case(frames(3, 40, 3, 128), frames(3, 40, 4, 192), **OWNED, **chosen))
    found.append(case(frames(3, 40, 4), frames(2, 40, 2), axis=3, channels=(2, 0)))
    found.append(case(frames(2, 40, 4), frames(5, 40, 5), axis=3, channels=(1, 1, 0, 0, 1)))
    return found


FAULTS = {
    "no barrier before pixels are taken": Fault(
        "parameters.source_vectors);\n    __syncthreads();", "parameters.source_vectors);\n"
    ),
    "no barrier before pixels are stored": Fault(
        "    __syncthreads();\n    constexpr int writes", "    constexpr int writes"
    ),
    "both sides share their memory": Fault(
        "memory + (int(parameters.tile_rows) * source_bytes + 15) / 16 * 16", "memory"
    ),
    "a row's end is read past": Fault("if (element < elements_left) move(", "if (element <= elements_left) move("),
    "gaps are overwritten": Fault("element % Group::pitch >= Written", "element % Group::pitch >= Group::pitch"),
    "channels are not turned": Fault("policy.turned ? policy.channels - 1 - c : c", "c"),
    "a short tile runs backwards from the wrong end": Fault("groups_left - 1 - group", "tile.groups - 1 - group"),
    "a chosen channel is the first one": Fault("if (chosen == Index(p))", "if (false)"),
}


@inspected
@pytest.mark.parametrize("types, pitch", [("uint8", 4), ("uint8>float16", 8)])
def test_few_instructions_for_each_byte(types, pitch):
    """Of all paths, those of rows' ends too: fewer than the 7 a byte that an H200 can start while it moves one."""
    sizes = {"sizes": (64, 512)}
    options = {"scale": 1 / 255} if ">" in types else {}
    one = filled(case(frames(3, 512, **sizes), frames(3, 512, pitch, **sizes), types, gpu=REFERENCE_GPU, **options))
    assert instructions_per_byte(one) < 7


class TestPixels(TiledTests):
    source = "pixels.cu"
    family = Family.PIXELS
    tables: ClassVar = {"sizes": size_cases, "conversions": conversion_cases}
    at_home = 0.8
    random_layouts = 800
    faults = FAULTS

    def broken_cases(self) -> list[Case]:
        found = [one for width in (45, 64) for one in pixel_cases("uint8", 3, 3, 4, width)]
        long = {"sizes": (1, 2)}
        found.append(case(flipped(frames(3, 8144, **long), 2), frames(3, 8144, 4, 33000, **long), **OWNED))
        found.append(case(flipped(frames(3, 64), 3), frames(3, 64)))
        return [*found, case(frames(3, 64), frames(3, 64), axis=3, channels=(1, 0, 2))]

    def compiled_cases(self) -> list[Case]:
        sizes, wide = {"sizes": (8, 64)}, {"aligned": (32, 32)}
        found = []
        for types in ("uint8", "float16", "float32", "uint8>float16", "uint8>float32", "float32>uint8"):
            found.append(filled(case(frames(3, 256, **sizes), frames(3, 256, 4, **sizes), types, **wide)))
            found.append(case(frames(3, 256, 4, **sizes), frames(3, 256, **sizes), types, **wide))
        found.append(filled(case(frames(3, 256, **sizes), frames(3, 256, 32, **sizes), **wide)))
        normalised = {"axis": 3, "scale": ramp(3), "bias": ramp(3), **wide}
        found.append(case(frames(3, 224, **sizes), frames(3, 224, **sizes), "uint8>float32", **normalised))
        return found


def test_a_thread_holds_whole_pixels_as_one_vector_a_channel():
    for one in [*size_cases(), *conversion_cases()]:
        if one.plan.family is Family.PIXELS:
            shape = whole_pixels_of(one.plan.problem)
            for group in shape.groups:
                assert group.length * group.itemsize <= 32
            assert one.launch.shared_bytes <= 48 * 1024
