"""The kernel of packed_tile.cu: run in the emulator from real plans, compiled and inspected, its banks counted."""

from __future__ import annotations

from typing import ClassVar

import pytest
from harness.emulator.cases import LARGE, WIDE, WORDS, case, flipped, in_order, ramp
from harness.emulator.marks import emulated
from harness.emulator.planned import Case, check_cases
from harness.emulator.tiled_cases import wavefronts
from harness.emulator.tiled_tests import Fault, TiledTests

from stridedgpu.devices.cuda.relayout.choice import Family
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.values.layout import Layout

SIZES = (2, 15, 33, 3)
"""Too few pixels along one axis for `turned_pixels.cu`."""


def packed(*sizes: int, order: str, pitches: dict[int, int] | None = None) -> Layout:
    """Axes named 0, 1, 2 … from the outermost to the innermost in memory."""
    return in_order(sizes, tuple(map(int, order)), pitches)


def pixel_cases(name: str, **options) -> list[Case]:
    """Pixels of 3 elements turned, padded and unpadded; pixels of more than 8 split and joined."""
    turned, padded = packed(*SIZES, order="0213"), packed(*SIZES, order="0213", pitches={1: 4})
    plain, owned = packed(*SIZES, order="0123"), {"owned": True, "slack": (0, 64)}
    found = [case(plain, turned, name, **options), case(plain, padded, name, **options)]
    found += [case(padded, plain, name, **options), case(plain, padded, name, **owned, **options)]
    found += [case(flipped(padded, *axes), plain, name, **options) for axes in ((2,), (1, 2, 3))]
    found += [case(flipped(plain, 1, 2), turned, name, **options)]
    channels = (2, 5, 40, 12)
    planes, pixels = packed(*channels, order="0312"), packed(*channels, order="0123", pitches={2: 16})
    found += [case(planes, pixels, name, **options), case(planes, pixels, name, **owned, **options)]
    found += [case(pixels, planes, name, **options), case(flipped(pixels, 2, 3), planes, name, **options)]
    return found


def edge_cases(name: str) -> list[Case]:
    """Tiles that take a part of two loops, and are short at the edges of both."""
    plain, turned = packed(1, 190, 200, 3, order="0123", pitches={2: 4}), packed(1, 190, 200, 3, order="0213")
    found = [case(plain, turned, name), case(plain, turned, name, gpu=LARGE)]
    return found + [case(flipped(plain, *axes), turned, name) for axes in ((1,), (2,), (1, 2, 3))]


def cut_cases() -> list[Case]:
    """Tiles cut off inside a vector of the target's rows, and along the axis of channels."""
    plain = packed(1, 190, 200, 3, order="0123", pitches={2: 4})
    pitched, turned = packed(1, 190, 200, 3, order="0213", pitches={2: 576}), packed(1, 190, 200, 3, order="0213")
    found = [case(plain, pitched), case(plain, turned, "uint8>float16", axis=1, scale=ramp(190))]
    assert {one.launch.sources for one in found} == {("packed_tile.cu",)}
    assert found[0].plan.store.nbytes == 16
    assert all(one.launch.grid[0] > 1 for one in found)
    return found


def size_cases() -> list[Case]:
    """The same for every size of element, with narrow vectors and wide ones; small transposes."""
    found = []
    for name in WORDS.values():
        found += pixel_cases(name)
        small = packed(50, 8, 7, order="012", pitches={0: 57})
        found.append(case(small, packed(50, 8, 7, order="021"), name))
        found.append(case(small, packed(50, 8, 7, order="210"), name, gpu=LARGE))
        found.append(case(flipped(small, 0, 1, 2), packed(50, 8, 7, order="021"), name, bits=64))
    found += [*edge_cases("uint8"), *edge_cases("float32"), *cut_cases()]
    found += pixel_cases("uint8", gpu=LARGE, bits=64)
    found += pixel_cases("uint16", aligned=(2, 4), gpu=LARGE)
    found += pixel_cases("float32", aligned=(32, 32), gpu=WIDE)
    # Rows between the elements of other rows: a gap may hold an element.
    found.append(case(packed(2, 70, 3, order="012"), Layout((2, 70, 3), (4, 8, 1)), owned=True, slack=(0, 64)))
    return found


def conversion_cases() -> list[Case]:
    """Casts both ways, with constants along every axis, and channels in every order."""
    found = []
    for types in ("uint8>float16", "float32>uint8"):
        found += pixel_cases(types, scale=0.5, bias=3.0)
        plain, turned = packed(*SIZES, order="0123"), packed(*SIZES, order="0213")
        deep, planes = packed(2, 10, 5, 40, order="0231"), packed(2, 10, 5, 40, order="0123")
        for one, other, bits in ((plain, turned, None), (deep, planes, 64), (planes, deep, None)):
            for axis, count in enumerate(one.sizes):
                order = tuple(value * value * 3 % count for value in range(count))
                options = {"axis": axis, "scale": ramp(count), "bits": bits}
                found.append(case(one, other, types, **options))
                found.append(case(flipped(one, axis), other, types, **options))
                found.append(case(one, other, types, channels=order, **options))
    # A table of channels along the source's run of a transpose.
    found.append(case(packed(30, 40, order="01"), packed(30, 40, order="10"), axis=1, channels=(5, 0, *range(1, 39))))
    return found


FAULTS = {
    "no barrier": Fault("    __syncthreads();\n", ""),
    "a short tile runs backwards from the wrong end": Fault(
        "Index(outer.source) + Index(shift)", "Index(outer.source)"
    ),
    "chunks that are not there": Fault("if (!reach.has(chunk) || element", "if (element"),
    "rows that are not there": Fault("if (!reach.has(row) || element", "if (element"),
    "gaps are overwritten": Fault(
        "policy.gaps == Gaps::ours ? element + store_length <= row_length : there == all", "true"
    ),
    "a row's end is written past": Fault(" && element + i < row_length;", ";"),
    "channels begin anew in each tile": Fault("        first_channel += tile.remainder * loop.channel_step;\n", ""),
    "a chunk's end is read past": Fault(
        "load_first<LoadVector>(address, chunk_length - element)",
        "load<LoadVector>(address)",
    ),
    "the filling is left out on one side": Fault(
        "memory + place(position * int(sizeof(T)))).get(0)",
        "memory + position * int(sizeof(T))).get(0)",
    ),
}


@pytest.mark.parametrize("itemsize", WORDS)
def test_elements_a_power_of_two_apart_lie_in_different_banks(itemsize):
    """For strides of up to 128 bytes; of 256 bytes, two lanes share a bank."""
    assert "return byte + byte / 128 * filling;" in joined_source("packed_tile.cu")
    for stride in (8, 16, 32, 64, 128, 256):
        places = [lane * stride + lane * stride // 128 * max(itemsize, 4) for lane in range(32)]
        if stride >= itemsize:
            assert wavefronts(places, itemsize) <= (2 if stride == 256 else 1), stride


def test_tiles_fit_shared_memory_and_every_size_is_planned():
    for size in (2**16, 2**24):
        one = case(packed(size, 200, 3, order="012", pitches={1: 4}), packed(size, 200, 3, order="102"))
        assert one.launch.shared_bytes <= 48 * 1024
        assert one.plan.index_bits == (64 if size * 800 >= 2**31 else 32)
        assert "packed_tile" in joined_source(*one.launch.sources)


class TestPackedTile(TiledTests):
    source = "packed_tile.cu"
    family = Family.PACKED_TILE
    tables: ClassVar = {"sizes": size_cases, "conversions": conversion_cases}
    at_home = 0.75
    random_layouts = 400
    faults = FAULTS

    def broken_cases(self) -> list[Case]:
        return [*pixel_cases("uint8"), *edge_cases("uint8"), *cut_cases()]

    @emulated
    def test_tiles_that_are_cut_off_write_what_is_theirs(self) -> None:
        check_cases(cut_cases())

    def compiled_cases(self) -> list[Case]:
        sizes = (4, 64, 64, 3)
        plain, wide = packed(*sizes, order="0123"), {"aligned": (32, 32), "slack": (0, 32), "owned": True}
        gaps = packed(*sizes, order="0123", pitches={2: 4})
        found = [case(gaps, packed(*sizes, order="0213"), name, **wide) for name in ("uint8", "int16", "float32")]
        found.append(case(plain, packed(*sizes, order="0213", pitches={1: 4}), "uint8", **wide))
        pixels, planes = packed(4, 64, 64, 16, order="0123"), packed(4, 64, 64, 16, order="0312")
        for types in (*WORDS.values(), "uint8>float16", "float16>uint8"):
            found += [case(pixels, planes, types, **wide), case(planes, pixels, types, **wide)]
        return found
