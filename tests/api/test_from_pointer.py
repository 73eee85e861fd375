"""Memory at an address: pitched surfaces of decoders, kept alive by whoever owns them."""

from __future__ import annotations

import ctypes
import gc
import weakref

import numpy as np
import pytest
from harness.guarded_memory import bits_of
from harness.strategies import layouts_of, tensor_sizes
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices import selection

ADDRESS = 0x7000_0000_0000


class Surface:
    """A decoder's frame: rows of bytes `pitch` apart."""

    def __init__(self, height, pitch):
        self.memory = np.random.default_rng(1).integers(0, 256, (height, pitch), np.uint8)
        self.ptr = self.memory.ctypes.data


def test_a_pitched_surface():
    surface = Surface(8, 512)
    frame = sg.from_pointer(surface.ptr, (3, 8, 160), "uint8", layout="HWC", row_pitch_bytes=512, owner=surface)
    assert (frame.sizes, frame.strides, frame.dims, frame.device) == ((3, 8, 160), (1, 512, 3), "CHW", "cpu")
    assert np.array_equal(frame.permute("HWC").numpy(), surface.memory[:, :480].reshape(8, 160, 3))
    assert frame.buffer.nbytes == 7 * 512 + 480, "nothing behind the last pixel is ours"
    assert frame.buffer.alignment >= 16
    frame[:, 0] = 0
    assert not surface.memory[0, :480].any()
    assert surface.memory[0, 480:].any()


def test_the_axes_are_those_that_are_named():
    surface = Surface(4, 64)
    assert sg.from_pointer(surface.ptr, (2, 4, 8), "uint8", dims="CHW", owner=surface).dims == "CHW"
    assert sg.from_pointer(surface.ptr, (2, 4, 8), "uint8", owner=surface).dims is None


def test_an_address_is_that_of_the_first_element_also_of_a_layout_with_an_offset():
    surface = Surface(4, 64)
    given = Layout((4, 8), (64, 1), offset=16)
    tensor = sg.from_pointer(surface.ptr, given.sizes, "uint8", layout=given, owner=surface)
    assert np.array_equal(tensor.numpy(), surface.memory[:, 16:24])
    assert tensor.buffer.nbytes == 3 * 64 + 8


@given(st.data(), tensor_sizes(0, 5, least=0))
def test_any_layout_is_read_where_it_lies(data, sizes):
    layout = data.draw(layouts_of(sizes))
    memory = np.random.default_rng(2).integers(0, 256, 2 * (layout.first_offset + layout.span), np.uint8)
    tensor = sg.from_pointer(memory.ctypes.data, (), "uint16", owner=memory) if memory.size else None
    assert tensor is None or tensor.numpy().ctypes.data == memory.ctypes.data
    address = memory.ctypes.data + 2 * layout.offset
    tensor = sg.from_pointer(address, sizes, "uint16", layout=layout.shifted(-layout.offset), owner=memory)
    assert tensor.strides == layout.strides
    assert np.array_equal(tensor.numpy(), bits_of(layout, 2, memory))


def test_the_owner_lives_as_long_as_any_view():
    surface = Surface(4, 64)
    alive = weakref.ref(surface)
    view = sg.from_pointer(surface.ptr, (4, 16), "float32", owner=surface)[1:, ::2].numpy()
    del surface
    gc.collect()
    assert alive() is not None
    del view
    gc.collect()
    assert alive() is None


def test_read_only_memory_is_not_written():
    surface = Surface(4, 64)
    tensor = sg.from_pointer(ctypes.c_void_p(surface.ptr), (4, 64), "uint8", owner=surface, readonly=True)
    with pytest.raises(sg.BindingError, match="read-only"):
        tensor[...] = 0
    assert not tensor.numpy().flags.writeable


@pytest.mark.parametrize("past, alignment", [(0, 64), (16, 16), (4, 4), (12, 4)])
def test_alignment_is_found_from_the_address(past, alignment):
    surface = Surface(4, 64)
    base = surface.ptr + -surface.ptr % 64
    assert sg.from_pointer(base + past, (8,), "float32", owner=surface).alignment % alignment == 0
    assert sg.from_pointer(base + past, (8,), "float32", owner=surface).alignment % (2 * alignment) or past == 0


def test_memory_of_a_device(gpus):
    tensor = sg.from_pointer(ADDRESS, (2, 3, 4, 5), "float16", layout="NHWC", device="cuda:1", owner=gpus)
    assert tensor.device == "cuda:1"
    assert tensor.__cuda_array_interface__["data"] == (ADDRESS, False)
    assert tensor.buffer.owner is gpus


REFUSALS = {
    "null": ((0, (4,), "uint8"), {}, sg.BindingError, "ptr=0x0"),
    "null pointer": ((ctypes.c_void_p(), (4,), "uint8"), {}, sg.BindingError, "ptr=0x0"),
    "between elements": ((ADDRESS + 2, (4,), "float32"), {}, sg.BindingError, "must be a multiple of 4"),
    "beyond 64 bits": ((2**64, (4,), "uint8"), {}, sg.BindingError, "leave the address space of 64 bits"),
    "over the end": ((2**64 - 16, (32,), "uint8"), {}, sg.BindingError, "leave the address space of 64 bits"),
    "no address": (("0x7000", (4,), "uint8"), {}, sg.LayoutError, "ptr="),
    "negative": ((-16, (4,), "uint8"), {}, sg.LayoutError, "at least 0"),
    "sub-element pitch": ((ADDRESS, (4, 4), "float32"), {"row_pitch_bytes": 18}, sg.LayoutError, "not a multiple of"),
    "other sizes": ((ADDRESS, (4, 4), "uint8"), {"layout": Layout((4, 5))}, sg.LayoutError, "must have the sizes"),
    "no such device": ((ADDRESS, (4,), "uint8"), {"device": "cuda:7"}, sg.DeviceError, "cuda:7"),
}


@pytest.mark.parametrize("arguments, options, error, fragment", REFUSALS.values(), ids=REFUSALS)
def test_refusals(arguments, options, error, fragment, monkeypatch):
    # Where a test before has used the emulated device, addresses on "cuda" are taken to be its own.
    monkeypatch.setattr(selection, "_remote", {})
    with pytest.raises(error) as caught:
        sg.from_pointer(*arguments, owner=None, **options)
    assert fragment in str(caught.value)


def test_an_empty_tensor_needs_no_address():
    assert sg.from_pointer(0, (0, 3), "float32", owner=None).numpy().shape == (0, 3)
