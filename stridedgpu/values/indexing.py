"""NumPy's basic indices as arithmetic on sizes, strides and an offset."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as as_index
from types import EllipsisType
from typing import Any, Final

from .errors import LayoutError

__all__ = ["Index", "Window", "windowed"]

Index = int | slice | EllipsisType | None
"""One entry of a basic index."""

Window = tuple[tuple[int, ...], tuple[int, ...], int, tuple[int | None, ...]]
"""Sizes, strides and offset of an indexed window, and the source axis of each of its axes (None: a new axis)."""


_WHOLE: Final = slice(None)

_MOST_CHARACTERS: Final = 60
"""The longest text of an entry in a message: a large mask would fill the screen."""


def windowed(index: Index | tuple[Index, ...], sizes: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Window:
    """Apply a basic index: integers, slices with any step but 0, one `...`, and None for a new axis.

    Raises `IndexError` for an integer out of range, too many entries or a second `...`. Raises `LayoutError` for an
    entry of any other type.

    >>> windowed((0, slice(None, None, -2), None), (4, 6), (6, 1), 0)
    ((3, 1), (-2, 0), 5, (1, None))
    """
    entries = index if isinstance(index, tuple) else (index,)
    rank, axis = len(sizes), 0
    made_sizes: list[int] = []
    made_strides: list[int] = []
    axes: list[int | None] = []
    is_open = True  # until an ellipsis takes the remaining axes
    for place, entry in enumerate(entries):
        if entry is None:
            made_sizes.append(1)
            made_strides.append(0)
            axes.append(None)
            continue
        if entry is Ellipsis:
            if not is_open:
                raise IndexError("An index may hold one '...' only.")
            is_open = False
            end = max(axis, rank - _named(entries[place:]))
            made_sizes += sizes[axis:end]
            made_strides += strides[axis:end]
            axes += range(axis, end)
            axis = end
            continue
        if axis == rank:
            raise IndexError(f"{_named(entries)} indices for a tensor of rank {rank}.")
        size, stride = sizes[axis], strides[axis]
        if type(entry) is slice:
            if entry != _WHOLE:
                chosen = _chosen(entry, size)
                size = len(chosen)
                if size:
                    offset += chosen.start * stride
                stride *= chosen.step
            made_sizes.append(size)
            made_strides.append(stride)
            axes.append(axis)
        else:
            number = entry if type(entry) is int else _integer(entry)
            if not -size <= number < size:
                raise IndexError(f"index {number} is out of range for axis {axis} of size {size}.")
            offset += (number + size if number < 0 else number) * stride
        axis += 1
    if is_open:
        made_sizes += sizes[axis:]
        made_strides += strides[axis:]
        axes += range(axis, rank)
    return tuple(made_sizes), tuple(made_strides), offset, tuple(axes)


def _named(entries: Sequence[Any]) -> int:
    """The number of axes that the entries index."""
    return sum(entry is not None and entry is not Ellipsis for entry in entries)


def _chosen(entry: slice, size: int) -> range:
    """The coordinates that a slice of an axis selects."""
    try:
        return range(size)[entry]
    except (TypeError, ValueError):
        raise LayoutError(f"{entry} must have integers, and a step that is not 0.") from None


def _integer(entry: object) -> int:
    """An integer of another type, such as NumPy's. A bool is refused, since it is a mask."""
    if isinstance(entry, bool) or not hasattr(entry, "__index__"):
        raise LayoutError(
            f"index {_shortened(entry)} is not basic: a view takes integers, slices, '...' and None. "
            "To pick elements by an array of indices, use gather."
        )
    try:
        return as_index(entry)
    except TypeError:  # arrays have __index__, which raises unless they are a single integer
        raise LayoutError(
            f"index {_shortened(entry)} is not basic; to pick elements by an array, use gather, "
            "and for a mask gather(t, numpy.flatnonzero(mask))."
        ) from None


def _shortened(entry: object) -> str:
    """The text of an entry for a message, shortened."""
    words = " ".join(repr(entry).split())
    return words if len(words) <= _MOST_CHARACTERS else f"{words[:_MOST_CHARACTERS]}…"
