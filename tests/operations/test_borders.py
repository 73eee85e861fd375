"""Borders that continue an image: numpy.pad's modes, copied within the result, in windows that have their pixels."""

from __future__ import annotations

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

from stridedgpu.exchange.array_like import operand_of_array
from stridedgpu.operations.borders import BORDERS, covering, fill_borders


def continued(images, place, window, border):
    """NumPy's padding of images (N, C, H, W), and of it the window in which they lie at `place`."""
    top, left, height, width = place
    far = max(*window, abs(top), abs(left)) + max(height, width)
    padded = np.pad(images, ((0, 0), (0, 0), (far, far), (far, far)), mode=border)
    return padded[..., far - top : far - top + window[0], far - left : far - left + window[1]]


@cpu_paths
@pytest.mark.parametrize("border", BORDERS)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_a_border_is_that_of_numpy(path, border, data):
    """The window has all pixels of its border, as `covering` says, and lies in memory of any order of axes."""
    height, width = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    place = (data.draw(st.integers(-9, 9)), data.draw(st.integers(-9, 9)), height, width)
    asked = data.draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    element = data.draw(st.sampled_from(["uint8", "float16", "float32", "float64"]))
    seen = covering(place, asked, border)
    wanted = continued(np.random.default_rng(1).integers(0, 99, (2, 3, height, width)), seen.place, seen.size, border)
    axes = data.draw(st.permutations(range(4)))
    batch = np.zeros([wanted.shape[axis] for axis in axes], element).transpose(np.argsort(axes))
    top, left = seen.place[:2]
    rows, columns = slice(max(top, 0), max(top + height, 0)), slice(max(left, 0), max(left + width, 0))
    batch[..., rows, columns] = wanted[..., rows, columns]
    with picking_by(path):
        fill_borders(operand_of_array(batch), [seen.place] * 2, border)
    assert np.array_equal(batch, wanted)


@settings(max_examples=examples(200))
@given(
    place=st.tuples(st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 7), st.integers(1, 7)),
    window=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    border=st.sampled_from(BORDERS),
)
def test_a_covering_window_is_no_larger_than_it_must_be(place, window, border):
    seen = covering(place, window, border)
    assert covering(seen.place, seen.size, border) == (seen.place, seen.size, (0, 0))
    for axis in range(2):
        first = seen.origin[axis]
        assert seen.place[axis] == place[axis] + first
        assert seen.size[axis] >= first + window[axis]
        is_inside = place[axis] >= 0 and place[axis] + place[axis + 2] <= window[axis]
        assert not is_inside or seen.size[axis] == window[axis]


def test_images_side_by_side_with_one_place_are_filled_together(monkeypatch):
    counts = []

    def counted(source, *_):
        counts.append(source.layout.sizes[0])

    monkeypatch.setattr("stridedgpu.operations.borders.move_elements", counted)
    batch = operand_of_array(np.zeros((5, 1, 4, 4), np.uint8))
    fill_borders(batch, [(1, 0, 3, 4)] * 3 + [(0, 1, 4, 3)] * 2, "edge")
    assert counts == [3, 2]
