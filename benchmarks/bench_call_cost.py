"""What a call costs, by layer, beside a copy by NumPy, PyTorch and, on a GPU, CuPy: [1, 3, 32, 32] from NHWC to NCHW.

pytest benchmarks/bench_call_cost.py --benchmark-only

On a GPU it is the host's time that is taken, with the device waited for now and then outside of it.
"""

from __future__ import annotations

import numpy as np
import pytest

import stridedgpu as sg

SIZES = (1, 3, 32, 32)
FIRST_CALLS = 50
"""Calls after which every cache is filled."""


def sides(device="cpu"):
    source = sg.asarray(np.random.default_rng(1).integers(0, 256, (1, 32, 32, 3), np.uint8), dims="NHWC")
    return source.to_device(device), sg.empty(SIZES, "uint8", layout="NCHW", device=device)


# Moving


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


def numpy_allocating(source, _):
    read = source.numpy()
    return lambda: np.ascontiguousarray(read)


def torch_allocating(source, _):
    read = pytest.importorskip("torch").from_dlpack(source)
    return read.contiguous


MOVES = (numpy_copy, torch_copy, plan_call, into_out, allocating, numpy_allocating, torch_allocating)


@pytest.mark.parametrize("way", MOVES, ids=lambda way: way.__name__)
def test_call(benchmark, way):
    source, out = sides()
    call = way(source, out)
    for _ in range(FIRST_CALLS):
        call()
    found = benchmark(call)
    if "allocating" not in way.__name__:
        found = out
    assert np.array_equal(np.asarray(found), source.numpy())


# Seeing: nothing moves


def wrapping(_, array):
    return lambda: sg.asarray(array, dims="NHWC")


def wrapping_torch(_, array):
    tensor = pytest.importorskip("torch").from_numpy(array)
    return lambda: sg.asarray(tensor)


def a_window(source, _):
    return lambda: source[:, :, 4:-4, ::2]


def permuting(source, _):
    return lambda: source.permute("NHWC")


def to_numpy(source, _):
    return source.numpy


def to_torch(source, _):
    torch = pytest.importorskip("torch")
    return lambda: torch.from_dlpack(source)


def numpy_window(_, array):
    return lambda: array[:, 4:-4, ::2]


def numpy_to_torch(_, array):
    torch = pytest.importorskip("torch")
    return lambda: torch.from_dlpack(array)


VIEWS = (wrapping, wrapping_torch, a_window, numpy_window, permuting, to_numpy, to_torch, numpy_to_torch)


@pytest.mark.parametrize("way", VIEWS, ids=lambda way: way.__name__)
def test_view(benchmark, way):
    source, _ = sides()
    array = np.zeros((1, 32, 32, 3), np.uint8)
    assert benchmark(way(source, array)) is not None


# On a GPU


def cupy_copy(source, out):
    import cupy

    read, written = cupy.asarray(source), cupy.asarray(out)
    return lambda: cupy.copyto(written, read)


def graph_replay(source, out):
    import cupy

    plan, stream = sg.plan_relayout(source, out), cupy.cuda.Stream(non_blocking=True)
    plan(source, out, stream)
    stream.synchronize()
    with stream:
        stream.begin_capture()
        plan(source, out)
        graph = stream.end_capture()
    return lambda: graph.launch(stream)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "way", [cupy_copy, torch_copy, plan_call, into_out, allocating, graph_replay], ids=lambda way: way.__name__
)
def test_call_on_a_gpu(benchmark, way):
    cuda = next(device for device in sg.devices() if device.name.startswith("cuda"))
    if not cuda.available:
        pytest.skip(cuda.reason)
    if way is torch_copy and not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    source, out = sides("cuda")
    call = way(source, out)
    benchmark.pedantic(call, setup=sg.synchronize, rounds=200, iterations=1, warmup_rounds=FIRST_CALLS)
    sg.synchronize()
    if way is not allocating:
        assert np.array_equal(out.numpy(), source.numpy())
