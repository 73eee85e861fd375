"""The model of resizes counts what a launch asks of a GPU, from plans as they now are."""

from __future__ import annotations

import pytest
from harness.emulator.marks import inspected
from resize_model import Work, computed


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("interpolation", ["pillow-bilinear", "opencv-linear"])
def test_a_batch_of_photographs_has_figures(interpolation):
    figures = computed(Work(interpolation, (37, 50), (24, 32)))
    assert 0 < figures["at_most"] <= 1
    assert figures["resident_blocks"] >= 1
