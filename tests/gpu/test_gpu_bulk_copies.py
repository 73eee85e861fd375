"""Photographs that bulk copies bring, on the GPU: the bits that the CPU gives."""

from __future__ import annotations

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.devices.cuda.status import cuda_status

STATUS = cuda_status()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))]

CONVERSIONS = {
    "bytes": ("uint8", {}),
    "normalised": ("float16", {"scale": (1 / 58.4, 1 / 57.1, 1 / 57.4), "bias": (-2.1, -2.0, -1.8)}),
    "scaled": ("float32", {"scale": 1 / 255}),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_photographs_that_bulk_copies_bring(name):
    """Enough of them for a stage of every block on up to 190 multiprocessors; with more, threads load them."""
    dtype, constants = CONVERSIONS[name]
    sizes = (64, 3, 224, 224)
    pixels = np.random.default_rng(0).integers(0, 256, (64, 224, 224, 3), np.uint8)
    photographs = sg.empty(sizes, "uint8", layout="NHWC", device="cuda")
    photographs[...] = sg.asarray(pixels, dims="NHWC", device="cpu")
    planes = sg.empty(sizes, dtype, device="cuda")
    plan = sg.plan_relayout(photographs, planes, **constants)
    plan(photographs, planes)
    expected = sg.relayout(pixels, dims="NHWC", layout="NCHW", dtype=dtype, device="cpu", **constants)
    assert planes.numpy().tobytes() == expected.numpy().tobytes()
