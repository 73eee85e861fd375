"""Who keeps memory alive: a canary is written where it is freed, so that a buffer given back too early shows."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import stridedgpu as sg

CANARY = 0xDD


class Poisoned:
    """Memory whose owner overwrites it with the canary when it is freed; the bytes themselves stay readable."""

    kept: list[np.ndarray] = []  # noqa: RUF012 - readable after their owner is gone, or nothing could be seen

    def __init__(self, nbytes):
        self.bytes = np.arange(nbytes, dtype=np.uint8)
        self.kept.append(self.bytes)
        weakref.finalize(self, self.bytes.fill, CANARY)


def borrowed(sizes=(4, 6), **options):
    """A tensor over poisoned memory, and a reference that tells when its owner is gone."""
    owner = Poisoned(int(np.prod(sizes)))
    tensor = sg.from_pointer(owner.bytes.ctypes.data, sizes, "uint8", owner=owner, **options)
    return tensor, weakref.ref(owner)


VIEWS = {
    "numpy": lambda tensor: tensor.numpy(),
    "numpy.asarray": np.asarray,
    "numpy.from_dlpack": np.from_dlpack,
    "a slice": lambda tensor: tensor[1:, ::2],
    "a tensor of DLPack": lambda tensor: sg.asarray(np.from_dlpack(tensor)),
    "a tensor of a tensor's array": lambda tensor: sg.asarray(np.asarray(tensor)[1:]),
    "memoryview": lambda tensor: memoryview(tensor.numpy()),
}


def read(view):
    return np.asarray(view).tobytes()


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_the_exporter_may_die_first(view):
    tensor, owner = borrowed()
    seen = view(tensor)
    expected = read(seen)
    assert bytes([CANARY]) not in expected
    del tensor
    gc.collect()
    assert owner() is not None
    assert read(seen) == expected
    del seen
    gc.collect()
    assert owner() is None, "memory is given back with the last view"


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_the_importer_may_die_first(view):
    tensor, owner = borrowed()
    expected = read(tensor)
    del view
    gc.collect()
    assert read(tensor) == expected
    del tensor
    gc.collect()
    assert owner() is None


@pytest.mark.parametrize("request_", [{}, {"max_version": (1, 0)}, {"copy": True}], ids=["old", "versioned", "copy"])
def test_a_capsule_that_nobody_consumes_gives_its_memory_back(request_):
    tensor, owner = borrowed()
    capsule = tensor.__dlpack__(**request_)
    del tensor
    gc.collect()
    assert "copy" in request_ or owner() is not None
    del capsule
    gc.collect()
    assert owner() is None


def test_what_the_test_would_see():
    tensor, owner = borrowed()
    loose = sg.from_pointer(tensor.buffer.address, tensor.sizes, "uint8", owner=None)
    del tensor
    gc.collect()
    assert owner() is None
    assert set(loose.numpy().reshape(-1).tolist()) == {CANARY}


def test_read_only_memory_says_so_in_a_versioned_capsule_and_nowhere_else():
    tensor, _ = borrowed(readonly=True)
    assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 0)))
    assert not np.from_dlpack(tensor).flags.writeable
    with pytest.raises(BufferError, match=r"max_version.*export a \.copy\(\)"):
        tensor.__dlpack__()
    assert np.from_dlpack(tensor, copy=True).flags.writeable


@pytest.mark.parametrize(
    "request_, fragment",
    [({"stream": 3}, "stream=3 has no meaning on the CPU"), ({"dl_device": (2, 0)}, "move it with to_device")],
)
def test_requests_that_the_cpu_cannot_meet(request_, fragment):
    with pytest.raises(BufferError) as caught:
        borrowed()[0].__dlpack__(**request_)
    assert fragment in str(caught.value)


READERS = {
    "asarray": sg.asarray,
    "from_dlpack": sg.from_dlpack,
    "relayout": sg.relayout,
    "dims": lambda theirs: sg.asarray(theirs, dims="NCHW"),
    "resize": lambda theirs: sg.resize(theirs, (2, 2), dims="NCHW"),
    "out": lambda theirs: sg.relayout(np.zeros((1, 3, 4, 5), np.float32), out=theirs),
}


@pytest.mark.interop
@pytest.mark.parametrize("read", READERS.values(), ids=READERS.keys())
def test_a_tensor_of_torch_can_be_resized_after_it_was_read(read):
    torch = pytest.importorskip("torch")
    theirs = torch.arange(60.0).reshape(1, 3, 4, 5)
    read(theirs)
    assert theirs.resize_(300).shape == (300,)


@pytest.mark.interop
def test_the_memory_of_a_tensor_of_torch_outlives_it():
    torch = pytest.importorskip("torch")
    theirs = torch.arange(6.0)
    mine = sg.asarray(theirs)
    assert mine.operand.address == theirs.data_ptr()
    theirs.data = torch.zeros(6)
    gc.collect()
    torch.full((6,), 9.0)  # takes the memory, if it is free
    assert mine.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.interop
@pytest.mark.parametrize(
    "spoil, words",
    [
        (lambda tensor: tensor.requires_grad_(), "detach"),
        (lambda tensor: tensor.to_sparse(), "strided|layout|sparse"),
    ],
    ids=["requires_grad", "sparse"],
)
def test_a_tensor_of_torch_that_is_more_than_memory_is_refused_in_its_words(spoil, words):
    torch = pytest.importorskip("torch")
    with pytest.raises(Exception, match=words):
        sg.asarray(spoil(torch.arange(6.0)))


@pytest.mark.interop
def test_a_tensor_of_torch_and_its_storage_live_as_long_as_each_other():
    torch = pytest.importorskip("torch")
    tensor, owner = borrowed()
    there = torch.from_dlpack(tensor)
    expected = tensor.numpy().tolist()
    del tensor
    gc.collect()
    assert there.tolist() == expected
    back = sg.asarray(there)
    del there
    gc.collect()
    assert back.numpy().tolist() == expected
    del back
    gc.collect()
    assert owner() is None
