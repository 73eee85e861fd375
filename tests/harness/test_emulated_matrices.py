"""Matrix instructions in the emulator: a warp's fragments against NumPy's products, and what CUDA forbids is stopped.

The layouts are those of the PTX ISA for lane 4 * g + t, as kernels/include/matrix_products.cuh draws them.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from harness.emulator.machine_code import disassembled
from harness.emulator.marks import emulated, every_architecture, inspected
from harness.emulator.runner import ORDERS, Buffer, EmulationError, Job, Program

from stridedgpu.devices.cuda.sources import joined_source

KERNEL = r"""
using namespace sg;

enum class Broken {
    nothing, odd_address, global_memory, behind_shared_memory, lanes_leave, lanes_stay_away, other_function, other_depth
};

// Every lane names a row by its number; its fragment goes to `target`.
template <int Count, bool Transposed, Broken B>
__global__ void load_fragments(const uint8* source, const int* offsets, uint32* target) {
    uint8* memory = dynamic_shared_memory();
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) memory[i] = source[i];
    __syncthreads();
    const uint8* row = memory + offsets[threadIdx.x % 32];
    if (B == Broken::odd_address && threadIdx.x == 3) row += 8;
    if (B == Broken::global_memory && threadIdx.x == 3) row = source;
    if (B == Broken::behind_shared_memory && threadIdx.x == 3) row = memory + 1024;
    if (B == Broken::lanes_leave && threadIdx.x == 3) return;
    uint32 fragment[Count];
    if constexpr (Transposed) load_matrix_x4_transposed(fragment, row);
    else if constexpr (Count == 1) load_matrix_x1(fragment, row);
    else if constexpr (Count == 2) load_matrix_x2(fragment, row);
    else load_matrix_x4(fragment, row);
    for (int i = 0; i < Count; ++i) target[threadIdx.x * Count + i] = fragment[i];
}

template <int Kind, int Depth, Broken B>
__global__ void multiply_fragments(const uint32* a_source, const uint32* b_source, int32* sums_of_all) {
    constexpr int a_words = Depth / 8, b_words = Depth / 16;
    uint32 a[a_words], b[b_words];
    int32 sums[4];
    for (int i = 0; i < a_words; ++i) a[i] = a_source[threadIdx.x * a_words + i];
    for (int i = 0; i < b_words; ++i) b[i] = b_source[threadIdx.x * b_words + i];
    for (int i = 0; i < 4; ++i) sums[i] = sums_of_all[threadIdx.x * 4 + i];
    const bool other = threadIdx.x % 32 == 7;
    if (B == Broken::lanes_stay_away && other) {
        __syncthreads();
    } else if (B == Broken::other_function && other) {
        multiply_add_u8_s8(sums, a, b);
    } else if (B == Broken::other_depth && other) {
        const uint32 first[2] = {a[0], a[1]}, single[1] = {b[0]};
        multiply_add_u8_u8(sums, first, single);
    } else {
        if constexpr (Kind == 0) multiply_add_u8_u8(sums, a, b);
        else if constexpr (Kind == 1) multiply_add_u8_s8(sums, a, b);
        else multiply_add_s8_u8(sums, a, b);
    }
    for (int i = 0; i < 4; ++i) sums_of_all[threadIdx.x * 4 + i] = sums[i];
}

template <int Bytes> struct alignas(16) Row { uint8 byte[Bytes]; };

// A product as a kernel makes it: its matrices come from shared memory, k = 32 and another 16.
template <int Depth> __global__ void multiply_matrices(const uint8* a_source, const uint8* b_source, int32* target) {
    Row<Depth>*a_rows = reinterpret_cast<Row<Depth>*>(dynamic_shared_memory()), *b_columns = a_rows + 16;
    for (int i = threadIdx.x; i < 16 * Depth; i += 32) a_rows[i / Depth].byte[i % Depth] = a_source[i];
    for (int i = threadIdx.x; i < 8 * Depth; i += 32) b_columns[i / Depth].byte[i % Depth] = b_source[i];
    __syncthreads();
    const int lane = threadIdx.x;
    int32 sums[4] = {};
    uint32 a[4], b[2], a_rest[2], b_rest[1];
    load_matrix_x4(a, a_rows[lane % 16].byte + lane / 16 * 16);
    load_matrix_x2(b, b_columns[lane % 8].byte + lane / 8 % 2 * 16);
    multiply_add_u8_s8(sums, a, b);
    load_matrix_x2(a_rest, a_rows[lane % 16].byte + 32);
    load_matrix_x1(b_rest, b_columns[lane % 8].byte + 32);
    multiply_add_u8_s8(sums, a_rest, b_rest);
    for (int i = 0; i < 4; ++i) target[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}

__global__ void pairs(const uint32* pair, const uint32* bytes, const uint32* sum, uint32* target) {
    const uint32 i = threadIdx.x, count = blockDim.x;
    target[i] = dot_2a_low(pair[i], bytes[i], sum[i]);
    target[count + i] = dot_2a_high(pair[i], bytes[i], sum[i]);
    target[2 * count + i] = uint32(dot_2a_low(int32(pair[i]), bytes[i], int32(sum[i])));
    target[3 * count + i] = uint32(dot_2a_high(int32(pair[i]), bytes[i], int32(sum[i])));
}

__global__ void truncated(const float32* a, const float32* b, const float32* c, float32* target) {
    const uint32 i = blockIdx.x * blockDim.x + threadIdx.x;
    target[i] = fma_toward_zero(a[i], b[i], c[i]);
}
"""

LOADS = [(1, False), (2, False), (4, False), (4, True)]
KINDS = [("u8_u8", np.uint8, np.uint8), ("u8_s8", np.uint8, np.int8), ("s8_u8", np.int8, np.uint8)]
DEPTHS = (32, 16)

STOPPED_LOADS = {
    "odd_address": "a row of a matrix that is not aligned to 16 bytes .*thread 3",
    "global_memory": "a row of a matrix outside of dynamic shared memory .*thread 3",
    "behind_shared_memory": "a row of a matrix outside of dynamic shared memory .*thread 3",
    "lanes_leave": "load_matrix_x4: .*threads wait for others",
}
STOPPED_PRODUCTS = {
    "lanes_stay_away": "threads wait for others|disagree on a function",
    "other_function": "lanes of a warp disagree on a function",
    "other_depth": "lanes of a warp disagree on a function",
}


def load_name(count: int, transposed: bool, broken: str = "nothing") -> str:
    return f"load_fragments<{count}, {str(transposed).lower()}, Broken::{broken}>"


def product_name(kind: int, depth: int, broken: str = "nothing") -> str:
    return f"multiply_fragments<{kind}, {depth}, Broken::{broken}>"


NAMES = [
    *(load_name(*load) for load in LOADS),
    *(load_name(4, False, broken) for broken in STOPPED_LOADS),
    *(product_name(kind, depth) for kind in range(len(KINDS)) for depth in DEPTHS),
    *(product_name(0, 32, broken) for broken in STOPPED_PRODUCTS),
    "multiply_matrices<48>",
    "pairs",
    "truncated",
]


@pytest.fixture(scope="module")
def program() -> Program:
    return Program.compile(joined_source("matrix_products.cuh") + KERNEL, NAMES)


LANE = np.arange(32)
GROUP, PLACE = LANE // 4, LANE % 4


def a_fragments(a: np.ndarray) -> np.ndarray:
    """The words of each lane of a 16 x k matrix."""
    registers = [
        np.stack([a[GROUP + part % 2 * 8, part // 2 * 16 + 4 * PLACE + byte] for byte in range(4)], 1)
        for part in range(a.shape[1] // 8)
    ]
    return np.stack(registers, 1)


def b_fragments(b: np.ndarray) -> np.ndarray:
    """The words of each lane of a k x 8 matrix."""
    registers = [
        np.stack([b[part * 16 + 4 * PLACE + byte, GROUP] for byte in range(4)], 1) for part in range(b.shape[0] // 16)
    ]
    return np.stack(registers, 1)


def sum_fragments(sums: np.ndarray) -> np.ndarray:
    """The sums of each lane of a 16 x 8 matrix."""
    return np.stack([sums[GROUP + i // 2 * 8, 2 * PLACE + i % 2] for i in range(4)], 1)


def drawn(shape: tuple[int, ...], dtype: type, seed: int) -> np.ndarray:
    """All values of a type, both ends among them."""
    limits = np.iinfo(dtype)
    values = np.random.default_rng(seed).integers(limits.min, limits.max, shape, dtype, endpoint=True)
    values.flat[:2] = limits.min, limits.max
    return values


@emulated
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("count, transposed", LOADS)
def test_a_lane_receives_its_elements_of_every_matrix(program, count, transposed, order):
    source = drawn((64, 16), np.uint8, count)
    rows = np.random.default_rng(count).permutation(64)[:32]
    offsets = (16 * rows).astype(np.int32)
    target = np.zeros((32, count), np.uint32)
    buffers = (Buffer(source), Buffer(offsets), Buffer(target))
    [[*_, result]] = program.run([Job(load_name(count, transposed), (1,), (32,), buffers, 1024, order, seed=1)])
    matrices = source[rows].reshape(4, 8, 16)[:count]
    if transposed:
        matrices = np.ascontiguousarray(matrices.view(np.uint16).transpose(0, 2, 1)).view(np.uint8)
    expected = np.ascontiguousarray(matrices).view(np.uint32).reshape(count, 32).T
    np.testing.assert_array_equal(np.frombuffer(result, np.uint32).reshape(32, count), expected)


@emulated
def test_rows_of_lanes_beyond_the_matrices_are_not_read(program):
    """Lanes 0 to 7 name the rows of one matrix, and others may give any address."""
    offsets = np.full(32, 3, np.int32)
    offsets[:8] = 16 * np.arange(8)
    source = drawn((64, 16), np.uint8, 1)
    buffers = (Buffer(source), Buffer(offsets), Buffer(bytes(128)))
    [[*_, result]] = program.run([Job(load_name(1, False), (1,), (32,), buffers, 1024)])
    assert result == source[:8].tobytes()


@emulated
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", range(len(KINDS)), ids=[name for name, *_ in KINDS])
def test_products_of_fragments_are_those_of_matrices(program, kind, depth, order):
    _, a_type, b_type = KINDS[kind]
    jobs, expected = [], []
    for seed in range(20):
        a, b = drawn((16, depth), a_type, seed), drawn((depth, 8), b_type, seed + 1)
        sums = drawn((16, 8), np.int32, seed + 2)
        wrapped = (sums.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
        buffers = (Buffer(a_fragments(a)), Buffer(b_fragments(b)), Buffer(sum_fragments(sums)))
        jobs.append(Job(product_name(kind, depth), (1,), (32,), buffers, order=order, seed=seed))
        expected.append(sum_fragments(wrapped))
    for results, wanted in zip(program.run(jobs), expected, strict=True):
        np.testing.assert_array_equal(np.frombuffer(results[-1], np.int32).reshape(32, 4), wanted)


@emulated
@pytest.mark.parametrize("order", ORDERS)
def test_loaded_matrices_are_multiplied(program, order):
    a, b = drawn((16, 48), np.uint8, 5), drawn((48, 8), np.int8, 6)
    buffers = (Buffer(a), Buffer(np.ascontiguousarray(b.T)), Buffer(bytes(512)))
    [[*_, result]] = program.run([Job("multiply_matrices<48>", (1,), (32,), buffers, 24 * 48, order, seed=2)])
    np.testing.assert_array_equal(np.frombuffer(result, np.int32).reshape(16, 8), a.astype(np.int32) @ b)


@emulated
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("broken", STOPPED_LOADS)
def test_a_load_that_cuda_forbids_is_stopped(program, broken, order):
    buffers = (Buffer(drawn((64, 16), np.uint8, 1)), Buffer((16 * LANE).astype(np.int32)), Buffer(bytes(512)))
    with pytest.raises(EmulationError, match=STOPPED_LOADS[broken]):
        program.run([Job(load_name(4, False, broken), (1,), (32,), buffers, 1024, order)])


@emulated
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("broken", STOPPED_PRODUCTS)
def test_a_product_without_some_lanes_is_stopped(program, broken, order):
    buffers = (Buffer(bytes(512)), Buffer(bytes(256)), Buffer(bytes(512)))
    with pytest.raises(EmulationError, match=STOPPED_PRODUCTS[broken]):
        program.run([Job(product_name(0, 32, broken), (1,), (32,), buffers, order=order)])


@emulated
def test_a_warp_of_fewer_lanes_multiplies_no_matrices(program):
    buffers = (Buffer(bytes(512)), Buffer(bytes(256)), Buffer(bytes(512)))
    with pytest.raises(EmulationError, match="a warp of fewer than 32 lanes"):
        program.run([Job(product_name(0, 32), (1,), (16,), buffers)])


@emulated
def test_two_products_of_pairs(program):
    pair, bytes_of, sums = (drawn((256,), np.uint32, seed) for seed in (1, 2, 3))
    buffers = (Buffer(pair), Buffer(bytes_of), Buffer(sums), Buffer(bytes(4 * 4 * 256)))
    [[*_, result]] = program.run([Job("pairs", (1,), (256,), buffers)])
    factors = bytes_of.view(np.uint8).reshape(-1, 2, 2).astype(np.int64)
    expected = [
        sums + (pair.view(halves).reshape(-1, 2).astype(np.int64) * factors[:, which]).sum(1)
        for halves, which in itertools.product((np.uint16, np.int16), (0, 1))
    ]
    np.testing.assert_array_equal(
        np.frombuffer(result, np.uint32).reshape(4, 256), np.stack(expected).astype(np.uint32)
    )


@emulated
def test_a_fused_sum_is_rounded_toward_zero(program):
    """Random bits, and the chain of OpenCV's second pass, of which the rounding is a shift."""
    a, b, c = drawn((3, 2048), np.uint32, 4).view(np.float32)
    weights, samples = (np.random.default_rng(1).integers(0, high, 1024) for high in (2049, 32641))
    a[:1024], b[:1024], c[:1024] = 2.0**23 + samples, weights / 65536, 2.0**23 + 2
    sane = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (np.abs(a) < 2.0**60) & (np.abs(b) < 2.0**60)
    a, b, c = (np.where(sane, values, np.float32(1)) for values in (a, b, c))
    buffers = (Buffer(a), Buffer(b), Buffer(c), Buffer(bytes(4 * a.size)))
    [[*_, result]] = program.run([Job("truncated", (a.size // 256,), (256,), buffers)])
    for *factors, got in zip(a, b, c, np.frombuffer(result, np.float32), strict=True):
        x, y, z = (Fraction(float(factor)) for factor in factors)
        exact = abs(x * y + z)
        assert abs(Fraction(float(got))) <= exact < Fraction(float(np.nextafter(abs(got), np.float32(np.inf))))
        assert exact == 0 or got == 0 or (got > 0) == (x * y + z > 0)


@inspected
@every_architecture
def test_each_function_is_one_instruction(architecture):
    """Tensor cores need sm_80; pairs are multiplied by one instruction everywhere."""
    expected = {load_name(4, False): "LDSM.16.M88.4", load_name(4, True): "LDSM.16.MT88.4", "pairs": "IDP.2A"}
    if architecture != "sm_75":
        signs = {0: "U8.U8", 1: "U8.S8", 2: "S8.U8"}
        expected |= {product_name(kind, depth): f"IMMA.168{depth}.{signs[kind]}" for kind in signs for depth in DEPTHS}
    code = disassembled(joined_source("matrix_products.cuh") + KERNEL, list(expected), architecture)
    for name, instruction in expected.items():
        assert code[name].text.count(instruction) == (4 if name == "pairs" else 1), (name, code[name].text)
