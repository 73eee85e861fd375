"""The kernels of flat.cu, rows.cu and generic.cu: run in the emulator from real plans, compiled and inspected."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter

import pytest
from harness.emulator import machine_code
from harness.emulator.cases import LARGE, SMALL, WIDE, WORDS, case, drawn, ramp
from harness.emulator.chosen import few
from harness.emulator.launched import instructions_per_byte, unspilled
from harness.emulator.marks import DEFAULT_ARCHITECTURE, emulated, inspected
from harness.emulator.planned import Case, check_cases
from harness.emulator.runner import EmulationError
from harness.emulator.tiled_tests import Fault
from harness.strategies import layouts_of
from hypothesis import strategies as st

from stridedgpu.devices.cuda.relayout.choice import Family
from stridedgpu.values.layout import Layout

OURS = {Family.FLAT, Family.ROWS, Family.GENERIC}


def rows(*sizes: int, pitch: int) -> Layout:
    """Packed but for the distance of two rows."""
    strides = [1, pitch]
    for size in sizes[-2:0:-1]:
        strides.append(strides[-1] * size)
    return Layout(sizes, strides[::-1])


def shuffled(count: int) -> tuple[int, ...]:
    """An uneven choice of channels."""
    return tuple(value * value * 7 % count for value in range(count))


def flat_cases() -> list[Case]:
    found = []
    for itemsize, name in WORDS.items():
        for aligned in (1, 2, 4, 8, 16):
            if aligned >= itemsize:
                for count in (1, 5000 // itemsize, 70000 // itemsize + 1):
                    layout = Layout((count,))
                    found.append(case(layout, layout, name, (aligned, aligned)))
        big = Layout((70000 // itemsize + 3,))
        found.append(case(big, big, name, bits=64))
        found.append(case(big, big, name, (32, 32), gpu=WIDE))
        found.append(case(big, big, name, (32, 32), slack=(32, 32), owned=True, gpu=WIDE))
    for types in ("uint8>float16", "uint8>float32", "float32>uint8", "float16>float32", "float64>bfloat16"):
        for aligned in ((16, 16), (1, 16), (16, 1), (8, 4)):
            for slack, owned in (((0, 0), False), ((32, 32), False), ((32, 32), True), ((0, 32), True)):
                layout = Layout((33333,))
                found.append(case(layout, layout, types, aligned, slack, owned, scale=0.75, bias=-0.3))
    found.append(case(Layout((3, 999)), Layout((2, 999)), axis=0, channels=(1, 2)))
    return found


def rows_cases() -> list[Case]:
    found = []
    shapes = {
        "short": [
            (rows(40, 24, pitch=32), rows(40, 24, pitch=24)),
            (rows(9, 5, 50, pitch=64), rows(9, 5, 50, pitch=51)),
        ],
        "middle": [(rows(3, 7, 200, pitch=256), rows(3, 7, 200, pitch=208))],
        "long": [(rows(2, 9000, pitch=9008), rows(2, 9000, pitch=9001))],
    }
    for (one, other), slack, owned in itertools.product(
        itertools.chain(*shapes.values()), ((0, 0), (32, 32)), (False, True)
    ):
        for source, target in ((one, other), (other, one)):
            found += [case(source, target, types, slack=slack, owned=owned) for types in ("uint8", "float16")]
            found.append(case(source, target, "uint8>float32", slack=slack, owned=owned, scale=2.5, bias=1.0))
            found.append(case(source, target, "float32>uint8", slack=slack, owned=owned, gpu=LARGE))
    for itemsize, name in WORDS.items():
        source, target = rows(5, 6, 70, pitch=80), rows(5, 6, 70, pitch=96)
        found += [case(source, target, name, (aligned, 16)) for aligned in (1, 2, 4, 8, 16) if aligned >= itemsize]
        found += [case(source, target, name, (16, aligned)) for aligned in (1, 2, 4, 8, 16) if aligned >= itemsize]
        found.append(case(source, target, name, bits=64))
        found.append(case(source, target, name, (32, 32), (32, 32), owned=True, gpu=WIDE))
        flipped = rows(5, 6, 64, pitch=80).sliced((..., slice(None, None, -1)))
        found.append(case(flipped, rows(5, 6, 64, pitch=96), name))
        found.append(case(flipped.sliced((slice(None, None, -1),)), rows(5, 6, 64, pitch=67), name, owned=True))
        repeated = Layout((5, 60), (1, 0))
        found.append(case(repeated, rows(5, 60, pitch=64), name, slack=(0, 16), owned=True))
        found.append(case(repeated, rows(5, 60, pitch=61), name))
    broadcast = Layout((4, 1, 300), (320, 320, 1)).broadcast_to((4, 6, 300))
    found.append(case(broadcast, Layout((4, 6, 300)), "float32"))
    found.append(case(broadcast, Layout((4, 6, 300)), "float32>float16", scale=0.5))
    found.append(case(Layout((1,), (0,)).broadcast_to((1000,)), Layout((1000,)), "uint8>float32", bias=1.0))
    halves = (2, 2, 2, 2, 2, 2, 2, 32)
    spread = Layout(halves, (2560, 40, 1280, 80, 640, 160, 320, 1))
    found.append(case(spread, Layout(halves), "uint8>float16"))
    return found


def channel_cases() -> list[Case]:
    found = []
    for channels in (3, 16, 17):
        planes, padded = Layout((2, channels, 500)), Layout((2, channels, 500), (channels * 512, 512, 1))
        order = shuffled(channels)
        scales = {"scale": ramp(channels), "bias": ramp(channels)}
        for types in ("uint8>float32", "float16>uint8"):
            found.append(case(planes, padded, types, axis=1, **scales))
            found.append(case(planes, padded, types, axis=1, channels=order, **scales))
            found.append(case(planes, padded, types, axis=1, bits=64, channels=order, rounding="truncate", **scales))
            found.append(case(padded.sliced((..., slice(None, None, -1))), planes, types, axis=1, **scales))
        found.append(case(planes, padded, "uint16", axis=1, channels=order))
        apart = Layout((2, channels, 500), (channels * 1000, 1000, 2))
        found.append(case(apart, planes, "uint8>float16", axis=1, channels=order, **scales))
        found.append(case(apart, Layout(planes.sizes, apart.strides), axis=1, channels=order))
        inner = Layout((40, channels))
        pixels = Layout((40, channels), (channels + 3, 1))
        # Zeros that begin in the middle of a store vector, behind a row whose loads read on past its end.
        few, more = rows(40, channels, pitch=channels + 7), rows(40, channels, pitch=channels + 15)
        for types in ("float16", "uint8>float16") if channels > 3 else ():
            constants = {"bias": ramp(channels)} if ">" in types else {}
            one = case(few, more, types, slack=(32, 32), owned=True, axis=1, **constants)
            found.append(dataclasses.replace(one, filler=15))
        for types in ("float64>float32", "float64"):
            options = scales if types != "float64" else {}
            found.append(case(inner, pixels, types, axis=1, channels=order, **options))
            found.append(case(inner, pixels, types, axis=1, owned=True, **scales))
            found.append(case(inner, pixels, types, axis=1, owned=True, slack=(0, 32), bits=64, **scales))
            found.append(case(Layout(inner.sizes, (1, 0)), pixels, types, axis=1, owned=True, **scales))
        found.append(case(inner, Layout(inner.sizes, (channels * 2, 2)), "float32", axis=1, channels=order, **scales))
    # Fewer zeros than a vector has, behind whole vectors: they are stored one by one.
    one = case(rows(5, 64, pitch=72), rows(5, 64, pitch=80), "float16", slack=(32, 0), axis=1)
    found.append(dataclasses.replace(one, filler=3))
    return found


def generic_cases() -> list[Case]:
    found = []
    for itemsize, name in WORDS.items():
        strided, packed = Layout((7, 30), (61, 2)), Layout((7, 30))
        padded = Layout((7, 30), (32, 1))
        for aligned in (1, 4, 16):
            found.append(case(strided, packed, name, (aligned, aligned)))
            found.append(case(strided, padded, name, (aligned, aligned), slack=(0, 32), owned=True))
        found.append(case(strided, strided, name))
        found.append(case(packed, strided, name, owned=True))
        found.append(case(strided.sliced((..., slice(None, None, -1))), padded, name, bits=64))
        # Runs of which one thread moves several vectors, or several elements, and of which the last has fewer.
        for width in (1040, 1043):
            long, pitched = Layout((5, width), (2 * width + 3, 2)), Layout((5, width), (1056, 1))
            found.append(case(long, pitched, name))
            found.append(case(long, Layout(long.sizes, (3 * width, 3)), name))
        if itemsize == 8:
            found.append(case(strided, padded, name, (32, 32), gpu=WIDE))
    # Zeros behind 30 elements, which are whole pairs and no fours, and a bias that would show in them.
    biased = case(Layout((7, 30), (61, 2)), Layout((7, 30), (36, 1)), "uint8>float16", axis=1, scale=2.0, bias=3.0)
    found.append(dataclasses.replace(biased, filler=6))
    every = (3, 2, 2, 3, 2, 2, 2, 3)
    scattered = Layout(every, (2, 1200, 6, 24, 400, 150, 2600, 80))
    found.append(case(scattered, Layout(every), "float32>float16", scale=3.0))
    found.append(case(scattered, Layout(every), "int8>float64", bits=64))
    every_other = Layout((5, 1040), (2083, 2))
    for types in ("uint8>float16", "float32>uint8", "float64>uint8"):
        found += [case(every_other, Layout(every_other.sizes), types, scale=3.0)]
    return found


TABLES = {"flat": flat_cases, "rows": rows_cases, "channels": channel_cases, "generic": generic_cases}


@emulated
def test_every_byte_of_a_few_kernels_is_right():
    check_cases(few(itertools.chain.from_iterable(table() for table in TABLES.values()), 4))


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_every_byte_is_right(table):
    cases = TABLES[table]()
    families = Counter(one.plan.family for one in cases)
    assert set(families) <= OURS
    assert table == "channels" or families[Family(table)] == max(families.values())
    check_cases(cases)


# Layouts at random


@st.composite
def relayouts(draw: st.DrawFn) -> Case:
    """Two layouts of the same sizes, often with their innermost axes in common, and all that can go with them."""
    sizes = tuple(draw(st.lists(st.integers(1, 6), max_size=3)))
    sizes += (draw(st.integers(1, 24) | st.integers(1, 300)),)
    target = draw(layouts_of(sizes, broadcast=False, padding=draw(st.booleans())))
    source = draw(layouts_of(sizes))
    if draw(st.booleans()):  # rows: at most a flip of what the target's unit axis is
        unit = min(range(len(sizes)), key=lambda axis: (abs(target.strides[axis]), -sizes[axis]))
        pitch = sizes[unit] + draw(st.integers(0, 40))
        steps = [stride * pitch for stride in source.strides]
        steps[unit] = draw(st.sampled_from((1, 1, 1, -1, 0)))
        source = Layout(sizes, steps)
    axis = draw(st.none() | st.integers(0, len(sizes) - 1))
    types = draw(st.sampled_from(("uint8", "float32", "uint8>float16", "float32>uint8")))
    options = {}
    if axis is not None:
        channels = sizes[axis]
        if draw(st.booleans()):
            options["channels"] = draw(st.lists(st.integers(0, channels - 1), min_size=channels, max_size=channels))
        if types != "float32":
            options["scale"] = ramp(channels)
    return case(
        source,
        target,
        types,
        aligned=draw(st.tuples(*[st.sampled_from((4, 16, 32))] * 2)),
        slack=draw(st.tuples(*[st.sampled_from((0, 7, 32))] * 2)),
        owned=draw(st.booleans()),
        gpu=draw(st.sampled_from((SMALL, WIDE, LARGE))),
        bits=draw(st.sampled_from((None, None, 64))),
        axis=axis,
        **options,
    )


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.sweep)])
def test_layouts_at_random(number):
    check_cases(drawn(relayouts(), OURS, 400, number))


# Kernels broken on purpose, each with a relayout that it spoils


def shrunk(width: int) -> Layout:
    """Rows whose ends are no whole vectors, with gaps that belong to somebody else."""
    return rows(9, width, pitch=320)


FAULTS = {
    "the tail is one element too long": (
        Fault("if (left < p.count)", "if (left <= p.count)"),
        case(Layout((5001,)), Layout((5001,))),
    ),
    "the last block stores vectors past the end": (
        Fault(
            "if (store_end + distance <= p.store_count)",
            "if (store_end + distance <= p.store_count + Step::store_length)",
        ),
        case(Layout((5001,)), Layout((5001,))),
    ),
    "the last block loads vectors past the end": (
        Fault(
            "return load_end + distance <= p.load_count ?",
            "return load_end + distance <= p.load_count + Step::load_length ?",
        ),
        case(Layout((5001,)), Layout((5001,))),
    ),
    "lanes exchange elements without a barrier": (
        Fault("            __syncwarp();\n", ""),
        case(Layout((5000,)), Layout((5000,)), "uint8>float16"),
    ),
    "rows overwrite gaps": (
        Fault("Step::store_length > chunk.vectors.store_end) return;", "1 > chunk.end) return;"),
        case(shrunk(301), shrunk(301)),
    ),
    "the last row is read past the end": (
        Fault("const bool reads_on = ", "const bool reads_on = true || "),
        case(shrunk(301), shrunk(301)),
    ),
    "vectors read backwards stay backwards": (
        Fault("backwards.get(Step::load_length - 1 - i)", "backwards.get(i)"),
        case(shrunk(304).sliced((..., slice(None, None, -1))), shrunk(304)),
    ),
    "the last chunk of a row is taken for a whole one": (
        Fault("chunk_end <= chunk.vectors.load_end && chunk_end <= chunk.vectors.store_end", "chunk.start < chunk.end"),
        case(Layout((4, 3900), (3904, 1)), Layout((4, 3900), (5008, 1))),
    ),
    "a row's end is left out": (
        Fault("place < chunk.end; place += lanes", "place + 1 < chunk.end; place += lanes"),
        case(shrunk(301), shrunk(301)),
    ),
    "generic stores overwrite gaps": (
        Fault("if (filled >= length) {", "if (filled) {"),
        case(Layout((4, 157), (320, 2)), shrunk(157).sliced(slice(4))),
    ),
}


@emulated
@pytest.mark.faults
@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_kernel_is_caught(name):
    fault, spoilt = FAULTS[name]
    fault.check_is_caught([spoilt])


@emulated
@pytest.mark.faults
@pytest.mark.parametrize("sides", ["source", "target"])
def test_a_vector_wider_than_the_plans_is_stopped(sides):
    one = case(Layout((5000,)), Layout((5000,)), aligned=(4, 16) if sides == "source" else (16, 4))
    narrow = "load_bytes = 4" if sides == "source" else "store_bytes = 4"
    assert narrow in one.launch.name
    wide = one.launch.name.replace(narrow, narrow.replace("4", "16"))
    vars(one)["launch"] = dataclasses.replace(one.launch, name=wide)
    with pytest.raises(EmulationError, match="misaligned address"):
        check_cases([one])


# Machine code


def compiled_cases(architecture: str) -> list[Case]:
    """One case for each kernel that the tables ask for on a GPU of an architecture."""
    number = int(architecture.removeprefix("sm_"))
    found = {}
    for one in itertools.chain.from_iterable(table() for table in TABLES.values()):
        there = dataclasses.replace(one, gpu=dataclasses.replace(one.gpu, compute_capability=number))
        found.setdefault((there.launch.sources, there.launch.name), there)
    return list(found.values())


MOST_NARROW = {Family.FLAT: 1, Family.ROWS: 4, Family.GENERIC: 12}


def check_machine_code(cases: list[Case], architecture: str) -> None:
    code = unspilled([one.launch for one in cases], architecture)
    for one in cases:
        found, plan = code[one.launch.name], one.plan
        tables = {64, 128, plan.index_bits} if one.launch.tables else set()
        for width, accesses, others in ((plan.load, found.loads, tables), (plan.store, found.stores, set())):
            assert accesses[8 * width.nbytes], (one.launch.name, accesses)
            # The rest are ends of runs, which move element by element: one a run, two of shifted rows, of which one is
            # in flight with the words, or what a vector lacks.
            narrow = sum(n for bits, n in accesses.items() if bits not in {8 * width.nbytes} | others)
            most = 2 if plan.shifts else MOST_NARROW[plan.family]
            assert narrow <= most, (one.launch.name, accesses)


@inspected
@pytest.mark.parametrize("member", ["load_bytes", "store_bytes"])
def test_a_vector_narrower_than_the_plans_is_seen(member):
    one = case(Layout((5000,)), Layout((5000,)))
    assert f"{member} = 16" in one.launch.name
    narrow = one.launch.name.replace(f"{member} = 16", f"{member} = 4")
    vars(one)["launch"] = dataclasses.replace(one.launch, name=narrow)
    with pytest.raises(AssertionError, match="copy_flat"):
        check_machine_code([one], "sm_90")


@inspected
def test_machine_code_of_a_few_kernels_has_the_widths_of_the_plan_and_no_spills():
    check_machine_code(few(compiled_cases(DEFAULT_ARCHITECTURE), 4), DEFAULT_ARCHITECTURE)


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("architecture", machine_code.ARCHITECTURES)
def test_machine_code_has_the_widths_of_the_plan_and_no_spills(architecture):
    every = machine_code.ARCHITECTURES
    check_machine_code(compiled_cases(architecture)[every.index(architecture) :: len(every)], architecture)


@inspected
@pytest.mark.parametrize(
    "types, options, most",
    [
        ("uint8", {}, 0.4),
        ("float32>uint8", {}, 0.9),
        ("float32>float16", {}, 2.7),  # half of it for vectors that hold a NaN, which others jump over
        ("uint8>float16", {"scale": 2.0, "bias": 1.0}, 2.1),
        ("uint8>float32", {"scale": 2.0, "bias": 1.0}, 1.3),
    ],
)
def test_few_instructions_for_each_byte(types, options, most):
    """Of one of the flat kernel's two paths, which are as long as each other.

    An H200 that moves 4.3 TB/s moves 18 bytes on each multiprocessor and cycle, in which it can start 128 threads'
    instructions: 7 a byte, and half of that in practice.
    """
    layout = Layout((1 << 24,))
    one = case(layout, layout, types, gpu=LARGE, **options)
    assert instructions_per_byte(one) / 2 < most
