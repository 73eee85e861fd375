"""After `warmup` of a call, that call compiles and loads nothing, the first time and any later one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from harness.compiled_loops import needs_compiler

import stridedgpu as sg

BEGINNING: Final = """
import sys, threading
import numpy as np
import stridedgpu as sg
from stridedgpu.devices.cpu.compiled import jit

def loaded():
    for thread in threading.enumerate():
        if thread.name == "stridedgpu-compiler":
            thread.join()
    return set(jit._LOADED), {name for name in sys.modules if name.startswith("stridedgpu")}

def check(call, *arguments, **options):
    assert sg.warmup(call, *arguments, **options) == ()
    kernels, modules = loaded()
    assert kernels
    for _ in range(40):
        call(*arguments, **options)
    assert loaded() == (kernels, modules)

photo = np.zeros((480, 640, 3), np.uint8)
ragged = [photo, np.zeros((300, 200, 3), np.uint8)]
planes = dict(dims="HWC", dtype="float32", scale=1 / 255)
nv12 = sg.Frame.over("nv12", bytes(480 * 640 * 3 // 2), (480, 640))
small, batch = sg.zeros((1, 3, 8, 8), "uint8", layout="NHWC"), sg.zeros((1, 3, 8, 8), "float32")
large, whole = sg.zeros((1, 3, 480, 640), "uint8"), sg.zeros((1, 3, 224, 224), "uint8")
table, rows = np.zeros((50, 64), np.float32), np.arange(9)
"""

CALLS: Final = {
    "letterbox": "sg.letterbox, photo, 320, **planes",
    "letterbox of images of several sizes": "sg.letterbox, ragged, 320, **planes",
    "letterbox of a frame": "sg.letterbox, [nv12], 320, dtype='float16', scale=0.5",
    "resize": "sg.resize, photo, (100, 120), passes='horizontal', **planes",
    "resize of few pixels": "sg.resize, photo[:9, :9], (5, 5), interpolation='opencv-area', **planes",
    "windows": "sg.gather_crops, ragged, [[0, 0], [5, 5]], (100, 120), **planes",
    "boxes": "sg.gather_crops, [photo], size=9, boxes=[(0, 0, 99, 99)], interpolation='opencv-linear', **planes",
    "a small relayout": "sg.relayout, photo[:8, :8], layout='CHW', **planes",
    "a few rows by index": "sg.gather, table, rows",
    "a step": "sg.Preprocess(resize=(64, 64), passes='horizontal', normalize='imagenet'), ragged",
    "a plan of a relayout": "sg.plan_relayout(small, batch, scale=0.5), small, batch",
    "a plan of a resize": "sg.plan_resize(large, whole, passes='horizontal'), large, whole",
}

COMMON: Final = """
sg.warmup()
kernels, modules = loaded()
frame = np.ones((1080, 1920, 3), np.uint8)
sg.letterbox([frame], 640, **planes)
sg.resize(frame, (224, 224), passes="horizontal", **planes)
sg.gather_crops([frame], [[7, 9]], (224, 224), **planes)
assert loaded() == (kernels, modules)
"""


def run(lines: str) -> None:
    """Run a program in a process that has loaded nothing yet."""
    subprocess.run([sys.executable, "-c", BEGINNING + lines], check=True, timeout=600)


@needs_compiler
@pytest.mark.parametrize("name", CALLS)
def test_a_warm_call_compiles_and_loads_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRIDEDGPU_CACHE_DIR", str(tmp_path))
    run(f"check({CALLS[name]})")


@needs_compiler
@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_call_is_warm_with_so_many_threads(threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of threads is part of a launch's key: it is known before the first launch."""
    monkeypatch.setenv("STRIDEDGPU_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("STRIDEDGPU_THREADS", threads)
    run(f"check({CALLS['windows']})")


@needs_compiler
def test_the_common_calls_are_warm_without_arguments() -> None:
    run(COMMON)


def test_the_call_is_made_once_with_its_arguments_and_its_errors_are_raised() -> None:
    out = sg.zeros((3, 4, 4), "float32")
    photo = np.full((8, 8, 3), 100, np.uint8)
    assert sg.warmup(sg.letterbox, photo, 4, dims="HWC", scale=0.5, out=out) == ()
    assert (out.numpy() == 50).all()
    with pytest.raises(sg.LayoutError, match="passes='diagonal' is unknown"):
        sg.warmup(sg.resize, photo, 4, dims="HWC", passes="diagonal")
    with pytest.raises(TypeError, match="unexpected keyword argument 'value'"):
        sg.warmup(value=3)


RELAYOUTS: Final = """
sg.warmup(device="cpu")
kernels, _ = loaded()
for number, (source, before, target, after) in enumerate(
    [
        ("uint8", "NHWC", "float32", "NCHW"),
        ("uint8", "NHWC", "float16", "NCHW"),
        ("uint8", "NHWC", "uint8", "NCHW"),
        ("uint8", "NCHW", "uint8", "NHWC"),
        ("float32", "NHWC", "float32", "NCHW"),
        ("float16", "NHWC", "float16", "NCHW"),
        ("float32", "NCHW", "float16", "NCHW"),
    ]
):
    numbers = {"scale": (0.25, 0.5, 0.75), "bias": (0.5, 0.25, 0.75)} if number < 2 else {}
    into = sg.empty((8, 3, 224, 224), target, layout=after)
    for _ in range(3):
        sg.relayout(sg.zeros((8, 3, 224, 224), source, layout=before), out=into, **numbers)
    assert loaded()[0] == kernels, (source, before, target, after)
"""


@needs_compiler
def test_the_common_relayouts_are_those_that_the_docstring_names() -> None:
    run(RELAYOUTS)
