"""On a GPU: memory of PyTorch's allocator and of CuPy's pool, kept until the streams of both have used it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.devices.cuda.status import cuda_status

STATUS = cuda_status()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))]

IMAGE = np.random.default_rng(7).integers(0, 256, (1, 20, 30, 3), np.uint8)
PLANES = IMAGE.transpose(0, 3, 1, 2)


@pytest.fixture
def streams():
    """PyTorch's current stream and another one."""
    import cupy
    from harness.decoders import torch_double

    of_torch, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    with torch_double(of_torch):
        yield of_torch, other
        of_torch.synchronize()
        other.synchronize()


def tensor_of_torch(contents=IMAGE):
    from harness.decoders import Tensor

    return Tensor.of_frames(contents)


# PyTorch's memory


def test_a_tensor_of_pytorch_is_recorded_on_the_stream_of_the_call(streams):
    _, other = streams
    tensor = tensor_of_torch()
    sg.relayout(tensor, dims="NCHW", layout="NCHW", stream=other)
    with other:
        sg.relayout(tensor, dims="NCHW", layout="NCHW")
    assert tensor.recorded == [other.ptr] * 2


def test_a_tensor_of_pytorch_on_its_own_stream_is_not_recorded(streams):
    of_torch, _ = streams
    tensor = tensor_of_torch()
    sg.relayout(tensor, dims="NCHW", layout="NCHW")
    sg.relayout(tensor, dims="NCHW", layout="NCHW", stream=of_torch)
    assert tensor.recorded == []


@pytest.mark.parametrize("handle", [0, 1])
def test_the_default_stream_is_recorded_by_pytorchs_own_name_for_it(streams, handle):
    """An `ExternalStream` of 0 is a new stream."""
    tensor = tensor_of_torch()
    sg.relayout(tensor, dims="NCHW", layout="NCHW", stream=handle)
    assert tensor.recorded == ["default"]


def test_memory_of_pytorch_is_not_used_again_before_a_launch_on_another_stream_has_read_it(streams):
    of_torch, other = streams
    tensor = tensor_of_torch()
    address = tensor._surface.address
    result = sg.relayout(tensor, dims="NCHW", layout="NCHW", stream=other)
    del tensor
    of_torch.synchronize()
    later = tensor_of_torch(255 - IMAGE)
    assert later._surface.address == address, "the allocator used it again"
    of_torch.synchronize()
    other.synchronize()
    np.testing.assert_array_equal(result.numpy(), PLANES)


def test_memory_that_pytorchs_allocator_does_not_know_is_used_as_it_is(streams, monkeypatch):
    _, other = streams
    tensor = tensor_of_torch()

    def refuse(_):
        raise RuntimeError("ptr not found in ptr_info")

    monkeypatch.setattr(tensor, "record_stream", refuse, raising=False)
    result = sg.relayout(tensor, dims="NCHW", layout="NCHW", stream=other)
    other.synchronize()
    np.testing.assert_array_equal(result.numpy(), PLANES)


# This library's memory


def consumed(tensor, stream):
    """What PyTorch has of a tensor that it takes on its current stream: the capsule's memory until it is dropped."""
    return tensor.__dlpack__(stream=stream.ptr or 1)


def written_later(stream, address, nbytes):
    """Work of PyTorch's that writes memory once its stream gets there."""
    import cupy

    cupy.cuda.runtime.memsetAsync(address, 0, nbytes, stream.ptr)


def test_memory_that_pytorch_gives_back_is_used_again_behind_its_work(streams):
    of_torch, other = streams
    with other:
        lent = sg.asarray(IMAGE).to_device("cuda")
        address, capsule = lent.buffer.address, consumed(lent, of_torch)
        written_later(of_torch, address, IMAGE.nbytes)
        del lent, capsule
        again = sg.asarray(255 - IMAGE).to_device("cuda")
        assert again.buffer.address == address, "the pool used it again"
        other.synchronize()
    of_torch.synchronize()
    np.testing.assert_array_equal(again.numpy(), 255 - IMAGE)


def test_only_pytorchs_stream_is_waited_for_and_not_by_itself(streams):
    """Streams of other consumers may have ended."""
    from stridedgpu.devices.cuda.runtime.exchange import _Lent

    of_torch, other = streams
    buffer = sg.empty((4,), "uint8", device="cuda").buffer
    assert _Lent.to_torch(buffer, 0, other.ptr, of_torch.ptr) is not None
    assert _Lent.to_torch(buffer, 0, of_torch.ptr, of_torch.ptr) is None
    assert [_Lent.to_torch(buffer, 0, other.ptr, stream) for stream in (None, -1, 1, other.ptr)] == [None] * 4


@pytest.mark.parametrize("captures", ["PyTorch", "the lender"])
def test_memory_given_back_during_a_capture_leaves_the_graph_alone(streams, captures):
    of_torch, other = streams
    capturing = of_torch if captures == "PyTorch" else other
    source, out = (sg.zeros(IMAGE.shape, "uint8", device="cuda") for _ in range(2))
    plan = sg.plan_relayout(source, out)
    plan(source, out)
    with other:
        lent = sg.asarray(IMAGE).to_device("cuda")
        capsule = consumed(lent, of_torch)
        del lent
        sg.synchronize()
        capturing.begin_capture()
        plan(source, out, capturing)
        del capsule
        graph = capturing.end_capture()
    source[...] = 3
    sg.synchronize()
    graph.launch(capturing)
    capturing.synchronize()
    assert (out.numpy() == 3).all()


# JAX and Numba, whose protocols state the stream


class Exporting:
    """An array of JAX: `__dlpack__` takes the consumer's stream, which it has wait for its own."""

    def __init__(self, tensor, stream):
        self._tensor, self._stream, self.asked = tensor, stream, []

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, *, stream=None):
        import cupy

        self.asked.append(stream)
        event = cupy.cuda.Event(disable_timing=True)
        event.record(self._stream)
        cupy.cuda.runtime.streamWaitEvent(stream, event.ptr)
        return self._tensor.__dlpack__(stream=-1)


def side_streams(count):
    import cupy

    return [cupy.cuda.Stream(non_blocking=True) for _ in range(count)]


def test_an_array_of_jax_is_asked_for_the_stream_of_the_call():
    theirs, ours, current = side_streams(3)
    there = sg.asarray(IMAGE).to_device("cuda")
    sg.synchronize()
    with theirs:
        array = Exporting(there.relayout(), theirs)
    with current:
        made = [sg.relayout(array), sg.relayout(array, stream=ours)]
    assert array.asked == [current.ptr, ours.ptr]
    for result, stream in zip(made, (current, ours), strict=True):
        stream.synchronize()
        np.testing.assert_array_equal(result.numpy(), IMAGE)


def test_a_consumer_such_as_jax_is_waited_on_by_the_stream_that_it_names():
    import cupy

    ours, theirs = side_streams(2)
    there = sg.asarray(IMAGE).to_device("cuda")
    copy = sg.zeros(IMAGE.shape, "uint8", device="cuda")
    sg.synchronize()
    with ours:
        made = there.relayout()
        capsule = made.__dlpack__(stream=theirs.ptr)
    runtime = cupy.cuda.runtime
    kind = runtime.memcpyDeviceToDevice
    runtime.memcpyAsync(copy.buffer.address, made.buffer.address, IMAGE.nbytes, kind, theirs.ptr)
    theirs.synchronize()
    np.testing.assert_array_equal(copy.numpy(), IMAGE)
    del capsule


@pytest.mark.parametrize("states", [True, False], ids=["a stream", "none"])
def test_the_stream_of_an_interface_is_waited_for_and_none_is_not(states):
    """Numba's arrays have None where nothing is to be waited for."""
    theirs, ours = side_streams(2)
    there = sg.asarray(IMAGE).to_device("cuda")
    sg.synchronize()
    with theirs:
        made = there.relayout()
        interface = made.__cuda_array_interface__ | ({} if states else {"stream": None})
    assert made.__cuda_array_interface__["version"] == 3
    if not states:
        theirs.synchronize()
    array = SimpleNamespace(__cuda_array_interface__=interface, kept=made)
    result = sg.relayout(array, stream=ours)
    ours.synchronize()
    np.testing.assert_array_equal(result.numpy(), IMAGE)


def test_the_interface_of_a_tensor_states_the_stream_that_a_consumer_waits_for():
    """Numba waits for the stream in the dictionary, and for nothing else."""
    import cupy

    (ours,) = side_streams(1)
    there = sg.asarray(IMAGE).to_device("cuda")
    sg.synchronize()
    with ours:
        made = there.relayout()
        stated = made.__cuda_array_interface__["stream"]
    assert stated == ours.ptr
    cupy.cuda.runtime.streamSynchronize(stated)
    assert (made.numpy() == IMAGE).all()
    assert made.__cuda_array_interface__["stream"] == 1, "the ambiguous 0 is not allowed"
