"""Copies that threads ask for in the emulator: what comes when, and what CUDA would not do."""

from __future__ import annotations

import numpy as np
import pytest
from harness.emulator.marks import emulated
from harness.emulator.runner import ORDERS, Buffer, EmulationError, Job, Program

from stridedgpu.devices.cuda.sources import joined_source

THREADS = 64

KERNEL = r"""
using namespace sg;

enum class Broken { nothing, no_wait, no_barrier, no_last_wait, odd_source, odd_target, twice };

// Rounds of vectors, one a thread, turned around by the block.
template <Broken B, int bytes> __global__ void turn_rounds(const unsigned char* source, unsigned char* target,
                                                           uint32 rounds) {
    unsigned char* memory = dynamic_shared_memory();
    for (uint32 round = 0; round < rounds; ++round) {
        const unsigned char* from = source + (round * blockDim.x + threadIdx.x) * bytes;
        copy_async<bytes>(memory + threadIdx.x * bytes + (B == Broken::odd_target ? 1 : 0),
                          from + (B == Broken::odd_source ? 2 : 0));
        if (B == Broken::twice) copy_async<bytes>(memory + threadIdx.x * bytes, from);
        if (B == Broken::no_last_wait && round + 1 == rounds) return;
        if (B != Broken::no_wait) wait_for_copies();
        if (B != Broken::no_barrier) __syncthreads();
        const uint32 other = (blockDim.x - 1 - threadIdx.x) * bytes;
        for (int i = 0; i < bytes; ++i) {
            target[(round * blockDim.x + threadIdx.x) * bytes + i] = memory[other + i];
        }
        __syncthreads();
    }
}
"""

STOPPED = {
    "no_last_wait": "a thread ends before its copies",
    "odd_source": "not aligned to its bytes",
    "odd_target": "not aligned to its bytes",
}

EARLY = ("no_wait", "no_barrier")
"""What reads bytes that have not come."""

WIDTHS = (4, 8, 16)


@pytest.fixture(scope="module")
def program() -> Program:
    kinds = ("nothing", "twice", *EARLY, *STOPPED)
    names = [f"turn_rounds<Broken::{kind}, {nbytes}>" for kind in kinds for nbytes in WIDTHS]
    return Program.compile(joined_source("async_copies.cuh", "primitives.cuh") + KERNEL, names)


def job(kind: str, nbytes: int, rounds: int, order: str, missing: int = 0) -> tuple[Job, np.ndarray]:
    """The kernel over so many rounds, and its source, of which the last bytes may be missing."""
    source = np.random.default_rng(rounds).integers(0, 256, (rounds, THREADS, nbytes), np.uint8)
    held = source.tobytes()[: source.nbytes - missing]
    arguments = (Buffer(held, 16), Buffer(bytes(source.nbytes)), np.uint32(rounds))
    name = f"turn_rounds<Broken::{kind}, {nbytes}>"
    return Job(name, (1,), (THREADS,), arguments, THREADS * nbytes + 16, order, seed=1), source


@emulated
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("nbytes", WIDTHS)
def test_bytes_are_there_behind_a_wait_and_a_barrier(program, nbytes, order):
    one, source = job("nothing", nbytes, 3, order)
    [[_, result]] = program.run([one])
    assert result == source[:, ::-1].tobytes()


@emulated
@pytest.mark.parametrize("nbytes", WIDTHS)
@pytest.mark.parametrize("kind", EARLY)
def test_bytes_that_are_read_too_early_are_noticed(program, kind, nbytes):
    one, source = job(kind, nbytes, 3, "forward")
    with pytest.raises((AssertionError, EmulationError), match=r"AddressSanitizer|may not write|Other bytes"):
        [[_, result]] = program.run([one])
        assert result == source[:, ::-1].tobytes(), "Other bytes"


@emulated
@pytest.mark.parametrize("nbytes", WIDTHS)
@pytest.mark.parametrize("kind", STOPPED)
def test_what_cuda_would_not_do_is_stopped(program, kind, nbytes):
    with pytest.raises(EmulationError, match=STOPPED[kind]):
        program.run([job(kind, nbytes, 3, "forward")[0]])


@emulated
@pytest.mark.parametrize("nbytes", [8, 16])
def test_a_second_copy_to_bytes_that_have_not_come_is_stopped(program, nbytes):
    with pytest.raises(EmulationError, match="may not write"):
        program.run([job("twice", nbytes, 3, "forward")[0]])


@emulated
@pytest.mark.parametrize("nbytes", WIDTHS)
def test_a_copy_from_behind_a_buffer_is_stopped(program, nbytes):
    with pytest.raises(EmulationError, match="may not read"):
        program.run([job("nothing", nbytes, 3, "forward", missing=4)[0]])
