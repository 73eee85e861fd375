"""Pictures as SVG: a tensor as planes of cells with its memory below, and a frame's planes to scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from html import escape
from itertools import groupby
from typing import Final

from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.pixel_formats import PixelFormat

from .cells import Coordinates, Gap, LabelKind, Place, joined, natural_run
from .subject import COLOURS, PlanMap, Side, plan_of, relayout_of, sides_of, tile_words

_ALIGNMENT_BYTES: Final = 16
"""Memory is ruled at the addresses where a 16-byte vector may start."""

_ROW: Final = 24
_CHARACTER: Final = 7.2
_MARGIN: Final = 12
_WIDEST: Final = 960
"""In pixels: the height of a row of cells, the width of a character, the margin, and the width of a full line."""

_MOST_IN_LINE: Final = 40

_FRAME_WIDTH: Final = 480
"""Pixels of a frame's longest row, padding included."""

_LEAST: Final = 2
"""Pixels of a frame's narrowest padding and of its lowest plane, so that both stay visible."""

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

_HATCH: Final = (
    '<pattern id="sg-hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M0 0V6" stroke="currentColor" stroke-opacity=".5"/></pattern>'
)


@dataclass
class _Canvas:
    """The SVG elements so far, and their extent.

    With `is_explored` they are grids, rows and cells to a page's script and to assistive software, and each grid is one
    stop of the Tab key.
    """

    parts: list[str] = field(default_factory=list)
    width: float = 0
    height: float = 0
    is_explored: bool = False
    widest: float = _WIDEST
    _tab: int = 0

    def add(self, markup: str, right: float, bottom: float) -> None:
        """Add an element that reaches to `right` and `bottom`."""
        self.parts.append(markup)
        self.width, self.height = max(self.width, right), max(self.height, bottom)

    def words(self, x: float, y: float, words: str, style: str = "") -> None:
        """Add a line of text with its baseline at `y`."""
        named = f' class="{style}"' if style else ""
        self.add(f'<text x="{x:g}" y="{y:g}"{named}>{escape(words)}</text>', x + len(words) * _CHARACTER, y + 4)

    @contextmanager
    def part(self, role: str, name: str = "") -> Iterator[None]:
        """Put what is added meanwhile in a grid of this name, or in a row of one."""
        if self.is_explored:
            self.parts.append(f'<g role="{role}" aria-label="{escape(name)}">' if name else f'<g role="{role}">')
            self._tab = 0 if name else self._tab
        yield
        if self.is_explored:
            self.parts.append("</g>")

    def stop(self, source: int | None) -> str:
        """The attributes of a cell of a grid; `source` is the offset in the source that its element comes from."""
        if not self.is_explored:
            return ""
        tab, self._tab = self._tab, -1
        return f' role="gridcell" tabindex="{tab}"' + ("" if source is None else f' data-from="{source}"')

    def document(self, name: str) -> str:
        """The canvas as one self-contained SVG element; `name` is its accessible name."""
        width, height = self.width + _MARGIN, self.height + _MARGIN
        role = "group" if self.is_explored else "img"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="sg-svg" role="{role}" aria-label="{escape(name)}" '
            f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}">'
            f"<title>{escape(name)}</title><style>{_STYLE}</style>"
            f"<defs>{_HATCH}</defs>{''.join(self.parts)}</svg>"
        )


def _box(x: float, y: float, width: float, height: float, fill: str, *, touched: bool = False) -> str:
    """A cell; cells that a warp or tile touches have a strong border."""
    opacity = "" if fill.startswith("url") else ' fill-opacity=".3"'
    strong = ' class="sg-touched"' if touched else ""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"{opacity}{strong}/>'


def _centred(words: str, x: float, y: float, style: str = "") -> str:
    named = f' class="{style}"' if style else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle"{named}>{escape(words)}</text>'


def svg(
    thing: object,
    *,
    dims: str | None = None,
    dtype: object = None,
    buffer_elements: int | None = None,
    labels: LabelKind | None = None,
    plan: object = None,
) -> str:
    """A layout, tensor, descriptor or plan as one self-contained SVG element, for light and dark pages.

    Cells are coloured by channel (without channels, by the outermost axis). Padding is hatched. Memory is ruled at
    every 16 bytes if the element type is known. For a plan, as `thing` or beside a tensor that is its source or target,
    vector accesses are outlined, and cells that one warp or tile touches have a strong border. The other arguments are
    those of `text`.

    >>> from stridedgpu.values.layout import Layout
    >>> svg(Layout((2, 3))).count('class="sg-cell"')
    6
    """
    canvas = _Canvas()
    sides, shown = sides_of(thing, labels, dims, dtype, buffer_elements)
    if shown is not None:
        for side in sides:
            _draw(canvas, side)
        canvas.words(_MARGIN, canvas.height + 20, tile_words(shown))
        return canvas.document(f"plan {shown.kernel}")
    [side], subject = sides, sides[0].subject
    _draw(canvas, side if plan_of(plan) is None else _beside_plan(side, plan))
    sizes, strides = subject.layout.sizes, subject.layout.strides
    return canvas.document(f"{subject.named(sizes)}, strides {subject.named(strides)}")


def explored(side: Side) -> str:
    """The planes and the memory of a side, for a page whose script answers the pointer and the keyboard."""
    canvas = _Canvas(is_explored=True, widest=_WIDEST / 2)  # two sides beside each other
    _draw_planes(canvas, side, _MARGIN)
    with canvas.part("grid", "memory"), canvas.part("row"):
        _draw_memory(canvas, side)
    return canvas.document("elements and memory")


def _beside_plan(side: Side, plan: object) -> Side:
    """A tensor's side with the accesses of a plan of which it is one side. Raises `LayoutError` if it is neither."""
    shown, subject = plan_of(plan), side.subject
    assert shown is not None, "the caller looked"
    lowest, tile, problem = subject.layout.first_offset, PlanMap(shown), relayout_of(shown)
    own = (subject.layout.shifted(-lowest), subject.element)
    if own == (problem.source.layout, problem.source.element):
        return replace(side, vector_bytes=shown.load.nbytes, touched=lambda offset: offset - lowest in tile.read)
    if own == (problem.target.layout, problem.target.element):
        return replace(side, vector_bytes=shown.store.nbytes, touched=lambda offset: tile.is_written(offset - lowest))
    raise LayoutError(f"{subject.layout} of {subject.element} is neither the source nor the target of {shown.kernel}.")


def _draw(canvas: _Canvas, side: Side) -> None:
    """Draw one tensor at the bottom of the canvas: facts, planes, memory."""
    subject, layout = side.subject, side.subject.layout
    top = canvas.height + _MARGIN + 8
    if side.heading:
        canvas.words(_MARGIN, top, side.heading, "sg-title")
        top += 18
    facts = f"sizes {subject.named(layout.sizes)}   strides {subject.named(layout.strides)}"
    canvas.words(_MARGIN, top, facts, "sg-title")
    canvas.words(_MARGIN, top + 17, subject.kind)
    if layout.element_count:
        _draw_planes(canvas, side, top + 32)
        _draw_memory(canvas, side)


def _draw_planes(canvas: _Canvas, side: Side, top: float) -> None:
    """Draw the planes side by side; a new band begins if an outer index changes or the line is full."""
    subject, grid = side.subject, side.grid
    longest = max(len(side.labeller.element(at, subject.layout.offset_of(at))) for at in grid.elements())
    cell = max(_ROW, longest * _CHARACTER + 8)
    titled = any(grid.planes)
    title_width = titled * _CHARACTER * len(subject.plane_title((0,) * (grid.ndim - 2)))
    plane_width, plane_height = max(len(grid.columns) * cell, title_width), len(grid.rows) * _ROW + titled * 18
    x, y, before = float(_MARGIN), top, grid.planes[0]
    for plane in grid.planes:
        stacked = plane is not None and before is not None and plane[:-1] != before[:-1]
        needed = 24 if plane is None else plane_width
        if x > _MARGIN and (stacked or x + needed > canvas.widest):
            x, y = float(_MARGIN), y + plane_height + 14
        if plane is None:
            canvas.words(x, y + plane_height / 2, "…")
            x += 2 * _CHARACTER + 8
            continue
        before = plane
        if titled:
            canvas.words(x, y + 12, subject.plane_title(plane))
        _draw_plane(canvas, side, plane, (x, y + titled * 18, cell))
        x += plane_width + 16


def _draw_plane(canvas: _Canvas, side: Side, plane: Coordinates, place: tuple[float, float, float]) -> None:
    """Draw the cells of one plane; `place` is left, top and the width of a cell."""
    left, top, width = place
    with canvas.part("grid", f"elements {side.subject.plane_title(plane) if plane else ''}"):
        for down, row in enumerate(side.grid.table(plane)):
            with canvas.part("row"):
                _draw_row(canvas, side, row or [None], (left, top + down * _ROW, width))


def _draw_row(
    canvas: _Canvas, side: Side, row: Sequence[Coordinates | None], place: tuple[float, float, float]
) -> None:
    """Draw the cells of one row, or an ellipsis in place of rows."""
    left, y, width = place
    for across, at in enumerate(row):
        x = left + across * width
        if at is None:
            canvas.words(x + width / 2 - 4, y + 16, "…" if len(row) > 1 else "⋮")
            continue
        offset = side.subject.layout.offset_of(at)
        facts = f'class="sg-cell" data-at="{joined(at)}" data-offset="{offset}"{canvas.stop(side.source_of(offset))}'
        hint = f"({joined(at)}) lies at offset {offset}"
        cell = _box(x, y, width, _ROW, side.subject.colour(at), touched=side.touched(offset))
        label = _centred(side.labeller.element(at, offset), x + width / 2, y + 16)
        canvas.add(f"<g {facts}><title>{hint}</title>{cell}{label}</g>", x + width, y + _ROW)


def _draw_memory(canvas: _Canvas, side: Side) -> None:
    """Draw memory from left to right, in lines of whole rows if they fit, with rules and outlines."""
    subject, memory = side.subject, side.memory
    longest = max(max(len(side.labeller.place(p)), len(str(p.offset))) for p in memory if isinstance(p, Place))
    width = max(_ROW, longest * _CHARACTER + 6)
    fitting = max(1, min(_MOST_IN_LINE, int((canvas.widest - _MARGIN) / width)))
    whole = all(isinstance(part, Place) for part in memory)
    run = natural_run(subject.layout, fitting) if whole and len(memory) > fitting else fitting
    is_ruled, has_vectors = subject.element is not None, side.vector_bytes > subject.itemsize
    legend = f"; thick rules every {_ALIGNMENT_BYTES} B" * is_ruled
    legend += f"; outlines are vectors of {side.vector_bytes} B" * has_vectors
    y = canvas.height + 36
    canvas.words(_MARGIN, y - 8, "memory, offsets in elements" + legend)
    for start in range(0, len(memory), run):
        line = memory[start : start + run]
        for number, part in enumerate(line):
            x = _MARGIN + number * width
            if isinstance(part, Gap):
                hint = f"<title>{part.count} elements from offset {part.offset} are left out</title>"
                facts = f'class="sg-gap" data-offset="{part.offset}" data-count="{part.count}"'
                canvas.add(f"<g {facts}>{hint}{_centred('…', x + width / 2, y + 28)}</g>", x + width, y + 40)
            else:
                stop = canvas.stop(side.source_of(part.offset))
                canvas.add(_place_markup(side, part, (x, y, width), stop), x + width, y + 50)
        for number, part in enumerate(line):
            if is_ruled and isinstance(part, Place) and part.offset * subject.itemsize % _ALIGNMENT_BYTES == 0:
                x = _MARGIN + number * width
                rule = f'<path class="sg-ruler" data-offset="{part.offset}" d="M{x:g} {y + 8:g}V{y + 40:g}"/>'
                canvas.add(rule, x, y + 40)
        if has_vectors:
            _outline_vectors(canvas, side, line, (y, width))
        y = canvas.height + 6


def _place_markup(side: Side, part: Place, place: tuple[float, float, float], stop: str) -> str:
    """One place of memory: offset above, label in a box, and below the number of elements that share it."""
    x, y, width = place
    kind, facts, hint = "sg-padding", "", f"offset {part.offset}: padding"
    box, label = _box(x, y + 12, width, _ROW, "url(#sg-hatch)"), ""
    if part.coordinates is not None:
        at = joined(part.coordinates)
        kind, facts = "sg-place", f' data-at="{at}" data-sharers="{part.sharers}"'
        hint = f"offset {part.offset}: ({at})"
        colour = side.subject.colour(part.coordinates)
        box = _box(x, y + 12, width, _ROW, colour, touched=side.touched(part.offset))
        label = _centred(side.labeller.place(part), x + width / 2, y + 28)
    below = _centred(part.sharing, x + width / 2, y + 47, "sg-small") if part.sharing else ""
    above = _centred(str(part.offset), x + width / 2, y + 9, "sg-small")
    facts = f'class="{kind}" data-offset="{part.offset}"{facts}{stop}'
    return f"<g {facts}><title>{hint}</title>{above}{box}{label}{below}</g>"


def _outline_vectors(canvas: _Canvas, side: Side, line: Sequence[Place | Gap], place: tuple[float, float]) -> None:
    """Draw a rounded outline around each vector access; vectors are counted from the lowest element."""
    y, width = place
    first, length = side.subject.first, side.vector_bytes // side.subject.itemsize

    def vector_of(entry: tuple[int, Place | Gap]) -> int | None:
        return (entry[1].offset - first) // length if isinstance(entry[1], Place) else None

    for vector, entries in groupby(enumerate(line), vector_of):
        (start, _), *rest = parts = list(entries)
        if vector is not None and any(isinstance(part, Place) and part.sharers for _, part in parts):
            x, extent = _MARGIN + start * width + 2, (1 + len(rest)) * width - 4
            outline = f'x="{x:g}" y="{y + 14:g}" width="{extent:g}" height="{_ROW - 4}" rx="6"'
            canvas.add(f'<rect class="sg-vector" data-offset="{first + vector * length}" {outline}/>', 0, 0)


def frame_svg(frame: FrameOperand, title: str) -> str:
    """A frame's planes below each other, all at one scale, with their bytes in words."""
    canvas = _Canvas()
    canvas.words(_MARGIN, _MARGIN + _ROW / 2, title, "sg-title")
    scale = _FRAME_WIDTH / max(max(_pitch(plane), _row(plane)) for plane in frame.planes)
    top = _MARGIN + 1.5 * _ROW
    for number, (plane, words) in enumerate(zip(frame.planes, plane_lines(frame), strict=True)):
        canvas.words(_MARGIN, top + _ROW / 2, words)
        top += _ROW * 0.75
        row, gap = _row(plane) * scale, (_pitch(plane) - _row(plane)) * scale
        height = max(plane.layout.sizes[0] * scale, _LEAST)
        canvas.add(_box(_MARGIN, top, row, height, COLOURS[number]), _MARGIN + row, top + height)
        if height >= _ROW:
            canvas.add(_centred(_order(frame.samples, number), _MARGIN + row / 2, top + height / 2 + 4), 0, 0)
        if gap > 0:
            shown = max(gap, _LEAST)
            padding = _box(_MARGIN + row, top, shown, height, "url(#sg-hatch)")
            canvas.add(padding, _MARGIN + row + shown, top + height)
        top += height + _ROW / 2
    return canvas.document(title)


def plane_lines(frame: FrameOperand) -> list[str]:
    """Each plane in a line: its samples, sizes, pitch and padding in bytes, and how far behind the first it begins."""
    lines = []
    for number, plane in enumerate(frame.planes):
        row, pitch = _row(plane), _pitch(plane)
        padding = f", {pitch - row} of them padding" if pitch > row else ""
        sizes = " x ".join(map(str, plane.layout.sizes))
        lines.append(
            f"plane {number}: {_order(frame.samples, number)}, {sizes} {plane.element}, rows {pitch} B apart{padding}, "
            f"from byte {plane.address - frame.planes[0].address}"
        )
    return lines


def _order(samples: PixelFormat, number: int) -> str:
    """The samples of a plane in the order of memory: "Y", "U V", "Y U Y V", "B G R x"."""
    letters = {"yuv": "YUV", "rgb": "RGB", "gray": "Y"}[samples.kind]
    places = ["x"] * samples.planes[number].samples
    for letter, channel in zip(letters, samples.channels, strict=True):
        if channel.plane == number:
            for place in range(channel.first, len(places), channel.step):
                places[place] = letter
    return " ".join(places)


def _row(plane: Operand) -> int:
    return plane.layout.sliced(0).span * plane.element.itemsize


def _pitch(plane: Operand) -> int:
    return abs(plane.layout.strides[0]) * plane.element.itemsize
