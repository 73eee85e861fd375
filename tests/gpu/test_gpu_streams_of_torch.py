"""On a GPU: work without `stream=` goes to PyTorch's current stream where CuPy's is the default one."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.devices.cuda.status import cuda_status

STATUS = cuda_status()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))]

IMAGE = np.random.default_rng(5).integers(0, 256, (30, 40, 3), dtype=np.uint8)
PLANES = IMAGE.transpose(2, 0, 1)


@pytest.fixture
def side_stream(monkeypatch):
    """A stream that PyTorch, as far as the library looks at it, has made current in this thread."""
    import cupy

    stream, of_test = cupy.cuda.Stream(non_blocking=True), threading.get_ident()
    current, default = SimpleNamespace(cuda_stream=stream.ptr), SimpleNamespace(cuda_stream=0)
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        current_stream=lambda _: current if threading.get_ident() == of_test else default,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, Tensor=type("Tensor", (), {})))
    yield stream
    stream.synchronize()


OPERATIONS = {
    "relayout": sg.relayout,
    "resize": lambda image, **where: sg.resize(image, (15, 20), passes="horizontal", **where),
    "crops": lambda image, **where: sg.gather_crops([image], [(2, 3)], (20, 20), **where),
}
each_operation = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)


def on_device() -> tuple[sg.StridedTensor, sg.StridedTensor]:
    """The image on the CPU and on the device."""
    host = sg.asarray(IMAGE, dims="HWC")
    there = host.to_device("cuda")
    sg.synchronize()
    return host, there


@each_operation
def test_work_without_a_stream_is_ordered_on_pytorchs(operation, side_stream):
    host, there = on_device()
    result = operation(there)
    side_stream.synchronize()
    np.testing.assert_array_equal(result.numpy(), operation(host).numpy())


@each_operation
@pytest.mark.parametrize("mode", ["streamCaptureModeGlobal", "streamCaptureModeThreadLocal"])
def test_a_capture_of_pytorchs_has_the_work(operation, mode, side_stream):
    import cupy

    host, there = on_device()
    expected = operation(host)
    out = sg.zeros(expected.sizes, "uint8", dims=expected.dims, device="cuda")
    operation(there, out=out)  # what is compiled and allocated once is there before the capture
    out[...] = 0
    side_stream.synchronize()
    cupy.cuda.runtime.streamBeginCapture(side_stream.ptr, getattr(cupy.cuda.runtime, mode))
    try:
        operation(there, out=out)
        with pytest.raises(sg.DeviceError, match="cannot be captured"):
            operation(there)
    finally:
        graph = side_stream.end_capture()
    assert not out.numpy().any(), "a capture carries nothing out"
    graph.launch(side_stream)
    side_stream.synchronize()
    np.testing.assert_array_equal(out.numpy(), expected.numpy())


def test_a_stream_that_cupy_has_made_current_comes_first(side_stream):
    import cupy

    from stridedgpu.devices.cuda.runtime.streams import current_on, stream_handle

    assert stream_handle(None, 0) == side_stream.ptr
    with current_on(0, None) as handle:
        assert handle == side_stream.ptr == cupy.cuda.get_current_stream().ptr
    with cupy.cuda.Stream(non_blocking=True) as own:
        assert stream_handle(None, 0) == own.ptr
        with current_on(0, None) as handle:
            assert handle == own.ptr


@pytest.mark.parametrize("torch", [None, SimpleNamespace(), SimpleNamespace(cuda=SimpleNamespace(is_initialized=bool))])
def test_pytorch_without_cuda_has_no_stream(torch, monkeypatch):
    from stridedgpu.devices.cuda.runtime.streams import stream_of_torch

    monkeypatch.setitem(sys.modules, "torch", torch)
    assert stream_of_torch(0) == 0


def test_memory_of_a_prefetched_batch_is_used_again_behind_the_work_of_pytorchs_stream(side_stream):
    batches = [np.full((64, 1000), number, np.uint8) for number in range(12)]
    copies = [batch.relayout() for batch in sg.prefetch(batches, device="cuda", depth=1)]
    side_stream.synchronize()
    assert [set(copy.numpy().ravel().tolist()) for copy in copies] == [{number} for number in range(12)]


def test_prefetch_breaks_no_capture_of_another_thread(side_stream):
    """PyTorch captures in global mode, in which every thread's allocations and queries end the capture."""
    import cupy

    batches = [np.full((2, 500 + 100 * number), number, np.uint8) for number in range(6)]
    captured = threading.Event()

    def produced():
        for batch in batches:
            captured.wait(60)
            yield batch

    received = sg.prefetch(produced(), device="cuda", depth=6)
    source, target = (sg.zeros((64,), "uint8", device="cuda") for _ in range(2))
    plan = sg.plan_relayout(source, target)
    plan(source, target)
    cupy.cuda.runtime.streamBeginCapture(side_stream.ptr, cupy.cuda.runtime.streamCaptureModeGlobal)
    captured.set()
    plan(source, target)
    results = []
    consumer = threading.Thread(target=lambda: results.extend(batch.sizes for batch in received))
    consumer.start()
    consumer.join(60)
    side_stream.end_capture().launch(side_stream)
    assert results == [batch.shape for batch in batches]
