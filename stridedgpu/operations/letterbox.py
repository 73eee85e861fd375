"""Letterbox placement: a whole, undistorted image inside a frame of another shape, with borders beside it.

Source: Ultralytics' `LetterBox` (ultralytics/data/augment.py), whose rounding is reproduced.
"""

from __future__ import annotations

from stridedgpu.values.errors import LayoutError

__all__ = ["placement"]


def placement(source: tuple[int, int], frame: tuple[int, int], *, scale_up: bool) -> tuple[int, int, int, int]:
    """Top, left, height and width of an image of `source` (height, width) inside `frame`, in pixels.

    The scale is `min(frame / source)` over both axes, at most 1 without `scale_up`. Sizes are rounded half to even. The
    larger half of an odd border is below or to the right.

    >>> placement((1080, 1920), (640, 640), scale_up=True)
    (140, 0, 360, 640)
    """
    (height, width), (rows, columns) = source, frame
    if not height or not width:
        raise LayoutError(f"a picture has {height} x {width} pixels; there is nothing to resize.")
    ratio = min(rows / height, columns / width)
    if not scale_up:
        ratio = min(ratio, 1.0)
    inner = max(round(height * ratio), 1), max(round(width * ratio), 1)
    top, left = ((outer - size) / 2 for outer, size in zip(frame, inner, strict=True))
    return max(round(top - 0.1), 0), max(round(left - 0.1), 0), *inner
