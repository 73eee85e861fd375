"""Machine code, executed: the bits that NumPy gives, so that what is counted on the way is true."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from harness.emulator import machine_code
from harness.emulator.cases import case, flipped, in_order, ramp
from harness.emulator.marks import inspected
from harness.emulator.planned import Case
from harness.emulator.sass import parsed
from harness.emulator.warp import Block, UnknownInstructionError
from harness.resize_launches import ResizeCase

from stridedgpu.devices.cuda.resize import resize_records
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.values.layout import Layout

ADDRESSES = (1 << 40, 1 << 41, 1 << 42, 1 << 43)


class Buffers:
    """Memory at some addresses, and nothing between."""

    def __init__(self, *buffers):
        self.regions = [(at, np.array(buffer)) for at, buffer in zip(ADDRESSES, buffers, strict=False)]

    def _bytes(self, addresses, nbytes):
        start, content = next(region for region in reversed(self.regions) if region[0] <= addresses.min())
        places = (addresses - np.uint64(start)).astype(np.int64)[:, None] + np.arange(nbytes)
        assert places.max() < content.size, "behind a buffer's end"
        return content, places

    def read(self, addresses, nbytes):
        content, places = self._bytes(addresses, nbytes)
        return content[places]

    def write(self, addresses, rows):
        content, places = self._bytes(addresses, rows.shape[1])
        content[places] = rows


@functools.cache
def disassembled(sources: tuple[str, ...], architecture: str) -> dict[str, machine_code.Disassembly]:
    """All kernels of the cases from the same sources: compiled together they take little more time than one."""
    launches = [one.launch for one, where in EXECUTED.values() if where == architecture]
    names = {launch.name for launch in launches if launch.sources == sources}
    return machine_code.disassembled(joined_source(*sources), sorted(names), architecture)


def executed(one: Case, architecture: str) -> bytes:
    """The target's memory after all blocks."""
    launch = one.launch
    tables = [np.frombuffer(content, np.uint8) for _, content in launch.tables]
    memory = Buffers(one.source_bytes, one.pattern, *tables)
    parameters = bytearray(launch.parameters)
    for at, address in zip((0, 8, *(at for at, _ in launch.tables)), ADDRESSES, strict=False):
        parameters[at : at + 8] = address.to_bytes(8, "little")
    blocks = launch.grid[0] * launch.grid[1]
    instructions = parsed(disassembled(launch.sources, architecture)[launch.name].text)
    for number in range(blocks):
        Block(instructions, memory, bytes(parameters), launch.block[0], blocks, number, None, architecture).run()
    return memory.regions[1][1].tobytes()


def line(count: int) -> tuple[Layout, Layout]:
    return Layout((count,)), Layout((count,))


def rows(pitch: int, count: int = 45) -> tuple[Layout, Layout]:
    return in_order((9, count), (0, 1), {0: pitch}), Layout((9, count))


MATRIX = (in_order((70, 45), (0, 1), {0: 48}), in_order((70, 45), (1, 0), {1: 80}))
TURNED = (in_order((2, 20, 37, 3), range(4)), in_order((2, 20, 37, 3), (0, 2, 1, 3)))
PHOTOGRAPH = (in_order((1, 3, 22, 1024), (0, 2, 3, 1)), Layout((1, 3, 22, 1024)))
PADDED = (in_order((1, 1, 16384, 3), range(4)), in_order((1, 1, 16384, 3), range(4), {2: 4}))
PIXELS = (in_order((2, 3, 5, 32), (0, 2, 3, 1)), in_order((2, 3, 5, 32), (0, 1, 2, 3)))

CASES = {
    "a run": case(*line(1037), "float32"),
    "a run, cast": case(*line(700), "uint8>float32", scale=0.5, bias=-1.5),
    "a run, to halves": case(*line(700), "uint8>float16", scale=0.25),
    "a run, to bytes": case(*line(700), "float32>uint8", scale=0.25),
    "a run, from halves": case(*line(700), "float16>float32"),
    "a run, from floats to halves": case(*line(700), "float32>float16"),
    "rows": case(*rows(52), "uint16"),
    "rows of odd pitches": case(*rows(53), "float32", (4, 4)),
    "rows backwards": case(flipped(rows(64, 64)[0], 1), rows(64, 64)[1], "uint8"),
    "rows that begin anywhere": case(*rows(203, 199), "uint8", (1, 1)),
    "every other element": case(in_order((9, 80), (0, 1)).sliced((slice(None), slice(None, None, 2))), Layout((9, 40))),
    "bytes turned": case(*MATRIX, "uint8"),
    "halves turned": case(*MATRIX, "uint16"),
    "words turned": case(*MATRIX, "float32"),
    "doubles turned": case(*MATRIX, "int64"),
    "words turned, 64-bit indices": case(*MATRIX, "float32", bits=64),
    "bytes turned to halves": case(*MATRIX, "uint8>float16", axis=1, scale=ramp(45)),
    "pixels turned": case(*TURNED, "uint8"),
    "pixels turned, to halves": case(*TURNED, "uint8>float16", axis=3, scale=ramp(3)),
    "pixels to planes": case(*PIXELS, "uint8"),
    "planes to pixels": case(*reversed(PIXELS), "uint8"),
    "pixels that bulk copies bring": case(*PHOTOGRAPH, "uint8>float16", axis=1, scale=ramp(3), bias=ramp(3)),
    "pixels that bulk copies bring, padded": dataclasses.replace(case(*PADDED, "uint8"), channel_axis=3, filler=1),
    "pixels to planes of halves": case(*PIXELS, "uint8>float16", axis=1, scale=ramp(3), bias=ramp(3)),
}


def on(one: Case, capability: int) -> Case:
    """The case on a GPU with accesses of 32 bytes, with sides that allow them."""
    gpu = dataclasses.replace(one.gpu, compute_capability=capability)
    sides = (dataclasses.replace(side, alignment=max(side.alignment, 32)) for side in (one.source, one.target))
    return Case(*sides, one.conversion, one.channel_axis, gpu, index_bits=one.index_bits, filler=one.filler)


# Numbers of 64 bits are divided by a function of the compiler's, of which sm_120 has another one.
EXECUTED = {name: (one, "sm_90") for name, one in CASES.items()} | {
    f"{name}, sm_{capability}": (on(one, capability), f"sm_{capability}")
    for capability in (100, 120)
    for name, one in CASES.items()
    if one.index_bits is None
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (", sm_" in name)) for name in EXECUTED]
)
@inspected
def test_every_byte_is_right(name):
    one, architecture = EXECUTED[name]
    one.check(executed(one, architecture), "the machine code's")


RESIZES = {
    "photographs to halves": ResizeCase("pillow-bilinear", "uint8", "float16", size=(20, 24), samples=1, largest=60),
    "part of a picture, to pixels": ResizeCase("pillow-lanczos", order="NHWC", size=(18, 40), largest=50, seed=3),
    "rows first": ResizeCase(
        "pillow-bicubic", "uint8", "float16", passes="vertical", size=(33, 24), samples=1, largest=60
    ),
    "part of a picture, to pixels, rows first": ResizeCase(
        "pillow-lanczos", order="NHWC", passes="vertical", size=(18, 40), largest=50, seed=3
    ),
    "two taps, to halves": ResizeCase("opencv-linear", "uint8", "float16", size=(20, 24), largest=60),
    "two taps, to pixels": ResizeCase("opencv-linear-exact", order="NHWC", size=(18, 40), largest=50, seed=3),
}
"""Images whose products are on tensor cores, and images of two taps along either axis."""


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", RESIZES)
@inspected
def test_every_byte_of_a_resize_is_right(name, architecture):
    one = RESIZES[name]
    (launch,), (sources, batch) = one.launches, one.memories
    assert launch.sources in (("resize_products.cu",), ("resize_pairs.cu",))
    records = np.frombuffer(resize_records(one.groups[0], 1), np.uint8)
    tables = [np.frombuffer(content, np.uint8) for _, content in launch.tables]
    memory = Buffers(records, batch, np.concatenate(sources), *tables)
    parameters = bytearray(launch.parameters)
    for at, address in zip((0, 8, 16, *(at for at, _ in launch.tables)), ADDRESSES, strict=True):
        parameters[at : at + 8] = address.to_bytes(8, "little")
    code = machine_code.disassembled(joined_source(*launch.sources), [launch.name], architecture)[launch.name]
    blocks = launch.grid[0]
    for number in range(blocks):
        Block(parsed(code.text), memory, bytes(parameters), launch.block[0], blocks, number, None, architecture).run()
    np.testing.assert_array_equal(memory.regions[1][1], one.expected(one.groups[0]))


def test_another_instruction_is_named():
    code = parsed("        /*0000*/                   HMMA.16816.F32 R4, R8, R10, R4 ;")
    with pytest.raises(UnknownInstructionError, match=r"HMMA\.16816\.F32 R4, R8, R10, R4"):
        Block(code, Buffers(), b"", 32, 1, 0).run()


def test_lanes_that_part_meet_again():
    code = """
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   ISETP.GT.U32.AND P0, PT, R0, 0x7, PT ;
        /*0020*/               @P0 BRA `(.L_x_1) ;
        /*0030*/                   IADD3 R0, R0, 0x64, RZ ;
.L_x_1:
        /*0040*/                   IMAD.SHL.U32 R2, R0, 0x4, RZ ;
        /*0050*/                   EXIT ;
    """

    class Issued(list):
        def issue(self, _warp, one):
            self.append(one.name)

    seen = Issued()
    block = Block(parsed(code), Buffers(), b"", 32, 1, 0, seen)
    block.run()
    assert seen == ["S2R", "ISETP", "BRA", "IADD3", "IMAD", "EXIT"]
    (register,) = {register for one in parsed(code) if one.name == "IMAD" for register in one.operands[:1]}
    expected = [4 * (lane + 100 * (lane < 8)) for lane in range(32)]
    assert block.warps[0].value(register).tolist() == expected
