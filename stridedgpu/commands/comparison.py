"""A batch beside NumPy: every bit of its images, and the time of one pass beside that of NumPy's expressions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.api.relayout import synchronize
from stridedgpu.api.resize import resize
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.array_like import operand_of
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.operations.images import CropSources
from stridedgpu.preprocess.declaration import border_values, step_conversion
from stridedgpu.preprocess.epochs import Chance
from stridedgpu.preprocess.images import Pixels, image_operand
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.preprocess.windows import drawn_colours, write_windows
from stridedgpu.values.conversion import Constants
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import StridedGpuError

_RUNS: Final = 3


@dataclass(frozen=True)
class Sample:
    """The pixels of an image's window (HWC) before their values are converted, and what converts them."""

    window: Pixels
    constants: Constants


def sample_of(pixels: Pixels, key: str, step: Preprocess[Any]) -> Sample:
    """A decoded image as NumPy needs it: in the step's mode, resized, mirrored, and set into its window."""
    image = image_operand(step, pixels, "cpu")
    assert isinstance(image, Operand), "decoded images are no frames"
    pixels = np.moveaxis(array_of_operand(image), 0, 2)
    element, channels = image.element, pixels.shape[2]
    [placed] = step.placements([(pixels.shape[0], pixels.shape[1])], None if step.seed is None else [key])
    top, left, height, width = placed.place
    above, before, below, after = map(int, placed.box)
    moved = pixels[above:below, before:after]
    if step.resizes:
        rule, passes, shape = step.chosen_interpolation, step.passes, (height, width)
        resized = resize(moved, shape, dims="HWC", layout="HWC", interpolation=rule, passes=passes)
        moved = np.asarray(resized.permute("HWC").numpy())
    if placed.flip:
        moved = moved[:, ::-1]
    window = np.empty((*placed.size, channels), pixels.dtype)
    window[...] = border_values(step, element)
    inside = window[max(0, top) : max(0, top + height), max(0, left) : max(0, left + width)]
    inside[...] = moved[max(0, -top) :, max(0, -left) :][: inside.shape[0], : inside.shape[1]]
    conversion = step_conversion(step, element, channels)
    if not step.colours:
        return Sample(window, Constants(conversion.scale, conversion.bias, conversion.unit))
    assert step.seed is not None, "colours are drawn"
    chance = Chance.of(step.seed, step.epoch, key)
    return Sample(window, Constants(*drawn_colours(step, [chance], conversion, channels)[0]))


def write_with_numpy(sample: Sample, slot: NDArray[Any], step: Preprocess[Any]) -> None:
    """A window as NumPy's users convert it into `slot` (HWC): each expression with its own temporary."""
    scale, bias, unit = sample.constants
    values: NDArray[Any] = sample.window[..., ::-1] if step.channels == (2, 1, 0) else sample.window
    bounds = np.iinfo(slot.dtype) if slot.dtype.kind in "iu" else None
    if scale is not None and bias is not None:
        is_precise = slot.dtype == np.float64 or (bounds is not None and bounds.bits >= 32)
        compute = np.dtype(np.float64 if is_precise else np.float32)
        values, factors, addends = values.astype(compute), np.array(scale, compute), np.array(bias, compute)
        values = values * factors + addends if unit is None else (values / compute.type(unit) + addends) / factors
        if bounds is not None:
            values = np.clip(np.rint(values), bounds.min, bounds.max)
    elif bounds is not None and bounds.max < np.iinfo(values.dtype).max:
        values = np.minimum(values, bounds.max)
    with np.errstate(over="ignore"):  # a value beyond float16's range becomes an infinity
        slot[...] = values


def check_bits(image: NDArray[Any], sample: Sample, step: Preprocess[Any], number: int) -> None:
    """Raise `StridedGpuError` if an image (HWC) differs from NumPy's: wrong pixels are never handed out."""
    expected = np.empty(image.shape, image.dtype)
    write_with_numpy(sample, expected, step)
    bits = np.dtype(f"u{image.dtype.itemsize}")
    if not np.array_equal(image.view(bits), expected.view(bits)):
        raise StridedGpuError(
            f"picture {number} of the batch differs from NumPy's: a fault in stridedgpu, please report it. "
            "Nothing was written."
        )


def compared_times(samples: Sequence[Sample], step: Preprocess[Any]) -> list[tuple[str, str]]:
    """Convert the windows again, by `gather_crops` and by NumPy: rows of the summary with the times and their ratio."""
    windows = [sample.window for sample in samples]
    count, (height, width, channels) = len(windows), windows[0].shape
    conversion, _ = step._worker.conversion_and_fill(element_type(windows[0].dtype), channels)
    sources = CropSources.of_images([operand_of(window, "HWC")[0] for window in windows])
    batch, slots = (
        StridedTensor.over(one._worker.batch_of(count, channels, (height, width)), "NCHW")
        for one in (step, replace(step, device="cpu"))
    )
    slots = slots.permute("NHWC")

    def by_gather_crops() -> None:
        write_windows(sources, [(0, 0)] * count, [False] * count, conversion, batch.operand)
        synchronize(batch.device)

    def by_numpy() -> None:
        for sample, slot in zip(samples, slots.numpy(), strict=True):
            write_with_numpy(sample, slot, step)

    times = [(_seconds(by_gather_crops), _seconds(by_numpy)) for _ in range(_RUNS)]
    seconds, numpy_seconds = (median(column) for column in zip(*times, strict=True))
    nbytes = sum(window.nbytes for window in windows) + slots.layout.element_count * slots.itemsize
    ratio = numpy_seconds / seconds
    speed = f"was {ratio:.1f} times as fast" if ratio >= 1 else f"took {1 / ratio:.1f} times as long"
    return [
        ("gather_crops", _timing(seconds, count, nbytes)),
        ("plain NumPy", _timing(numpy_seconds, count, nbytes)),
        ("compared", f"gather_crops {speed} (medians of {_RUNS} runs)"),
    ]


def counted(number: int, thing: str) -> str:
    """A number of things, such as "1 image" and "2 images"."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _timing(seconds: float, count: int, nbytes: int) -> str:
    speed = f"{nbytes / seconds / 1e9:.2f} GB/s read and written"
    return f"{seconds * 1e3:.2f} ms for {counted(count, 'image')}, {speed}"


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
