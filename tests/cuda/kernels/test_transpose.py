"""The kernel of transpose.cu: run in the emulator from real plans, compiled and inspected, its banks counted."""

from __future__ import annotations

import itertools
from typing import ClassVar

import pytest
from harness.emulator.cases import LARGE, WIDE, WORDS, case, flipped, in_order, ramp
from harness.emulator.planned import Case
from harness.emulator.tiled_cases import wavefronts
from harness.emulator.tiled_tests import Fault, TiledTests

from stridedgpu.devices.cuda.relayout.choice import Family
from stridedgpu.devices.cuda.relayout.transpose import tile_extents
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.values.layout import Layout


def matrices(height: int, width: int, batch: int = 1, pitches: tuple[int, int] = (0, 0)) -> tuple[Layout, Layout]:
    """Rows one after another, and columns one after another; `pitches` are theirs, 0 for packed."""
    sizes = (batch, height, width)
    return in_order(sizes, (0, 1, 2), {1: pitches[0]}), in_order(sizes, (0, 2, 1), {2: pitches[1]})


def size_cases() -> list[Case]:
    """Whole tiles, edges, padded and odd pitches, flips, several tile sizes and widths, for every size of element."""
    found = []
    for itemsize, name in WORDS.items():
        whole = 256 if itemsize == 1 else 128 if itemsize == 2 else 64
        found.append(case(*matrices(whole, whole), name))
        found.append(case(*matrices(150, 140, 2), name))
        found.append(case(*matrices(45, 37, 3), name, gpu=LARGE))
        found.append(case(*matrices(45, 37, 2, (48, 48)), name))
        found.append(case(*matrices(133, 45, 1, (48, 144)), name, bits=64))
        found.append(case(*matrices(133, 45, 1, (48, 144)), name, gpu=LARGE, owned=True, slack=(0, 32)))
        found.append(case(*matrices(70, 96, 2), name, (32, 32), gpu=WIDE))
        source, target = matrices(45, 37, 2, (48, 48))
        found += [case(flipped(source, *axes), target, name) for axes in ((2,), (1,), (0, 1, 2))]
        found += [case(source, flipped(target, *axes), name) for axes in ((2,), (1,))]
        for aligned in (1, 2, 4, 8):
            if aligned >= itemsize:
                found.append(case(source, target, name, (aligned, 16)))
                found.append(case(source, target, name, (16, aligned)))
    nested = (2, 3, 18, 2, 20)
    found.append(case(in_order(nested, (0, 1, 2, 3, 4), {3: 21}), in_order(nested, (1, 0, 3, 4, 2)), "uint16"))
    deep = (2, 2, 2, 2, 2, 2, 2, 2, 2, 17, 18)
    found.append(
        case(
            in_order(deep, (*range(9), 9, 10), dict.fromkeys(range(9), 1)),
            in_order(deep, (8, 6, 4, 2, 0, 7, 5, 3, 1, 10, 9)),
            "uint16",
        )
    )
    return found


def conversion_cases() -> list[Case]:
    """Casts that widen and narrow, with constants along every axis."""
    found = []
    source, target = matrices(45, 70, 3, (80, 48))
    for types in (
        "uint8>float16",
        "uint8>float32",
        "float32>uint8",
        "float16>float32",
        "float64>uint8",
        "uint8>float64",
    ):
        found.append(case(source, target, types))
        found.append(case(source, target, types, scale=0.5, bias=-1.25, gpu=LARGE))
        for axis in range(3):
            constants = {"scale": ramp(source.sizes[axis]), "bias": ramp(source.sizes[axis])[::-1]}
            found.append(case(source, target, types, axis=axis, **constants))
            found.append(case(flipped(source, axis), target, types, axis=axis, bits=64, **constants))
    for axis, count in enumerate(source.sizes):
        order = tuple(value * value * 5 % count for value in range(count))
        found.append(case(source, target, "uint8>float16", axis=axis, channels=order, scale=ramp(count)))
        found.append(case(source, target, "float32", axis=axis, channels=order))
    # A tile so small that some threads have nothing to load, and the last of its channels the end of their table.
    order = tuple(value * value * 5 % 160 for value in range(160))
    found.append(case(*matrices(160, 160), "uint8>complex128", gpu=LARGE, axis=1, channels=order))
    return found


@pytest.mark.parametrize("bits", [32, 64])
def test_sizes_beyond_32_bits_and_large_grids_are_planned(bits):
    rows = 2**21 if bits == 64 else 2**14
    one = case(*matrices(rows, 2**14), "float32")
    assert one.plan.index_bits == bits
    x, y, z = one.launch.grid
    assert x * y * z >= rows // 64 * 2**8
    assert (x < 2**31, y < 65536, z) == (True, True, 1)


FAULTS = {
    "unswizzled on one side": Fault(
        "const uint32 place = Tile::place(s, unit);",
        "const uint32 place = s * Tile::row_bytes + unit * Tile::Unit::bytes;",
    ),
    "units in the swizzle's order": Fault("turned = first & bit * Unit::bytes;", "turned = false;"),
    "no barrier": Fault("    __syncthreads();\n", ""),
    "one row too many": Fault("const int left = t < target_left &&", "const int left = t <= target_left &&"),
    "one element too many": Fault("store_first(address, elements, filled_left - t)", "store(address, elements)"),
    "reads behind the edge": Fault("if (i < count) vector.set(i, address[i]);", "vector.set(i, address[i]);"),
}


def swizzled(source_itemsize: int, target_itemsize: int, load_bytes: int, small: bool):
    """The formulas of `TransposeTile`: tile extents, elements of a unit, bytes of one, and where one lies."""
    extents = tile_extents(source_itemsize, target_itemsize, small=small)
    itemsize = min(source_itemsize, target_itemsize)
    height = max(1, 4 // itemsize)
    unit_bytes, units = height * itemsize, extents[1] // height
    bank_units = min(128 // unit_bytes, units)
    vectors = extents[0] // (load_bytes // source_itemsize)
    step = max(1, bank_units // vectors)

    def swizzle(s: int) -> int:
        return s // (load_bytes // source_itemsize) * step & (bank_units - 1)

    return extents, itemsize, height, unit_bytes, units, vectors, swizzle


def writing_wavefronts(
    source_itemsize: int, target_itemsize: int, load_bytes: int, small: bool, turned: int = 1
) -> int:
    """How often a warp touches one bank when it writes what it loaded; without the swizzle where `turned` is 0."""
    _, _, _, unit_bytes, units, vectors, swizzle = swizzled(source_itemsize, target_itemsize, load_bytes, small)
    load_length, worst = load_bytes // source_itemsize, 0
    for warp in range(0, vectors * units, 32):
        lanes = range(warp, min(warp + 32, vectors * units))
        placed = [(lane % vectors * load_length, lane // vectors) for lane in lanes]
        for column in range(load_length):
            rows = [(s + column, unit) for s, unit in placed]
            written = [(s * units + (unit ^ swizzle(s) * turned)) * unit_bytes for s, unit in rows]
            worst = max(worst, wavefronts(written, unit_bytes))
    return worst


ITEMSIZES = [
    pytest.param(pair, id=str(pair), marks=[] if pair in ((1, 1), (1, 4), (4, 1), (8, 8)) else [pytest.mark.slow])
    for pair in itertools.product((1, 2, 4, 8, 16), repeat=2)
]


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("itemsizes", ITEMSIZES)
def test_no_bank_conflicts(itemsizes, small):
    """In every warp, for every width of load and store that a plan may have."""
    text = joined_source("transpose.cu")
    for formula in (
        "return s / LoadLength * swizzle_step & (bank_units - 1);",
        "return s * row_bytes + (unit ^ swizzle(s)) * Unit::bytes;",
        "(from ^ by % row_bytes) + by / row_bytes * row_bytes;",
        "first & ~uint32(Piece::bytes - 1)",
    ):
        assert formula in text
    for load_bytes, store_bytes in itertools.product((1, 2, 4, 8, 16, 32), repeat=2):
        if load_bytes < itemsizes[0] or store_bytes < itemsizes[1]:
            continue
        extents, itemsize, height, unit_bytes, units, _, swizzle = swizzled(*itemsizes, load_bytes, small)
        store_length = store_bytes // itemsizes[1]
        assert writing_wavefronts(*itemsizes, load_bytes, small) == 1, load_bytes
        read_bytes = store_length * itemsize
        piece_bytes = min(read_bytes, 16)
        piece_units = max(1, piece_bytes // unit_bytes)
        row_vectors = extents[1] // store_length
        for warp in range(0, row_vectors * extents[0], 32):
            lanes = range(warp, warp + 32)
            for piece in range(read_bytes // piece_bytes):
                read = []
                for s, t in ((lane // row_vectors, lane % row_vectors * store_length) for lane in lanes):
                    unit = (t // height + piece * piece_units) ^ (swizzle(s) & ~(piece_units - 1))
                    read.append((s * units + unit) * unit_bytes + t % height * itemsize)
                # A vector of 32 bytes is read in two pieces, which lie two apart.
                assert wavefronts(read, piece_bytes) <= read_bytes // piece_bytes, (store_bytes, warp)


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_the_count_of_banks_sees_a_missing_swizzle(itemsize):
    """The bytes would be right without it: only the time shows."""
    assert writing_wavefronts(itemsize, itemsize, 16, small=False, turned=0) > 1


class TestTranspose(TiledTests):
    source = "transpose.cu"
    family = Family.TRANSPOSE
    tables: ClassVar = {"sizes": size_cases, "conversions": conversion_cases}
    at_home = 0.95  # a table of channels along the source's run goes elsewhere
    random_layouts = 500
    faults = FAULTS

    def broken_cases(self) -> list[Case]:
        source, target = matrices(45, 70, 1, (80, 48))
        return [case(source, target, types) for types in ("uint8", "float32")]

    def compiled_cases(self) -> list[Case]:
        whole = matrices(256, 256)
        found = [case(*whole, name, (32, 32)) for name in WORDS.values()]
        found += [case(*whole, types, (32, 32)) for types in ("uint8>float32", "float32>uint8")]
        constants = {"axis": 2, "scale": ramp(256), "bias": ramp(256)}
        found.append(case(*whole, "uint8>float16", (32, 32), **constants))
        found.append(case(*whole, "uint8", (1, 1)))
        return found
