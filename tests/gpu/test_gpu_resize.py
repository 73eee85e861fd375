"""On a GPU: images resized, letterboxed and cut out by boxes, with the CPU's bits."""

from __future__ import annotations

import numpy as np
import pytest
from harness.sample_tensors import same_bits

import stridedgpu as sg
from stridedgpu.devices.cuda.status import cuda_status

STATUS = cuda_status()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))]

IMAGES = np.random.default_rng(3).integers(0, 256, (2, 61, 90, 3), dtype=np.uint8)
OPTIONS = {"dtype": "float16", "normalize": "imagenet", "layout": "NCHW"}


def slow(*values):
    """Values of the longer run: over the stand-in, each kernel is compiled by g++."""
    return pytest.param(*values, marks=pytest.mark.slow)


def passes(interpolation):
    return {"passes": "horizontal"} if interpolation.startswith("pillow") else {}


@pytest.mark.parametrize(
    "interpolation",
    [
        *("pillow-bilinear", "opencv-linear", "torch-bicubic"),
        *(slow(name) for name in ("pillow-lanczos", "opencv-area", "opencv-nearest", "torch-bilinear")),
    ],
)
@pytest.mark.parametrize("size", [(24, 32), slow((90, 100))], ids=["smaller", "larger"])
def test_a_batch_is_resized_as_on_the_cpu(interpolation, size):
    near, far = sg.asarray(IMAGES, dims="NHWC"), sg.asarray(IMAGES, dims="NHWC", device="cuda")
    results = [
        sg.resize(side, size, interpolation=interpolation, **passes(interpolation), **OPTIONS) for side in (far, near)
    ]
    assert same_bits(*(result.numpy() for result in results))


def test_images_of_a_list_are_letterboxed_as_on_the_cpu():
    near = [sg.asarray(IMAGES[0], dims="HWC"), sg.asarray(IMAGES[1, :40, 3:71], dims="HWC")]
    far = [image.to_device("cuda") for image in near]
    assert same_bits(*(sg.letterbox(side, (40, 48), **OPTIONS).numpy() for side in (far, near)))


def test_boxes_are_resized_and_mirrored_as_on_the_cpu():
    boxes = [[0.0, 2.5, 40.0, 70.25], [10.0, 0.0, 61.0, 90.0]]
    options = {"boxes": boxes, "size": (20, 28), "flip": [True, False], "interpolation": "pillow-bilinear"}
    near, far = sg.asarray(IMAGES, dims="NHWC"), sg.asarray(IMAGES, dims="NHWC", device="cuda")
    results = [sg.gather_crops(side, **options, **passes("pillow"), **OPTIONS) for side in (far, near)]
    assert same_bits(*(result.numpy() for result in results))
