// Element types, and one direct conversion of a vector of stored elements, to the bit by stridedgpu/values/conversion.py.
// The compiler contracts and reassociates nothing: x * scale and + bias are two roundings.
#pragma once
#include "simd.hpp"

struct Bool {};
struct Bfloat16 {};
template <class E> struct StoredAs { typedef E type; };
template <> struct StoredAs<Bool> { typedef uint8_t type; };
template <> struct StoredAs<Bfloat16> { typedef uint16_t type; };
template <class E> using Stored = typename StoredAs<E>::type;

template <class E> constexpr bool is_float = same<E, float> || same<E, double> || same<E, half> || same<E, Bfloat16>;
template <class E> constexpr bool is_narrow_float = same<E, half> || same<E, Bfloat16>;
template <class E> constexpr bool is_integer = !is_float<E> && !same<E, Bool>;
template <class E> constexpr bool is_signed = is_integer<E> && E(-1) < E(0);
template <class E> constexpr bool is_wide = same<E, double> || (is_integer<E> && sizeof(Stored<E>) >= 4);

// The type of arithmetic between two types: float32, or float64 where either is wide.
template <class S, class T> using Compute = either<is_wide<S> || is_wide<T>, double, float>;

template <class I> constexpr I least = is_signed<I> ? I(uint64_t(1) << (8 * sizeof(I) - 1)) : I(0);
template <class I> constexpr I most = I(~least<I>);

template <int N> INLINE Vec<float, N> decoded_bfloat16(Vec<uint16_t, N> v) {
    auto wide = cast<uint32_t, uint16_t, N>(v) << 16;
    return bits<Vec<float, N>>(pick(is_nan(bits<Vec<float, N>>(wide)), wide | 0x400000, wide));
}
template <int N> INLINE Vec<uint16_t, N> encoded_bfloat16(Vec<float, N> x) {
    auto wide = bits<Vec<uint32_t, N>>(x), high = wide >> 16;
    return cast<uint16_t, uint32_t, N>(pick(is_nan(x), high | 0x40, (wide + (high & 1) + 0x7FFF) >> 16));
}

// float64 as float32 by round-to-odd: the second rounding, to fewer bits, is then the only one that counts (S. Boldo,
// G. Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd"). It is the
// number towards zero with its last bit set, unless that is exact.
template <int N> INLINE Vec<float, N> to_odd(Vec<double, N> x) {
#if defined(__AVX512F__)
    if constexpr (N % 8 == 0) {
        auto narrow = in_parts<float, 8, double, N>(x, [](auto v) INLINE_LAMBDA { return __builtin_ia32_cvtpd2ps512_mask(v, Vec<float, 8>{}, -1, 11); });
        auto back = cast<double, float, N>(narrow);
        auto b = bits<Vec<int32_t, N>>(narrow);
        return bits<Vec<float, N>>(b | (cast<int32_t, int64_t, N>((back < x) | (back > x)) & 1));
    }
#endif
    auto narrow = cast<float, double, N>(x);
    auto back = cast<double, float, N>(narrow);
    auto above = cast<int32_t, int64_t, N>(__builtin_elementwise_abs(back) > __builtin_elementwise_abs(x));
    auto inexact = cast<int32_t, int64_t, N>((back < x) | (back > x));
    return bits<Vec<float, N>>((bits<Vec<int32_t, N>>(narrow) + above) | (inexact & 1));
}
// The same by a sticky bit behind the 24 leading ones, for float16, whose numbers are all normal in float32.
template <int N> INLINE Vec<float, N> to_odd_normal(Vec<double, N> x) {
    constexpr int64_t low = (1 << 29) - 1;
    auto b = bits<Vec<int64_t, N>>(x);
    return cast<float, double, N>(bits<Vec<double, N>>((b | ((b & low) + low)) & ~low));
}
// Integers of 64 bits with at most 53 significant ones.
template <class I, int N> INLINE Vec<I, N> integer_to_odd(Vec<I, N> v) {
    constexpr I low = (1 << 11) - 1;
    auto odd = (v & ~low) | (((v & low) != 0) & Vec<int64_t, N>{} + (1 << 11));
    auto large = is_signed<I> ? (v > I(1ll << 53)) | (v < I(-(1ll << 53))) : v > I(1ll << 53);
    return pick(large, (Vec<I, N>)odd, v);
}

// Floats rounded half to even to signed integers, which hold them, or whose value is not used. x86 has one instruction,
// which LLVM does not make of the two of the last line.
template <class I, class F, int N> INLINE Vec<I, N> nearest(Vec<F, N> x) {
    constexpr int W = VECTOR / (sizeof(F) > sizeof(I) ? sizeof(F) : sizeof(I));
    [[maybe_unused]] constexpr bool whole = N % W == 0;
#if defined(__AVX512DQ__)
    if constexpr (whole && same<F, float> && sizeof(I) == 4)
        return in_parts<I, W, F, N>(x, [](auto v) INLINE_LAMBDA { return bits<Vec<I, W>>(__builtin_ia32_cvtps2dq512_mask(v, Vec<int32_t, W>{}, -1, 4)); });
    else if constexpr (whole && sizeof(I) == 4)
        return in_parts<I, W, F, N>(x, [](auto v) INLINE_LAMBDA { return bits<Vec<I, W>>(__builtin_ia32_cvtpd2dq512_mask(v, Vec<int32_t, W>{}, -1, 4)); });
    else if constexpr (whole && same<F, double>)
        return in_parts<I, W, F, N>(x, [](auto v) INLINE_LAMBDA { return bits<Vec<I, W>>(__builtin_ia32_cvtpd2qq512_mask(v, Vec<int64_t, W>{}, -1, 4)); });
    else if constexpr (whole)
        return in_parts<I, W, F, N>(x, [](auto v) INLINE_LAMBDA { return bits<Vec<I, W>>(__builtin_ia32_cvtps2qq512_mask(v, Vec<int64_t, W>{}, -1, 4)); });
#elif defined(__AVX2__)
    if constexpr (whole && same<F, float> && sizeof(I) == 4)
        return in_parts<I, W, F, N>(x, [](auto v) INLINE_LAMBDA { return bits<Vec<I, W>>(__builtin_ia32_cvtps2dq256(v)); });
    else if constexpr (whole && sizeof(I) == 4)
        return in_parts<I, W, F, N>(x, [](auto v) INLINE_LAMBDA { return bits<Vec<I, W>>(__builtin_ia32_cvtpd2dq256(v)); });
#endif
    return cast<I, F, N>(__builtin_elementwise_roundeven(x));
}

// Floats below 2^51 in magnitude as integers of 64 bits, which x86 has no vector instruction for before AVX-512: the
// processor rounds their sum with 3 * 2^51, whose last bits are then those of the integer.
constexpr bool converts_one_by_one =
#if defined(__x86_64__) && !defined(__AVX512DQ__)
    true;
#else
    false;
#endif
template <class I, int N> INLINE Vec<I, N> small_words(Vec<double, N> x) {
    auto shifter = all<double, N>(double(3ll << 51));
    return bits<Vec<I, N>>(x + shifter) - bits<Vec<I, N>>(shifter);
}
template <class V> INLINE bool any_lane(V mask) {
    uint64_t found = 0;
    for (size_t at = 0; at < sizeof mask; at += 8) found |= load<uint64_t>((char*)&mask + at);
    return found != 0;
}

// Floats as integers: rounded half to even, clamped, NaN as 0.
template <class I, class F, int N> INLINE Vec<I, N> integer_of(Vec<F, N> x) {
    constexpr F lowest = F(least<I>);
    auto whole = [](Vec<F, N> v) INLINE_LAMBDA {
        typedef either<sizeof(I) < 4, int32_t, I> Whole;
        if constexpr (is_signed<Whole>) return nearest<Whole, F, N>(v);
        else return cast<Whole, F, N>(__builtin_elementwise_roundeven(v));
    };
    if constexpr (sizeof(I) * 8 <= (same<F, float> ? 24 : 53)) {  // the limits are exact: clamp, then round
        [[maybe_unused]] auto is_number = x == x;
#if !defined(__x86_64__)
        // LLVM makes FMAXNM of the next line on AArch64, of which a signalling NaN comes out as a NaN.
        if constexpr (!is_signed<I>) x = pick(is_number, x, Vec<F, N>{});
#endif
        x = pick(x > lowest, x, all<F, N>(lowest));  // NaN becomes the lowest, which is 0 without a sign
        x = pick(x < F(most<I>), x, all<F, N>(F(most<I>)));
        if constexpr (is_signed<I>) x = pick(is_number, x, Vec<F, N>{});
        return __builtin_convertvector(whole(x), Vec<I, N>);
    } else {  // from `most` on floats are whole, and most + 1 is a power of two
        constexpr F beyond = F(uint64_t(1) << (8 * sizeof(I) - 1)) * (is_signed<I> ? 1 : 2);
        typedef Vec<Signed<sizeof(I)>, N> Mask;
        if constexpr (converts_one_by_one && sizeof(I) == 8) {
            auto wide = cast<double, F, N>(x);
            if (!any_lane(~(__builtin_elementwise_abs(wide) < double(1ll << 51))))
                return small_words<I, N>(is_signed<I> ? wide : pick(wide > 0, wide, Vec<double, N>{}));
        }
        auto result = whole(pick(x > lowest, x, all<F, N>(lowest)));
        if constexpr (is_signed<I>) result &= bits<Vec<I, N>>(__builtin_convertvector(x == x, Mask));
        return pick(__builtin_convertvector(x >= beyond, Mask), all<I, N>(most<I>), result);
    }
}
template <class To, class I, int N> INLINE Vec<To, N> clamped(Vec<I, N> v) {
    if constexpr (is_signed<I> && !is_signed<To>) v = pick(v > 0, v, Vec<I, N>{});
    else if constexpr (is_signed<I> && sizeof(To) < sizeof(I)) v = pick(v > I(least<To>), v, all<I, N>(I(least<To>)));
    if constexpr (double(most<I>) > double(most<To>)) v = pick(v < I(most<To>), v, all<I, N>(I(most<To>)));
    return cast<To, I, N>(v);
}

// One direct conversion, rounded once.
template <class S, class T, int N> INLINE Vec<Stored<T>, N> converted(Vec<Stored<S>, N> v) {
    if constexpr (same<S, T>) return v;
    else if constexpr (same<T, Bool>) {
        if constexpr (is_narrow_float<S>) return cast<uint8_t, int16_t, N>((bits<Vec<uint16_t, N>>(v) << 1) != 0) & 1;
        else if constexpr (same<S, uint8_t>) return __builtin_elementwise_min(v, all<uint8_t, N>(1));
        else { auto m = v != 0; return __builtin_convertvector(m, Vec<uint8_t, N>) & 1; }
    } else if constexpr (same<S, Bool>) {
        typedef Signed<sizeof(Stored<T>)> Word;
        Word one;
        if constexpr (same<T, Bfloat16>) one = 0x3F80;
        else one = __builtin_bit_cast(Word, T(1));
        return bits<Vec<Stored<T>, N>>(cast<Word, int8_t, N>(v != 0) & one);
    } else if constexpr (same<S, half>) {
        auto x = __builtin_convertvector(v, Vec<float, N>);
#if defined(__x86_64__)
        // LLVM would compare float16 again, one by one: it sees where these numbers come from.
        constexpr int W = N * 4 < VECTOR ? N : VECTOR / 4;
        if constexpr (is_integer<T>) x = in_parts<float, W, float, N>(x, [](auto part) INLINE_LAMBDA { __asm__("" : "+v"(part)); return part; });
#endif
        return converted<float, T, N>(x);
    }
    else if constexpr (same<S, Bfloat16>) return converted<float, T, N>(decoded_bfloat16<N>(v));
    else if constexpr (is_narrow_float<T>) {
        Vec<float, N> x;
        if constexpr (same<S, float>) x = v;
        else if constexpr (same<S, double> && same<T, half>) x = to_odd_normal<N>(v);
        else if constexpr (same<S, double>) x = to_odd<N>(v);
        else if constexpr (sizeof(S) <= 2) x = cast<float, int32_t, N>(cast<int32_t, S, N>(v));
        else if constexpr (same<T, half>) x = cast<float, S, N>(v);  // exact up to 2^24, and beyond it is infinite
        else if constexpr (sizeof(S) == 8) x = to_odd<N>(cast<double, S, N>(integer_to_odd<S, N>(v)));
        else x = to_odd<N>(cast<double, S, N>(v));
        if constexpr (same<T, half>) return __builtin_convertvector(x, Vec<half, N>);
        else return encoded_bfloat16<N>(x);
    } else if constexpr (is_float<T>) {
        if constexpr (is_integer<S> && sizeof(S) < 4) return cast<T, int32_t, N>(cast<int32_t, S, N>(v));
        else return cast<T, S, N>(v);
    } else if constexpr (is_float<S>) return integer_of<T, S, N>(v);
    else return clamped<T, S, N>(v);
}
