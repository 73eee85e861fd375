"""Whole pixels that bulk copies bring: which plans have them, run in the emulator, broken, compiled and inspected."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from harness.emulator import machine_code
from harness.emulator.cases import SMALL, WIDE, case, collected, flipped, in_order, ramp
from harness.emulator.chosen import few
from harness.emulator.marks import emulated, inspected
from harness.emulator.planned import Case, check_cases
from harness.emulator.runner import EmulationError
from harness.emulator.tiled_cases import check_machine_code
from harness.emulator.tiled_tests import Fault
from harness.kernel_names import policy_of
from hypothesis import strategies as st

from stridedgpu.devices.cuda.policy import Policy, policy, using
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.values.layout import Layout

TYPES = ("uint8", "float16", "float32", "uint8>float16", "uint8>float32", "int16>bfloat16", "float32>uint8")


def with_bulk_copies(**changes: Any) -> Policy:
    """Small stages of small blocks, two of each, so that a few kilobytes are several shares of several stages."""
    chosen = {"stages": 2, "stage_bytes": 3 << 10, "resident_blocks": 2, "threads": 64, "well_filled": 0.25, **changes}
    bulk = dataclasses.replace(policy().whole_bulk_copies, **chosen)
    return dataclasses.replace(policy(), whole_bulk_copies=bulk)


def stages_of(one: Case) -> int:
    """How many stages the kernel has; 0 where threads load pixels."""
    return int(policy_of(one.launch.name)["stages"])


def pixels(count: int, width: int, pitch: int, row: int = 0, rows: int = 1) -> Layout:
    """Pixels `pitch` elements apart, in rows `row` elements apart or behind each other; sizes N H W C."""
    return in_order((1, rows, width, count), range(4), {2: pitch, 1: max(row, width * pitch)})


def padded(count: int, width: int, pitch: int, types: str = "uint8", gap: int = 0, rows: int = 1, **options) -> Case:
    """Pixels of `count` elements, with zeros up to `pitch` of them; rows `gap` elements apart on both sides."""
    source = pixels(count, width, count, width * count + gap, rows)
    target = pixels(count, width, pitch, width * pitch + gap, rows)
    one = case(source, target, types, **options)
    if pitch == count:
        return one
    return dataclasses.replace(one, channel_axis=3, filler=pitch - count)


def turned(one: Case, *axes: int) -> Case:
    """The same with the source backwards along some axes."""
    return dataclasses.replace(one, source=dataclasses.replace(one.source, layout=flipped(one.source.layout, *axes)))


@st.composite
def whole_pixels(draw: st.DrawFn) -> Case:
    """Pixels of an odd number of channels, padded or not, in one row or in several; flips, constants, channels."""
    types = draw(st.sampled_from(TYPES))
    channels = draw(st.sampled_from((3, 3, 3, 5)))
    pitch = draw(st.sampled_from((channels, channels + 1, 8)))
    rows = draw(st.sampled_from((1, 3, 7)))
    options: dict[str, Any] = {}
    if ">" in types:
        options |= {"axis": 3, "scale": ramp(channels), "bias": ramp(channels)[::-1]}
    if draw(st.booleans()):
        options |= {"axis": 3, "channels": draw(st.permutations(range(channels)))}
    one = padded(
        channels,
        16 * draw(st.integers(20, 500)) // rows // 16 * 16 + 16,
        pitch,
        types,
        draw(st.sampled_from((0, 16, 48))),
        rows,
        gpu=draw(st.sampled_from((SMALL, WIDE))),
        bits=draw(st.sampled_from((None, None, 64))),
        **options,
    )
    return turned(one, *draw(st.sets(st.sampled_from((1, 3)), max_size=2)))


def chosen_cases() -> list[Case]:
    """Edges: a share that ends with a row and within one, a last tile that is not whole, groups of part of a warp."""
    found = []
    for width, rows, gap in ((9008, 1, 0), (2048, 5, 16), (1040, 9, 16), (16400, 1, 0), (720, 13, 48)):
        for types, pitch in (("uint8", 4), ("uint8>float16", 8), ("uint8", 3), ("float32", 4)):
            options = {"axis": 3, "channels": (2, 1, 0)} if pitch == 3 else {}
            found.append(padded(3, width, pitch, types, gap, rows, **options))
    normalised = {"axis": 3, "scale": ramp(3), "bias": ramp(3), "channels": (2, 0, 1)}
    found.append(padded(3, 4112, 3, "uint8>float32", **normalised))
    by_row = {"axis": 1, "scale": ramp(5)}
    return [*found, turned(padded(3, 2048, 3, "uint8>float16", 16, 5, **by_row), 3)]


FAULTS = {
    "a stage is read before it is there": Fault("        wait(stages[from].barrier, phase);\n", ""),
    "pixels are stored before they are there": Fault("            __syncwarp();\n            const int", "const int"),
    "pixels are overwritten before they are stored": Fault("            __syncwarp();  // every lane", "  // every"),
    "warps share their memory": Fault("(int(threadIdx.x) - lane) * TargetGroup::shared_bytes;", "0;"),
    "target and stages share memory": Fault("policy.stages * stage_bytes<SourceGroup>(parameters)", "0"),
    "a group too many": Fault("if (first + lane < groups) {", "if (first + lane <= groups) {"),
    "a warp's last vectors are left out": Fault(
        "* group_elements / StoreVector::length;", "* group_elements / StoreVector::length - 1;"
    ),
}


@emulated
def test_every_byte_of_a_few_kernels_is_right():
    with using(with_bulk_copies()):
        check_cases(few(chosen_cases()))


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("capabilities", [(90, 119), (0, 0)], ids=["bulk copies", "loads"])
def test_every_byte_is_right_in_both_forms(capabilities, number):
    with using(with_bulk_copies(capabilities=capabilities)):
        cases = [*chosen_cases(), *collected(whole_pixels(), 100, number)]
        cases = [one for one in cases if one.launch.sources == ("pixels.cu",)]
        staged = sum(stages_of(one) > 0 for one in cases)
        assert staged > 60 if capabilities[0] else staged == 0
        check_cases(cases)


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("stages", [1, 3])
def test_every_byte_is_right_with_other_stages(stages):
    with using(with_bulk_copies(stages=stages, resident_blocks=3)):
        cases = few(chosen_cases())
        assert {stages_of(one) for one in cases} == {stages}
        check_cases(cases)


@emulated
@pytest.mark.slow
def test_every_byte_is_right_with_the_policys_own_numbers():
    normalised = {"axis": 3, "scale": ramp(3), "bias": ramp(3)}
    cases = [
        padded(3, 40_000, pitch, types, gpu=gpu, **(normalised if ">" in types else {}))
        for types, pitch in (("uint8", 4), ("uint8>float16", 8), ("uint8>float32", 3))
        for gpu in (SMALL, WIDE)
    ]
    assert {stages_of(one) for one in cases} == {policy().whole_bulk_copies.stages}
    check_cases(cases)


@emulated
@pytest.mark.faults
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_kernel_is_caught(fault):
    with (
        using(with_bulk_copies()),
        pytest.raises((AssertionError, EmulationError), match=r"bytes wrong|AddressSanitizer|emulation: "),
    ):
        check_cases(chosen_cases(), source_of=FAULTS[fault].joined_source)


def images(capability: int = 90, pitch: int = 4, types: str = "uint8", width: int = 4_000_000, **changes: Any) -> Case:
    """Four million pixels of RGB, padded with zeros, or what `changes` say."""
    options = {"channels": 3, "gap": 0, "rows": 1, "flip": (), "aligned": (32, 32), **changes}
    channels, flip, extra = options.pop("channels"), options.pop("flip"), options.pop("extra", {})
    gpu = dataclasses.replace(SMALL, compute_capability=capability, multiprocessors=132)
    one = padded(channels, width, pitch, types, gpu=gpu, **options, **extra)
    return turned(one, *flip)


WHETHER: dict[str, tuple[dict[str, Any], bool]] = {
    "sm_89": ({"capability": 89}, False),
    "sm_90": ({}, True),
    "sm_100": ({"capability": 100}, True),
    "sm_120": ({"capability": 120}, False),
    "to eight halves": ({"pitch": 8, "types": "uint8>float16"}, True),
    "RGB to BGR": ({"pitch": 3, "flip": (3,)}, True),
    "pixels backwards": ({"flip": (2,)}, False),
    "pixels of 4, padded in shared memory": ({"channels": 4, "pitch": 8}, False),
    "pixels of 5": ({"channels": 5, "pitch": 8}, True),
    "rows of whole 16 bytes": ({"width": 4096, "rows": 1080, "gap": 16}, True),
    "rows of no whole group": ({"width": 4008, "rows": 1080, "gap": 8}, False),
    "rows with fewer groups than threads": ({"width": 1024, "rows": 1080, "gap": 16}, False),
    "bytes of a tile that are no whole vectors": (
        {"types": "float16>uint8", "pitch": 7, "channels": 7, "flip": (3,)},
        False,
    ),
    "less than a stage for each block": ({"width": 1_000_000}, False),
    "a stage for each block": ({"width": 2_000_000}, True),
}


@pytest.mark.parametrize("name", WHETHER)
def test_plans_have_bulk_copies_where_they_can_and_should(name):
    shape, expected = WHETHER[name]
    one = images(**shape)
    staged = one.launch.sources == ("pixels.cu",) and stages_of(one) > 0
    assert staged == expected
    if staged:
        bulk = policy().whole_bulk_copies
        assert one.launch.grid[0] == 132 * bulk.resident_blocks
        assert one.launch.block == (bulk.threads, 1, 1)
        assert one.launch.shared_bytes <= bulk.block_bytes


def everyday(capability: int) -> list[Case]:
    """All types and pitches, with constants for each channel and without."""
    found = []
    for types, channels, more, order in itertools.product(TYPES, (3, 5, 7), (0, 1, 9), (None, (2, 0, 1, *range(3, 7)))):
        extra: dict[str, Any] = {"axis": 3, "scale": ramp(channels), "bias": ramp(channels)} if ">" in types else {}
        if order is not None:
            extra |= {"axis": 3, "channels": order[:channels]}
        one = images(capability, channels + more, types, channels=channels, extra=extra)
        if one.launch.sources == ("pixels.cu",) and stages_of(one):
            found += [one, dataclasses.replace(one, index_bits=64)]
    return found


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_90", "sm_100"])
def test_machine_code_has_bulk_copies_no_loads_and_no_spills(architecture):
    cases = everyday(int(architecture.removeprefix("sm_")))
    assert len(cases) > 50
    check_machine_code(cases, architecture)


@inspected
@pytest.mark.parametrize("architecture", ["sm_90", pytest.param("sm_100", marks=pytest.mark.slow)])
def test_no_thread_loads_pixels_that_bulk_copies_bring(architecture):
    capability = int(architecture.removeprefix("sm_"))
    both = []
    for capabilities in ((90, 119), (0, 0)):
        bulk = dataclasses.replace(policy().whole_bulk_copies, capabilities=capabilities)
        with using(dataclasses.replace(policy(), whole_bulk_copies=bulk)):
            one = images(capability)
            code = machine_code.compile_kernels(joined_source(*one.launch.sources), [one.launch.name], architecture)
        both.append(code[one.launch.name])
    staged, loaded = both
    assert (staged.bulk_copies > 0, staged.load_bits, loaded.bulk_copies) == (True, [], 0)
    assert loaded.loads[128] > 0
