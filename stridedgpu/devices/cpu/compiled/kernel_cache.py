"""Compiled kernels cached on disk, in a directory and in files that only this user could have written.

A cached kernel is run as native code. A checksum detects damage but not forgery, so ownership decides: the owner and
mode of the opened directory and of the opened file, never of a path, which could be replaced meanwhile. If another user
could have written there, kernels are compiled in each process and nothing is cached.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

VARIABLE: Final = "STRIDEDGPU_CACHE_DIR"
"""The environment variable that names the directory of compiled kernels, as an absolute path."""

_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH

_CHECKSUM_BYTES: Final = 32


def directory() -> str | None:
    """The cache directory: `STRIDEDGPU_CACHE_DIR`, else `stridedgpu` in the user's cache directory.

    None for a user without a home directory, and for relative paths, which would depend on the working directory (the
    XDG base directory specification ignores them, too).
    """
    chosen = os.environ.get(VARIABLE)
    if chosen is None or not chosen:
        base = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(base):  # noqa: PTH117 - avoids importing `Path` for one call
            base = os.path.expanduser("~/.cache")  # noqa: PTH111 - pathlib's version raises without a home directory
        chosen = f"{base}/stridedgpu"
    return chosen if os.path.isabs(chosen) else None  # noqa: PTH117


def read(digest: str) -> bytes | None:
    """The cached machine code of a digest; None if it is missing, incomplete or not this user's own."""
    with suppress(OSError), _opened_directory(create=False) as folder:
        if folder is None:
            return None
        handle = os.open(_file_name(digest), os.O_RDONLY | _CLOSE_ON_EXEC | _NO_FOLLOW | _NO_WAIT, dir_fd=folder)
        with os.fdopen(handle, "rb") as file:
            if not _is_own(os.fstat(file.fileno()), stat.S_IFREG):
                return None
            content = file.read()
        if content[:_CHECKSUM_BYTES] == _checksum(digest, content[_CHECKSUM_BYTES:]):
            return content[_CHECKSUM_BYTES:]
    return None


def write(digest: str, machine_code: bytes) -> None:
    """Cache machine code under a digest; if nothing can be written, the next process compiles again."""
    with suppress(OSError), _opened_directory(create=True) as folder:
        if folder is None:
            return
        temporary = f"{digest}.{os.urandom(8).hex()}.part"
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOSE_ON_EXEC, 0o600, dir_fd=folder)
            with os.fdopen(handle, "wb") as file:
                file.write(_checksum(digest, machine_code) + machine_code)
            os.replace(temporary, _file_name(digest), src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            # The temporary file still exists only if the disk is full; every process would leave another one.
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)


_CLOSE_ON_EXEC: Final = getattr(os, "O_CLOEXEC", 0)
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
"""A pipe is opened without a writer, and refused by its kind."""

_HAS_OWNERS: Final = sys.platform != "win32" and os.open in os.supports_dir_fd
"""Whether files have owners and can be opened relative to a directory handle; without both, nothing is cached."""


@contextmanager
def _opened_directory(*, create: bool) -> Iterator[int | None]:
    """Open the cache directory; yields None if it is not this user's own."""
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
    """Whether the opened file is of the given kind, belongs to this user, and is writable by nobody else."""
    return (
        stat.S_IFMT(status.st_mode) == kind
        and status.st_uid == os.geteuid()
        and not status.st_mode & _WRITABLE_BY_OTHERS
    )


def _file_name(digest: str) -> str:
    return f"{digest}.o"


def _checksum(digest: str, machine_code: bytes) -> bytes:
    """A checksum of the machine code and its digest: detects damaged and swapped files."""
    return hashlib.sha256(digest.encode() + machine_code).digest()
