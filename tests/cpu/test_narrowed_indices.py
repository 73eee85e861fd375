"""Checks that write positions find every wrong index, and gathers by these positions do what others do."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from harness.compiled_loops import CLASSES, needs_compiler, ordinary_policy, policy_for, policy_with
from harness.cpu_paths import cpu_paths, picking_by
from harness.fenced_memory import Fenced
from harness.index_oracle import INDEX_TYPES
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices.cpu.compiled import index_check
from stridedgpu.devices.cpu.compiled.gather import gather_walk
from stridedgpu.devices.cpu.compiled.index_check import compiled_narrowing, narrowed
from stridedgpu.devices.cpu.operations import gather
from stridedgpu.devices.cpu.plan import CpuPlan
from stridedgpu.planning.gather_problem import elements_problem, gather_problem
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.tensor_spec import TensorSpec

ALWAYS = {"narrowed_bytes": 0, "item_indices": 200}
index_types = pytest.mark.parametrize("index_type", INDEX_TYPES)


@pytest.fixture(autouse=True, params=["all instruction sets", "AVX2"])
def positions_wherever_they_can_be(request):
    with ordinary_policy(), policy_with(index_check=ALWAYS), ExitStack() as narrow:
        if request.param == "AVX2":
            narrow.enter_context(policy_for(CLASSES["AVX2"].features | {"neon"}))
        yield


def packed(sizes, element):
    return TensorSpec.of(Layout(sizes), element_type(element), base_alignment=element_type(element).itemsize)


def table_problem(size, count, index_type, element="uint8"):
    """Elements of a table by number."""
    return gather_problem(packed((size,), element), packed((count,), index_type), packed((count,), element), 0)


@needs_compiler
@index_types
@pytest.mark.parametrize("size", [1, 7, 255, 256, 257, 65_535, 65_536])
@pytest.mark.parametrize("count", [64, 65, 200, 263, 1000])
def test_positions_of_all_valid_indices(index_type, size, count):
    problem, rng = table_problem(size, count, index_type), np.random.default_rng(count)
    least = -size if index_type.startswith("i") else 0
    numbers = rng.integers(least, size, count, index_type)
    numbers[:2] = least, size - 1
    memory = Fenced(numbers.nbytes, rng, at_end=count % 2 == 0)
    memory.bytes[:] = numbers.view(np.uint8)
    short = narrowed(problem)
    assert short.index.element.itemsize == (1 if size <= 256 else 2)
    are_within, place, held = compiled_narrowing(problem, short.index.element.itemsize)(memory.address)
    assert are_within
    found = held[place - held.ctypes.data :].view(short.index.element.name)
    assert np.array_equal(found, numbers.astype(np.int64) % size)


@needs_compiler
@index_types
def test_every_wrong_index_is_found(index_type):
    count, info = 1000, np.iinfo(index_type)
    numbers = np.zeros(count, index_type)
    positions = compiled_narrowing(table_problem(7, count, index_type), 1)
    wrong = (7, 262, info.max, *((-8, -249, info.min) if info.min else ()))
    for place in (0, 7, 8, 31, 199, 200, 263, 999):
        for number in wrong:
            numbers[place] = number
            assert not positions(numbers.ctypes.data)[0], (place, number)
        numbers[place] = 6
        assert positions(numbers.ctypes.data)[0]


@index_types
def test_only_checked_contiguous_short_indices_of_short_axes_are_narrowed(index_type):
    problem = table_problem(300, 1000, index_type)
    assert narrowed(problem).index.element.name == "uint16"
    assert narrowed(replace(problem, mode="clip")) is narrowed(replace(problem, mode="wrap")) is None
    assert narrowed(table_problem(65_537, 1000, index_type)) is None
    assert narrowed(table_problem(300, 16, index_type)) is None
    rows = gather_problem(packed((300, 16), "uint8"), packed((999,), index_type), packed((999, 16), "uint8"), 0)
    assert narrowed(rows) is None
    spread = TensorSpec.of(Layout((999,), (2,)), element_type(index_type), base_alignment=8)
    assert narrowed(gather_problem(packed((300,), "uint8"), spread, packed((999,), "uint8"), 0)) is None
    with policy_with(index_check={"most_position_bytes": 1999}):
        assert narrowed(problem) is None


KERNELS = {
    "rows in registers": {"load_cost": 1e9},
    "rows at positions": {"row_registers": 0, "far_bytes": 0},
}


@cpu_paths
@pytest.mark.parametrize("kernel", list(KERNELS))
@settings(max_examples=examples(60))
@given(st.data())
def test_gathers_by_positions_have_the_bits_of_take_along_axis(path, kernel, data):
    element = data.draw(st.sampled_from(("uint8", "float16", "float32", "int64")))
    index_type = data.draw(st.sampled_from(INDEX_TYPES))
    rows, width = data.draw(st.integers(1, 9)), data.draw(st.sampled_from((1, 9, 40, 64, 100, 257, 1030)))
    size = data.draw(st.sampled_from((1, 5, 100, 256, 1000, 3000)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    table = rng.integers(0, 256, (rows, size), np.uint8).astype(element)
    least = -size if index_type.startswith("i") else 0
    numbers = rng.integers(least, size, (rows, width), index_type)
    with picking_by(path), policy_with(gather=KERNELS[kernel]):
        got = sg.gather_elements(table, numbers, 1).numpy()
    assert np.array_equal(got, np.take_along_axis(table, numbers.astype(np.int64) % size, 1))


@needs_compiler
@pytest.mark.parametrize("element", ["uint8", "float16", "float32", "int64"])
def test_rows_at_positions_load_each_element(element):
    sizes = (5, 400)
    problem = elements_problem(
        packed(sizes, element), packed(sizes, "int64"), packed(sizes, element), 1, scatters=False
    )
    with policy_with(gather=KERNELS["rows at positions"]):
        assert type(gather_walk(narrowed(problem), "raise").kernel).__name__ == "RowsAtPositions"
        assert type(gather_walk(problem, "raise").kernel).__name__ == "RowsInMemory"


@needs_compiler
@pytest.mark.parametrize("planned, run", [(0, 1 << 62), (1 << 62, 0)], ids=["narrowed", "not narrowed"])
def test_a_plan_is_run_as_it_was_planned_whatever_the_policy_is_then(planned, run):
    problem = table_problem(300, 1000, "int64")
    table, numbers = np.arange(300).astype(np.uint8), np.arange(-300, 700) % 300
    out = np.zeros(1000, np.uint8)
    plan = CpuPlan(problem, gather.OPERATION, 1, shared=False)
    with policy_with(index_check={"narrowed_bytes": planned}):
        assert plan.compiled is not None
    with policy_with(index_check={"narrowed_bytes": run}):
        gather.OPERATION.run_compiled(plan)(*(array.ctypes.data for array in (out, table, numbers)))
    assert np.array_equal(out, table[numbers])


@needs_compiler
@pytest.mark.parametrize("wrong", [1000, -1001])
def test_a_wrong_index_is_named_and_nothing_is_written(wrong):
    table, numbers = np.zeros((9, 1000), np.float32), np.zeros((9, 1000), np.int64)
    numbers[7, 123] = wrong
    out = sg.asarray(np.full((9, 1000), 5, np.float32))
    with picking_by("compiled, 1 thread"):
        plan = sg.plan_gather_elements(table, numbers, 1, out=out)
        assert "their check writes positions of 2 B" in plan.explain()
        with pytest.raises(IndexError, match=rf"indices\[7, 123\] = {wrong} is out of range for axis 1 of size 1000"):
            plan(sg.asarray(table), sg.asarray(numbers), out)
    assert (out.numpy() == 5).all()


@needs_compiler
def test_an_index_that_is_mended_during_the_check_is_looked_at_again(monkeypatch):
    """The check has no position for it: nothing is read at one."""
    numbers = np.zeros(1000, np.int64)
    numbers[500] = 2**40
    looked = []

    def mending(rule, memory):
        assert rule.index.layout.span * 8 == memory.nbytes
        looked.append(numbers[500])
        numbers[500] = 3

    monkeypatch.setattr(gather, "check_indices", mending)
    table, out = np.arange(50, dtype=np.float32), sg.empty((1000,), "float32")
    with picking_by("compiled, 1 thread"):
        sg.gather(table, numbers, out=out)
    assert looked == [2**40]
    assert out.numpy()[[499, 500]].tolist() == [0, 3]


@needs_compiler
def test_without_memory_for_positions_nothing_is_written(monkeypatch):
    def empty(*_):
        raise MemoryError

    table, numbers = np.arange(50, dtype=np.float32), np.zeros(1000, np.int64)
    out = sg.zeros((1000,), "float32")
    with picking_by("compiled, 1 thread"):
        plan = sg.plan_gather(table, numbers, out=out)
        monkeypatch.setattr(index_check.np, "empty", empty)
        with pytest.raises(sg.DeviceError, match="no 1000 bytes of memory left to check indices"):
            plan(sg.asarray(table), sg.asarray(numbers), out)
    assert not out.numpy().any()
