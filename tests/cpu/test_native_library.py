"""The native library: of which sources it is, what its machine code holds, and what happens where there is none."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import runpy
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from harness.native_loops import needs_library

import stridedgpu as sg
from stridedgpu.devices.cpu import target as targets
from stridedgpu.devices.cpu.native import library
from stridedgpu.devices.cpu.native.elements import TYPES
from stridedgpu.devices.cpu.policy import Policy, using
from stridedgpu.devices.cpu.target import NATIVE_LEVELS, Target
from stridedgpu.devices.launch_cache import forget_launches

ROOT = Path(__file__).resolve().parents[2]
HERE = Target.here()

needs_checkout = pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="the tests lie outside a checkout")
reads_x86 = pytest.mark.skipif(
    shutil.which("objdump") is None or HERE.architecture != "x86_64", reason="reads x86 machine code by objdump"
)


@pytest.fixture
def setup():
    return runpy.run_path(str(ROOT / "setup.py"))


@needs_library
@needs_checkout
def test_the_library_is_made_of_the_sources_beside_it(setup):
    assert Path(library.PATH) == ROOT / setup["library_of"](setup["this_platform"]())
    assert setup["is_up_to_date"](setup["this_platform"]()), "the sources have changed: pip install -e . builds it anew"


@needs_checkout
def test_the_planner_knows_the_levels_that_are_built(setup):
    built = {name: more.split() for levels in setup["LEVELS"].values() for name, (_, more) in levels.items()}
    assert built.keys() == NATIVE_LEVELS.keys()
    assert all(NATIVE_LEVELS[name] >= {*more} for name, more in built.items())
    if library.levels():
        assert {*library.levels()} == setup["LEVELS"][setup["this_platform"]().machine].keys()


@needs_checkout
@pytest.mark.parametrize("name", ["linux-x86_64", "darwin-aarch64", "win32-x86_64"])
def test_a_changed_source_or_compiler_is_another_library(setup, monkeypatch, tmp_path, name):
    identity, machine = setup["identity"], setup["PLATFORMS"][name]
    before = identity(machine)
    monkeypatch.setenv("CXX", "clang++-19 -fcolor-diagnostics")
    assert len({before, identity(machine)}) == 2
    monkeypatch.delenv("CXX")
    shutil.copytree(setup["KERNELS"], tmp_path / "cpu")
    monkeypatch.setitem(identity.__globals__, "KERNELS", tmp_path / "cpu")
    assert identity(machine) == before
    with (tmp_path / "cpu" / "rows.hpp").open("a") as file:
        file.write("\n")
    assert identity(machine) != before


@needs_checkout
def test_a_platform_that_is_none_is_refused(setup, monkeypatch):
    monkeypatch.setenv("STRIDEDGPU_PLATFORM", "linux-x86-64")
    with pytest.raises(SystemExit, match="STRIDEDGPU_PLATFORM='linux-x86-64' is no platform; it is linux-x86_64, "):
        setup["this_platform"]()


@needs_library
@pytest.mark.skipif(shutil.which("nm") is None, reason="reads the symbols by nm")
def test_the_library_needs_nothing_of_any_other():
    """Neither Python nor a C or C++ library: one file serves every Python and every C library of a platform."""
    symbols = subprocess.run(["nm", "-D", library.PATH], capture_output=True, text=True, check=True).stdout
    assert re.findall(r" U (\S+)", symbols) == []
    assert all(name.startswith("stridedgpu_") for name in re.findall(r" [A-TV-Z] (\S+)", symbols))


def machine_code():
    """The library's instructions in their order, with their addresses in this process."""
    text = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", library.PATH], capture_output=True, text=True, check=True
    ).stdout
    symbols = subprocess.run(["nm", "-D", library.PATH], capture_output=True, text=True, check=True).stdout
    loaded = ctypes.cast(library.library().stridedgpu_move, ctypes.c_void_p).value
    base = loaded - int(re.search(r"(\w+) T stridedgpu_move", symbols)[1], 16)
    return [(base + int(place, 16), words) for place, words in re.findall(r"^ *(\w+):\t(.*)$", text, re.MULTILINE)]


def addresses_of(level):
    """Every function of a level, by the families that the units name."""
    names = {
        name
        for unit in (ROOT / "kernels/cpu").glob("*.cpp")
        for name in re.findall(r'FAMILY\("(.*?)"', unit.read_text())
    }
    lookup, addresses = library.library().stridedgpu_function, []
    for name in sorted(names):
        places = (lookup(level.encode(), name.encode(), place) for place in itertools.count())
        addresses += itertools.takewhile(bool, places)
    return addresses


@needs_library
@needs_checkout
@reads_x86
def test_loops_call_nothing_but_their_moves_and_have_the_instructions_of_their_level():
    code = machine_code()
    v3, v4 = (sorted(addresses_of(level)) for level in ("v3", "v4"))
    assert v3[-1] < v4[0] or v4[-1] < v3[0], "the levels lie one behind the other"
    of_v3 = [words for place, words in code if v3[0] <= place < v3[-1]]
    of_v4 = [words for place, words in code if v4[0] <= place < v4[-1]]
    for loops, wanted in ((of_v3, ("%ymm", "vcvtps2ph", "vcvtps2dq")), (of_v4, ("%zmm", "vcvtps2ph", "vcvtps2dq"))):
        text = "\n".join(loops)
        assert all(name in text for name in wanted)
        assert not re.search(r"\bcall\s+[^*\s]", text), "a loop that is not inlined"
    begin = library.function("v4", "convert", 3 * (TYPES.index("uint8") * len(TYPES) + TYPES.index("float32")) + 1)
    end = min(place for place in v4 if place > begin)
    affine = "\n".join(words for place, words in code if begin <= place < end)
    assert "vmulps" in affine
    assert "vaddps" in affine
    assert "vfmadd" not in affine, "a product and a sum are two roundings"
    assert not [words for words in of_v3 if re.search(r"%zmm|%k[0-7]|%[xy]mm(1[6-9]|2\d|3[01])\b", words)]


@needs_library
@pytest.mark.parametrize("family, place", [("rows", 1), ("convert", 507), ("convert", -1), ("roads", 0)])
def test_a_function_that_is_not_there_is_an_error(family, place):
    with pytest.raises(sg.DeviceError, match=f"no function {place} of '{family}' for"):
        library.function(library.levels()[0], family, place)


@needs_library
def test_a_level_is_taken_only_where_it_can_run():
    for name, needs in NATIVE_LEVELS.items():
        if name in library.levels() and needs <= HERE.features:
            assert Target(HERE.architecture, needs).native_level == name
            assert Target(HERE.architecture, needs | {"another"}).native_level is None, "not this processor"
    assert Target(HERE.architecture, frozenset()).native_level is None
    assert Target("riscv64", HERE.features).native_level is None


@pytest.fixture
def no_library(monkeypatch, tmp_path):
    caches = (library._loaded, library.levels, library.function, targets._native_level, targets._machine)
    monkeypatch.setattr(library, "PATH", str(tmp_path / "kernels.bin"))
    for cache in caches:
        cache.cache_clear()
    forget_launches()
    yield
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()
    forget_launches()


def test_without_the_library_numpy_works_and_one_warning_says_so(no_library):
    values = np.arange(3 << 20, dtype=np.int32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with using(Policy.of(Target.here())):
            for _ in range(2):
                plan = sg.plan_relayout(sg.asarray(values), sg.empty(values.shape, "float32"))
                made = sg.relayout(values, dtype="float32")
        reason = sg.devices()[0].reason
    assert [str(each.message) for each in caught] == [f"stridedgpu: {reason}."]
    assert "no native library" in reason
    assert plan.kernel.startswith("numpy")
    assert np.array_equal(made.numpy(), values.astype(np.float32))


def test_a_file_that_is_no_library_is_none(no_library):
    Path(library.PATH).write_bytes(b"no machine code")
    with pytest.warns(RuntimeWarning, match="native library cannot be loaded .*file too short"):
        assert library.library() is None
    assert "cannot be loaded" in library.why_unavailable()


def test_a_library_that_memory_lacks_for_is_loaded_by_a_later_call(no_library, monkeypatch):
    Path(library.PATH).write_bytes(b"no machine code")

    def refuse(_count):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(library, "bytearray", refuse, raising=False)
        for _ in range(2):
            with pytest.raises(sg.DeviceError, match="no memory left to load the native library"):
                sg.relayout(np.arange(6, dtype=np.int32), dtype="float32")
    with pytest.warns(RuntimeWarning, match="cannot be loaded"):
        sg.relayout(np.arange(6, dtype=np.int32), dtype="float32")


MEMORY_REFUSED = """
import ctypes, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):
    print("this kernel has no PR_SET_MDWE")
    sys.exit()
import numpy as np, stridedgpu as sg
sg.set_num_threads(2)
frames = np.random.default_rng(0).integers(0, 256, (4, 500, 700, 3), np.uint8)
made = sg.relayout(frames, dims="NHWC", layout="NCHW", dtype="float32", scale=1 / 255)
assert np.array_equal(made.numpy(), frames.transpose(0, 3, 1, 2) * np.float32(1 / 255))
assert np.array_equal(sg.gather(frames, [2, 0]).numpy(), frames[[2, 0]])
assert sg.resize(frames, (300, 200), dims="NHWC", passes="horizontal").sizes == (4, 3, 300, 200)
print(sg.plan_relayout(sg.asarray(frames, dims="NHWC"), made, scale=1 / 255).kernel)
"""


@needs_library
@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_MDWE is Linux's")
def test_no_memory_has_to_become_executable():
    """As under systemd's MemoryDenyWriteExecute: the machine code is mapped from its file."""
    environment = {**os.environ, "PYTHONPATH": str(Path(sg.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_REFUSED], env=environment, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    if "no PR_SET_MDWE" in done.stdout:
        pytest.skip(done.stdout)
    assert not done.stdout.startswith("numpy")


@needs_checkout
@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["false", "no-such-compiler"])
def test_a_build_that_fails_leaves_a_wheel_that_works_by_numpy(setup, tmp_path, compiler):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "stridedgpu", "kernels"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, source / name)
    (source / setup["library_of"](setup["this_platform"]())).unlink(missing_ok=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path, source]
    done = subprocess.run(
        [*map(str, pip), "-v"],
        env={**os.environ, "CXX": compiler},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    assert "the package works by NumPy, far slower" in done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    code = "import stridedgpu as sg; print(sg.relayout([[1, 2]], dtype='float32').numpy(), sg.devices()[0].reason)"
    run = [sys.executable, "-P", "-W", "ignore", "-c", f"import sys; sys.path.insert(0, {str(wheel)!r}); {code}"]
    done = subprocess.run(run, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "[[1. 2.]]" in done.stdout
    assert "no native library" in done.stdout
