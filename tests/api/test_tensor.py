"""What a tensor says of itself: properties, text, descriptor, pickle, and as a NumPy argument."""

from __future__ import annotations

import copy
import operator
import pickle

import ml_dtypes
import numpy as np
import pytest
from harness.guarded_memory import bits_of, guarded, seeds
from harness.strategies import element_types, layouts
from hypothesis import given

import stridedgpu as sg
from stridedgpu import DataType, Layout, LayoutError, StridedTensor
from stridedgpu.api import tensor as described
from stridedgpu.values.dtypes import ELEMENT_TYPES


def pitched():
    """A padded, labelled tensor of known content."""
    tensor = sg.zeros((1, 3, 4, 5), "uint8", layout="NHWC", row_pitch_bytes=32, alignment=64, device="cpu")
    tensor[...] = np.arange(60, dtype=np.uint8).reshape(1, 3, 4, 5)
    return tensor


def test_properties():
    tensor = pitched()
    assert tensor.sizes == tensor.shape == (1, 3, 4, 5)
    assert tensor.strides == (128, 1, 32, 3)
    assert (tensor.ndim, tensor.itemsize, tensor.nbytes) == (4, 1, 60)
    assert (tensor.dtype, tensor.data_type) == (np.uint8, DataType.UINT8)
    assert (tensor.dims, tensor.device, tensor.alignment) == ("NCHW", "cpu", 64)
    assert tensor.layout == Layout((1, 3, 4, 5), (128, 1, 32, 3))
    assert tensor.buffer.nbytes == sg.calc_buffer_tensor_size("uint8", tensor.sizes, tensor.strides) == 112


def test_nbytes_counts_repeats_and_no_padding():
    assert sg.zeros((3,), "float64", device="cpu").broadcast_to((5, 3)).nbytes == 120
    assert sg.zeros((0, 3), "float64", device="cpu").nbytes == 0


def test_dtypes_that_numpy_has_from_elsewhere():
    tensor = StridedTensor(bytearray(8), Layout((4,)), "bfloat16")
    assert tensor.dtype == ml_dtypes.bfloat16
    assert tensor.numpy().dtype == ml_dtypes.bfloat16
    assert tensor.data_type is DataType.UNKNOWN
    assert StridedTensor(bytearray(8), Layout((4,)), "float8_e5m2").dtype == ml_dtypes.float8_e5m2


# Text

FACTS = {
    "padded": (
        lambda: pitched()[0, 0],
        "StridedTensor(sizes=(4, 5), strides=(32, 3), dtype=uint8, dims='HW', device='cpu', alignment=64, padded)",
    ),
    "packed": (
        lambda: sg.empty((2, 3), "float16", alignment=16, device="cpu"),
        "StridedTensor(sizes=(2, 3), strides=(3, 1), dtype=float16, dims=None, device='cpu', alignment=16, packed)",
    ),
    "packed in another order": (
        lambda: sg.empty((2, 3, 4), "int8", layout="HWC", device="cpu"),
        "StridedTensor(sizes=(2, 3, 4), strides=(1, 8, 2), dtype=int8, dims='CHW', device='cpu', alignment=32, packed)",
    ),
    "broadcast": (
        lambda: sg.empty((3,), "bool", device="cpu").broadcast_to((2, 3)),
        "StridedTensor(sizes=(2, 3), strides=(0, 1), dtype=bool, dims=None, device='cpu', alignment=32, broadcast)",
    ),
    "overlapping": (
        lambda: sg.empty((8,), "int32", device="cpu").as_strided((3, 3), (1, 1)),
        "StridedTensor(sizes=(3, 3), strides=(1, 1), dtype=int32, dims=None, device='cpu', alignment=32, overlapping)",
    ),
    "flipped": (
        lambda: sg.empty((8,), "int32", device="cpu")[::-1],
        "StridedTensor(sizes=(8,), strides=(-1,), dtype=int32, dims=None, device='cpu', alignment=4, packed)",
    ),
    "scalar": (
        lambda: sg.empty((), "int8", device="cpu"),
        "StridedTensor(sizes=(), strides=(), dtype=int8, dims=None, device='cpu', alignment=32, packed)",
    ),
    "empty": (
        lambda: sg.empty((0, 3), "int8", device="cpu"),
        "StridedTensor(sizes=(0, 3), strides=(3, 1), dtype=int8, dims=None, device='cpu', alignment=32, packed)",
    ),
}


@pytest.mark.parametrize("make, text", FACTS.values(), ids=FACTS.keys())
def test_repr(make, text):
    facts, _, _ = repr(make()).partition(", values=")
    assert facts.removesuffix(")") == text.removesuffix(")")


def test_repr_of_read_only_memory():
    assert repr(sg.asarray(bytes(4))).endswith("packed, read-only, values=[0, 0, 0, 0])")


def test_describe():
    lines = pitched().describe().splitlines()
    assert lines[0] == repr(pitched())
    assert "offset 0, span 111 elements, 111 bytes of a buffer of 112" in lines[1]
    assert "elements take 60 bytes; padding between them 51 bytes (45.9%)" in lines[2]
    assert lines[3] == "DirectML can describe it: 112 bytes at least"


@pytest.mark.parametrize(
    "make, reason",
    [
        pytest.param(lambda: pitched()[:, :, ::-1], "DirectML cannot describe it: strides=", id="flipped"),
        pytest.param(lambda: sg.zeros((), "bool"), "DirectML has no element type for bool", id="bool"),
    ],
)
def test_describe_says_why_directml_cannot(make, reason):
    tensor = make()
    assert reason in tensor.describe().splitlines()[3]
    with pytest.raises(LayoutError):
        _ = tensor.desc


# The descriptor


def test_desc_of_an_allocated_tensor_guarantees_its_alignment_and_has_its_padding():
    desc = pitched().desc
    assert desc.data_type is DataType.UINT8
    assert (desc.sizes, desc.strides) == ((1, 3, 4, 5), (128, 1, 32, 3))
    assert desc.total_tensor_size_in_bytes == 112
    assert desc.guaranteed_base_offset_alignment == 64


def test_desc_of_a_view_claims_no_more_than_is_there():
    view = pitched()[:, :, 1:, 2:4]
    assert view.desc.guaranteed_base_offset_alignment == 2 == view.alignment
    assert view.desc.total_tensor_size_in_bytes == view.desc.minimum_implied_size_in_bytes
    assert (view.desc.sizes, view.desc.strides) == (view.sizes, view.strides)


@given(layouts(1, 8, flips=False), element_types("uif").filter(lambda element: element.name != "bfloat16"), seeds)
def test_desc_of_any_tensor_that_directml_knows(layout, element, seed):
    tensor, _ = guarded(layout, element, seed)
    desc = tensor.desc
    assert (desc.data_type, desc.sizes, desc.strides) == (tensor.data_type, tensor.sizes, tensor.strides)
    implied = sg.calc_buffer_tensor_size(element.name, layout.sizes, layout.strides)
    assert desc.minimum_implied_size_in_bytes == desc.total_tensor_size_in_bytes == implied
    alignment = desc.guaranteed_base_offset_alignment
    assert alignment == 0 or tensor.operand.address % alignment == 0


# Pickle


@given(layouts(0, 5, least=0), element_types(), seeds)
def test_pickle_keeps_bits_layout_and_alignment(layout, element, seed):
    tensor, memory = guarded(layout, element, seed)
    again = pickle.loads(pickle.dumps(tensor))
    assert (again.sizes, again.strides, again.element) == (tensor.sizes, tensor.strides, element)
    assert bits_of(again.layout, again.itemsize, again.buffer.bytes).tobytes() == (
        bits_of(layout, element.itemsize, memory).tobytes()
    )
    assert again.buffer.alignment == tensor.buffer.alignment
    assert again.buffer.address % again.buffer.alignment == 0
    assert not again.buffer.readonly


def test_pickle_keeps_padding_labels_and_alignment():
    tensor = pitched()
    tensor.buffer.bytes[15:32] = 77
    again = pickle.loads(pickle.dumps(tensor))
    assert repr(again) == repr(tensor)
    assert again.buffer.bytes[:111].tobytes() == tensor.buffer.bytes[:111].tobytes()
    assert again.buffer.address != tensor.buffer.address


def test_pickle_of_a_window_takes_the_window_only():
    whole = sg.asarray(np.zeros(1_000_000, np.uint8))
    assert len(pickle.dumps(whole[1000:1010])) < 1000
    assert pickle.loads(pickle.dumps(whole[1000:1010])).sizes == (10,)


def test_deep_copies_are_independent():
    tensor = pitched()
    other = copy.deepcopy(tensor)
    other[...] = 0
    assert tensor.numpy().reshape(-1).tolist() == list(range(60))


# Copies


def test_copy_is_packed_and_independent():
    tensor = pitched()
    other = tensor[:, ::-1].copy()
    assert other.strides == sg.packed_strides(other.sizes)
    other[...] = 0
    assert tensor.numpy().any()


def test_to_device_where_it_is_already():
    tensor = pitched()
    assert tensor.to_device("cpu") is tensor


# As an argument of NumPy and of Python


def test_numpy_functions_take_tensors():
    tensor = pitched()
    assert np.sum(tensor) == sum(range(60))
    assert np.asarray(tensor).ctypes.data == tensor.operand.address
    assert np.array(tensor, copy=True).ctypes.data != tensor.operand.address
    assert np.asarray(tensor, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        np.array(tensor, dtype=np.float32, copy=False)
    assert np.array_equal(np.stack([tensor, tensor])[1], tensor.numpy())


def test_truth_is_that_of_one_element():
    assert bool(sg.full((1, 1), 3, "uint8"))
    assert not sg.zeros((), "float32")
    for sizes in ((2,), (0,)):
        with pytest.raises(ValueError, match="ambiguous"):
            bool(sg.zeros(sizes, "uint8"))


@given(element_types(), seeds)
def test_one_element_is_a_number_to_python(element, seed):
    tensor, _ = guarded(Layout((1, 1), (7, 5)), element, seed)
    array = tensor.numpy()
    wanted = array.item()
    assert tensor.tolist() == array.tolist() or wanted != wanted  # noqa: PLR0124 - not a number
    assert type(tensor.item()) is type(wanted)
    for make in (complex, float, int, operator.index):
        try:
            expected = make(wanted)
        except (TypeError, ValueError, OverflowError) as problem:
            with pytest.raises(type(problem)):
                make(tensor)
        else:
            assert repr(make(tensor)) == repr(expected)


@pytest.mark.parametrize("sizes", [(0,), (2,), (2, 1)])
def test_more_or_fewer_elements_are_no_number(sizes):
    tensor = sg.zeros(sizes, "int64", device="cpu")
    with pytest.raises(ValueError, match="elements, not one"):
        tensor.item()
    for make in (complex, float, int, operator.index):
        with pytest.raises(TypeError, match="elements, not one"):
            make(tensor)


def test_one_element_is_formatted_as_a_number():
    tensor = sg.asarray([0.25, 2.0])
    assert f"{tensor[0]:.3f} {tensor[1]:>4.0f}" == "0.250    2"
    assert f"{tensor}" == repr(tensor)
    with pytest.raises(TypeError, match="elements, not one"):
        f"{tensor:.3f}"


def test_a_tensor_of_one_integer_is_an_index():
    tensor = sg.asarray([[1, 2], [3, 4]])
    assert tensor[tensor[0, 0]].tolist() == [3, 4]
    assert [10, 20][tensor[0, 0]] == 20
    with pytest.raises(LayoutError, match="to pick elements by an array, use gather"):
        tensor[tensor]


@pytest.mark.parametrize(
    "name, advice",
    [
        ("reshape", "reinterpret(sizes=...)"),
        ("T", "permute(axes)"),
        ("astype", "relayout(dtype=...)"),
        ("cpu", "to_device(device)"),
        ("sum", ".numpy()"),
    ],
)
def test_names_of_other_libraries_lead_to_those_here(name, advice):
    tensor = pitched()
    assert not hasattr(tensor, name)
    with pytest.raises(AttributeError, match="A StridedTensor has no") as caught:
        getattr(tensor, name)
    assert advice in str(caught.value)
    assert (caught.value.name, caught.value.obj) == (name, tensor)
    assert name not in dir(tensor)


def test_every_lead_goes_somewhere():
    for name in described._ELSEWHERE:
        assert not hasattr(StridedTensor, name), name


def test_every_type_has_text():
    for element in ELEMENT_TYPES.values():
        assert f"dtype={element.name}" in repr(StridedTensor(bytearray(16), Layout((1,)), element))


@pytest.mark.parametrize(
    "tensor, shown",
    [
        pytest.param(lambda: sg.asarray(np.array([[1, 2], [3, 4]], np.int16)), "values=[[1, 2], [3, 4]]", id="few"),
        pytest.param(lambda: sg.asarray(np.arange(17)), None, id="many"),
        pytest.param(lambda: sg.zeros((0, 3), "uint8", device="cpu"), None, id="none"),
        pytest.param(lambda: sg.asarray(0.5), "values=0.5", id="a scalar"),
        pytest.param(lambda: sg.from_pointer(1 << 20, (2,), "uint8", owner=None), None, id="an address alone"),
    ],
)
def test_repr_shows_the_values_of_a_small_tensor(tensor, shown):
    text = repr(tensor())
    assert text.endswith(f"{shown})") if shown else "values" not in text


@pytest.mark.parametrize(
    "other",
    [sg.zeros((2,), "uint8"), np.zeros(2), np.uint8(1), 1, 1.5, 2j, True],
    ids=lambda other: type(other).__name__,
)
def test_a_tensor_is_compared_with_no_elements(other):
    tensor = sg.zeros((2,), "uint8")
    for compare in (lambda: tensor == other, lambda: tensor != other):
        with pytest.raises(TypeError, match="== does not compare elements"):
            compare()


def test_a_tensor_equals_itself_and_is_no_other_thing():
    tensor = sg.zeros((2,), "uint8")
    assert tensor == tensor  # noqa: PLR0124
    for other in ("text", None, (0, 0), [0, 0], object()):
        assert tensor != other
        assert not tensor == other  # noqa: SIM201


@pytest.mark.parametrize(
    "layout, strides",
    [
        (Layout((2, 3, 4, 5)), (60, 20, 5, 1)),
        (Layout((2, 3, 4, 5), (60, 1, 15, 3)), (60, 1, 15, 3)),
        (Layout((2, 3, 4, 5), (128, 1, 32, 4)), (60, 1, 15, 3)),
        (Layout((2, 3, 4, 5), (60, 20, -5, 1), 15), (60, 20, 5, 1)),
        (Layout((2, 3, 4, 5), (0, 0, 5, 1)), (60, 20, 5, 1)),
    ],
    ids=["planes", "pixels", "padded pixels", "rows backward", "broadcast"],
)
def test_to_device_keeps_the_order_of_memory(layout, strides):
    memory = sg.frombuffer(np.arange(300, dtype=np.uint16), (300,), "uint16")
    tensor = memory.as_strided(layout.sizes, layout.strides, layout.offset)
    there = tensor.to_device("cuda-emulated")
    assert there.strides == strides
    assert np.array_equal(there.to_device("cpu").numpy(), tensor.numpy())
    assert sg.asarray(tensor, device="cuda-emulated").strides == strides
