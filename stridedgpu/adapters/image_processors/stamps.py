"""The time that ERNIE 4.5 VL draws into the corner of each frame, by Pillow with the model's font.

Source: transformers, models/ernie4_5_vl_moe/video_processing_ernie4_5_vl_moe.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.array_like import operand_of_array
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.operations.frames import rgb_image
from stridedgpu.preprocess.images import decoded
from stridedgpu.values.errors import BindingError, LayoutError

from .videos import FrameRead

_RGB: Final = 3
_SHARE: Final = 0.1
"""The height of letters, of a frame's shorter side, and the width of their outline, of that height."""


def stamped(
    font: Any, taken: Mapping[str, Any], numbers: Any, *, is_sampled: bool
) -> Callable[[int, FrameRead], Operand]:
    """What draws the time into a frame by its number; `taken` is what is known of the video.

    Raises `LayoutError` where the numbers of the frames are not known.
    """
    indices, rate = taken["frames_indices"], taken["fps"]
    if indices is None or len(indices) != len(numbers):
        raise LayoutError(
            "draw_on_frames=True needs frames_indices in video_metadata, the number of each frame, or do_sample_frames."
        )
    # Numbers that are sampled are a tensor of torch's, whose quotients are float32.
    number_of: Any = np.float32 if is_sampled else float
    texts = {number: _text(number_of(index) / number_of(rate)) for number, index in zip(numbers, indices, strict=True)}
    return lambda number, frame: _drawn(frame, texts[number], font)


def _text(seconds: Any) -> str:
    hours, minutes, rest = seconds // 3600, seconds % 3600 // 60, seconds % 3600 % 60
    return f"time: {int(hours):02d}:{int(minutes):02d}:{float(rest):05.02f}"


def _drawn(frame: FrameRead, text: str, font: Any) -> Operand:
    """A frame's image with black letters in a white outline at its top left."""
    image = rgb_image(frame) if isinstance(frame, FrameOperand) else frame
    if image.buffer.device != "cpu":
        raise BindingError(
            f"draw_on_frames=True draws on the CPU, and a frame is on {image.buffer.device}: use .cpu()."
        )
    pixels = array_of_operand(image)
    height = int(min(pixels.shape[1:]) * _SHARE)
    if len(pixels) != _RGB or not height:
        raise LayoutError(
            f"draw_on_frames=True needs RGB frames of 10 pixels a side, and one has the sizes {pixels.shape}."
        )

    def draw() -> Any:
        from PIL import Image, ImageDraw, ImageFont

        picture = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
        try:
            letters = ImageFont.truetype(font, height)
        except (OSError, TypeError):
            raise LayoutError(f"font={font!r} cannot be read; it is the path of the model's font.") from None
        outline: dict[str, Any] = {"stroke_width": int(height * _SHARE), "stroke_fill": (255, 255, 255)}
        ImageDraw.Draw(picture).text((0, 0), text, font=letters, fill=(0, 0, 0), **outline)
        return np.asarray(picture)

    return operand_of_array(decoded("A frame with its time", draw).transpose(2, 0, 1))
