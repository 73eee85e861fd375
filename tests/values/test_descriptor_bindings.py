"""Bindings of one dispatch against each other: every pair of ranges, against a drawing of their bytes."""

from __future__ import annotations

import pytest
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

import stridedgpu as sg

DESC = sg.BufferTensorDesc("uint8", (1, 1, 4, 4))

RANGES = st.builds(
    lambda buffer, offset, size: sg.Binding(DESC, buffer, 16 * offset, 16 * size),
    st.sampled_from(["arena", "other"]),
    st.integers(0, 6),
    st.integers(1, 3),
)


def bytes_of(binding):
    return {(binding.buffer, byte) for byte in range(binding.offset, binding.offset + binding.size_in_bytes)}


@settings(max_examples=examples(300))
@given(st.lists(RANGES, max_size=2), st.lists(RANGES, min_size=1, max_size=2), st.booleans())
def test_ranges_share_bytes_only_where_they_may(inputs, outputs, in_place):
    fits = not (len(outputs) == 2 and bytes_of(outputs[0]) & bytes_of(outputs[1]))
    for output in outputs:
        for source in inputs:
            shared = bytes_of(output) & bytes_of(source)
            fits &= not shared or (in_place and bytes_of(output) == bytes_of(source))
    if fits:
        sg.check_bindings([*inputs, None], outputs, in_place=in_place)
        return
    with pytest.raises(sg.BindingError, match=r"outputs\[\d\] \(bytes \d+ to \d+ of '"):
        sg.check_bindings([*inputs, None], outputs, in_place=in_place)


UNWRITABLE = {
    "owned by DirectML": (
        sg.BufferTensorDesc("uint8", (1, 1, 4, 4), flags=sg.BufferTensorDesc.OWNED_BY_DML),
        r"outputs\[0\] has flags=1, OWNED_BY_DML: DirectML owns inputs alone",
    ),
    "broadcast": (
        sg.BufferTensorDesc("uint8", (1, 1, 4, 4), (4, 4, 0, 1)),
        r"outputs\[0\] has sizes \(1, 1, 4, 4\) and strides \(4, 4, 0, 1\), whose elements share places",
    ),
    "overlapping": (
        sg.BufferTensorDesc("uint8", (1, 1, 4, 4), (16, 16, 3, 1)),
        r"strides \(16, 16, 3, 1\), whose elements share places",
    ),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_outputs_are_written_by_the_operator_each_element_in_a_place_of_its_own(name):
    desc, message = UNWRITABLE[name]
    binding = sg.Binding(desc, "arena", 0, desc.total_tensor_size_in_bytes)
    sg.check_bindings([binding], [])
    with pytest.raises(sg.BindingError, match=message):
        sg.check_bindings([], [binding])


def test_a_binding_is_checked_against_its_descriptor():
    with pytest.raises(sg.BindingError, match="offset=8 is not a multiple of 16"):
        sg.Binding(DESC, "arena", 8, 16)
    with pytest.raises(sg.BindingError, match="size_in_bytes=12 is less"):
        sg.Binding(DESC, "arena", 0, 12)
    with pytest.raises(sg.LayoutError, match="desc='uint8' is no BufferTensorDesc"):
        sg.Binding("uint8", "arena", 0, 16)
    with pytest.raises(sg.LayoutError, match=r"inputs\[0\]=\(0, 16\) is neither a Binding nor None"):
        sg.check_bindings([(0, 16)], [])
