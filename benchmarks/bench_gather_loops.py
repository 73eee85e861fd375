"""Gathers and crops by native loops, timed beside NumPy in the same run: wide margins, and only on request."""

from __future__ import annotations

import numpy as np
import pytest
from harness.native_loops import needs_library
from turns import fastest

import stridedgpu as sg

pytestmark = [pytest.mark.slow, pytest.mark.speed, needs_library]


@pytest.fixture(autouse=True)
def one_thread():
    """As many as NumPy has: what is compared is the loops, and a machine may have nothing left for a second one."""
    before = sg.get_num_threads()
    sg.set_num_threads(1)
    yield
    sg.set_num_threads(before)


def told(plain, ours):
    print(f"{plain / ours:.1f} times as fast: {plain * 1e3:.2f} ms, {ours * 1e3:.2f} ms")
    return plain / ours


# Rows of the table and bytes of a row. Measured were 1.0 to 1.6 times NumPy's speed, 1.0 where memory is the limit.
@pytest.mark.parametrize("index_type", ["int32", "int64"])
@pytest.mark.parametrize("rows, nbytes", [(1 << 18, 64), (1 << 16, 256), (1 << 15, 1024), (1 << 13, 4096)], ids=str)
def test_rows_are_no_slower_than_take(rows, nbytes, index_type):
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, (rows, nbytes), np.uint8).view(np.float32)
    indices = rng.permutation(rows).astype(index_type)
    source, index, out = sg.asarray(data), sg.asarray(indices), sg.empty(data.shape, "float32", device="cpu")
    made = np.empty_like(data)
    plain, ours = fastest(
        lambda: np.take(data, indices, 0, out=made, mode="clip"), lambda: sg.gather(source, index, out=out)
    )
    assert np.array_equal(out.numpy().view(np.uint32), made.view(np.uint32))
    assert told(plain, ours) >= 0.8


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_elements_are_faster_than_take_along_axis(dtype, axis):
    rng = np.random.default_rng(1)
    data = rng.integers(0, 256, (1000, 1000), np.uint8).astype(dtype)
    indices = rng.integers(0, 1000, (1000, 1000))
    source, index, out = sg.asarray(data), sg.asarray(indices), sg.empty(data.shape, dtype, device="cpu")
    plain, ours = fastest(
        lambda: np.take_along_axis(data, indices, axis), lambda: sg.gather_elements(source, index, axis, out=out)
    )
    assert told(plain, ours) >= 1.5


def test_crops_are_faster_than_a_loop_over_windows():
    rng = np.random.default_rng(2)
    frames = rng.integers(0, 256, (4, 500, 700, 3), np.uint8)
    origins = np.stack([rng.integers(0, 276, 64), rng.integers(0, 476, 64)], 1)
    sources = sg.asarray(frames, dims="NHWC")
    images, out = [sources[n % 4] for n in range(64)], sg.empty((64, 3, 224, 224), "float32", device="cpu")
    made = np.empty((64, 3, 224, 224), np.float32)

    def windows():
        for n, (y, x) in enumerate(origins):
            made[n] = (frames[n % 4, y : y + 224, x : x + 224] * np.float32(1 / 255)).transpose(2, 0, 1)

    plain, ours = fastest(windows, lambda: sg.gather_crops(images, origins, (224, 224), scale=1 / 255, out=out))
    assert np.array_equal(out.numpy(), made)
    assert told(plain, ours) >= 2


def test_a_small_call_costs_microseconds():
    """What is asked for is looked at, and not worked out again."""
    data, indices = np.zeros((100, 16), np.float32), np.arange(8)
    source, index, out = sg.asarray(data), sg.asarray(indices), sg.empty((8, 16), "float32", device="cpu")

    def repeated(call):
        return lambda: [call() for _ in range(500)]

    plain, ours = fastest(
        repeated(lambda: np.take(data, indices, 0)), repeated(lambda: sg.gather(source, index, out=out))
    )
    print(f"{plain / 500 * 1e6:.1f} and {ours / 500 * 1e6:.1f} microseconds")
    assert ours <= 15 * plain
