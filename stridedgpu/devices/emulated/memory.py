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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.interface import EMULATED
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.strides import round_up

__all__ = ["POISON", "Pages", "block_at", "host_alias", "is_emulated", "is_protected", "live_bytes", "opened"]

POISON: Final = 0xFD
"""The value of each byte of new memory: far from 0 as a float, NaN as float16, out of range as an index."""

_PAGE_BYTES: Final = mmap.PAGESIZE

_NO_ACCESS: Final = 0
_READ_AND_WRITE: Final = 3
"""PROT_NONE, and PROT_READ | PROT_WRITE: the same numbers on every POSIX system."""


def _found_mprotect() -> Callable[[int, int, int], int] | None:
    """The C library's `mprotect`, or None where there is none."""
    if sys.platform == "win32":
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).mprotect
    except (AttributeError, OSError):
        return None
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    found: Callable[[int, int, int], int] = function
    return found


_mprotect: Final = _found_mprotect()

_live: Final[weakref.WeakValueDictionary[int, Pages]] = weakref.WeakValueDictionary()
"""The allocations that are still used, by address."""


def is_protected() -> bool:
    """True if this system keeps the host from the pages."""
    return _mprotect is not None


class Pages:
    """The pages of one allocation, filled with `POISON`; unmapped when nothing refers to them any more."""

    __slots__ = ("__weakref__", "_mapping", "_start", "address", "nbytes")

    def __init__(self, nbytes: int) -> None:
        """Map the pages. Raises `DeviceError` if the system has none left."""
        self.nbytes = round_up(max(nbytes, 1), _PAGE_BYTES)
        try:
            self._mapping = _private_mapping(self.nbytes)
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


def _private_mapping(nbytes: int) -> mmap.mmap:
    """Anonymous memory; a forked process gets a copy."""
    if sys.platform == "win32":
        return mmap.mmap(-1, nbytes)
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def live_bytes() -> int:
    """The bytes of all allocations that are still used."""
    return sum(pages.nbytes for pages in list(_live.values()))


def is_emulated(address: int) -> bool:
    """True if a live allocation has this address."""
    return any(pages.address <= address < pages.address + pages.nbytes for pages in list(_live.values()))


def block_at(address: int, nbytes: int) -> Pages:
    """The allocation that a range lies in. Raises `DeviceError` if there is none: CUDA's illegal address."""
    for pages in list(_live.values()):
        if pages.address <= address and address + nbytes <= pages.address + pages.nbytes:
            return pages
    raise DeviceError(
        f"{nbytes} bytes at {address:#x} are no memory of {EMULATED}, or have been freed: on a GPU this is an illegal "
        "memory access."
    )


def host_alias(buffer: Buffer, used: set[Pages]) -> Buffer:
    """A buffer of the emulated device as the loops of the CPU see it; its pages are added to `used`."""
    if buffer.nbytes:
        owner = buffer.owner
        used.add(owner if isinstance(owner, Pages) else block_at(buffer.address, buffer.nbytes))
    return Buffer(buffer.address, buffer.nbytes, owner=buffer, alignment=buffer.alignment, readonly=buffer.readonly)


@contextmanager
def opened(used: Iterable[Pages]) -> Iterator[None]:
    """Let the processor access the pages, for the length of a launch."""
    held = list(used)
    try:
        for pages in held:
            pages.allow(_READ_AND_WRITE)
        yield
    finally:
        for pages in held:
            pages.allow(_NO_ACCESS)
