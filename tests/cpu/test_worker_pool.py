"""The thread pool: any number of callers, forks, spawned workers, and how many threads there are."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from harness.native_loops import needs_library, policy_with

import stridedgpu as sg
from stridedgpu.devices.cpu import thread_count as threads
from stridedgpu.devices.cpu.native import pool as worker_pool
from stridedgpu.devices.cpu.native.calls import NativeFunction
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.launch_cache import forget_launches

FRAMES = np.random.default_rng(0).integers(0, 256, (6, 512, 640, 3), np.uint8)
assert 2 * FRAMES.nbytes >= policy().sharing.waking_bytes, "less than a worker is woken for"
PLANES = np.ascontiguousarray(FRAMES.transpose(0, 3, 1, 2))


@pytest.fixture(autouse=True)
def four_threads(monkeypatch):
    monkeypatch.setattr(threads, "_chosen", 4)
    monkeypatch.setattr(threads.SHARED, "several", True)


def relayout_is_right(times=3):
    for _ in range(times):
        made = sg.asarray(FRAMES, dims="NHWC").relayout(layout="NCHW")
        if not np.array_equal(made.numpy(), PLANES):
            return False
    return True


def loop_of(each):
    """What looks like a native loop, and calls `each(item)`."""

    def alone(source, target, parameters, first, last):
        for item in range(first, last):
            each(item)

    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64)(alone)
    loop = NativeFunction(ctypes.cast(function, ctypes.c_void_p).value)
    loop.alone = function
    return loop


def share_items(each, items):
    worker_pool.run_shared(loop_of(each), 0, 0, 0, items, nbytes=1 << 30)


@needs_library
@pytest.mark.parametrize("items", [0, 1, 2, 3, 5, 17, 100])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_every_item_is_done_once(items, count):
    sg.set_num_threads(count)
    done = []
    share_items(done.append, items)
    assert sorted(done) == list(range(items))


@needs_library
@pytest.mark.parametrize("count, items", [(1, 100), (8, 1)])
def test_one_thread_or_one_item_wakes_nobody(monkeypatch, count, items):
    sg.set_num_threads(count)
    monkeypatch.setattr(worker_pool, "_pool", worker_pool._Pool())
    monkeypatch.setattr(worker_pool, "_run", lambda: pytest.fail("the pool was woken"))
    monkeypatch.setattr(worker_pool._Pool, "grow", lambda *arguments: pytest.fail("workers were started"))
    done = []
    share_items(done.append, items)
    assert done == [*range(items)]


@needs_library
@pytest.mark.parametrize("cores", [2, 8])
def test_more_threads_than_cores_do_not_spin(monkeypatch, cores):
    sg.set_num_threads(4)
    pool = worker_pool._Pool()
    pool.cores = cores
    plain_run, spins = worker_pool._run(), []

    def run(*arguments):
        spins.append(arguments[-1])
        plain_run(*arguments)

    monkeypatch.setattr(worker_pool, "_run", lambda: run)
    monkeypatch.setattr(worker_pool, "_pool", pool)
    share_items(lambda _: None, 20)
    assert spins == [0 if cores < 4 else worker_pool.policy().sharing.spins]


@needs_library
def test_each_of_many_workers_has_memory_and_a_thread_of_its_own():
    pool = worker_pool._Pool()
    pool.grow(20)
    assert len({block.address for block, _ in pool.workers}) == len({thread for _, thread in pool.workers}) == 19


@needs_library
def test_work_is_shared_between_threads():
    met = threading.Barrier(4, timeout=600)  # breaks unless four threads work at once
    share_items(lambda _: met.wait(), 4)


@needs_library
@pytest.mark.parametrize("nbytes, count", [(0, 2), (999, 2), (1000, 3), (9000, 4)])
def test_little_work_is_shared_by_few_threads(nbytes, count):
    all_met, workers = threading.Barrier(count, timeout=600), set()

    def each(item):
        workers.add(threading.get_ident())
        time.sleep(0.001)  # long enough for anybody else to come

    with policy_with(sharing={"thread_bytes": 1000, "waking_bytes": 0}):
        worker_pool.run_shared(loop_of(lambda _: all_met.wait()), 0, 0, 0, count, nbytes=nbytes)
        worker_pool.run_shared(loop_of(each), 0, 0, 0, 50, nbytes=nbytes)
    assert len(workers) <= count


@needs_library
def test_work_may_share_out_work_of_its_own():
    sg.set_num_threads(2)
    done = []
    share_items(lambda _: share_items(done.append, 10), 8)
    assert sorted(done) == sorted([*range(10)] * 8)


@needs_library
def test_where_no_worker_comes_the_caller_does_all(monkeypatch):
    monkeypatch.setattr(worker_pool, "_pool", worker_pool._Pool())
    monkeypatch.setattr(threading.Thread, "start", lambda thread: None)
    done = []
    for _ in range(3):
        share_items(done.append, 100)
    assert done == [*range(100)] * 3


@needs_library
@pytest.mark.parametrize("most", [0, 1])
def test_where_no_thread_can_be_started_those_that_there_are_do_the_work(monkeypatch, most):
    started = []

    def start(thread):
        if len(started) >= most:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        plain_start(thread)

    plain_start = threading.Thread.start
    monkeypatch.setattr(worker_pool, "_pool", worker_pool._Pool())
    monkeypatch.setattr(threading.Thread, "start", start)
    done = []
    share_items(done.append, 100)
    assert sorted(done) == list(range(100))
    assert len(started) == most


@needs_library
@pytest.mark.parametrize("locks", [0, 1])
def test_a_worker_without_memory_for_its_locks_is_an_error_and_a_later_call_starts_it(monkeypatch, locks):
    plain, left = ctypes.pythonapi, iter(range(locks))

    class Exhausted:
        """CPython whose `PyThread_allocate_lock` returns NULL after so many locks."""

        @staticmethod
        def PyThread_allocate_lock():
            return None if next(left, None) is None else plain.PyThread_allocate_lock()

        @staticmethod
        def PyThread_acquire_lock(lock, wait):
            assert lock.value, "a lock at address 0 ends the process"
            return plain.PyThread_acquire_lock(lock, wait)

    share_items(id, 100)  # the pool's code is loaded
    monkeypatch.setattr(worker_pool, "_pool", worker_pool._Pool())
    monkeypatch.setattr(threads, "_chosen", 2)
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(ctypes, "pythonapi", Exhausted())
        share_items(id, 100)
    done = []
    share_items(done.append, 100)
    assert sorted(done) == list(range(100))
    assert len(worker_pool._pool.workers) == 1


@needs_library
def test_a_small_call_after_a_pause_starts_no_worker_and_one_soon_after_it_does(monkeypatch):
    monkeypatch.setattr(worker_pool, "_pool", worker_pool._Pool())
    done = []
    with policy_with(sharing={"waking_bytes": 1001, "waking_gap_ns": 0}):
        worker_pool.run_shared(loop_of(done.append), 0, 0, 0, 100, nbytes=1000)
    assert (done, worker_pool._pool.threads) == ([*range(100)], 1)
    with policy_with(sharing={"waking_bytes": 1001, "waking_gap_ns": 1 << 62, "thread_bytes": 1}):
        worker_pool.run_shared(loop_of(done.append), 0, 0, 0, 100, nbytes=1000)
    assert (sorted(done), worker_pool._pool.threads) == (sorted([*range(100)] * 2), 4)


@needs_library
@pytest.mark.parametrize("operation", ["relayout", "gather"])
def test_small_calls_are_shared_where_they_follow_one_another(monkeypatch, operation):
    source, out = sg.zeros((100, 5000), "uint8", device="cpu"), sg.empty((100, 5000), "uint8", device="cpu")
    rows = sg.asarray(np.arange(100))
    shared, shares = [], worker_pool.share
    monkeypatch.setattr(worker_pool, "share", lambda *given: (shared.append(given), shares(*given)))
    clock = iter(range(10**9, 10**12, 10))  # ten nanoseconds between two looks at it
    monkeypatch.setattr(worker_pool, "perf_counter_ns", lambda: next(clock))
    monkeypatch.setattr(threads.SHARED, "ended", 0)
    forget_launches()
    with policy_with(sharing={"waking_gap_ns": 1000, "waking_bytes": 1 << 40}):
        if operation == "relayout":
            plan, arguments = sg.plan_relayout(source, out), (source, out)
        else:
            plan, arguments = sg.plan_gather(source, rows, mode="clip", out=out), (source, rows, out)
        counts = []
        for several, pause in ((True, 0), (True, 0), (True, 0), (True, 2000), (True, 0), (False, 0), (True, 0)):
            monkeypatch.setattr(threads.SHARED, "several", several)
            clock = iter(range(next(clock) + pause, 10**12, 10))
            plan(*arguments)
            counts.append(len(shared))
    assert counts == [0, 1, 2, 2, 3, 3, 4]


def test_whether_several_threads_work_is_known_beforehand(monkeypatch):
    monkeypatch.setattr(threads, "_chosen", None)
    for count, several in ((1, False), (3, True), (1, False)):
        sg.set_num_threads(count)
        assert threads.SHARED.several == several
    monkeypatch.setattr(threads, "_chosen", None)
    for said, several in (("1", False), ("2", True)):
        monkeypatch.setenv(threads.VARIABLE, said)
        threads._default.cache_clear()
        assert sg.get_num_threads() == int(said)
        assert threads.SHARED.several == several
    threads._default.cache_clear()


@needs_library
def test_each_thread_begins_with_its_own_part():
    sg.set_num_threads(2)
    for _ in range(5):
        first, both = {}, threading.Barrier(2, timeout=600)

        def each(item, first=first, both=both):
            if threading.get_ident() not in first:
                first[threading.get_ident()] = item
                both.wait()

        share_items(each, 10)
        assert first.pop(threading.get_ident()) == 0
        assert list(first.values()) == [5]


@needs_library
@pytest.mark.parametrize("waking_bytes", [0, 1 << 40])
@pytest.mark.parametrize("spins", [0, 30, 2000])
def test_workers_are_parked_awake_and_in_between(monkeypatch, spins, waking_bytes):
    monkeypatch.setattr(worker_pool, "_pool", worker_pool._Pool())
    monkeypatch.setattr(worker_pool._pool, "cores", 4)
    pauses = random.Random(spins)
    source, out = sg.asarray(FRAMES, dims="NHWC"), sg.empty(PLANES.shape, "uint8")
    forget_launches()
    with policy_with(sharing={"spins": spins, "waking_bytes": waking_bytes}):
        plan = sg.plan_relayout(source, out)
        for _ in range(300):
            time.sleep(pauses.choice((0, 0, 1e-5, 1e-4, 1e-3)))
            plan(source, out)
    assert np.array_equal(out.numpy(), PLANES)


@needs_library
@pytest.mark.parametrize("core", [0, 1, 70, 1024, -1])
def test_a_parked_worker_is_not_woken_on_the_core_of_its_caller(monkeypatch, core):
    # Neither where a core's number is too large for an affinity, nor where the system does not know it.
    before = [0xFF, 0x60] + [0] * 14
    told, words = [], ctypes.c_uint64 * 16

    def get_affinity(thread, nbytes, affinity):
        words.from_address(affinity)[:] = before
        return 0

    def set_affinity(thread, nbytes, affinity):
        told.append((threading.get_native_id(), thread, nbytes, words.from_address(affinity)[:]))
        return 0

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p)
    functions = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: core), kind(get_affinity), kind(set_affinity)
    addresses = tuple(ctypes.cast(function, ctypes.c_void_p).value for function in functions)
    sg.set_num_threads(2)
    monkeypatch.setattr(worker_pool, "_affinity_functions", lambda: addresses)
    monkeypatch.setattr(worker_pool, "_pool", worker_pool._Pool())
    with policy_with(sharing={"spins": 0}):  # a worker parks at once
        both = threading.Barrier(2, timeout=600)
        share_items(lambda _: both.wait(), 2)
        ((worker, thread),) = worker_pool._pool.workers
        state = ctypes.c_int.from_address(worker.address)
        while state.value != 1:  # ASLEEP
            time.sleep(0.001)
        told.clear()
        share_items(lambda _: both.wait(), 2)
    without = list(before)
    excluded = [(threading.get_native_id(), thread, 128, without)] if 0 <= core < 1024 else []
    if excluded:
        without[core // 64] &= ~(1 << core % 64)
    assert told == [*excluded, (thread, thread, 128, before)]


@needs_library
@pytest.mark.skipif(sys.platform != "linux", reason="the affinity of threads is Linux'")
def test_a_woken_worker_may_run_on_every_core_again(monkeypatch):
    sg.set_num_threads(2)
    monkeypatch.setattr(worker_pool, "_pool", worker_pool._Pool())
    both = threading.Barrier(2, timeout=600)
    for _ in range(20):
        share_items(lambda _: both.wait(), 2)
        ((_, thread),) = worker_pool._pool.workers
        assert os.sched_getaffinity(thread) == os.sched_getaffinity(0)
        time.sleep(0.002)


@needs_library
def test_a_process_ends_while_workers_spin():
    code = """
import numpy as np, stridedgpu as sg
sg.set_num_threads(4)
sg.asarray(np.zeros((6, 512, 640, 3), np.uint8), dims="NHWC").relayout(layout="NCHW")
"""
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
        assert (done.returncode, done.stderr) == (0, "")


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
    threads._default.cache_clear()
    assert sg.get_num_threads() == threads.usable_cores() >= 1
    assert threads_said_by(STRIDEDGPU_THREADS="7").stdout.strip() == "7"
    refused = threads_said_by(STRIDEDGPU_THREADS="many")
    assert refused.returncode == 1
    assert "STRIDEDGPU_THREADS='many' is not a number of threads" in refused.stderr


@pytest.mark.parametrize("said", ["0", "-1", "1.5", "1025", "9" * 5000], ids=lambda said: said[:5])
def test_a_variable_that_is_no_number_of_threads_is_refused_in_a_sentence(monkeypatch, said):
    monkeypatch.setenv(threads.VARIABLE, said)
    with pytest.raises(sg.StridedGpuError, match=f"STRIDEDGPU_THREADS='{said[:20]}' is not a number of threads"):
        threads._default.__wrapped__()


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2", None])
def test_what_is_no_number_of_threads(count):
    with pytest.raises(ValueError, match=r"count=.* (is not an integer|must be at least 1)"):
        sg.set_num_threads(count)


@pytest.mark.parametrize("count", [1025, 10**9, 2**70])
def test_more_threads_than_any_machine_uses_are_refused(count):
    with pytest.raises(sg.LayoutError, match=f"count={count} must be at most 1024; this process may use"):
        sg.set_num_threads(count)
    assert sg.get_num_threads() == 4, "what was set before stays"


def test_as_many_threads_as_the_variable_may_say_can_be_set(monkeypatch):
    monkeypatch.setenv(threads.VARIABLE, "1024")
    assert threads._default.__wrapped__() == 1024
    sg.set_num_threads(1024)
    assert sg.get_num_threads() == 1024


@needs_library
@pytest.mark.parametrize("cores", [2, 100])
def test_no_more_workers_are_started_than_cores_or_64(monkeypatch, cores):
    started = []
    monkeypatch.setattr(worker_pool, "usable_cores", lambda: cores)
    monkeypatch.setattr(worker_pool, "_pool", worker_pool._Pool())
    monkeypatch.setattr(threading.Thread, "start", lambda thread: started.append(thread.name))
    sg.set_num_threads(1000)
    done = []
    for _ in range(2):
        share_items(done.append, 2000)
    assert done == [*range(2000)] * 2, "no worker came"
    assert len(started) == max(cores, 64) - 1


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this platform has no affinity of processes")
def test_the_default_is_the_cores_of_this_process():
    core = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, {{{core}}}); import stridedgpu as sg; print(sg.get_num_threads())"
    environment = {name: value for name, value in os.environ.items() if name != threads.VARIABLE}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "1"
