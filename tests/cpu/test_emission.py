"""LLVM translates the modules of every family for processors that need not be here, in a process of their own.

They are planned for the instruction sets, caches and cores of the processor, and emitted for it by LLVM's name. An
abort of LLVM ends the test's own compiler, and is that test's failure.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pytest
from harness.compiled_loops import CLASSES
from harness.module_texts import modules_for

import stridedgpu as sg
from stridedgpu.devices.cpu.compiled import jit
from stridedgpu.devices.cpu.compiled.channels import Channels
from stridedgpu.devices.cpu.compiled.compiler import Compiler, CompilerError
from stridedgpu.devices.cpu.compiled.ir import needs_of
from stridedgpu.devices.cpu.native.elements import Constants, Elements
from stridedgpu.devices.cpu.policy import Policy, policy, using
from stridedgpu.devices.cpu.promotion import compiled_from
from stridedgpu.devices.cpu.target import LEVELS, Target
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.errors import DeviceError

MB = 1 << 20

with using(policy()._replace(target=CLASSES["AVX2"])):
    MISSING = jit.why_unavailable()

pytestmark = pytest.mark.skipif(MISSING is not None, reason=f"no compiler: {MISSING}")


class Processor(NamedTuple):
    """What kernels are planned by, and LLVM's name."""

    target: Target
    cpu: str


def processor(kind: str, cpu: str, cores: int, last_level_bytes: int) -> Processor:
    return Processor(CLASSES[kind]._replace(cores=cores, last_level_bytes=last_level_bytes), cpu)


PROCESSORS = [
    processor("AVX2", "x86-64-v3", 2, 8 * MB),
    processor("AVX-512", "x86-64-v4", 2, 32 * MB),
    processor("AVX-512F alone", "knl", 64, 32 * MB),
    processor("AVX2", "znver2", 64, 16 * MB),
    processor("AVX2", "znver3", 1, 32 * MB),
    processor("AVX-512 VBMI", "znver4", 8, 32 * MB),
    processor("AVX-512 VBMI", "znver5", 2, 256 * MB),
    processor("AVX-512 VBMI", "graniterapids", 64, 256 * MB),
    processor("AArch64", "neoverse-n1", 64, 32 * MB),
    processor("AArch64", "neoverse-v2", 1, 8 * MB),
    processor("AArch64", "apple-m1", 8, 8 * MB),
]
FEW = ("x86-64-v3", "knl", "znver5", "neoverse-n1")

EMPTY = "define void @kernel() {\n  ret void\n}\n"


@pytest.fixture
def compiler():
    one = Compiler()
    yield one
    one.stop()


def flags(features):
    return ",".join(f"+{name}" for name in sorted(features))


def emitted(compiler, family, text, cpu, target):
    """The object file; a failure names the family and the module's intrinsics."""
    try:
        made = compiler.translated("object", text, target.architecture, cpu, flags(target.features))
    except CompilerError as error:
        pytest.fail(f"{family}, {sorted(intrinsics(text))}: {error}\n{text}")
    assert made.startswith(b"\x7fELF")


def intrinsics(text):
    """The intrinsics of one architecture that a module declares."""
    return set(re.findall(r"^declare .*@(llvm\.(?:x86|aarch64)\.[\w.]+)\(", text, re.MULTILINE))


def check_known(compiler, cpu, target):
    """Skip where this LLVM does not know the processor: it warns of that, and takes another."""
    compiler.translated("object", EMPTY, target.architecture, cpu, "")
    process = compiler._process
    process.stdin.close()
    said = process.stderr.read().decode()
    compiler.stop()
    if "not a recognized processor" in said:
        pytest.skip(f"this LLVM does not know {cpu}")


@pytest.mark.parametrize(
    "stride",
    [pytest.param(300, id="some modules"), pytest.param(5, id="many modules", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(
    "processor",
    [pytest.param(one, id=one.cpu, marks=() if one.cpu in FEW else pytest.mark.slow) for one in PROCESSORS],
)
def test_every_family_is_emitted_for(compiler, processor, stride):
    check_known(compiler, processor.cpu, processor.target)
    for family, text in modules_for(processor.target, stride):
        emitted(compiler, family, text, processor.cpu, processor.target)


@pytest.mark.parametrize("kind", ["AVX-512", "AVX-512 VBMI"])
@pytest.mark.parametrize(
    "pixel, order",
    [
        pytest.param(10, (7, 6, 5, 4, 3, 2, 1, 0), id="8 of 10 reversed"),
        pytest.param(10, (8, 2, 7, 6, 9, 1), id="6 of 10"),
        pytest.param(14, (8, 9, 7, 3, 6, 11, 13, 2, 0, 4, 5, 12, 1), id="13 of 14"),
        pytest.param(16, tuple(range(15)), id="15 of 16 in order"),
    ],
)
def test_few_pixels_of_many_channels_are_emitted_in_time(compiler, kind, pixel, order):
    """LLVM 22 combined these shuffles for hours, which `Value.opaque` keeps apart."""
    target, uint8 = CLASSES[kind], ELEMENT_TYPES["uint8"]
    with using(policy()._replace(target=target)):
        bytes_ = Elements(Conversion(uint8, uint8), Constants.ITEM, False, 1)
        text = Channels(bytes_, 1, 8, order, False, pixel, len(order), False).text("kernel")
    assert compiler.object_file(text, target).startswith(b"\x7fELF")


@pytest.mark.parametrize("level", ["x86-64", "x86-64-v2"])
def test_processors_without_avx2_compile_nothing(level, monkeypatch):
    monkeypatch.setattr(jit._COMPILER, "object_file", lambda *_: pytest.fail("LLVM is asked"))
    monkeypatch.setattr(jit.kernel_cache, "read", lambda _: pytest.fail("the cache is asked"))
    picture = np.random.default_rng(1).integers(0, 256, (900, 1200, 3), np.uint8)
    with using(Policy.of(Target.stated(level))):
        assert "need AVX2" in jit.why_unavailable()
        assert compiled_from(1 << 40) is None
        planes = sg.relayout(picture, dims="HWC", layout="CHW")
        rows = sg.gather(picture, np.arange(0, 900, 2))
        assert sg.resize(picture, (300, 400), dims="HWC").sizes == (3, 300, 400)
    assert np.array_equal(planes.permute("HWC").numpy(), picture)
    assert np.array_equal(rows.numpy(), picture[::2])


@pytest.fixture(scope="module")
def of_one_architecture():
    """For each intrinsic of x86 some module that has it, by class: all that the families declare."""
    found = {}
    for name, target in CLASSES.items():
        if target.lacks is None:
            for family, text in modules_for(target, 60):
                for intrinsic in intrinsics(text):
                    found.setdefault((intrinsic, needs_of(text)), (name, family, text))
    return found


def test_the_modules_have_intrinsics_of_every_class(of_one_architecture):
    needs = {name for _, needed in of_one_architecture for name in needed}
    assert needs == {"avx2", "avx512f", "avx512bw", "avx512vbmi"}


def test_what_a_target_lacks_is_an_error_before_llvm_is_asked(of_one_architecture, monkeypatch):
    monkeypatch.setattr(Target, "here", lambda: CLASSES["AVX-512 VBMI"])
    monkeypatch.setattr(jit._COMPILER, "object_file", lambda *_: pytest.fail("LLVM is asked"))
    monkeypatch.setattr(jit.kernel_cache, "read", lambda _: pytest.fail("the cache is asked"))
    monkeypatch.setattr(jit, "_LOADED", {})
    for (intrinsic, needed), (_, _, text) in of_one_architecture.items():
        for name in needed:
            less = CLASSES["AVX-512 VBMI"]._replace(features=CLASSES["AVX-512 VBMI"].features - {name})
            with using(policy()._replace(target=less)), pytest.raises(DeviceError) as caught:
                jit.machine_functions(text, "")
            assert f"A loop needs {name}, which" in str(caught.value), intrinsic


def test_a_module_needs_what_it_says_and_no_more(compiler, of_one_architecture):
    """It is emitted for the third level with its needs, and LLVM has no instruction for it with any of them less."""
    base = Target.stated("x86-64-v3")
    for (intrinsic, needed), (_, family, text) in of_one_architecture.items():
        emitted(compiler, f"{family}, {intrinsic}", text, "x86-64-v3", base._replace(features=base.features | needed))
        if needed <= LEVELS["x86-64-v3"]:
            continue
        with pytest.raises(CompilerError, match=r"Cannot select|Do not know how"):
            compiler.translated("object", text, "x86_64", "x86-64-v3", flags(base.features))
