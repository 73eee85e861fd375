"""Other sizes for the same elements: strides for them, where strides can say it."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["reshaped_strides"]


def reshaped_strides(sizes: Sequence[int], strides: Sequence[int], wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of as many elements in `wanted` sizes, in the same row-major order; None where that takes a copy.

    >>> reshaped_strides((4, 6), (6, 1), (2, 2, 6)), reshaped_strides((4, 6), (8, 1), (24,))
    ((12, 6, 1), None)
    """
    made = [1] * len(wanted)
    place = len(wanted) - 1
    for run, run_stride in reversed(_merged_runs(sizes, strides)):
        left, step = run, run_stride
        while place >= 0 and (left > 1 or wanted[place] == 1):
            if left % wanted[place]:
                return None
            made[place] = step
            step *= wanted[place]
            left //= wanted[place]
            place -= 1
    return tuple(made)


def _merged_runs(sizes: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes and strides with neighbours merged wherever the outer one steps over the inner one exactly."""
    runs: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return runs or [(1, 1)]
