"""DLPack and the CUDA Array Interface: the memory itself goes out and comes in, in the order of its stream."""

from __future__ import annotations

import types

import numpy as np
import pytest
from harness.dlpack_structures import managed
from harness.sample_tensors import frames

import stridedgpu as sg


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


def test_the_array_interface_of_an_empty_tensor_has_no_strides(gpus):
    """CuPy would work out a size from them, and refuse memory of that size at address 0."""
    found = sg.empty((0, 2), "uint8", device="cuda").__cuda_array_interface__
    assert (found["shape"], found["data"], found["strides"]) == ((0, 2), (0, False), None)


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
    capsule = tensor.__dlpack__(stream=5, max_version=(1, 0))
    assert "dltensor_versioned" in repr(capsule)
    [(_, array, request, device)] = gpus.named("dlpack")
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


class CupyArray:
    """A flipped array as CuPy 14.2 exports it: strides in bytes are right, those of its capsule divided unsigned."""

    def __init__(self, array, **interface):
        self.array = array
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "typestr": array.dtype.str,
            "strides": array.strides,
            "data": (array.ctypes.data, False),
        } | interface

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **request):
        capsule = self.array.__dlpack__(max_version=request["max_version"])
        tensor = managed(capsule).tensor
        tensor.device[:] = 2, 0
        for axis, step in enumerate(self.array.strides):
            tensor.strides[axis] = step % 2**64 // self.array.itemsize
        return capsule


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
def test_flipped_cupy_arrays_have_the_strides_of_their_array_interface(gpus, dtype):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)[:, ::-1, ::-1]
    tensor = sg.asarray(CupyArray(array))
    assert tensor.device == "cuda:0"
    assert tensor.strides == (12, -4, -1)
    assert tensor.buffer.nbytes == array.nbytes
    assert tensor[1].numpy().tolist() == array[1].tolist()


def test_memory_that_no_address_space_holds_is_refused(gpus):
    with pytest.raises(sg.BindingError, match="leave the address space"):
        sg.asarray(CupyArray(np.arange(6, dtype=np.float32)[::-1], strides=(2**62,)))
    interface = {"version": 3, "shape": (6,), "typestr": "<f4", "data": (4096, False), "strides": (2**62,)}
    with pytest.raises(sg.BindingError, match="leave the address space"):
        sg.asarray(types.SimpleNamespace(__cuda_array_interface__=interface))


def test_the_memory_of_an_array_interface_is_shared_or_copied_as_copy_says(gpus):
    held = sg.zeros((4, 6), "int16", device="cuda:1")
    gpus.pointer_devices[held.buffer.address] = 1
    told = {"version": 3, "shape": (4, 6), "typestr": "<i2", "data": (held.buffer.address, False)}
    foreign = types.SimpleNamespace(__cuda_array_interface__=told)
    for copy, is_shared in ((None, True), (False, True), (True, False)):
        assert (sg.asarray(foreign, copy=copy).buffer.address == held.buffer.address) is is_shared
