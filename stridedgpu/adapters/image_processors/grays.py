"""Gray values of RGB bytes, to the bit: those of torchvision's `rgb_to_grayscale`, of transformers, of Pillow's "L".

torchvision: `fma(0.114, b, fma(0.587, g, 0.2989 * r))` in float32, as torch's loops compute it on AVX2 and AVX-512.
transformers' PIL backend: the three products in float32, added one behind the other. Both are of the bytes' own values
or of those that they are rescaled to, 256 each. Pillow: 16 fractional bits, rounded half up.

Source: torchvision/transforms/v2/functional/_color.py, transformers/models/superglue/image_processing_pil_superglue.py
and Pillow's src/libImaging/Convert.c (`L24`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.problems.resize_taps import fused

from .normalising import Backend

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_RED, _GREEN, _BLUE = (np.array(share, np.float32) for share in (0.2989, 0.587, 0.114))
_PILLOW: Final = (19595, 38470, 7471)
_HALF: Final = 1 << 28
"""What a float64 has behind a float32's fraction where it lies between two of them."""

_BAND: Final = 32
"""Rows at a time, which stay in the caches."""


def grays(pixels: Bytes, values: Floats, backend: Backend) -> Floats:
    """The gray values of an image (3, H, W) whose bytes stand for `values`, of which there are 256."""
    table, blues = _of_two(values.tobytes(), backend), values * _BLUE
    if backend == "torchvision":
        blues = values.astype(np.float64) * _BLUE
    result = np.empty(pixels.shape[1:], np.float32)
    for start in range(0, len(result), _BAND):
        rows = slice(start, start + _BAND)
        red, green, blue = (pixels[channel, rows].astype(np.intp) for channel in range(3))
        first, last = table.take(green * 256 + red, mode="clip"), blues.take(blue, mode="clip")
        total = first + last
        result[rows] = total
        if backend == "torchvision":
            # A sum that float64 has rounded to a place between two float32 is rounded anew, once.
            between = (total.view(np.int64) & (2 * _HALF - 1)) == _HALF
            if between.any():
                result[rows][between] = fused(values[blue[between]], _BLUE, first[between])
    return result


@lru_cache(maxsize=8)
def _of_two(values: bytes, backend: Backend) -> Floats:
    """The sum of red's and green's shares for each pair of bytes, green's rows one behind the other."""
    numbers = np.frombuffer(values, np.float32)
    reds, greens = numbers[None] * _RED, np.broadcast_to(numbers[:, None], (256, 256))
    sums: Floats = reds + greens * _GREEN if backend == "pil" else fused(greens, _GREEN, reds)
    return sums.reshape(-1)


def pillow_grays(pixels: Bytes) -> Bytes:
    """The bytes of mode "L" of an image (3, H, W)."""
    red, green, blue = (channel.astype(np.uint32) * share for channel, share in zip(pixels, _PILLOW, strict=True))
    shown: Bytes = ((red + green + blue + 0x8000) >> 16).astype(np.uint8)
    return shown
