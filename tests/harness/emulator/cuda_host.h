// CUDA's language on the host, enough for this project's kernels, so that g++'s sanitizers can watch them run.
//
// What runs a kernel's threads is in cuda_host.cpp, which is compiled once for all programs.
#pragma once

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
// A section of its own, so that the block's static shared memory can be filled; the sanitizer's redzones stay on.
#define __shared__ static __attribute__((section("shared_memory")))
#define __constant__ static const

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x = 1, y = 1, z = 1; };

extern dim3 gridDim, blockDim;
extern uint3 blockIdx, threadIdx;

namespace cuda_host {

enum class State { ready, at_block_barrier, at_warp_barrier, at_copy_barrier, finished };

struct Thread {
    State state;
    uint3 index;
    unsigned lane;
    Thread* warp;           // lane 0 of this thread's warp
    unsigned warp_lanes;    // how many lanes the warp has: the last warp of a block may be short
    unsigned waiting;       // of lane 0: the lanes of its warp that wait in a warp-wide function
    unsigned mask;          // of the warp-wide function that it waits in, and that function's name
    const char* function;
    uint64_t given;         // its value for that function (of a whole warp: the address of its operands), and the
                            // whole warp's once all have arrived
    uint64_t received[32];
};

extern unsigned char* dynamic_shared_memory;
extern Thread* current;

// Stops the program: with this message, and the block and thread.
[[noreturn]] void fail(const char* what);
void block_barrier();
// Gives a value and returns those of the warp's lanes, when every lane of the mask has called the same function.
const uint64_t* warp_exchange(const char* function, unsigned mask, uint64_t value);
// For functions of whole warps: calls `work` once with the operands of all 32 lanes, when all have called the function.
void warp_together(const char* function, void* operands, void (*work)(void* const (&lanes)[32]));
// Whether bytes lie in the block's dynamic shared memory and may be read: no copy to them is on its way.
bool is_readable_shared_memory(const void* address, unsigned bytes);

// Matrices in the registers of a warp; kernels/include/matrix_products.cuh says where their elements are.
void load_matrices(uint32_t* fragment, unsigned count, const void* row, bool transposed);
// sums (16 x 8) += a (16 x k) * b (k x 8), of bytes that are signed or not.
void multiply_add(const char* function, int32_t* sums, const uint32_t* a, const uint32_t* b, int k, bool a_is_signed,
                  bool b_is_signed);
template <typename A, typename B>
void multiply_add(const char* function, int32_t* sums, const uint32_t* a, const uint32_t* b, int k) {
    multiply_add(function, sums, a, b, k, A(-1) < A(0), B(-1) < B(0));
}
float fma_toward_zero(float a, float b, float c);

// Bulk copies to shared memory, and the barriers that count their bytes (PTX ISA, "mbarrier"), with one arrival a phase.
// A copy is made when a thread has waited for it. From when it is asked for, its bytes are poisoned.
void init_barrier(void* barrier);
void expect_bytes(void* barrier, unsigned bytes);
void bulk_copy(void* shared, const void* global, unsigned bytes, void* barrier);
void wait_for_phase(void* barrier, unsigned parity);
// Copies of 4, 8 or 16 bytes to shared memory, which a thread makes when it waits for them. From when they are asked for,
// their bytes are poisoned, as far as poison has the width, and have other contents.
void copy_async(void* shared, const void* global, unsigned bytes);
void wait_for_copies();

template <typename T> T shuffle(const char* function, unsigned mask, T value, int from, bool inside) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "warp shuffles move 4 or 8 bytes");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    const uint64_t* received = warp_exchange(function, mask, bits);
    if (!inside) return value;
    if (!(mask >> from & 1) || unsigned(from) >= current->warp_lanes) fail("a shuffle reads a lane outside its mask");
    std::memcpy(&value, &received[from], sizeof(T));
    return value;
}

}  // namespace cuda_host

inline void __syncthreads() { cuda_host::block_barrier(); }
inline void __syncwarp(unsigned mask = ~0u) { cuda_host::warp_exchange("__syncwarp", mask, 0); }

// width is a power of two: the warp is cut into groups of that many lanes.
template <typename T> T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    const int group = int(cuda_host::current->lane) & ~(width - 1);
    return cuda_host::shuffle("__shfl_sync", mask, value, group + (source & (width - 1)), true);
}
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
    const int lane = int(cuda_host::current->lane), source = lane ^ lanes;
    return cuda_host::shuffle("__shfl_xor_sync", mask, value, source, (source & ~(width - 1)) <= (lane & ~(width - 1)));
}
template <typename T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const int lane = int(cuda_host::current->lane), source = lane + int(delta);
    const bool same_group = (source & ~(width - 1)) == (lane & ~(width - 1));
    return cuda_host::shuffle("__shfl_down_sync", mask, value, source, same_group);
}
template <typename T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const int lane = int(cuda_host::current->lane), source = lane - int(delta);
    return cuda_host::shuffle("__shfl_up_sync", mask, value, source, source >= (lane & ~(width - 1)));
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    const uint64_t* votes = cuda_host::warp_exchange("a warp vote", mask, predicate != 0);
    unsigned ballot = 0;
    for (unsigned lane = 0; lane < cuda_host::current->warp_lanes; ++lane) {
        if (mask >> lane & 1) ballot |= unsigned(votes[lane]) << lane;
    }
    return ballot;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline void __threadfence() {}  // one host thread
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const uint64_t bytes = uint64_t(b) << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned pick = selector >> (4 * i);
        unsigned byte = unsigned(bytes >> (8 * (pick & 7))) & 0xff;
        if (pick & 8) byte = byte & 0x80 ? 0xff : 0;  // the sign bit, replicated
        result |= byte << (8 * i);
    }
    return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return unsigned((uint64_t(high) << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
template <typename T> T __ldg(const T* address) { return *address; }

// One host thread, so that plain memory operations are atomic.
template <typename T> T atomicAdd(T* address, T value) { return std::exchange(*address, T(*address + value)); }
template <typename T> T atomicMin(T* address, T value) { return std::exchange(*address, std::min(*address, value)); }
template <typename T> T atomicMax(T* address, T value) { return std::exchange(*address, std::max(*address, value)); }
template <typename T> T atomicOr(T* address, T value) { return std::exchange(*address, T(*address | value)); }
template <typename T> T atomicExch(T* address, T value) { return std::exchange(*address, value); }
template <typename T> T atomicCAS(T* address, T expected, T value) {
    return std::exchange(*address, *address == expected ? value : *address);
}
