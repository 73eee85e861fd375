"""The model of resizes counts what a launch asks of a GPU, from plans as they now are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from harness.emulator.marks import inspected
from kernel_model import MACHINES
from resize_model import WITHOUT_PRODUCTS, computed

from benchmarks.suite.resizes import RESIZES, ResizeWork
from stridedgpu.devices.cuda.policy import policy, using


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("interpolation", ["pillow-bilinear", "opencv-linear"])
def test_a_batch_of_photographs_has_figures(interpolation):
    figures = computed(ResizeWork(interpolation, (150, 200), (96, 128)))
    assert 0 < figures["at_most"] <= 1
    assert figures["resident_blocks"] >= 1


CUBIC = ResizeWork("opencv-cubic", (375, 500))
"""Tiles in shared memory: neither products of matrices nor two taps."""


@inspected
@pytest.mark.slow
def test_a_block_waits_for_its_record_its_reach_its_taps_and_its_rows():
    """The taps of both axes come together, and rows in two turns of four a warp."""
    figures = computed(CUBIC)
    assert figures["waits"] <= 5
    assert figures["instructions_per_byte"] < 29


@inspected
@pytest.mark.slow
def test_bytes_of_the_second_pass_take_one_instruction_each():
    """A thread loads eight bytes at once: each is a permute and a product. A shift and a mask were two more."""
    figures = computed(CUBIC)
    assert figures["integers_per_byte"] < 6.6


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["a100", "h200", "b200"])
def test_a_block_of_products_waits_for_its_record_its_reach_and_all_else(gpu):
    """Sums of one thread each take 21 to 25 instructions a byte, and wait five or six times.

    Blocks of several tiles wait once for each: its rows and taps are copied while the tile before is written.
    Conflicts in banks of shared memory are a seventh of its accesses.
    """
    resize = policy().resize
    single = replace(policy(), resize=replace(resize, products=replace(resize.products, most_turns=1)))
    with using(single):
        assert computed(RESIZES["500x375 bilinear"], MACHINES[gpu])["waits"] <= 4
    figures = computed(RESIZES["500x375 bilinear"], MACHINES[gpu])
    assert figures["waits"] <= 2 + 6
    assert figures["instructions_per_byte"] < 12
    assert figures["shared_passes"] < 1.2 * figures["shared_passes_at_least"]


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["a100", "h200", "b200", "5090"])
@pytest.mark.parametrize(
    "name", ["500x375 bicubic", "500x375 rows first", "320x240 bilinear", "224x224 to 448", "4K bilinear"]
)
def test_products_are_no_slower_by_the_model(name, gpu):
    machine = MACHINES[gpu]
    with using(WITHOUT_PRODUCTS):
        before = computed(RESIZES[name], machine)
    assert computed(RESIZES[name], machine)["microseconds"] <= before["microseconds"]


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["a100", "h200", "b200"])
def test_rows_first_take_a_third_of_the_instructions_of_sums_of_one_thread_each(gpu):
    """Sums of one thread each take 44 instructions a byte on an H200."""
    figures = computed(RESIZES["500x375 rows first"], MACHINES[gpu])
    assert figures["instructions_per_byte"] < 14
    assert figures["shared_passes"] < 1.2 * figures["shared_passes_at_least"]


@inspected
@pytest.mark.slow
def test_a_warp_waits_for_groups_of_pixels_of_a_frame_and_not_for_each_pair():
    """Four groups of eight pixels a lane come together. Pairs of pixels, a row after another, made 26 to 56 waits."""
    figures = computed(RESIZES["NV12 to 224"])
    assert figures["waits"] <= 12
    assert figures["instructions_per_byte"] < 47


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["a100", "h200", "b200", "5090"])
@pytest.mark.parametrize("name", ["500x375 opencv", "NV12 to 640", "I420 to 640", "YUYV to 640", "P010 to 640"])
def test_pixels_are_converted_and_summed_where_two_taps_read_them(name, gpu):
    """Rows staged and converted whole took 18 to 22 instructions a byte for images, and 30 to 59 for frames."""
    figures = computed(RESIZES[name], MACHINES[gpu])
    assert figures["instructions_per_byte"] < (10 if name == "500x375 opencv" else 13)
    assert figures["waits"] <= 15  # for its record, its taps, and each of 8 rows
