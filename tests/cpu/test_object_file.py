"""Object files loaded without LLVM, and what is left to it; the record of what LLVM calls this processor."""

from __future__ import annotations

import io
import os

import numpy as np
import pytest
from harness.compiled_loops import needs_compiler
from stridedgpu.devices.cpu.compiled.target import Target

import stridedgpu as sg
from stridedgpu.devices.cpu.compiled import jit, kernel_cache, object_file, target as targets
from stridedgpu.devices.cpu.compiled.relayout import walk_of

needs_loader = pytest.mark.skipif(not object_file.reads_objects(), reason="LLVM loads object files here")

RECORD = Target("(1, 2, 3)", "x86_64-unknown-linux-gnu", "sapphirerapids", "+avx2,+f16c,-sse4a")


def planes():
    """Pixels to planes of float32: a kernel with constants of its own; the plan, both sides, and what NumPy makes."""
    source = sg.asarray(np.arange(2 * 40 * 50 * 3, dtype=np.uint8).reshape(2, 40, 50, 3), dims="NHWC")
    out = sg.empty((2, 3, 40, 50), "float32")
    plan = sg.plan_relayout(source, out, scale=0.5, bias=-1.5)
    return plan.plan, source, out, source.numpy() * np.float32(0.5) - np.float32(1.5)


def object_of(name="kernel"):
    """A kernel's object file, compiled now."""
    return jit._compiler().machine_code(walk_of(planes()[0].problem).kernel.text(name))


@needs_compiler
@pytest.mark.parametrize(
    "load",
    [
        pytest.param(lambda name: object_file.functions_of(object_of(name), name), marks=needs_loader, id="alone"),
        pytest.param(lambda name: jit._compiler().load(object_of(name), name), id="by LLVM"),
    ],
)
def test_both_loaders_run_a_kernel(load):
    plan, source, out, expected = planes()
    (address,) = load("kernel_alone")
    walk = walk_of(plan.problem)
    parameters = walk.packed()
    reads = source.numpy().ctypes.data + walk.source_offset
    writes = out.numpy().ctypes.data + walk.target_offset
    jit.python_function(address, 5)(reads, writes, parameters.address, 0, walk.items)
    assert np.array_equal(out.numpy(), expected)


def with_bytes(content, at, new):
    return content[:at] + new + content[at + len(new) :]


def sections_of(content):
    """The offset of each section's header."""
    start, count = int.from_bytes(content[40:48], "little"), int.from_bytes(content[60:62], "little")
    return [start + 64 * number for number in range(count)]


def with_all(content, kind, offset, size, change):
    """A file whose sections of a kind have a changed field."""
    for header in sections_of(content):
        if int.from_bytes(content[header + 4 : header + 8], "little") == kind:
            field = int.from_bytes(content[header + offset : header + offset + size], "little")
            content = with_bytes(content, header + offset, change(field).to_bytes(size, "little"))
    return content


def with_relocation(content, kind):
    """A file whose first relocation is of another kind."""
    for header in sections_of(content):
        if int.from_bytes(content[header + 4 : header + 8], "little") == 4:
            place = int.from_bytes(content[header + 24 : header + 32], "little")
            return with_bytes(content, place + 8, kind.to_bytes(4, "little"))
    raise AssertionError("the kernel has constants")


UNKNOWN = {
    "nothing": lambda content: b"",
    "another format": lambda content: with_bytes(content, 0, b"\xcf\xfa\xed\xfe"),
    "another processor": lambda content: with_bytes(content, 18, (183).to_bytes(2, "little")),
    "data that is written": lambda content: with_all(content, 1, 8, 8, lambda flags: flags | 1),
    "a section of another kind": lambda content: with_all(content, 1, 4, 4, lambda kind: 8),
    "a relocation of 32 bits": lambda content: with_relocation(content, 2),
}


@needs_compiler
@needs_loader
@pytest.mark.parametrize("change", UNKNOWN.values(), ids=UNKNOWN)
def test_what_kernels_do_not_have_is_left_to_llvm(change):
    content = object_of()
    assert object_file.functions_of(content, "kernel") is not None
    assert object_file.functions_of(change(content), "kernel") is None


@needs_compiler
@needs_loader
def test_a_function_that_is_not_there_is_not_found():
    assert object_file.functions_of(object_of(), "kernel", "another") is None


class _Refusing:
    """A system without memory, or one that makes none executable."""

    def __init__(self, *, reserves):
        self.mmap = object_file._library().mmap if reserves else lambda *_: 2**64 - 1
        self.mprotect = lambda *_: -1


@needs_compiler
@needs_loader
@pytest.mark.parametrize("reserves", [True, False], ids=["no executable memory", "no memory"])
def test_where_the_system_refuses_it_is_left_to_llvm(monkeypatch, reserves):
    content, refusing = object_of(), _Refusing(reserves=reserves)
    monkeypatch.setattr(object_file, "_library", lambda: refusing)
    assert object_file.functions_of(content, "kernel") is None


@needs_compiler
def test_a_record_says_what_llvm_says(tmp_path, monkeypatch):
    monkeypatch.setenv(kernel_cache.VARIABLE, str(tmp_path))
    assert targets.remembered("name") is None
    targets.remember("name", jit._compiler().target)
    assert targets.remembered("name") == jit._compiler().target == jit._target()
    kernel_cache.write("name", b"one line")
    assert targets.remembered("name") is None
    assert targets.remembered(None) is None


@needs_compiler
@needs_loader
def test_a_record_is_of_one_processor_and_one_library(monkeypatch):
    name = targets.record_name()
    assert name == targets.record_name()
    assert name is not None
    for part, said in (("_processor_said", b"another"), ("_library_said", "another")):
        with monkeypatch.context() as other:
            other.setattr(targets, part, lambda said=said: said)
            assert targets.record_name() not in (name, None)
    with monkeypatch.context() as absent:
        absent.setattr(targets, "_library_said", lambda: None)
        assert targets.record_name() is None


@needs_loader
def test_all_cores_say_the_same():
    usable = os.sched_getaffinity(0)
    try:
        said = set()
        for core in usable:
            os.sched_setaffinity(0, {core})
            said.add(targets._processor_said())
    finally:
        os.sched_setaffinity(0, usable)
    (of_all,) = said
    assert b"avx2" in of_all
    assert b"MHz" not in of_all


@needs_loader
@pytest.mark.parametrize("said", [b"", b"flags : fpu\n\nmodel : 1\n", None], ids=["nothing", "flags alone", "no file"])
def test_a_system_that_says_too_little_keeps_no_record(monkeypatch, said):
    def read(*_):
        if said is None:
            raise FileNotFoundError
        return io.BytesIO(said)

    monkeypatch.setattr(targets, "open", read, raising=False)
    assert targets.record_name() is None


@pytest.mark.parametrize(
    "changes, lacks",
    [({}, False), ({"flags": "+avx2,-f16c"}, True), ({"flags": "-avx2", "triple": "aarch64-apple-darwin"}, False)],
    ids=["a recent processor", "without float16", "another architecture"],
)
def test_a_target_knows_what_it_lacks(changes, lacks):
    made = RECORD._replace(**changes)
    assert made.lacks is lacks
    assert made.processor == made.triple[: made.triple.index("-")]
    assert made.features == {flag[1:] for flag in made.flags.split(",") if flag[0] == "+"}
