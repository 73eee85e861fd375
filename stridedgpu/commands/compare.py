"""The work of the main job in NumPy: its bits, which are compared, and its time beside that of `gather_crops`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final

import numpy as np

from stridedgpu.api.creation import empty
from stridedgpu.api.relayout import synchronize
from stridedgpu.api.resize import resize
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.exchange.array_like import operand_of
from stridedgpu.operations.crop_sources import CropSources
from stridedgpu.operations.options import ValueOptions
from stridedgpu.preprocess.colours import drawn_colours
from stridedgpu.preprocess.decoding import Pixels
from stridedgpu.preprocess.geometry import middle, resized_sizes
from stridedgpu.preprocess.normalisation import border_values, scale_and_bias
from stridedgpu.preprocess.sample_keys import Chance, draw
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.preprocess.windows import write_windows
from stridedgpu.values.conversion import Normalisation
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import StridedGpuError
from stridedgpu.values.layout import Layout

RUNS: Final = 3

_LUMA: Final = (19595, 38470, 7471)
"""Pillow's and ITU-R BT.601's weights of red, green and blue, of which 65536 are 1."""


@dataclass(frozen=True)
class Sample:
    """A decoded image (HWC), where its window begins, whether that is mirrored, and how its values are normalised."""

    frame: Pixels
    origin: tuple[int, int]
    is_mirrored: bool
    normalisation: Normalisation

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

    images: int
    bytes_moved: int
    seconds: float
    numpy_seconds: float
    runs: int


def sample_of(pixels: Pixels, key: str, step: Preprocess[Any]) -> Sample:
    """A decoded image as NumPy needs it: resized as a whole, and where its window begins."""
    pixels = _adapted(pixels, step)
    made = _normalisation(pixels, key, step)
    if step.letterbox is not None or step.random_resized_crop is not None or step.pad is not None:
        return Sample(_placed(pixels, key, step), (0, 0), is_mirrored=False, normalisation=made)
    sizes = resized_sizes(step, (pixels.shape[0], pixels.shape[1]))
    frame: Pixels = pixels
    if step.resize is not None:
        rule = step.chosen_interpolation
        resized = resize(pixels, sizes, dims="HWC", layout="HWC", interpolation=rule, passes=step.passes)
        frame = np.asarray(resized.permute("HWC").numpy())
    drawn = None if step.seed is None else draw(step.seed, key, step.epoch)
    window = window_of(step)
    is_random = drawn is not None and step.random_crop is not False
    origin = drawn.origin(sizes, window) if drawn is not None and is_random else middle(sizes, window, step.center)
    return Sample(frame, origin, drawn is not None and drawn.flips(float(step.flip or 0)), made)


def _adapted(pixels: Pixels, step: Preprocess[Any]) -> Pixels:
    """An image in the step's mode, and clipped."""
    if step.mode == "gray":
        red, green, blue = (pixels[..., channel].astype(np.int64) for channel in range(3))
        luma = red * _LUMA[0] + green * _LUMA[1] + blue * _LUMA[2]
        pixels = ((luma + 32768) >> 16).astype(pixels.dtype)[..., np.newaxis]
    if step.clip is not None:
        bounds = np.iinfo(pixels.dtype)
        low, high = max(np.ceil(step.clip[0]), bounds.min), min(np.floor(step.clip[1]), bounds.max)
        pixels = np.clip(pixels, pixels.dtype.type(low), pixels.dtype.type(high))
    return pixels


def _normalisation(pixels: Pixels, key: str, step: Preprocess[Any]) -> Normalisation:
    """What the values of an image are multiplied by and what is added, its random colour included."""
    element = element_type(pixels.dtype)
    if not step.colours:
        return scale_and_bias(step, element)
    assert step.seed is not None, "colours are drawn"
    chance = Chance.of(step.seed, step.epoch, key)
    return Normalisation(*drawn_colours(step, [chance], element, pixels.shape[2])[0])


def window_of(step: Preprocess[Any]) -> tuple[int, int]:
    """Height and width of every result of the command, which declares them."""
    assert step.window is not None, "the command line declares --size"
    return step.window


def _placed(pixels: Pixels, key: str, step: Preprocess[Any]) -> Pixels:
    """A result's pixels: the box of the image, cut out, resized and mirrored, set into a window of the fill value."""
    [placed] = step.placements([(pixels.shape[0], pixels.shape[1])], None if step.seed is None else [key])
    top, left, height, width = placed.place
    above, before, below, after = map(int, placed.box)
    frame = pixels[above:below, before:after]
    if step.resizes:
        rule, passes, shape = step.chosen_interpolation, step.passes, (height, width)
        resized = resize(frame, shape, dims="HWC", layout="HWC", interpolation=rule, passes=passes)
        frame = np.asarray(resized.permute("HWC").numpy())
    if placed.flip:
        frame = frame[:, ::-1]
    window = np.empty((*placed.size, pixels.shape[2]), pixels.dtype)
    window[...] = border_values(step, element_type(pixels.dtype))
    rows, columns = (slice(max(0, start), max(0, start + count)) for start, count in ((top, height), (left, width)))
    skipped = slice(max(0, -top), None), slice(max(0, -left), None)
    inside = window[rows, columns]
    inside[...] = frame[skipped][: inside.shape[0], : inside.shape[1]]
    return window


def write_with_gather_crops(samples: Sequence[Sample], batch: StridedTensor, step: Preprocess[Any]) -> None:
    """The windows, where the decoder left them, into `batch` in one pass over the pixels: what is timed."""
    frame = samples[0].frame
    scale, bias, unit = samples[0].normalisation
    values = ValueOptions(batch.element, scale, bias, step.channels, unit=unit)
    write_windows(
        CropSources.of_images([operand_of(sample.frame, "HWC")[0] for sample in samples]),
        [sample.origin for sample in samples],
        [sample.is_mirrored for sample in samples],
        values.conversion(element_type(frame.dtype), frame.shape[2], batch.element),
        batch.operand,
    )


def write_with_numpy(
    crop: Pixels, slot: np.ndarray[Any, np.dtype[Any]], step: Preprocess[Any], made: Normalisation
) -> None:
    """The same as NumPy's users write it, `slot` being HWC: expression by expression, each with its own temporary."""
    values: np.ndarray[Any, np.dtype[Any]] = crop[..., ::-1] if step.channels == (2, 1, 0) else crop
    bounds = np.iinfo(slot.dtype) if slot.dtype.kind in "iu" else None
    if made.scale is not None and made.bias is not None:
        precise = slot.dtype == np.float64 or (bounds is not None and bounds.bits >= 32)
        compute = np.dtype(np.float64 if precise else np.float32)
        values, scale, bias = values.astype(compute), np.array(made.scale, compute), np.array(made.bias, compute)
        values = values * scale + bias if made.unit is None else (values / compute.type(made.unit) + bias) / scale
        if bounds is not None:
            values = np.clip(np.rint(values), bounds.min, bounds.max)
    elif bounds is not None and bounds.max < np.iinfo(crop.dtype).max:
        values = np.minimum(values, bounds.max)
    with np.errstate(over="ignore"):  # a value beyond float16's range becomes an infinity
        slot[...] = values


def check_bits(made: np.ndarray[Any, np.dtype[Any]], sample: Sample, step: Preprocess[Any], number: int) -> None:
    """Raise `StridedGpuError` if an image (axes HWC) differs from NumPy's: wrong pixels are never handed out."""
    expected = np.empty(made.shape, made.dtype)
    write_with_numpy(sample.mirrored_window(window_of(step)), expected, step, sample.normalisation)
    bits = np.dtype(f"u{made.dtype.itemsize}")
    if not np.array_equal(made.view(bits), expected.view(bits)):
        raise StridedGpuError(
            f"picture {number} of the batch differs from NumPy's: a fault in stridedgpu, please report it. "
            "Nothing was written."
        )


def compare(samples: Sequence[Sample], step: Preprocess[Any]) -> Comparison:
    """Do the first images again, by gather_crops and by NumPy, for their times."""
    scratch = _new_batch(replace(step, device="cpu"), len(samples))
    slots = scratch.permute("NHWC").numpy()
    windows = [sample.mirrored_window(window_of(step)) for sample in samples]
    timed = _new_batch(step, len(samples))

    def by_gather_crops() -> None:
        write_with_gather_crops(samples, timed, step)
        synchronize(timed.device)

    def by_numpy() -> None:
        for sample, window, slot in zip(samples, windows, slots, strict=True):
            write_with_numpy(window, slot, step, sample.normalisation)

    times = [(_seconds(by_gather_crops), _seconds(by_numpy)) for _ in range(RUNS)]
    return Comparison(
        images=len(samples),
        bytes_moved=sum(window.nbytes for window in windows) + slots.size * slots.dtype.itemsize,
        seconds=median(ours for ours, _ in times),
        numpy_seconds=median(theirs for _, theirs in times),
        runs=RUNS,
    )


def _new_batch(step: Preprocess[Any], count: int) -> StridedTensor:
    """Room for `count` images."""
    return empty(
        (count, step.channel_count or 3, *window_of(step)),
        step.dtype,
        layout=step.layout,
        row_pitch_bytes=step.row_pitch_bytes,
        alignment=step.alignment,
        device=None if step.device == "auto" else step.device,
    )


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def memory_of(batch: StridedTensor) -> StridedTensor:
    """The bytes of `batch`, padding included, in memory order."""
    return StridedTensor(batch.buffer, Layout((batch.buffer.nbytes,)), "uint8")
