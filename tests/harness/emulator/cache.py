"""Where compiled programs and what was read from machine code are kept between runs."""

from __future__ import annotations

import os
import pathlib
import stat
import tempfile


def cache_directory() -> pathlib.Path:
    """A folder that only this user reads and writes; `STRIDEDGPU_EMULATION_CACHE` names another place.

    Programs from it are run. Raises `PermissionError` where the folder is another user's, or others may write there.
    """
    named = os.environ.get("STRIDEDGPU_EMULATION_CACHE")
    directory = pathlib.Path(named or f"{tempfile.gettempdir()}/stridedgpu-emulation-{os.getuid()}")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.stat(follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(
            f"{directory} is a link, belongs to another user, or others may write there; programs would be run from "
            "it. Remove it, or name a folder of your own in STRIDEDGPU_EMULATION_CACHE."
        )
    return directory
