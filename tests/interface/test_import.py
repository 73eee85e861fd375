"""What `import stridedgpu` costs: NumPy, and nothing that a program did not ask for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import stridedgpu

HEAVY = (
    "PIL",
    "cuda",
    "cupy",
    "cupyx",
    "jax",
    "llvmlite",
    "matplotlib",
    "ml_dtypes",
    "numba",
    "onnxruntime",
    "rich",
    "scipy",
    "skimage",
    "torch",
)
ALLOWED_SECONDS = 0.15
RUNS = 5


def python(code: str) -> str:
    same_package = os.environ | {"PYTHONPATH": str(Path(stridedgpu.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=same_package, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def test_import_loads_numpy_and_nothing_heavier():
    loaded = python(f"import sys, stridedgpu; print(*sorted({set(HEAVY)} & set(sys.modules)))")
    assert loaded == ""


def test_the_command_line_loads_pillow_and_rich_only_when_needed():
    loaded = python(f"import sys, stridedgpu.__main__; print(*sorted({set(HEAVY)} & set(sys.modules)))")
    assert loaded == ""


def test_import_takes_little_more_than_numpy():
    # Time of this process on a processor, so that a busy machine does not count.
    code = "import numpy, time; before = time.process_time(); import stridedgpu; print(time.process_time() - before)"
    seconds = [float(python(code)) for _ in range(RUNS)]
    assert median(seconds) < ALLOWED_SECONDS, seconds


def test_every_public_name_is_there_and_stated():
    assert sorted(set(stridedgpu.__all__)) == sorted(stridedgpu.__all__)
    assert [name for name in stridedgpu.__all__ if not hasattr(stridedgpu, name)] == []
