"""`Operand`: a buffer, a layout and an element type, the argument of operations; `AllocationSpec`: one to allocate."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Final, Protocol

from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.overlap import Term, addresses_intersect
from stridedgpu.values.strides import round_up
from stridedgpu.values.tensor_spec import TensorSpec

from .buffer import Buffer, checked_alignment


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

    @staticmethod
    def trusted(
        buffer: Buffer, layout: Layout, element: ElementType, owns_padding: bool = False, spec: TensorSpec | None = None
    ) -> Operand:
        """An operand whose layout is known to lie in the buffer: the buffer was made for it, or it is a view."""
        below, span = layout.extent
        itemsize, address = element.itemsize, buffer.address
        start = (layout.offset + below) * itemsize
        if start:
            address += start
        operand = _new(Operand)
        operand.buffer = buffer
        operand.layout = layout
        operand.element = element
        operand.owns_padding = owns_padding
        operand.start_bytes = start
        operand.reach = (address, address + span * itemsize)
        operand.fitted = None
        operand._spec = spec
        return operand

    @staticmethod
    def whole(buffer: Buffer, layout: Layout, element: ElementType) -> Operand:
        """An operand whose lowest element is the buffer's first, and whose highest one ends where the buffer ends."""
        address = buffer.address
        operand = _new(Operand)
        operand.buffer = buffer
        operand.layout = layout
        operand.element = element
        operand.owns_padding = False
        operand.start_bytes = 0
        operand.reach = (address, address + buffer.nbytes)
        operand.fitted = None
        operand._spec = None
        return operand

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


_new: Final = object.__new__


class Memory(Protocol):
    """A source of memory: a device, or recycled blocks."""

    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer:
        """Uninitialised bytes at a multiple of `alignment`."""


@dataclass(frozen=True, slots=True)
class AllocationSpec:
    """What to allocate for a layout: bytes, alignment, and whether the padding is owned.

    The size is that of `calc_buffer_tensor_size`: up to the last element, rounded up to 4. `spec` is the spec of every
    tensor allocated so.
    """

    layout: Layout
    nbytes: int
    alignment: int
    owns_padding: bool
    spec: TensorSpec

    @classmethod
    def of(cls, layout: Layout, element: ElementType, alignment: int, stored: Layout | None = None) -> AllocationSpec:
        """What to allocate for a layout that owns its padding.

        `stored` is the layout of the memory if channels are filled up with zeros; the zeros are then no padding to
        overwrite. Raises `LayoutError` for an alignment that is no power of two or below an element.
        """
        if checked_alignment(alignment) < element.itemsize:
            raise LayoutError(f"alignment={alignment} is below one element of {element}, {element.itemsize} bytes.")
        memory = layout if stored is None else stored
        nbytes, owns = round_up((memory.first_offset + memory.span) * element.itemsize, 4), memory == layout
        spec = TensorSpec.of(layout, element, base_alignment=alignment, buffer_bytes=nbytes, owns_padding=owns)
        return cls(layout, nbytes, alignment, owns, spec)

    def allocate(self, memory: Memory, stream: object = None) -> Operand:
        """Allocate uninitialised memory for first use on `stream`. Raises `DeviceError` if there is not enough."""
        buffer = memory.allocate(self.nbytes, self.alignment, stream)
        spec = self.spec if buffer.alignment == self.alignment else None
        return Operand.trusted(buffer, self.layout, self.spec.element, self.owns_padding, spec)


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
