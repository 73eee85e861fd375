"""Scatter on the CPU, to the bit: against put_along_axis and loops, over layouts of every operand."""

from __future__ import annotations

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.guarded_memory import assert_written, bits_of, guarded, seeds
from harness.index_oracle import INDEX_TYPES, indices_within, limits, resolved
from harness.strategies import element_types, layouts_of, tensor_sizes
from hypothesis import given, strategies as st

import stridedgpu as sg


@st.composite
def element_scatters(draw):
    element, index_type = draw(element_types()), draw(st.sampled_from(INDEX_TYPES))
    sizes = draw(tensor_sizes(1, 4, max_size=6))
    axis = draw(st.integers(-len(sizes), len(sizes) - 1))
    place = axis % len(sizes)
    index_sizes = tuple(
        draw(st.integers(0, 7)) if at == place else draw(st.integers(1, size)) for at, size in enumerate(sizes)
    )
    data, memory = guarded(draw(layouts_of(sizes)), element, draw(seeds))
    indices, values = indices_within(draw, index_sizes, *limits(index_type, sizes[axis], "raise"), index_type)
    updates, update_memory = guarded(draw(layouts_of(index_sizes)), element, draw(seeds))
    expected = bits_of(data.layout, element.itemsize, memory).copy()
    new = bits_of(updates.layout, element.itemsize, update_memory)
    places = resolved(values, sizes[axis], "raise")
    for at in np.ndindex(index_sizes):  # in row-major order, so that the last wins
        expected[(*at[:place], places[at], *at[place + 1 :])] = new[at]
    out, out_memory = guarded(draw(layouts_of(sizes, broadcast=False)), element, draw(seeds))
    return data, indices, updates, axis, out, out_memory, expected


@cpu_paths
@given(case=element_scatters())
def test_scatter_elements_is_its_definition_in_bits_and_the_last_wins(path, case):
    data, indices, updates, axis, out, memory, expected = case
    inputs = [tensor.buffer.bytes.copy() for tensor in (data, indices, updates)]
    before = memory.copy()
    with picking_by(path):
        assert sg.scatter_elements(data, indices, updates, axis, out=out) is out
        made = sg.scatter_elements(data, indices, updates, axis)
    assert_written(out, memory, before, expected, data.itemsize)
    assert made.layout.is_packed
    assert np.array_equal(bits_of(made.layout, made.itemsize, made.buffer.bytes), expected)
    for tensor, was in zip((data, indices, updates), inputs, strict=True):
        assert np.array_equal(tensor.buffer.bytes, was)


@st.composite
def tuple_scatters(draw):
    element, index_type = draw(element_types()), draw(st.sampled_from(INDEX_TYPES))
    sizes = draw(tensor_sizes(1, 4, max_size=5))
    length = draw(st.integers(1, len(sizes)))
    between = draw(tensor_sizes(0, 2, least=0, max_size=4, max_elements=12))
    data, memory = guarded(draw(layouts_of(sizes)), element, draw(seeds))
    limit = limits(index_type, min(sizes[:length]), "raise")
    indices, values = indices_within(draw, (*between, length), *limit, index_type)
    updates, update_memory = guarded(draw(layouts_of((*between, *sizes[length:]))), element, draw(seeds))
    expected = bits_of(data.layout, element.itemsize, memory).copy()
    new = bits_of(updates.layout, element.itemsize, update_memory)
    for at in np.ndindex(between):
        expected[tuple(values[at].tolist())] = new[at]
    out, out_memory = guarded(draw(layouts_of(sizes, broadcast=False)), element, draw(seeds))
    return data, indices, updates, out, out_memory, expected


@cpu_paths
@given(case=tuple_scatters())
def test_scatter_nd_is_its_definition_in_bits_and_the_last_wins(path, case):
    data, indices, updates, out, memory, expected = case
    before = memory.copy()
    with picking_by(path):
        sg.scatter_nd(data, indices, updates, out=out)
    assert_written(out, memory, before, expected, data.itemsize)


@given(st.data())
def test_scatter_elements_is_put_along_axis(data):
    sizes = data.draw(tensor_sizes(1, 3, max_size=6))
    axis = data.draw(st.integers(0, len(sizes) - 1))
    rng = np.random.default_rng(data.draw(seeds))
    array = rng.random(sizes)
    indices = np.argsort(rng.random(sizes), axis=axis)
    expected = array.copy()
    updates = rng.random(sizes)
    np.put_along_axis(expected, indices, updates, axis)
    assert np.array_equal(sg.scatter_elements(array, indices, updates, axis, unique=True).numpy(), expected)


@cpu_paths
def test_the_last_of_many_equal_indices_wins_across_blocks(path):
    rng = np.random.default_rng(8)
    indices = rng.integers(0, 50, 200_000)
    updates = np.arange(200_000, dtype=np.int32)
    expected = np.zeros(50, np.int32)
    for place in range(50):
        expected[place] = np.flatnonzero(indices == place)[-1]
    rows = np.broadcast_to(updates[:, None], (200_000, 3))
    with picking_by(path):
        assert np.array_equal(sg.scatter_elements(np.zeros(50, np.int32), indices, updates).numpy(), expected)
        found = sg.scatter_nd(np.zeros((50, 3), np.int32), indices[:, None], rows)
    assert np.array_equal(found.numpy(), np.broadcast_to(expected[:, None], (50, 3)))


@cpu_paths
@pytest.mark.parametrize("length", [3, 700, 5000])
def test_rows_of_every_length(length, path):
    rng = np.random.default_rng(9)
    data, updates = rng.random((20, length)), rng.random((5, 2, length))
    indices = rng.permutation(20)[:10].reshape(5, 2, 1) - 20
    expected = data.copy()
    expected[indices[..., 0]] = updates
    with picking_by(path):
        assert np.array_equal(sg.scatter_nd(data, indices, updates, unique=True).numpy(), expected)


def test_labels_stay():
    batch = sg.zeros((2, 3, 4, 5), "uint8", layout="NHWC", device="cpu")
    assert sg.scatter_nd(batch, [[1]], np.ones((1, 3, 4, 5), np.uint8)).dims == "NCHW"


def test_nothing_to_write_is_a_copy():
    data = np.arange(6.0).reshape(2, 3)
    assert sg.scatter_nd(data, np.zeros((0, 1), int), np.zeros((0, 3))).numpy().tolist() == data.tolist()
    assert sg.scatter_elements(data, np.zeros((0, 3), int), np.zeros((0, 3))).numpy().tolist() == data.tolist()


def test_equal_indices_on_other_lines_are_not_the_same_element():
    indices = [[0, 0], [1, 1]]
    updates = np.array([[10, 20], [30, 40]])
    assert sg.scatter_elements(np.zeros((2, 2), int), indices, updates, unique=True).numpy().tolist() == [
        [10, 20],
        [30, 40],
    ]
