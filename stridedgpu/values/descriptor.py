"""DirectML's `DML_BUFFER_TENSOR_DESC` as a checked value, and its bindings to buffers, checked against each other."""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from typing import Any, ClassVar, Final

from .dtypes import DataType
from .errors import BindingError, LayoutError
from .layout import Drawn, Layout
from .strides import MAX_RANK, calc_buffer_tensor_size, check_same_length, directml_sizes, integer, integers, listed

MINIMUM_ALIGNMENT: Final = 16
"""`DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT`: bytes that every binding offset is a multiple of."""

_MOST_ELEMENTS: Final = 2**32 - 1


class DmlBufferTensorDesc(ctypes.Structure):
    """The C struct `DML_BUFFER_TENSOR_DESC` of a 64-bit ABI: 48 bytes, fields at 0, 4, 8, 16, 24, 32 and 40."""

    _fields_ = (
        ("DataType", ctypes.c_uint32),
        ("Flags", ctypes.c_uint32),
        ("DimensionCount", ctypes.c_uint32),
        ("Sizes", ctypes.POINTER(ctypes.c_uint32)),
        ("Strides", ctypes.POINTER(ctypes.c_uint32)),
        ("TotalTensorSizeInBytes", ctypes.c_uint64),
        ("GuaranteedBaseOffsetAlignment", ctypes.c_uint32),
    )


@dataclass(frozen=True, slots=True)
class BufferTensorDesc(Drawn):
    """A tensor in a buffer, described and checked as DirectML does.

    `sizes` and `strides` (None: packed) are in elements; `total_tensor_size_in_bytes` (None: the minimum implied
    size) and `guaranteed_base_offset_alignment` (0: none beyond the usual 16) are in bytes; `flags` is 0 or
    `BufferTensorDesc.OWNED_BY_DML`.

    Raises `LayoutError` for: an unknown type; rank 0 or above 8; a size below 1; strides of another length,
    negative, or beyond 32 bits; more than 2^32-1 elements, logical or physical; a total size below the minimum or
    no multiple of 4; an alignment that is no power of two or smaller than an element; unknown flags.

    >>> desc = BufferTensorDesc("float16", (1, 3, 4, 5), guaranteed_base_offset_alignment=32)
    >>> desc.minimum_implied_size_in_bytes
    120
    >>> desc.check_binding(offset=64, size_in_bytes=120)

    Source: https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_buffer_tensor_desc.
    """

    OWNED_BY_DML: ClassVar[int] = 1
    """`DML_TENSOR_FLAG_OWNED_BY_DML`: the contents belong to DirectML after initialisation; inputs only."""

    data_type: DataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    total_tensor_size_in_bytes: int = field(default=None)  # type: ignore[assignment]
    guaranteed_base_offset_alignment: int = 0
    flags: int = 0

    def __init__(  # the fields are narrower than the arguments: names, lists and None are taken
        self,
        data_type: object,
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
        total_tensor_size_in_bytes: int | None = None,
        guaranteed_base_offset_alignment: int = 0,
        flags: int = 0,
    ) -> None:
        type_ = DataType.of(data_type)
        if type_ is DataType.UNKNOWN:
            raise LayoutError("data_type is UNKNOWN; a descriptor needs a known element type.")
        sizes = directml_sizes(sizes)
        if prod(sizes) > _MOST_ELEMENTS:
            raise LayoutError(
                f"sizes={sizes} hold {prod(sizes)} elements; DirectML's limit is 2^32-1 = {_MOST_ELEMENTS}."
            )
        if strides is not None:
            strides = _checked_strides(sizes, strides)
        minimum = calc_buffer_tensor_size(type_, sizes, strides)
        if total_tensor_size_in_bytes is None:
            total = minimum
        else:
            (total,) = integers("total_tensor_size_in_bytes", (total_tensor_size_in_bytes,))
            if total < minimum:
                raise LayoutError(
                    f"total_tensor_size_in_bytes={total} is below the minimum implied size of {minimum} bytes."
                )
            if total % 4:
                raise LayoutError(
                    f"total_tensor_size_in_bytes={total} is not a multiple of 4; the next is {total + -total % 4}."
                )
            if total >= 2**64:
                raise LayoutError(f"total_tensor_size_in_bytes={total} does not fit 64 bits.")
        for name, value in (
            ("data_type", type_),
            ("sizes", sizes),
            ("strides", strides),
            ("total_tensor_size_in_bytes", total),
            ("guaranteed_base_offset_alignment", _checked_alignment(guaranteed_base_offset_alignment, type_)),
            ("flags", _checked_flags(flags)),
        ):
            object.__setattr__(self, name, value)

    @property
    def minimum_implied_size_in_bytes(self) -> int:
        """The fewest bytes that hold the tensor, rounded up to 4 (`calc_buffer_tensor_size`)."""
        return calc_buffer_tensor_size(self.data_type, self.sizes, self.strides)

    @property
    def layout(self) -> Layout:
        """The sizes and strides as a `Layout` at offset 0; packed strides are written out."""
        return Layout(self.sizes, self.strides)

    def check_binding(self, offset: int, size_in_bytes: int) -> None:
        """Check a buffer range, in bytes, that this tensor is to be bound to.

        Raises `BindingError` when the offset is negative, no multiple of 16 or of the guaranteed alignment, or
        when the range is shorter than the total tensor size, and `LayoutError` for what is no integer.

        Source: https://learn.microsoft.com/windows/ai/directml/dml-binding.
        """
        offset, size_in_bytes = integer("offset", offset), integer("size_in_bytes", size_in_bytes)
        if offset < 0:
            raise BindingError(f"offset={offset} lies before the buffer.")
        if offset % MINIMUM_ALIGNMENT:
            raise BindingError(f"offset={offset} is not a multiple of {MINIMUM_ALIGNMENT}, as every binding must be.")
        if self.guaranteed_base_offset_alignment and offset % self.guaranteed_base_offset_alignment:
            raise BindingError(
                f"offset={offset} is not a multiple of guaranteed_base_offset_alignment="
                f"{self.guaranteed_base_offset_alignment}, which the descriptor promised."
            )
        if size_in_bytes < self.total_tensor_size_in_bytes:
            raise BindingError(
                f"size_in_bytes={size_in_bytes} is less than total_tensor_size_in_bytes="
                f"{self.total_tensor_size_in_bytes}."
            )

    @classmethod
    def from_ctypes(cls, struct: Any) -> BufferTensorDesc:
        """The descriptor of a C struct: a `DmlBufferTensorDesc`, or another structure of ctypes with its fields.

        Sizes and strides are copied, so that the struct may go. Raises `LayoutError` for a struct that has not these
        fields, whose sizes are null, or that breaks a rule of DirectML's, and `ElementTypeError` for an unknown type.

        >>> struct = BufferTensorDesc("uint8", (1, 3, 4, 5), (60, 1, 15, 3)).to_ctypes()
        >>> BufferTensorDesc.from_ctypes(struct).strides
        (60, 1, 15, 3)
        """
        names = [name for name, _ in DmlBufferTensorDesc._fields_]
        missing = [name for name in names if not hasattr(struct, name)]
        if missing:
            raise LayoutError(f"{type(struct).__name__} has no {missing[0]}: it is no DML_BUFFER_TENSOR_DESC.")
        count = struct.DimensionCount
        if not 1 <= count <= MAX_RANK or not struct.Sizes:
            raise LayoutError(
                f"DimensionCount={count} and Sizes={'null' if not struct.Sizes else 'set'}; DirectML wants 1 to "
                f"{MAX_RANK} sizes."
            )
        return cls(
            DataType.of(int(struct.DataType)),
            tuple(struct.Sizes[:count]),
            tuple(struct.Strides[:count]) if struct.Strides else None,
            struct.TotalTensorSizeInBytes,
            struct.GuaranteedBaseOffsetAlignment,
            struct.Flags,
        )

    def to_ctypes(self) -> DmlBufferTensorDesc:
        """The 48-byte C struct, whose size and stride arrays live as long as it does.

        >>> struct = BufferTensorDesc("uint8", (1, 3, 4, 5)).to_ctypes()
        >>> ctypes.sizeof(struct), list(struct.Sizes[: struct.DimensionCount])
        (48, [1, 3, 4, 5])
        """
        array = ctypes.c_uint32 * len(self.sizes)
        # ctypes keeps the arrays alive from the pointer fields of the struct that they are assigned to.
        return DmlBufferTensorDesc(
            DataType=self.data_type,
            Flags=self.flags,
            DimensionCount=len(self.sizes),
            Sizes=array(*self.sizes),
            Strides=None if self.strides is None else array(*self.strides),
            TotalTensorSizeInBytes=self.total_tensor_size_in_bytes,
            GuaranteedBaseOffsetAlignment=self.guaranteed_base_offset_alignment,
        )


def _checked_strides(sizes: tuple[int, ...], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides that DirectML takes: one a size, unsigned 32-bit, and the span within 2^32-1 elements."""
    checked = integers("strides", strides)
    check_same_length(sizes, checked)
    if any(stride < 0 for stride in checked):
        raise LayoutError(f"strides={checked} are negative in places, which DirectML cannot say; relayout first.")
    if any(stride > _MOST_ELEMENTS for stride in checked):
        raise LayoutError(f"strides={checked} do not fit 32 bits, as DirectML's must.")
    span = Layout(sizes, checked).span
    if span > _MOST_ELEMENTS:
        raise LayoutError(f"strides={checked} span {span} elements; DirectML's limit is 2^32-1 = {_MOST_ELEMENTS}.")
    return checked


def _checked_alignment(alignment: int, data_type: DataType) -> int:
    """0, or a power of two of at least an element's bytes."""
    (alignment,) = integers("guaranteed_base_offset_alignment", (alignment,))
    if alignment == 0:
        return 0
    if alignment < 0 or alignment & (alignment - 1):
        raise LayoutError(f"guaranteed_base_offset_alignment={alignment} is not 0 or a power of two.")
    if alignment * 8 < data_type.bits:
        raise LayoutError(
            f"guaranteed_base_offset_alignment={alignment} is smaller than an element of "
            f"{data_type.name}, {data_type.bits // 8} bytes."
        )
    if alignment > _MOST_ELEMENTS:
        raise LayoutError(f"guaranteed_base_offset_alignment={alignment} does not fit 32 bits.")
    return alignment


def _checked_flags(flags: int) -> int:
    """The flags that DirectML defines: 0 or `OWNED_BY_DML`."""
    (flags,) = integers("flags", (flags,))
    owned = BufferTensorDesc.OWNED_BY_DML
    if flags not in (0, owned):
        raise LayoutError(f"flags={flags} is unknown; DirectML defines 0 and OWNED_BY_DML = {owned}.")
    return flags


@dataclass(frozen=True, slots=True)
class Binding:
    """A tensor's range of a buffer: `DML_BUFFER_BINDING` with its descriptor.

    `buffer` is the resource, or any name of it: equal ones are one buffer. `offset` and `size_in_bytes` are in bytes.

    Raises what `BufferTensorDesc.check_binding` raises.

    >>> Binding(BufferTensorDesc("uint8", (1, 1, 4, 4)), "arena", 256, 16).stop
    272
    """

    desc: BufferTensorDesc
    buffer: Hashable
    offset: int
    size_in_bytes: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", integer("offset", self.offset))
        object.__setattr__(self, "size_in_bytes", integer("size_in_bytes", self.size_in_bytes))
        if not isinstance(self.desc, BufferTensorDesc):
            raise LayoutError(f"desc={self.desc!r} is no BufferTensorDesc.")
        self.desc.check_binding(self.offset, self.size_in_bytes)

    @property
    def stop(self) -> int:
        """The first byte after the range."""
        return self.offset + self.size_in_bytes

    def meets(self, other: Binding) -> bool:
        """Whether any byte belongs to both ranges."""
        return self.buffer == other.buffer and self.offset < other.stop and other.offset < self.stop

    def is_identical(self, other: Binding) -> bool:
        """Whether both are one range of one buffer."""
        mine, others = (self.buffer, self.offset, self.stop), (other.buffer, other.offset, other.stop)
        return mine == others


def check_bindings(
    inputs: Sequence[Binding | None], outputs: Sequence[Binding | None], *, in_place: bool = False
) -> None:
    """Check the bindings of one dispatch against each other; None is an optional tensor that is not there.

    Inputs may share bytes with inputs. An output may share none with another output, and none with an input unless both
    are one range and the operator works in place, as `in_place` says. Each element of an output has a place of its own,
    and no output is `OWNED_BY_DML`.

    Raises `BindingError` for ranges that share bytes where they may not and for such outputs, `LayoutError` for what is
    no `Binding`, and for an `in_place` that is no bool.

    >>> pixels = BufferTensorDesc("float16", (1, 1, 2, 4))
    >>> first, second = Binding(pixels, "arena", 0, 16), Binding(pixels, "arena", 16, 16)
    >>> check_bindings([first], [second])
    >>> check_bindings([first], [first], in_place=True)

    Source: https://learn.microsoft.com/windows/ai/directml/dml-binding.
    """
    if not isinstance(in_place, bool):
        raise LayoutError(f"in_place={in_place!r} must be True or False.")
    read, written = _named("inputs", inputs), _named("outputs", outputs)
    for name, output in written:
        _check_written(name, output.desc)
    for (name, first), (other, second) in combinations(written, 2):
        if first.meets(second):
            raise BindingError(
                f"{name} ({_range(first)}) and {other} ({_range(second)}) share bytes: outputs never may."
            )
    for name, output in written:
        for other, source in read:
            if not output.meets(source):
                continue
            if not in_place:
                raise BindingError(
                    f"{name} ({_range(output)}) shares bytes with {other} ({_range(source)}), and the operator does "
                    "not work in place; bind separate ranges."
                )
            if not output.is_identical(source):
                raise BindingError(
                    f"{name} ({_range(output)}) shares some bytes with {other} ({_range(source)}): in place, both are "
                    "one range."
                )


def _named(name: str, bindings: Sequence[Binding | None]) -> list[tuple[str, Binding]]:
    """The bindings that are there, each with its name in messages."""
    entries = listed(bindings)
    if entries is None:
        raise LayoutError(f"{name}={bindings!r} is not a sequence of bindings.")
    named = []
    for number, binding in enumerate(entries):
        if binding is None:
            continue
        if not isinstance(binding, Binding):
            raise LayoutError(f"{name}[{number}]={binding!r} is neither a Binding nor None.")
        named.append((f"{name}[{number}]", binding))
    return named


def _check_written(name: str, desc: BufferTensorDesc) -> None:
    """Raise `BindingError` for a descriptor that no output may have."""
    if desc.flags:
        raise BindingError(
            f"{name} has flags={desc.flags}, OWNED_BY_DML: DirectML owns inputs alone; describe an output with flags=0."
        )
    if desc.layout.has_overlap:
        raise BindingError(
            f"{name} has sizes {desc.sizes} and strides {desc.strides}, whose elements share places: an output's are "
            "apart; bind packed or padded strides."
        )


def _range(binding: Binding) -> str:
    return f"bytes {binding.offset} to {binding.stop} of {binding.buffer!r}"
