"""Every operation under a limit of memory (RLIMIT_AS), in a child process: an error or the right bits, and no crash."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from harness.native_loops import needs_library

import stridedgpu as sg

resource = pytest.importorskip("resource", reason="limits of memory are POSIX's")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is read from /proc"),
    needs_library,
]

ROOT = str(pathlib.Path(sg.__file__).parents[1])

PRELUDE = """
import hashlib, os, resource, sys
import numpy as np
import stridedgpu as sg
from stridedgpu.preprocess.step import Preprocess

sg.set_num_threads(2)
rng = np.random.default_rng(0)
batch = rng.integers(0, 256, (2, 512, 640, 3), np.uint8)
indices = rng.integers(0, 512, 300)
rows = np.tile(rng.permutation(512)[:, None, None], (1, 640, 3))
frame = sg.Frame.over("nv12", rng.integers(0, 256, 512 * 640 * 3 // 2, np.uint8), (512, 640))
packed = rng.integers(0, 256, 512 * 800, np.uint8)
step = Preprocess("image", dims="NHWC", layout="NCHW", dtype="float16", resize=(224, 224), passes="horizontal")

def limited(spare, call):
    pages = int(open("/proc/self/statm").read().split()[0])
    endless = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + spare, endless))
    try:
        return call()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (endless, endless))
"""

CHILD = """
def run():
    made = {operation}
    made = made["image"] if isinstance(made, dict) else made
    return hashlib.sha256(np.ascontiguousarray(np.asarray(made))).hexdigest()

made = []
for spare in {spares}:
    try:
        made.append(limited(spare << 20, run))
    except (MemoryError, sg.DeviceError, SystemError) as error:
        print(spare, type(error).__name__, str(error))
made.append(run())
assert len({{*made}}) == 1, made
print(len(made), "right")
"""

ERRORS = ("MemoryError", "DeviceError", "SystemError")
"""What is raised without memory. CPython raises the last of them where it has none for the frame of a function."""

OPERATIONS = {
    "relayout": 'sg.relayout(batch, dims="NHWC", layout="NCHW", dtype="float32", scale=0.5)',
    "transpose": 'sg.relayout(batch, dims="NHWC", layout="NCHW")',
    "gather": "sg.gather(batch[0], indices)",
    "gather_elements": "sg.gather_elements(batch[0], rows)",
    "gather_nd": "sg.gather_nd(batch[0], np.stack([rows[..., 0]] * 2, -1))",
    "scatter_elements": "sg.scatter_elements(batch[0], rows, batch[1])",
    "scatter_nd": "sg.scatter_nd(batch[0], rows[:, 0, :1], batch[1])",
    "gather_crops": 'sg.gather_crops(batch, [(3, 4), (5, 6)], (400, 500), dims="NHWC", layout="NCHW")',
    "resize": 'sg.resize(batch, (300, 200), dims="NHWC", passes="horizontal")',
    "letterbox": 'sg.letterbox(batch, (640, 640), dims="NHWC")',
    "frame": 'sg.relayout(frame, layout="CHW", dtype="float32")',
    "unpack_raw": 'sg.unpack_raw(packed, "mipi-raw10", (512, 640))',
    "preprocess": 'step({"image": list(batch)})',
}


def in_a_child(code, **environment):
    """The lines that code prints."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": ROOT} | environment,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_without_memory_raises_and_is_right_afterwards(name):
    lines = in_a_child(CHILD.format(operation=OPERATIONS[name], spares=[0, 2, 30, 165, 300]))
    assert lines[-1] in ("1 right", "2 right", "3 right", "4 right", "5 right")
    assert any(line.startswith("0 ") for line in lines), "without memory there is no output"
    for line in lines[:-1]:
        assert line.split(" ", 2)[1] in ERRORS


def test_numpys_loops_need_no_more_room():
    code = CHILD.format(operation=OPERATIONS["gather"], spares=[64])
    assert in_a_child(code, STRIDEDGPU_COMPILED="0") == ["2 right"]
