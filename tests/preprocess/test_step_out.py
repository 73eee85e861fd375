"""`out=`: a step writes into memory that the caller has, and into nothing else."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import stridedgpu as sg


def frames(count=4, height=20, width=24):
    return np.random.default_rng(0).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


STEPS = {
    "whole": {},
    "crop": {"crop": 12, "seed": 1},
    "resize": {"random_resized_crop": True, "crop": 12, "seed": 1},
    "colour": {"crop": 12, "seed": 1, "gain": (0.5, 2)},
}

KINDS = ("array", "list", "column")


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    "name, kind", [(name, kind) for name in STEPS for kind in KINDS if name != "whole" or kind == "array"]
)
def test_the_result_is_written_into_out(layout, name, kind):
    step = sg.Preprocess("image", layout=layout, device="cpu", **STEPS[name])
    given = frames() if kind == "array" else list(frames())
    expected = step(frames(), range(4), epoch=0)
    room = np.full((6, *expected.shape[1:]), 7, np.float32)
    if kind == "column":
        made = step({"image": given}, range(4), epoch=0, out=room[1:5])["image"]
    else:
        made = step(given, range(4), epoch=0, out=room[1:5])
    assert np.shares_memory(made, room)
    np.testing.assert_array_equal(room[1:5], expected)
    assert (room[[0, 5]] == 7).all()


def test_tensors_have_canonical_axes():
    step = sg.Preprocess(crop=8, layout="NHWC", output="tensor", device="cpu")
    room = sg.empty((4, 3, 8, 8), "float32", layout="NHWC", device="cpu")
    assert step(frames(), out=room) is room
    np.testing.assert_array_equal(room.numpy(), step(frames()).numpy())


def test_nothing_of_the_result_s_size_is_allocated():
    step = sg.Preprocess(crop=200, device="cpu")
    given, room = frames(16, 210, 210), np.empty((16, 3, 200, 200), np.float32)
    step(given, out=room)
    tracemalloc.start()
    step(given, out=room)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < room.nbytes / 20


@pytest.mark.parametrize(
    "declared, out, words",
    [
        ({"crop": 8}, np.empty((4, 3, 8, 9), np.float32), r"out has sizes \(4, 3, 8, 9\); the result has sizes"),
        ({"crop": 8}, np.empty((4, 3, 8, 8), np.float64), "out holds float64; the result is float32"),
        ({"crop": 8, "errors": "skip"}, np.empty((4, 3, 8, 8), np.float32), "declare errors='raise'"),
        ({"flip": True}, np.empty((4, 3, 20, 24), np.float32), "results of one size"),
    ],
    ids=["other sizes", "another type", "rows left out", "results of many sizes"],
)
def test_refusals(declared, out, words):
    with pytest.raises(sg.LayoutError, match=words):
        sg.Preprocess(device="cpu", **declared)(list(frames()), out=out)


def test_memory_that_cannot_be_written_is_refused():
    held = np.zeros((4, 3, 20, 24), np.float32)
    with pytest.raises(sg.BindingError, match="shares memory"):
        sg.Preprocess(dims="NCHW", device="cpu")(held, out=held)
    held.flags.writeable = False
    with pytest.raises(sg.BindingError, match="read-only"):
        sg.Preprocess(device="cpu")(frames(), out=held)
