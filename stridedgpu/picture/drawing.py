"""Pictures as SVG: the logical tensor as planes of cells, and its memory below."""

from __future__ import annotations

from collections.abc import Callable

from stridedgpu.values.errors import LayoutError

from .canvas import CHARACTER, MARGIN, ROW, WIDEST, Canvas, box, centred, colour_of, joined
from .cells import Coordinates, Grid, LabelKind, Labeller, Letters, grid_of, memory_of
from .characters import plane_title
from .footprint import PlanMap, footprint_of
from .memory_drawing import draw_memory
from .subject import Subject, plan_of, plan_subjects, subject_of

__all__ = ["svg"]


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
    canvas = Canvas()
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
        carried = moved.letters(source, labels)
        _draw(canvas, target, "target", labels, shown.store.nbytes, moved.is_written, carried)
        canvas.words(MARGIN, canvas.height + 20, footprint_of(shown).words)
    return canvas.document(name)


def _nothing(_offset: int) -> bool:
    return False


def _side_of(subject: Subject, plan: object) -> tuple[int, Callable[[int], bool]]:
    """The vector bytes and the touched offsets of the side of a plan that `subject` shows.

    Raises `LayoutError` if it is neither side.
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
    canvas: Canvas,
    subject: Subject,
    heading: str,
    labels: LabelKind | None,
    vector_bytes: int,
    touched: Callable[[int], bool],
    carried: Letters | None = None,
) -> None:
    """Draw one tensor at the bottom of the canvas: facts, planes, memory."""
    layout = subject.layout
    top = canvas.height + MARGIN + 8
    if heading:
        canvas.words(MARGIN, top, heading, "sg-title")
        top += 18
    canvas.words(
        MARGIN, top, f"sizes {subject.named(layout.sizes)}   strides {subject.named(layout.strides)}", "sg-title"
    )
    canvas.words(MARGIN, top + 17, subject.kind)
    if not layout.element_count:
        return
    grid = grid_of(layout)
    labeller = Labeller(layout, grid, labels, carried)
    _draw_planes(canvas, subject, grid, labeller, touched, top + 32)
    draw_memory(canvas, subject, memory_of(subject, grid), labeller, vector_bytes, touched)


def _draw_planes(
    canvas: Canvas, subject: Subject, grid: Grid, labeller: Labeller, touched: Callable[[int], bool], top: float
) -> None:
    """Draw the planes side by side; a new band begins if an outer index changes or the line is full."""
    layout = subject.layout
    longest = max(len(labeller.element(at, layout.offset_of(at))) for at in grid.elements())
    cell = max(ROW, longest * CHARACTER + 8)
    titled = any(grid.planes)
    plane_width = max(len(grid.columns) * cell, titled * CHARACTER * len(plane_title(subject, (0,) * (grid.ndim - 2))))
    plane_height = len(grid.rows) * ROW + titled * 18
    x, y, before = float(MARGIN), top, grid.planes[0]
    for plane in grid.planes:
        stacked = plane is not None and before is not None and plane[:-1] != before[:-1]
        needed = 24 if plane is None else plane_width
        if x > MARGIN and (stacked or x + needed > WIDEST):
            x, y = float(MARGIN), y + plane_height + 14
        if plane is None:
            canvas.words(x, y + plane_height / 2, "…")
            x += 2 * CHARACTER + 8
            continue
        before = plane
        if titled:
            canvas.words(x, y + 12, plane_title(subject, plane))
        _draw_plane(canvas, subject, grid, plane, labeller, touched, (x, y + titled * 18, cell))
        x += plane_width + 16


def _draw_plane(
    canvas: Canvas,
    subject: Subject,
    grid: Grid,
    plane: Coordinates,
    labeller: Labeller,
    touched: Callable[[int], bool],
    place: tuple[float, float, float],
) -> None:
    """Draw the cells of one plane; `place` is left, top and the width of a cell."""
    left, top, width = place
    for down, row in enumerate(grid.rows):
        y = top + down * ROW
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
            facts = f'class="sg-cell" data-at="{joined(at)}" data-offset="{offset}"'
            hint = f"({joined(at)}) lies at offset {offset}"
            cell = box(x, y, width, ROW, colour_of(subject, at), touched=touched(offset))
            label = centred(labeller.element(at, offset), x + width / 2, y + 16)
            canvas.add(f"<g {facts}><title>{hint}</title>{cell}{label}</g>", x + width, y + ROW)
