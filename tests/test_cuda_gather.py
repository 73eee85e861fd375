"""The CUDA kernels of gather and scatter: executed under sanitizers with good and bad indices, compiled, inspected."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from typing import Any

import numpy as np
import pytest
from cuda_emulation import machine_code, runner
from cuda_emulation.runner import ORDERS, Buffer, Job, Pointer, Program, Record
from test_gather import gather_nd_by_definition

from stridedgpu import Layout, LayoutError, packed_strides
from stridedgpu.dtypes import element_type
from stridedgpu.kernel_sources import joined_source
from stridedgpu.planning.cuda_gather import LAUNCH_NUMBER_AT, gather_launch
from stridedgpu.planning.cuda_index_checks import (
    CHECK_REPORT_AT,
    REPORT,
    check_launch,
    distinct_launch,
    distinct_report_bytes,
    wrong_index,
)
from stridedgpu.planning.gather import GatherFamily, plan_gather
from stridedgpu.planning.gather_problem import elements_problem, gather_problem, tuples_problem
from stridedgpu.planning.gpu import REFERENCE_GPU, GpuProperties
from stridedgpu.planning.index_rule import IndexRule
from stridedgpu.planning.problem import Side

emulated = [
    pytest.mark.emulation,
    pytest.mark.skipif(runner.why_unavailable() is not None, reason=str(runner.why_unavailable())),
]
inspected = pytest.mark.skipif(machine_code.why_unavailable() is not None, reason=str(machine_code.why_unavailable()))

SMALL_GPU = GpuProperties("one multiprocessor", 90, 1, 227 * 1024, 16)
WORDS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}
LAUNCH = 7


def random_layout(rng, sizes, *, output=False, plain=False):
    """A layout with its lowest element at 0: permuted, padded, flipped and, for inputs, repeated; or packed."""
    if plain:
        return Layout(sizes)
    strides, step = [0] * len(sizes), int(rng.integers(1, 3))
    for axis in rng.permutation(len(sizes))[::-1] if rng.random() < 0.5 else range(len(sizes))[::-1]:
        if not output and rng.random() < 0.15:
            continue
        strides[axis] = step if rng.random() < 0.7 else -step
        step = step * max(sizes[axis], 1) + int(rng.integers(0, 4) * (rng.random() < 0.4))
    layout = Layout(sizes, strides)
    return layout.shifted(-layout.first_offset)


def bits_of(memory, side):
    """The elements of a side over its bytes."""
    itemsize = side.element.itemsize
    return np.ndarray(
        side.layout.sizes,
        WORDS[itemsize],
        memory,
        side.layout.offset * itemsize,
        [stride * itemsize for stride in side.layout.strides],
    )


def place_of(value, size, mode):
    """The place that an index means, and whether it is wrong."""
    wrong = not -size <= value < size
    if mode == "wrap":
        return value % size, wrong
    if mode == "clip":
        return min(max(value, 0), size - 1), wrong
    return min(max(value + size if value < 0 else value, 0), size - 1), wrong


@dataclasses.dataclass(eq=False)
class Case:
    """One gather or scatter with its memory, from a seed."""

    operation: str
    sizes: tuple[int, ...]
    index_sizes: tuple[int, ...]
    axis: int
    itemsize: int
    number: str
    mode: str
    seed: int
    plain: bool = False
    alignment: int = 16
    index_bits: int | None = None
    gpu: GpuProperties = REFERENCE_GPU
    wrong: bool = True
    row_pitch: int | None = None
    tuples_apart: bool = False

    @property
    def scatters(self):
        return self.operation.startswith("scatter")

    @property
    def tuples(self):
        return self.operation.endswith("nd")

    @functools.cached_property
    def rng(self):
        return np.random.default_rng(self.seed)

    @functools.cached_property
    def plain_sizes(self):
        if self.operation == "gather":
            return (*self.sizes[: self.axis], *self.index_sizes, *self.sizes[self.axis + 1 :])
        if self.tuples:
            return (*self.index_sizes[:-1], *self.sizes[self.axis + self.index_sizes[-1] :])
        return self.index_sizes

    @functools.cached_property
    def sides(self):
        """Picked, index and plain."""
        element, rng = element_type(WORDS[self.itemsize]), self.rng
        picked = random_layout(rng, self.sizes, output=self.scatters, plain=self.plain)
        index = random_layout(rng, self.index_sizes, output=self.scatters, plain=self.plain)
        plain = random_layout(rng, self.plain_sizes, output=not self.scatters, plain=self.plain)
        if self.row_pitch is not None:
            plain = Layout.padded(self.plain_sizes, None, 1, row_pitch_bytes=self.row_pitch)
        if self.tuples_apart:
            index = Layout(self.index_sizes, (1, self.index_sizes[0]))
        aligned = max(self.alignment, self.itemsize)
        return (
            Side(picked, element, aligned),
            Side(index, element_type(self.number), max(self.alignment, np.dtype(self.number).itemsize)),
            Side(plain, element, aligned),
        )

    @property
    def axes(self):
        return range(self.axis, self.axis + (self.index_sizes[-1] if self.tuples else 1))

    @functools.cached_property
    def plan(self):
        picked, index, plain = self.sides
        if self.operation == "gather":
            problem = gather_problem(picked, index, plain, self.axis)
        elif self.tuples:
            problem = tuples_problem(picked, index, plain, self.axis, scatters=self.scatters)
        else:
            problem = elements_problem(picked, index, plain, self.axis, scatters=self.scatters)
        plan = plan_gather(problem, self.mode, "cuda:0", self.gpu.widest_access)
        return plan if self.index_bits is None else dataclasses.replace(plan, index_bits=self.index_bits)

    @functools.cached_property
    def launch(self):
        return gather_launch(self.plan, self.gpu)

    @functools.cached_property
    def memories(self):
        """Bytes of the picked side, the indices and the plain side."""
        rng = self.rng
        picked, index, plain = (
            rng.integers(0, 256, side.layout.span * side.element.itemsize, np.uint8) for side in self.sides
        )
        limits = np.iinfo(self.number)
        size = min(self.sizes[axis] for axis in self.axes)
        numbers = index.view(self.number)
        numbers[:] = rng.integers(0 if limits.min == 0 else -size, size, numbers.size)
        if self.scatters:
            self._make_distinct(numbers)
        elif self.wrong and numbers.size:
            bad = [limits.min, limits.max, size, max(limits.min, -size - 1), 3 * size + 1, limits.max - 5]
            for _ in range(int(rng.integers(0, 4))):
                numbers[rng.integers(numbers.size)] = bad[rng.integers(len(bad))]
            if rng.random() < 0.1:
                numbers[:] = bad[rng.integers(len(bad))]
        return picked, index, plain

    def _make_distinct(self, numbers):
        """Indices that name no element twice, since a GPU does not promise which of several wins."""
        values = bits_of(numbers.view(np.uint8), self.sides[1]).view(self.number)
        if self.tuples:
            count = int(np.prod(self.index_sizes[:-1]))
            shape = tuple(self.sizes[axis] for axis in self.axes)
            chosen = self.rng.permutation(int(np.prod(shape)))[:count]
            tuples = np.stack(np.unravel_index(chosen, shape), -1).reshape(self.index_sizes)
            values[...] = tuples
        else:
            keys = self.rng.random(
                (*self.index_sizes[: self.axis], self.sizes[self.axis], *self.index_sizes[self.axis + 1 :])
            )
            values[...] = np.argsort(keys, self.axis).take(range(self.index_sizes[self.axis]), self.axis)

    @functools.cached_property
    def places(self):
        """The index values, where they lead, and the first wrong one as the report has it."""
        values = bits_of(self.memories[1], self.sides[1]).view(self.number)
        places = np.empty(values.shape, np.int64)
        first = None
        for number, at in enumerate(np.ndindex(values.shape)):
            component = at[-1] if self.tuples else 0
            places[at], wrong = place_of(int(values[at]), self.sizes[self.axes[component]], self.mode)
            if wrong and first is None:
                first = (number // (len(self.axes) if self.tuples else 1), component, int(values[at]))
        return places, first

    @functools.cached_property
    def expected(self):
        """The written side's bytes afterwards."""
        picked, _, plain = self.memories
        places, _ = self.places
        read, written = bits_of(picked, self.sides[0]), plain.copy()
        if self.scatters:
            written = picked.copy()
            into, updates = bits_of(written, self.sides[0]), bits_of(plain, self.sides[2])
            if self.tuples:
                for at in np.ndindex(places.shape[:-1]):
                    into[tuple(places[at])] = updates[at]
            else:
                window = tuple(slice(None) if a == self.axis else slice(n) for a, n in enumerate(self.index_sizes))
                np.put_along_axis(into[window], places, updates, self.axis)
            return written
        if self.operation == "gather":
            found = read.take(places, self.axis)
        elif self.tuples:
            found = gather_nd_by_definition(read, places, self.axis)
        else:
            window = tuple(slice(None) if a == self.axis else slice(n) for a, n in enumerate(self.index_sizes))
            found = np.take_along_axis(read[window], places, self.axis)
        bits_of(written, self.sides[2])[...] = found
        return written

    def job(self, order):
        picked, index, plain = (
            Buffer(memory, side.alignment) for memory, side in zip(self.memories, self.sides, strict=True)
        )
        report = Buffer(bytes(REPORT.size), 8)
        pair = (plain, picked) if self.scatters else (picked, plain)
        pointers = tuple((8 * n, Pointer(buffer)) for n, buffer in enumerate((*pair, index, report)))
        launch = self.launch
        parameters = bytearray(launch.parameters)
        parameters[LAUNCH_NUMBER_AT : LAUNCH_NUMBER_AT + 4] = LAUNCH.to_bytes(4, "little")
        record = Record(bytes(parameters), pointers)
        return Job(launch.name, launch.grid, launch.block, (record,), 0, order, self.seed, label=repr(self))

    def check(self, results):
        _, written, _, report = results
        assert written == self.expected.tobytes(), f"{self}\n{self.plan.explain()}"
        found = wrong_index(report, signed=self.number.startswith("i"))
        _, first = self.places
        if self.mode != "deferred" or first is None:
            assert found is None, self
        else:
            assert (found.launch, found.position, found.component, found.value) == (LAUNCH, *first), self


def check_cases(cases):
    """Run the cases in all thread orders, with as few programs as may be."""
    kernels: dict[tuple[str, ...], dict[str, list[Case]]] = {}
    for case in cases:
        kernels.setdefault(case.launch.sources, {}).setdefault(case.launch.name, []).append(case)
    for sources, named in kernels.items():
        program = Program.compile(joined_source(*sources), sorted(named))
        jobs = [(case, order) for together in named.values() for case in together for order in ORDERS]
        for (case, _), results in zip(jobs, program.run([case.job(order) for case, order in jobs]), strict=True):
            case.check(results)


MODES = ("raise", "clip", "wrap", "deferred")
NUMBERS = ("int32", "int64", "uint32", "uint64")


def test_rows_under_sanitizers():
    cases = []
    for seed, (run, itemsize) in enumerate([(1000, 1), (6, 1), (48, 2), (33, 4), (16, 4), (300, 4), (40, 8), (5, 16)]):
        number, mode = NUMBERS[seed % 4], MODES[(seed + seed // 4) % 4]
        for more in range(3):
            cases.append(Case("gather", (9, run), (5, 4), 0, itemsize, number, mode, 100 * seed + more, plain=True))
            cases.append(
                Case("gather", (9, run), (150,), 0, itemsize, number, mode, 100 * seed + 50 + more, True, gpu=SMALL_GPU)
            )
    check_cases(cases)


test_rows_under_sanitizers = functools.reduce(lambda test, mark: mark(test), emulated, test_rows_under_sanitizers)


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
            plain=bool(rng.random() < 0.3),
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
                plain=True,
                alignment=alignment,
                row_pitch=pitch,
                gpu=SMALL_GPU if seed % 2 else REFERENCE_GPU,
                index_bits=64 if seed == 3 else None,
            )
            cases.append(case)
    return cases


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(name, marks=emulated)
        for name in ("gather_elements", "gather_inner", "gather_nd", "scatter_elements", "scatter_nd")
    ],
)
def test_vectors_of_indexed_elements_under_sanitizers(operation):
    cases = vector_cases(operation)
    lengths = {case.plan.plain.nbytes // case.itemsize for case in cases}
    assert lengths >= ({2, 4} if not operation.endswith("nd") else {1, 2, 4})
    assert {case.plan.index.nbytes for case in cases} >= {4, 8, 16}
    check_cases(cases)


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(name, marks=emulated)
        for name in ("gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd")
    ],
)
def test_generated_layouts_and_bad_indices_under_sanitizers(operation):
    check_cases(generated(operation, 12, 6))


def inner_case(rows: int, number: str, mode: str, itemsize: int, seed: int) -> Case:
    return Case("gather", (rows, 40), (700,), 1, itemsize, number, mode, seed, plain=True)


@pytest.mark.parametrize("mode", [pytest.param(mode, marks=emulated) for mode in MODES])
def test_the_inner_axis_under_sanitizers(mode):
    cases = [inner_case(rows, number, mode, 4, rows) for rows in (2, 8, 21) for number in ("int32", "uint64")]
    assert {case.plan.family for case in cases} == {GatherFamily.INNER}
    check_cases(cases)


# The look at the indices before


def check_job(values: np.ndarray, layout: Layout, rule: IndexRule, order: str) -> Job:
    launch = check_launch(rule)
    pointers = (
        (0, Pointer(Buffer(values, values.itemsize))),
        (CHECK_REPORT_AT, Pointer(Buffer(bytes(REPORT.size), 8))),
    )
    return Job(launch.name, launch.grid, launch.block, (Record(launch.parameters, pointers),), 0, order, 1)


def check_index_cases():
    for seed, (sizes, tuples, number) in enumerate(
        itertools.product([(3000,), (5, 7), (2, 3, 4)], [False, True], ["int32", "uint64"])
    ):
        rng = np.random.default_rng(seed)
        axes = tuple((axis, 10 + axis) for axis in range(sizes[-1] if tuples else 1))
        if len(axes) > 8:
            continue
        layout = random_layout(rng, sizes)
        memory = rng.integers(0, 10, max(layout.span, 1)).astype(number)
        values = np.ndarray(
            sizes, number, memory, layout.offset * memory.itemsize, [s * memory.itemsize for s in layout.strides]
        )
        for wrong in (False, True):
            if wrong:
                memory[rng.integers(0, memory.size, 2)] = [np.iinfo(number).max, 11 + len(axes)]
            first = None
            for at in np.ndindex(values.shape):
                component = at[-1] if tuples else 0
                if not -axes[component][1] <= int(values[at]) < axes[component][1] and first is None:
                    linear = int(np.ravel_multi_index(at, sizes))
                    first = (linear // len(axes), component, int(values[at]))
            yield memory.copy(), layout, IndexRule(Side(layout, element_type(number), 8), axes, tuples), first


def test_the_first_wrong_index_is_found_under_sanitizers():
    cases = list(check_index_cases())
    names = sorted({check_launch(rule).name for _, _, rule, _ in cases})
    program = Program.compile(joined_source("check_indices.cu"), names)
    jobs = [(case, order) for case in cases for order in ORDERS]
    results = program.run([check_job(*case[:3], order) for case, order in jobs])
    for ((_, _, rule, first), _), (_, report) in zip(jobs, results, strict=True):
        found = wrong_index(report, signed=rule.is_signed)
        assert (found and (found.position, found.component, found.value)) == first


test_the_first_wrong_index_is_found_under_sanitizers = functools.reduce(
    lambda test, mark: mark(test), emulated, test_the_first_wrong_index_is_found_under_sanitizers
)


NAMED = (  # sizes of the data and of the indices, and the axis, or None for tuples
    ((40,), (40,), 0),
    ((7, 50), (5, 50), 1),
    ((6, 5, 4), (6, 3, 2), 1),
    ((5, 6, 7), (30, 2), None),
    ((4, 5, 6), (60, 3), None),
    ((300, 8), (290, 1), None),
)


def distinct_cases():
    """Indices that name each element once, and the same with one of them named again; and what naming is."""
    for seed, (sizes, shape, axis) in enumerate(NAMED):
        for number in ("int32", "uint64", "int64"):
            rng = np.random.default_rng(seed)
            layout = random_layout(rng, shape, output=True)
            memory = np.zeros(max(layout.span, 1), number)
            values = np.ndarray(
                shape, number, memory, layout.offset * memory.itemsize, [s * memory.itemsize for s in layout.strides]
            )
            axes = range(shape[-1]) if axis is None else range(axis, axis + 1)
            if axis is None:
                named = tuple(sizes[: shape[-1]])
                chosen = rng.permutation(int(np.prod(named)))[: shape[0]]
                values[...] = np.stack(np.unravel_index(chosen, named), -1)
            else:
                keys = rng.random([size if at != axis else sizes[axis] for at, size in enumerate(shape)])
                values[...] = np.argsort(keys, axis).take(range(shape[axis]), axis)
            if number == "int64":
                values -= np.array([sizes[a] for a in axes]) if axis is None else sizes[axis]
            pitches = packed_strides(sizes)
            own = () if axis is None else tuple(0 if at == axis else pitch for at, pitch in enumerate(pitches))
            rule = IndexRule(
                Side(layout, element_type(number), 8),
                tuple((a, sizes[a]) for a in axes),
                axis is None,
                own,
                tuple(pitches[a] for a in axes),
            )
            yield memory.copy(), rule, False
            if axis is None:
                values[-1] = values[0]
            else:
                values[(slice(None),) * axis + (-1,)] = values[(slice(None),) * axis + (0,)]
            yield memory.copy(), rule, True


def test_elements_named_twice_are_found_under_sanitizers():
    cases = list(distinct_cases())
    program = Program.compile(
        joined_source("check_distinct.cu"), sorted({distinct_launch(rule).name for _, rule, _ in cases})
    )
    jobs = []
    for (values, rule, _), order in itertools.product(cases, ORDERS):
        launch = distinct_launch(rule)
        report = Pointer(Buffer(bytes(distinct_report_bytes(rule)), 8))
        pointers = ((0, Pointer(Buffer(values, values.itemsize))), (CHECK_REPORT_AT, report))
        jobs.append(Job(launch.name, launch.grid, launch.block, (Record(launch.parameters, pointers),), 0, order, 1))
    for ((_, rule, twice), _), (_, report) in zip(itertools.product(cases, ORDERS), program.run(jobs), strict=True):
        assert (wrong_index(report[: REPORT.size]) is not None) == twice
        # Each element named has its bit.
        count = rule.index.layout.element_count // (len(rule.axes) if rule.has_tuples else 1)
        marks = np.unpackbits(np.frombuffer(report, np.uint8, offset=REPORT.size)).sum()
        assert marks == count or (twice and marks < count)


test_elements_named_twice_are_found_under_sanitizers = functools.reduce(
    lambda test, mark: mark(test), emulated, test_elements_named_twice_are_found_under_sanitizers
)


def test_a_slice_named_whole_has_one_mark():
    side = Side(Layout((9, 1)), element_type("int64"), 8)
    rule = IndexRule(side, ((0, 1000),), True, (), (4096,))
    assert (rule.name_count, distinct_report_bytes(rule)) == (1000, REPORT.size + 128)


# Plans


def row_plan(
    sizes, strides=None, out_strides=None, dtype="float32", alignment=32, count=100, number="int32", widest=16
):
    element = element_type(dtype)
    out_sizes = (count, *sizes[1:])
    problem = gather_problem(
        Side(Layout(sizes, strides), element, alignment),
        Side(Layout((count,)), element_type(number), 32),
        Side(Layout(out_sizes, out_strides), element, 32),
        0,
    )
    return plan_gather(problem, "raise", "cuda:0", widest)


def element_plan(data, indices, axis=0, dtype="float32", number="int64", strides=None, index_strides=None):
    element = element_type(dtype)
    problem = elements_problem(
        Side(Layout(data), element, 32),
        Side(Layout(indices, index_strides), element_type(number), 32),
        Side(Layout(indices, strides), element, 32),
        axis,
        scatters=False,
    )
    return plan_gather(problem, "raise", "cuda:0", 16)


def tuple_plan(data, indices, dtype="float32", number="int64"):
    element = element_type(dtype)
    sides = Side(Layout(data), element, 32), Side(Layout(indices), element_type(number), 32)
    plain = Side(Layout((*indices[:-1], *data[indices[-1] :])), element, 32)
    return plan_gather(tuples_problem(*sides, plain, 0, scatters=False), "raise", "cuda:0", 16)


@pytest.mark.parametrize(
    "plan, family, load, store, index, limit",
    [
        (row_plan((50, 128)), "rows", 16, 16, 4, ""),
        (row_plan((50, 8), dtype="uint8"), "rows", 8, 8, 4, "a multiple of 8 only"),
        (row_plan((50, 6), dtype="uint8"), "rows", 2, 2, 4, "apart, a multiple of 2 only; pad that to 16 for 16"),
        (row_plan((50, 100), (101, 1)), "rows", 4, 4, 4, "the source's runs start 404 B apart"),
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
    assert (str(plan.family), plan.load_bytes, plan.store_bytes) == (family, load, store)
    assert plan.index.nbytes == index
    assert plan.vector_bytes == min(load, store)
    assert limit in plan.store.limit
    text = plan.explain()
    assert plan.kernel in text
    assert f"stores {store} B" in text
    assert f"{plan.bytes_moved} bytes must move" in text
    assert "axis 0 of size 50" in text or "axis 0 of size 5" in text or "axis 1 of size 39" in text


def test_an_index_that_does_not_vary_along_the_row_is_a_row_gather():
    element = element_type("float32")
    sides = (
        Side(Layout((30, 64)), element, 32),
        Side(Layout((9, 64), (1, 0)), element_type("int64"), 8),
        Side(Layout((9, 64)), element, 32),
    )
    plan = plan_gather(elements_problem(*sides, 0, scatters=False), "raise", "cuda:0")
    assert (plan.family, plan.vector_bytes, plan.problem.index_count) == (GatherFamily.ROWS, 16, 9)


def test_wide_tensors_have_wide_offsets_and_nothing_is_nothing():
    assert row_plan((2**20, 2**12)).index_bits == 64
    assert row_plan((2**18, 2**12)).index_bits == 32
    with pytest.raises(LayoutError, match="nothing to launch"):
        gather_launch(row_plan((5, 0)), REFERENCE_GPU)


# Compiled and inspected


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
    plans += [row_plan((50, run), dtype="uint8") for run in (1000, 20, 6, 7)]
    cases = [
        Case(operation, (60, 50, 40), sizes, 0, itemsize, number, mode, 1, plain=True)
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
    wide = [dataclasses.replace(plan, index_bits=64) for plan in plans[:1] + plans[-6:]]
    return [(plan, gather_launch(plan, REFERENCE_GPU)) for plan in plans + wide]


@inspected
@pytest.mark.parametrize("architecture", machine_code.ARCHITECTURES)
def test_kernels_compile_without_spills_and_with_the_planned_widths(architecture):
    by_source: dict[tuple[str, ...], list[tuple[Any, Any]]] = {}
    for plan, launch in inspected_launches():
        by_source.setdefault(launch.sources, []).append((plan, launch))
    for sources, pairs in by_source.items():
        names = sorted({launch.name for _, launch in pairs})
        code = machine_code.compile_kernels(joined_source(*sources), names, architecture)
        for plan, launch in pairs:
            made = code[launch.name]
            assert (made.local_accesses, made.stack_bytes) == (0, 0), launch.name
            for width in (plan.load_bytes, plan.index.nbytes):
                assert made.loads[8 * width], (launch.name, made.loads)
            assert made.stores[8 * plan.store_bytes], (launch.name, made.stores)
    rule = IndexRule(Side(Layout((5, 7)), element_type("int64"), 8), ((0, 3),), False, (0, 1), (7,))
    for launch in (check_launch(rule), distinct_launch(rule)):
        made = machine_code.compile_kernels(joined_source(*launch.sources), [launch.name], architecture)[launch.name]
        assert (made.local_accesses, made.stack_bytes) == (0, 0)


@inspected
@pytest.mark.parametrize("number", ["int32", "int64"])
def test_a_thread_has_several_rows_under_way_and_waits_twice(number):
    """Indices are all asked for before one is looked at, then all rows: no row waits for the one before."""
    plan = row_plan((5000, 64), count=100_000, number=number)
    launch = gather_launch(plan, REFERENCE_GPU)
    made = machine_code.compile_kernels(joined_source(*launch.sources), [launch.name], "sm_90")[launch.name]
    loads = re.findall(r"LDG\.E(?:\.(\d+))?", made.assembly)
    index, row = ("64" if number == "int64" else ""), "128"
    assert [width for width in loads if width in (index, row)][:8] == [index] * 4 + [row] * 4


@inspected
@pytest.mark.parametrize("architecture", ["sm_100", "sm_120"])
@pytest.mark.parametrize("row", [8, 64, 1024])
def test_wide_accesses_where_the_gpu_has_them(architecture, row):
    gpu = GpuProperties("a newer GPU", 100, 148, 227 * 1024, 48 * 1024)
    plan = row_plan((5000, row), count=100_000, number="int64", widest=gpu.widest_access)
    assert (plan.load_bytes, plan.store_bytes) == (32, 32)
    launch = gather_launch(plan, gpu)
    made = machine_code.compile_kernels(joined_source(*launch.sources), [launch.name], architecture)[launch.name]
    assert made.local_accesses == 0
    assert made.loads[256]
    assert made.stores[256]
