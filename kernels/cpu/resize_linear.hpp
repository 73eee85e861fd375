// OpenCV's INTER_LINEAR of bytes: rows one by one, as they lie. A word has both taps of a pixel of up to four elements, or of
// four pixels of a plane, and becomes four sums without their 4 lowest bits; tables are those of `TapRows`.
//
//     pixels   r g b r g b . .   r g b r g b . .   ...      planes   x x y y z z w w   ...
#pragma once
#include "resize.hpp"

// The sums of a register's words, in each of R rows, from pixel `first` on.
template <bool of_pixels, int R> struct WordRows {
    static constexpr int words = VECTOR / 8, each = of_pixels ? 1 : 4, pixels = words * each;  // pixels of a word, and of all
    typedef Vec<uint8_t, VECTOR> Bytes;
    typedef Vec<int16_t, VECTOR / 2> Made;
    const char* rows[R];
    const int64_t *indices, *shifts;
    const int32_t* weights;
    Bytes places[2];
    INLINE WordRows(const Geometry& g, ReadRows from) {
        unrolled<R>([&](auto r) INLINE_LAMBDA { rows[r] = from[r]; });
        unrolled<VECTOR / 16>([&](auto k) INLINE_LAMBDA { store((char*)places + 16 * k, load<Vec<uint8_t, 16>>(g.places)); });
        places[1] = pick(places[0] < 16, places[0] + 8, places[0]);
        indices = g.column.indices; shifts = g.column.counts; weights = g.column.weights;
    }
    INLINE void at(int64_t first, Made (&made)[R]) const {
        typedef either<of_pixels, double, uint16_t> Load;
        Vec<Load, pixels> loaded[R];
        unrolled<pixels>([&](auto k) INLINE_LAMBDA {
            const int64_t place = indices[first + k];
            unrolled<R>([&](auto r) INLINE_LAMBDA { loaded[r][k.value] = load<Load>(rows[r] + place); });
        });
        // Weights are those of 8 words, the even ones before the odd ones.
        const int64_t word = first / each;
        const int32_t* weight = weights + word / 8 * 32 + word % 8 * 2;
        unrolled<R>([&](auto r) INLINE_LAMBDA {
            auto taps = bits<Bytes>(loaded[r]);
            typedef Vec<uint64_t, words> Bits;
            if constexpr (of_pixels) taps = bits<Bytes>(bits<Bits>(taps) >> load<Bits>(shifts + first));  // near a row's end
            Sums<LANES> sums[2];
            unrolled<2>([&](auto half) INLINE_LAMBDA {
                auto pairs = bits<Vec<int16_t, 2 * LANES>>(placed<VECTOR>(taps, places[half]));
                sums[half] = pair_products<LANES>(pairs, load<Sums<LANES>>(weight + 16 * half)) >> 4;
            });
            made[r] = bits<Made>(packed_words<LANES>(sums[0], sums[1]));
        });
    }
};
template <bool of_pixels, int R> void along_words(const Geometry& g, ReadRows from, WrittenRows to, char*, ReadRows) {
    typedef WordRows<of_pixels, R> From;
    const From read(g, from);
    char* into[R];
    unrolled<R>([&](auto r) INLINE_LAMBDA { into[r] = to[r]; });
    for (int64_t x = 0, count = g.columns; x < count; x += 8 * From::each)
        for (int64_t first = x; first < x + 8 * From::each; first += From::pixels) {
            typename From::Made made[R];
            read.at(first, made);
            unrolled<R>([&](auto r) INLINE_LAMBDA { store(into[r] + first * 8 / From::each, made[r]); });
        }
}
// Two rows of sums to bytes: the terms are the upper halves of products.
template <int N> INLINE Vec<uint8_t, N> linear(Vec<int16_t, N> upper, Vec<int16_t, N> lower, int32_t weights) {
    auto term = [](Vec<int16_t, N> sums, int32_t weight) INLINE_LAMBDA {
        return cast<int16_t, int32_t, N>((cast<int32_t, int16_t, N>(sums) * weight) >> 16);
    };
    auto whole = (term(upper, int16_t(weights)) + term(lower, weights >> 16) + 2) >> 2;
    return cast<uint8_t, int16_t, N>(pick(whole < 255, whole, all<int16_t, N>(255)));
}
// 16 pixels of 4 bytes each as C planes, or as pixels without gaps.
template <int C, bool planar> INLINE void store_pixels(Vec<uint8_t, 64> pixels, char* into, int64_t x, int64_t apart) {
    if constexpr (planar) {
        pixels = shuffle<64, [](int i) { return i / 16 + i % 16 * 4; }>(pixels, pixels);
        unrolled<C>([&](auto c) INLINE_LAMBDA { store(into + c * apart + x, load<Vec<uint8_t, 16>>((char*)&pixels + 16 * c)); });
    } else if constexpr (C == 4) store(into + 4 * x, pixels);
    else if constexpr (C == 3 && VECTOR == 64) {
        pixels = shuffle<64, [](int i) { return i < 48 ? i / 3 * 4 + i % 3 : 0; }>(pixels, pixels);
        store(into + 3 * x, load<Vec<uint8_t, 32>>(&pixels));
        store(into + 3 * x + 32, load<Vec<uint8_t, 16>>((char*)&pixels + 32));
    } else {
        constexpr auto place = [](int i) { int at = i % 16; return i / 16 * 16 + (at < 4 * C ? at / C * 4 + at % C : 0); };
        pixels = shuffle<64, place>(pixels, pixels);
        unrolled<4>([&](auto k) INLINE_LAMBDA { store(into + C * (x + 4 * k), load<Vec<uint8_t, 16>>((char*)&pixels + 16 * k)); });
    }
}
template <int C, bool planar>
void down_words(const Geometry& g, const char* rows, int64_t pitch, int64_t row, char* into, int64_t elements) {
    typedef Vec<int16_t, 32> Words;
    const char *upper = rows + g.row.indices[2 * row] * pitch, *lower = rows + g.row.indices[2 * row + 1] * pitch;
    const int32_t weights = g.row.weights[row];
    auto step = [&](int64_t at) INLINE_LAMBDA {
        return linear<32>(load<Words>(upper + 2 * at), load<Words>(lower + 2 * at), weights);
    };
    if constexpr (C == 1) for (int64_t x = 0; x < elements; x += 32) store(into + x, step(x));
    else for (int64_t x = 0, count = g.columns, apart = g.channel_out / ROWS; x < count; x += ROWS) {
        Vec<uint8_t, 64> pixels;
        unrolled<2>([&](auto k) INLINE_LAMBDA { store((char*)&pixels + 32 * k, step(4 * x + 32 * k)); });
        store_pixels<C, planar>(pixels, into, x, apart);
    }
}
// Both passes of a row of the result, whose two rows of the source hardly another one reads.
template <int C, bool planar>
void linear_row(const Geometry& g, const char* source, int64_t pitch, int64_t row, char* into, int64_t) {
    typedef WordRows<(C > 1), 2> From;
    const char* from[2];
    for (int k = 0; k < 2; k++) from[k] = source + g.row.indices[2 * row + k] * pitch;
    const From read(g, from);
    const int32_t weights = g.row.weights[row];
    const int64_t count = g.columns, apart = g.channel_out / ROWS;
    auto step = [&](int64_t first) INLINE_LAMBDA {
        typename From::Made made[2];
        read.at(first, made);
        return linear<VECTOR / 2>(made[0], made[1], weights);
    };
    if constexpr (C == 1) for (int64_t x = 0; x < count; x += From::pixels) store(into + x, step(x));
    else for (int64_t x = 0; x < count; x += ROWS) {
        Vec<uint8_t, 64> pixels;
        unrolled<ROWS / From::pixels>([&](auto k) INLINE_LAMBDA {
            store((char*)&pixels + k * (VECTOR / 2), step(x + k * From::pixels));
        });
        store_pixels<C, planar>(pixels, into, x, apart);
    }
}

// Blocks of 2 x 2 without gaps, for at least 16 pixels of the result: neighbouring bytes are added, then both rows. 16 bytes
// have two pixels of the result, of four bytes each, or eight of a plane; behind the first step loads begin as much earlier as
// they would end behind the row. The last step is moved back.
INLINE Vec<uint16_t, VECTOR / 2> neighbours(Vec<uint8_t, VECTOR> v) {
    typedef Vec<uint16_t, VECTOR / 2> Words;
#if defined(__AVX512BW__)
    return bits<Words>(__builtin_ia32_pmaddubsw512(v, bits<Vec<char, VECTOR>>(all<uint8_t, VECTOR>(1))));
#elif defined(__AVX2__)
    return bits<Words>(__builtin_ia32_pmaddubsw256(bits<Vec<char, VECTOR>>(v), bits<Vec<char, VECTOR>>(all<uint8_t, VECTOR>(1))));
#else
    auto words = bits<Words>(v);
    return (words & 255) + (words >> 8);
#endif
}
template <int C, bool planar>
void halves_row(const Geometry& g, const char* source, int64_t pitch, int64_t row, char* into, int64_t) {
    typedef Vec<uint8_t, VECTOR> Bytes;
    constexpr int parts = VECTOR / 16, pixels = C == 1 ? VECTOR / 2 : parts * 2;  // of a register
#if defined(__AVX512VBMI__)
    constexpr bool at_once = C > 1;  // one load and one permutation of bytes in place of four loads
#else
    constexpr bool at_once = false;
#endif
    constexpr int64_t apart = 4 * C;  // from the pixels of 16 bytes to the next
    constexpr int64_t early = C == 1 ? 0 : at_once ? VECTOR - apart * parts : 16 - apart;
    const char* rows[2];
    for (int k = 0; k < 2; k++) rows[k] = source + g.row.indices[2 * row + k] * pitch + g.column.indices[0];
    const int64_t count = g.columns, out = g.channel_out / ROWS;
    Bytes places;
    unrolled<parts>([&](auto k) INLINE_LAMBDA {
        auto of_pixels = load<Vec<uint8_t, 16>>(g.places);
        if constexpr (at_once) of_pixels += uint8_t(apart * k);
        store((char*)&places + 16 * k, of_pixels);
    });
    auto halved = [&](int64_t x, Bytes wanted, int64_t before) INLINE_LAMBDA {
        Vec<uint16_t, VECTOR / 2> sums[2];
        unrolled<2>([&](auto k) INLINE_LAMBDA {
            const char* from = rows[k] + 2 * C * x - before;
            Bytes v;
            if constexpr (C == 1 || C == 4 || at_once) v = load<Bytes>(from);
            else unrolled<parts>([&](auto part) INLINE_LAMBDA {
                store((char*)&v + 16 * part, load<Vec<uint8_t, 16>>(from + part * apart));
            });
#if defined(__AVX512VBMI__)
            if constexpr (at_once) v = bits<Bytes>(__builtin_ia32_permvarqi512(bits<Vec<char, 64>>(v), bits<Vec<char, 64>>(wanted)));
#endif
            if constexpr (C > 1 && !at_once) v = placed<VECTOR>(v, wanted);
            sums[k] = neighbours(v);
        });
        return cast<uint8_t, uint16_t, VECTOR / 2>((sums[0] + sums[1] + 2) >> 2);
    };
    if constexpr (C == 1) {
        int64_t x = 0;
        for (; x + pixels <= count; x += pixels) store(into + x, halved(x, places, 0));
        if (x < count) store(into + count - pixels, halved(count - pixels, places, 0));
    } else {
        auto step = [&](int64_t x, Bytes wanted, int64_t before) INLINE_LAMBDA {
            Vec<uint8_t, 64> made;
            unrolled<ROWS / pixels>([&](auto k) INLINE_LAMBDA {
                store((char*)&made + k * (VECTOR / 2), halved(x + k * pixels, wanted, before));
            });
            store_pixels<C, planar>(made, into, x, out);
        };
        const Bytes later = places + uint8_t(early);
        // The first step reads no further than the second one would.
        step(0, places, 0);
        int64_t x = ROWS;
        for (; x + ROWS <= count; x += ROWS) step(x, later, early);
        if (x < count) step(count - ROWS, later, early);
    }
}

inline void rows_as_they_lie(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    for_bands(source, target, parameters, first, last,
              [](const Geometry& g, const char* read, char* scratch, int64_t begin, int64_t end, int64_t& next) INLINE_LAMBDA {
        char *const ring = scratch + g.ring_at, *made = scratch + g.band_at;
        for (int64_t row = begin; row < end; row++, made += g.band_pitch) {
            for (const int64_t stop = g.row_ends[row]; next < stop;) {
                const int count = next + 1 < stop ? 2 : 1;
                for (int64_t plane = 0; plane < g.planes; plane++) {
                    const char* from[2]; char* into[2];
                    for (int k = 0; k < count; k++) {
                        char* const prepared = scratch + g.rows_at + k * g.rows_pitch;
                        from[k] = source_row(g, read + plane * g.plane_stride, next + k, prepared);
                        into[k] = ring + ((next + k) & g.ring_mask) * g.ring_pitch + plane * g.unit * g.ring_bytes;
                    }
                    (count == 2 ? g.along_two : g.along)(g, from, into, scratch, nullptr);
                }
                next += count;
            }
            g.down(g, ring, g.ring_pitch, row, made, g.unit * g.planes);
        }
    });
}

inline void both_passes(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    for_bands(source, target, parameters, first, last,
              [](const Geometry& g, const char* read, char* scratch, int64_t begin, int64_t end, int64_t&) INLINE_LAMBDA {
        for (int64_t plane = 0; plane < g.planes; plane++) {
            int64_t next = g.row_firsts[begin];
            char* made = scratch + g.band_at + plane * g.unit;
            for (int64_t row = begin; row < end; row++, made += g.band_pitch) {
                const SourceRows from = source_rows(g, read + plane * g.plane_stride, row, next, scratch + g.rows_at);
                g.down(g, from.start, from.pitch, row, made, 0);
            }
        }
    });
}
