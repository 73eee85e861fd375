"""`Operand`: a buffer, a layout in it and an element type: what operations work on."""

from __future__ import annotations

from dataclasses import dataclass

from .buffer import Buffer, alignment_of
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
    Raises `BindingError` when the layout leaves the buffer.
    """

    buffer: Buffer
    layout: Layout
    element: ElementType
    owns_padding: bool = False

    def __post_init__(self) -> None:
        """Refuse a layout that reaches outside the buffer."""
        if self.layout.span == 0:
            return
        first = self.start_bytes
        end = first + self.layout.span * self.element.itemsize
        if first < 0 or end > self.buffer.nbytes:
            raise BindingError(
                f"{self.layout} of {self.element} reaches from byte {first} to {end}, "
                f"outside its buffer of {self.buffer.nbytes} bytes."
            )

    @property
    def start_bytes(self) -> int:
        """Where the lowest element lies in the buffer, in bytes."""
        return self.layout.first_offset * self.element.itemsize

    @property
    def address(self) -> int:
        """The address of the element at coordinates 0."""
        return self.buffer.address + self.layout.offset * self.element.itemsize

    @property
    def alignment(self) -> int:
        """The bytes guaranteed to divide that address: the buffer's guarantee, less what the offset takes away."""
        return min(
            self.buffer.alignment, alignment_of(self.layout.offset * self.element.itemsize or self.buffer.alignment)
        )

    @property
    def side(self) -> Side:
        """What a planner needs to know."""
        return Side.of(
            self.layout,
            self.element,
            base_alignment=self.buffer.alignment,
            buffer_bytes=self.buffer.nbytes,
            owns_padding=self.owns_padding,
        )


def share_memory(first: Operand, second: Operand) -> bool:
    """Whether any byte belongs to an element of both: exact, so that interleaved views are told apart."""
    if first.buffer.device != second.buffer.device or 0 in (first.layout.span, second.layout.span):
        return False
    start = first.buffer.address + first.start_bytes
    other = second.buffer.address + second.start_bytes
    if start + first.layout.span * first.element.itemsize <= other:
        return False
    if other + second.layout.span * second.element.itemsize <= start:
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
