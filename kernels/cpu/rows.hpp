// Rows: elements in a row, converted; every pair of types, without arithmetic and with it, in one pass.
//
//     source  ... x x x x x x x x ...      a step: a cache line, or two, of the wider side
//     target  ... y y y y y y y y ...      the last step is moved back to end with the row
#pragma once
#include "conversion.hpp"
#include "loops.hpp"

// What is done to numbers between the casts. Each has an `at`: the constants of P elements from a place on.
struct Nothing {
    template <class S, class T> using Number = S;
    template <class F, int P> struct At { INLINE At(const Block&, const char*, const char*, const char*) {} };
};

// x * scale, rounded, + bias, rounded: an absent scale is 1 and an absent bias -0.0, which change no bit.
struct MultiplyAdd {
    template <class F, int N> static INLINE Vec<F, N> of(Vec<F, N> x, Vec<F, N> scale, Vec<F, N> bias, Vec<F, N>, double, double) {
        Vec<F, N> product = x * scale;
        return product + bias;
    }
};

// The arithmetic of torchvision and of transformers: a first step with a number of all channels, + bias, / scale.
enum First { NO_FIRST, DIVIDE, MULTIPLY, MULTIPLY_WIDE, PRODUCT };
template <First first, bool by_products> struct Normalize {
    template <class F, int N> static INLINE Vec<F, N> of(Vec<F, N> x, Vec<F, N> scale, Vec<F, N> bias, Vec<F, N> low, double unit, double unit_low) {
        if constexpr (first == DIVIDE) x = x / F(unit);
        else if constexpr (first == MULTIPLY) x = x * F(unit);
        else if constexpr (first == MULTIPLY_WIDE) x = cast<F, double, N>(cast<double, F, N>(x) * unit);
        else if constexpr (first == PRODUCT) x = fused<F, N>(all<F, N>(F(unit)), x, x * F(unit_low));
        x = x + bias;
        if constexpr (by_products) return fused<F, N>(scale, x, x * low);
        else return x / scale;
    }
    template <class F, int N> static INLINE Vec<F, N> fused(Vec<F, N> a, Vec<F, N> b, Vec<F, N> c) { return __builtin_elementwise_fma(a, b, c); }
};

// Numbers without their fractions: `rounding="truncate"`, before a cast that has nothing left to round.
struct Truncate {
    template <class F, int N> static INLINE Vec<F, N> of(Vec<F, N> x, Vec<F, N>, Vec<F, N>, Vec<F, N>, double, double) {
        return __builtin_elementwise_trunc(x);
    }
};

// Up to 128 bytes, by two steps that overlap.
INLINE void copy_short(char* target, const char* source, int64_t nbytes) {
    auto two = [&](auto v, int64_t width) INLINE_LAMBDA {
        typedef decltype(v) V;
        V begin = load<V>(source), end = load<V>(source + nbytes - width);
        store(target, begin); store(target + nbytes - width, end);
    };
    if (nbytes >= 64) two(Vec<uint8_t, 64>{}, 64);
    else if (nbytes >= 32) two(Vec<uint8_t, 32>{}, 32);
    else if (nbytes >= 16) two(Vec<uint8_t, 16>{}, 16);
    else if (nbytes >= 8) two(uint64_t{}, 8);
    else if (nbytes >= 4) two(uint32_t{}, 4);
    else if (nbytes >= 2) two(uint16_t{}, 2);
    else if (nbytes == 1) *target = *source;
}

// Elements of a step: a line of the wider side.
template <class S, class T> constexpr int row_step = LINE / (sizeof(Stored<S>) > sizeof(Stored<T>) ? sizeof(Stored<S>) : sizeof(Stored<T>));

// N elements converted, with arithmetic between two casts.
template <class S, class T, class Arithmetic, int N, class F = Compute<S, T>>
INLINE Vec<Stored<T>, N> computed(Vec<Stored<S>, N> v, Vec<F, N> scale, Vec<F, N> bias, Vec<F, N> low, double unit, double unit_low) {
    if constexpr (same<Arithmetic, Nothing>) return converted<S, T, N>(v);
    else {
        auto x = Arithmetic::template of<F, N>(converted<S, F, N>(v), scale, bias, low, unit, unit_low);
        if constexpr (is_float<S> && !same<Arithmetic, Truncate>) x = pick(is_nan(x), all<F, N>(F(__builtin_nan(""))), x);
        return converted<F, T, N>(x);
    }
}

// Rows of contiguous elements on both sides. `along`: constants follow a row's elements; else a row has its own.
template <class S, class T, class Arithmetic, bool along> void convert(const Block& k) {
    typedef Stored<S> In; typedef Stored<T> Out; typedef Compute<S, T> F;
    constexpr int P = row_step<S, T>;
    constexpr bool plain = same<Arithmetic, Nothing>;
    typedef Vec<F, P> Numbers;
    // What is read of `k` here is not read again after each store, which may have been to it for all the compiler knows.
    const char *scales = k.scale, *biases = k.bias, *lows = k.low, *source = k.source;
    char* target = k.target;
    const int64_t ahead = k.ahead, source_pitch = k.source_pitch, target_pitch = k.target_pitch;
    // Rows behind one another are one row, if all of it has the same constants.
    const bool is_one = (plain || (!along && !k.constants_pitch)) && source_pitch == k.size * int64_t(sizeof(In)) && target_pitch == k.size * int64_t(sizeof(Out));
    const int64_t size = is_one ? k.size * k.rows : k.size;
    const double unit = k.unit, unit_low = k.unit_low;
    const bool streams = k.streams && (uintptr_t(target) | target_pitch) % sizeof(Out) == 0;
    for (int64_t row = is_one ? 1 : k.rows; row > 0; row--, source += source_pitch, target += target_pitch) {
        Numbers scale = {}, bias = {}, low = {};
        if constexpr (!plain && !along) {
            scale = all<F, P>(load<F>(scales)); bias = all<F, P>(load<F>(biases)); low = all<F, P>(load<F>(lows));
            scales += k.constants_pitch; biases += k.constants_pitch; lows += k.constants_pitch;
        }
        auto whole = [&](const char* from, [[maybe_unused]] int64_t at) INLINE_LAMBDA {
            if constexpr (!plain && along) {
                scale = load<Numbers>(scales + at * sizeof(F)); bias = load<Numbers>(biases + at * sizeof(F));
                low = load<Numbers>(lows + at * sizeof(F));
            }
            return computed<S, T, Arithmetic, P>(load<Vec<In, P>>(from), scale, bias, low, unit, unit_low);
        };
        if (size < P) {
            char in[P * sizeof(In)], out[P * sizeof(Out)];
            copy_short(in, source, size * sizeof(In));
            store(out, whole(in, 0));
            copy_short(target, out, size * sizeof(Out));
            continue;
        }
        auto step = [&](int64_t at) INLINE_LAMBDA { store(target + at * sizeof(Out), whole(source + at * sizeof(In), at)); };
        int64_t at = 0;
        constexpr int Q = P > LINE / int(sizeof(Out)) ? P : LINE / sizeof(Out);  // a line at once
        if (streams && size >= 4 * Q) {
            if (int64_t lead = (-uintptr_t(target) & (LINE - 1)) / sizeof(Out)) {
                for (; at + P <= lead; at += P) step(at);
                if (at < lead) step(lead >= P ? lead - P : 0);
                at = lead;
                // A line that the first step has reached is not streamed: it would be read again.
                if (lead < P) for (at += Q; lead < at; lead += P) step(lead);
            }
            const int64_t end = (size - at) % Q ? size - P : size;  // the last step is not streamed
            for (; at + Q <= end; at += Q) {
                const char* from = source + at * sizeof(In);
                if (ahead) for (size_t line = 0; line < Q * sizeof(In); line += LINE) __builtin_prefetch(from + ahead + line);
                Vec<Out, Q> lines;
                unrolled<Q / P>([&](auto k) INLINE_LAMBDA {
                    store((char*)&lines + k * P * sizeof(Out), whole(from + k * P * sizeof(In), at + k * P));
                });
                stream(target + at * sizeof(Out), lines);
            }
        }
        for (; at + P <= size; at += P) step(at);
        if (at < size) step(size - P);
    }
}
