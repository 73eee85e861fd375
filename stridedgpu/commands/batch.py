"""`stridedgpu preprocess IMAGE.. --out FILE.npy`: one batch in one file, its manifest, and the summary."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from stridedgpu import __version__
from stridedgpu.preprocess.decoding import Decoder
from stridedgpu.preprocess.files import ImageFile, check_writable, find_images, replacement, write_array, write_elements
from stridedgpu.preprocess.loader import PART_SAMPLES
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.values.errors import StridedGpuError
from stridedgpu.values.strides import calculate_strides

from .batch_job import BatchJob, BatchMemory, BatchRows, make_batch
from .console import print_table, progress
from .contact_sheet import check_preview, shown_of, write_sheet
from .job_images import bytes_of, sample_images
from .labels import Labels
from .manifests import declaration
from .shard_formats import Npy
from .summary import counted, skipped_rows, work_rows


def run_batch(chosen: argparse.Namespace, step: Preprocess[Any]) -> int:
    """Make one batch, and print the summary. Returns the number of images that were left out."""
    began = time.perf_counter()
    images = find_images(chosen.images) + (sample_images() if chosen.samples else [])
    if not images:
        raise StridedGpuError("no images: a batch holds at least one.")
    check_writable(chosen.out)
    is_described = chosen.labels is not None or chosen.errors == "skip"
    manifest = chosen.out.with_name(chosen.out.name.removesuffix(".npy") + ".manifest.json") if is_described else None
    _check_outputs(chosen, images, manifest)
    labels = None if chosen.labels is None else Labels.read(chosen.labels)
    if labels is not None:
        for image in images:
            labels.of(image.name)  # before the work
    compared = {None: 0, "some": PART_SAMPLES, "all": len(images)}[chosen.compare]
    decoder = Decoder.of(chosen.decoder, step, deep=chosen.deep)
    job = BatchJob(images, step, decoder, chosen.errors or "raise", compared)
    made, strides, memory = _written(job, chosen.out, chosen.raw, manifest, labels)
    count, seconds = len(made.kept), time.perf_counter() - began
    if chosen.preview is not None:
        keyed = job.keyed
        with replacement(chosen.preview) as file:
            write_sheet(file, [keyed[made.kept[place]] for place in shown_of(count)], step, decoder, count)
    outputs = [path for path in (chosen.out, chosen.raw, manifest, chosen.preview) if path is not None]
    *others, last = (repr(str(path)) for path in outputs)
    print_table(
        heading=f"wrote {' and '.join(filter(None, (', '.join(others), last)))}: {counted(count, 'image')}",
        rows=[
            *work_rows(count, seconds, bytes_of(image.path for image in images), bytes_of(outputs)),
            ("sizes", f"N={{}} C={{}} H={{}} W={{}}, {step.dtype}".format(*job.sizes(count))),
            ("strides", "N={} C={} H={} W={} elements".format(*strides)),
            ("memory", memory),
            ("device", step._worker.device),
            *_compared_rows(made, chosen.compare),
            *([] if manifest is None else skipped_rows(list(made.skipped.values()), len(images), manifest)),
        ],
    )
    return len(made.skipped)


def _written(
    job: BatchJob, out: Path, raw: Path | None, manifest: Path | None, labels: Labels | None
) -> tuple[BatchRows, tuple[int, ...], str]:
    """Write a batch while the next images are decoded, or make it in memory where its padding is wanted.

    Returns its rows, its strides in the order N, C, H, W, and a description of its memory.
    """
    step = job.step
    is_streamed = step.layout.startswith("N") and raw is None and step.row_pitch_bytes is None
    with ExitStack() as files, progress(len(job.images), "images") as done:
        file = files.enter_context(replacement(out))
        target = Npy(file, step) if is_streamed else BatchMemory(job)
        made = make_batch(job, target, done)
        if not made.kept:
            raise StridedGpuError(f"no image is left of {len(job.images)}; the first one: {made.skipped[0]}")
        target.finish()
        if manifest is not None:
            text = json.dumps(_manifest(job, made, labels), indent=1)
            files.enter_context(replacement(manifest, follow_link=False)).write(text.encode())
        if isinstance(target, Npy):
            return made, calculate_strides(step.layout, job.sizes(len(made.kept))), job.memory
        write_array(file, target.tensor.permute(step.layout).numpy())
        if raw is not None:
            write_elements(files.enter_context(replacement(raw)), target.memory.numpy())
        return made, target.tensor.strides, str(target)


def _manifest(job: BatchJob, made: BatchRows, labels: Labels | None) -> dict[str, Any]:
    """What a batch was made of: the declaration, image and label of each row, and the images without a row."""
    paths = [str(image.path) for image in job.images]
    manifest = {
        **declaration(job.step, job.decoder),
        "stridedgpu": __version__,
        "pictures": [paths[number] for number in made.kept],
        "skipped": {paths[number]: made.skipped[number] for number in sorted(made.skipped)},
    }
    if labels is not None:
        manifest["classes"] = labels.classes
        manifest["labels"] = [labels.of(job.images[number].name) for number in made.kept]
    return manifest


def _compared_rows(made: BatchRows, compare: str | None) -> list[tuple[str, str]]:
    if compare is None:
        return []
    which = f"all {made.compared}" if made.compared == len(made.kept) else f"the first {made.compared}"
    return [("compared", f"every bit of {which} images with the same step by NumPy's loops: equal")]


def _check_outputs(chosen: argparse.Namespace, images: Sequence[ImageFile], manifest: Path | None) -> None:
    """Before the work, refuse outputs that cannot be written or that would replace an input."""
    named = {"--out": chosen.out, "--raw": chosen.raw, "--preview": chosen.preview, "the manifest": manifest}
    if chosen.preview is not None:
        check_preview(chosen.preview, chosen.images)
    taken: dict[Path, str] = {}
    for option, path in named.items():
        if path is None:
            continue
        check_writable(path)
        if _is_one_of(images, path):
            chosen.refuse(f"{str(path)!r} is one of the images; give the batch a name of its own")
        other = taken.setdefault(path.resolve(), option)
        if other != option:
            chosen.refuse(f"{other} and {option} name the same file {str(path)!r}; give each its own")


def _is_one_of(images: Sequence[ImageFile], path: Path) -> bool:
    """Whether `path` is the file of an image, by any name."""
    if not path.exists():
        return False
    own = path.stat()
    for image in images:
        with suppress(OSError):  # the decoder reports a missing file
            if os.path.samestat(own, image.path.stat()):
                return True
    return False
