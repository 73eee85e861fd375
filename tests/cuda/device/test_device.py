"""The CUDA device without one: what it asks of CuPy, and that the bits are right wherever they are moved.

A stand-in for CuPy takes its place, with memory of this process and kernels run by NumPy.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.fake_cupy import CompileException, CUDADriverError, CUDARuntimeError, FakeCuda
from harness.fake_gpus import RUNTIME
from harness.sample_tensors import frames, same_bits

import stridedgpu as sg
from stridedgpu.devices import selection
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cuda import status as status_module
from stridedgpu.devices.cuda.status import CudaStatus

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
    properties = selection.device_named("cuda:0").properties
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


def test_threads_that_defer_errors_at_once_share_one_report(gpus, monkeypatch):
    device = selection.device_named("cuda:0")
    together = threading.Barrier(4)
    allocate = device.allocate

    def slowly(*arguments):
        time.sleep(0.05)
        return allocate(*arguments)

    def ask(_):
        together.wait()
        return device.index_errors

    monkeypatch.setattr(device, "allocate", slowly)
    with ThreadPoolExecutor(4) as threads:
        assert len({id(errors) for errors in threads.map(ask, range(4))}) == 1


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
            CompileException(
                "ptxas error   : Formal parameter space overflowed (4208 bytes required, max 4096 allowed)"
            ),
            "has more than 4096 bytes of parameters.* NVRTC 12.1 is the first that allows them",
            None,
        ),
        (
            RuntimeError("Failed to find CUDA headers. Please install"),
            r"finds no CUDA headers.*pip install",
            "Please",
        ),
        (RuntimeError('Failure finding "libnvrtc.so.13"'), r"finds no CUDA compiler \(NVRTC\).*pip install", "nvrtc"),
        (ImportError("libnvrtc.so.12: cannot open"), r"finds no CUDA compiler \(NVRTC\).*pip install", "cannot open"),
    ],
    ids=["refused", "parameters", "headers", "loader", "import"],
)
def test_a_kernel_that_cannot_be_compiled_says_what_to_install(gpus, error, message, note):
    source = frames().to_device("cuda")
    gpus.compile_error = error
    with pytest.raises(sg.DeviceError, match=re.sub(r"\+", r"\\+", message)) as caught:
        source.relayout(layout="NCHW")
    assert note is None or note in caught.value.__notes__[0]
    gpus.compile_error = None
    assert same_bits(source.relayout(layout="NCHW").numpy(), frames().numpy())


@pytest.mark.parametrize(
    "capability, version, needed",
    [((12, 0), (12, 4), "12.0 needs NVRTC 12.8"), ((10, 3), (12, 8), "10.3 needs NVRTC 12.9"), ((9, 0), (12, 4), None)],
    ids=str,
)
def test_a_kernel_that_is_not_loaded_says_when_the_compiler_is_too_old(gpus, monkeypatch, capability, version, needed):
    source = frames().to_device("cuda")
    gpus.properties |= {"major": capability[0], "minor": capability[1]}
    monkeypatch.setattr(sys.modules["cupy"].cuda.nvrtc, "getVersion", lambda: version)
    gpus.compile_error = CUDADriverError("CUDA_ERROR_NO_BINARY_FOR_GPU")
    with pytest.raises(sg.DeviceError, match=r"could not load the kernel .*NO_BINARY_FOR_GPU") as caught:
        source.relayout(layout="NCHW")
    said = f"A GPU of compute capability {needed} or newer, and this is {version[0]}.{version[1]}: pip install"
    assert (said in str(caught.value)) == (needed is not None)
    assert ("NVRTC" in str(caught.value)) == (needed is not None)


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
    assert any(name.startswith("channels_uint8x") for name in sg.warmup(device="cpu")) or policy().why_numpy
    with pytest.raises(sg.LayoutError, match="dst is missing"):
        sg.warmup(source)
    with pytest.raises(sg.LayoutError, match="src is missing"):
        sg.warmup(None, target)
    with pytest.raises(sg.LayoutError, match="give src and dst"):
        sg.warmup(scale=2.0)


def test_a_plan_for_a_missing_gpu_can_be_read_and_not_run(monkeypatch):
    monkeypatch.setattr(selection, "cuda_status", lambda: CudaStatus(0, "there is none"))
    source, target = frames(), sg.empty((2, 3, 4, 6), "uint8", device="cpu")
    plan = sg.plan_relayout(source, target, device="cuda")
    assert plan.kernel == "channels_uint8x8B_uint8x8B"
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
        "assert not [name for name in sys.modules if name.startswith('stridedgpu.devices.cuda_')\n"
        "            and not name.endswith('status')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600, cwd=RUNTIME.parents[3])


def test_everything_that_is_used_of_cupy_exists():
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("CuPy is not installed")
    code = (RUNTIME.parents[3] / "tests" / "harness" / "cupy_names.py").read_text(encoding="utf-8")
    subprocess.run([sys.executable, "-c", code, str(RUNTIME)], check=True, timeout=600)
