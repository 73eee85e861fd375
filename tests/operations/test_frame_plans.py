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


def frames(seed, *formats, sizes=(16, 64)):
    """Frames with other samples for each seed."""
    return [surface(name, sizes, seed + number).frame(chroma="linear") for number, name in enumerate(formats)]


CAMERAS = ("nv12", "nv12", "yuyv", "bgra", "gray")

OPERATIONS = {
    "relayout of a frame": (
        lambda given, out, **values: sg.plan_relayout(given[0], out, **values),
        lambda plan, given, out: plan(given[0], out),
        lambda given, **values: sg.relayout(given[0], **values),
    ),
    "relayout": (
        sg.plan_relayout,
        lambda plan, given, out: plan(given, out),
        sg.relayout,
    ),
    "resize of a frame": (
        lambda given, out, **values: sg.plan_resize(given[0], out, box=(1, 2, 15, 40), **values),
        lambda plan, given, out: plan(given[0], out),
        lambda given, **values: sg.resize(given[0], (9, 20), box=(1, 2, 15, 40), **values),
    ),
    "resize": (
        lambda given, out, **values: sg.plan_resize(given, out, interpolation="opencv-linear", **values),
        lambda plan, given, out: plan(given, out),
        lambda given, **values: sg.resize(given, (9, 20), interpolation="opencv-linear", **values),
    ),
    "letterbox": (
        lambda given, out, **values: sg.plan_letterbox(given, out, value=(9, 8, 7), **values),
        lambda plan, given, out: plan(given, out),
        lambda given, **values: sg.letterbox(given, (24, 24), value=(9, 8, 7), **values),
    ),
    "crops": (
        lambda given, out, **values: sg.plan_gather_crops(given, (12, 20), out=out, fill=3, **values),
        lambda plan, given, out: plan(given, [[0, 3], [2, -4], [9, 60], [90, 0], [1, 1]], out, flip=True),
        lambda given, **values: sg.gather_crops(
            given, [[0, 3], [2, -4], [9, 60], [90, 0], [1, 1]], (12, 20), fill=3, flip=True, **values
        ),
    ),
}


@pytest.mark.parametrize("mixed", [{}, {"matrix": [[0.2, 0.7, 0.1]]}], ids=["three channels", "matrix"])
@pytest.mark.parametrize("what", OPERATIONS)
def test_a_plan_of_every_operation_runs_as_the_operation(what, mixed):
    planned, run, call = OPERATIONS[what]
    wanted = call(frames(1, *CAMERAS), dtype="float16", scale=1 / 255, **mixed)
    plan = planned(frames(2, *CAMERAS), sg.empty(wanted.sizes, "float16", device="cpu"), scale=1 / 255, **mixed)
    for one in (plan, pickle.loads(pickle.dumps(plan))):
        out = sg.empty(wanted.sizes, "float16", device="cpu")
        out[...] = 0
        run(one, frames(1, *CAMERAS), out)
        assert np.array_equal(out.numpy(), wanted.numpy())
    assert "nv12 frames" in plan.explain()
    assert plan.explain().count(plan.steps[0].kernel) >= 1


@pytest.mark.parametrize("what", OPERATIONS)
def test_a_plan_for_a_gpu_is_read_anywhere(what):
    planned, run, call = OPERATIONS[what]
    wanted = call(frames(1, *CAMERAS))
    plan = planned(frames(1, *CAMERAS), sg.BufferTensorDesc("uint8", wanted.sizes), device="cuda")
    assert "nv12" in plan.kernel or "resize" in plan.kernel
    assert "nv12 frames" in plan.explain()
    if plan.missing is not None:
        with pytest.raises(DeviceError):
            run(plan, frames(1, *CAMERAS), wanted)


def test_frames_that_are_alike_are_planned_once():
    plan = sg.plan_relayout(frames(1, *CAMERAS), sg.empty((5, 3, 16, 64), "uint8", device="cpu"))
    assert (len(plan.plans), len(plan.steps)) == (5, 4)
    assert plan.explain().startswith("5 frames, each with a launch of its own, of 4 kinds\n")
    samples = 16 * 64
    assert plan.bytes_moved == samples * (3 + 2 + 3 + 1) + 5 * 3 * samples
    assert plan._repr_html_().startswith("<pre>5 frames")


def test_a_plan_says_where_each_camera_goes():
    cameras = [surface("nv12", (16, 64), 1).frame(), surface("gray", (8, 8), 1).frame()]
    plan = sg.plan_letterbox(cameras, sg.empty((2, 3, 32, 32), "uint8", device="cpu"))
    first, second, *_ = plan.explain().splitlines()
    assert first == (
        "0: nv12 frames, chroma repeated: rows 0 to 16 and columns 0 to 64 of 16 x 64 become 8 x 32 pixels at row 12, "
        "column 0"
    )
    assert second == "1: rows 0 to 8 and columns 0 to 8 of 8 x 8 become 32 x 32 pixels at row 0, column 0"


def test_a_plan_of_letterboxed_pictures_runs_as_letterbox():
    photos = sg.asarray(np.random.default_rng(3).integers(0, 256, (2, 9, 20, 3), np.uint8), dims="NHWC")
    wanted, out = sg.letterbox(photos, (16, 16), scale_up=False), sg.empty((2, 3, 16, 16), "uint8", device="cpu")
    sg.plan_letterbox(photos, out, scale_up=False)(photos, out)
    assert np.array_equal(out.numpy(), wanted.numpy())


def test_a_plan_for_a_gpu_says_what_would_run_there():
    plan = sg.plan_relayout(FRAME, sg.BufferTensorDesc("float16", (3, 16, 64)), scale=1 / 255, device="cuda")
    assert (plan.kernel, plan.load_bytes, plan.store_bytes) == ("frames_planes_nv12_uint8x8B_float16x16B", 8, 16)
    assert plan.bytes_moved == 16 * 64 * 3 // 2 + 16 * 64 * 3 * 2
    explained = plan.explain()
    assert "nv12 frames of 16 x 64" in explained
    assert "stores 16 B" in explained


def test_linear_chroma_and_a_matrix_run_as_vectors_on_a_gpu():
    frame = surface("nv12", (16, 64), seed=1).frame(chroma="linear")
    target, grey = sg.BufferTensorDesc("float16", (1, 16, 64)), {"matrix": [[0.2, 0.7, 0.1]], "scale": 1 / 255}
    plan = sg.plan_relayout(frame, target, device="cuda", **grey)
    assert plan.kernel == "frames_planes_nv12_linear_matrix1x3_uint8x8B_float16x16B"
    assert "a thread makes 8 neighbouring pixels of a row" in plan.explain()


@pytest.mark.parametrize("gap, widths", [(0, (16, 16)), (16, (16, 16)), (8, (8, 8))])
def test_sixteen_pixels_of_bytes_are_made_at_once_where_rows_begin_at_16_bytes(gap, widths):
    frame = surface("nv12", (16, 64), 1, gap).frame()
    plan = sg.plan_relayout(frame, sg.BufferTensorDesc("uint8", (3, 16, 64)), device="cuda")
    assert (plan.load_bytes, plan.store_bytes) == widths


OTHERS = {
    "another format": (lambda: surface("nv21", (16, 64), 1).frame(matrix="bt709"), room, BindingError, "not a frame"),
    "another matrix": (lambda: surface("nv12", (16, 64), 1).frame(), room, BindingError, "not a frame"),
    "another pitch": (lambda: surface("nv12", (16, 64), 1, 5).frame(matrix="bt709"), room, BindingError, "not a frame"),
    "another type": (lambda: FRAME, lambda: room("float32"), BindingError, "out"),
    "a tensor for a frame": (room, room, BindingError, "not a frame"),
    "a list for a frame": (lambda: [FRAME], room, BindingError, "not a frame"),
}


@pytest.mark.parametrize("planned", [sg.plan_relayout, sg.plan_resize], ids=["relayout", "resize"])
@pytest.mark.parametrize("what", OTHERS)
def test_a_plan_refuses_what_it_was_not_made_for(what, planned):
    frame, out, error, words = OTHERS[what]
    plan, target = planned(FRAME, room(), scale=1 / 255), out()
    target[...] = 7
    with pytest.raises(error, match=words):
        plan(frame(), target)
    assert (target.numpy() == 7).all()


@pytest.mark.parametrize("planned", [sg.plan_relayout, sg.plan_resize, sg.plan_letterbox])
def test_another_number_of_frames_and_shared_memory_are_refused(planned):
    bgra = surface("bgra", (16, 64), 1).frame()
    out = sg.empty((2, 3, 16, 64), "uint8", device="cpu")
    plan = planned([bgra, bgra], out)
    with pytest.raises(LayoutError, match="frames are 1 frames; the plan is for a list of 2"):
        plan([bgra], out)
    with pytest.raises(LayoutError, match="frames are a Frame"):
        plan(bgra, out)
    memory = np.zeros((2, 3, 16, 64), np.uint8)
    inside = sg.Frame("gray", [memory[1, 1]], sizes=(16, 64))
    with pytest.raises(BindingError, match="shares memory"):
        planned([inside, inside], sg.asarray(memory))([inside, inside], sg.asarray(memory))


def test_sides_that_do_not_fit_are_refused():
    with pytest.raises(LayoutError, match="this frame makes sizes"):
        sg.plan_relayout(FRAME, sg.empty((3, 16, 62), "uint8", device="cpu"))
    with pytest.raises(LayoutError, match="this frame makes sizes"):
        sg.plan_relayout([FRAME], room())
    with pytest.raises(LayoutError, match="it must have the axes N, C, H, W"):
        sg.plan_resize([FRAME], room())
    with pytest.raises(LayoutError, match="this resize makes 1 images of 3 channels"):
        sg.plan_letterbox([FRAME], sg.empty((2, 3, 8, 8), "uint8", device="cpu"))


@pytest.mark.parametrize("name", ["nv12", "rgba", "gray"])
@pytest.mark.parametrize("size", [(2**70, 4), (2**40, 2**40)], ids=str)
def test_windows_of_more_bytes_than_a_process_can_have_are_refused(name, size):
    frame = sg.Frame.over(name, bytes(96), (4, 6))
    with pytest.raises(LayoutError, match=r"size=\(\d+, \d+\): the windows take \d+ bytes, more than any process"):
        sg.plan_gather_crops([frame], size)
