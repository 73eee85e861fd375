"""On a GPU: fill="reflect", "symmetric" and "edge" of a step have the pixels of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.devices.cuda.status import cuda_status
from stridedgpu.operations.borders import BORDERS

STATUS = cuda_status()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))]

IMAGES = [np.random.default_rng(row).integers(0, 256, (20, 30, 3), np.uint8) for row in range(3)]
STEPS = {
    "a pad": {"pad": (3, 2, 9, 4)},
    "a pad larger than the image": {"pad": 33, "layout": "NHWC", "dtype": "float16"},
    "random windows": {"pad": (3, 2, 9, 4), "crop": (21, 18), "seed": 2, "flip": 0.5},
    "windows that lack their borders": {"pad": 15, "crop": 6, "seed": 2},
    "resized": {"resize": (12, 10), "pad": 5, "interpolation": "pillow-bicubic"},
    "a letterbox": {"letterbox": 24, "dtype": "uint8", "mean": None},
}


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("name", STEPS)
def test_borders_have_the_pixels_of_the_cpu(name, border):
    declared = {"mean": (0.1, 0.2, 0.3), "channels": (2, 1, 0), "fill": border, **STEPS[name]}
    near = sg.Preprocess(device="cpu", **declared)
    far = sg.Preprocess(device="cuda", output="tensor", **declared)
    for images in (IMAGES, np.stack(IMAGES)):
        for one, other in zip(far(images, range(3), epoch=0), near(images, range(3), epoch=0), strict=True):
            shown = one.numpy()
            np.testing.assert_array_equal(shown.transpose(1, 2, 0) if "layout" in declared else shown, other)
