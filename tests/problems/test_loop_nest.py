"""`simplify`: the same elements in the same pairs, in as few loops as strides allow."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from harness.profiles import examples
from harness.strategies import any_layouts, layout_offsets, layouts_of, offsets_of, tensor_sizes
from hypothesis import given, settings, strategies as st

from stridedgpu.problems.loop_nest import LoopNest, simplify
from stridedgpu.values.layout import Layout


@st.composite
def operands(draw: st.DrawFn) -> list[Layout]:
    """A destination and up to two layouts of the same sizes, mostly in orders that have much in common."""
    sizes = draw(tensor_sizes(0, 6, least=draw(st.sampled_from((0, 1, 1, 1))), max_elements=120))
    leader = draw(layouts_of(sizes, broadcast=False))
    others = [
        draw(st.one_of(layouts_of(sizes), layouts_of(sizes, padding=False, broadcast=False), st.just(leader)))
        for _ in range(draw(st.integers(0, 2)))
    ]
    return [leader, *others]


def pairs(nest: LoopNest) -> Counter[tuple[int, ...]]:
    """How often each tuple of offsets is visited."""
    walks = [layout_offsets(nest.sizes, steps, start) for steps, start in zip(nest.strides, nest.offsets, strict=True)]
    return Counter(zip(*walks, strict=True))


def mergeable(nest: LoopNest, outer: int, inner: int) -> bool:
    """Whether one loop steps, in every operand, over exactly what another one runs through."""
    return all(steps[outer] == nest.sizes[inner] * steps[inner] for steps in nest.strides)


def check_pairs(layouts: list[Layout], keep: int | None) -> LoopNest:
    nest = simplify(layouts, keep)
    assert len(nest.strides) == len(nest.offsets) == len(layouts)
    assert all(len(steps) == len(nest.sizes) for steps in nest.strides)
    assert pairs(nest) == Counter(zip(*map(offsets_of, layouts), strict=True))
    assert 1 not in nest.sizes
    return nest


def check_simplest(layouts: list[Layout], keep: int | None) -> None:
    nest = check_pairs(layouts, keep)
    leading = nest.strides[0]
    if keep is None or layouts[0].sizes[keep] == 1:
        assert nest.kept is None
    else:
        assert nest.kept is not None
        assert nest.sizes[nest.kept] == layouts[0].sizes[keep]
        assert [abs(steps[nest.kept]) for steps in nest.strides] == [abs(layout.strides[keep]) for layout in layouts]
    if 0 in nest.sizes:
        return
    assert all(step > 0 for step in leading)
    assert all(outer > inner for outer, inner in pairwise(leading))
    loops = [place for place in range(len(nest.sizes)) if place != nest.kept]
    assert not any(mergeable(nest, outer, inner) for outer in loops for inner in loops if outer != inner)


@given(st.data())
@settings(max_examples=examples(250))
def test_same_pairs_in_the_fewest_loops(data):
    layouts = data.draw(operands())
    keep = data.draw(st.none() | st.integers(0, layouts[0].ndim - 1)) if layouts[0].ndim else None
    check_simplest(layouts, keep)


@given(st.data())
@settings(max_examples=examples(200))
def test_same_pairs_for_layouts_that_overlap(data):
    leader = data.draw(any_layouts(max_rank=4, reach=4))
    other = Layout(leader.sizes, [data.draw(st.integers(-4, 4)) for _ in leader.sizes], 5)
    check_pairs([leader, other], None)


@pytest.mark.long
@pytest.mark.slow
@given(st.data())
@settings(max_examples=2000)
def test_same_pairs_in_the_fewest_loops_many_times(data):
    layouts = data.draw(operands())
    keep = data.draw(st.none() | st.integers(0, layouts[0].ndim - 1)) if layouts[0].ndim else None
    check_simplest(layouts, keep)


PACKED = Layout((2, 3, 4, 5))
NHWC = Layout((2, 3, 4, 5), (60, 1, 15, 3))
CASES = {
    "a copy": ([PACKED, PACKED], None, (120,), ((1,), (1,))),
    "both permuted alike": ([NHWC, NHWC], None, (120,), ((1,), (1,))),
    "to NHWC": ([NHWC, PACKED], None, (2, 20, 3), ((60, 3, 1), (60, 1, 20))),
    "to NCHW": ([PACKED, NHWC], None, (2, 3, 20), ((60, 20, 1), (60, 1, 3))),
    "padded rows on one side": ([Layout((4, 5)), Layout((4, 5), (8, 1))], None, (4, 5), ((5, 1), (8, 1))),
    "equal sizes are no reason": ([Layout((4, 5)), Layout((4, 5), (1, 4))], None, (4, 5), ((5, 1), (1, 4))),
    "a repeated source": ([PACKED, Layout((2, 3, 4, 5), (0, 0, 0, 0))], None, (120,), ((1,), (0,))),
    "repeated rows": ([Layout((4, 5)), Layout((4, 5), (0, 1))], None, (4, 5), ((5, 1), (0, 1))),
    "both flipped": ([Layout((4,), (-1,), 3), Layout((4,), (-1,), 3)], None, (4,), ((1,), (1,))),
    "the destination flipped": ([Layout((4,), (-1,), 3), Layout((4,))], None, (4,), ((1,), (-1,))),
    "flipped rows of a flipped image": ([Layout((4, 5)), Layout((4, 5), (-5, -1), 19)], None, (20,), ((1,), (-1,))),
    "a kept axis": ([PACKED, PACKED], 1, (2, 3, 20), ((60, 20, 1), (60, 20, 1))),
    "a kept outermost axis": ([PACKED, PACKED], 0, (2, 60), ((60, 1), (60, 1))),
    "a kept size of 1": ([Layout((4, 1, 5))] * 2, 1, (20,), ((1,), (1,))),
    "a repeated leader, ordered by the others": (
        [Layout((2, 3), (0, 0)), Layout((2, 3), (1, 2))],
        None,
        (6,),
        ((0,), (1,)),
    ),
    "a scalar": ([Layout(()), Layout(())], None, (), ((), ())),
    "ones only": ([Layout((1, 1), (7, 7)), Layout((1, 1))], None, (), ((), ())),
}


@pytest.mark.parametrize("layouts, keep, sizes, strides", CASES.values(), ids=CASES.keys())
def test_cases_that_have_names(layouts, keep, sizes, strides):
    nest = check_pairs(layouts, keep)
    assert (nest.sizes, nest.strides) == (sizes, strides)
