"""`Operand`: a buffer, a layout in it and an element type: what operations work on."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

from .buffer import Buffer
from .dtypes import ElementType
from .errors import BindingError
from .layout import Layout
from .overlap import Term, addresses_intersect
from .planning.problem import Side

__all__ = ["Operand", "share_memory"]


@dataclass(frozen=True, slots=True)
class Operand:
    """Elements in a buffer.

    `owns_padding` says that no element outside this layout lives in the buffer, so that kernels may write the gaps.
    `start_bytes` is where the lowest element lies in the buffer, `span_bytes` how far the highest reaches from there.

    Raises `BindingError` when the layout leaves the buffer.
    """

    buffer: Buffer
    layout: Layout
    element: ElementType
    owns_padding: bool = False
    start_bytes: int = field(init=False, compare=False)
    span_bytes: int = field(init=False, compare=False)
    _side: Side | None = field(init=False, compare=False, repr=False, default=None)

    def __post_init__(self) -> None:
        """Refuse a layout that reaches outside the buffer."""
        layout, itemsize = self.layout, self.element.itemsize
        span = layout.span
        start = layout.first_offset * itemsize
        object.__setattr__(self, "start_bytes", start)
        object.__setattr__(self, "span_bytes", span * itemsize)
        if span and (start < 0 or start + span * itemsize > self.buffer.nbytes):
            raise BindingError(
                f"{layout} of {self.element} reaches from byte {start} to {start + span * itemsize}, "
                f"outside its buffer of {self.buffer.nbytes} bytes."
            )

    @property
    def address(self) -> int:
        """The address of the element at coordinates 0."""
        return self.buffer.address + self.layout.offset * self.element.itemsize

    @property
    def alignment(self) -> int:
        """The bytes guaranteed to divide that address: the buffer's guarantee, less what the offset takes away."""
        return gcd(self.buffer.alignment, self.layout.offset * self.element.itemsize)

    @property
    def side(self) -> Side:
        """What a planner needs to know, worked out once."""
        if self._side is None:
            side = Side.of(
                self.layout,
                self.element,
                base_alignment=self.buffer.alignment,
                buffer_bytes=self.buffer.nbytes,
                owns_padding=self.owns_padding,
            )
            object.__setattr__(self, "_side", side)
            return side
        return self._side


def share_memory(first: Operand, second: Operand) -> bool:
    """Whether any byte belongs to an element of both: exact, so that interleaved views are told apart."""
    if first.buffer.device != second.buffer.device or 0 in (first.span_bytes, second.span_bytes):
        return False
    start = first.buffer.address + first.start_bytes
    other = second.buffer.address + second.start_bytes
    if start + first.span_bytes <= other or other + second.span_bytes <= start:
        return False
    return addresses_intersect(_byte_terms(first), _byte_terms(second), other - start)


def _byte_terms(operand: Operand) -> list[Term]:
    """The byte addresses of an operand, from its lowest on, as sums of steps."""
    itemsize = operand.element.itemsize
    layout = operand.layout
    steps = [
        (abs(stride) * itemsize, size - 1) for size, stride in zip(layout.sizes, layout.strides, strict=True) if stride
    ]
    return [*steps, (1, itemsize - 1)]
