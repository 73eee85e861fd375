"""The memory under a tensor as SVG: a strip of places with rulers, gaps and vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from .canvas import CHARACTER, MARGIN, ROW, WIDEST, Canvas, box, centred, colour_of, joined
from .cells import Gap, Labeller, Place, natural_run
from .characters import sharing
from .subject import Subject

__all__ = ["ALIGNMENT_BYTES", "draw_memory"]

ALIGNMENT_BYTES: Final = 16
"""Memory is ruled at the addresses where a 16-byte vector may start."""

_MOST_IN_LINE: Final = 40


def draw_memory(
    canvas: Canvas,
    subject: Subject,
    memory: Sequence[Place | Gap],
    labeller: Labeller,
    vector_bytes: int,
    touched: Callable[[int], bool],
) -> None:
    """Draw memory from left to right, in lines of whole rows if they fit, with rules and outlines."""
    longest = max(max(len(labeller.place(p)), len(str(p.offset))) for p in memory if isinstance(p, Place))
    width = max(ROW, longest * CHARACTER + 6)
    fitting = max(1, min(_MOST_IN_LINE, int((WIDEST - MARGIN) / width)))
    whole = all(isinstance(part, Place) for part in memory)
    run = natural_run(subject.layout, fitting) if whole and len(memory) > fitting else fitting
    y = canvas.height + 36
    canvas.words(MARGIN, y - 8, "memory, offsets in elements" + _ruler_words(subject, vector_bytes))
    for start in range(0, len(memory), run):
        line = memory[start : start + run]
        for number, part in enumerate(line):
            x = MARGIN + number * width
            if isinstance(part, Gap):
                hint = f"<title>{part.count} elements from offset {part.offset} are left out</title>"
                canvas.add(
                    f'<g class="sg-gap" data-offset="{part.offset}" data-count="{part.count}">{hint}'
                    f"{centred('…', x + width / 2, y + 28)}</g>",
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
    """One place of memory: offset above, label in a box, and below the number of elements that share it."""
    x, y, width = place
    padding = part.coordinates is None
    if part.coordinates is None:
        kind, fill, hint = "sg-padding", "url(#sg-hatch)", f"offset {part.offset}: padding"
        facts = ""
    else:
        kind, fill = "sg-place", colour_of(subject, part.coordinates)
        facts = f' data-at="{joined(part.coordinates)}" data-sharers="{part.sharers}"'
        hint = f"offset {part.offset}: ({joined(part.coordinates)})"
    below = "" if part.sharers < 2 else centred(sharing(part), x + width / 2, y + 47, "sg-small")
    return (
        f'<g class="{kind}" data-offset="{part.offset}"{facts}><title>{hint}</title>'
        f"{centred(str(part.offset), x + width / 2, y + 9, 'sg-small')}"
        f"{box(x, y + 12, width, ROW, fill, touched=not padding and touched(part.offset))}"
        f"{'' if padding else centred(labeller.place(part), x + width / 2, y + 28)}{below}</g>"
    )


def _rule(canvas: Canvas, subject: Subject, line: Sequence[Place | Gap], y: float, width: float) -> None:
    """Draw a thick rule before each place at a multiple of 16 bytes from the start of the buffer."""
    if subject.element is None:
        return
    for number, part in enumerate(line):
        if isinstance(part, Place) and part.offset * subject.itemsize % ALIGNMENT_BYTES == 0:
            x = MARGIN + number * width
            canvas.add(
                f'<path class="sg-ruler" data-offset="{part.offset}" d="M{x:g} {y + 8:g}V{y + 40:g}"/>', x, y + 40
            )


def _outline_vectors(
    canvas: Canvas, subject: Subject, line: Sequence[Place | Gap], nbytes: int, place: tuple[float, float]
) -> None:
    """Draw a rounded outline around each vector access; vectors are counted from the lowest element."""
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
                outline = f'x="{MARGIN + start * width + 2:g}" y="{y + 14:g}" width="{(stop - start) * width - 4:g}"'
                offset = subject.first + vector * length
                canvas.add(
                    f'<rect class="sg-vector" data-offset="{offset}" {outline} height="{ROW - 4}" rx="6"/>', 0, 0
                )
        start = stop


def _vector_of(part: Place | Gap, subject: Subject, length: int) -> int | None:
    return (part.offset - subject.first) // length if isinstance(part, Place) else None


def _ruler_words(subject: Subject, vector_bytes: int) -> str:
    """The legend of rules and outlines."""
    words = f"; thick rules every {ALIGNMENT_BYTES} B" if subject.element is not None else ""
    return words + (f"; outlines are vectors of {vector_bytes} B" if vector_bytes > subject.itemsize else "")
