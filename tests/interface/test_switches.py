"""Every switch of the public functions takes True and False alone: a word such as "no" is no silent yes."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import stridedgpu as sg

IMAGE = np.zeros((4, 6, 4), np.uint8)
TABLE, INDICES = np.zeros((4, 3), np.float32), np.zeros((1, 3), np.int64)
OUT = sg.empty((4, 4, 6), "uint8", device="cpu")
NV12 = [np.zeros((4, 6), np.uint8), np.zeros((2, 3, 2), np.uint8)]
RANGE = sg.Binding(sg.BufferTensorDesc("float16", (1, 1, 2, 4)), "arena", 0, 16)
VIT = {"image_processor_type": "ViTImageProcessor"}
STEP = sg.Preprocess(device="cpu")

CALLS = {
    "Frame(full_range)": lambda value: sg.Frame("nv12", NV12, sizes=(4, 6), full_range=value),
    "Frame.of(full_range)": lambda value: sg.Frame.of({"y": NV12[0], "uv": NV12[1]}, full_range=value),
    "Frame.over(full_range)": lambda value: sg.Frame.over("yuvj420p", bytes(36), (4, 6), full_range=value),
    "Preprocess(clamp_boxes)": lambda value: sg.Preprocess(boxes="boxes", clamp_boxes=value),
    "Preprocess(exif)": lambda value: sg.Preprocess(exif=value),
    "check_bindings(in_place)": lambda value: sg.check_bindings([RANGE], [RANGE], in_place=value),
    "from_pointer(readonly)": lambda value: sg.from_pointer(
        IMAGE.ctypes.data, (4,), "uint8", owner=IMAGE, readonly=value
    ),
    "image_processor(as_files)": lambda value: sg.image_processor(VIT, as_files=value),
    "letterbox(auto)": lambda value: sg.letterbox([IMAGE], 64, dims="HWC", auto=value),
    "letterbox(scale_up)": lambda value: sg.letterbox([IMAGE], 64, dims="HWC", scale_up=value),
    "letterbox_placements(auto)": lambda value: sg.letterbox_placements([(4, 6)], 64, auto=value),
    "letterbox_placements(scale_up)": lambda value: sg.letterbox_placements([(4, 6)], 64, scale_up=value),
    "load(drop_last)": lambda value: sg.load([IMAGE], STEP, drop_last=value),
    "load(progress)": lambda value: sg.load([IMAGE], STEP, progress=value),
    "load(shuffle)": lambda value: sg.load([IMAGE], STEP, shuffle=value),
    "plan_letterbox(scale_up)": lambda value: sg.plan_letterbox([OUT], OUT, scale_up=value),
    "plan_resize(premultiply)": lambda value: sg.plan_resize(OUT, OUT, premultiply=value),
    "plan_scatter_elements(unique)": lambda value: sg.plan_scatter_elements(
        sg.asarray(TABLE), sg.asarray(INDICES), sg.asarray(TABLE[:1]), unique=value
    ),
    "plan_scatter_nd(unique)": lambda value: sg.plan_scatter_nd(
        sg.asarray(TABLE), sg.asarray(INDICES[:, :1]), sg.asarray(TABLE[:1]), unique=value
    ),
    "resize(premultiply)": lambda value: sg.resize(IMAGE, 8, dims="HWC", premultiply=value),
    "scatter_elements(unique)": lambda value: sg.scatter_elements(TABLE, INDICES, TABLE[:1], unique=value),
    "scatter_nd(unique)": lambda value: sg.scatter_nd(TABLE, INDICES[:, :1], TABLE[:1], unique=value),
    "set_verbose(on)": sg.set_verbose,
}


def switches():
    """The arguments of public functions, and of methods that make objects, whose default is True or False."""
    functions = {name: getattr(sg, name) for name in sg.__all__ if callable(getattr(sg, name))}
    for name in ("of", "over"):
        functions[f"Frame.{name}"] = getattr(sg.Frame, name)
    for name, function in functions.items():
        if not (inspect.isclass(function) and issubclass(function, Exception)):
            for argument in inspect.signature(function).parameters.values():
                if isinstance(argument.default, bool):
                    yield f"{name}({argument.name})"


def test_every_switch_is_here():
    made_inside = {"ImageProcessor(as_files)", "VideoProcessor(as_files)"}  # by `image_processor` and `video_processor`
    assert set(switches()) - made_inside == set(CALLS) - {"Frame.of(full_range)"}  # None is what the frame states


@pytest.mark.parametrize("value", ["no", "false", "", 2, 2.0, np.array([True, False])], ids=repr)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_is_neither_true_nor_false_is_refused(call, value):
    with pytest.raises(sg.LayoutError, match=r"must be (True|False)|is unknown|it is (True|False)"):
        call(value)


@pytest.mark.parametrize("call", [one for name, one in CALLS.items() if "full_range" in name])
def test_the_number_of_a_range_is_not_taken_for_a_switch(call):
    """FFmpeg's number 1 is limited range, and would be true."""
    with pytest.raises(sg.LayoutError, match=r"full_range=1 must be True or False"):
        call(1)
