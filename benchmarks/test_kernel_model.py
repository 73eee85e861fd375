"""What the model of a GPU counts, on machine code and addresses written out."""

from __future__ import annotations

import numpy as np
import pytest
from harness.emulator.sass import parsed
from kernel_facts import machine_code
from kernel_model import model, passes, resident_blocks

from stridedgpu.devices.cuda.gpu import KernelLaunch

COPY = """
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   LDC.64 R2, c[0x0][0x210] ;
        /*0020*/                   IMAD.WIDE.U32 R2, R0, 0x10, R2 ;
        /*0030*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0040*/                   LDG.E.128 R8, desc[UR4][R2.64+0x1000] ;
        /*0050*/                   LDC.64 R12, c[0x0][0x218] ;
        /*0060*/                   IMAD.WIDE.U32 R12, R0, 0x10, R12 ;
        /*0070*/                   STG.E.128 desc[UR4][R12.64], R4 ;
        /*0080*/                   STG.E.128 desc[UR4][R12.64+0x1000], R8 ;
        /*0090*/                   EXIT ;
"""
"""Two vectors of 16 bytes a thread."""


def launch(shared_bytes: int = 0, blocks: int = 1320) -> KernelLaunch:
    return KernelLaunch(("copy.cu",), "copy", (blocks, 1, 1), (256, 1, 1), shared_bytes, bytes(16))


def code(registers: int, shared_bytes: int = 0, text: str = COPY) -> machine_code.Disassembly:
    return machine_code.Disassembly(registers, 0, shared_bytes, text)


ADDRESSES = {
    # 4-byte words apart, bytes of an access, lanes: passes
    "words beside each other": (1, 4, 32, 1),
    "one word for all": (0, 4, 32, 1),
    "every other word": (2, 4, 32, 2),
    "words of one bank": (32, 4, 32, 32),
    "one word too many for a bank": (33, 4, 32, 1),
    "vectors beside each other": (4, 16, 32, 4),
    "vectors of one bank": (32, 16, 32, 32),
    "half a warp": (1, 4, 16, 1),
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_passes_are_those_of_the_busiest_bank(name):
    apart, nbytes, lanes, expected = ADDRESSES[name]
    assert passes(np.arange(lanes, dtype=np.uint64) * np.uint64(4 * apart), nbytes) == expected


RESOURCES = {
    # registers, shared bytes known beforehand and asked for at launch: blocks of 256 threads
    "as many as there are warps": (32, 0, 0, 8),
    "registers, in steps of eight": (33, 0, 0, 6),
    "many registers": (128, 0, 0, 2),
    "shared memory known beforehand": (32, 47 << 10, 0, 4),
    "shared memory and the driver's part": (32, 0, 56 << 10, 4),
}


@pytest.mark.parametrize("name", RESOURCES)
def test_blocks_are_held_as_far_as_their_resources_go(name):
    registers, static, dynamic, blocks = RESOURCES[name]
    assert resident_blocks(launch(dynamic), code(registers, static)) == blocks


def test_a_copy_is_limited_by_memory():
    figures = model(launch(), code(32), 1320 * 16384)
    assert figures["resident_blocks"] == 8
    assert figures["waves"] == 1.25
    assert figures["instructions_per_byte"] == round(32 * 8 * 10 / 16384, 2)
    assert figures["bytes_in_flight"] == 8 * 256 * 32
    assert (figures["waits"], figures["sector_bytes_per_byte"]) == (1, 1.0)
    assert figures["limit"] == "memory"
    # One microsecond of ramp, and a second wave of which a quarter is there.
    block = 16384 / 16.3 * 1.3 * 10 + 2000
    assert figures["at_most"] == pytest.approx(16384 / 16.3 * 10 / block, abs=0.01)


def test_a_copy_that_waits_for_each_load_has_half_as_much_under_way_and_waits_longest():
    lines = COPY.strip("\n").splitlines()
    loads, stores = [lines[place] for place in (3, 4)], [lines[place] for place in (7, 8)]
    one_by_one = [*lines[:3], *lines[5:7], loads[0], stores[0], loads[1], stores[1], lines[9]]
    figures = model(launch(), code(64, text="\n".join(one_by_one)), 1320 * 16384)
    assert figures["waits"] == 2
    assert figures["bytes_in_flight"] == 4 * 256 * 16
    assert figures["limit"] == "waiting"


def test_more_waits_more_instructions_and_fewer_blocks_lower_the_share():
    lines = COPY.strip("\n").splitlines()
    wordy = "\n".join([*lines[:3], *[lines[2]] * 200, *lines[3:]])
    shares = [
        model(launch(blocks=blocks), code(registers, text=text), blocks * 16384)["at_most"]
        for blocks, registers, text in (
            (132000, 32, COPY),
            (1320, 32, COPY),
            (1320, 128, COPY),
            (1320, 128, wordy),
            (132, 128, wordy),
        )
    ]
    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) == len(shares)
    assert shares[0] > 0.97


READ = {
    # one instruction: the registers that it reads
    "IMAD.WIDE R4, R7, 0x4, R4 ;": {7, 4, 5},
    "IMAD.HI.U32 R2, R9, UR8, R6 ;": {9, 6, 7},
    "IMAD R2, R9, R8, R6 ;": {9, 8, 6},
    "LDG.E.128 R8, desc[UR4][R2.64] ;": {2, 3},
    "STG.E.64 desc[UR4][R2.64], R8 ;": {2, 3, 8, 9},
}


@pytest.mark.parametrize("text", READ)
def test_only_pairs_are_read_as_pairs(text):
    """A factor's neighbour may be on its way from memory: the product does not wait for it."""
    (one,) = parsed(f"        /*0000*/                   {text}")
    assert one.registers_read() == READ[text]


STAGES = """
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   ISETP.NE.AND P0, PT, R0, RZ, PT ;
        /*0020*/                   UMOV UR4, 0x0 ;
        /*0030*/                   UMOV UR5, 0x4000 ;
        /*0040*/                   ULDC.64 UR6, c[0x0][0x210] ;
        /*0050*/                   UMOV UR8, 0x100 ;
        /*0060*/              @!P0 UBLKCP.S.G [UR4], [UR6], UR8 ;
        /*0070*/                   UMOV UR4, 0x1000 ;
        /*0080*/                   UMOV UR5, 0x4008 ;
        /*0090*/                   UIADD3 UR6, UR6, 0x1000, URZ ;
        /*00a0*/              @!P0 UBLKCP.S.G [UR4], [UR6], UR8 ;
        /*00b0*/                   BAR.SYNC 0x0 ;
        /*00c0*/                   MOV R1, 0x4000 ;
        /*00d0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R1], R0 ;
        /*00e0*/                   BAR.SYNC 0x0 ;
        /*00f0*/              @!P0 UBLKCP.S.G [UR4], [UR6], UR8 ;
        /*0100*/                   BAR.SYNC 0x0 ;
        /*0110*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R1+0x8], R0 ;
        /*0120*/                   EXIT ;
"""
"""One thread brings two stages of 4 KB, and one of them again before it waits for it."""


def test_bulk_copies_that_are_on_their_way_come_with_the_one_that_is_waited_for():
    figures = model(launch(blocks=132), code(32, text=STAGES), 132 * 8192)
    assert figures["waits"] == 2
    assert figures["bytes_in_flight"] == 8192
    assert figures["sector_bytes_per_byte"] == 1.0
    assert figures["shared_passes"] == figures["shared_passes_at_least"] == 3 * 4096 // 128
    again = STAGES.replace("[R1+0x8]", "[R1]")
    assert model(launch(blocks=132), code(32, text=again), 132 * 8192)["waits"] == 1


COPIES = """
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   IMAD.SHL.U32 R1, R0, 0x4, RZ ;
        /*0020*/                   ULDC.64 UR6, c[0x0][0x210] ;
        /*0030*/                   IADD3 R2, P0, R1, UR6, RZ ;
        /*0040*/                   IADD3.X R3, RZ, UR7, RZ, P0, !PT ;
        /*0050*/                   LDGSTS.E [R1], desc[UR4][R2.64] ;
        /*0060*/                   LDGSTS.E [R1+0x1000], desc[UR4][R2.64+0x1000] ;
        /*0070*/                   LDGDEPBAR ;
        /*0080*/                   DEPBAR.LE SB0, 0x0 ;
        /*0090*/                   LDGSTS.E [R1], desc[UR4][R2.64] ;
        /*00a0*/                   DEPBAR.LE SB0, 0x0 ;
        /*00b0*/                   DEPBAR.LE SB0, 0x0 ;
        /*00c0*/                   EXIT ;
"""
"""Every thread asks for two words, and again for the first of them."""


def test_copies_that_threads_ask_for_come_together_when_they_are_waited_for():
    figures = model(launch(blocks=132), code(32, text=COPIES), 132 * 2048)
    threads = launch(blocks=132).block[0]
    assert (figures["waits"], figures["cached_waits"]) == (1, 1)
    assert figures["bytes_in_flight"] == 8 * threads
    assert figures["shared_passes"] == figures["shared_passes_at_least"] == 3 * 4 * threads // 128


def test_a_wave_that_gives_every_multiprocessor_as_many_blocks_has_no_idle_ones():
    even, odd = (model(launch(blocks=blocks), code(64), blocks * 16384) for blocks in (132 * 3, 132 * 3 - 1))
    assert (even["waves"], odd["waves"]) == (0.75, 0.75)
    assert even["at_most"] > odd["at_most"]
