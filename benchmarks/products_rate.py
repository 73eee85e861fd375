"""How many products of matrices a multiprocessor makes in a clock: `mma.sync` alone, in chains that wait for nothing.

    python -m benchmarks.products_rate [--turns 4096] [--json FILE]

Resizes by Pillow's and torch's filters are such products (`kernels/resize/resize_products.cu`), and the model of a GPU
counts each as one instruction, since it knows no rate of tensor cores. A product is m16n8k32 of bytes: 4,096
multiplications. Clocks are those of each block's own multiprocessor, so that no clock rate has to be known.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.host_times import with_a_device
from benchmarks.suite.records import median_interval
from stridedgpu.devices.cuda.cubins import OPTIONS
from stridedgpu.devices.cuda.sources import joined_source

CHAINS, THREADS, SAMPLES = 4, 512, 9
"""Products of a warp that do not wait for each other; threads of the one block that a multiprocessor gets."""

KERNEL = """
namespace sg {

#if defined(__CUDACC__)
__device__ __forceinline__ int64 clocks() { return clock64(); }
#else
inline int64 clocks() { return 0; }
#endif

// All bytes are 1: each sum is 32 * turns.
template <int chains> __global__ void products(int64* taken, int32* sums_out, int turns) {
    uint32 a[4], b[2];
    for (uint32& word : a) word = 0x01010101u;
    for (uint32& word : b) word = 0x01010101u;
    int32 sums[chains][4] = {};
    __syncthreads();
    const int64 begun = clocks();
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int chain = 0; chain < chains; ++chain) multiply_add_u8_s8(sums[chain], a, b);
    }
    __syncthreads();
    if (threadIdx.x == 0) taken[blockIdx.x] = clocks() - begun;
    int32 sum = 0;
    for (const auto& of_chain : sums) {
        for (int32 one : of_chain) sum += one;
    }
    sums_out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

}  // namespace sg
"""


def measured(turns: int) -> dict[str, Any]:
    """Products a clock and multiprocessor, with their samples; why not, where a GPU has no such products.

    Raises `ValueError` where the sums are wrong.
    """
    cupy: Any = import_module("cupy")
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    if properties["major"] < 8:
        return {"absent": f"products of bytes need sm_80; this GPU is sm_{properties['major']}{properties['minor']}"}
    name = f"sg::products<{CHAINS}>"
    source = joined_source("matrix_products.cuh") + KERNEL
    kernel = cupy.RawModule(code=source, options=OPTIONS, name_expressions=(name,)).get_function(name)
    blocks = properties["multiProcessorCount"]
    taken, sums = cupy.empty(blocks, "int64"), cupy.empty(blocks * THREADS, "int32")
    samples = []
    for _ in range(SAMPLES):
        kernel((blocks,), (THREADS,), (taken, sums, np.int32(turns)))
        clocks = float(np.median(taken.get()))
        if (sums.get() != CHAINS * 4 * 32 * turns).any():
            raise ValueError("products of matrices have wrong sums")
        samples.append(CHAINS * turns * THREADS / 32 / clocks if clocks else 0.0)
    return {
        "products_a_clock": median(samples),
        "interval": median_interval(samples),
        "samples": samples,
        "multiplications": 16 * 8 * 32,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=4096, help="of each warp")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args(arguments)
    with_a_device()
    figures = measured(options.turns)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(figures.get("absent") or f"{figures['products_a_clock']:.3f} products of m16n8k32 a clock and multiprocessor")


if __name__ == "__main__":
    main()
