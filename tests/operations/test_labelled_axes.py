"""`dims=` of gathers and scatters: the axes of a given array by letters; and orders of axes that nothing names."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu import LayoutError

FRAMES = np.random.default_rng(3).integers(0, 256, (2, 3, 4, 5), np.uint8)

orders = st.sampled_from(["".join(order) for order in permutations("NCHW")])


def ordered(array, dims):
    """An array with axes N, C, H, W as somebody else holds it."""
    return np.ascontiguousarray(array.transpose(["NCHW".index(letter) for letter in dims]))


@given(orders, st.integers(0, 3), st.data())
def test_axes_are_canonical_whatever_the_order_of_the_given_array(dims, axis, data):
    size = FRAMES.shape[axis]
    indices = np.array(data.draw(st.lists(st.integers(-size, size - 1), max_size=6)), np.int64)
    picked = sg.gather(ordered(FRAMES, dims), indices, axis, dims=dims)
    assert np.array_equal(picked.numpy(), np.take(FRAMES, indices, axis))
    places = np.random.default_rng(len(indices)).integers(0, size, FRAMES.shape)
    picked = sg.gather_elements(ordered(FRAMES, dims), places, axis, dims=dims)
    assert np.array_equal(picked.numpy(), np.take_along_axis(FRAMES, places, axis))
    updates = 255 - FRAMES
    order = np.argsort(places, axis)
    written = sg.scatter_elements(ordered(FRAMES, dims), order, updates, axis, dims=dims)
    expected = FRAMES.copy()
    np.put_along_axis(expected, order, updates, axis)
    assert np.array_equal(written.numpy(), expected)


@given(orders)
def test_tuples_are_coordinates_in_canonical_order(dims):
    rows = np.array([[1, 2], [0, 0], [-1, -1]])
    picked = sg.gather_nd(ordered(FRAMES, dims), rows, dims=dims)
    assert np.array_equal(picked.numpy(), FRAMES[rows[:, 0], rows[:, 1]])
    updates = np.arange(60, dtype=np.uint8).reshape(3, 4, 5)
    expected = FRAMES.copy()
    expected[rows[:, 0], rows[:, 1]] = updates
    written = sg.scatter_nd(ordered(FRAMES, dims), rows, updates, dims=dims)
    assert np.array_equal(written.numpy(), expected)


@pytest.mark.parametrize("layout", ["CHW", "NHWC", "NCHW"])
def test_an_order_for_crops_of_unnamed_axes_is_refused(layout):
    photo = np.zeros((5, 6, 3), np.uint8)
    with pytest.raises(LayoutError, match="give dims= too"):
        sg.gather_crops([photo], [[0, 0]], (2, 2), layout=layout)
    assert sg.gather_crops([photo], [[0, 0]], (2, 2), dims="HWC", layout="NHWC").sizes == (1, 3, 2, 2)


def test_pixels_for_crops_that_nothing_names_are_refused():
    photo = np.zeros((5, 6, 3), np.uint8)
    for sources in ([photo], photo[None]):
        with pytest.raises(LayoutError, match=r"look like channels that come last: say dims='N?HWC'"):
            sg.gather_crops(sources, [[0, 0]], (2, 2))


@pytest.mark.parametrize(
    "call",
    [
        lambda dims: sg.gather(FRAMES, [0], dims=dims),
        lambda dims: sg.gather_elements(FRAMES, [[[[0]]]], dims=dims),
        lambda dims: sg.gather_nd(FRAMES, [[0]], dims=dims),
        lambda dims: sg.scatter_elements(FRAMES, [[[[0]]]], FRAMES[:1, :1, :1, :1], dims=dims),
        lambda dims: sg.scatter_nd(FRAMES, [[0]], FRAMES[:1], dims=dims),
    ],
    ids=["gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd"],
)
@pytest.mark.parametrize("dims", ["NHWCQ", "NNHW", 7], ids=repr)
def test_labels_that_do_not_fit_are_refused(call, dims):
    with pytest.raises(LayoutError, match="dims"):
        call(dims)
