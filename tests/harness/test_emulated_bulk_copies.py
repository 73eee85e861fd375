"""Bulk copies in the emulator: what CUDA would not make, or would make too early or too late, is stopped."""

from __future__ import annotations

import numpy as np
import pytest
from harness.emulator.marks import emulated
from harness.emulator.runner import ORDERS, Buffer, EmulationError, Job, Program

from stridedgpu.devices.cuda.sources import joined_source

STAGE = 1024
"""Bytes of a stage, of which there are two."""

KERNEL = r"""
using namespace sg;

enum class Broken {
    nothing, no_wait, no_barrier, other_phase, no_barriers, more_expected, fewer_expected, two_arrivals, no_last_wait,
    odd_source, odd_target, odd_size, other_barrier, behind_the_stages, made_twice
};

// Stages of 1 KB, turned around, through two places in shared memory.
template <Broken B> __global__ void turn_stages(const uint32* source, uint32* target, uint32 count) {
    constexpr int bytes = 1024, words = bytes / 4;
    __shared__ CopyBarrier barriers[2];
    unsigned char* memory = dynamic_shared_memory();
    const auto fill = [&](uint32 stage) {
        if (stage >= count) return;
        CopyBarrier& barrier = barriers[stage % 2];
        const int excess = B == Broken::more_expected ? 16 : B == Broken::fewer_expected ? -16 : 0;
        expect(barrier, bytes + excess);
        if (B == Broken::two_arrivals) expect(barrier, 0);
        const char* from = reinterpret_cast<const char*>(source + stage * words) + (B == Broken::odd_source ? 4 : 0);
        unsigned char* to = memory + stage % 2 * bytes + (B == Broken::odd_target ? 8 : 0);
        if (B == Broken::behind_the_stages && stage == 1) to += 16;
        CopyBarrier& counting = B == Broken::other_barrier ? barriers[1 - stage % 2] : barrier;
        bulk_copy(to, from, bytes / 2, counting);
        bulk_copy(to + bytes / 2, from + bytes / 2, B == Broken::odd_size ? bytes / 2 - 4 : bytes / 2, counting);
    };
    if (threadIdx.x == 0) {
        if (B != Broken::no_barriers) init(barriers[0]), init(barriers[1]);
        if (B == Broken::made_twice) init(barriers[0]);
        show_barriers();
        fill(0);
        fill(1);
    }
    __syncthreads();
    for (uint32 stage = 0; stage < count; ++stage) {
        const bool leaves = B == Broken::no_last_wait && stage + 1 == count;
        if (B != Broken::no_wait && !leaves) wait(barriers[stage % 2], stage / 2 + (B == Broken::other_phase));
        uint32 mine = leaves ? 0 : reinterpret_cast<uint32*>(memory)[stage % 2 * words + words - 1 - threadIdx.x];
        target[stage * words + threadIdx.x] = mine;
        if (B != Broken::no_barrier) __syncthreads();
        if (threadIdx.x == 0) fill(stage + 2);
    }
}
"""

STOPPED = {
    # which orders of threads show it, and what the emulator says
    "no_wait": (ORDERS, "use-after-poison"),
    "no_barrier": (("forward",), "use-after-poison|threads wait for others"),
    "other_phase": (ORDERS, "use-after-poison"),
    "no_barriers": (ORDERS, "a barrier of bulk copies that nobody has made"),
    "more_expected": (ORDERS, "a wait for bulk copies: .*threads wait for others"),
    "fewer_expected": (ORDERS, "more bytes than their barrier expects"),
    "two_arrivals": (ORDERS, "a second arrival in one phase"),
    "no_last_wait": (ORDERS, "a block ends before its bulk copies"),
    "odd_source": (ORDERS, "not of whole 16 bytes"),
    "odd_target": (ORDERS, "not of whole 16 bytes"),
    "odd_size": (ORDERS, "not of whole 16 bytes"),
    "other_barrier": (ORDERS, "use-after-poison|more bytes than|threads wait for others"),
    "behind_the_stages": (ORDERS, "memory that it may not write"),
    "made_twice": (ORDERS, "made twice"),
}


@pytest.fixture(scope="module")
def program() -> Program:
    names = [f"turn_stages<Broken::{name}>" for name in ("nothing", *STOPPED)]
    return Program.compile(joined_source("bulk_copies.cuh", "primitives.cuh") + KERNEL, names)


def job(name: str, stages: int, order: str, source_bytes: int | None = None) -> tuple[Job, np.ndarray]:
    """The kernel over so many stages in each of two blocks, and its source."""
    words = np.random.default_rng(stages).integers(0, 2**32, stages * STAGE // 4, np.uint32)
    source = Buffer(words.tobytes()[:source_bytes], 16)
    arguments = (source, Buffer(bytes(words.nbytes)), np.uint32(stages))
    return Job(f"turn_stages<Broken::{name}>", (2,), (256,), arguments, 2 * STAGE, order, seed=1), words


@emulated
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("stages", [1, 2, 3, 6])
def test_stages_are_filled_again_and_again(program, stages, order):
    one, words = job("nothing", stages, order)
    [[_, result]] = program.run([one])
    assert result == words.reshape(stages, -1)[:, ::-1].tobytes()


@emulated
@pytest.mark.parametrize("name", STOPPED)
def test_what_cuda_would_not_do_is_stopped(program, name):
    orders, message = STOPPED[name]
    for order in orders:
        with pytest.raises(EmulationError, match=message):
            program.run([job(name, 6, order)[0]])


@emulated
def test_a_copy_from_behind_a_buffer_is_stopped(program):
    with pytest.raises(EmulationError, match="memory that it may not read"):
        program.run([job("nothing", 2, "forward", 2 * STAGE - 16)[0]])
