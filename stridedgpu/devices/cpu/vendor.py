"""Who made this processor: some instructions are quick on one make, and slow on another."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

__all__ = ["is_amd"]

_PROCESSORS: Final = "/proc/cpuinfo"
"""Where Linux describes the processors, the first one first."""

_ENOUGH: Final = 256
"""Characters of it that hold the vendor, its second line."""


@lru_cache(maxsize=1)
def is_amd() -> bool:
    """True if Linux says that AMD made this processor; False also where nothing says who did.

    >>> is_amd() in (True, False)
    True
    """
    try:
        with open(_PROCESSORS, encoding="ascii") as file:  # noqa: PTH123 - importing `Path` takes 4 ms
            return "AuthenticAMD" in file.read(_ENOUGH)
    except (OSError, UnicodeDecodeError):
        return False
