"""`stridedgpu preprocess FOLDER --shards N --out DIR`: a folder job on this machine or on Ray, and the summary."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

from .backends.threads import set_num_threads
from .console import progress
from .folder_job import FolderJob, FolderJobError, ShardRecord, missing_shards, read_record, start, write_shard
from .preprocess import Preprocess

__all__ = ["add_folder_options", "run_folder_job"]

_RETRIES = 3
"""How often Ray begins a shard anew whose worker was lost."""


_SHOWN_FAILURES = 5
"""Reasons that are printed; the records have all."""


def add_folder_options(parser: argparse.ArgumentParser) -> None:
    """The options of a job over a folder."""
    group = parser.add_argument_group(
        "a folder larger than memory",
        "With --shards one folder becomes N .npy files in the folder --out, each with a .json of what is in it. A "
        "picture that cannot be used is left out and listed there. What was stopped is finished by the same command.",
    )
    group.add_argument("--shards", metavar="N", type=int, help="how many files")
    group.add_argument("--engine", choices=("ray",), help="run on Ray's workers (default: on this machine, without)")
    group.add_argument("--address", help="of a Ray cluster (default: one is started on this machine)")


def run_folder_job(
    chosen: argparse.Namespace, scale: tuple[float, ...] | None, bias: tuple[float, ...] | None
) -> list[tuple[str, str]]:
    """Do what is left of the job, and return the summary as pairs of a label and a text."""
    if len(chosen.images) != 1 or not chosen.images[0].is_dir() or chosen.samples:
        chosen.refuse("--shards is for one folder of pictures")
    if chosen.raw is not None or chosen.row_pitch is not None:
        chosen.refuse("--raw and --row-pitch are for one batch, not for --shards")
    if chosen.shards < 1:
        chosen.refuse(f"argument --shards: {chosen.shards} is not a positive integer")
    if not chosen.layout.startswith("N"):
        chosen.refuse(f"argument --layout: shards are written picture by picture, which {chosen.layout} is not")
    step = Preprocess(
        "image",
        layout=chosen.layout,
        dtype=chosen.dtype,
        scale=scale,
        bias=bias,
        channels=(2, 1, 0) if chosen.channels == "bgr" else (0, 1, 2),
        crop=chosen.size,
        device=chosen.device or "auto",
    )
    job = FolderJob(chosen.images[0].resolve(), chosen.out.resolve(), chosen.shards, step, chosen.resize)
    pictures = start(job)
    missing = missing_shards(job)
    began = time.perf_counter()
    with progress(sum(len(job.pictures_of(number, pictures)) for number in missing), "pictures") as done:
        engine = on_ray if chosen.engine == "ray" else _here
        records = list(engine(job, missing, pictures, done, chosen.address))
    return _summary(job, records, time.perf_counter() - began)


def _here(
    job: FolderJob, missing: list[int], pictures: list[str], done: Callable[[], None], _address: str | None
) -> Iterator[ShardRecord]:
    """Shard by shard, on all cores of this machine."""
    for number in missing:
        yield write_shard(job, number, job.pictures_of(number, pictures), done=done)


def on_ray(
    job: FolderJob, missing: list[int], pictures: list[str], done: Callable[[], None], address: str | None
) -> Iterator[ShardRecord]:
    """Each shard a task of a Ray cluster; one whose worker is lost is begun anew, and leaves nothing behind.

    Raises `FolderJobError` where Ray is not installed, or has given a shard up.
    """
    try:
        import ray
    except ImportError:
        raise FolderJobError("--engine ray needs Ray, which is not installed: pip install ray.") from None
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False)
    task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_shard_on_ray)
    waiting = {task.remote(job, number, list(job.pictures_of(number, pictures))): number for number in missing}
    while waiting:
        [ready], _ = ray.wait(list(waiting), num_returns=1)
        number = waiting.pop(ready)
        try:
            record: ShardRecord = ray.get(ready)
        except ray.exceptions.RayError as problem:
            raise FolderJobError(
                f"Shard {number} failed on Ray, and the same command begins it anew: {problem}"
            ) from None
        for _ in job.pictures_of(number, pictures):
            done()
        yield record


def _shard_on_ray(job: FolderJob, number: int, pictures: list[str]) -> ShardRecord:
    """One shard in a worker that has one core."""
    set_num_threads(1)
    return write_shard(job, number, pictures, threads=1)


def _summary(job: FolderJob, records: list[ShardRecord], seconds: float) -> list[tuple[str, str]]:
    """What this run did, and what is there now."""
    made = sum(len(record.pictures) for record in records)
    read, written = (sum(record.bytes_read for record in records), sum(record.bytes_written for record in records))
    everything = [read_record(job, number) for number in range(job.shards)]
    failures = {name: reason for record in everything for name, reason in record.failures.items()}
    rows = [
        ("shards", f"{job.shards}, {len(records)} of them written by this run"),
        ("pictures", f"{sum(len(record.pictures) for record in everything)}, {made} of them in this run"),
        ("speed", f"{made / seconds:.1f} pictures a second" if records else "nothing was left to do"),
        ("bytes", f"{read:,} read and {written:,} written by this run"),
        ("failures", str(len(failures))),
    ]
    return rows + [("", reason) for reason in list(failures.values())[:_SHOWN_FAILURES]]
