"""Frames resized, letterboxed, cut and preprocessed: the bits of their colours resized."""

from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.fenced_memory import Fenced
from harness.frame_cases import DEEP, SCALED, YUV, opencv, opencv_colours, surface, surfaces
from harness.native_loops import needs_library
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu.devices.selection import device_named
from stridedgpu.problems.resize_problem import ResizeProblem, ResizeRule, ResizeWindow
from stridedgpu.values.conversion import conversion
from stridedgpu.values.interpolation import interpolation_named

SURFACES = [surface(name, size, seed=7) for name, size in (("nv12", (36, 64)), ("yuyv", (50, 20)), ("i420", (24, 24)))]
FRAMES = [made.frame() for made in SURFACES]
PICTURES = [frame.relayout(layout="HWC") for frame in FRAMES]
OPTIONS = {"dtype": "float16", "scale": 1 / 255, "channels": (2, 1, 0)}


@pytest.mark.parametrize("interpolation", ["pillow-bilinear", "pillow-nearest", "opencv-linear", "opencv-area"])
@pytest.mark.parametrize("number", range(3))
def test_a_frame_is_resized_as_its_picture(number, interpolation):
    options = {"interpolation": interpolation, "box": (1.5, 2, 20, 19.25), **OPTIONS}
    made = sg.resize(FRAMES[number], (17, 13), **options)
    assert (made.sizes, made.dims) == ((3, 17, 13), "CHW")
    assert made.numpy().tobytes() == sg.resize(PICTURES[number], (17, 13), **options).numpy().tobytes()


def test_frames_of_any_sizes_are_resized_to_a_batch():
    made = sg.resize(FRAMES, (16, 16), layout="NHWC", **OPTIONS)
    assert (made.sizes, made.dims, made.strides[1]) == ((3, 3, 16, 16), "NCHW", 1)
    for number, picture in enumerate(PICTURES):
        assert made[number].numpy().tobytes() == sg.resize(picture, (16, 16), **OPTIONS).numpy().tobytes()


def test_letterboxed_frames_have_the_bits_of_opencv():
    cv2 = opencv()
    made = sg.letterbox(FRAMES[:1], (40, 40))
    top, left, height, width = sg.letterbox_placements([(36, 64)], (40, 40))[0]
    expected = np.full((40, 40, 3), 114, np.uint8)
    expected[top : top + height, left : left + width] = cv2.resize(opencv_colours(SURFACES[0]), (width, height))
    assert np.array_equal(made.permute("NHWC").numpy()[0], expected)


def test_boxes_of_frames_are_those_of_their_pictures():
    boxes = [[0, 0.5, 30, 40], [5, 5, 45, 20], [0, 0, 24, 24]]
    made = sg.gather_crops(FRAMES, size=(9, 11), boxes=boxes, flip=[True, False, True], **OPTIONS)
    wanted = sg.gather_crops(PICTURES, size=(9, 11), boxes=boxes, flip=[True, False, True], **OPTIONS)
    assert made.numpy().tobytes() == wanted.numpy().tobytes()


def test_a_step_takes_frames_among_pictures():
    step = sg.Preprocess("image", crop=16, mean=0.5, std=0.25, dtype="float32", layout="NCHW")
    made = step({"image": [FRAMES[0], PICTURES[1].permute("HWC").numpy(), FRAMES[2]]})["image"]
    wanted = step({"image": [picture.permute("HWC").numpy() for picture in PICTURES]})["image"]
    assert made.tobytes() == wanted.tobytes()


@cpu_paths
@pytest.mark.parametrize("interpolation", ["pillow-bilinear", "opencv-linear", "opencv-area"])
@given(made=st.lists(surfaces((*YUV, "rgbx", "gray", "gbrp"), most=150), min_size=1, max_size=3), data=st.data())
def test_frames_of_many_formats_are_resized_with_the_bits_of_their_pictures(path, interpolation, made, data):
    chroma = data.draw(st.sampled_from(("repeated", "repeated", "linear")))
    frames = [one.frame(chroma=chroma) for one in made]
    boxes = []
    for one in made:
        edges = [sorted(data.draw(st.tuples(*[st.floats(0, extent, width=16)] * 2))) for extent in one.sizes]
        boxes.append([*(low if low + 1 <= high else 0 for low, high in edges), *(high for _, high in edges)])
        boxes[-1] = [min(boxes[-1][n], edge) if n < 2 else max(edge, 1) for n, edge in enumerate(boxes[-1])]
    size = data.draw(st.tuples(st.integers(1, 60), st.integers(1, 60)))
    options = {
        "interpolation": interpolation,
        "flip": data.draw(st.lists(st.booleans(), min_size=len(made), max_size=len(made))),
        "layout": data.draw(st.sampled_from(("NCHW", "NHWC"))),
        **data.draw(st.sampled_from(({}, OPTIONS))),
    }
    wanted = sg.gather_crops([sg.relayout(f, layout="HWC") for f in frames], size=size, boxes=boxes, **options)
    with picking_by(path):
        windows = sg.gather_crops(frames, size=size, boxes=boxes, **options)
    assert windows.numpy().tobytes() == wanted.numpy().tobytes()


@cpu_paths
@pytest.mark.parametrize("interpolation", ["pillow-bicubic", "opencv-linear", "opencv-cubic", "pillow-nearest"])
@pytest.mark.parametrize("name", [*DEEP, *SCALED])
def test_deep_frames_are_resized_as_their_pictures(path, name, interpolation):
    frame = surface(name, (37, 63), seed=2).frame()
    with picking_by(path):
        made = sg.letterbox([frame], (40, 30), interpolation=interpolation, value=9)
    wanted = sg.letterbox([frame.relayout(layout="HWC")], (40, 30), interpolation=interpolation, value=9)
    assert made.numpy().tobytes() == wanted.numpy().tobytes()


@cpu_paths
def test_one_box_of_a_frame_after_another(path):
    boxes = [[0, 0, 36, 64], [5.5, 41, 30, 63.5], [10, 3, 12, 5]]
    with picking_by(path):
        made = sg.gather_crops(FRAMES[0], size=(20, 24), boxes=boxes, interpolation="opencv-linear")
    wanted = sg.gather_crops(PICTURES[:1] * 3, size=(20, 24), boxes=boxes, interpolation="opencv-linear")
    assert made.numpy().tobytes() == wanted.numpy().tobytes()


@cpu_paths
@pytest.mark.parametrize("at_end", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("size", [(34, 70), (33, 69)], ids=["even", "odd"])
@pytest.mark.parametrize("name", YUV)
def test_a_resize_reads_no_byte_beside_a_surface(path, name, size, at_end):
    made = surface(name, size, seed=3)
    fenced = Fenced(made.memory.nbytes, np.random.default_rng(0), at_end=at_end)
    fenced.bytes[:] = made.memory
    there = dataclasses.replace(made, memory=fenced.bytes).frame()
    for box in ([0, 0, *size], [20, 50, *size], [32, 68, *size]):
        with picking_by(path):
            window = sg.resize(there, (16, 24), box=box)
        wanted = sg.resize(made.frame().relayout(layout="HWC"), (16, 24), box=box)
        assert np.array_equal(window.numpy(), wanted.numpy())


@cpu_paths
def test_no_picture_of_the_frame_s_size_is_made(path):
    frame = sg.Frame.over("nv12", np.full((2160, 2048), 90, np.uint8), (1440, 2048))
    out = sg.empty((3, 64, 64), "uint8", device="cpu")
    with picking_by(path):
        sg.letterbox(frame, (64, 64), out=out)  # loads what this way needs
        tracemalloc.start()
        try:
            sg.letterbox(frame, (64, 64), out=out)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    picture = 3 * 1440 * 2048
    assert peak < (picture / 4 if path != "NumPy" else picture)


@needs_library
def test_a_plan_says_that_rows_are_converted_as_they_are_read():
    surface_of = FRAMES[0].operand.surface
    element = FRAMES[0].operand.element
    target = sg.empty((1, 3, 20, 20), "uint8", device="cpu").operand.spec
    window = ResizeWindow(surface_of.pixels, (0.0, 0.0, 36.0, 64.0), (0, 0, 20, 20), surface=surface_of)
    rule = ResizeRule(interpolation_named("pillow-bilinear"))
    problem = ResizeProblem(target, conversion(element, element), rule, 3, (1, 3), bytes(3), window)
    plan = device_named("cpu").plan(problem)
    assert plan.kernel == "resize_native_pillow-bilinear_uint8_uint8"
    assert "nv12 frames, chroma repeated, whose rows are converted as they are read" in plan.explain()
    assert f"reads {36 * 64 * 3 // 2:,} bytes" in plan.explain()
