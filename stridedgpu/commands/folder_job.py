"""A folder of images into shards, each a `.npy` file: larger than memory, and resumed by a second run.

A shard has no name until it is whole; then its record is written (`.json`: which picture each row is, which pictures
failed, and why). A shard with a record is done, and a run does the others. The pictures are listed in a file once, in
order, and each shard takes a part of it: what a process holds does not grow with their number. The manifest holds the
declaration that all shards are made of and the decoder's versions, so that a later run or another worker cannot mix
others in; the version of stridedgpu is that which began, and is not compared: its bits do not change with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from stridedgpu import __version__
from stridedgpu.devices.cpu.thread_count import usable_cores
from stridedgpu.exchange.exports import numpy_dtype
from stridedgpu.preprocess.decoding import Decoder, Pixels, quiet_decoders
from stridedgpu.preprocess.image_files import ImageError, image_names
from stridedgpu.preprocess.npy import replacement, write_elements
from stridedgpu.preprocess.sample_keys import draw
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import StridedGpuError

from .images import INTERPOLATION, PASSES, load_frame, window_origin

__all__ = [
    "FolderJob",
    "FolderJobError",
    "Shard",
    "ShardRecord",
    "missing_shards",
    "read_record",
    "start",
    "write_shard",
]

_IMAGES_AT_ONCE: Final = 32
"""Images of a batch, whose windows are decoded together and written together; two batches are in memory at once."""


class FolderJobError(StridedGpuError):
    """A job that does not match the shards in the folder, or an unavailable engine."""


@dataclass(frozen=True)
class FolderJob:
    """A folder's job as a value that can be sent to any worker.

    `step` has its rows in front, and its `crop` is the windows' size. `resize` first scales the shorter side, in
    pixels. The window is the middle one, or with `random_crop` drawn from the step's seed and the image's name. Every
    worker reaches `folder` and `out` by the same paths.
    """

    folder: Path
    out: Path
    shards: int
    step: Preprocess
    resize: int | None = None
    random_crop: bool = False

    def path(self, shard: int) -> Path:
        """The file of a shard."""
        return self.out / f"shard-{shard:05}-of-{self.shards:05}.npy"

    @property
    def manifest(self) -> Path:
        """The file with the declaration of the shards."""
        return self.out / "manifest.json"

    @property
    def listing(self) -> Path:
        """The file of the images' names inside the folder, each a JSON string on a line."""
        return self.out / "pictures.jsonl"


@dataclass(frozen=True)
class Shard:
    """A part of the images, consecutive in order: their count, and where in the listing they begin, in bytes."""

    number: int
    count: int
    start: int


@dataclass(frozen=True)
class ShardRecord:
    """A shard's contents: the image of each row, the images that failed and why, and bytes read and written."""

    shard: int
    pictures: list[str]
    failures: dict[str, str]
    bytes_read: int
    bytes_written: int


def start(job: FolderJob) -> list[Shard]:
    """The job's shards. Writes listing and manifest, or compares them if there are shards already.

    The device makes no difference to the bits, and may be another. Raises `FolderJobError` where the shards that are
    there were made of other pictures, in another way or by another decoder.
    """
    wanted = {
        "step": repr(replace(job.step, device="auto")),
        "resize": job.resize,
        "random_crop": job.random_crop,
        "shards": job.shards,
        "size": list(job.step.crop),
        "interpolation": INTERPOLATION if job.resize is not None else None,
        "passes": PASSES if job.resize is not None else None,
        "decoder": Decoder().version,
    }
    if job.manifest.exists() and any(job.out.glob("shard-*")):
        _check_manifest(job, wanted)
        return _parts(job, _check_listing(job))
    names = image_names(job.folder)
    first = next(names)
    job.out.mkdir(parents=True, exist_ok=True)
    with replacement(job.listing, follow_link=False) as file:
        count = 1
        file.write(_line(first))
        for name in names:
            file.write(_line(name))
            count += 1
    _write_json(job.manifest, {**wanted, "stridedgpu": __version__})
    return _parts(job, count)


def missing_shards(job: FolderJob, shards: Sequence[Shard]) -> list[Shard]:
    """The shards without a record."""
    return [
        shard for shard in shards if not (_record_path(job, shard.number).exists() and job.path(shard.number).exists())
    ]


def write_shard(
    job: FolderJob, shard: Shard, threads: int | None = None, done: Callable[[], None] = lambda: None
) -> ShardRecord:
    """Decode, crop and write one shard, a batch at a time, and then its record; `done` is called after each image.

    Decoding is done by so many threads (None: one for each core), one batch ahead of the writing. Raises
    `FolderJobError` where this process has another decoder than the one that began.
    """
    _check_manifest(job, {"decoder": Decoder().version})
    kept: list[str] = []
    failures: dict[str, str] = {}
    bytes_read = 0
    with (
        quiet_decoders(),
        ThreadPoolExecutor(usable_cores() if threads is None else threads) as pool,
        replacement(job.path(shard.number), follow_link=False) as file,
    ):
        _write_header(file, job.step, 0)
        for batch in _decoded(job, shard, pool):
            good = {entry.name: entry.window for entry in batch if entry.window is not None}
            failures.update({entry.name: entry.failure for entry in batch if entry.failure is not None})
            if good:
                made = job.step({job.step.column: list(good.values())}, list(good))
                write_elements(file, made[job.step.column])
            kept += good
            bytes_read += sum(entry.nbytes for entry in batch)
            for _ in batch:
                done()
        bytes_written = file.tell()
        _write_header(file, job.step, len(kept))
    record = ShardRecord(shard.number, kept, failures, bytes_read, bytes_written)
    _write_json(_record_path(job, shard.number), asdict(record))
    return record


def read_record(job: FolderJob, number: int) -> ShardRecord:
    """The record of a finished shard. Raises `FolderJobError` if the file is not a record."""
    path = _record_path(job, number)
    try:
        return ShardRecord(**json.loads(path.read_text()))
    except (ValueError, TypeError, RecursionError):
        raise FolderJobError(f"{str(path)!r} is not the record of a shard: remove it, and run the job again.") from None


@dataclass(frozen=True)
class _Decoded:
    """One image: the pixels of its window, or why there are none; and the bytes of its file."""

    name: str
    window: Pixels | None
    failure: str | None
    nbytes: int


def _decoded(job: FolderJob, shard: Shard, pool: ThreadPoolExecutor) -> Iterator[list[_Decoded]]:
    """The shard's images in batches; while one batch is processed, the next is decoded."""
    ahead: list[Future[_Decoded]] = []
    with job.listing.open("rb") as listing:
        listing.seek(shard.start)
        names = (json.loads(line) for line in islice(listing, shard.count))
        while (batch := [pool.submit(_decode, job, name) for name in islice(names, _IMAGES_AT_ONCE)]) or ahead:
            if ahead:
                yield [waiting.result() for waiting in ahead]
            ahead = batch


def _decode(job: FolderJob, name: str) -> _Decoded:
    """Decode one image. Its window is copied, so that a photograph's other pixels do not stay in memory."""
    path, nbytes = job.folder / name, 0
    drawn = draw(job.step.seed, name) if job.random_crop and job.step.seed is not None else None
    try:
        with suppress(OSError):  # the decoder reports a missing file
            nbytes = path.stat().st_size
        frame = load_frame(path, job.resize)
        (top, left), (height, width) = window_origin(frame, job.step.crop, path, drawn), job.step.crop
    except ImageError as problem:
        return _Decoded(name, None, str(problem), nbytes)
    return _Decoded(name, frame[top : top + height, left : left + width].copy(), None, nbytes)


def _check_manifest(job: FolderJob, wanted: dict[str, Any]) -> None:
    """Raise `FolderJobError` unless the existing manifest equals the wanted one."""
    try:
        held = json.loads(job.manifest.read_text())
        differing = next((name for name, value in wanted.items() if held[name] != value), None)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FolderJobError(f"{str(job.manifest)!r} is not a manifest of shards: give a new --out.") from None
    if differing is not None:
        raise FolderJobError(
            f"{str(job.out)!r} holds shards of other {differing} ({held[differing]!r}, now {wanted[differing]!r}): "
            "give a new --out, or what it began with."
        )


def _check_listing(job: FolderJob) -> int:
    """The number of images. Raises `FolderJobError` unless the images are those of the listing."""
    count = 0
    with job.listing.open("rb") as listing:
        for line, name in zip_longest(listing, image_names(job.folder)):
            if line is None or name is None or line != _line(name):
                began = "nothing" if line is None else repr(json.loads(line))
                now = "nothing" if name is None else repr(name)
                raise FolderJobError(
                    f"{str(job.out)!r} holds shards of other pictures (where it had {began}, there is {now} now): "
                    "give a new --out, or the pictures it began with."
                )
            count += 1
    return count


def _parts(job: FolderJob, count: int) -> list[Shard]:
    """The listing cut into shards, whose sizes differ by one image at most."""
    bounds = [number * count // job.shards for number in range(job.shards + 1)]
    shards = []
    with job.listing.open("rb") as listing:
        for number in range(job.shards):
            size = bounds[number + 1] - bounds[number]
            shards.append(Shard(number, size, listing.tell()))
            for _ in range(size):
                listing.readline()
    return shards


def _line(name: str) -> bytes:
    """A line of the listing, in ASCII for any name."""
    return json.dumps(name).encode() + b"\n"


def _write_header(file: BinaryIO, step: Preprocess, count: int) -> None:
    """The `.npy` header for so many pictures: NumPy leaves room for the first size to grow, so it can be replaced."""
    sizes = {"N": count, "C": step.channel_count or 3, "H": step.crop[0], "W": step.crop[1]}
    descr = np.lib.format.dtype_to_descr(numpy_dtype(element_type(step.dtype)))
    shape = tuple(sizes[letter] for letter in step.layout)
    file.seek(0)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


def _record_path(job: FolderJob, number: int) -> Path:
    return job.path(number).with_suffix(".json")


def _write_json(path: Path, value: dict[str, Any]) -> None:
    with replacement(path, follow_link=False) as file:
        file.write(json.dumps(value, indent=1).encode())
