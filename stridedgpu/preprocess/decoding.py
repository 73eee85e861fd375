"""Decoders: files and encoded bytes to pixels, with limits on formats, modes and sizes.

Pixels are an array of RGB, axes HWC, of any strides: of 8 bits, or of a file's own type where a caller accepts more.
Decoders are imported when they are first used.

- "pillow": Pillow, at full size.
- "pillow-draft": Pillow, and JPEG at 1/2, 1/4 or 1/8 of its size as long as that is no smaller than the step's resize.
  These pixels differ from those of the full size.
- "simplejpeg": libjpeg-turbo for JPEG, without Pillow's parsing, and Pillow for the rest. The pixels are those of the
  libjpeg-turbo in simplejpeg's wheel, which may differ from Pillow's.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from io import BytesIO
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

from stridedgpu.values.errors import LayoutError

from .declaration import Declaration
from .files import ImageError, opened_file, read_array
from .geometry import resized_sizes
from .images import DEEP_MODES, Encoded, Pixels, check_depth, decoded, encoded_name, orientation_of, pixels_of, upright
from .pillow_memory import shared_pixels

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

DECODERS: Final = ("pillow", "pillow-draft", "simplejpeg")
"""The names of the decoders."""

_FORMATS: Final = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
"""Pillow's names of the formats that are read. Pillow goes by content: other formats, such as EPS, run programs.

The last two come last, and AVIF behind them: Pillow imports the plugins of all formats before it looks for one of them.
Of a JPEG of several images (MPO) the first is read.
"""

_EIGHT_BIT_MODES: Final = frozenset(("1", "CMYK", "HSV", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "YCbCr"))
"""Pillow's names of the pixel formats whose samples have 8 bits or fewer; others would be truncated."""

_JPEG_START: Final = b"\xff\xd8\xff"
_FIRST_TURNED: Final = 5
"""EXIF orientations from this one on swap height and width."""

_SEGMENT_BYTES: Final = 1 << 16
"""The most bytes of a segment of a JPEG, and what Pillow reads of its file at once. EXIF data are in an early one."""

_LARGEST_BLOCK: Final = 16 << 20
"""Memory of an image above this is released: Pillow's own bound of the blocks that it keeps."""


class PixelMemory:
    """Memory of decoded images, used again once no array refers to it, with no more blocks than were in use at once.

    The system clears the pages of fresh memory: with it `load` took a tenth longer (500 x 375 pixels, Zen 5).
    Any thread may allocate and release: deques need no lock.
    """

    def __init__(self) -> None:
        self._free: deque[Pixels] = deque()

    def allocate(self, *sizes: int) -> Pixels:
        """An array of bytes in C order, with any content."""
        nbytes = prod(sizes)
        if nbytes > _LARGEST_BLOCK:
            return np.empty(sizes, np.uint8)
        try:
            block = self._free.pop()
        except IndexError:
            block = np.empty(nbytes, np.uint8)
        if block.nbytes < nbytes:  # a block that is too small is released: a larger one replaces it
            block = np.empty(nbytes, np.uint8)
        return np.asarray(_Lease(block, self._free, sizes))


class _Lease:
    """Keeps a block in use: every array over the block refers to it."""

    __slots__ = ("__array_interface__", "_block", "_free")

    def __init__(self, block: Pixels, free: deque[Pixels], sizes: tuple[int, ...]) -> None:
        self._block, self._free = block, free
        self.__array_interface__ = {**block.__array_interface__, "shape": sizes}

    def __del__(self) -> None:
        self._free.append(self._block)


@dataclass(frozen=True)
class Decoder:
    """A decoder by name; `needed` is a function from an image's height and width to the smallest that a draft may have.

    `turns` is whether the camera's orientation (EXIF) is applied, and `deep` whether files of more than 8 bits a sample
    keep them; otherwise they are refused. `check` raises `LayoutError` for pixels that a step does not take. Pixels of
    a JPEG lie in `memory`.

    Raises `LayoutError` for an unknown name, and for one whose library is not installed.
    """

    name: str = "pillow"
    needed: Callable[[tuple[int, int]], tuple[int, int]] | None = None
    turns: bool = True
    deep: bool = False
    check: Callable[[Pixels], None] | None = None
    memory: PixelMemory = field(default_factory=PixelMemory, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.name not in DECODERS:
            raise LayoutError(f"decoder={self.name!r} is unknown; it is one of {', '.join(map(repr, DECODERS))}.")
        if self.name == "simplejpeg":
            try:
                import simplejpeg  # noqa: F401 - imported here, used in the threads
            except ModuleNotFoundError:
                raise LayoutError(
                    f"decoder={self.name!r} is not installed: pip install simplejpeg, or take 'pillow'."
                ) from None

    @classmethod
    def of(cls, name: str, step: Declaration, *, deep: bool = False) -> Decoder:
        """The decoder of that name for a step, whose `resize` limits how much smaller it may decode."""
        needed = None if step.resize is None else partial(resized_sizes, step)
        return cls(name, needed, step.exif, deep, partial(check_depth, step))

    @property
    def version(self) -> str | None:
        """The decoder and its JPEG library with their versions, on which the pixels of a lossy file depend."""
        try:
            from PIL import __version__, features
        except ModuleNotFoundError:
            return None
        turbo = features.version_feature("libjpeg_turbo")
        pillow = f"Pillow {__version__}" if turbo is None else f"Pillow {__version__}, libjpeg-turbo {turbo}"
        pillow += ", 16 bits" if self.deep else ""
        if self.name == "simplejpeg":
            from importlib.metadata import version

            return f"simplejpeg {version('simplejpeg')}, {pillow}"
        return pillow if self.name == "pillow" else f"{pillow}, draft"

    def frame(self, source: Path | Encoded, name: str) -> Pixels:
        """The pixels of a file, or of an encoded image, whose `name` is for messages.

        Grey becomes RGB, alpha is dropped, and an animation gives its first image. A `.npy` file must have sizes (H, W)
        or (H, W, 1, 3 or 4), of uint8 or, for a decoder that is deep, of uint16. Raises `ImageError`.
        """
        if isinstance(source, Path) and source.suffix.lower() == ".npy":
            types = ("uint8", "uint16") if self.deep else ("uint8",)
            return self._checked(_three_channels(read_array(source), name, types), repr(name))
        subject = _subject(source, name)
        return self._checked(decoded(subject, lambda: _opened(self, source, subject)), subject)

    def of_pillow(self, image: PillowImage, name: str) -> Pixels:
        """The pixels of an image that Pillow has opened, as `frame` gives them. Raises `ImageError`."""
        return self._checked(decoded(name, lambda: _by_pillow(image, name, self)), name)

    def _checked(self, pixels: Pixels, subject: str) -> Pixels:
        if self.check is not None:
            try:
                self.check(pixels)
            except LayoutError as problem:
                raise ImageError(f"{subject}: {problem}") from None
        return pixels


def opened_image(source: Path | Encoded, name: str) -> PillowImage:
    """A file or encoded bytes as a loaded image of Pillow, in its own mode. Raises `ImageError`."""

    def opened() -> PillowImage:
        from PIL import Image

        with _stream(source) as file, Image.open(file, formats=_formats()) as image:
            _check_size(image.width * image.height)
            image.load()
            return image

    return decoded(_subject(source, name), opened)


@cache
def _formats() -> tuple[str, ...]:
    """The formats that are read by the Pillow that is installed: AVIF from 11.3 on."""
    return (*_FORMATS, "AVIF") if find_spec("PIL.AvifImagePlugin") else _FORMATS


def _subject(source: Path | Encoded, name: str) -> str:
    """What messages call a file, or encoded bytes."""
    return repr(name) if isinstance(source, Path) else encoded_name(name, source)


@contextmanager
def silent_decoders() -> Iterator[None]:
    """Decoders' warnings are silent, for a process that decodes alone; start its decoding threads inside this block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _three_channels(array: Pixels, name: str, types: tuple[str, ...]) -> Pixels:
    """`array`, of one of these types, as an RGB image over the same memory: grey is broadcast, alpha is sliced off."""
    if array.ndim == 2:
        array = array[..., np.newaxis]
    if (
        array.dtype.name not in types
        or not array.dtype.isnative
        or array.ndim != 3
        or array.shape[2] not in (1, 3, 4)
        or 0 in array.shape
    ):
        raise ImageError(
            f"{name!r} holds {array.dtype} sizes {array.shape}, which is not an image: "
            f"{' and '.join(types)} sizes (H, W), (H, W, 1), (H, W, 3) or (H, W, 4) are read."
        )
    if array.shape[2] == 1:
        return np.broadcast_to(array, (*array.shape[:2], 3))
    return array[..., :3]


def _opened(decoder: Decoder, source: Path | Encoded, subject: str) -> Pixels:
    """The pixels of a file or of encoded bytes, which messages call `subject`."""
    from PIL import Image

    if decoder.name == "simplejpeg":
        with _stream(source) as file:
            source = file.read()
        pixels = _by_simplejpeg(source, decoder)
        if pixels is not None:
            return pixels
    with _stream(source) as file, Image.open(file, formats=_formats()) as image:
        _check_size(image.width * image.height)
        return _by_pillow(image, subject, decoder, is_own=True)


def _stream(source: Path | Encoded) -> BinaryIO:
    return opened_file(source, "image", _SEGMENT_BYTES) if isinstance(source, Path) else BytesIO(source)


def _check_size(pixels: int) -> None:
    """Raise for more pixels than Pillow's limit; up to twice the limit, Pillow only warns."""
    from PIL import Image

    if Image.MAX_IMAGE_PIXELS is not None and pixels > Image.MAX_IMAGE_PIXELS:
        raise Image.DecompressionBombError


def _by_pillow(image: PillowImage, subject: str, decoder: Decoder, *, is_own: bool = False) -> Pixels:
    """The pixels of an opened image, which may be changed if it is nobody else's."""
    if decoder.deep and image.mode in DEEP_MODES:
        return pixels_of(image, turns=decoder.turns)
    if image.mode not in _EIGHT_BIT_MODES:
        raise ImageError(
            f"{subject} has pixels of Pillow's mode {image.mode!r}; only images of 8-bit samples are read "
            "(on the command line those of 16 bits with --deep)."
        )
    if decoder.name == "pillow-draft" and decoder.needed is not None and image.format == "JPEG":
        is_turned = decoder.turns and orientation_of(image) >= _FIRST_TURNED
        height, width = decoder.needed((image.width, image.height) if is_turned else (image.height, image.width))
        image.draft("RGB", (height, width) if is_turned else (width, height))
    if image.mode != "RGB":
        pixels = shared_pixels(image.convert("RGB"))
    else:
        pixels = _jpeg_pixels(image, decoder.memory) if is_own and image.format == "JPEG" else shared_pixels(image)
    # After loading, which rotates a TIFF and updates its tag.
    return upright(pixels, orientation_of(image)) if decoder.turns else pixels


def _jpeg_pixels(image: PillowImage, memory: PixelMemory) -> Pixels:
    """The pixels of a JPEG of mode RGB, decoded into an array.

    Pillow decodes into the memory that an image has, and its images of mode RGB and RGBX have their bytes in the same
    places. Memory of its own Pillow clears first, and shares up to 4 megapixels alone: JPEG of 12 megapixels took 21 ms
    in this way, and 75 ms by `numpy.asarray` (one core of Zen 5). Where a version of Pillow takes other memory, or a
    user allows files that end early, the image has its own.
    """
    from PIL import Image, ImageFile

    if ImageFile.LOAD_TRUNCATED_IMAGES:  # what is missing would have any bytes, not black
        return shared_pixels(image)
    pixels = memory.allocate(image.height, image.width, 4)
    mapped = image.im = Image.frombuffer("RGBX", image.size, pixels, "raw", "RGBX", 0, 1).im
    image.load()
    return pixels[..., :3] if image.im is mapped else shared_pixels(image)


def _by_simplejpeg(encoded: bytes, decoder: Decoder) -> Pixels | None:
    """The pixels of a JPEG, or None for other formats and CMYK, which Pillow decodes."""
    import simplejpeg

    if not encoded.startswith(_JPEG_START):
        return None
    height, width, colours, _ = simplejpeg.decode_jpeg_header(encoded)
    if colours not in ("YCbCr", "Gray", "RGB"):
        return None
    _check_size(height * width)
    pixels: Pixels = simplejpeg.decode_jpeg(encoded, buffer=decoder.memory.allocate(height, width, 3))
    return upright(pixels, _orientation(encoded)) if decoder.turns else pixels


def _orientation(encoded: bytes) -> int:
    """The EXIF orientation of a JPEG, or 1 if it has none."""
    if b"Exif\0\0" not in encoded[:_SEGMENT_BYTES]:
        return 1
    from PIL import Image

    with Image.open(BytesIO(encoded), formats=("JPEG",)) as image:
        return orientation_of(image)
