"""Images of any mode as upright RGB or grey pixels; Pillow's images have a mode, arrays have channels.

| a Pillow image of mode | as "rgb" | as "gray" |
|---|---|---|
| RGB, RGBX, YCbCr, HSV, CMYK | Pillow's conversion | then luma |
| L, 1 (0 and 255) | the sample three times | the sample |
| LA, PA, RGBA, La, RGBa | alpha is dropped; premultiplied colours are divided by it first | likewise |
| P | the palette's colours | their luma |
| I;16 and its byte orders, I, F | the sample three times, as uint16, int32 or float32 | the sample |

Samples of 16 bits keep their depth: Pillow's own conversion to 8 bits would cut off all above 255. Luma is Pillow's
and ITU-R BT.601's: `(19595 R + 38470 G + 7471 B + 32768) >> 16`. The camera's orientation (EXIF) is applied before.

The channels of an array state its mode: 1 is grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha. A frame has the luma of
its RGB pixels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.array_like import operand_of_array
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.operations.frames import relayout_frames, rgb_image
from stridedgpu.operations.options import MemoryOptions
from stridedgpu.values.conversion import conversion_options
from stridedgpu.values.errors import BindingError, LayoutError

from .arrow_pixels import shared_pixels

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image as PillowImage

__all__ = ["DEEP_MODES", "MODES", "Mode", "gray_frame", "is_pillow_image", "pixels_of", "upright", "with_mode"]

Mode = Literal["rgb", "gray"]
MODES: Final[tuple[Mode, ...]] = ("rgb", "gray")

_ORIENTATION: Final = 0x0112
"""The EXIF tag."""

DEEP_MODES: Final = frozenset(("I", "F", "I;16", "I;16B", "I;16L", "I;16N"))
"""Pillow's modes with samples of more than 8 bits, all of them grey."""

_UNMULTIPLIED: Final = {"La": "LA", "RGBa": "RGBA"}

_LUMA: Final = (19595, 38470, 7471)
_LUMA_BITS: Final = 16


def is_pillow_image(given: object) -> bool:
    """True for an image of Pillow, which is not imported."""
    return not isinstance(given, np.ndarray) and any(
        kind.__module__ == "PIL.Image" and kind.__name__ == "Image" for kind in type(given).__mro__
    )


def upright(image: PillowImage) -> PillowImage:
    """The image rotated and mirrored by its EXIF orientation; the image itself if it is upright."""
    if image.getexif().get(_ORIENTATION, 1) == 1:
        return image
    from PIL.ImageOps import exif_transpose

    return exif_transpose(image)


def pixels_of(image: PillowImage, mode: Mode = "rgb", *, turns: bool = True) -> NDArray[Any]:
    """A Pillow image as pixels: axes H, W, C for "rgb", and H, W for "gray", by the rules above.

    With `turns` the EXIF orientation is applied. RGB shares the image's memory where Pillow can. Raises `LayoutError`
    for a mode that Pillow does not convert.
    """
    turned = upright(image) if turns else image
    if turned.mode in DEEP_MODES:
        samples = np.asarray(turned)
        return samples if mode == "gray" else np.broadcast_to(samples[..., None], (*samples.shape, 3))
    if mode == "rgb" and turned.mode == "RGB":
        turned.load()
        return shared_pixels(turned)
    wanted = "RGB" if mode == "rgb" else "L"
    try:
        if turned.mode in _UNMULTIPLIED:
            turned = turned.convert(_UNMULTIPLIED[turned.mode])
        if mode == "gray" and turned.mode not in ("1", "L", "LA"):
            turned = turned.convert("RGB")
        return np.asarray(turned if turned.mode == wanted else turned.convert(wanted))
    except ValueError as problem:
        raise LayoutError(f"it has Pillow's mode {image.mode!r}, which does not become {mode!r}: {problem}.") from None


def with_mode(image: Operand, mode: Mode) -> Operand:
    """An image with the axes (N,) C, H, W as RGB or grey: a view, except that colours on the CPU become grey in a copy.

    Raises `LayoutError` for more than 4 channels, and `BindingError` for colours on a GPU that would become grey.
    """
    layout, axis = image.layout, image.layout.ndim - 3
    count = layout.sizes[axis]
    if count not in (1, 2, 3, 4):
        raise LayoutError(f"it has {count} channels, and mode={mode!r} is for 1 (grey) to 4 (RGB and alpha).")
    before = (slice(None),) * axis
    if count <= 2:
        grey = layout.sliced((*before, slice(0, 1)))
        sizes = (*grey.sizes[:axis], 3, *grey.sizes[axis + 1 :])
        return image.with_layout(grey if mode == "gray" else grey.broadcast_to(sizes))
    if mode == "rgb":
        return image if count == 3 else image.with_layout(layout.sliced((*before, slice(0, 3))))
    if image.buffer.device != "cpu":
        raise BindingError(f"it is on {image.buffer.device}, where colours do not become grey: bring it with .numpy().")
    return operand_of_array(_luma(np.moveaxis(array_of_operand(image), axis, 0))[(*before, None)])


def gray_frame(frame: FrameOperand) -> Operand:
    """A frame's luma with the axes C (1), H, W: the plane of a gray frame itself, or new memory.

    Samples of 8 bits become luma in one pass. Luma of deeper ones, whose sums need 64 bits, is that of an RGB image.
    """
    if frame.samples.kind == "gray":
        (plane,) = frame.planes
        return plane.with_layout(plane.layout.unsqueezed(0))
    if frame.element.itemsize > 1:
        return with_mode(rgb_image(frame, None), "gray")
    return relayout_frames([frame], _LUMA_VALUES, MemoryOptions(), None, None, is_batch=False)


_LUMA_VALUES: Final = conversion_options(
    matrix=(tuple(weight / (1 << _LUMA_BITS) for weight in _LUMA),), bias=0.5, rounding="truncate"
)
"""`_luma` of 8 bits in float32, exactly: every sum has at most 24 bits, half a level included."""


def _luma(colours: NDArray[Any]) -> NDArray[Any]:
    """The luma of colours whose first axis is the channels: rounded for integers, exact weights for floats."""
    floats = colours.dtype.kind == "f"
    wide: np.dtype[Any] = colours.dtype if floats else np.dtype(np.uint32 if colours.dtype.itemsize == 1 else np.int64)
    weights: Any = np.array(_LUMA, wide)  # 0-d arrays of one type: every product stays in it
    red, green, blue = colours[:3].astype(wide)
    luma = red * weights[0] + green * weights[1] + blue * weights[2]
    made: NDArray[Any] = luma / wide.type(1 << _LUMA_BITS) if floats else luma + (1 << _LUMA_BITS - 1) >> _LUMA_BITS
    return made.astype(colours.dtype)
