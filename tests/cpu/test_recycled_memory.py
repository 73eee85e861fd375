"""Memory that is given out again: never while anything can see it, always once nothing can, and bounded."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.devices.cpu.recycled_memory import RecycledMemory

SIZES = (4, 160, 160, 3)


def batch(number):
    return np.full(SIZES, number % 256, np.uint8)


def make_step(**declared):
    return sg.Preprocess(**{"layout": "NHWC", "device": "cpu", **declared})


STEPS = {"whole": {}, "crop": {"crop": 128}, "tensor": {"output": "tensor"}, "pitch": {"row_pitch_bytes": 4096}}


@pytest.mark.parametrize("declared", STEPS.values(), ids=STEPS)
def test_results_that_are_held_keep_their_values(declared):
    step = make_step(**declared)
    held = [step(batch(number)) for number in range(100)]
    for number, made in enumerate(held):
        pixels = made.numpy() if isinstance(made, sg.StridedTensor) else made
        assert (pixels == number).all()
    kept = held[::7]
    del held, made, pixels
    for number in range(50):
        step(batch(200 + number % 50))
    assert all((np.asarray(made) == 7 * place).all() for place, made in enumerate(kept))


def address(made):
    return made.__array_interface__["data"][0]


@pytest.fixture
def one_thread():
    """No other thread that could look at a result for a moment longer."""
    before = sg.get_num_threads()
    sg.set_num_threads(1)
    yield
    sg.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("crop", [None, 128])
def test_results_that_are_gone_leave_their_memory(crop):
    step = make_step(crop=crop)
    addresses = set()
    for number in range(100):
        made = step(batch(number))
        addresses.add(address(made))
        del made
    assert len(addresses) == 1


def seen_by_torch(made):
    return pytest.importorskip("torch", exc_type=ImportError).from_numpy(made)


VIEWS = {
    "slice": lambda made: made[1:, ::2],
    "reshaped": lambda made: made.reshape(-1)[5:],
    "memoryview": memoryview,
    "dlpack": np.from_dlpack,
    "tensor": lambda made: sg.asarray(made, dims="NHWC")[2],
    "torch": pytest.param(seen_by_torch, marks=pytest.mark.interop),
}


def test_a_capsule_of_a_tensor_keeps_the_memory():
    step = make_step(output="tensor")
    seen = np.from_dlpack(step(batch(7)))
    for number in range(10):
        step(batch(number))
    assert (seen == 7).all()


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_any_view_keeps_the_memory(view):
    step = make_step()
    made = step(batch(7))
    place = address(made)
    seen = view(made)
    del made
    gc.collect()
    for number in range(10):
        assert address(step(batch(number))) != place
    assert (np.asarray(seen) == 7).all()
    del seen
    gc.collect()
    assert place in {address(made) for made in [step(batch(number)) for number in range(4)]}


def test_the_memory_outlives_the_step():
    made = make_step()(batch(9))
    gc.collect()
    junk = [np.ones(made.nbytes, np.uint8) for _ in range(4)]
    assert (made == 9).all()
    del junk


def test_free_blocks_are_few_whatever_was_held():
    memory = RecycledMemory()
    buffers = [memory.allocate(1 << 20, 64) for _ in range(50)]
    blocks = [weakref.ref(buffer.owner._block) for buffer in buffers]
    del buffers
    assert sum(block() is not None for block in blocks) == 4


@pytest.mark.parametrize("alignment", [64, 4096])
@pytest.mark.parametrize("nbytes", [0, 1000, 1 << 20])
def test_addresses_are_aligned_and_sizes_exact(alignment, nbytes):
    memory = RecycledMemory()
    for _ in range(3):
        buffer = memory.allocate(nbytes, alignment)
        assert buffer.address % alignment == 0
        assert (buffer.nbytes, buffer.owned, buffer.readonly) == (nbytes, True, False)


@pytest.mark.parametrize(
    "nbytes, is_reused", [(1 << 20, True), ((1 << 20) - 4, True), (1 << 19, True), ((1 << 19) - 1, False)]
)
def test_smaller_results_take_a_block_of_up_to_twice_their_size(nbytes, is_reused):
    memory = RecycledMemory()
    first = memory.allocate(1 << 20, 64)
    place = first.address
    del first
    smaller = memory.allocate(nbytes, 64)
    assert (smaller.address == place, smaller.nbytes) == (is_reused, nbytes)
    del smaller
    assert (memory.allocate(1 << 20, 64).address == place) or not is_reused


def test_larger_results_and_wider_alignments_get_other_memory():
    memory = RecycledMemory()
    first = memory.allocate(1 << 20, 64)
    place = first.address
    del first
    assert memory.allocate((1 << 20) + 64, 64).address != place
    wider = memory.allocate(1 << 20, 4096)
    assert wider.address % 4096 == 0
    del wider
    assert memory.allocate(1 << 20, 64).address % 64 == 0


def test_threads_share_a_step_and_never_memory():
    step, faults = make_step(), []
    begin = threading.Barrier(4)

    def work(worker):
        begin.wait()
        for number in range(60):
            value = (worker * 60 + number) % 256
            made = step(batch(value))
            other = step(batch(255 - value))
            if not ((made == value).all() and (other == 255 - value).all()):
                faults.append(value)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert faults == []
