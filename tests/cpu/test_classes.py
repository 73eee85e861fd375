"""Every class of instruction sets that this processor has does what NumPy does, to the bit, in every operation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from harness.cpu_paths import picking_by
from harness.drawn_calls import CALLS_OF_A_KIND, drawn_call
from harness.frame_cases import DEEP, YUV, surface
from harness.native_loops import each_class, policy_for
from harness.random_calls import run_block

import stridedgpu as sg

RNG = np.random.default_rng(8)
BATCH = RNG.integers(0, 256, (2, 61, 90, 3), np.uint8)
BOXES = [(3.0, 4.0, 50.5, 70.25), (0.0, 0.0, 61.0, 90.0)]


def encoded(name):
    frame = sg.Frame.over(name, bytearray(60 * 90 * 2), (60, 90))
    sg.relayout(BATCH[0, :60], dims="HWC", out=frame)
    return np.concatenate([plane.numpy().ravel() for plane in frame.planes])


WORK = {
    **{
        f"{name} to {layout}": lambda name=name, layout=layout: sg.relayout(
            surface(name, (64, 96), 1).frame(), layout=layout
        )
        for name, layout in product((*YUV, *DEEP), ("CHW", "HWC"))
    },
    **{f"to {name}": lambda name=name: encoded(name) for name in ("nv12", "i420", "yuyv")},
    "channel matrix": lambda: sg.relayout(BATCH, dims="NHWC", matrix=[[0.299, 0.587, 0.114]], dtype="float32"),
    "crops": lambda: sg.gather_crops(BATCH, [(3, 4), (-5, 60)], (40, 50), dims="NHWC", layout="NCHW", fill=7),
    "boxes": lambda: sg.gather_crops(
        BATCH, boxes=BOXES, size=(40, 30), dims="NHWC", interpolation="opencv-area", flip=[True, False]
    ),
    "letterbox": lambda: sg.letterbox(BATCH, (64, 64), dims="NHWC", dtype="float16", scale=1 / 255),
    "raw": lambda: sg.unpack_raw(BATCH.ravel()[: 64 * 75], "mipi-raw10", (64, 60)),
    "checked indices": lambda: sg.gather_elements(BATCH, BATCH.astype(np.int64) % 61, 1),
    "distinct indices": lambda: sg.scatter_elements(
        BATCH, np.broadcast_to(np.arange(90)[::-1, None], BATCH.shape), BATCH // 2, 2, unique=True
    ),
}


def bits(made):
    return (made if isinstance(made, np.ndarray) else made.numpy()).tobytes()


@each_class
@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_pictures_and_indices(processor, work):
    with picking_by("NumPy"):
        expected = bits(work())
    with policy_for(processor.features), picking_by("native, 1 thread"):
        assert bits(work()) == expected


@each_class
def test_drawn_calls(processor):
    calls = [(number, drawn_call(number)) for number in range(0, 40 * CALLS_OF_A_KIND, CALLS_OF_A_KIND)]
    with policy_for(processor.features):
        assert [(number, wrong) for number, _, wrong in run_block(calls, "native, 1 thread") if wrong] == []
