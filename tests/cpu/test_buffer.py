"""Buffers: what is borrowed, what is owned, and what their alignment guarantees."""

from __future__ import annotations

import array
import gc
import mmap
import weakref

import numpy as np
import pytest
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu.devices.buffer import Buffer, alignment_of
from stridedgpu.devices.cpu.device import CpuDevice

ALIGNMENTS = [2**power for power in range(13)]


@given(st.integers(0, 2**64 - 1))
def test_alignment_of_an_address(address):
    found = alignment_of(address)
    assert found in ALIGNMENTS
    assert address % found == 0
    assert found == 4096 or address % (2 * found) == found


@pytest.mark.parametrize("alignment", [*ALIGNMENTS, 1 << 16, 1 << 21])
def test_allocated_memory_lies_at_a_multiple_of_the_alignment(alignment):
    for nbytes in (0, 1, 4, 1000, 100_003):
        buffer = CpuDevice().allocate(nbytes, alignment)
        assert buffer.address % alignment == 0
        assert (buffer.nbytes, buffer.alignment, buffer.device) == (nbytes, alignment, "cpu")
        assert buffer.owned
        assert not buffer.readonly
        buffer.bytes[:] = 7
        assert buffer.bytes.sum() == 7 * nbytes


@pytest.mark.parametrize("alignment", ALIGNMENTS[4:])
def test_tensors_keep_the_alignment_they_were_asked_for(alignment):
    tensors = [
        sg.empty((3, 5), "uint8", alignment=alignment, device="cpu"),
        sg.zeros((0,), "float64", alignment=alignment, device="cpu"),
        sg.full((), 1, "complex128", alignment=alignment, device="cpu"),
        sg.asarray(np.ones((3, 5))).relayout(alignment=alignment),
    ]
    for tensor in tensors:
        assert tensor.alignment == tensor.buffer.alignment == alignment
        assert tensor.buffer.address % alignment == 0


@pytest.mark.parametrize(
    "memory, nbytes, readonly",
    [
        pytest.param(bytearray(24), 24, False, id="bytearray"),
        pytest.param(bytes(24), 24, True, id="bytes"),
        pytest.param(memoryview(bytearray(24))[8:], 16, False, id="part of a memoryview"),
        pytest.param(array.array("d", [0.0] * 3), 24, False, id="array.array"),
        pytest.param(np.zeros((3, 4), np.float32), 48, False, id="numpy"),
        pytest.param(mmap.mmap(-1, 4096), 4096, False, id="mmap"),
        pytest.param(b"", 0, True, id="nothing"),
    ],
)
def test_memory_with_the_buffer_protocol_is_borrowed(memory, nbytes, readonly):
    buffer = Buffer.of(memory)
    assert (buffer.nbytes, buffer.readonly, buffer.owned) == (nbytes, readonly, False)
    assert buffer.address % buffer.alignment == 0
    if not readonly:
        buffer.bytes[:] = 3
        assert bytes(memory) == bytes([3] * nbytes)
    elif nbytes:
        with pytest.raises(ValueError, match="read-only"):
            buffer.bytes[0] = 1


def test_a_mapped_file_is_not_closed_under_a_buffer():
    mapped = mmap.mmap(-1, 4096)
    buffer = Buffer.of(mapped)
    with pytest.raises(BufferError):
        mapped.close()
    del buffer
    gc.collect()
    mapped.close()


def test_a_buffer_is_taken_as_it_is():
    buffer = Buffer.of(bytearray(8))
    assert Buffer.of(buffer) is buffer


def test_the_owner_lives_as_long_as_the_buffer_or_its_bytes():
    owner = np.zeros(16, np.uint8)
    gone = weakref.ref(owner)
    buffer = Buffer(owner.ctypes.data, 16, owner=owner)
    seen = buffer.bytes[4:]
    del owner, buffer
    gc.collect()
    assert gone() is not None
    del seen
    gc.collect()
    assert gone() is None


def test_allocated_memory_is_freed_with_the_last_view():
    tensor = sg.empty((1000,), "uint8", device="cpu")
    gone = weakref.ref(tensor.buffer.owner)
    view = tensor[10:]
    del tensor
    gc.collect()
    assert gone() is not None
    del view
    gc.collect()
    assert gone() is None


def test_repr_names_the_facts():
    assert repr(CpuDevice().allocate(12, 64)) == "<Buffer 12 bytes on cpu, aligned to 64, owned>"
    text = repr(Buffer.of(b"1234"))
    assert text.startswith("<Buffer 4 bytes on cpu, aligned to ")
    assert text.endswith(", borrowed, read-only>")


@pytest.mark.parametrize("make", [sg.empty, sg.zeros], ids=["empty", "zeros"])
@pytest.mark.parametrize(
    "nbytes, alignment, place", [(65532, 64, 0), (65536, 64, 2048), (65536, 2048, 2048), (300_000, 4096, 0)]
)
def test_large_memory_begins_half_a_page_off(make, nbytes, alignment, place):
    """Away from arrays of other libraries, which begin shortly behind a page."""
    for _ in range(3):
        tensor = make((nbytes,), "uint8", alignment=alignment, device="cpu")
        address = tensor.buffer.address
        assert address % alignment == 0
        assert address % (4096 if nbytes >= 65536 else 64) == place
        assert tensor.buffer.nbytes == nbytes
        tensor.numpy()[-1] = 1
