"""Where compiled programs and what was read from machine code are kept between runs."""

from __future__ import annotations

import os
import pathlib
import tempfile


def cache_directory() -> pathlib.Path:
    """A folder that only this user reads and writes; `STRIDEDGPU_EMULATION_CACHE` names another place."""
    named = os.environ.get("STRIDEDGPU_EMULATION_CACHE")
    directory = pathlib.Path(named or f"{tempfile.gettempdir()}/stridedgpu-emulation-{os.getuid()}")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory
