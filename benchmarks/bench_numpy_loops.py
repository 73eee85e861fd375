"""The worst cases of plain NumPy, timed beside one assignment in the same run: wide margins, and only on request."""

from __future__ import annotations

import numpy as np
import pytest
from turns import fastest

import stridedgpu as sg
from stridedgpu.devices.cpu.numpy_loops.relayout import NumpyRelayout

pytestmark = [pytest.mark.slow, pytest.mark.speed]


def loops_of(source, out, **conversion):
    """The move on NumPy, whether or not native loops are there to be used."""
    move = NumpyRelayout(sg.plan_relayout(source, out, device="cpu", **conversion).plan.problem)
    return lambda: move(source.buffer.bytes, out.buffer.bytes)


# Sizes of the array, how its axes are permuted, and how many times as fast as plain NumPy it has to be at least.
# On a quiet machine the factors are 3.8, 2.9, 2.6, 10, 9, 6 and 4.
WORST = {
    "NCHW to NHWC, uint8": ("uint8", (4, 3, 1080, 1920), (0, 2, 3, 1), 2.0),
    "NCHW to NHWC, float32": ("float32", (4, 3, 1080, 1920), (0, 2, 3, 1), 1.5),
    "NHWC to NCHW, float32, 256 channels": ("float32", (8, 56, 56, 256), (0, 3, 1, 2), 1.7),
    "transpose, uint8": ("uint8", (4096, 4096), (1, 0), 3.0),
    "transpose, uint16": ("uint16", (4096, 4096), (1, 0), 3.0),
    "transpose, float32": ("float32", (4096, 4096), (1, 0), 2.0),
    "transpose, float64": ("float64", (4096, 4096), (1, 0), 2.0),
}


@pytest.mark.parametrize("dtype, sizes, axes, least", WORST.values(), ids=WORST.keys())
def test_the_worst_cases_of_one_assignment(dtype, sizes, axes, least):
    array = np.random.default_rng(0).integers(0, 100, sizes, np.uint8).astype(dtype)
    source = sg.asarray(array).permute(axes)
    out = sg.empty(source.sizes, dtype, device="cpu")
    plain, ours = fastest(lambda: np.copyto(out.numpy(), array.transpose(axes)), loops_of(source, out))
    print(f"{plain / ours:.1f} times as fast: {plain * 1e3:.1f} ms, {ours * 1e3:.1f} ms")
    assert plain >= least * ours


def test_normalising_frames():
    frames = np.random.default_rng(0).integers(0, 256, (32, 224, 224, 3), np.uint8)
    mean, std = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]], np.float32)
    source = sg.asarray(frames, dims="NHWC")
    out = sg.empty(source.sizes, "float32", layout="NCHW", device="cpu")
    scale, bias = (1 / (255 * std)).tolist(), (-mean / std).tolist()
    made = np.empty(source.sizes, np.float32)

    def usual():
        made[...] = ((frames.astype(np.float32) / np.float32(255) - mean) / std).transpose(0, 3, 1, 2)

    plain, ours = fastest(usual, loops_of(source, out, scale=scale, bias=bias))
    print(f"{plain / ours:.1f} times as fast: {plain * 1e3:.1f} ms, {ours * 1e3:.1f} ms")
    assert np.allclose(out.numpy(), made, atol=1e-5)
    assert plain >= 1.5 * ours


# Shapes for which loops in Python or blocks read twice could cost more than they gain.
ORDINARY = {
    "NHWC to NCHW, uint8": ("uint8", (4, 1080, 1920, 3), (0, 3, 1, 2)),
    "17 channels": ("uint8", (100_000, 17), (1, 0)),
    "seven axes of 4": ("float32", (4,) * 7, (2, 0, 6, 3, 4, 5, 1)),
    "four axes of 16": ("uint8", (16,) * 4, (2, 0, 1, 3)),
    "long rows": ("uint8", (64, 1_000_000), (0, 1)),
}


@pytest.mark.parametrize("dtype, sizes, axes", ORDINARY.values(), ids=ORDINARY.keys())
def test_nothing_is_much_slower_than_one_assignment(dtype, sizes, axes):
    array = np.random.default_rng(0).integers(0, 100, sizes, np.uint8).astype(dtype)
    source = sg.asarray(array).permute(axes)
    out = sg.empty(source.sizes, dtype, device="cpu")
    plain, ours = fastest(lambda: np.copyto(out.numpy(), array.transpose(axes)), loops_of(source, out))
    print(f"{plain / ours:.2f} times as fast: {plain * 1e3:.3f} ms, {ours * 1e3:.3f} ms")
    assert ours <= 6 * plain + 50e-6
