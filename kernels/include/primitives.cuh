// The exact arithmetic, in two forms: PTX for the GPU, and portable C++ for tests without one.
//
// No file but this, bulk_copies.cuh and matrix_products.cuh differs between the two. CuPy compiles with -ftz=true,
// which flushes subnormals in plain float32 operators and conversions, and compilers contract a*b+c. The instructions
// below are written without .ftz and cannot be contracted. The C++ forms are bitwise equal for every input except NaN.
// For NaN the result is any NaN (or, to an integer, unspecified), and conversion.cuh defines the final value.
#pragma once
#include "element_types.cuh"

namespace sg {

enum class Rounding { nearest, truncate };

// The compiler moves no access to memory across it: loads before it are on their way when what follows begins.
__device__ __forceinline__ void keep_accesses_in_order() { asm volatile("" ::: "memory"); }

// float32 to bfloat16 bits, round to nearest even; not for NaN. GPUs before sm_80 lack the instruction.
__device__ __forceinline__ uint16 bfloat16_bits_by_integers(float32 x) {
    const uint32 bits = bit_cast<uint32>(x);
    return uint16((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#if defined(__CUDACC__)

// Wrappers of one instruction, scalar and packed; register classes are those of asm constraints. Macros, because an asm
// template must be a literal.
#define SG_OF_ONE(TO, NAME, FROM, INSTRUCTION, TO_REGISTER, FROM_REGISTER)                                         \
    __device__ __forceinline__ TO NAME(FROM x) {                                                                   \
        TO result;                                                                                                 \
        asm(INSTRUCTION " %0, %1;" : TO_REGISTER(result) : FROM_REGISTER(x));                                      \
        return result;                                                                                             \
    }
#define SG_OF_TWO(TYPE, NAME, INSTRUCTION, REGISTER)                                                               \
    __device__ __forceinline__ TYPE NAME(TYPE a, TYPE b) {                                                         \
        TYPE result;                                                                                               \
        asm(INSTRUCTION " %0, %1, %2;" : "=" REGISTER(result) : REGISTER(a), REGISTER(b));                         \
        return result;                                                                                             \
    }
SG_OF_TWO(float32, multiply_rn, "mul.rn.f32", "f")
SG_OF_TWO(float64, multiply_rn, "mul.rn.f64", "d")
SG_OF_TWO(float32, add_rn, "add.rn.f32", "f")
SG_OF_TWO(float64, add_rn, "add.rn.f64", "d")
SG_OF_TWO(float32, divide_rn, "div.rn.f32", "f")
SG_OF_TWO(float64, divide_rn, "div.rn.f64", "d")
SG_OF_ONE(uint16, float16_bits_rn, float32, "cvt.rn.f16.f32", "=h", "f")
SG_OF_ONE(float32, float32_from_float16_bits, uint16, "cvt.f32.f16", "=f", "h")
SG_OF_ONE(float64, widen, float32, "cvt.f64.f32", "=d", "f")
SG_OF_ONE(float32, narrow_rn, float64, "cvt.rn.f32.f64", "=f", "d")
#undef SG_OF_ONE
#undef SG_OF_TWO

// a * b + c, rounded once.
__device__ __forceinline__ float32 fused_rn(float32 a, float32 b, float32 c) {
    float32 result;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
    return result;
}

__device__ __forceinline__ uint16 bfloat16_bits_rn(float32 x) {
#if __CUDA_ARCH__ >= 800
    uint16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    return bfloat16_bits_by_integers(x);
#endif
}
// Two narrow floats packed in a word, the first one in the low half.
__device__ __forceinline__ uint32 float16_pair_rn(float32 low, float32 high) {
#if __CUDA_ARCH__ >= 800
    uint32 bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
#else
    return float16_bits_rn(low) | uint32(float16_bits_rn(high)) << 16;
#endif
}
__device__ __forceinline__ uint32 bfloat16_pair_rn(float32 low, float32 high) {
#if __CUDA_ARCH__ >= 800
    uint32 bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
#else
    return bfloat16_bits_by_integers(low) | uint32(bfloat16_bits_by_integers(high)) << 16;
#endif
}
// A byte of a word, as a signed number: PRMT repeats its sign. `place` is a constant.
__device__ __forceinline__ int32 signed_byte(uint32 word, int place) {
    int32 byte;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(byte) : "r"(word), "r"(0x8880 + 0x1111 * place));
    return byte;
}
// first + number * step, in one instruction. The compiler multiplies 64 bits where it sees the numbers in a loop.
template <typename T> __device__ __forceinline__ const T* stepped(const T* first, int32 number, int32 step) {
    const void* at;
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(at) : "r"(number), "r"(step * int32(sizeof(T))), "l"(first));
    return static_cast<const T*>(at);
}
__device__ __forceinline__ bool either_is_nan(float32 a, float32 b) {
    uint32 either;
    asm("{ .reg .pred p; setp.nan.f32 p, %1, %2; selp.u32 %0, 1, 0, p; }" : "=r"(either) : "f"(a), "f"(b));
    return either;
}

// To a 32- or 64-bit integer; the instructions saturate.
template <typename Integer, Rounding R> struct ToInteger;
#define SG_TO_INTEGER(INTEGER, SUFFIX, CONSTRAINT)                                                                  \
    template <Rounding R> struct ToInteger<INTEGER, R> {                                                            \
        static_assert(R == Rounding::nearest || R == Rounding::truncate, "a rounding without an instruction");      \
        static __device__ __forceinline__ INTEGER from(float32 x) {                                                 \
            INTEGER n;                                                                                              \
            if constexpr (R == Rounding::nearest) asm("cvt.rni." SUFFIX ".f32 %0, %1;" : CONSTRAINT(n) : "f"(x));   \
            else asm("cvt.rzi." SUFFIX ".f32 %0, %1;" : CONSTRAINT(n) : "f"(x));                                    \
            return n;                                                                                               \
        }                                                                                                           \
        static __device__ __forceinline__ INTEGER from(float64 x) {                                                 \
            INTEGER n;                                                                                              \
            if constexpr (R == Rounding::nearest) asm("cvt.rni." SUFFIX ".f64 %0, %1;" : CONSTRAINT(n) : "d"(x));   \
            else asm("cvt.rzi." SUFFIX ".f64 %0, %1;" : CONSTRAINT(n) : "d"(x));                                    \
            return n;                                                                                               \
        }                                                                                                           \
    }
SG_TO_INTEGER(int32, "s32", "=r");
SG_TO_INTEGER(uint32, "u32", "=r");
SG_TO_INTEGER(int64, "s64", "=l");
SG_TO_INTEGER(uint64, "u64", "=l");
#undef SG_TO_INTEGER

// Two int32 saturated to 8 or 16 bits and packed, `low` lowest; 8-bit ones push `above`'s low half to the upper half.
template <typename Integer> __device__ __forceinline__ uint32 pack_saturated(int32 high, int32 low, uint32 above) {
    uint32 packed;
    if constexpr (is_same<Integer, uint8>) {
        asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(packed) : "r"(high), "r"(low), "r"(above));
    } else if constexpr (is_same<Integer, int8>) {
        asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(packed) : "r"(high), "r"(low), "r"(above));
    } else if constexpr (is_same<Integer, uint16>) {
        asm("cvt.pack.sat.u16.s32 %0, %1, %2;" : "=r"(packed) : "r"(high), "r"(low));
    } else {
        static_assert(is_same<Integer, int16>, "8- and 16-bit integers");
        asm("cvt.pack.sat.s16.s32 %0, %1, %2;" : "=r"(packed) : "r"(high), "r"(low));
    }
    return packed;
}

// Global loads and stores of several words in one instruction, aligned to their total size. The compiler splits plain
// accesses of a struct and does not always merge them again, in particular if two branches store to equal addresses.
__device__ __forceinline__ void load_words(const void* address, uint32 (&to)[2]) {
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "l"(__cvta_generic_to_global(address)));
}
__device__ __forceinline__ void load_words(const void* address, uint32 (&to)[4]) {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(__cvta_generic_to_global(address)));
}
__device__ __forceinline__ void store_words(void* address, const uint32 (&from)[2]) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(address)), "r"(from[0]), "r"(from[1])
                 : "memory");
}
__device__ __forceinline__ void store_words(void* address, const uint32 (&from)[4]) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(address)), "r"(from[0]),
                 "r"(from[1]), "r"(from[2]), "r"(from[3])
                 : "memory");
}
// 256-bit accesses need sm_100 and CUDA 12.9; plans use them on such GPUs only.
#if __CUDA_ARCH__ >= 1000 && (__CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 9))
__device__ __forceinline__ void load_words(const void* address, uint32 (&to)[8]) {
    asm volatile("ld.global.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]), "=r"(to[4]), "=r"(to[5]), "=r"(to[6]),
                   "=r"(to[7])
                 : "l"(__cvta_generic_to_global(address)));
}
__device__ __forceinline__ void store_words(void* address, const uint32 (&from)[8]) {
    asm volatile("st.global.v8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"l"(__cvta_generic_to_global(address)),
                 "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]), "r"(from[4]), "r"(from[5]), "r"(from[6]),
                 "r"(from[7])
                 : "memory");
}
#else
__device__ __forceinline__ void load_words(const void* address, uint32 (&to)[8]) {
    uint32 (*halves)[4] = reinterpret_cast<uint32(*)[4]>(to);
    load_words(address, halves[0]);
    load_words(static_cast<const uint8*>(address) + 16, halves[1]);
}
__device__ __forceinline__ void store_words(void* address, const uint32 (&from)[8]) {
    const uint32 (*halves)[4] = reinterpret_cast<const uint32(*)[4]>(from);
    store_words(address, halves[0]);
    store_words(static_cast<uint8*>(address) + 16, halves[1]);
}
#endif

// The block's dynamic shared memory, aligned to 16 bytes.
__device__ __forceinline__ unsigned char* dynamic_shared_memory() {
    extern __shared__ __align__(16) unsigned char sg_dynamic_shared_memory[];
    return sg_dynamic_shared_memory;
}

#else

// Built with -ffp-contract=off; x86-64 arithmetic on float and double rounds each operation once.
inline float32 multiply_rn(float32 a, float32 b) { return a * b; }
inline float64 multiply_rn(float64 a, float64 b) { return a * b; }
inline float32 add_rn(float32 a, float32 b) { return a + b; }
inline float64 add_rn(float64 a, float64 b) { return a + b; }
inline float32 divide_rn(float32 a, float32 b) { return a / b; }
inline float32 fused_rn(float32 a, float32 b, float32 c) { return __builtin_fmaf(a, b, c); }
inline float64 divide_rn(float64 a, float64 b) { return a / b; }

inline uint16 float16_bits_rn(float32 x) {
    const uint32 bits = bit_cast<uint32>(x);
    const uint32 magnitude = bits & 0x7fffffffu;
    uint32 rounded;
    if (magnitude >= 0x47800000u) {  // 2^16 and above
        rounded = 0x7c00u;
    } else if (magnitude < 0x38800000u) {  // below 2^-14: the last place of 0.5f is float16's smallest subnormal
        rounded = bit_cast<uint32>(bit_cast<float32>(magnitude) + 0.5f) - 0x3f000000u;
    } else {
        rounded = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    }
    return uint16((bits >> 16 & 0x8000u) | rounded);
}
inline float32 float32_from_float16_bits(uint16 bits) {
    const uint32 sign = uint32(bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1fu, fraction = bits & 0x3ffu;
    if (exponent == 0) return bit_cast<float32>(bit_cast<uint32>(float32(fraction) * 0x1p-24f) | sign);
    const uint32 rebiased = exponent == 0x1fu ? 0xffu : exponent + 112u;
    return bit_cast<float32>(sign | rebiased << 23 | fraction << 13);
}
inline uint16 bfloat16_bits_rn(float32 x) { return bfloat16_bits_by_integers(x); }
inline uint32 float16_pair_rn(float32 low, float32 high) {
    return float16_bits_rn(low) | uint32(float16_bits_rn(high)) << 16;
}
inline uint32 bfloat16_pair_rn(float32 low, float32 high) {
    return bfloat16_bits_rn(low) | uint32(bfloat16_bits_rn(high)) << 16;
}
inline int32 signed_byte(uint32 word, int place) { return int8(word >> 8 * place); }
template <typename T> const T* stepped(const T* first, int32 number, int32 step) {
    return first + int64(number) * step;
}
inline bool either_is_nan(float32 a, float32 b) { return a != a || b != b; }
inline float64 widen(float32 x) { return x; }
inline float32 narrow_rn(float64 x) { return float32(x); }

template <typename Integer, Rounding R> struct ToInteger {
    static_assert(R == Rounding::nearest || R == Rounding::truncate, "a rounding without a function");
    static Integer from(float64 x) {
        // 2^63 - 1 and the like are not float64 values, so the comparison is with the power of two above them.
        const float64 above = float64(integer_limits<Integer>::magnitude / 2 + 1) * 2;
        const float64 whole = R == Rounding::nearest ? __builtin_nearbyint(x) : __builtin_trunc(x);
        if (whole >= above) return integer_limits<Integer>::highest;
        if (whole <= float64(integer_limits<Integer>::lowest)) return integer_limits<Integer>::lowest;
        return whole == whole ? Integer(whole) : Integer(0);
    }
};

template <typename Integer> uint32 pack_saturated(int32 high, int32 low, uint32 above) {
    using Limits = integer_limits<Integer>;
    using Bits = select<sizeof(Integer) == 1, uint8, uint16>;
    const auto saturated = [](int32 x) {
        return uint32(Bits(x < int32(Limits::lowest) ? Limits::lowest
                           : x > int32(Limits::highest) ? Limits::highest : Integer(x)));
    };
    constexpr int bits = 8 * int(sizeof(Integer));
    return saturated(low) | saturated(high) << bits | (bits == 8 ? above << 16 : 0u);
}

// One access of all the words, so that sanitizers check its alignment.
template <int N> struct alignas(4 * N) Words { uint32 word[N]; };
template <int N> void load_words(const void* address, uint32 (&to)[N]) {
    const Words<N> words = *static_cast<const Words<N>*>(address);
    memcpy(to, words.word, sizeof(to));
}
template <int N> void store_words(void* address, const uint32 (&from)[N]) {
    Words<N> words;
    memcpy(words.word, from, sizeof(from));
    *static_cast<Words<N>*>(address) = words;
}

inline unsigned char* dynamic_shared_memory() { return cuda_host::dynamic_shared_memory; }

#endif

}  // namespace sg
