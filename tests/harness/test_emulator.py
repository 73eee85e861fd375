"""The emulator runs what CUDA runs, and stops what CUDA would only sometimes show: broken kernels, one of each kind."""

from __future__ import annotations

import numpy as np
import pytest
from harness.emulator.runner import ORDERS, Buffer, EmulationError, Job, Pointer, Program, Record, why_unavailable

from stridedgpu.devices.cuda.sources import joined_source

pytestmark = [
    pytest.mark.emulation,
    pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable())),
]

KERNELS = r"""
using namespace sg;

// Each block turns its elements around in shared memory; without the barrier, elements are read before they are there.
template <bool Barrier> __global__ void reverse_blocks(const uint32* source, uint32* target) {
    __shared__ uint32 tile[256];
    tile[threadIdx.x] = source[blockIdx.x * blockDim.x + threadIdx.x];
    if (Barrier) __syncthreads();
    target[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

// The same with dynamic shared memory, and with a second round that a second barrier keeps apart from the first.
template <bool Barrier> __global__ void reverse_twice(const uint32* source, uint32* target) {
    uint32* tile = reinterpret_cast<uint32*>(dynamic_shared_memory());
    uint32 mine = source[threadIdx.x];
    for (int round = 0; round < 2; ++round) {
        tile[threadIdx.x] = mine;
        __syncthreads();
        mine = tile[blockDim.x - 1 - threadIdx.x];
        if (Barrier) __syncthreads();
    }
    target[threadIdx.x] = mine;
}

// A tail guard that lets one element too many through.
template <int Excess> __global__ void copy_guarded(const uint8* source, uint8* target, uint32 count) {
    const uint32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count + Excess) target[i] = source[i];
}

template <int N> __global__ void copy_vectors(const uint8* source, uint8* target) {
    const uint32 i = (blockIdx.x * blockDim.x + threadIdx.x) * N;
    store(target + i, load<Vector<uint8, N>>(source + i));
}

__global__ void write_before(uint8* target) { target[-1] = 1; }

__global__ void leave_before_barrier(uint32* target) {
    if (threadIdx.x >= 20) return;
    __syncthreads();
    target[threadIdx.x] = 1;
}

__global__ void shared_overrun(uint32* target) {
    dynamic_shared_memory()[4 * threadIdx.x + 4] = 1;
    __shared__ uint8 small[32];
    small[threadIdx.x] = 1;
    target[threadIdx.x] = small[threadIdx.x];
}

struct Parameters { const uint32* source; uint32* target; uint32 addend; };

__global__ void warp_functions(Parameters parameters) {
    const uint32 mine = parameters.source[threadIdx.x], everyone = ~0u;
    const bool odd = mine & 1;
    uint32 sum = mine;
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(everyone, sum, lanes);
    uint32* target = parameters.target + threadIdx.x * 8;
    target[0] = sum + parameters.addend;
    target[1] = __shfl_sync(everyone, mine, int(threadIdx.x) + 1, 8);
    target[2] = __shfl_down_sync(everyone, mine, 3);
    target[3] = __shfl_up_sync(everyone, mine, 2, 16);
    target[4] = __ballot_sync(everyone, odd);
    target[5] = uint32(__any_sync(everyone, odd)) << 1 | uint32(__all_sync(everyone, odd));
    target[6] = uint32(__shfl_sync(everyone, uint64(mine) << 40, 5) >> 40);
    __syncwarp();
    target[7] = atomicAdd(parameters.target + 7 + 8 * 63, 1u);
}
"""
NAMES = [
    "reverse_blocks<true>",
    "reverse_blocks<false>",
    "reverse_twice<true>",
    "reverse_twice<false>",
    "copy_guarded<0>",
    "copy_guarded<1>",
    "copy_vectors<1>",
    "copy_vectors<4>",
    "copy_vectors<16>",
    "copy_vectors<32>",
    "write_before",
    "leave_before_barrier",
    "shared_overrun",
    "warp_functions",
]


@pytest.fixture(scope="module")
def program() -> Program:
    return Program.compile(joined_source("primitives.cuh", "vectors.cuh") + KERNELS, NAMES)


def numbers(count: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(count).integers(0, np.iinfo(dtype).max, count, dtype, endpoint=True)


@pytest.mark.parametrize("order", ORDERS)
def test_blocks_reverse_in_shared_memory(program, order):
    source, target = numbers(3 * 256, "uint32"), Buffer(bytes(3 * 1024))
    job = Job("reverse_blocks<true>", (3,), (256,), (Buffer(source), target), order=order, seed=1)
    (_, result), (_, again) = program.run([job, job])
    assert result == again == source.reshape(3, 256)[:, ::-1].tobytes()


@pytest.mark.parametrize("order", ORDERS)
def test_a_missing_barrier_gives_a_wrong_result(program, order):
    source = numbers(256, "uint32")
    job = Job("reverse_blocks<false>", (1,), (256,), (Buffer(source), Buffer(bytes(1024))), order=order, seed=1)
    [[_, result]] = program.run([job])
    assert result != source[::-1].tobytes()


def test_a_missing_second_barrier_gives_a_wrong_result_in_some_order(program):
    source = numbers(256, "uint32")
    results = {
        (kernel, order): program.run(
            [Job(kernel, (1,), (256,), (Buffer(source), Buffer(bytes(1024))), 1024, order=order, seed=2)]
        )[0][1]
        for kernel in ("reverse_twice<true>", "reverse_twice<false>")
        for order in ORDERS
    }
    assert all(results["reverse_twice<true>", order] == source.tobytes() for order in ORDERS)
    assert any(results["reverse_twice<false>", order] != source.tobytes() for order in ORDERS)


@pytest.mark.parametrize("count", [1, 7, 8, 255, 1000])
@pytest.mark.parametrize("alignment", [1, 16])
def test_a_tail_one_element_too_long_is_stopped(program, count, alignment):
    source = numbers(count, "uint8")

    def job(kernel):
        arguments = (Buffer(source, alignment), Buffer(bytes(count), alignment), np.uint32(count))
        return Job(kernel, (4,), (256,), arguments)

    assert program.run([job("copy_guarded<0>")])[0][1] == source.tobytes()
    with pytest.raises(EmulationError, match="heap-buffer-overflow"):
        program.run([job("copy_guarded<1>")])


@pytest.mark.parametrize("width", [1, 4, 16, 32])
@pytest.mark.parametrize("alignment", [1, 2, 4, 8, 16, 32])
def test_a_vector_wider_than_the_alignment_is_stopped(program, width, alignment):
    source = numbers(1024, "uint8")
    arguments = (Buffer(source, 64), Buffer(bytes(1024), alignment))
    job = Job(f"copy_vectors<{width}>", (1,), (1024 // width,), arguments)
    if width <= alignment:
        assert program.run([job])[0][1] == source.tobytes()
    else:
        with pytest.raises(EmulationError, match="misaligned address"):
            program.run([job])


def test_a_view_offset_that_breaks_the_alignment_is_stopped(program):
    source = Buffer(numbers(2048, "uint8"), 64)
    job = Job("copy_vectors<16>", (1,), (8,), (Pointer(source, 8), Buffer(bytes(1024))))
    with pytest.raises(EmulationError, match="misaligned address"):
        program.run([job])


@pytest.mark.parametrize("alignment", [1, 4, 8, 16])
def test_a_write_before_a_buffer_is_stopped(program, alignment):
    with pytest.raises(EmulationError, match=r"before a buffer|use-after-poison"):
        program.run([Job("write_before", (1,), (1,), (Buffer(bytes(16), alignment),))])


@pytest.mark.parametrize("order", ORDERS)
def test_threads_that_leave_before_a_barrier_are_stopped(program, order):
    job = Job("leave_before_barrier", (1,), (32,), (Buffer(bytes(128)),), order=order)
    with pytest.raises(EmulationError, match=r"__syncthreads.*threads wait"):
        program.run([job])


@pytest.mark.parametrize("threads, dynamic_bytes", [(32, 128), (33, 256)], ids=["dynamic", "static"])
def test_an_overrun_of_shared_memory_is_stopped(program, threads, dynamic_bytes):
    job = Job("shared_overrun", (1,), (threads,), (Buffer(bytes(4 * threads)),), dynamic_bytes)
    with pytest.raises(EmulationError, match=r"overflow|out of bounds"):
        program.run([job])


@pytest.mark.parametrize("order", ORDERS)
def test_warp_functions(program, order):
    source, target = numbers(64, "uint32"), Buffer(bytes(64 * 32))
    addresses = ((0, Pointer(Buffer(source))), (8, Pointer(target)))
    parameters = Record(bytes(16) + np.array([7, 0], "uint32").tobytes(), addresses)
    [[_, result]] = program.run([Job("warp_functions", (1,), (64,), (parameters,), order=order, seed=3)])
    rows = np.frombuffer(result, np.uint32).reshape(2, 32, 8)
    lanes = np.arange(32)
    for warp, values in zip(rows, source.reshape(2, 32), strict=True):
        odd = values & 1
        expected = [
            np.full(32, values.sum(dtype=np.uint32) + np.uint32(7)),
            values[(lanes & ~7) + (lanes + 1) % 8],
            np.where(lanes + 3 < 32, values[(lanes + 3) % 32], values),
            np.where(lanes % 16 >= 2, values[lanes - 2], values),
            np.full(32, (odd.astype(np.uint64) << lanes.astype(np.uint64)).sum()),
            np.full(32, 2 * odd.any() + odd.all()),
            np.full(32, values[5] & 0xFFFFFF),
        ]
        for column, wanted in enumerate(expected):
            np.testing.assert_array_equal(warp[:, column], wanted.astype(np.uint32), f"column {column}")


def test_an_error_names_the_job(program):
    source = numbers(16, "uint8")
    jobs = [
        Job("copy_guarded<0>", (1,), (32,), (Buffer(source), Buffer(bytes(16)), np.uint32(16)), label=f"copy {i}")
        for i in range(3)
    ]
    jobs[1] = Job("copy_guarded<1>", (1,), (32,), jobs[1].arguments, label="copy 1", order="reversed")
    with pytest.raises(EmulationError, match=r"copy 1 \(reversed order\)"):
        program.run(jobs)


def test_arguments_have_to_fit_the_parameters(program):
    job = Job("copy_guarded<0>", (1,), (32,), (Buffer(bytes(16)), Buffer(bytes(16)), np.uint64(16)))
    with pytest.raises(EmulationError, match="8 bytes, its parameter 4"):
        program.run([job])


def test_a_source_that_does_not_compile_is_an_error():
    with pytest.raises(EmulationError, match="g\\+\\+ refused"):
        Program.compile("__global__ void broken() { return 1; }", ["broken"])
