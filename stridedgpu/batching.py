"""The main job: photographs into one batch, each in one fused relayout into its slot, and the same work in NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from .creation import asarray, empty
from .errors import StridedGpuError
from .functions import relayout, synchronize
from .images import Frame, centre_crop, load_frame
from .layout import Layout
from .tensor import StridedTensor

# How much of a batch is measured against NumPy: its first pictures, while they and the crops stay below these.
COMPARED_CROP_BYTES = 1 << 24
COMPARED_FRAME_BYTES = 1 << 28
RUNS = 7
ENOUGH_SECONDS = 2.0


@dataclass(frozen=True)
class Recipe:
    """What a batch shall be: sizes in pixels, `scale` and `bias` one value for each output channel.

    `zero_padding` is for a batch whose memory is going to be written out with its padding.
    """

    size: tuple[int, int]
    resize: int | None = None
    layout: str = "NCHW"
    dtype: str = "float32"
    scale: tuple[float, ...] | None = None
    bias: tuple[float, ...] | None = None
    bgr: bool = False
    alignment: int = 32
    row_pitch_bytes: int | None = None
    device: str | None = None
    zero_padding: bool = False

    def new_batch(self, count: int) -> StridedTensor:
        """Room for `count` pictures."""
        batch = empty(
            (count, 3, *self.size),
            self.dtype,
            layout=self.layout,
            row_pitch_bytes=self.row_pitch_bytes,
            alignment=self.alignment,
            device=self.device,
        )
        if self.zero_padding and batch.layout.is_padded:
            memory_of(batch)[...] = 0
        return batch


@dataclass(frozen=True)
class Comparison:
    """Seconds that relayout and plain NumPy take for the same pictures, and the bytes each reads and writes."""

    pictures: int
    bytes_moved: int
    seconds: float
    numpy_seconds: float
    runs: int


def make_batch(pictures: Sequence[Path], recipe: Recipe, step: Callable[[], None]) -> tuple[StridedTensor, list[Frame]]:
    """The batch of `pictures`, each decoded and the middle of it relayouted into its slot; and the crops to compare.

    These are the first ones, as many as may stay in memory. `step` is called after each picture.
    """
    batch: StridedTensor | None = None
    kept: list[Frame] = []
    frame_bytes = crop_bytes = 0
    for index, path in enumerate(pictures):
        frame = load_frame(path, recipe.resize)
        rows, columns = centre_crop(frame, recipe.size, path)
        if batch is None:  # only now: a size that no picture has is refused before memory is asked for
            batch = recipe.new_batch(len(pictures))
        crop = frame[rows, columns]
        write(crop, batch[index], recipe)
        frame_bytes += frame.nbytes
        crop_bytes += crop.nbytes
        within = frame_bytes <= COMPARED_FRAME_BYTES and crop_bytes <= COMPARED_CROP_BYTES
        if index == 0 or (within and len(kept) == index):
            kept.append(crop)
        step()
    if batch is None:
        raise StridedGpuError("no pictures: a batch holds at least one.")
    return batch, kept


def write(crop: Frame, slot: StridedTensor, recipe: Recipe) -> None:
    """The pixels of `crop` (HWC, where the decoder left them) into `slot` (CHW): one pass, no temporary."""
    source = asarray(crop, dims="HWC", copy=False)
    if slot.device != source.device:
        source = source.to_device(slot.device)
    channels = (2, 1, 0) if recipe.bgr else None
    relayout(source, scale=recipe.scale, bias=recipe.bias, channels=channels, out=slot)


def write_with_numpy(crop: Frame, slot: np.ndarray[Any, np.dtype[Any]], recipe: Recipe) -> None:
    """The same as NumPy's users write it, `slot` being HWC: expression by expression, each with its own temporary."""
    values: np.ndarray[Any, np.dtype[Any]] = crop[..., ::-1] if recipe.bgr else crop
    bounds = np.iinfo(slot.dtype) if slot.dtype.kind in "iu" else None
    if recipe.scale is not None and recipe.bias is not None:
        precise = slot.dtype == np.float64 or (bounds is not None and bounds.bits >= 32)
        compute = np.dtype(np.float64 if precise else np.float32)
        values = values.astype(compute) * np.array(recipe.scale, compute) + np.array(recipe.bias, compute)
        if bounds is not None:
            values = np.clip(np.rint(values), bounds.min, bounds.max)
    elif bounds is not None and bounds.max < 255:
        values = np.minimum(values, bounds.max)
    with np.errstate(over="ignore"):  # beyond float16's range a value becomes an infinity
        slot[...] = values


def compare(batch: StridedTensor, crops: Sequence[Frame], recipe: Recipe) -> Comparison:
    """Do the first pictures again, by relayout and by NumPy, for their times and for every bit of their pixels.

    Raises `StridedGpuError` where a bit differs: wrong pixels are not handed out.
    """
    scratch = replace(recipe, device="cpu").new_batch(len(crops))
    slots = scratch.permute("NHWC").numpy()

    def by_relayout() -> None:
        for index, crop in enumerate(crops):
            write(crop, batch[index], recipe)
        synchronize(batch.device)

    def by_numpy() -> None:
        for crop, slot in zip(crops, slots, strict=True):
            write_with_numpy(crop, slot, recipe)

    times: list[tuple[float, float]] = []
    began = time.perf_counter()
    while len(times) < RUNS and (len(times) < 3 or time.perf_counter() - began < ENOUGH_SECONDS):
        times.append((_seconds(by_relayout), _seconds(by_numpy)))

    bits = np.dtype(f"u{slots.dtype.itemsize}")
    for index, slot in enumerate(slots):
        ours = batch[index].permute("HWC").numpy()
        if not np.array_equal(ours.view(bits), slot.view(bits)):
            raise StridedGpuError(
                f"picture {index} of the batch differs from NumPy's: a fault in stridedgpu, please report it. "
                "Nothing was written."
            )
    return Comparison(
        pictures=len(crops),
        bytes_moved=sum(crop.nbytes for crop in crops) + slots.size * slots.dtype.itemsize,
        seconds=median(ours for ours, _ in times),
        numpy_seconds=median(theirs for _, theirs in times),
        runs=len(times),
    )


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def memory_of(batch: StridedTensor) -> StridedTensor:
    """The bytes that `batch` takes up, padding included, in the order in which they lie."""
    return StridedTensor(batch.buffer, Layout((batch.buffer.nbytes,)), "uint8")
