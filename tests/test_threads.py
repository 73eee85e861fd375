"""The thread pool: any number of callers, forks, spawned workers, and how many threads there are."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.backends import threads

FRAMES = np.random.default_rng(0).integers(0, 256, (2, 512, 640, 3), np.uint8)
PLANES = np.ascontiguousarray(FRAMES.transpose(0, 3, 1, 2))


@pytest.fixture(autouse=True)
def four_threads(monkeypatch):
    monkeypatch.setattr(threads, "_chosen", 4)


def relayout_is_right(times=3):
    for _ in range(times):
        made = sg.asarray(FRAMES, dims="NHWC").relayout(layout="NCHW")
        if not np.array_equal(made.numpy(), PLANES):
            return False
    return True


def share(each, items):
    """Share out calls of `each(item)`, counted as compiled loops count them."""
    lock = threading.Lock()

    def work(counters):
        words = (ctypes.c_int64 * 16).from_address(counters)
        while True:
            with lock:
                item = words[0]
                words[0] += 1
            if item >= items:
                return
            each(item)
            with lock:
                words[8] += 1

    threads.run_shared(work, items)


@pytest.mark.parametrize("items", [0, 1, 2, 3, 5, 17, 100])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_every_item_is_done_once(items, count):
    sg.set_num_threads(count)
    done = []
    share(done.append, items)
    assert sorted(done) == list(range(items))


def test_work_is_shared_between_threads():
    met = threading.Barrier(4, timeout=30)  # breaks unless four threads work at once
    share(lambda _: met.wait(), 4)


def test_work_may_share_out_work_of_its_own():
    sg.set_num_threads(2)
    done = []
    share(lambda _: share(done.append, 10), 8)
    assert sorted(done) == sorted([*range(10)] * 8)


def test_an_interrupted_caller_waits_for_the_others():
    interrupted = []
    finished = []

    def each(item):
        time.sleep(0.01)
        finished.append(item)

    def interrupting(counters):
        if threading.current_thread() is threading.main_thread():
            interrupted.append(counters)
            raise KeyboardInterrupt
        words = (ctypes.c_int64 * 16).from_address(counters)
        while words[0] < 8:
            words[0] += 1
            each(words[0])
            words[8] += 1

    sg.set_num_threads(2)
    with pytest.raises(KeyboardInterrupt):
        threads.run_shared(interrupting, 8)
    assert interrupted
    assert finished == list(range(1, 9))
    assert relayout_is_right()


def test_many_callers_at_once():
    with ThreadPoolExecutor(12) as callers:
        assert all(callers.map(lambda _: relayout_is_right(), range(48)))


def test_many_callers_meet_a_kernel_for_the_first_time_together():
    def first_call(dtype):
        made = sg.asarray(FRAMES, dims="NHWC").relayout(layout="NCHW", dtype=dtype, scale=2.0, channels=(2, 0, 1))
        return np.array_equal(made.numpy(), PLANES[:, [2, 0, 1]].astype(dtype) * 2)

    with ThreadPoolExecutor(8) as callers:
        assert all(callers.map(first_call, ["float32", "float64", "int32", "uint16"] * 4))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_children_of_a_fork_start_a_pool_of_their_own():
    assert relayout_is_right()
    with warnings.catch_warnings():
        # Python warns of any fork beside threads; that it works here is what is shown.
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context("fork").Pool(3) as workers:
            assert all(workers.map(relayout_is_right, [2] * 9))
    assert relayout_is_right()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_fork_while_other_threads_are_at_work():
    stop = threading.Event()

    def keep_working():
        while not stop.is_set():
            relayout_is_right(1)

    workers = [threading.Thread(target=keep_working) for _ in range(3)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(6):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if child == 0:
                os._exit(0 if relayout_is_right() else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def test_spawned_workers():
    with multiprocessing.get_context("spawn").Pool(2) as workers:
        assert all(workers.map(relayout_is_right, [2] * 4))


def threads_said_by(**variables):
    code = "import stridedgpu as sg; print(sg.get_num_threads())"
    environment = {**os.environ, **variables}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)


def test_the_number_of_threads(monkeypatch):
    assert sg.get_num_threads() == 4
    sg.set_num_threads(3)
    assert sg.get_num_threads() == 3
    monkeypatch.setattr(threads, "_chosen", None)
    monkeypatch.delenv(threads.VARIABLE, raising=False)
    assert sg.get_num_threads() == threads.usable_cores() >= 1
    assert threads_said_by(STRIDEDGPU_THREADS="7").stdout.strip() == "7"
    refused = threads_said_by(STRIDEDGPU_THREADS="many")
    assert refused.returncode == 1
    assert "STRIDEDGPU_THREADS='many' is not a number of threads" in refused.stderr


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2", None])
def test_what_is_no_number_of_threads(count):
    with pytest.raises(ValueError, match=r"count=.* (is not an integer|must be at least 1)"):
        sg.set_num_threads(count)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this platform has no affinity of processes")
def test_the_default_is_the_cores_of_this_process():
    core = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, {{{core}}}); import stridedgpu as sg; print(sg.get_num_threads())"
    environment = {name: value for name, value in os.environ.items() if name != threads.VARIABLE}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "1"
