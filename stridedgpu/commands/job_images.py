"""The images of a job, in batches by `sg.load`'s machinery: each checked against the window before it is cut."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.thread_count import usable_cores
from stridedgpu.preprocess.decoding import Decoder
from stridedgpu.preprocess.files import ImageError, ImageFile
from stridedgpu.preprocess.geometry import resized_sizes
from stridedgpu.preprocess.images import Pixels
from stridedgpu.preprocess.loader import BatchMaker, Refuse
from stridedgpu.preprocess.samples import Form, Sample
from stridedgpu.preprocess.step import Preprocess

AHEAD: Final = 2
"""Batches that are begun while one is written, besides those that the threads work on."""

SAMPLES: Final = (
    "astronaut.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "hubble_deep_field.jpg",
    "motorcycle_left.png",
    "retina.jpg",
    "rocket.jpg",
)


def sample_images() -> list[ImageFile]:
    """The images in scikit-image's wheel: no network, and scikit-image itself is not imported."""
    spec = find_spec("skimage")
    if spec is None or spec.origin is None:
        raise ImageError(
            'the sample images come with scikit-image, which is not installed: pip install "stridedgpu[demo]".'
        )
    folder = Path(spec.origin).parent / "data"
    images = [ImageFile(folder / name, name) for name in SAMPLES if (folder / name).is_file()]
    if not images:
        raise ImageError(f"this scikit-image carries no images in {str(folder)!r}; name images of your own.")
    return images


class JobImages:
    """Files with their keys, as the samples of a step. The pixels of those below `keeps` stay in `kept`.

    These take up to `most_bytes` together.
    """

    form = Form(None)
    is_encoded = True

    def __init__(
        self,
        paths: Sequence[Path],
        keys: Sequence[str],
        step: Preprocess[Any],
        decoder: Decoder,
        *,
        keeps: int = 0,
        most_bytes: int = 0,
    ) -> None:
        self.keys, self._paths, self._step, self._decoder = keys, paths, step, decoder
        self._keeps, self._room, self._lock = keeps, most_bytes, Lock()
        self.kept: dict[int, Pixels] = {}

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, number: int) -> Sample:
        return _JobImage(number, self.keys[number], self._paths[number], (), self)

    def batches(
        self, size: int, refuse: Refuse, threads: int | None = None
    ) -> Generator[tuple[int, StridedTensor, list[Sample]]]:
        """Batches of up to `size` images, as `BatchMaker.batches` gives them; by default one thread for each core."""
        maker = BatchMaker(self._step, self, self._decoder, refuse)
        return maker.batches(range(len(self)), size, threads or usable_cores(), AHEAD, self._step.epoch)

    def decoded(self, number: int, path: Path, decoder: Decoder) -> Pixels:
        """The pixels of an image. Raises `ImageError` for one that has no such window."""
        pixels = decoder.frame(path, str(path))
        if decoder.deep and pixels.dtype != np.uint16:
            raise ImageError(
                f"{str(path)!r} holds samples of {pixels.dtype}; with --deep all images have 16 bits (uint16)."
            )
        self._check_window(pixels, path)
        if number < self._keeps:
            with self._lock:
                self._room -= pixels.nbytes
                if self._room > 0 or not number:
                    self.kept[number] = pixels
        return pixels

    def _check_window(self, pixels: Pixels, path: Path) -> None:
        """Raise `ImageError`, in the command's words, for an image below its window, or too large when resized."""
        step = self._step
        height, width = resized_sizes(step, (pixels.shape[0], pixels.shape[1]))
        if step.resize is not None:
            from PIL import Image

            if Image.MAX_IMAGE_PIXELS is not None and width * height > Image.MAX_IMAGE_PIXELS:
                raise ImageError(
                    f"{str(path)!r} scaled to {width} x {height} by --resize {step.resize[0]} "
                    f"would pass {Image.MAX_IMAGE_PIXELS} pixels; give a smaller --resize."
                )
        if step.crop is None or step.random_resized_crop is not None or step.pad is not None:
            return
        rows, columns = step.crop
        if rows > height or columns > width:
            raise ImageError(
                f"{str(path)!r} is {height} x {width} (height x width), smaller than --size {rows}x{columns}: "
                "give a smaller --size, or scale images first with --resize."
            )


@dataclass(frozen=True, slots=True)
class _JobImage(Sample):
    """One image of a job."""

    job: JobImages

    def pixels(self, decoder: Decoder) -> Pixels:
        return self.job.decoded(self.number, self.image, decoder)
