"""The main job: photographs into one batch, some at a time by a `Preprocess`, and the same work in NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median
from typing import Any

import numpy as np

from stridedgpu.api.creation import empty
from stridedgpu.api.relayout import synchronize
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.thread_count import usable_cores
from stridedgpu.exchange.array_like import operand_of
from stridedgpu.operations.crops import CropSources
from stridedgpu.operations.options import ValueOptions
from stridedgpu.preprocess.decoding import Pixels, quiet_decoders
from stridedgpu.preprocess.image_files import ImageFile, sample_keys
from stridedgpu.preprocess.sample_keys import draw
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.preprocess.windows import write_windows
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.errors import StridedGpuError
from stridedgpu.values.layout import Layout

from .images import load_frame, window_origin

# Images that are decoded together; besides the batch and the compared samples, only they are in memory.
IMAGES_AT_ONCE = 16
# How much of a batch is compared with NumPy: its first images, while they and the crops stay below these.
COMPARED_CROP_BYTES = 1 << 24
COMPARED_FRAME_BYTES = 1 << 28
RUNS = 7
ENOUGH_SECONDS = 2.0


@dataclass(frozen=True)
class BatchJob:
    """What shall be made of which pictures, as `FolderJob` says it of a folder's.

    `step` has output="tensor", and its `crop` is the windows' size; `resize` scales the shorter side, in pixels, first.
    The window is the middle, or with `random_crop` drawn from the step's seed and the picture's name.
    """

    pictures: Sequence[ImageFile]
    step: Preprocess
    resize: int | None = None
    random_crop: bool = False


@dataclass(frozen=True)
class Sample:
    """A decoded picture (HWC), its key, where its window begins, and whether that is mirrored."""

    frame: Pixels
    key: str
    origin: tuple[int, int]
    is_mirrored: bool

    def window(self, size: tuple[int, int]) -> Pixels:
        """The window's pixels where the decoder left them, not mirrored."""
        (top, left), (height, width) = self.origin, size
        return self.frame[top : top + height, left : left + width]

    def mirrored_window(self, size: tuple[int, int]) -> Pixels:
        """The window's pixels as NumPy sees them."""
        pixels = self.window(size)
        return pixels[:, ::-1] if self.is_mirrored else pixels


@dataclass(frozen=True)
class Comparison:
    """Seconds that gather_crops and plain NumPy take for the same images, and the bytes that each reads and writes."""

    pictures: int
    bytes_moved: int
    seconds: float
    numpy_seconds: float
    runs: int


def make_batch(job: BatchJob, done: Callable[[], None]) -> tuple[StridedTensor, list[Sample]]:
    """The batch of the job's pictures, decoded on all cores and written some at a time; and the samples to compare.

    These are the first ones, as many as may stay in memory. `done` is called after each picture.
    """
    batch: StridedTensor | None = None
    compared: list[Sample] = []
    first = 0
    for samples in _decoded(job, done):
        if batch is None:  # only now: a size that no picture has is refused before memory is asked for
            batch = _new_batch(job.step, len(job.pictures))
        if len(compared) == first:
            compared = _affordable([*compared, *samples], job.step)
        column = job.step.column
        windows = {column: [sample.window(job.step.crop) for sample in samples]}
        batch[first : first + len(samples)] = job.step(windows, [sample.key for sample in samples])[column]
        first += len(samples)
    if batch is None:
        raise StridedGpuError("no pictures: a batch holds at least one.")
    return batch, compared


def _new_batch(step: Preprocess, count: int) -> StridedTensor:
    """Room for `count` pictures; padding is zero, as it may be written out."""
    batch = empty(
        (count, step.channel_count or 3, *step.crop),
        step.dtype,
        layout=step.layout,
        row_pitch_bytes=step.row_pitch_bytes,
        alignment=step.alignment,
        device=None if step.device == "auto" else step.device,
    )
    if batch.layout.is_padded:
        memory_of(batch)[...] = 0
    return batch


def _decoded(job: BatchJob, done: Callable[[], None]) -> Iterator[list[Sample]]:
    """The pictures, some at a time, with what chance decides for each."""
    step = job.step
    keyed = zip(job.pictures, sample_keys(picture.name for picture in job.pictures), strict=True)

    def decode(picture: ImageFile, key: str) -> Sample:
        frame, drawn = load_frame(picture.path, job.resize), None if step.seed is None else draw(step.seed, key)
        origin = window_origin(frame, step.crop, picture.path, drawn if job.random_crop else None)
        return Sample(frame, key, origin, drawn is not None and drawn.flips(float(step.flip or 0)))

    with quiet_decoders(), ThreadPoolExecutor(usable_cores()) as pool:
        while group := list(islice(keyed, IMAGES_AT_ONCE)):
            samples = []
            for sample in pool.map(decode, *zip(*group, strict=True)):
                samples.append(sample)
                done()
            yield samples


def _affordable(samples: list[Sample], step: Preprocess) -> list[Sample]:
    """The first samples that together stay below what is kept for comparison; one at least."""
    frame_bytes, crop_bytes = 0, 0
    for place, sample in enumerate(samples):
        frame_bytes += sample.frame.nbytes
        crop_bytes += sample.window(step.crop).nbytes
        if place and (frame_bytes > COMPARED_FRAME_BYTES or crop_bytes > COMPARED_CROP_BYTES):
            return samples[:place]
    return samples


def write_with_gather_crops(samples: Sequence[Sample], batch: StridedTensor, step: Preprocess) -> None:
    """The windows, where the decoder left them, into `batch` in one pass over the pixels: what is timed."""
    values = ValueOptions(batch.element, step.scale, step.bias, step.channels)
    write_windows(
        CropSources.of_images([operand_of(sample.frame, "HWC")[0] for sample in samples]),
        [sample.origin for sample in samples],
        [sample.is_mirrored for sample in samples],
        values.conversion(ELEMENT_TYPES["uint8"], 3, batch.element),
        batch.operand,
    )


def write_with_numpy(crop: Pixels, slot: np.ndarray[Any, np.dtype[Any]], step: Preprocess) -> None:
    """The same as NumPy's users write it, `slot` being HWC: expression by expression, each with its own temporary."""
    values: np.ndarray[Any, np.dtype[Any]] = crop[..., ::-1] if step.channels == (2, 1, 0) else crop
    bounds = np.iinfo(slot.dtype) if slot.dtype.kind in "iu" else None
    if step.scale is not None and step.bias is not None:
        precise = slot.dtype == np.float64 or (bounds is not None and bounds.bits >= 32)
        compute = np.dtype(np.float64 if precise else np.float32)
        values = values.astype(compute) * np.array(step.scale, compute) + np.array(step.bias, compute)
        if bounds is not None:
            values = np.clip(np.rint(values), bounds.min, bounds.max)
    elif bounds is not None and bounds.max < 255:
        values = np.minimum(values, bounds.max)
    with np.errstate(over="ignore"):  # a value beyond float16's range becomes an infinity
        slot[...] = values


def compare(batch: StridedTensor, samples: Sequence[Sample], step: Preprocess) -> Comparison:
    """Do the first pictures again, by gather_crops and by NumPy, for their times, and look at every bit of the batch.

    Raises `StridedGpuError` if a bit differs, so that wrong pixels are never handed out.
    """
    scratch = _new_batch(replace(step, device="cpu"), len(samples))
    slots = scratch.permute("NHWC").numpy()
    windows = [sample.mirrored_window(step.crop) for sample in samples]

    timed = _new_batch(step, len(samples))

    def by_gather_crops() -> None:
        write_with_gather_crops(samples, timed, step)
        synchronize(batch.device)

    def by_numpy() -> None:
        for window, slot in zip(windows, slots, strict=True):
            write_with_numpy(window, slot, step)

    times: list[tuple[float, float]] = []
    began = time.perf_counter()
    while len(times) < RUNS and (len(times) < 3 or time.perf_counter() - began < ENOUGH_SECONDS):
        times.append((_seconds(by_gather_crops), _seconds(by_numpy)))

    bits = np.dtype(f"u{slots.dtype.itemsize}")
    for index, slot in enumerate(slots):
        ours = batch[index].permute("HWC").numpy()
        if not np.array_equal(ours.view(bits), slot.view(bits)):
            raise StridedGpuError(
                f"picture {index} of the batch differs from NumPy's: a fault in stridedgpu, please report it. "
                "Nothing was written."
            )
    return Comparison(
        pictures=len(samples),
        bytes_moved=sum(window.nbytes for window in windows) + slots.size * slots.dtype.itemsize,
        seconds=median(ours for ours, _ in times),
        numpy_seconds=median(theirs for _, theirs in times),
        runs=len(times),
    )


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def memory_of(batch: StridedTensor) -> StridedTensor:
    """The bytes of `batch`, padding included, in memory order."""
    return StridedTensor(batch.buffer, Layout((batch.buffer.nbytes,)), "uint8")
