"""The main job: images into one batch, decoded, cut, compared where that is wanted, and written at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.thread_count import usable_cores
from stridedgpu.preprocess.decoding import Decoder, silent_decoders
from stridedgpu.preprocess.files import ImageFile, sample_keys
from stridedgpu.preprocess.loader import PART_SAMPLES
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.values.layout import Layout

from .comparison import NumpyStep
from .job_images import AHEAD, JobImages
from .shard_formats import Npy, Row, sizes_of_row

_WRITTEN: Final = PART_SAMPLES
"""Images that are written together on the CPU: what one thread has just made is still in a cache."""

_UPLOADED: Final = 32
"""Images that are converted and downloaded together on a GPU."""


@dataclass(frozen=True)
class BatchJob:
    """What is made of which images. All results of `step` have one size, its window.

    `errors` is "raise", or "skip" for a batch without the images that cannot be used. The first `compared` images are
    compared with NumPy.
    """

    images: Sequence[ImageFile]
    step: Preprocess[Any]
    decoder: Decoder
    errors: str
    compared: int

    @property
    def keyed(self) -> list[ImageFile]:
        """The images, with names that are their keys: each has another."""
        names = sample_keys(image.name for image in self.images)
        return [ImageFile(image.path, key) for image, key in zip(self.images, names, strict=True)]

    def sizes(self, count: int) -> tuple[int, int, int, int]:
        """Sizes of a batch of so many images, in the order N, C, H, W."""
        row = sizes_of_row(self.step)
        return count, row["C"], row["H"], row["W"]

    @property
    def written_together(self) -> int:
        """Images that are handed on together."""
        return _WRITTEN if self.step._worker.device == "cpu" else _UPLOADED

    @property
    def memory(self) -> str:
        """How many images are in memory where they are written one after the other, for the summary."""
        count, together = len(self.images), self.written_together
        most = min(count, usable_cores() * PART_SAMPLES + (1 + AHEAD) * together)
        return f"written {min(together, count)} images at a time, up to {most} in memory"


class BatchMemory:
    """The batch as one tensor, with its padding, which is zero, as it may be written out."""

    def __init__(self, job: BatchJob) -> None:
        self._job = job
        self._filled = 0
        self._allocate(len(job.images))

    def _allocate(self, count: int) -> None:
        _, channels, height, width = self._job.sizes(count)
        batch = self._job.step._worker.batch_of(count, channels, (height, width))
        self.tensor = StridedTensor.over(batch, "NCHW")
        self.memory = StridedTensor(batch.buffer, Layout((batch.buffer.nbytes,)), "uint8")
        if self.tensor.layout.is_padded:
            self.memory[...] = 0

    def add(self, images: StridedTensor, _rows: Sequence[Row]) -> None:
        """Fill the next rows."""
        count = images.sizes[0]
        self.tensor[self._filled : self._filled + count] = images
        self._filled += count

    def finish(self) -> None:
        """Close the batch up where images were skipped."""
        if self._filled < self.tensor.sizes[0]:
            filled = self.tensor[: self._filled]
            self._allocate(self._filled)
            self.tensor[...] = filled

    def __str__(self) -> str:
        batch, nbytes = self.tensor, self.tensor.buffer.nbytes
        padding = nbytes - batch.layout.element_count * batch.itemsize
        return f"{nbytes:,} bytes, {padding:,} of them padding, aligned to {batch.alignment} bytes"


@dataclass(frozen=True)
class BatchRows:
    """Which images became rows, by their numbers; the skipped ones, each with its reason; how many were compared."""

    kept: list[int]
    skipped: dict[int, str]
    compared: int


def make_batch(job: BatchJob, target: Npy | BatchMemory, done: Callable[[], None]) -> BatchRows:
    """Decode the images on all cores and hand batches on, while the next ones are made.

    `done` is called for each image. Raises `StridedGpuError` where a bit differs from NumPy's.
    """
    keyed = job.keyed
    paths, keys = [image.path for image in keyed], [image.name for image in keyed]
    source = JobImages(paths, keys, job.step, job.decoder, errors=job.errors, keeps=job.compared > 0)
    by_numpy = NumpyStep(job.step)
    kept: list[int] = []
    compared = 0
    with silent_decoders(), closing(source.batches(job.written_together)) as batches:
        for count, images, rows in batches:
            if rows:
                target.add(images, ())
            for image, row in zip(images, rows, strict=True):
                if compared < job.compared:
                    by_numpy.check_bits(image, row.columns[0], keys[row.number], row.number)
                    compared += 1
            kept += [row.number for row in rows]
            for _ in range(count):
                done()
    return BatchRows(kept, source.skipped, compared)
