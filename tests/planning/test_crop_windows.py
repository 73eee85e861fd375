"""Crop windows as values: which part of one lies over its source, and what several sources share."""

from __future__ import annotations

from hypothesis import given, strategies as st

from stridedgpu.planning.crop_windows import covered, source_steps
from stridedgpu.values.layout import Layout


@given(st.integers(-12, 12), st.integers(0, 6), st.integers(0, 6))
def test_the_covered_slice_has_the_rows_that_are_those_of_the_source(origin, size, extent):
    rows = [row for row in range(size) if 0 <= origin + row < extent]
    assert [*range(size)][covered(origin, size, extent)] == rows


def test_steps_are_those_that_all_sources_share():
    planes, pixels = Layout((3, 4, 5)), Layout((3, 4, 5), (1, 15, 3))
    assert source_steps([]) == (0, 0)
    assert source_steps([planes, Layout((3, 4, 5))]) == (20, 1)
    assert source_steps([pixels, Layout((3, 6, 7), (1, 21, 3))]) == (1, 3)
    assert source_steps([planes, Layout((3, 6, 7))]) == (0, 1)
    assert source_steps([planes, pixels]) == (0, 0)
