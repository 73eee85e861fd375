"""`Operand`: a buffer, a layout in it and an element type: what operations work on."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import Self, cast

from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError
from stridedgpu.values.layout import Layout
from stridedgpu.values.overlap import Term, addresses_intersect
from stridedgpu.values.tensor_spec import TensorSpec

from .buffer import Buffer

__all__ = ["Operand", "share_memory"]


@dataclass(frozen=True, slots=True, init=False)
class Operand:
    """Elements in a buffer.

    `owns_padding` says that no element outside this layout lives in the buffer, so that kernels may write the gaps.
    `start_bytes` is where the lowest element lies in the buffer, and `reach` the addresses of its first byte and of the
    byte behind the highest element. `fitted` is what it was last found to fit: neither of the two can change.

    Raises `BindingError` when the layout leaves the buffer.
    """

    buffer: Buffer
    layout: Layout
    element: ElementType
    owns_padding: bool = False
    start_bytes: int = field(init=False, compare=False)
    reach: tuple[int, int] = field(init=False, compare=False, repr=False)
    _spec: TensorSpec | None = field(init=False, compare=False, repr=False)
    fitted: object = field(init=False, compare=False, repr=False)

    def __new__(cls, buffer: Buffer, layout: Layout, element: ElementType, owns_padding: bool = False) -> Self:
        """Refuse a layout that reaches outside the buffer."""
        below, span = layout.extent
        itemsize = element.itemsize
        start = (layout.offset + below) * itemsize
        end = start + span * itemsize
        if span and (start < 0 or end > buffer.nbytes):
            raise BindingError(
                f"{layout} of {element} reaches from byte {start} to {end}, "
                f"outside its buffer of {buffer.nbytes} bytes."
            )
        address = buffer.address
        made = _Draft()
        made.buffer = buffer
        made.layout = layout
        made.element = element
        made.owns_padding = owns_padding
        made.start_bytes = start
        made.reach = (address + start, address + end)
        made.fitted = made._spec = None
        made.__class__ = cls  # type: ignore[assignment]  # of the same slots
        return cast("Self", made)

    @property
    def span_bytes(self) -> int:
        """How far the highest element reaches from the start of the lowest."""
        return self.reach[1] - self.reach[0]

    @property
    def address(self) -> int:
        """The address of the element at coordinates 0."""
        return self.buffer.address + self.layout.offset * self.element.itemsize

    @property
    def alignment(self) -> int:
        """The bytes guaranteed to divide that address: the buffer's guarantee, less what the offset takes away."""
        return gcd(self.buffer.alignment, self.layout.offset * self.element.itemsize)

    @property
    def spec(self) -> TensorSpec:
        """What a planner needs to know, worked out once."""
        if self._spec is None:
            spec = TensorSpec.of(
                self.layout,
                self.element,
                base_alignment=self.buffer.alignment,
                buffer_bytes=self.buffer.nbytes,
                owns_padding=self.owns_padding,
            )
            object.__setattr__(self, "_spec", spec)
            return spec
        return self._spec

    def known_as(self, spec: TensorSpec) -> Operand:
        """This operand, new, with the side that was worked out for its like."""
        object.__setattr__(self, "_spec", spec)
        return self

    def remember_fit(self, requirement: object) -> None:
        """Keep in mind what this operand was found to fit."""
        object.__setattr__(self, "fitted", requirement)


class _Draft:
    """An operand while it is made: a frozen object takes each of its values four times as slowly."""

    __slots__ = Operand.__slots__

    buffer: Buffer
    layout: Layout
    element: ElementType
    owns_padding: bool
    start_bytes: int
    reach: tuple[int, int]
    fitted: object
    _spec: TensorSpec | None


def share_memory(first: Operand, second: Operand) -> bool:
    """Whether any byte belongs to an element of both: exact, so that interleaved views are told apart."""
    start, end = first.reach
    other, other_end = second.reach
    if end <= other or other_end <= start or start == end or other == other_end:
        return False
    if first.buffer.device != second.buffer.device:
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
