"""What LLVM generates code for here: asked once, then remembered on disk under what the processor says of itself.

Every kernel's key in the cache has LLVM's version and the processor's name and features in it. To ask LLVM for them, a
process would load it, and then load no kernel with it. The record's own key is LLVM's library (path, size and inode
of its file) and what Linux says of the processor and of itself: instructions that a kernel does not save are not used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from typing import Final, NamedTuple

from . import kernel_cache
from .object_file import reads_objects

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


_SAID: Final = frozenset((b"vendor_id", b"cpu family", b"model", b"model name", b"stepping", b"microcode", b"flags"))
"""The fields of /proc/cpuinfo on which LLVM's answer may depend; others differ between cores, or by the minute."""


def _processor_said() -> bytes | None:
    """Linux's release and what it says of its first processor; None where it says nothing of one."""
    if not reads_objects():
        return None
    try:
        with open("/proc/cpuinfo", "rb") as file:  # noqa: PTH123 - avoids importing `Path` for one call
            first, _, _ = file.read(_MOST_SAID).partition(b"\n\n")
    except OSError:
        return None
    said = [line for line in first.splitlines() if line.partition(b":")[0].strip() in _SAID]
    return b"\n".join([os.uname().release.encode(), *said]) if len(said) == len(_SAID) else None


_MOST_SAID: Final = 16 * 1024
"""Bytes of /proc/cpuinfo that are read: more than one processor's lines, and not those of hundreds."""
