"""Channel matrices and raw samples on a GPU: one launch, and the bits of the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from harness.fake_gpus import gpus  # noqa: F401 - a fixture that `device` wants

import stridedgpu as sg

SEPIA = [[0.393, 0.769, 0.189], [0.349, 0.686, 0.168], [0.272, 0.534, 0.131]]
PHOTO = np.random.default_rng(0).integers(0, 256, (9, 14, 3), np.uint8)


def test_a_photo_on_a_gpu_is_mixed_there(mixing):
    options = {"matrix": SEPIA, "dtype": "float16", "scale": 1 / 255, "bias": (-0.5, 0, 0.5)}
    there = sg.asarray(PHOTO, dims="HWC").to_device("cuda:1")
    before = len(mixing.launched)
    made = there.relayout(**options)
    assert (made.device, len(mixing.launched)) == ("cuda:1", before + 1)
    wanted = sg.relayout(PHOTO, dims="HWC", device="cpu", **options)
    assert made.numpy().tobytes() == wanted.numpy().tobytes()


@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_a_photo_is_mixed_on_its_way_to_a_gpu(mixing, dtype):
    made = sg.relayout(PHOTO, dims="HWC", matrix=SEPIA, dtype=dtype, device="cuda:0")
    assert made.device == "cuda:0"
    wanted = sg.relayout(PHOTO, dims="HWC", matrix=SEPIA, dtype=dtype, device="cpu")
    assert made.numpy().tobytes() == wanted.numpy().tobytes()


def test_samples_of_a_sensor_are_unpacked_where_they_lie(mixing):
    memory = np.random.default_rng(1).integers(0, 256, (4, 20), np.uint8)
    there = sg.asarray(memory).to_device("cuda:1")
    before = len(mixing.launched)
    made = sg.unpack_raw(there, "mipi-raw10", (4, 16))
    assert (made.device, len(mixing.launched)) == ("cuda:1", before + 1)
    assert np.array_equal(made.numpy(), sg.unpack_raw(memory, "mipi-raw10", (4, 16)).numpy())
