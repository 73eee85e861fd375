"""Channel matrices: what makes each output channel of all channels of a pixel, as rows of numbers."""

from __future__ import annotations

from typing import TypeAlias

from .doubles import Doubles, doubles
from .errors import LayoutError
from .strides import listed

__all__ = ["Matrix", "MatrixRows", "check_rows", "matrix_rows"]

Matrix: TypeAlias = tuple[tuple[float, ...], ...]
"""A row for each output channel, with a number for each source channel."""

MatrixRows: TypeAlias = tuple[Doubles, ...]
"""The same as a key that tells -0.0 from 0.0."""


def matrix_rows(matrix: object) -> MatrixRows:
    """A matrix, as nested sequences or an array. Raises `LayoutError` unless its rows are as long as each other.

    >>> [len(row) // 8 for row in matrix_rows([[0.299, 0.587, 0.114]])]
    [3]
    """
    if type(matrix) is tuple and matrix and set(map(type, matrix)) == {Doubles}:
        return matrix
    rows = [listed(row) for row in listed(matrix) or ()]
    if not rows or None in rows:
        raise LayoutError(
            f"matrix={matrix!r} must be rows of numbers, one row for each output channel, such as "
            "[[0.299, 0.587, 0.114]]."
        )
    checked = tuple(doubles(f"matrix[{number}]", row) for number, row in enumerate(rows) if row is not None)
    lengths = [len(row) // 8 for row in checked]
    if len(set(lengths)) > 1:
        raise LayoutError(f"matrix has rows of {lengths} numbers; each has one number for each source channel.")
    return checked


def check_rows(matrix: MatrixRows, channels: object, source_channels: int | None) -> None:
    """Raise `LayoutError` unless a matrix fits a source with this many channels (None: no channel axis)."""
    if channels is not None:
        raise LayoutError(
            f"channels={channels!r} and matrix= both choose channels: leave channels out, and order the matrix's "
            "columns and rows."
        )
    if source_channels is None:
        raise LayoutError("matrix= needs a channel axis; label the source's axes, such as dims='NHWC'.")
    across = len(matrix[0]) // 8
    if across != source_channels:
        raise LayoutError(
            f"matrix has {len(matrix)} rows of {across} numbers; the source has {source_channels} channels, and each "
            "row takes one number for each."
        )
