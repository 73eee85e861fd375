"""Compiled kernels kept on disk, in a directory and in files that nobody but this user could have written.

A cached kernel is run as native code, so a checksum is not enough: it finds damage, not forgery. What decides is the
owner and the mode of the opened directory and of the opened file, never of a path that could change meanwhile. Where
they say that another user could have written there, kernels are compiled in each process and nothing is kept.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Final

__all__ = ["VARIABLE", "directory", "read", "write"]

VARIABLE: Final = "STRIDEDGPU_CACHE_DIR"
"""The environment variable that names the directory of compiled kernels, as an absolute path."""

_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH

_CHECKSUM_BYTES: Final = 32


def directory() -> str | None:
    """Where compiled kernels are kept: `STRIDEDGPU_CACHE_DIR`, else `stridedgpu` in the user's cache directory.

    None for a user without a home, and for relative paths, which would mean another directory in each working
    directory (the XDG base directory specification has them ignored, too).
    """
    chosen = os.environ.get(VARIABLE)
    if chosen is None or not chosen:
        base = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(base):  # noqa: PTH117 - `Path` would be imported for this alone
            base = os.path.expanduser("~/.cache")  # noqa: PTH111 - pathlib's raises where there is no home
        chosen = f"{base}/stridedgpu"
    return chosen if os.path.isabs(chosen) else None  # noqa: PTH117


def read(digest: str) -> bytes | None:
    """The machine code of that name, if it is there, whole, and this user's own."""
    with suppress(OSError), _opened_directory(create=False) as folder:
        if folder is None:
            return None
        handle = os.open(_file_name(digest), os.O_RDONLY | _CLOSE_ON_EXEC | _NO_FOLLOW, dir_fd=folder)
        with os.fdopen(handle, "rb") as file:
            if not _is_own(os.fstat(file.fileno()), stat.S_IFREG):
                return None
            content = file.read()
        if content[:_CHECKSUM_BYTES] == _checksum(digest, content[_CHECKSUM_BYTES:]):
            return content[_CHECKSUM_BYTES:]
    return None


def write(digest: str, machine_code: bytes) -> None:
    """Keep machine code under a name; where nothing can be written, the next process compiles again."""
    with suppress(OSError), _opened_directory(create=True) as folder:
        if folder is None:
            return
        temporary = f"{digest}.{token_hex(8)}.part"
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOSE_ON_EXEC, 0o600, dir_fd=folder)
            with os.fdopen(handle, "wb") as file:
                file.write(_checksum(digest, machine_code) + machine_code)
            os.replace(temporary, _file_name(digest), src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            # Still there only where the disk is full; every process would leave another.
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)


_CLOSE_ON_EXEC: Final = getattr(os, "O_CLOEXEC", 0)
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_HAS_OWNERS: Final = sys.platform != "win32" and os.open in os.supports_dir_fd
"""Whether files tell their owner and can be opened below an opened directory; elsewhere nothing is kept."""


@contextmanager
def _opened_directory(*, create: bool) -> Iterator[int | None]:
    """The cache's directory, opened; None where there is none that is this user's own."""
    path = directory() if _HAS_OWNERS else None
    if path is None:
        yield None
        return
    if create:
        os.makedirs(path, mode=0o700, exist_ok=True)  # noqa: PTH103
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _CLOSE_ON_EXEC)
    try:
        yield handle if _is_own(os.fstat(handle), stat.S_IFDIR) else None
    finally:
        os.close(handle)


def _is_own(status: os.stat_result, kind: int) -> bool:
    """Whether what was opened is of that kind, belongs to this user, and nobody else may write it."""
    return (
        stat.S_IFMT(status.st_mode) == kind
        and status.st_uid == os.geteuid()
        and not status.st_mode & _WRITABLE_BY_OTHERS
    )


def _file_name(digest: str) -> str:
    return f"{digest}.o"


def _checksum(digest: str, machine_code: bytes) -> bytes:
    """A checksum of the machine code and of its name: files that are damaged or were swapped are not used."""
    return hashlib.sha256(digest.encode() + machine_code).digest()
