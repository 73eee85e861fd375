"""Pixels that bulk copies bring: which plans have them, run in the emulator, broken, compiled and inspected."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from harness.emulator import machine_code
from harness.emulator.cases import SMALL, WIDE, case, collected, flipped, in_order, ramp
from harness.emulator.chosen import few
from harness.emulator.marks import emulated, inspected
from harness.emulator.pixel_cases import nchw, nhwc
from harness.emulator.planned import Case, check_cases
from harness.emulator.tiled_cases import check_machine_code
from harness.emulator.tiled_tests import Fault
from harness.kernel_names import policy_of
from hypothesis import strategies as st

from stridedgpu.devices.cuda.policy import BulkCopyPolicy, Policy, policy, using
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.values.layout import Layout

ORDERS = (None, (2, 0, 1, *range(3, 7)))
"""Channels as they are, and changed."""


def stages_of(one: Case) -> int:
    """How many stages the kernel has; 0 where threads load pixels."""
    return int(policy_of(one.launch.name)["stages"])


def gpu_of(capability: int) -> Any:
    """A GPU of 132 multiprocessors."""
    return dataclasses.replace(SMALL, compute_capability=capability, multiprocessors=132)


class BulkCopyTests:
    """Tests of one kernel that bulk copies bring pixels to; which one, and with which relayouts, says each class."""

    source: ClassVar[str]
    policy: ClassVar[str]
    small: ClassVar[Mapping[str, Any]]
    strategy: ClassVar[st.SearchStrategy[Case]]
    examples: ClassVar[tuple[int, int]]
    faults: ClassVar[Mapping[str, Fault]]
    whether: ClassVar[Mapping[str, tuple[dict[str, Any], bool]]]

    def chosen_cases(self) -> list[Case]:
        """Edges of shares, rows, tiles and groups."""
        raise NotImplementedError

    def large_cases(self) -> list[Case]:
        """Relayouts large enough for the policy's own numbers."""
        raise NotImplementedError

    def everyday(self, capability: int) -> list[Case]:
        """Relayouts of all types, with constants for each channel and without."""
        raise NotImplementedError

    def images(self, capability: int = 90, **shape: Any) -> Case:
        """Many pixels of RGB, or what `shape` says."""
        raise NotImplementedError

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """A test for each fault and plan."""
        values: dict[str, Any] = {"fault": self.faults, "name": self.whether}
        for name in values.keys() & set(metafunc.fixturenames):
            metafunc.parametrize(name, list(values[name]))

    def own_numbers(self) -> BulkCopyPolicy:
        """The library's policy of these copies."""
        return getattr(policy(), self.policy)

    def small_stages(self, **changes: Any) -> Policy:
        """Small stages of small blocks, two of each, so that a few kilobytes are several shares of several stages."""
        chosen = {"stages": 2, "stage_bytes": 3 << 10, "resident_blocks": 2, **self.small, **changes}
        pixels = dataclasses.replace(policy().pixels, threads=32)
        return dataclasses.replace(self.with_numbers(**chosen), pixels=pixels)

    def with_numbers(self, **changes: Any) -> Policy:
        """The library's policy with other numbers of these copies."""
        return dataclasses.replace(policy(), **{self.policy: dataclasses.replace(self.own_numbers(), **changes)})

    def is_staged(self, one: Case) -> bool:
        """Whether this kernel carries a relayout out, with bulk copies."""
        return one.launch.sources == (self.source,) and stages_of(one) > 0

    @emulated
    def test_every_byte_of_a_few_kernels_is_right(self):
        with using(self.small_stages()):
            check_cases(few(self.chosen_cases()))

    @emulated
    @pytest.mark.slow
    @pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.sweep)])
    @pytest.mark.parametrize("capabilities", [(90, 119), (0, 0)], ids=["bulk copies", "loads"])
    def test_every_byte_is_right_in_both_forms(self, capabilities, number):
        count, least = self.examples
        with using(self.small_stages(capabilities=capabilities)):
            cases = [*self.chosen_cases(), *collected(self.strategy, count, number)]
            cases = [one for one in cases if one.launch.sources == (self.source,)]
            staged = sum(stages_of(one) > 0 for one in cases)
            assert staged > least if capabilities[0] else staged == 0
            check_cases(cases)

    @emulated
    @pytest.mark.slow
    @pytest.mark.parametrize("stages", [1, 3])
    def test_every_byte_is_right_with_other_stages(self, stages):
        with using(self.small_stages(stages=stages, resident_blocks=3)):
            cases = few(self.chosen_cases())
            assert {stages_of(one) for one in cases} == {stages}
            check_cases(cases)

    @emulated
    @pytest.mark.slow
    def test_every_byte_is_right_with_the_policys_own_numbers(self):
        cases = self.large_cases()
        assert {stages_of(one) for one in cases} == {self.own_numbers().stages}
        check_cases(cases)

    @emulated
    @pytest.mark.faults
    def test_a_broken_kernel_is_caught(self, fault):
        with using(self.small_stages()):
            self.faults[fault].check_is_caught(self.chosen_cases())

    def test_plans_have_bulk_copies_where_they_can_and_should(self, name):
        shape, expected = self.whether[name]
        one = self.images(**shape)
        assert self.is_staged(one) == expected
        if expected:
            bulk = self.own_numbers()
            assert one.launch.grid[0] == 132 * bulk.resident_blocks
            assert one.launch.block == (bulk.threads, 1, 1)
            assert one.launch.shared_bytes <= bulk.block_bytes

    def test_the_policy_switches_bulk_copies_off(self):
        with using(self.with_numbers(capabilities=(0, 0))):
            assert stages_of(self.images()) == 0
        assert stages_of(self.images()) == self.own_numbers().stages

    @inspected
    @pytest.mark.slow
    @pytest.mark.parametrize("architecture", ["sm_90", "sm_100"])
    def test_machine_code_has_bulk_copies_no_loads_and_no_spills(self, architecture):
        cases = [one for one in self.everyday(int(architecture.removeprefix("sm_"))) if self.is_staged(one)]
        cases += [dataclasses.replace(one, index_bits=64) for one in cases]
        assert len(cases) > 50
        check_machine_code(cases, architecture)

    @inspected
    @pytest.mark.parametrize("architecture", ["sm_90", pytest.param("sm_100", marks=pytest.mark.slow)])
    def test_no_thread_loads_pixels_that_bulk_copies_bring(self, architecture):
        both = []
        for chosen in (policy(), self.with_numbers(capabilities=(0, 0))):
            with using(chosen):
                one = self.images(int(architecture.removeprefix("sm_")))
                code = machine_code.compile_kernels(joined_source(*one.launch.sources), [one.launch.name], architecture)
            both.append(code[one.launch.name])
        staged, loaded = both
        assert (staged.bulk_copies > 0, staged.load_bits, loaded.bulk_copies) == (True, [], 0)
        assert loaded.loads[128] > 0
        assert min(staged.stores[128], loaded.stores[128]) > 0
        assert staged.registers <= 64


SPLIT_TYPES = (
    *("uint8", "float16", "float32", "int64", "complex128"),
    *("uint8>float16", "uint8>float32", "uint8>float64", "int16>bfloat16", "float16>float32", "int32>float64"),
)
"""Elements whose groups are so small that a stage has one for each thread."""


@st.composite
def split_pixels(draw: st.DrawFn) -> Case:
    """Pixels of an odd number of channels whose rows are whole 16 bytes, long ones and short ones; flips, constants."""
    types = draw(st.sampled_from(SPLIT_TYPES))
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


class TestSplitPixels(BulkCopyTests):
    """Pixels split into planes."""

    source = "channels.cu"
    policy = "bulk_copies"
    small: ClassVar = {"threads": 32, "well_filled": 0.5}
    strategy = split_pixels()
    examples = (120, 100)
    faults: ClassVar = {
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
    whether: ClassVar = {
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

    def chosen_cases(self) -> list[Case]:
        """A share that ends with a row and within one, a last tile that is not whole, more blocks than shares."""
        found = []
        for width, sizes in ((1040, (1, 13)), (1024, (1, 12)), (336, (2, 19)), (4112, (1, 3)), (30_000, (1, 1))):
            for types in ("uint8", "uint8>float16"):
                found.append(case(nhwc(3, width, 3, sizes=sizes), nchw(3, width, sizes=sizes), types))
                padded = nhwc(3, width, 3, 3 * width + 16, sizes)
                found.append(case(flipped(padded, 3), nchw(3, width, sizes=sizes), types))
        normalised = {"axis": 1, "scale": ramp(3), "bias": ramp(3), "channels": (2, 1, 0)}
        return [*found, case(nhwc(3, 1040, sizes=(1, 13)), nchw(3, 1040, sizes=(1, 13)), "uint8>float32", **normalised)]

    def large_cases(self) -> list[Case]:
        planes, normalised = nchw(3, 1024, sizes=(1, 44)), {"axis": 1, "scale": ramp(3), "bias": ramp(3)}
        return [
            case(nhwc(3, 1024, 3, sizes=(1, 44)), planes, types, gpu=gpu, **(normalised if ">" in types else {}))
            for types in ("uint8", "uint8>float16", "uint8>float32")
            for gpu in (SMALL, WIDE)
        ]

    def images(self, capability: int = 90, types: str = "uint8>float16", **shape: Any) -> Case:
        """256 photographs of 224 x 224, normalised, or what `shape` says."""
        form = {"channels": 3, "width": 224, "row": 0, "sizes": (256, 224), "aligned": (32, 32), **shape}
        count = form["channels"]
        source = nhwc(count, form["width"], form.get("pixel", count), form["row"], form["sizes"])
        target = nchw(count, form["width"], sizes=form["sizes"])
        options = form.get("options", {"scale": ramp(count), "bias": ramp(count)})
        return case(source, target, types, aligned=form["aligned"], gpu=gpu_of(capability), axis=1, **options)

    def everyday(self, capability: int) -> list[Case]:
        found = []
        for types, channels, order in itertools.product(SPLIT_TYPES, (3, 5, 7), ORDERS):
            options: dict[str, Any] = {"scale": ramp(channels), "bias": ramp(channels)} if ">" in types else {}
            if order is not None:
                options["channels"] = order[:channels]
            found.append(self.images(capability, types, channels=channels, options=options))
        return found


WHOLE_TYPES = ("uint8", "float16", "float32", "uint8>float16", "uint8>float32", "int16>bfloat16", "float32>uint8")


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
    types = draw(st.sampled_from(WHOLE_TYPES))
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


class TestWholePixels(BulkCopyTests):
    """Pixels that stay whole, padded or with other channels."""

    source = "pixels.cu"
    policy = "whole_bulk_copies"
    small: ClassVar = {"threads": 64, "well_filled": 0.25}
    strategy = whole_pixels()
    examples = (100, 60)
    faults: ClassVar = {
        "a stage is read before it is there": Fault("        wait(stages[from].barrier, phase);\n", ""),
        "pixels are stored before they are there": Fault(
            "            __syncwarp();\n            const int", "const int"
        ),
        "pixels are overwritten before they are stored": Fault(
            "            __syncwarp();  // every lane", "  // every"
        ),
        "warps share their memory": Fault("(int(threadIdx.x) - lane) * TargetGroup::shared_bytes;", "0;"),
        "target and stages share memory": Fault("policy.stages * stage_bytes<SourceGroup>(parameters)", "0"),
        "a group too many": Fault("if (first + lane < groups) {", "if (first + lane <= groups) {"),
        "a warp's last vectors are left out": Fault(
            "* group_elements / StoreVector::length;", "* group_elements / StoreVector::length - 1;"
        ),
    }
    whether: ClassVar = {
        "sm_89": ({"capability": 89}, False),
        "sm_90": ({}, True),
        "sm_100": ({"capability": 100}, True),
        "sm_120": ({"capability": 120}, False),
        "to eight halves": ({"pitch": 8, "types": "uint8>float16"}, True),
        "RGB to BGR": ({"pitch": 3, "flip": (3,)}, True),
        "pixels backwards": ({"flip": (2,)}, False),
        "pixels of 4, padded in shared memory": ({"count": 4, "pitch": 8}, False),
        "pixels of 5": ({"count": 5, "pitch": 8}, True),
        "rows of whole 16 bytes": ({"width": 4096, "rows": 1080, "gap": 16}, True),
        "rows of no whole group": ({"width": 4008, "rows": 1080, "gap": 8}, False),
        "rows with fewer groups than threads": ({"width": 1024, "rows": 1080, "gap": 16}, False),
        "bytes of a tile that are no whole vectors": (
            {"types": "float16>uint8", "pitch": 7, "count": 7, "flip": (3,)},
            False,
        ),
        "less than a stage for each block": ({"width": 1_000_000}, False),
        "a stage for each block": ({"width": 2_000_000}, True),
    }

    def chosen_cases(self) -> list[Case]:
        """A share that ends with a row and within one, a last tile that is not whole, groups of part of a warp."""
        found = []
        for width, rows, gap in ((9008, 1, 0), (2048, 5, 16), (1040, 9, 16), (16400, 1, 0), (720, 13, 48)):
            for types, pitch in (("uint8", 4), ("uint8>float16", 8), ("uint8", 3), ("float32", 4)):
                options = {"axis": 3, "channels": (2, 1, 0)} if pitch == 3 else {}
                found.append(padded(3, width, pitch, types, gap, rows, **options))
        normalised = {"axis": 3, "scale": ramp(3), "bias": ramp(3), "channels": (2, 0, 1)}
        found.append(padded(3, 4112, 3, "uint8>float32", **normalised))
        by_row = {"axis": 1, "scale": ramp(5)}
        return [*found, turned(padded(3, 2048, 3, "uint8>float16", 16, 5, **by_row), 3)]

    def large_cases(self) -> list[Case]:
        normalised = {"axis": 3, "scale": ramp(3), "bias": ramp(3)}
        return [
            padded(3, 40_000, pitch, types, gpu=gpu, **(normalised if ">" in types else {}))
            for types, pitch in (("uint8", 4), ("uint8>float16", 8), ("uint8>float32", 3))
            for gpu in (SMALL, WIDE)
        ]

    def images(
        self, capability: int = 90, count: int = 3, pitch: int = 4, flip: tuple[int, ...] = (), **shape: Any
    ) -> Case:
        """Four million pixels of RGB, padded with zeros, or what `shape` says."""
        form = {"width": 4_000_000, "aligned": (32, 32), **shape}
        return turned(padded(count, pitch=pitch, gpu=gpu_of(capability), **form), *flip)

    def everyday(self, capability: int) -> list[Case]:
        found = []
        for types, count, more, order in itertools.product(WHOLE_TYPES, (3, 5, 7), (0, 1, 9), ORDERS):
            extra: dict[str, Any] = {"axis": 3}
            if ">" in types:
                extra |= {"scale": ramp(count), "bias": ramp(count)}
            if order is not None:
                extra["channels"] = order[:count]
            found.append(self.images(capability, count, count + more, types=types, **extra))
        return found
