"""Tables of the filters of Pillow and torch by a loop of the library have the bits of NumPy's."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from harness.native_loops import needs_library
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

from stridedgpu.devices.cpu.native.resize_tables import FilterAxis, filter_table
from stridedgpu.problems.resize_taps import Array, AxisGeometry, filter_steps, filter_taps
from stridedgpu.values.interpolation import INTERPOLATIONS, ResizeSums, interpolation_named

pytestmark = needs_library

FILTERS = [name for name, rule in INTERPOLATIONS.items() if rule.sampling == "filter"]


@st.composite
def geometries(draw: st.DrawFn) -> AxisGeometry:
    """Boxes of whole pixels and of fractions, enlarged and shrunk."""
    source, target = draw(st.integers(1, 600)), draw(st.integers(1, 300))
    edges = st.integers(0, source).map(float) if draw(st.booleans()) else st.floats(0, source, width=32)
    low, high = sorted(draw(st.tuples(edges, edges)))
    return AxisGeometry(source, low, high, target) if low + 0.01 < high else AxisGeometry(source, 0, source, target)


def words(address: int, count: int, kind: type) -> Array:
    """Numbers at an address."""
    return np.ctypeslib.as_array((kind * count).from_address(address))


@pytest.mark.parametrize("interpolation", FILTERS)
@settings(max_examples=examples(100))
@given(
    geometry=geometries(),
    first=st.integers(0, 9),
    step=st.integers(-4, 4).filter(bool),
    origin=st.integers(-9, 9),
    mask=st.sampled_from([-1, 7]),
    mirrored=st.booleans(),
    data=st.data(),
)
def test_weights_and_places_are_numpys(
    interpolation: str,
    geometry: AxisGeometry,
    first: int,
    step: int,
    origin: int,
    mask: int,
    mirrored: bool,
    data: st.DataObject,
) -> None:
    """Some pixels of an axis, mirrored or not, whose source pixels are numbered anew."""
    rule = interpolation_named(interpolation)
    if geometry.is_whole:
        return
    begin = data.draw(st.integers(0, geometry.target - 1))
    count = data.draw(st.integers(1, geometry.target - begin))
    pixels = (begin + count - 1, -1, count) if mirrored else (begin, 1, count)
    axis = FilterAxis(filter_steps(rule, geometry), first, geometry.source, geometry.target, pixels)
    fields, memory = filter_table(rule, axis, step=step, origin=origin, mask=mask)
    taps = filter_taps(rule, ResizeSums.FIXED_POINT, [geometry])[0].part(slice(begin, begin + count))
    taps = taps.reversed() if mirrored else taps
    assert memory.size
    assert axis.reach == (first + taps.reach[0], first + taps.reach[1])
    assert axis.most_taps >= taps.counts.max()

    np.testing.assert_array_equal(words(fields["counts"], count, ctypes.c_int64), (taps.counts + 1) // 2)
    firsts = taps.starts + first * step + origin
    np.testing.assert_array_equal(words(fields["firsts"], count, ctypes.c_int64), firsts)
    np.testing.assert_array_equal(words(fields["ends"], count, ctypes.c_int64), firsts + taps.counts)
    indices = words(fields["indices"], count * fields["groups"] * 2, ctypes.c_int64).reshape(count, -1)
    parts = 1 if rule.has_narrow_weights else 2
    halves = words(fields["weights"], count * fields["groups"] * 2 * parts, ctypes.c_int16)
    halves = halves.reshape(count, fields["groups"], parts, 2)
    for pixel in range(count):
        number = int(taps.counts[pixel])
        places = (taps.starts[pixel] + first + np.arange(number)) * step + origin
        np.testing.assert_array_equal(indices[pixel, :number], places & mask)
        used = halves[pixel, : (number + 1) // 2].astype(np.int64)
        weights = used[:, 0] << fields["unused"] if parts == 1 else (used[:, 0] << 11) + used[:, 1]
        weights = weights.reshape(-1)
        np.testing.assert_array_equal(weights[:number], taps.weights[pixel, :number])
        assert not weights[number:].any()


@pytest.mark.parametrize("interpolation", FILTERS)
@settings(max_examples=examples(50))
@given(geometry=geometries(), step=st.sampled_from([-1, 1]), origin=st.integers(600, 609))
def test_pairs_of_taps_begin_at_even_places(interpolation: str, geometry: AxisGeometry, step: int, origin: int) -> None:
    """The same weights in ascending order, with one of 0 before an odd place and behind the last."""
    rule = interpolation_named(interpolation)
    if geometry.is_whole:
        return
    axis = FilterAxis(filter_steps(rule, geometry), 0, geometry.source, geometry.target, (0, 1, geometry.target))
    fields, memory = filter_table(rule, axis, step=step, origin=origin, parity=1)
    taps = filter_taps(rule, ResizeSums.FIXED_POINT, [geometry])[0]
    assert memory.size
    counts = words(fields["counts"], geometry.target, ctypes.c_int64)
    indices = words(fields["indices"], geometry.target, ctypes.c_int64)
    parts = 1 if rule.has_narrow_weights else 2
    halves = words(fields["weights"], geometry.target * fields["groups"] * 2 * parts, ctypes.c_int16)
    halves = halves.reshape(geometry.target, fields["groups"], parts, 2)
    for pixel in range(geometry.target):
        places = (taps.starts[pixel] + np.arange(taps.counts[pixel])) * step + origin
        even = int(places.min()) & -2
        used = halves[pixel, : counts[pixel]].astype(np.int64)
        weights = used[:, 0] << fields["unused"] if parts == 1 else (used[:, 0] << 11) + used[:, 1]
        expected = np.zeros(2 * counts[pixel], np.int64)
        expected[places - even] = taps.weights[pixel, : taps.counts[pixel]]
        assert int(places.max()) - even in (2 * counts[pixel] - 2, 2 * counts[pixel] - 1)
        assert indices[pixel] & -2 == even
        np.testing.assert_array_equal(weights.reshape(-1), expected)
