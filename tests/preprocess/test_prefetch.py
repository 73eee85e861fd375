"""`prefetch`: order, room, what is raised, how it ends, and the order of two streams."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
import pytest

import stridedgpu as sg


def maker_threads():
    return [thread for thread in threading.enumerate() if thread.name == "stridedgpu prefetch"]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    if maker_threads():
        gc.collect()  # a generator that nobody refers to any more is closed
    assert maker_threads() == []


@pytest.mark.parametrize("depth", [1, 2, 7])
@pytest.mark.parametrize("count", [0, 1, 20])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_batches_come_in_order_as_they_are(depth, count, device):
    given = [{"image": np.full(3, number)} for number in range(count)]
    assert [id(batch) for batch in sg.prefetch(given, device=device, depth=depth)] == [id(batch) for batch in given]


def test_no_more_is_made_than_there_is_room_for():
    made = []

    def batches():
        for number in range(10):
            made.append(number)
            yield number

    taken = sg.prefetch(batches(), depth=3)
    assert made == []
    for number in range(3):
        assert next(taken) == number
        while len(made) < number + 4 and maker_threads():
            time.sleep(0.001)
        time.sleep(0.02)
        assert made == list(range(number + 4))
    taken.close()


def test_making_and_using_overlap():
    met = threading.Barrier(2, timeout=600)

    def batches():
        yield 0
        met.wait()
        yield 1

    taken = sg.prefetch(batches())
    assert next(taken) == 0
    met.wait()
    assert list(taken) == [1]


def test_what_is_raised_comes_after_what_was_made():
    def batches():
        yield 1
        raise OSError("the disk is gone")

    taken = sg.prefetch(batches())
    assert next(taken) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(taken)
    assert list(taken) == []


@pytest.mark.parametrize("leave", ["close", "collect", "raise"])
def test_leaving_early_closes_the_source(leave):
    closed = threading.Event()

    def batches():
        try:
            while True:
                yield np.zeros(3)
        finally:
            closed.set()

    taken = sg.prefetch(batches())
    next(taken)
    if leave == "close":
        taken.close()
    elif leave == "collect":
        del taken
        gc.collect()
    else:
        with pytest.raises(KeyError):
            taken.throw(KeyError)
    assert closed.wait(10)


def test_refusals():
    for batches in (list, sg.DataType.UINT4):
        with pytest.raises(sg.LayoutError, match="batches is of type"):
            sg.prefetch(batches)


# ---- on a device


def test_arrays_are_uploaded_on_a_stream_of_their_own(gpus):
    names = np.array(["a", "b"])
    given = [
        {"image": np.full((2, 3), number, np.float32), "name": names, "more": [np.arange(4), 5]} for number in range(4)
    ]
    for number, batch in enumerate(sg.prefetch(given, device="cuda:1")):
        assert batch["image"].device == batch["more"][0].device == "cuda:1"
        assert (batch["image"].numpy() == number).all()
        assert batch["name"] is names
        assert batch["more"][1] == 5
    streams = {call[3] for call in gpus.named("memcpyAsync") if call[2] == 1}
    assert len(streams) == 1
    assert min(streams) > 100


def test_each_stream_waits_for_the_other(gpus):
    given = [np.full(8, number, np.float32) for number in range(5)]
    list(sg.prefetch(given, device="cuda", depth=1))
    [maker] = {call[3] for call in gpus.named("memcpyAsync")}
    recorded, waits = {}, []
    for name, *rest in gpus.calls:
        if name == "eventRecord":
            recorded[rest[0]] = rest[1]
        elif name == "streamWaitEvent":
            waits.append((rest[0], recorded[rest[1]]))
    taker = gpus.current_stream(0).ptr
    assert waits.count((taker, maker)) == 5
    # With room for one: the second batch is made while the first is used, and each later one after a batch was used.
    assert waits.count((maker, taker)) >= 3
    assert set(waits) == {(taker, maker), (maker, taker)}


def test_memory_is_held_until_the_makers_stream_waits(gpus):
    alive = []
    given = [np.full(8, number, np.float32) for number in range(4)]
    taken = sg.prefetch(given, device="cuda", depth=1)
    batch = next(taken)
    alive.append(weakref.ref(batch))
    del batch
    gc.collect()
    assert alive[0]() is not None
    list(taken)
    del taken
    gc.collect()
    assert alive[0]() is None


def test_a_step_in_the_iterable_runs_on_the_threads_stream(gpus):
    step = sg.Preprocess(layout="NHWC", output="tensor", device="cuda:0", scale=2.0)
    given = [np.random.default_rng(number).integers(0, 256, (2, 8, 8, 3), dtype=np.uint8) for number in range(3)]
    expected = [sg.Preprocess(layout="NHWC", device="cpu", scale=2.0)(batch) for batch in given]
    made = [batch.permute("NHWC").numpy() for batch in sg.prefetch(map(step, given), device="cuda:0")]
    assert all(np.array_equal(first, second) for first, second in zip(made, expected, strict=True))
