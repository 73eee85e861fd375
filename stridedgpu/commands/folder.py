"""`stridedgpu preprocess FOLDER --shards N --out DIR`: a folder job on this machine or on Ray, and the summary."""

from __future__ import annotations

import argparse
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from stridedgpu.devices.cpu.thread_count import set_num_threads
from stridedgpu.preprocess.decoding import Decoder
from stridedgpu.preprocess.files import ImageFile, replacement
from stridedgpu.preprocess.step import Preprocess

from .console import print_table, progress
from .contact_sheet import check_preview, shown_of, write_sheet
from .folder_job import (
    FolderJob,
    FolderJobError,
    Shard,
    ShardRecord,
    missing_shards,
    note_skipped,
    read_record,
    start,
    write_shard,
)
from .labels import Labels
from .shard_formats import SUFFIXES
from .summary import counted, skipped_rows, work_rows

_RETRIES: Final = 3
"""How often Ray retries a shard whose worker was lost."""

_MOST_SHARDS: Final = 99_999
"""Their names have five digits."""

_GPU_SHARE: Final = 1 / 16
"""The share of a GPU for each task: a core decodes for much longer than a GPU works on the result."""


def add_folder_options(parser: argparse.ArgumentParser) -> None:
    """The options of a job over a folder."""
    group = parser.add_argument_group(
        "a folder larger than memory",
        "With --shards one folder becomes N .npy files in the folder --out, each with a .json of what is in it. An "
        "image that cannot be used is left out, and listed there and in manifest.json. The same command finishes a "
        "run that was stopped.",
    )
    group.add_argument(
        "--shards", metavar="N", type=int, help="write a folder of images as N files in the folder --out"
    )
    group.add_argument(
        "--shard-format",
        choices=tuple(SUFFIXES),
        default="npy",
        help="npy (default), webdataset (tar), safetensors or zarr; labels are the numbers of the topmost folders",
    )
    group.add_argument("--engine", choices=("ray",), help="run on Ray's workers (default: in this process)")
    group.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="address of a Ray cluster (default: RAY_ADDRESS, else the cluster of this machine, else a new one)",
    )


def check_folder_options(chosen: argparse.Namespace) -> None:
    """Refuse options that exclude each other."""
    if chosen.shards is None:
        if chosen.shard_format != "npy":
            chosen.refuse(f"--shard-format {chosen.shard_format} is for a folder in parts: give --shards too")
        for name in ("engine", "address"):
            if getattr(chosen, name) is not None:
                chosen.refuse(f"--{name} is for a folder in parts: give --shards too")
        return
    if not 1 <= chosen.shards <= _MOST_SHARDS:
        chosen.refuse(f"argument --shards: {chosen.shards} is not an integer from 1 to {_MOST_SHARDS}")
    if chosen.address is not None and chosen.engine is None:
        chosen.refuse("--address is of a Ray cluster: give --engine ray too")
    if len(chosen.images) != 1 or chosen.samples:
        chosen.refuse("--shards is for one folder of images: give one")
    if not chosen.images[0].exists():
        chosen.refuse(f"there is no folder {str(chosen.images[0])!r}")
    if not chosen.images[0].is_dir():
        chosen.refuse(f"--shards is for a folder of images, which {str(chosen.images[0])!r} is not")
    if chosen.out.exists() and not chosen.out.is_dir():
        chosen.refuse(f"argument --out: {str(chosen.out)!r} is a file, and shards are written into a folder")
    if chosen.out.suffix.lower() in SUFFIXES.values() and not chosen.out.exists():
        chosen.refuse(f"argument --out: {str(chosen.out)!r} is a file's name, and shards are written into a folder")
    for name in ("raw", "row_pitch", "alignment", "compare"):
        if getattr(chosen, name) is not None:
            chosen.refuse(f"--{name.replace('_', '-')} is for one batch, not for --shards")
    if chosen.dtype == "bfloat16" and chosen.shard_format == "zarr":
        chosen.refuse("--dtype bfloat16: zarr has no such type; give another --shard-format, or --dtype float16")
    if not chosen.layout.startswith("N"):
        chosen.refuse(f"argument --layout: shards are written image by image, which {chosen.layout} is not")


def run_folder_job(chosen: argparse.Namespace, step: Preprocess[Any]) -> int:
    """Do what is left of the job, and print the summary. Returns the number of images that no shard has."""
    folder, out, errors = chosen.images[0].resolve(), chosen.out.resolve(), chosen.errors or "skip"
    job = FolderJob(folder, out, chosen.shards, step, chosen.decoder, chosen.shard_format, chosen.deep, errors)
    if chosen.preview is not None:
        check_preview(chosen.preview, chosen.images, out)
    with _cluster(chosen.address) if chosen.engine == "ray" else nullcontext():
        began = time.perf_counter()
        shards = start(job, None if chosen.labels is None else Labels.read(chosen.labels))
        missing = missing_shards(job, shards)
        with progress(sum(shard.count for shard in missing), "images") as done:
            if chosen.engine == "ray":
                records = on_ray(job, missing, done)
            else:
                records = (write_shard(job, shard, done=done) for shard in missing)
            now, _ = _totals(records)
    everything, skipped = _totals(read_record(job, number) for number in range(job.shards))
    note_skipped(job, skipped)
    seconds = time.perf_counter() - began
    sheet = [] if chosen.preview is None else [("preview", _previewed(job, chosen.preview, everything["images"]))]
    wrote = f"wrote {str(chosen.out)!r}: {counted(now['images'], 'image')}"
    print_table(
        heading=wrote if missing else f"{str(chosen.out)!r} is complete: nothing was left to do",
        rows=[
            ("shards", f"{job.shards}, {now['shards']} of them written by this run"),
            ("images", f"{everything['images']}, {now['images']} of them in this run"),
            *(work_rows(now["images"], seconds, now["read"], now["written"]) if missing else []),
            *sheet,
            *skipped_rows(list(skipped.values()), everything["images"] + len(skipped), chosen.out / job.manifest.name),
        ],
    )
    return len(skipped)


def _previewed(job: FolderJob, path: Path, count: int) -> str:
    """Write the sheet of some images at equal distances over all shards; says what was written."""
    if not count:
        return "there is no image to show"
    places, first, shown = shown_of(count), 0, []
    for number in range(job.shards):
        pictures = read_record(job, number).pictures
        names = [pictures[place - first] for place in places if first <= place < first + len(pictures)]
        shown += [ImageFile(job.folder / name, name) for name in names]
        first += len(pictures)
    with replacement(path) as file:
        write_sheet(file, shown, job.step, Decoder.of(job.decoder, job.step, deep=job.deep), count)
    return f"{len(shown)} of {count} images in {str(path)!r}"


def _totals(records: Iterable[ShardRecord]) -> tuple[Counter[str], dict[str, str]]:
    """What the records count together, and the skipped images; the names of the others do not stay in memory."""
    totals: Counter[str] = Counter()
    skipped: dict[str, str] = {}
    for record in records:
        totals.update(shards=1, images=len(record.pictures), read=record.bytes_read, written=record.bytes_written)
        skipped |= record.failures
    return totals, skipped


@contextmanager
def _cluster(address: str | None) -> Iterator[None]:
    """A Ray cluster to send tasks to: the one that this process already uses, or one that it leaves afterwards.

    Raises `FolderJobError` where Ray is not installed or cannot be reached.
    """
    try:
        import ray
    except ImportError:
        raise FolderJobError("--engine ray needs Ray, which is not installed: pip install ray.") from None
    if ray.is_initialized():
        yield
        return
    _check_address(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as problem:
        where = "on this machine" if address is None else f"at --address {address}"
        # The address answers, but Ray may have been refused without saying so.
        token = " Where the cluster wants a token, set RAY_AUTH_MODE=token here too." if ":" in (address or "") else ""
        raise FolderJobError(f"no Ray cluster could be had {where}: {problem}.{token}") from None
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(address: str | None) -> None:
    """Raise if nothing listens at the address; Ray takes some twenty seconds and as many lines to report that."""
    host, colon, port = (address or "").rpartition(":")
    if not colon or not port.isdecimal() or "/" in host:
        return  # "auto", or an address scheme of Ray's own
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as problem:
        raise FolderJobError(
            f"nothing answers at --address {address}: {problem}. Give HOST:PORT as `ray start` printed it."
        ) from None


def on_ray(job: FolderJob, missing: Sequence[Shard], done: Callable[[], None]) -> Iterator[ShardRecord]:
    """Run each shard as a task of the Ray cluster; a lost worker's shard is retried, and leaves no partial file.

    Raises `FolderJobError` if Ray has given a shard up.
    """
    import ray

    needs = _task_needs(job.step.device, ray.cluster_resources())
    task = ray.remote(max_retries=_RETRIES, **needs)(_shard_on_ray)
    waiting = {task.remote(job, shard): shard for shard in missing}
    while waiting:
        [ready], _ = ray.wait(list(waiting), num_returns=1)
        shard = waiting.pop(ready)
        try:
            record: ShardRecord = ray.get(ready)
        except ray.exceptions.RayError as problem:
            reason = getattr(problem, "cause", None) or problem
            raise FolderJobError(
                f"shard {shard.number} failed on Ray, and the same command begins it anew: {reason}"
            ) from None
        for _ in range(shard.count):
            done()
        yield record


def _task_needs(device: str, has: Mapping[str, float]) -> dict[str, float]:
    """A task's resources in Ray: a core, which decodes, and a share of a GPU if the job uses one.

    Raises `FolderJobError` if the cluster has no GPU: Ray would wait for one for ever.
    """
    if not device.startswith("cuda"):
        return {"num_cpus": 1}
    if device != "cuda":
        raise FolderJobError(f"--device {device}: with --engine ray, Ray chooses among GPUs; give --device cuda.")
    if not has.get("GPU"):
        raise FolderJobError("--device cuda: the Ray cluster has no GPU; give --device cpu, or leave it out.")
    return {"num_cpus": 1, "num_gpus": _GPU_SHARE}


def _shard_on_ray(job: FolderJob, shard: Shard) -> ShardRecord:
    """Write one shard in a worker with one core."""
    set_num_threads(1)
    return write_shard(job, shard, threads=1)
