"""Moves between devices: every bit, over the fewest bytes, in the order of the streams.

A stand-in for CuPy takes its place, with memory of this process and kernels run by NumPy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from harness.sample_tensors import SOURCES, frames, padded, same_bits

import stridedgpu as sg
from stridedgpu.devices.cuda.policy import MemoryPolicy, policy, using
from stridedgpu.operations import move


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("dtype", [None, "float64", "uint8"])
def test_round_trips_keep_every_bit(gpus, name, dtype):
    source = SOURCES[name]()
    on_cpu = source.relayout(dtype=dtype)
    uploaded = source.relayout(dtype=dtype, device="cuda:0")
    crossed = uploaded.to_device("cuda:1")
    assert (uploaded.device, crossed.device) == ("cuda:0", "cuda:1")
    assert same_bits(uploaded.numpy(), on_cpu.numpy())
    assert same_bits(crossed.numpy(), on_cpu.numpy())
    assert same_bits(crossed.relayout(dtype="int16", device="cuda:0").numpy(), on_cpu.relayout(dtype="int16").numpy())


@pytest.mark.parametrize("name", SOURCES)
def test_assignment_writes_into_any_view_on_a_device(gpus, name):
    source = SOURCES[name]()
    around = sg.full((*(size + 2 for size in source.sizes),), 200, "float32", device="cuda")
    inside = tuple(slice(1, -1) for _ in source.sizes)
    around[inside] = source.numpy()
    expected = np.full(around.sizes, 200, np.float32)
    expected[inside] = source.numpy()
    assert same_bits(around.numpy(), expected)


def test_large_tensors_cross_in_pieces_that_fit_small_carriers(gpus, monkeypatch):
    monkeypatch.setattr(move, "_PIECE_BYTES", 1000)
    source = frames((5, 30, 40, 3))[:, :, ::2, ::3]
    with using(replace(policy(), memory=MemoryPolicy(uploads=2, upload_bytes=960, least_upload_bytes=64))):
        result = source.relayout(layout="NHWC", dtype="float32", scale=[0.5, 1, 2], device="cuda")
    assert same_bits(result.numpy(), source.relayout(dtype="float32", scale=[0.5, 1, 2]).numpy())
    carriers = [call[1] for call in [*gpus.named("alloc"), *gpus.named("alloc_pinned_memory")]]
    assert max(carriers) == result.buffer.nbytes
    assert all(nbytes <= 1024 for nbytes in carriers if nbytes != result.buffer.nbytes)
    assert len(gpus.named("alloc_pinned_memory")) == 1, "every copy is done at once here, so one piece is enough"
    assert len(gpus.named("memcpyAsync")) > source.layout.element_count // 1000


def moved_bytes(gpus):
    flat = sum(call[1] for call in gpus.named("memcpyAsync"))
    return flat + sum(call[3] * call[4] for call in gpus.named("memcpy2DAsync"))


def test_the_side_with_fewer_bytes_converts(gpus):
    table = 20  # of every prepared kernel of the stand-in
    small = frames()
    count = small.layout.element_count
    uploaded = small.relayout(layout="NCHW", dtype="float32", device="cuda")
    assert moved_bytes(gpus) == count + table
    gpus.calls.clear()
    narrow = uploaded.relayout(dtype="uint8", device="cpu")
    assert moved_bytes(gpus) == count + table
    gpus.calls.clear()
    assert same_bits(uploaded.relayout(dtype="float64", device="cpu").numpy(), narrow.numpy().astype(np.float64))
    assert moved_bytes(gpus) == 4 * count
    gpus.calls.clear()
    frames(dtype=np.float32).relayout(dtype="uint8", device="cuda")
    assert moved_bytes(gpus) == count


def test_padded_rows_are_one_pitched_copy_each_way(gpus):
    source = padded((2, 3, 40, 50), "NHWC", 160)
    uploaded = source.relayout(layout="NHWC", row_pitch_bytes=192, device="cuda")
    downloaded = sg.zeros((2, 3, 40, 50), "uint8", layout="NHWC", row_pitch_bytes=256, device="cpu")
    downloaded[...] = uploaded
    assert gpus.named("memcpy2DAsync") == [
        ("memcpy2DAsync", 192, 150, 150, 80, 1, 0),  # packed by the CPU into page-locked memory
        ("memcpy2DAsync", 256, 192, 150, 80, 2, 0),
    ]
    assert gpus.launched == []
    assert gpus.named("memcpyAsync") == []
    assert same_bits(downloaded.numpy(), source.numpy())


def test_downloads_are_done_when_they_return_and_nobody_waits_for_uploads(gpus):
    tensor = sg.asarray(np.arange(24, dtype=np.uint8)).to_device("cuda")
    assert [call[0] for call in gpus.calls][-2:] == ["memcpyAsync", "eventRecord"]
    assert gpus.named("streamSynchronize") == []
    tensor.numpy()
    assert [call[0] for call in gpus.calls][-2:] == ["memcpyAsync", "streamSynchronize"]


def test_copies_between_devices_are_ordered_by_events_and_nobody_waits(gpus):
    tensor = frames().to_device("cuda:0")
    gpus.calls.clear()
    tensor.to_device("cuda:1")
    names = [call[0] for call in gpus.calls if call[0] != "alloc"]
    assert names == [
        "eventRecord", "streamWaitEvent", "memcpyPeerAsync", "eventRecord", "streamWaitEvent",
    ]  # fmt: skip


def test_an_out_on_another_device_is_refused(gpus):
    with pytest.raises(sg.BindingError, match=r"out is on cuda:0 and the source on cpu"):
        frames().relayout(out=sg.empty((2, 3, 4, 6), "uint8", device="cuda"))


def test_channels_are_filled_up_with_zeros_on_the_device(gpus):
    source = frames().to_device("cuda")
    source.relayout(layout="NHWC4")
    gpus.calls.clear()
    filled = source.relayout(layout="NHWC4")
    assert [call[0] for call in gpus.calls] == ["alloc"]
    assert same_bits(filled.numpy(), frames().numpy())
    assert filled.as_strided((2, 4, 6), (96, 24, 4), 3).numpy().tolist() == np.zeros((2, 4, 6)).tolist()
