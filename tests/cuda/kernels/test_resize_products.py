"""Resizes by products of matrices: executed under sanitizers beside the CPU, broken on purpose, compiled, chosen."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable

import numpy as np
import pytest
from harness.emulator import machine_code
from harness.emulator.marks import DEFAULT_ARCHITECTURE, emulated, inspected
from harness.resize_launches import NORMALISED, ResizeCase as Case, check_fault_is_caught, check_resizes, program_each
from hypothesis import given, strategies as st

from stridedgpu.devices.cuda.gpu import KNOWN_GPUS, REFERENCE_GPU, GpuProperties
from stridedgpu.devices.cuda.policy import ResizeProductsPolicy, policy, using
from stridedgpu.devices.cuda.resize_products import ProductSums, ProductTiles, product_tiles, zero_bits
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.problems.resize_taps import window_taps
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.interpolation import INTERPOLATIONS

KINDS = {
    "photographs to half": Case("pillow-bilinear", "uint8", "float16", arithmetic=NORMALISED, size=(40, 72)),
    "blue first": Case("pillow-lanczos", "uint8", "float32", arithmetic=NORMALISED, channels=(2, 1, 0), size=(33, 35)),
    "pixels to pixels": Case("pillow-bilinear", order="NHWC", size=(40, 72), largest=120),
    "pixels to pixels, blue first": Case(
        "pillow-bicubic", "uint8", "float16", "NHWC", arithmetic=NORMALISED, channels=(2, 0, 1), size=(50, 33)
    ),
    "two of three channels": Case("torch-bilinear", "uint8", "bfloat16", channels=(2, 0), size=(17, 40)),
    "four channels": Case("torch-bicubic", channel_count=4, size=(24, 24), largest=300),
    "four channels to pixels of three": Case(
        "pillow-box", order="NHWC", channel_count=4, channels=(0, 2, 1), size=(9, 48)
    ),
    "one of two channels": Case(
        "pillow-hamming", "uint8", "int16", channel_count=2, size=(5, 7), channels=(1,), largest=700
    ),
    "planes": Case(
        "pillow-bilinear", "uint8", "float16", source_order="CHW", channel_count=5, size=(40, 100), largest=150
    ),
    "one channel": Case("torch-lanczos", channel_count=1, size=(40, 130), largest=100),
    "strong downscales": Case("pillow-bicubic", "uint8", "float16", size=(4, 16), largest=500),
    "upscales": Case("torch-bicubic", "uint8", "float16", size=(100, 130), largest=12, fractions=True),
    "rows of words": Case("pillow-bilinear", order="NHWC", size=(40, 72), largest=120, source_alignment=4),
    "rows of vectors": Case("torch-bicubic", "uint8", "float16", size=(33, 40), largest=120, source_alignment=16),
    "windows of a ragged batch": Case(
        "pillow-bicubic", order="NHWC", size=(33, 67), samples=6, largest=200, fractions=True
    ),
}
"""Every number of channels, store, fill and order of channels; columns first."""

ROWS_FIRST = {
    f"{kind}, rows first": dataclasses.replace(case, passes="vertical", largest=min(case.largest, 130))
    for kind, case in KINDS.items()
}
"""The same in the other order, of sources whose rows fit shared memory all at once."""

BOTH_ORDERS = KINDS | ROWS_FIRST

BY_DEFAULT = ("photographs to half", "rows of words", "rows of vectors", "planes", "strong downscales")


def with_tiles(case: Case, *tiles: tuple[int, int, int]) -> Case:
    """The case, planned with these tiles alone."""
    products = ResizeProductsPolicy(tiles=tiles, few=(0, 0))
    with using(dataclasses.replace(policy(), resize=dataclasses.replace(policy().resize, products=products))):
        assert case.choice.limits.products is products
    return case


ANY_TILE = ResizeProductsPolicy().tiles


def multiprocessors(case: Case, number: int) -> GpuProperties:
    """The case's GPU with so many."""
    return dataclasses.replace(case.gpu, multiprocessors=number)


def of_seeds(case: Case, count: int) -> list[Case]:
    """The same with other images; the last ones have little memory: chunks of 32 rows, and smaller tiles.

    Rows first, where nothing is in chunks, their images are small. Every other GPU has one multiprocessor, whose blocks
    make several tiles.
    """
    largest = 110 if case.passes == "horizontal" else 40
    cases = [
        with_tiles(dataclasses.replace(case, seed=seed, gpu=multiprocessors(case, 1 + seed % 2 * 131)), *ANY_TILE)
        for seed in range(count)
    ]
    for seed, kibibytes in enumerate((32, 44, 60), count):
        gpu = dataclasses.replace(multiprocessors(case, 1 + seed % 2 * 131), shared_bytes=kibibytes << 10)
        small = dataclasses.replace(case, seed=seed, size=(20, 44), largest=largest, gpu=gpu)
        cases.append(with_tiles(small, (32, 32, 1), (16, 16, 1), (16, 8, 1)))
    return cases


def by_products(cases: list[Case]) -> list[Case]:
    """The cases, after a look whether all are by products."""
    others = [case for case in cases for launch in case.launches if launch.sources != ("resize_products.cu",)]
    assert not others
    return cases


@emulated
def test_products_under_sanitizers_are_the_bytes_of_the_cpu():
    check_resizes(by_products([case for kind in BY_DEFAULT for case in of_seeds(KINDS[kind], 2)]))


@emulated
def test_products_rows_first_are_the_bytes_of_the_cpu():
    check_resizes(by_products([case for kind in BY_DEFAULT for case in of_seeds(ROWS_FIRST[f"{kind}, rows first"], 2)]))


@emulated
def test_batches_of_pillow_13_have_a_launch_of_either_order():
    one = Case("pillow-bicubic", "uint8", "float16", passes="pillow-13", size=(36, 45), samples=6, largest=120)
    drawn = [dataclasses.replace(one, seed=seed, arithmetic=NORMALISED) for seed in range(3)]
    cases = [with_tiles(case, *ANY_TILE) for case in drawn]
    assert {samples[0].taps.columns_first for case in cases for samples in case.groups} == {True, False}
    check_resizes(by_products(cases))


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("kind", BOTH_ORDERS)
def test_each_kind_under_sanitizers(kind):
    check_resizes(by_products(of_seeds(BOTH_ORDERS[kind], 12 if kind in KINDS else 4)))


SUMS = {
    "pillow-box": ProductSums(3, saturates=False),
    "pillow-bilinear": ProductSums(3, saturates=False),
    "pillow-hamming": ProductSums(3, saturates=False),
    "pillow-bicubic": ProductSums(3, saturates=True),
    "pillow-lanczos": ProductSums(3, saturates=True),
    "torch-bilinear": ProductSums(2, saturates=True),
    "torch-bicubic": ProductSums(2, saturates=True),
    "torch-lanczos": ProductSums(2, saturates=True),
}
"""The bytes of a weight, and whether sums may be no bytes."""


@pytest.mark.parametrize("interpolation", SUMS)
@pytest.mark.parametrize("source", [(375, 500), (100, 99), (2160, 224), (224, 2160)])
def test_a_rule_has_its_sums_at_every_scale(interpolation, source):
    tiles = product_tiles_of(source, "h200", interpolation)
    assert tiles is not None
    assert tiles.sums == SUMS[interpolation]


@emulated
@pytest.mark.parametrize("interpolation", ["pillow-bilinear", "torch-bilinear"])
def test_few_images_of_each_sum(interpolation):
    """Weights of 1 are among them, axes of other scales, and axes that are copied."""
    one = Case(interpolation, order="NHWC", size=(36, 45), samples=6, largest=60)
    check_resizes(by_products([with_tiles(dataclasses.replace(one, seed=seed), *ANY_TILE) for seed in range(2)]))


FILTERS = [name for name in INTERPOLATIONS if name.startswith(("pillow", "torch")) and not name.endswith("nearest")]


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("interpolation", FILTERS)
def test_each_filter_up_and_down(interpolation):
    draw = random.Random(interpolation)
    cases = [
        Case(
            interpolation,
            target=draw.choice(("uint8", "float16")),
            order=draw.choice(("NCHW", "NHWC")),
            seed=seed,
            size=(draw.randint(1, 90), draw.choice((draw.randint(1, 90), 8 * draw.randint(1, 12)))),
            largest=draw.choice((3, 8, 60, 300)),
            samples=3,
            fractions=draw.random() < 0.5,
            passes=draw.choice(("horizontal", "vertical")),
        )
        for seed in range(24)
    ]
    check_resizes(by_products([with_tiles(case, *ANY_TILE) for case in cases]), programs=program_each)


@emulated
@pytest.mark.slow
def test_every_tile_has_the_same_bytes():
    cases = [
        with_tiles(dataclasses.replace(KINDS[kind], passes=passes, size=(40, 100), largest=60), tiles)
        for kind in ("photographs to half", "planes")
        for passes in ("horizontal", "vertical")
        for tiles in sorted({(height, width, 1) for height, width, _ in ANY_TILE})
    ]
    check_resizes(by_products(cases))


FAULTS = {
    "no barrier behind what has come": ("shift_rows(tile, row);\n        __syncthreads();", "shift_rows(tile, row);"),
    "no wait for what comes": ("        wait_for_copies();\n        if (tile.bytes", "        if (tile.bytes"),
    "no barrier behind the pass across": (
        "        __syncthreads();\n        row += p.memory",
        "        row += p.memory",
    ),
    "no barrier behind the tiles": ("threadIdx.x == 0);\n        __syncthreads();", "threadIdx.x == 0);"),
    "weights of the column of tiles before": ("is_first || tile.rows.first <= 0", "is_first"),
    "weights of no tile before": ("is_first || tile.rows.first <= 0", "tile.rows.first <= 0"),
    "tiles behind the last": ("number == p.turns || first + number == p.tiles", "number == p.turns"),
    "a block's last tile left out": ("number == p.turns ||", "(number > 0 && number + 1 == p.turns) ||"),
    "rows of one chunk alone": ("row >= block.tiles()[number].staged_rows()", "true"),
    "taps of no chunk but the second": ("if (row == 0) place_down(tile);", "if (row != 0) place_down(tile);"),
    "half a level less": ("piece[0][i] = 1 << (fixed.bits - 1);", "piece[0][i] = 0;"),
    "no sign across": ("multiply_add_u8_s8(sums[half].piece[piece]", "multiply_add_u8_u8(sums[half].piece[piece]"),
    "no sign down": ("multiply_add_s8_u8(sums[i].piece[piece]", "multiply_add_u8_u8(sums[i].piece[piece]"),
    "the highest byte too low": ("(sum << 8);", "(sum << 7);"),
    "weights of 1 that three bytes do not hold": ("smaller(recorded, (1 << 22) - 1) << 2", "recorded << 2"),
    "weights of two bytes that keep their zeros": ("return recorded >> (22 - bits);", "return recorded;"),
    "zeros of the other axis": (
        "row_zeros = sample.row_zeros, column_zeros = sample.column_zeros",
        "row_zeros = sample.column_zeros, column_zeros = sample.row_zeros",
    ),
    "sums that are one byte too low": ("__byte_perm(sums[0], sums[1], 0x73)", "__byte_perm(sums[0], sums[1], 0x62)"),
    "weights of other rows": (
        "row_place<policy.columns_first>(uint32(span.first + tap - tile.rows.reach - start))",
        "uint32(tap)",
    ),
    "weights in no order of rows": (
        "put(y, row_place<policy.columns_first>(uint32(span.first",
        "put(y, (uint32(span.first",
    ),
    "weights that are not cleared": ("store(row + byte, Vector<uint32, 4>{});", ""),
    "windows that begin a product too early": (
        "(found.reach(low, high) * Count - first_byte) & ~15",
        "(found.reach(low, high) * Count - first_byte) & ~31",
    ),
    "windows of the first pixel's reach alone": ("smaller(spans[low].first, spans[high].first)", "spans[low].first"),
    "rows that begin at words": ("(uint32(tile.first) + (row + warp) * uint32(tile.step)) % 4 * 8", "0"),
    "rows that all begin alike": (
        "(uint32(tile.first) + (row + warp) * uint32(tile.step)) % 4 * 8",
        "uint32(tile.first) % 4 * 8",
    ),
    "no other lane's word before it is shifted": ("                __syncwarp();\n#pragma unroll", "#pragma unroll"),
    "vectors beyond the memory": ("other + ((tile.bytes + 15) & ~15u) + 4 <= tile.high", "true"),
    "words beyond the memory": ("from >= tile.low && from + 4 <= tile.high", "true"),
    "bytes beyond the memory": ("if (from + i < tile.low || from + i >= tile.high) continue;", ""),
    "rows behind those of whole words left out": ("number += (end - number + warps - 1) / warps * warps;", "break;"),
    "rows at the memory's ends left out": ("if (begin == row && end == stop) return;", "return;"),
    "bytes at the memory's ends left out": (
        "for (uint32 i = 0; i < 4; ++i) {\n                if (from +",
        "for (uint32 i = 0; i < 0; ++i) {\n                if (from +",
    ),
    "the second word of a lane left out": ("if (has_other) copy_async", "if (false) copy_async"),
    "columns of the second turn left out": ("byte < limit; byte += 256", "byte < limit && byte < 256; byte += 256"),
    "vectors of the second turn left out": ("byte + more < bytes; more", "byte + more < bytes && !more; more"),
    "a window's second product left out": ("{ multiply(sums, other, 32); }", "{}"),
    "products of longer windows left out": ("k = 32; k < window", "k = 32; false"),
    "a window of rows' second product left out": ("k < down_weights.window; k += 32", "false; k += 32"),
    "taps that do not fit one turn left out": (
        "tap = int32(part); tap < span.count",
        "tap = int32(part); tap < 4 && tap < span.count",
    ),
    "the second half of a tile's rows left out": ("p.tile_height / 32 : 0, beside", "0 : 0, beside"),
    "fill of the target's order": ("p.fill + p.order.source_offset(at.remainder)", "p.fill + at.remainder"),
    "rows first, no barrier behind the weights": (
        "            __syncthreads();\n            down_staged",
        "            down_staged",
    ),
    "rows first, no barrier between the passes": (
        "            __syncthreads();\n            across(tile, 0, p.tile_height);",
        "            across(tile, 0, p.tile_height);",
    ),
    "rows first, the columns of a pair change places": ("0x6420", "0x7531"),
    "rows first, rows in another order": (
        "(row >> 3 & 1u) * 2 + (row & 1u)",
        "(row >> 3 & 1u) + (row & 1u) * 2",
    ),
    "rows first, the second 16 rows by the weights of the first": ("(item & below) * 16", "0"),
    "rows first, every 32 bytes are the first": ("first = (item >> below) * 32", "first = 0"),
    "rows first, bytes behind a row are stored": ("if (word == 1 && other == 0) break;", ""),
    "rows first, four rows that are columns": ("                transpose_bytes(words);\n", ""),
    "rows first, a result that covers weights of the pass across": (
        "? p.memory.between : p.memory.down) + element",
        "? p.memory.between : 0) + element",
    ),
    "rows first, windows of the source's rows": ("? p.memory.stage_pitch : p.memory.between_pitch;", "? 1 : 32 * 8;"),
    "no fill beside an image": ("if (!is_full) {", "if (false) {"),
    "no fill left and right of an image": ("&& columns.count >= int32(width)", ""),
}
"""What the kernel has, and what is there instead."""

FAULTY = [
    *(dataclasses.replace(KINDS["pixels to pixels"], seed=seed, samples=1, largest=50) for seed in range(6)),
    *(
        dataclasses.replace(KINDS["windows of a ragged batch"], seed=seed, gpu=multiprocessors(KINDS["planes"], 1))
        for seed in range(3)
    ),
    *of_seeds(KINDS["pixels to pixels, blue first"], 4),
    *of_seeds(KINDS["photographs to half"], 4),
    *of_seeds(KINDS["strong downscales"], 3),
    *of_seeds(dataclasses.replace(KINDS["strong downscales"], source_alignment=16), 2),
    *of_seeds(KINDS["planes"], 2),
    *of_seeds(KINDS["rows of words"], 2),
    *of_seeds(KINDS["upscales"], 2),
    *of_seeds(dataclasses.replace(KINDS["upscales"], interpolation="pillow-bilinear"), 2),
]

FAULTY_ROWS_FIRST = [
    *of_seeds(ROWS_FIRST["pixels to pixels, rows first"], 2),
    *of_seeds(ROWS_FIRST["photographs to half, rows first"], 2),
    *(
        dataclasses.replace(
            ROWS_FIRST["pixels to pixels, rows first"], seed=seed, size=(40, 96), largest=60, source_alignment=16
        )
        for seed in range(8)
    ),
]


@emulated
@pytest.mark.faults
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_kernel_is_caught(fault):
    cases = FAULTY_ROWS_FIRST if fault.startswith("rows first") else FAULTY
    check_fault_is_caught("resize_products.cu", FAULTS[fault], cases)


def check_machine_code(cases: list[Case], architecture: str) -> None:
    """Nothing spilled, and the widths of the plans."""
    large = by_products([dataclasses.replace(case, size=(224, 224), samples=1, largest=500) for case in cases])
    names = sorted({case.launches[0].name for case in large})
    made = machine_code.compile_kernels(joined_source("resize_products.cu"), names, architecture)
    for case in large:
        name = case.launches[0].name
        code = made[name]
        assert (code.local_accesses, code.stack_bytes, code.flushing) == (0, 0, []), name
        assert code.copies[128], (name, code.copies)
        store = case.choice.for_taps([sample.taps for sample in case.groups[0]]).store
        assert code.stores[8 * store.nbytes], (name, code.stores)


WITH_TENSOR_CORES = [name for name in machine_code.ARCHITECTURES if name != "sm_75"]


def shared_out(cases: Iterable[Case], architecture: str) -> list[Case]:
    """All cases for the architecture that plans are made for where there is no GPU; the others take turns."""
    if architecture == DEFAULT_ARCHITECTURE:
        return [*cases]
    others = [name for name in WITH_TENSOR_CORES if name != DEFAULT_ARCHITECTURE]
    return [*cases][others.index(architecture) :: len(others)]


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("architecture", WITH_TENSOR_CORES)
def test_the_kernels_compile_without_spills_and_with_the_planned_widths(architecture):
    check_machine_code(shared_out(BOTH_ORDERS.values(), architecture), architecture)


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("architecture", WITH_TENSOR_CORES)
def test_products_are_instructions_of_tensor_cores(architecture):
    kinds = {"photographs to half": (48, 24, 0), "rows of vectors": (32, 19, 0)}
    kinds |= {"photographs to half, rows first": (48, 20, 4), "rows of vectors, rows first": (32, 15, 4)}
    names = {kind: BOTH_ORDERS[kind].launches[0].name for kind in kinds}
    codes = machine_code.disassembled(joined_source("resize_products.cu"), [*names.values()], architecture)
    for kind, name in names.items():
        text = codes[name].text
        counts = tuple(text.count(word) for word in ("IMMA.16832", "LDSM.16.M88", "LDSM.16.MT88"))
        assert counts == kinds[kind], kind


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("architecture", WITH_TENSOR_CORES)
def test_types_stores_and_orders_in_turn_compile_without_spills(architecture):
    """Every number of channels with every type of a target; the rest by chance, of other chances on the next."""
    draw = random.Random(architecture)
    cases = []
    for channels in range(1, 5):
        for target in ("uint8", "int8", "int16", "float16", "bfloat16", "float32"):
            arithmetic = draw.choice(({}, {"scale": 0.5}, {"scale": (0.5,) * channels, "bias": 1.0}))
            order = draw.choice((None, tuple(range(channels))[::-1]))
            orders = {"order": draw.choice(("NCHW", "NHWC")), "passes": draw.choice(("horizontal", "vertical"))}
            cases.append(
                Case(
                    "pillow-bicubic",
                    target=target,
                    arithmetic=arithmetic,
                    channels=order,
                    channel_count=channels,
                    **orders,
                )
            )
    check_machine_code(shared_out(cases, architecture), architecture)


OTHERS = {
    "alpha": Case("pillow-bicubic", channel_count=4, premultiplies=True),
    "16 bits": Case("pillow-lanczos", "uint16", "uint16"),
    "floats": Case("pillow-lanczos", "float32", "float32"),
    "rules of OpenCV": Case("opencv-cubic"),
    "five channels": Case("pillow-bicubic", channel_count=5),
    "targets of eight bytes": Case("pillow-bicubic", target="float64"),
    "sm_75": Case("pillow-bicubic", gpu=KNOWN_GPUS["t4"]),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_resizes_keep_their_kernel(kind):
    assert {launch.sources for launch in OTHERS[kind].launches} == {("resize_tiles.cu",)}


@pytest.mark.parametrize("gpu", ["a100", "orin", "h100", "h200", "b200"])
def test_gpus_with_tensor_cores_and_much_shared_memory_take_products(gpu):
    by_products([dataclasses.replace(case, gpu=KNOWN_GPUS[gpu]) for case in BOTH_ORDERS.values()])


def test_few_blocks_of_small_rows_keep_their_kernel():
    """Two blocks of a multiprocessor with 100 KB wait for little of the source at once."""
    sizes = {name: product_tiles_of(size, "5090") for name, size in {"small": (200, 250), "large": (240, 320)}.items()}
    assert sizes["small"] is None
    assert sizes["large"] is not None


def test_tiles_of_a_block_are_those_of_whole_waves():
    """An H200 holds 528 blocks of the tiles: 3,136 are a wave of six tiles each, and 25,088 are six waves of eight."""
    tiles, limits = product_tiles_of((375, 500), "h200"), ResizeProductsPolicy()
    assert tiles is not None
    assert tiles.resident_blocks == 4
    turns = {count: tiles.turns(count, 132, limits) for count in (1, 528, 529, 3136, 6272, 25088)}
    assert turns == {1: 1, 528: 1, 529: 2, 3136: 6, 6272: 6, 25088: 8}


def product_tiles_of(source: tuple[int, int], gpu: str, interpolation: str = "pillow-bilinear") -> ProductTiles | None:
    box = (0.0, 0.0, *map(float, source))
    rule = INTERPOLATIONS[interpolation]
    taps = window_taps(rule, "horizontal", element_type("uint8"), 3, source, box, (224, 224))
    return product_tiles(
        [taps],
        3,
        has_narrow_weights=rule.has_narrow_weights,
        interleaves=False,
        gpu=KNOWN_GPUS[gpu],
        limits=ResizeProductsPolicy(),
    )


@given(
    source=st.tuples(st.integers(1, 900), st.integers(1, 900)),
    target=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    interpolation=st.sampled_from(FILTERS),
    count=st.integers(1, 4),
    interleaves=st.booleans(),
    kibibytes=st.sampled_from((48, 64, 99, 163, 227)),
    passes=st.sampled_from(("horizontal", "vertical")),
)
def test_tiles_hold_what_they_reach_and_fit(source, target, interpolation, count, interleaves, kibibytes, passes):
    box = (0.0, 0.0, *map(float, source))
    rule = INTERPOLATIONS[interpolation]
    taps = window_taps(rule, passes, element_type("uint8"), count, source, box, target)
    gpu = dataclasses.replace(REFERENCE_GPU, shared_bytes=kibibytes << 10)
    tiles = product_tiles(
        [taps],
        count,
        has_narrow_weights=rule.has_narrow_weights,
        interleaves=interleaves,
        gpu=gpu,
        limits=ResizeProductsPolicy(),
    )
    if tiles is None:
        return
    assert tiles.shared_bytes <= kibibytes << 10
    for axis in (taps.rows, taps.columns):
        zeros = zero_bits(axis) if tiles.sums.pieces == 2 and not axis.copies else 0
        weights = axis.weights >> zeros
        assert ((weights << zeros) == axis.weights).all()
        assert np.abs(weights).max() < 2 ** (8 * tiles.sums.pieces - 1)
        assert tiles.sums.saturates or weights.min() >= 0
    for axis, size, reach in ((taps.rows, tiles.height, tiles.reach[0]), (taps.columns, tiles.width, tiles.reach[1])):
        for first in range(0, axis.count, size):
            part = slice(first, first + size)
            assert (axis.starts[part] + axis.counts[part]).max() - axis.starts[part].min() <= reach
    *places, stage_pitch, between_pitch, chunk_rows, across_steps, down_steps = tiles.memory
    assert places == sorted(places)
    assert all(place % 16 == 0 for place in places)
    assert stage_pitch // 16 % 2 == between_pitch // 16 % 2 == 1
    assert chunk_rows % 32 == 0 or not taps.columns_first
    assert chunk_rows * stage_pitch <= places[-1] - places[-2]
    row_pitch, column_pitch = (stage_pitch, between_pitch) if taps.columns_first else (between_pitch, chunk_rows)
    assert row_pitch >= 32 * across_steps
    assert row_pitch >= tiles.reach[1] * count
    assert column_pitch >= 32 * down_steps
    assert column_pitch >= tiles.reach[0]
    if not taps.columns_first:
        assert chunk_rows >= tiles.reach[0]
        assert tiles.shared_bytes - places[-1] >= tiles.height * row_pitch
        assert places[1] - places[0] >= tiles.width * count * 48
