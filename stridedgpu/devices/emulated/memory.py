"""Memory of the emulated device: pages that the processor can touch only while a launch runs.

Each allocation has pages of its own. They are without any access right (`mprotect`, POSIX.1-2017) except during a
launch, so that an address that the host follows by mistake ends the process, as the address of a GPU's memory does.
Where the system has no `mprotect`, the pages stay accessible, and the rest of the emulation is the same.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.memory_left import LARGE_BYTES, check_memory_left
from stridedgpu.devices.interface import EMULATED
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.strides import round_up

POISON: Final = 0xFD
"""The value of each byte of new memory: far from 0 as a float, NaN as float16, out of range as an index."""

_NO_ACCESS: Final = 0
_READ_AND_WRITE: Final = 3
"""PROT_NONE, and PROT_READ | PROT_WRITE: the same numbers on every POSIX system."""


def _mprotect_function() -> Callable[[int, int, int], int] | None:
    """The C library's `mprotect`, or None where there is none."""
    if sys.platform == "win32":
        return None
    try:
        function: Any = ctypes.CDLL(None, use_errno=True).mprotect
    except (AttributeError, OSError):
        return None
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    return cast("Callable[[int, int, int], int]", function)


_mprotect: Final = _mprotect_function()

_live: Final[weakref.WeakValueDictionary[int, Pages]] = weakref.WeakValueDictionary()
"""The allocations that are still used, by address."""


def is_protected() -> bool:
    """True if this system keeps the host from the pages."""
    return _mprotect is not None


class Pages:
    """The pages of one allocation, filled with `POISON`; unmapped when nothing refers to them any more."""

    __slots__ = ("__weakref__", "_mapping", "_start", "address", "nbytes")

    def __init__(self, nbytes: int) -> None:
        """Map anonymous pages, of which a forked process gets a copy. Raises `DeviceError` if there are none left."""
        if nbytes >= LARGE_BYTES:
            check_memory_left(EMULATED, nbytes)
        self.nbytes = round_up(max(nbytes, 1), mmap.PAGESIZE)
        private = {} if sys.platform == "win32" else {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
        try:
            self._mapping = mmap.mmap(-1, self.nbytes, **private)
        except (OSError, OverflowError, ValueError) as error:
            raise DeviceError(f"{EMULATED} has no {nbytes} bytes of memory left to allocate.") from error
        self._start: Any = ctypes.c_char.from_buffer(self._mapping)
        self.address = ctypes.addressof(self._start)
        ctypes.memset(self.address, POISON, self.nbytes)
        self.allow(_NO_ACCESS)
        _live[self.address] = self

    def allow(self, access: int) -> None:
        """Set the access rights of the pages."""
        if _mprotect is not None and _mprotect(self.address, self.nbytes, access):
            raise DeviceError(f"mprotect failed with errno {ctypes.get_errno()} on memory of {EMULATED}.")


def live_bytes() -> int:
    """The bytes of all allocations that are still used."""
    return sum(pages.nbytes for pages in list(_live.values()))


def pages_at(address: int, nbytes: int) -> Pages | None:
    """The live allocation that a range lies in."""
    for pages in list(_live.values()):
        if pages.address <= address and address + nbytes <= pages.address + pages.nbytes:
            return pages
    return None


def host_alias(buffer: Buffer, used: set[Pages]) -> Buffer:
    """A buffer of the emulated device as the loops of the CPU see it; its pages are added to `used`.

    Raises `DeviceError` for memory that no allocation has: CUDA's illegal address.
    """
    if buffer.nbytes:
        pages = buffer.owner if isinstance(buffer.owner, Pages) else pages_at(buffer.address, buffer.nbytes)
        if pages is None:
            raise DeviceError(
                f"{buffer.nbytes} bytes at {buffer.address:#x} are no memory of {EMULATED}, or have been freed: on a "
                "GPU this is an illegal memory access."
            )
        used.add(pages)
    return Buffer(buffer.address, buffer.nbytes, owner=buffer, alignment=buffer.alignment, readonly=buffer.readonly)


@contextmanager
def opened(used: set[Pages]) -> Iterator[None]:
    """Let the processor access the pages, for the length of a launch."""
    try:
        for pages in used:
            pages.allow(_READ_AND_WRITE)
        yield
    finally:
        for pages in used:
            pages.allow(_NO_ACCESS)
