"""The emulated CUDA device: the CPU's bits, the order of streams and events, memory that the host cannot touch."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from harness.guarded_memory import guarded
from harness.profiles import examples
from harness.sample_tensors import frames, same_bits
from harness.strategies import element_types, layouts_of, tensor_sizes
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.devices.emulated import memory, streams
from stridedgpu.devices.selection import remote_device_named

EMULATED = "cuda-emulated"
ROOT = Path(sg.__file__).parents[1]
POISON = memory.POISON


def sent(values, dtype=None):
    return sg.asarray(np.asarray(values, dtype)).to_device(EMULATED)


# Bits

OPERATIONS = {
    "relayout": lambda t, to: sg.relayout(t, layout="NCHW", dtype="float16", scale=1 / 255, channels=(2, 1, 0)),
    "channels filled up": lambda t, to: sg.relayout(t, layout="NHWC4", dtype="float32"),
    "matrix": lambda t, to: sg.relayout(t, dtype="float32", matrix=[[0.3, 0.6, 0.1]]),
    "gather": lambda t, to: sg.gather(t, to([1, -1, 0]), axis=2),
    "gather_elements": lambda t, to: sg.gather_elements(t, to(np.zeros((2, 3, 1, 9), np.int64)), axis=2),
    "gather_nd": lambda t, to: sg.gather_nd(t, to([[1, 2], [0, 0]])),
    "scatter_nd": lambda t, to: sg.scatter_nd(t, to([[1, 2]]), to(np.full((1, 8, 9), 7, np.uint8))),
    "scatter_elements": lambda t, to: sg.scatter_elements(t, to([[[[1]]]]), to(np.full((1, 1, 1, 1), 9, np.uint8)), 3),
    "gather_crops": lambda t, to: sg.gather_crops(t, [[0, 1], [-2, 3]], (5, 4), flip=[True, False], fill=3),
    "boxes": lambda t, to: sg.gather_crops(t, boxes=[[0, 1, 7, 6.5]] * 2, size=(5, 4)),
    "resize": lambda t, to: sg.resize(t, (5, 4), interpolation="pillow-bicubic", dtype="float32"),
    "letterbox": lambda t, to: sg.letterbox(t, (6, 6)),
    "write into a view": lambda t, to: written(t),
    "copy": lambda t, to: copy.copy(t[:, :, ::-1, 2:]),
}


def written(tensor):
    tensor = tensor.copy()
    tensor[:, 1, 2:4] = 5
    return tensor


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_give_the_bits_of_the_cpu(name):
    run, here = OPERATIONS[name], frames((2, 8, 9, 3))
    there = here.to_device(EMULATED)
    made = run(there, sent)
    assert made.device == EMULATED
    assert same_bits(made.numpy(), run(here, sg.asarray).numpy())


@settings(max_examples=examples(30))
@given(st.data(), element_types())
def test_any_layouts_give_the_bytes_of_the_cpu(data, element):
    sizes = data.draw(tensor_sizes(0, 5))
    layouts = data.draw(layouts_of(sizes)), data.draw(layouts_of(sizes, broadcast=False))
    source, source_memory = guarded(layouts[0], element, 1)
    target, target_memory = guarded(layouts[1], element, 2)
    held = [sg.asarray(bytes_).to_device(EMULATED) for bytes_ in (source_memory, target_memory)]
    there = [
        sg.StridedTensor(bytes_.buffer, tensor.layout, element)
        for bytes_, tensor in zip(held, (source, target), strict=True)
    ]
    there[0].relayout(out=there[1])
    source.relayout(out=target)
    assert held[1].numpy().tobytes() == target_memory.tobytes()


def test_frames_and_declared_steps_run_there():
    surface = np.random.default_rng(0).integers(0, 256, (12, 8), np.uint8)
    here = sg.Frame.over("nv12", surface, (8, 8))
    there = sg.Frame("nv12", [plane.to_device(EMULATED) for plane in here.planes], sizes=(8, 8))
    assert same_bits(sg.letterbox([there], (6, 6)).numpy(), sg.letterbox([here], (6, 6)).numpy())
    batches = [np.full((2, 8, 9, 3), value, np.uint8) for value in range(4)]
    step = sg.Preprocess(resize=6, crop=4, mean=0.5, std=0.5, device=EMULATED, output="tensor")
    expected = map(sg.Preprocess(resize=6, crop=4, mean=0.5, std=0.5, device="cpu"), batches)
    for made, wanted in zip(sg.prefetch(map(step, batches), device=EMULATED), expected, strict=True):
        assert made.device == EMULATED
        assert same_bits(made.numpy(), np.asarray(wanted))


# Memory


def accesses(tensor):
    return {
        "__array__": lambda: np.asarray(tensor),
        "buffer protocol": lambda: memoryview(tensor),
        "bytes": lambda: tensor.buffer.bytes,
        "native": tensor.native,
        "xp": lambda: tensor.xp,
        "DLPack to NumPy": lambda: np.from_dlpack(tensor),
    }


@pytest.mark.parametrize("way", list(accesses(SimpleNamespace(native=None))))
def test_the_host_cannot_touch_the_memory(way):
    tensor = sent([1, 2, 3])
    with pytest.raises((TypeError, sg.StridedGpuError, BufferError, RuntimeError)):
        accesses(tensor)[way]()
    assert tensor.numpy().tolist() == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.skipif(not memory.is_protected(), reason="needs mprotect")
def test_following_the_pointer_on_the_host_ends_the_process():
    code = (
        "import ctypes, stridedgpu as sg\n"
        f"tensor = sg.zeros((4,), 'uint8', device={EMULATED!r})\n"
        "print(ctypes.string_at(tensor.__cuda_array_interface__['data'][0], 4))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode == -signal.SIGSEGV


def test_without_mprotect_the_memory_is_plain(monkeypatch):
    monkeypatch.setattr(memory, "_mprotect", None)
    assert not memory.is_protected()
    assert sent([[1, 2], [3, 4]]).permute((1, 0)).copy().numpy().tolist() == [[1, 3], [2, 4]]


def test_pointers_are_those_of_a_cuda_device():
    tensor = sent(np.arange(6, dtype=np.float32).reshape(2, 3))
    interface = tensor.__cuda_array_interface__
    assert tensor.__dlpack_device__() == (2, 0)
    assert interface["data"] == (tensor.operand.address, False)
    assert interface["stream"] == 1
    by_interface = sg.asarray(SimpleNamespace(__cuda_array_interface__=interface, kept=tensor))
    exporter = SimpleNamespace(__dlpack__=tensor.__dlpack__, __dlpack_device__=tensor.__dlpack_device__)
    by_capsule = sg.from_dlpack(exporter)
    by_pointer = sg.from_pointer(interface["data"][0], (2, 3), "float32", owner=tensor, device=EMULATED)
    for shared in (by_interface, by_capsule, by_pointer):
        assert (shared.device, shared.operand.address) == (EMULATED, tensor.operand.address)
        assert same_bits(shared.numpy(), tensor.numpy())


def test_an_address_of_other_memory_is_illegal():
    outside = sg.from_pointer(np.zeros(64).ctypes.data, (3,), "float64", owner=None, device=EMULATED)
    with pytest.raises(sg.DeviceError, match="illegal"):
        outside.numpy()
    freed = sg.zeros((3,), "float64", device=EMULATED).operand.address
    sg.synchronize(EMULATED)  # waiting work keeps its memory
    with pytest.raises(sg.DeviceError, match="freed"):
        sg.from_pointer(freed, (3,), "float64", owner=None, device=EMULATED).numpy()


def test_cuda_memory_of_others_is_not_taken_for_emulated_memory():
    sent([1])
    interface = {"version": 3, "shape": (3,), "typestr": "|u1", "data": (np.zeros(3).ctypes.data, False)}
    with pytest.raises(sg.DeviceError, match="no memory of cuda-emulated"):
        sg.asarray(SimpleNamespace(__cuda_array_interface__=interface))


def test_pickles_and_copies_come_back_to_the_device():
    tensor = sent([[1, 2], [3, 4]])
    for made in (pickle.loads(pickle.dumps(tensor)), copy.deepcopy(tensor)):
        assert made.device == EMULATED
        assert same_bits(made.numpy(), tensor.numpy())


# Order


def test_work_of_another_stream_is_not_done_until_somebody_waits():
    source = sent(np.arange(8, dtype=np.uint8))
    with sg.emulated.Stream(non_blocking=True) as stream:
        made = source.copy()
    assert set(made.numpy()) == {POISON}
    assert not stream.done
    stream.synchronize()
    assert stream.done
    assert same_bits(made.numpy(), source.numpy())


@pytest.mark.parametrize("way", ["event", "blocking stream", "synchronize", "stream=", "handle"])
def test_an_order_that_is_stated_holds(way):
    source = sent(np.arange(8, dtype=np.uint8))
    stream = sg.emulated.Stream(non_blocking=way != "blocking stream")
    made = source.relayout(stream=stream)
    if way == "event":
        sg.emulated.get_current_stream().wait_event(stream.record())
    elif way == "synchronize":
        sg.synchronize(EMULATED)
    given = {"stream=": stream, "handle": stream.ptr}.get(way)
    assert same_bits(made.relayout(device="cpu", stream=given).numpy(), source.numpy())


@pytest.mark.parametrize("way", ["interface", "capsule"])
def test_the_stream_of_a_call_waits_for_an_array_that_comes_in(way):
    source = sent(np.arange(8, dtype=np.uint8))
    theirs, ours = sg.emulated.Stream(non_blocking=True), sg.emulated.Stream(non_blocking=True)
    with theirs:
        made = source.copy()
        exported = (
            SimpleNamespace(__cuda_array_interface__=made.__cuda_array_interface__, kept=made)
            if way == "interface"
            else SimpleNamespace(__dlpack__=made.__dlpack__, __dlpack_device__=made.__dlpack_device__)
        )
        read = sg.relayout(exported, stream=ours)
    ours.synchronize()
    assert same_bits(read.numpy(), source.numpy())


def test_events_say_whether_their_work_is_done():
    stream, event = sg.emulated.Stream(non_blocking=True), sg.emulated.Event()
    assert event.done
    made = sent([1, 2]).relayout(stream=stream)
    event.record(stream)
    later = made.relayout(stream=stream)
    assert not event.done
    event.synchronize()
    assert event.done
    assert not stream.done
    stream.synchronize()
    assert same_bits(later.numpy(), made.numpy())


def test_a_full_stream_carries_out_its_oldest_work():
    source = sent([1, 2])
    with sg.emulated.Stream(non_blocking=True) as stream:
        for _ in range(2 * streams._MOST_WAITING):
            source.copy()
    assert 0 < stream.submitted - stream.finished <= streams._MOST_WAITING
    stream.synchronize()


def test_sources_on_the_host_may_change_once_a_call_returns():
    host = np.arange(4, dtype=np.int64)
    uploaded = sg.asarray(host).to_device(EMULATED)
    origins = np.zeros((1, 2), np.int64)
    batch = frames((1, 8, 9, 3))
    windows = sg.gather_crops(batch.to_device(EMULATED), origins, (4, 4))
    host[:], origins[:] = 9, 3
    assert uploaded.numpy().tolist() == [0, 1, 2, 3]
    assert same_bits(windows.numpy(), sg.gather_crops(batch, [[0, 0]], (4, 4)).numpy())


# Errors


def test_wrong_indices_are_raised_where_a_gpu_raises_them():
    data, wrong = sent([1, 2, 3]), sent([0, 3])
    with pytest.raises(IndexError, match=r"indices\[1\] = 3 is out of range"):
        sg.gather(data, wrong)
    made = sg.gather(data, wrong, mode="deferred")
    with pytest.raises(IndexError, match=r"indices\[1\] = 3 is out of range"):
        sg.synchronize()
    assert made.sizes == (2,)
    assert sg.gather(data, sent([2, 0]), mode="deferred").numpy().tolist() == [3, 1]


REFUSED = {
    "no stream": (lambda: sent([1]).relayout(stream=7), "no stream of cuda-emulated"),
    "a CPU's operand": (lambda: sg.gather(sent([1, 2]), sg.asarray([0])), "on cpu"),
    "another device": (lambda: remote_device_named("cuda-emulated:1"), "unknown"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_gpu_refuses_is_refused(name):
    call, message = REFUSED[name]
    with pytest.raises(sg.StridedGpuError, match=message):
        call()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_no_device():
    code = (
        "import os, stridedgpu as sg\n"
        f"sg.zeros((4,), 'uint8', device={EMULATED!r})\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    try:\n"
        f"        sg.zeros((4,), 'uint8', device={EMULATED!r})\n"
        "    except sg.DeviceError as error:\n"
        "        os._exit(3 if 'forked' in str(error) else 4)\n"
        "    os._exit(5)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode == 3


# Frames


def test_a_picture_becomes_a_frame():
    """In the planes' memory, as on the CPU."""
    picture = np.random.default_rng(5).integers(0, 256, (3, 8, 12), np.uint8)
    there, here = (
        sg.Frame("nv12", [sg.zeros(sizes, "uint8", device=name) for sizes in ((8, 12), (4, 6, 2))], sizes=(8, 12))
        for name in (EMULATED, "cpu")
    )
    sg.relayout(sg.asarray(picture, dims="CHW").to_device(EMULATED), out=there)
    sg.relayout(sg.asarray(picture, dims="CHW"), out=here)
    assert all(same_bits(one.numpy(), other.numpy()) for one, other in zip(there.planes, here.planes, strict=True))


def test_a_step_resizes_frames_when_somebody_waits():
    """The planes are aliases by then, as every other operand is."""
    memory = np.random.default_rng(4).integers(0, 256, 48 * 64 * 3 // 2, np.uint8)
    frame = sg.Frame.over("nv12", memory, (48, 64))
    for options in ({"resize": 32, "crop": 24}, {"letterbox": 40}, {"resize": (20, 30)}):
        made, there = (sg.Preprocess(dtype="float16", device=name, **options)([frame]) for name in ("cpu", EMULATED))
        assert same_bits(np.asarray(there[0]), np.asarray(made[0]))


# A user's program


def test_a_program_that_names_cuda_runs_where_the_variable_says_so(monkeypatch):
    monkeypatch.setenv("STRIDEDGPU_DEVICE", f"force:{EMULATED}")
    batch = sg.zeros((2, 3, 4, 5), "float32", device="cuda")
    address = batch.__cuda_array_interface__["data"][0]
    shared = sg.from_pointer(address, (2, 3, 4, 5), "float32", owner=batch, device="cuda:0")
    assert batch.device == shared.device == sg.relayout([1, 2], device="cuda").device == EMULATED


def test_it_is_taken_only_where_it_is_named():
    assert EMULATED not in {device.name for device in sg.devices()}
    assert sg.empty((2,), "uint8").device != EMULATED


def test_plans_say_what_runs_and_what_would():
    here, target = frames((2, 8, 9, 3)).copy(), sg.empty((2, 3, 8, 9), "float32", device=EMULATED)
    source = here.to_device(EMULATED)
    plan = sg.plan_relayout(source, target, scale=0.5)
    plan(source, target)
    assert same_bits(target.numpy(), here.relayout(dtype="float32", scale=0.5).numpy())
    assert plan.kernel == sg.plan_relayout(here, target.to_device("cpu"), scale=0.5).kernel
    assert f"{plan.kernel} on {EMULATED}: loops of the CPU" in plan.explain()
    assert "a GPU such as" in plan.explain()
    assert pickle.loads(pickle.dumps(plan)).explain() == plan.explain()


@pytest.mark.parametrize(
    "lies, words",
    [
        ({"data": 3}, r"has the data 3; it is \(address, whether it is read-only\)"),
        ({"data": ("x", False)}, "has the data"),
        ({"data": None}, "has the data None"),
        ({"shape": ...}, "has no shape"),
        ({"typestr": ...}, "has no typestr"),
        ({"strides": (None, 4)}, "strides=.* must be integers"),
        ({"strides": 3}, "strides=3 is not a sequence of integers"),
    ],
    ids=str,
)
def test_an_array_interface_without_its_parts_is_refused(lies, words):
    told = {**sent([[1.0, 2.0]], "float32").__cuda_array_interface__, **lies}
    told = {name: part for name, part in told.items() if part is not ...}
    with pytest.raises(sg.LayoutError, match=words):
        sg.asarray(SimpleNamespace(__cuda_array_interface__=told))
    with pytest.raises(sg.LayoutError, match="is a list, not a dict"):
        sg.asarray(SimpleNamespace(__cuda_array_interface__=[told]))
