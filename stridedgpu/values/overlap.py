"""Overlap and gaps of strided address sets: exact answers.

Two elements share an address when a bounded linear Diophantine equation over the strides has a solution. The
search walks the strides from large to small; in layouts that nest, which is nearly all of them, each level
leaves at most two values to try.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Final

_MOST_STEPS: Final = 100_000
"""Search steps after which the answer is "yes": a needless refusal is safe, a missed overlap is not."""

Term = tuple[int, int]
"""A positive coefficient and the largest value of its variable, which starts at 0."""


def self_overlaps(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two different coordinates of a layout have the same offset.

    >>> self_overlaps((2, 3), (3, 1)), self_overlaps((2, 3), (0, 1)), self_overlaps((4, 3), (1, 1))
    (False, True, True)
    """
    if 0 in sizes:
        return False
    axes = sorted(((abs(stride), size - 1) for size, stride in zip(sizes, strides, strict=True) if size > 1))
    if any(stride == 0 for stride, _ in axes):
        return True
    reach = 0
    for stride, last in axes:
        if stride <= reach:
            break
        reach += stride * last
    else:
        return False  # each axis steps over everything inside it
    # Two coordinates differ first in some axis, by at least one step; the axes after it differ either way.
    for place, (stride, last) in enumerate(axes):
        rest = [(other, 2 * most) for other, most in axes[place + 1 :]]
        target = sum(other * most for other, most in axes[place + 1 :]) - stride
        if has_solution(target, [(stride, last - 1), *rest]):
            return True
    return False


def leaves_gaps(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether there are places between the elements of a layout that no element takes.

    >>> leaves_gaps((2, 3), (3, 1)), leaves_gaps((2, 3), (4, 1))
    (False, True)
    """
    if 0 in sizes:
        return False
    reach = 0
    # From small strides to large, the axes so far fill 0 to `reach`; a larger step never reaches reach + 1.
    for stride, size in sorted((abs(s), n) for n, s in zip(sizes, strides, strict=True) if n > 1):
        if stride > reach + 1:
            return True
        reach += stride * (size - 1)
    return False


def addresses_intersect(first: Sequence[Term], second: Sequence[Term], distance: int) -> bool:
    """Whether two address sets meet: one spanned by `first`, the other by `second`, starting `distance` later.

    Terms are in bytes and include the bytes of an element: `(1, itemsize - 1)`.
    """
    mirrored = sum(step * last for step, last in second)
    return has_solution(distance + mirrored, [*first, *second])


def has_solution(target: int, terms: Sequence[Term]) -> bool:
    """Whether the sum of coefficient * x over `terms`, with 0 <= x <= most, can be `target`.

    Answers True when the search takes too long.
    """
    # Two tensors in one buffer share their strides. Merged into one term, these cost one choice, not one a row.
    combined: dict[int, int] = {}
    for coefficient, most in terms:
        if most > 0:
            combined[coefficient] = combined.get(coefficient, 0) + most
    ordered = sorted(combined.items(), reverse=True)
    reaches = [0] * (len(ordered) + 1)
    divisors = [0] * (len(ordered) + 1)
    for place in range(len(ordered) - 1, -1, -1):
        coefficient, most = ordered[place]
        reaches[place] = reaches[place + 1] + coefficient * most
        divisors[place] = gcd(divisors[place + 1], coefficient)
    steps = 0
    pending = [(0, target)]
    while pending:
        place, rest = pending.pop()
        if rest == 0:
            return True
        if not 0 < rest <= reaches[place] or rest % divisors[place]:
            continue
        coefficient, most = ordered[place]
        inner = divisors[place + 1]
        if inner == 0:  # the last term, and its coefficient divides the rest
            return True
        # Only these leave a remainder that the inner terms can reach: x = residue modulo period, least <= x <= most.
        shared = gcd(coefficient, inner)
        period = inner // shared
        residue = rest // shared * pow(coefficient // shared, -1, period) % period
        least = max(0, -(-(rest - reaches[place + 1]) // coefficient))
        values = range(least + (residue - least) % period, min(most, rest // coefficient) + 1, period)
        steps += len(values)
        if steps > _MOST_STEPS:
            return True
        pending.extend((place + 1, rest - coefficient * x) for x in values)
    return False
