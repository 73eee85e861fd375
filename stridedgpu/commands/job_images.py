"""The images of a job, in batches by `sg.load`'s machinery; what is wrong with one is said in the command's words."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.thread_count import usable_cores
from stridedgpu.preprocess.decoding import Decoder
from stridedgpu.preprocess.files import ImageError, ImageFile
from stridedgpu.preprocess.geometry import resized_sizes
from stridedgpu.preprocess.images import Pixels
from stridedgpu.preprocess.loader import BatchMaker
from stridedgpu.preprocess.samples import Form, Sample
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.values.errors import StridedGpuError

from .preprocess_options import in_options

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


def bytes_of(paths: Iterable[Path]) -> int:
    """The size of files together; one that is missing has none."""
    total = 0
    for path in paths:
        with suppress(OSError):
            total += path.stat().st_size
    return total


class JobImages:
    """Files with their keys, as the samples of a step, with their pixels as a column too where it `keeps` them.

    `skipped` has the reason of each image that was left out, by its number; with errors="raise" the first is raised.
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
        errors: str = "raise",
        keeps: bool = False,
    ) -> None:
        self._paths, self._keys, self._step, self._decoder, self._keeps = paths, keys, step, decoder, keeps
        self._errors = errors
        self.skipped: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, number: int) -> Sample:
        pixels = self._decoded(self._paths[number])
        return Sample(number, self._keys[number], pixels, (pixels,) if self._keeps else ())

    def batches(self, size: int, threads: int | None = None) -> Generator[tuple[int, StridedTensor, list[Sample]]]:
        """Batches of up to `size` images, as `BatchMaker.batches` gives them; by default one thread for each core."""
        maker = BatchMaker(self._step, self, self._decoder, self._refuse)
        return maker.batches(range(len(self)), size, threads or usable_cores(), AHEAD, self._step.epoch)

    def _decoded(self, path: Path) -> Pixels:
        """The pixels of an image. Raises `ImageError` also for one that is too large when it is resized."""
        pixels = self._decoder.frame(path, str(path))
        if self._decoder.deep and pixels.dtype != np.uint16:
            raise ImageError(
                f"{str(path)!r} holds samples of {pixels.dtype}; with --deep all images have 16 bits (uint16)."
            )
        self._check_resize(pixels, path)
        return pixels

    def _check_resize(self, pixels: Pixels, path: Path) -> None:
        """Raise `ImageError` for more pixels than Pillow opens: the taps of a resize would not fit the memory."""
        if self._step.resize is None:
            return
        from PIL import Image

        height, width = resized_sizes(self._step, (pixels.shape[0], pixels.shape[1]))
        if Image.MAX_IMAGE_PIXELS is not None and width * height > Image.MAX_IMAGE_PIXELS:
            raise ImageError(
                f"{str(path)!r} scaled to {width} x {height} by --resize {self._step.resize[0]} "
                f"would pass {Image.MAX_IMAGE_PIXELS} pixels; give a smaller --resize."
            )

    def _refuse(self, number: int, _key: object, problem: StridedGpuError) -> None:
        """Leave an image out, or raise what is wrong with it, in the command's words, with the name of its file."""
        text = in_options(problem)
        text = text if isinstance(problem, ImageError) else f"{str(self._paths[number])!r}: {text}"
        if self._errors == "raise":
            raise ImageError(text)
        self.skipped[number] = text
