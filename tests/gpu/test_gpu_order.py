"""On a GPU: work in the order of its streams, threads and graphs; memory shared with others; kernels kept on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from harness.gpu_at_hand import BUSY_BYTES, PRELUDE
from harness.sample_tensors import frames, same_bits

import stridedgpu as sg
from stridedgpu.devices.cuda.status import cuda_status

STATUS = cuda_status()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))]

# Streams, threads and graphs


def test_constants_wait_for_what_their_memory_was():
    """A plan's tables come into memory that was freed while work on the stream still reads it."""
    busy, idle = (sg.zeros((BUSY_BYTES,), "uint8", device="cuda") for _ in range(2))
    expected = np.arange(4000, dtype=np.uint8).reshape(1000, 4)
    small, kept = sg.asarray(expected).to_device("cuda"), sg.zeros((1000, 4), "uint8", device="cuda")
    copied = sg.plan_relayout(small, kept)
    copied(small, kept)
    frames((2, 5, 7, 3)).to_device("cuda").relayout(layout="NCHW32")  # the kernel is compiled, and other tables made
    source = frames((2, 5, 6, 3)).to_device("cuda")
    for _ in range(50):
        busy.relayout(out=idle)
    copied(small, kept)
    del small
    made = source.relayout(layout="NCHW32")
    assert same_bits(kept.numpy(), expected)
    assert same_bits(made.numpy(), frames((2, 5, 6, 3)).relayout(layout="NCHW32").numpy())


def test_work_on_a_stream_is_in_its_order():
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    source = frames((8, 224, 224, 3)).to_device("cuda")
    sg.synchronize()
    first = source.relayout(layout="NCHW", dtype="float32", stream=stream)
    second = first.relayout(layout="NHWC", dtype="uint8", stream=stream.ptr)
    with stream:
        third = second.relayout(layout="NCHW")
    stream.synchronize()
    assert same_bits(third.numpy(), frames((8, 224, 224, 3)).numpy())


def test_a_captured_plan_replays_on_new_contents():
    import cupy

    source = frames((8, 64, 64, 3)).to_device("cuda")
    out = sg.zeros(source.sizes, "float32", device="cuda")
    plan = sg.plan_relayout(source, out, scale=1 / 255)
    plan(source, out)
    stream = cupy.cuda.Stream(non_blocking=True)
    sg.synchronize()
    with stream:
        stream.begin_capture()
        plan(source, out)
        with pytest.raises(sg.DeviceError, match="cannot be captured"):
            source.numpy()
        graph = stream.end_capture()
    source[...] = 51
    sg.synchronize()
    graph.launch(stream)
    stream.synchronize()
    assert (out.numpy() == np.float32(51) * np.float32(1 / 255)).all()


def test_captured_gathers_replay_on_new_indices():
    import cupy

    data = sg.asarray(np.arange(600, dtype=np.float32).reshape(100, 6)).to_device("cuda")
    indices = sg.asarray(np.array([5, 99, 0])).to_device("cuda")
    out = sg.zeros((3, 6), "float32", device="cuda")
    plan = sg.plan_gather(data, indices, mode="clip", out=out)
    plan(data, indices, out)
    stream = cupy.cuda.Stream(non_blocking=True)
    sg.synchronize()
    with stream:
        stream.begin_capture()
        plan(data, indices, out)
        graph = stream.end_capture()
    indices[...] = np.array([7, 200, 3])
    sg.synchronize()
    graph.launch(stream)
    stream.synchronize()
    assert same_bits(out.numpy(), data.numpy()[[7, 99, 3]])


def test_captured_crops_replay_on_new_pictures():
    import cupy

    batch = frames((3, 20, 30, 3)).to_device("cuda")
    out = sg.zeros((3, 3, 8, 8), "float32", device="cuda")
    origins, flips = [(0, 0), (-2, 25), (12, 3)], [False, True, True]
    plan = sg.plan_gather_crops(batch, (8, 8), scale=0.5, out=out)
    plan(batch, origins, out, flips)
    stream = cupy.cuda.Stream(non_blocking=True)
    sg.synchronize()
    with stream:
        stream.begin_capture()
        plan(batch, origins, out, flips)
        graph = stream.end_capture()
    plan(batch, [(0, 0)] * 3, out, False)
    here = sg.asarray(255 - frames((3, 20, 30, 3)).numpy())
    batch[...] = here
    sg.synchronize()
    graph.launch(stream)
    stream.synchronize()
    assert same_bits(
        out.numpy(), sg.gather_crops(here, origins, (8, 8), flip=flips, scale=0.5, dtype="float32").numpy()
    )


def test_crops_that_follow_each_other_have_records_of_their_own():
    import cupy

    here = frames((1, 40, 40, 3))
    batch = here.to_device("cuda")
    sg.synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        made = [sg.gather_crops(batch, [(step, 40 - step)], (4, 4)) for step in range(40)]
        stream.synchronize()
    for step, windows in enumerate(made):
        assert same_bits(windows.numpy(), sg.gather_crops(here, [(step, 40 - step)], (4, 4)).numpy())


GATHERS = {
    "gather_short_rows": ("float16", (100, 3), (300,), 0),
    "gather_rows": ("float32", (100, 64), (3,), 0),
    "gather_shifted_rows": ("uint8", (100, 131), (3,), 0),
    "gather_inner": ("float32", (64, 100), (3,), 1),
    "gather_elements": ("float32", (100, 6), (3, 6), 0),
}
"""Type and sizes of the data, sizes of the indices, and the axis, by kernel."""


@pytest.mark.parametrize("kernel", GATHERS)
def test_a_refused_gather_stores_nothing_and_the_next_one_does(kernel):
    dtype, sizes, index_sizes, axis = GATHERS[kernel]
    elements = kernel == "gather_elements"
    gather, plan, taken = (
        (sg.gather_elements, sg.plan_gather_elements, np.take_along_axis) if elements
        else (sg.gather, sg.plan_gather, np.take)
    )  # fmt: skip
    data = sg.asarray(np.random.default_rng(0).integers(0, 200, sizes).astype(dtype)).to_device("cuda")
    right = np.random.default_rng(1).integers(0, 100, index_sizes)
    wrong = right.copy()
    wrong[1] = 100
    expected = taken(data.numpy(), right, axis)
    out = sg.full(expected.shape, 7, dtype, device="cuda")
    indices, others = (sg.asarray(numbers).to_device("cuda") for numbers in (right, wrong))
    assert plan(data, indices, axis, out=out).kernel.startswith(kernel)
    for _ in range(2):
        with pytest.raises(IndexError, match=r"indices\[1.* = 100"):
            gather(data, others, axis, out=out)
        assert (out.numpy() == 7).all()
    gather(data, indices, axis, out=out)
    assert same_bits(out.numpy(), expected)


def test_threads_share_a_plan():
    source = frames((4, 100, 100, 3)).to_device("cuda")
    targets = [sg.empty(source.sizes, "uint8", device="cuda") for _ in range(8)]
    plan = sg.plan_relayout(source, targets[0])
    threads = [
        threading.Thread(target=lambda target=target: [plan(source, target) for _ in range(50)]) for target in targets
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sg.synchronize()
    assert all(same_bits(target.numpy(), source.numpy()) for target in targets)


def test_threads_load_kernels_at_once():
    from stridedgpu.devices.cuda.runtime import kernels

    kernels._loaded.cache_clear()
    source, dtypes = frames((2, 61, 7, 5)), ("float32", "float16", "int16", "int64")
    there, made, ready = source.to_device("cuda"), {}, threading.Barrier(len(dtypes))

    def load(dtype):
        ready.wait()
        made[dtype] = there.relayout(layout="NCHW", dtype=dtype)

    threads = [threading.Thread(target=load, args=(dtype,)) for dtype in dtypes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for dtype in dtypes:
        assert same_bits(made[dtype].numpy(), source.relayout(layout="NCHW", dtype=dtype).numpy())


# Other libraries


def test_cupy_shares_the_memory_both_ways():
    import cupy

    tensor = sg.zeros((2, 3, 4, 5), "float32", layout="NHWC", row_pitch_bytes=64, device="cuda")
    for array in (cupy.asarray(tensor), cupy.from_dlpack(tensor)):
        assert array.data.ptr == tensor.buffer.address
        array[1, 2] = 7
        assert (tensor.numpy()[1, 2] == 7).all()
        back = sg.asarray(array)
        assert (back.buffer.address, back.strides, back.device) == (tensor.buffer.address, tensor.strides, "cuda:0")
        tensor[...] = 0


def test_an_array_is_kept_alive_by_what_views_it():
    import cupy

    array = sg.asarray(cupy.from_dlpack(frames().to_device("cuda"))).permute("NHWC")
    cupy.get_default_memory_pool().free_all_blocks()
    sg.full((100_000,), 255, "uint8", device="cuda")
    assert same_bits(array.numpy(), frames().permute("NHWC").numpy())


def test_pytorch_shares_the_memory_both_ways():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    tensor = sg.zeros((2, 3, 4, 5), "float32", layout="NHWC", row_pitch_bytes=64, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        there = torch.from_dlpack(tensor)
        assert there.data_ptr() == tensor.buffer.address
        there.add_(1)
        doubled = there * 2
    stream.synchronize()
    assert (tensor.numpy() == 1).all()
    back = sg.asarray(doubled)
    assert (back.device, back.buffer.address) == ("cuda:0", doubled.data_ptr())
    assert (back.relayout(layout="NCHW", stream=stream.cuda_stream).numpy() == 2).all()


# Compiling


def test_a_kernel_may_ask_for_more_than_48_kb_of_shared_memory():
    import cupy

    from stridedgpu.devices.cuda.parameters import instantiation
    from stridedgpu.devices.cuda.runtime.kernels import compiled_kernel

    types = ("sg::Conversion<sg::uint8, sg::uint8>", "sg::uint32")
    name = instantiation("copy_flat", types, "FlatPolicy", load_bytes=16, store_bytes=16, steps=1)
    asked = cupy.cuda.runtime.getDeviceProperties(0)["sharedMemPerBlockOptin"]
    function = compiled_kernel(("flat.cu",), name, 0, asked)
    attribute = cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert cupy.cuda.driver.funcGetAttribute(attribute, function.ptr) == asked


def test_another_process_compiles_nothing_again(tmp_path):
    code = PRELUDE + (
        "import numpy as np, stridedgpu as sg\n"
        "from stridedgpu.devices.cuda import cubins\n"
        "cubins.RUNS_ON = {}\n"
        "source = sg.asarray(np.arange(7 * 8 * 9 * 3, dtype=np.uint8).reshape(7, 8, 9, 3), dims='NHWC')\n"
        "made = source.to_device('cuda').relayout(layout='NCHW', dtype='float32', scale=0.5)\n"
        "assert (made.numpy() == source.relayout(layout='NCHW', dtype='float32', scale=0.5).numpy()).all()\n"
    )
    kept = []
    for _ in range(2):
        environment = {**os.environ, "CUPY_CACHE_DIR": str(tmp_path)}
        subprocess.run([sys.executable, "-c", code], check=True, timeout=600, env=environment)
        kept.append({(path.name, path.stat().st_mtime_ns) for path in tmp_path.glob("*.cubin")})
    assert kept[0] == kept[1] != set()


def test_warmup_and_devices_name_this_gpu():
    assert sg.warmup(device="cuda")
    (first, *_) = [device for device in sg.devices() if device.name == "cuda:0"]
    assert first.available
    assert "compute capability" in first.description
