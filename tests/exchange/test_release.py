"""`with tensor:` and `release`: memory goes back when nobody uses it any more, and never before."""

from __future__ import annotations

import copy
import gc
import mmap
import pickle
import weakref

import numpy as np
import pytest

import stridedgpu as sg

CANARY = 0xDD


class Surface:
    """A decoder's frame, which is overwritten as soon as it is given back; its bytes stay readable for the tests."""

    def __init__(self):
        self.bytes = np.arange(24, dtype=np.uint8)
        weakref.finalize(self, self.bytes.fill, CANARY)


def borrowed():
    surface = Surface()
    held = surface.bytes
    return sg.from_pointer(held.ctypes.data, (4, 6), "uint8", owner=surface), held


def test_a_block_gives_the_surface_back_to_its_decoder():
    tensor, memory = borrowed()
    with tensor as same:
        assert same is tensor
        total = int(tensor[1:].numpy().sum())
        assert memory[0] == 0
    assert total == sum(range(6, 24))
    assert set(memory.tolist()) == {CANARY}


USERS = {
    "a view": lambda tensor: tensor[1:, ::2],
    "a permuted view": lambda tensor: tensor.permute((1, 0)),
    "numpy": lambda tensor: tensor.numpy(),
    "a view of an array": lambda tensor: np.asarray(tensor)[2:],
    "memoryview": lambda tensor: memoryview(tensor.numpy()),
    "numpy.from_dlpack": np.from_dlpack,
    "a capsule": lambda tensor: tensor.__dlpack__(),
    "a versioned capsule": lambda tensor: tensor.__dlpack__(max_version=(1, 0)),
    "a tensor of a capsule": lambda tensor: sg.asarray(np.from_dlpack(tensor)),
    "a tensor over its buffer": lambda tensor: sg.StridedTensor(tensor.buffer, sg.Layout((24,)), "uint8"),
    "an operand": lambda tensor: tensor.operand,
}


@pytest.mark.parametrize("use", USERS.values(), ids=USERS)
def test_nothing_is_given_back_under_a_user(use):
    tensor, memory = borrowed()
    user = use(tensor)
    with pytest.raises(BufferError, match="still in use"):
        tensor.release()
    gc.collect()
    assert memory.tolist() == list(range(24))
    assert tensor.numpy().reshape(-1).tolist() == list(range(24)), "a refused release changes nothing"
    del user
    tensor.release()
    assert set(memory.tolist()) == {CANARY}


@pytest.mark.interop
def test_nor_under_torch():
    torch = pytest.importorskip("torch")
    tensor, memory = borrowed()
    there = torch.from_dlpack(tensor)
    with pytest.raises(BufferError, match="still in use"), tensor:
        assert there.sum() == sum(range(24))
    del there
    tensor.release()
    assert set(memory.tolist()) == {CANARY}


def test_another_tensor_lives_on_and_is_the_last_to_hold_the_memory():
    tensor, memory = borrowed()
    view = tensor[1]
    del tensor
    gc.collect()
    assert view.numpy().tolist() == [6, 7, 8, 9, 10, 11]
    view.release()
    assert set(memory.tolist()) == {CANARY}


ASKED = {
    "sizes": lambda tensor: tensor.sizes,
    "device": lambda tensor: tensor.device,
    "dtype": lambda tensor: tensor.dtype,
    "a view": lambda tensor: tensor[0],
    "permute": lambda tensor: tensor.permute((1, 0)),
    "len": len,
    "iteration": list,
    "truth": bool,
    "writing": lambda tensor: tensor.__setitem__(..., 0),
    "numpy": lambda tensor: tensor.numpy(),
    "numpy.asarray": np.asarray,
    "DLPack": np.from_dlpack,
    "the array interface": lambda tensor: tensor.__cuda_array_interface__,
    "asarray": sg.asarray,
    "relayout": sg.relayout,
    "relayout out": lambda tensor: sg.relayout(np.zeros((4, 6), np.uint8), out=tensor),
    "plan": lambda tensor: sg.plan_relayout(tensor, tensor),
    "gather": lambda tensor: sg.gather(tensor, [0]),
    "copy": copy.copy,
    "pickle": pickle.dumps,
    "describe": lambda tensor: tensor.describe(),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_afterwards_everything_is_refused(ask):
    tensor, _ = borrowed()
    tensor.release()
    with pytest.raises(sg.BindingError, match="was released"):
        ask(tensor)


def test_a_plan_refuses_what_was_released():
    source, out = (sg.zeros((4, 6), "uint8", device="cpu") for _ in range(2))
    plan = sg.plan_relayout(source, out)
    plan(source, out)
    out.release()
    with pytest.raises(sg.BindingError, match="was released"):
        plan(source, out)


def test_what_still_works():
    tensor, _ = borrowed()
    tensor.release()
    tensor.release()
    assert repr(tensor) == "StridedTensor(released)"
    assert tensor == tensor  # noqa: PLR0124 - identity needs no memory
    assert isinstance(hash(tensor), int)


def test_an_error_in_the_block_is_what_is_seen():
    tensor, memory = borrowed()
    with pytest.raises(KeyError), tensor:
        view = tensor[1]
        raise KeyError("of the caller")
    with pytest.raises(sg.BindingError):
        _ = tensor.sizes
    assert view.numpy().tolist() == [6, 7, 8, 9, 10, 11]
    del view
    assert set(memory.tolist()) == {CANARY}


def test_a_mapped_file_can_be_closed(tmp_path):
    path = tmp_path / "frames"
    path.write_bytes(bytes(range(64)))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        with sg.asarray(mapped) as tensor:
            assert tensor.numpy().sum() == sum(range(64))
            with pytest.raises(BufferError):
                mapped.close()
        mapped.close()


def test_memory_of_ones_own_is_free_again():
    tensor = sg.empty((1000,), "float32", device="cpu")
    memory = weakref.ref(tensor.buffer.owner)
    with tensor:
        tensor[...] = 1
    assert memory() is None


def test_on_a_device_an_address_that_went_out_keeps_the_memory_as_long_as_the_tensor(gpus):
    tensor = sg.zeros((2, 3), "float32", device="cuda")
    memory = weakref.ref(tensor.buffer.owner)
    assert tensor.__cuda_array_interface__["data"][0] == tensor.buffer.address
    with tensor:
        pass
    with pytest.raises(sg.BindingError, match="was released"):
        _ = tensor.sizes
    assert memory() is not None, "whoever took the interface holds the tensor, and reads on"
    del tensor
    assert memory() is None


def test_on_a_device_what_never_went_out_is_free(gpus):
    tensor = sg.zeros((2, 3), "float32", device="cuda")
    memory = weakref.ref(tensor.buffer.owner)
    with pytest.raises(BufferError), tensor:
        view = tensor[0]
    del view
    tensor.release()
    assert memory() is None
