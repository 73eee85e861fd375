"""What LLVM generates code for here: asked once, then remembered on disk under what the processor says of itself.

Every kernel's key in the cache has LLVM's version and the processor's name and features in it. To ask LLVM for them, a
process would load it, and then load no kernel with it. The record's own key is LLVM's library (path, size and inode
of its file) and what the instructions CPUID and XGETBV return, which is all that LLVM looks at (`Host.cpp`).
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
from typing import Final, NamedTuple

from . import kernel_cache
from .object_file import executable, reads_objects

__all__ = ["Target", "record_name", "remember", "remembered"]


class Target(NamedTuple):
    """LLVM's version, and its triple, name and features ("+avx2,-sse4a") of this processor."""

    version: str
    triple: str
    cpu: str
    flags: str

    @property
    def identity(self) -> str:
        """All that machine code depends on beside its text."""
        return " ".join(self)

    @property
    def processor(self) -> str:
        """The architecture, as in the triple: "x86_64", "aarch64" and others."""
        return self.triple.partition("-")[0]

    @property
    def features(self) -> frozenset[str]:
        """The instruction sets that kernels may use."""
        return frozenset(flag[1:] for flag in self.flags.split(",") if flag.startswith("+"))

    @property
    def lacks(self) -> bool:
        """Whether conversions to float16 and roundings, single instructions from AVX2 and F16C on, take many here."""
        return self.processor in ("x86_64", "amd64") and not {"avx2", "f16c"} <= self.features


def remembered(name: str | None) -> Target | None:
    """The target of a record; None if there is no such record."""
    content = None if name is None else kernel_cache.read(name)
    fields = [] if content is None else content.decode().split("\n")
    return Target(*fields) if len(fields) == len(Target._fields) else None


def remember(name: str | None, target: Target) -> None:
    """Write a target's record."""
    if name is not None:
        kernel_cache.write(name, "\n".join(target).encode())


def record_name() -> str | None:
    """The name of this process' record; None where nothing says all that it depends on."""
    library, processor = _library_said(), _processor_said()
    if library is None or processor is None:
        return None
    return hashlib.sha256(f"target\n{library}\n".encode() + processor).hexdigest()[:32]


def _library_said() -> str | None:
    """LLVM's library: path, size and inode of its file."""
    found = importlib.util.find_spec("llvmlite")
    folders = None if found is None else found.submodule_search_locations
    path = f"{folders[0]}/binding/libllvmlite.so" if folders else ""
    try:
        status = os.stat(path)  # noqa: PTH116 - avoids importing `Path` for one call
    except OSError:
        return None
    return f"{path} {status.st_size} {status.st_ino}"


_CPUID: Final = bytes.fromhex("53 89f0 89d1 0fa2 8907 895f04 894f08 89570c 5b c3")
"""`cpuid(out, leaf, subleaf)`: push rbx; mov eax, esi; mov ecx, edx; cpuid; mov [rdi], eax; mov [rdi + 4], ebx;
mov [rdi + 8], ecx; mov [rdi + 12], edx; pop rbx; ret."""

_XGETBV: Final = bytes.fromhex("31c9 0f01d0 8907 895704 c3")
"""`xgetbv(out)`: xor ecx, ecx; xgetbv; mov [rdi], eax; mov [rdi + 4], edx; ret."""

_XGETBV_PLACE: Final = 32
_LEAVES: Final = ((0, 0), (1, 0), (7, 0), (7, 1), (0xD, 1), (0x14, 0), (0x19, 0), (0x1E, 1), (0x21, 0), (0x24, 0))
_EXTENDED: Final = 0x80000000
_EXTENDED_LEAVES: Final = ((_EXTENDED, 0), (_EXTENDED + 1, 0), (_EXTENDED + 8, 0))
_OSXSAVE: Final = 1 << 27


def _processor_said() -> bytes | None:
    """What CPUID and XGETBV return, less what differs between cores; None where they cannot be run."""
    address = executable(_CPUID.ljust(_XGETBV_PLACE, b"\x90") + _XGETBV) if reads_objects() else None
    if address is None:
        return None
    ask = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)(address)
    words, said, saves = (ctypes.c_uint32 * 4)(), bytearray(), 0
    for leaves in (_LEAVES, _EXTENDED_LEAVES):
        last = leaves[0][0]
        for leaf, subleaf in leaves:
            if leaf > last:
                continue
            ask(ctypes.addressof(words), leaf, subleaf)
            if leaf == leaves[0][0]:
                last = words[0]
            if leaf == 1:
                words[1] = 0  # the core's number
                saves = words[2] & _OSXSAVE
            if leaf == 0xD:  # the sizes of states differ from process to process
                words[1] = words[2] = words[3] = 0
            said += bytes(words)
    if saves:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address + _XGETBV_PLACE)(ctypes.addressof(words))
        said += bytes(words)[:8]
    return bytes(said)
