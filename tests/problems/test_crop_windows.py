"""Crop windows as values: which part of one lies over its source, and what several sources share."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from stridedgpu.problems.crop_windows import CropProblem, covered, source_steps
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec


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


@pytest.mark.parametrize(
    "planned, given, is_taken",
    [
        ((1, 3), (1, 3), True),
        ((1, 3), (1, 4), False),
        ((1, 3), (2, 3), False),
        ((20, 1), (30, 1), True),
        ((20, 1), (20, 2), False),
        ((0, 3), (7, 3), True),
        ((0, 3), (7, 4), False),
        ((5, 0), (5, 7), True),
        ((5, 0), (6, 7), False),
        ((0, 0), (6, 7), True),
    ],
)
def test_a_plan_takes_sources_of_its_steps_and_planes_any_distance_apart(planned, given, is_taken):
    byte = element_type("uint8")
    target = TensorSpec(Layout((2, 3, 4, 5)), byte, 16)
    assert CropProblem(target, planned, conversion(byte, byte), bytes(3)).takes(given) is is_taken
