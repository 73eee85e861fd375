"""The model of resizes counts what a launch asks of a GPU, from plans as they now are."""

from __future__ import annotations

import pytest
from harness.emulator.marks import inspected
from resize_model import computed

from benchmarks.suite.resizes import RESIZES, ResizeWork


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("interpolation", ["pillow-bilinear", "opencv-linear"])
def test_a_batch_of_photographs_has_figures(interpolation):
    figures = computed(ResizeWork(interpolation, (37, 50), (24, 32)))
    assert 0 < figures["at_most"] <= 1
    assert figures["resident_blocks"] >= 1


@inspected
@pytest.mark.slow
def test_a_block_waits_for_its_record_its_reach_its_taps_and_its_rows():
    """The taps of both axes come together, and rows in two turns of four a warp."""
    figures = computed(RESIZES["500x375 bilinear"])
    assert figures["waits"] <= 5
    assert figures["instructions_per_byte"] < 22


@inspected
@pytest.mark.slow
def test_bytes_of_the_second_pass_take_one_instruction_each():
    """A thread loads eight bytes at once: each is a permute and a product. A shift and a mask made 7.7 a byte moved."""
    figures = computed(RESIZES["500x375 bicubic"])
    assert figures["integers_per_byte"] < 7.2


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("name", ["NV12 to 640", "I420 to 640", "YUYV to 640", "P010 to 640"])
def test_a_warp_waits_for_groups_of_pixels_of_a_frame_and_not_for_each_pair(name):
    """Four groups of eight pixels a lane come together. Pairs of pixels, a row after another, made 26 to 56 waits."""
    figures = computed(RESIZES[name])
    assert figures["waits"] <= 9
    assert figures["instructions_per_byte"] < 40
