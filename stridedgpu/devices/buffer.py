"""`Buffer`: a range of raw bytes on one device, owned or borrowed, with a guaranteed base alignment."""

from __future__ import annotations

import sys
import weakref
from ctypes import c_size_t
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.values.errors import BindingError, LayoutError

if TYPE_CHECKING:
    from stridedgpu.values.dtypes import ElementType
    from stridedgpu.values.layout import Layout

ADDRESS_SPACE_BYTES: Final = 2**64
PROCESS_BYTES: Final = 2**63
"""The half of the address space that processes have; the other is the system's."""

_LARGEST_RANGE_BYTES: Final = 2**57
"""No process has more memory: x86-64 translates 57 bits of an address, and Arm 56.

Sources: Intel's 5-Level Paging and 5-Level EPT, section 1; Arm's Architecture Reference Manual, FEAT_D128.
"""

LARGEST_ALIGNMENT: Final = 4096
"""The largest alignment, in bytes, that is detected in a borrowed address: one page."""

_IDS_ARE_ADDRESSES: Final = sys.implementation.name == "cpython"

_POWERS: Final = frozenset(1 << power for power in range(64))
"""Every power of two that fits 64 bits: the valid alignments."""

_POINTER_AT: Final = object.__basicsize__
"""Bytes from the start of an array's object to its data pointer, the first of its fields in NumPy's C ABI.

Source: `PyArrayObject`, https://numpy.org/doc/stable/reference/c-api/types-and-structures.html#c.PyArrayObject.
"""

_word_at: Final = c_size_t.from_address


def address_of(array: NDArray[Any]) -> int:
    """The address of an array's element at coordinates 0, eight times as fast as `array.ctypes.data`."""
    return _word_at(id(array) + _POINTER_AT).value if _IDS_ARE_ADDRESSES else array.ctypes.data


def alignment_of(address: int) -> int:
    """The largest power of two, up to a page, that divides an address.

    >>> alignment_of(48), alignment_of(1 << 20)
    (16, 4096)
    """
    rest = address % LARGEST_ALIGNMENT
    return rest & -rest or LARGEST_ALIGNMENT


def check_range(producer: str, address: int, start: int, nbytes: int) -> None:
    """Raise `BindingError` if `nbytes` bytes from `start` cannot be memory.

    `address` is the one that `producer` gave: it is shown in the message, and null is never memory.
    """
    if nbytes and address == 0:
        raise BindingError(f"{producer} describes {nbytes} bytes at address 0, which is no memory.")
    if start < 0 or start + nbytes > ADDRESS_SPACE_BYTES:
        raise BindingError(
            f"{producer} describes {nbytes} bytes from {start:#x} on, which leave the address space of 64 bits: its "
            "sizes, strides or address are wrong."
        )
    if nbytes > _LARGEST_RANGE_BYTES:
        raise BindingError(
            f"{producer} describes {nbytes} bytes from {start:#x} on, more than any process has: its sizes or strides "
            "are wrong."
        )
    if nbytes and start + nbytes > PROCESS_BYTES:
        raise BindingError(
            f"{producer} describes {nbytes} bytes from {start:#x} on, where the system has its addresses and no "
            "process any: its address is wrong."
        )


def checked_alignment(alignment: object) -> int:
    """`alignment` as a positive power of two, in bytes. Raises `LayoutError` when it is not."""
    if not isinstance(alignment, int) or isinstance(alignment, bool) or alignment < 1 or alignment & (alignment - 1):
        raise LayoutError(f"alignment={alignment!r} is not a power of two; 16, 32, 64 and 4096 are.")
    return alignment


class Buffer:
    """Raw bytes at a fixed address of one device.

    `nbytes` and `alignment` are in bytes; `alignment` is a power of two that the address is guaranteed to be a multiple
    of. `device` is "cpu", "cuda:N" or "cuda-emulated". `readonly` bytes are never written. `owner` keeps the memory
    alive; the buffer refers to it for its whole life. `owned`: this library allocated the memory. `is_lent`: the
    address was exported to code that does not keep this object alive. `fillers` are a layout and element type of places
    between borrowed elements that must be zero once any element was written; None where there are none, or they are.

    Raises `BindingError` when the address is not a multiple of the alignment.
    """

    __slots__ = (
        "__weakref__",
        "_bytes",
        "address",
        "alignment",
        "device",
        "fillers",
        "is_lent",
        "nbytes",
        "owned",
        "owner",
        "readonly",
    )

    def __init__(
        self,
        address: int,
        nbytes: int,
        *,
        owner: object,
        device: str = "cpu",
        alignment: int | None = None,
        readonly: bool = False,
        owned: bool = False,
    ) -> None:
        """Describe existing memory; nothing is allocated."""
        if nbytes < 0:
            raise BindingError(f"nbytes={nbytes} is negative.")
        self.address = address
        self.nbytes = nbytes
        self.owner = owner
        self.device = device
        if alignment is None:
            alignment = alignment_of(address)
        else:
            if alignment not in _POWERS:
                checked_alignment(alignment)
            if address % alignment:
                raise BindingError(f"The address {address:#x} is not a multiple of alignment={alignment}.")
        self.alignment = alignment
        self.readonly = readonly
        self.owned = owned
        self.is_lent = False
        self.fillers: tuple[Layout, ElementType] | None = None
        self._bytes: NDArray[np.uint8] | None = None

    @staticmethod
    def trusted(
        address: int,
        nbytes: int,
        owner: object,
        alignment: int | None = None,
        device: str = "cpu",
        readonly: bool = False,
        owned: bool = False,
    ) -> Buffer:
        """A buffer whose address is known to be a multiple of `alignment`, a power of two; None is its largest."""
        buffer = _new(Buffer)
        if alignment is None:  # `alignment_of`, inlined to save a call
            rest = address % LARGEST_ALIGNMENT
            alignment = rest & -rest or LARGEST_ALIGNMENT
        buffer.address = address
        buffer.nbytes = nbytes
        buffer.owner = owner
        buffer.device = device
        buffer.alignment = alignment
        buffer.readonly = readonly
        buffer.owned = owned
        buffer.is_lent = False
        buffer.fillers = None
        buffer._bytes = None
        return buffer

    @classmethod
    def of(cls, memory: object) -> Buffer:
        """Borrow the bytes of an object with the buffer protocol (bytearray, mmap, a C-contiguous array).

        Raises `BindingError` for anything else, and for bytes outside the address space.
        """
        if isinstance(memory, cls):
            return memory
        try:
            view = memoryview(memory)  # type: ignore[arg-type]
        except (TypeError, ValueError):  # the second of an array of dates
            raise BindingError(
                f"buffer={memory!r} is neither a Buffer nor an object with the buffer protocol, such as a bytearray."
            ) from None
        if not view.c_contiguous:
            raise BindingError("buffer must be contiguous bytes; describe strided memory with asarray instead.")
        array = np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)
        address = address_of(array)
        check_range(type(memory).__name__, address, address, array.nbytes)
        # The owner is the view, not `memory`: a live view keeps a bytearray's size and a mapping open.
        return cls(address, array.nbytes, owner=view, readonly=view.readonly)

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """The bytes as a flat NumPy array over the same memory, on the CPU only; it keeps the owner alive.

        Raises `BindingError` for memory of another device, which the CPU cannot address.
        """
        if self._bytes is None:
            if self.device != "cpu":
                raise BindingError(
                    f"These bytes are on {self.device}, where the CPU cannot read them; copy to the CPU."
                )
            self._bytes = np.asarray(_AddressRange(self.address, self.nbytes, self.owner, readonly=self.readonly))
        return self._bytes

    def has_arrays(self) -> bool:
        """Whether any view of the array that `bytes` returned is still alive.

        The buffer drops its own reference to that array; the next access to `bytes` creates a new one.
        """
        if self._bytes is None:
            return False
        watched, self._bytes = weakref.ref(self._bytes), None
        self._bytes = watched()
        return self._bytes is not None

    def __repr__(self) -> str:
        """Address, size, device and alignment in one line."""
        kind = "owned" if self.owned else "borrowed"
        lock = ", read-only" if self.readonly else ""
        return f"<Buffer {self.nbytes} bytes on {self.device}, aligned to {self.alignment}, {kind}{lock}>"


_new: Final = object.__new__


class _AddressRange:
    """An object with NumPy's array interface over raw memory; the array refers to it, and it refers to the owner."""

    def __init__(self, address: int, nbytes: int, owner: object, *, readonly: bool) -> None:
        self.owner = owner
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "typestr": "|u1",
            "shape": (nbytes,),
            "data": (address, readonly),
        }
