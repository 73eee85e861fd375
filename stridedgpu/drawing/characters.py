"""Pictures in characters: the logical grid, and the linear memory under it with its offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .cells import Coordinates, Gap, LabelKind, Labeller, Place, natural_run
from .subject import Side, sides_of

_BETWEEN_PLANES: Final = "    "
_LEFT_OUT: Final = "…"

_PLACES_BEFORE: Final = 24
_PLACES_AFTER: Final = 8
_MOST_PLACES: Final = 40
"""Memory of at most so many places is printed whole; of more, the first and the last places."""


def text(
    thing: object,
    *,
    dims: str | None = None,
    dtype: object = None,
    buffer_elements: int | None = None,
    labels: LabelKind | None = None,
    width: int = 100,
) -> str:
    """A layout, tensor, descriptor or plan in characters, for a terminal of `width` columns.

    The elements come first, in one grid for each plane of the last two axes, then the memory with its offsets. Padding
    is `·`, omitted parts are `…`, and a place that several elements share shows their number. Cells have letters, one
    for each place in memory; `labels` may be "coordinates" or "offsets" instead. `dims` labels the axes, `dtype` is the
    element type of a bare layout, and `buffer_elements` is the size of the memory.

    >>> from stridedgpu.values.layout import Layout
    >>> print(text(Layout((2, 3), (5, 1)), dims="HW", buffer_elements=10))
    sizes   H=2 W=3
    strides H=5 W=1
    padded: 6 elements within a span of 8
    <BLANKLINE>
    A B C
    D E F
    <BLANKLINE>
    offset 0 1 2 3 4 5 6 7 8 9
    value  A B C · · D E F · ·
    """
    sides, plan = sides_of(thing, labels, dims, dtype, buffer_elements)
    drawn = [f"{side.heading}\n" * bool(plan) + _side_text(side, width) for side in sides]
    return "\n\n".join([*drawn, plan.explain()] if plan else drawn)


def _side_text(side: Side, width: int) -> str:
    """Facts, grid and memory, with empty lines between."""
    subject, layout = side.subject, side.subject.layout
    facts = [
        f"sizes   {subject.named(layout.sizes)}",
        f"strides {subject.named(layout.strides)}",
        *([f"offset  {layout.offset}"] if layout.offset else []),
        subject.kind,
    ]
    if not layout.element_count:
        return "\n".join(facts)
    return "\n".join([*facts, "", *_grid_lines(side, width), "", *_memory_lines(side, width)])


def _grid_lines(side: Side, width: int) -> list[str]:
    """The planes side by side, as many as fit a line, then the next ones."""
    names = {at: side.labeller.element(at, side.subject.layout.offset_of(at)) for at in side.grid.elements()}
    cell = max(map(len, names.values()))
    bands: list[list[list[str]]] = [[]]
    taken = 0
    for plane in side.grid.planes:
        block = [_LEFT_OUT] if plane is None else _plane_lines(side, plane, names, cell)
        needed = max(map(len, block)) + len(_BETWEEN_PLANES)
        if taken + needed > width + len(_BETWEEN_PLANES) and bands[-1]:
            bands.append([])
            taken = 0
        bands[-1].append(block)
        taken += needed
    lines: list[str] = []
    for band in bands:
        lines += ["", *_beside(band)] if lines else _beside(band)
    return lines


def _plane_lines(side: Side, plane: Coordinates, names: dict[Coordinates, str], cell: int) -> list[str]:
    """One plane: its outer coordinates, if any, then its rows."""
    lines = [side.subject.plane_title(plane)] if plane else []
    for row in side.grid.table(plane):
        cells = [_LEFT_OUT if at is None else names[at].rjust(cell) for at in row or [None]]
        lines.append(" ".join(cells))
    return lines


def _beside(blocks: Sequence[list[str]]) -> list[str]:
    height = max(map(len, blocks))
    widths = [max(map(len, block)) for block in blocks]
    rows = [
        _BETWEEN_PLANES.join(
            (block[line] if line < len(block) else "").ljust(wide) for block, wide in zip(blocks, widths, strict=True)
        )
        for line in range(height)
    ]
    return [row.rstrip() for row in rows]


def _memory_lines(side: Side, width: int) -> list[str]:
    """A table of offsets and the labels of their places, in as many lines as it needs."""
    subject, memory = side.subject, side.memory
    shared = any(isinstance(place, Place) and place.sharers > 1 for place in memory)
    heads = ["offset", "value", *(["shared"] if shared else [])]
    margin = max(map(len, heads))
    if len(memory) > _MOST_PLACES and any(isinstance(place, Gap) for place in memory):
        before, after = memory[:_PLACES_BEFORE], memory[-_PLACES_AFTER:]
        before = before[:-1] if isinstance(before[-1], Gap) else before
        memory = (*before, Gap(0, 0), *after[isinstance(after[0], Gap) :])
    columns = [_column(place, side.labeller)[: len(heads)] for place in memory]
    if sum(1 + max(map(len, column)) for column in columns) + margin <= width:
        return _band_lines(heads, margin, columns)
    wide = max(len(entry) for column in columns for entry in column)
    fitting = max(1, (width - margin) // (wide + 1))
    run = fitting if len(memory) != subject.stop - subject.first else natural_run(subject.layout, fitting)
    bands = [columns[start : start + run] for start in range(0, len(columns), run)]
    lines: list[str] = []
    for band in bands:
        lines += [""] * bool(lines) + _band_lines(heads, margin, band, wide)
    return lines


def _column(place: Place | Gap, labeller: Labeller) -> tuple[str, ...]:
    if isinstance(place, Gap):
        return (_LEFT_OUT,) * 3
    return (str(place.offset), labeller.place(place), place.sharing)


def _band_lines(heads: Sequence[str], margin: int, band: Sequence[tuple[str, ...]], wide: int = 0) -> list[str]:
    """One line for each head; columns as wide as they need, or all of them `wide`."""
    widths = [wide or max(map(len, column)) for column in band]
    rows = [[column[row].rjust(width) for column, width in zip(band, widths, strict=True)] for row in range(len(heads))]
    return [" ".join([head.ljust(margin), *row]).rstrip() for head, row in zip(heads, rows, strict=True)]
