"""Memory for machine code: writable while it is filled, then executable, and never both.

Hardened systems refuse executable memory (systemd's `MemoryDenyWriteExecute`, `PR_SET_MDWE`, SELinux, seccomp).
`why_refused` tries once with a single instruction, so no other module meets a refusal in the middle of its work. On
AArch64 Linux writes the instruction cache back when it first makes a page executable (`__sync_icache_dcache`).
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import lru_cache
from typing import Any, Final

from .native.library import architecture

_RETURN: Final = {"x86_64": b"\xc3", "aarch64": b"\xc0\x03\x5f\xd6"}
"""A function that returns at once, by the architectures on which machine code of this library has run."""


@lru_cache(maxsize=1)
def why_refused() -> str | None:
    """None if machine code can be loaded and run here; else the reason.

    >>> why_refused() is None or "machine code" in why_refused() or "executable" in why_refused()
    True
    """
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return f"machine code of this library has run on 64-bit Linux alone, and this system is {sys.platform}"
    code = _RETURN.get(architecture())
    if code is None:
        return f"machine code of this library has run on x86-64 and AArch64 alone, and this is {architecture()!r}"
    if load(code) is None:
        return "this system makes no memory executable (MemoryDenyWriteExecute, PR_SET_MDWE, SELinux or a limit)"
    return None


def load(code: bytes) -> int | None:
    """The address of machine code, for the life of the process; None if the system refuses."""
    address = reserve(len(code))
    return address if address is not None and fill(address, code) else None


def reserve(nbytes: int) -> int | None:
    """The address of writable pages for so many bytes; None if the system has none."""
    address: int | None = _library().mmap(
        None, max(1, nbytes), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0
    )
    return None if address in (None, 2**64 - 1) else address


def fill(address: int, code: bytes | bytearray) -> bool:
    """Copy machine code to reserved pages and make them executable; False, with the pages freed, if that is refused."""
    ctypes.memmove(address, bytes(code), len(code))
    if _library().mprotect(address, len(code), mmap.PROT_READ | mmap.PROT_EXEC):
        _library().munmap(address, max(1, len(code)))
        return False
    return True


def _library() -> Any:
    """The C library, whose pages, unlike those of Python's `mmap`, outlive every object: a worker runs to the end."""
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library
