"""`Operand`: a buffer, a layout and an element type: the argument of operations."""

from __future__ import annotations

from math import gcd

from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError
from stridedgpu.values.layout import Layout
from stridedgpu.values.overlap import Term, addresses_intersect
from stridedgpu.values.tensor_spec import TensorSpec

from .buffer import Buffer

__all__ = ["Operand", "share_memory"]


class Operand:
    """Elements in a buffer, as an immutable value.

    `owns_padding`: no element outside this layout is stored in the buffer, so kernels may write the gaps. `start_bytes`
    is the offset of the lowest element in the buffer. `reach` is the addresses of its first byte and of the byte after
    the highest element. `spec` is the planner's description, if the caller has it already. `fitted` is the last
    requirement that was checked and met.

    Raises `BindingError` when the layout leaves the buffer.
    """

    __slots__ = ("_spec", "buffer", "element", "fitted", "layout", "owns_padding", "reach", "start_bytes")

    def __init__(
        self,
        buffer: Buffer,
        layout: Layout,
        element: ElementType,
        owns_padding: bool = False,
        spec: TensorSpec | None = None,
    ) -> None:
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
        self.buffer = buffer
        self.layout = layout
        self.element = element
        self.owns_padding = owns_padding
        self.start_bytes = start
        self.reach = (address + start, address + end)
        self.fitted: object = None
        self._spec = spec

    def with_layout(self, layout: Layout, *, owns_padding: bool = False) -> Operand:
        """Another layout over the same buffer, whose gaps may belong to other elements unless `owns_padding`."""
        return Operand(self.buffer, layout, self.element, owns_padding)

    @property
    def span_bytes(self) -> int:
        """Bytes from the start of the lowest to the end of the highest element."""
        return self.reach[1] - self.reach[0]

    @property
    def address(self) -> int:
        """The address of the element at coordinates 0."""
        return self.buffer.address + self.layout.offset * self.element.itemsize

    @property
    def alignment(self) -> int:
        """A guaranteed divisor of that address in bytes, from the buffer's alignment and the layout's offset."""
        return gcd(self.buffer.alignment, self.layout.offset * self.element.itemsize)

    @property
    def spec(self) -> TensorSpec:
        """The planner's description, computed once."""
        spec = self._spec
        if spec is None:
            spec = self._spec = TensorSpec.of(
                self.layout,
                self.element,
                base_alignment=self.buffer.alignment,
                buffer_bytes=self.buffer.nbytes,
                owns_padding=self.owns_padding,
            )
        return spec


def share_memory(first: Operand, second: Operand) -> bool:
    """Whether any byte belongs to an element of both; exact, so interleaved views do not overlap."""
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
