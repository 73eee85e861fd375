"""Pictures as interactive HTML: hovering or tabbing to an element highlights its address and all that share it."""

from __future__ import annotations

from html import escape
from importlib import resources
from typing import Any

from .cells import LabelKind, joined
from .subject import Side, sides_of, tile_words
from .svg import explored


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
        after = f"<p>Strong borders: {escape(tile_words(plan))}.</p><pre>{escape(plan.explain())}</pre>"
    heading = f"<h2>{escape(title)}</h2>" if title else ""
    drawn = "".join(map(_side, sides))
    return (
        f'<div class="sg-picture"><style>{_part("picture.css")}</style>{heading}'
        f'<p class="sg-status" role="status" aria-live="polite"></p><div class="sg-sides">{drawn}</div>{after}'
        f"<script>{_part('picture.js')}</script></div>"
    )


def _side(side: Side) -> str:
    """One tensor: its planes and memory, as SVG, and the input for coordinates."""
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
        contents += f'<div class="sg-drawn">{explored(side)}</div>{question}'
    return f'<section class="sg-side" aria-label="{escape(side.heading or "tensor")}" {attributes}>{contents}</section>'


def _part(name: str) -> str:
    """The text of a style sheet or script beside this module."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
