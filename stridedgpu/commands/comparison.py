"""A batch beside NumPy's loops: every bit of its images, and the time of one pass beside that of these loops.

The library carries out every operation by NumPy, too, which is what its compiled loops and kernels are tested with.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, Final

import numpy as np

from stridedgpu.api.relayout import synchronize
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.policy import PromotionPolicy, policy, using
from stridedgpu.exchange.array_like import operand_of
from stridedgpu.operations.images import CropSources
from stridedgpu.preprocess.images import Pixels
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.preprocess.windows import write_windows
from stridedgpu.preprocess.worker import Call
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import StridedGpuError

_RUNS: Final = 3

_NEVER: Final = PromotionPolicy(*[sys.maxsize] * len(PromotionPolicy._fields))
"""No work is promoted from NumPy to a compiled loop."""


class NumpyStep:
    """A step that NumPy's loops carry out, on the CPU."""

    def __init__(self, step: Preprocess[Any]) -> None:
        self._step, self._near = step, replace(step, device="cpu")
        self._policy = policy()._replace(promotion=_NEVER)

    def check_bits(self, image: StridedTensor, pixels: Pixels, key: str, number: int) -> None:
        """Raise `StridedGpuError` if an image of the step differs from NumPy's: wrong pixels are never handed out."""
        with using(self._policy):
            [expected] = self._near._worker.images([pixels], Call([key], self._step.epoch), stacked=True).images
        if image.numpy().tobytes() != expected.numpy().tobytes():
            raise StridedGpuError(
                f"image {number} of the batch differs from NumPy's: a fault in stridedgpu, please report it. "
                "Nothing was written."
            )

    def compared_times(self, images: Sequence[Pixels]) -> list[tuple[str, str]]:
        """Convert a window of each image by `gather_crops` and by NumPy: rows with the times and their ratio.

        A window repeats an image's pixels: which ones they are makes no difference to the time.
        """
        step, count = self._step, len(images)
        assert step.window is not None, "the command line declares --size"
        channels = 1 if step.mode == "gray" else images[0].shape[2]
        windows = [np.resize(image[..., :channels], (*step.window, channels)) for image in images]
        sources = CropSources.of_images([operand_of(window, "HWC")[0] for window in windows])
        conversion, _ = step._worker.conversion_and_fill(element_type(windows[0].dtype), channels)
        batch, near = (one._worker.batch_of(count, channels, step.window) for one in (step, self._near))

        def by_gather_crops() -> None:
            write_windows(sources, [(0, 0)] * count, [False] * count, conversion, batch)
            synchronize(batch.buffer.device)

        def by_numpy() -> None:
            with using(self._policy):
                write_windows(sources, [(0, 0)] * count, [False] * count, conversion, near)

        times = [(_seconds(by_gather_crops), _seconds(by_numpy)) for _ in range(_RUNS)]
        seconds, numpy_seconds = (median(column) for column in zip(*times, strict=True))
        nbytes = sum(window.nbytes for window in windows) + near.layout.element_count * near.element.itemsize
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
