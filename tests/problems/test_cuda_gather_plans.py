"""Plans of gather and scatter on a GPU: families, widths, and the machine code that has them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from harness.emulator import machine_code
from harness.emulator.launched import unspilled
from harness.emulator.marks import inspected
from harness.gather_cases import MODES, Case, inner_case
from harness.kernel_names import policy_of
from harness.plans import chosen_gather

from stridedgpu import Layout, LayoutError
from stridedgpu.devices.cuda.gather import GatherFamily, gather_launch
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU, GpuProperties
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.problems.gather_problem import elements_problem, gather_problem, tuples_problem
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.tensor_spec import TensorSpec


def row_plan(
    sizes, strides=None, out_strides=None, dtype="float32", alignment=32, count=100, number="int32", widest=16
):
    element = element_type(dtype)
    out_sizes = (count, *sizes[1:])
    problem = gather_problem(
        TensorSpec(Layout(sizes, strides), element, alignment),
        TensorSpec(Layout((count,)), element_type(number), 32),
        TensorSpec(Layout(out_sizes, out_strides), element, 32),
        0,
    )
    return chosen_gather(problem, widest=widest)


def element_plan(data, indices, axis=0, dtype="float32", number="int64", strides=None, index_strides=None):
    element = element_type(dtype)
    problem = elements_problem(
        TensorSpec(Layout(data), element, 32),
        TensorSpec(Layout(indices, index_strides), element_type(number), 32),
        TensorSpec(Layout(indices, strides), element, 32),
        axis,
        scatters=False,
    )
    return chosen_gather(problem)


def tuple_plan(data, indices, dtype="float32", number="int64"):
    element = element_type(dtype)
    sides = TensorSpec(Layout(data), element, 32), TensorSpec(Layout(indices), element_type(number), 32)
    dense = TensorSpec(Layout((*indices[:-1], *data[indices[-1] :])), element, 32)
    return chosen_gather(tuples_problem(*sides, dense, 0, scatters=False))


@pytest.mark.parametrize(
    "plan, family, load, store, index, limit",
    [
        (row_plan((50, 128)), "rows", 16, 16, 4, ""),
        (row_plan((50, 8), dtype="uint8"), "rows", 8, 8, 4, "a multiple of 8 only"),
        (row_plan((50, 22), dtype="uint8"), "rows", 2, 2, 4, "apart, a multiple of 2 only; pad that to 32 for 16"),
        (row_plan((50, 6), dtype="uint8"), "short_rows", 2, 8, 16, "4 rows are 24 B"),
        (row_plan((50, 3), dtype="uint8", number="int64"), "short_rows", 1, 4, 16, "4 rows are 12 B"),
        (row_plan((50, 3)), "short_rows", 4, 16, 16, ""),
        (row_plan((50, 3), dtype="uint8", count=3), "rows", 1, 1, 4, "start 3 B apart"),
        (row_plan((50, 3), None, (4, 1), dtype="uint8"), "rows", 1, 1, 4, "start 3 B apart"),
        (row_plan((50, 15), (17, 1)), "rows", 4, 4, 4, "a multiple of 4 only"),
        (row_plan((50, 100), (101, 1)), "shifted_rows", 4, 16, 4, "vectors are put together from words"),
        (row_plan((50, 99), dtype="uint8", number="int64"), "shifted_rows", 4, 16, 8, "put together from words"),
        (row_plan((50, 101), dtype="float16"), "shifted_rows", 4, 16, 4, "put together from words"),
        (row_plan((50, 63), dtype="uint8"), "rows", 1, 1, 4, "start 63 B apart"),
        (row_plan((50, 101), dtype="float64"), "rows", 8, 8, 4, "start 808 B apart"),
        (row_plan((50, 99), (100, 1), (104, 1)), "rows", 16, 16, 4, ""),
        (row_plan((50, 128), alignment=8), "rows", 8, 8, 4, "known to lie at a multiple of 8 B"),
        (row_plan((50, 16, 16, 4), dtype="float16"), "rows", 16, 16, 4, ""),
        (row_plan((50,)), "elements", 4, 16, 16, ""),
        (row_plan((50,), dtype="uint8", number="int64"), "elements", 1, 4, 16, "up to 4 numbers for each vector"),
        (row_plan((50, 8), (1, 50), (1, 100)), "inner", 4, 16, 16, ""),
        (element_plan((50, 40), (50, 40)), "elements", 4, 16, 16, ""),
        (element_plan((50, 40), (50, 40), dtype="float16", number="int32"), "elements", 2, 8, 16, "up to 4 numbers"),
        (element_plan((50, 40), (50, 40), dtype="float64"), "elements", 8, 16, 16, ""),
        (element_plan((50, 40), (50, 40), dtype="complex128"), "elements", 16, 16, 8, ""),
        (element_plan((50, 39), (50, 39), 1), "elements", 4, 4, 8, "start 156 B apart"),
        (element_plan((50, 40), (50, 40), index_strides=(1, 50)), "elements", 4, 16, 8, ""),
        (element_plan((50, 40), (50, 40), strides=(1, 50)), "elements", 4, 8, 8, "start 200 B apart"),
        (element_plan((50, 3), (50, 3), strides=(4, 1)), "elements", 4, 8, 8, "a row has 3 elements"),
        (tuple_plan((50, 40), (64, 2)), "nd", 4, 8, 16, "up to 4 numbers"),
        (tuple_plan((5, 6, 7, 8, 9), (64, 5)), "nd", 4, 4, 8, "up to 4 numbers"),
    ],
    ids=lambda value: value.kernel if hasattr(value, "kernel") else "",
)
def test_plans(plan, family, load, store, index, limit):
    assert (str(plan.family), plan.load.nbytes, plan.store.nbytes) == (family, load, store)
    assert plan.index.nbytes == index
    assert min(plan.load.nbytes, plan.store.nbytes) == min(load, store)
    assert limit in plan.store.limit
    text = " ".join(plan.describe())
    assert f"stores {store} B" in text
    assert f"{plan.problem.bytes_moved} bytes must move" in text
    assert "axis 0 of size 50" in text or "axis 0 of size 5" in text or "axis 1 of size 39" in text


def test_an_index_that_does_not_vary_along_the_row_is_a_row_gather():
    element = element_type("float32")
    sides = (
        TensorSpec(Layout((30, 64)), element, 32),
        TensorSpec(Layout((9, 64), (1, 0)), element_type("int64"), 8),
        TensorSpec(Layout((9, 64)), element, 32),
    )
    plan = chosen_gather(elements_problem(*sides, 0, scatters=False))
    assert (plan.family, plan.load.nbytes, plan.store.nbytes) == (GatherFamily.ROWS, 16, 16)
    assert plan.problem.index_count == 9


def test_wide_tensors_have_wide_offsets_and_nothing_is_nothing():
    assert row_plan((2**20, 2**12)).index_bits == 64
    assert row_plan((2**18, 2**12)).index_bits == 32
    with pytest.raises(LayoutError, match="nothing to launch"):
        gather_launch(row_plan((5, 0)), REFERENCE_GPU)


SHIFTED = ((1001, "uint8", 2**20), (99, "uint8", 2**20), (99, "uint8", 9), (130, "uint8", 2**20), (333, "float32", 50))
"""Runs that begin anywhere: of one, two and four steps, and of several chunks at once."""


def inspected_launches() -> list[tuple[Any, Any]]:
    """A launch for every width of rows, and one of each other kernel and mode."""
    plans = [
        row_plan((5000, 64 * n), dtype=t, count=100000, number=i)
        for n, t, i in (
            (1, "uint8", "int32"),
            (1, "float16", "int64"),
            (4, "float32", "uint32"),
            (32, "float32", "uint64"),
        )
    ]
    plans += [row_plan((50, run), dtype="uint8") for run in (1000, 20, 6, 7, 3, 18)] + [row_plan((50, 3))]
    plans += [row_plan((50, run), dtype=t, count=count) for run, t, count in SHIFTED]
    cases = [
        Case(operation, (60, 50, 40), sizes, 0, itemsize, number, mode, 1, packed=True)
        for (operation, sizes), itemsize, (number, mode) in zip(
            [
                ("gather_elements", (60, 50, 40)),
                ("gather_nd", (10, 2)),
                ("gather_nd", (10, 3)),
                ("scatter_elements", (60, 50, 40)),
                ("scatter_nd", (10, 1)),
                ("gather_elements", (60, 50, 40)),
            ],
            (4, 8, 1, 2, 4, 16),
            (
                ("int64", "raise"),
                ("int32", "clip"),
                ("uint32", "wrap"),
                ("int64", "raise"),
                ("int32", "raise"),
                ("int64", "deferred"),
            ),
            strict=True,
        )
    ]
    cases += [inner_case(50, "int64", mode, 4, 1) for mode in MODES]
    plans += [case.plan for case in cases]
    shifted = next(plan for plan in plans if plan.family is GatherFamily.SHIFTED_ROWS)
    wide = [dataclasses.replace(plan, index_bits=64) for plan in [shifted, *plans[:1], *plans[-6:]]]
    return [(plan, gather_launch(plan, REFERENCE_GPU)) for plan in plans + wide]


def check_machine_code(launches: list[tuple[Any, Any]], architecture: str) -> None:
    """Nothing spilled, and the widths of the plans."""
    code = unspilled([launch for _, launch in launches], architecture)
    for plan, launch in launches:
        made = code[launch.name]
        for width in (plan.load.nbytes, plan.index.nbytes):
            assert made.loads[8 * width], (launch.name, made.loads)
        assert made.stores[8 * plan.store.nbytes], (launch.name, made.stores)


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("architecture", machine_code.ARCHITECTURES)
def test_kernels_compile_without_spills_and_with_the_planned_widths(architecture):
    check_machine_code(inspected_launches(), architecture)


@inspected
@pytest.mark.parametrize("number", ["int32", "int64"])
def test_a_thread_has_several_rows_under_way_and_waits_twice(number):
    """Indices are all asked for before one is looked at, then all rows: no row waits for the one before."""
    plan = row_plan((5000, 64), count=1_000_000, number=number)
    launch = gather_launch(plan, REFERENCE_GPU)
    made = machine_code.compile_kernels(joined_source(*launch.sources), [launch.name], "sm_90")[launch.name]
    index, row = (64 if number == "int64" else 32), 128
    report = [64] if index == 64 else []  # whether the check of the indices found one that is wrong
    loads = [width for width in made.load_bits if width in (index, row)]
    assert loads[: len(report) + 6] == report + [index] * 2 + [row] * 4


@pytest.mark.parametrize("count, items", [(4_000, 1), (20_000, 2), (700_000, 4)])
def test_a_launch_of_few_waves_has_fewer_rows_under_way(count, items):
    """Rows of 64 B, 4 lanes each, on 132 multiprocessors: from two blocks each on, and from eighty."""
    launch = gather_launch(row_plan((5000, 16), count=count, number="int32"), REFERENCE_GPU)
    assert policy_of(launch.name)["items"] == str(items)


SHAPES = {
    # bytes of a row, rows, widest access: lanes of a group, vectors of a lane, chunks of a thread, whole chunks alone
    "one vector": (16, 1 << 20, 16, (1, 1, 2, "true")),
    "a cache line": (128, 1 << 20, 16, (8, 1, 4, "true")),
    "two cache lines": (256, 1 << 20, 16, (8, 2, 2, "true")),
    "four cache lines": (512, 1 << 20, 16, (8, 4, 1, "true")),
    "four cache lines of wide vectors": (512, 1 << 20, 32, (8, 2, 1, "true")),
    "four cache lines, few rows": (512, 1000, 16, (32, 1, 1, "true")),
    "some cache lines": (528, 1 << 20, 16, (16, 4, 1, "false")),
    "three chunks of twelve cache lines": (1536, 1 << 20, 16, (8, 4, 1, "true")),
    "a page": (4096, 1 << 20, 16, (32, 4, 1, "true")),
    "vectors and a bit": (516, 1 << 20, 4, (32, 4, 1, "false")),
}


@pytest.mark.parametrize("name", SHAPES)
def test_groups_load_cache_lines_and_threads_few_chunks_of_many_vectors(name):
    nbytes, count, widest, expected = SHAPES[name]
    launch = gather_launch(row_plan((99, nbytes // 4), count=count, number="int32", widest=widest), REFERENCE_GPU)
    policy = policy_of(launch.name)
    assert (*(int(policy[key]) for key in ("lanes", "steps", "items")), policy["exact"]) == expected
    lanes, steps, items, _ = expected
    chunks = count * -(-nbytes // (lanes * steps * int(policy["bytes"])))
    assert launch.grid[0] == -(-chunks // (256 // lanes * items))


@inspected
def test_vectors_of_a_chunk_share_an_address():
    """Rows of whole chunks: the second vector of a lane lies at a constant distance from the first."""
    launch = gather_launch(row_plan((99, 128), count=1 << 20, number="int32"), REFERENCE_GPU)
    made = machine_code.disassembled(joined_source(*launch.sources), [launch.name], "sm_90")[launch.name]
    lines = [line for line in made.text.splitlines() if ".E.128 " in line]
    assert len(lines) == 8
    assert sum(f"+{128 * step:#x}]" in line for line in lines for step in (1, 2, 3)) == 6
    assert not any("@" in line for line in lines)
    assert made.registers <= 32


@inspected
@pytest.mark.parametrize("architecture", ["sm_100", pytest.param("sm_120", marks=pytest.mark.slow)])
@pytest.mark.parametrize("row, nbytes", [(8, 16), (24, 16), (32, 32), (1024, 32)])
def test_wide_accesses_to_rows_of_a_cache_line_where_the_gpu_has_them(architecture, row, nbytes):
    gpu = GpuProperties("a newer GPU", 100, 148, 227 * 1024, 48 * 1024)
    plan = row_plan((5000, row), count=100_000, number="int64", widest=gpu.widest_access)
    assert (plan.load.nbytes, plan.store.nbytes) == (nbytes, nbytes)
    launch = gather_launch(plan, gpu)
    made = machine_code.compile_kernels(joined_source(*launch.sources), [launch.name], architecture)[launch.name]
    assert made.local_accesses == 0
    assert made.loads[8 * nbytes]
    assert made.stores[8 * nbytes]
