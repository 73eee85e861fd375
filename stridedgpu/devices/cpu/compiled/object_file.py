"""Load an object file: lay out its sections, and write their addresses into the machine code.

    object file    .rodata   .rodata.cst16   .ltext
    memory        [constants, constants, machine code]     writable while it is filled, then executable, never both

LLVM writes a kernel as a relocatable ELF file that refers to nothing but itself, so a linker's work comes down to a few
addresses. A process that finds its kernels on disk thereby does without LLVM. A file with anything else in it is
refused. ELF is specified in the System V ABI, and its relocations in the ABI of each architecture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from types import MappingProxyType
from typing import Final, NamedTuple

from stridedgpu.devices.cpu.executable_memory import fill, reserve
from stridedgpu.devices.cpu.native.library import architecture

_HEADER: Final = Struct("<4s12xHHIQQQIHHHHHH")
"""Of the file: magic, then type, machine, version, entry, program headers, section headers, flags, sizes and counts."""


class _Section(NamedTuple):
    """The header of a section."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_bytes: int


_SECTION: Final = Struct("<IIQQQQIIQQ")

_SYMBOL: Final = Struct("<IBBHQQ")
"""A symbol: name, information, visibility, section, value, size."""

_RELOCATION: Final = Struct("<QQq")
"""A relocation: offset, symbol and kind, addend."""

_MAGIC: Final = b"\x7fELF"
_MACHINES: Final[Mapping[str, int]] = MappingProxyType({"x86_64": 62, "aarch64": 183})
_PROGBITS, _SYMTAB, _RELA = 1, 2, 4
_WRITE, _ALLOC = 1, 2


def _word(address: int, place: int, old: int) -> tuple[int, int]:  # noqa: ARG001 - relocations have one signature
    """The address in 64 bits: R_X86_64_64, R_AARCH64_ABS64."""
    return 8, address


def _relative(address: int, place: int, old: int) -> tuple[int, int]:  # noqa: ARG001
    """The distance from its place in 64 bits: R_X86_64_PC64, R_AARCH64_PREL64."""
    return 8, address - place


def _sixteen_bits(part: int) -> Callable[[int, int, int], tuple[int, int]]:
    """A part of the address in a `movz` or `movk`: R_AARCH64_MOVW_UABS_G0_NC to G3."""

    def put(address: int, place: int, old: int) -> tuple[int, int]:  # noqa: ARG001
        return 4, old & 0xFFFFFFFF & ~(0xFFFF << 5) | (address >> 16 * part & 0xFFFF) << 5

    return put


_RELOCATIONS: Final[Mapping[str, Mapping[int, Callable[[int, int, int], tuple[int, int]]]]] = MappingProxyType(
    {
        "x86_64": {1: _word, 24: _relative},
        "aarch64": {
            257: _word,
            260: _relative,
            264: _sixteen_bits(0),
            266: _sixteen_bits(1),
            268: _sixteen_bits(2),
            269: _sixteen_bits(3),
        },
    }
)
"""By architecture and kind: the bytes of a relocation and their new value, from the address that is referred to, the
relocation's own place, and the 64 bits that stand there."""


def functions_of(content: bytes, *names: str) -> tuple[int, ...] | None:
    """Load an object file for the life of the process; the addresses of the named functions.

    None if it is no ELF file of this architecture, has a section or a relocation that kernels do not have, lacks a
    function, or the system makes no memory executable.
    """
    machine_here = _MACHINES.get(architecture())
    if len(content) < _HEADER.size:
        return None
    magic, _, machine, _, _, _, start, _, _, _, _, _, count, _ = _HEADER.unpack_from(content)
    if magic != _MAGIC or machine != machine_here:
        return None
    headers = (_SECTION.unpack_from(content, start + number * _SECTION.size) for number in range(count))
    sections = [_Section(*header) for header in headers]
    image, places = bytearray(), {}
    for number, section in enumerate(sections):
        if not section.flags & _ALLOC or not section.size:
            continue
        if section.kind != _PROGBITS or section.flags & _WRITE:
            return None
        image += bytes(-len(image) % max(1, section.alignment))
        places[number] = len(image)
        image += _content(content, section)
    symbols = _symbols(content, sections, places)
    if not all(name in symbols for name in names):
        return None
    base = reserve(len(image))
    if base is None or not _relocate(content, sections, image, places, base) or not fill(base, image):
        return None
    return tuple(base + symbols[name] for name in names)


def _content(content: bytes, section: _Section) -> bytes:
    return content[section.offset : section.offset + section.size]


def _relocate(content: bytes, sections: list[_Section], image: bytearray, places: Mapping[int, int], base: int) -> bool:
    """Write addresses into the image, which will lie at `base`; False for what no kernel has."""
    relocations = _RELOCATIONS[architecture()]
    for table in sections:
        if table.kind != _RELA or table.info not in places:
            continue
        symbols = sections[table.link].offset
        for at, reference, addend in _RELOCATION.iter_unpack(_content(content, table)):
            number, way = reference >> 32, reference & 0xFFFFFFFF
            _, _, _, section, value, _ = _SYMBOL.unpack_from(content, symbols + number * _SYMBOL.size)
            if section not in places or way not in relocations:
                return False
            place = places[table.info] + at
            old = int.from_bytes(image[place : place + 8].ljust(8, b"\0"), "little")
            nbytes, new = relocations[way](base + places[section] + value + addend, base + place, old)
            image[place : place + nbytes] = (new % 2 ** (8 * nbytes)).to_bytes(nbytes, "little")
    return True


def _symbols(content: bytes, sections: list[_Section], places: Mapping[int, int]) -> dict[str, int]:
    symbols = {}
    for table in sections:
        if table.kind != _SYMTAB:
            continue
        names = sections[table.link].offset
        for name, _, _, section, value, _ in _SYMBOL.iter_unpack(_content(content, table)):
            if name and section in places:
                end = content.index(b"\0", names + name)
                symbols[content[names + name : end].decode()] = places[section] + value
    return symbols
