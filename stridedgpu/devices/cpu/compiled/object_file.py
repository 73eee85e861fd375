"""Load an object file without LLVM: lay out its sections, and write their addresses into the machine code.

    object file    .rodata   .rodata.cst16   .ltext
    memory        [constants, constants, machine code]     writable while it is filled, then executable, never both

LLVM writes a kernel as a relocatable ELF file that refers to nothing but itself, so a linker's work comes down to a few
addresses. A process that finds its kernels on disk thereby does without LLVM, whose library is 171 MiB. Files of other
formats and processors, and relocations that no kernel has, are left to LLVM. ELF is specified in the System V ABI.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from functools import lru_cache
from struct import Struct
from typing import Any, Final

__all__ = ["functions_of", "reads_objects"]

_HEADER: Final = Struct("<4s12xHHIQQQIHHHHHH")
"""Of the file: magic, then type, machine, version, entry, program headers, section headers, flags, sizes and counts."""

_SECTION: Final = Struct("<IIQQQQIIQQ")
"""Of a section: name, type, flags, address, offset, size, link, info, alignment, entry size."""

_SYMBOL: Final = Struct("<IBBHQQ")
"""A symbol: name, information, visibility, section, value, size."""

_RELOCATION: Final = Struct("<QQq")
"""A relocation: offset, symbol and kind, addend."""

_MAGIC: Final = b"\x7fELF"
_X86_64: Final = 62
_PROGBITS, _SYMTAB, _RELA = 1, 2, 4
_WRITE, _ALLOC = 1, 2
_ABSOLUTE, _RELATIVE = 1, 24
"""The relocations of 64 bits: R_X86_64_64 and R_X86_64_PC64."""


def reads_objects() -> bool:
    """Whether object files of this processor and system can be loaded here."""
    return sys.platform == "linux" and sys.maxsize > 2**32 and os.uname().machine == "x86_64"


def functions_of(content: bytes, *names: str) -> tuple[int, ...] | None:
    """Load an object file for the life of the process; the addresses of the named functions.

    None if it is left to LLVM: it is no ELF file of x86-64, has a section or a relocation that kernels do not have, or
    the system makes no memory executable.
    """
    if not reads_objects() or len(content) < _HEADER.size:
        return None
    magic, _, machine, _, _, _, start, _, _, _, _, _, count, _ = _HEADER.unpack_from(content)
    if magic != _MAGIC or machine != _X86_64:
        return None
    sections = [_SECTION.unpack_from(content, start + number * _SECTION.size) for number in range(count)]
    image, places = bytearray(), {}
    for number, (_, kind, flags, _, offset, size, _, _, alignment, _) in enumerate(sections):
        if not flags & _ALLOC or not size:
            continue
        if kind != _PROGBITS or flags & _WRITE:
            return None
        image += bytes(-len(image) % max(1, alignment))
        places[number] = len(image)
        image += content[offset : offset + size]
    base = _reserved(len(image))
    if base is None or not _relocate(content, sections, image, places, base):
        return None
    found = _symbols(content, sections, places)
    if not all(name in found for name in names) or not _fill(base, image):
        return None
    return tuple(base + found[name] for name in names)


def _relocate(
    content: bytes, sections: list[tuple[Any, ...]], image: bytearray, places: dict[int, int], base: int
) -> bool:
    """Write addresses into the image, which will lie at `base`; False for what no kernel has."""
    for _, kind, _, _, offset, size, link, info, _, _ in sections:
        if kind != _RELA or info not in places:
            continue
        symbols = sections[link][4]
        for at, reference, addend in _RELOCATION.iter_unpack(content[offset : offset + size]):
            number, way = reference >> 32, reference & 0xFFFFFFFF
            _, _, _, section, value, _ = _SYMBOL.unpack_from(content, symbols + number * _SYMBOL.size)
            if section not in places or way not in (_ABSOLUTE, _RELATIVE):
                return False
            place = places[info] + at
            address = base + places[section] + value + addend - (base + place if way == _RELATIVE else 0)
            image[place : place + 8] = (address % 2**64).to_bytes(8, "little")
    return True


def _symbols(content: bytes, sections: list[tuple[Any, ...]], places: dict[int, int]) -> dict[str, int]:
    """The places of all named symbols in the image."""
    found = {}
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind != _SYMTAB:
            continue
        names = sections[link][4]
        for name, _, _, section, value, _ in _SYMBOL.iter_unpack(content[offset : offset + size]):
            if name and section in places:
                end = content.index(b"\0", names + name)
                found[content[names + name : end].decode()] = places[section] + value
    return found


def _reserved(nbytes: int) -> int | None:
    """The address of writable pages for so many bytes; None if the system has none."""
    address = _library().mmap(
        None, max(1, nbytes), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0
    )
    return None if address in (None, 2**64 - 1) else address


def _fill(address: int, content: bytes | bytearray) -> bool:
    """Copy machine code to reserved pages and make them executable; False if the system forbids it."""
    ctypes.memmove(address, bytes(content), len(content))
    return not _library().mprotect(address, len(content), mmap.PROT_READ | mmap.PROT_EXEC)


@lru_cache(maxsize=1)
def _library() -> Any:
    """The C library, whose pages, unlike those of Python's `mmap`, outlive every object: a worker runs to the end."""
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return library
