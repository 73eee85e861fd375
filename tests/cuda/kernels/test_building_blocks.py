"""What kernels are built of: vectors, shuffles of elements in registers, and fast division and offsets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from harness.emulator import machine_code
from harness.emulator.marks import emulated, every_architecture, inspected
from harness.emulator.runner import Buffer, Job, Program, Record

from stridedgpu.devices.cuda.sources import joined_source

KERNELS = r"""
using namespace sg;

template <typename T, int N> __global__ void reverse_vectors(const T* source, T* target) {
    const uint32 i = (blockIdx.x * blockDim.x + threadIdx.x) * N;
    const auto vector = load<Vector<T, N>>(source + i);
    Vector<T, N> reversed{};
    for (int k = 0; k < N; ++k) reversed.set(k, vector.get(N - 1 - k));
    for (int k = 0; k < N; ++k) reversed.set(k, reversed.get(k));  // over elements that are there already
    store(target + i, reversed);
}

template <int ElementBytes, int Channels, bool Split> __global__ void interleave(const uint32* source, uint32* target) {
    uint32 words[Channels];
    for (int c = 0; c < Channels; ++c) words[c] = source[c];
    if (Split) Interleave<ElementBytes, Channels>::split(words);
    else Interleave<ElementBytes, Channels>::join(words);
    for (int c = 0; c < Channels; ++c) target[c] = words[c];
}

template <typename Index>
__global__ void divide_all(const Index* dividends, Index* quotients, Divisor<Index> by, uint32 count) {
    for (uint32 i = threadIdx.x; i < count; i += blockDim.x) {
        const Quotient<Index> q = divide(dividends[i], by);
        quotients[i] = q.quotient * by.divisor + q.remainder == dividends[i] ? q.quotient : ~Index(0);
    }
}

template <typename Index, int Rank>
__global__ void unravel_all(Axes<Index, Rank> axes, Offsets<Index>* offsets) {
    const Index linear = linear_block<Index>();
    offsets[linear] = axes.unravel(linear);
}
"""
ELEMENTS = {"uint8": 1, "float16": 2, "uint32": 4, "float64": 8, "word128": 16}
VECTORS = [(name, width // size) for name, size in ELEMENTS.items() for width in (1, 2, 4, 8, 16, 32) if width >= size]
INTERLEAVED = [(1, 2), (1, 3), (1, 4), (2, 2), (2, 3), (2, 4), (4, 3)]
INDEX = {"uint32": np.uint32, "uint64": np.uint64}
RANKS = (1, 2, 3, 8)
NAMES = [
    *(f"reverse_vectors<sg::{name}, {count}>" for name, count in VECTORS),
    *(f"interleave<{size}, {channels}, {split}>" for size, channels in INTERLEAVED for split in ("true", "false")),
    *(f"divide_all<sg::{index}>" for index in INDEX),
    *(f"unravel_all<sg::{index}, {rank}>" for index in INDEX for rank in RANKS),
]


def divisor_words(divisor: int) -> tuple[int, int, int]:
    """Divisor<uint32>: divisor, magic, shift."""
    shift = (divisor - 1).bit_length()
    return divisor, (1 << 32) * ((1 << shift) - divisor) // divisor + 1, shift


def pack_divisor(divisor: int, index: str) -> bytes:
    words = divisor_words(divisor) if index == "uint32" else (divisor,)
    return np.array(words, INDEX[index]).tobytes()


@pytest.fixture(scope="module")
def program() -> Program:
    return Program.compile(joined_source("vectors.cuh", "register_shuffle.cuh", "indexing.cuh") + KERNELS, NAMES)


@emulated
@pytest.mark.parametrize("name, count", VECTORS)
def test_elements_of_vectors(program, name, count):
    size = ELEMENTS[name]
    source = np.random.default_rng(count).integers(0, 256, (64 * count, size), np.uint8)
    alignment = size * count
    arguments = (Buffer(source, alignment), Buffer(bytes(source.size), alignment))
    [[_, result]] = program.run([Job(f"reverse_vectors<sg::{name}, {count}>", (2,), (32,), arguments)])
    assert result == source.reshape(64, count, size)[:, ::-1].tobytes()


@emulated
@pytest.mark.parametrize("size, channels", INTERLEAVED)
def test_interleaved_channels_split_and_join(program, size, channels):
    pixels = np.arange(channels * 4, dtype=np.uint8).reshape(4 // size, channels, size)
    planes = np.ascontiguousarray(pixels.transpose(1, 0, 2))

    def run(split, words):
        arguments = (Buffer(words), Buffer(bytes(words.size)))
        return program.run([Job(f"interleave<{size}, {channels}, {split}>", (1,), (1,), arguments)])[0][1]

    assert run("true", pixels) == planes.tobytes()
    assert run("false", planes) == pixels.tobytes()


@emulated
@pytest.mark.parametrize("index", INDEX)
def test_division_is_exact(program, index):
    random = np.random.default_rng(1)
    limit = 1 << (31 if index == "uint32" else 63)
    divisors = {1, 2, 3, 5, 7, 10, 641, limit - 1, limit // 2, limit // 2 + 1, limit // 2 - 1, limit // 3}
    divisors |= {(1 << k) + step for k in range(1, 31) for step in (-1, 0, 1)}
    divisors |= {int(d) for d in np.exp2(random.uniform(0, 30.9, 100))}
    jobs, expected = [], []
    for divisor in sorted(divisors):
        multiples = [divisor * int(random.integers(0, limit // divisor)) for _ in range(20)]
        chosen = {n for m in (0, divisor, limit // divisor * divisor, *multiples) for n in (m - 1, m, m + 1)}
        chosen |= {limit - 1, limit - 2}
        dividends = np.array(sorted(n for n in chosen if 0 <= n < limit), INDEX[index])
        by = Record(pack_divisor(divisor, index))
        arguments = (Buffer(dividends), Buffer(bytes(dividends.nbytes)), by, np.uint32(dividends.size))
        jobs.append(Job(f"divide_all<sg::{index}>", (1,), (32,), arguments, label=f"division by {divisor}"))
        expected.append(dividends // INDEX[index](divisor))
    for job, quotients, (_, result) in zip(jobs, expected, program.run(jobs), strict=True):
        assert result == quotients.tobytes(), job.label


@pytest.mark.parametrize("rank", RANKS)
@emulated
@pytest.mark.parametrize("index", INDEX)
def test_blocks_unravel_to_offsets(program, index, rank):
    sizes = (5, 3, 2, 2, 1, 2, 3, 2)[:rank]
    large = 1 << (20 if index == "uint32" else 40)
    source = np.array([-large, 7, 0, 1, 5, -3, large // 4, 1][:rank])
    target = np.array([large // 2, 0, -9, 100, 1, 1, 2, -large // 8][:rank])
    packed = b"".join(pack_divisor(size, index) for size in sizes)
    packed += source.astype(INDEX[index]).tobytes() + target.astype(INDEX[index]).tobytes()
    blocks = math.prod(sizes)
    offsets = Buffer(bytes(2 * blocks * np.dtype(INDEX[index]).itemsize))
    grid = (blocks,) if index == "uint32" else (blocks // 5, 5)
    [[result]] = program.run([Job(f"unravel_all<sg::{index}, {rank}>", grid, (1,), (Record(packed), offsets))])
    coordinates = np.indices(sizes).reshape(rank, -1).T
    expected = np.stack([coordinates @ source, coordinates @ target], axis=1)
    np.testing.assert_array_equal(np.frombuffer(result, index[1:]).reshape(-1, 2), expected)


@inspected
@every_architecture
def test_vectors_are_single_accesses_and_stay_in_registers(architecture):
    source = joined_source("vectors.cuh", "register_shuffle.cuh", "indexing.cuh") + KERNELS
    code = machine_code.compile_kernels(source, NAMES, architecture)
    assert {name: found.local_accesses for name, found in code.items() if found.local_accesses} == {}
    for name, count in VECTORS:
        bits = 8 * count * ELEMENTS[name]
        # 256-bit accesses came with sm_100.
        halves = 2 if bits == 256 and int(architecture[3:]) < 100 else 1
        found = code[f"reverse_vectors<sg::{name}, {count}>"]
        assert found.loads == found.stores == {bits // halves: halves}, name


@inspected
def test_the_inspection_sees_local_memory_and_narrow_accesses():
    source = """
    __global__ void indexed(const int* source, int* target, int k) {
        int values[32];
        for (int i = 0; i < 32; ++i) values[i] = source[i] * i;
        values[k] = 1;
        for (int i = 0; i < 32; ++i) target[i] = values[i ^ k];
    }
    """
    code = machine_code.compile_kernels(source, ["indexed"], "sm_90")["indexed"]
    assert code.local_accesses > 0
    assert code.stack_bytes >= 128
    assert set(code.loads) == set(code.stores) == {32}


@inspected
def test_a_source_that_nvrtc_refuses_is_an_error_with_its_line():
    source = joined_source("indexing.cuh") + '#line 1 "mine.cu"\n__global__ void broken() {\n  missing();\n}\n'
    with pytest.raises(machine_code.CompileError, match=r'mine\.cu\(2\): error: identifier "missing"'):
        machine_code.compile_kernels(source, ["broken"], "sm_90")
