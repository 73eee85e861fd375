"""Launches over a stand-in for CuPy: addresses, parameters, tables, threads and streams."""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
import threading
import types
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from harness.fake_cupy import CUDARuntimeError
from harness.sample_tensors import frames, same_bits

import stridedgpu as sg
from stridedgpu.devices import selection
from stridedgpu.devices.cuda.cubins import Cubin
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU, KernelLaunch
from stridedgpu.devices.cuda.policy import MemoryPolicy, policy, using
from stridedgpu.devices.cuda.relayout.families import relayout_launch as planner_cuda_launch


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


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_the_planners_parameters_reach_the_kernel_but_for_the_addresses(gpus, order):
    source = sg.zeros((2, 40, 5, 6), "uint8", device="cpu")
    target = sg.zeros((2, 40, 5, 6), "float32", layout=order, row_pitch_bytes=1024, device="cpu")
    plan = sg.plan_relayout(source, target, scale=[channel / 40 for channel in range(40)], device="cuda").plan
    launch = planner_cuda_launch(plan, REFERENCE_GPU)
    device = selection.device_named("cuda:0")
    tables = tuple(device.allocate(len(contents), 16) for _, contents in launch.tables)
    prepared_kernel = importlib.import_module("stridedgpu.devices.cuda.runtime.kernels").PreparedKernel
    prepared = prepared_kernel(launch, types.SimpleNamespace(ptr=5), 0, tables)
    held = []
    prepared._launch = lambda handle, arguments, extra: held.append((handle, parameters_at(arguments, launch), extra))
    prepared(source.buffer, 8, target.buffer, 16, 3)
    ((handle, parameters, extra),) = held
    expected = bytearray(launch.parameters)
    places = [(0, source.buffer.address + 8), (8, target.buffer.address + 16)]
    for position, address in [*places, *zip((at for at, _ in launch.tables), (t.address for t in tables), strict=True)]:
        expected[position : position + 8] = address.to_bytes(8, "little")
    assert (handle, parameters, extra) == (3, bytes(expected), 0)
    assert launch.parameters[:16] == bytes(16)
    assert tables, "forty channels do not fit into the parameters"


def parameters_at(arguments, launch):
    block = ctypes.c_void_p.from_address(arguments).value
    return ctypes.string_at(block, len(launch.parameters))


def test_a_plan_is_compiled_and_its_tables_are_uploaded_once(gpus):
    source = frames().to_device("cuda")
    target = sg.empty(source.sizes, "uint8", device="cuda")
    plan = sg.plan_relayout(source, target)
    compiled, uploads = len(gpus.compiled), len(gpus.named("memcpyAsync"))
    for _ in range(3):
        plan(source, target)
        source.relayout(out=target)
    assert (len(gpus.compiled), len(gpus.named("memcpyAsync"))) == (compiled, uploads)


def test_tables_are_uploaded_on_the_stream_that_their_memory_is_for(gpus):
    source, target = frames().to_device("cuda"), sg.empty((2, 3, 4, 6), "uint8", device="cuda")
    gpus.calls.clear()
    with gpus.Stream() as stream:
        sg.plan_relayout(source, target)(source, target)
    table = 20
    assert gpus.named("alloc") == [("alloc", table, 0, stream.ptr)]
    assert gpus.named("memcpyAsync") == [("memcpyAsync", table, 1, stream.ptr, 0)], "what was freed there may be in use"
    assert gpus.named("streamSynchronize") == [("streamSynchronize", stream.ptr)]


def test_each_device_has_its_own_kernel_and_its_own_current_stream(gpus):
    for number, device in enumerate(("cuda:0", "cuda:1")):
        with gpus.Device(number):
            stream = gpus.Stream()
        source = frames().to_device(device)
        gpus.launched.clear()
        source.relayout(layout="NHWC")
        source.relayout(layout="NHWC", stream=stream)
        assert [(launch["device"], launch["stream"]) for launch in gpus.launched] == [(number, 0), (number, stream.ptr)]
        with pytest.raises(sg.DeviceError, match="InvalidResourceHandle"):
            frames().to_device(f"cuda:{1 - number}").relayout(layout="NHWC", stream=stream)
    assert gpus.get_device() == 0


def test_shared_memory_beyond_48_kb_is_asked_for_once(gpus):
    frames().to_device("cuda").relayout(layout="NCHW")
    assert [*gpus.shared_bytes.values()] == [64 * 1024]


@pytest.mark.parametrize(
    "capability,code,is_loaded", [(90, b"machine code", True), (90, b"refused", False), (80, b"machine code", False)]
)
def test_machine_code_of_the_wheel_is_loaded_and_what_the_driver_refuses_is_compiled(gpus, capability, code, is_loaded):
    name = "sg::kernel<0>"  # the stand-in finds its plan by the symbol
    gpus.cubins[name, capability] = Cubin(name, code)
    made = frames().to_device("cuda").relayout(layout="NCHW")
    assert same_bits(made.numpy(), frames().relayout(layout="NCHW").numpy())
    assert (gpus.loaded, gpus.compiled) == (([code], []) if is_loaded else ([], [(name, 0)]))
    assert [*gpus.shared_bytes.values()] == [64 * 1024]


@pytest.mark.usefixtures("gpus")
def test_threads_compile_different_kernels_at_once_and_each_kernel_once(monkeypatch):
    kernels = importlib.import_module("stridedgpu.devices.cuda.runtime.kernels")
    together, compiled = threading.Barrier(2), []

    def compile_(text, name, device):
        together.wait(20)  # until another thread compiles another kernel
        compiled.append(name)
        return types.SimpleNamespace(kernel=name)

    monkeypatch.setattr(kernels, "_compiled", compile_)
    names = ["one", "another"] * 3
    with ThreadPoolExecutor(len(names)) as threads:
        assert [*threads.map(lambda name: kernels.compiled_kernel(("relayout",), name, 0, 0), names)] == names
    assert sorted(compiled) == ["another", "one"]


@pytest.mark.usefixtures("gpus")
def test_a_kernel_may_be_loaded_in_the_middle_of_its_loading(monkeypatch):
    kernels = importlib.import_module("stridedgpu.devices.cuda.runtime.kernels")
    disturbances = [lambda: kernels.compiled_kernel(("relayout",), "disturbed", 0, 0)]

    def compile_(text, name, device):
        while disturbances:
            assert disturbances.pop()() == name
        return types.SimpleNamespace(kernel=name)

    monkeypatch.setattr(kernels, "_compiled", compile_)
    found = []
    thread = threading.Thread(
        target=lambda: found.append(kernels.compiled_kernel(("relayout",), "disturbed", 0, 0)), daemon=True
    )
    thread.start()
    thread.join(20)
    assert found == ["disturbed"]


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


# Tables outlive the prepared kernel that they belong to


class Dropped:
    """A prepared kernel with a table, launched on a stream and dropped as a cache would; `table` is its memory."""

    def __init__(self, gpus, stream):
        self.device = selection.device_named("cuda:0")
        table = self.device.uploaded(b"table" * 4)
        self.table = weakref.ref(table.owner)
        launch = KernelLaunch(("fake.cu",), "sg::kernel", (1, 1, 1), (32, 1, 1), 0, bytes(24), ((16, b"table" * 4),))
        gpus.functions[5] = "sg::kernel", 0
        prepared_kernel = importlib.import_module("stridedgpu.devices.cuda.runtime.kernels").PreparedKernel
        kernel = prepared_kernel(launch, types.SimpleNamespace(ptr=5), 0, (table,))
        kernel(table, 0, table, 0, stream)
        del kernel, table
        gc.collect()


@pytest.fixture
def few_retired():
    """Any retired table is too many."""
    with using(replace(policy(), memory=MemoryPolicy(retired_bytes=0))):
        yield


def test_the_table_of_a_queued_kernel_is_not_freed(gpus):
    dropped = Dropped(gpus, stream=77)
    dropped.device.uploaded(b"another table")
    assert dropped.table() is not None
    assert gpus.named("deviceSynchronize") == []


@pytest.mark.usefixtures("few_retired")
def test_many_retired_tables_are_freed_behind_all_work_of_the_device(gpus):
    dropped = Dropped(gpus, stream=77)
    gpus.calls.clear()
    dropped.device.uploaded(b"another table")
    assert gpus.named("deviceSynchronize") == [("deviceSynchronize", 0)]
    assert dropped.table() is None


@pytest.mark.usefixtures("few_retired")
def test_the_table_of_a_captured_launch_is_never_freed(gpus):
    gpus.capturing.add(77)
    dropped = Dropped(gpus, stream=77)
    gpus.capturing.clear()
    dropped.device.uploaded(b"another table")
    assert dropped.table() is not None


@pytest.mark.usefixtures("few_retired")
def test_tables_wait_where_the_device_cannot_be_waited_for(gpus, monkeypatch):
    dropped = Dropped(gpus, stream=77)

    def refused():
        raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported")

    monkeypatch.setattr(sys.modules["cupy"].cuda.runtime, "deviceSynchronize", refused)
    dropped.device.uploaded(b"another table")
    assert dropped.table() is not None
