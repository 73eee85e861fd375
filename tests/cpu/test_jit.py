"""Compiled kernels on disk: used again, never trusted blindly, never needed."""

from __future__ import annotations

import itertools
import os
import stat
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest
from harness.compiled_loops import needs_compiler
from harness.cpu_paths import forget

import stridedgpu as sg
from stridedgpu.devices.cpu import thread_count
from stridedgpu.devices.cpu.compiled import jit as machine_code, kernel_cache
from stridedgpu.devices.cpu.compiled.compiler import Library, LoopError
from stridedgpu.devices.cpu.compiled.ir import Code
from stridedgpu.devices.cpu.compiled.relayout import plan_relayout
from stridedgpu.devices.cpu.native import library
from stridedgpu.devices.cpu.policy import Policy, policy, using
from stridedgpu.devices.cpu.promotion import Promotion
from stridedgpu.devices.cpu.target import Target

MOVE = """
import sys, numpy as np, stridedgpu as sg
from stridedgpu.devices.cpu.policy import policy, using
frame = np.random.default_rng(0).integers(0, 256, (3, 640, 480, 3), np.uint8)
with using(policy()._replace(native=False)):
    made = sg.asarray(frame, dims="NHWC").relayout(layout="NCHW", dtype="float32", scale=1 / 255)
assert np.array_equal(made.numpy(), frame.transpose(0, 3, 1, 2).astype(np.float32) * np.float32(1 / 255))
from stridedgpu.devices.cpu.compiled import jit
print("numba" in sys.modules or "llvmlite" in sys.modules, jit._COMPILER._process is not None)
"""


def move_in_a_process(directory, before="", **variables):
    """Two threads share it out, however many cores there are."""
    environment = {**os.environ, thread_count.VARIABLE: "2", kernel_cache.VARIABLE: str(directory), **variables}
    return subprocess.run(
        [sys.executable, "-c", before + MOVE], capture_output=True, text=True, timeout=600, check=True, env=environment
    ).stdout.split()


def kernel_files(directory):
    return {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}


def kernel_text(target="float32"):
    source = sg.empty((1, 3, 64, 64), "uint8", layout="NHWC")
    out = sg.empty((1, 3, 64, 64), target, layout="NCHW")
    plan = sg.plan_relayout(source, out, scale=1 / 255, bias=-0.5).plan
    return plan_relayout(plan.problem).kernel.text


@needs_compiler
def test_a_second_process_finds_the_kernel(tmp_path):
    directory = tmp_path / "new" / "cache"
    assert move_in_a_process(directory) == ["False", "True"]
    files = kernel_files(directory)
    assert len(files) == 1
    assert move_in_a_process(directory) == ["False", "False"]
    assert kernel_files(directory) == files
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


DAMAGES = (lambda code: code[: len(code) // 2], lambda code: code[:-9] + bytes(9), lambda _: b"", lambda code: code[:9])


@needs_compiler
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (1, 2, 3))])
def test_a_damaged_file_is_compiled_anew(tmp_path, first):
    """Each of the files is damaged in another way."""
    move_in_a_process(tmp_path)
    files = {path: path.read_bytes() for path in sorted(tmp_path.iterdir())}
    assert len(files) < len(DAMAGES)
    for number, (path, whole) in enumerate(files.items(), first):
        path.write_bytes(DAMAGES[number % len(DAMAGES)](whole))
    move_in_a_process(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


@needs_compiler
def test_the_cache_need_not_be_writable(tmp_path):
    place = tmp_path / "a file, not a directory"
    place.write_text("", encoding="utf-8")
    assert move_in_a_process(place) == ["False", "True"]


FULL_DISK = """
import resource, signal, sys
sys.dont_write_bytecode = True  # cut off by the limit, it would stay
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # what cannot be written is then an error, as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
"""


@needs_compiler
def test_a_full_disk_is_left_without_half_a_file(tmp_path):
    assert move_in_a_process(tmp_path, before=FULL_DISK) == ["False", "True"]
    assert list(tmp_path.iterdir()) == []


NO_HOME = """
import os
def expanduser(path): return path
os.path.expanduser = expanduser  # as for a user whom the system does not know, without the variable HOME
"""


@needs_compiler
def test_a_user_without_a_home_has_no_cache(tmp_path):
    assert move_in_a_process("", before=NO_HOME, XDG_CACHE_HOME="") == ["False", "True"]


def planted(directory, code=b"native code"):
    """A kernel's file as its owner would write it."""
    directory.mkdir(mode=0o700, exist_ok=True)
    path = directory / "name.o"
    path.write_bytes(kernel_cache._checksum("name", code) + code)
    path.chmod(0o600)
    return path


def owned_by_another(path):
    os.chown(path, 12345, -1)


OPEN_TO_OTHERS = {
    "a file that the group may write": lambda path: path.chmod(0o660),
    "a file that anybody may write": lambda path: path.chmod(0o602),
    "a folder that anybody may write": lambda path: path.parent.chmod(0o777),
    "a folder that the group may write": lambda path: path.parent.chmod(0o770),
    "a file of another user": owned_by_another,
    "a folder of another user": lambda path: owned_by_another(path.parent),
}


@pytest.mark.parametrize("change", OPEN_TO_OTHERS.values(), ids=OPEN_TO_OTHERS)
def test_native_code_that_another_user_could_have_written_is_not_run(tmp_path, monkeypatch, change):
    monkeypatch.setenv(kernel_cache.VARIABLE, str(tmp_path / "cache"))
    path = planted(tmp_path / "cache")
    assert kernel_cache.read("name") == b"native code"
    try:
        change(path)
    except PermissionError:
        pytest.skip("only root gives files away")
    assert kernel_cache.read("name") is None


def test_a_link_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setenv(kernel_cache.VARIABLE, str(tmp_path / "cache"))
    path = planted(tmp_path / "cache")
    path.rename(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real"))
    assert kernel_cache.read("name") is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "name.o", 0o600)
    read = "from stridedgpu.devices.cpu.compiled import kernel_cache; print(kernel_cache.read('name'))"
    environment = {**os.environ, kernel_cache.VARIABLE: str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", read], capture_output=True, text=True, timeout=300, check=True, env=environment
    )
    assert done.stdout == "None\n"


@pytest.mark.parametrize("variable", [kernel_cache.VARIABLE, "XDG_CACHE_HOME"])
def test_a_relative_directory_is_not_used(tmp_path, monkeypatch, variable):
    monkeypatch.delenv(kernel_cache.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(variable, "cache")
    kernel_cache.write("name", b"native code")
    assert not (tmp_path / "cache").exists()


@needs_compiler
def test_a_module_is_loaded_once_however_many_there_are(monkeypatch):
    loads = itertools.count(1)  # as many addresses as there were loads, and no machine code
    monkeypatch.setattr(machine_code, "functions_of", lambda *_: (next(loads),))
    monkeypatch.setattr(kernel_cache, "read", lambda _: b"")
    monkeypatch.setattr(machine_code, "_LOADED", {})
    texts = [f"module {number}" for number in range(5000)]
    first = [machine_code.machine_functions(text, "") for text in texts]
    assert [machine_code.machine_functions(text, "") for text in texts] == first
    assert next(loads) == 5001


@needs_compiler
def test_what_cannot_be_loaded_is_an_error(monkeypatch):
    monkeypatch.setattr(machine_code, "_LOADED", {})
    monkeypatch.setattr(machine_code, "functions_of", lambda *_: None)
    with pytest.raises(sg.DeviceError, match=r"cannot be loaded: the CPU has no memory left.*STRIDEDGPU_COMPILED=0"):
        machine_code.compiled(kernel_text("int64"))
    assert machine_code._LOADED == {}


@pytest.mark.parametrize("at", [1, 16], ids=["the first call", "a later call"])
def test_calls_go_on_with_numpy_where_no_loop_can_be_had(at):
    def refused():
        raise LoopError("no memory")

    switch = Promotion(at, lambda: len, refused)
    if at > 1:
        switch._load()
    assert switch.chosen() is len
    assert not switch.is_compiled


@needs_compiler
def test_another_kernel_has_another_file(tmp_path, monkeypatch):
    monkeypatch.setenv(kernel_cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(machine_code, "_LOADED", {})
    machine_code.compiled(kernel_text("float32"))
    before = len(kernel_files(tmp_path))
    machine_code.compiled(kernel_text("float16"))
    assert len(kernel_files(tmp_path)) == before + 1


@needs_compiler
@pytest.mark.parametrize("change", ["instruction sets", "compiler"])
def test_machine_code_of_another_processor_or_compiler_has_another_file(tmp_path, monkeypatch, change):
    """A cache that several machines share has nothing in it that ends a process."""
    monkeypatch.setenv(kernel_cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(machine_code, "_LOADED", {})
    text, here = kernel_text(), policy().target
    machine_code.compiled(text)
    less = policy()._replace(target=here._replace(features=here.features - {"movbe", "neon"}))
    if change == "compiler":
        monkeypatch.setattr(machine_code, "library", lambda: Library("", "another version"))
    with using(less) if change == "instruction sets" else nullcontext():
        machine_code.compiled(text)
    assert len(kernel_files(tmp_path)) == 2


@needs_compiler
def test_without_a_known_compiler_nothing_is_cached(tmp_path, monkeypatch):
    monkeypatch.setenv(kernel_cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(machine_code, "_LOADED", {})
    monkeypatch.setattr(kernel_cache, "read", lambda _: pytest.fail("it may be of any compiler"))
    monkeypatch.setattr(machine_code, "library", lambda: None)
    assert machine_code.compiled(kernel_text()).address
    assert kernel_files(tmp_path) == {}


@pytest.mark.parametrize("lanes, element, lines", [(64, "double", 8), (32, "i64", 4), (64, "i16", 2)])
def test_a_wide_vector_is_loaded_a_line_after_another(lanes, element, lines):
    code = Code()
    vector = code.load_in_order(f"<{lanes} x {element}>", code.source)
    assert (vector.lanes, vector.element) == (lanes, element)
    text = code.text("kernel").splitlines()
    loads = [place for place, line in enumerate(text) if " = load " in line]
    assert [text[place - 1].rpartition(" ")[2] for place in loads] == [str(64 * line) for line in range(lines)]
    assert all("fence" in text[place + 1] for place in loads), "nothing is loaded before what stands above it"


def test_a_vector_of_a_line_is_one_load():
    code = Code()
    code.load_in_order("<16 x float>", code.source)
    assert code.text("kernel").count(" = load ") == 1
    assert "fence" not in code.text("kernel")


def test_numpy_does_all_where_it_is_asked_to(tmp_path):
    assert move_in_a_process(tmp_path, **{library.DISABLING: "0"}) == ["False", "False"]
    assert not kernel_files(tmp_path)


def test_what_would_be_faster_is_said(monkeypatch):
    monkeypatch.delenv(library.DISABLING, raising=False)
    monkeypatch.setattr(machine_code, "why_refused", lambda: None)
    monkeypatch.setattr(machine_code, "library", lambda: None)
    with using(Policy.of(Target.stated("x86-64-v3"))):
        assert 'pip install "stridedgpu[cpu]"' in sg.devices()[0].reason
    monkeypatch.setenv(library.DISABLING, "0")
    assert "STRIDEDGPU_COMPILED=0" in sg.devices()[0].reason
    assert sg.devices()[0].available


def test_a_processor_without_the_instructions_stays_with_numpy():
    with using(Policy.of(Target.stated("x86-64-v2"))):
        forget()
        if machine_code.why_refused() is None:
            assert machine_code.why_unavailable().startswith("compiled loops need AVX2 and F16C")
        source = sg.asarray(np.arange(2**20, dtype=np.uint16).reshape(1024, 1024))
        assert np.array_equal(source.permute((1, 0)).relayout().numpy(), source.numpy().T)
        plan = sg.plan_relayout(source.permute((1, 0)), sg.empty((1024, 1024), "uint16"))
        assert plan.kernel.startswith("numpy")
    forget()


@needs_compiler
@pytest.mark.skipif("avx2" not in Target.here().features, reason="reads x86 assembly")
def test_products_and_sums_are_rounded_apart():
    assembly = machine_code.assembly(kernel_text()("kernel"))
    assert "vmulps" in assembly
    assert "vaddps" in assembly
    assert "vfmadd" not in assembly


_SMALL_MOVES = """
import os, sys, threading, numpy as np, stridedgpu as sg
importing = set()
def hear(event, given):
    if event == "subprocess.Popen":
        importing.add(threading.get_ident())
sys.addaudithook(hear)
from stridedgpu.devices.cpu import policy
policy._own = policy.policy()._replace(native=False)
source = sg.asarray(np.arange(3 * 32 * 32, dtype=np.float32).reshape(1, 32, 32, 3), dims="NHWC")
out = sg.empty((1, 3, 32, 32), "float32")
plan = sg.plan_relayout(source, out)

def move():
    out[...] = 0
    plan(source, out)
    assert np.array_equal(out.numpy(), source.numpy())
"""
"""A move of a few bytes, and the threads that start the compiler."""


def run_small_moves(code, directory):
    environment = {**os.environ, kernel_cache.VARIABLE: str(directory)}
    command = [sys.executable, "-c", _SMALL_MOVES + code]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split()


@needs_compiler
def test_small_moves_load_the_compiler_once_repeated_and_in_another_thread(tmp_path):
    code = """
for call in range(1, 20):
    move()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()
    if importing:
        break
move()
print(call, threading.get_ident() in importing, len(importing))
"""
    call, in_the_caller, threads = run_small_moves(code, tmp_path)
    assert 1 < int(call) <= policy().promotion.calls
    assert (in_the_caller, threads) == ("False", "1")


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_while_the_compiler_is_loaded_leaves_a_child_that_works(tmp_path):
    code = """
for call in range(16):
    move()
child = os.fork()
if not child:
    move()
    large = sg.asarray(np.arange(2**20, dtype=np.uint16).reshape(1024, 1024))
    os._exit(int(not np.array_equal(large.permute((1, 0)).relayout().numpy(), large.numpy().T)))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_small_moves(code, tmp_path) == ["0"]
