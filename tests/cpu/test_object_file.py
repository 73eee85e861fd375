"""Object files laid out in memory, and what is refused: other formats, other processors, what kernels do not have."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from harness.compiled_loops import needs_compiler

import stridedgpu as sg
from stridedgpu.devices.cpu.compiled import jit, object_file
from stridedgpu.devices.cpu.compiled.relayout import plan_relayout
from stridedgpu.devices.cpu.native.calls import python_function
from stridedgpu.devices.cpu.policy import policy, using
from stridedgpu.devices.cpu.target import Target


def planes():
    """Pixels to planes of float32: a kernel with constants of its own; the plan, both sides, and what NumPy makes."""
    source = sg.asarray(np.arange(2 * 40 * 50 * 3, dtype=np.uint8).reshape(2, 40, 50, 3), dims="NHWC")
    out = sg.empty((2, 3, 40, 50), "float32")
    plan = sg.plan_relayout(source, out, scale=0.5, bias=-1.5)
    return plan.plan, source, out, source.numpy() * np.float32(0.5) - np.float32(1.5)


def object_of(name="kernel"):
    """A kernel's object file, compiled now."""
    return jit._COMPILER.object_file(plan_relayout(planes()[0].problem).kernel.text(name), policy().target)


@needs_compiler
def test_a_kernel_runs_from_its_object_file():
    plan, source, out, expected = planes()
    (address,) = object_file.functions_of(object_of("kernel_alone"), "kernel_alone")
    walk = plan_relayout(plan.problem)
    with using(policy()._replace(native=False)):
        call = walk.loop()
    reads = source.numpy().ctypes.data + walk.source_offset
    writes = out.numpy().ctypes.data + walk.target_offset
    python_function(address, 5)(reads, writes, call.parameters, 0, walk.items)
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
    "another processor": lambda content: with_bytes(content, 18, (243).to_bytes(2, "little")),
    "data that is written": lambda content: with_all(content, 1, 8, 8, lambda flags: flags | 1),
    "a section of another kind": lambda content: with_all(content, 1, 4, 4, lambda kind: 8),
    "a relocation of 32 bits": lambda content: with_relocation(content, 2),
}


@needs_compiler
@pytest.mark.parametrize("change", UNKNOWN.values(), ids=UNKNOWN)
def test_what_kernels_do_not_have_is_refused(change):
    content = object_of()
    assert object_file.functions_of(content, "kernel") is not None
    assert object_file.functions_of(change(content), "kernel") is None


@needs_compiler
def test_a_function_that_is_not_there_is_not_found():
    assert object_file.functions_of(object_of(), "kernel", "another") is None


@needs_compiler
@pytest.mark.parametrize("refusing", ["reserve", "fill"], ids=["no memory", "no executable memory"])
def test_where_the_system_refuses_there_is_no_function(monkeypatch, refusing):
    content = object_of()
    monkeypatch.setattr(object_file, refusing, lambda *_: None)
    assert object_file.functions_of(content, "kernel") is None


MOVES = {264: 0, 266: 1, 268: 2, 269: 3}
"""R_AARCH64_MOVW_UABS_G0_NC, G1_NC, G2_NC and G3, and the 16 bits of an address that each of them sets."""


def test_addresses_of_aarch64_are_put_into_four_instructions():
    address = 0xFEDC_BA98_7654_3210
    for kind, part in MOVES.items():
        old = 0xF2800000 | part << 21 | 0x1F | 0x1234 << 5  # movk x31 with other bits in the place of the address'
        nbytes, new = object_file._RELOCATIONS["aarch64"][kind](address, 0x1000, old | 0xAAAA_AAAA << 32)
        assert nbytes == 4
        assert new == 0xF2800000 | part << 21 | 0x1F | (address >> 16 * part & 0xFFFF) << 5


@pytest.mark.parametrize("architecture, word, relative", [("x86_64", 1, 24), ("aarch64", 257, 260)])
def test_words_are_addresses_or_distances(architecture, word, relative):
    kinds = object_file._RELOCATIONS[architecture]
    assert kinds[word](0x5000, 0x7000, 0) == (8, 0x5000)
    assert kinds[relative](0x5000, 0x7000, 0) == (8, -0x2000)


CONSTANTS = """
define <16 x i8> @kernel(<16 x i8> %a) {
  %b = shufflevector <16 x i8> %a, <16 x i8> poison, <16 x i32> <i32 9, i32 3, i32 12, i32 0, i32 7, i32 7, i32 1,
    i32 15, i32 2, i32 10, i32 4, i32 4, i32 11, i32 6, i32 13, i32 5>
  ret <16 x i8> %b
}
"""


@needs_compiler
def test_aarch64_needs_no_other_relocation(monkeypatch):
    """Laid out in memory as for a run, and looked at: four instructions hold the address of the constants."""
    content = jit._COMPILER.object_file(CONSTANTS, Target.stated("aarch64"))
    laid = {}

    def fill(address, image):
        laid[address] = bytes(image)
        return True

    monkeypatch.setattr(object_file, "architecture", lambda: "aarch64")
    monkeypatch.setattr(object_file, "reserve", lambda nbytes: 0x1234_5678_9ABC_0000)
    monkeypatch.setattr(object_file, "fill", fill)
    (function,) = object_file.functions_of(content, "kernel")
    ((base, image),) = laid.items()
    words = struct.unpack(f"<{len(image) // 4}I", image[: len(image) // 4 * 4])
    moves = [word for word in words[(function - base) // 4 :] if word >> 23 in (0b111100101, 0b110100101)]
    address = sum((word >> 5 & 0xFFFF) << 16 * (word >> 21 & 3) for word in moves)
    assert [word >> 21 & 3 for word in sorted(moves, key=lambda word: word >> 21 & 3)] == [0, 1, 2, 3]
    assert image[address - base :][:16] == bytes([9, 3, 12, 0, 7, 7, 1, 15, 2, 10, 4, 4, 11, 6, 13, 5])
