"""`BufferTensorDesc`: DirectML's descriptor, every rule of it, and the struct that C code reads."""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import gc
import pickle

import numpy as np
import pytest
from harness.strategies import data_types, layouts, offsets_of
from hypothesis import given, strategies as st

from stridedgpu.values.descriptor import BufferTensorDesc, DmlBufferTensorDesc
from stridedgpu.values.dtypes import DataType
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import calc_buffer_tensor_size, packed_strides

IMAGE = (1, 3, 4, 5)


def test_what_is_left_out_is_packed_minimal_and_unaligned():
    desc = BufferTensorDesc(np.float16, [1, np.int64(3), 4, 5])
    assert desc.data_type is DataType.FLOAT16
    assert desc.sizes == IMAGE
    assert desc.strides is None
    assert desc.total_tensor_size_in_bytes == desc.minimum_implied_size_in_bytes == 120
    assert desc.guaranteed_base_offset_alignment == 0
    assert desc.flags == 0
    assert desc.layout == Layout(IMAGE)


@given(layouts(1, 8, flips=False), data_types())
def test_a_descriptor_is_its_layout_from_offset_0(layout, data_type):
    desc = BufferTensorDesc(data_type, layout.sizes, layout.strides)
    assert offsets_of(desc.layout) == [place - layout.offset for place in offsets_of(layout)]
    assert desc.minimum_implied_size_in_bytes == calc_buffer_tensor_size(data_type, layout.sizes, layout.strides)
    elements_in_whole_words = desc.minimum_implied_size_in_bytes * 8 - layout.span * data_type.bits
    assert 0 <= elements_in_whole_words < 32


def test_descriptors_are_values():
    desc = BufferTensorDesc("uint8", IMAGE, (60, 1, 15, 3), 64, 32, BufferTensorDesc.OWNED_BY_DML)
    same = BufferTensorDesc(
        DataType.UINT8, list(IMAGE), [60, 1, 15, 3], 64, guaranteed_base_offset_alignment=32, flags=1
    )
    assert desc == same
    assert hash(desc) == hash(same)
    assert desc != BufferTensorDesc("uint8", IMAGE)
    assert pickle.loads(pickle.dumps(desc)) == desc == copy.deepcopy(desc)
    assert dataclasses.replace(desc, flags=0).flags == 0
    with pytest.raises(LayoutError, match="below the minimum"):
        dataclasses.replace(desc, total_tensor_size_in_bytes=56)
    with pytest.raises(dataclasses.FrozenInstanceError):
        desc.flags = 0


@pytest.mark.parametrize(
    "data_type, sizes, strides, options",
    [
        pytest.param("uint8", (1,), None, {}, id="a scalar"),
        pytest.param("uint8", (1,) * 8, None, {}, id="rank 8"),
        pytest.param("uint8", (2**32 - 1,), None, {}, id="2^32-1 elements"),
        pytest.param("uint8", (2, 1), (2**32 - 2, 1), {}, id="2^32-1 elements from first to last"),
        pytest.param("uint8", (1, 1), (2**32 - 1, 2**32 - 1), {}, id="the largest strides"),
        pytest.param("float32", (65535, 65535), (0, 0), {}, id="broadcast"),
        pytest.param("float32", (3, 4), (1, 1), {}, id="an input may overlap itself"),
        pytest.param("uint4", (7,), None, {"guaranteed_base_offset_alignment": 1}, id="4 bits"),
        pytest.param("float64", (2,), None, {"guaranteed_base_offset_alignment": 8}, id="aligned to an element"),
        pytest.param("uint8", (2,), None, {"guaranteed_base_offset_alignment": 2**31}, id="the largest alignment"),
        pytest.param("uint8", (2,), None, {"total_tensor_size_in_bytes": 2**64 - 4}, id="the largest total"),
    ],
)
def test_what_is_just_allowed(data_type, sizes, strides, options):
    desc = BufferTensorDesc(data_type, sizes, strides, **options)
    struct = desc.to_ctypes()
    assert struct.TotalTensorSizeInBytes == desc.total_tensor_size_in_bytes
    assert struct.GuaranteedBaseOffsetAlignment == desc.guaranteed_base_offset_alignment


def of(**changed: object) -> object:
    """A call that makes a descriptor with some arguments changed."""
    arguments = {"data_type": "float32", "sizes": (2, 3)} | changed
    return lambda: BufferTensorDesc(**arguments)


MISTAKES = {
    "unknown type": (of(data_type="unknown"), LayoutError, "data_type is UNKNOWN"),
    "no DirectML type": (of(data_type="complex64"), ElementTypeError, "no element type 'complex64'"),
    "rank 0": (
        of(sizes=()),
        LayoutError,
        r"sizes=\(\) has rank 0; DirectML takes rank 1 to 8: a scalar is described as",
    ),
    "rank 9": (of(sizes=(1,) * 9), LayoutError, "has rank 9; DirectML takes rank 1 to 8: merge axes"),
    "size 0": (of(sizes=(2, 0)), LayoutError, r"sizes=\(2, 0\) holds a size below 1"),
    "size negative": (of(sizes=(2, -3)), LayoutError, r"sizes=\(2, -3\) holds a size below 1"),
    "size a float": (of(sizes=(2, 3.5)), LayoutError, r"sizes=\(2, 3.5\) must be integers"),
    "2^32 elements": (of(sizes=(2**16, 2**16)), LayoutError, "hold 4294967296 elements; DirectML's limit is 2.32-1"),
    "2^32 broadcast elements": (of(sizes=(2**32, 1), strides=(0, 0)), LayoutError, "hold 4294967296 elements"),
    "2^32 elements from first to last": (of(strides=(2**32 - 3, 1)), LayoutError, "span 4294967296 elements"),
    "strides too few": (of(strides=(1,)), LayoutError, r"strides=\(1,\) has 1 entries for 2 sizes \(2, 3\)"),
    "strides negative": (of(strides=(3, -1)), LayoutError, r"strides=\(3, -1\) are negative in places.*relayout first"),
    "strides beyond 32 bits": (
        of(sizes=(1, 3), strides=(2**32, 1)),
        LayoutError,
        r"strides=\(4294967296, 1\) do not fit 32 bits",
    ),
    "strides floats": (of(strides=(3.0, 1.0)), LayoutError, r"strides=\(3.0, 1.0\) must be integers"),
    "total too small": (
        of(total_tensor_size_in_bytes=20),
        LayoutError,
        "total_tensor_size_in_bytes=20 is below the minimum implied size of 24 bytes",
    ),
    "total no multiple of 4": (
        of(total_tensor_size_in_bytes=26),
        LayoutError,
        "total_tensor_size_in_bytes=26 is not a multiple of 4; the next is 28",
    ),
    "total beyond 64 bits": (
        of(total_tensor_size_in_bytes=2**64),
        LayoutError,
        "total_tensor_size_in_bytes=18446744073709551616 does not fit 64 bits",
    ),
    "total a float": (
        of(total_tensor_size_in_bytes=24.0),
        LayoutError,
        r"total_tensor_size_in_bytes=\(24.0,\) must be",
    ),
    "alignment no power of two": (
        of(guaranteed_base_offset_alignment=48),
        LayoutError,
        "guaranteed_base_offset_alignment=48 is not 0 or a power of two",
    ),
    "alignment negative": (of(guaranteed_base_offset_alignment=-16), LayoutError, "alignment=-16 is not 0 or a power"),
    "alignment below an element": (
        of(guaranteed_base_offset_alignment=2),
        LayoutError,
        "guaranteed_base_offset_alignment=2 is smaller than an element of FLOAT32, 4 bytes",
    ),
    "alignment beyond 32 bits": (of(guaranteed_base_offset_alignment=2**32), LayoutError, "does not fit 32 bits"),
    "flags": (of(flags=2), LayoutError, "flags=2 is unknown; DirectML defines 0 and OWNED_BY_DML = 1"),
}


@pytest.mark.parametrize("call, error, message", MISTAKES.values(), ids=MISTAKES.keys())
def test_refusals(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert caught.type is error


# Binding

BOUND = BufferTensorDesc("uint8", (100,), total_tensor_size_in_bytes=128, guaranteed_base_offset_alignment=64)


@pytest.mark.parametrize("offset, size", [(0, 128), (64, 128), (2**40, 4096)])
def test_ranges_that_fit(offset, size):
    assert BOUND.check_binding(offset, size) is None


@pytest.mark.parametrize(
    "offset, size, message",
    [
        pytest.param(-64, 128, "offset=-64 lies before the buffer", id="negative"),
        pytest.param(8, 128, "offset=8 is not a multiple of 16, as every binding", id="no multiple of 16"),
        pytest.param(
            32, 128, "offset=32 is not a multiple of guaranteed_base_offset_alignment=64", id="not as promised"
        ),
        pytest.param(64, 124, "size_in_bytes=124 is less than total_tensor_size_in_bytes=128", id="too short"),
    ],
)
def test_ranges_that_do_not_fit(offset, size, message):
    with pytest.raises(BindingError, match=message):
        BOUND.check_binding(offset, size)


def test_without_a_guarantee_16_is_still_asked_for():
    desc = BufferTensorDesc("uint8", (100,))
    desc.check_binding(16, 100)
    with pytest.raises(BindingError, match="offset=4 is not a multiple of 16"):
        desc.check_binding(4, 100)


# The C struct


def test_the_struct_lies_as_in_a_64_bit_abi():
    assert ctypes.sizeof(DmlBufferTensorDesc) == 48
    assert [getattr(DmlBufferTensorDesc, name).offset for name, _ in DmlBufferTensorDesc._fields_] == [
        0, 4, 8, 16, 24, 32, 40,
    ]  # fmt: skip


def test_the_struct_holds_what_the_descriptor_says():
    desc = BufferTensorDesc("int16", IMAGE, (60, 1, 15, 3), 128, 32, BufferTensorDesc.OWNED_BY_DML)
    struct = desc.to_ctypes()
    raw = bytes(struct)
    numbers = [int.from_bytes(raw[at : at + 4], "little") for at in (0, 4, 8, 40)]
    assert numbers == [DataType.INT16, 1, 4, 32]
    assert int.from_bytes(raw[32:40], "little") == 128
    # Read through the addresses in the bytes, as C code does.
    for at, expected in ((16, IMAGE), (24, (60, 1, 15, 3))):
        address = int.from_bytes(raw[at : at + 8], "little")
        assert tuple((ctypes.c_uint32 * 4).from_address(address)) == expected


def test_packed_strides_are_a_null_pointer():
    struct = BufferTensorDesc("uint8", IMAGE).to_ctypes()
    assert not struct.Strides
    assert bytes(struct)[24:32] == bytes(8)


@pytest.mark.parametrize("sizes", [[3], [1, 2, 3, 4], [1] * 8], ids=["rank 1", "rank 4", "rank 8"])
def test_the_arrays_live_as_long_as_the_struct(sizes):
    structs = [BufferTensorDesc("uint8", sizes, [7 + place] * len(sizes)).to_ctypes() for place in range(20)]
    gc.collect()
    noise = [(ctypes.c_uint32 * len(sizes))(*[99] * len(sizes)) for _ in range(20)]
    for place, struct in enumerate(structs):
        assert struct.Sizes[: struct.DimensionCount] == sizes
        assert struct.Strides[: struct.DimensionCount] == [7 + place] * len(sizes)
    del noise


@given(
    st.sampled_from([member for member in DataType if member]),
    st.lists(st.integers(1, 6), min_size=1, max_size=8),
    st.booleans(),
    st.sampled_from([0, 16, 64]),
)
def test_a_struct_and_its_descriptor_say_the_same(data_type, sizes, with_strides, alignment):
    strides = packed_strides(sizes) if with_strides else None
    desc = BufferTensorDesc(data_type, sizes, strides, guaranteed_base_offset_alignment=alignment)
    assert BufferTensorDesc.from_ctypes(desc.to_ctypes()) == desc


def test_a_struct_that_breaks_a_rule_is_refused():
    struct = BufferTensorDesc("uint8", (1, 3, 4, 5)).to_ctypes()
    struct.TotalTensorSizeInBytes = 4
    with pytest.raises(LayoutError, match="total_tensor_size_in_bytes=4 is below"):
        BufferTensorDesc.from_ctypes(struct)
    with pytest.raises(LayoutError, match="DimensionCount=0 and Sizes=null"):
        BufferTensorDesc.from_ctypes(type(struct)())
    with pytest.raises(LayoutError, match="object has no DataType"):
        BufferTensorDesc.from_ctypes(object())


def test_types_have_the_names_and_numbers_of_the_sdk():
    for member in DataType:
        assert DataType.of(f"DML_TENSOR_DATA_TYPE_{member.name}" if member else member) is member
        assert DataType.of(int(member)) is member
    with pytest.raises(ElementTypeError, match="data_type=14 is no DML_TENSOR_DATA_TYPE; these are 0 to 13"):
        DataType.of(14)
    with pytest.raises(ElementTypeError, match="no element type 'real'"):
        DataType.of("DML_TENSOR_DATA_TYPE_REAL")
