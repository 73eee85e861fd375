"""Relayout allocates the output and, of the data's size, nothing besides."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from math import prod
from pathlib import Path

import pytest

import stridedgpu
from stridedgpu.devices.cpu.policy import policy

resource = pytest.importorskip("resource", reason="peak memory is read with getrusage, which POSIX has")
# On macOS ru_maxrss is in bytes and counts compressed pages otherwise.
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux only")

MOST_BESIDES = 8 << 20
"""Bytes that a relayout may hold besides its source and its output."""

# The child first runs the same on a smaller tensor: what the first call loads is not counted.
CHILD = """
import resource
import numpy as np
import stridedgpu as sg
from stridedgpu.devices.cpu.policy import policy, using

chosen = using(policy()._replace(native={loops!r} == "native"))
chosen.__enter__()

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def run(sizes, small):
    source = sg.asarray(np.full(sizes, 1, {source_type!r}), dims={dims!r})
    before = peak() if not small else 0
    out = source.relayout({arguments})
    return peak() - before, source.nbytes, out.buffer.nbytes

run({small}, small=True)
grown, _, made = run({sizes}, small=False)
print(grown - made)
"""

WORK = {
    "transpose of bytes": ("uint8", (16384, 4096), "HW", 'layout="WH"'),
    "transpose of float32": ("float32", (4096, 4096), "HW", 'layout="WH"'),
    "interleave": ("uint8", (4, 3, 2048, 2720), "NCHW", 'layout="NHWC"'),
    "deinterleave": ("float32", (2, 1024, 2730, 3), "NHWC", 'layout="NCHW"'),
    "channels in another order": ("uint8", (4, 2048, 2720, 3), "NHWC", "channels=(1, 0, 2)"),
    "many channels in another order": ("uint8", (64, 1024, 1024), "CHW", "channels=[*range(1, 64), 0]"),
    "normalised": (
        "uint8",
        (2, 2048, 2720, 3),
        "NHWC",
        'layout="NCHW", dtype="float32", scale=(1.0, 2.0, 3.0), bias=0.5',
    ),
    "double to bytes": ("float64", (2896, 2896), "HW", 'layout="WH", dtype="uint8", scale=0.5'),
    "double to bfloat16": ("float64", (2896, 2896), "HW", 'layout="WH", dtype="bfloat16"'),
    "int64 to bfloat16": ("int64", (2896, 2896), "HW", 'layout="WH", dtype="bfloat16"'),
    "double to int64": ("float64", (2896, 2896), "HW", 'layout="WH", dtype="int64", bias=0.5'),
    "complex": ("complex64", (2048, 2048), "HW", 'layout="WH", dtype="complex128"'),
}
QUICK = ("transpose of bytes", "normalised")
"""Those of the default run: each starts a process."""


@pytest.mark.parametrize("loops", ["NumPy", "native"])
@pytest.mark.parametrize(
    "source_type, sizes, dims, arguments",
    [pytest.param(*work, id=name, marks=[] if name in QUICK else [pytest.mark.slow]) for name, work in WORK.items()],
)
def test_nothing_of_the_data_s_size_is_allocated_besides(source_type, sizes, dims, arguments, loops):
    if loops == "native" and policy().why_numpy is not None:
        pytest.skip(str(policy().why_numpy))
    small = list(sizes)
    while prod(small) > 1 << 20:
        small[small.index(max(small))] //= 2
    code = textwrap.dedent(CHILD).format(
        source_type=source_type, sizes=sizes, small=small, dims=dims, arguments=arguments, loops=loops
    )
    paths = [str(Path(stridedgpu.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "STRIDEDGPU_DEVICE": "cpu", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    made = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment, timeout=600
    )
    assert made.returncode == 0, made.stderr
    assert int(made.stdout) <= MOST_BESIDES
