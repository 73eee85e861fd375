"""Ctrl-C in a native call: KeyboardInterrupt comes after the call, whose target is whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness.native_loops import needs_library

import stridedgpu as sg

PROGRAM = """
import os, signal, sys, threading, time
import numpy as np, stridedgpu as sg

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
source = sg.asarray(np.random.default_rng(0).integers(0, 256, (4, 2000, 2000, 3), np.uint8), dims="NHWC")
expected = source.permute("NCHW").numpy().astype(np.float32)
out = sg.empty((4, 3, 2000, 2000), "float32", device="cpu")
plan = sg.plan_relayout(source, out)
plan(source, out)
assert plan.plan.native is not None
values = out.numpy()

def interrupt():
    while values.flat[0] < 0:  # the call has not begun
        pass
    os.kill(os.getpid(), signal.SIGINT)

for _ in range(5):
    values[...] = -1
    sender = threading.Thread(target=interrupt)
    try:
        sender.start()
        plan(source, out)
        sender.join()
        while True:
            time.sleep(0.01)
    except KeyboardInterrupt:
        sender.join()
    assert np.array_equal(values, expected)
    values[...] = -1
    plan(source, out)
    assert np.array_equal(values, expected)
print("whole")
"""


@needs_library
@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a process there does not send itself SIGINT")
@pytest.mark.parametrize("threads", [1, 4])
def test_a_native_call_is_finished_before_the_interrupt(threads):
    environment = {**os.environ, "STRIDEDGPU_THREADS": str(threads), "PYTHONPATH": str(Path(sg.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, timeout=600, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "whole\n", "")
