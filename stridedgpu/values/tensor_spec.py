"""`TensorSpec`: everything a planner knows about one tensor, without its memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd
from typing import Final

from .dtypes import ElementType
from .layout import Layout

WIDEST_ACCESS: Final = 32
"""Bytes of the widest load or store of any device: alignment and slack beyond this make no difference."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor as a planner sees it: layout, element type, alignment, slack and owned padding.

    `layout` has its lowest element at offset 0, so that equal windows of one tensor share a plan. `alignment` is the
    power of two, in bytes, known to divide the address of that element. `slack_bytes` may be read after the last
    element. Both count up to the widest access. With `owns_padding`, every byte of the buffer that is no element of
    this tensor may be overwritten, slack included.
    """

    layout: Layout
    element: ElementType
    alignment: int
    slack_bytes: int = 0
    owns_padding: bool = False
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hash the integers, once: every call looks its launch up by two of these. Names hash otherwise elsewhere."""
        layout, itemsize = self.layout, self.element.itemsize
        room = self.alignment, self.slack_bytes, self.owns_padding
        object.__setattr__(self, "_hash", hash((layout.sizes, layout.strides, layout.offset, itemsize, *room)))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(
        cls,
        layout: Layout,
        element: ElementType,
        *,
        base_alignment: int,
        buffer_bytes: int | None = None,
        owns_padding: bool = False,
    ) -> TensorSpec:
        """The spec of a tensor in a buffer of `buffer_bytes` (None: no more than the tensor needs).

        `base_alignment` divides the address of the buffer's first byte. `layout` counts from there.
        """
        below, span = layout.extent
        lowest = layout.offset + below
        end = (lowest + span) * element.itemsize
        slack = 0 if buffer_bytes is None else max(0, min(buffer_bytes - end, WIDEST_ACCESS))
        alignment = gcd(base_alignment, lowest * element.itemsize, WIDEST_ACCESS)
        return _spec(layout.sizes, layout.strides, -below, element, alignment, slack, owns_padding)


@lru_cache(maxsize=4096)
def _spec(
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    element: ElementType,
    alignment: int,
    slack: int,
    owns_padding: bool,
) -> TensorSpec:
    """The spec of a layout whose lowest element is at offset 0: one value for all tensors like it."""
    layout = Layout.trusted(sizes, strides, offset)
    has_padding = slack > 0 or layout.span > layout.element_count
    return TensorSpec(layout, element, alignment, slack, owns_padding and has_padding)
