"""Files: images listed in folders, `.npy` files mapped without pickle, and files written completely or not at all.

Only ordinary files are opened: a pipe or a device might never end. Format of arrays:
https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import os
import stat
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np

from stridedgpu.exchange.exports import numpy_dtype
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import LayoutError, StridedGpuError

from .declaration import Declaration

SUFFIXES: Final = frozenset(
    (
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".apng", ".webp", ".avif"),
        *(".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm"),
    )
)
"""The suffixes of the files that are taken from folders."""

_OTHERS: Final = frozenset(
    (
        *(".heic", ".heif", ".hif", ".jxl", ".jp2", ".j2k", ".jpx", ".tga", ".psd", ".ico", ".icns", ".dds", ".pcx"),
        *(".dib", ".sgi", ".exr", ".hdr", ".pfm", ".svg", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf", ".orf"),
    )
)
"""The suffixes of images that are not read, and are named where a folder has them."""

CHUNK_BYTES: Final = 1 << 24
"""Bytes of an array that are copied and written at once: 16 MB, NumPy's own number for `.npy` files."""

_REASON_LETTERS: Final = 200

_ONE_HEADER: Final = threading.Lock()
"""Python until 3.11.8 and 3.12.2 may raise `SystemError` where two threads parse a literal (its issue 106905)."""

_HEADERS: Final = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
"""The versions of the format. A third one is for names of fields, which no array here has."""

Array = np.ndarray[Any, np.dtype[np.generic]]


class FileError(StridedGpuError):
    """A file that cannot be read or written, with the reason in one sentence."""


class ImageError(LayoutError):
    """An unusable image, with its name and the reason in one sentence: a `LayoutError` to callers of the library."""


class ImageFile(NamedTuple):
    """An image's file, and its name: relative to the given folder, or the file's own."""

    path: Path
    name: str


def find_images(paths: Iterable[Path]) -> list[ImageFile]:
    """The images that `paths` name: a file as itself, a folder as the image files in it and below, by name."""
    images: list[ImageFile] = []
    for path in paths:
        if path.is_dir():
            images += (ImageFile(path / name, name) for name in image_names(path))
        elif path.is_file():
            images.append(ImageFile(path, path.name))
        elif path.exists():
            raise ImageError(f"{str(path)!r} is not an ordinary file; save the image to one first.")
        else:
            raise ImageError(f"there is no file or folder {str(path)!r}.")
    return images


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

    Images of other formats are counted in a warning of the logger "stridedgpu" at the end. Raises `ImageError` if there
    are none, and for a directory that cannot be read.
    """
    others: Counter[str] = Counter()
    names = _names_below(str(folder), "", others)
    first = next(names, None)
    read = f"files that end in {', '.join(sorted(SUFFIXES))} are read"
    if first is None:
        rest = f", and not its {_counted(others)}" if others else ""
        raise ImageError(f"folder {str(folder)!r} holds no images; {read}{rest}.")
    yield first
    yield from names
    if others:
        import logging

        logging.getLogger("stridedgpu").warning("folder %r: %s left out; %s.", str(folder), _counted(others), read)


def _counted(suffixes: Counter[str]) -> str:
    """How many files have each suffix.

    >>> _counted(Counter({".tga": 3, ".heic": 12}))
    '12 of .heic, 3 of .tga'
    """
    return ", ".join(f"{count} of {suffix}" for suffix, count in suffixes.most_common())


def _names_below(folder: str, prefix: str, others: Counter[str]) -> Iterator[str]:
    """The names of the images below a folder; images of other formats are added to `others` by their suffix."""
    try:
        with os.scandir(folder) as entries:
            wanted = sorted((entry.name, _is_folder(entry)) for entry in entries if _is_wanted(entry, others))
    except OSError as problem:
        raise ImageError(f"folder {folder!r} cannot be read: {problem.strerror or problem}.") from None
    for name, is_folder in wanted:
        if is_folder:
            yield from _names_below(f"{folder}{os.sep}{name}", f"{prefix}{name}/", others)
        else:
            yield prefix + name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)  # a linked folder could lead back here


def _is_wanted(entry: os.DirEntry[str], others: Counter[str]) -> bool:
    """True for a folder to descend into, or an image's file; other images are added to `others`."""
    if entry.name.startswith("."):
        return False
    if _is_folder(entry):
        return True
    suffix = PurePath(entry.name).suffix.lower()
    if suffix in _OTHERS:
        others[suffix] += 1
    try:
        return suffix in SUFFIXES and entry.is_file()
    except OSError:  # a link that leads to itself
        return False


def opened_file(path: Path, content: str, buffering: int = -1) -> BinaryIO:
    """The ordinary file at `path`, opened to be read; `content` is what it holds, for messages.

    Raises `FileError` for a pipe or a device, for whose writer nobody waits, and `OSError`.
    """
    no_wait = getattr(os, "O_NONBLOCK", 0)
    file = open(path, "rb", buffering, opener=lambda name, flags: os.open(name, flags | no_wait))  # noqa: SIM115 - `Path.open` has no opener
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise FileError(f"{str(path)!r} is not an ordinary file; save the {content} to one first.")


def read_array(path: Path) -> Array:
    """The array in the `.npy` file at `path`, mapped read-only: no byte is copied and nothing is unpickled.

    Raises `FileError` for anything else.
    """
    try:
        with opened_file(path, "array") as file:
            return _mapped(file)
    except FileError:
        raise
    except OSError as problem:
        raise FileError(f"{str(path)!r} cannot be read: {problem.strerror or problem}.") from None
    except Exception as problem:  # noqa: BLE001 - damaged headers make NumPy's reader raise errors of any type
        # NumPy's first line; the next ones recommend to trust the file. A header in it may be thousands of letters.
        reason = str(problem).partition("\n")[0].rstrip(".")[:_REASON_LETTERS] or type(problem).__name__
        raise FileError(f"{str(path)!r} is not a readable .npy file: {reason}.") from None


def _mapped(file: BinaryIO) -> Array:
    """The array of an opened `.npy` file, as `numpy.lib.format.open_memmap` maps that of a path."""
    with _ONE_HEADER:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"its format has version {version}, and versions (1, 0) and (2, 0) are read")
        sizes, is_fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError("it holds Python's objects")
    return np.memmap(file, dtype, "r", file.tell(), sizes, "F" if is_fortran else "C")


def write_array(file: BinaryIO, array: Array) -> None:
    """Write `array` to `file` in the `.npy` format, in C order for any strides, without pickle or a whole copy."""
    _write_header(file, array.dtype, array.shape)
    write_elements(file, array)


def write_header(file: BinaryIO, step: Declaration, shape: tuple[int, ...]) -> None:
    """Write the `.npy` header of a step's results. NumPy leaves room for the first size to grow: it can be replaced."""
    file.seek(0)
    _write_header(file, numpy_dtype(element_type(step.dtype)), shape)


def _write_header(file: BinaryIO, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> None:
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


def write_elements(file: BinaryIO, array: Array) -> None:
    """Write the elements of `array` in C order, some megabytes at a time.

    `ndarray.tofile` would lose the operating system's reason when a write fails.
    """
    chunks = np.nditer(
        array,
        flags=["external_loop", "buffered", "zerosize_ok"],
        buffersize=max(1, CHUNK_BYTES // array.itemsize),
        order="C",
    )
    file.writelines(np.ascontiguousarray(chunk).view(np.uint8).data for chunk in chunks)


def check_writable(path: Path) -> None:
    """Raise `FileError` if a file at `path` cannot be written; called before any work is done for it."""
    if path.is_dir():
        raise FileError(f"{str(path)!r} is a folder; give the name of a file, such as {str(path / 'batch.npy')!r}.")
    if path.exists() and not path.is_file():
        raise FileError(f"{str(path)!r} is not an ordinary file and would be replaced by one; give another name.")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileError(f"{str(path)!r} cannot be written: there is no folder {str(folder)!r}.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(f"{str(path)!r} cannot be written: the folder {str(folder)!r} allows no new files.")


@contextmanager
def replacement(path: Path, *, follow_link: bool = True) -> Iterator[BinaryIO]:
    """A file that replaces `path` when the block ends, and is removed if the block raises.

    If `path` is a link, the linked file is replaced. With `follow_link=False` the link itself is, for generated names
    in a folder where others may have put links.

    Raises `FileError` if `path` cannot be written; whatever was at `path` stays unchanged.
    """
    try:
        check_writable(path)
        target = path.resolve() if follow_link else path.parent.resolve() / path.name
        hidden = target.with_name(f".{os.urandom(8).hex()}.part")
        descriptor, unnamed = _open_new(hidden)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(descriptor)
                if unnamed:
                    # Python calls linkat, which follows the link to the open file, only when given a src_dir_fd.
                    os.link(f"/proc/self/fd/{descriptor}", hidden, src_dir_fd=descriptor, follow_symlinks=True)
            hidden.replace(target)
        except BaseException:
            with suppress(FileNotFoundError):
                hidden.unlink()
            raise
    except OSError as problem:
        raise FileError(f"{str(path)!r} cannot be written: {problem.strerror or problem}.") from None


def _open_new(hidden: Path) -> tuple[int, bool]:
    """A descriptor of a new file in the folder of `hidden`, and whether it has no name yet.

    An unnamed file (Linux, O_TMPFILE) disappears with its process, even if that is killed. If the file system does not
    support it, the file has the name `hidden` from the start.
    """
    if hasattr(os, "O_TMPFILE") and Path("/proc/self/fd").is_dir():
        with suppress(OSError):
            return os.open(hidden.parent, os.O_WRONLY | os.O_TMPFILE, 0o666), True
    return os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), False
