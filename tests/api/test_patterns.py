"""Axes named by patterns: einops' language, its results, and views that are views."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np
import pytest
from harness.profiles import examples
from harness.strategies import as_array, layouts_of
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu import LayoutError


def spelt(group):
    return group[0] if len(group) == 1 else f"({' '.join(group)})"


@st.composite
def patterns(draw, shape):
    """A pattern for arrays of that shape, the sizes of all names but one in each pair of parentheses, and its meaning.

    The meaning is how NumPy says it: the shape with one axis for each name, their order, and the shape of the result.
    """
    names = iter("abcdefghijklmnopqrstuvwxyz")
    first, last = sorted(draw(st.tuples(*[st.integers(0, len(shape))] * 2)))
    has_rest = draw(st.booleans())
    left, sizes, used, spread, axes = [], {}, [], [], {}
    for axis, size in enumerate(shape):
        if has_rest and first <= axis < last:
            axes.setdefault("...", []).append(len(spread))
            spread.append(size)
            continue
        factors = [size]
        while draw(st.booleans()):
            factor = draw(st.sampled_from([n for n in range(1, factors[0] + 1) if factors[0] % n == 0]))
            factors[:1] = [factors[0] // factor, factor]
        group = [next(names) for _ in factors]
        sizes |= dict(zip(group[1:], factors[1:], strict=True))
        left.append(spelt(group))
        used += group
        axes |= {name: [len(spread) + part] for part, name in enumerate(group)}
        spread += factors
    if has_rest:
        left.insert(first, "...")
        used.append("...")
        axes.setdefault("...", [])
    right, target, order = [], [], draw(st.permutations(used))
    moved = [axis for name in order for axis in axes[name]]
    while order:
        count = draw(st.integers(1, min(3, len(order))))
        group, order = order[:count], order[count:]
        made = [[spread[axis] for axis in axes[name]] for name in group]
        together = draw(st.booleans())
        right += [f"({' '.join(group)})" if together else " ".join(group)]
        target += [math.prod(chain(*made))] if together else chain(*made)
        one = draw(st.sampled_from([[], ["1"], ["()"]]))
        right += one
        target += [1] * len(one)
    return f"{' '.join(left)} -> {' '.join(right)}", sizes, (spread, moved, target)


@settings(max_examples=examples(400))
@given(st.data(), st.lists(st.sampled_from([1, 2, 3, 4, 6, 8]), max_size=4).map(tuple))
def test_what_a_pattern_makes_is_numpys_and_a_view_where_it_can_be(data, shape):
    layout = data.draw(layouts_of(shape))
    memory = np.arange(layout.offset + layout.extent[0] + layout.span, dtype=np.int32)
    array = as_array(layout, memory)
    tensor = sg.StridedTensor(memory, layout, "int32")
    pattern, sizes, (spread, order, target) = data.draw(patterns(shape))
    expected = array.reshape(spread).transpose(order).reshape(target)
    made = sg.rearrange(tensor, pattern, **sizes)
    assert made.sizes == expected.shape
    assert np.array_equal(made.numpy(), expected)
    try:
        seen = sg.view(tensor, pattern, **sizes)
    except LayoutError as error:
        assert "rearrange moves the elements" in str(error)
        assert made.buffer is not tensor.buffer
        assert made.layout.is_packed
    else:
        assert seen.buffer is tensor.buffer
        assert made.buffer is tensor.buffer
        assert np.array_equal(seen.numpy(), expected)


@given(st.data(), st.lists(st.sampled_from([1, 2, 3, 4, 6, 8]), max_size=4).map(tuple))
def test_patterns_mean_what_they_mean_to_einops(data, shape):
    einops = pytest.importorskip("einops")
    array = np.arange(math.prod(shape)).reshape(shape)
    pattern, sizes, (spread, order, target) = data.draw(patterns(shape))
    expected = array.reshape(spread).transpose(order).reshape(target)
    assert np.array_equal(einops.rearrange(array, pattern, **sizes), expected)


def test_patches_are_a_view_until_their_axes_merge():
    frames = sg.zeros((2, 28, 42, 3), "uint8", device="cpu")
    patches = sg.view(frames, "n (h p) (w q) c -> n h w p q c", p=14, q=14)
    assert (patches.sizes, patches.buffer) == ((2, 2, 3, 14, 14, 3), frames.buffer)
    with pytest.raises(LayoutError, match="rearrange moves the elements"):
        sg.view(frames, "n (h p) (w q) c -> n h w (p q c)", p=14, q=14)
    assert sg.rearrange(frames, "n (h p) (w q) c -> n h w (p q c)", p=14, q=14).sizes == (2, 2, 3, 588)


REFUSALS = {
    "no arrow": ("h w", {}, "with one '->' between"),
    "two arrows": ("h w -> w h -> h w", {}, "with one '->' between"),
    "no text": (None, {}, "with one '->' between"),
    "a list": (["h", "w"], {}, "with one '->' between"),
    "an axis too few": ("h -> h", {}, "has 1 axes on the left, but there are 2"),
    "an axis too many": ("h w c -> c h w", {}, "has 3 axes on the left, but there are 2"),
    "a name on one side": ("h w -> h", {}, "has w on one side only"),
    "another name": ("h w -> h w c", {}, "has c on one side only"),
    "a name twice": ("h h -> h", {}, "has h twice"),
    "dots on one side": ("... w -> w", {}, "'...' on one side only"),
    "dots twice": ("... ... -> ...", {}, "has ... twice"),
    "two dots": (".. w -> w", {}, "'.', which is no name"),
    "dots in parentheses": ("(... w) c -> ... w c", {}, "inside parentheses on the left"),
    "a parenthesis open": ("(h w -> h w", {}, "without their counterpart"),
    "a parenthesis closed": ("h) w -> h w", {}, "without their counterpart"),
    "parentheses inside others": ("((h w)) c -> h w c", {}, "inside others"),
    "a number": ("h 2 -> 2 h", {}, "'2', which is no name"),
    "a bad name": ("h _w -> _w h", {}, "'_w', which is no name"),
    "too little said": ("(a b c) d -> a b c d", {"a": 2}, "all but one of b, c"),
    "a size that does not divide": ("(a b) d -> a b d", {"a": 4}, "axis 0 has size 6, which is not (a b) with a=4"),
    "a wrong size": ("a d -> d a", {"a": 5}, "axis 0 has size 6, which is not (a) with a=5"),
    "no axis of size 1": ("1 d -> d", {}, "axis 0 has size 6, which is not (1) with size 1"),
    "a size for nothing": ("a d -> d a", {"p": 2}, "p is given a size, but is not in pattern="),
    "a size of 0": ("(a b) d -> a b d", {"a": 0}, "a=0 must be at least 1"),
    "a size that is none": ("(a b) d -> a b d", {"a": "2"}, "a='2'"),
}


@pytest.mark.parametrize("operation", [sg.view, sg.rearrange], ids=["view", "rearrange"])
@pytest.mark.parametrize("pattern, sizes, fragment", REFUSALS.values(), ids=REFUSALS)
def test_refusals(operation, pattern, sizes, fragment):
    with pytest.raises(LayoutError) as caught:
        operation(np.zeros((6, 5)), pattern, **sizes)
    assert fragment in str(caught.value)
