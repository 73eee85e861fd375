"""Making tensors: new memory of any layout, and memory that others hold, without a copy where that is possible."""

from __future__ import annotations

import array
import ctypes
import mmap

import ml_dtypes
import numpy as np
import pytest
from harness.strategies import layouts_of, order_strings, tensor_sizes
from hypothesis import given, strategies as st
from numpy.lib.stride_tricks import as_strided
from PIL import Image

import stridedgpu as sg
from stridedgpu import Layout, StridedTensor
from stridedgpu.values.dtypes import ELEMENT_TYPES

# New memory


@given(order_strings(), st.data())
def test_empty_in_any_order(order, data):
    sizes = data.draw(tensor_sizes(len(order), len(order), least=0))
    tensor = sg.empty(sizes, "float16", layout=order, device="cpu")
    assert (tensor.sizes, tensor.strides) == (sizes, sg.calculate_strides(order, sizes))
    assert sorted(tensor.dims) == sorted(order)
    assert tensor.layout.is_packed
    if 0 not in sizes:
        assert tensor.buffer.nbytes == sg.calc_buffer_tensor_size("float16", sizes, tensor.strides)


@given(tensor_sizes(0, 8), st.data())
def test_empty_in_an_exact_layout(sizes, data):
    layout = data.draw(layouts_of(sizes, broadcast=False))
    tensor = sg.empty(sizes, "uint16", layout=layout, device="cpu")
    assert tensor.strides == layout.strides
    assert tensor.layout.first_offset == 0
    tensor[...] = 3
    assert np.array_equal(tensor.numpy(), np.full(sizes, 3))


def test_row_pitch():
    assert sg.empty((2, 3, 4, 5), "uint8", layout="NHWC", row_pitch_bytes=16, device="cpu").strides == (64, 1, 16, 3)
    assert sg.empty((3, 4, 5), "float32", row_pitch_bytes=64, device="cpu").strides == (64, 16, 1)
    assert sg.empty((4, 5), "uint8", layout="WH", row_pitch_bytes=8, device="cpu").strides == (1, 8)


def test_memory_ends_on_four_bytes_as_directml_wants():
    assert sg.empty((5,), "uint8", device="cpu").buffer.nbytes == 8
    assert sg.empty((3,), "float16", device="cpu").buffer.nbytes == 8
    assert sg.empty((0, 3), "float16", device="cpu").buffer.nbytes == 0


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_zeros_and_full_of_every_type(name):
    zeros = sg.zeros((2, 3), "uint8" if name.startswith("float8") else name, device="cpu")
    assert zeros.buffer.bytes[: zeros.nbytes].tobytes() == bytes(zeros.nbytes)
    if not name.startswith("float8"):
        assert sg.full((2, 3), 1, name, device="cpu").numpy().tolist() == [[1] * 3] * 2


@pytest.mark.parametrize(
    "value, dtype, expected",
    [
        (255, "uint8", 255),
        (-128, "int8", -128),
        (2**64 - 1, "uint64", 2**64 - 1),
        (-(2**63), "int64", -(2**63)),
        (2.5, "uint8", 2),
        (1e9, "int16", 32767),
        (True, "float32", 1.0),
        (np.float32(0.1), "float64", float(np.float32(0.1))),
        (0.1, "float32", float(np.float32(0.1))),
        (2**24 + 1, "float32", 2.0**24),
        (1 + 2j, "complex64", 1 + 2j),
        (3, "complex128", 3 + 0j),
    ],
)
def test_fill_values_convert_as_relayout_does(value, dtype, expected):
    tensor = sg.full((3,), value, dtype, device="cpu")
    assert tensor.numpy().tolist() == [expected] * 3


def test_filling_leaves_nothing_undefined_in_padded_tensors():
    tensor = sg.full((1, 3, 4, 5), 9, "uint8", layout="NHWC", row_pitch_bytes=16, device="cpu")
    assert np.array_equal(tensor.numpy(), np.full((1, 3, 4, 5), 9))


# Memory of others


def shares(tensor, array_):
    return tensor.operand.address == np.asarray(array_).ctypes.data


@given(tensor_sizes(0, 6, least=0), st.data())
def test_numpy_arrays_of_any_strides_are_wrapped(sizes, data):
    layout = data.draw(layouts_of(sizes))
    memory = np.arange(layout.first_offset + layout.span + 9, dtype=np.int32)
    given_array = as_strided(memory[layout.offset :], sizes, [4 * stride for stride in layout.strides])
    tensor = sg.asarray(given_array, copy=False)
    assert tensor.sizes == sizes
    assert np.array_equal(tensor.numpy(), given_array)
    assert not given_array.size or shares(tensor, given_array)
    assert not tensor.operand.owns_padding


@pytest.mark.parametrize("dtype", [name for name, element in ELEMENT_TYPES.items() if element.kind != "o"])
def test_every_type_of_array(dtype):
    made = np.ones(4, getattr(ml_dtypes, dtype, dtype) if dtype == "bfloat16" else dtype)
    tensor = sg.asarray(made)
    assert tensor.element.name == dtype
    assert tensor.dtype == made.dtype
    assert shares(tensor, made)


def test_bfloat16_and_float8_arrays_of_ml_dtypes():
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        numbers = np.array([1.5, -2.0, 0.0], dtype)
        tensor = sg.asarray(numbers[::-1])
        assert tensor.numpy().dtype == dtype
        assert tensor.numpy().tolist() == [0.0, -2.0, 1.5]
        assert shares(tensor, numbers[::-1])
    assert sg.asarray(np.array([1.5], ml_dtypes.bfloat16), dtype="float32").numpy().tolist() == [1.5]


@pytest.mark.parametrize("dims", ["NHWC", "NCHW", "CHWN", "WHCN", "HWC", "WC", "W"])
def test_dims_say_how_the_given_axes_are_ordered(dims):
    sizes = tuple({"N": 2, "C": 3, "H": 4, "W": 5}[letter] for letter in dims)
    frames = np.arange(np.prod(sizes), dtype=np.int16).reshape(sizes)
    tensor = sg.asarray(frames, dims=dims, copy=False)
    canonical = "".join(letter for letter in "NCHW" if letter in dims)
    assert tensor.dims == canonical
    assert np.array_equal(tensor.numpy(), frames.transpose([dims.index(letter) for letter in canonical]))
    assert np.array_equal(tensor.permute(dims).numpy(), frames)


def test_plain_axes_stand_before_the_labelled_ones():
    tensor = sg.asarray(np.zeros((7, 2, 4, 5, 3)), dims="HWC")
    assert (tensor.sizes, tensor.dims) == (((7, 2, 3, 4, 5)), "CHW")


def test_python_numbers_and_sequences_are_copied():
    for value in (3, 2.5, True, 1j, [[1, 2], [3, 4]], (1.5, 2.5), [], np.float16(2)):
        tensor = sg.asarray(value)
        assert tensor.dtype == np.asarray(value).dtype
        assert np.array_equal(tensor.numpy(), np.asarray(value))
        assert not tensor.buffer.readonly or isinstance(value, np.generic)


@pytest.mark.parametrize(
    "memory, dtype",
    [
        pytest.param(bytearray(range(8)), "uint8", id="bytearray"),
        pytest.param(memoryview(bytearray(range(8))), "uint8", id="memoryview"),
        pytest.param(memoryview(bytearray(range(8))).cast("i"), "int32", id="memoryview of int"),
        pytest.param(memoryview(bytearray(range(8)))[::2], "uint8", id="memoryview with a step"),
        pytest.param(memoryview(bytearray(range(8))).cast("B", (2, 4)), "uint8", id="memoryview of rank 2"),
    ],
)
def test_memory_with_the_buffer_protocol_is_shared(memory, dtype):
    tensor = sg.asarray(memory, copy=False)
    assert tensor.element.name == dtype
    assert tensor.sizes == np.asarray(memory).shape
    assert shares(tensor, memory)
    tensor[...] = 1
    assert (np.asarray(memory) == 1).all()


@pytest.mark.parametrize(
    "memory",
    [array.array("d", [1, 2, 3]), mmap.mmap(-1, 4096), (ctypes.c_int16 * 6)(), b"bytes"],
    ids=["array.array", "mmap", "ctypes", "bytes"],
)
def test_any_buffer_is_shared(memory):
    for held in (memory, memoryview(memory)):
        tensor = sg.asarray(held, copy=False)
        assert shares(tensor, np.asarray(memoryview(memory)))
        assert tensor.buffer.readonly == isinstance(memory, bytes)


class Column:
    """What pandas, xarray and zarr have: an array for whoever asks."""

    def __init__(self, array, *, can_share=True):
        self.array, self.can_share = array, can_share

    def __array__(self, dtype=None, copy=None):
        if copy is False and not self.can_share:
            raise ValueError("a copy cannot be avoided")
        return self.array if self.can_share else self.array.copy()


def test_objects_that_numpy_makes_arrays_of():
    numbers = np.arange(6.0)
    assert shares(sg.asarray(Column(numbers)), numbers)
    assert shares(sg.asarray(Column(numbers), copy=False), numbers)
    assert not shares(sg.asarray(Column(numbers), copy=True), numbers)
    assert sg.asarray(Column(numbers, can_share=False)).numpy().tolist() == numbers.tolist()
    for source in (Column(numbers, can_share=False), np.float64(2)):
        with pytest.raises(sg.LayoutError, match="no memory that a tensor could share"):
            sg.asarray(source, copy=False)


def test_pillow_images():
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 3), np.uint8)
    tensor = sg.asarray(Image.fromarray(pixels), dims="HWC")
    assert tensor.sizes == (3, 4, 5)
    assert np.array_equal(tensor.permute("HWC").numpy(), pixels)
    grey = sg.asarray(Image.fromarray(pixels[..., 0]), dims="HW")
    assert np.array_equal(grey.numpy(), pixels[..., 0])
    black = sg.asarray(Image.fromarray(pixels[..., 0] > 99), dims="HW")
    assert np.array_equal(black.numpy(), pixels[..., 0] > 99)


class WithInterface:
    def __init__(self, made):
        self.made = made
        self.__array_interface__ = made.__array_interface__


class WithDlpack:
    def __init__(self, made):
        self.made = made

    def __dlpack__(self, **arguments):
        return self.made.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.made.__dlpack_device__()


@pytest.mark.parametrize("wrap", [WithInterface, WithDlpack])
def test_objects_with_a_protocol_are_shared(wrap):
    numbers = np.arange(24, dtype=np.float32).reshape(2, 3, 4)[:, ::2, ::-1]
    tensor = sg.asarray(wrap(numbers), copy=False)
    assert np.array_equal(tensor.numpy(), numbers)
    assert shares(tensor, numbers)
    tensor[0, 0, 0] = -1
    assert numbers[0, 0, 0] == -1


def test_from_dlpack():
    frames = np.arange(120, dtype=np.uint8).reshape(2, 4, 5, 3)
    for source in (frames, WithDlpack(frames)):
        tensor = sg.from_dlpack(source, dims="NHWC")
        assert (tensor.sizes, tensor.strides, tensor.dims) == ((2, 3, 4, 5), (60, 1, 15, 3), "NCHW")
        assert shares(tensor, frames)


@pytest.mark.interop
def test_tensors_of_torch_are_shared():
    torch = pytest.importorskip("torch")
    numbers = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4).permute(2, 0, 1)
    tensor = sg.asarray(numbers, copy=False)
    assert tensor.sizes == (4, 2, 3)
    tensor[...] = 5
    assert bool((numbers == 5).all())
    assert sg.zeros((3,), torch.bfloat16, device="cpu").dtype == ml_dtypes.bfloat16
    assert sg.asarray(numbers, dtype=torch.int16).element.name == "int16"


def test_a_tensor_is_itself():
    tensor = sg.zeros((2, 3), "uint8")
    assert sg.asarray(tensor) is tensor
    assert sg.asarray(tensor, dtype="uint8", copy=False) is tensor


# Copies


def test_copy_always():
    numbers = np.arange(6).reshape(2, 3)
    for source in (numbers, sg.asarray(numbers)):
        tensor = sg.asarray(source, copy=True)
        assert not shares(tensor, numbers)
        assert np.array_equal(tensor.numpy(), numbers)
        tensor[...] = 0
    assert numbers.any()


def test_dtype_converts_as_relayout_does():
    tensor = sg.asarray(np.array([0.5, 1.5, 300.0]), dtype="uint8")
    assert tensor.numpy().tolist() == [0, 2, 255]


def big_endian():
    return np.arange(6, dtype=">i4").reshape(2, 3)


def off_the_grid():
    return np.zeros(6, np.dtype([("tag", "u1"), ("value", "<i4")]))["value"]


def unaligned():
    memory = np.zeros(17, np.uint8)
    start = 1 if memory.ctypes.data % 4 == 0 else 0
    return memory[start : start + 16].view(np.int32)


@pytest.mark.parametrize("make", [big_endian, off_the_grid, unaligned], ids=lambda make: make.__name__)
def test_what_a_layout_cannot_say_is_copied(make):
    source = make()
    tensor = sg.asarray(source)
    assert np.array_equal(tensor.numpy(), source)
    assert tensor.dtype.isnative
    assert not shares(tensor, source)
    assert tensor.operand.address % tensor.itemsize == 0
    assert np.array_equal(sg.asarray(source, copy=True).numpy(), source)


def test_elements_off_their_own_alignment_are_shared_when_no_copy_is_wanted():
    source = unaligned()
    source[:] = [1, -2, 3, -4]
    tensor = sg.asarray(source, copy=False)
    assert shares(tensor, source)
    assert tensor.alignment < tensor.itemsize
    assert tensor[::-1].relayout().numpy().tolist() == [-4, 3, -2, 1]
    assert tensor.relayout(dtype="float64", scale=0.5).numpy().tolist() == [0.5, -1.0, 1.5, -2.0]
    tensor[1:3] = [7, 8]
    assert source.tolist() == [1, 7, 8, -4]


def test_a_tensor_over_somebody_s_memory():
    memory = bytearray(range(12))
    tensor = StridedTensor(memory, Layout((2, 3), (5, 1), offset=1), "uint8", dims="HW")
    assert tensor.numpy().tolist() == [[1, 2, 3], [6, 7, 8]]
    tensor[1] = 0
    assert memory == bytes([0, 1, 2, 3, 4, 5, 0, 0, 0, 9, 10, 11])


def test_a_masked_array_is_refused_where_it_hides_elements():
    whole = np.ma.array([1, 2, 3])
    assert sg.asarray(whole).numpy().tolist() == [1, 2, 3]
    hiding = np.ma.array([1, 2, 3], mask=[False, True, False])
    for call in (sg.asarray, lambda given: sg.gather(given, [0]), lambda given: sg.asarray(given, copy=True)):
        with pytest.raises(sg.LayoutError, match="hides 1 of its 3 elements"):
            call(hiding)
    assert sg.asarray(hiding.filled(0)).numpy().tolist() == [1, 0, 3]


@pytest.mark.interop
def test_a_tensor_of_pytorch_keeps_its_memory_strides_and_refusals():
    torch = pytest.importorskip("torch")
    given = torch.arange(24, dtype=torch.int16).reshape(2, 3, 4).permute(2, 0, 1)[::2]
    tensor = sg.asarray(given)
    assert (tensor.operand.address, tensor.strides) == (given.data_ptr(), given.stride())
    given[1, 0, 0] = 99
    assert tensor.numpy()[1, 0, 0] == 99
    assert sg.asarray(given, copy=True).operand.address != given.data_ptr()
    # What has no array goes by DLPack: another type, or the words of its refusal.
    assert sg.asarray(torch.ones(2, dtype=torch.bfloat16)).element.name == "bfloat16"
    with pytest.raises(BufferError, match="require gradient"):
        sg.asarray(torch.ones(2, requires_grad=True))


def test_zeros_are_zeros_beyond_the_cache_too():
    tensor = sg.zeros((3, 1 << 20), "float32", row_pitch_bytes=(1 << 22) + 64, alignment=4096, device="cpu")
    assert tensor.operand.address % 4096 == 0
    assert not tensor.buffer.bytes.any(), "padding included"


class Named:
    """What xarray's arrays have: an array for whoever asks, and names of the axes."""

    def __init__(self, array, *dims):
        self.array, self.dims, self.shape = array, dims, array.shape

    def __array__(self, dtype=None, copy=None):
        return self.array


def test_an_array_that_names_its_axes_is_taken_at_its_word():
    array = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 4, 5, 3)
    given = Named(array, "time", "y", "x", "band")
    tensor = sg.asarray(given)
    assert (tensor.dims, tensor.sizes) == ("NCHW", (2, 3, 4, 5))
    np.testing.assert_array_equal(tensor.numpy(), array.transpose(0, 3, 1, 2))
    assert sg.relayout(given, layout="NCHW").strides == (60, 20, 5, 1)
    windows = sg.gather_crops(given, [(1, 2), (0, 1)], (2, 2))
    np.testing.assert_array_equal(windows.numpy()[0], array[0, 1:3, 2:4].transpose(2, 0, 1))
    [image] = sg.Preprocess(crop=2, dtype="uint8", device="cpu")(
        [Named(array[0].transpose(2, 0, 1), "bands", "Y", "X")]
    )
    np.testing.assert_array_equal(image, array[0, 1:3, 2:4].transpose(2, 0, 1))


def test_dims_that_contradict_the_names_of_the_axes_are_refused():
    with pytest.raises(sg.LayoutError, match=r"dims='HWC' contradicts the names .* 'band', 'y', 'x' \('CHW'\)"):
        sg.asarray(Named(np.zeros((3, 4, 5), np.uint8), "band", "y", "x"), dims="HWC")


@pytest.mark.parametrize("dims", [("y", "lat"), ("y", "member"), ("y", 3)], ids=["twice", "unknown", "no name"])
def test_axes_with_other_names_are_plain(dims):
    assert sg.asarray(Named(np.zeros((4, 5), np.uint8), *dims)).dims is None


def test_what_is_no_obvious_argument_is_named():
    array = np.zeros((2, 3), np.float32)
    for call in (sg.from_dlpack, sg.asarray, sg.relayout):
        with pytest.raises(TypeError, match="positional argument"):
            call(array, "HW")
    with pytest.raises(TypeError, match="positional argument"):
        sg.empty((2, 3), "uint8", "NHWC")
    assert sg.from_dlpack(obj=array).sizes == (2, 3)
