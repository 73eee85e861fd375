"""The sample photographs of the command line, and the windows in decoded images."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from stridedgpu.preprocess.decoding import Decoder, Pixels
from stridedgpu.preprocess.image_files import ImageError, ImageFile
from stridedgpu.preprocess.sample_keys import Draw

INTERPOLATION: Final = "pillow-bilinear"
PASSES: Final = "horizontal"
"""How `resize` scales a picture, and which axis it scales first: names of `stridedgpu.resize`."""

SAMPLES = (
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
    found = [ImageFile(folder / name, name) for name in SAMPLES if (folder / name).is_file()]
    if not found:
        raise ImageError(f"this scikit-image carries no photographs in {str(folder)!r}; name pictures of your own.")
    return found


def load_frame(path: Path, resize: int | None = None) -> Pixels:
    """The pixels of one image, scaled so that its shorter side is `resize`. Raises `ImageError`."""
    rgb = Decoder().frame(path, str(path))
    if resize is None:
        return rgb
    from PIL import Image

    from stridedgpu.api.resize import resize as scaled

    width, height = _scaled((rgb.shape[1], rgb.shape[0]), resize)
    if Image.MAX_IMAGE_PIXELS is not None and width * height > Image.MAX_IMAGE_PIXELS:
        raise ImageError(
            f"{str(path)!r} scaled to {width} x {height} by --resize {resize} "
            f"would pass {Image.MAX_IMAGE_PIXELS} pixels; give a smaller --resize."
        )
    resized = scaled(rgb, (height, width), dims="HWC", layout="HWC", interpolation=INTERPOLATION, passes=PASSES)
    return np.asarray(resized.permute("HWC").numpy())


def _scaled(size: tuple[int, int], shorter: int) -> tuple[int, int]:
    """Width and height with the shorter side at `shorter` and the longer one rounded down, as torchvision does."""
    width, height = size
    if width <= height:
        return shorter, shorter * height // width
    return shorter * width // height, shorter


def window_origin(frame: Pixels, size: tuple[int, int], path: Path, drawn: Draw | None) -> tuple[int, int]:
    """The origin (row, column) of the `size` (height, width) window of `frame`: as drawn, else the middle one.

    The middle is torchvision's. Raises `ImageError` if the image is smaller: pixels are never invented.
    """
    height, width = frame.shape[:2]
    if size[0] > height or size[1] > width:
        raise ImageError(
            f"{str(path)!r} is {height} x {width} (height x width), smaller than --size {size[0]}x{size[1]}: "
            "give a smaller --size, or scale pictures first with --resize."
        )
    if drawn is not None:
        return drawn.origin((height, width), size)
    return round((height - size[0]) / 2), round((width - size[1]) / 2)
