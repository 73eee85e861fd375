"""Pictures as interactive HTML: hovering or tabbing to an element highlights its address and all that share it."""

from __future__ import annotations

from html import escape
from importlib import resources
from typing import Any

from .cells import Coordinates, Gap, LabelKind, Place, joined
from .subject import Side, sides_of, tile_words
from .svg import ALIGNMENT_BYTES


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
    body = fragment(thing, title, labels=labels, dims=dims, dtype=dtype, buffer_elements=buffer_elements)
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


def fragment(thing: object, title: str | None = None, **options: Any) -> str:
    """The body of `html`, whose arguments it takes, as one element for a notebook or another page.

    Style and script are inside.
    """
    sides, plan = sides_of(thing, **options)
    after = ""
    if plan is not None:
        after = f"<p>Bars on top: {escape(tile_words(plan))}.</p><pre>{escape(plan.explain())}</pre>"
    heading = f"<h2>{escape(title)}</h2>" if title else ""
    drawn = "".join(map(_side, sides))
    return (
        f'<div class="sg-picture"><style>{_part("picture.css")}</style>{heading}'
        f'<p class="sg-status" role="status" aria-live="polite"></p><div class="sg-sides">{drawn}</div>{after}'
        f"<script>{_part('picture.js')}</script></div>"
    )


def _side(side: Side) -> str:
    """One tensor: its planes, its memory, and the input for coordinates."""
    subject, layout = side.subject, side.subject.layout
    names = [label or f"axis {axis}" for axis, label in enumerate(subject.labels)]
    data = {
        "sizes": joined(layout.sizes),
        "strides": joined(layout.strides),
        "start": layout.offset,
        "names": ",".join(names),
        "itemsize": subject.itemsize,
    }
    attributes = " ".join(f'data-{name}="{escape(str(value))}"' for name, value in data.items())
    sizes, strides = escape(subject.named(layout.sizes)), escape(subject.named(layout.strides))
    heading = f"<h3>{escape(side.heading)}</h3>" if side.heading else ""
    contents = f"{heading}<p>sizes {sizes}, strides {strides}<br>{escape(subject.kind)}</p>"
    if layout.element_count:
        question = (
            f'<form><label>coordinates {escape(", ".join(names))}: <input inputmode="numeric" autocomplete="off" '
            f'placeholder="{joined((0,) * layout.ndim)}"></label> <output></output></form>'
        )
        contents += _planes(side) + _memory(side) + question
    return f'<section class="sg-side" aria-label="{escape(side.heading or "tensor")}" {attributes}>{contents}</section>'


def _planes(side: Side) -> str:
    left_out = '<span aria-label="planes left out">…</span>'
    planes = [left_out if plane is None else _plane(side, plane) for plane in side.grid.planes]
    return f'<div class="sg-planes">{"".join(planes)}</div>'


def _plane(side: Side, plane: Coordinates) -> str:
    title = escape(side.subject.plane_title(plane) if plane else "")
    rows = []
    tab = 0
    for row in side.grid.table(plane):
        cells = []
        for at in row or [None]:
            if at is None:
                cells.append(f'<td class="sg-left-out">{"…" if row else "⋮"}</td>')
            else:
                cells.append(_cell(side, at, tab))
                tab = -1
        rows.append(f"<tr>{''.join(cells)}</tr>")
    caption = f"<figcaption>{title}</figcaption>" if title else ""
    table = f'<table class="sg-plane" role="grid" aria-label="elements {title}">{"".join(rows)}</table>'
    return f"<figure>{caption}{table}</figure>"


def _cell(side: Side, at: Coordinates, tab: int) -> str:
    """One element; `tab` is 0 for the one that the Tab key stops at."""
    offset = side.subject.layout.offset_of(at)
    label = side.labeller.element(at, offset)
    spoken = f"{label}, coordinates {joined(at)}, offset {offset}"
    styled = ' class="sg-touched"' if side.touched(offset) else ""
    return (
        f'<td{styled} tabindex="{tab}" data-o="{offset}" data-at="{joined(at)}"'
        f'{_origin(side, offset)} aria-label="{spoken}" style="{_tint(side, at)}">{label}</td>'
    )


def _memory(side: Side) -> str:
    places = []
    tab = 0
    for part in side.memory:
        if isinstance(part, Gap):
            hint = f"{part.count} elements left out"
            places.append(f'<span class="sg-gap" title="{hint}" aria-label="{hint}">…</span>')
        else:
            places.append(_place(side, part, tab))
            tab = -1
    legend = "offsets in elements"
    if side.subject.element is not None:
        legend += f"; a thick edge every {ALIGNMENT_BYTES} B"
    if (length := _vector_length(side)) > 1:
        legend += f"; bars below are vectors of {length * side.subject.itemsize} B"
    line = f'<div role="row" class="sg-memory">{"".join(places)}</div>'
    return f'<h3>memory <small>{legend}</small></h3><div role="grid" aria-label="memory">{line}</div>'


def _place(side: Side, place: Place, tab: int) -> str:
    subject, label, length = side.subject, side.labeller.place(place), _vector_length(side)
    is_padding = place.coordinates is None
    kinds = {
        "sg-place": True,
        "sg-padding": is_padding,
        "sg-ruler": subject.element is not None and place.offset * subject.itemsize % ALIGNMENT_BYTES == 0,
        "sg-touched": not is_padding and side.touched(place.offset),
        "sg-vector": length > 1 and not is_padding,
        "sg-vector-start": length > 1 and not is_padding and (place.offset - subject.first) % length == 0,
    }
    facts, spoken, tint = "", f"offset {place.offset}, padding", ""
    if place.coordinates is not None:
        at = joined(place.coordinates)
        facts = f' data-at="{at}" data-sharers="{place.sharers}"{_origin(side, place.offset)}'
        shared = f", shared by {place.sharers} elements" if place.sharers > 1 else ""
        spoken = f"offset {place.offset}, {label}, coordinates {at}{shared}"
        tint = f' style="{_tint(side, place.coordinates)}"'
    return (
        f'<span role="gridcell" class="{" ".join(kind for kind, holds in kinds.items() if holds)}" tabindex="{tab}" '
        f'data-o="{place.offset}"{facts} aria-label="{spoken}"><small>{place.offset}</small>'
        f'<span class="sg-box"{tint}>{label}</span><small>{place.sharing}</small></span>'
    )


def _vector_length(side: Side) -> int:
    """Elements of a vector access."""
    return side.vector_bytes // side.subject.itemsize


def _origin(side: Side, offset: int) -> str:
    """The source offset of this place's element, as an attribute."""
    source = side.source_of(offset)
    return "" if source is None else f' data-from="{source}"'


def _tint(side: Side, at: Coordinates) -> str:
    return f"--tint:{side.subject.colour(at)}4d"


def _part(name: str) -> str:
    """The text of a style sheet or script beside this module."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
