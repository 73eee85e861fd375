"""Photographs: listed in folders, decoded by Pillow or mapped from `.npy`, and the windows in them.

A frame here is an array of 8-bit RGB pixels, axes HWC. Pillow is imported when the first image is decoded.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stridedgpu.preprocess.sample_keys import Draw
from stridedgpu.values.errors import StridedGpuError

from .npy import read_array

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

Frame = np.ndarray[Any, np.dtype[np.uint8]]

SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"))
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Pillow's names of the formats of these suffixes. Pillow goes by content: other formats, such as EPS, run programs."""

INTERPOLATION = "pillow-bilinear"
PASSES = "horizontal"
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
# Pillow's names of the pixel formats whose samples have 8 bits or fewer; others would be truncated.
EIGHT_BIT_MODES = frozenset(("1", "CMYK", "HSV", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "YCbCr"))


class ImageError(StridedGpuError):
    """An unusable image, with its name and the reason in one sentence."""


class ImageFile(NamedTuple):
    """An image's file, and its name: relative to the given folder, or the file's own."""

    path: Path
    name: str


def find_images(given: Iterable[Path]) -> list[ImageFile]:
    """The images that `given` names: a file as itself, a folder as the image files in it and below, by name."""
    found: list[ImageFile] = []
    for path in given:
        if path.is_dir():
            found += (ImageFile(path / name, name) for name in image_names(path))
        elif path.is_file():
            found.append(ImageFile(path, path.name))
        elif path.exists():  # reading a pipe or a device might never end
            raise ImageError(f"{str(path)!r} is not an ordinary file; save the picture to one first.")
        else:
            raise ImageError(f"there is no file or folder {str(path)!r}.")
    return found


def image_names(folder: Path) -> Iterator[str]:
    """The images in a folder and below: their relative paths, with "/", in order. One directory is in memory at a time.

    Raises `ImageError` if there are none, and for a directory that cannot be read.
    """
    names = _names_below(str(folder), "")
    first = next(names, None)
    if first is None:
        raise ImageError(
            f"folder {str(folder)!r} holds no pictures; files that end in {', '.join(sorted(SUFFIXES))} are read."
        )
    yield first
    yield from names


def _names_below(folder: str, prefix: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, _is_folder(entry)) for entry in entries if _is_wanted(entry))
    except OSError as problem:
        raise ImageError(f"folder {folder!r} cannot be read: {problem.strerror or problem}.") from None
    for name, is_folder in found:
        if is_folder:
            yield from _names_below(f"{folder}{os.sep}{name}", f"{prefix}{name}/")
        else:
            yield prefix + name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)  # a linked folder could lead back here


def _is_wanted(entry: os.DirEntry[str]) -> bool:
    """True for a folder to descend into, or an image's file."""
    if entry.name.startswith("."):
        return False
    if _is_folder(entry):
        return True
    try:
        return PurePath(entry.name).suffix.lower() in SUFFIXES and entry.is_file()
    except OSError:  # a link that leads to itself
        return False


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


def load_frame(path: Path, resize: int | None = None) -> Frame:
    """The pixels of one image: uint8, axes HWC, three channels, scaled so that its shorter side is `resize`.

    The camera's orientation (EXIF) is applied, grey becomes RGB, alpha is dropped, and an animation gives its first
    image. A `.npy` file must have uint8 sizes (H, W) or (H, W, 1, 3 or 4). Raises `ImageError`.
    """
    if path.suffix.lower() == ".npy":
        frame = _three_channels(read_array(path), path)
        return frame if resize is None else _decoded(path, resize, frame)
    return _decoded(path, resize, None)


def decoder() -> str | None:
    """Pillow and its JPEG library with their versions, on which the pixels of a lossy file depend; None without."""
    try:
        from PIL import __version__, features
    except ModuleNotFoundError:
        return None
    turbo = features.version_feature("libjpeg_turbo")
    return f"Pillow {__version__}" if turbo is None else f"Pillow {__version__}, libjpeg-turbo {turbo}"


def _three_channels(array: np.ndarray[Any, np.dtype[Any]], path: Path) -> Frame:
    """`array` as an RGB frame over the same memory: grey is broadcast by a stride of 0, alpha is sliced off."""
    if array.ndim == 2:
        array = array[..., np.newaxis]
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise ImageError(
            f"{str(path)!r} holds {array.dtype} sizes {array.shape}, which is not a picture: "
            "uint8 sizes (H, W), (H, W, 1), (H, W, 3) or (H, W, 4) are read."
        )
    if array.shape[2] == 1:
        return np.broadcast_to(array, (*array.shape[:2], 3))
    return array[..., :3]


@contextmanager
def quiet_decoders() -> Iterator[None]:
    """Silence decoders' warnings. Filters belong to the whole process: start decoding threads inside this block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _decoded(path: Path, resize: int | None, frame: Frame | None) -> Frame:
    """The image at `path`, or `frame` in its place, decoded and scaled by Pillow."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError:
        raise ImageError(
            f'{str(path)!r} needs Pillow to be read, which is not installed: pip install "stridedgpu[cli]".'
        ) from None
    try:
        if frame is not None:
            return _pixels(Image.fromarray(np.ascontiguousarray(frame)), path, resize)
        with Image.open(path, formats=FORMATS) as image:
            _check_size(image, Image.MAX_IMAGE_PIXELS)
            return _pixels(image, path, resize)
    except Image.DecompressionBombError:
        raise ImageError(
            f"{str(path)!r} is refused as a decompression bomb: at most {Image.MAX_IMAGE_PIXELS} pixels are read."
        ) from None
    except UnidentifiedImageError:
        raise ImageError(f"{str(path)!r} is not a picture in a format that Pillow reads.") from None
    except (ImageError, MemoryError):
        raise
    except Exception as problem:  # noqa: BLE001 - damaged files make Pillow's decoders raise errors of any type
        reason = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        raise ImageError(f"{str(path)!r} cannot be read as a picture: {reason}.") from None


def _check_size(image: Picture, most: int | None) -> None:
    """Raise for more pixels than Pillow's limit; up to twice the limit, Pillow only warns."""
    from PIL import Image

    if most is not None and image.width * image.height > most:
        raise Image.DecompressionBombError


def _pixels(image: Picture, path: Path, resize: int | None) -> Frame:
    from PIL import Image, ImageOps

    from stridedgpu.api.resize import resize as scaled

    if image.mode not in EIGHT_BIT_MODES:
        raise ImageError(
            f"{str(path)!r} has pixels of Pillow's mode {image.mode!r}; only pictures of 8-bit samples are read."
        )
    rgb = ImageOps.exif_transpose(image).convert("RGB")
    if resize is not None:
        width, height = _scaled(rgb.size, resize)
        if Image.MAX_IMAGE_PIXELS is not None and width * height > Image.MAX_IMAGE_PIXELS:
            raise ImageError(
                f"{str(path)!r} scaled to {width} x {height} by --resize {resize} "
                f"would pass {Image.MAX_IMAGE_PIXELS} pixels; give a smaller --resize."
            )
        resized = scaled(
            np.asarray(rgb), (height, width), dims="HWC", layout="HWC", interpolation=INTERPOLATION, passes=PASSES
        )
        return resized.permute("HWC").numpy()
    return np.asarray(rgb)


def _scaled(size: tuple[int, int], shorter: int) -> tuple[int, int]:
    """Width and height with the shorter side at `shorter` and the longer one rounded down, as torchvision does."""
    width, height = size
    if width <= height:
        return shorter, shorter * height // width
    return shorter * width // height, shorter


def window_origin(frame: Frame, size: tuple[int, int], path: Path, drawn: Draw | None) -> tuple[int, int]:
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
