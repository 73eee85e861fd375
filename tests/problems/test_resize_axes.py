"""Taps of several axes at once are those of each alone; products and sums of float32 are rounded once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from threading import Thread
from typing import ClassVar

import numpy as np
import pytest
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

from stridedgpu.problems.resize_taps import (
    LONG_AXIS,
    AxisGeometry,
    AxisTaps,
    filter_taps,
    filtered_axes,
    fused,
    window_taps,
)
from stridedgpu.values.bounded_cache import GENERATION
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
@given(geometries=st.lists(axes(), max_size=8), again=st.lists(axes(), max_size=3), most=st.integers(100, 9999))
def test_axes_are_computed_together_as_alone(
    interpolation: str, element: str, geometries: list[AxisGeometry], again: list[AxisGeometry], most: int
) -> None:
    """New ones, ones that were seen before, and ones that were forgotten."""
    rule = interpolation_named(interpolation)
    arithmetic = arithmetic_of(rule, element_type(element))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GENERATION, "most_bytes", most)
        for asked in (geometries, again + geometries[:2], geometries):
            for axis, taps in zip(asked, filtered_axes(rule, arithmetic, asked), strict=True):
                assert same(taps, filter_taps(rule, arithmetic, [axis])[0])


@pytest.mark.parametrize("flip", [False, True], ids=["as it is", "mirrored"])
@pytest.mark.parametrize("element", ["uint8", "float32"])
@pytest.mark.parametrize("interpolation", ["pillow-bicubic", "torch-bilinear", "torch-bicubic"])
def test_the_seen_part_of_a_long_axis_is_that_of_the_whole(interpolation: str, element: str, flip: bool) -> None:
    rule, target = interpolation_named(interpolation), LONG_AXIS + 5
    arithmetic = arithmetic_of(rule, element_type(element))
    for first, count in ((0, 3), (32_000, 224), (target - 9, 9)):
        box = (0.0, 0.0, 7.0, 31.0)
        seen = window_taps(
            rule,
            "horizontal",
            element_type(element),
            3,
            (7, 31),
            box,
            (5, target),
            flip=flip,
            seen=(1, first, 3, count),
        )
        whole = filter_taps(rule, arithmetic, [AxisGeometry(31, 0.0, 31.0, target)])[0]
        wanted = (whole.reversed() if flip else whole).part(slice(first, first + count))
        found = seen.columns
        assert np.array_equal(found.starts, wanted.starts)
        assert np.array_equal(found.counts, wanted.counts)
        assert np.array_equal(found.weights, wanted.weights[:, : found.most])
        assert not wanted.weights[:, found.most :].any()
        assert seen.rows.count == 3


def test_what_is_known_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Axes that are asked for stay."""
    first, second, *others = (AxisGeometry(10, 0.0, 10.0, size) for size in range(3, 33))
    rule, fixed = interpolation_named("pillow-bilinear"), ResizeSums.FIXED_POINT
    taps = filtered_axes(rule, fixed, [first, second])
    assert filtered_axes(rule, fixed, [second, first])[0] is taps[1]
    monkeypatch.setattr(GENERATION, "most_bytes", 2000)
    for other in others:
        filtered_axes(rule, fixed, [second, other])
    again = filtered_axes(rule, fixed, [first, second])
    assert again[0] is not taps[0]
    assert again[1] is taps[1]
    np.testing.assert_array_equal(again[0].weights, taps[0].weights)


class Disturbed(AxisGeometry):
    """An axis whose hash resizes: as a handler of a signal or the end of an object may, wherever Python runs."""

    disturbances: ClassVar[list[Callable[[], object]]] = []

    def __hash__(self) -> int:
        if self.disturbances:
            self.disturbances.pop()()
        return super().__hash__()


def test_taps_may_be_computed_in_the_middle_of_keeping_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, fixed = interpolation_named("pillow-bilinear"), ResizeSums.FIXED_POINT
    monkeypatch.setattr(GENERATION, "most_bytes", 1)
    sizes, found = iter(range(4, 9)), []

    def disturb() -> None:
        found.append(filtered_axes(rule, fixed, [AxisGeometry(10, 0.0, 10.0, next(sizes))]))

    Disturbed.disturbances[:] = [disturb] * 5
    outer = Disturbed(10, 0.0, 10.0, 3)
    thread = Thread(target=lambda: found.append(filtered_axes(rule, fixed, [outer])), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert [taps.count for (taps,) in found] == [*range(4, 4 + len(found) - 1), 3]
    assert len(found) > 2, "one of them when the taps were kept"


def test_axes_that_another_thread_forgets_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = interpolation_named("pillow-bilinear")
    monkeypatch.setattr(GENERATION, "most_bytes", 1)
    asked = [AxisGeometry(10, 0.0, 10.0, size) for size in range(1, 200)] * 4
    with ThreadPoolExecutor(8) as threads:
        found = threads.map(lambda axis: filtered_axes(rule, ResizeSums.FIXED_POINT, [axis]), asked)
        assert [taps.count for (taps,) in found] == [axis.target for axis in asked]


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**60), max_value=2.0**60)


@settings(max_examples=examples(500))
@given(x=FLOATS, factor=FLOATS, addend=FLOATS, near=st.booleans())
def test_a_product_and_a_sum_are_rounded_once(x, factor, addend, near):
    """The result is the float32 that is nearest to the exact number, and even where two are."""
    product = np.float32(x) * np.float32(factor)
    half = float(np.spacing(product)) / 2
    if near:  # an addend that puts the exact number beside the middle of two float32
        addend = float(np.float32(half * (1 + 2.0**-20)))
    exact = Fraction(x) * Fraction(factor) + Fraction(addend)
    (found,) = fused(np.array([x], np.float32), np.array([factor], np.float32), np.array([addend], np.float32))
    others = np.nextafter(found, np.float32(-np.inf)), np.nextafter(found, np.float32(np.inf))
    distance, *further = (abs(Fraction(float(number)) - exact) for number in (found, *others))
    is_even = found.view(np.uint32) % 2 == 0
    assert all(distance < other or (distance == other and is_even) for other in further)


@pytest.mark.parametrize(
    "x, factor, addend",
    [
        (1 + 2.0**-23, 1 + 2.0**-23, 2.0**-25),
        (1 + 2.0**-12, 1 + 2.0**-12, 2.0**-80),  # beside the middle of two float32, by less than a float64 shows
        (1 + 2.0**-12, 1 + 2.0**-12, -(2.0**-80)),
        (2.0**-100, 2.0**-49, 2.0**-149),  # subnormal
        (np.inf, 1.0, 2.0),
        (3e38, 2.0, -1.0),
    ],
)
def test_single_products_and_sums(x, factor, addend):
    with np.errstate(all="ignore"):
        (found,) = fused(*(np.array([number], np.float32) for number in (x, factor, addend)))
    if not np.isfinite(x) or x > 1e38:
        assert found == np.inf
        return
    exact = Fraction(x) * Fraction(factor) + Fraction(addend)
    below, above = (np.nextafter(found, np.float32(side)) for side in (-np.inf, np.inf))
    assert all(abs(Fraction(float(found)) - exact) <= abs(Fraction(float(one)) - exact) for one in (below, above))
