"""The CUDA device without one: what it asks of CuPy, and that the bits are right wherever they are moved.

A stand-in for CuPy takes its place, with memory of this process and kernels run by NumPy.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest
from fake_cupy import CompileException, CUDADriverError, CUDARuntimeError, FakeCuda

import stridedgpu as sg
from stridedgpu import kernel_sources
from stridedgpu.backends import cuda_status as status_module, selection
from stridedgpu.backends.cuda_status import CudaStatus
from stridedgpu.operations import transfer

BACKENDS = Path(selection.__file__).parent


@pytest.fixture
def gpus(monkeypatch):
    """Two devices; the modules that import CuPy are imported anew over the stand-in, and forgotten afterwards."""
    fake = FakeCuda(devices=2)
    planner = types.ModuleType("stridedgpu.planning.cuda")
    planner.cuda_launch = fake.cuda_launch
    over_cupy = [path.stem for path in BACKENDS.glob("cuda*.py") if "\nimport cupy" in path.read_text()]
    names = [f"stridedgpu.backends.{stem}" for stem in over_cupy]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name, module in {**fake.modules(), planner.__name__: planner}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(kernel_sources, "joined_source", lambda *sources: f"joined {' '.join(sources)}")
    monkeypatch.setattr(selection, "_remote", {})
    monkeypatch.setattr(selection, "cuda_status", lambda: CudaStatus(2))
    transfer.zero_bytes.cache_clear()
    yield fake
    transfer.zero_bytes.cache_clear()
    for name in names:
        sys.modules.pop(name, None)


def frames(sizes=(2, 4, 6, 3), dtype=np.uint8):
    values = np.random.default_rng(3).integers(0, 255, sizes)
    return sg.asarray(values.astype(dtype), dims="NHWC")


def same_bits(first, second):
    return first.dtype == second.dtype and first.tobytes() == second.tobytes()


# Devices and what is known of them


def test_devices_lists_name_memory_and_capability(gpus):
    descriptions = {device.name: device.description for device in sg.devices() if device.available}
    assert descriptions["cuda:1"] == "NVIDIA H200, 141 GB, compute capability 9.0"


@pytest.mark.parametrize(
    "name,capability,in_flight,widest",
    [
        (b"NVIDIA A100-SXM4-80GB", (8, 0), 16, 16),
        (b"NVIDIA A10", (8, 6), 16, 16),
        (b"NVIDIA H100 80GB HBM3", (9, 0), 32, 16),
        (b"NVIDIA H200", (9, 0), 48, 16),
        (b"NVIDIA B200", (10, 0), 64, 32),
        (b"NVIDIA GeForce RTX 5090", (12, 0), 16, 32),
    ],
)
def test_properties_follow_the_device(gpus, name, capability, in_flight, widest):
    gpus.properties.update(name=name, major=capability[0], minor=capability[1])
    properties = selection.backend_named("cuda:0").properties
    assert properties.name == name.decode()
    assert properties.compute_capability == 10 * capability[0] + capability[1]
    assert properties.shared_bytes == 227 * 1024
    assert properties.bytes_in_flight == in_flight * 1024
    assert properties.widest_access == widest


def test_a_device_beyond_the_last_is_refused_by_number(gpus):
    with pytest.raises(sg.DeviceError, match=r"'cuda:2' cannot be had: .* end with cuda:1"):
        sg.empty((2,), "uint8", device="cuda:2")


# Memory


@pytest.mark.parametrize("alignment", [16, 32, 256, 512, 4096])
def test_memory_has_the_alignment_asked_for(gpus, alignment):
    gpus.misalignment = 256 if alignment > 256 else 0
    tensor = sg.empty((100,), "uint8", alignment=alignment, device="cuda:1")
    assert tensor.buffer.address % alignment == 0
    assert tensor.buffer.alignment == alignment
    assert tensor.buffer.device == "cuda:1"
    assert tensor.buffer.owned
    asked = 100 if alignment <= 256 else 100 + alignment
    assert gpus.named("alloc") == [("alloc", asked, 1, 0)]


def test_an_allocator_that_keeps_no_alignment_is_named(gpus):
    gpus.misalignment = 8
    with pytest.raises(sg.DeviceError, match="allocator that CuPy was given"):
        sg.empty((4,), "uint8", alignment=16, device="cuda")


def test_no_memory_says_how_much_was_asked_and_is_free(gpus):
    existing = sg.full((5,), 7, "uint8", device="cuda")
    with pytest.raises(sg.DeviceError, match=r"no 2147483648 bytes .*: 536870912 of 1073741824 are free"):
        sg.empty((1 << 31,), "uint8", device="cuda")
    assert existing.numpy().tolist() == [7] * 5


# Launching


def test_a_launch_gets_the_addresses_the_grid_and_the_tables(gpus):
    source = frames().to_device("cuda")
    gpus.launched.clear()
    result = source.relayout(layout="NCHW", dtype="float32", scale=1 / 255)
    (launch,) = gpus.launched
    assert (launch["grid"], launch["block"], launch["shared"]) == ((7, 6, 5), (128, 2, 1), 64 * 1024)
    assert launch["source"] == source.buffer.address
    assert launch["target"] == result.buffer.address
    assert launch["table"] == b"table" * 4
    assert same_bits(result.numpy(), frames().relayout(layout="NCHW", dtype="float32", scale=1 / 255).numpy())


def test_a_plan_is_compiled_and_its_tables_are_uploaded_once(gpus):
    source = frames().to_device("cuda")
    target = sg.empty(source.sizes, "uint8", device="cuda")
    plan = sg.plan_relayout(source, target)
    compiled, uploads = len(gpus.compiled), len(gpus.named("memcpyAsync"))
    for _ in range(3):
        plan(source, target)
        source.relayout(out=target)
    assert (len(gpus.compiled), len(gpus.named("memcpyAsync"))) == (compiled, uploads)


def test_each_device_has_its_own_kernel_and_its_own_current_stream(gpus):
    stream = gpus.Stream()
    for device in ("cuda:0", "cuda:1"):
        source = frames().to_device(device)
        gpus.launched.clear()
        source.relayout(layout="NHWC")
        source.relayout(layout="NHWC", stream=stream)
        number = int(device[-1])
        assert [(launch["device"], launch["stream"]) for launch in gpus.launched] == [(number, 0), (number, stream.ptr)]
    assert gpus.get_device() == 0


def test_shared_memory_beyond_48_kb_is_asked_for_once(gpus):
    frames().to_device("cuda").relayout(layout="NCHW")
    (_, _, kernel) = gpus.compiled[0]
    assert kernel.max_dynamic_shared_size_bytes == 64 * 1024


def test_threads_have_their_own_parameters_and_a_context(gpus):
    source = frames().to_device("cuda")
    targets = [sg.empty(source.sizes, "uint8", device="cuda") for _ in range(8)]
    plan = sg.plan_relayout(source, targets[0])
    gate = threading.Barrier(len(targets))
    gpus.launched.clear()

    def work(target):
        gate.wait()
        for _ in range(20):
            plan(source, target)
        gate.wait()  # a thread that ends gives its block back

    threads = [threading.Thread(target=work, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(gpus.launched) == 160
    blocks = {(launch["target"], launch["parameters"]) for launch in gpus.launched}
    assert len(blocks) == len({target for target, _ in blocks}) == len({block for _, block in blocks}) == 8
    assert all(same_bits(target.numpy(), source.numpy()) for target in targets)


def test_a_tensor_without_elements_launches_nothing(gpus):
    empty = sg.empty((0, 3), "uint8", device="cuda")
    assert empty.relayout(dtype="float32").numpy().shape == (0, 3)
    assert gpus.launched == []


# Streams


class Protocol:
    def __cuda_stream__(self):
        return 0, 77


@pytest.mark.parametrize("stream,handle", [(None, 0), (5, 5), (Protocol(), 77)], ids=["none", "integer", "protocol"])
def test_streams_are_taken_in_every_form(gpus, stream, handle):
    source = frames().to_device("cuda")
    gpus.calls.clear()
    source.relayout(layout="NHWC", stream=stream)
    assert gpus.launched[-1]["stream"] == handle
    assert gpus.named("alloc")[0][3] == handle


def test_the_current_stream_is_the_default(gpus):
    source = frames().to_device("cuda")
    gpus.calls.clear()
    with gpus.Stream() as stream:
        source.relayout(layout="NHWC")
    assert gpus.launched[-1]["stream"] == stream.ptr
    assert gpus.named("alloc")[0][3] == stream.ptr


@pytest.mark.parametrize("stream", ["fast", -1, True, object()])
def test_what_is_no_stream_is_refused(gpus, stream):
    source = frames().to_device("cuda")
    with pytest.raises(sg.DeviceError, match="__cuda_stream__"):
        source.relayout(layout="NCHW", stream=stream)


def test_a_copy_to_the_host_cannot_be_captured_and_a_launch_can(gpus):
    source = frames().to_device("cuda")
    target = sg.empty(source.sizes, "uint8", device="cuda")
    plan = sg.plan_relayout(source, target)
    gpus.capturing.add(9)
    plan(source, target, stream=9)
    with pytest.raises(sg.DeviceError, match="cannot be captured into a CUDA graph"):
        source.relayout(device="cpu", stream=9)


def test_synchronize_waits_for_the_devices_that_were_used(gpus):
    sg.empty((2,), "uint8", device="cuda:1")
    sg.synchronize()
    assert gpus.named("deviceSynchronize") == [("deviceSynchronize", 1)]
    sg.synchronize("cuda:0")
    assert gpus.named("deviceSynchronize")[1:] == [("deviceSynchronize", 0)]


# Failures in words


@pytest.mark.parametrize(
    "error,message,note",
    [
        (
            CompileException('k.cu(3): error: no operator "+"\n1 error'),
            'refused the kernel .* error: no operator "+"',
            "1",
        ),
        (
            RuntimeError("Failed to find CUDA headers. Please install"),
            r"no usable CUDA headers .*pip install",
            "Please",
        ),
        (RuntimeError('Failure finding "libnvrtc.so.13"'), r"no usable CUDA compiler \(NVRTC\).*pip install", "nvrtc"),
        (ImportError("libnvrtc.so.12: cannot open"), r"no usable CUDA compiler \(NVRTC\).*pip install", "cannot open"),
    ],
    ids=["refused", "headers", "loader", "import"],
)
def test_a_kernel_that_cannot_be_compiled_says_what_to_install(gpus, error, message, note):
    source = frames().to_device("cuda")
    gpus.compile_error = error
    with pytest.raises(sg.DeviceError, match=re.sub(r"\+", r"\\+", message)) as caught:
        source.relayout(layout="NCHW")
    assert note in caught.value.__notes__[0]
    gpus.compile_error = None
    assert same_bits(source.relayout(layout="NCHW").numpy(), frames().numpy())


@pytest.mark.parametrize("error", [CUDADriverError("CUDA_ERROR_INVALID_VALUE"), CUDARuntimeError("cudaErrorUnknown")])
def test_a_launch_that_fails_is_a_device_error(gpus, error):
    source = frames().to_device("cuda")
    gpus.launch_error = error
    with pytest.raises(sg.DeviceError, match=r"cuda:0 did not launch the kernel sg::.*: (CUDA_ERROR|cudaError)"):
        source.relayout(layout="NCHW")


def test_a_missing_compiler_is_found_before_anything_is_allocated(monkeypatch):
    fake = FakeCuda(devices=1)
    modules = fake.modules()

    def missing():
        raise RuntimeError('Failure finding "libnvrtc.so"\nlooked everywhere')

    modules["cupy.cuda"].nvrtc.getVersion = missing
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(status_module, "find_spec", lambda name: name)
    monkeypatch.setattr(status_module, "_driver_is_there", lambda: True)
    found = status_module.cuda_status.__wrapped__()
    assert found.device_count == 0
    assert re.search(r"no CUDA compiler, NVRTC \(Failure finding \"libnvrtc.so\"\): pip install", found.reason)


# Between devices


def padded(sizes, order, pitch, dtype="uint8"):
    tensor = sg.zeros(sizes, dtype, layout=order, row_pitch_bytes=pitch, device="cpu")
    tensor[...] = np.random.default_rng(5).integers(0, 100, sizes)
    return tensor


SOURCES = {
    "packed": frames,
    "permuted": lambda: frames().permute((2, 0, 3, 1)),
    "padded rows": lambda: padded((2, 3, 40, 50), "NHWC", 160),
    "short rows": lambda: padded((2, 3, 4, 5), "NCHW", 8),
    "every other": lambda: frames((2, 40, 60, 3))[:, :, ::2, 1::3],
    "flipped": lambda: frames()[:, ::-1, :, ::-1],
    "flipped and padded": lambda: padded((2, 3, 40, 50), "NCHW", 160)[:, :, ::-1],
    "broadcast": lambda: frames((1, 4, 6, 1)).broadcast_to((5, 3, 4, 6)),
    "windows": lambda: sg.asarray(np.arange(40, dtype=np.uint8)).as_strided((1, 3, 33, 5), (0, 1, 1, 1)),
    "scalar": lambda: sg.asarray(np.uint8(9)),
    "no elements": lambda: sg.empty((0, 3, 4, 5), "uint8", device="cpu"),
    "many planes": lambda: frames((70, 20, 80, 3))[:, 1:, 4:-4, 2:-2],
    "float": lambda: frames(dtype=np.float32),
}


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
    monkeypatch.setattr(transfer, "_PIECE_BYTES", 1000)
    source = frames((5, 30, 40, 3))[:, :, ::2, ::3]
    result = source.relayout(layout="NHWC", dtype="float32", scale=[0.5, 1, 2], device="cuda")
    assert same_bits(result.numpy(), source.relayout(dtype="float32", scale=[0.5, 1, 2]).numpy())
    carriers = [call[1] for call in [*gpus.named("alloc"), *gpus.named("alloc_pinned_memory")]]
    assert max(carriers) == result.buffer.nbytes
    assert all(nbytes <= 1000 for nbytes in carriers if nbytes != result.buffer.nbytes)
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
        ("memcpy2DAsync", 192, 160, 150, 80, 1, 0),
        ("memcpy2DAsync", 256, 192, 150, 80, 2, 0),
    ]
    assert gpus.launched == []
    assert gpus.named("memcpyAsync") == []
    assert same_bits(downloaded.numpy(), source.numpy())


def test_copies_with_the_host_are_done_when_they_return(gpus):
    tensor = frames().to_device("cuda")
    assert [call[0] for call in gpus.calls][-2:] == ["memcpyAsync", "streamSynchronize"]
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


# Exchange with other libraries


def test_the_array_interface_says_strides_and_stream(gpus):
    tensor = sg.zeros((2, 3, 4, 5), "float32", layout="NHWC", row_pitch_bytes=64, device="cuda:1")[:, 1:]
    found = tensor.__cuda_array_interface__
    assert found == {
        "version": 3,
        "shape": (2, 2, 4, 5),
        "typestr": "<f4",
        "data": (tensor.buffer.address + 4, False),
        "strides": tuple(4 * step for step in tensor.strides),
        "stream": 1,
    }
    assert sg.empty((0, 2), "uint8", device="cuda").__cuda_array_interface__["data"] == (0, False)


@pytest.mark.parametrize("make", [frames, lambda: frames().to_device("cuda")[..., ::-1]])
def test_the_array_interface_is_absent_where_it_cannot_be_said(gpus, make):
    assert not hasattr(make(), "__cuda_array_interface__")


def test_a_foreign_device_array_is_wrapped_in_the_order_of_its_stream(gpus):
    held = sg.zeros((4, 6), "int16", device="cuda:1")
    gpus.pointer_devices[held.buffer.address + 2] = 1
    foreign = types.SimpleNamespace(
        __cuda_array_interface__={
            "version": 3,
            "shape": (3, 2),
            "typestr": "<i2",
            "data": (held.buffer.address + 2, True),
            "strides": (12, 4),
            "stream": 42,
        }
    )
    gpus.calls.clear()
    tensor = sg.asarray(foreign)
    assert (tensor.device, tensor.sizes, tensor.strides) == ("cuda:1", (3, 2), (6, 2))
    assert tensor.buffer.address == held.buffer.address + 2
    assert tensor.buffer.readonly
    assert tensor.buffer.owner is foreign
    assert [call[0] for call in gpus.calls] == ["eventRecord", "streamWaitEvent"]
    with pytest.raises(sg.BindingError, match="read-only"):
        tensor[...] = 1


def test_dlpack_goes_through_cupy_on_the_tensors_device(gpus):
    tensor = sg.zeros((2, 3), "float32", row_pitch_bytes=32, device="cuda:1")
    assert tensor.__dlpack_device__() == (2, 1)
    array, request, device = tensor.__dlpack__(stream=5, max_version=(1, 0))
    assert device == 1
    assert request == {"stream": 5, "max_version": (1, 0), "dl_device": None, "copy": None}
    assert (array.shape, array.strides, array.memory.ptr) == ((2, 3), (32, 4), tensor.buffer.address)
    assert array.memory.memory.owner is tensor.buffer


def test_dlpack_on_the_cpu_shares_the_memory():
    tensor = frames()[:, :, 1:]
    array = np.from_dlpack(tensor)
    assert array.ctypes.data == tensor.numpy().ctypes.data
    assert array.strides == tensor.numpy().strides
    with pytest.raises(BufferError, match=r"export \.relayout\(\) instead"):
        np.from_dlpack(tensor[..., ::-1])
    with pytest.raises(BufferError, match=r"reinterpret\(dtype='uint16'\)"):
        sg.zeros((3,), "bfloat16", device="cpu").__dlpack__()


# Warming up, and plans for a GPU that is not there


def test_warmup_compiles_the_common_kernels_once(gpus):
    names = sg.warmup(device="cuda")
    compiled = len(gpus.compiled)
    assert compiled >= len(names) > 4
    assert gpus.launched == []
    assert sg.warmup(device="cuda") == names
    assert len(gpus.compiled) == compiled


def test_warmup_of_one_pair_and_its_refusals():
    source, target = frames(), sg.empty((2, 3, 4, 6), "float16", device="cpu")
    assert sg.warmup(source, target, scale=2.0) == (sg.plan_relayout(source, target, scale=2.0).kernel,)
    assert "channels_uint8x16B_float16x16B" in sg.warmup(device="cpu")
    with pytest.raises(sg.LayoutError, match="dst is missing"):
        sg.warmup(source)
    with pytest.raises(sg.LayoutError, match="give src and dst"):
        sg.warmup(scale=2.0)


def test_a_plan_for_a_missing_gpu_can_be_read_and_not_run(monkeypatch):
    monkeypatch.setattr(selection, "cuda_status", lambda: CudaStatus(0, "there is none"))
    source, target = frames(), sg.empty((2, 3, 4, 6), "uint8", device="cpu")
    plan = sg.plan_relayout(source, target, device="cuda")
    assert plan.kernel == sg.plan_relayout(source, target).kernel
    assert re.search(r"reference GPU, NVIDIA H200 .*there is none", plan.explain())
    for call in (lambda: plan(source, target), lambda: sg.warmup(source, target, device="cuda")):
        with pytest.raises(sg.DeviceError, match=r"not run.*there is none"):
            call()


# What CuPy is, and when it is imported


def test_cupy_is_imported_only_for_a_cuda_device():
    code = (
        "import sys; sys.modules['cupy'] = None\n"
        "import numpy as np, stridedgpu as sg\n"
        "t = sg.asarray(np.ones((2, 3, 4, 5), np.uint8)).relayout(layout='NHWC', device='cpu'); t[...] = 3\n"
        "np.from_dlpack(t); sg.synchronize(); sg.warmup(t, t.copy()); sg.empty((2,), 'uint8', device='cpu')\n"
        "assert not [name for name in sys.modules if name.startswith('stridedgpu.backends.cuda_')\n"
        "            and not name.endswith('status')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=BACKENDS.parents[1])


def test_everything_that_is_used_of_cupy_exists():
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("CuPy is not installed")
    code = (BACKENDS.parents[1] / "tests" / "cupy_names.py").read_text()
    subprocess.run([sys.executable, "-c", code, str(BACKENDS)], check=True, timeout=120)
