"""The CUDA kernels of gather and scatter: executed under sanitizers, with good and bad indices."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import numpy as np
import pytest
from harness.emulator.chosen import few
from harness.emulator.marks import emulated
from harness.gather_cases import MODES, NUMBERS, SMALL_GPU, Case, check_cases, inner_case
from harness.kernel_names import policy_of

from stridedgpu.devices.cuda.gather import GatherFamily
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU


def row_cases() -> list[Case]:
    """Rows of every size of element, whole vectors and not, a few and many."""
    cases = []
    for seed, (run, itemsize) in enumerate([(1000, 1), (6, 1), (48, 2), (33, 4), (16, 4), (300, 4), (40, 8), (5, 16)]):
        number, mode = NUMBERS[seed % 4], MODES[(seed + seed // 4) % 4]
        for more in range(3):
            cases.append(Case("gather", (9, run), (5, 4), 0, itemsize, number, mode, 100 * seed + more, packed=True))
            cases.append(
                Case("gather", (9, run), (150,), 0, itemsize, number, mode, 100 * seed + 50 + more, True, gpu=SMALL_GPU)
            )
    return cases


def whole_chunk_cases() -> list[Case]:
    """Rows of powers of two: every lane has every vector; the last group of a block has no row."""
    cases = [
        Case(
            operation,
            (9 if operation == "gather" else rows, row),
            index_sizes,
            0,
            itemsize,
            number,
            mode,
            row,
            True,
            **more,
        )
        for (row, itemsize), number, mode in zip(
            [(64, 2), (256, 1), (128, 4), (256, 8)], NUMBERS, ("raise", "deferred", "wrap", "clip"), strict=True
        )
        for rows in (3, 149, 301)
        for more in ({"gpu": SMALL_GPU}, {"gpu": SMALL_GPU, "index_bits": 64})
        for operation, index_sizes in (("gather", (rows,)), ("scatter_nd", (rows - 1, 1)))
        if operation == "gather" or mode == "raise"
    ]
    policies = [policy_of(case.launch.name) for case in cases]
    assert {policy["exact"] for policy in policies} == {"true"}
    assert {policy["steps"] for policy in policies} == {"1", "2", "4"}
    assert {policy["items"] for policy in policies} >= {"1", "2", "4"}
    return cases


def ending_cases() -> list[Case]:
    """Rows of some vectors and a few elements more, in pitches of whole vectors."""
    return [
        Case("gather", (9, row), (23,), 0, itemsize, "int32", mode, row, True, row_pitch=pitch, indexed_pitch=pitch)
        for mode, (row, pitch, itemsize) in zip(
            MODES, [(17, 18, 8), (37, 40, 4), (101, 128, 2), (33, 34, 8)], strict=True
        )
    ]


def several_vector_cases() -> list[Case]:
    """So many elements for so small a GPU that a thread has several vectors."""
    many = {"packed": True, "gpu": SMALL_GPU}
    cases = [Case("gather_elements", (30, 301), (21, 301), 0, 1, "int32", "wrap", 1, **many)]
    cases.append(Case("scatter_elements", (30, 301), (21, 301), 0, 4, "int64", "raise", 2, **many))
    assert all(".items = 1," not in case.launch.name for case in cases)
    return cases


def shifted_case(operation: str, row: int, itemsize: int, seed: int, rows: int = 9, **more: Any) -> Case:
    number, mode = NUMBERS[seed % 4], MODES[seed % 4] if operation == "gather" else "raise"
    index_sizes = (rows + 2,) if operation == "gather" else (rows - 2, 1)
    return Case(operation, (rows, row), index_sizes, 0, itemsize, number, mode, seed, packed=True, **more)


def shifted_cases(operation: str) -> list[Case]:
    """Heads, tails and words at the very ends of the buffers; rows of one chunk and of several, packed and apart."""
    cases = []
    for seed, (row, itemsize) in enumerate([(65, 1), (99, 1), (127, 2), (2111, 1), (77, 4), (1025, 2)]):
        kernel = shifted_case(operation, row, itemsize, seed, alignment=itemsize)
        apart = dataclasses.replace(kernel, row_pitch=row + 2, alignment=4)
        cases += [kernel, apart, dataclasses.replace(apart, seed=seed + 4)]
    cases += [shifted_case(operation, 99, 1, seed, 200, alignment=1, gpu=SMALL_GPU) for seed in range(2)]
    cases.append(shifted_case(operation, 99, 1, 7, alignment=1, index_bits=64))
    assert {case.plan.family for case in cases} == {GatherFamily.SHIFTED_ROWS}
    return cases


def generated(operation: str, kernels: int, per_kernel: int) -> list[Case]:
    """Cases of all kinds of layouts until there are so many kernels with so many cases each."""
    rng = np.random.default_rng(len(operation))
    found: dict[str, list[Case]] = {}
    for seed in itertools.count():
        rank = int(rng.integers(1, 5))
        sizes = tuple(int(size) for size in rng.integers(1, 7, rank))
        axis = int(rng.integers(0, rank))
        if operation == "gather":
            index_sizes = tuple(int(size) for size in rng.integers(1, 6, rng.integers(0, 3)))
        elif operation.endswith("nd"):
            axis = 0 if operation.startswith("scatter") else axis
            length = int(rng.integers(1, rank - axis + 1))
            count = int(rng.integers(1, 1 + min(5, int(np.prod(sizes[axis : axis + length])))))
            index_sizes = (*sizes[:axis], count, length)
        else:
            index_sizes = tuple(
                int(rng.integers(1, size + 1 if at != axis or operation.startswith("scatter") else 8))
                for at, size in enumerate(sizes)
            )
        case = Case(
            operation,
            sizes,
            index_sizes,
            axis,
            int(rng.choice([1, 2, 4, 8, 16])),
            str(rng.choice(NUMBERS)),
            str(rng.choice(MODES)) if operation.startswith("gather") else "raise",
            seed,
            packed=bool(rng.random() < 0.3),
            alignment=int(rng.choice([1, 4, 16])),
            index_bits=64 if rng.random() < 0.2 else None,
            gpu=SMALL_GPU if rng.random() < 0.3 else REFERENCE_GPU,
        )
        if 0 in case.plan.problem.sizes:
            continue
        together = found.setdefault(case.launch.name, []) if len(found) < kernels else found.get(case.launch.name, [])
        if len(together) < per_kernel:
            together.append(case)
        if seed > 4000 or (len(found) == kernels and all(len(some) == per_kernel for some in found.values())):
            return [case for together in found.values() for case in together]
    raise AssertionError


def vector_cases(operation: str) -> list[Case]:
    """Rows of whole vectors, and of some more; indices side by side, and apart."""
    cases = []
    modes = MODES if operation.startswith("gather") else ("raise",) * 4
    for itemsize, number, mode in zip((1, 2, 4, 8), NUMBERS, modes, strict=True):
        for seed, (row, pitch, alignment) in enumerate([(16, None, 16), (24, None, 4), (11, 12, 16), (17, 24, 8)]):
            if operation.endswith("nd"):
                for length, apart in ((1, False), (2, False), (3, False), (2, True)):
                    sizes, index = (5, 6, 7)[-length:], (row % 7 + 1 if operation == "scatter_nd" else row, length)
                    cases.append(
                        Case(operation, sizes, index, 0, itemsize, number, mode, seed, True, alignment)
                        if not apart
                        else Case(operation, sizes, index, 0, itemsize, number, mode, seed, True, tuples_apart=True)
                    )
                continue
            index_sizes = (5, row) if operation != "gather_inner" else (row,)
            case = Case(
                "gather" if operation == "gather_inner" else operation,
                (9, row) if operation != "gather_inner" else (27, 31),
                index_sizes,
                0 if operation != "gather_inner" else 1,
                itemsize,
                number,
                mode,
                seed,
                packed=True,
                alignment=alignment,
                row_pitch=pitch,
                gpu=SMALL_GPU if seed % 2 else REFERENCE_GPU,
                index_bits=64 if seed == 3 else None,
            )
            cases.append(case)
    return cases


def small_row_cases(mode: str) -> list[Case]:
    """Colours of a palette, and other rows of a few bytes; some rows are left over at the end."""
    cases = [
        Case("gather", (9, row), shape, 0, itemsize, number, mode, seed, packed=True, alignment=alignment)
        for seed, (row, itemsize, shape, number, alignment) in enumerate(
            [
                (3, 1, (40, 25), "int64", 16),
                (3, 1, (23,), "int32", 1),
                (3, 4, (31,), "uint32", 16),
                (6, 2, (5, 7), "uint64", 4),
                (10, 1, (12,), "int32", 8),
                (5, 1, (301,), "int64", 16),
            ]
        )
    ]
    assert {case.plan.family for case in cases} == {GatherFamily.SHORT_ROWS}
    return cases


def batched_row_cases() -> list[Case]:
    """An index of its own for each row of a batch: rows left over at the end lie beyond what is read."""
    cases = [
        Case("gather_nd", (count, 5, 3), (count, 1), 1, 1, "int32", mode, count, packed=True)
        for count, mode in zip((5, 6, 7, 9), MODES, strict=True)
    ]
    assert {case.plan.family for case in cases} == {GatherFamily.SHORT_ROWS}
    assert {case.plan.problem.indexed_strides[-2] for case in cases} == {15}
    return cases


def inner_cases(mode: str) -> list[Case]:
    """Elements along the innermost axis, rows of indices of every length."""
    cases = [inner_case(rows, number, mode, 4, rows) for rows in (2, 8, 21) for number in ("int32", "uint64")]
    cases.append(Case("gather", (9, 40), (1101,), 1, 4, "int32", mode, 1, packed=True, gpu=SMALL_GPU))
    assert {case.launch.block[0] for case in cases} == {256, 512}
    assert {case.plan.family for case in cases} == {GatherFamily.INNER}
    return cases


INDEXED = ("gather_elements", "gather_inner", "gather_nd", "scatter_elements", "scatter_nd")
GENERATED = ("gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd")
WRITTEN_OUT = {
    "rows": row_cases,
    "rows of whole chunks": whole_chunk_cases,
    "ends of rows": ending_cases,
    "several vectors a thread": several_vector_cases,
    **{f"{name} of rows anywhere": functools.partial(shifted_cases, name) for name in ("gather", "scatter_nd")},
    **{f"vectors of {name}": functools.partial(vector_cases, name) for name in INDEXED},
    **{f"short rows, {mode}": functools.partial(small_row_cases, mode) for mode in MODES},
    "short rows of batches": batched_row_cases,
    **{f"the inner axis, {mode}": functools.partial(inner_cases, mode) for mode in MODES},
}
TABLES = WRITTEN_OUT | {f"{name} of any layout": functools.partial(generated, name, 8, 6) for name in GENERATED}


@emulated
def test_a_few_kernels_of_each_source_under_sanitizers():
    check_cases(few(itertools.chain.from_iterable(table() for table in WRITTEN_OUT.values()), 3))


@emulated
def test_what_is_left_over_reads_no_further():
    check_cases(few(batched_row_cases(), 1))


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_every_kernel_under_sanitizers(table):
    check_cases(TABLES[table]())


@pytest.mark.parametrize("operation", INDEXED)
def test_vectors_of_indexed_elements_have_every_length(operation):
    cases = vector_cases(operation)
    lengths = {case.plan.dense.nbytes // case.itemsize for case in cases}
    assert lengths >= ({2, 4} if not operation.endswith("nd") else {1, 2, 4})
    assert {case.plan.index.nbytes for case in cases} >= {4, 8, 16}
