"""The compiler in a process of its own: what ends it, ends no other; NumPy does the work then, and says why."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from contextlib import contextmanager
from time import sleep

import numpy as np
import pytest
from harness.compiled_loops import needs_compiler
from harness.cpu_paths import forget

import stridedgpu as sg
from stridedgpu.devices.cpu import executable_memory, thread_count
from stridedgpu.devices.cpu.compiled import compiler as compilers, jit, kernel_cache
from stridedgpu.devices.cpu.compiled.compiler import Compiler, CompilerError, LoopError
from stridedgpu.devices.cpu.compiled.ir import Code, needs_of
from stridedgpu.devices.cpu.policy import policy, using
from stridedgpu.devices.cpu.target import LEVELS, Target

EMPTY = "define void @kernel() {\n  ret void\n}\n"

DYING = """
declare <64 x i8> @llvm.x86.avx512.vpermi2var.qi.512(<64 x i8>, <64 x i8>, <64 x i8>)
define <64 x i8> @kernel(<64 x i8> %a) {
  %b = call <64 x i8> @llvm.x86.avx512.vpermi2var.qi.512(<64 x i8> %a, <64 x i8> %a, <64 x i8> %a)
  ret <64 x i8> %b
}
"""
"""What LLVM cannot translate for a processor without AVX-512: it aborts its process."""


@pytest.fixture
def compiler():
    one = Compiler()
    yield one
    one.stop()


@needs_compiler
def test_an_abort_of_llvm_is_an_error_and_the_next_module_is_compiled(compiler):
    target = Target.stated("x86-64-v3")
    with pytest.raises(CompilerError, match="ended with code -6: LLVM ERROR: ") as caught:
        compiler.object_file(DYING, target)
    assert not caught.value.permanent
    assert compiler.object_file(EMPTY, target).startswith(b"\x7fELF")


@needs_compiler
def test_a_module_that_takes_llvm_too_long_is_an_error_and_the_next_module_is_compiled():
    steps = "".join(f"  %v{step + 1} = xor i64 %v{step}, %v{step // 2}\n" for step in range(50_000))
    compiler = Compiler(seconds=0.05)
    try:
        with pytest.raises(CompilerError, match=r"did not compile a loop within 0\.05 s") as caught:
            compiler.object_file(
                f"define i64 @kernel(i64 %v0) {{\n{steps}  ret i64 %v50000\n}}\n", Target.stated("x86-64-v3")
            )
        assert not caught.value.permanent
        assert compiler.object_file(EMPTY, Target.stated("x86-64-v3")).startswith(b"\x7fELF")
    finally:
        compiler.stop()


@needs_compiler
def test_what_llvm_refuses_is_an_error_that_says_why(compiler):
    with pytest.raises(CompilerError, match=r"LLVM refuses a loop: [\s\S]*expected"):
        compiler.object_file("define nonsense", Target.stated("x86-64-v3"))
    assert compiler.object_file(EMPTY, Target.stated("aarch64"))[18:20] == (183).to_bytes(2, "little")


@needs_compiler
def test_a_compiler_that_ended_for_want_of_work_is_started_again(compiler):
    compiler.object_file(EMPTY, Target.stated("x86-64-v3"))
    for is_seen in (True, False):
        process = compiler._process
        process.stdin.close()  # as its own clock ends it
        process.wait()
        if not is_seen:
            process.poll = lambda: None  # it ends between the look and the request
        process.stdin = _ClosedPipe()
        assert compiler.object_file(EMPTY, Target.stated("x86-64-v3")).startswith(b"\x7fELF")
        assert compiler._process is not process


class _ClosedPipe:
    def write(self, _):
        raise BrokenPipeError

    def close(self):
        pass


@needs_compiler
@pytest.mark.parametrize("works", [True, False], ids=["of a compiler that works", "of one that starts"])
def test_an_interrupted_request_leaves_no_half_of_an_answer(compiler, monkeypatch, works):
    if works:
        compiler.object_file(EMPTY, Target.stated("x86-64-v3"))

    def interrupted(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compiler, "_answer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compiler.object_file(EMPTY, Target.stated("x86-64-v3"))
    assert compiler._process is None
    assert compiler.object_file(EMPTY, Target.stated("x86-64-v3")).startswith(b"\x7fELF")


REPEATING = """
import sys

def answer(content):
    sys.stdout.buffer.write(b"ok %d\\n%s" % (len(content), content))
    sys.stdout.buffer.flush()

answer(b"LLVM's version")
while line := sys.stdin.buffer.readline():
    answer(sys.stdin.buffer.read(int(line.split()[-1])))
"""
"""A compiler whose object file is the module itself."""


@pytest.mark.parametrize("works", [True, False], ids=["of a compiler that works", "of one that starts"])
def test_after_an_interrupt_anywhere_a_request_has_its_own_answer(tmp_path, monkeypatch, works):
    (tmp_path / "repeating.py").write_text(REPEATING, encoding="utf-8")
    monkeypatch.setattr(compilers, "_SCRIPT", str(tmp_path / "repeating.py"))
    monkeypatch.setattr(compilers, "library", lambda: compilers.Library("/somewhere/llvmlite", None))
    target, profiled = Target.stated("x86-64-v3"), sys.getprofile()
    plain, started = subprocess.Popen, []

    def start(*arguments, **options):
        started.append(plain(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(compilers.subprocess, "Popen", start)

    def is_interrupted(compiler, number):
        """Interrupt a request at its so many-th call or return, where CPython looks for signals; False without it."""
        places = iter(range(number))

        def profile(frame, event, _):
            near = frame.f_back if event == "return" else frame
            is_place = event in ("call", "return", "c_return") and near.f_code.co_filename == compilers.__file__
            if is_place and next(places, None) is None:
                sys.setprofile(profiled)
                raise KeyboardInterrupt

        sys.setprofile(profile)
        try:
            compiler.object_file("interrupted", target)
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(profiled)
        return False

    number, interrupted = 0, True
    while interrupted:
        compiler = Compiler()
        try:
            if works:
                compiler.object_file("before", target)
            interrupted = is_interrupted(compiler, number)
            assert compiler.object_file("next", target) == b"next", f"interrupted at place {number}"
        finally:
            for process in started:
                compilers._end(process)
            started.clear()
        number += 1
    assert number > 20


@needs_compiler
def test_a_request_in_the_middle_of_another_does_not_take_its_answer(compiler, monkeypatch):
    """A handler of a signal, or the end of an object, may call the library while its thread waits for the compiler."""
    named = [EMPTY.replace("kernel", name) for name in ("outer", "inner")]
    answer = compiler._answer

    def disturbed(process):
        monkeypatch.setattr(compiler, "_answer", answer)
        with pytest.raises(LoopError, match="at work") as caught:
            compiler.object_file(named[1], Target.stated("x86-64-v3"))
        assert not isinstance(caught.value, CompilerError), "it may be compiled later"
        return answer(process)

    compiler.object_file(EMPTY, Target.stated("x86-64-v3"))
    monkeypatch.setattr(compiler, "_answer", disturbed)
    assert b"outer" in compiler.object_file(named[0], Target.stated("x86-64-v3"))
    assert b"inner" in compiler.object_file(named[1], Target.stated("x86-64-v3"))


IGNORING = """
import signal, sys
from stridedgpu.devices.cpu.compiled.compiler import Compiler, CompilerError
from stridedgpu.devices.cpu.target import Target
if sys.argv[1] == "ignored":
    signal.signal(signal.SIGVTALRM, signal.SIG_IGN)
else:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGVTALRM})
steps = "".join(f"  %v{step + 1} = xor i64 %v{step}, %v{step // 2}\\n" for step in range(50_000))
text = f"define i64 @kernel(i64 %v0) {{\\n{steps}  ret i64 %v50000\\n}}\\n"
try:
    Compiler(seconds=0.05).object_file(text, Target.stated("x86-64-v3"))
except CompilerError as error:
    print(error)
"""


@needs_compiler
@pytest.mark.parametrize("signal", ["ignored", "blocked"])
def test_the_limit_of_time_holds_where_the_caller_does_not_take_its_signal(signal):
    """A process inherits which signals are ignored, and its first thread which are blocked."""
    done = subprocess.run([sys.executable, "-c", IGNORING, signal], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "did not compile a loop within 0.05 s" in done.stdout


BROKEN = {
    "a library that cannot be loaded": (
        "raise OSError('Could not load shared object file: libllvmlite.so')",
        "OSError",
    ),
    "a package without its parts": ("", "ModuleNotFoundError"),
    "a library that ends the process": ("import os\nos.abort()", "it said nothing"),
}


@needs_compiler
@pytest.mark.parametrize("code, said", BROKEN.values(), ids=BROKEN)
def test_llvmlite_that_does_not_load_is_a_reason(tmp_path, monkeypatch, compiler, code, said):
    (tmp_path / "llvmlite").mkdir()
    (tmp_path / "llvmlite" / "__init__.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(compilers, "library", lambda: compilers.Library(str(tmp_path / "llvmlite"), None))
    with pytest.raises(CompilerError, match=said) as caught:
        compiler.object_file(EMPTY, Target.stated("x86-64-v3"))
    assert caught.value.permanent


@pytest.mark.parametrize("executable, frozen", [("", False), (None, False), (sys.executable, True)])
def test_without_a_python_to_run_it_in_there_is_no_compiler(monkeypatch, compiler, executable, frozen):
    """Programs that embed Python, or are frozen, would start themselves."""
    monkeypatch.setattr(compilers, "library", lambda: compilers.Library("/somewhere/llvmlite", None))
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setattr(sys, "frozen", frozen, raising=False)
    with pytest.raises(CompilerError, match="cannot be started: no Python is known") as caught:
        compiler.object_file(EMPTY, Target.stated("x86-64-v3"))
    assert caught.value.permanent


def test_a_system_that_starts_no_process_may_start_one_later(monkeypatch, compiler):
    def refused(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(compilers, "library", lambda: compilers.Library("/somewhere/llvmlite", None))
    monkeypatch.setattr(compilers.subprocess, "Popen", refused)
    with pytest.raises(CompilerError, match="temporarily unavailable") as caught:
        compiler.object_file(EMPTY, Target.stated("x86-64-v3"))
    assert not caught.value.permanent


@needs_compiler
def test_a_forks_child_leaves_the_compiler_to_its_parent(compiler):
    compiler.object_file(EMPTY, Target.stated("x86-64-v3"))
    child = os.fork()
    if not child:
        compiler.forget()
        done = compiler._process is None and compiler.object_file(EMPTY, Target.stated("x86-64-v3"))[:4] == b"\x7fELF"
        compiler.stop()
        os._exit(not done)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert compiler.object_file(EMPTY, Target.stated("x86-64-v3")).startswith(b"\x7fELF")


LEAVING = """
import os, stridedgpu as sg
from stridedgpu.devices.cpu.compiled import jit
jit.assembly("")
print(jit._COMPILER._process.pid, flush=True)
"""


@needs_compiler
@pytest.mark.parametrize("ending", ["", "os._exit(0)", "os.kill(os.getpid(), 9)"], ids=["exit", "_exit", "killed"])
def test_no_compiler_outlives_its_process(ending):
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", LEAVING + ending], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    stat = pathlib.Path(f"/proc/{int(done.stdout)}/stat")
    for _ in range(100):  # it ends as soon as it notices, and is gone, or waits for whoever adopted it
        try:
            if ") Z " in stat.read_text(encoding="utf-8"):
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        sleep(0.1)
    pytest.fail(stat.read_text(encoding="utf-8"))


@contextmanager
def failing_from(monkeypatch, number, error):
    """A process whose compiler fails at its so many-th module and at all later ones; nothing was compiled before."""
    whole, compiled_before = jit._COMPILER.object_file, iter(range(number))

    def object_file(text, target):
        if next(compiled_before, None) is None:
            raise error
        name = re.search(r"kernel_[0-9a-f]{32}", text)[0]
        if name not in _COMPILED:
            _COMPILED[name] = whole(text, target)
        return _COMPILED[name]

    with monkeypatch.context() as patch:
        patch.setattr(jit, "_LOADED", {})
        patch.setattr(jit, "_FAILED", jit._Failed())
        patch.setattr(jit._COMPILER, "object_file", object_file)
        patch.setattr(kernel_cache, "read", lambda _: None)
        patch.setattr(kernel_cache, "write", lambda *_: None)
        forget()
        try:
            yield
        finally:
            forget()


_COMPILED = {}
"""The object files of these tests, by the name of a function."""


def batch():
    return np.random.default_rng(0).integers(0, 256, (2, 128, 96, 3), np.uint8)


def boxes():
    return np.array([[3.0, 4.0, 90.5, 70.25], [0.0, 0.0, 128.0, 96.0]])


WORK = {
    "relayout": lambda: sg.relayout(batch(), dims="NHWC", layout="NCHW", dtype="float32", scale=0.5),
    "transpose": lambda: sg.relayout(batch(), dims="NHWC", layout="NCHW"),
    "mixed channels": lambda: sg.relayout(batch(), dims="NHWC", matrix=[[0.5, 0.25, 0.25]], dtype="float32"),
    "gather": lambda: sg.gather(batch(), np.arange(90, 4, -1), 1),
    "gather_elements": lambda: sg.gather_elements(batch(), batch().astype(np.int64) % 96, 2),
    "scatter_elements": lambda: sg.scatter_elements(batch(), batch().astype(np.int64) % 1, batch() // 2, 0),
    "crops": lambda: sg.gather_crops(batch(), [(3, 4), (5, 6)], (100, 80), dims="NHWC", layout="NCHW"),
    "crops over an edge": lambda: sg.gather_crops(batch(), [(-3, 4), (50, 60)], (100, 80), dims="NHWC", fill=7),
    "resize by Pillow": lambda: sg.resize(batch(), (60, 70), dims="NHWC", passes="horizontal"),
    "resize by OpenCV": lambda: sg.resize(batch(), (60, 70), dims="NHWC", interpolation="opencv-linear"),
    "boxes": lambda: sg.gather_crops(batch(), boxes=boxes(), size=(60, 50), dims="NHWC", interpolation="opencv-area"),
    "letterbox": lambda: sg.letterbox(batch(), (128, 128), dims="NHWC", dtype="float16", scale=1 / 255),
    "frame": lambda: sg.relayout(sg.Frame.over("nv12", batch()[0].ravel().copy(), (128, 96)), dtype="float32"),
    "to a frame": lambda: sg.relayout(
        batch()[0], dims="HWC", out=sg.Frame.over("nv12", bytearray(128 * 96 * 3 // 2), (128, 96))
    ),
    "raw": lambda: sg.unpack_raw(batch().ravel()[: 128 * 120], "mipi-raw10", (128, 96)),
}


def bits(made):
    planes = made.planes if isinstance(made, sg.Frame) else [made]
    return b"".join(plane.numpy().tobytes() for plane in planes)


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_numpy_takes_over_wherever_the_compiler_fails(monkeypatch, work, threads):
    """At the first module, at the second and so on, until the operation needs no more."""
    monkeypatch.setattr(thread_count, "_chosen", threads)
    monkeypatch.setattr(thread_count.SHARED, "several", threads > 1)
    at_once = policy()._replace(promotion=policy().promotion._replace(at_once_bytes=0, resize_bytes=0, frame_bytes=0))
    at_once = at_once._replace(sharing=at_once.sharing._replace(waking_bytes=0))
    expected = None
    with using(at_once):
        for number in range(12):
            with failing_from(monkeypatch, number, CompilerError("the compiler of loops ended with code -6")):
                made = bits(work())
                expected = expected or made  # by NumPy alone
                assert made == expected, f"the compiler fails at module {number}"
                assert bits(work()) == expected
                if not jit._FAILED.texts:
                    break
        else:
            pytest.fail("the operation needs more modules than are tried")


@needs_compiler
def test_a_compiler_that_ends_again_and_again_is_not_started_any_more(monkeypatch):
    with failing_from(monkeypatch, 0, CompilerError("the compiler of loops ended with code -6: LLVM ERROR: no")):
        for number in range(5):
            code = Code()
            code.store(number, code.target, 8)
            with pytest.raises(sg.DeviceError, match="ended with code -6: LLVM ERROR: no"):
                jit.machine_functions(code.text("kernel"), "")
        assert len(jit._FAILED.texts) == 3
        assert jit.why_unavailable() == "the compiler of loops ended with code -6: LLVM ERROR: no"
        assert "LLVM ERROR: no" in sg.devices()[0].reason
        assert np.array_equal(sg.relayout(batch(), dims="NHWC").permute("NHWC").numpy(), batch())
    assert jit.why_unavailable() is None


@needs_compiler
def test_a_module_that_ended_the_compiler_is_not_sent_again(monkeypatch):
    sent = []
    with failing_from(monkeypatch, 0, CompilerError("ended")), monkeypatch.context() as watched:
        failing = jit._COMPILER.object_file
        watched.setattr(jit._COMPILER, "object_file", lambda *given: sent.append(given) or failing(*given))
        for _ in range(3):
            with pytest.raises(sg.DeviceError, match="ended"):
                jit.machine_functions(Code().text("kernel"), "")
    assert len(sent) == 1


@needs_compiler
def test_an_intrinsic_that_the_target_lacks_is_refused_before_llvm_sees_it(monkeypatch):
    code = Code()
    vector = code.source.load("<64 x i8>")
    made = code.call(
        "llvm.x86.avx512.vpermi2var.qi.512", vector.type, vector, vector, vector, needs="avx512vbmi avx512bw"
    )
    code.store(made, code.target)
    text = code.text("kernel")
    assert needs_of(text) == {"avx512vbmi", "avx512bw"}
    here = policy().target
    monkeypatch.setattr(jit._COMPILER, "object_file", lambda *_: pytest.fail("LLVM is asked"))
    less = policy()._replace(target=here._replace(features=here.features & LEVELS["x86-64-v3"]))
    with using(less), pytest.raises(sg.DeviceError, match="A loop needs avx512bw, avx512vbmi, which "):
        jit.machine_functions(text, "")


@pytest.mark.parametrize(
    "intrinsic, needs", [("llvm.x86.avx2.pmadd.wd", ""), ("llvm.umax.v8i8", "avx2")], ids=["none", "one too many"]
)
def test_what_an_intrinsic_needs_is_stated_where_it_is_called(intrinsic, needs):
    code = Code()
    with pytest.raises(AssertionError, match="needs"):
        code.call(intrinsic, "<8 x i8>", code.source.load("<8 x i8>"), needs=needs)


@needs_compiler
def test_loops_of_another_processor_are_not_run(monkeypatch):
    monkeypatch.setattr(jit._COMPILER, "object_file", lambda *_: pytest.fail("it is compiled"))
    other = Target.stated("x86-64-v4", ["avx10"])
    with using(policy()._replace(target=other)), pytest.raises(sg.DeviceError, match="with avx10 cannot run on this"):
        jit.machine_functions(Code().text("kernel"), "")


MEMORY_REFUSED = """
import ctypes, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):
    print("this kernel has no PR_SET_MDWE")
    sys.exit()
import numpy as np, stridedgpu as sg
frame = np.random.default_rng(0).integers(0, 256, (2000, 2000, 3), np.uint8)
made = sg.relayout(sg.asarray(frame, dims="HWC"), dtype="float32", scale=1 / 255)
assert np.array_equal(made.permute("HWC").numpy(), frame * np.float32(1 / 255))
assert sg.resize(frame, (300, 200), dims="HWC", passes="horizontal").sizes == (3, 300, 200)
print(sg.devices()[0].reason)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_MDWE is Linux's")
@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_where_no_memory_is_made_executable_numpy_does_the_work(tmp_path, cache):
    """As under systemd's MemoryDenyWriteExecute: nothing is loaded, from the cache neither."""
    environment = {**os.environ, kernel_cache.VARIABLE: str(tmp_path)}
    if cache == "warm":
        warming = MEMORY_REFUSED.replace("if ctypes", "if False and ctypes")
        subprocess.run([sys.executable, "-c", warming], env=environment, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_REFUSED], env=environment, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    if "no PR_SET_MDWE" in done.stdout:
        pytest.skip(done.stdout)
    assert "makes no memory executable" in done.stdout


@pytest.mark.parametrize(
    "platform, architecture, words",
    [
        ("darwin", "arm64", "64-bit Linux alone, and this system is darwin"),
        ("linux", "riscv64", "x86-64 and AArch64 alone, and this is 'riscv64'"),
    ],
    ids=["another system", "another architecture"],
)
def test_what_nobody_has_run_is_left_to_numpy(monkeypatch, platform, architecture, words):
    monkeypatch.setattr(executable_memory.sys, "platform", platform)
    monkeypatch.setattr(executable_memory, "architecture", lambda: architecture)
    assert words in executable_memory.why_refused.__wrapped__()


@pytest.mark.skipif(executable_memory.why_refused() is not None, reason="no machine code runs here")
def test_machine_code_is_never_writable():
    address = executable_memory.load(b"\xc3" * 100)
    modes = []
    for line in pathlib.Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        pages, mode, *_ = line.split()
        first, end = (int(place, 16) for place in pages.split("-"))
        modes += [mode] * (first <= address < end)
    assert modes == ["r-xp"]


def test_a_refusal_frees_the_pages(monkeypatch):
    freed, library = [], executable_memory._library()

    class Refusing:
        mmap = library.mmap

        def mprotect(self, *_):
            return -1

        def munmap(self, address, nbytes):
            freed.append(address)
            return library.munmap(address, nbytes)

    refusing = Refusing()
    monkeypatch.setattr(executable_memory, "_library", lambda: refusing)
    assert executable_memory.load(b"\xc3") is None
    assert len(freed) == 1
