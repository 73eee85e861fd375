"""Copies and pickles keep gaps, strides, labels, alignment and device; a device that is missing is said to be."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from harness.sample_tensors import SOURCES, padded, same_bits

import stridedgpu as sg
from stridedgpu.devices import selection
from stridedgpu.devices.cuda.status import CudaStatus
from stridedgpu.values.dtypes import ELEMENT_TYPES

DEVICES = ("cpu", "cuda:0", "cuda:1")
WAYS = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda tensor: pickle.loads(pickle.dumps(tensor))}


def pitched(device):
    """Rows of 10 bytes, 6 bytes apart from the next, with a mark in each gap; the second image alone."""
    tensor = padded((2, 3, 4, 10), "NCHW", 16)
    tensor.buffer.bytes.reshape(-1)[10::16] = 77
    if device == "cpu":
        return tensor[1:]
    held = sg.empty(tensor.sizes, "uint8", layout="NCHW", row_pitch_bytes=16, alignment=512, device=device)
    spanned = slice(0, tensor.buffer.nbytes)
    bytes_of = (sg.StridedTensor(part.buffer, sg.Layout((part.buffer.nbytes,)), "uint8") for part in (held, tensor))
    there, here = (part[spanned] for part in bytes_of)
    there[...] = here
    return held[1:]


def all_bytes(tensor):
    """What the buffer holds, wherever it is: the stand-in's devices have their memory in this process."""
    flat = sg.StridedTensor(tensor.buffer, sg.Layout((tensor.buffer.nbytes,)), "uint8")
    return flat.numpy().copy()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("device", DEVICES)
def test_gaps_strides_labels_alignment_and_device_are_kept(gpus, device, way):
    tensor = pitched(device)
    again = way(tensor)
    assert (again.sizes, again.strides, again.dims, again.device) == (tensor.sizes, tensor.strides, "NCHW", device)
    assert again.buffer.alignment == tensor.buffer.alignment
    assert again.buffer.address != tensor.buffer.address
    assert same_bits(again.numpy(), tensor.numpy())
    gaps = all_bytes(again)[10:186:16]
    assert len(gaps) == 11
    assert set(gaps.tolist()) == {77}
    again[...] = 0
    assert tensor.numpy().any()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_every_layout_survives(make, way):
    tensor = make()
    again = way(tensor)
    assert (again.strides, again.dims, again.element) == (tensor.strides, tensor.dims, tensor.element)
    assert same_bits(again.numpy(), tensor.numpy())


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_every_type_survives_with_its_padding(dtype, way):
    tensor = sg.empty((2, 3, 5), dtype, dims="CHW", row_pitch_bytes=128, alignment=256, device="cpu")
    tensor.buffer.bytes[:] = np.arange(tensor.buffer.nbytes, dtype=np.uint8) % 2
    again = way(tensor)
    assert (again.strides, again.dims, again.element) == (tensor.strides, "CHW", tensor.element)
    assert (again.alignment, again.buffer.nbytes) == (256, tensor.buffer.nbytes)
    held = tensor.layout.span * tensor.itemsize
    assert again.buffer.bytes[:held].tobytes() == tensor.buffer.bytes[:held].tobytes()


@pytest.mark.parametrize("damaged", [b"I9999\n", b"I1\n", b"I-234\n"], ids=["longer", "shorter", "negative"])
def test_a_damaged_pickle_of_a_tensor_makes_none_over_other_memory(damaged):
    pickled = pickle.dumps(sg.zeros((1234, 3), "uint8", device="cpu"), 0)
    assert pickled.count(b"I1234\n") == 1
    with pytest.raises(sg.LayoutError):
        pickle.loads(pickled.replace(b"I1234\n", damaged))


def test_one_tensor_named_twice_stays_one():
    tensor = pitched("cpu")
    for first, second in (copy.deepcopy([tensor, tensor]), pickle.loads(pickle.dumps([tensor, tensor]))):
        assert first is second
        assert first is not tensor


def test_a_device_tensor_is_copied_without_the_host(gpus):
    tensor = pitched("cuda:1")
    gpus.calls.clear()
    copy.copy(tensor)
    assert {call[1] for call in gpus.named("memcpyAsync")} <= {20}, "no more than a table of constants goes there"
    assert not gpus.named("memcpy2DAsync")


def test_a_tensor_of_a_device_that_is_not_there_goes_to_the_first_of_its_kind(gpus, monkeypatch):
    pickled = pickle.dumps(pitched("cuda:1"))
    monkeypatch.setattr(selection, "_remote", {})
    monkeypatch.setattr(selection, "cuda_status", lambda: CudaStatus(1))
    again = pickle.loads(pickled)
    assert again.device == "cuda:0"
    assert same_bits(again.numpy(), pitched("cpu").numpy())


def test_without_any_such_device_it_goes_to_the_cpu_and_says_so(gpus, monkeypatch):
    pickled = pickle.dumps(pitched("cuda:1"))
    monkeypatch.setattr(selection, "_remote", {})
    monkeypatch.setattr(selection, "cuda_status", lambda: CudaStatus(0, "no driver was found"))
    with pytest.warns(RuntimeWarning, match=r"from cuda:1 is unpickled on the CPU: .*no driver was found") as caught:
        again = pickle.loads(pickled)
    assert caught[0].filename == __file__
    assert (again.device, again.strides) == ("cpu", pitched("cpu").strides)
    assert same_bits(again.numpy(), pitched("cpu").numpy())


def test_a_pickle_names_no_module_of_a_device(gpus):
    assert b"cupy" not in pickle.dumps(pitched("cuda:0"))


# Comparisons


def test_equality_is_identity_and_never_a_guess():
    tensor = pitched("cpu")
    assert tensor == tensor  # noqa: PLR0124 - what is stated
    assert tensor in {tensor: 1}
    assert tensor != None  # noqa: E711 - what is stated
    assert tensor != "NCHW"
    for other in (copy.copy(tensor), tensor.numpy(), 3, 0.5, np.float32(1)):
        with pytest.raises(TypeError, match=r"numpy\(\)"):
            _ = tensor == other
        with pytest.raises(TypeError, match=r"numpy\(\)"):
            _ = tensor != other
