"""`frombuffer`: bytes that somebody else filled, as a tensor over them."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

import stridedgpu as sg


@settings(max_examples=examples(100))
@given(
    order=st.sampled_from(["HW", "HWC", "CHW", "NHWC", "NCHW", "NDHWC"]),
    sizes=st.lists(st.integers(1, 5), min_size=5, max_size=5),
    dtype=st.sampled_from(["uint8", "int16", "float32"]),
    extra=st.integers(0, 3),
    skipped=st.integers(0, 3),
)
def test_elements_are_those_of_numpy_over_the_same_bytes(order, sizes, dtype, extra, skipped):
    sizes = tuple(sizes[: len(order)])
    itemsize = np.dtype(dtype).itemsize
    row = int(np.prod(sizes[order.index("H") + 1 :]))
    pitch = (row + extra) * itemsize
    outer = sizes[: order.index("H") + 1]
    memory = np.random.default_rng(1).integers(0, 256, int(np.prod(outer)) * pitch + skipped * itemsize, np.uint8)
    rows = np.frombuffer(memory, dtype, offset=skipped * itemsize).reshape(*outer, row + extra)[..., :row]
    expected = rows.reshape(sizes)
    made = sg.frombuffer(memory, sizes, dtype, dims=order, row_pitch_bytes=pitch, offset_bytes=skipped * itemsize)
    assert np.array_equal(made.permute(order).numpy(), expected, equal_nan=True)
    assert made.operand.address == memory.ctypes.data + skipped * itemsize


def test_memory_stays_alive_and_writable_as_it_was():
    surface = bytearray(2 * 64)
    frame = sg.frombuffer(surface, (2, 10, 3), "uint8", dims="HWC", row_pitch_bytes=64)
    frame[:, 1, 9] = 9
    assert surface[64 + 27 :][:3] == b"\x09\x09\x09"
    with pytest.raises(BufferError):
        surface.append(0)
    assert sg.frombuffer(bytes(6), (2, 3), "uint8").buffer.readonly


@pytest.mark.parametrize("memory", [mmap.mmap(-1, 4096), (ctypes.c_uint8 * 24)(), memoryview(bytearray(24))], ids=type)
def test_whatever_has_the_buffer_protocol(memory):
    assert sg.frombuffer(memory, (2, 3), "float32").strides == (3, 1)


def test_no_axes_and_no_elements():
    assert sg.frombuffer(b"\x07", (), "uint8").item() == 7
    assert sg.frombuffer(b"", (0, 3), "float32").sizes == (0, 3)


REFUSED = {
    "too short": ({"sizes": (4, 8)}, sg.BindingError, r"buffer has 24 bytes; sizes=\(4, 8\) of uint8 .* need 32"),
    "offset": ({"sizes": (4, 6), "offset_bytes": 1}, sg.BindingError, "need 24 from offset_bytes=1 on"),
    "misaligned": (
        {"sizes": (2,), "dtype": "float32", "offset_bytes": 2},
        sg.BindingError,
        "not a multiple of the 4 bytes",
    ),
    "other dims": ({"sizes": (2, 3), "dims": "HWC"}, sg.LayoutError, "dims='HWC'"),
    "fewer dims": ({"sizes": (2, 3, 4), "dims": "HW"}, sg.LayoutError, "dims='HW' names 2 axes, and there are 3"),
    "no bytes": ({"buffer": [1, 2], "sizes": (2,)}, sg.BindingError, "buffer protocol"),
}


@pytest.mark.parametrize("arguments, kind, message", REFUSED.values(), ids=REFUSED.keys())
def test_what_does_not_fit_is_refused_in_a_sentence(arguments, kind, message):
    with pytest.raises(kind, match=message):
        sg.frombuffer(**{"buffer": bytearray(24), "dtype": "uint8"} | arguments)


# The array of the device's library


def test_native_is_numpys_array_on_the_cpu():
    tensor = sg.zeros((2, 3), "float32", row_pitch_bytes=16, device="cpu")
    assert tensor.xp is np
    tensor.native()[1, 2] = 5
    assert tensor[1, 2].item() == 5


def test_native_is_cupys_array_on_a_gpu(gpus):
    import cupy

    tensor = sg.zeros((2, 3), "float32", row_pitch_bytes=16, device="cuda:1")
    array = tensor.native()
    assert tensor.xp is cupy
    assert isinstance(array, cupy.ndarray)
    assert (array.shape, array.strides) == ((2, 3), (16, 4))


def test_read_only_memory_of_a_gpu_has_no_array(gpus):
    tensor = sg.from_pointer(1 << 20, (4,), "uint8", owner=None, device="cuda", readonly=True)
    with pytest.raises(sg.LayoutError, match="CuPy has no such arrays"):
        tensor.native()
