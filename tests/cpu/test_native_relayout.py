"""Native kernels move what the NumPy path moves, to the bit and to the byte, wherever memory ends."""

from __future__ import annotations

import mmap
import tempfile
from contextlib import contextmanager
from itertools import product
from math import prod
from typing import get_args

import numpy as np
import pytest
from harness.cpu_paths import picking_by
from harness.emulator.exact_conversion import FLOATS, INTEGERS, converted, edge_elements
from harness.native_loops import (
    converted_words,
    each_class,
    needs_library,
    ordinary_policy,
    policy_for,
    policy_with,
    run_items,
)
from harness.plans import chosen_relayout
from harness.profiles import examples
from harness.relayout_moves import moved_kernel
from harness.strategies import element_types, layouts_of, tensor_sizes
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices.cpu.native import relayout
from stridedgpu.devices.cpu.native.channels import Channels
from stridedgpu.devices.cpu.native.elements import can_convert
from stridedgpu.devices.cpu.native.short_runs import pieces_of
from stridedgpu.devices.cpu.native.transpose import IN_REGISTERS, Transpose
from stridedgpu.devices.cpu.numpy_loops.conversion import convert_block, storage_dtype
from stridedgpu.devices.cpu.numpy_loops.relayout import NumpyRelayout
from stridedgpu.devices.cpu.target import Target
from stridedgpu.values.conversion import Rounding, conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES, element_type
from stridedgpu.values.tensor_spec import TensorSpec

pytestmark = needs_library


@pytest.fixture(scope="module", autouse=True)
def measured_thresholds():
    """Loops of all instruction sets of this processor, whose thresholds depend neither on its caches nor its cores."""
    with ordinary_policy():
        yield


seeds = st.integers(0, 2**32 - 1)


LIMITS = ("cached", "streaming", "strips", "source order", "without blocks")

variants = pytest.mark.parametrize("variant", [*LIMITS, *each_class.args[1]])


@contextmanager
def planned_as(variant):
    """Kernels of cached stores, of stores past the caches, of another order or family, or of fewer instruction sets."""
    with policy_for(variant.features) if isinstance(variant, Target) else limits_of(variant):
        yield


@contextmanager
def limits_of(variant):
    changes = {
        "streaming": {"streamed_bytes": 0, "long_row_bytes": 0},
        "source order": {"cached_bytes": 0},
        "strips": {"item_bytes": range(2048, 2049)},
    }.get(variant, {})
    with policy_with(relayout=changes), pytest.MonkeyPatch.context() as patch:
        if variant in ("strips", "source order", "without blocks"):
            patch.setattr(relayout, "suits_blocks", lambda *arguments: False)
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
        assert moved_kernel(source, target, conversion(element, element), None, seed) is not None


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
        kernel = moved_kernel(*layouts, made, axis, seed, edge_elements(source.name))
    assert (kernel is None) == (not can_convert(made))


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
        assert moved_kernel(*layouts, conversion(element_type(element), element_type(element)), None, seed) is not None


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
@pytest.mark.parametrize("variant", ["cached", *each_class.args[1]])
@settings(max_examples=examples(400))
@given(short_axes(), element_types(), seeds)
def test_short_axes_in_any_order(variant, layouts, element, seed):
    with planned_as(variant):
        assert moved_kernel(*layouts, conversion(element, element), None, seed) is not None


@pytest.mark.parametrize(
    "sizes, source, target",
    [
        ((3, 20, 13), (1, 3, 64), (660, 33, 1)),
        ((30, 13), (1, 39), (28, 1)),
        ((57, 15, 15), (1, 860, 57), (34, 1, 1952)),
        ((11, 13, 15), (1, 11, 150), (354, 26, 1)),
    ],
)
def test_short_runs_of_bytes_with_gaps(sizes, source, target):
    """Runs of 11, 13 and 15 bytes: their narrow stores have the bytes of shuffles of 64."""
    array = np.random.default_rng(1).integers(0, 256, Layout(sizes, source).span, np.uint8)
    expected = np.lib.stride_tricks.as_strided(array, sizes, source)
    moved = np.lib.stride_tricks.as_strided(np.zeros(Layout(sizes, target).span, np.uint8), sizes, target)
    with picking_by("native, 1 thread"):
        sg.relayout(sg.asarray(expected), out=sg.asarray(moved))
    np.testing.assert_array_equal(moved, expected)


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
        kernel = moved_kernel(source, wanted, made, 2, seed, filler=filler)
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


@each_class
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint16"])
def test_64_bit_integers_are_clamped(processor, target):
    with policy_for(processor.features):
        check_conversions("int64", target, [((None, None), "nearest")])


@each_class
@pytest.mark.parametrize("target", ["int64", "uint64"])
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_small_floats_become_64_bit_integers(processor, source, target):
    """All of a step are below 2**51, or the largest of them is not: ties, signs, and the numbers around the limit."""
    whole = [0, 1, 2, 3, 7, 2047, 2**22 + 1, 2**23 - 1, 2**24 - 1, 2**31, 2**32, 2**50, 2**51 - 1]
    numbers = np.array([sign * (number + part) for number in whole for part in (0, 0.25, 0.5) for sign in (1, -1)] * 3)
    numbers = numbers[np.abs(numbers) < 2**51].astype(source)
    for last in (1, 2**51, -(2.0**63), 2.0**64, np.inf, np.nan):
        numbers[-1] = last
        for rounding in ("nearest", "truncate"):
            made = conversion(element_type(source), element_type(target), rounding=rounding)
            with policy_for(processor.features):
                got = converted_words(numbers.view(f"u{numbers.itemsize}"), made)
            exact = converted(source, target, numbers.view(f"u{numbers.itemsize}"), None, None, rounding)
            np.testing.assert_array_equal(got.view(target), exact.view(target), f"{last=}, {rounding}")


@each_class
@pytest.mark.parametrize("element", ["complex128", "float64", "float32"])
@pytest.mark.parametrize("step", [1, 2, 3, -1, -2])
def test_pixels_of_long_elements(processor, element, step):
    """A part of a vector has one pixel, or a few, of one channel or two, with gaps or without, either way."""
    made = conversion(element_type(element), element_type(element))
    for channels in (1, 2):
        pixels = Layout((3, 70, channels)).sliced((slice(None), slice(None, None, step)))
        planes = Layout(pixels.sizes, (channels * pixels.sizes[1], 1, pixels.sizes[1]))
        dense = Layout(pixels.sizes)
        with policy_for(processor.features):
            for source, target in ((pixels, planes), (pixels, dense), (planes, dense), (dense, planes)):
                assert moved_kernel(source, target, made, None, 3) is not None


@each_class
@pytest.mark.parametrize("nbytes, element", [(3, "uint8"), (4, "uint8"), (5, "uint8"), (7, "uint8"), (6, "float16")])
@pytest.mark.parametrize("pixels", [8, 16, 21, 64, 67])
def test_reversed_pixels_of_few_bytes(processor, nbytes, element, pixels):
    """No byte outside of the rows is read or written, as the fences show, whatever the last load and store begin at."""
    made = conversion(element_type(element), element_type(element))
    dense = Layout((3, pixels, nbytes // made.source.itemsize))
    with policy_for(processor.features):
        for axis, seed in product((1, 2), (2, 3, 5)):
            turned = dense.sliced(tuple(slice(None, None, -1 if other == axis else 1) for other in range(3)))
            assert moved_kernel(turned, dense, made, None, seed) is not None


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


def test_chosen_channels_do_not_follow_one_another():
    """Planes whose rows lie beside one another, in an order of channels that is no step."""
    sizes, channels = (16, 10, 100), (5, 3, 2, 6, 7, 4, 8, 1, 0, 9)
    with policy_with(relayout={"cached_bytes": 0}):
        byte = ELEMENT_TYPES["uint8"]
        made = conversion(byte, byte, channels=channels, source_channels=10)
        moved_kernel(Layout(sizes, (1024, 100, 1)), Layout(sizes, (100, 1600, 1)), made, channel_axis=1)


@pytest.mark.parametrize("element", ["uint8", "uint16", "float32", "float64"])
@pytest.mark.parametrize("height, width", [(33, 300), (47, 129), (64, 32), (100, 130), (65, 1000), (300, 33)])
def test_strips_of_long_lines(element, height, width):
    """Strips and steps that are moved back to the ends, and items that cut the lines."""
    number = element_type(element)
    height = max(height, 64 // number.itemsize)
    layouts = Layout((width, height), (1, width)), Layout((width, height))
    for item_bytes in (512, 4096, 1 << 20):
        with policy_with(relayout={"item_bytes": range(item_bytes, item_bytes + 1)}):
            kernel = moved_kernel(*layouts, conversion(number, number), None, height + item_bytes)
        assert type(kernel) is Transpose
        assert kernel.rows * number.itemsize in (32, 64)


@each_class
@pytest.mark.parametrize("streamed_bytes", [0, 1 << 30])
@pytest.mark.parametrize("affine", [(None, None), (1 / 255, 0.5), (float("inf"), None)])
@pytest.mark.parametrize("pair", [*IN_REGISTERS, "int8>uint16", "float64>bfloat16", "int64>uint8"])
def test_strips_are_converted(processor, pair, affine, streamed_bytes):
    """Strips of every width, and steps that are moved back to the ends, with edge elements and without scales."""
    source, target = map(element_type, pair.split(">"))
    made = conversion(source, target, scale=affine[0] and [affine[0]], bias=affine[1] and [affine[1]])
    edges = edge_elements(source.name)
    with policy_for(processor.features), policy_with(relayout={"streamed_bytes": streamed_bytes}):
        for height, width in ((64, 64), (99, 33), (70, 130), (33, 300), (129, 47)):
            for pitch in (height, 192):
                layouts = Layout((width, height), (1, width + 3)), Layout((width, height), (pitch, 1))
                assert type(moved_kernel(*layouts, made, None, height, edges)) is Transpose


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
    assert moved_kernel(source, target, conversion(element_type(element), element_type(other)), None, seed) is not None


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
