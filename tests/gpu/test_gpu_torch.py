"""On a GPU: PyTorch's operators on its current stream, and captured into its graphs."""

from __future__ import annotations

import numpy as np
import pytest
from harness.sample_tensors import same_bits

import stridedgpu as sg
from stridedgpu.devices.cuda.status import cuda_status

torch = pytest.importorskip("torch", reason="the operators are PyTorch's")
adapter = pytest.importorskip("stridedgpu.adapters.torch")
ops = torch.ops.stridedgpu

STATUS = cuda_status()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason)),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this PyTorch has no CUDA"),
]

STEP = sg.Preprocess(resize=(40, 40), crop=32, normalize="imagenet", passes="horizontal", device="cpu")


def frames(seed):
    return np.random.default_rng(seed).integers(0, 256, (4, 50, 60, 3), dtype=np.uint8)


def test_an_operator_works_on_the_current_stream():
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        batch = torch.from_numpy(frames(0)).cuda(non_blocking=True)
        result = ops.preprocess(batch, adapter.declared(STEP)) + 0
    stream.synchronize()
    assert same_bits(result.cpu().numpy(), STEP(frames(0)))


def test_a_captured_operator_replays_on_new_contents():
    text = adapter.declared(STEP)
    batch = torch.from_numpy(frames(0)).cuda()
    ops.preprocess(batch, text)  # kernels are compiled and constants uploaded before
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = ops.preprocess(batch, text)
    batch.copy_(torch.from_numpy(frames(1)))
    graph.replay()
    assert same_bits(result.cpu().numpy(), STEP(frames(1)))
