"""Gather on the CPU, to the bit: against NumPy, over layouts of data, indices and output; and wrong indices."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.guarded_memory import assert_written, bits_of, guarded, seeds
from harness.index_oracle import INDEX_TYPES, MODES, gather_nd_by_definition, indices_within, limits, resolved
from harness.strategies import element_types, layouts_of, tensor_sizes
from hypothesis import given, strategies as st

import stridedgpu as sg


def picking_types(draw):
    return draw(element_types()), draw(st.sampled_from(INDEX_TYPES)), draw(st.sampled_from(MODES))


@st.composite
def gathers(draw):
    element, index_type, mode = picking_types(draw)
    sizes = draw(tensor_sizes(1, 4, max_size=6))
    axis = draw(st.integers(-len(sizes), len(sizes) - 1))
    data, memory = guarded(draw(layouts_of(sizes)), element, draw(seeds))
    index_sizes = draw(tensor_sizes(0, 3, least=0, max_size=4, max_elements=30))
    indices, values = indices_within(draw, index_sizes, *limits(index_type, sizes[axis], mode), index_type)
    place = axis % len(sizes)
    out_sizes = (*sizes[:place], *index_sizes, *sizes[place + 1 :])
    out, out_memory = guarded(draw(layouts_of(out_sizes, broadcast=False)), element, draw(seeds))
    bits = bits_of(data.layout, element.itemsize, memory)
    return data, indices, axis, mode, out, out_memory, bits.take(resolved(values, sizes[axis], mode), axis)


@cpu_paths
@given(case=gathers())
def test_gather_is_take_in_bits_for_every_layout(path, case):
    data, indices, axis, mode, out, memory, expected = case
    before = memory.copy()
    with picking_by(path):
        assert sg.gather(data, indices, axis, mode=mode, out=out) is out
        made = sg.gather(data, indices, axis, mode=mode)
    assert_written(out, memory, before, expected, data.itemsize)
    assert (made.sizes, made.element, made.layout.is_packed or 0 in made.sizes) == (expected.shape, data.element, True)
    assert np.array_equal(bits_of(made.layout, made.itemsize, made.buffer.bytes), expected)


@st.composite
def element_gathers(draw):
    element, index_type, mode = picking_types(draw)
    sizes = draw(tensor_sizes(1, 4, max_size=6))
    axis = draw(st.integers(-len(sizes), len(sizes) - 1))
    data, memory = guarded(draw(layouts_of(sizes)), element, draw(seeds))
    place = axis % len(sizes)
    index_sizes = tuple(
        draw(st.integers(0, 7)) if at == place else draw(st.integers(1, size)) for at, size in enumerate(sizes)
    )
    indices, values = indices_within(draw, index_sizes, *limits(index_type, sizes[axis], mode), index_type)
    out, out_memory = guarded(draw(layouts_of(index_sizes, broadcast=False)), element, draw(seeds))
    window = tuple(slice(None) if at == place else slice(size) for at, size in enumerate(index_sizes))
    bits = bits_of(data.layout, element.itemsize, memory)[window]
    expected = np.take_along_axis(bits, resolved(values, sizes[axis], mode), axis)
    return data, indices, axis, mode, out, out_memory, expected


@cpu_paths
@given(case=element_gathers())
def test_gather_elements_is_take_along_axis_in_bits_for_every_layout(path, case):
    data, indices, axis, mode, out, memory, expected = case
    before = memory.copy()
    with picking_by(path):
        sg.gather_elements(data, indices, axis, mode=mode, out=out)
    assert_written(out, memory, before, expected, data.itemsize)


@st.composite
def tuple_gathers(draw):
    element, index_type, mode = picking_types(draw)
    sizes = draw(tensor_sizes(1, 4, max_size=5))
    batch_dims = draw(st.integers(0, len(sizes) - 1))
    length = draw(st.integers(1, len(sizes) - batch_dims))
    data, memory = guarded(draw(layouts_of(sizes)), element, draw(seeds))
    between = draw(tensor_sizes(0, 2, least=0, max_size=4, max_elements=12))
    index_sizes = (*sizes[:batch_dims], *between, length)
    axes = sizes[batch_dims : batch_dims + length]
    least, most = limits(index_type, min(axes), mode)
    indices, values = indices_within(draw, index_sizes, least, most, index_type)
    places = np.stack([resolved(values[..., k], size, mode) for k, size in enumerate(axes)], axis=-1)
    bits = bits_of(data.layout, element.itemsize, memory)
    expected = gather_nd_by_definition(bits, places, batch_dims)
    out, out_memory = guarded(draw(layouts_of(expected.shape, broadcast=False)), element, draw(seeds))
    return data, indices, batch_dims, mode, out, out_memory, expected


@cpu_paths
@given(case=tuple_gathers())
def test_gather_nd_is_its_definition_in_bits_for_every_layout(path, case):
    data, indices, batch_dims, mode, out, memory, expected = case
    before = memory.copy()
    with picking_by(path):
        sg.gather_nd(data, indices, batch_dims=batch_dims, mode=mode, out=out)
    assert_written(out, memory, before, expected, data.itemsize)


def test_gather_nd_of_directml_documentation():
    data = np.arange(3 * 4 * 5 * 6 * 7).reshape(3, 4, 5, 6, 7)
    indices = [[[[[0, 1, 2], [2, 3, 4]]]]]
    found = sg.gather_nd(data, indices)
    assert found.sizes == (1, 1, 1, 2, 6, 7)
    assert np.array_equal(found.numpy()[0, 0, 0], data[[0, 2], [1, 3], [2, 4]])


@cpu_paths
@pytest.mark.parametrize("rows", [(50, 3), (50, 64), (50, 700), (7, 5000), (4, 3, 2500)], ids=str)
@pytest.mark.parametrize("pitched", [False, True])
def test_rows_of_every_length(rows, pitched, path):
    rng = np.random.default_rng(5)
    data = rng.integers(0, 256, (*rows[:-1], rows[-1] + 3 * pitched), np.uint8)[..., : rows[-1]]
    indices = rng.integers(-rows[0], rows[0], (4, 33))
    with picking_by(path):
        assert np.array_equal(sg.gather(data, indices).numpy(), data[indices])


@cpu_paths
def test_many_blocks_and_outer_rows(path):
    rng = np.random.default_rng(6)
    data = rng.random((5, 40000), np.float32)
    indices = rng.integers(-40000, 40000, 70000)
    each = rng.integers(0, 5, (3, 40000))
    with picking_by(path):
        assert np.array_equal(sg.gather(data, indices, 1).numpy(), data.take(indices, 1))
        assert np.array_equal(sg.gather_elements(data, each, 0).numpy(), np.take_along_axis(data, each, 0))


def test_labels_follow_the_axes():
    batch = sg.zeros((4, 3, 5, 6), "uint8", layout="NHWC", device="cpu")
    assert sg.gather(batch, [1, 0]).dims == "NCHW"
    assert sg.gather(batch, 1).dims == "CHW"
    assert sg.gather(batch, [[1, 0]]).dims == "CHW"
    assert sg.gather(batch, 2, axis=1).dims == "NHW"
    assert sg.gather_elements(batch, np.zeros((1, 1, 1, 1), int)).dims == "NCHW"
    assert sg.gather_nd(batch, [[0, 1]]).dims == "HW"


@pytest.mark.parametrize("indices", [[], np.zeros((0, 3), np.uint32), sg.zeros((2, 0), "int32", device="cpu")])
def test_no_indices_make_an_empty_result(indices):
    data = sg.zeros((4, 3), "float32", device="cpu")
    assert sg.gather(data, indices).sizes == (*np.shape(indices), 3)
    assert sg.gather(sg.zeros((0, 3), "uint8", device="cpu"), indices).sizes == (*np.shape(indices), 3)


@pytest.mark.parametrize("strides", [(1, 0), (1, 1), (0, 1), (3, 1)])
def test_rows_of_no_elements_are_gathered_whatever_their_strides(strides):
    data = sg.StridedTensor(b"", sg.Layout((2, 0), strides), "uint8")
    out = sg.StridedTensor(bytearray(), sg.Layout((1, 0), strides), "uint8")
    assert sg.gather(data, [1], out=out) is out
    assert sg.gather_nd(data.permute((1, 0)), np.zeros((0, 2), int)).sizes == (0,)
    assert sg.scatter_nd(data, [[1]], out).sizes == (2, 0)


def test_a_huge_broadcast_tensor_is_gathered_with_wide_offsets():
    data = sg.asarray(np.arange(3, dtype=np.uint8)).broadcast_to((2**40, 3))
    found = sg.gather(data, [2**40 - 1, -1, 5])
    assert found.numpy().tolist() == [[0, 1, 2]] * 3


# Wrong indices

DATA = np.arange(24, dtype=np.int16).reshape(4, 6)


BAD_VALUES = {
    "too large": ([[0, 1], [4, 9]], "indices[1, 0] = 4 is out of range for axis 0 of size 4: valid are -4 to 3."),
    "too small": ([[0, -5]], "indices[0, 1] = -5 is out of range for axis 0 of size 4: valid are -4 to 3."),
    "enormous": (np.array([2**64 - 1], np.uint64), "indices[0] = 18446744073709551615 is out of range"),
    "beyond int64": ([2**63], "indices[0] = 9223372036854775808 is out of range"),
    "the lowest int64": ([0, -(2**63)], "indices[1] = -9223372036854775808 is out of range"),
    "unsigned": (np.array([3, 4], np.uint32), "indices[1] = 4 is out of range for axis 0 of size 4: valid are 0 to 3."),
    "a scalar": (7, "indices = 7 is out of range"),
}


@cpu_paths
@pytest.mark.parametrize("mode", ["raise", "deferred"])
@pytest.mark.parametrize("values, message", BAD_VALUES.values(), ids=BAD_VALUES)
def test_an_index_out_of_range_is_named_and_nothing_is_written(values, message, mode, path):
    out = np.full((*np.shape(values), 6), 7, np.int16)
    with picking_by(path), pytest.raises(IndexError) as error:
        sg.gather(DATA, values, mode=mode, out=sg.asarray(out))
    assert message in str(error.value)
    assert (out == 7).all()


@cpu_paths
def test_a_bad_index_in_a_tuple_or_among_many_is_named(path):
    many = np.zeros((500, 600), np.int32)
    many[400, 17] = many[450, 3] = 4
    with picking_by(path):
        with pytest.raises(IndexError, match=r"indices\[1, 1\] = 6 is out of range for axis 1 of size 6"):
            sg.gather_nd(DATA, [[3, 5], [0, 6]])
        with pytest.raises(IndexError, match=r"indices\[400, 17\] = 4 "):
            sg.gather(DATA, many)
        with pytest.raises(IndexError, match=r"indices\[1, 2\] = -7 is out of range for axis 1 "):
            sg.gather_elements(DATA, [[0, 0, 0], [1, 1, -7]], axis=1)


@st.composite
def spoiled_indices(draw):
    """Indices of any layout among which one is wrong, with its place and itself."""
    index_type = draw(st.sampled_from(INDEX_TYPES))
    sizes = draw(tensor_sizes(1, 3, max_size=40, max_elements=4000))
    indices, _ = indices_within(draw, sizes, *limits(index_type, 5, "raise"), index_type)
    least, most = limits(index_type, 5, "raise")
    info = np.iinfo(index_type)
    wrong = draw(st.sampled_from([most + 1, info.max, *([least - 1, info.min] if info.min else [])]))
    place = tuple(draw(st.integers(0, size - 1)) for size in sizes)
    indices[place] = np.array(wrong, index_type)
    return indices, np.argwhere(indices.numpy() == wrong)[0].tolist(), wrong


@cpu_paths
@given(case=spoiled_indices())
def test_one_bad_index_anywhere_in_any_layout_is_found_before_anything_is_written(path, case):
    indices, place, wrong = case
    out = sg.full((*indices.sizes, 3), 7, "uint8", device="cpu")
    with picking_by(path), pytest.raises(IndexError) as error:
        sg.gather(np.zeros((5, 3), np.uint8), indices, out=out)
    assert f"indices{place} = {wrong} is out of range" in str(error.value)
    assert (out.numpy() == 7).all()


def test_an_out_between_the_data_is_written():
    memory = np.arange(24, dtype=np.uint8).reshape(4, 6)
    data, out = sg.asarray(memory)[:, ::2], sg.asarray(memory)[:, 1::2]
    sg.gather(data, [3, 3, 0, 1], out=out)
    assert memory[:, 1::2].tolist() == [[18, 20, 22], [18, 20, 22], [0, 2, 4], [6, 8, 10]]
    assert memory[:, ::2].tolist() == [[0, 2, 4], [6, 8, 10], [12, 14, 16], [18, 20, 22]]


@cpu_paths
def test_no_memory_of_the_data_s_size_is_taken(path):
    data = np.ones((512, 4096), np.float32)
    indices = sg.asarray(np.random.default_rng(7).integers(0, 4096, (512, 4096)))
    out = sg.empty((512, 4096), "float32", device="cpu")
    with picking_by(path):
        sg.gather_elements(data, indices[:1], 1)  # what is loaded at the first call is not counted
        tracemalloc.start()
        sg.gather_elements(data, indices, 1, out=out)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < data.nbytes / 4


def test_a_gather_can_be_explained_without_its_device():
    data = sg.zeros((100, 40), "float16", device="cpu")
    plan = sg.plan_gather(data, [[1, 2], [3, 4]], device="cuda")
    assert (plan.kernel, plan.vector_bytes) == ("gather_rows_float16x16B_int64", 16)
    assert "on cuda:0" in plan.explain()
    assert sg.plan_gather(data, [0], axis=1).device == "cpu"
    with pytest.raises(IndexError, match="axis 0 has no elements"):
        sg.plan_gather(data[:0], [0])


@st.composite
def scatters_in_place(draw):
    element = draw(element_types())
    sizes = draw(tensor_sizes(1, 3, least=1, max_size=6))
    data, memory = guarded(draw(layouts_of(sizes, broadcast=False)), element, draw(seeds))
    rows = draw(st.lists(st.integers(0, sizes[0] - 1), unique=True, max_size=sizes[0]))
    updates, other = guarded(draw(layouts_of((len(rows), *sizes[1:]))), element, draw(seeds))
    bits = bits_of(data.layout, element.itemsize, memory)
    bits[rows] = bits_of(updates.layout, element.itemsize, other)
    return data, memory, np.array(rows, np.int64).reshape(-1, 1), updates, bits


@cpu_paths
@given(case=scatters_in_place())
def test_a_scatter_into_its_own_data_replaces_elements_and_writes_no_others(path, case):
    data, memory, rows, updates, expected = case
    before = memory.copy()
    with picking_by(path):
        assert sg.scatter_nd(data, rows, updates, out=data) is data
    assert_written(data, memory, before, expected, data.itemsize)


def test_a_scatter_in_place_with_a_wrong_index_writes_nothing():
    data = sg.asarray(np.arange(6).reshape(3, 2))
    with pytest.raises(IndexError):
        sg.scatter_nd(data, [[0], [3]], np.zeros((2, 2), np.int64), out=data)
    assert data.numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
