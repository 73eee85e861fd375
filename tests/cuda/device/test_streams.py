"""The order of work between streams, and what a CUDA graph can record, over a stand-in for CuPy: by events alone."""

from __future__ import annotations

import types

import pytest
from harness.sample_tensors import frames, same_bits

import stridedgpu as sg

WAITS = ("deviceSynchronize", "streamSynchronize")


class CudaStream:
    """A stream of another library."""

    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return 0, self.handle


def produced(gpus, stream):
    """An array of another library on the second device, whose work is on `stream`, and the tensor that it lies in."""
    held = sg.zeros((4, 6), "int16", device="cuda:1")
    gpus.pointer_devices[held.buffer.address] = 1
    interface = held.__cuda_array_interface__ | {"stream": stream}
    gpus.calls.clear()
    return types.SimpleNamespace(__cuda_array_interface__=interface), held


def waits_of(gpus):
    """Which stream waits for which, in order."""
    recorded, found = {}, []
    for name, *rest in gpus.calls:
        if name == "eventRecord":
            recorded[rest[0]] = rest[1]
        elif name == "streamWaitEvent":
            found.append((rest[0], recorded[rest[1]]))
    return found


@pytest.mark.parametrize("current, producer, expected", [
    pytest.param(None, 42, [(0, 42)], id="the default stream waits for the producer's"),
    pytest.param(7, 42, [(7, 42)], id="one of ours waits for the producer's"),
    pytest.param(42, 42, [], id="one stream needs no event"),
    pytest.param(None, 1, [], id="the legacy stream by either number"),
    pytest.param(7, 1, [(7, 1)], id="ours waits for the legacy stream"),
    pytest.param(7, None, [], id="a producer that has waited names none"),
])  # fmt: skip
def test_the_current_stream_waits_for_the_producers_by_an_event(gpus, current, producer, expected):
    foreign, held = produced(gpus, producer)
    if current is None:
        tensor = sg.asarray(foreign)
    else:
        gpus.state.streams = {1: gpus.Stream(handle=current)}
        tensor = sg.asarray(foreign)
    assert tensor.operand.address == held.operand.address
    assert waits_of(gpus) == expected
    assert not [call for call in gpus.calls if call[0] in WAITS]


def test_a_producer_is_asked_with_its_own_device_as_the_current_one(gpus):
    held = sg.zeros((4, 6), "int16", device="cuda:1")
    asked = []

    class Produced:
        """As CuPy's arrays: they take the current device's stream for the one that they were made on."""

        def __dlpack_device__(self):
            return held.__dlpack_device__()

        def __dlpack__(self, **request):
            asked.append((gpus.get_device(), request["stream"]))
            return held.__dlpack__(**request)

    assert sg.from_dlpack(Produced()).device == "cuda:1"
    gpus.state.streams = {1: gpus.Stream(handle=7)}
    sg.asarray(Produced())
    assert asked == [(1, 1), (1, 7)]
    assert gpus.get_device() == 0


def test_between_devices_each_side_waits_for_the_other_and_the_host_for_neither(gpus):
    source = frames().to_device("cuda:0")
    gpus.calls.clear()
    moved = source.relayout(device="cuda:1", stream=CudaStream(9))
    assert waits_of(gpus)[:2] == [(9, 0), (0, 9)]
    assert not gpus.named("deviceSynchronize")
    assert same_bits(moved.numpy(), frames().numpy())


FIRST_FORM = types.SimpleNamespace(__cuda_stream__=(0, 11))
"""The protocol's first form: the pair itself, not a method."""


@pytest.mark.parametrize("stream", [11, CudaStream(11), FIRST_FORM], ids=["handle", "protocol", "first form"])
def test_operations_launch_and_allocate_on_the_stream_that_is_given(gpus, stream):
    data = frames().to_device("cuda")
    indices = sg.asarray([1, 0]).to_device("cuda")
    out = sg.empty(data.sizes, "uint8", device="cuda")
    plan = sg.plan_relayout(data, out)
    gpus.launched.clear()
    gpus.calls.clear()
    plan(data, out, stream)
    data.relayout(layout="NCHW", stream=stream)
    assert {launch["stream"] for launch in gpus.launched} == {11}
    assert {call[3] for call in gpus.named("alloc")} == {11}
    assert not [call for call in gpus.calls if call[0] in WAITS], "nothing waits on the host"
    assert indices.device == "cuda:0"


# CUDA graphs


def capturing(gpus):
    """A tensor, an `out` and a plan, made before stream 9 begins to record."""
    source = frames().to_device("cuda")
    out = sg.empty(source.sizes, "float32", device="cuda")
    plan = sg.plan_relayout(source, out, scale=0.5)
    gpus.capturing.add(9)
    gpus.calls.clear()
    gpus.launched.clear()
    return source, out, plan


def test_a_plan_records_one_launch_and_nothing_else(gpus):
    source, out, plan = capturing(gpus)
    plan(source, out, stream=9)
    source.relayout(out=out, scale=0.5, stream=9)
    assert [launch["stream"] for launch in gpus.launched] == [9, 9]
    assert gpus.calls == []


REFUSED = {
    "a result of its own": lambda source: source.relayout(layout="NCHW", stream=9),
    "a copy to the host": lambda source: source.relayout(device="cpu", stream=9),
    "a copy from the host": lambda source: frames().relayout(device="cuda:0", stream=9),
    "a copy between devices": lambda source: source.relayout(device="cuda:1", stream=9),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_a_graph_cannot_record_says_so_before_anything_is_launched(gpus, call):
    source, _, _ = capturing(gpus)
    with pytest.raises(sg.DeviceError, match="cannot be captured into a CUDA graph; capture plans with out="):
        call(source)
    assert gpus.launched == []
    assert not [name for name, *_ in gpus.calls if name.startswith(("memcpy", "stream"))]


def test_the_default_stream_cannot_even_be_asked_while_a_blocking_one_records(gpus):
    source = frames().to_device("cuda")
    gpus.capturing.add(gpus.Stream().ptr)
    for call in (source.copy, source.numpy):
        with pytest.raises(sg.DeviceError, match=r"non_blocking=True .*StreamCaptureImplicit"):
            call()


def test_new_memory_on_the_recording_stream_when_that_is_current(gpus):
    source, _, _ = capturing(gpus)
    gpus.state.streams = {0: gpus.Stream(handle=9)}
    for call in (source.copy, lambda: sg.empty((3,), "uint8", device="cuda"), source.numpy):
        with pytest.raises(sg.DeviceError, match="cannot be captured"):
            call()
    assert gpus.launched == []
