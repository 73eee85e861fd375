"""The main job: photographs into one batch, decoded, cut, compared and written at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol

import numpy as np

from stridedgpu.api.creation import empty
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.thread_count import usable_cores
from stridedgpu.preprocess.batches import PART_SAMPLES, BatchMaker
from stridedgpu.preprocess.decoding import Decoder, whole_process_decodes
from stridedgpu.preprocess.image_files import ImageFile, sample_keys
from stridedgpu.preprocess.npy import write_elements, write_header
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.values.errors import StridedGpuError
from stridedgpu.values.strides import calculate_strides

from .compare import Sample, check_bits, memory_of, sample_of, window_of
from .job_images import JobImages

__all__ = [
    "BatchFile",
    "BatchJob",
    "BatchMemory",
    "Target",
    "batch_sizes",
    "held_memory",
    "make_batch",
    "streamed_memory",
]

_WRITTEN: Final = PART_SAMPLES
"""Images that are written together on the CPU: what one thread has just made is still in a cache."""

_UPLOADED: Final = 32
"""Images that are converted and downloaded together on a GPU."""

_AHEAD: Final = 2
"""Batches that are begun while one is written, besides those that the threads work on."""

_TIMED_WINDOW_BYTES: Final = 5 << 17
"""The first images are compared with NumPy and timed, while their windows stay below this: 4 of 224x224.

NumPy takes as long for one as decoding it: 27 of them were a tenth of the processor time of 600 images.
"""

_TIMED_IMAGE_BYTES: Final = 1 << 28
"""And while the decoded images themselves stay below this."""


@dataclass(frozen=True)
class BatchJob:
    """What shall be made of which images. All results of `step` have one size, its window.

    `compares_all` is whether every image is compared with NumPy, and not only the first ones. `deep` is whether
    images have 16 bits a sample.
    """

    images: Sequence[ImageFile]
    step: Preprocess[Any]
    decoder: str = "pillow"
    compares_all: bool = False
    deep: bool = False


class Target(Protocol):
    """Where batches go, in order."""

    def take(self, images: StridedTensor) -> None:
        """Store the next images."""


class BatchFile:
    """The batch as a `.npy` file, to which images are appended: the layout has its rows in front."""

    def __init__(self, file: BinaryIO, job: BatchJob) -> None:
        self._file, self._step = file, job.step
        sizes = dict(zip("NCHW", batch_sizes(job), strict=True))
        write_header(file, job.step, tuple(sizes[letter] for letter in job.step.layout))

    def take(self, images: StridedTensor) -> None:
        """Append the next images."""
        write_elements(self._file, self._step._worker.array(images))


class BatchMemory:
    """The batch as one tensor, with its padding, which is zero, as it may be written out."""

    def __init__(self, job: BatchJob) -> None:
        step = job.step
        self.tensor = empty(
            batch_sizes(job),
            step.dtype,
            layout=step.layout,
            row_pitch_bytes=step.row_pitch_bytes,
            alignment=step.alignment,
            device=None if step.device == "auto" else step.device,
        )
        if self.tensor.layout.is_padded:
            memory_of(self.tensor)[...] = 0
        self._filled = 0

    def take(self, images: StridedTensor) -> None:
        """Fill the next rows."""
        count = images.sizes[0]
        self.tensor[self._filled : self._filled + count] = images
        self._filled += count


def held_memory(batch: StridedTensor) -> list[tuple[str, str]]:
    """Strides and memory of a batch, as rows of the summary."""
    held = batch.buffer.nbytes
    padding = held - batch.layout.element_count * batch.itemsize
    return [
        ("strides", "N={} C={} H={} W={} elements".format(*batch.strides)),
        ("memory", f"{held:,} bytes, {padding:,} of them padding, aligned to {batch.alignment} bytes"),
    ]


def streamed_memory(job: BatchJob) -> list[tuple[str, str]]:
    """Strides of a batch that was written while it was made, and how much was in memory, as rows of the summary."""
    sizes = batch_sizes(job)
    strides = calculate_strides(job.step.layout, sizes)
    return [
        ("strides", "N={} C={} H={} W={} elements".format(*strides)),
        ("memory", f"written {min(_batch_size(job), sizes[0])} images at a time, up to {_in_memory(job)} in memory"),
    ]


def _batch_size(job: BatchJob) -> int:
    """Images of one batch."""
    return _WRITTEN if job.step._worker.device == "cpu" else _UPLOADED


def _in_memory(job: BatchJob) -> int:
    """The most images that are begun and not yet written."""
    size = _batch_size(job)
    return min(len(job.images), usable_cores() * PART_SAMPLES + (1 + _AHEAD) * size)


def batch_sizes(job: BatchJob) -> tuple[int, int, int, int]:
    """Sizes of the whole batch, in the order N, C, H, W."""
    return len(job.images), job.step.channel_count or 3, *window_of(job.step)


def make_batch(job: BatchJob, target: Target, done: Callable[[], None]) -> tuple[list[Sample], int]:
    """Decode the images on all cores and hand batches on, while the next ones are made.

    Returns the samples to time, which are the first images, and the number of images that were compared with NumPy.
    `done` is called for each image. Raises `StridedGpuError` where a bit differs from NumPy's.
    """
    step, count = job.step, len(job.images)
    rows, columns = window_of(step)
    window_bytes = 3 * rows * columns
    timed = min(count, max(1, _TIMED_WINDOW_BYTES // window_bytes))
    keys = list(sample_keys(image.name for image in job.images))
    source = JobImages(
        [image.path for image in job.images],
        keys,
        step,
        keeps=count if job.compares_all else timed,
        most_bytes=2**63 if job.compares_all else _TIMED_IMAGE_BYTES,
    )
    maker = BatchMaker(step, source, Decoder.of(job.decoder, step, deep=job.deep), _raised)
    samples: list[Sample] = []
    compared = 0
    threads = usable_cores()
    with whole_process_decodes(threads * PART_SAMPLES):
        for _, images, made in maker.batches(range(count), _batch_size(job), threads, _AHEAD, step.epoch):
            target.take(images)
            for place, row in enumerate(made):
                pixels = source.kept.pop(row.number, None)
                if pixels is not None and (job.compares_all or compared == row.number):
                    sample = sample_of(pixels, keys[row.number], step)
                    check_bits(_array(images[place]), sample, step, row.number)
                    compared += 1
                    if len(samples) == row.number < timed:
                        samples.append(sample)
                done()
    return samples, compared


def _array(image: StridedTensor) -> np.ndarray[Any, np.dtype[Any]]:
    """One image of a batch on any device as an array with axes HWC."""
    return image.permute("HWC").numpy()


def _raised(_number: int, _key: object, problem: StridedGpuError) -> None:
    """One batch has all images or is not made."""
    raise problem
