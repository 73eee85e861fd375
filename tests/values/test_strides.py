"""Sizes and strides as integers: DirectML's helper functions, generalised and exact at any size."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from harness.strategies import data_types, layout_offsets, order_strings, tensor_sizes
from hypothesis import given, strategies as st

from stridedgpu.values.errors import ElementTypeError, LayoutError
from stridedgpu.values.strides import (
    axis_letters,
    calc_buffer_tensor_size,
    calculate_strides,
    canonical_axes,
    integers,
    memory_order,
    packed_strides,
    padded_strides,
    round_up,
)

BIG = st.integers(1, 2**40)


@given(data_types(), st.lists(st.tuples(BIG, st.integers(0, 2**40)), min_size=1, max_size=8), st.booleans())
def test_buffer_size_is_the_last_element_rounded_up(data_type, axes, strided):
    sizes = [size for size, _ in axes]
    strides = [stride for _, stride in axes] if strided else None
    elements = sum((size - 1) * stride for size, stride in axes) + 1 if strided else prod(sizes)
    nbytes = calc_buffer_tensor_size(data_type, sizes, strides)
    assert nbytes % 4 == 0
    # No fewer whole 32-bit words than the bits of all elements need, and no more.
    assert 0 <= nbytes * 8 - elements * data_type.bits < 32


@pytest.mark.parametrize(
    "data_type, sizes, strides, nbytes",
    [
        pytest.param("float32", (65536, 32768), (32768, 1), 2**33, id="2019's listing wraps to 0"),
        pytest.param("float32", (2, 2), (2**32 - 1, 1), (2**32 + 1) * 4, id="2022's listing wraps to 4"),
        pytest.param("uint8", (3,), None, 4, id="rounded up to 4"),
        pytest.param("uint8", (4,), None, 4, id="nothing to round"),
        pytest.param("float16", (1,), None, 4, id="a scalar"),
        pytest.param("float16", (8, 3, 5), (0, 0, 0), 4, id="broadcast along every axis"),
        pytest.param("uint4", (7,), None, 4, id="28 bits"),
        pytest.param("int4", (9,), None, 8, id="36 bits"),
        pytest.param("uint4", (2, 3), (9, 1), 8, id="12 elements of 4 bits, with gaps"),
        pytest.param("int64", (1,) * 8, (5,) * 8, 8, id="strides of sizes of 1 count for nothing"),
    ],
)
def test_buffer_sizes_worked_out_by_hand(data_type, sizes, strides, nbytes):
    assert calc_buffer_tensor_size(data_type, sizes, strides) == nbytes


@given(st.data(), order_strings())
def test_strides_of_an_order_are_those_of_a_transposed_array(data, order):
    sizes = data.draw(tensor_sizes(len(order), len(order)))
    canonical = "".join(letter for letter in "NCDHW" if letter in order)
    stored = np.arange(prod(sizes)).reshape([sizes[canonical.index(letter)] for letter in order])
    seen = stored.transpose([order.index(letter) for letter in canonical])
    for strides in (
        calculate_strides(order, sizes),
        packed_strides(sizes, order),
        packed_strides(sizes, memory_order(order, len(order))),
    ):
        assert layout_offsets(sizes, strides) == seen.ravel().tolist()


@given(st.data(), order_strings())
def test_a_broadcast_axis_has_stride_0_and_counts_as_1(data, order):
    sizes = data.draw(tensor_sizes(len(order), len(order)))
    flags = tuple(data.draw(st.booleans()) for _ in sizes)
    stored = tuple(1 if flag else size for size, flag in zip(sizes, flags, strict=True))
    packed = calculate_strides(order, stored)
    expected = tuple(0 if flag else stride for stride, flag in zip(packed, flags, strict=True))
    assert calculate_strides(order, sizes, flags) == expected


@given(tensor_sizes(0, 8, least=0))
def test_packed_strides_are_numpys(sizes):
    # NumPy is free in what it says of empty arrays; there a size of 0 counts as 1.
    counted = tuple(max(size, 1) for size in sizes)
    assert packed_strides(sizes) == np.empty(counted, np.uint8).strides


@pytest.mark.parametrize(
    "order, sizes, strides",
    [
        pytest.param("HW", (2, 3), (3, 1), id="row-major"),
        pytest.param("WH", (2, 3), (1, 2), id="column-major"),
        pytest.param("WHD", (2, 3, 4), (1, 2, 6), id="WHD"),
        pytest.param("NCHW", (2, 3, 4, 5), (60, 20, 5, 1), id="NCHW"),
        pytest.param("NHWC", (2, 3, 4, 5), (60, 1, 15, 3), id="NHWC"),
        pytest.param("CHWN", (2, 3, 4, 5), (1, 40, 10, 2), id="CHWN"),
        pytest.param("HWC", (3, 4, 5), (1, 15, 3), id="HWC"),
        pytest.param("NCDHW", (2, 3, 4, 5, 6), (360, 120, 30, 6, 1), id="NCDHW"),
        pytest.param("NDHWC", (2, 3, 4, 5, 6), (360, 1, 90, 18, 3), id="NDHWC"),
        pytest.param("NHWC", (2**32, 2**32, 2**32, 2**32), (2**96, 1, 2**64, 2**32), id="exact beyond 64 bits"),
    ],
)
def test_strides_worked_out_by_hand(order, sizes, strides):
    assert calculate_strides(order, sizes) == strides


@pytest.mark.parametrize(
    "sizes, order, itemsize, pitch, height_axis, strides",
    [
        pytest.param((1, 3, 4, 5), "NCHW", 4, 32, None, (96, 32, 8, 1), id="NCHW: a row is W"),
        pytest.param((1, 3, 4, 5), "NHWC", 1, 16, None, (64, 1, 16, 3), id="NHWC: a row is W*C"),
        pytest.param((4, 5), "HW", 2, 16, None, (8, 1), id="HW"),
        pytest.param((4, 5), "WH", 2, 16, None, (1, 8), id="WH: with H innermost, a row is H"),
        pytest.param((3, 5), "CW", 1, 8, None, (8, 1), id="no H: the innermost axis"),
        pytest.param((2, 3, 4), None, 1, 8, None, (24, 8, 1), id="row-major"),
        pytest.param((2, 3, 4), (2, 0, 1), 1, 8, None, (8, 1, 16), id="axis numbers"),
        pytest.param((4, 5, 3), None, 1, 16, 0, (16, 3, 1), id="axis numbers, the first is H"),
        pytest.param((2, 0, 3), None, 1, 4, None, (4, 4, 1), id="empty"),
    ],
)
def test_padded_strides_worked_out_by_hand(sizes, order, itemsize, pitch, height_axis, strides):
    assert padded_strides(sizes, order, itemsize, pitch, height_axis=height_axis) == strides


@given(st.integers(0, 10**20), st.integers(1, 10**10))
def test_round_up(value, multiple):
    rounded = round_up(value, multiple)
    assert rounded % multiple == 0
    assert 0 <= rounded - value < multiple


@pytest.mark.parametrize(
    "order, meant",
    [
        ("NCHW", "NCHW"),
        ("NZYXC", "NDHWC"),
        ("BCHW", "NCHW"),
        ("BHWC", "NHWC"),
        ("BYX", "CHW"),
        ("TBYX", "NCHW"),
        ("TZYX", "NDHW"),
        ("TCZYX", "NCDHW"),
        ("NTHWC", "NDHWC"),
        ("BTCHW", "NDCHW"),
    ],
    ids=str,
)
def test_letters_of_volumes_films_and_scenes(order, meant):
    assert axis_letters(order) == meant
    sizes = tuple(range(2, 2 + len(order)))
    assert calculate_strides(order, sizes) == calculate_strides(meant, sizes)
    assert padded_strides(sizes, order, 1, 10**6) == padded_strides(sizes, meant, 1, 10**6)


def test_orders():
    assert canonical_axes("WHDCN") == "NCDHW"
    assert memory_order("NHWC", 4) == (0, 2, 3, 1)
    assert memory_order(None, 3) == (0, 1, 2)
    assert memory_order([2, 0, 1], 3) == (2, 0, 1)


def test_integers_of_any_kind_become_pythons():
    numbers = integers("sizes", [np.int32(3), 2**70, *np.arange(2, dtype=np.uint64)])
    assert numbers == (3, 2**70, 0, 1)
    assert {type(number) for number in numbers} == {int}


SIZES = (2, 3, 4, 5)
REFUSALS = {
    "no such type": (lambda: calc_buffer_tensor_size("quarter", (1,)), ElementTypeError, "no element type 'quarter'"),
    "stride negative": (
        lambda: calc_buffer_tensor_size("uint8", (3, 2), (-2, 1)),
        LayoutError,
        r"strides=\(-2, 1\) must each be at least 0",
    ),
    "order unknown letter": (lambda: calculate_strides("NQHW", SIZES), LayoutError, "layout='NQHW' holds 'Q'"),
    "order lower case": (lambda: calculate_strides("nchw", SIZES), LayoutError, "layout='nchw' holds 'n'"),
    "order of two depths": (lambda: calculate_strides("NTZYX", (1,) * 5), LayoutError, "'D' twice: it means 'NDDHW'"),
    "order repeated letter": (lambda: calculate_strides("NHHW", SIZES), LayoutError, "names the axis 'H' twice"),
    "order no permutation": (
        lambda: packed_strides(SIZES, (0, 1, 2, 2)),
        LayoutError,
        r"order=\(0, 1, 2, 2\) is not a permutation of the axes 0 to 3",
    ),
    "sizes negative": (lambda: packed_strides((2, -1)), LayoutError, r"sizes=\(2, -1\) must each be at least 0"),
    "broadcast too short": (
        lambda: calculate_strides("NCHW", SIZES, (True, False)),
        LayoutError,
        r"broadcast=\(True, False\) must hold one bool for each of the 4 sizes",
    ),
    "broadcast numbers": (
        lambda: calculate_strides("HW", (2, 3), (1, 0)),
        LayoutError,
        r"broadcast=\(1, 0\) must hold",
    ),
    "pitch below a row": (
        lambda: padded_strides(SIZES, "NHWC", 4, 56),
        LayoutError,
        "row_pitch_bytes=56 is smaller than a row: 15 elements of 4 bytes take 60 bytes",
    ),
    "pitch no multiple": (
        lambda: padded_strides(SIZES, "NHWC", 4, 66),
        LayoutError,
        "row_pitch_bytes=66 is not a multiple of the 4-byte element; the next that is: 68",
    ),
    "pitch negative": (lambda: padded_strides(SIZES, "NCHW", 4, -32), LayoutError, "row_pitch_bytes=-32 is smaller"),
    "pitch without rows": (lambda: padded_strides((5,), None, 4, 32), LayoutError, "needs at least two axes"),
}


@pytest.mark.parametrize("call, error, message", REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert caught.type is error
