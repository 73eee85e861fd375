"""The CUDA sources as text for the compiler: a kernel and every header it includes, joined into one.

CuPy's cache of native kernels hashes the source text, but not the headers it includes: a changed header would leave a
stale kernel in use. The joined text therefore includes no file.
"""

from __future__ import annotations

import importlib.resources
import pathlib
import re
from collections.abc import Mapping
from importlib.resources.abc import Traversable

from stridedgpu.values.errors import DeviceError

_INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')
_PRAGMA_ONCE = re.compile(r"\s*#\s*pragma\s+once\b")


def joined_source(*names: str) -> str:
    """The text of the named sources, in this order, and of each header they include before its first use.

    `#line` directives keep the compiler's messages at the file and line that were written. Raises `DeviceError` for a
    source that is missing, because the installation left the CUDA sources out.

    >>> text = joined_source("indexing.cuh")
    >>> "struct Axes" in text, "#include" in text
    (True, False)
    """
    lines: list[str] = []
    seen: set[str] = set()
    sources = _sources()
    for name in names:
        _append(name, sources, lines, seen)
    return "\n".join(lines) + "\n"


def source_names() -> tuple[str, ...]:
    """The file names of all CUDA sources, sorted. Raises `DeviceError` if there are none."""
    return tuple(sorted(_sources()))


def _append(name: str, sources: Mapping[str, Traversable], lines: list[str], seen: set[str]) -> None:
    """Append a source to the lines, with its headers in place of their includes, unless it is there already."""
    if name in seen:
        return
    seen.add(name)
    lines.append(f'#line 1 "{name}"')
    for number, line in enumerate(_read(name, sources).splitlines(), start=1):
        include = _INCLUDE.match(line)
        if include:
            _append(include[1], sources, lines, seen)
            lines.append(f'#line {number + 1} "{name}"')
        else:
            lines.append("" if _PRAGMA_ONCE.match(line) else line)


def _read(name: str, sources: Mapping[str, Traversable]) -> str:
    source = sources.get(name)
    if source is None:
        raise DeviceError(
            f"The CUDA source {name!r} is not among {', '.join(sorted(sources))}. "
            "Reinstall stridedgpu from a complete wheel or source tree."
        )
    return source.read_text(encoding="utf-8")


def _sources() -> dict[str, Traversable]:
    """Every source by its file name; names are unique across the folders.

    They are inside the installed package, or beside it in a checkout or editable install.
    """
    package = importlib.resources.files("stridedgpu")
    candidates = [package.joinpath("kernels")]
    if isinstance(package, pathlib.Path):
        candidates.append(package.parent / "kernels")
    for candidate in candidates:
        if candidate.joinpath("include").is_dir():
            folders = [folder for folder in candidate.iterdir() if folder.is_dir()]
            entries = [entry for folder in folders for entry in folder.iterdir()]
            return {entry.name: entry for entry in entries if entry.name.endswith((".cu", ".cuh"))}
    looked = " and ".join(str(candidate) for candidate in candidates)
    raise DeviceError(
        f"The CUDA kernel sources (*.cu, *.cuh) are not installed; looked in {looked}. "
        "Reinstall stridedgpu from a complete wheel or source tree."
    )
