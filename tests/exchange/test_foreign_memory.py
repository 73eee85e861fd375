"""The gate for memory that another library describes: what comes through is the memory that was meant."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from harness.guarded_memory import bits_of, guarded, seeds
from harness.lying_producers import array_interface, lying_buffer
from harness.strategies import element_types, layouts, layouts_of, tensor_sizes
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu import BindingError, LayoutError
from stridedgpu.devices.buffer import ADDRESS_SPACE_BYTES, check_range
from stridedgpu.exchange.foreign_memory import foreign_memory
from stridedgpu.values.dtypes import element_type


@given(tensor_sizes(0, 5, least=0), st.data(), element_types(), seeds)
def test_the_elements_are_those_at_the_address_whatever_the_signs_of_the_strides(sizes, data, element, seed):
    layout = data.draw(layouts_of(sizes))
    _, memory = guarded(layout, element, seed)
    address = memory.ctypes.data + layout.offset * element.itemsize
    operand = foreign_memory("camera", address, layout.sizes, layout.strides, element, owner=memory)
    assert operand.layout.first_offset == 0
    assert 0 in sizes or operand.address == address
    assert operand.buffer.nbytes == layout.span * element.itemsize
    got = bits_of(operand.layout, element.itemsize, operand.buffer.bytes)
    assert got.tobytes() == bits_of(layout, element.itemsize, memory).tobytes()


def test_the_last_byte_of_a_process_is_one_and_the_next_is_the_systems():
    check_range("camera", 2**63 - 4, 2**63 - 4, 4)
    check_range("camera", 0, 0, 0)
    check_range("camera", ADDRESS_SPACE_BYTES - 4, ADDRESS_SPACE_BYTES - 4, 0)
    for address, nbytes in ((2**63 - 4, 5), (2**63, 1), (ADDRESS_SPACE_BYTES - 4, 5), (0, 1), (-1, 1)):
        with pytest.raises(BindingError, match=r"camera describes"):
            check_range("camera", address, address, nbytes)


def test_a_view_that_runs_back_past_address_0_is_refused():
    with pytest.raises(BindingError, match="leave the address space"):
        foreign_memory("camera", 8, (4,), (-4,), element_type("uint8"), owner=None)


def test_no_size_is_negative():
    with pytest.raises(LayoutError, match=r"camera describes sizes \(2, -1\)"):
        foreign_memory("camera", 4096, (2, -1), None, element_type("uint8"), owner=None)


@given(layouts(), seeds)
def test_what_is_read_only_stays_so(layout, seed):
    tensor, memory = guarded(layout, "uint8", seed)
    lowest = memory.ctypes.data + layout.offset
    for readonly in (False, True):
        operand = foreign_memory(
            "camera", lowest, layout.sizes, layout.strides, tensor.element, owner=memory, readonly=readonly
        )
        assert operand.buffer.readonly is readonly
        assert np.array_equal(operand.layout.sizes, layout.sizes)


@pytest.mark.parametrize(
    "address, strides, words",
    [
        (2**64 - 8, None, "24 bytes from 0xfffffffffffffff8 on, which leave the address space"),
        (2**63, None, "24 bytes from 0x8000000000000000 on, where the system has its addresses"),
        (8, (-12, 4), "which leave the address space"),
        (16, (-(2**63), 4), "which leave the address space"),
    ],
    ids=["last bytes", "the system's", "backwards past 0", "the least stride"],
)
def test_an_array_interface_is_believed_by_numpy_and_not_here(address, strides, words):
    told = {"version": 3, "shape": (2, 3), "typestr": "<f4", "data": (address, False), "strides": strides}
    liar = type("Camera", (), {"__array_interface__": told})()
    assert np.asarray(liar).shape == (2, 3)
    with pytest.raises(BindingError, match=f"Camera describes.*{words}"):
        sg.asarray(liar, copy=False)


def test_a_buffer_is_believed_by_numpy_and_not_here():
    liar = (ctypes.c_float * 6).from_address(2**64 - 8)
    assert np.asarray(liar).shape == (6,)
    words = "c_float_Array_6 describes 24 bytes from 0xfffffffffffffff8 on, which leave the address space"
    with pytest.raises(BindingError, match=words):
        sg.asarray(liar, copy=False)
    with pytest.raises(BindingError, match=words):
        sg.frombuffer(liar, (2, 3), "float32")


def test_a_view_whose_strides_leave_the_address_space_is_refused():
    values = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    for strides in ([-(2**62), 4], [2**62, 2**63 - 1]):
        with pytest.raises(BindingError, match="memoryview describes"):
            sg.asarray(lying_buffer(values, {"strides": strides}), copy=False)
    assert np.array_equal(sg.asarray(lying_buffer(values, {}), copy=False).numpy(), values)


STRANGE = {
    "NumPy": lambda memory: np.ndarray((2, 1, 3), "<f4", memory, 0, (12, 3, 4)),
    "array interface": lambda memory: array_interface(
        "__array_interface__",
        {
            "version": 3,
            "shape": (2, 1, 3),
            "typestr": "<f4",
            "strides": (12, -7, 4),
            "data": (memory.ctypes.data, False),
        },
        memory,
    ),
}


@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE)
def test_the_stride_of_an_axis_of_one_element_may_be_any(make):
    """NumPy and DLPack ignore it: no element is ever reached by it."""
    memory = np.arange(6, dtype=np.float32)
    theirs = make(memory)
    shared = sg.asarray(theirs, copy=False)
    assert shared.tolist() == [[[0.0, 1.0, 2.0]], [[3.0, 4.0, 5.0]]]
    assert sg.asarray(theirs).operand.address == memory.ctypes.data
    sg.relayout(np.full((2, 1, 3), 7, np.float32), out=theirs)
    assert memory.tolist() == [7.0] * 6
    with pytest.raises(LayoutError, match="not whole elements of 4 bytes"):
        sg.asarray(np.ndarray((2, 2), "<f4", np.zeros(40, np.uint8), 0, (12, 3)), copy=False)


def described(data, **fields):
    return array_interface("__array_interface__", {"version": 3, "typestr": "|u1", "data": data, **fields}, data)


WITHIN = {
    "all of it": (described(b"abc", shape=(3,)), [97, 98, 99]),
    "from an offset": (described(b"abcdef", shape=(2,), strides=(3,), offset=2), [99, 102]),
    "backwards": (described(bytearray(b"abc"), shape=(2,), strides=(-2,), offset=2), [99, 97]),
    "a part": (described(memoryview(bytearray(b"abcdef"))[2:5], shape=(3,)), [99, 100, 101]),
    "nothing": (described(b"", shape=(0,)), []),
}


@pytest.mark.parametrize("producer, values", WITHIN.values(), ids=WITHIN)
def test_an_interface_to_a_buffer_shares_what_lies_in_it(producer, values):
    assert sg.asarray(producer).tolist() == values


@pytest.mark.parametrize(
    "producer",
    [
        described(b"abc", shape=(4,)),
        described(b"abc", shape=(2,), offset=2),
        described(b"abc", shape=(2,), strides=(-1,)),
        described(b"", shape=(1,)),
        described(bytearray(8), shape=(2,), typestr="<f8"),
        described(memoryview(bytearray(9))[2:5], shape=(4,)),
        described(np.zeros(8, np.uint8), shape=(64,)),
        described(np.zeros(8, np.uint8), shape=(4,), offset=1 << 40),
        described(bytearray(8), shape=(4,), offset=1 << 40),
    ],
)
def test_an_interface_to_a_buffer_with_fewer_bytes_is_refused(producer):
    for take in (sg.asarray, lambda liar: sg.asarray([liar, liar]), lambda liar: sg.full((2,), liar, "uint8")):
        with pytest.raises(BindingError, match=r"an array of \d+ bytes in a buffer of \d, beyond its ends"):
            take(producer)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "F", "1"])
def test_an_image_that_changes_its_shape_while_it_is_copied_is_refused(mode):
    """Pillow copies the pixels, and then says their shape; another thread may change it between the two."""
    image = pytest.importorskip("PIL.Image", reason="it has the images")

    class Changing(image.Image):
        def tobytes(self, *arguments):
            copied = super().tobytes(*arguments)
            self._size = (90, 80)
            return copied

    def changing():
        one = Changing()
        one.__dict__.update(image.new(mode, (9, 8)).__dict__)
        return one

    with pytest.raises(BindingError, match="beyond its ends"):
        sg.asarray(changing())
    if mode in ("L", "F"):  # Pillow converts the others first, and RGB is shared
        with pytest.raises(LayoutError, match=r"row 0: .*beyond its ends"):
            sg.Preprocess(crop=4, mode="gray", device="cpu")([changing()])
