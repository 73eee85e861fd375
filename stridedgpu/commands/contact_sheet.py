"""A contact sheet: what a network will see of some images of a job, with the normalisation undone, and their names.

The images are made once more, on the CPU: a pixel depends on the declaration and the image's key alone, and neither on
the device nor on whether it went into a batch or a shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.preprocess.declaration import unit_range
from stridedgpu.preprocess.decoding import Decoder, silent_decoders
from stridedgpu.preprocess.files import FileError, ImageFile, check_writable
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.values.dtypes import element_type

from .job_images import JobImages

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

_MOST: Final = 48
_COLUMNS: Final = 8

_SIDE: Final = 160
"""The longer side of a window on the sheet, in pixels; small windows are enlarged by a whole factor."""

_GAP: Final = 10
_TEXT: Final = 12
"""The space between windows, and the height of letters, in pixels."""

_PAPER: Final = (30, 30, 30)
_INK: Final = (230, 230, 230)

_WHITE: Final = 255


def check_preview(path: Path, folders: Iterable[Path], made: Path | None = None) -> None:
    """Before the work, raise `FileError` for a sheet that cannot be written, or would be an image of a later job.

    The job makes the folder `made`, if it names one.
    """
    if path.suffix.lower() != ".png":
        raise FileError(f"--preview {str(path)!r}: the sheet is a PNG; give a name that ends in .png.")
    for folder in folders:
        if folder.is_dir() and path.resolve().is_relative_to(folder.resolve()):
            raise FileError(
                f"--preview {str(path)!r} lies in the folder of images {str(folder)!r}, and would be one of them the "
                "next time; give it another folder."
            )
    if path.is_dir() or path.resolve().parent != made:
        check_writable(path)
    try:
        import PIL  # noqa: F401 - imported here, used later
    except ModuleNotFoundError:
        raise FileError('--preview needs Pillow, which is not installed: pip install "stridedgpu[cli]".') from None


def shown_of(count: int) -> list[int]:
    """Which of so many images are on the sheet: all, or some at equal distances.

    >>> shown_of(3), shown_of(480)[:3]
    ([0, 1, 2], [0, 10, 20])
    """
    shown = min(count, _MOST)
    return [place * count // shown for place in range(shown)]


def write_sheet(
    file: BinaryIO, shown: Sequence[ImageFile], step: Preprocess[Any], decoder: Decoder, total: int
) -> None:
    """The sheet of these images of `total`, as a PNG; their names are their keys.

    Raises `ImageError` for one that cannot be used any more.
    """
    paths, keys = [image.path for image in shown], [image.name for image in shown]
    near = replace(step, device="cpu")
    near.set_epoch(step.epoch)
    source = "uint16" if decoder.deep else "uint8"
    with silent_decoders():  # one at a time: a window may be large
        windows = [
            _fitted(_seen(images.permute("NCHW").numpy()[0], near, source))
            for _, images, _ in JobImages(paths, keys, near, decoder).batches(1)
        ]
    sizes = "{} x {}".format(*near.window or ())
    heading = f"{len(paths)} of {total} images, {sizes} of {step.dtype}, as the network sees them"
    _drawn(windows, keys, heading).save(file, "PNG")


def _seen(result: NDArray[Any], step: Preprocess[Any], source: str) -> NDArray[np.uint8]:
    """A result of a step, axes CHW, as RGB of 8 bits, axes HWC: its arithmetic backwards, and its channels in order.

    Drawn gains and offsets stay, as the network sees them.
    """
    element, is_gray = element_type(source), step.mode == "gray"
    conversion, _ = step._worker.conversion_and_fill(element, 1 if is_gray else 3)
    values = result.astype(np.float64)
    for operation, name in reversed(conversion.steps):
        constant = getattr(conversion, name)
        if constant is None:
            continue
        numbers = np.reshape(constant, (-1, 1, 1))
        if operation == "add":
            values -= numbers
        else:
            values = values * numbers if operation == "divide" else values / numbers
    low, high = unit_range(step, element) if conversion.has_arithmetic else (0.0, float(element.limits[1]))
    values = np.nan_to_num((values - low) / (high - low) * _WHITE)
    pixels = np.clip(np.rint(values), 0, _WHITE).astype(np.uint8).transpose(1, 2, 0)
    order = (0, 0, 0) if is_gray else np.argsort(conversion.channels or (0, 1, 2))
    return pixels[..., order]


def _fitted(pixels: NDArray[np.uint8]) -> PillowImage:
    """A window in its size on the sheet."""
    from PIL import Image

    height, width, _ = pixels.shape
    factor = _SIDE / max(height, width)
    factor = max(1, int(factor)) if factor >= 1 else factor
    size = max(1, round(width * factor)), max(1, round(height * factor))
    filtering = Image.Resampling.NEAREST if factor >= 1 else Image.Resampling.BOX
    return Image.fromarray(pixels).resize(size, filtering)


def _drawn(windows: Sequence[PillowImage], names: Sequence[str], heading: str) -> PillowImage:
    """Windows in rows, with their names below, under a heading."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(_TEXT)
    count, height = len(windows), windows[0].height
    cell, line = _SIDE + _GAP, _TEXT + _GAP
    columns = min(count, _COLUMNS)
    rows = -(-count // columns)
    # A sheet of one image has room for the heading.
    sheet_size = max(columns, 4) * cell + _GAP, rows * (height + line + _GAP) + line + _GAP
    sheet = Image.new("RGB", sheet_size, _PAPER)
    draw = ImageDraw.Draw(sheet)

    def text(left: int, top: int, words: str, room: int) -> None:
        encoding = "utf-8" if isinstance(font, ImageFont.FreeTypeFont) else "latin-1"
        words = " ".join(words.encode(encoding, "replace").decode(encoding).split())
        kept = words
        while kept and draw.textlength(kept if kept == words else f"..{kept}", font) > room:
            kept = kept[1:]  # the end of a path says more than its beginning
        draw.text((left, top), kept if kept == words else f"..{kept}", _INK, font)

    text(_GAP, _GAP, heading, sheet_size[0] - 2 * _GAP)
    for place, (window, name) in enumerate(zip(windows, names, strict=True)):
        row, column = divmod(place, columns)
        left, top = _GAP + column * cell, line + _GAP + row * (height + line + _GAP)
        sheet.paste(window, (left, top))
        text(left, top + height + 2, name, cell - _GAP)
    return sheet
