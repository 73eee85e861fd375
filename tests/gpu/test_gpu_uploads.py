"""On a GPU: uploads through the ring of page-locked pieces, which nobody waits for and no copy finds overwritten."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from harness.sample_tensors import same_bits
from numpy.lib.stride_tricks import as_strided

import stridedgpu as sg
from stridedgpu.devices.cuda.policy import policy, using
from stridedgpu.devices.cuda.status import cuda_status
from stridedgpu.devices.selection import device_named
from stridedgpu.preprocess import Preprocess

STATUS = cuda_status()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))]

PIECES, PIECE_BYTES = 3, 4096


class Seen:
    """The small ring, what page-locked memory it took, and how often the host waited."""

    def __init__(self, monkeypatch):
        import cupy

        from stridedgpu.devices.cuda.runtime.transfer import Uploads

        runtime = cupy.cuda.runtime
        self.pinned, self.waits, self.fails = [], [], False
        allocate = cupy.cuda.alloc_pinned_memory

        def allocated(nbytes):
            if self.fails:
                raise runtime.CUDARuntimeError(2)
            self.pinned.append(nbytes)
            return allocate(nbytes)

        def counted(name):
            wait = getattr(runtime, name)
            return lambda *arguments: (self.waits.append(name), wait(*arguments))[1]

        monkeypatch.setattr(cupy.cuda, "alloc_pinned_memory", allocated)
        for name in ("streamSynchronize", "deviceSynchronize", "eventSynchronize"):
            monkeypatch.setattr(runtime, name, counted(name))
        limits = replace(policy().memory, uploads=PIECES, upload_bytes=PIECE_BYTES, least_upload_bytes=512)
        with using(replace(policy(), memory=limits)):
            self.uploads = Uploads(0)


@pytest.fixture
def ring(monkeypatch):
    """The device with a ring of three pieces of 4 KB, behind nothing that is queued."""
    device = device_named("cuda:0")
    sg.synchronize()
    seen = Seen(monkeypatch)
    monkeypatch.setattr(device, "uploads", seen.uploads)
    return seen


def drawn(sizes, seed=0):
    return np.random.default_rng(seed).integers(0, 255, sizes, np.uint8)


SOURCES = {
    "one byte": lambda: drawn((1,)),
    "one piece": lambda: drawn((PIECE_BYTES,)),
    "many pieces and a rest": lambda: drawn((9 * PIECE_BYTES + 17,)),
    "pitched rows": lambda: drawn((70, 300))[:, 3:203],
    "rows longer than a piece": lambda: drawn((3, 6000))[:, :5001],
    "images with gaps": lambda: drawn((5, 30, 128))[:, 2:27, :100],
    "packed by the CPU": lambda: drawn((40, 50, 6))[::2, ::-1, ::2],
    "every second row, packed in pieces": lambda: drawn((500, 70))[::2, ::3],
    "broadcast": lambda: as_strided(drawn((50,)), (100, 50), (0, 1)),
    "float64": lambda: drawn((90, 30)).astype(np.float64),
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_source_may_change_once_the_call_returned(ring, name):
    import cupy

    source = SOURCES[name]()
    expected = np.array(source)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        there = [sg.asarray(source).to_device("cuda"), sg.asarray(source).relayout(dtype="float32", device="cuda")]
        source[...] = 255 - source
        stream.synchronize()
    assert same_bits(there[0].numpy(), expected)
    assert same_bits(there[1].numpy(), expected.astype(np.float32))


def test_no_piece_is_written_again_while_its_copy_is_queued(ring):
    import cupy

    arrays = [drawn((1 + 731 * number % PIECE_BYTES,), number) for number in range(40)]
    with cupy.cuda.Stream(non_blocking=True) as stream:
        there = [sg.asarray(array).to_device("cuda") for array in arrays]
        stream.synchronize()
    assert all(same_bits(one.numpy(), array) for one, array in zip(there, arrays, strict=True))


def test_nobody_waits_until_the_ring_is_full_and_then_for_one_piece(ring):
    import cupy

    data = sg.asarray(drawn((PIECE_BYTES,)))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        held = [data.to_device("cuda") for _ in range(PIECES)]
        assert ring.waits == []
        held += [data.to_device("cuda") for _ in range(5 * PIECES)]
        assert set(ring.waits) <= {"eventSynchronize"}, "who waits does so for one piece"
        assert not ring.waits or len(ring.pinned) == PIECES, "nobody waits before all pieces are queued"
        stream.synchronize()
    assert all(same_bits(one.numpy(), data.numpy()) for one in held)


def test_page_locked_memory_is_bounded(ring):
    held = [sg.asarray(drawn((1 + 977 * number % 30_000,))).to_device("cuda") for number in range(60)]
    held += [sg.asarray(drawn((90, 80))[:, ::3]).relayout(dtype="int16", device="cuda") for _ in range(5)]
    assert max(ring.pinned) == PIECE_BYTES
    sizes = [512 << power for power in range(4)]
    assert sum(ring.pinned) <= PIECES * sum(sizes), "a piece is replaced by a larger one, and by none as large"


def test_without_page_locked_memory_uploads_are_pageable_and_say_so(ring, capsys):
    array = drawn((20, 300))
    ring.fails = True
    sg.set_verbose()
    try:
        there = sg.asarray(array).to_device("cuda")
        array[...] = 0
        ring.fails = False
        other = sg.asarray(array).to_device("cuda")
    finally:
        sg.set_verbose(False)
    ways = [line.split(",")[2:5] for line in capsys.readouterr().err.splitlines() if ",upload," in line]
    assert ways == [["upload", "pageable", "6000 B"], ["upload", "pinned_ring", "6000 B"]]
    assert same_bits(there.numpy(), drawn((20, 300)))
    assert not other.numpy().any()


def test_what_cannot_grow_makes_do_with_the_pieces_there_are(ring):
    arrays = [drawn((PIECE_BYTES,), number) for number in range(6)]
    there = [sg.asarray(arrays[0]).to_device("cuda")]
    ring.fails = True
    there += [sg.asarray(array).to_device("cuda") for array in arrays[1:]]
    assert len(ring.pinned) == 1
    assert "streamSynchronize" not in ring.waits
    assert all(same_bits(one.numpy(), array) for one, array in zip(there, arrays, strict=True))


def test_page_locked_sources_are_read_where_they_lie(ring, capsys):
    import cupy

    memory = cupy.cuda.alloc_pinned_memory(6000)
    array = np.frombuffer(memory, np.uint8, 6000)
    array[:] = drawn((6000,))
    taken = len(ring.pinned)
    sg.set_verbose()
    try:
        there = sg.asarray(array).to_device("cuda")
    finally:
        sg.set_verbose(False)
    array[:] = 0
    assert ",upload,page_locked,6000 B," in capsys.readouterr().err
    assert len(ring.pinned) == taken
    assert same_bits(there.numpy(), drawn((6000,)))


def test_a_refused_or_failed_upload_gives_its_pieces_back(ring, monkeypatch):
    import cupy

    from stridedgpu.devices.cuda.runtime import transfer

    target = sg.zeros((6000,), "uint8", device="cuda")
    stream = cupy.cuda.Stream(non_blocking=True)
    sg.synchronize()
    with stream:
        stream.begin_capture()
        for source in (drawn((6000,)), drawn((12_000,))[::2]):
            with pytest.raises(sg.DeviceError, match="cannot be captured"):
                target[...] = source
        stream.end_capture()
    with monkeypatch.context() as patched:
        patched.setattr(transfer, "_fill", lambda *_: 1 / 0)
        for _ in range(2 * PIECES):
            with pytest.raises(ZeroDivisionError):
                target[...] = drawn((6000,))
    assert not target.numpy().any()
    target[...] = drawn((6000,))
    assert same_bits(target.numpy(), drawn((6000,)))


def test_threads_share_the_ring(ring):
    made = {}

    def work(number):
        import cupy

        with cupy.cuda.Stream(non_blocking=True) as stream:
            made[number] = [sg.asarray(drawn((5000,), number * 10 + k)).to_device("cuda") for k in range(10)]
            stream.synchronize()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2 * PIECES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, tensors in made.items():
        assert all(same_bits(tensor.numpy(), drawn((5000,), number * 10 + k)) for k, tensor in enumerate(tensors))
    assert len(made) == 2 * PIECES


def test_prefetched_batches_keep_what_their_memory_was(ring):
    buffer = np.zeros((3, 20, 30), np.uint8)

    def batches():
        for number in range(9):
            buffer[...] = number
            yield {"image": buffer, "name": str(number)}

    held = list(sg.prefetch(batches(), device="cuda", depth=4))
    assert set(ring.waits) <= {"eventSynchronize"}
    assert [one["name"] for one in held] == [str(number) for number in range(9)]
    assert [set(one["image"].numpy().ravel().tolist()) for one in held] == [{number} for number in range(9)]


def test_windows_of_images_from_the_cpu_go_through_the_ring(ring):
    images = [drawn((40, 50, 3), number) for number in range(12)]
    options = {"layout": "NCHW", "dtype": "float32", "crop": (20, 24), "output": "tensor"}
    step, expected = Preprocess(device="cuda", **options), Preprocess(device="cpu", **options)(images)
    step([255 - image for image in images])  # its tables are uploaded, with a wait
    ring.waits.clear()
    made = step(images)
    for image in images:
        image[...] = 0
    assert "streamSynchronize" not in ring.waits
    assert 1 <= ring.pinned.count(PIECE_BYTES) <= PIECES
    assert all(same_bits(one.numpy(), other.numpy()) for one, other in zip(made, expected, strict=True))
