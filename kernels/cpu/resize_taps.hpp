// Rules with one tap at a time, and copies: columns are vectors of one element of 16 rows.
#pragma once
#include "resize_turns.hpp"

enum Finish { KEPT, SHIFTED, MEAN, HALF_UP, HALF_EVEN };
template <class N, class R> INLINE Vec<N, ROWS> number_of(Vec<R, ROWS> v) {
    if constexpr (sizeof(R) < 4) return cast<N, int32_t, ROWS>(cast<int32_t, R, ROWS>(v));
    else return cast<N, R, ROWS>(v);
}
template <class W, Finish finish, class N> INLINE Vec<W, ROWS> finished(Vec<N, ROWS> sums, int32_t shift, float factor) {
    constexpr bool to_float = same<W, float>;
    if constexpr (finish == KEPT) return sums;
    else if constexpr (finish == SHIFTED) {
        auto whole = (sums + (1 << shift >> 1)) >> shift;
        whole = pick(whole > 0, whole, Vec<int32_t, ROWS>{});
        return cast<W, int32_t, ROWS>(pick(whole < int32_t(W(-1)), whole, all<int32_t, ROWS>(int32_t(W(-1)))));
    } else if constexpr (to_float) {
        auto x = cast<float, N, ROWS>(sums);
        return pick(is_nan(x), all<float, ROWS>(__builtin_nanf("")), x);
    } else if constexpr (finish == MEAN)
        return finished<W, HALF_EVEN, float>(cast<float, int32_t, ROWS>(sums) * factor, shift, factor);
    else {
        auto x = finish == HALF_UP ? __builtin_elementwise_floor(sums + N(0.5)) : __builtin_elementwise_roundeven(sums);
        x = pick(x > 0, x, Vec<N, ROWS>{});
        x = pick(x < N(W(-1)), x, all<N, ROWS>(N(W(-1))));
        return cast<W, int32_t, ROWS>(cast<int32_t, N, ROWS>(x));
    }
}

// How taps are summed: as numbers N, each with a weight or not, or by pairs of 16 bits; or the only one is copied. With
// `fuses` the products behind whole groups of four are fused.
template <class N_, bool weighted = true, bool fuses = false> struct TapByTap {
    typedef N_ N;
    template <class R, int COUNT, class Load>
    static INLINE void sum(Vec<N, ROWS> (&sums)[COUNT], const Taps& taps, int64_t place, Load load_at) {
        const int64_t* indices = taps.indices + place * taps.groups;
        const N* weights = (const N*)taps.weights + place * taps.groups;
        const int64_t count = taps.counts[place], rounded = fuses ? ((count - 1) & -4) + 1 : count;
        constexpr N start = same<N, float> ? N(-0.0) : N(0);
        unrolled<COUNT>([&](auto c) INLINE_LAMBDA { sums[c] = all<N, ROWS>(start); });
        int64_t tap = 0;
        for (; tap < rounded; tap++) unrolled<COUNT>([&](auto c) INLINE_LAMBDA {
            auto x = number_of<N, R>(load_at(indices[tap], c));
            if constexpr (weighted) x = x * weights[tap];
            sums[c] = sums[c] + x;
        });
        if constexpr (fuses) for (; tap < count; tap++) unrolled<COUNT>([&](auto c) INLINE_LAMBDA {
            sums[c] = __builtin_elementwise_fma(number_of<N, R>(load_at(indices[tap], c)), all<N, ROWS>(weights[tap]), sums[c]);
        });
    }
};
struct Pairs {
    typedef int32_t N;
    template <class R, int COUNT, class Load>
    static INLINE void sum(Vec<N, ROWS> (&sums)[COUNT], const Taps& taps, int64_t place, Load load_at) {
        const int64_t* indices = taps.indices + place * taps.groups * 2;
        const int32_t* weights = taps.weights + place * taps.groups;
        unrolled<COUNT>([&](auto c) INLINE_LAMBDA { sums[c] = Vec<N, ROWS>{}; });
        for (int64_t pair = 0, count = taps.counts[place]; pair < count; pair++) unrolled<COUNT>([&](auto c) INLINE_LAMBDA {
            auto low = number_of<N, R>(load_at(indices[2 * pair], c)), high = number_of<N, R>(load_at(indices[2 * pair + 1], c));
            sums[c] += in_parts<N, LANES, N, ROWS>(low | high << 16, [&](auto part) INLINE_LAMBDA {
                return pair_products<LANES>(bits<Vec<int16_t, 2 * LANES>>(part), weights[pair]);
            });
        });
    }
};
struct Copies {};

template <class R, class W, class Sum, Finish finish, int C>
void along_numbers(const Geometry& g, ReadRows from, WrittenRows to, char* columns, ReadRows ahead) {
    typedef Vec<R, ROWS> Column;
    g.into_columns(g, from, columns);
    const int64_t read = g.elements * (ROWS * sizeof(R)) / g.columns, part = (read | (LINE - 1)) + 1;
    if (read <= LINE) ahead = nullptr;
    char *const outputs = columns + g.outputs_at, *out = outputs;
    const float factor = bits<float>(int32_t(g.factor));
    int64_t channels[C];
    for (int c = 0; c < C; c++) channels[c] = g.joined_strides[c] * sizeof(Column);
    const int64_t pixel_out = g.pixel_out * sizeof(W), channel_out = g.channel_out * sizeof(W), count = g.columns;
    for (int64_t x = 0; x < count; x++, out += pixel_out) {
        if (ahead) for (int64_t line = 0; line < part; line += LINE)
            __builtin_prefetch(ahead[x % ROWS] + x / ROWS * part + line, 0, 2);
        auto load_at = [&](int64_t index, int c) INLINE_LAMBDA {
            return load<Column>(columns + index * int64_t(sizeof(Column)) + channels[c]);
        };
        if constexpr (same<Sum, Copies>) {
            const int64_t index = g.column.indices[x * g.column.groups];
            unrolled<C>([&](auto c) INLINE_LAMBDA { store(out + c * channel_out, load_at(index, c)); });
        } else {
            typedef typename Sum::N N;
            Vec<N, ROWS> sums[C];
            Sum::template sum<R, C>(sums, g.column, x, load_at);
            unrolled<C>([&](auto c) INLINE_LAMBDA { store(out + c * channel_out, finished<W, finish, N>(sums[c], 0, factor)); });
        }
    }
    g.into_rows(g, outputs, to);
}
template <class R, class W, class Sum, Finish finish>
void down_numbers(const Geometry& g, const char* rows, int64_t pitch, int64_t row, char* into, int64_t elements) {
    auto step = [&](auto vectors, int64_t x) INLINE_LAMBDA {
        constexpr int V = decltype(vectors)::value;
        typedef Vec<R, ROWS> Read;
        auto load_at = [&](int64_t index, int k) INLINE_LAMBDA {
            return load<Read>(rows + index * pitch + (x + k * ROWS) * int64_t(sizeof(R)));
        };
        if constexpr (same<Sum, Copies>) {
            const int64_t index = g.row.indices[row * g.row.groups];
            unrolled<V>([&](auto k) INLINE_LAMBDA { store(into + (x + k * ROWS) * sizeof(W), load_at(index, k)); });
        } else {
            typedef typename Sum::N N;
            Vec<N, ROWS> sums[V];
            Sum::template sum<R, V>(sums, g.row, row, load_at);
            const float factor = bits<float>(int32_t(g.factor));
            unrolled<V>([&](auto k) INLINE_LAMBDA {
                store(into + (x + k * ROWS) * sizeof(W), finished<W, finish, N>(sums[k], int32_t(g.shift), factor));
            });
        }
    };
    constexpr int most = VECTOR == 64 ? 4 : 2;  // vectors at once, whose sums fit the registers
    int64_t x = 0;
    for (; x + most * ROWS <= elements; x += most * ROWS) step(Count<most>(), x);
    for (; x < elements; x += ROWS) step(Count<1>(), x + ROWS <= elements ? x : elements - ROWS);
}
