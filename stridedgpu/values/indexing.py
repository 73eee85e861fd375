"""NumPy's basic indices as arithmetic on sizes, strides and an offset."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as as_index
from types import EllipsisType
from typing import Final

from .errors import LayoutError

Index = int | slice | EllipsisType | None
"""One entry of a basic index."""

Window = tuple[tuple[int, ...], tuple[int, ...], int, tuple[int, int], tuple[int | None, ...] | None]
"""An indexed window: sizes, strides, offset, extent, and the source axis of each of its axes.

None in place of an axis is a new one; None in place of them all says that every axis stayed where it was.
"""

_MOST_CHARACTERS: Final = 60
"""The longest text of an entry in a message: a large mask would fill the screen."""


def windowed(
    index: Index | tuple[Index, ...],
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    extent: tuple[int, int],
) -> Window:
    """Apply a basic index: integers, slices with any step but 0, one `...`, and None for a new axis.

    `extent` is that of the sizes and strides, as a `Layout` has it; only what the index changes is counted anew.
    Raises `IndexError` for an integer out of range, too many entries or a second `...`. Raises `LayoutError` for an
    entry of any other type.

    >>> windowed((0, slice(None, None, -2), None), (4, 6), (6, 1), 0, (0, 24))
    ((3, 1), (-2, 0), 5, (-4, 5), (1, None))
    """
    entries = index if isinstance(index, tuple) else (index,)
    new_sizes, new_strides = list(sizes), list(strides)
    axes: list[int | None] | None = None  # until an axis comes or goes
    below, span = extent
    place, is_open = 0, True  # until an ellipsis takes the remaining axes
    for number, entry in enumerate(entries, 1):
        if type(entry) is slice:
            if place == len(new_sizes):
                raise _too_many(entries, sizes)
            if entry.start is not None or entry.stop is not None or entry.step is not None:
                size, stride = new_sizes[place], new_strides[place]
                try:
                    start, stop, step = entry.indices(size)
                except (TypeError, ValueError):
                    raise LayoutError(f"{entry} must have integers, and a step that is not 0.") from None
                chosen = (stop - start + step - (1 if step > 0 else -1)) // step
                if chosen > 0:
                    offset += start * stride
                else:
                    chosen = 0
                before, stride = (size - 1) * stride, step * stride
                after = (chosen - 1) * stride
                if before >= 0 <= after:
                    span += after - before
                else:
                    span += abs(after) - abs(before)
                    below += min(0, after) - min(0, before)
                new_sizes[place], new_strides[place] = chosen, stride
            place += 1
        elif entry is Ellipsis:
            if not is_open:
                raise IndexError("An index may hold one '...' only.")
            is_open = False
            place = max(place, len(new_sizes) - _named(entries[number:]))
        elif entry is None:
            axes = list(range(len(sizes))) if axes is None else axes
            new_sizes.insert(place, 1)
            new_strides.insert(place, 0)
            axes.insert(place, None)
            place += 1
        else:
            if place == len(new_sizes):
                raise _too_many(entries, sizes)
            size, stride = new_sizes[place], new_strides[place]
            chosen = entry if type(entry) is int else _integer(entry)
            axes = list(range(len(sizes))) if axes is None else axes
            if not -size <= chosen < size:
                raise IndexError(f"index {chosen} is out of range for axis {axes[place]} of size {size}.")
            offset += (chosen + size if chosen < 0 else chosen) * stride
            before = (size - 1) * stride
            span -= abs(before)
            below -= min(0, before)
            del new_sizes[place], new_strides[place], axes[place]
    extent = (0, 0) if 0 in new_sizes else (below, span)
    return tuple(new_sizes), tuple(new_strides), offset, extent, None if axes is None else tuple(axes)


def _too_many(entries: Sequence[object], sizes: tuple[int, ...]) -> IndexError:
    """The error of an index with more entries than there are axes."""
    return IndexError(f"{_named(entries)} indices for a tensor of rank {len(sizes)}.")


def _named(entries: Sequence[object]) -> int:
    return sum(entry is not None and entry is not Ellipsis for entry in entries)


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
    words = " ".join(repr(entry).split())
    return words if len(words) <= _MOST_CHARACTERS else f"{words[:_MOST_CHARACTERS]}…"
