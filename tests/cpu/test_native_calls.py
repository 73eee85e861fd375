"""How Python calls the native library: by builtin functions of words, and of addresses."""

from __future__ import annotations

import ctypes
import gc
import operator
import sys
import threading
import weakref
from types import SimpleNamespace

import pytest
from harness.native_loops import needs_library

from stridedgpu.devices.cpu.native import calls, library
from stridedgpu.devices.cpu.policy import policy


@needs_library
@pytest.mark.parametrize("arity", [1, 5, 6])
def test_python_calls_machine_code_with_words(arity):
    taken = []
    words = [0, 1, 2**31, 2**63, 2**64 - 1, 5][:arity]
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * arity)(lambda *given: taken.append(list(given)))
    called = calls.python_function(ctypes.cast(function, ctypes.c_void_p).value, arity)
    gc.collect()  # what it frees later would own None, too
    before = sys.getrefcount(None)
    assert all(called(*words) is None for _ in range(2000))
    assert taken == [words] * 2000
    assert abs(sys.getrefcount(None) - before) < 1000  # each call returns None, which it owns


@needs_library
@pytest.mark.parametrize("offsets", [(3, -5), (0, 2**40, -(2**33))], ids=["two sides", "with indices"])
@pytest.mark.parametrize("keeps_lock", [False, True])
@pytest.mark.parametrize("target_first", [False, True])
@pytest.mark.parametrize("python", ["cpython", "pypy"])
def test_a_move_knows_what_is_the_same_in_every_call(monkeypatch, offsets, keeps_lock, target_first, python):
    taken = []
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 5)(lambda *given: taken.append([*given, parameters[0]]))
    parameters = (ctypes.c_uint64 * 2)(7, 8)
    loop = calls.NativeFunction(ctypes.cast(function, ctypes.c_void_p).value)
    place = ctypes.addressof(parameters)
    options = {"owner": parameters, "keeps_lock": keeps_lock, "target_first": target_first}
    with monkeypatch.context() as patch:
        patch.setattr(sys, "implementation", SimpleNamespace(name=python))
        move = calls.moving_function(loop, place, 2**34, offsets, **options)
    sides = [2**63, 2**47 + 1, 2**46][: len(offsets)]
    assert [move(*sides) for _ in range(2)] == [None] * 2
    one, other, *indices = map(operator.add, sides, offsets)
    reads, writes = (other, one) if target_first else (one, other)
    assert taken == [[reads, writes, place, 0, 2**34, *(indices or [7])]] * 2
    assert parameters[1] == 8


@needs_library
@pytest.mark.parametrize("python", ["cpython", "pypy"])
def test_a_move_keeps_its_parameters_alive(monkeypatch, python):
    class Parameters:
        pass

    owner = Parameters()
    alive = weakref.ref(owner)
    loop = calls.NativeFunction(library.function(policy().native_level, "rows"))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "implementation", SimpleNamespace(name=python))
        move = calls.moving_function(loop, 0, 0, (0, 0), owner=owner, keeps_lock=True)
    del owner
    gc.collect()
    assert alive() is not None
    del move
    gc.collect()
    assert alive() is None


@needs_library
@pytest.mark.skipif(not calls.runs_alone(), reason="there is no lock to keep")
@pytest.mark.parametrize("keeps_lock", [False, True])
def test_only_a_brief_move_keeps_pythons_lock(keeps_lock):
    """The loop waits for a lock that another thread releases as soon as it runs."""
    python = ctypes.pythonapi
    python.PyThread_allocate_lock.restype = ctypes.c_void_p
    lock = ctypes.c_void_p(python.PyThread_allocate_lock())
    assert python.PyThread_acquire_lock(lock, 1)
    wait = ctypes.cast(python.PyThread_acquire_lock_timed, ctypes.c_void_p).value
    move = calls.moving_function(calls.NativeFunction(wait), 0, 0, (0, 0), owner=None, keeps_lock=keeps_lock)
    begins, interval = threading.Event(), sys.getswitchinterval()

    def release():
        begins.wait()
        python.PyThread_release_lock(lock)

    other = threading.Thread(target=release)
    other.start()
    sys.setswitchinterval(1000)  # no thread takes Python's lock that is not released
    try:
        begins.set()
        move(lock.value, 200_000 if keeps_lock else 60_000_000)  # microseconds
    finally:
        sys.setswitchinterval(interval)
    other.join()
    assert python.PyThread_acquire_lock(lock, 0) == keeps_lock  # 0: the loop acquired it
    python.PyThread_release_lock(lock)
    python.PyThread_free_lock(lock)


@needs_library
@pytest.mark.parametrize("name, contents", [("stridedgpu_call", bytes(8)), ("stridedgpu_move", bytes(80))])
def test_what_is_no_integer_is_an_error_before_anything_runs(name, contents):
    """Address 0 is not called."""
    with pytest.raises(TypeError):
        calls.builtin(name, contents)("no integer", 2)
