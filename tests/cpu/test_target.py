"""`Target`: what CPUID says, what hypervisors hide, what `STRIDEDGPU_CPU` leaves out; sizes of caches."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import stridedgpu as sg
from stridedgpu.devices.cpu import target as targets
from stridedgpu.devices.cpu.target import LEVELS, VARIABLE, Target

MB = 1 << 20

ALL = frozenset(targets._BITS) | {"sse2"}
"""Every instruction set that is asked for."""


def cpuid(names, *, saves=True, leaves=0x80000008):
    """CPUID of a processor that has these instruction sets; `saves`: its operating system says what it saves."""

    def said(leaf):
        if leaf in (0, 0x80000000):
            return (leaves if leaf else min(leaves, 0x1F), 0, 0, 0)
        words = [0, 0, 0, 0]
        bits = [targets._BITS[name] for name in names if name in targets._BITS]
        for place in [*bits, *([targets._SAVES_REGISTERS] if saves else [])]:
            if place.leaf == leaf:
                words[place.register] |= 1 << place.bit
        return tuple(words)

    return said


@pytest.mark.parametrize("level", LEVELS)
def test_a_processor_of_each_level_has_its_instruction_sets(level):
    found = targets.features_of(cpuid(LEVELS[level]), lambda: 0xE7)
    assert found == LEVELS[level]
    assert Target("x86_64", found).level == level


HIDDEN = {
    "no AVX without saved registers": (ALL, 0x03, True, LEVELS["x86-64-v4"] - {"avx"}, {"avx", "avx2", "f16c", "fma"}),
    "no AVX where nothing says what is saved": (ALL, 0xE7, False, {"sse4.2"}, {"avx", "avx2", "avx512f"}),
    "no AVX-512 without its registers": (ALL, 0x07, True, {"avx2", "f16c"}, {"avx512f", "avx512vbmi"}),
    "no AVX2 without AVX": (ALL - {"avx"}, 0xE7, True, {"bmi2"}, {"avx2", "f16c", "fma", "avx512f"}),
    "no AVX-512 without AVX2": (ALL - {"avx2"}, 0xE7, True, {"avx"}, {"avx512f", "avx512bw", "avx512vbmi"}),
    "no parts of AVX-512 without its foundation": (ALL - {"avx512f"}, 0xE7, True, {"avx2"}, {"avx512bw", "avx512vl"}),
    "no bytes without words": (ALL - {"avx512bw"}, 0xE7, True, {"avx512f"}, {"avx512vbmi", "avx512bitalg"}),
}


@pytest.mark.parametrize("names, saved, saves, has, lacks", HIDDEN.values(), ids=HIDDEN)
def test_an_instruction_set_does_not_count_without_what_it_builds_on(names, saved, saves, has, lacks):
    found = targets.features_of(cpuid(names, saves=saves), lambda: saved)
    assert not lacks & found
    assert has - {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} - lacks <= found


def test_a_processor_with_few_leaves_is_not_asked_for_more():
    said = cpuid(ALL, leaves=0x80000000)
    asked = []

    def watched(leaf):
        asked.append(leaf)
        return (1, 0, 0, 0) if leaf == 0 else said(leaf)

    found = targets.features_of(watched, lambda: 0xE7)
    assert asked == [0, 0x80000000, 1]
    assert "avx2" not in found
    assert "lzcnt" not in found


@pytest.mark.skipif(
    targets.library() is None or targets.architecture() != "x86_64",
    reason="CPUID is an instruction of x86-64",
)
def test_linux_says_no_less_than_cpuid():
    described = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split()
    names = {"sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "bmi": "bmi1", "lzcnt": "abm", "sahf": "lahf_lm"}
    names |= {f"avx512{name}": f"avx512_{name}" for name in ("bitalg", "vbmi2", "vnni", "vpopcntdq")}
    assert not {name for name in targets._features_here() if names.get(name, name) not in described}


def test_a_variable_leaves_instruction_sets_out(monkeypatch):
    monkeypatch.setattr(targets, "architecture", lambda: "x86_64")
    monkeypatch.setattr(targets, "_machine", lambda: (ALL, 1 << 25))
    found = {}
    for said in (*LEVELS, "native", " ", "x86-64-v3 "):
        monkeypatch.setenv(VARIABLE, said)
        found[said] = Target.here().features
    assert {said: found[said] for said in LEVELS} == dict(LEVELS)
    assert found["native"] == found[" "] == ALL
    assert found["x86-64-v3 "] == LEVELS["x86-64-v3"]


def test_no_variable_adds_an_instruction_set(monkeypatch):
    monkeypatch.setattr(targets, "architecture", lambda: "x86_64")
    monkeypatch.setattr(targets, "_machine", lambda: (LEVELS["x86-64-v2"], 1 << 25))
    monkeypatch.setenv(VARIABLE, "x86-64-v4")
    assert Target.here().features == LEVELS["x86-64-v2"]


@pytest.mark.parametrize(
    "said, architecture, message",
    [
        ("avx2", "x86_64", "STRIDEDGPU_CPU='avx2' is no processor; it is x86-64, x86-64-v2, x86-64-v3, x86-64-v4 or"),
        ("x86-64-v3", "aarch64", "STRIDEDGPU_CPU=x86-64-v3 is a level of x86-64, and this processor is 'aarch64'"),
    ],
    ids=["no level", "another architecture"],
)
def test_a_wrong_variable_is_refused(monkeypatch, said, architecture, message):
    monkeypatch.setenv(VARIABLE, said)
    monkeypatch.setattr(targets, "architecture", lambda: architecture)
    with pytest.raises(sg.StridedGpuError, match=message):
        Target.here()


@pytest.mark.parametrize(
    "target, lacks",
    [
        (Target.stated("x86-64-v3"), None),
        (
            Target.stated("x86-64-v2"),
            "the native library needs AVX and AVX2 and BMI",
        ),
        (Target("x86_64", LEVELS["x86-64-v3"] - {"f16c"}), "the native library needs F16C, which"),
        (Target.stated("aarch64"), None),
        (Target("riscv64", frozenset()), "the native library is for x86-64 and AArch64, and this is 'riscv64'"),
    ],
    ids=["AVX2", "no AVX2", "no float16", "AArch64", "nobody has run it"],
)
def test_a_target_says_what_it_lacks(target, lacks):
    assert target.lacks is None if lacks is None else target.lacks.startswith(lacks)


def test_a_target_without_sizes_has_two_cores_and_usual_caches():
    for target in (Target.stated("x86-64-v3"), Target.stated("aarch64")):
        assert target[2:] == (2, 32 * MB)


def test_machine_code_runs_where_all_of_its_instruction_sets_are():
    small, large = Target.stated("x86-64-v3"), Target.stated("x86-64-v4", ["avx512vbmi"])
    assert small.runs_on(large)
    assert small.runs_on(small)
    assert not large.runs_on(small)
    assert not Target.stated("aarch64").runs_on(large)


def test_words_name_instruction_sets():
    assert Target.stated("x86-64-v4", ["gfni", "avx512vbmi"]).words == "x86-64-v4 with avx512vbmi, gfni"
    assert (Target.stated("aarch64").words, Target.stated("aarch64").level) == ("aarch64", "generic")
    assert Target("x86_64", LEVELS["x86-64-v3"] - {"movbe"} | {"avx512f"}).level == "x86-64-v2"


LEVEL_OF_A_PROCESS = "import stridedgpu as sg; print(sg.devices()[0].description)"


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.skipif(targets.architecture() != "x86_64", reason="levels are those of x86-64")
def test_a_process_says_which_processor_its_loops_are_for(level):
    environment = {**os.environ, VARIABLE: level}
    said = subprocess.run(
        [sys.executable, "-c", LEVEL_OF_A_PROCESS], capture_output=True, text=True, check=True, env=environment
    ).stdout
    least = min(level, Target.here()._replace(features=targets._features_here()).level)
    assert f", {least}," in said
    assert ("native loops of" in said) <= ("v2" not in level)


@pytest.mark.parametrize(
    "files, expected",
    [
        (
            {
                "index0": ("1", "Data", "48K"),
                "index1": ("1", "Instruction", "64K"),
                "index2": ("2", "Unified", "2048K"),
                "index3": ("3", "Unified", "105M"),
            },
            {1: 48 << 10, 2: 2 * MB, 3: 105 * MB},
        ),
        ({"index0": ("1", "Data", "nonsense"), "index1": ("2", "Unified", "1024K")}, {2: MB}),
        ({}, {}),
    ],
    ids=["three levels", "one that is no size", "none"],
)
def test_linux_says_how_large_the_caches_are(monkeypatch, tmp_path, files, expected):
    for name, said in files.items():
        (tmp_path / name).mkdir()
        for field, value in zip(("level", "type", "size"), said, strict=True):
            (tmp_path / name / field).write_text(f"{value}\n", encoding="utf-8")
    monkeypatch.setattr(targets, "_CACHES", str(tmp_path))
    assert targets._sysfs_cache_bytes() == expected


@pytest.mark.parametrize(
    "linux, posix, expected",
    [
        ({}, {}, 32 * MB),
        ({}, {1: 64 << 10, 3: 8 * MB}, 8 * MB),
        ({1: 32 << 10, 2: 4 * MB}, {3: MB}, 4 * MB),
    ],
    ids=["nothing is said", "said by sysconf", "no third level"],
)
def test_sizes_of_caches_that_nobody_says_are_assumed(monkeypatch, linux, posix, expected):
    monkeypatch.setattr(targets, "_sysfs_cache_bytes", lambda: linux)
    monkeypatch.setattr(targets, "_sysconf_cache_bytes", lambda: posix)
    assert targets._last_level_bytes() == expected
