"""The main job: images into one batch, decoded, cut, compared and written at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.thread_count import usable_cores
from stridedgpu.preprocess.decoding import Decoder, silent_decoders
from stridedgpu.preprocess.files import ImageFile, sample_keys
from stridedgpu.preprocess.images import Pixels
from stridedgpu.preprocess.loader import PART_SAMPLES
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.values.errors import StridedGpuError
from stridedgpu.values.layout import Layout

from .comparison import NumpyStep
from .job_images import AHEAD, JobImages
from .shard_formats import Npy, Row, sizes_of_row

_WRITTEN: Final = PART_SAMPLES
"""Images that are written together on the CPU: what one thread has just made is still in a cache."""

_UPLOADED: Final = 32
"""Images that are converted and downloaded together on a GPU."""

_TIMED_WINDOW_BYTES: Final = 5 << 17
"""The first images are compared with NumPy and timed, while their windows stay below this: 4 of 224x224.

NumPy takes as long for one as decoding it: 27 of them were a tenth of the processor time of 600 images. They are at
most as many as a thread decodes at once, since they stay in memory.
"""

_RESIZE_WEIGHT: Final = 4
"""A window that NumPy resizes counts as so many: it takes as long as converting them."""


@dataclass(frozen=True)
class BatchJob:
    """What is made of which images. All results of `step` have one size, its window.

    `compares_all` is whether every image is compared with NumPy, and not only the first ones.
    """

    images: Sequence[ImageFile]
    step: Preprocess[Any]
    decoder: Decoder
    compares_all: bool = False

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Sizes of the whole batch, in the order N, C, H, W."""
        row = sizes_of_row(self.step)
        return len(self.images), row["C"], row["H"], row["W"]

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
        count, channels, *window = job.sizes
        batch = job.step._worker.batch_of(count, channels, (window[0], window[1]))
        self.tensor = StridedTensor.over(batch, "NCHW")
        self.memory = StridedTensor(batch.buffer, Layout((batch.buffer.nbytes,)), "uint8")
        if self.tensor.layout.is_padded:
            self.memory[...] = 0
        self._filled = 0

    def add(self, images: StridedTensor, _rows: Sequence[Row]) -> None:
        """Fill the next rows."""
        count = images.sizes[0]
        self.tensor[self._filled : self._filled + count] = images
        self._filled += count

    def __str__(self) -> str:
        batch, nbytes = self.tensor, self.tensor.buffer.nbytes
        padding = nbytes - batch.layout.element_count * batch.itemsize
        return f"{nbytes:,} bytes, {padding:,} of them padding, aligned to {batch.alignment} bytes"


def make_batch(
    job: BatchJob, target: Npy | BatchMemory, by_numpy: NumpyStep, done: Callable[[], None]
) -> tuple[list[Pixels], int]:
    """Decode the images on all cores and hand batches on, while the next ones are made.

    Returns the images to time, which are the first ones, and the number of images that were compared with NumPy.
    `done` is called for each image. Raises `StridedGpuError` where a bit differs from NumPy's.
    """
    step, (count, _, height, width) = job.step, job.sizes
    weight = _RESIZE_WEIGHT if step.resizes else 1
    timed = max(1, min(count, PART_SAMPLES, _TIMED_WINDOW_BYTES // (3 * height * width * weight)))
    paths, keys = [image.path for image in job.images], list(sample_keys(image.name for image in job.images))
    source = JobImages(paths, keys, step, job.decoder, keeps=count if job.compares_all else timed)
    first: list[tuple[StridedTensor, Pixels]] = []

    def raised(number: int, _key: object, problem: StridedGpuError) -> None:
        raise source.refusal(number, problem)  # one batch has all images or is not made

    with silent_decoders():
        for _, images, rows in source.batches(job.written_together, raised):
            target.add(images, ())
            for image, row in zip(images, rows, strict=True):
                if row.number < timed:
                    first.append((image, row.columns[0]))
                if job.compares_all:
                    by_numpy.check_bits(image, row.columns[0], keys[row.number], row.number)
                done()
    if not job.compares_all:  # now that no other thread shares NumPy's loops
        for number, (image, pixels) in enumerate(first):
            by_numpy.check_bits(image, pixels, keys[number], number)
    return [pixels for _, pixels in first], count if job.compares_all else len(first)
