"""Gray values beside sums that are rounded once, and beside Pillow's mode "L"."""

from __future__ import annotations

import numpy as np
import pytest

from stridedgpu.adapters.image_processors.grays import grays, pillow_grays
from stridedgpu.problems.resize_taps import fused

RED, GREEN, BLUE = (np.array(share, np.float32) for share in (0.2989, 0.587, 0.114))
PIXELS = np.random.default_rng(5).integers(0, 256, (3, 250, 301), np.uint8)


@pytest.mark.parametrize("factor", [1.0, 1 / 255, 0.0078])
def test_gray_values_are_rounded_as_by_torch_and_by_numpy(factor):
    values = np.arange(256, dtype=np.float32) * np.float32(factor)
    red, green, blue = values[PIXELS]
    assert np.array_equal(grays(PIXELS, values, "torchvision"), fused(blue, BLUE, fused(green, GREEN, red * RED)))
    assert np.array_equal(grays(PIXELS, values, "pil"), red * RED + green * GREEN + blue * BLUE)


def test_gray_bytes_are_those_of_pillow():
    image = pytest.importorskip("PIL.Image")
    photo = image.fromarray(np.ascontiguousarray(PIXELS.transpose(1, 2, 0)))
    assert np.array_equal(pillow_grays(PIXELS), np.asarray(photo.convert("L")))
