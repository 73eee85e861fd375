"""Choosing a device: by name, by environment variable, by what there is, and in plain words why there is none."""

from __future__ import annotations

import ctypes
import re
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from harness.native_loops import needs_library

import stridedgpu as sg
from stridedgpu import BufferTensorDesc, DeviceError
from stridedgpu.devices import selection
from stridedgpu.devices.cpu.policy import policy, using
from stridedgpu.devices.cuda import status as cuda_status_module
from stridedgpu.devices.cuda.status import CudaStatus, cuda_status

INSTALL = 'pip install "stridedgpu[cuda12]" or "stridedgpu[cuda13]"'


@pytest.fixture
def without_cuda(monkeypatch):
    """A machine without CuPy, whatever this one has."""
    monkeypatch.delenv("STRIDEDGPU_DEVICE", raising=False)
    monkeypatch.setattr(selection, "cuda_status", lambda: CudaStatus(0, f"CuPy is not installed: {INSTALL}"))
    monkeypatch.setattr(selection, "_remote", {})


def test_new_tensors_are_on_the_cpu_where_there_is_no_other(without_cuda):
    assert sg.empty((2,), "uint8").device == "cpu"
    assert sg.zeros((2,), "uint8").device == "cpu"
    assert selection.default_device() == "cpu"


def test_new_tensors_are_on_the_first_cuda_device_that_works(without_cuda, monkeypatch):
    monkeypatch.setattr(selection, "cuda_status", lambda: CudaStatus(2))
    assert selection.default_device() == "cuda:0"
    assert sg.empty((2,), "uint8", device="cpu").device == "cpu"
    monkeypatch.setenv("STRIDEDGPU_DEVICE", "cpu")
    assert selection.default_device() == "cpu"
    assert sg.empty((2,), "uint8").device == "cpu"


def test_tensors_over_memory_of_the_host_stay_there(monkeypatch):
    monkeypatch.setenv("STRIDEDGPU_DEVICE", "cuda:7")
    tensor = sg.asarray(np.arange(3))
    assert tensor.device == "cpu"
    assert tensor.relayout(dtype="float32").device == "cpu"


@pytest.mark.parametrize(
    "value, fragments",
    [
        pytest.param("gpu", ["STRIDEDGPU_DEVICE='gpu'", "device='gpu' is unknown", "'cuda:N'"], id="unknown"),
        pytest.param("cuda", ["STRIDEDGPU_DEVICE='cuda'", "cannot be had", INSTALL], id="cuda"),
        pytest.param("cuda:1", ["STRIDEDGPU_DEVICE='cuda:1'", "cannot be had", INSTALL], id="cuda:1"),
    ],
)
def test_the_environment_variable_is_named_when_it_is_wrong(without_cuda, monkeypatch, value, fragments):
    monkeypatch.setenv("STRIDEDGPU_DEVICE", value)
    with pytest.raises(DeviceError) as caught:
        sg.empty((2,), "uint8")
    assert all(fragment in str(caught.value) for fragment in fragments)
    assert sg.empty((2,), "uint8", device="cpu").device == "cpu", "a named device goes before the variable"


def test_an_empty_environment_variable_says_nothing(without_cuda, monkeypatch):
    monkeypatch.setenv("STRIDEDGPU_DEVICE", "")
    assert sg.empty((2,), "uint8").device == "cpu"


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda t: sg.empty((2,), "uint8", device="cuda"), id="empty"),
        pytest.param(lambda t: sg.full((2,), 1, "uint8", device="cuda:0"), id="full"),
        pytest.param(lambda t: sg.asarray(t, device="cuda"), id="asarray"),
        pytest.param(lambda t: t.to_device("cuda:3"), id="to_device"),
        pytest.param(lambda t: t.relayout(device="cuda", dtype="float16"), id="relayout"),
        pytest.param(lambda t: sg.synchronize("cuda"), id="synchronize"),
    ],
)
def test_cuda_where_there_is_none_says_how_to_get_it(without_cuda, ask):
    tensor = sg.zeros((2,), "uint8", device="cpu")
    with pytest.raises(DeviceError, match=r"cannot be had: CuPy is not installed: pip install") as caught:
        ask(tensor)
    assert "device='cuda" in str(caught.value)


def test_a_plan_for_cuda_can_be_read_where_there_is_none(without_cuda):
    desc = BufferTensorDesc("uint8", (1, 3, 8, 16))
    plan = sg.plan_relayout(desc, desc, device="cuda")
    assert "reference GPU" in plan.explain()
    assert INSTALL in plan.explain()
    tensor = sg.zeros((1, 3, 8, 16), "uint8")
    with pytest.raises(DeviceError, match="CuPy is not installed"):
        plan(tensor, sg.zeros((1, 3, 8, 16), "uint8"))


@pytest.mark.parametrize("native", [pytest.param(True, marks=needs_library), False], ids=["native", "NumPy"])
def test_devices_lists_what_can_be_used_and_why_the_rest_cannot(without_cuda, native):
    with using(policy()._replace(native=native)):
        cpu, cuda = sg.devices()
        reason = policy().why_numpy
    loops = f"native loops of {policy().native_level}" if native else f"NumPy {np.__version__}"
    assert (cpu.name, cpu.available, cpu.reason) == ("cpu", True, reason)
    assert (reason is None) == native
    assert re.fullmatch(rf"\d+ cores?, .+, {re.escape(loops)}", cpu.description)
    assert (cuda.name, cuda.available) == ("cuda", False)
    assert INSTALL in cuda.reason


def test_synchronize_without_a_name_waits_for_what_is_in_use(without_cuda):
    sg.synchronize()
    sg.synchronize("cpu")


# Why there is no CUDA


class FakeRuntimeError(RuntimeError):
    """Stands in for cupy.cuda.runtime.CUDARuntimeError."""


def fake_cupy(count, *, compiler=True):
    """A CuPy that finds `count` devices, or fails with `count` where that is an error."""

    def devices():
        if isinstance(count, Exception):
            raise count
        return count

    def version():
        if not compiler:
            raise RuntimeError("libnvrtc.so.12: cannot open shared object file")
        return (12, 8)

    cupy = ModuleType("cupy")
    runtime = SimpleNamespace(getDeviceCount=devices, CUDARuntimeError=FakeRuntimeError)
    cupy.cuda = SimpleNamespace(runtime=runtime, nvrtc=SimpleNamespace(getVersion=version))
    return cupy


MACHINES = {
    "nothing": (None, False, 0, ["CuPy is not installed", "no NVIDIA driver", INSTALL]),
    "a driver, no CuPy": (None, True, 0, ["CuPy is not installed: ", INSTALL]),
    "CuPy, no driver": (fake_cupy(1), False, 0, ["no NVIDIA driver was found", "install the driver"]),
    "a driver without devices": (fake_cupy(0), True, 0, ["offers no device", "CUDA_VISIBLE_DEVICES"]),
    "a driver that fails": (
        fake_cupy(FakeRuntimeError("cudaErrorInsufficientDriver")),
        True,
        0,
        ["InsufficientDriver"],
    ),
    "a broken CuPy": ("broken", True, 0, ["cannot be imported", "libcudart.so.12", INSTALL]),
    "no compiler": (fake_cupy(1, compiler=False), True, 0, ["NVRTC", "libnvrtc.so.12", INSTALL]),
    "two devices": (fake_cupy(2), True, 2, []),
}


@pytest.mark.parametrize("cupy, driver, count, fragments", MACHINES.values(), ids=MACHINES.keys())
def test_the_reason_that_there_is_no_cuda(monkeypatch, tmp_path, cupy, driver, count, fragments):
    monkeypatch.setattr(cuda_status_module, "find_spec", lambda name: None if cupy is None else object())
    monkeypatch.setattr(cuda_status_module, "_driver_is_there", lambda: driver)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    if cupy == "broken":
        (tmp_path / "cupy.py").write_text("raise ImportError('libcudart.so.12 is missing')", encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
    elif cupy is not None:
        monkeypatch.setitem(sys.modules, "cupy", cupy)
    status = cuda_status.__wrapped__()
    assert status.device_count == count
    assert (status.reason is None) == (count > 0)
    assert all(fragment in status.reason for fragment in fragments)


def test_cupy_is_not_imported_where_there_is_no_driver(monkeypatch):
    monkeypatch.setattr(cuda_status_module, "find_spec", lambda name: object())
    monkeypatch.setattr(cuda_status_module, "_driver_is_there", lambda: False)
    monkeypatch.setitem(sys.modules, "cupy", None)  # importing it would raise
    assert "no NVIDIA driver" in cuda_status.__wrapped__().reason


@pytest.mark.parametrize("there", [True, False])
def test_a_driver_is_there_when_its_library_loads(monkeypatch, there):
    def load(name):
        if not there:
            raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert cuda_status_module._driver_is_there() is there


def test_a_process_forked_from_one_that_used_cuda_says_so(monkeypatch):
    """CUDA works in the process that initialised it; what a child inherits of it only fails in other words."""
    processes = cuda_status_module._Processes(initialised_in=4321)
    monkeypatch.setattr(cuda_status_module, "_processes", processes)
    monkeypatch.setattr(selection, "_remote", {"cuda:0": object()})
    monkeypatch.setattr(selection, "_of_other_process", [])
    processes.after_fork()
    selection._forget_devices()
    try:
        with pytest.raises(DeviceError, match=r"initialised in the process 4321 before this one was forked.*spawn"):
            sg.empty((2,), "uint8", device="cuda:0")
        monkeypatch.delenv("STRIDEDGPU_DEVICE", raising=False)
        assert sg.empty((2,), "uint8").device == "cpu"
    finally:
        cuda_status.cache_clear()


# "auto", and the variable that overrides a program


ENTRIES = {
    "empty": lambda t, device: sg.empty((2,), "uint8", device=device),
    "asarray": lambda t, device: sg.asarray(np.zeros(3), device=device),
    "to_device": lambda t, device: t.to_device(device),
    "relayout": lambda t, device: sg.relayout(t, dtype="float16", device=device),
    "resize": lambda t, device: sg.resize(np.zeros((4, 4, 3), np.uint8), (2, 2), dims="HWC", device=device),
    "a frame": lambda t, device: sg.relayout(sg.Frame.over("gray", bytes(4), (2, 2)), device=device),
}


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES.keys())
def test_auto_is_the_device_that_works(without_cuda, entry):
    assert entry(sg.zeros((2,), "uint8", device="cpu"), "auto").device == "cpu"


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES.keys())
def test_a_forced_device_takes_the_place_of_a_named_one(without_cuda, monkeypatch, entry):
    tensor = sg.zeros((2,), "uint8", device="cpu")
    monkeypatch.setenv("STRIDEDGPU_DEVICE", "force:cpu")
    assert entry(tensor, "cuda:1").device == "cpu"
    with pytest.raises(DeviceError, match="device='gpu' is unknown"):
        entry(tensor, "gpu")


def test_auto_is_the_first_gpu_where_there_is_one(gpus, monkeypatch):
    monkeypatch.delenv("STRIDEDGPU_DEVICE", raising=False)
    assert sg.empty((2,), "uint8", device="auto").device == "cuda:0"
    monkeypatch.setenv("STRIDEDGPU_DEVICE", "force:cuda:1")
    assert sg.empty((2,), "uint8", device="cpu").device == "cuda:1"
    assert sg.asarray(np.zeros(2)).device == "cpu", "memory that exists stays where it is"


def test_a_plan_for_a_gpu_stays_one_where_the_device_is_forced(without_cuda, monkeypatch):
    monkeypatch.setenv("STRIDEDGPU_DEVICE", "force:cpu")
    desc = BufferTensorDesc("uint8", (1, 3, 8, 16))
    assert sg.plan_relayout(desc, desc, device="cuda").device == "cuda:0"


@pytest.mark.parametrize("value", ["force:", "force:auto", "force:gpu", "auto"])
def test_a_forced_device_is_a_device(without_cuda, monkeypatch, value):
    monkeypatch.setenv("STRIDEDGPU_DEVICE", value)
    with pytest.raises(DeviceError, match=f"STRIDEDGPU_DEVICE='{value}'"):
        sg.empty((2,), "uint8")


def test_an_address_is_on_a_device_with_a_name():
    with pytest.raises(DeviceError, match="cannot say where an address is"):
        sg.from_pointer(4096, (2,), "uint8", owner=None, device="auto")


@pytest.mark.parametrize(
    "status, lines",
    [
        pytest.param(CudaStatus(0, f"CuPy is not installed: {INSTALL}", has_gpu=True), 1, id="a GPU, no CuPy"),
        pytest.param(CudaStatus(0, "no NVIDIA driver was found"), 0, id="no GPU"),
    ],
)
def test_one_line_says_that_the_cpu_is_taken_though_a_gpu_is_there(without_cuda, monkeypatch, caplog, status, lines):
    selection._log_unused_gpu.cache_clear()
    monkeypatch.setattr(selection, "cuda_status", lambda: status)
    for _ in range(3):
        assert sg.empty((2,), "uint8").device == "cpu"
        assert sg.empty((2,), "uint8", device="auto").device == "cpu"
    said = [record.getMessage() for record in caplog.records if record.name == "stridedgpu"]
    assert len(said) == lines
    assert all("This machine has a GPU" in line and INSTALL in line for line in said)
    monkeypatch.setenv("STRIDEDGPU_DEVICE", "cpu")
    selection._log_unused_gpu.cache_clear()
    caplog.clear()
    sg.empty((2,), "uint8")
    assert not caplog.records, "the CPU was chosen"


@pytest.mark.parametrize(
    "names, there",
    [
        pytest.param(["null", "nvidia0", "nvidiactl"], True, id="a card"),
        pytest.param(["null", "nvidiactl"], False, id="a driver alone"),
        pytest.param(["dxg"], True, id="WSL"),
        pytest.param(["nvhost-gpu"], True, id="Jetson"),
        pytest.param([], False, id="nothing"),
    ],
)
def test_a_gpu_is_there_when_its_device_file_is(monkeypatch, names, there):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(cuda_status_module, "_device_names", lambda: names)
    assert cuda_status_module._gpu_is_there() is there


def test_a_device_of_pytorch_is_told_its_name():
    torch_device = type("device", (), {"__module__": "torch", "__str__": lambda self: "cuda:1"})()
    with pytest.raises(DeviceError, match=r"is unknown; .* Give its name, 'cuda:1'\.$"):
        sg.zeros((2,), "uint8", device=torch_device)
