"""On a GPU: many threads that report at once, streams side by side, and graphs that live long."""

from __future__ import annotations

import numpy as np
import pytest
from harness.sample_tensors import frames, same_bits

import stridedgpu as sg
from stridedgpu.devices.cuda.status import cuda_status

STATUS = cuda_status()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))]

WRONG = {"a lane": 1, "a warp": 32, "a block": 256, "a few blocks": 5000, "a million": 1 << 20}


@pytest.mark.parametrize("mode", ["raise", "deferred"])
@pytest.mark.parametrize("name", WRONG)
def test_however_many_indices_are_wrong_the_first_is_named(name, mode):
    count, before = WRONG[name], 1000
    data = sg.zeros((50, 4), "uint8", device="cuda")
    numbers = np.full(before + count, 77, np.int32)
    numbers[:before] = np.arange(before) % 50
    numbers[before] = -51
    indices = sg.asarray(numbers).to_device("cuda")
    with pytest.raises(IndexError, match=r"indices\[1000\] = -51"):
        sg.gather(data, indices, mode=mode)
        sg.synchronize()
    sg.gather(data, sg.asarray(numbers[:before]).to_device("cuda"))
    sg.synchronize()


def test_streams_side_by_side_keep_to_their_own_order():
    import cupy

    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
    sources = [frames((4, 30 + number, 40, 3)).to_device("cuda") for number in range(3)]
    sg.synchronize()
    made = list(sources)
    for _ in range(6):
        for number, stream in enumerate(streams):
            planar = made[number].relayout(layout="NCHW", dtype="float32", scale=0.5, stream=stream)
            made[number] = planar.relayout(layout="NHWC", dtype="uint8", scale=2, stream=stream)
    for number, stream in enumerate(streams):
        stream.synchronize()
        assert same_bits(made[number].numpy(), sources[number].numpy())


@pytest.mark.slow
def test_a_graph_replays_after_five_thousand_other_plans():
    import cupy

    def turned(buffer, count):
        """The target of a relayout whose kernel reads a table of offsets."""
        return sg.StridedTensor(buffer, sg.Layout((count, 3, 40, 5), (600, 1, 15, 3)), "uint8")

    here = sg.asarray(np.arange(50 * 600, dtype=np.int64).astype(np.uint8).reshape(50, 3, 40, 5))
    source = here.to_device("cuda")
    out = turned(sg.empty((50 * 600,), "uint8", device="cuda").buffer, 50)
    source.relayout(out=out)
    stream = cupy.cuda.Stream(non_blocking=True)
    sg.synchronize()
    with stream:
        stream.begin_capture()
        source.relayout(out=out)
        graph = stream.end_capture()
    many = sg.empty((5000, 3, 40, 5), "uint8", device="cuda")
    into = sg.empty((5000 * 600,), "uint8", device="cuda").buffer
    for count in range(1, 5001):
        if count != 50:
            many[:count].relayout(out=turned(into, count))
    sg.full((100_000,), 255, "uint8", device="cuda")
    out[...] = 0
    sg.synchronize()
    graph.launch(stream)
    stream.synchronize()
    assert same_bits(out.numpy(), here.numpy())
