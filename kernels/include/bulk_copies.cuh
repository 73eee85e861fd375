// Bulk copies from global to shared memory (cp.async.bulk; sm_90 and later), which take no thread's registers.
//
// One thread tells a barrier how many bytes to expect, and asks for copies of as many. All threads wait at the barrier
// before they read. A barrier counts phases, each with one arrival, that of `expect`; a wait names its phase by number,
// of which the last bit decides. Memory is filled anew only behind a __syncthreads, when every thread has read it.
//
//     one thread     init  show_barriers | expect(n) copy copy |           |      | expect(n) copy copy |
//     all threads                    sync                       wait(0) read  sync                       wait(1) read
//
// Both addresses and the number of bytes are multiples of 16. The two forms are PTX and, as in primitives.cuh, C++:
// cuda_host makes a copy when the first thread has waited for it, and until then nobody may touch its bytes.
#pragma once
#include "element_types.cuh"

namespace sg {

// In shared memory.
struct alignas(8) CopyBarrier { uint64 state; };

#if defined(__CUDACC__)

__device__ __forceinline__ uint32 shared_address(const void* address) {
    return uint32(__cvta_generic_to_shared(address));
}

__device__ __forceinline__ void init(CopyBarrier& barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
}
// After `init`, for copies that this thread asks for; other threads see barriers after a __syncthreads.
__device__ __forceinline__ void show_barriers() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void expect(CopyBarrier& barrier, uint32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void bulk_copy(void* shared, const void* global, uint32 bytes, CopyBarrier& barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(shared_address(&barrier))
                 : "memory");
}
__device__ __forceinline__ void wait(CopyBarrier& barrier, uint32 phase) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(shared_address(&barrier)),
        "r"(phase & 1u)
        : "memory");
}

#else

inline void init(CopyBarrier& barrier) { cuda_host::init_barrier(&barrier); }
inline void show_barriers() {}
inline void expect(CopyBarrier& barrier, uint32 bytes) { cuda_host::expect_bytes(&barrier, bytes); }
inline void bulk_copy(void* shared, const void* global, uint32 bytes, CopyBarrier& barrier) {
    cuda_host::bulk_copy(shared, global, bytes, &barrier);
}
inline void wait(CopyBarrier& barrier, uint32 phase) { cuda_host::wait_for_phase(&barrier, phase & 1u); }

#endif

}  // namespace sg
