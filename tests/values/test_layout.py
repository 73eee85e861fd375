"""`Layout`: what it says of itself against a walk over its elements, and its views against NumPy's."""

from __future__ import annotations

import pickle
from math import prod

import numpy as np
import pytest
from harness.profiles import examples
from harness.strategies import (
    View,
    any_layouts,
    as_array,
    extent_of,
    layouts,
    offsets_of,
    order_strings,
    tensor_sizes,
    views,
)
from hypothesis import given, settings, strategies as st

from stridedgpu.values import layout as layout_module
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import calculate_strides


def check_facts(layout: Layout) -> None:
    """Every property against the list of all offsets."""
    offsets = offsets_of(layout)
    places = set(offsets)
    low, high = min(offsets, default=layout.offset), max(offsets, default=layout.offset - 1)
    assert layout.ndim == len(layout.sizes)
    assert layout.element_count == len(offsets)
    assert layout.first_offset == low
    assert layout.span == high - low + 1
    assert layout.has_overlap == (len(places) < len(offsets))
    assert layout.is_padded == (len(places) < high - low + 1)
    assert layout.is_packed == (sorted(offsets) == list(range(low, high + 1)))
    assert layout.is_broadcast == (
        bool(offsets)
        and any(size > 1 and stride == 0 for size, stride in zip(layout.sizes, layout.strides, strict=True))
    )


@given(layouts(least=0))
@settings(max_examples=examples(150))
def test_facts_of_nested_layouts(layout: Layout):
    check_facts(layout)


@given(any_layouts())
@settings(max_examples=examples(300))
def test_facts_of_any_layout(layout: Layout):
    check_facts(layout)


@pytest.mark.slow
@given(layouts(least=0) | any_layouts(max_rank=5, reach=40))
@settings(max_examples=3000)
def test_facts_of_many_layouts(layout: Layout):
    check_facts(layout)


@pytest.mark.parametrize(
    "sizes, strides, packed, padded, broadcast, overlap",
    [
        pytest.param((2, 3), (3, 1), True, False, False, False, id="row-major"),
        pytest.param((2, 3), (1, 2), True, False, False, False, id="column-major"),
        pytest.param((2, 3), (-3, 1), True, False, False, False, id="flipped"),
        pytest.param((2, 3), (5, 1), False, True, False, False, id="padded rows"),
        pytest.param((2, 3), (0, 1), False, False, True, True, id="repeated row"),
        pytest.param((2, 3), (0, 2), False, True, True, True, id="repeated row with gaps"),
        pytest.param((3, 4), (1, 1), False, False, False, True, id="sliding window"),
        pytest.param((4, 4), (2, 2), False, True, False, True, id="sliding window over every other element"),
        pytest.param((1, 3), (0, 1), True, False, False, False, id="stride 0 on a size of 1 repeats nothing"),
        pytest.param((1, 3), (99, 1), True, False, False, False, id="the stride of a size of 1 is no gap"),
        pytest.param((0, 3), (0, 1), True, False, False, False, id="empty"),
        pytest.param((), (), True, False, False, False, id="scalar"),
        pytest.param((65536, 65536), (65536, 1), True, False, False, False, id="2^32 elements"),
        pytest.param((2, 2**40), (2**40 - 1, 1), False, False, False, True, id="rows that share one element"),
    ],
)
def test_facts_that_have_names(sizes, strides, packed, padded, broadcast, overlap):
    layout = Layout(sizes, strides)
    assert (layout.is_packed, layout.is_padded, layout.is_broadcast, layout.has_overlap) == (
        packed,
        padded,
        broadcast,
        overlap,
    )


# Views


def check_chain(data: st.DataObject, steps: int) -> None:
    """A chain of views on a layout, and the same on an array whose elements are their own offsets."""
    layout = data.draw(layouts(least=0), label="layout")
    buffer = np.arange(extent_of(layout))
    array = as_array(layout, buffer)
    for _ in range(steps):
        if layout.ndim > 10 or layout.element_count > 1000:
            break
        view: View = data.draw(views(layout.sizes), label="view")
        viewed = view.of_array(array)
        if viewed.size and not np.shares_memory(viewed, buffer):
            with pytest.raises(LayoutError, match="without a copy"):
                view.of_layout(layout)
            continue
        layout, array = view.of_layout(layout), viewed
        assert layout.sizes == array.shape
        assert len(layout.strides) == layout.ndim
        assert offsets_of(layout) == array.ravel().tolist()
        anew = Layout(layout.sizes, layout.strides, layout.offset)
        assert layout == anew
        assert layout.extent == anew.extent


@given(st.data())
@settings(max_examples=examples(250))
def test_chains_of_views_equal_numpys(data):
    check_chain(data, steps=5)


@pytest.mark.long
@pytest.mark.slow
@given(st.data())
@settings(max_examples=600)
def test_long_chains_of_views_equal_numpys(data):
    check_chain(data, steps=12)


@pytest.mark.parametrize(
    "index",
    [np.int64(-1), np.uint8(2), np.array(1), True],
    ids=["int64", "uint8", "array of rank 0", "bool"],
)
def test_integers_of_other_kinds_as_index(index):
    if index is True:
        with pytest.raises(LayoutError, match="True is not basic"):
            Layout((4,)).sliced(index)
    else:
        assert offsets_of(Layout((4,)).sliced(index)) == [int(np.arange(4)[index])]


@pytest.mark.parametrize(
    "taken, refused, error",
    [
        (1, True, LayoutError),
        (slice(1, 3), slice(1.0, 3), LayoutError),
        ((slice(1, 3),), [slice(1, 3)], LayoutError),
        ((slice(1, 3),), (slice(1, 3), slice(None)), IndexError),
        ((slice(1, 3),), (slice(1, 3), 0), IndexError),
    ],
    ids=["a bool", "a float", "a list", "too many slices", "too many entries"],
)
def test_a_window_that_was_taken_before_admits_no_wrong_index(taken, refused, error):
    layout = Layout((4,))
    assert layout.sliced(taken) is layout.sliced(taken)
    with pytest.raises(error):
        layout.sliced(refused)


def test_windows_taken_before_are_bounded():
    layout = Layout((8192,))
    for start in range(layout_module._MOST_WINDOWS + 2):
        assert layout.sliced(slice(start, None)).sizes == (8192 - start,)
    assert len(layout_module._windows) <= layout_module._MOST_WINDOWS


def test_a_crop_flipped_left_to_right_starts_at_its_last_column():
    frame = Layout((480, 640, 3))
    crop = frame.sliced((slice(100, 324), slice(200, 424)))
    assert (crop.sizes, crop.strides, crop.offset) == ((224, 224, 3), (1920, 3, 1), 100 * 1920 + 200 * 3)
    flipped = crop.sliced((slice(None), slice(None, None, -1)))
    assert (flipped.strides, flipped.offset) == ((1920, -3, 1), 100 * 1920 + 423 * 3)
    assert (flipped.first_offset, flipped.span) == (crop.first_offset, crop.span)


def test_channel_blocked_layouts_are_a_split_and_a_permutation():
    chw4 = Layout((2, 2, 5, 6, 4)).permuted((0, 1, 4, 2, 3))  # N, C/4, H, W, 4 seen as N, C/4, 4, H, W
    at = (1, 1, 3, 4, 5)
    assert chw4.offset_of(at) == (((1 * 2 + 1) * 5 + 4) * 6 + 5) * 4 + 3
    with pytest.raises(LayoutError, match="without a copy"):
        chw4.merged_axes(1, 2)


@given(st.data(), st.sampled_from((1, 2, 4)))
@settings(max_examples=examples(100))
def test_padded_rows_start_a_pitch_apart(data, itemsize):
    order = data.draw(order_strings().filter(lambda text: len(text) >= 2))
    sizes = data.draw(tensor_sizes(len(order), len(order)))
    canonical = "".join(letter for letter in "NCDHW" if letter in order)
    inside = order[order.index("H") + 1 :] if "H" in order[:-1] else order[-1]
    row = prod(sizes[canonical.index(letter)] for letter in inside)
    pitch = row + data.draw(st.integers(0, 5))
    layout = Layout.padded(sizes, order, itemsize, row_pitch_bytes=pitch * itemsize)
    # The same memory, as a packed tensor with rows of `pitch` elements of which some are unused.
    rows = [letter for letter in order if letter not in inside]
    outside = np.arange(prod(sizes[canonical.index(letter)] for letter in rows) * pitch).reshape(-1, pitch)[:, :row]
    memory = outside.reshape([sizes[canonical.index(letter)] for letter in order])
    assert offsets_of(layout) == memory.transpose([order.index(letter) for letter in canonical]).ravel().tolist()


def test_padded_without_a_pitch_is_packed():
    assert Layout.padded((2, 3, 4, 5), "NHWC", 4) == Layout((2, 3, 4, 5), calculate_strides("NHWC", (2, 3, 4, 5)))


# A value


def test_layouts_are_values():
    layout = Layout([2, np.int64(3)], [3, 1], np.int32(7))
    same = Layout((2, 3), offset=7)
    assert layout == same
    assert hash(layout) == hash(same)
    assert layout != same.shifted(1)
    assert len({layout, same, same.shifted(1).shifted(-1)}) == 1
    assert all(type(number) is int for number in (*layout.sizes, *layout.strides, layout.offset))
    assert pickle.loads(pickle.dumps(layout)) == layout
    assert eval(repr(layout)) == layout
    with pytest.raises(AttributeError):
        layout.offset = 3


def test_a_pickle_has_no_more_than_the_callers_values_which_are_checked():
    pickled = pickle.dumps(Layout((1234, 3)), 0)
    assert pickle.loads(pickled.replace(b"1234", b"9999")) == Layout((9999, 3), (3, 1))
    with pytest.raises(LayoutError, match=r"sizes=\(-234, 3\) must each be at least 0"):
        pickle.loads(pickled.replace(b"1234", b"-234"))


def test_big_layouts_are_exact():
    layout = Layout((2**33, 3, 2**33))
    assert layout.element_count == 3 * 2**66
    assert layout.offset_of((2**33 - 1, 2, 2**33 - 1)) == 3 * 2**66 - 1
    assert layout.flattened().sizes == (3 * 2**66,)


# Refusals


FLAT, IMAGE = Layout((4,)), Layout((2, 3, 5), (40, 10, 1))
REFUSALS = {
    "sizes no sequence": (lambda: Layout(5), LayoutError, "sizes=5 is not a sequence of integers"),
    "sizes a string": (lambda: Layout("23"), LayoutError, "sizes='23' is not a sequence of integers"),
    "sizes with a float": (lambda: Layout((2, 3.0)), LayoutError, r"sizes=\(2, 3.0\) must be integers"),
    "sizes with a bool": (lambda: Layout((2, True)), LayoutError, r"sizes=\(2, True\) must be integers"),
    "sizes negative": (lambda: Layout((2, -1)), LayoutError, r"sizes=\(2, -1\) must each be at least 0"),
    "strides with None": (lambda: Layout((2, 3), (3, None)), LayoutError, r"strides=\(3, None\) must be integers"),
    "strides too few": (lambda: Layout((2, 3), (1,)), LayoutError, r"strides=\(1,\) has 1 entries for 2 sizes"),
    "offset a float": (lambda: Layout((2,), offset=0.5), LayoutError, r"offset=0.5 is not an integer"),
    "pitch of unknown elements": (
        lambda: Layout.padded((1, 3, 4, 5), "NHWC", row_pitch_bytes=640),
        LayoutError,
        "row_pitch_bytes=640 needs itemsize=, the bytes of an element",
    ),
    "offset_of too few": (lambda: IMAGE.offset_of((1, 1)), LayoutError, r"coordinates=\(1, 1\) has 2 entries"),
    "offset_of outside": (lambda: IMAGE.offset_of((0, 3, 0)), IndexError, r"\(0, 3, 0\) lie outside sizes \(2, 3, 5\)"),
    "offset_of negative": (lambda: IMAGE.offset_of((0, -1, 0)), IndexError, r"\(0, -1, 0\) lie outside"),
    "permuted twice": (
        lambda: IMAGE.permuted((0, 0, 1)),
        LayoutError,
        r"axes=\(0, 0, 1\) is not a permutation of the 3",
    ),
    "permuted too few": (lambda: IMAGE.permuted((0, 1)), LayoutError, r"axes=\(0, 1\) is not a permutation"),
    "permuted too far": (lambda: IMAGE.permuted((0, 1, -4)), LayoutError, r"axes=\(0, 1, -4\) is not a permutation"),
    "index out of range": (lambda: IMAGE.sliced((0, 3)), IndexError, "index 3 is out of range for axis 1 of size 3"),
    "index too low": (lambda: IMAGE.sliced((0, ..., -6)), IndexError, "index -6 is out of range for axis 2 of size 5"),
    "index too long": (lambda: IMAGE.sliced((0, 0, 0, 0)), IndexError, "4 indices for a tensor of rank 3"),
    "index on a scalar": (lambda: Layout(()).sliced(0), IndexError, "1 indices for a tensor of rank 0"),
    "two ellipses": (lambda: IMAGE.sliced((..., 0, ...)), IndexError, "one '...' only"),
    "index a list": (lambda: FLAT.sliced([0, 1]), LayoutError, r"index \[0, 1\] is not basic.*use gather"),
    "index an array": (lambda: FLAT.sliced(np.array([0, 1])), LayoutError, r"index array\(\[0, 1\]\) is not basic"),
    "index a mask": (lambda: FLAT.sliced(np.ones(4, bool)), LayoutError, "is not basic"),
    "index a float": (lambda: FLAT.sliced(1.0), LayoutError, "index 1.0 is not basic"),
    "index a NumPy bool": (lambda: FLAT.sliced(np.True_), LayoutError, "True_? is not basic"),
    "slice step 0": (lambda: FLAT.sliced(slice(None, None, 0)), LayoutError, "None, 0.*a step that is not 0"),
    "slice of floats": (lambda: FLAT.sliced(slice(0.5, None)), LayoutError, "0.5.*must have integers"),
    "broadcast to fewer axes": (
        lambda: IMAGE.broadcast_to((3, 5)),
        LayoutError,
        r"sizes \(2, 3, 5\) cannot broadcast to \(3, 5\)",
    ),
    "broadcast a size": (lambda: IMAGE.broadcast_to((2, 6, 5)), LayoutError, r"cannot broadcast to \(2, 6, 5\)"),
    "broadcast a size to 1": (lambda: IMAGE.broadcast_to((2, 1, 5)), LayoutError, r"cannot broadcast to \(2, 1, 5\)"),
    "broadcast negative": (lambda: FLAT.broadcast_to((-1, 4)), LayoutError, r"sizes=\(-1, 4\) must each be at least 0"),
    "squeeze a size": (lambda: IMAGE.squeezed(1), LayoutError, r"axis 1 of sizes \(2, 3, 5\) has size 3, not 1"),
    "squeeze beyond": (lambda: IMAGE.squeezed((0, 3)), LayoutError, "axis=3 is out of range"),
    "unsqueeze beyond": (lambda: IMAGE.unsqueezed(4), LayoutError, "axis=4 is out of range for a result of rank 4"),
    "unsqueeze before": (lambda: IMAGE.unsqueezed(-5), LayoutError, "axis=-5 is out of range"),
    "axis an array": (lambda: IMAGE.unsqueezed(np.array([1, 2])), LayoutError, "is not an integer"),
    "shifted by text": (lambda: IMAGE.shifted("x"), LayoutError, "distance='x' is not an integer"),
    "rank enormous": (lambda: IMAGE.aligned_to_rank(1 << 70), LayoutError, "rank 1180591620717411303424 is too high"),
    "axes too many": (lambda: Layout((1,) * 65), LayoutError, "rank 65 is too high: layouts have up to 64 axes"),
    "rank too low": (lambda: IMAGE.aligned_to_rank(2), LayoutError, r"sizes \(2, 3, 5\) do not fit rank 2"),
    "split differently": (
        lambda: IMAGE.split_axis(2, (2, 3)),
        LayoutError,
        r"sizes=\(2, 3\) multiply to 6, but axis 2 has 5",
    ),
    "split negative": (lambda: IMAGE.split_axis(2, (-5, -1)), LayoutError, r"sizes=\(-5, -1\) must each be at least 0"),
    "split beyond": (lambda: IMAGE.split_axis(3, (1, 1)), LayoutError, "axis=3 is out of range"),
    "merge backwards": (lambda: IMAGE.merged_axes(2, 1), LayoutError, "first=2 comes after last=1"),
    "merge beyond": (lambda: IMAGE.merged_axes(0, 3), LayoutError, "axis=3 is out of range"),
    "merge over padding": (
        lambda: IMAGE.merged_axes(1, 2),
        LayoutError,
        r"strides \(40, 10, 1\) cannot be seen as sizes \(2, 15\) without a copy",
    ),
    "flatten over padding": (IMAGE.flattened, LayoutError, r"cannot be seen as sizes \(30,\) without a copy"),
    "reshape to another count": (lambda: IMAGE.reshaped((7,)), LayoutError, r"sizes=\(7,\) hold 7 elements.* hold 30"),
}


@pytest.mark.parametrize("call, error, message", REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert caught.type is error


@pytest.mark.parametrize("itemsize, wanted", [(3, 2), (2, 3), (4, 6)])
def test_bytes_that_make_no_whole_elements_are_refused(itemsize, wanted):
    with pytest.raises(LayoutError, match=f"Elements of {itemsize} bytes cannot be seen in elements of {wanted} bytes"):
        Layout((2, 6)).reinterpreted(itemsize, wanted)
