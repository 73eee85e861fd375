"""The examples of DirectML's page "Using strides to express padding and memory layout", one by one.

https://learn.microsoft.com/windows/ai/directml/dml-strides
"""

from __future__ import annotations

from itertools import product

import pytest

from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import calc_buffer_tensor_size, calculate_strides, packed_strides


def read(layout: Layout, memory: str) -> str:
    """The letters of `memory` in the order of the coordinates."""
    return "".join(memory[layout.offset_of(at)] for at in product(*map(range, layout.sizes)))


@pytest.mark.parametrize(
    "order, strides, memory", [("HW", (3, 1), "ABCDEF"), ("WH", (1, 2), "ADBECF")], ids=["row-major", "column-major"]
)
def test_a_plane_of_2_by_3(order, strides, memory):
    assert calculate_strides(order, (2, 3)) == strides
    layout = Layout((2, 3), strides)
    assert read(layout, memory) == "ABCDEF"
    assert layout.is_packed
    assert not layout.is_padded
    assert not layout.is_broadcast
    assert layout.span == layout.element_count == 6


def test_three_dimensions_and_the_offset_of_h():
    strides = calculate_strides("DHW", (2, 2, 3))
    assert strides == packed_strides((2, 2, 3)) == (6, 3, 1)
    layout = Layout((2, 2, 3), strides)
    memory = "ABCDEFGHIJKL"
    assert read(layout, memory) == memory
    assert layout.offset_of((1, 0, 1)) == 7
    assert memory[7] == "H"
    assert layout.offset_of((1, 0, 0)) - layout.offset_of((0, 0, 0)) == memory.index("G") - memory.index("A") == 6
    assert layout.offset_of((0, 1, 0)) - layout.offset_of((0, 0, 0)) == memory.index("D") - memory.index("A") == 3
    assert layout.offset_of((0, 0, 1)) - layout.offset_of((0, 0, 0)) == memory.index("B") - memory.index("A") == 1


def test_packed_is_12_elements_with_12_offsets():
    layout = Layout((2, 2, 3))
    assert layout.is_packed
    assert layout.span == 12
    assert len({layout.offset_of(at) for at in product(range(2), range(2), range(3))}) == 12


def test_a_row_repeated_by_broadcasting():
    layout = Layout((2, 3), (0, 1))
    assert read(layout, "ABC") == "ABCABC"
    assert (layout.span, layout.element_count) == (3, 6)
    assert layout.is_broadcast
    assert layout.has_overlap
    assert not layout.is_packed
    assert calculate_strides("HW", (2, 3), (True, False)) == layout.strides
    assert Layout((1, 3)).broadcast_to((2, 3)) == layout


def test_a_channel_stride_of_0_repeats_what_lies_inside():
    layout = Layout((1, 2, 2, 2), calculate_strides("NCHW", (1, 2, 2, 2), (False, True, False, False)))
    assert layout.strides[1] == 0
    assert read(layout, "ABCD") == "ABCDABCD"


def test_rows_of_3_padded_to_5():
    layout = Layout((2, 3), (5, 1))
    assert read(layout, "ABCxxDEFxx") == "ABCDEF"
    assert layout == Layout.padded((2, 3), "HW", itemsize=1, row_pitch_bytes=5)
    assert layout.is_padded
    assert not layout.is_packed
    assert not layout.has_overlap
    assert layout.span == 8
    assert calc_buffer_tensor_size("uint8", (2, 3), (5, 1)) == 8
    assert calc_buffer_tensor_size("float16", (2, 3), (5, 1)) == 16
    # The buffer of the example goes on to the end of the second row: 10 elements, more than the minimum.
    described = BufferTensorDesc("float16", (2, 3), (5, 1), total_tensor_size_in_bytes=20)
    assert described.minimum_implied_size_in_bytes == 16


def test_lower_ranks_are_filled_with_leading_ones():
    assert Layout((3, 5)).aligned_to_rank(4) == Layout((1, 1, 3, 5), (15, 15, 5, 1))
    assert Layout((3, 5)).aligned_to_rank(5).sizes == (1, 1, 1, 3, 5)
    assert Layout((1, 1, 3, 5)).aligned_to_rank(2) == Layout((3, 5))


@pytest.mark.parametrize("order, strides", [("NCHW", (15, 15, 5, 1)), ("NHWC", (15, 1, 5, 1))], ids=["NCHW", "NHWC"])
def test_1_1_3_5_packed(order, strides):
    sizes = (1, 1, 3, 5)
    assert calculate_strides(order, sizes) == strides
    explicit, implicit = BufferTensorDesc("float32", sizes, strides), BufferTensorDesc("float32", sizes)
    assert explicit.minimum_implied_size_in_bytes == implicit.minimum_implied_size_in_bytes == 60
    assert explicit.layout.is_packed
    for at in product(range(1), range(1), range(3), range(5)):  # one channel: the same memory either way
        assert explicit.layout.offset_of(at) == implicit.layout.offset_of(at)


def test_5d_sizes_stay_in_ncdhw_order():
    assert calculate_strides("NCDHW", (2, 3, 4, 5, 6)) == packed_strides((2, 3, 4, 5, 6)) == (360, 120, 30, 6, 1)
    assert calculate_strides("NDHWC", (2, 3, 4, 5, 6)) == (360, 1, 90, 18, 3)
