// Conversions of small elements, several to a word: bitwise equal to the conversion one by one, in fewer instructions.
#pragma once
#include "vectors.cuh"

namespace sg {

// 2^23 + n, where n is an element's distance from the type's lowest value: the float32 with bits 0x4b000000 | n, exact
// for n below 2^16. One byte permute builds it.
inline constexpr float32 two_to_23 = 8388608.0f;
template <typename T, int N> __device__ __forceinline__ float32 raised(const Vector<T, N>& vector, int i) {
    static_assert(is_integer<T> && sizeof(T) <= 2 && Vector<T, N>::bytes >= 4, "words of 8- and 16-bit integers");
    constexpr int per_word = 4 / int(sizeof(T));
    constexpr uint32 signs = !is_signed_integer<T> ? 0u : sizeof(T) == 1 ? 0x80808080u : 0x80008000u;
    const uint32 word = vector.word[i / per_word] ^ signs;
    const uint32 place = uint32(i % per_word);
    const uint32 bits = __byte_perm(word, 0x4b000000u, sizeof(T) == 1 ? 0x7440u | place : 0x7410u | place * 0x22u);
    return bit_cast<float32>(bits);
}

// The element itself, by one subtraction.
template <typename T, int N> __device__ __forceinline__ float32 float32_of(const Vector<T, N>& vector, int i) {
    constexpr float32 zero = two_to_23 - float32(integer_limits<T>::lowest);
    return add_rn(raised(vector, i), -zero);
}

// An unsigned element times `scale`, rounded once, in one instruction instead of two: (2^23 + n) * s - 2^23 * s is
// n * s before it is rounded, and 2^23 * s is exact. The two ways differ where 2^23 * s overflows, and where n * s is a
// negative zero; the plan excludes both (`_is_fused` in launches/parameters.py).
template <typename T, int N>
__device__ __forceinline__ float32 multiplied(const Vector<T, N>& vector, int i, float32 scale) {
    static_assert(is_unsigned_integer<T>, "2^23 and the least signed integer have no exact product with any scale");
    return fused_rn(raised(vector, i), scale, multiply_rn(scale, -two_to_23));
}

// Saturate and pack one word of integers.
template <typename T> __device__ __forceinline__ uint32 saturated_word(const int32 (&x)[4 / sizeof(T)]) {
    static_assert(is_integer<T> && sizeof(T) <= 2, "words of 8- and 16-bit integers");
    if constexpr (sizeof(T) == 1) return pack_saturated<T>(x[1], x[0], pack_saturated<T>(x[3], x[2], 0u));
    else return pack_saturated<T>(x[1], x[0], 0u);
}

// Round two numbers to nearest even and pack them; not for NaN.
template <typename T> __device__ __forceinline__ uint32 rounded_word(float32 low, float32 high) {
    if constexpr (is_same<T, float16>) {
        return float16_pair_rn(low, high);
    } else {
        static_assert(is_same<T, bfloat16>, "words of 16-bit floats");
        return bfloat16_pair_rn(low, high);
    }
}

}  // namespace sg
