"""Pixels of few channels as values: what fits a thread's registers, and how far apart groups lie in shared memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from harness.emulator.cases import case, flipped

from stridedgpu.devices.cuda.relayout.pixels import PixelGroup, Pixels, pixels_of, whole_pixels_of
from stridedgpu.values.layout import Layout


def joined(pitch: int, filler: int = 0) -> Pixels:
    """Planes of 3 channels that become pixels."""
    planes, pixels = Layout((2, 500, 3), (1500, 1, 500)), Layout((2, 500, 3), (500 * pitch, pitch, 1))
    found = pixels_of(replace(case(planes, pixels, axis=2), filler=filler).plan.problem)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "length, pitch, itemsize, nbytes",
    [(4, 3, 1, 12), (4, 4, 1, 20), (8, 4, 2, 80), (1, 3, 1, 3), (2, 2, 1, 4)],
    ids=["odd already", "one unit more", "units of 16 bytes", "bytes", "pairs of bytes"],
)
def test_groups_lie_an_odd_number_of_units_apart(length, pitch, itemsize, nbytes):
    assert PixelGroup(length, pitch, itemsize).shared_bytes == nbytes


def test_zeros_behind_pixels_are_held_where_they_are_all_that_is_between_them():
    assert joined(4, filler=1).fit_registers
    assert not joined(6, filler=1).fit_registers


def test_gaps_are_left_that_nobody_fills():
    assert joined(4).leaves_gaps
    assert not joined(4, filler=1).leaves_gaps
    assert not joined(3).leaves_gaps


@pytest.mark.parametrize("count, length", [(500, 4), (502, 2), (501, 1)])
def test_pixels_that_run_backwards_are_reversed_in_whole_groups(count, length):
    pixels, padded = Layout((2, count, 3)), Layout((2, count, 3), (4 * count, 4, 1))
    made = whole_pixels_of(case(flipped(pixels, 1), padded).plan.problem)
    assert [group.length for group in made.groups] == [length, length]
    assert whole_pixels_of(case(pixels, padded).plan.problem).groups[0].length >= 4
