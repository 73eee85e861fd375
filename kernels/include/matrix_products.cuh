// Products that one instruction makes of many integers: of matrices (tensor cores; sm_80 and later) and of two pairs.
//
// A matrix lies in the registers of a warp, four bytes a register (PTX ISA, "Matrix Fragments for mma.m16n8k32"). Lane
// 4 * g + t of 32 has, of sums (16 x 8) += a (16 x K) * b (K x 8) with K = 16 or 32:
//
//     register   a: row, k                  b: k, column            sums: row, column
//     [0]        g,      4t .. 4t + 3       4t .. 4t + 3, g         g,      2t
//     [1]        g + 8,  4t .. 4t + 3       16 + 4t .. + 3, g       g,      2t + 1
//     [2]        g,      16 + 4t .. + 3                             g + 8,  2t
//     [3]        g + 8,  16 + 4t .. + 3                             g + 8,  2t + 1
//
// `load_matrix` brings matrices of 8 rows x 16 bytes from shared memory, one a register: lane l names the row l % 8 of
// matrix l / 8, and receives bytes 4t .. 4t + 3 of row g of each matrix. Rows are 16 bytes at multiples of 16, anywhere
// in shared memory. Four matrices in the order (rows 0-7, k 0-15), (rows 8-15, k 0-15), (0-7, 16-31), (8-15, 16-31) are
// `a` with K = 32; two are `a` with K = 16; the two matrices (columns 0-7, k 0-15), (columns 0-7, k 16-31) of a
// transposed b are `b`. The transposed form takes matrices of 8 x 8 elements of 16 bits, and lane 4 * g + t receives
// column g of rows 2t and 2t + 1.
//
// All 32 lanes of a warp call these functions of matrices together. What other lanes stored is there behind a barrier.
// The emulator knows dynamic shared memory alone. The two forms are PTX and, as in primitives.cuh, C++; in both, sums
// wrap around.
#pragma once
#include "primitives.cuh"

namespace sg {

#if defined(__CUDACC__)

// asm templates are literals, hence macros.
#define SG_LOAD_MATRIX(NAME, COUNT, MODIFIERS, REGISTERS, ROW, ...)                                                \
    __device__ __forceinline__ void NAME(uint32 (&fragment)[COUNT], const void* shared_row) {                      \
        asm volatile("ldmatrix.sync.aligned.m8n8." MODIFIERS "shared.b16 {" REGISTERS "}, [" ROW "];"              \
                     : __VA_ARGS__                                                                                 \
                     : "r"(uint32(__cvta_generic_to_shared(shared_row))));                                         \
    }
#define SG_MULTIPLY_ADD(NAME, A, B)                                                                                \
    __device__ __forceinline__ void NAME(int32 (&sums)[4], const uint32 (&a)[4], const uint32 (&b)[2]) {           \
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." A "." B ".s32 "                                      \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                             \
                     : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                          \
    }                                                                                                              \
    __device__ __forceinline__ void NAME(int32 (&sums)[4], const uint32 (&a)[2], const uint32 (&b)[1]) {           \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.s32." A "." B ".s32 "                                      \
                     "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"                                         \
                     : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(b[0]));                                                           \
    }
#define SG_DOT_2A(NAME, INTEGER, INSTRUCTION)                                                                      \
    __device__ __forceinline__ INTEGER NAME(INTEGER pair, uint32 bytes, INTEGER sum) {                             \
        INTEGER result;                                                                                            \
        asm(INSTRUCTION " %0, %1, %2, %3;" : "=r"(result) : "r"(pair), "r"(bytes), "r"(sum));                      \
        return result;                                                                                             \
    }

SG_LOAD_MATRIX(load_matrix_x1, 1, "x1.", "%0", "%1", "=r"(fragment[0]))
SG_LOAD_MATRIX(load_matrix_x2, 2, "x2.", "%0, %1", "%2", "=r"(fragment[0]), "=r"(fragment[1]))
SG_LOAD_MATRIX(load_matrix_x4, 4, "x4.", "%0, %1, %2, %3", "%4", "=r"(fragment[0]), "=r"(fragment[1]),
               "=r"(fragment[2]), "=r"(fragment[3]))
SG_LOAD_MATRIX(load_matrix_x4_transposed, 4, "x4.trans.", "%0, %1, %2, %3", "%4", "=r"(fragment[0]),
               "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3]))
// sums += a * b; bytes of a, then those of b, are signed or not.
SG_MULTIPLY_ADD(multiply_add_u8_u8, "u8", "u8")
SG_MULTIPLY_ADD(multiply_add_u8_s8, "u8", "s8")
SG_MULTIPLY_ADD(multiply_add_s8_u8, "s8", "u8")
// sum + both halves of `pair`, signed or not as its type is, times two unsigned bytes: the lower two or the upper two.
SG_DOT_2A(dot_2a_low, uint32, "dp2a.lo.u32.u32")
SG_DOT_2A(dot_2a_high, uint32, "dp2a.hi.u32.u32")
SG_DOT_2A(dot_2a_low, int32, "dp2a.lo.s32.u32")
SG_DOT_2A(dot_2a_high, int32, "dp2a.hi.s32.u32")
#undef SG_LOAD_MATRIX
#undef SG_MULTIPLY_ADD
#undef SG_DOT_2A

// a * b + c, rounded once, toward zero.
__device__ __forceinline__ float32 fma_toward_zero(float32 a, float32 b, float32 c) {
    float32 result;
    asm("fma.rz.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
    return result;
}

#else

inline void load_matrix_x1(uint32 (&to)[1], const void* row) { cuda_host::load_matrices(to, 1, row, false); }
inline void load_matrix_x2(uint32 (&to)[2], const void* row) { cuda_host::load_matrices(to, 2, row, false); }
inline void load_matrix_x4(uint32 (&to)[4], const void* row) { cuda_host::load_matrices(to, 4, row, false); }
inline void load_matrix_x4_transposed(uint32 (&to)[4], const void* row) {
    cuda_host::load_matrices(to, 4, row, true);
}

#define SG_MULTIPLY_ADD(NAME, A, B)                                                                                \
    inline void NAME(int32 (&sums)[4], const uint32 (&a)[4], const uint32 (&b)[2]) {                               \
        cuda_host::multiply_add<A, B>(#NAME " m16n8k32", sums, a, b, 32);                                          \
    }                                                                                                              \
    inline void NAME(int32 (&sums)[4], const uint32 (&a)[2], const uint32 (&b)[1]) {                               \
        cuda_host::multiply_add<A, B>(#NAME " m16n8k16", sums, a, b, 16);                                          \
    }
SG_MULTIPLY_ADD(multiply_add_u8_u8, uint8, uint8)
SG_MULTIPLY_ADD(multiply_add_u8_s8, uint8, int8)
SG_MULTIPLY_ADD(multiply_add_s8_u8, int8, uint8)
#undef SG_MULTIPLY_ADD

inline uint32 dot_2a_low(uint32 pair, uint32 bytes, uint32 sum) {
    return sum + (pair & 0xffffu) * (bytes & 0xffu) + (pair >> 16) * (bytes >> 8 & 0xffu);
}
inline uint32 dot_2a_high(uint32 pair, uint32 bytes, uint32 sum) { return dot_2a_low(pair, bytes >> 16, sum); }
inline int32 dot_2a_low(int32 pair, uint32 bytes, int32 sum) {
    const uint32 low = uint32(int16(pair)), high = uint32(pair >> 16);
    return int32(uint32(sum) + low * (bytes & 0xffu) + high * (bytes >> 8 & 0xffu));
}
inline int32 dot_2a_high(int32 pair, uint32 bytes, int32 sum) { return dot_2a_low(pair, bytes >> 16, sum); }

inline float32 fma_toward_zero(float32 a, float32 b, float32 c) { return cuda_host::fma_toward_zero(a, b, c); }

#endif

}  // namespace sg
