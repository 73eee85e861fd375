"""A folder of images into shards, each a file: larger than memory, and resumed by a second run.

A shard has no name until it is whole; then its record is written (`.json`: which image each row is, which images
were skipped, and why). A shard with a record is done, and a run does the others. The images are listed in a file once,
in order, and each shard takes a part of it: what a process holds does not grow with their number. The manifest holds
the declaration that all shards are made of and the decoder's versions, so that a later run or another worker cannot mix
others in; the version of stridedgpu is that which began, and is not compared: its bits do not change with it. Once all
shards are done, it has the skipped images too.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path, PurePath
from typing import Any, Final

from stridedgpu import __version__
from stridedgpu.preprocess.decoding import Decoder, silent_decoders
from stridedgpu.preprocess.files import image_names, opened_file, replacement
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.values.errors import StridedGpuError

from .job_images import JobImages, bytes_of
from .labels import Labels
from .manifests import declaration, read_json, write_json
from .shard_formats import SUFFIXES, Row, shard_writer

_BATCH: Final = 32
"""Images that are written together."""


class FolderJobError(StridedGpuError):
    """A job that does not match the shards in the folder, or an unavailable engine."""


@dataclass(frozen=True)
class FolderJob:
    """A folder's job as a value that can be sent to any worker. `deep` is whether images have 16 bits a sample.

    `errors` is "skip", or "raise" for a job that ends at the first image that cannot be used.

    `step` has its rows in front, and all its results have one size. Its chance depends on seed, epoch and
    the image's name. Every worker reaches `folder` and `out` by the same paths.
    """

    folder: Path
    out: Path
    shards: int
    step: Preprocess[Any]
    decoder: str = "pillow"
    format: str = "npy"
    deep: bool = False
    errors: str = "skip"

    def path(self, shard: int) -> Path:
        """The file of a shard."""
        return self.out / f"shard-{shard:05}-of-{self.shards:05}{SUFFIXES[self.format]}"

    def record(self, shard: int) -> Path:
        """The file that says what is in a shard."""
        return self.path(shard).with_suffix(".json")

    @property
    def manifest(self) -> Path:
        """The file with the declaration of the shards."""
        return self.out / "manifest.json"

    @property
    def listing(self) -> Path:
        """The file of the images in the folder: on each line, as JSON, a name, or a name and a label of a file."""
        return self.out / "pictures.jsonl"


@dataclass(frozen=True)
class Shard:
    """A part of the images, consecutive in order: their count, where in the listing they begin, in bytes and lines."""

    number: int
    count: int
    start: int
    first: int = 0


@dataclass(frozen=True)
class ShardRecord:
    """A shard's contents: image and label of each row, the skipped images and why, and bytes read and written."""

    shard: int
    pictures: list[str]
    labels: list[int | None]
    failures: dict[str, str]
    bytes_read: int
    bytes_written: int


def start(job: FolderJob, labels: Labels | None = None) -> list[Shard]:
    """The job's shards. Writes listing and manifest, or compares them if there are shards already.

    Without `labels` the topmost folders are the labels. Raises `FileError` for an image that has none in a file of
    them, and `FolderJobError` where the shards that are there were made of other images, in another way or by another
    decoder.
    """
    wanted = {
        **declaration(job.step, Decoder.of(job.decoder, job.step, deep=job.deep)),
        "shards": job.shards,
        "format": job.format,
        "labels": "topmost folders" if labels is None else "a file",
    }
    if job.manifest.exists() and any(job.out.glob("shard-*")):
        _check_manifest(job, wanted)
        return _parts(job, _check_listing(job, labels))
    names = image_names(job.folder)
    first = next(names)
    if labels is not None:
        for name in image_names(job.folder):
            labels.of(name)  # before anything is written
    job.out.mkdir(parents=True, exist_ok=True)
    classes: list[str] = [] if labels is None else labels.classes
    with replacement(job.listing, follow_link=False) as file:
        count = 0
        for name in chain([first], names):
            file.write(_line(name, labels))
            count += 1
            folder, inside, _ = name.partition("/")
            if labels is None and inside and (not classes or classes[-1] != folder):
                classes.append(folder)
    write_json(job.manifest, {**wanted, "classes": classes, "stridedgpu": __version__})
    return _parts(job, count)


def missing_shards(job: FolderJob, shards: Sequence[Shard]) -> list[Shard]:
    """The shards without a record."""
    return [one for one in shards if not (job.record(one.number).exists() and job.path(one.number).exists())]


def write_shard(
    job: FolderJob, shard: Shard, threads: int | None = None, done: Callable[[], None] = lambda: None
) -> ShardRecord:
    """Decode, crop and write one shard, a batch at a time, and then its record; `done` is called after each image.

    Decoding is done by so many threads (None: one for each core), one batch ahead of the writing. Raises
    `FolderJobError` where this process has another decoder than the one that began.
    """
    decoder = Decoder.of(job.decoder, job.step, deep=job.deep)
    classes = _check_manifest(job, {"decoder": decoder.version})["classes"]
    step, entries = job.step, _entries(job, shard)
    names = [name for name, _ in entries]
    source = JobImages([job.folder / name for name in names], names, step, decoder, errors=job.errors)
    kept: list[Row] = []
    batches = source.batches(_BATCH, threads)
    decoding, path = silent_decoders(), job.path(shard.number)
    with decoding, closing(batches), shard_writer(job.format, path, step) as writer:
        for count, images, usable in batches:
            rows = [Row(*_labelled(*entries[row.number], classes), shard.first + row.number) for row in usable]
            if rows:
                writer.add(images, rows)
            kept += rows
            for _ in range(count):
                done()
        bytes_written = writer.finish()
    record = ShardRecord(
        shard.number,
        [row.name for row in kept],
        [row.label for row in kept],
        {names[number]: source.skipped[number] for number in sorted(source.skipped)},
        bytes_of(job.folder / name for name in names),
        bytes_written,
    )
    write_json(job.record(shard.number), asdict(record))
    return record


def note_skipped(job: FolderJob, skipped: Mapping[str, str]) -> None:
    """Complete the manifest of a finished job by the images that no shard has, each with the reason."""
    manifest = _check_manifest(job, {})
    if manifest.get("skipped") != skipped:
        write_json(job.manifest, {**manifest, "skipped": skipped})


def read_record(job: FolderJob, number: int) -> ShardRecord:
    """The record of a finished shard. Raises `FolderJobError` if the file is not a record."""
    path = job.record(number)
    try:
        fields = read_json(path)
        record = ShardRecord(**fields)
        is_one = (
            all(type(fields[name]) is int for name in ("shard", "bytes_read", "bytes_written"))
            and isinstance(fields["failures"], dict)
            and _are_texts([*fields["failures"].values()])
            and _are_texts(fields["pictures"])
            and isinstance(fields["labels"], list)
            and all(map(_is_label, fields["labels"]))
        )
    except (ValueError, TypeError, RecursionError):
        is_one = False
    if not is_one:
        raise FolderJobError(f"{str(path)!r} is not the record of a shard: remove it, and run the job again.")
    return record


def _check_manifest(job: FolderJob, wanted: dict[str, Any]) -> dict[str, Any]:
    """The existing manifest. Raises `FolderJobError` unless it says what is wanted."""
    try:
        manifest = read_json(job.manifest)
        differing = next((name for name, value in wanted.items() if manifest[name] != value), None)
        is_one = _are_texts(manifest["classes"])
    except (ValueError, KeyError, TypeError, RecursionError):
        is_one = False
    if not is_one:
        raise FolderJobError(f"{str(job.manifest)!r} is not a manifest of shards: give a new --out.")
    if differing is not None:
        raise FolderJobError(
            f"{str(job.out)!r} holds shards of other {differing} ({manifest[differing]!r}, now {wanted[differing]!r}): "
            "give a new --out, or what it began with."
        )
    return manifest


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _is_label(value: object) -> bool:
    return value is None or (type(value) is int and 0 <= value < 1 << 63)


def _labelled(name: str, label: int | None, classes: Sequence[str]) -> tuple[str, int | None]:
    """An image with its label: that of a file, else the number of its topmost folder; None where it lies in none."""
    folder, inside, _ = name.partition("/")
    return name, bisect_left(classes, folder) if label is None and inside else label


def _check_listing(job: FolderJob, labels: Labels | None) -> int:
    """The number of images. Raises `FolderJobError` unless the images are those of the listing."""
    count = 0
    with opened_file(job.listing, "listing") as listing:
        for line, name in zip_longest(listing, image_names(job.folder)):
            expected = None if name is None else _line(name, labels)
            if line != expected:
                began, now = (_in_words(job, one) for one in (line, expected))
                raise FolderJobError(
                    f"{str(job.out)!r} holds shards of other images (where it had {began}, there is {now} now): "
                    "give a new --out, or the images it began with."
                )
            count += 1
    return count


def _parts(job: FolderJob, count: int) -> list[Shard]:
    """The listing cut into shards, whose sizes differ by one image at most."""
    bounds = [number * count // job.shards for number in range(job.shards + 1)]
    shards = []
    with opened_file(job.listing, "listing") as listing:
        for number in range(job.shards):
            size = bounds[number + 1] - bounds[number]
            shards.append(Shard(number, size, listing.tell(), bounds[number]))
            for _ in range(size):
                listing.readline()
    return shards


def _entries(job: FolderJob, shard: Shard) -> list[tuple[str, int | None]]:
    """The names and labels of a shard's images. Raises `FolderJobError` if the listing has been changed meanwhile."""
    with opened_file(job.listing, "listing") as listing:
        listing.seek(shard.start)
        entries = [_listed(job, line) for line in islice(listing, shard.count)]
    if len(entries) != shard.count:
        raise FolderJobError(f"{str(job.listing)!r} has lost images since the job began: run the job again.")
    return entries


def _listed(job: FolderJob, line: bytes) -> tuple[str, int | None]:
    """Name and label in a line of the listing. Raises `FolderJobError` if it is not a name inside the folder."""
    try:
        entry = json.loads(line)
        name, label = entry if isinstance(entry, list) else (entry, None)
        is_one = isinstance(name, str) and b"\0" not in os.fsencode(name) and _is_label(label)
    except (ValueError, RecursionError):
        is_one = False
    if not is_one or PurePath(name).is_absolute() or ".." in PurePath(name).parts:
        raise FolderJobError(f"{str(job.listing)!r} is not a listing of images: give a new --out.")
    return name, label


def _line(name: str, labels: Labels | None) -> bytes:
    """A line of the listing, in ASCII for any name."""
    return json.dumps(name if labels is None else [name, labels.of(name)]).encode() + b"\n"


def _in_words(job: FolderJob, line: bytes | None) -> str:
    """A line of the listing, for a message."""
    if line is None:
        return "nothing"
    name, label = _listed(job, line)
    return repr(name) if label is None else f"{name!r} with label {label}"
