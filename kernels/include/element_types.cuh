// The element types that kernels move and convert, stored as plain words.
//
// float16 and bfloat16 are 16-bit words. boolean is a byte: any nonzero byte is true, and a bitwise copy preserves it.
// No vendor header is needed, and no load produces a C++ value that is invalid for its type. A bitwise copy moves
// elements as opaque words of their size: uint8, uint16, uint32, uint64, word128.
#pragma once

namespace sg {

using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;
using int8 = signed char;
using int16 = short;
using int32 = int;
using int64 = long long;
using float32 = float;
using float64 = double;

struct boolean { uint8 byte; };
struct float16 { uint16 bits; };
struct bfloat16 { uint16 bits; };
struct alignas(8) complex64 { float32 real, imag; };
struct alignas(16) complex128 { float64 real, imag; };
struct alignas(16) word128 { uint64 low, high; };

template <typename A, typename B> constexpr bool is_same = false;
template <typename A> constexpr bool is_same<A, A> = true;

template <bool Condition, typename A, typename B> struct select_type { using type = A; };
template <typename A, typename B> struct select_type<false, A, B> { using type = B; };
template <bool Condition, typename A, typename B> using select = typename select_type<Condition, A, B>::type;

template <typename T> constexpr bool is_signed_integer =
    is_same<T, int8> || is_same<T, int16> || is_same<T, int32> || is_same<T, int64>;
template <typename T> constexpr bool is_unsigned_integer =
    is_same<T, uint8> || is_same<T, uint16> || is_same<T, uint32> || is_same<T, uint64>;
template <typename T> constexpr bool is_integer = is_signed_integer<T> || is_unsigned_integer<T>;
template <typename T> constexpr bool is_floating =
    is_same<T, float16> || is_same<T, bfloat16> || is_same<T, float32> || is_same<T, float64>;
template <typename T> constexpr bool is_complex = is_same<T, complex64> || is_same<T, complex128>;

template <typename T> struct integer_limits {
    static_assert(is_integer<T>, "only integer types have these limits");
    static constexpr uint64 magnitude = ~uint64(0) >> (64 - 8 * sizeof(T) + (is_signed_integer<T> ? 1 : 0));
    static constexpr T highest = T(magnitude);
    static constexpr T lowest = is_signed_integer<T> ? T(-int64(magnitude) - 1) : T(0);
};

// Reinterpret the bytes as another type of the same size; compiles to no instruction.
template <typename To, typename From> __device__ __forceinline__ To bit_cast(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}

}  // namespace sg
