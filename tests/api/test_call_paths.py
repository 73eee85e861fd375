"""How many calls of our own a warm call takes, and through how many files: both are counted and kept low."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from harness.compiled_loops import wait_for_loops

import stridedgpu as sg
from stridedgpu.devices.cpu.compiled.jit import why_unavailable

pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason="the calls are those of compiled loops")

WARM_CALLS = 60
"""Calls after which compiled loops have taken over, and every cache is filled."""

PACKAGE = str(Path(sg.__file__).parent)


def calls_of(call: Callable[[], object]) -> list[tuple[str, str]]:
    """The file and name of each Python-level call inside the package during one warm call."""
    for _ in range(WARM_CALLS):
        call()
    wait_for_loops()
    call()
    found: list[tuple[str, str]] = []

    def profile(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            found.append((frame.f_code.co_filename, frame.f_code.co_name))

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def relayout_of_a_tensor():
    frames = sg.asarray(np.zeros((1, 32, 32, 3), np.uint8), dims="NHWC")
    return lambda: sg.relayout(frames, layout="NCHW", dtype="float32", scale=1 / 255)


def relayout_into_out():
    frames = sg.asarray(np.zeros((1, 32, 32, 3), np.uint8), dims="NHWC")
    out = sg.empty((1, 3, 32, 32), "float32", device="cpu")
    return lambda: sg.relayout(frames, scale=1 / 255, out=out)


def crops_of_two_images():
    photographs, origins = [np.zeros((300, 400, 3), np.uint8) for _ in range(2)], np.zeros((2, 2), np.int64)
    return lambda: sg.gather_crops(photographs, origins, (224, 224), dims="HWC", dtype="float16", scale=1 / 255)


def preprocessing_with_crop():
    step, batch = sg.Preprocess(mean=0.5, std=0.5, crop=224, device="cpu"), np.zeros((2, 300, 400, 3), np.uint8)
    return lambda: step(batch)


def preprocessing_whole_pictures():
    step, batch = sg.Preprocess(mean=0.5, std=0.5, device="cpu"), np.zeros((2, 224, 224, 3), np.uint8)
    return lambda: step(batch)


def wrapping_an_array():
    array = np.zeros((1, 32, 32, 3), np.uint8)
    return lambda: sg.asarray(array, dims="NHWC")


def planning_again():
    frames = sg.asarray(np.zeros((1, 32, 32, 3), np.uint8), dims="NHWC")
    out = sg.empty((1, 3, 32, 32), "float32", device="cpu")
    return lambda: sg.plan_relayout(frames, out, scale=1 / 255)


def writing_into_all():
    frames = sg.asarray(np.zeros((1, 32, 32, 3), np.uint8), dims="NHWC")
    out = sg.empty((1, 3, 32, 32), "float32", device="cpu")

    def write():
        out[...] = frames

    return write


def new_zeros():
    return lambda: sg.zeros((1, 3, 32, 32), "uint8", device="cpu")


def a_window():
    frames = sg.asarray(np.zeros((1, 32, 32, 3), np.uint8), dims="NHWC")
    return lambda: frames[:, :, 4:-4, ::2]


def axes_in_another_order():
    frames = sg.asarray(np.zeros((1, 32, 32, 3), np.uint8), dims="NHWC")
    return lambda: frames.permute("NHWC")


def rows_by_indices():
    data, rows = (sg.zeros((64, 32), "float32", device="cpu") for _ in range(2))
    indices = sg.zeros((64,), "int64", device="cpu")

    def pick():
        sg.gather(data, indices, out=rows)

    return pick


def running_a_plan():
    source, out = (sg.zeros((100, 10), "float32", device="cpu") for _ in range(2))
    plan = sg.plan_relayout(source, out)
    return lambda: plan(source, out)


def running_a_large_plan():
    source, out = (sg.zeros((1000, 200), "float32", device="cpu") for _ in range(2))
    plan = sg.plan_relayout(source, out)
    return lambda: plan(source, out)


MOST = {
    relayout_of_a_tensor: (13, 9),
    relayout_into_out: (9, 8),
    crops_of_two_images: (67, 23),
    preprocessing_with_crop: (66, 26),
    preprocessing_whole_pictures: (60, 22),
    wrapping_an_array: (7, 5),
    planning_again: (17, 11),
    writing_into_all: (20, 11),
    new_zeros: (12, 10),
    a_window: (4, 3),
    axes_in_another_order: (6, 5),
    rows_by_indices: (16, 11),
    running_a_plan: (3, 3),
    running_a_large_plan: (6, 5),
}
"""Calls of ours, and files that they are in."""


@pytest.mark.parametrize("path", MOST, ids=lambda path: path.__name__)
def test_a_warm_call_takes_few_calls_of_ours_in_few_files(path):
    found = calls_of(path())
    files = {file for file, _ in found}
    most_calls, most_files = MOST[path]
    listed = "\n".join(f"{Path(file).relative_to(PACKAGE)} {name}" for file, name in found)
    counted = f"{len(found)} calls in {len(files)} files:\n{listed}"
    assert 0 < len(found) <= most_calls, counted
    assert len(files) <= most_files, counted


def test_more_rows_take_no_more_calls():
    step = sg.Preprocess(crop=16, device="cpu")
    few, many = (len(calls_of(lambda rows=rows: step(np.zeros((rows, 20, 20, 3), np.uint8)))) for rows in (2, 64))
    assert many - few <= 8, "a batch is one operand: only its memory may be another's"
