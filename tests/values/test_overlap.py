"""Whether addresses meet: against sets of all addresses, and on memory too large to list."""

from __future__ import annotations

from itertools import product

import pytest
from harness.profiles import examples
from harness.steps import steps_within
from harness.strategies import layout_offsets
from hypothesis import given, settings, strategies as st

from stridedgpu.values import overlap
from stridedgpu.values.overlap import addresses_intersect, has_solution, self_overlaps

SIZES_AND_STRIDES = st.integers(0, 4).flatmap(
    lambda rank: st.tuples(
        st.lists(st.integers(0, 5), min_size=rank, max_size=rank),
        st.lists(st.integers(-12, 12), min_size=rank, max_size=rank),
    )
)
TERMS = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 4)), max_size=3)


def addresses(terms: list[tuple[int, int]], start: int = 0) -> set[int]:
    """All sums of coefficient * x, with x from 0 to each term's most."""
    return {
        start + sum(coefficient * x for (coefficient, _), x in zip(terms, at, strict=True))
        for at in product(*(range(most + 1) for _, most in terms))
    }


def check_self_overlap(sizes: list[int], strides: list[int]) -> None:
    offsets = layout_offsets(sizes, strides)
    assert self_overlaps(sizes, strides) == (len(set(offsets)) < len(offsets))


def check_intersection(first: list[tuple[int, int]], second: list[tuple[int, int]], distance: int) -> None:
    met = bool(addresses(first) & addresses(second, distance))
    assert addresses_intersect(first, second, distance) == met
    assert addresses_intersect(second, first, -distance) == met


def check_solution(target: int, terms: list[tuple[int, int]]) -> None:
    assert has_solution(target, terms) == (target in addresses(terms))


@given(SIZES_AND_STRIDES)
@settings(max_examples=examples(250))
def test_self_overlap(pair):
    check_self_overlap(*pair)


@given(TERMS, TERMS, st.integers(-60, 60))
@settings(max_examples=examples(250))
def test_intersection(first, second, distance):
    check_intersection(first, second, distance)


@given(st.integers(-5, 150), TERMS)
@settings(max_examples=examples(250))
def test_solutions(target, terms):
    check_solution(target, terms)


@pytest.mark.long
@pytest.mark.slow
@given(SIZES_AND_STRIDES, TERMS, TERMS, st.integers(-60, 60), st.integers(-5, 150))
@settings(max_examples=2000)
def test_all_of_it_on_many_more(pair, first, second, distance, target):
    check_self_overlap(*pair)
    check_intersection(first, second, distance)
    check_solution(target, first)


STEPS = 10_000
HUGE = 2**32
SELF = {
    "packed": ((HUGE, HUGE, 3), (3 * HUGE, 3, 1), False),
    "rows one element short": ((HUGE, HUGE), (HUGE - 1, 1), True),
    "rows that interleave": ((2, HUGE), (1, 2), False),
    "odd rows in even gaps": ((HUGE, 2), (2, 2 * HUGE - 1), False),
    "odd rows that return": ((HUGE, 3), (2, HUGE - 1), True),
    "neither nested nor overlapping": ((2, 2, 2), (2, 3, 4), False),
    "flipped": ((HUGE, HUGE), (-HUGE, 1), False),
    "repeated": ((2, HUGE), (0, 1), True),
    "one repeated once": ((1, HUGE), (0, 1), False),
    "empty": ((0, HUGE), (0, 0), False),
    "scalar": ((), (), False),
}


@pytest.mark.parametrize("sizes, strides, expected", SELF.values(), ids=SELF.keys())
def test_self_overlap_of_memory_too_large_to_list(sizes, strides, expected):
    with steps_within(STEPS):
        assert self_overlaps(sizes, strides) == expected


ROW, FRAME = (3, HUGE - 1), (4 * HUGE, HUGE - 1)
MEETINGS = {
    "the same range": ([(1, HUGE - 1)], [(1, HUGE - 1)], 0, True),
    "ranges end to end": ([(1, HUGE - 1)], [(1, HUGE - 1)], HUGE, False),
    "ranges that share a byte": ([(1, HUGE - 1)], [(1, HUGE - 1)], HUGE - 1, True),
    "ranges the other way round": ([(1, HUGE - 1)], [(1, HUGE - 1)], -HUGE, False),
    "two channels of a pixel": ([ROW], [ROW], 1, False),
    "channels of two pixels": ([ROW], [ROW], 3, True),
    "left and right half of a pitched frame": (
        [FRAME, (1, 2 * HUGE - 1)],
        [FRAME, (1, 2 * HUGE - 1)],
        2 * HUGE,
        False,
    ),
    "halves that share a column": ([FRAME, (1, 2 * HUGE)], [FRAME, (1, 2 * HUGE - 1)], 2 * HUGE, True),
    "single bytes": ([], [], 0, True),
    "different single bytes": ([], [], 1, False),
}


@pytest.mark.parametrize("first, second, distance, expected", MEETINGS.values(), ids=MEETINGS.keys())
def test_intersection_of_memory_too_large_to_list(first, second, distance, expected):
    with steps_within(STEPS):
        assert addresses_intersect(first, second, distance) == expected


def test_a_search_that_takes_too_long_answers_yes(monkeypatch):
    # 3 axes whose strides share no factor: 1 cannot be had, and the search has to try values to find that out.
    terms = [(101, 50), (103, 50), (107, 50)]
    unreachable = 101 + 103 - 1
    assert not has_solution(unreachable, terms)
    monkeypatch.setattr(overlap, "_MOST_STEPS", 0)
    assert has_solution(unreachable, terms)
