"""The order of the passes where a call names none, and the warning where the installed Pillow has another order."""

from __future__ import annotations

import sys
import warnings
from functools import cache
from typing import Final

from stridedgpu.values.interpolation import Interpolation, Passes

__all__ = ["DEFAULT_PASSES", "warn_of_other_passes"]

DEFAULT_PASSES: Final[Passes] = "horizontal"
"""The order of Pillow up to 12, in which most networks saw their images."""

_FIRST_OF_OTHER_PASSES: Final = 13
"""The first version of Pillow that chooses the first pass by the sizes."""


def warn_of_other_passes(interpolation: Interpolation) -> None:
    """Warn, once a process, if the default order is not that of the installed Pillow for this interpolation."""
    if interpolation.is_pillow and not interpolation.is_nearest:
        _warn()


@cache
def _warn() -> None:
    """Warn if the installed Pillow has another order. Cached, so that Pillow is looked for once."""
    version = _pillow_version()
    if version is None or not _is_later(version):
        return
    warnings.warn(
        f"passes=None is passes={DEFAULT_PASSES!r}, the order of Pillow up to 12. Pillow {version} is installed, which "
        "takes the rows first where the height shrinks by more than twice as many pixels as the width: "
        f"passes='pillow-13' has its pixels, and passes={DEFAULT_PASSES!r} these without this warning.",
        stacklevel=_level_of_the_caller(),
    )


def _pillow_version() -> str | None:
    """The version of Pillow, which is not imported; None where it is not installed."""
    imported: str | None = getattr(sys.modules.get("PIL"), "__version__", None)
    if imported is not None:
        return imported
    from importlib import metadata

    try:
        return metadata.version("pillow")
    except metadata.PackageNotFoundError:
        return None


def _is_later(version: str) -> bool:
    """Whether a version chooses the first pass by the sizes."""
    major = version.partition(".")[0]
    return major.isdecimal() and int(major) >= _FIRST_OF_OTHER_PASSES


def _level_of_the_caller() -> int:
    """The `stacklevel` in `_warn` of the first frame outside this package, as `skip_file_prefixes` of Python 3.12."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("stridedgpu."):
        level, frame = level + 1, frame.f_back
    return level
