"""Reinterpret a layout for another item size (`ndarray.view(dtype)`)."""

from __future__ import annotations

from .errors import LayoutError
from .layout import Layout

__all__ = ["recounted"]


def recounted(layout: Layout, itemsize: int, wanted: int) -> Layout:
    """The layout over the same bytes with elements of `wanted` bytes; the size of the last axis changes."""
    if itemsize == wanted:
        return layout
    if not layout.sizes or (layout.strides[-1] != 1 and layout.sizes[-1] > 1 and layout.span):
        raise LayoutError(
            f"{layout} cannot be seen in elements of {wanted} bytes: its last axis is not contiguous. "
            "Give sizes and strides, or relayout first."
        )
    small, large = sorted((itemsize, wanted))
    factor = large // small
    if wanted < itemsize:
        strides = (*(stride * factor for stride in layout.strides[:-1]), 1)
        return Layout((*layout.sizes[:-1], layout.sizes[-1] * factor), strides, layout.offset * factor)
    # The stride of an axis of size 1 may be anything.
    steps = [stride for size, stride in zip(layout.sizes[:-1], layout.strides[:-1], strict=True) if size > 1]
    distances = [layout.offset, *steps] if layout.span else []
    if any(distance % factor for distance in (layout.sizes[-1], *distances)):
        raise LayoutError(
            f"{layout} cannot be seen in elements of {wanted} bytes: its last size, its offset and its other strides "
            f"must be multiples of {factor}."
        )
    strides = (*(stride // factor for stride in layout.strides[:-1]), 1)
    return Layout((*layout.sizes[:-1], layout.sizes[-1] // factor), strides, layout.offset // factor)
