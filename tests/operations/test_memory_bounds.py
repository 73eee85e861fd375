"""What ten thousand different calls of one operation leave behind: what is kept is bounded, and so are open files."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import stridedgpu as sg

pytestmark = [
    pytest.mark.sweep,
    pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is read from /proc"),
]

ROOT = str(pathlib.Path(sg.__file__).parents[1])
CALLS = 10_000
GROWTH_MIB = 4  # of the last quarter of the calls: plans and tables fill their caches in the first ones

CHILD = """
import os
import numpy as np
import stridedgpu as sg

sg.set_num_threads(2)
rng = np.random.default_rng(0)
block = rng.integers(0, 256, (64, 64, 64), np.uint8)
draw = lambda low, high, count: [int(value) for value in rng.integers(low, high, count)]

def layouts(number):
    height, width, channels = draw(1, 64, 3)
    order = ("HWC", "CHW", "WCH", "CWH", "HCW", "WHC")[number % 6]
    dtype = ("uint8", "float16", "float32")[number % 3]
    sg.relayout(block[:height, :width, :channels], dims="HWC", layout=order, dtype=dtype)

def gathers(number):
    height, width, channels, count = draw(1, 64, 4)
    sg.gather(block[:height, :width, :channels], rng.integers(0, height, count))

def crops(number):
    height, width, count = draw(40, 200, 3)
    images = [np.zeros((height + item, width, 3), np.uint8) for item in range(count % 8 + 1)]
    origins = [(item, item) for item in range(len(images))]
    sg.gather_crops(images, origins, tuple(draw(1, 32, 2)), dims="HWC", layout="NCHW")

def frames(number):
    height, width = (2 * size for size in draw(8, 200, 2))
    frame = sg.Frame.over("nv12", np.zeros(height * width * 3 // 2, np.uint8), (height, width))
    sg.relayout(frame, layout="CHW", dtype="float16", scale=1 / 255)

def images(number):
    sizes = tuple(draw(8, 300, 2))
    sg.resize(np.zeros((*sizes, 3), np.uint8), tuple(draw(1, 300, 2)), dims="HWC")

def resident_mib():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20

for number in range({calls}):
    {operation}(number)
    if number + 1 in ({calls} * 3 // 4, {calls}):
        print(resident_mib(), len(os.listdir("/proc/self/fd")))
"""


def measured(operation):
    """What a process holds after three quarters of the calls, and after all: MiB of memory, and open files."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(operation=operation, calls=CALLS)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": ROOT},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [(float(memory), int(files)) for memory, files in (line.split() for line in done.stdout.splitlines())]


@pytest.mark.parametrize("operation", ["layouts", "gathers", "crops", "frames", "images"])
def test_memory_and_open_files_stay_bounded_however_many_shapes_there_were(operation):
    (before, files_before), (after, files_after) = measured(operation)
    assert after - before < GROWTH_MIB
    assert files_after == files_before
