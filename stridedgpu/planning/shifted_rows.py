"""Rows that begin anywhere in their words: where it pays to shift words into place, and the widths that this gives.

The counterpart of `kernels/shifted_rows.cu`.
"""

from __future__ import annotations

from typing import Final

from .families import Family
from .problem import Problem
from .widths import PEELED_RUN_BYTES, Width

__all__ = ["shifted_widths"]

_WORD_BYTES: Final = 4
_VECTOR_BYTES: Final = 16
"""What a vector is put together to from words."""


def shifted_widths(
    problem: Problem, family: Family, load: Width, store: Width, widest: int
) -> tuple[Width, Width] | None:
    """The widths with words shifted into place; None where vectors are had without, or runs are short.

    `load` and `store` are the widths without.
    """
    if family not in (Family.FLAT, Family.ROWS) or not problem.sizes or widest < _VECTOR_BYTES:
        return None
    inner = len(problem.sizes) - 1
    itemsizes = problem.source.element.itemsize, problem.target.element.itemsize
    is_run = abs(problem.source_strides[inner]) == 1 and problem.channel_axis != inner and not problem.filler
    is_narrow = load.nbytes < _WORD_BYTES or store.nbytes < _WORD_BYTES
    if not is_run or not is_narrow or itemsizes[0] > _WORD_BYTES // 2:
        return None
    if problem.sizes[inner] * itemsizes[1] < PEELED_RUN_BYTES:
        return None
    narrower = load if load.nbytes < _WORD_BYTES else store
    words = Width(_WORD_BYTES, f"{narrower.limit}: words are loaded, and shifted into place")
    vectors = Width(_VECTOR_BYTES, "vectors are put together from words" if widest > _VECTOR_BYTES else "")
    return words, vectors
