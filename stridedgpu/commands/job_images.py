"""The images of a job as the source of `sg.load`'s machinery: checked against the window before a thread cuts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Final

import numpy as np

from stridedgpu.preprocess.declaration import Declaration
from stridedgpu.preprocess.decoding import Decoder
from stridedgpu.preprocess.files import ImageError, ImageFile
from stridedgpu.preprocess.geometry import resized_sizes
from stridedgpu.preprocess.images import Pixels
from stridedgpu.preprocess.samples import Form, Sample

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
    """The photographs in scikit-image's wheel: no network, and scikit-image itself is not imported."""
    spec = find_spec("skimage")
    if spec is None or spec.origin is None:
        raise ImageError(
            'the sample photographs come with scikit-image, which is not installed: pip install "stridedgpu[demo]".'
        )
    folder = Path(spec.origin).parent / "data"
    images = [ImageFile(folder / name, name) for name in SAMPLES if (folder / name).is_file()]
    if not images:
        raise ImageError(f"this scikit-image carries no photographs in {str(folder)!r}; name pictures of your own.")
    return images


class JobImages:
    """Files with their keys. The pixels of those below `keeps` stay in `kept`, up to `most_bytes` together."""

    form = Form(None)
    is_encoded = True

    def __init__(
        self, paths: Sequence[Path], keys: Sequence[str], step: Declaration, *, keeps: int = 0, most_bytes: int = 0
    ) -> None:
        self._paths, self._keys, self._step = paths, keys, step
        self._keeps, self._room, self._lock = keeps, most_bytes, Lock()
        self.kept: dict[int, Pixels] = {}

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, number: int) -> Sample:
        return _JobImage(number, self._keys[number], self._paths[number], (), self)

    def decoded(self, number: int, path: Path, decoder: Decoder) -> Pixels:
        """The pixels of an image. Raises `ImageError` for one that has no such window."""
        pixels = decoder.frame(path, str(path))
        if decoder.deep and pixels.dtype != np.uint16:
            raise ImageError(
                f"{str(path)!r} holds samples of {pixels.dtype}; with --deep all pictures have 16 bits (uint16)."
            )
        _check_window(self._step, pixels, path)
        if number < self._keeps:
            with self._lock:
                self._room -= pixels.nbytes
                if self._room > 0 or not number:
                    self.kept[number] = pixels
        return pixels


@dataclass(frozen=True, slots=True)
class _JobImage(Sample):
    """One image of a job."""

    job: JobImages

    def pixels(self, decoder: Decoder) -> Pixels:
        return self.job.decoded(self.number, self.image, decoder)


def _check_window(step: Declaration, pixels: Pixels, path: Path) -> None:
    """Raise `ImageError` if the image is smaller than its window, or too large when resized: in the command's words."""
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
            "give a smaller --size, or scale pictures first with --resize."
        )
