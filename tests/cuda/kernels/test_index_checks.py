"""The CUDA kernels that look at indices: the first wrong one, and elements named twice, under sanitizers."""

from __future__ import annotations

import functools
import itertools
import re
import struct

import numpy as np
import pytest
from harness.emulator import machine_code
from harness.emulator.launched import unspilled
from harness.emulator.marks import emulated, every_architecture, inspected
from harness.emulator.runner import ORDERS, Buffer, Job, Pointer, Program, Record
from harness.gather_cases import inner_case, random_layout

from stridedgpu import Layout, packed_strides
from stridedgpu.devices.cuda.gather import (
    CHECK_REPORT_AT,
    REPORT,
    WrongIndex,
    check_launch,
    distinct_launch,
    distinct_report_bytes,
    take_launch,
    wrong_index,
)
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.problems.index_rule import IndexRule
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.tensor_spec import TensorSpec


def check_job(values: np.ndarray, rule: IndexRule, order: str) -> Job:
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
                    first = (linear, int(values[at]))
            yield memory.copy(), layout, IndexRule(TensorSpec(layout, element_type(number), 8), axes, tuples), first


@emulated
def test_the_first_wrong_index_is_found_under_sanitizers():
    cases = list(check_index_cases())
    names = sorted({check_launch(rule).name for _, _, rule, _ in cases})
    program = Program.compile(joined_source("check_indices.cu"), names)
    jobs = [(case, order) for case in cases for order in ORDERS]
    results = program.run([check_job(case[0], case[2], order) for case, order in jobs])
    for ((_, _, rule, first), _), (_, report) in zip(jobs, results, strict=True):
        found = wrong_index(report, signed=rule.is_signed)
        assert (found and (found.number, found.value)) == first


@functools.cache
def everywhere_wrong() -> tuple[np.ndarray, IndexRule]:
    """More wrong indices than a block has threads, each with a value of its own."""
    values = np.arange(10, 5010)[::-1].copy()
    return values, IndexRule(TensorSpec(Layout((5000,)), element_type("int64"), 8), ((0, 10),))


@emulated
def test_the_first_of_many_wrong_indices_is_found_under_sanitizers():
    values, rule = everywhere_wrong()
    program = Program.compile(joined_source("check_indices.cu"), [check_launch(rule).name])
    jobs = [check_job(values, rule, order) for order in ORDERS]
    for _, report in program.run(jobs):
        assert wrong_index(report) == WrongIndex(0, 0, 5009)


@inspected
@pytest.mark.parametrize("kernel", ["check", "deferred gather"])
def test_no_thread_waits_for_another_to_report(kernel):
    """A lock is a compare-and-swap in a loop; the words of a report are each a maximum."""
    _, rule = everywhere_wrong()
    launch = check_launch(rule) if kernel == "check" else inner_case(3, "int64", "deferred", 4, 0).launch
    text = machine_code.disassembled(joined_source(*launch.sources), [launch.name], "sm_90")[launch.name].text
    atomics = re.findall(r"\b(?:ATOMG?|REDG?)\.[A-Z0-9_.]+", text)
    assert atomics
    assert all(".MAX." in atomic for atomic in atomics), atomics


@emulated
def test_a_report_is_taken_and_left_empty_under_sanitizers():
    launch = take_launch()
    words = struct.pack("<10Q", *range(1, 11))
    pointers = ((0, Pointer(Buffer(words, 8))), (8, Pointer(Buffer(bytes(REPORT.size), 8))))
    program = Program.compile(joined_source(*launch.sources), [launch.name])
    job = Job(launch.name, launch.grid, launch.block, (Record(launch.parameters, pointers),), 0, "forward", 1)
    [[report, taken]] = program.run([job])
    assert (report, taken) == (bytes(REPORT.size), words)


def test_a_report_taken_in_parts_is_an_error_without_details():
    """A kernel has written half of its words: there was a wrong index, and nothing else is certain."""
    earlier, later = ((~number % 2**56) << 8 for number in (3, 9))
    whole = REPORT.pack(*[earlier | 1] * 10)
    assert wrong_index(whole) == WrongIndex(3, 0x0101, 0x0101010101010101)
    assert wrong_index(REPORT.pack(*[earlier] * 4, *[later] * 6)) == WrongIndex(3, None, None)
    assert wrong_index(REPORT.pack(*[0] * 7, *[later] * 3)) == WrongIndex(9, None, None)
    assert wrong_index(bytes(REPORT.size)) is None


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
                TensorSpec(layout, element_type(number), 8),
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


@emulated
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


def test_a_slice_named_whole_has_one_mark():
    side = TensorSpec(Layout((9, 1)), element_type("int64"), 8)
    rule = IndexRule(side, ((0, 1000),), True, (), (4096,))
    assert (rule.name_count, distinct_report_bytes(rule)) == (1000, REPORT.size + 128)


@inspected
@every_architecture
def test_checks_compile_without_spills(architecture):
    rule = IndexRule(TensorSpec(Layout((5, 7)), element_type("int64"), 8), ((0, 3),), False, (0, 1), (7,))
    unspilled([check_launch(rule), distinct_launch(rule)], architecture)
