"""Caches that are bounded by the bytes of what they keep."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from stridedgpu.values.bounded_cache import GENERATION, OWN_BYTES, BoundedCache, array_bytes, bounded_cache, count_bytes

MADE: list[int] = []


@bounded_cache
def kept(number: int, nbytes: int = 0) -> object:
    """An object of so many bytes."""
    MADE.append(number)
    count_bytes(nbytes)
    return object()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generation of ten entries, the first of which has begun."""
    monkeypatch.setattr(GENERATION, "most_bytes", 10 * OWN_BYTES)
    count_bytes(10 * OWN_BYTES)
    count_bytes(10 * OWN_BYTES)
    GENERATION.nbytes = 0
    MADE.clear()


def test_a_result_is_made_once_in_a_generation():
    results = [kept(number) for _ in range(3) for number in range(10)]
    assert results == results[:10] * 3
    assert [*range(10)] == MADE
    assert GENERATION.nbytes == 10 * OWN_BYTES


def test_what_is_asked_for_stays_and_the_rest_is_forgotten():
    for number in range(100):
        kept(-1)
        kept(number)
    assert [-1, *range(100)] == MADE
    kept(0)
    assert MADE[-1] == 0
    assert MADE.count(0) == 2


def test_a_result_moves_with_its_bytes():
    kept(1, 5 * OWN_BYTES)
    for number in range(2, 7):
        kept(number)
    assert GENERATION.nbytes == OWN_BYTES, "the last one began a generation"
    kept(1, 5 * OWN_BYTES)
    assert GENERATION.nbytes == 7 * OWN_BYTES
    assert [*range(1, 7)] == MADE


def test_large_results_are_kept_one_by_one():
    for number in range(3):
        kept(number, 30 * OWN_BYTES)
        kept(number, 30 * OWN_BYTES)
    assert MADE == [0, 1, 2]


def test_bytes_of_what_is_made_on_the_way_belong_to_both():
    outer = bounded_cache(lambda number: kept(number, 2 * OWN_BYTES))
    before = GENERATION.nbytes
    outer(1)
    assert GENERATION.nbytes - before == 4 * OWN_BYTES
    count_bytes(9 * OWN_BYTES)
    outer(1)
    assert GENERATION.nbytes == 4 * OWN_BYTES


def test_arguments_by_name_and_none_as_a_result():
    made = []
    cached = bounded_cache(lambda *arguments, **named: made.append((arguments, named)))
    for _ in range(2):
        assert cached(1, other=2) is None
        assert cached(1) is None
    assert made == [((1,), {"other": 2}), ((1,), {})]


def test_errors_are_not_kept():
    cached = bounded_cache(lambda number: 1 // number)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            cached(0)


def test_a_generation_may_end_while_a_result_is_made():
    made = []

    def outer(number):
        made.append(number)
        for inner in range(30):
            kept(inner)
        return number

    cached = bounded_cache(outer)
    assert [cached(1), cached(1)] == [1, 1]
    assert made == [1]


def test_forgotten_results_are_made_again():
    cache = BoundedCache(object)
    first = cache.call()
    cache.forget()
    assert cache.call() is not first


def test_threads_share_results_and_forget_at_the_same_time():
    asked = [*range(50)] * 20
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(bounded_cache(lambda number: (kept(number), number)[1]), asked))
    assert found == asked
    assert GENERATION.nbytes <= GENERATION.most_bytes


def test_bytes_of_nested_arrays():
    assert array_bytes((np.zeros(3), [np.zeros(2, np.uint8), None], (), 7)) == 26
