"""Compiled kernels move what the NumPy path moves, to the bit and to the byte, wherever memory ends."""

from __future__ import annotations

import mmap
import tempfile
from contextlib import contextmanager, nullcontext
from itertools import product
from math import prod
from typing import get_args

import numpy as np
import pytest
from harness.compiled_loops import (
    compiled_kernel,
    converted_words,
    needs_compiler,
    ordinary_policy,
    policy_for,
    policy_with,
    run_items,
)
from harness.emulator.exact_conversion import FLOATS, INTEGERS, converted, edge_elements
from harness.fenced_memory import Fenced, lowest_at_zero
from harness.plans import chosen_relayout
from harness.profiles import examples
from harness.strategies import element_types, layouts_of, tensor_sizes
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices.cpu.compiled import relayout as llvm_relayout
from stridedgpu.devices.cpu.compiled.blocks import Blocks, pieces_of
from stridedgpu.devices.cpu.compiled.channels import Channels
from stridedgpu.devices.cpu.compiled.conversion import can_compile
from stridedgpu.devices.cpu.compiled.rows import Rows
from stridedgpu.devices.cpu.compiled.transpose import Transpose
from stridedgpu.devices.cpu.compiled.transpose_strips import TransposeStrips
from stridedgpu.devices.cpu.compiled.unrolled_rows import UnrolledRows
from stridedgpu.devices.cpu.numpy_loops.conversion import convert_block, storage_dtype
from stridedgpu.devices.cpu.numpy_loops.relayout import NumpyRelayout
from stridedgpu.devices.cpu.target import LEVELS
from stridedgpu.values.conversion import Rounding, conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES, element_type
from stridedgpu.values.tensor_spec import TensorSpec

pytestmark = needs_compiler


@pytest.fixture(scope="module", autouse=True)
def measured_thresholds():
    """Which kernel is chosen depends on the processor's caches and make: here it does not."""
    with ordinary_policy():
        yield


seeds = st.integers(0, 2**32 - 1)


def check(source_layout, target_layout, made, channel_axis, seed, words=None, filler=0):
    """Move between fenced memories by a compiled kernel and by NumPy; the kernel, or None where NumPy alone may."""
    source_layout, target_layout = lowest_at_zero(source_layout), lowest_at_zero(target_layout)
    sides = [
        TensorSpec.of(layout, element, base_alignment=element.itemsize)
        for layout, element in ((source_layout, made.source), (target_layout, made.target))
    ]
    plan = chosen_relayout(*sides, made, channel_axis, filler=filler)
    rng = np.random.default_rng(seed)
    source = Fenced(source_layout.span * made.source.itemsize, rng, at_end=seed % 2 == 0)
    if words is not None:
        source.bytes[:] = rng.choice(words, source_layout.span).view(np.uint8)
    target = Fenced((target_layout.span + filler) * made.target.itemsize, rng, at_end=seed % 3 == 0)
    expected = target.bytes.copy()
    if not run_items(plan, source.address, target.address, order=1 if seed % 5 else -1):
        return None
    NumpyRelayout(plan.problem)(source.bytes, expected)
    assert target.bytes.tobytes() == expected.tobytes(), " ".join(plan.in_words())
    return compiled_kernel(plan)[0].kernel


variants = pytest.mark.parametrize(
    "variant", ["cached", "streaming", "16-byte shuffles", "strips", "source order", "pairs of rows"]
)


WITHOUT_BLOCKS = dict.fromkeys(("blocks_bytes", "cached_blocks_bytes", "short_rows_bytes", "long_pixels_bytes"), 0)


@contextmanager
def planned_as(variant):
    """Kernels that prefetch, those that write past the caches, or those of a processor of another make."""
    limits = (
        "streamed_bytes",
        "streamed_tiles_bytes",
        "squares_bytes",
        "small_matrix_bytes",
        "blocks_bytes",
        "cached_blocks_bytes",
        "short_rows_bytes",
        "long_pixels_bytes",
        "streamed_row_bytes",
        "streamed_short_row_bytes",
        "long_row_bytes",
        "long_backward_row_bytes",
        "prefetched_bytes",
        "prefetched_targets_bytes",
    )
    streams = dict.fromkeys(limits, 0)
    changes = {
        "cached": {"prefetched_bytes": 0, "prefetched_targets_bytes": 0},
        "streaming": {**streams, "row_gap_bytes": 1},
        "source order": {"ordered_bytes": 0, "least_rows": 2, **WITHOUT_BLOCKS},
        "pairs of rows": {"paired_row_bytes": 2048, **WITHOUT_BLOCKS},
        "strips": {"strips": True, "least_side": 0, **WITHOUT_BLOCKS, "item_bytes": range(2048, 2049)},
    }.get(variant, {})
    narrow = policy_for(LEVELS["x86-64-v3"] | {"neon"}) if variant == "16-byte shuffles" else nullcontext()
    with narrow, policy_with(relayout=changes):
        yield


long_sizes = st.lists(st.sampled_from((1, 2, 3, 4, 5, 8, 16, 17, 33, 64, 70, 130)), min_size=1, max_size=3).map(tuple)
any_sizes = st.one_of(tensor_sizes(0, 5, least=1, max_size=9), long_sizes)


@variants
@settings(max_examples=examples(250))
@given(st.data(), element_types(), seeds)
def test_bits(variant, data, element, seed):
    sizes = data.draw(any_sizes)
    source, target = data.draw(layouts_of(sizes)), data.draw(layouts_of(sizes, broadcast=False))
    with planned_as(variant):
        assert check(source, target, conversion(element, element), None, seed) is not None


@variants
@settings(max_examples=examples(250))
@given(st.data(), element_types("uif"), element_types("uif"), st.booleans(), seeds)
def test_conversions_on_any_channel_axis(variant, data, source, target, with_table, seed):
    sizes = data.draw(any_sizes.filter(len))
    axis = data.draw(st.integers(0, len(sizes) - 1))
    stored = (*sizes[:axis], data.draw(st.integers(1, 9)), *sizes[axis + 1 :]) if with_table else sizes
    constants = st.none() | st.sampled_from((0.5, -1 / 255, 3e38, float("inf"))).flatmap(
        lambda last: st.sampled_from(([last], [1.5 * n for n in range(sizes[axis] - 1)] + [last]))
    )
    made = conversion(
        source,
        target,
        scale=data.draw(constants),
        bias=data.draw(constants),
        channels=data.draw(st.lists(st.integers(0, stored[axis] - 1), min_size=sizes[axis], max_size=sizes[axis]))
        if with_table
        else None,
        source_channels=stored[axis],
        rounding=data.draw(st.sampled_from(("nearest", "truncate"))),
    )
    layouts = data.draw(layouts_of(stored)), data.draw(layouts_of(sizes, broadcast=False))
    with planned_as(variant):
        kernel = check(*layouts, made, axis, seed, edge_elements(source.name))
    assert (kernel is None) == (not can_compile(made))


@st.composite
def turned_pixels(draw):
    """Pixels whose elements stay together, in rows on one side and in columns, or rows, on the other."""
    sizes = (draw(st.integers(1, 2)), draw(st.integers(1, 70)), draw(st.integers(1, 70)), draw(st.integers(1, 16)))
    sides = []
    for order in (st.permutations(range(3)), st.permutations(range(3))):
        strides, step = [0, 0, 0, 1], sizes[3] + draw(st.sampled_from((0, 0, 0, 1, 3)))
        for axis in reversed(draw(order)):
            strides[axis] = step * draw(st.sampled_from((1, 1, -1)))
            step = step * sizes[axis] + draw(st.sampled_from((0, 0, 5)))
        sides.append(Layout(sizes, strides))
    return sides


@variants
@settings(max_examples=examples(150))
@given(turned_pixels(), st.sampled_from(("uint8", "float16", "float32")), seeds)
def test_turned_pixels(variant, layouts, element, seed):
    with planned_as(variant):
        assert check(*layouts, conversion(element_type(element), element_type(element)), None, seed) is not None


@st.composite
def short_axes(draw):
    """Up to six short axes, one order on either side; some rows have gaps behind them."""
    sizes = tuple(draw(st.lists(st.sampled_from((2, 2, 3, 4, 5, 7, 8, 16, 33)), min_size=2, max_size=6)))
    while prod(sizes) > 20_000:
        sizes = sizes[1:]
    sides = []
    for order in (range(len(sizes)), draw(st.permutations(range(len(sizes))))):
        strides, step = [0] * len(sizes), 1
        for axis in reversed(order):
            strides[axis] = step
            step = step * sizes[axis] + draw(st.sampled_from((0, 0, 0, 0, 3)))
        sides.append(Layout(sizes, strides))
    return sides


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["cached", "16-byte shuffles"])
@settings(max_examples=examples(400))
@given(short_axes(), element_types(), seeds)
def test_short_axes_in_any_order(variant, layouts, element, seed):
    with planned_as(variant):
        assert check(*layouts, conversion(element, element), None, seed) is not None


PATCHES = {
    "planes to pixels, 2 by 2": ((2, 3, 8, 2, 16, 2), (0, 2, 4, 3, 5, 1)),
    "planes to planes, 4 by 4": ((2, 5, 8, 4, 8, 4), (0, 2, 4, 1, 3, 5)),
    "pixels, 2 by 2": ((1, 8, 2, 16, 2, 3), (0, 1, 3, 2, 4, 5)),
    "pixel shuffle": ((2, 4, 2, 2, 9, 11), (0, 1, 4, 2, 5, 3)),
    "nine channels": ((2, 9, 7, 7), (0, 2, 3, 1)),
    "axes of 2": ((2,) * 10, (9, 0, 5, 2, 7, 4, 1, 8, 3, 6)),
}


@pytest.mark.parametrize("element", ["uint8", "float32"])
@pytest.mark.parametrize("sizes, axes", PATCHES.values(), ids=PATCHES)
def test_short_runs_on_both_sides_move_in_blocks(sizes, axes, element):
    source = np.arange(prod(sizes)).reshape(sizes).transpose(axes)
    target = Layout(source.shape, [stride // 8 for stride in np.empty(source.shape, np.int64).strides])
    made = conversion(element_type(element), element_type(element))
    kernel = check(Layout(source.shape, [stride // 8 for stride in source.strides]), target, made, None, seed=1)
    assert type(kernel) is Blocks


@pytest.mark.parametrize("element", ["uint8", "uint16"])
def test_a_picture_that_is_turned_either_way_moves_in_the_same_blocks(element):
    """Clockwise, the other way, along either diagonal: columns that are read backward continue a source run."""
    made, picture = conversion(element_type(element), element_type(element)), np.zeros((40, 50, 3), np.int64)
    kernels = set()
    for rows, columns in ((1, 1), (-1, 1), (1, -1), (-1, -1)):
        turned = picture[::rows, ::columns].transpose(1, 0, 2)
        offset = (39 * 50 * 3 if rows < 0 else 0) + (49 * 3 if columns < 0 else 0)
        source = Layout(turned.shape, [stride // 8 for stride in turned.strides], offset)
        kernels.add(check(source, Layout(turned.shape), made, None, seed=1))
    (kernel,) = kernels
    assert type(kernel) is Blocks


def test_blocks_are_named_and_described():
    source = sg.empty((2, 3, 32, 2, 32, 2), "float32").permute((0, 2, 4, 3, 5, 1))
    with policy_with(promotion={"at_once_bytes": 0}):
        plan = sg.plan_relayout(source, sg.empty(source.sizes, "float32"))
    assert plan.kernel.startswith("blocks_float32x")
    assert "words, permuted in registers" in plan.explain()


@settings(max_examples=examples(100))
@given(st.integers(1, 200), st.sampled_from((2, 4, 16, 64)))
def test_pieces_cover_a_run(count, lanes):
    pieces = pieces_of(count, lanes)
    assert {word for first, size in pieces for word in range(first, first + size)} == set(range(count))
    assert len(pieces) <= -(-count // min(lanes, count)) + 1


@variants
@settings(max_examples=examples(50))
@given(st.data(), st.integers(1, 6), st.integers(1, 8), st.sampled_from(("uint8", "float16", "float32")), seeds)
def test_pixels_that_are_filled_up(variant, data, channels, filler, target, seed):
    pixels, rows = data.draw(st.integers(1, 150)), data.draw(st.integers(1, 3))
    sizes, whole = (rows, pixels, channels), channels + filler
    source = data.draw(layouts_of(sizes))
    wanted = Layout(sizes, (whole * pixels + data.draw(st.sampled_from((0, 0, 7))), whole, 1))
    scale = data.draw(st.sampled_from((None, [0.5], [0.25 * (n + 1) for n in range(channels)])))
    made = conversion(ELEMENT_TYPES["uint8"], ELEMENT_TYPES[target], scale=scale, source_channels=channels)
    with planned_as(variant):
        kernel = check(source, wanted, made, 2, seed, filler=filler)
    assert kernel is None or (type(kernel) is Channels and kernel.target_pixel == whole)
    if pixels >= 4 and whole <= 16 and source.strides == (pixels * channels, channels, 1):
        assert kernel is not None


AFFINE = (
    (None, None),
    (1 / 255, -0.485),
    (2.0**-140, 3 * 2.0**-149),
    (-1.0, 0.0),
    (float("nan"), 1.0),
    (3e38, None),
    (1e300, None),  # infinite where the arithmetic is in float32
)
NUMBERS = (*INTEGERS, *FLOATS)
PAIRS = list(product(NUMBERS, NUMBERS))
CONSTANTS = list(product(AFFINE, ("nearest", "truncate")))


@pytest.mark.parametrize("number", range(len(PAIRS)), ids=[" to ".join(pair) for pair in PAIRS])
def test_conversions_are_the_exact_ones(number):
    """Each pair of types with some of the constants; over all pairs, each of them many times."""
    check_conversions(*PAIRS[number], CONSTANTS[number % 5 :: 5])


@pytest.mark.slow
@pytest.mark.parametrize("source", NUMBERS)
def test_every_conversion_is_the_exact_one(source):
    for target in NUMBERS:
        check_conversions(source, target, CONSTANTS)


def check_conversions(source, target, constants):
    words = edge_elements(source)
    for (scale, bias), rounding in constants:
        made = conversion(element_type(source), element_type(target), scale=scale, bias=bias, rounding=rounding)
        layout = Layout((len(words),))
        plan = chosen_relayout(
            TensorSpec.of(layout, made.source, base_alignment=1),
            TensorSpec.of(layout, made.target, base_alignment=1),
            made,
            None,
        )
        wanted = converted(source, target, words, scale, bias, rounding)
        got = np.zeros_like(wanted)
        assert run_items(plan, words.ctypes.data, got.ctypes.data)
        np.testing.assert_array_equal(got, wanted, f"{source} -> {target}, {scale=}, {bias=}, {rounding}")


@pytest.mark.parametrize("target", ["float16", "bfloat16"])
@pytest.mark.parametrize("source", ["int32", "uint32", "int64", "uint64", "float64"])
def test_casts_to_16_bits_are_rounded_once(source, target):
    check_conversions(source, target, [((None, None), "nearest")])


def test_a_number_two_steps_of_float32_below_a_tie_stays_below_it():
    """Rounded to float32 by round-to-odd it is one step below; the tie would round up, to the even neighbour."""
    words = np.array([0x3F817FFE, 0xBF837FFE], np.uint32).view(np.float32).astype(np.float64) * (1 + 2**-50)
    made = conversion(ELEMENT_TYPES["float64"], ELEMENT_TYPES["bfloat16"])
    assert converted_words(words.view(np.uint64), made).tolist() == [0x3F81, 0xBF83]


NARROW = ("bool", "uint8", "int8", "uint16", "int16", "float16", "bfloat16")


@pytest.mark.parametrize("source", NARROW)
@pytest.mark.parametrize("target", ["bool", *NUMBERS])
def test_every_number_of_a_narrow_type(source, target):
    element = element_type(source)
    words = np.arange(1 << 8 * element.itemsize, dtype=storage_dtype(element, opaque=True))
    for rounding in get_args(Rounding):
        made = conversion(element, element_type(target), rounding=rounding)
        wanted = convert_block(words.view(storage_dtype(element, opaque=False)), made)
        np.testing.assert_array_equal(
            converted_words(words, made), wanted.view(storage_dtype(made.target, opaque=True)), rounding
        )


@pytest.mark.parametrize("source", NUMBERS)
@pytest.mark.parametrize("affine", [(None, None), (2.5, None), (1.0, -3.0)])
def test_truths_of_numbers(source, affine):
    scale, bias = affine
    words = edge_elements(source)
    made = conversion(element_type(source), element_type("bool"), scale=scale, bias=bias)
    constants = [None if value is None else np.array(value, made.compute.name) for value in affine]
    wanted = convert_block(words.view(storage_dtype(made.source, opaque=False)), made, *constants)
    np.testing.assert_array_equal(converted_words(words, made), wanted)


@settings(max_examples=examples(100))
@given(st.sampled_from(("uint32", "int32", "uint64", "int64", "float32", "float64")), element_types("uif"), seeds)
def test_wide_numbers_around_every_power_of_two(source, target, seed):
    rng = np.random.default_rng(seed)
    element = element_type(source)
    words = rng.integers(0, 2 ** (8 * element.itemsize), 2000, storage_dtype(element, opaque=True), endpoint=False)
    kept = rng.integers(0, 8 * element.itemsize, words.shape).astype(words.dtype)
    words = np.concatenate([words, words >> kept, words >> kept << kept])  # short numbers, and round ones
    made = conversion(element, target)
    wanted = convert_block(words.view(storage_dtype(element, opaque=False)), made)
    np.testing.assert_array_equal(converted_words(words, made), wanted.view(storage_dtype(target, opaque=True)))


def test_what_is_compiled_is_what_the_docstring_says():
    numbers = [element for element in ELEMENT_TYPES.values() if element.kind in "buif"]
    assert all(can_compile(conversion(*pair)) for pair in product(numbers, repeat=2))
    assert not can_compile(conversion(ELEMENT_TYPES["complex64"], ELEMENT_TYPES["complex128"]))


def kernel_of(
    sizes, source_strides, target_strides, element="uint8", target=None, channel_axis=None, filler=0, **options
):
    made = conversion(element_type(element), element_type(target or element), **options)
    wanted = Layout(sizes, target_strides)
    return check(Layout(sizes, source_strides), wanted, made, channel_axis, seed=3, filler=filler)


def test_kernels_follow_the_strides():
    nchw, nhwc = (2352, 784, 28, 1), (2352, 1, 84, 3)
    sizes = (2, 3, 28, 28)
    assert type(kernel_of(sizes, nchw, nchw)) is Rows
    assert type(kernel_of(sizes, nhwc, nchw)) is Channels
    assert type(kernel_of(sizes, nchw, nhwc)) is Channels
    assert type(kernel_of(sizes, (2352, 784, 28, -1), nhwc)) is Channels
    assert type(kernel_of((2, 28, 28, 3), (3136, 112, 4, 1), (2352, 84, 3, 1))) is Channels  # BGRX to BGR
    assert type(kernel_of((40, 50), (1, 40), (50, 1))) is Transpose
    assert type(kernel_of((40, 50), (-1, 40), (50, 1), "float32", "uint8")) is Transpose
    assert type(kernel_of((40, 50), (1, 400), (100, 20))) is Rows
    assert type(kernel_of((40, 4), (4, -1), (4, 1), "float32")) is Channels  # RGBA to ABGR
    assert type(kernel_of((40, 16), (16, -1), (16, 1), "float32")) is Rows
    assert type(kernel_of((40, 4), (5, 1), (4, 1), "uint8", "float32")) is Channels
    assert type(kernel_of((40, 8), (9, 1), (8, 1), "uint8", "float32")) is Rows
    # Four bytes that stay together are one element of four bytes.
    assert type(kernel_of((40, 50, 4), (4, 160, 1), (200, 4, 1))) is Transpose


def no_blocks():
    """Kernels as for moves beyond the cache, where short runs are left to the other families."""
    return policy_with(relayout=WITHOUT_BLOCKS)


def transposed(height, width):
    return (height, width), (width, 1), (1, height)


PATCHES_OF_2 = (9, 8, 8, 2, 2, 3), (768, 32, 2, 16, 1, 256), (768, 96, 12, 6, 3, 1)
TILES = {"squares_bytes": 0, "small_matrix_bytes": 0}

LIMITS_OF_BLOCKS = {
    "short rows": ("short_rows_bytes", ((64, 14, 2, 32), (896, 32, 448, 1), (896, 64, 32, 1)), "uint8", Rows, {}),
    "many channels": ("cached_blocks_bytes", ((9, 5000), (1, 9), (5000, 1)), "uint8", Channels, {}),
    "many channels past the caches": (
        "long_pixels_bytes",
        ((9, 4992), (1, 9), (4992, 1)),
        "uint8",
        Channels,
        {"streamed_bytes": 0, "long_row_bytes": 0},
    ),
    "single elements": ("cached_blocks_bytes", PATCHES_OF_2, "uint8", Rows, {}),
    "4 pixels": ("cached_blocks_bytes", ((900, 3, 4), (12, 4, 1), (12, 1, 3)), "uint8", Channels, {}),
    "8 pixels": ("blocks_bytes", ((900, 3, 8), (24, 8, 1), (24, 1, 3)), "uint8", Channels, {}),
    "a side of 128 bytes": ("cached_blocks_bytes", transposed(900, 64), "float16", Transpose, TILES),
    "a side of 130 bytes": ("blocks_bytes", transposed(900, 65), "float16", Transpose, TILES),
    "a side of 65 bytes": ("blocks_bytes", transposed(900, 65), "uint8", Transpose, TILES),
    "strips of 15": ("cached_blocks_bytes", transposed(900, 15), "float16", TransposeStrips, {"strips": True}),
    "strips of 16": ("blocks_bytes", transposed(900, 16), "float16", TransposeStrips, {"strips": True}),
    "strips of 17": (
        "blocks_bytes",
        transposed(900, 17),
        "float16",
        TransposeStrips,
        {"strips": True, "wide_strip": 18},
    ),
    "strips of 17 bytes": ("cached_blocks_bytes", transposed(900, 17), "uint8", TransposeStrips, {"strips": True}),
}


def test_wide_strips_are_never_blocks():
    with policy_with(relayout={"strips": True}):
        for height, width, element in ((900, 17, "float16"), (912, 16, "float32"), (912, 16, "float64")):
            assert type(kernel_of(*transposed(height, width), element)) is TransposeStrips
        for height, width, element in ((896, 16, "float16"), (900, 16, "float32"), (912, 15, "float32")):
            assert type(kernel_of(*transposed(height, width), element)) is Blocks


@pytest.mark.parametrize("case", LIMITS_OF_BLOCKS)
def test_blocks_take_the_place_of_each_kernel_below_a_limit(case):
    field, moved, element, other, changes = LIMITS_OF_BLOCKS[case]
    nbytes = 2 * prod(moved[0]) * ELEMENT_TYPES[element].itemsize
    for limit, kernel in ((nbytes + 1, Blocks), (nbytes, other)):
        with policy_with(relayout=changes | WITHOUT_BLOCKS | {field: limit}):
            assert type(kernel_of(*moved, element)) is kernel


@pytest.mark.parametrize("row", [64, 100, 512, 600])
@pytest.mark.parametrize("heads", [8, 9, 12])
@pytest.mark.parametrize("order", ["heads inside", "heads outside"])
def test_rows_beside_one_another_are_moved_in_pairs(row, heads, order):
    sizes, length = (3, 20, heads, row), 20
    image = length * heads * row
    inside, outside = (image, heads * row, row, 1), (image, row, length * row, 1)
    strides = (inside, outside) if order == "heads inside" else (outside, inside)
    with policy_with(relayout={"paired_row_bytes": 512}):
        kernel = kernel_of(sizes, *strides)
    follows = heads if order == "heads inside" else length
    assert type(kernel) is UnrolledRows
    assert kernel.beside == (2 if row <= 512 and follows % 2 == 0 else 1)


def test_repeated_rows_are_read_once():
    sizes, source = (20, 9, 100), (100, 0, 1)
    with policy_with(relayout={"ordered_bytes": 0, "ordered_ways_bytes": 0}):
        made = conversion(ELEMENT_TYPES["uint8"], ELEMENT_TYPES["uint8"])
        sides = [
            TensorSpec.of(Layout(sizes, strides), ELEMENT_TYPES["uint8"], base_alignment=1)
            for strides in (source, (900, 100, 1))
        ]
        rows, _ = llvm_relayout.walk_of(chosen_relayout(*sides, made).problem).inner
    assert (rows.size, rows.source) == (9, 0)


@pytest.mark.parametrize("limits", [{"paired_row_bytes": 512}, {"ordered_bytes": 0, "least_rows": 2}])
def test_chosen_channels_do_not_follow_one_another(limits):
    """Planes whose rows lie beside one another, in an order of channels that is no step."""
    sizes, channels = (16, 10, 100), (5, 3, 2, 6, 7, 4, 8, 1, 0, 9)
    with policy_with(relayout=limits):
        kernel_of(sizes, (1024, 100, 1), (100, 1600, 1), channel_axis=1, channels=channels, source_channels=10)


@pytest.mark.parametrize(
    "heads, length, limits, source_order",
    [
        (8, 100, {"ordered_bytes": 0}, True),
        (8, 100, {"ordered_bytes": 1 << 62, "ordered_ways_bytes": 0}, False),
        (16, 100, {"ordered_bytes": 1 << 62, "ordered_ways_bytes": 0}, True),
        (16, 128, {"ordered_bytes": 1 << 62, "ordered_ways_bytes": 0}, False),
        (7, 100, {"ordered_bytes": 0}, False),
    ],
    ids=["beyond the cache", "within it", "rows 4 KB apart", "rows 4 KB apart on both sides", "few rows"],
)
def test_rows_are_moved_in_the_order_of_the_source(heads, length, limits, source_order):
    row, image = 64, heads * length * 64
    source = Layout((2, length, heads, row), (image, heads * row, row, 1))
    target = Layout((2, length, heads, row), (image, row, length * row, 1))
    with policy_with(relayout=limits | {"least_rows": 8}):
        sides = [TensorSpec.of(layout, ELEMENT_TYPES["float32"], base_alignment=64) for layout in (source, target)]
        made = conversion(ELEMENT_TYPES["float32"], ELEMENT_TYPES["float32"])
        rows, _ = llvm_relayout.walk_of(chosen_relayout(*sides, made).problem).inner
        for streams in ({}, {"streamed_bytes": 0, "streamed_short_row_bytes": 64}):
            for to in ("float32", "float16"):
                with policy_with(relayout=streams):
                    check(source, target, conversion(ELEMENT_TYPES["float32"], ELEMENT_TYPES[to]), None, seed=3)
    assert rows.size == (heads if source_order else length)


@pytest.mark.parametrize(
    "size, rows", [(17, 16), (33, 16), (64, 64), (72, 16), (100, 16), (128, 128), (150, 32), (300, 64), (600, 128)]
)
def test_tiles_overlap_little(size, rows):
    with policy_with(relayout={"squares_bytes": 0, "small_matrix_bytes": 0, **WITHOUT_BLOCKS}):
        kernel = kernel_of((2, size, 40), (size * 40, 40, 1), (size * 41 + 1, 1, size), "float32")
    assert (type(kernel), kernel.rows) == (Transpose, rows)


@pytest.mark.parametrize("element", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("height, width", [(16, 16), (17, 40), (300, 21)])
def test_small_transposes_are_squares_in_registers(element, height, width):
    with no_blocks():
        kernel = kernel_of((height, width), (width, 1), (1, height), element)
    assert kernel.in_registers
    assert kernel.rows == kernel.columns


@pytest.mark.parametrize("element", ["uint8", "uint16", "float32", "float64"])
@pytest.mark.parametrize("height, width", [(28, 300), (47, 129), (64, 32), (100, 130), (65, 1000), (300, 33)])
def test_strips_of_long_lines(element, height, width):
    """Strips and steps that are moved back to the ends, and items that cut the lines."""
    number = element_type(element)
    height = max(height, 64 // number.itemsize)
    layouts = Layout((width, height), (1, width)), Layout((width, height))
    for item_bytes in (512, 4096, 1 << 20):
        with policy_with(relayout={"strips": True, "item_bytes": range(item_bytes, item_bytes + 1)}):
            kernel = check(*layouts, conversion(number, number), None, height + item_bytes)
        assert type(kernel) is TransposeStrips
        assert (kernel.rows, kernel.columns) == (64 // number.itemsize, 16 // number.itemsize)


@pytest.mark.parametrize(
    "height, width, source, target",
    [
        (27, 400, "float32", "float32"),
        (31, 400, "float16", "float16"),
        (63, 400, "uint8", "uint8"),
        (401, 16, "float32", "float32"),
        (400, 400, "float32", "float64"),
    ],
)
def test_short_lines_and_conversions_are_no_strips(height, width, source, target):
    with policy_with(relayout={"strips": True}):
        kernel = kernel_of((height, width), (width, 1), (1, height), source, target)
    assert type(kernel) is not TransposeStrips


@pytest.mark.parametrize(
    "height, element, columns", [(65, "float32", 128), (64, "float32", 1000), (65, "uint16", 1000)], ids=str
)
def test_strips_go_on_soon_where_they_share_cache_lines(height, element, columns):
    number, sizes = element_type(element), (height, 1000)
    sides = (TensorSpec.of(Layout(sizes, strides), number, base_alignment=4) for strides in ((1000, 1), (1, height)))
    problem = chosen_relayout(*sides, conversion(number, number), None).problem
    with policy_with(relayout={"strips": True, "item_bytes": range(1 << 20, 2 << 20), "shared_items": 1}):
        assert llvm_relayout.walk_of(problem).blocks == (columns, height)
        with policy_with(relayout={"short_strips_bytes": problem.bytes_moved}):
            assert llvm_relayout.walk_of(problem).blocks == (1000, height)


@pytest.mark.parametrize("height, kernel", [(400, Transpose), (401, TransposeStrips)], ids=["aligned", "unaligned"])
def test_strips_take_large_moves_where_lines_are_not_aligned(height, kernel):
    with policy_with(relayout={"strips": True, **TILES, "streamed_tiles_bytes": 0, **WITHOUT_BLOCKS}):
        assert type(kernel_of((height, 400), (400, 1), (1, height), "float32")) is kernel


@pytest.mark.parametrize(
    "element, pitch, kernel",
    [
        ("uint8", 2048, Transpose),
        ("uint8", 4096, Transpose),
        ("uint8", 1024, TransposeStrips),
        ("uint8", 2112, TransposeStrips),
        ("uint16", 2048, Transpose),
        ("uint16", 1024, TransposeStrips),
        ("float32", 1024, TransposeStrips),
    ],
)
def test_strips_leave_large_moves_whose_lines_exclude_each_other(element, pitch, kernel):
    """Source lines of 2 KB of bytes, or of 4 KB of 2 bytes: powers of two."""
    limits = {"strips": True, "streamed_tiles_bytes": 1 << 40, "streamed_crowds_bytes": 0, **WITHOUT_BLOCKS}
    with policy_with(relayout=limits):
        assert type(kernel_of((128, 192), (pitch, 1), (1, 128), element)) is kernel


@pytest.mark.parametrize("target, in_registers", [("float32", True), ("uint16", False)])
@pytest.mark.parametrize("axis", [0, 1])
def test_constants_of_either_axis_in_tiles(target, in_registers, axis):
    sizes = (90, 70)
    constants = [0.5 * number for number in range(sizes[axis])]
    options = {"channel_axis": axis, "scale": constants, "bias": constants, "source_channels": sizes[axis]}
    with no_blocks():
        kernel = kernel_of(sizes, (1, 90), (70, 1), "uint8", target, **options)
    assert (type(kernel), kernel.in_registers) == (Transpose, in_registers)


@pytest.mark.parametrize(
    "source_strides, target_strides, types, elements",
    [
        ((300, 1), (300, 1), ("uint8", "float32"), lambda kernel: (kernel.lanes, kernel.lanes)),
        ((300, 0), (300, 1), ("uint8", "float32"), lambda kernel: (1, kernel.lanes)),
        ((3000, 11), (300, 1), ("uint8", "float32"), lambda kernel: (1, kernel.lanes)),
        ((3000, 1), (6000, 9), ("float32", "uint8"), lambda kernel: (kernel.lanes, 1)),
        ((1, 400), (300, 1), ("float32", "uint8"), lambda kernel: (kernel.columns, kernel.rows)),
        ((1, 400), (300, 1), ("uint8", "float32"), lambda kernel: (kernel.columns, kernel.rows)),
    ],
    ids=["rows", "repeated", "read apart", "written apart", "narrower tiles", "wider tiles"],
)
def test_accesses_are_as_wide_as_a_step(source_strides, target_strides, types, elements):
    made = conversion(*map(element_type, types))
    layouts = Layout((40, 300), source_strides), Layout((40, 300), target_strides)
    sides = [
        TensorSpec.of(layout, element, base_alignment=element.itemsize)
        for layout, element in zip(layouts, (made.source, made.target), strict=True)
    ]
    walk, _ = compiled_kernel(chosen_relayout(*sides, made))
    read, written = (width.nbytes for width in walk.accesses)
    assert (read // made.source.itemsize, written // made.target.itemsize) == elements(walk.kernel)


@pytest.mark.parametrize("element, nbytes", [("uint8", 3), ("float16", 6), ("float32", 12)])
def test_pixels_of_odd_sizes_are_transposed_whole(element, nbytes):
    with no_blocks():
        kernel = kernel_of((40, 50, 3), (3, 120, 1), (150, 3, 1), element)
        few = kernel_of((40, 1, 3), (3, 120, 1), (150, 3, 1), element)
    assert type(kernel) is Transpose
    assert kernel.elements.itemsize == nbytes
    assert type(few) is not Transpose, "too few of them for a tile move as rows"


@pytest.mark.parametrize("nbytes", [9, 11, 13, 15])
@pytest.mark.parametrize("narrow", [4, 7])
def test_few_long_pixels_are_transposed_in_vectors_narrower_than_they(nbytes, narrow):
    strides = (nbytes, 40 * nbytes, 1), (narrow * nbytes, nbytes, 1)
    with no_blocks():
        assert type(kernel_of((40, narrow, nbytes), *strides)) is Transpose


@pytest.mark.parametrize("step", [2, 3, -2, 8])
def test_every_other_element_is_shuffled_out_of_whole_vectors(step):
    kernel = kernel_of((5, 100), (1000, step), (100, 1))
    assert (type(kernel), kernel.order, kernel.source_pixel) == (Channels, (0,), abs(step))
    kernel = kernel_of((5, 100), (100, 1), (1000, abs(step)))
    assert (type(kernel), kernel.order, kernel.target_pixel) == (Channels, (0,), abs(step))
    assert type(kernel_of((5, 100), (2000, 9), (100, 1))) is Rows
    # The same from planes into pixels.
    kernel = kernel_of((5, 100, 3), (1000, step, 6000), (300, 3, 1))
    assert type(kernel) is (Channels if abs(step) <= 4 else Rows)
    assert abs(step) > 4 or (kernel.planar and kernel.source_pixel == abs(step))


@st.composite
def rows_apart(draw):
    """Two layouts whose innermost loop is neither side's, or steps over elements, often a power of two."""
    sizes = draw(st.permutations((draw(st.integers(2, 9)), draw(st.integers(9, 40)), draw(st.integers(250, 600)))))
    layouts = []
    for _ in range(2):
        strides, step = [0] * 3, draw(st.integers(2, 5))
        for axis in draw(st.permutations(range(3))):
            strides[axis] = step
            step *= sizes[axis]
            step = 1 << step.bit_length() if step < 2**15 and draw(st.booleans()) else step + draw(st.integers(0, 9))
        layouts.append(Layout(tuple(sizes), tuple(strides)))
    return layouts


@settings(max_examples=examples(60))
@given(rows_apart(), st.sampled_from(("uint8", "float16", "float32", "float64")), st.booleans(), seeds)
def test_rows_whose_elements_lie_apart(layouts, element, converts, seed):
    source, target = layouts
    other = "float32" if converts and element != "float32" else element
    assert check(source, target, conversion(element_type(element), element_type(other)), None, seed) is not None


@pytest.mark.parametrize(
    "sizes, source, target, block",
    [
        ((600, 10, 300), (3, 2000, 20016), (3000, 300, 1), (256, 512)),
        ((600, 64), (2, 1024), (64, 1), (256, 8)),
        ((600, 64), (2, 256), (64, 1), (256, 32)),
        ((600, 4, 200), (1, 600, 2400), (1801, 2, 9), (256, 256)),
    ],
    ids=["the nearest rows", "a page apart", "a quarter of a page apart", "short runs"],
)
def test_tiles_of_rows_whose_elements_lie_apart(sizes, source, target, block):
    element = element_type("float32")
    sides = (TensorSpec.of(Layout(sizes, strides), element, base_alignment=64) for strides in (source, target))
    walk = llvm_relayout.walk_of(chosen_relayout(*sides, conversion(element, element), None).problem)
    assert isinstance(walk.kernel, Rows)
    a, b = walk.inner
    assert a.source == 4 * min(source), "the rows beside each other in the source"
    assert walk.blocks == (min(block[0], a.size), min(block[1], b.size))


def test_one_pixel_repeated_and_long_pixels_of_planes_with_steps():
    repeated = kernel_of((5, 100, 3), (3, 0, 1), (300, 3, 1))
    assert (type(repeated), repeated.source_pixel, repeated.target_pixel) == (Channels, 0, 3)
    # Sixteen planes are transposed, unless their elements lie apart.
    with no_blocks():
        assert type(kernel_of((5, 100, 16), (100, 1, 500), (1600, 16, 1))) is Transpose
    stepped = kernel_of((5, 100, 16), (300, 3, 1500), (1600, 16, 1))
    assert (type(stepped), stepped.planar, stepped.source_pixel) == (Channels, True, 3)


def test_pixels_are_filled_up_on_the_way_and_gaps_are_left():
    sizes, packed, wider = (2, 40, 3), (120, 3, 1), (160, 4, 1)
    filled = kernel_of(sizes, packed, wider, channel_axis=2, filler=1)
    assert (filled.target_pixel, filled.fills) == (4, True)
    left = kernel_of(sizes, packed, wider)
    assert (left.target_pixel, left.fills) == (4, False)
    # More than a pixel in registers holds takes two moves.
    assert kernel_of(sizes, packed, (1280, 32, 1), channel_axis=2, filler=29) is None


@pytest.mark.parametrize(
    "sizes, pitch, streams",
    [
        ((4, 256), 256, True),
        ((4, 192), 192, False),
        ((4, 8200), 8201, True),
        ((4, 640), 641, False),
        ((4, 640), 704, True),
        ((4, 650), 704, False),
    ],
    ids=[
        "lines",
        "too few lines",
        "long rows",
        "short rows that begin anywhere",
        "short rows of lines",
        "short rows that end anywhere",
    ],
)
def test_what_is_written_past_the_caches(sizes, pitch, streams):
    with policy_with(relayout={"streamed_bytes": 0}):
        assert kernel_of(sizes, (sizes[1] + 3, 1), (pitch, 1)).streaming == streams
        assert not kernel_of(sizes, (1, 0), (pitch, 1)).streaming, "one element a row: nothing is read"
        assert kernel_of((4, 2100), (2103, 1), (2101, 1), "float32").streaming, "long rows of fewer elements"


def test_rows_are_prefetched_where_they_lie_far_apart_or_are_written_soon():
    def ahead(sizes, source, target, conversion="uint8"):
        kernel = kernel_of(sizes, source, target, conversion)
        return kernel.reads_ahead, kernel.writes_ahead

    sizes, window, packed = (4, 2560), (4000, 1), (2560, 1)
    assert ahead(sizes, window, packed) == (False, False), "so few bytes are in a core's cache"
    with policy_with(relayout={"prefetched_bytes": 0, "prefetched_targets_bytes": 0}):
        assert ahead(sizes, window, packed) == (False, True)
        assert ahead(sizes, (8000, 2), packed) == (False, True), "every other element"
        assert ahead(sizes, window, (4000, 1)) == (False, False), "the lines behind a row are not written"
    with policy_with(relayout={"prefetched_bytes": 0, "prefetched_targets_bytes": 0, "streamed_bytes": 0}):
        assert ahead(sizes, window, packed) == (True, False)
        assert ahead(sizes, (2700, 1), packed) == (False, False), "the gap is short"


@pytest.mark.parametrize("nbytes", [63, 64, 65, 127, 128, 1000, 2048, 2049])
@pytest.mark.parametrize("element", ["uint8", "float32", "complex128"])
def test_rows_of_some_lines_are_unrolled(nbytes, element):
    itemsize = np.dtype(element).itemsize
    size = -(-nbytes // itemsize)
    kernel = kernel_of((5, size), (size + 3, 1), (size, 1), element)
    lines = -(-size * itemsize // 64)
    if 64 <= size * itemsize <= 2048:
        assert (type(kernel).__name__, kernel.lines) == ("UnrolledRows", lines)
    else:
        assert type(kernel).__name__ != "UnrolledRows"


@pytest.mark.parametrize("item_bytes, items", [(1, 10), (600, 5), (2000, 2)])
def test_items_of_unrolled_rows_have_whole_rows(item_bytes, items):
    sizes, source, target = (2, 5, 150), (800, 160, 1), (750, 150, 1)
    with policy_with(relayout={"item_bytes": range(item_bytes, item_bytes + 1)}):
        assert type(kernel_of(sizes, source, target)).__name__ == "UnrolledRows"
        byte = element_type("uint8")
        specs = [TensorSpec.of(Layout(sizes, strides), byte, base_alignment=1) for strides in (source, target)]
        assert compiled_kernel(chosen_relayout(*specs, conversion(byte, byte), None))[0].items == items


@pytest.mark.parametrize(
    "sizes, rows",
    [((30, 14, 2, 128), 14), ((30, 4, 2, 128), 2), ((30, 5, 2, 128), 5), ((30, 16, 7, 128), 16), ((30, 40, 8, 128), 8)],
    ids=str,
)
def test_an_item_has_rows_of_a_loop_that_is_not_short(sizes, rows):
    """The innermost loop but the row, or the next one if that is much longer."""
    _, across, down, row = sizes
    strides = (across * down * row, row, across * row, 1)
    byte = element_type("uint8")
    specs = [TensorSpec.of(Layout(sizes, steps), byte, base_alignment=1) for steps in (strides, None)]
    walk = llvm_relayout.walk_of(chosen_relayout(*specs, conversion(byte, byte), None).problem)
    assert [loop.size for loop in walk.inner] == [rows, row]


@pytest.mark.parametrize("follow, least", [(True, 128), (False, 256)], ids=["one after another", "apart"])
def test_rows_that_follow_one_another_are_streamed_when_shorter(follow, least):
    limits = {"streamed_bytes": 0, "streamed_short_row_bytes": 128, "streamed_row_bytes": 256}
    for row in (64, 128, 192, 256):
        with policy_with(relayout=WITHOUT_BLOCKS | limits):
            kernel = kernel_of((32, row), (row if follow else 3 * row, 1), (2 * row, 1))
        assert kernel.streaming == (row >= least)


@pytest.mark.parametrize("small_bytes, in_registers", [(2 * 49 * 64 * 4 + 1, True), (2 * 49 * 64 * 4, False)])
def test_many_small_matrices_are_transposed_in_registers(small_bytes, in_registers):
    sizes, rows, columns = (70, 49, 64), (49 * 64, 64, 1), (49 * 64, 1, 49)
    with policy_with(relayout={"squares_bytes": 0, **WITHOUT_BLOCKS, "small_matrix_bytes": small_bytes}):
        assert kernel_of(sizes, rows, columns, "float32").in_registers == in_registers


@variants
@pytest.mark.parametrize("misaligned", [0, 16, 32, 1, 3])
@pytest.mark.parametrize("element", ["uint8", "float16", "float32"])
def test_streaming_into_memory_at_any_alignment(variant, element, misaligned):
    rng = np.random.default_rng(misaligned)
    for order, sizes in product(("NCHW", "NHWC"), ((1, 3, 33, 41), (2, 64, 16, 24), (1, 1, 61, 97))):
        other = "NHWC" if order == "NCHW" else "NCHW"
        source = sg.empty(sizes, element, layout=other)
        source.buffer.bytes[:] = rng.integers(0, 256, source.buffer.nbytes, np.uint8)
        memory = np.zeros(source.nbytes + 256, np.uint8)
        start = -memory.ctypes.data % 64 + misaligned * source.itemsize
        out = sg.StridedTensor(memory[start:], Layout.padded(sizes, order), element, dims="NCHW")
        plan = sg.plan_relayout(source, out).plan
        expected = memory.copy()
        NumpyRelayout(plan.problem)(source.buffer.bytes, expected[start:])
        with planned_as(variant):
            assert run_items(plan, source.buffer.address, out.buffer.address)
        assert memory.tobytes() == expected.tobytes()


def test_offsets_beyond_32_bits():
    # A sparse file: only the pages of the elements exist.
    far = 3 * 2**30
    with tempfile.TemporaryFile() as file:
        file.truncate(far + 2 * mmap.PAGESIZE)
        memory = mmap.mmap(file.fileno(), far + 2 * mmap.PAGESIZE)
        source = sg.StridedTensor(memory, Layout((2, 40, 3), (far, 3, 1)), "uint8")
        for row in (0, 1):
            memory[row * far : row * far + 120] = bytes(range(row, 120 + row))
        out = sg.empty((2, 40, 3), "uint8")
        plan = sg.plan_relayout(source, out)
        assert plan.index_bits == 64
        assert run_items(plan.plan, source.buffer.address, out.buffer.address)
        assert out.numpy().ravel().tolist() == [*range(120), *range(1, 121)]
        del source, plan
