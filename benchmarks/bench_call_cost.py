"""What a call costs on the CPU: [1, 3, 32, 32] from NHWC to NCHW, beside NumPy's own copy of it and PyTorch's.

pytest benchmarks/bench_call_cost.py --benchmark-only
"""

from __future__ import annotations

import numpy as np
import pytest

import stridedgpu as sg

SIZES = (1, 3, 32, 32)


def sides():
    source = sg.asarray(np.random.default_rng(1).integers(0, 256, (1, 32, 32, 3), np.uint8), dims="NHWC")
    return source, sg.empty(SIZES, "uint8", layout="NCHW", device="cpu")


def numpy_copy(source, out):
    read, written = source.numpy(), out.numpy()
    return lambda: np.copyto(written, read)


def torch_copy(source, out):
    torch = pytest.importorskip("torch")
    read, written = torch.from_dlpack(source), torch.from_dlpack(out)
    return lambda: written.copy_(read)


def plan_call(source, out):
    plan = sg.plan_relayout(source, out)
    return lambda: plan(source, out)


def into_out(source, out):
    return lambda: sg.relayout(source, out=out)


def allocating(source, out):
    return lambda: sg.relayout(source, layout="NCHW", device=out.device)


WAYS = (numpy_copy, torch_copy, plan_call, into_out, allocating)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_call(benchmark, way):
    source, out = sides()
    call = way(source, out)
    for _ in range(50):  # past the call at which the compiled loop takes over
        call()
    benchmark(call)
    if way is not allocating:
        assert np.array_equal(out.numpy(), source.numpy())
