"""A matrix of resizes, crops and steps: the bits of the same call without one, then of `relayout` with it."""

from __future__ import annotations

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.frame_cases import surface
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu import BindingError, LayoutError
from stridedgpu.devices.cpu.policy import policy

GREY = [[0.299, 0.587, 0.114]]
SEPIA = [[0.393, 0.769, 0.189], [0.349, 0.686, 0.168], [0.272, 0.534, 0.131]]
WIDER = [*SEPIA, [1.0, -0.5, 0.25]]

PHOTOS = np.random.default_rng(0).integers(0, 256, (2, 12, 17, 3), np.uint8)
BATCH = sg.asarray(PHOTOS, dims="NHWC")
FRAMES = [surface("nv12", (12, 16), 1).frame(), surface("bgrx", (9, 7), 2).frame()]
BOXES = [[0, 1.5, 8, 6], [1, 0, 9, 7]]

CALLS = {
    "resize": lambda **given: sg.resize(BATCH, (5, 8), **given),
    "resize of a box": lambda **given: sg.resize(PHOTOS[0], (5, 8), dims="HWC", box=(1, 2, 9, 9.5), **given),
    "resize of frames": lambda **given: sg.resize(FRAMES, (5, 8), **given),
    "letterbox": lambda **given: sg.letterbox(list(PHOTOS), (16, 16), dims="HWC", value=(1, 2, 3), **given),
    "letterbox of frames": lambda **given: sg.letterbox(FRAMES, (16, 16), **given),
    "crops": lambda **given: sg.gather_crops(BATCH, [[0, 1], [-2, 9]], (6, 6), fill=(7, 8, 9), flip=True, **given),
    "crops of frames": lambda **given: sg.gather_crops(FRAMES, [[0, 2], [-2, 4]], (6, 6), fill=9, **given),
    "boxes": lambda **given: sg.gather_crops(BATCH, size=(4, 4), boxes=BOXES, **given),
    "boxes of frames": lambda **given: sg.gather_crops(FRAMES, size=(4, 4), boxes=BOXES, **given),
}


def values(tensor):
    return tensor.reinterpret(f"uint{8 * tensor.itemsize}").numpy().tolist()


@pytest.mark.parametrize("what", CALLS)
@cpu_paths
@settings(max_examples=examples(6))
@given(data=st.data())
def test_the_result_is_mixed(path, what, data):
    call, mixed = (
        CALLS[what],
        {
            "matrix": data.draw(st.sampled_from((GREY, SEPIA, WIDER))),
            "dtype": data.draw(st.sampled_from((None, "uint8", "float16", "float32"))),
            **data.draw(st.sampled_from(({}, {"scale": 1 / 255, "bias": -0.5}, {"rounding": "truncate"}))),
        },
    )
    with picking_by(path):
        wanted = sg.relayout(call(), **mixed)
        made = call(layout=data.draw(st.sampled_from((None, wanted.dims[:-3] + "HWC"))), **mixed)
        assert (made.sizes, made.dims, values(made)) == (wanted.sizes, wanted.dims, values(wanted))
        out = sg.empty(wanted.sizes, wanted.dtype, device="cpu")
        call(out=out, **{**mixed, "dtype": None})
        assert values(out) == values(wanted)


LARGER = np.random.default_rng(1).integers(0, 256, (2, 60, 44, 4), np.uint8)
SURFACES = [surface("nv12", (60, 48), 3).frame(chroma="linear"), surface("i420", (60, 48), 4).frame()]

LARGER_CALLS = {
    "pixels": lambda **given: sg.resize(LARGER[..., :3], (37, 21), dims="NHWC", **given),
    "pixels of four": lambda **given: sg.resize(LARGER, (37, 21), dims="NHWC", interpolation="pillow-box", **given),
    "pixels in words": lambda **given: sg.letterbox(LARGER[..., :3], (50, 30), dims="NHWC", **given),
    "planes": lambda **given: sg.resize(LARGER.transpose(0, 3, 1, 2).copy()[:, :3], (16, 33), **given),
    "mirrored boxes": lambda **given: sg.gather_crops(
        LARGER[..., :3], size=(20, 19), boxes=[[0, 1, 30, 40], [2, 2, 59, 30.5]], dims="NHWC", flip=True, **given
    ),
    "frames": lambda **given: sg.letterbox(SURFACES, (50, 30), **given),
    "narrow": lambda **given: sg.resize(LARGER[..., :3], (37, 3), dims="NHWC", **given),
    "windows": lambda **given: sg.gather_crops(
        LARGER[..., :3], [[1, 2], [40, -3]], (30, 24), dims="NHWC", fill=(1, 2, 3), flip=[True, False], **given
    ),
}


@pytest.mark.parametrize("what", LARGER_CALLS)
@cpu_paths
def test_bands_of_rows_are_mixed_as_they_are_written(path, what):
    call = LARGER_CALLS[what]
    with picking_by(path):
        pixels = call()
        for matrix in (GREY, SEPIA, WIDER):
            rows = [[*row, *[0.5] * (pixels.sizes[1] - 3)] for row in matrix]
            for layout, dtype in (("NCHW", "float16"), ("NHWC", "uint8"), ("NCWH", "float32")):
                mixed = {"matrix": rows, "layout": layout, "dtype": dtype, "scale": 0.9, "bias": 2}
                wanted, made = sg.relayout(pixels, **mixed), call(**mixed)
                assert (made.sizes, made.strides, values(made)) == (wanted.sizes, wanted.strides, values(wanted))


@pytest.mark.parametrize("turned", [(2,), (1,), (3,), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("what", LARGER_CALLS)
@cpu_paths
def test_results_are_written_into_mirrored_views(path, what, turned):
    call = LARGER_CALLS[what]
    with picking_by(path):
        channels = call().sizes[1]
        for mixed in ({}, {"matrix": [row[:3] + [0.5] * (channels - 3) for row in SEPIA]}):
            wanted = call(**mixed).numpy()
            memory = np.zeros_like(wanted)
            view = np.flip(memory, turned)
            call(out=sg.asarray(view), **mixed)
            assert np.array_equal(view, wanted)


@pytest.mark.skipif(policy().why_numpy is not None, reason="no native loops")
def test_a_resize_that_mixes_is_compiled():
    out = sg.empty((2, 1, 37, 21), "float16", device="cpu")
    plan = sg.plan_resize(sg.asarray(LARGER[..., :3], dims="NHWC"), out, matrix=GREY, scale=1 / 255)
    assert plan.steps == (plan.plan,)
    assert plan.kernel == "resize_native_pillow-bilinear_uint8_float16"
    assert "matrix 1 x 3" in plan.explain()
    narrow = sg.plan_resize(sg.asarray(LARGER[..., :3], dims="NHWC"), out[..., :3], matrix=GREY)
    assert narrow.kernel == "numpy_resize_pillow-bilinear_uint8_float16"
    assert "rows of less than" in narrow.explain()


@cpu_paths
def test_no_picture_of_the_result_s_size_is_made(path):
    """The scratch memory of a thread, 170 KB for rows of 640 pixels, does not grow with their number."""
    photo, out = np.full((2400, 800, 3), 7, np.uint8), sg.empty((1, 1920, 640), "uint8", device="cpu")
    with picking_by(path):
        sg.resize(photo, (1920, 640), dims="HWC", matrix=GREY, out=out)  # loads what this way needs
        tracemalloc.start()
        try:
            sg.resize(photo, (1920, 640), dims="HWC", matrix=GREY, out=out)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert path == "NumPy" or peak < 3 * 1920 * 640 / 4


def planned(operation, **given):
    """A plan, what runs it into an `out`, and the same call without a plan."""
    device = given.pop("device", "cpu")
    batch = BATCH.to_device(device)
    if operation == "resize":
        plan = sg.plan_resize(batch, sg.empty((2, len(given["matrix"]), 5, 8), "float16", device=device), **given)
        return plan, lambda plan, out: plan(batch, out), sg.resize(BATCH, (5, 8), dtype="float16", **given)
    origins = [[0, 1], [-2, 9]]
    plan = sg.plan_gather_crops(batch, (5, 8), dtype="float16", **given)
    wanted = sg.gather_crops(BATCH, origins, (5, 8), dtype="float16", **given)
    return plan, lambda plan, out: plan(batch, origins, out), wanted


@pytest.mark.parametrize("device", ["cpu", "cuda-emulated"])
@pytest.mark.parametrize("operation", ["resize", "crops"])
def test_a_plan_runs_in_its_steps(operation, device):
    plan, run, wanted = planned(operation, matrix=WIDER, scale=0.5, device=device)
    for one in (plan, copy.copy(plan), pickle.loads(pickle.dumps(plan))):
        out = sg.empty(wanted.sizes, "float16", device=device)
        run(one, out)
        assert values(out.to_device("cpu")) == values(wanted)
    assert len(plan.steps) == (1 if device == "cpu" else 2)
    assert plan.kernel == ", then ".join(step.kernel for step in plan.steps)
    assert plan.bytes_moved == sum(step.bytes_moved for step in plan.steps)
    words = plan.explain()
    assert "matrix 4 x 3" in words
    assert words.startswith("2 steps, the first into new memory") == (device != "cpu")


def test_a_plan_for_a_gpu_names_both_kernels():
    photos = sg.BufferTensorDesc("uint8", (8, 3, 48, 64), (9216, 1, 192, 3))
    target = sg.BufferTensorDesc("float16", (8, 1, 24, 24))
    plan = sg.plan_resize(photos, target, matrix=GREY, device="cuda")
    assert plan.kernel == f"{plan.plan.kernel}, then channel_matrix_1x3_uint8_float16"


def test_an_emulated_device_has_the_same_bits():
    there = BATCH.to_device("cuda-emulated")
    for call in (
        lambda batch: sg.resize(batch, (5, 8), matrix=GREY),
        lambda batch: sg.gather_crops(batch, [[0, 1], [-2, 9]], (6, 6), matrix=GREY),
    ):
        assert np.array_equal(call(there).to_device("cpu").numpy(), call(BATCH).numpy())


STEPS = {
    "resize": {"resize": (6, 7)},
    "crop": {"crop": 5, "seed": 1, "flip": 0.5},
    "pad": {"pad": 2, "crop": 14, "fill": (1, 2, 3)},
    "letterbox": {"letterbox": 16},
    "whole": {},
}


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("matrix", [GREY, WIDER], ids=["fewer", "more"])
def test_a_step_mixes_its_result(kind, matrix):
    plain = sg.Preprocess(dtype="uint8", output="tensor", device="cpu", **STEPS[kind])
    step = sg.Preprocess(dtype="float32", matrix=matrix, scale=1 / 255, output="tensor", device="cpu", **STEPS[kind])
    wanted = sg.relayout(plain(PHOTOS, [3, 4]), dtype="float32", matrix=matrix, scale=1 / 255)
    made = pickle.loads(pickle.dumps(step))(PHOTOS, [3, 4])
    assert (made.sizes, values(made)) == (wanted.sizes, values(wanted))
    listed = step(list(PHOTOS), [3, 4])
    assert [values(image) for image in listed] == values(wanted)


def test_a_step_mixes_frames_and_pictures_alike():
    step = sg.Preprocess(dtype="float32", matrix=GREY, resize=(6, 6), device="cpu")
    pictures = [frame.relayout(layout="HWC").permute("HWC").numpy() for frame in FRAMES]
    assert np.array_equal(step(FRAMES), step(pictures))


REFUSED = {
    "no channels": lambda: sg.resize(PHOTOS[0, ..., 0], (2, 2), dims="HW", matrix=GREY),
    "other channels": lambda: sg.resize(BATCH, (2, 2), matrix=[[1, 2]]),
    "channels besides": lambda: sg.letterbox(BATCH, 8, matrix=GREY, channels=(0,)),
    "channels filled up": lambda: sg.resize(BATCH, (2, 2), matrix=GREY, layout="NHWC4"),
    "another out": lambda: sg.resize(BATCH, (2, 2), matrix=GREY, out=sg.empty((2, 3, 2, 2), "uint8", device="cpu")),
    "another target of a plan": lambda: sg.plan_resize(BATCH, sg.empty((2, 3, 2, 2), "uint8"), matrix=GREY),
    "a step that chooses channels": lambda: sg.Preprocess(matrix=GREY, channels=(0,)),
    "a step with gains": lambda: sg.Preprocess(matrix=GREY, gain=(0.5, 2), seed=1),
    "a step that divides": lambda: sg.Preprocess(matrix=GREY, mean=0.5, arithmetic="divide"),
    "a step for three channels": lambda: sg.Preprocess(matrix=GREY, normalize="imagenet"),
    "no rows": lambda: sg.Preprocess(matrix=[1, 2, 3]),
    "no numbers": lambda: sg.Preprocess(matrix=[[1, 2, float("nan")]]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused(what):
    with pytest.raises(LayoutError, match=r"matrix|channels|sizes"):
        REFUSED[what]()


def test_a_target_within_the_source_is_refused():
    memory = np.zeros((2, 3, 8, 8), np.float32)
    with pytest.raises(BindingError, match="shares memory"):
        sg.gather_crops(memory, [[0, 0]] * 2, (4, 4), matrix=GREY, out=memory[:, :1, :4, :4])
