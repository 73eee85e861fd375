// Copies from global to shared memory that a thread asks for and does not wait for (cp.async; sm_80 and later).
//
// The bytes take no registers on their way. A thread that waits has its own copies behind it; other threads read them
// behind a barrier. Until then nobody touches the bytes of either side.
//
//     all threads     copy copy … | work | wait_for_copies  sync | read  sync | copy …
//
// Both addresses are multiples of the bytes. The two forms are PTX and, as in primitives.cuh, C++: cuda_host makes a
// thread's copies when it waits for them, and until then the shared bytes have other contents.
#pragma once
#include "element_types.cuh"

namespace sg {

#if defined(__CUDACC__)

// 4, 8 or 16 bytes. Those of 16 pass L1 by.
template <int bytes> __device__ __forceinline__ void copy_async(void* shared, const void* global) {
    static_assert(bytes == 4 || bytes == 8 || bytes == 16, "the widths of cp.async");
    const uint32 to = uint32(__cvta_generic_to_shared(shared));
    const auto from = __cvta_generic_to_global(global);
    if constexpr (bytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(bytes) : "memory");
    }
}
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#else

template <int bytes> inline void copy_async(void* shared, const void* global) {
    cuda_host::copy_async(shared, global, bytes);
}
inline void wait_for_copies() { cuda_host::wait_for_copies(); }

#endif

}  // namespace sg
