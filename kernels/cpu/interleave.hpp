// Vectors of interleaved elements taken apart and put together, in registers.
//
//     pieces     r g b r | g b r g | b r g b      C vectors in a row
//     channels   r r r r | g g g g | b b b b      a vector of P elements for each channel
#pragma once
#include "simd.hpp"

// Lane i of the result is lane map(i) of K vectors in a row.
template <auto map, int K, class T, int N> INLINE Vec<T, N> gathered(const Vec<T, N> (&v)[K]) {
    auto r = shuffle<N, [](int i) { int at = map(i); return at < 2 * N ? at : -1; }>(v[0], v[1]);
    unrolled<K - 2>([&](auto j) INLINE_LAMBDA {
        constexpr int next = decltype(j)::value + 2;
        constexpr auto place = [](int i) { int at = map(i); return at / N == next ? N + at % N : at / N < next ? i : -1; };
        r = shuffle<N, place>(r, v[next]);
    });
    return r;
}

// A vector is a cache line. Where no instruction permutes all of it, its parts have pixels of their own, which are loaded
// to their place and stored from it, and are permuted alike.
template <class T> constexpr int pixels_of_step = LINE / sizeof(T);
template <class T, int P = pixels_of_step<T>> constexpr int parts_of = [] {
    constexpr int nbytes = P * sizeof(T), each = sizeof(T) < 4 && VECTOR < LINE ? 16 : VECTOR;
    return nbytes < each ? 1 : nbytes / each;
}();

template <class T, int C, int P, bool mirrors = false> INLINE void take_apart(const char* pixels, Vec<T, P>* pieces) {
    constexpr int parts = parts_of<T, P>, each = P / parts, bytes = each * sizeof(T);
    unrolled<C>([&](auto k) INLINE_LAMBDA {
        unrolled<parts>([&](auto part) INLINE_LAMBDA {
            const int from = mirrors ? parts - 1 - part : part;
            store((char*)&pieces[k.value] + part * bytes, load<Vec<T, each>>(pixels + (from * C + k) * bytes));
        });
    });
}
template <class T, int C, int P, int c> INLINE Vec<T, P> channel_of(const Vec<T, P> (&pieces)[C]) {
    constexpr int each = P / parts_of<T, P>;
    constexpr auto place = [](int i) { int at = i % each * C + c; return at / each * P + i / each * each + at % each; };
    return gathered<place, C, T, P>(pieces);
}
template <class T, int D, int P, bool streams, class Piece> INLINE void store_pieces(char* pixels, Piece piece_of) {
    constexpr int parts = parts_of<T, P>, each = P / parts, bytes = each * sizeof(T);
    typedef Vec<T, each> Part;
    Vec<T, P> pieces[D];
    unrolled<D>([&](auto k) INLINE_LAMBDA { pieces[k.value] = piece_of(k); });
    unrolled<parts>([&](auto part) INLINE_LAMBDA {
        unrolled<D>([&](auto k) INLINE_LAMBDA {
            auto v = load<Part>((char*)&pieces[k.value] + part * bytes);
            char* to = pixels + (part * D + k) * bytes;
            if constexpr (streams) __builtin_nontemporal_store(v, (Part*)__builtin_assume_aligned(to, bytes));
            else store(to, v);
        });
    });
}
template <class T, int C, int P, bool streams = false> INLINE void put_together(const Vec<T, P> (&planes)[C], char* pixels) {
    constexpr int each = P / parts_of<T, P>;
    store_pieces<T, C, P, streams>(pixels, [&](auto k) INLINE_LAMBDA {
        constexpr int first = decltype(k)::value * each;
        constexpr auto place = [](int i) { int at = first + i % each; return at % C * P + i / each * each + at / C; };
        return gathered<place, C, T, P>(planes);
    });
}
