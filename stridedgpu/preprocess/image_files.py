"""Files of images: listed in folders, in order of names, one directory in memory at a time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from stridedgpu.values.errors import StridedGpuError

__all__ = ["SUFFIXES", "ImageError", "ImageFile", "find_images", "image_names", "sample_keys"]

SUFFIXES: Final = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"))
"""The suffixes of the files that are taken from folders."""


class ImageError(StridedGpuError):
    """An unusable image, with its name and the reason in one sentence."""


class ImageFile(NamedTuple):
    """An image's file, and its name: relative to the given folder, or the file's own."""

    path: Path
    name: str


def find_images(given: Iterable[Path]) -> list[ImageFile]:
    """The images that `given` names: a file as itself, a folder as the image files in it and below, by name."""
    found: list[ImageFile] = []
    for path in given:
        if path.is_dir():
            found += (ImageFile(path / name, name) for name in image_names(path))
        elif path.is_file():
            found.append(ImageFile(path, path.name))
        elif path.exists():  # reading a pipe or a device might never end
            raise ImageError(f"{str(path)!r} is not an ordinary file; save the picture to one first.")
        else:
            raise ImageError(f"there is no file or folder {str(path)!r}.")
    return found


def sample_keys(names: Iterable[str]) -> Iterator[str]:
    """A key for each image: its name, with a number added to repeated names.

    >>> list(sample_keys(["cat.png", "dog.png", "cat.png"]))
    ['cat.png', 'dog.png', 'cat.png 2']
    """
    seen: Counter[str] = Counter()
    for name in names:
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name} {seen[name]}"


def image_names(folder: Path) -> Iterator[str]:
    """The images in a folder and below: their relative paths, with "/", in order. One directory is in memory at a time.

    Raises `ImageError` if there are none, and for a directory that cannot be read.
    """
    names = _names_below(str(folder), "")
    first = next(names, None)
    if first is None:
        raise ImageError(
            f"folder {str(folder)!r} holds no pictures; files that end in {', '.join(sorted(SUFFIXES))} are read."
        )
    yield first
    yield from names


def _names_below(folder: str, prefix: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, _is_folder(entry)) for entry in entries if _is_wanted(entry))
    except OSError as problem:
        raise ImageError(f"folder {folder!r} cannot be read: {problem.strerror or problem}.") from None
    for name, is_folder in found:
        if is_folder:
            yield from _names_below(f"{folder}{os.sep}{name}", f"{prefix}{name}/")
        else:
            yield prefix + name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)  # a linked folder could lead back here


def _is_wanted(entry: os.DirEntry[str]) -> bool:
    """True for a folder to descend into, or an image's file."""
    if entry.name.startswith("."):
        return False
    if _is_folder(entry):
        return True
    try:
        return PurePath(entry.name).suffix.lower() in SUFFIXES and entry.is_file()
    except OSError:  # a link that leads to itself
        return False
