"""Axis labels: which axes of a tensor are N, C, D, H and W.

`dims` is a string that labels the last axes of a tensor, in axis order. Axes before them have no label, and no axis has
one if `dims` is None: such axes are plain. Views carry the labels as a list, with None for a plain axis. The letters
T, Z, Y, X and B are read, as `axis_letters` says, and never kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .errors import LayoutError
from .strides import axis_letters, canonical_axes, integers

Labels = tuple[str | None, ...]

_CANONICAL_BY_RANK: Final = {4: "NCHW", 5: "NCDHW"}


def checked_dims(dims: object, ndim: int) -> str | None:
    """`dims` as labels N, C, D, H, W of at most `ndim` axes, each letter once. Raises `LayoutError` otherwise."""
    if dims is None:
        return None
    if not isinstance(dims, str):
        raise LayoutError(f"dims={dims!r} is not a string of axis letters such as 'NCHW'.")
    canonical_axes(dims, "dims")
    if len(dims) > ndim:
        raise LayoutError(f"dims={dims!r} labels {len(dims)} axes of a tensor of rank {ndim}.")
    return axis_letters(dims)


def labels_of(dims: str | None, ndim: int) -> Labels:
    """One label for each axis; None for a plain one."""
    letters = axis_letters(dims or "")
    return (*(None,) * (ndim - len(letters)), *letters)


def dims_of(labels: Labels) -> str | None:
    """The labels as `dims`; None if a plain axis follows a labelled one, since `dims` labels the last axes only."""
    letters = [label for label in labels if label is not None]
    plain = len(labels) - len(letters)
    return "".join(letters) or None if all(label is None for label in labels[:plain]) else None


def inferred_labels(dims: str | None, ndim: int, layout: str | None = None) -> Labels:
    """The labels of a tensor; an unlabelled tensor is taken to be in canonical order.

    Rank 4 is NCHW and rank 5 NCDHW. Another rank has the letters of `layout`, if there is one letter an axis.
    """
    if dims is None:
        if layout is not None and len(layout) == ndim:
            return tuple(canonical_axes(layout))
        dims = _CANONICAL_BY_RANK.get(ndim)
    return labels_of(dims, ndim)


def memory_axes(layout: str, labels: Labels) -> tuple[int, ...]:
    """The axes from outermost to innermost for an order string: plain axes first, then the letters' axes.

    Raises `LayoutError` if the letters are not those of the labels.

    >>> memory_axes("NHWC", ("N", "C", "H", "W"))
    (0, 2, 3, 1)
    """
    letters = "".join(label for label in labels if label is not None)
    if canonical_axes(layout) != (canonical_axes(letters) if letters else ""):
        has = f"axes {letters}" if letters else f"{len(labels)} plain axes: label them with dims="
        raise LayoutError(f"layout={layout!r} does not order the axes of this tensor, which has {has}.")
    plain = tuple(axis for axis, label in enumerate(labels) if label is None)
    return (*plain, *(labels.index(letter) for letter in axis_letters(layout)))


def permutation(order: str | Sequence[int], labels: Labels) -> tuple[int, ...]:
    """Axis numbers for `permute`: from letters, where plain axes stay in front, or the given numbers."""
    return memory_axes(order, labels) if isinstance(order, str) else integers("axes", order)
