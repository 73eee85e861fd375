"""Whether two operands share a byte, which decides if an output would overwrite its source: exact for every layout."""

from __future__ import annotations

import numpy as np
import pytest
from harness.strategies import layouts_of, tensor_sizes
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.operand import Operand, share_memory
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.layout import Layout

ELEMENTS = [ELEMENT_TYPES[name] for name in ("uint8", "uint16", "float32", "complex128")]


def bytes_of(layout, itemsize, start):
    """The numbers of the bytes in the elements of a layout that begins at byte `start`."""
    steps = tuple(stride * itemsize for stride in layout.strides)
    first = start + layout.offset * itemsize
    begins = [first + sum(np.multiply(index, steps).tolist()) for index in np.ndindex(layout.sizes)]
    return {begin + part for begin in begins for part in range(itemsize)}


@given(st.data(), st.sampled_from(ELEMENTS), st.sampled_from(ELEMENTS), st.integers(0, 40))
def test_two_operands_share_memory_exactly_where_a_byte_is_in_both(data, first, second, shift):
    held = bytearray(1 << 16)
    address = Buffer.of(held).address
    pair = []
    for element, start in ((first, 0), (second, shift)):
        layout = data.draw(layouts_of(data.draw(tensor_sizes(0, 3, least=1))))
        part = Buffer(address + start, 1 << 15, owner=held)
        pair.append((Operand(part, layout, element), bytes_of(layout, element.itemsize, start)))
    (one, of_one), (other, of_other) = pair
    assert share_memory(one, other) == share_memory(other, one) == bool(of_one & of_other)


@pytest.mark.parametrize("shift", range(12))
def test_the_later_bytes_of_an_element_count(shift):
    """Words 8 bytes apart, and a byte among them, which meets the first, the last or none of a word's bytes."""
    held = bytearray(256)
    start = Buffer.of(held).address
    words = Operand(Buffer(start, 64, owner=held), Layout((4,), (2,)), ELEMENT_TYPES["uint32"])
    single = Operand(Buffer(start + shift, 1, owner=held), Layout((1,)), ELEMENT_TYPES["uint8"])
    assert share_memory(words, single) == (shift % 8 < 4)


def test_an_out_that_shares_only_later_bytes_is_refused_and_nothing_is_written():
    memory = np.arange(64, dtype=np.uint8)
    source = memory[:32].view(np.uint32)[::2]
    before = memory.copy()
    with pytest.raises(sg.BindingError, match="out shares memory with"):
        sg.relayout(source, out=sg.StridedTensor(memory[3:], Layout((4,), (8,)), "uint8"), scale=1.0)
    assert memory.tobytes() == before.tobytes()
