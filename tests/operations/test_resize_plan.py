"""`plan_resize`: a plan runs as `resize` does, tells what it does, and refuses what it is not for."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import stridedgpu as sg

PHOTOS = sg.BufferTensorDesc("uint8", (4, 3, 48, 64), (9216, 1, 192, 3))
BATCH = sg.BufferTensorDesc("float16", (4, 3, 22, 33))


def tensors():
    """Photos of pixels, and an empty batch of planes."""
    rng = np.random.default_rng(3)
    photos = sg.asarray(rng.integers(0, 256, (4, 48, 64, 3), np.uint8), dims="NHWC")
    return photos, sg.empty((4, 3, 22, 33), "float16", alignment=32)


@pytest.mark.parametrize("interpolation", ["pillow-bicubic", "opencv-linear", "opencv-area"])
@pytest.mark.parametrize("described", [False, True], ids=["tensors", "descriptors"])
def test_a_plan_runs_as_resize_does(interpolation, described):
    """The same bits, also from a pickled plan."""
    photos, out = tensors()
    sides = (PHOTOS, BATCH) if described else (photos, out)
    box = (1, 2.5, 40, 60) if interpolation[0] == "p" else None
    plan = sg.plan_resize(*sides, interpolation=interpolation, scale=1 / 255, box=box)
    expected = sg.resize(photos, (22, 33), interpolation=interpolation, box=box, dtype="float16", scale=1 / 255)
    for each in (plan, pickle.loads(pickle.dumps(plan))):
        out[...] = 0
        each(photos, out)
        np.testing.assert_array_equal(out.numpy(), expected.numpy())


def test_a_plan_says_what_it_does():
    """Taps, passes, arithmetic and bytes, on the CPU and for a GPU."""
    words = sg.plan_resize(PHOTOS, BATCH, interpolation="pillow-lanczos").explain()
    for part in ("columns: up to 12 taps", "rows: up to 14 taps", "22", "reads 36,864 bytes, writes 17,424 bytes"):
        assert part in words
    assert words.index("columns") < words.index("rows:")
    gpu = sg.plan_resize(PHOTOS, BATCH, device="cuda")
    assert "taps a pixel" in gpu.explain()
    assert gpu.device == "cuda:0"


def test_a_letterbox_enlarges_unless_it_is_told_not_to():
    photos, _ = tensors()
    out = sg.empty((4, 3, 96, 128), "uint8")
    for scale_up in ({}, {"scale_up": True}, {"scale_up": False}):
        sg.plan_letterbox(photos, out, **scale_up)(photos, out)
        np.testing.assert_array_equal(out.numpy(), sg.letterbox(photos, (96, 128), **scale_up).numpy())
    assert (out.numpy() == 114).any(), "a border lies around what is not enlarged"


def test_premultiplied_pixels_have_alpha_in_their_last_channel():
    pixels = np.random.default_rng(3).integers(0, 256, (4, 20, 30, 4), np.uint8)
    photos, out = sg.asarray(pixels, dims="NHWC"), sg.empty((4, 4, 8, 9), "uint8")
    sg.plan_resize(photos, out, premultiply=True)(photos, out)
    np.testing.assert_array_equal(out.numpy(), sg.resize(photos, (8, 9), premultiply=True).numpy())
    for grey in (photos[:, 0], photos[:, :3]):
        with pytest.raises(sg.LayoutError, match="premultiply=True"):
            sg.plan_resize(grey, sg.empty((*grey.sizes[:-2], 8, 9), "uint8"), premultiply=True)


def test_what_a_plan_refuses():
    """Other sizes, types, memory and rules."""
    photos, out = tensors()
    plan = sg.plan_resize(photos, out)
    with pytest.raises(sg.BindingError, match="the plan is for"):
        plan(photos[:, :, 1:], out)
    with pytest.raises(sg.ElementTypeError, match="a plan runs on tensors"):
        plan(photos.numpy(), out)
    with pytest.raises(sg.LayoutError, match="dst has sizes"):
        sg.plan_resize(PHOTOS, sg.BufferTensorDesc("uint8", (3, 3, 22, 33)))
    with pytest.raises(sg.LayoutError, match="is unknown"):
        sg.plan_resize(PHOTOS, BATCH, interpolation="cubic")


@pytest.mark.parametrize("passes, first", [("horizontal", "columns"), ("vertical", "rows")])
def test_a_plan_names_the_passes_in_their_order(passes, first):
    sides = (sg.BufferTensorDesc("uint8", (1, 3, 40, 60)), sg.BufferTensorDesc("uint8", (1, 3, 10, 20)))
    explained = sg.plan_resize(*sides, passes=passes).explain()
    named = [line.split(":")[0].strip() for line in explained.splitlines() if "taps a pixel" in line]
    assert named == sorted(["columns", "rows"], key=lambda name: name != first)
