"""Rows that begin anywhere in their words (shifted_rows.cu): run in the emulator, compiled and inspected."""

from __future__ import annotations

import dataclasses
import functools

import pytest
from harness.emulator.cases import SMALL, case, drawn
from harness.emulator.chosen import few
from harness.emulator.launched import instructions_per_byte, unspilled
from harness.emulator.marks import emulated, every_architecture, inspected
from harness.emulator.planned import Case, check_cases
from harness.emulator.tiled_tests import Fault
from harness.kernel_names import policy_of
from hypothesis import strategies as st

from stridedgpu.devices.cuda.gpu import REFERENCE_GPU
from stridedgpu.devices.cuda.relayout.choice import Family
from stridedgpu.values.layout import Layout

GPUS = (SMALL, dataclasses.replace(SMALL, compute_capability=100), REFERENCE_GPU)
CASTS = ("uint8>float16", "uint8>float32", "float16>uint8", "uint8>float64", "int16>uint8", "float32>float16")
TYPES = ("uint8", "uint16", "float32", *CASTS)


rows_case = functools.partial(case, aligned=(1, 1))


@st.composite
def odd_rows(draw: st.DrawFn) -> Case:
    """Images of rows of any width and pitch, at any address on either side."""
    types = draw(st.sampled_from(TYPES))
    width = draw(st.integers(48, 300) | st.integers(300, 2100) | st.integers(5000, 5100))
    images, height = draw(st.sampled_from((1, 3))), draw(st.sampled_from((1, 2, 7)))
    layouts = []
    for _ in range(2):
        pitch = width + draw(st.integers(0, 33))
        layouts.append(Layout((images, height, width), (height * pitch + draw(st.integers(0, 9)), pitch, 1)))
    source, target = layouts
    source = source.sliced((slice(None), slice(None, None, draw(st.sampled_from((1, 1, -1))))))
    source = source.sliced((..., slice(None, None, draw(st.sampled_from((1, 1, -1))))))
    options = {}
    if images > 1 and draw(st.booleans()):
        options["axis"] = 0
        options["channels"] = draw(st.sampled_from((None, (2, 0, 0), (2, 1, 0))))
    if ">" in types and draw(st.booleans()):
        options |= {"scale": [1.0, 2.5, 0.75] if "axis" in options else 2.5, "bias": -1.0}
    return rows_case(
        source,
        target,
        types,
        aligned=draw(st.tuples(*[st.sampled_from((1, 2, 4, 16))] * 2)),
        slack=draw(st.tuples(st.sampled_from((0, 1, 3, 32)), st.sampled_from((0, 5)))),
        gpu=draw(st.sampled_from(GPUS)),
        bits=draw(st.sampled_from((None, None, 64))),
        **options,
    )


def shifted(count: int, number: int) -> list[Case]:
    """Cases whose words are shifted, out of `count` drawn ones."""
    return [one for one in drawn(odd_rows(), {Family.FLAT, Family.ROWS}, count, number) if one.plan.shifts]


@emulated
def test_rows_at_any_address():
    cases = shifted(45, 1)
    assert {one.plan.family for one in cases} == {Family.FLAT, Family.ROWS}
    check_cases(few(cases, 8))


@emulated
def test_rows_of_one_word_have_a_lane_each():
    """Vectors of one element: each of 256 groups has its words in shared memory, and the one after them."""
    rows = Layout((300, 4), (7, 1))
    one = rows_case(rows.sliced((..., slice(None, None, -1))), rows, "bool>complex128", aligned=(1, 16))
    assert one.plan.shifts
    check_cases([one])


@emulated
@pytest.mark.slow
def test_rows_whose_words_end_behind_their_buffer():
    """The last vector of the last row would take a word that is not all there."""
    check_cases(
        [
            rows_case(pitched(336, 337), pitched(336, 352), aligned=(1, 16)),
            rows_case(pitched(333, 335), pitched(333, 337)),
        ]
    )


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("number", [2, pytest.param(3, marks=pytest.mark.sweep)])
def test_many_rows_at_any_address(number):
    check_cases(shifted(300, number))


def packed(width: int, height: int = 3) -> Layout:
    return Layout((height, width))


def pitched(width: int, pitch: int, height: int = 3) -> Layout:
    return Layout((height, width), (pitch, 1))


FAULTS = {
    # Up to 7 bytes before a buffer cannot be watched for reads, so this is what its first word comes to.
    "a word of the row before is read": Fault("if (!is_readable(vectors)) vectors += Step::length;", "vectors = 0;"),
    "a word behind the buffer is read": Fault(
        "uint64(Backwards ? word + 4 : word + others + 4) <= uint64(end)", "true"
    ),
    "words are not shifted": Fault(
        "vector.word[w] = __funnelshift_r(held.word[w], high, shift)", "vector.word[w] = low"
    ),
    "the word after the chunk is not read": Fault("if (has_after) after = word_at(chunk);", ""),
    "a row's end is left out": Fault("head + last - whole_last;", "head + last - whole_last - 1;"),
    "a row's beginning is left out": Fault("const int head = whole_first - first,", "const int head = 0,"),
    "lanes do not wait for each other's words": Fault(
        "put(count, after);\n            __syncwarp();", "put(count, after);"
    ),
}


@emulated
@pytest.mark.faults
@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_kernel_is_caught(name):
    # Sources that begin and end inside a word; targets whose rows are whole vectors, and such as have ends.
    cases = [
        rows_case(pitched(336, 337), pitched(336, 352), aligned=(1, 16)),
        rows_case(pitched(333, 335), pitched(333, 337)),
    ]
    FAULTS[name].check_is_caught(cases)


# What plans say


def test_the_plan_says_that_words_are_shifted():
    plan = rows_case(pitched(1500, 1501), pitched(1500, 1504), aligned=(16, 16)).plan
    assert (plan.family, plan.load.nbytes, plan.store.nbytes) == (Family.ROWS, 4, 16)
    assert (
        "loads 4 B (the source's runs start 1501 B apart, a multiple of 1 only; pad that to 1504 for 16: words are "
        "loaded, and shifted into place); stores 16 B\n" in "\n".join(plan.describe())
    )


@pytest.mark.parametrize(
    "source, target, types, shifts",
    [
        (pitched(1500, 1501), pitched(1500, 1504), "uint8", True),
        (pitched(1500, 1504), pitched(1500, 1501), "uint8", True),
        (pitched(1500, 1502), pitched(1500, 1504), "uint8", True),
        (pitched(1500, 1504), pitched(1500, 1504), "uint8", False),
        (pitched(1500, 1504), pitched(1500, 1508), "uint8", False),
        (pitched(1500, 1501), pitched(1500, 1501), "uint16", True),
        (pitched(1500, 1501), pitched(1500, 1501), "float32", True),
        (pitched(1500, 1502), pitched(1500, 1502), "float32", False),
        (pitched(1500, 1501), pitched(1500, 1501), "float64", False),
        (pitched(47, 301), pitched(47, 301), "uint8", False),
        (pitched(48, 301), pitched(48, 301), "uint8", True),
        (pitched(11, 301), pitched(11, 301), "uint8>float32", False),
        (pitched(12, 301), pitched(12, 301), "uint8>float32", True),
    ],
)
def test_words_are_shifted_where_vectors_are_not_to_be_had(source, target, types, shifts):
    assert rows_case(source, target, types, aligned=(16, 16)).plan.shifts is shifts


# Machine code


@inspected
@every_architecture
def test_machine_code_loads_words_and_stores_vectors(architecture):
    gpu = dataclasses.replace(REFERENCE_GPU, compute_capability=int(architecture[3:]))
    cases = [
        rows_case(pitched(1501, 1507, 4096), packed(1501, 4096), types, gpu=gpu) for types in ("uint8", "uint8>float16")
    ]
    every = unspilled([one.launch for one in cases], architecture)
    for one in cases:
        code = every[one.launch.name]
        # Either path, with and without a row's end, loads each word once, and the one after the chunk; a row's ends are
        # loaded once beside the words, and once in a loop.
        assert set(code.loads) == {32, 8}
        assert set(code.stores) == {128, 8 * one.target.element.itemsize}
        steps = int(policy_of(one.launch.name)["steps"])
        words = 16 // one.target.element.itemsize // 4
        assert code.loads[32] == 2 * (steps * words + 1)
        assert code.stores[128] == 2 * steps
        assert code.loads[8] == 2
        assert code.stores[8 * one.target.element.itemsize] == 2


@inspected
def test_few_instructions_for_each_byte():
    """Of all rows' ends too: fewer than the 7 a byte that an H200 can start while it moves one."""
    one = rows_case(pitched(1501, 1507, 4096), packed(1501, 4096), gpu=REFERENCE_GPU)
    assert instructions_per_byte(one) < 4.5
