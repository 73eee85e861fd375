"""Taps of several axes at once are those of each alone."""

from __future__ import annotations

import numpy as np
import pytest
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

from stridedgpu.problems.resize_taps import AxisGeometry, AxisTaps, FilteredAxes, filter_taps
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.interpolation import ResizeSums, arithmetic_of, interpolation_named


@st.composite
def axes(draw: st.DrawFn) -> AxisGeometry:
    """Parts of an axis and whole ones, of three result sizes."""
    source, target = draw(st.integers(1, 90)), draw(st.sampled_from([1, 7, 40]))
    low = draw(st.floats(0, source - 0.5, width=32))
    high = draw(st.floats(low + 0.25, source))
    return AxisGeometry(source, *draw(st.sampled_from([(low, high), (0.0, float(source))])), target)


def same(left: AxisTaps, right: AxisTaps) -> bool:
    """Equal to the bit, and in shape."""
    parts = (left.starts, right.starts), (left.counts, right.counts), (left.weights, right.weights)
    return (left.first, left.stop, left.copies) == (right.first, right.stop, right.copies) and all(
        one.shape == other.shape and one.tobytes() == other.tobytes() for one, other in parts
    )


@pytest.mark.parametrize("element", ["uint8", "float32"])
@pytest.mark.parametrize("interpolation", ["pillow-box", "pillow-bicubic", "pillow-lanczos", "torch-bicubic"])
@settings(max_examples=examples(30))
@given(geometries=st.lists(axes(), max_size=8), again=st.lists(axes(), max_size=3), most=st.integers(1, 9))
def test_axes_are_computed_together_as_alone(
    interpolation: str, element: str, geometries: list[AxisGeometry], again: list[AxisGeometry], most: int
) -> None:
    """New ones, ones that were seen before, and ones that were given up."""
    rule, known = interpolation_named(interpolation), FilteredAxes(most)
    arithmetic = arithmetic_of(rule, element_type(element))
    for asked in (geometries, again + geometries[:2], geometries):
        for axis, taps in zip(asked, known.taps(rule, arithmetic, asked), strict=True):
            assert same(taps, filter_taps(rule, arithmetic, [axis])[0])


def test_what_is_known_is_not_computed_again() -> None:
    """The newest axes stay."""
    first, second, third = (AxisGeometry(10, 0.0, 10.0, size) for size in (3, 4, 5))
    known, rule = FilteredAxes(2), interpolation_named("pillow-bilinear")
    fixed = ResizeSums.FIXED_POINT
    taps = known.taps(rule, fixed, [first, second])
    assert known.taps(rule, fixed, [second, first])[0] is taps[1]
    known.taps(rule, fixed, [third])
    again = known.taps(rule, fixed, [first, second])
    assert again[0] is not taps[0]
    np.testing.assert_array_equal(again[0].weights, taps[0].weights)
