"""Which kernel gathers or scatters what, planned for a stated processor: nothing runs."""

from __future__ import annotations

import pytest
from harness.gather_walks import RUNS, VARIANTS, elements_of_rows, kernel_of, planned_as, side_of
from harness.native_loops import CLASSES, policy_with

from stridedgpu import Layout
from stridedgpu.devices.cpu.native.gather import GatherElements, plan_gather
from stridedgpu.devices.cpu.policy import Policy, using
from stridedgpu.problems.gather_problem import elements_problem, gather_problem, tuples_problem

LIMITS = {
    "item_bytes": range(1 << 16, 1 << 20),
    "row_registers": 16,
}
"""The thresholds of these tests, whatever the policy's are."""


@pytest.fixture(scope="module", autouse=True)
def a_stated_processor():
    with using(Policy.of(CLASSES["AVX-512 VBMI"])), policy_with(gather=LIMITS):
        yield


@pytest.mark.parametrize("variant", list(VARIANTS))
@pytest.mark.parametrize("nbytes", RUNS)
def test_steps_along_runs_of_every_length(variant, nbytes):
    count = 520 if nbytes <= 256 else 20
    data, index = side_of(Layout((30, nbytes)), "uint8"), side_of(Layout((count,)), "int32")
    with planned_as(variant):
        kernel = kernel_of(gather_problem(data, index, side_of(Layout((count, nbytes)), "uint8"), 0))
    if nbytes in (1, 2, 4, 8):
        assert kernel.lanes == (64 if variant == "single loads" else 64 // nbytes)
    else:
        assert kernel.long == (nbytes not in (1, 2, 4, 8, 16, 32, 64, 128, 256))


@pytest.mark.parametrize(
    "name, lanes", [("AVX2", 16), ("AVX-512F alone", 16), ("AVX-512", 16), ("AVX-512 VBMI", 64), ("AArch64", 16)]
)
def test_single_loads_take_as_many_at_once_as_the_librarys_level(name, lanes):
    with using(Policy.of(CLASSES[name])), planned_as("single loads"):
        assert kernel_of(elements_of_rows("float32", "int64", 60, 10, 10)).lanes == lanes


@pytest.mark.parametrize("sizes", [(100, 10), (100, 9), (100, 1000), (3, 1025)])
def test_items_of_a_scatter_have_whole_rows(sizes):
    layout = Layout(sizes)
    problem = elements_problem(
        side_of(layout, "float32"), side_of(layout, "int64"), side_of(layout, "float32"), 1, scatters=True
    )
    with policy_with(gather={"item_bytes": range(256, 257)}):
        call = plan_gather(problem, "raise")
    assert isinstance(call.kernel, GatherElements)
    assert call.parameters[19] % sizes[1] == 0
    assert not call.in_order


def test_without_the_best_level_no_rows_are_in_registers():
    for name in ("AVX2", "AVX-512F alone", "AVX-512", "AArch64"):
        with using(Policy.of(CLASSES[name])):
            assert isinstance(kernel_of(elements_of_rows("float32", "int64", 60, 100, 100)), GatherElements)


def test_rows_of_elements_are_gathered_as_vectors():
    square, index = side_of(Layout((300, 10)), "float32"), side_of(Layout((300, 10)), "int64")
    with policy_with(gather={"row_registers": 0}):
        for axis in (0, 1):
            assert isinstance(kernel_of(elements_problem(square, index, square, axis, scatters=False)), GatherElements)


@pytest.mark.parametrize(
    "element, size, width, kernel",
    [
        ("float32", 100, 100, "RowsInRegisters"),
        ("uint8", 1000, 1000, "RowsInRegisters"),
        ("uint8", 10, 10, "RowsInRegisters"),
        ("float32", 1000, 1000, "GatherElements"),
        ("int64", 128, 8, "GatherElements"),
    ],
)
def test_rows_are_in_registers_where_that_costs_less(element, size, width, kernel):
    problem = elements_of_rows(element, "int64", 60, size, width)
    assert type(kernel_of(problem)).__name__ == kernel
    assert type(kernel_of(problem, "wrap")) is GatherElements


def test_items_that_write_the_same_elements_are_done_in_order():
    square, index = side_of(Layout((30, 40)), "float32"), side_of(Layout((30, 40)), "int64")
    lines, columns = (elements_problem(square, index, square, axis, scatters=True) for axis in (1, 0))
    assert not plan_gather(lines, "raise").in_order
    assert plan_gather(columns, "raise").in_order
    rows = tuples_problem(
        square, side_of(Layout((9, 1)), "int64"), side_of(Layout((9, 40)), "float32"), 0, scatters=True
    )
    assert not plan_gather(rows, "raise").in_order
    pairs = tuples_problem(
        square, side_of(Layout((9, 8, 2), (20, 2, 1)), "int64"), side_of(Layout((9, 8)), "float32"), 0, scatters=True
    )
    assert plan_gather(pairs, "raise").in_order
