"""Copies and pickles keep strides, labels, alignment, device and the gaps of their own; a missing device is named."""

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
    """Rows of 10 bytes, 6 bytes apart from the next, with a mark in each gap."""
    tensor = padded((1, 3, 4, 10), "NCHW", 16)
    tensor.buffer.bytes.reshape(-1)[10::16] = 77
    if device == "cpu":
        return tensor
    held = sg.empty(tensor.sizes, "uint8", layout="NCHW", row_pitch_bytes=16, alignment=512, device=device)
    spanned = slice(0, tensor.buffer.nbytes)
    bytes_of = (sg.StridedTensor(part.buffer, sg.Layout((part.buffer.nbytes,)), "uint8") for part in (held, tensor))
    there, here = (part[spanned] for part in bytes_of)
    there[...] = here
    return held


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


VIEWS = {
    "crop": lambda whole: whole[:, 3:5, 7:11],
    "every other": lambda whole: whole[:, ::-2, 1::3],
    "a column": lambda whole: whole[0, :, 9],
    "repeated": lambda whole: whole[:, 3:5, 7:11].unsqueeze(0).broadcast_to((5, 3, 2, 4)),
    "overlapping windows": lambda whole: whole.as_strided((3, 6, 4, 3, 2), (400, 20, 1, 20, 1), 3),
    "nothing": lambda whole: whole[:, 3:3],
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("device", DEVICES[:2])
@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_what_lies_between_the_elements_of_a_view_stays_where_it_is(gpus, dtype, device, view, way):
    """The bytes of a copy are the elements and zeros, though the memory around a view holds none."""
    whole = sg.asarray(np.arange(1, 1201, dtype=dtype).reshape(3, 20, 20), device=device)
    tensor = view(whole)
    again = way(tensor)
    assert (again.sizes, again.strides) == (tensor.sizes, tensor.strides)
    assert same_bits(again.numpy(), tensor.numpy())
    left = again.as_strided((again.layout.span,), (1,), again.layout.first_offset - again.layout.offset).numpy()
    elements = {*again.numpy().reshape(-1).tolist()}
    assert {*left.tolist()} <= {0, *elements}
    assert np.count_nonzero(left) <= tensor.layout.element_count


def test_a_pickled_crop_has_the_bytes_of_its_elements_alone():
    frame = np.zeros((2160, 3840, 3), np.uint8)
    crop = sg.asarray(frame, dims="HWC")[:, 100:164, 200:264]
    assert len(pickle.dumps(crop)) < 64 * 64 * 3 + 500


def test_one_field_of_records_goes_without_the_others():
    records = np.zeros(50, [("weight", "f4"), ("password", "S12")])
    records["password"] = b"hunter2"
    weights = sg.asarray(records["weight"])
    assert b"hunter2" not in pickle.dumps(weights)
    assert b"hunter2" not in copy.copy(weights).buffer.bytes.tobytes()


def test_a_read_only_tensor_comes_back_read_only():
    tensor = sg.asarray(bytes(range(12)))
    with pytest.raises(sg.BindingError, match="read-only"):
        pickle.loads(pickle.dumps(tensor))[...] = 0
    copy.copy(tensor)[...] = 0  # a copy is made to be written


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
    gpus.calls.clear()
    copy.copy(tensor[:, :, 1:])
    assert {call[1] for call in gpus.named("memcpyAsync")} <= {16, 20}, "nor more than a zero besides"
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
