"""Annotations of images: masks, boxes and points, moved with their images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.values.errors import LayoutError, StridedGpuError

from .placement import placed_boxes, placed_points

if TYPE_CHECKING:
    from .declaration import Declaration
    from .placement import Placement
    from .worker import Made, Worker

__all__ = ["moved_annotations"]

Values = Sequence[Any] | Mapping[int, Any]


def moved_annotations(
    step: Declaration, worker: Worker, made: Made, column_of: Callable[[str | int], Values]
) -> dict[str | int, StridedTensor | list[Any]]:
    """The declared columns of the result's rows: masks as one tensor or a list of them, boxes and points as arrays.

    `column_of` gives the values of a column by the numbers of the result's rows. Raises `LayoutError` for a value that
    does not fit its image, with its row.
    """
    moved: dict[str | int, StridedTensor | list[Any]] = {}
    if not step.annotations:
        return moved
    assert made.placements is not None, "a step with annotations moves windows"
    if step.mask is not None:
        moved[step.mask] = worker.masks(column_of(step.mask), made)
    moves: dict[str | int | None, Callable[[Placement, Any], Any]] = {
        step.boxes: partial(_boxes, step),
        step.points: placed_points,
    }
    for name, move in moves.items():
        if name is not None:
            values = column_of(name)
            rows = zip(made.rows, made.placements, strict=True)
            moved[name] = [_of_row(row, name, partial(move, placed, values[row])) for row, placed in rows]
    return moved


def _boxes(step: Declaration, placed: Placement, value: Any) -> Any:
    return placed_boxes(placed, value, step.box_format)


def _of_row(row: int, name: object, work: Callable[[], Any]) -> Any:
    """A row's value. Raises `LayoutError` that names the row."""
    try:
        return work()
    except StridedGpuError as problem:
        raise LayoutError(f"row {row} of column {name!r}: {problem}") from problem
