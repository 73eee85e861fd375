// Exact conversion of elements: a cast alone, or a cast with scale and bias.
//
// A cast alone rounds once, straight from the source value to the target type:
//   to boolean        x != 0; NaN is true
//   to an integer     half to even (Rounding::nearest) or toward zero (Rounding::truncate), saturating; NaN is 0
//   to a float        nearest even, subnormals kept, overflow to infinity; a NaN keeps its sign and leading payload
//                     bits and becomes quiet, as x86's conversion instructions do
//   to a complex      componentwise; a real source has imaginary part +0
// Equal types on both sides are a bitwise copy.
//
// With scale or bias: y = Compute(x), then y*scale rounded, then y+bias rounded, each only if present; a NaN that
// results is the canonical quiet one; then the cast above. Compute is float64 when either side is a 32- or 64-bit
// integer or float64, else float32. With a unit the steps are y/unit, +bias and /scale, each rounded.
#pragma once
#include "element_types.cuh"
#include "primitives.cuh"
#include "small_elements.cuh"
#include "vectors.cuh"

namespace sg {

// NaN policy of a conversion: preserve its bits, or ignore it because the caller handles NaN.
enum class Nan { keep, ignore };

template <typename T> constexpr bool needs_float64 =
    is_same<T, float64> || (is_integer<T> && sizeof(T) >= 4);
template <typename Source, typename Target> using compute_type =
    select<needs_float64<Source> || needs_float64<Target>, float64, float32>;

// Comparisons on bits: a float32 comparison compiled with -ftz=true takes a subnormal for zero.
__device__ __forceinline__ bool is_nan(float32 x) { return (bit_cast<uint32>(x) & 0x7fffffffu) > 0x7f800000u; }
__device__ __forceinline__ bool is_nan(float64 x) {
    return (bit_cast<uint64>(x) & 0x7fffffffffffffffull) > 0x7ff0000000000000ull;
}
__device__ __forceinline__ bool is_nonzero(float32 x) { return (bit_cast<uint32>(x) & 0x7fffffffu) != 0; }
__device__ __forceinline__ bool is_nonzero(float64 x) { return (bit_cast<uint64>(x) & 0x7fffffffffffffffull) != 0; }
template <typename Integer> __device__ __forceinline__ bool is_nonzero(Integer x) { return x != 0; }

template <Nan N> __device__ __forceinline__ float64 to_float64(float32 x) {
    const uint32 bits = bit_cast<uint32>(x);
    if (N == Nan::keep && is_nan(x)) {
        return bit_cast<float64>(uint64(bits >> 31) << 63 | 0x7ff8000000000000ull | uint64(bits & 0x3fffffu) << 29);
    }
    return widen(x);
}

template <Nan N> __device__ __forceinline__ float32 to_float32(float64 x) {
    const uint64 bits = bit_cast<uint64>(x);
    if (N == Nan::keep && is_nan(x)) {
        return bit_cast<float32>(uint32(bits >> 63) << 31 | 0x7fc00000u | (uint32(bits >> 29) & 0x3fffffu));
    }
    return narrow_rn(x);
}

// float64 to float32 by round-to-odd: an inexact result takes the neighbour with an odd last bit. A second rounding to
// 16 bits is then correct (Boldo and Melquiond, "When double rounding is odd", 2005).
__device__ __forceinline__ float32 round_to_odd(float64 x) {
    const float32 nearest = narrow_rn(x);
    const float64 back = widen(nearest);
    const uint32 bits = bit_cast<uint32>(nearest);
    const uint64 magnitude = bit_cast<uint64>(x) << 1, back_magnitude = bit_cast<uint64>(back) << 1;
    if (magnitude == back_magnitude || (bits & 1u)) return nearest;
    return bit_cast<float32>(back_magnitude < magnitude ? bits + 1u : bits - 1u);
}

// An integer's magnitude truncated to float32's 24 bits; the last bit is set if any bit was lost.
__device__ __forceinline__ float32 round_to_odd(uint64 magnitude) {
    const int shift = 40 - __clzll(int64(magnitude));
    if (shift <= 0) return float32(magnitude);
    const uint64 kept = magnitude >> shift;
    return float32((kept | uint64(kept << shift != magnitude)) << shift);
}

template <Nan N> __device__ __forceinline__ float16 to_float16(float32 x) {
    const uint32 bits = bit_cast<uint32>(x);
    if (N == Nan::keep && is_nan(x)) {
        return {uint16((bits >> 16 & 0x8000u) | 0x7e00u | (bits >> 13 & 0x1ffu))};
    }
    return {float16_bits_rn(x)};
}

template <Nan N> __device__ __forceinline__ bfloat16 to_bfloat16(float32 x) {
    if (N == Nan::keep && is_nan(x)) return {uint16(bit_cast<uint32>(x) >> 16 | 0x40u)};
    return {bfloat16_bits_rn(x)};
}

// Floats with at least two significant bits fewer than float32. A new one needs a specialisation of this, `decode` and
// `is_floating`.
template <typename T> struct NarrowFloat;

template <> struct NarrowFloat<bfloat16> {
    template <Nan N> static __device__ __forceinline__ bfloat16 from(float32 x) { return to_bfloat16<N>(x); }
    static constexpr bfloat16 canonical_nan = {0x7fc0};
};

template <typename To, Nan N> __device__ __forceinline__ To to_narrow(float32 x) {
    return NarrowFloat<To>::template from<N>(x);
}

// Decode an element, exactly, to a type with C++ arithmetic: itself, 0 or 1, or float32.
template <Nan N, typename T> __device__ __forceinline__ T decode(T x) { return x; }
template <Nan N> __device__ __forceinline__ uint8 decode(boolean x) { return x.byte != 0; }
template <Nan N> __device__ __forceinline__ float32 decode(float16 x) {
    const uint32 bits = x.bits;
    if (N == Nan::keep && (bits & 0x7fffu) > 0x7c00u) {
        return bit_cast<float32>((bits & 0x8000u) << 16 | 0x7fc00000u | (bits & 0x1ffu) << 13);
    }
    return float32_from_float16_bits(x.bits);
}
template <Nan N> __device__ __forceinline__ float32 decode(bfloat16 x) {
    const uint32 bits = uint32(x.bits) << 16;
    const bool signaling = N == Nan::keep && (bits & 0x7fffffffu) > 0x7f800000u;
    return bit_cast<float32>(signaling ? bits | 0x400000u : bits);
}

template <typename To, typename From> __device__ __forceinline__ To saturate(From x) {
    using To_ = integer_limits<To>;
    using From_ = integer_limits<From>;
    if constexpr (From_::magnitude > To_::magnitude) {
        if (x > From(To_::highest)) return To_::highest;
    }
    if constexpr (is_signed_integer<From>) {
        if constexpr (is_unsigned_integer<To>) {
            if (x < 0) return To(0);
        } else if constexpr (From_::magnitude > To_::magnitude) {
            if (x < From(To_::lowest)) return To_::lowest;
        }
    }
    return To(x);
}

template <typename To, Rounding R, typename Float> __device__ __forceinline__ To round_to_integer(Float x) {
    if constexpr (sizeof(To) < 4) {
        return saturate<To>(round_to_integer<int32, R>(x));
    } else {
        // The instructions convert NaN to 0 only from float32 to 32 bits.
        if ((sizeof(Float) == 8 || sizeof(To) == 8) && is_nan(x)) return To(0);
        return ToInteger<To, R>::from(x);
    }
}

// Encode a decoded value (an integer, float32 or float64) in the target type.
template <typename To, Rounding R, Nan N, typename Value> __device__ __forceinline__ To encode(Value x) {
    if constexpr (is_complex<To>) {
        if constexpr (is_same<To, complex64>) return {encode<float32, R, N>(x), 0.0f};
        else return {encode<float64, R, N>(x), 0.0};
    } else if constexpr (is_same<To, boolean>) {
        return {uint8(is_nonzero(x))};
    } else if constexpr (is_integer<To>) {
        if constexpr (is_integer<Value>) return saturate<To>(x);
        else return round_to_integer<To, R>(x);
    } else if constexpr (is_same<To, Value>) {
        return x;
    } else if constexpr (is_same<To, float64>) {
        if constexpr (is_integer<Value>) return float64(x);
        else return to_float64<N>(x);
    } else if constexpr (is_same<To, float32>) {
        if constexpr (is_integer<Value>) return float32(x);
        else return to_float32<N>(x);
    } else if constexpr (is_same<To, float16>) {
        // float16 overflows from 65520 on, so an integer may first be clamped to the range that is exact in float32.
        constexpr int32 beyond = 1 << 17;
        if constexpr (is_same<Value, float32>) return to_float16<N>(x);
        else if constexpr (is_same<Value, float64>) {
            if (N == Nan::keep && is_nan(x)) return to_float16<N>(to_float32<N>(x));
            return to_float16<Nan::ignore>(round_to_odd(x));
        } else if constexpr (sizeof(Value) < 4) return to_float16<Nan::ignore>(float32(x));
        else if constexpr (is_signed_integer<Value>) {
            return to_float16<Nan::ignore>(float32(int32(x > beyond ? beyond : x < -beyond ? -beyond : x)));
        } else return to_float16<Nan::ignore>(float32(int32(x > Value(beyond) ? Value(beyond) : x)));
    } else {
        if constexpr (is_same<Value, float32>) return to_narrow<To, N>(x);
        else if constexpr (is_same<Value, float64>) {
            if (N == Nan::keep && is_nan(x)) return to_narrow<To, N>(to_float32<N>(x));
            return to_narrow<To, Nan::ignore>(round_to_odd(x));
        } else if constexpr (sizeof(Value) < 4) return to_narrow<To, Nan::ignore>(float32(x));
        else if constexpr (is_signed_integer<Value>) {
            const float32 magnitude = round_to_odd(x < 0 ? ~uint64(int64(x)) + 1 : uint64(x));
            return to_narrow<To, Nan::ignore>(bit_cast<float32>(bit_cast<uint32>(magnitude) | (x < 0 ? 1u << 31 : 0u)));
        } else return to_narrow<To, Nan::ignore>(round_to_odd(uint64(x)));
    }
}

// A cast alone.
template <typename To, Rounding R = Rounding::nearest, typename From> __device__ __forceinline__ To cast(From x) {
    if constexpr (is_same<To, From>) {
        return x;
    } else if constexpr (is_complex<From>) {
        static_assert(is_complex<To>, "a complex number has no real conversion");
        using Component = select<is_same<To, complex64>, float32, float64>;
        return {cast<Component, R>(x.real), cast<Component, R>(x.imag)};
    } else {
        // An integer or boolean result does not depend on the NaN's payload.
        constexpr Nan payload = is_integer<To> || is_same<To, boolean> ? Nan::ignore : Nan::keep;
        return encode<To, R, payload>(decode<payload>(x));
    }
}

// One channel's scale and bias.
template <typename Compute> struct Affine { Compute scale, bias; };

template <typename To> __device__ __forceinline__ To canonical_nan() {
    if constexpr (is_same<To, float16>) return {uint16(0x7e00)};
    else if constexpr (is_same<To, float32>) return bit_cast<float32>(0x7fc00000u);
    else if constexpr (is_same<To, float64>) return bit_cast<float64>(0x7ff8000000000000ull);
    else return NarrowFloat<To>::canonical_nan;
}

// The steps of scale and bias: the rows of `ARITHMETIC_RULES` in values/arithmetic.py. fused: those of multiply, where
// an unsigned integer is multiplied by `multiplied`, with the same result.
enum class Arithmetic { multiply, fused, divide, torchvision_v2, transformers, transformers_pil };

// The whole conversion of one element, as a type with every choice at compile time. Nans: whether scale and bias may
// produce NaN; with an integer source and finite constants they do not. A: the steps; with others than those of
// multiply there are both constants, and scale divides. Unit: the bits of the double that the first step takes.
template <typename Source_, typename Target_, bool HasScale = false, bool HasBias = false,
          Rounding R = Rounding::nearest, Nan Nans = Nan::keep, Arithmetic A = Arithmetic::multiply, uint64 Unit = 0>
struct Conversion {
    using Source = Source_;
    using Target = Target_;
    using Compute = compute_type<Source, Target>;
    static constexpr bool has_scale = HasScale;
    static constexpr bool has_bias = HasBias;
    static constexpr bool is_affine = HasScale || HasBias;
    static constexpr bool is_move = is_same<Source, Target> && !is_affine;
    static constexpr bool is_wide = !is_move && sizeof(Compute) == 8;  // numbers take two registers each
    static constexpr bool is_fused = A == Arithmetic::fused;
    static constexpr bool is_product = is_fused || A == Arithmetic::multiply;
    static_assert(!is_fused || (HasScale && is_same<Compute, float32>), "one product in float32");
    static_assert(is_product || (HasScale && HasBias), "a bias and a divisor");
    static_assert(!is_affine || !(is_complex<Source> || is_complex<Target>), "complex types have no scale or bias");

    // `affine` is unused without scale and bias.
    static __device__ __forceinline__ Target apply(Source x, Affine<Compute> affine = {}) {
        if constexpr (!is_affine) {
            return cast<Target, R>(x);
        } else {
            const Compute y = scaled(decode<Nan::ignore>(x), affine);
            if constexpr (is_floating<Target> && Nans == Nan::keep) {
                if (is_nan(y)) return canonical_nan<Target>();
            }
            return encode<Target, R, Nan::ignore>(y);
        }
    }

    // Convert a vector of one channel's elements; small elements go a word at a time.
    template <int N> static __device__ __forceinline__ Vector<Target, N> apply(
        const Vector<Source, N>& source, Affine<Compute> affine = {}) {
        using From = Vector<Source, N>;
        using To = Vector<Target, N>;
        using Number = decltype(number(source, 0, affine));
        constexpr bool has_words = To::bytes >= 4;
        To target{};
        if constexpr (is_move) {
            target = source;
        } else if constexpr (has_words && is_integer<Target> && sizeof(Target) <= 2 && fits_int32<Number>) {
            constexpr int per_word = 4 / int(sizeof(Target));
#pragma unroll
            for (int w = 0; w < To::words; ++w) {
                int32 whole[per_word];
#pragma unroll
                for (int i = 0; i < per_word; ++i) {
                    const Number x = number(source, w * per_word + i, affine);
                    if constexpr (is_integer<Number>) whole[i] = int32(x);
                    else whole[i] = round_to_integer<int32, R>(x);
                }
                target.word[w] = saturated_word<Target>(whole);
            }
        } else if constexpr (has_words && is_floating<Target> && sizeof(Target) <= 4 && is_same<Number, float32>) {
            float32 numbers[N];
            bool some_nan = false;
#pragma unroll
            for (int i = 0; i < N; ++i) numbers[i] = number(source, i, affine);
            if constexpr (may_be_nan) {
#pragma unroll
                for (int i = 0; i < N; i += 2) {
                    some_nan |= either_is_nan(numbers[i], numbers[N == 1 ? 0 : i + 1]);
                }
            }
            if (some_nan) {
#pragma unroll
                for (int i = 0; i < N; ++i) target.set(i, apply(source.get(i), affine));
            } else if constexpr (sizeof(Target) == 2) {
#pragma unroll
                for (int w = 0; w < To::words; ++w) {
                    target.word[w] = rounded_word<Target>(numbers[2 * w], numbers[2 * w + 1]);
                }
            } else {
#pragma unroll
                for (int i = 0; i < N; ++i) target.set(i, numbers[i]);
            }
        } else {
#pragma unroll
            for (int i = 0; i < N; ++i) target.set(i, apply(source.get(i), affine));
        }
        static_assert(From::length == To::length, "as many elements");
        return target;
    }

  private:
    static constexpr bool is_float_source = is_floating<Source>;
    static constexpr bool may_be_nan = Nans == Nan::keep && (is_affine || is_float_source);
    template <typename Number> static constexpr bool fits_int32 =
        !is_unsigned_integer<Number> && !is_same<Number, int64> || sizeof(Number) < 4;

    // Apply scale and bias, each with its own rounding.
    template <typename Value> static __device__ __forceinline__ Compute scaled(Value x, Affine<Compute> affine) {
        Compute y = encode<Compute, R, Nan::ignore>(x);
        if constexpr (is_product) {
            if constexpr (HasScale) y = multiply_rn(y, affine.scale);
            if constexpr (HasBias) y = add_rn(y, affine.bias);
            return y;
        } else {
            const float64 unit = bit_cast<float64>(Unit);
            if constexpr (A == Arithmetic::divide) y = divide_rn(y, Compute(unit));
            if constexpr (A == Arithmetic::torchvision_v2) y = multiply_rn(y, Compute(unit));
            if constexpr (A == Arithmetic::transformers_pil) {
                const float64 wide = encode<float64, Rounding::nearest, Nan::ignore>(y);
                y = encode<Compute, Rounding::nearest, Nan::ignore>(multiply_rn(wide, unit));
            }
            return divide_rn(add_rn(y, affine.bias), affine.scale);
        }
    }

    // The number to round, for one element of a vector.
    template <int N> static __device__ __forceinline__ auto number(const Vector<Source, N>& source, int i,
                                                                   Affine<Compute> affine) {
        constexpr bool to_float32 = is_affine ? is_same<Compute, float32> : is_floating<Target> && sizeof(Target) <= 4;
        constexpr bool is_small = is_integer<Source> && sizeof(Source) <= 2 && Vector<Source, N>::bytes >= 4;
        if constexpr (is_affine) {
            if constexpr (is_small && is_fused) {
                const Compute y = multiplied(source, i, affine.scale);
                if constexpr (HasBias) return add_rn(y, affine.bias);
                else return y;
            } else if constexpr (is_small && to_float32) return scaled(float32_of(source, i), affine);
            else return scaled(decode<Nan::ignore>(source.get(i)), affine);
        } else {
            if constexpr (is_small && to_float32) return float32_of(source, i);
            else return decode<Nan::ignore>(source.get(i));
        }
    }
};

}  // namespace sg
