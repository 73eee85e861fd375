"""Views of a frame: the fields of an interlaced one, rotated and mirrored ones. Planes are shared, with other strides.

A view of a frame has samples where the format has them. Chroma that pixels share must be shared by the same pixels
afterwards, which decides the views that a format has.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, Final

from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.values.errors import LayoutError

_QUARTER: Final = 90

_AHEAD: Final = slice(None)
_BACK: Final = slice(None, None, -1)


def fields_of(frame: FrameOperand) -> tuple[FrameOperand, FrameOperand]:
    """The top field, of rows 0, 2, 4 and so on, and the bottom field. Chroma rows alternate as rows of luma do.

    Raises `LayoutError` for a height that gives the fields no whole rows of chroma.
    """
    height, width = frame.sizes
    multiple = 2 * frame.samples.chroma_step[0]
    if height % multiple:
        raise LayoutError(
            f"This frame of {frame.samples.name} has {height} rows; one of two fields has a multiple of {multiple}."
        )
    top, bottom = (
        replace(
            frame,
            sizes=(height // 2, width),
            planes=tuple(plane.with_layout(plane.layout.sliced(slice(first, None, 2))) for plane in frame.planes),
        )
        for first in (0, 1)
    )
    return top, bottom


def rotated(frame: FrameOperand, degrees: Any) -> FrameOperand:
    """The frame rotated counter-clockwise by a multiple of 90 degrees.

    Raises `LayoutError` for other angles, and for frames whose chroma would lie otherwise.
    """
    if not isinstance(degrees, Real) or degrees % _QUARTER != 0:  # FFmpeg has angles as floating point numbers
        raise LayoutError(f"degrees={degrees!r} must be a multiple of {_QUARTER}, counter-clockwise.")
    quarters = round(float(degrees)) // _QUARTER % 4
    swaps, rows, columns = _ROTATIONS[quarters]
    return _turned(frame, swaps=swaps, rows=rows, columns=columns) if quarters else frame


_ROTATIONS: Final = ((False, False, False), (True, True, False), (False, True, True), (True, False, True))
"""For each number of quarters: whether height and width are swapped, and whether rows, columns then run backwards."""


def mirrored(frame: FrameOperand) -> FrameOperand:
    """The frame with its columns from right to left. Raises `LayoutError` as `rotated` does, for chroma."""
    return _turned(frame, swaps=False, rows=False, columns=True)


def _turned(frame: FrameOperand, *, swaps: bool, rows: bool, columns: bool) -> FrameOperand:
    """The frame with height and width swapped, and then its rows or columns in the opposite order."""
    _check_chroma(frame, swaps=swaps, order=(rows, columns))
    planes = []
    for plane in frame.planes:
        layout = plane.layout
        if swaps:
            layout = layout.permuted((1, 0, *range(2, layout.ndim)))
        planes.append(plane.with_layout(layout.sliced((_BACK if rows else _AHEAD, _BACK if columns else _AHEAD))))
    return replace(frame, sizes=frame.sizes[::-1] if swaps else frame.sizes, planes=tuple(planes))


def _check_chroma(frame: FrameOperand, *, swaps: bool, order: tuple[bool, bool]) -> None:
    """Raise `LayoutError` unless each sample of chroma is that of the same pixels in the turned frame."""
    samples, sizes = frame.samples, frame.sizes[::-1] if swaps else frame.sizes
    down, right = samples.chroma_step
    reason = None
    if swaps and down != right:
        reason = f"chroma is shared by {right} columns and {down} rows, and by as many rows and columns afterwards"
    elif samples.channels[0].step < samples.planes[0].samples:
        reason = "a place of its plane has the luma of several pixels, from left to right"
    elif (down, right) != (1, 1) and frame.chroma != "repeated":
        reason = f"chroma={frame.chroma!r} is for samples that lie left in the middle"
    elif any(turns and size % multiple for turns, size, multiple in zip(order, sizes, (down, right), strict=True)):
        reason = f"the last chroma of its {sizes[0]} x {sizes[1]} pixels is that of a single row or column"
    if reason is not None:
        raise LayoutError(
            f"A frame of {samples.name} cannot be turned as it is: {reason}. Turn its pixels: sg.relayout(frame) makes "
            "a tensor of them."
        )
