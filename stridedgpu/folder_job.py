"""A folder of pictures into shards, each a `.npy` file: more than memory holds, and finished by a second run.

A shard has no name until it is whole; then its record is written (`.json`: which picture each row is, which pictures
failed, and why). A shard with a record is done, and a run does the others. The manifest holds the pictures and the
declaration that all shards are made of, so that a later run cannot mix others in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from .backends.threads import usable_cores
from .dtypes import element_type
from .errors import StridedGpuError
from .images import Frame, PictureError, centre_crop, find_pictures, load_frame
from .interop import numpy_dtype
from .npy import replacement, write_elements
from .preprocess import Preprocess

__all__ = ["FolderJob", "FolderJobError", "ShardRecord", "missing_shards", "read_record", "start", "write_shard"]

_PICTURES_AT_ONCE: Final = 32
"""Pictures of a batch: decoded together, written together, and all that is in memory."""


class FolderJobError(StridedGpuError):
    """A job that does not fit what is in the folder already, or an engine that cannot be had."""


@dataclass(frozen=True)
class FolderJob:
    """What shall be made of which folder: as a value, which goes to any worker.

    `step` crops the middle of each picture and has its rows in front; `resize` scales the shorter side, in pixels,
    first. Every worker reaches `folder` and `out` by the same paths.
    """

    folder: Path
    out: Path
    shards: int
    step: Preprocess
    resize: int | None = None

    def shard(self, number: int) -> Path:
        """The file of a shard."""
        return self.out / f"shard-{number:05}-of-{self.shards:05}.npy"

    def pictures_of(self, number: int, pictures: Sequence[str]) -> Sequence[str]:
        """The pictures of a shard, which are neighbours in the order of names."""
        return pictures[number * len(pictures) // self.shards : (number + 1) * len(pictures) // self.shards]

    @property
    def manifest(self) -> Path:
        """The file that says what the shards are made of."""
        return self.out / "manifest.json"


@dataclass(frozen=True)
class ShardRecord:
    """What is in a shard: the picture of each row, the pictures that failed and why, and bytes read and written."""

    shard: int
    pictures: list[str]
    failures: dict[str, str]
    bytes_read: int
    bytes_written: int


def start(job: FolderJob) -> list[str]:
    """The job's pictures, by names inside its folder; the manifest is written, or compared where there is one.

    Raises `FolderJobError` where the shards that are there were made of other pictures or in another way.
    """
    pictures = [str(path.relative_to(job.folder)) for path in find_pictures([job.folder])]
    wanted = {"step": repr(job.step), "resize": job.resize, "shards": job.shards, "pictures": pictures}
    if not job.manifest.exists():
        job.out.mkdir(parents=True, exist_ok=True)
        _write_json(job.manifest, wanted)
        return pictures
    held = json.loads(job.manifest.read_text())
    for name, value in wanted.items():
        if held.get(name) != value:
            said = "" if name == "pictures" else f" ({held.get(name)!r}, now {value!r})"
            raise FolderJobError(
                f"{str(job.out)!r} holds shards of other {name}{said}: give a new --out, or what it began with."
            )
    return pictures


def missing_shards(job: FolderJob) -> list[int]:
    """The shards that are still to be made."""
    return [number for number in range(job.shards) if not _record_path(job, number).exists()]


def write_shard(
    job: FolderJob,
    number: int,
    pictures: Sequence[str],
    threads: int | None = None,
    done: Callable[[], None] = lambda: None,
) -> ShardRecord:
    """Decode, crop and write one shard, a batch at a time, and then its record; `done` is called after each picture.

    Decoding is done by so many threads (None: one for each core), one batch ahead of the writing.
    """
    kept: list[str] = []
    failures: dict[str, str] = {}
    bytes_read = 0
    with (
        ThreadPoolExecutor(usable_cores() if threads is None else threads) as pool,
        replacement(job.shard(number)) as file,
    ):
        _write_header(file, job.step, 0)
        for names, frames in _decoded(job, pictures, pool):
            good = [(name, frame) for name, frame in zip(names, frames, strict=True) if not isinstance(frame, str)]
            failures.update({name: frame for name, frame in zip(names, frames, strict=True) if isinstance(frame, str)})
            if good:
                made = job.step({job.step.column: [frame for _, frame in good]})
                write_elements(file, made[job.step.column])
            kept += [name for name, _ in good]
            bytes_read += sum((job.folder / name).stat().st_size for name in names)
            for _ in names:
                done()
        bytes_written = file.tell()
        _write_header(file, job.step, len(kept))
    record = ShardRecord(number, kept, failures, bytes_read, bytes_written)
    _write_json(_record_path(job, number), asdict(record))
    return record


def read_record(job: FolderJob, number: int) -> ShardRecord:
    """The record of a shard that is done."""
    return ShardRecord(**json.loads(_record_path(job, number).read_text()))


def _decoded(
    job: FolderJob, pictures: Sequence[str], pool: ThreadPoolExecutor
) -> Iterator[tuple[Sequence[str], list[Frame | str]]]:
    """Batches of names and of frames, or of reasons why there is none; the next batch is decoded meanwhile."""
    batches = [pictures[first : first + _PICTURES_AT_ONCE] for first in range(0, len(pictures), _PICTURES_AT_ONCE)]
    ahead = [pool.submit(_frame, job, name) for name in (batches[0] if batches else ())]
    for place, names in enumerate(batches):
        current = ahead
        following = batches[place + 1] if place + 1 < len(batches) else ()
        ahead = [pool.submit(_frame, job, name) for name in following]
        yield names, [waiting.result() for waiting in current]


def _frame(job: FolderJob, name: str) -> Frame | str:
    """The middle of one picture, or why it cannot be had."""
    path = job.folder / name
    try:
        frame = load_frame(path, job.resize)
        rows, columns = centre_crop(frame, job.step.crop, path)
    except PictureError as problem:
        return str(problem)
    return frame[rows, columns]


def _write_header(file: BinaryIO, step: Preprocess, count: int) -> None:
    """The `.npy` header for so many pictures: NumPy leaves room for the first size to grow, so it can be replaced."""
    sizes = {"N": count, "C": step.channel_count or 3, "H": step.crop[0], "W": step.crop[1]}
    descr = np.lib.format.dtype_to_descr(numpy_dtype(element_type(step.dtype)))
    shape = tuple(sizes[letter] for letter in step.layout)
    file.seek(0)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


def _record_path(job: FolderJob, number: int) -> Path:
    return job.shard(number).with_suffix(".json")


def _write_json(path: Path, value: dict[str, Any]) -> None:
    with replacement(path) as file:
        file.write(json.dumps(value, indent=1).encode())
