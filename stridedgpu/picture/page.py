"""Pictures as interactive HTML: hovering or tabbing to an element highlights its address and all that share it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from html import escape
from importlib import resources

from .canvas import COLOURS
from .cells import Coordinates, Gap, Grid, LabelKind, Labeller, Letters, Place, grid_of, memory_of
from .characters import plane_title, sharing
from .footprint import PlanMap, footprint_of
from .memory_drawing import ALIGNMENT_BYTES
from .subject import Subject, plan_of, plan_subjects, subject_of

__all__ = ["fragment", "html", "words"]


def html(
    thing: object,
    *,
    dims: str | None = None,
    dtype: object = None,
    buffer_elements: int | None = None,
    labels: LabelKind | None = None,
    title: str | None = None,
) -> str:
    """A layout, tensor, descriptor or plan as a self-contained HTML page.

    Hovering or tabbing to an element highlights its place in memory and every element that shares the place; in a plan,
    also its source and its target. The page computes the offset of typed coordinates. `title` (escaped) is the heading.
    The other arguments are those of `text`.

    >>> from stridedgpu.values.layout import Layout
    >>> html(Layout((2, 3)), title="<rows>").splitlines()[4]
    '<title>&lt;rows&gt;</title>'
    """
    title = title or "Memory layout"
    body = fragment(thing, dims=dims, dtype=dtype, buffer_elements=buffer_elements, labels=labels, title=title)
    lines = (
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title>",
        f"<style>{_part('page.css')}</style></head>",
        f"<body><main>{body}</main></body></html>",
    )
    return "\n".join(lines) + "\n"


def words(text: str) -> str:
    """Lines of text as they are, for a notebook."""
    return f"<pre>{escape(text)}</pre>"


def fragment(
    thing: object,
    *,
    dims: str | None = None,
    dtype: object = None,
    buffer_elements: int | None = None,
    labels: LabelKind | None = None,
    title: str | None = None,
) -> str:
    """The body of `html` as one element for a notebook or another page, with its style and script inside."""
    plan = plan_of(thing)
    if plan is None:
        subject = subject_of(thing, dims=dims, dtype=dtype, buffer_elements=buffer_elements)
        sides = _Side(subject, "", labels).markup()
        after = ""
    else:
        moved = PlanMap(plan)
        source, target = plan_subjects(plan, dims)
        sides = _Side(source, "source", labels, plan.load.nbytes, moved.read.__contains__).markup()
        carried = moved.letters(source, labels)
        sides += _Side(target, "target", labels, plan.store.nbytes, moved.is_written, moved.source_of, carried).markup()
        after = f"<p>Bars on top: {escape(footprint_of(plan).words)}.</p><pre>{escape(plan.explain())}</pre>"
    heading = f"<h2>{escape(title)}</h2>" if title else ""
    return (
        f'<div class="sg-picture"><style>{_part("picture.css")}</style>{heading}'
        f'<p class="sg-status" role="status" aria-live="polite"></p><div class="sg-sides">{sides}</div>{after}'
        f"<script>{_part('picture.js')}</script></div>"
    )


class _Side:
    """The markup of one tensor: its planes, its memory, and the input for coordinates."""

    def __init__(
        self,
        subject: Subject,
        heading: str,
        labels: LabelKind | None,
        vector_bytes: int = 0,
        touched: Callable[[int], bool] | None = None,
        source_of: Callable[[int], int | None] | None = None,
        carried: Letters | None = None,
    ) -> None:
        """`touched` is True for the offsets that a tile uses; `source_of` maps an offset to its source offset.

        `carried` returns the source's letter of an offset.
        """
        self._carried = carried
        self._subject = subject
        self._heading = heading
        self._labels = labels
        self._vector = vector_bytes // subject.itemsize
        self._touched = touched
        self._source_of = source_of

    def markup(self) -> str:
        """The markup of the whole side."""
        subject, layout = self._subject, self._subject.layout
        names = [label or f"axis {axis}" for axis, label in enumerate(subject.labels)]
        data = {
            "sizes": _joined(layout.sizes),
            "strides": _joined(layout.strides),
            "start": layout.offset,
            "names": ",".join(names),
            "itemsize": subject.itemsize,
        }
        facts = (
            f"<p>sizes {escape(subject.named(layout.sizes))}, strides {escape(subject.named(layout.strides))}<br>"
            f"{escape(subject.kind)}</p>"
        )
        attributes = " ".join(f'data-{name}="{escape(str(value))}"' for name, value in data.items())
        label = escape(self._heading or "tensor")
        heading = f"<h3>{escape(self._heading)}</h3>" if self._heading else ""
        opened = f'<section class="sg-side" aria-label="{label}" {attributes}>{heading}{facts}'
        if not layout.element_count:
            return opened + "</section>"
        grid = grid_of(layout)
        labeller = Labeller(layout, grid, self._labels, self._carried)
        memory = memory_of(subject, grid)
        question = (
            f'<form><label>coordinates {escape(", ".join(names))}: <input inputmode="numeric" autocomplete="off" '
            f'placeholder="{_joined((0,) * layout.ndim)}"></label> <output></output></form>'
        )
        return f"{opened}{self._planes(grid, labeller)}{self._memory(memory, labeller)}{question}</section>"

    def _planes(self, grid: Grid, labeller: Labeller) -> str:
        planes = [
            '<span aria-label="planes left out">…</span>' if plane is None else self._plane(grid, plane, labeller)
            for plane in grid.planes
        ]
        return f'<div class="sg-planes">{"".join(planes)}</div>'

    def _plane(self, grid: Grid, plane: Coordinates, labeller: Labeller) -> str:
        title = escape(plane_title(self._subject, plane) if plane else "")
        rows = []
        first = True
        for row in grid.rows:
            if row is None:
                rows.append('<tr><td class="sg-left-out">⋮</td></tr>')
                continue
            cells = []
            for column in grid.columns:
                if column is None:
                    cells.append('<td class="sg-left-out">…</td>')
                    continue
                cells.append(self._cell(grid.coordinates(plane, row, column), labeller, stop=first))
                first = False
            rows.append(f"<tr>{''.join(cells)}</tr>")
        caption = f"<figcaption>{title}</figcaption>" if title else ""
        table = f'<table class="sg-plane" role="grid" aria-label="elements {title}">{"".join(rows)}</table>'
        return f"<figure>{caption}{table}</figure>"

    def _cell(self, at: Coordinates, labeller: Labeller, *, stop: bool) -> str:
        offset = self._subject.layout.offset_of(at)
        label = labeller.element(at, offset)
        spoken = f"{label}, coordinates {_joined(at)}, offset {offset}"
        styled = ' class="sg-touched"' if self._touched is not None and self._touched(offset) else ""
        return (
            f'<td{styled} tabindex="{0 if stop else -1}" data-o="{offset}" data-at="{_joined(at)}"'
            f'{self._from(offset)} aria-label="{spoken}" style="{self._tint(at)}">{label}</td>'
        )

    def _memory(self, memory: Sequence[Place | Gap], labeller: Labeller) -> str:
        places = []
        stop = True
        for part in memory:
            if isinstance(part, Gap):
                hint = f"{part.count} elements left out"
                places.append(f'<span class="sg-gap" title="{hint}" aria-label="{hint}">…</span>')
            else:
                places.append(self._place(part, labeller, stop=stop))
                stop = False
        words = "offsets in elements"
        if self._subject.element is not None:
            words += f"; a thick edge every {ALIGNMENT_BYTES} B"
        if self._vector > 1:
            words += f"; bars below are vectors of {self._vector * self._subject.itemsize} B"
        line = f'<div role="row" class="sg-memory">{"".join(places)}</div>'
        return f'<h3>memory <small>{words}</small></h3><div role="grid" aria-label="memory">{line}</div>'

    def _place(self, place: Place, labeller: Labeller, *, stop: bool) -> str:
        subject, label = self._subject, labeller.place(place)
        padding = place.coordinates is None
        kinds = ["sg-place", *(["sg-padding"] if padding else [])]
        if subject.element is not None and place.offset * subject.itemsize % ALIGNMENT_BYTES == 0:
            kinds.append("sg-ruler")
        if self._touched is not None and not padding and self._touched(place.offset):
            kinds.append("sg-touched")
        if self._vector > 1 and not padding:
            starts = (place.offset - subject.first) % self._vector == 0
            kinds += ["sg-vector", *(["sg-vector-start"] if starts else [])]
        facts, spoken, tint = "", f"offset {place.offset}, padding", ""
        if place.coordinates is not None:
            at = _joined(place.coordinates)
            facts = f' data-at="{at}" data-sharers="{place.sharers}"{self._from(place.offset)}'
            shared = f", shared by {place.sharers} elements" if place.sharers > 1 else ""
            spoken = f"offset {place.offset}, {label}, coordinates {at}{shared}"
            tint = f' style="{self._tint(place.coordinates)}"'
        return (
            f'<span role="gridcell" class="{" ".join(kinds)}" tabindex="{0 if stop else -1}" '
            f'data-o="{place.offset}"{facts} aria-label="{spoken}"><small>{place.offset}</small>'
            f'<span class="sg-box"{tint}>{label}</span><small>{sharing(place)}</small></span>'
        )

    def _from(self, offset: int) -> str:
        """The source offset of this place's element, as an attribute."""
        source = None if self._source_of is None else self._source_of(offset)
        return "" if source is None else f' data-from="{source}"'

    def _tint(self, at: Coordinates) -> str:
        axis = self._subject.coloured_axis
        return f"--tint:{COLOURS[(0 if axis is None else at[axis]) % len(COLOURS)]}4d"


def _joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


@lru_cache(maxsize=3)
def _part(name: str) -> str:
    """The text of a style sheet or script beside this module."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
