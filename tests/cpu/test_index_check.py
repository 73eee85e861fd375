"""Checks that no two indices name one element: by marks and on NumPy, against Python's sets."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.fenced_memory import Fenced, lowest_at_zero
from harness.guarded_memory import seeds
from harness.index_oracle import INDEX_TYPES
from harness.native_loops import needs_library, policy_with
from harness.strategies import as_array, layouts_of, tensor_sizes
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu import gather as cpu_gather, thread_count
from stridedgpu.devices.cpu.native import index_check
from stridedgpu.devices.cpu.native.index_check import native_index_check, plan_index_check
from stridedgpu.devices.cpu.numpy_loops.gather import check_indices
from stridedgpu.operations.index_arguments import index_rule
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.tensor_spec import TensorSpec

index_types = pytest.mark.parametrize("index_type", INDEX_TYPES)

CHOICES = {
    "as chosen": {},
    "marks": {"index_check": {"flags_of_index": 1 << 40}},
    "marks by many items": {"index_check": {"flags_of_index": 1 << 40, "item_indices": 8}},
    "NumPy, unless range alone": {"index_check": {"flags_of_index": 0, "small_marks": 0}},
}
choices = pytest.mark.parametrize("choice", list(CHOICES))


def elements_rule(layout, index_type, sizes, axis):
    return index_rule(spec_of(layout, index_type), sizes, range(axis, axis + 1), unique=True)


def tuples_rule(layout, index_type, sizes):
    axes = range(layout.sizes[-1])
    return index_rule(spec_of(layout, index_type), sizes, axes, has_tuples=True, unique=True)


def spec_of(layout, index_type):
    return TensorSpec.of(layout, element_type(index_type), base_alignment=1)


@st.composite
def rules(draw):
    """A rule, and the memory of its indices, all in range."""
    index_type, has_tuples = draw(st.sampled_from(INDEX_TYPES)), draw(st.booleans())
    if has_tuples:
        sizes = draw(st.lists(st.sampled_from((1, 2, 5, 40, 1000)), min_size=1, max_size=3).map(tuple))
        length = draw(st.integers(1, len(sizes)))
        index_sizes = (*draw(tensor_sizes(0, 3, max_size=40, max_elements=400)), length)
        limit = min(sizes[:length])
    else:
        index_sizes = draw(tensor_sizes(1, 4, max_size=40, max_elements=400))
        axis = draw(st.integers(0, len(index_sizes) - 1))
        limit = index_sizes[axis] + draw(st.sampled_from((0, 1, 60, 5000)))
        sizes = tuple(limit if at == axis else size + draw(st.integers(0, 2)) for at, size in enumerate(index_sizes))
    layout = lowest_at_zero(draw(layouts_of(index_sizes)))
    rng = np.random.default_rng(draw(seeds))
    if layout.span <= limit and draw(st.booleans()):
        numbers = rng.permutation(limit)[: layout.span]
    else:
        numbers = rng.integers(0, limit, layout.span)
    if index_type.startswith("i"):
        numbers -= limit * rng.integers(0, 2, layout.span)
    rule = tuples_rule(layout, index_type, sizes) if has_tuples else elements_rule(layout, index_type, sizes, axis)
    return rule, numbers.astype(index_type)


def names_of(rule, numbers):
    """The element that each index names, by position in row-major order."""
    values = as_array(rule.index.layout, numbers)
    names = {}
    for at in np.ndindex(values.shape[: values.ndim - rule.has_tuples]):
        found = values[at].tolist() if rule.has_tuples else [values[at].item()]
        places = [number % size for number, (_, size) in zip(found, rule.axes, strict=True)]
        if rule.has_tuples:
            names[at] = tuple(places)
        else:
            (axis, _), *_ = rule.axes
            names[at] = (*at[:axis], *places, *at[axis + 1 :])
    return names


def first_pair(names):
    """The first two positions with the least name that occurs twice; None if all are distinct."""
    places: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for at, name in names.items():
        places.setdefault(name, []).append(at)
    twice = min((name for name, found in places.items() if len(found) > 1), default=None)
    return None if twice is None else places[twice][:2]


@contextmanager
def threads(count):
    """So many threads work on every call."""
    policies = policy_with(
        index_check={"shared_bytes": 0 if count > 1 else 1 << 40},
        sharing={"waking_bytes": 0},
    )
    with policies, pytest.MonkeyPatch.context() as patch:
        patch.setattr(thread_count, "_chosen", count)
        patch.setattr(thread_count.SHARED, "several", count > 1)
        yield


@needs_library
@choices
@pytest.mark.parametrize("count", [1, 2], ids=["1 thread", "2 threads"])
@given(case=rules())
def test_a_native_check_knows_whether_all_indices_are_distinct(choice, count, case):
    rule, numbers = case
    wanted = first_pair(names_of(rule, numbers)) is None
    with policy_with(**CHOICES[choice]), threads(count):
        distinct = native_index_check(rule)
        assert distinct is None or distinct(numbers.ctypes.data) == wanted


@pytest.mark.parametrize("flags", [0, 1 << 40], ids=["sorted", "flags"])
@given(case=rules())
def test_numpy_names_the_first_pair(flags, case):
    rule, numbers = case
    pair = first_pair(names_of(rule, numbers))
    with policy_with(index_check={"flags_of_index": flags}):
        if pair is None:
            check_indices(rule, numbers.view(np.uint8))
            return
        values = as_array(rule.index.layout, numbers)
        with pytest.raises(IndexError) as raised:
            check_indices(rule, numbers.view(np.uint8))
    assert str(raised.value) == rule.named_twice(*pair, [values[place].tolist() for place in pair])


def square(index_type="int64", axis=1, sizes=(40, 100)):
    """Permutations along one axis, and a rule for them: the axis has an element more, which none of them names."""
    data_sizes = tuple(size + (place == axis) for place, size in enumerate(sizes))
    numbers = np.argsort(np.random.default_rng(3).random(sizes), axis).astype(index_type)
    return elements_rule(Layout(sizes), index_type, data_sizes, axis), numbers


@needs_library
@choices
@index_types
@pytest.mark.parametrize("axis", [0, 1])
def test_one_duplicate_or_wrong_index_anywhere_is_found(choice, index_type, axis):
    rule, numbers = square(index_type, axis)
    count, info = numbers.shape[axis], np.iinfo(index_type)
    size = count + 1
    wrong = (size, info.max, *((-size - 1, info.min) if info.min else ()))
    with policy_with(**CHOICES[choice]):
        distinct = native_index_check(rule)
    if distinct is None:
        assert choice.startswith("NumPy")
        return
    address = numbers.ctypes.data
    assert distinct(address)
    for place in ((0, 0), (0, 99), (7, 8), (20, 50), (39, 1), (39, 99)):
        before = numbers[place]
        for number in (*wrong, (before + 1) % count, *([(before + 1) % count - size] if info.min else [])):
            numbers[place] = number
            assert not distinct(address), (place, number)
        numbers[place] = before - size if info.min else before
        assert distinct(address)
        numbers[place] = before


@needs_library
@index_types
@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 9])
@pytest.mark.parametrize("count", [3, 70])
def test_each_number_of_a_tuple_is_in_its_own_axis(index_type, length, count):
    sizes = tuple(range(2, 2 + length))
    rule = index_rule(spec_of(Layout((count, length)), index_type), sizes, range(length), has_tuples=True, unique=False)
    numbers, within = np.zeros((count, length), index_type), native_index_check(rule)
    lowest = 0 if index_type.startswith("u") else -1
    for place in np.ndindex(numbers.shape):
        size = sizes[place[1]]
        for number, is_valid in ((size, False), (size - 1, True), (lowest * size, True), (lowest * size - 1, False)):
            if number >= 0 or lowest:
                numbers[place] = number
                assert within(numbers.ctypes.data) == is_valid
        numbers[place] = 1


@needs_library
@choices
@pytest.mark.parametrize("at_end", [False, True], ids=["fence before", "fence behind"])
@given(case=rules(), seed=seeds)
def test_whatever_indices_hold_no_memory_but_the_marks_is_touched(choice, at_end, case, seed):
    """Another thread may change indices at any moment: they are as good as random bits."""
    rule, numbers = case
    rng = np.random.default_rng(seed)
    with policy_with(**CHOICES[choice]):
        call = plan_index_check(rule)
    if call is None:
        return
    indices, memory = Fenced(numbers.nbytes, rng, at_end=at_end), Fenced(call.memory_bytes, rng, at_end=at_end)
    memory.bytes[:] = 0
    loop, fields = call.loop()
    parameters = (ctypes.c_int64 * len(fields))(*fields)
    loop.alone(indices.address + call.offset, memory.address, ctypes.addressof(parameters), 0, call.items)
    assert set(memory.bytes.tolist()) <= {0, 1}
    assert call.marks or not memory.bytes[8:].any()


def test_how_many_bytes_are_marked():
    def marks(layout, sizes, axis=None):
        rule = tuples_rule(layout, "int64", sizes) if axis is None else elements_rule(layout, "int64", sizes, axis)
        call = plan_index_check(rule)
        return None if call is None else call.marks

    with policy_with(index_check={"flags_of_index": 32, "small_marks": 0}):
        assert marks(Layout((100, 1)), (3200, 5)) == 3200
        assert marks(Layout((100, 1)), (3201, 5)) is None  # NumPy sorts them
        assert marks(Layout((100, 50)), (100, 1600), 1) == 160_000
        assert marks(Layout((100, 50)), (100, 1601), 1) is None
        assert marks(Layout((100, 50)), (100, 50), 0) == 5000
        assert marks(Layout((100,)), (100,), 0) == 100
        assert marks(Layout((101,)), (100,), 0) is None  # more than there are elements
        assert marks(Layout((5, 3), (0, 1)), (5, 3), 0) is None  # each is repeated for one element
        assert marks(Layout((5, 3), (0, 1)), (5, 3), 1) == 3  # and here for others: seen once
    with policy_with(index_check={"small_marks": 5000}):
        assert [marks(Layout((2, 1)), (size, 5)) for size in (5000, 5001)] == [5000, None]
        assert marks(Layout((32, 1)), (5000, 5)) == 5000


@needs_library
@choices
def test_callers_at_once_have_memory_of_their_own(choice):
    with policy_with(**CHOICES[choice]), threads(2):
        rule, numbers = square(sizes=(400, 100))
        distinct = native_index_check(rule)
        if distinct is None:
            return
        wrong = numbers.copy()
        wrong[399, 98] = wrong[399, 99]

        def right_every_time(_):
            both = (numbers, True), (wrong, False)
            return all(distinct(array.ctypes.data) == wanted for array, wanted in both * 20)

        with ThreadPoolExecutor(4) as callers:
            assert all(callers.map(right_every_time, range(8)))


@cpu_paths
@index_types
def test_a_duplicate_is_named_and_nothing_is_written(path, index_type):
    _, numbers = square(index_type)
    numbers[7, 60] = numbers[7, 20]
    out = sg.asarray(np.full((40, 100), 5, np.float32))
    data, updates = np.zeros((40, 100), np.float32), np.ones((40, 100), np.float32)
    number = numbers[7, 20]
    with (
        picking_by(path),
        pytest.raises(IndexError, match=rf"indices\[7, 20\] = {number} and indices\[7, 60\] = {number} name the same"),
    ):
        sg.scatter_elements(data, numbers, updates, 1, unique=True, out=out)
    assert (out.numpy() == 5).all()


@needs_library
def test_a_duplicate_that_is_mended_during_the_check_is_none(monkeypatch):
    numbers = np.array([[3], [4], [3]])
    looked = []

    def mending(rule, memory):
        looked.append(memory.nbytes)
        numbers[2] = 5
        check_indices(rule, memory)

    monkeypatch.setattr(cpu_gather, "check_indices", mending)
    out = sg.zeros((10,), "float32")
    with picking_by("native, 1 thread"):
        sg.scatter_nd(out, numbers, np.ones(3, np.float32), unique=True, out=out)
    assert looked == [24]
    assert np.flatnonzero(out.numpy()).tolist() == [3, 4, 5]


@needs_library
def test_without_memory_for_tables_nothing_is_written(monkeypatch):
    def zeros(*_):
        raise MemoryError

    data, updates = sg.zeros((1000,), "float32"), sg.asarray(np.ones(1000, np.float32))
    numbers, out = sg.asarray(np.arange(1000)), sg.zeros((1000,), "float32")
    with picking_by("native, 1 thread"), monkeypatch.context() as patch:
        patch.setattr(index_check.np, "zeros", zeros)
        with pytest.raises(sg.DeviceError, match="no 1088 bytes of memory left to check indices"):
            sg.scatter_elements(data, numbers, updates, unique=True, out=out)
    assert not out.numpy().any()


@needs_library
def test_an_index_that_is_mended_during_the_check_is_looked_at_again(monkeypatch):
    numbers = np.zeros(1000, np.int64)
    numbers[500] = 2**40
    looked = []

    def mending(rule, memory):
        assert rule.index.layout.span * 8 == memory.nbytes
        looked.append(numbers[500])
        numbers[500] = 3

    monkeypatch.setattr(cpu_gather, "check_indices", mending)
    table, out = np.arange(50, dtype=np.float32), sg.empty((1000,), "float32")
    with picking_by("native, 1 thread"):
        sg.gather(table, numbers, out=out)
    assert looked == [2**40]
    assert out.numpy()[[499, 500]].tolist() == [0, 3]


@needs_library
@pytest.mark.parametrize("places, is_allowed", [((0, 5, 3, 99, 99), False), ((99, 99, 3, 0, 5), True)])
def test_the_indices_that_are_checked_are_those_from_the_start_on(places, is_allowed):
    """The memory before a buffer has other indices, which neither the native check nor NumPy's may read."""
    memory = np.array(places, np.int64)
    indices = Buffer(memory.ctypes.data + 16, 24, owner=memory)
    rule = index_rule(spec_of(Layout((2,)), "int64"), (6,), range(1))
    if is_allowed:
        assert cpu_gather.check_by(rule, (indices, 8)) is not None
    else:
        with pytest.raises(IndexError, match="99"):
            cpu_gather.check_by(rule, (indices, 8))
