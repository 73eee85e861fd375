"""Formats of shards: rows are appended as they are made, and a shard is one file, or one folder for zarr.

| format | what a row is | reads it |
|---|---|---|
| npy | a row of one array | NumPy, mapped |
| webdataset | three members of a tar file: `.npy`, `.json` with name and label, `.cls` with the label | webdataset |
| safetensors | a row of the tensor `image`, and of `label` | safetensors, mapped |
| zarr | a row of the array `image`, and of `label`, in chunks of some rows | zarr 3 |

A label is that of a file of labels, or the number of an image's topmost folder, in order of their names; images that
lie in no folder have none then. The members of a row have the image's number among all images of the job as their stem.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import numpy as np

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.exchange.exports import numpy_dtype
from stridedgpu.preprocess.files import FileError, replacement, write_array, write_elements, write_header
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.values.dtypes import element_type

SUFFIXES: Final = {"npy": ".npy", "webdataset": ".tar", "safetensors": ".safetensors", "zarr": ".zarr"}
"""The formats, and what their shards' names end in."""

_HEADER_BYTES: Final = 1024
"""Room for a safetensors header, which begins the file and is known when it ends."""

_ZARR_CHUNK_ROWS: Final = 32


@dataclass(frozen=True)
class Row:
    """A row's image: its name in the folder, its label, and its number among all images of the job."""

    name: str
    label: int | None
    number: int


class ShardWriter(Protocol):
    """A shard that is being written."""

    def add(self, images: StridedTensor, rows: Sequence[Row]) -> None:
        """Append the next results of the step, and what they are of."""

    def finish(self) -> int:
        """Complete the shard; returns its size in bytes."""


@contextmanager
def shard_writer(kind: str, path: Path, step: Preprocess[Any]) -> Iterator[ShardWriter]:
    """A shard at `path`, which has its name when the block ends, and is removed if the block raises.

    Raises `FileError` where it cannot be written, or zarr is not installed.
    """
    if kind == "zarr":
        with _replacement_folder(path) as folder:
            yield _Zarr(folder, step)
    else:
        with replacement(path, follow_link=False) as file:
            yield _WRITERS[kind](file, step)


def sizes_of_row(step: Preprocess[Any]) -> dict[str, int]:
    """The sizes of a result of the command's step, by axis: C, H and W."""
    assert step.window is not None, "the command line declares --size"
    return dict(zip("CHW", (step.channel_count or 3, *step.window), strict=True))


def _row_shape(step: Preprocess[Any]) -> tuple[int, ...]:
    sizes = sizes_of_row(step)
    return tuple(sizes[letter] for letter in step.layout[1:])


class Npy:
    """One array, whose header is replaced when the number of its rows is known."""

    def __init__(self, file: BinaryIO, step: Preprocess[Any]) -> None:
        self._file, self._step, self._count = file, step, 0
        write_header(file, step, (0, *_row_shape(step)))

    def add(self, images: StridedTensor, _rows: Sequence[Row]) -> None:
        """Append results, with their axes in the order of the step's layout."""
        write_elements(self._file, self._step._worker.array(images))
        self._count += images.sizes[0]

    def finish(self) -> int:
        """Write the header; returns the size of the file in bytes."""
        size = self._file.tell()
        write_header(self._file, self._step, (self._count, *_row_shape(self._step)))
        return size


class _WebDataset:
    """A tar file of small files, three a row, whose common stem is the key of the row in all shards together."""

    def __init__(self, file: BinaryIO, step: Preprocess[Any]) -> None:
        self._file, self._step = file, step
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115 - closed in finish

    def add(self, images: StridedTensor, rows: Sequence[Row]) -> None:
        for image, row in zip(self._step._worker.array(images), rows, strict=True):
            encoded = BytesIO()
            write_array(encoded, image)
            self._member(row, "npy", encoded.getvalue())
            self._member(row, "json", json.dumps({"name": row.name, "label": row.label}).encode())
            if row.label is not None:
                self._member(row, "cls", b"%d" % row.label)

    def finish(self) -> int:
        self._tar.close()
        return self._file.tell()

    def _member(self, row: Row, extension: str, content: bytes) -> None:
        entry = tarfile.TarInfo(f"{row.number:08}.{extension}")
        entry.size = len(content)
        self._tar.addfile(entry, BytesIO(content))


class _Safetensors:
    """The format of https://huggingface.co/docs/safetensors: its size, a JSON header, and the tensors' bytes.

    The library writes whole tensors; this one grows row by row, and its header is replaced at the end.
    """

    def __init__(self, file: BinaryIO, step: Preprocess[Any]) -> None:
        self._file, self._step = file, step
        self._labels: list[int] = []
        file.write(bytes(_HEADER_BYTES))

    def add(self, images: StridedTensor, rows: Sequence[Row]) -> None:
        write_elements(self._file, self._step._worker.array(images))
        self._labels += _numbers(rows)

    def finish(self) -> int:
        end, count = self._file.tell() - _HEADER_BYTES, len(self._labels)
        self._file.write(np.array(self._labels, "<i8").tobytes())
        size = self._file.tell()
        dtype = numpy_dtype(element_type(self._step.dtype))
        name = "BF16" if self._step.dtype == "bfloat16" else f"{dtype.kind.upper()}{8 * dtype.itemsize}"
        shape = [count, *_row_shape(self._step)]
        image = {"dtype": name, "shape": shape, "data_offsets": [0, end]}
        label = {"dtype": "I64", "shape": [count], "data_offsets": [end, end + 8 * count]}
        header = json.dumps({"image": image, "label": label}).encode().ljust(_HEADER_BYTES - 8)
        self._file.seek(0)
        self._file.write(len(header).to_bytes(8, "little") + header)
        return size


class _Zarr:
    """A group of two arrays, by zarr itself."""

    def __init__(self, folder: Path, step: Preprocess[Any]) -> None:
        try:
            import zarr
        except ModuleNotFoundError:
            raise FileError(
                'shards in zarr need zarr, which is not installed: pip install "stridedgpu[shards]".'
            ) from None
        group = zarr.create_group(folder)
        shape, dtype = _row_shape(step), numpy_dtype(element_type(step.dtype))
        self._images = group.create_array("image", shape=(0, *shape), chunks=(_ZARR_CHUNK_ROWS, *shape), dtype=dtype)
        self._labels = group.create_array("label", shape=(0,), chunks=(1 << 16,), dtype="int64")
        self._folder, self._step = folder, step

    def add(self, images: StridedTensor, rows: Sequence[Row]) -> None:
        self._images.append(self._step._worker.array(images))
        self._labels.append(np.array(_numbers(rows), np.int64))

    def finish(self) -> int:
        return sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())


def _numbers(rows: Sequence[Row]) -> list[int]:
    """The labels, -1 for images without one."""
    return [-1 if row.label is None else row.label for row in rows]


_WRITERS: Final[dict[str, type[Npy | _WebDataset | _Safetensors]]] = {
    "npy": Npy,
    "webdataset": _WebDataset,
    "safetensors": _Safetensors,
}


@contextmanager
def _replacement_folder(path: Path) -> Iterator[Path]:
    """A hidden folder that takes the place of `path` when the block ends, and is removed if the block raises."""
    hidden = path.with_name(f".{path.name}.part")
    shutil.rmtree(hidden, ignore_errors=True)  # of a run that was killed
    try:
        hidden.mkdir()
        yield hidden
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.exists():
            shutil.rmtree(path)
        hidden.rename(path)
    except OSError as problem:
        raise FileError(f"{str(path)!r} cannot be written: {problem.strerror or problem}.") from None
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
