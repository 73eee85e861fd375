"""`Operand`: a buffer, a layout in it and an element type: what operations work on."""

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
    """Elements in a buffer: a value, whose facts never change.

    `owns_padding` says that no element outside this layout lives in the buffer, so that kernels may write the gaps.
    `start_bytes` is where the lowest element lies in the buffer, and `reach` the addresses of its first byte and of the
    byte behind the highest element. `spec` is what planners know of it, where the caller has it already. `fitted` is
    the requirement that it last met.

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
