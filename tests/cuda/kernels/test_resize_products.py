"""Resizes by products of matrices: executed under sanitizers beside the CPU, broken on purpose, compiled, chosen."""

from __future__ import annotations

import dataclasses
import random

import pytest
from harness.emulator import machine_code
from harness.emulator.marks import emulated, inspected
from harness.emulator.runner import EmulationError
from harness.resize_launches import NORMALISED, ResizeCase as Case, check_resizes, program_each
from hypothesis import given, strategies as st

from stridedgpu.devices.cuda.gpu import KNOWN_GPUS, REFERENCE_GPU
from stridedgpu.devices.cuda.policy import ResizeProductsPolicy, policy, using
from stridedgpu.devices.cuda.resize_products import ProductTiles, product_tiles
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
    "windows of a ragged batch": Case(
        "pillow-bicubic", order="NHWC", size=(33, 67), samples=6, largest=200, fractions=True
    ),
}
"""Every number of channels, store, fill and order of channels."""

BY_DEFAULT = ("photographs to half", "pixels to pixels, blue first", "planes", "strong downscales")


def with_tiles(case: Case, *tiles: tuple[int, int, int]) -> Case:
    """The case, planned with these tiles alone."""
    products = ResizeProductsPolicy(tiles=tiles, few=(0, 0))
    with using(dataclasses.replace(policy(), resize=dataclasses.replace(policy().resize, products=products))):
        assert case.choice.limits.products is products
    return case


ANY_TILE = ResizeProductsPolicy().tiles


def of_seeds(case: Case, count: int) -> list[Case]:
    """The same with other images; the last ones have little memory: chunks of 32 rows, and smaller tiles."""
    cases = [with_tiles(dataclasses.replace(case, seed=seed), *ANY_TILE) for seed in range(count)]
    for seed, kibibytes in enumerate((32, 44, 60), count):
        gpu = dataclasses.replace(case.gpu, shared_bytes=kibibytes << 10)
        small = dataclasses.replace(case, seed=seed, size=(20, 44), largest=110, gpu=gpu)
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
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_under_sanitizers(kind):
    check_resizes(by_products(of_seeds(KINDS[kind], 12)))


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
        )
        for seed in range(24)
    ]
    check_resizes(by_products([with_tiles(case, *ANY_TILE) for case in cases]), programs=program_each)


@emulated
@pytest.mark.slow
def test_every_tile_has_the_same_bytes():
    cases = [
        with_tiles(dataclasses.replace(KINDS[kind], size=(40, 100), largest=60), tiles)
        for kind in ("photographs to half", "planes")
        for tiles in ANY_TILE
    ]
    check_resizes(by_products(cases))


FAULTS = {
    "no barrier behind the cleared weights": ("        __syncthreads();\n        along.each", "        along.each"),
    "no barrier behind the rows": (
        "            __syncthreads();\n            across(row, some);",
        "across(row, some);",
    ),
    "no barrier between chunks": ("if (row > 0) __syncthreads();", ""),
    "no barrier between the passes": ("    __syncthreads();\n\n    Target*", "    Target*"),
    "half a level less": ("{{1 << 21, 1 << 21, 1 << 21, 1 << 21}}", "{{}}"),
    "no sign across": ("multiply_add_u8_s8(sums[half].piece[2]", "multiply_add_u8_u8(sums[half].piece[2]"),
    "no sign down": ("multiply_add_s8_u8(sums[i].piece[2]", "multiply_add_u8_u8(sums[i].piece[2]"),
    "the highest byte too low": ("(uint32(piece[2][i]) << 8)", "(uint32(piece[2][i]) << 7)"),
    "weights of other rows": ("put(y, between_place(uint32(row", "put(y, (uint32(row"),
    "windows that begin a product too early": (
        "(pixel * Count - first_byte()) & ~15",
        "(pixel * Count - first_byte()) & ~31",
    ),
    "windows of the first pixel's reach alone": ("smaller(ends.one, ends.other)", "ends.one"),
    "rows that begin at words": ("uint32(address(row + number)) % 4 * 8", "0"),
    "vectors beyond the memory": ("high + vectors * 16 + 4 <= end", "true"),
    "bytes beyond the memory": ("from + byte >= begin && from + byte < end", "true"),
    "taps that are not loaded at once left out": ("if (taps <= loads * lanes && count <= pixels) return;", "return;"),
    "pixels of the second turn left out": ("i < count; i += pixels, tap = lane", "i < pixels; i += pixels, tap = lane"),
    "a window's second product left out": ("k < down_weights.window; k += 32", "false; k += 32"),
    "the second half of a tile's rows left out": ("p.tile_height / 32, beside", "0, beside"),
    "fill of the target's order": ("p.fill + p.order.source_offset(at.remainder)", "p.fill + at.remainder"),
    "no fill beside an image": ("!row_inside || uint32(tile.columns.count) < p.tile_width", "!row_inside"),
}
"""What the kernel has, and what is there instead."""

FAULTY = [
    *(dataclasses.replace(KINDS["pixels to pixels"], seed=seed, samples=1, largest=50) for seed in range(6)),
    *of_seeds(KINDS["pixels to pixels, blue first"], 4),
    *of_seeds(KINDS["photographs to half"], 4),
    *of_seeds(KINDS["strong downscales"], 3),
    *of_seeds(KINDS["planes"], 2),
]


@emulated
@pytest.mark.faults
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_kernel_is_caught(fault):
    right, wrong = FAULTS[fault]
    text = joined_source("resize_products.cu")
    assert text.count(right) == 1, f"the kernel no longer has {right!r}"
    with pytest.raises((AssertionError, EmulationError), match=r"(?s)\A(?!g\+\+ refused)"):
        check_resizes(FAULTY, source_of=lambda *_: text.replace(right, wrong))


def check_machine_code(cases: list[Case], architecture: str) -> None:
    """Nothing spilled, and the widths of the plans."""
    large = by_products([dataclasses.replace(case, size=(224, 224), samples=1, largest=500) for case in cases])
    names = sorted({case.launches[0].name for case in large})
    made = machine_code.compile_kernels(joined_source("resize_products.cu"), names, architecture)
    for case in large:
        name = case.launches[0].name
        code = made[name]
        assert (code.local_accesses, code.stack_bytes, code.flushing) == (0, 0, []), name
        assert code.loads[128], (name, code.loads)
        store = case.choice.for_taps([sample.taps for sample in case.groups[0]]).store
        assert code.stores[8 * store.nbytes], (name, code.stores)


WITH_TENSOR_CORES = [name for name in machine_code.ARCHITECTURES if name != "sm_75"]


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("architecture", WITH_TENSOR_CORES)
def test_the_kernels_compile_without_spills_and_with_the_planned_widths(architecture):
    check_machine_code([*KINDS.values()], architecture)


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("architecture", WITH_TENSOR_CORES)
def test_products_are_instructions_of_tensor_cores(architecture):
    name = KINDS["photographs to half"].launches[0].name
    text = machine_code.disassembled(joined_source("resize_products.cu"), [name], architecture)[name].text
    assert text.count("IMMA.16832") == 36
    assert text.count("LDSM.16.M") == 18


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
            orders = {"order": draw.choice(("NCHW", "NHWC"))}
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
    check_machine_code(cases, architecture)


OTHERS = {
    "rows first": Case("pillow-bicubic", passes="vertical"),
    "alpha": Case("pillow-bicubic", channel_count=4, premultiplies=True),
    "16 bits": Case("pillow-lanczos", "uint16", "uint16"),
    "floats": Case("pillow-lanczos", "float32", "float32"),
    "rules of OpenCV": Case("opencv-linear"),
    "five channels": Case("pillow-bicubic", channel_count=5),
    "targets of eight bytes": Case("pillow-bicubic", target="float64"),
    "sm_75": Case("pillow-bicubic", gpu=KNOWN_GPUS["t4"]),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_resizes_keep_their_kernel(kind):
    assert {launch.sources for launch in OTHERS[kind].launches} == {("resize_tiles.cu",)}


@pytest.mark.parametrize("gpu", ["a100", "orin", "h100", "h200", "b200"])
def test_gpus_with_tensor_cores_and_much_shared_memory_take_products(gpu):
    by_products([dataclasses.replace(case, gpu=KNOWN_GPUS[gpu]) for case in KINDS.values()])


def test_few_blocks_of_small_rows_keep_their_kernel():
    """By the model, 320 x 240 to 224 x 224 is slower by products where a multiprocessor has 100 KB."""
    sizes = {name: product_tiles_of(size, "5090") for name, size in {"small": (240, 320), "large": (375, 500)}.items()}
    assert sizes["small"] is None
    assert sizes["large"] is not None


def product_tiles_of(source: tuple[int, int], gpu: str) -> ProductTiles | None:
    box = (0.0, 0.0, *map(float, source))
    taps = window_taps(
        INTERPOLATIONS["pillow-bilinear"], "horizontal", element_type("uint8"), 3, source, box, (224, 224)
    )
    return product_tiles([taps], 3, interleaves=False, gpu=KNOWN_GPUS[gpu], limits=ResizeProductsPolicy())


@given(
    source=st.tuples(st.integers(1, 900), st.integers(1, 900)),
    target=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    interpolation=st.sampled_from(FILTERS),
    count=st.integers(1, 4),
    interleaves=st.booleans(),
    kibibytes=st.sampled_from((48, 64, 99, 163, 227)),
)
def test_tiles_hold_what_they_reach_and_fit(source, target, interpolation, count, interleaves, kibibytes):
    box = (0.0, 0.0, *map(float, source))
    taps = window_taps(INTERPOLATIONS[interpolation], "horizontal", element_type("uint8"), count, source, box, target)
    gpu = dataclasses.replace(REFERENCE_GPU, shared_bytes=kibibytes << 10)
    tiles = product_tiles([taps], count, interleaves=interleaves, gpu=gpu, limits=ResizeProductsPolicy())
    if tiles is None:
        return
    assert tiles.shared_bytes <= kibibytes << 10
    for axis, size, reach in ((taps.rows, tiles.height, tiles.reach[0]), (taps.columns, tiles.width, tiles.reach[1])):
        for first in range(0, axis.count, size):
            part = slice(first, first + size)
            assert (axis.starts[part] + axis.counts[part]).max() - axis.starts[part].min() <= reach
    *places, stage_pitch, between_pitch, chunk_rows, across_steps, down_steps = tiles.memory
    assert places == sorted(places)
    assert all(place % 16 == 0 for place in places)
    assert stage_pitch // 16 % 2 == between_pitch // 16 % 2 == 1
    assert chunk_rows % 32 == 0
    assert chunk_rows * stage_pitch <= places[3] - places[2]
    assert stage_pitch >= 32 * across_steps
    assert between_pitch >= 32 * down_steps
    assert between_pitch >= tiles.reach[0]
