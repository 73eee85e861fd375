"""Pixels that bulk copies bring: which plans have them, run in the emulator, broken, compiled and inspected."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from harness.emulator import machine_code
from harness.emulator.cases import SMALL, WIDE, case, collected, flipped, ramp
from harness.emulator.chosen import few
from harness.emulator.marks import emulated, inspected
from harness.emulator.pixel_cases import nchw, nhwc
from harness.emulator.planned import Case, check_cases
from harness.emulator.runner import EmulationError
from harness.emulator.tiled_cases import check_machine_code
from harness.emulator.tiled_tests import Fault
from harness.kernel_names import policy_of
from hypothesis import strategies as st

from stridedgpu.devices.cuda.policy import Policy, policy, using
from stridedgpu.devices.cuda.sources import joined_source

TYPES = (
    *("uint8", "float16", "float32", "int64", "complex128"),
    *("uint8>float16", "uint8>float32", "uint8>float64", "int16>bfloat16", "float16>float32", "int32>float64"),
)
"""Elements whose groups are so small that a stage has one for each thread."""


def with_bulk_copies(**changes: Any) -> Policy:
    """Small stages of small blocks, two of each, so that a few kilobytes are several shares of several stages."""
    chosen = {"stages": 2, "stage_bytes": 3 << 10, "threads": 32, "resident_blocks": 2, "well_filled": 0.5, **changes}
    bulk = dataclasses.replace(policy().bulk_copies, **chosen)
    return dataclasses.replace(policy(), bulk_copies=bulk, pixels=dataclasses.replace(policy().pixels, threads=32))


def stages_of(one: Case) -> int:
    """How many stages the kernel has; 0 where threads load pixels."""
    return int(policy_of(one.launch.name)["stages"])


@st.composite
def split_pixels(draw: st.DrawFn) -> Case:
    """Pixels of an odd number of channels whose rows are whole 16 bytes, long ones and short ones; flips, constants."""
    types = draw(st.sampled_from(TYPES))
    channels = draw(st.sampled_from((3, 3, 3, 5, 7)))
    width = 16 * draw(st.integers(16, 150))
    gap = draw(st.sampled_from((0, 0, 16, 48)))
    least = 40_000 // (width * channels)
    sizes = (draw(st.integers(1, 3)), max(1, draw(st.integers(least // 2, least))))
    source = nhwc(channels, width, channels, width * channels + gap, sizes)
    target = nchw(channels, width, width + draw(st.sampled_from((0, 16))), sizes)
    axis = draw(st.none() | st.integers(0, 3))
    options: dict[str, Any] = {}
    if axis is not None and ">" in types:
        options = {"axis": axis, "scale": ramp(target.sizes[axis]), "bias": ramp(target.sizes[axis])[::-1]}
    if axis == 1:
        options["axis"] = 1
        options["channels"] = draw(st.permutations(range(channels)))
    return case(
        flipped(source, *draw(st.sets(st.integers(0, 3), max_size=2))),
        target,
        types,
        gpu=draw(st.sampled_from((SMALL, WIDE))),
        bits=draw(st.sampled_from((None, None, 64))),
        **options,
    )


def chosen_cases() -> list[Case]:
    """Edges: a share that ends with a row and within one, a last tile that is not whole, more blocks than shares."""
    found = []
    for width, sizes in ((1040, (1, 13)), (1024, (1, 12)), (336, (2, 19)), (4112, (1, 3)), (30_000, (1, 1))):
        for types in ("uint8", "uint8>float16"):
            found.append(case(nhwc(3, width, 3, sizes=sizes), nchw(3, width, sizes=sizes), types))
            padded = nhwc(3, width, 3, 3 * width + 16, sizes)
            found.append(case(flipped(padded, 3), nchw(3, width, sizes=sizes), types))
    normalised = {"axis": 1, "scale": ramp(3), "bias": ramp(3), "channels": (2, 1, 0)}
    return [*found, case(nhwc(3, 1040, sizes=(1, 13)), nchw(3, 1040, sizes=(1, 13)), "uint8>float32", **normalised)]


FAULTS = {
    "stages are read before they are there": Fault("        wait(stages[from].barrier, phase);\n", ""),
    "stages are filled while they are read": Fault(
        "        __syncthreads();  // every thread has read the stage\n", ""
    ),
    "phases are never counted": Fault("            ++phase;\n", ""),
    "a row's end is left out": Fault(
        "parameters.pixels, tile.pixel, tiles * tile_pixels)",
        "parameters.pixels, tile.pixel + 16, tiles * tile_pixels)",
    ),
    "a stage goes on into the next row": Fault(
        "positions_left(parameters.pixel_tiles.divisor, in_row,", "positions_left(parameters.blocks, number,"
    ),
    "a share ends too early": Fault(
        "positions_left(parameters.blocks, number, int(parameters.block_tiles))",
        "positions_left(parameters.blocks, number, int(parameters.block_tiles) - 1)",
    ),
    "fewer bytes are expected": Fault(
        "expect(stage.barrier, uint32(pixels * pixel_bytes));",
        "expect(stage.barrier, uint32(pixels * pixel_bytes) / 2);",
    ),
    "the last group is left out": Fault("OneRow ? pixels_left / length", "OneRow ? (pixels_left - 1) / length"),
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
        cases = [*chosen_cases(), *collected(split_pixels(), 120, number)]
        cases = [one for one in cases if one.launch.sources == ("channels.cu",)]
        staged = sum(stages_of(one) > 0 for one in cases)
        assert staged > 100 if capabilities[0] else staged == 0
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
    planes, normalised = nchw(3, 1024, sizes=(1, 44)), {"axis": 1, "scale": ramp(3), "bias": ramp(3)}
    cases = [
        case(nhwc(3, 1024, 3, sizes=(1, 44)), planes, types, gpu=gpu, **(normalised if ">" in types else {}))
        for types in ("uint8", "uint8>float16", "uint8>float32")
        for gpu in (SMALL, WIDE)
    ]
    assert {stages_of(one) for one in cases} == {policy().bulk_copies.stages}
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


def photographs(types: str = "uint8>float16", capability: int = 90, **changes: Any) -> Case:
    """256 photographs of 224 x 224, or what `changes` say."""
    shape = {"channels": 3, "pixel": 3, "width": 224, "row": 0, "sizes": (256, 224), "aligned": (32, 32), **changes}
    gpu = dataclasses.replace(SMALL, compute_capability=capability, multiprocessors=132)
    source = nhwc(shape["channels"], shape["width"], shape["pixel"], shape["row"], shape["sizes"])
    target = nchw(shape["channels"], shape["width"], sizes=shape["sizes"])
    return case(source, target, types, aligned=shape["aligned"], gpu=gpu, axis=1, **shape.get("options", {}))


WHETHER: dict[str, tuple[dict[str, Any], bool]] = {
    "sm_75": ({"capability": 75}, False),
    "sm_89": ({"capability": 89}, False),
    "sm_90": ({}, True),
    "sm_100": ({"capability": 100}, True),
    "sm_120": ({"capability": 120}, False),
    "rows in which no 16 bytes begin": ({"aligned": (8, 32)}, False),
    "rows of 16 bytes and 8": ({"width": 1928, "row": 5792, "sizes": (16, 1080)}, False),
    "rows of whole 16 bytes": ({"width": 1920, "row": 5792, "sizes": (16, 1080)}, True),
    "rows with fewer groups than threads": ({"row": 704}, False),
    "pixels of 4, padded in shared memory": ({"channels": 4, "pixel": 4}, False),
    "pixels with gaps": ({"channels": 3, "pixel": 5}, False),
    "pixels of 5": ({"channels": 5, "pixel": 5}, True),
    "groups so large that a stage is none for each thread": ({"types": "float32>uint8"}, False),
    "less than a stage for each block": ({"sizes": (40, 224)}, False),
    "a stage for each block": ({"sizes": (64, 224)}, True),
}


@pytest.mark.parametrize("name", WHETHER)
def test_plans_have_bulk_copies_where_they_can_and_should(name):
    shape, expected = WHETHER[name]
    one = photographs(**shape)
    assert one.launch.sources == ("channels.cu",) or not expected
    staged = one.launch.sources == ("channels.cu",) and stages_of(one) > 0
    assert staged == expected
    if staged:
        bulk = policy().bulk_copies
        assert one.launch.grid[0] == 132 * bulk.resident_blocks
        assert one.launch.shared_bytes <= bulk.stages * bulk.stage_bytes


def test_the_policy_switches_bulk_copies_off():
    off = dataclasses.replace(policy().bulk_copies, capabilities=(0, 0))
    with using(dataclasses.replace(policy(), bulk_copies=off)):
        assert stages_of(photographs()) == 0
    assert stages_of(photographs()) == policy().bulk_copies.stages


def everyday() -> list[Case]:
    """All types, with constants for each channel and without, whose pixels follow each other in rows and in images."""
    found = []
    for types, channels, capability, order in itertools.product(
        TYPES, (3, 5, 7), (90, 100), (None, (2, 0, 1, *range(3, 7)))
    ):
        options: dict[str, Any] = {"scale": ramp(channels), "bias": ramp(channels)} if ">" in types else {}
        if order is not None:
            options["channels"] = order[:channels]
        one = photographs(types, capability, channels=channels, pixel=channels, options=options)
        if one.launch.sources == ("channels.cu",) and stages_of(one):
            found.append(one)
            found.append(dataclasses.replace(one, index_bits=64))
    return found


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_90", "sm_100"])
def test_machine_code_has_bulk_copies_no_loads_and_no_spills(architecture):
    cases = [one for one in everyday() if f"sm_{one.gpu.compute_capability}" == architecture]
    assert len(cases) > 50
    check_machine_code(cases, architecture)


@inspected
@pytest.mark.parametrize("architecture", ["sm_90", pytest.param("sm_100", marks=pytest.mark.slow)])
def test_no_thread_loads_pixels_that_bulk_copies_bring(architecture):
    capability = int(architecture.removeprefix("sm_"))
    normalised = {"scale": ramp(3), "bias": ramp(3)}
    both = []
    for chosen in (policy(), with_bulk_copies(capabilities=(0, 0))):
        with using(dataclasses.replace(chosen, pixels=policy().pixels)):
            one = photographs(capability=capability, options=normalised)
            code = machine_code.compile_kernels(joined_source(*one.launch.sources), [one.launch.name], architecture)
        both.append(code[one.launch.name])
    staged, loaded = both
    assert (staged.bulk_copies > 0, staged.load_bits, loaded.bulk_copies) == (True, [], 0)
    assert loaded.loads[128] > 0
    assert staged.stores[128] == loaded.stores[128]
    assert staged.registers <= 64
