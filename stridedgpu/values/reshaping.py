"""Strides for reshaped and broadcast sizes over the same elements, if such strides exist."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["repeated_strides", "reshaped_strides"]


def reshaped_strides(sizes: Sequence[int], strides: Sequence[int], wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides for `wanted` sizes of as many elements, in the same row-major order; None if that needs a copy.

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


def repeated_strides(sizes: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...] | None:
    """Strides for elements broadcast to `wanted` sizes, with axes added in front; None if NumPy refuses it too.

    >>> repeated_strides((3, 1), (1, 1), (2, 3, 4)), repeated_strides((3,), (1,), (4,))
    ((0, 1, 0), None)
    """
    added = len(wanted) - len(sizes)
    if added < 0:
        return None
    made = [0] * added
    for size, stride, target in zip(sizes, strides, wanted[added:], strict=True):
        if size not in (1, target):
            return None
        made.append(stride if size == target else 0)
    return tuple(made)


def _merged_runs(sizes: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes and strides, with neighbours merged if the outer stride is exactly the inner size times stride."""
    runs: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return runs or [(1, 1)]
