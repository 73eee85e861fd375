"""Processor time of an import in a fresh process: NumPy alone, the package and its first names, and a first relayout.

pytest benchmarks/bench_import.py --benchmark-only -s

A round's wall time is that of the whole process; `milliseconds` in the extra information is the import's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

import stridedgpu

FIRST = """import stridedgpu
frames = numpy.zeros((8, 224, 224, 3), numpy.uint8)
stridedgpu.relayout(frames, dims="NHWC", layout="NCHW", dtype="float32", scale=1 / 255)"""

IMPORTS = {
    "numpy": "import numpy",
    "stridedgpu, after numpy": "import stridedgpu",
    "Layout": "import stridedgpu; stridedgpu.Layout",
    "asarray": "import stridedgpu; stridedgpu.asarray",
    "relayout": "import stridedgpu; stridedgpu.relayout",
    "every public name": "from stridedgpu import *",
    "a first relayout": FIRST,
}
TIMED = """
import time
{before}
started = time.process_time()
{imported}
print(time.process_time() - started)
"""


@pytest.mark.parametrize("name", IMPORTS)
def test_import(benchmark, name):
    code = TIMED.format(before="" if name == "numpy" else "import numpy", imported=IMPORTS[name])
    # The threads that NumPy's OpenBLAS starts spin for a tenth of a second, which would be counted.
    found = os.environ | {"PYTHONPATH": str(Path(stridedgpu.__file__).parents[1]), "OPENBLAS_NUM_THREADS": "1"}
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    seconds = []

    def run():
        done = subprocess.run([sys.executable, "-c", code], env=found, capture_output=True, text=True, check=True)
        seconds.append(float(done.stdout))

    benchmark.pedantic(run, rounds=7, warmup_rounds=1)
    benchmark.extra_info["milliseconds"] = round(1e3 * median(seconds), 1)
    print(f"{name}: {1e3 * median(seconds):.1f} ms of processor time")
