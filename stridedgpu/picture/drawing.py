"""Pictures as SVG: the logical tensor as planes of cells, and its memory as a strip with rulers and vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

from stridedgpu.errors import LayoutError

from .cells import Coordinates, Gap, Grid, LabelKind, Labeller, Place, grid_of, memory_of, natural_run
from .characters import plane_title, sharing
from .footprint import PlanMap, footprint_of
from .subject import Subject, plan_of, plan_subjects, subject_of

__all__ = ["ALIGNMENT_BYTES", "COLOURS", "svg"]

ALIGNMENT_BYTES: Final = 16
"""Memory is ruled where a 16-byte vector may start."""

COLOURS: Final = ("#d55e00", "#009e73", "#0072b2", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7f7f7f")
"""Okabe and Ito's palette, which colour-blind people tell apart, red, green and blue first."""

_ROW: Final = 24
_CHARACTER: Final = 7.2
_MARGIN: Final = 12
_WIDEST: Final = 960
_MOST_IN_LINE: Final = 40

_STYLE: Final = """
.sg-svg{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.sg-svg text{fill:currentColor}
.sg-svg rect{stroke:currentColor;stroke-opacity:.45}
.sg-svg .sg-title{font-weight:600}
.sg-svg .sg-small{font-size:9px;opacity:.8}
.sg-svg .sg-ruler{stroke:currentColor;stroke-width:2.5}
.sg-svg .sg-vector{fill:none;stroke-width:2;stroke-opacity:.9}
.sg-svg .sg-touched{stroke-opacity:1;stroke-width:2}
svg:root{color:#1f2328;background:#fff}
@media (prefers-color-scheme:dark){svg:root{color:#e6edf3;background:#0d1117}}
"""


@dataclass
class _Canvas:
    """SVG elements so far, and how far they reach."""

    parts: list[str] = field(default_factory=list)
    width: float = 0
    height: float = 0

    def add(self, markup: str, right: float, bottom: float) -> None:
        """An element that reaches to `right` and `bottom`."""
        self.parts.append(markup)
        self.width, self.height = max(self.width, right), max(self.height, bottom)

    def words(self, x: float, y: float, words: str, style: str = "") -> None:
        """A line of text whose baseline is at `y`."""
        small = style == "sg-small"
        length = len(words) * (_CHARACTER * 0.75 if small else _CHARACTER)
        named = f' class="{style}"' if style else ""
        self.add(f'<text x="{x:g}" y="{y:g}"{named}>{escape(words)}</text>', x + length, y + 4)


def svg(
    thing: object,
    *,
    dims: str | None = None,
    dtype: object = None,
    buffer_elements: int | None = None,
    labels: LabelKind | None = None,
    plan: object = None,
) -> str:
    """A layout, tensor, descriptor or plan as one SVG element that needs nothing else, in light and dark.

    Cells are coloured by channel (without channels, by the outermost axis); padding is hatched; memory is ruled at
    every 16 bytes where the element type is known. Given a plan, as `thing` or beside a tensor that is its source or
    target, vector accesses are outlined and the cells that one warp or tile touches have a strong border. The other
    arguments are those of `text`.

    >>> from stridedgpu.layout import Layout
    >>> svg(Layout((2, 3))).count('class="sg-cell"')
    6
    """
    canvas = _Canvas()
    shown = plan_of(thing)
    if shown is None:
        subject = subject_of(thing, dims=dims, dtype=dtype, buffer_elements=buffer_elements)
        given = plan_of(plan)
        vector, touched = (0, _nothing) if given is None else _side_of(subject, plan)
        name = f"{subject.named(subject.layout.sizes)}, strides {subject.named(subject.layout.strides)}"
        _draw(canvas, subject, "", labels, vector, touched)
    else:
        name = f"plan {shown.kernel}"
        source, target = plan_subjects(shown, dims)
        moved = PlanMap(shown)
        _draw(canvas, source, "source", labels, shown.load.nbytes, moved.read.__contains__)
        _draw(canvas, target, "target", labels, shown.store.nbytes, moved.is_written)
        canvas.words(_MARGIN, canvas.height + 20, footprint_of(shown).words)
    width, height = canvas.width + _MARGIN, canvas.height + _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="sg-svg" role="img" aria-label="{escape(name)}" '
        f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}">'
        f"<title>{escape(name)}</title><style>{_STYLE}</style>"
        '<defs><pattern id="sg-hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><path d="M0 0V6" stroke="currentColor" stroke-opacity=".5"/></pattern></defs>'
        f"{''.join(canvas.parts)}</svg>"
    )


def _nothing(_offset: int) -> bool:
    return False


def _side_of(subject: Subject, plan: object) -> tuple[int, Callable[[int], bool]]:
    """The vector bytes and the touched offsets of that side of a plan which `subject` is.

    Raises `LayoutError` when it is neither.
    """
    shown = plan_of(plan)
    assert shown is not None
    lowest = subject.layout.first_offset
    moved = PlanMap(shown)
    own = (subject.layout.shifted(-lowest), subject.element)
    if own == (shown.problem.source.layout, shown.problem.source.element):
        return shown.load.nbytes, lambda offset: offset - lowest in moved.read
    if own == (shown.problem.target.layout, shown.problem.target.element):
        return shown.store.nbytes, lambda offset: moved.is_written(offset - lowest)
    raise LayoutError(f"{subject.layout} of {subject.element} is neither the source nor the target of {shown.kernel}.")


def _draw(
    canvas: _Canvas,
    subject: Subject,
    heading: str,
    labels: LabelKind | None,
    vector_bytes: int,
    touched: Callable[[int], bool],
) -> None:
    """One tensor below what is on the canvas already: facts, planes, memory."""
    layout = subject.layout
    top = canvas.height + _MARGIN + 8
    if heading:
        canvas.words(_MARGIN, top, heading, "sg-title")
        top += 18
    canvas.words(
        _MARGIN, top, f"sizes {subject.named(layout.sizes)}   strides {subject.named(layout.strides)}", "sg-title"
    )
    canvas.words(_MARGIN, top + 17, subject.kind)
    if not layout.element_count:
        return
    grid = grid_of(layout)
    labeller = Labeller(layout, grid, labels)
    _draw_planes(canvas, subject, grid, labeller, touched, top + 32)
    _draw_memory(canvas, subject, memory_of(subject, grid), labeller, vector_bytes, touched)


def _draw_planes(
    canvas: _Canvas, subject: Subject, grid: Grid, labeller: Labeller, touched: Callable[[int], bool], top: float
) -> None:
    """The planes beside each other, a new band where the outermost plane axis steps on or the line is full."""
    layout = subject.layout
    longest = max(len(labeller.element(at, layout.offset_of(at))) for at in grid.elements())
    cell = max(_ROW, longest * _CHARACTER + 8)
    titled = any(grid.planes)
    plane_width = max(len(grid.columns) * cell, titled * _CHARACTER * len(plane_title(subject, (0,) * (grid.ndim - 2))))
    plane_height = len(grid.rows) * _ROW + titled * 18
    x, y, before = float(_MARGIN), top, grid.planes[0]
    for plane in grid.planes:
        stacked = plane is not None and before is not None and plane[:-1] != before[:-1]
        needed = 24 if plane is None else plane_width
        if x > _MARGIN and (stacked or x + needed > _WIDEST):
            x, y = float(_MARGIN), y + plane_height + 14
        if plane is None:
            canvas.words(x, y + plane_height / 2, "…")
            x += 2 * _CHARACTER + 8
            continue
        before = plane
        if titled:
            canvas.words(x, y + 12, plane_title(subject, plane))
        _draw_plane(canvas, subject, grid, plane, labeller, touched, (x, y + titled * 18, cell))
        x += plane_width + 16


def _draw_plane(
    canvas: _Canvas,
    subject: Subject,
    grid: Grid,
    plane: Coordinates,
    labeller: Labeller,
    touched: Callable[[int], bool],
    place: tuple[float, float, float],
) -> None:
    """The cells of one plane; `place` is left, top and the width of a cell."""
    left, top, width = place
    for down, row in enumerate(grid.rows):
        y = top + down * _ROW
        if row is None:
            canvas.words(left + width / 2 - 4, y + 16, "⋮")
            continue
        for across, column in enumerate(grid.columns):
            x = left + across * width
            if column is None:
                canvas.words(x + width / 2 - 4, y + 16, "…")
                continue
            at = grid.coordinates(plane, row, column)
            offset = subject.layout.offset_of(at)
            facts = f'class="sg-cell" data-at="{_joined(at)}" data-offset="{offset}"'
            hint = f"({_joined(at)}) lies at offset {offset}"
            box = _box(x, y, width, _ROW, colour_of(subject, at), touched=touched(offset))
            label = _centred(labeller.element(at, offset), x + width / 2, y + 16)
            canvas.add(f"<g {facts}><title>{hint}</title>{box}{label}</g>", x + width, y + _ROW)


def _draw_memory(
    canvas: _Canvas,
    subject: Subject,
    memory: Sequence[Place | Gap],
    labeller: Labeller,
    vector_bytes: int,
    touched: Callable[[int], bool],
) -> None:
    """Memory from left to right, in lines of whole rows where they fit, each line ruled and outlined."""
    longest = max(max(len(labeller.place(p)), len(str(p.offset))) for p in memory if isinstance(p, Place))
    width = max(_ROW, longest * _CHARACTER + 6)
    fitting = max(1, min(_MOST_IN_LINE, int((_WIDEST - _MARGIN) / width)))
    whole = all(isinstance(part, Place) for part in memory)
    run = natural_run(subject.layout, fitting) if whole and len(memory) > fitting else fitting
    y = canvas.height + 36
    canvas.words(_MARGIN, y - 8, "memory, offsets in elements" + _ruler_words(subject, vector_bytes))
    for start in range(0, len(memory), run):
        line = memory[start : start + run]
        for number, part in enumerate(line):
            x = _MARGIN + number * width
            if isinstance(part, Gap):
                hint = f"<title>{part.count} elements from offset {part.offset} are left out</title>"
                canvas.add(
                    f'<g class="sg-gap" data-offset="{part.offset}" data-count="{part.count}">{hint}'
                    f"{_centred('…', x + width / 2, y + 28)}</g>",
                    x + width,
                    y + 40,
                )
            else:
                canvas.add(_place_markup(subject, part, labeller, touched, (x, y, width)), x + width, y + 50)
        _rule(canvas, subject, line, y, width)
        if vector_bytes > subject.itemsize:
            _outline_vectors(canvas, subject, line, vector_bytes, (y, width))
        y = canvas.height + 6


def _place_markup(
    subject: Subject,
    part: Place,
    labeller: Labeller,
    touched: Callable[[int], bool],
    place: tuple[float, float, float],
) -> str:
    """One place of memory: its offset above, its label in a box, and below how many elements share it."""
    x, y, width = place
    padding = part.coordinates is None
    if part.coordinates is None:
        kind, fill, hint = "sg-padding", "url(#sg-hatch)", f"offset {part.offset}: padding"
        facts = ""
    else:
        kind, fill = "sg-place", colour_of(subject, part.coordinates)
        facts = f' data-at="{_joined(part.coordinates)}" data-sharers="{part.sharers}"'
        hint = f"offset {part.offset}: ({_joined(part.coordinates)})"
    below = "" if part.sharers < 2 else _centred(sharing(part), x + width / 2, y + 47, "sg-small")
    return (
        f'<g class="{kind}" data-offset="{part.offset}"{facts}><title>{hint}</title>'
        f"{_centred(str(part.offset), x + width / 2, y + 9, 'sg-small')}"
        f"{_box(x, y + 12, width, _ROW, fill, touched=not padding and touched(part.offset))}"
        f"{'' if padding else _centred(labeller.place(part), x + width / 2, y + 28)}{below}</g>"
    )


def _rule(canvas: _Canvas, subject: Subject, line: Sequence[Place | Gap], y: float, width: float) -> None:
    """A thick rule before each place that lies at a multiple of 16 bytes from the buffer's start."""
    if subject.element is None:
        return
    for number, part in enumerate(line):
        if isinstance(part, Place) and part.offset * subject.itemsize % ALIGNMENT_BYTES == 0:
            x = _MARGIN + number * width
            canvas.add(
                f'<path class="sg-ruler" data-offset="{part.offset}" d="M{x:g} {y + 8:g}V{y + 40:g}"/>', x, y + 40
            )


def _outline_vectors(
    canvas: _Canvas, subject: Subject, line: Sequence[Place | Gap], nbytes: int, place: tuple[float, float]
) -> None:
    """A rounded outline around what one vector access takes; vectors are counted from the lowest element."""
    y, width = place
    length = nbytes // subject.itemsize
    start = 0
    while start < len(line):
        first = line[start]
        stop = start + 1
        if isinstance(first, Place):
            vector = (first.offset - subject.first) // length
            while stop < len(line) and _vector_of(line[stop], subject, length) == vector:
                stop += 1
            held = [part for part in line[start:stop] if isinstance(part, Place) and part.sharers]
            if held:
                box = f'x="{_MARGIN + start * width + 2:g}" y="{y + 14:g}" width="{(stop - start) * width - 4:g}"'
                offset = subject.first + vector * length
                canvas.add(f'<rect class="sg-vector" data-offset="{offset}" {box} height="{_ROW - 4}" rx="6"/>', 0, 0)
        start = stop


def _vector_of(part: Place | Gap, subject: Subject, length: int) -> int | None:
    return (part.offset - subject.first) // length if isinstance(part, Place) else None


def _ruler_words(subject: Subject, vector_bytes: int) -> str:
    """What the rules and outlines mean."""
    words = f"; thick rules every {ALIGNMENT_BYTES} B" if subject.element is not None else ""
    return words + (f"; outlines are vectors of {vector_bytes} B" if vector_bytes > subject.itemsize else "")


def colour_of(subject: Subject, at: Coordinates) -> str:
    """The colour of an element: that of its channel."""
    axis = subject.coloured_axis
    return COLOURS[(0 if axis is None else at[axis]) % len(COLOURS)]


def _box(x: float, y: float, width: float, height: float, fill: str, *, touched: bool) -> str:
    opacity = "" if fill.startswith("url") else ' fill-opacity=".3"'
    strong = ' class="sg-touched"' if touched else ""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"{opacity}{strong}/>'


def _centred(words: str, x: float, y: float, style: str = "") -> str:
    named = f' class="{style}"' if style else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle"{named}>{escape(words)}</text>'


def _joined(at: Coordinates) -> str:
    return ",".join(map(str, at))
