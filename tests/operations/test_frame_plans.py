"""Plans for frames: what they say, what they run on, and what they refuse."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from harness.frame_cases import surface

import stridedgpu as sg
from stridedgpu import BindingError, DeviceError, LayoutError

FRAME = surface("nv12", (16, 64), seed=1).frame(matrix="bt709")


def room(dtype="float16"):
    return sg.empty((3, 16, 64), dtype, device="cpu")


def test_a_plan_runs_on_every_frame_like_its_own():
    plan = sg.plan_relayout(FRAME, room(), scale=1 / 255)
    for seed in (1, 2):
        frame, out = surface("nv12", (16, 64), seed).frame(matrix="bt709"), room()
        plan(frame, out)
        assert np.array_equal(out.numpy(), frame.relayout(dtype="float16", scale=1 / 255).numpy())


def test_a_plan_arrives_in_another_process():
    plan = pickle.loads(pickle.dumps(sg.plan_relayout(FRAME, room(), scale=1 / 255)))
    out = room()
    plan(FRAME, out)
    assert np.array_equal(out.numpy(), FRAME.relayout(dtype="float16", scale=1 / 255).numpy())


def test_a_plan_for_a_gpu_says_what_would_run_there():
    plan = sg.plan_relayout(FRAME, sg.BufferTensorDesc("float16", (3, 16, 64)), scale=1 / 255, device="cuda")
    assert (plan.kernel, plan.load_bytes, plan.store_bytes) == ("frames_planes_nv12_uint8x8B_float16x16B", 8, 16)
    assert plan.bytes_moved == 16 * 64 * 3 // 2 + 16 * 64 * 3 * 2
    explained = plan.explain()
    assert "nv12 frames of 16 x 64" in explained
    assert "stores 16 B" in explained
    if plan.missing is not None:
        with pytest.raises(DeviceError):
            plan(FRAME, room())


OTHERS = {
    "another format": (lambda: surface("nv21", (16, 64), 1).frame(matrix="bt709"), room, BindingError, "not a frame"),
    "another matrix": (lambda: surface("nv12", (16, 64), 1).frame(), room, BindingError, "not a frame"),
    "another pitch": (lambda: surface("nv12", (16, 64), 1, 5).frame(matrix="bt709"), room, BindingError, "not a frame"),
    "another type": (lambda: FRAME, lambda: room("float32"), BindingError, "out"),
    "a tensor for a frame": (room, room, BindingError, "not a frame"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_plan_refuses_what_it_was_not_made_for(what):
    frame, out, error, words = OTHERS[what]
    plan, target = sg.plan_relayout(FRAME, room(), scale=1 / 255), out()
    target[...] = 7
    with pytest.raises(error, match=words):
        plan(frame(), target)
    assert (target.numpy() == 7).all()


def test_sides_that_do_not_fit_are_refused():
    with pytest.raises(LayoutError, match="this frame makes sizes"):
        sg.plan_relayout(FRAME, sg.empty((3, 16, 62), "uint8", device="cpu"))
    with pytest.raises(LayoutError, match="strided pixels"):
        sg.plan_relayout(surface("bgra", (16, 64), 1).frame(), room())
