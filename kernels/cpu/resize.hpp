// Resizes of bytes by filters: both passes over bands of rows, in scratch memory of each thread.
//
//     source rows     16 at a time, each at any address, turned to
//     columns         pairs of neighbouring pixels of 16 rows, each channel's one behind the other:
//                     one multiplication for both, and one pair of weights for all rows
//     first pass      along x; columns are turned back to rows of a
//     ring            whose rows have pixels or planes, as the target has
//     second pass     along y, for pairs of rows
//     band            up to 16 finished rows, which another loop converts and writes to the target
//
// Where rows come first, the pass along y reads the source and leaves 16 rows, which go along x into the band.
// Pillow's weights have 22 fractional bits and a sign. They are w = high * 2^11 + low, two parts of 16 bits, and the whole
// sum is exact in 32 bits. torch's weights are one part. Both sums are rounded half up, shifted, and clamped.
#pragma once
#include "simd.hpp"
#include "loops.hpp"

constexpr int ROWS = 16;            // of a band, and of a step along x
constexpr int PAIR = 2 * ROWS;      // bytes of a pair of pixels of 16 rows
constexpr int BITS = 22, LOW = 11;  // fractional bits of weights, and of their lower part
constexpr int64_t ENDS = PAIR * ROWS;

// What is computed at once: a register's 32-bit sums.
constexpr int LANES = VECTOR / 4;
constexpr int STEP = VECTOR < 32 ? 32 : VECTOR;  // elements of a step along y, at most
template <int N> using Sums = Vec<int32_t, N>;

// Of many pairs, every other one has sums of its own: an instruction that multiplies and adds takes several cycles.
constexpr int CHAINS =
#if defined(__AVX512VNNI__)
    2;
#else
    1;
#endif

// The sums of pairs of 16-bit products.
template <int N> INLINE Sums<N> pair_products(Vec<int16_t, 2 * N> pixels, Sums<N> weights) {
    auto w = bits<Vec<int16_t, 2 * N>>(weights);
#if defined(__AVX512BW__)
    if constexpr (N == 16) return bits<Sums<N>>(__builtin_ia32_pmaddwd512(pixels, w));
#endif
#if defined(__AVX2__)
    if constexpr (N == 8) return bits<Sums<N>>(__builtin_ia32_pmaddwd256(pixels, w));
    if constexpr (N == 4) return bits<Sums<N>>(__builtin_ia32_pmaddwd128(pixels, w));
#endif
    auto a = shuffle<N, [](int i) { return 2 * i; }>(pixels, pixels), b = shuffle<N, [](int i) { return 2 * i + 1; }>(pixels, pixels);
    return cast<int32_t, int16_t, N>(a) * (weights << 16 >> 16) + cast<int32_t, int16_t, N>(b) * (weights >> 16);
}
template <int N> INLINE Sums<N> pair_products(Vec<int16_t, 2 * N> pixels, int32_t weights) { return pair_products<N>(pixels, all<int32_t, N>(weights)); }

// Elements of two vectors side by side within each 16 bytes: the lower halves, or the upper ones.
template <int upper, class T, int N> INLINE Vec<T, N> interleaved(Vec<T, N> a, Vec<T, N> b) {
    constexpr int L = 16 / sizeof(T);
    return shuffle<N, [](int i) { return i / L * L + i % L / 2 + upper * (L / 2) + N * (i % 2); }>(a, b);
}

// Transpose the elements within each 16 bytes of L vectors: log2(L) rounds of interleaving those half the height apart.
template <int L, class T, int N, int round = 1> INLINE void transpose_lanes(Vec<T, N> (&lines)[L]) {
    if constexpr (round < L) {
        Vec<T, N> turned[L];
        unrolled<L>([&](auto r) INLINE_LAMBDA { turned[r] = interleaved<decltype(r)::value % 2, T, N>(lines[r / 2], lines[r / 2 + L / 2]); });
        unrolled<L>([&](auto r) INLINE_LAMBDA { lines[r] = turned[r]; });
        transpose_lanes<L, T, N, 2 * round>(lines);
    }
}

// Four vectors of sums clamped to bytes: four bytes of each in turn within 16 bytes.
template <int N> INLINE Vec<uint8_t, 4 * N> packed(Sums<N> a, Sums<N> b, Sums<N> c, Sums<N> d) {
    typedef Vec<uint8_t, 4 * N> Bytes;
#if defined(__AVX512BW__)
    if constexpr (N == 16) return bits<Bytes>(__builtin_ia32_packuswb512(__builtin_ia32_packssdw512(a, b), __builtin_ia32_packssdw512(c, d)));
#endif
#if defined(__AVX2__)
    if constexpr (N == 8) return bits<Bytes>(__builtin_ia32_packuswb256(__builtin_ia32_packssdw256(a, b), __builtin_ia32_packssdw256(c, d)));
    if constexpr (N == 4) return bits<Bytes>(__builtin_ia32_packuswb128(__builtin_ia32_packssdw128(a, b), __builtin_ia32_packssdw128(c, d)));
#endif
    auto clamped = [](Sums<N> x) INLINE_LAMBDA {
        x = pick(x > 0, x, Sums<N>{});
        return cast<uint8_t, int32_t, N>(pick(x < 255, x, all<int32_t, N>(255)));
    };
    Vec<uint8_t, N> parts[4] = {clamped(a), clamped(b), clamped(c), clamped(d)};
    auto joined = load<Bytes>(parts);
    return shuffle<4 * N, [](int i) { return i / 4 % 4 * N + i / 16 * 4 + i % 4; }>(joined, joined);
}

// Two vectors of sums below 2^16 as words: four of one and four of the other within 16 bytes.
template <int N> INLINE Vec<uint16_t, 2 * N> packed_words(Sums<N> a, Sums<N> b) {
    typedef Vec<uint16_t, 2 * N> Words;
#if defined(__AVX512BW__)
    if constexpr (N == 16) return bits<Words>(__builtin_ia32_packusdw512(a, b));
#endif
#if defined(__AVX2__)
    if constexpr (N == 8) return bits<Words>(__builtin_ia32_packusdw256(a, b));
#endif
    return cast<uint16_t, int32_t, 2 * N>(shuffle<2 * N, [](int i) { return i / 8 * 4 + i % 4 + i % 8 / 4 * N; }>(a, b));
}

// The bytes of each 16 that `places` names there; 0 for a negative place.
template <int N> INLINE Vec<uint8_t, N> placed(Vec<uint8_t, N> v, Vec<uint8_t, N> places) {
#if defined(__AVX512BW__)
    if constexpr (N == 64) return bits<Vec<uint8_t, N>>(__builtin_ia32_pshufb512(v, places));
#endif
#if defined(__AVX2__)
    if constexpr (N == 32) return bits<Vec<uint8_t, N>>(__builtin_ia32_pshufb256(v, places));
    if constexpr (N == 16) return bits<Vec<uint8_t, N>>(__builtin_ia32_pshufb128(v, places));
#endif
    Vec<uint8_t, N> r;
    for (int i = 0; i < N; i++) r[i] = places[i] < 16 ? v[i / 16 * 16 + places[i]] : 0;
    return r;
}

struct Geometry;
typedef void (*Along)(const Geometry&, const char* const* rows, char* const* into, char* columns, const char* const* ahead);
typedef void (*Down)(const Geometry&, const char* rows, int64_t pitch, int64_t row, char* into, int64_t elements);
typedef void (*Premultiply)(const Geometry&, const char* row, char* into);
typedef void (*Divide)(const Geometry&, char* row);
typedef void (*IntoColumns)(const Geometry&, const char* const* rows, char* columns);
typedef void (*IntoRows)(const Geometry&, const char* columns, char* const* rows);

// The fields of a geometry are those of GEOMETRY in stridedgpu/devices/cpu/compiled/resize_kernel.py.
struct Taps { int64_t groups; const int64_t *counts, *indices; const int32_t* weights; int64_t unused; };
struct BandMove { Loop loop; const void* parameters; int64_t items, source, target; };
struct Geometry {
    char* (*allocate)(int64_t); void (*release)(char*); int64_t scratch_bytes;
    const int64_t* sources; int64_t row_stride, planes, plane_stride, elements, columns;
    Taps column, row; const int64_t *row_firsts, *row_ends;
    int64_t ring_mask, ring_pitch, unit, outputs_at, ring_at, band_at, target_row;
    BandMove whole, rest;
    int64_t band_pitch, factor; Loop rows_kernel; int64_t rows_at, rows_pitch;
    Along along; Down down;
    int64_t pixel_out, channel_out;      // from a resized pixel to the next, and from a channel, among the outputs
    int64_t step, pixels;                // from a pixel to the next, and how many a row has
    uint8_t places[16];                  // of the pairs in 16 bytes of a row
    int64_t block, pairs, pair_pitch;    // pixels of whole pairs in 16 bytes, their pairs, and from a pair to the next
    int64_t joined, joined_strides[4];   // planes whose pairs lie side by side
    IntoColumns into_columns; IntoRows into_rows;
    Along along_two;                     // of two rows as they lie
    Premultiply premultiply; Divide divide; int64_t alpha;  // the place of alpha among the channels of a resized pixel
    int64_t ring_bytes, band_bytes, shift;  // of elements; and of sums of integers along y
};
struct Entry { int64_t source, target; const Geometry* geometry; int64_t first, last; };

// Along x

// 16 rows to columns and back, in squares whose side is a register, or 16; bytes as many squares at once as it has.
template <class T> constexpr int side = VECTOR / sizeof(T) < ROWS ? VECTOR / sizeof(T) : ROWS;
template <class T> INLINE void transpose_square(Vec<T, side<T>> (&lines)[side<T>]) {
    constexpr int N = side<T>;
    for (int round = 1; round < N; round *= 2) {
        Vec<T, N> turned[N];
        unrolled<N>([&](auto r) INLINE_LAMBDA {
            turned[r] = shuffle<N, [](int i) { return i / 2 + decltype(r)::value % 2 * (N / 2) + N * (i % 2); }>(lines[r / 2], lines[r / 2 + N / 2]);
        });
        unrolled<N>([&](auto r) INLINE_LAMBDA { lines[r] = turned[r]; });
    }
}
// read(r, c) and write(c, r, vector): neighbours of row r from column c on, and of column c from row r on.
template <class T, class Read, class Write> INLINE void transpose_block(Read read, Write write) {
    constexpr int N = side<T>;
    for (int column = 0; column < ROWS; column += N) for (int row = 0; row < ROWS; row += N) {
        Vec<T, N> lines[N];
        unrolled<N>([&](auto k) INLINE_LAMBDA { lines[k] = read(row + k, column, lines[k]); });
        transpose_square<T>(lines);
        unrolled<N>([&](auto k) INLINE_LAMBDA { write(column + k, row, lines[k]); });
    }
}
template <class T> void into_columns(const Geometry& g, const char* const* rows, char* columns) {
    constexpr int64_t bytes = sizeof(T);
    int64_t at = 0;
    if constexpr (bytes == 1) for (; at + VECTOR <= g.elements; at += VECTOR) {
        Vec<uint8_t, VECTOR> block[ROWS];
        unrolled<ROWS>([&](auto k) INLINE_LAMBDA { block[k] = load<Vec<uint8_t, VECTOR>>(rows[k] + at); });
        transpose_lanes<ROWS, uint8_t, VECTOR>(block);
        unrolled<ROWS>([&](auto k) INLINE_LAMBDA { unrolled<VECTOR / 16>([&](auto part) INLINE_LAMBDA {
            store(columns + (at + 16 * part + k) * ROWS, load<Vec<uint8_t, 16>>((char*)&block[k] + 16 * part));
        }); });
    }
    for (; at < g.elements; at += ROWS) {
        const int64_t x = at + ROWS <= g.elements ? at : g.elements - ROWS;
        transpose_block<T>([&](int row, int column, auto v) INLINE_LAMBDA { return load<decltype(v)>(rows[row] + (x + column) * bytes); },
                           [&](int column, int row, auto v) INLINE_LAMBDA { store(columns + ((x + column) * ROWS + row) * bytes, v); });
    }
}
template <class T> INLINE void turn_back(const char* columns, char* const* rows, int64_t unit) {
    constexpr int64_t bytes = sizeof(T);
    // What lies behind a row is written again, or never read.
    if constexpr (bytes == 1) for (int64_t x = 0; x < unit; x += VECTOR) {
        Vec<uint8_t, VECTOR> block[ROWS];
        unrolled<ROWS>([&](auto k) INLINE_LAMBDA { unrolled<VECTOR / 16>([&](auto part) INLINE_LAMBDA {
            store((char*)&block[k] + 16 * part, load<Vec<uint8_t, 16>>(columns + (x + 16 * part + k) * ROWS));
        }); });
        transpose_lanes<ROWS, uint8_t, VECTOR>(block);
        unrolled<ROWS>([&](auto k) INLINE_LAMBDA { store(rows[k] + x, block[k]); });
    } else for (int64_t x = 0; x < unit; x += ROWS)
        transpose_block<T>([&](int column, int row, auto v) INLINE_LAMBDA { return load<decltype(v)>(columns + ((x + column) * ROWS + row) * bytes); },
                           [&](int row, int column, auto v) INLINE_LAMBDA { store(rows[row] + (x + column) * bytes, v); });
}
template <class T> void into_rows(const Geometry& g, const char* columns, char* const* rows) { turn_back<T>(columns, rows, g.unit); }

// The pairs in 16 bytes of 16 rows from an address on: a pair of all rows is 32 bytes. Where a register has two of the
// four groups of rows, groups 1 and 2 change places here, and again in `store_elements`.
constexpr bool swaps = VECTOR < 64;
struct Turn { Vec<uint8_t, VECTOR> places; int64_t pairs, pair_pitch; };
template <bool together> INLINE void turn(const char* const (&rows)[ROWS], int64_t at, const Turn& t, char* to) {
    typedef Vec<uint8_t, VECTOR> V;
    constexpr int in = VECTOR / 16, parts = 4 / in;
    Vec<uint32_t, VECTOR / 4> pairs[4][parts];  // two pairs, of four neighbouring rows each, in 16 bytes
    unrolled<parts>([&](auto part) INLINE_LAMBDA {
        Vec<uint16_t, VECTOR / 2> four[4];
        unrolled<4>([&](auto k) INLINE_LAMBDA {
            V joined;
            unrolled<in>([&](auto group) INLINE_LAMBDA { store((char*)&joined + 16 * group, load<Vec<uint8_t, 16>>(rows[4 * (part * in + group) + k] + at)); });
            four[k] = bits<Vec<uint16_t, VECTOR / 2>>(placed<VECTOR>(joined, t.places));
        });
        unrolled<4>([&](auto number) INLINE_LAMBDA {
            constexpr int upper = decltype(number)::value / 2, after = decltype(number)::value % 2;
            auto a = bits<Vec<uint32_t, VECTOR / 4>>(interleaved<upper, uint16_t, VECTOR / 2>(four[0], four[1]));
            auto b = bits<Vec<uint32_t, VECTOR / 4>>(interleaved<upper, uint16_t, VECTOR / 2>(four[2], four[3]));
            pairs[number][part] = interleaved<after, uint32_t, VECTOR / 4>(a, b);
        });
    });
    unrolled<4>([&](auto number) INLINE_LAMBDA {
        if (2 * number >= t.pairs) return;
        auto groups = load<Vec<uint64_t, 8>>(pairs[number]);
        auto both = shuffle<8, [](int i) { return (swaps ? i % 4 / 2 * 2 + i % 2 * 4 : i % 4 * 2) + i / 4; }>(groups, groups);
        const int64_t apart = together ? PAIR : t.pair_pitch;
        char* into = to + 2 * number * apart;
        if constexpr (together) store(into, both);
        else {
            store(into, load<Vec<uint64_t, 4>>(&both));
            store(into + apart, load<Vec<uint64_t, 4>>((char*)&both + PAIR));
        }
    });
}

// The pairs of whole rows. No byte behind a row is read: its last 16 are copied, and the last pairs are those of copies.
template <int C, bool together> INLINE void pair_columns(const Geometry& g, const char* const (&rows)[ROWS], char* columns) {
    const int64_t step = g.step, block = g.block, last = g.elements - 16, whole = last / step + 1;
    Turn t = {{}, g.pairs, g.pair_pitch};
    for (int at = 0; at < VECTOR; at += 16) store((char*)&t.places + at, load<Vec<uint8_t, 16>>(g.places));
    int64_t pixel = 0;
    for (; pixel < whole; pixel += block) turn<together>(rows, pixel * step, t, columns + pixel * (C * PAIR / 2));
    if (pixel >= g.pixels) return;
    char* ends = columns + g.outputs_at - ENDS;
    const char* copies[ROWS];
    for (int k = 0; k < ROWS; k++) {
        copies[k] = ends + k * PAIR - last;
        store(ends + k * PAIR, load<Vec<uint8_t, 16>>(rows[k] + last));
    }
    for (; pixel < g.pixels; pixel += block) turn<together>(copies, pixel * step, t, columns + pixel * (C * PAIR / 2));
}

// 16 rows of a sum for each channel, as bytes: those of a channel one behind the other.
template <int C> INLINE void store_elements(Sums<LANES> (&sums)[ROWS / LANES][C], char* out, int64_t apart) {
    constexpr int vectors = ROWS / LANES;
    constexpr bool few = vectors == 2 && C <= 2;  // one vector has all
    Vec<uint8_t, few ? 32 : 64> line;
    if constexpr (few) {
        auto quarters = bits<Vec<uint64_t, 4>>(packed<LANES>(sums[0][0], sums[1][0], sums[0][C - 1], sums[1][C - 1]));
        line = bits<Vec<uint8_t, 32>>(shuffle<4, [](int i) { return i % 2 * 2 + i / 2; }>(quarters, quarters));
    } else {
        unrolled<vectors>([&](auto k) INLINE_LAMBDA {
            auto of = [&](int c) INLINE_LAMBDA { return sums[k][c < C ? c : C - 1]; };
            store((char*)&line + k * VECTOR, packed<LANES>(of(0), of(1), of(2), of(3)));
        });
        auto groups = bits<Vec<uint32_t, 16>>(line);
        constexpr auto place = [](int i) { int group = i % 4; return 4 * (swaps ? group / 2 + group % 2 * 2 : group) + i / 4; };
        line = bits<Vec<uint8_t, 64>>(shuffle<16, place>(groups, groups));
    }
    unrolled<C>([&](auto c) INLINE_LAMBDA { store(out + c * apart, load<Vec<uint8_t, 16>>((char*)&line + 16 * c)); });
}

template <int C, int PARTS> void along_pairs(const Geometry& g, const char* const* from, char* const* to, char* columns, const char* const* ahead) {
    const char* rows[ROWS]; char* into[ROWS];
    for (int k = 0; k < ROWS; k++) { rows[k] = from[k] + g.joined_strides[0]; into[k] = to[k]; }
    if (g.joined == 1) pair_columns<C, true>(g, rows, columns);
    else for (int64_t plane = 0; plane < g.joined; plane++) {
        for (int k = 0; k < ROWS; k++) rows[k] = from[k] + g.joined_strides[plane];
        pair_columns<C, false>(g, rows, columns + plane * PAIR);
    }
    // Where rows shrink, the 16 rows behind these are prefetched to the L2 cache, a part of a row with each column.
    const int64_t read = g.elements * ROWS / g.columns, part = (read | (LINE - 1)) + 1;
    if (read <= LINE) ahead = nullptr;
    const int64_t shift = PARTS == 1 ? BITS - g.column.unused : BITS, half = int64_t(1) << shift >> 1;
    char* const outputs = columns + g.outputs_at;
    const int64_t pixel_out = g.pixel_out, channel_out = g.channel_out, groups = g.column.groups, *counts = g.column.counts;
    auto columns_of = [&](auto many) INLINE_LAMBDA {
        constexpr int chains = decltype(many)::value, vectors = ROWS / LANES;
        // Registers of rows at once, as far as their sums are half of the registers.
        constexpr int at_once = C * PARTS * vectors <= 8 ? vectors : 1, sets = C * at_once;
        const int64_t* index = g.column.indices;
        const int32_t* begin = g.column.weights;
        char* out = outputs;
        for (int64_t x = 0, count = g.columns; x < count; x++) {
            if (ahead) for (int64_t plane = 0; plane < g.joined; plane++) {
                const char* row = ahead[x % ROWS] + g.joined_strides[plane] + x / ROWS * part;
                for (int64_t line = 0; line < part; line += LINE) __builtin_prefetch(row + line, 0, 2);
            }
            const char* const pixel = columns + (*index & -2) * (C * PAIR / 2);
            Sums<LANES> sums[vectors][C];
            unrolled<vectors / at_once>([&](auto k) INLINE_LAMBDA {
                Sums<LANES> high[sets * chains] = {}, low[sets * chains] = {};
                unrolled<sets>([&](auto set) INLINE_LAMBDA { low[set] = all<int32_t, LANES>(int32_t(half)); });
                const char* at = pixel + k * at_once * 2 * LANES;
                const int32_t* weights = begin;
                auto add = [&](auto chain) INLINE_LAMBDA {
                    unrolled<sets>([&](auto set) INLINE_LAMBDA {
                        constexpr int into = decltype(chain)::value * sets + decltype(set)::value;
                        auto words = cast<int16_t, uint8_t, 2 * LANES>(load<Vec<uint8_t, 2 * LANES>>(at + (chain * C + set / at_once) * PAIR + set % at_once * 2 * LANES));
                        if constexpr (PARTS == 2) high[into] += pair_products<LANES>(words, weights[chain * PARTS]);
                        low[into] += pair_products<LANES>(words, weights[chain * PARTS + PARTS - 1]);
                    });
                };
                int64_t pairs = counts[x];
                for (; pairs >= chains; pairs -= chains, at += chains * C * PAIR, weights += chains * PARTS) unrolled<chains>(add);
                if (chains > 1 && pairs > 0) add(Count<0>());
                unrolled<sets>([&](auto set) INLINE_LAMBDA {
                    if constexpr (chains > 1) { high[set] += high[sets + set]; low[set] += low[sets + set]; }
                    sums[k * at_once + set % at_once][set / at_once] = ((high[set] << LOW) + low[set]) >> int32_t(shift);
                });
            });
            store_elements<C>(sums, out, channel_out);
            out += pixel_out; index += groups * 2; begin += groups * PARTS;
        }
    };
    if (CHAINS > 1 && groups >= 6) columns_of(Count<CHAINS>()); else columns_of(Count<1>());
    turn_back<uint8_t>(outputs, into, g.unit);
}

// Along y: a register of neighbouring bytes at a time. The last one of a row of the source is moved back to end with it.
// Of few pairs the number is a constant, and their rows and weights stay in registers: of one, and where registers are
// narrow, for which each step is less work, of up to three.
template <int V, int PARTS, int COUNT> INLINE void down_steps(const char* rows, int64_t pitch, const int64_t* indices, const int32_t* weights, int64_t count, int32_t shift, char* into, int64_t nbytes) {
    typedef Vec<uint8_t, V> Bytes;
    const int32_t half = 1 << shift >> 1;
    const char* start[2 * COUNT + 2];
    for (int k = 0; k < 2 * COUNT; k++) start[k] = rows + indices[k] * pitch;
    auto step = [&](int64_t x) INLINE_LAMBDA {
        Sums<V / 4> high[4] = {}, low[4];
        unrolled<4>([&](auto k) INLINE_LAMBDA { low[k] = all<int32_t, V / 4>(half); });
        auto add = [&](const char* upper, const char* lower, const int32_t* weight) INLINE_LAMBDA {
            Bytes a = load<Bytes>(upper + x), b = load<Bytes>(lower + x);
            Bytes halves[2] = {interleaved<0, uint8_t, V>(a, b), interleaved<1, uint8_t, V>(a, b)};
            unrolled<4>([&](auto k) INLINE_LAMBDA {
                auto words = bits<Vec<int16_t, V / 2>>(interleaved<decltype(k)::value % 2, uint8_t, V>(halves[k / 2], Bytes{}));
                if constexpr (PARTS == 2) high[k] += pair_products<V / 4>(words, weight[0]);
                low[k] += pair_products<V / 4>(words, weight[PARTS - 1]);
            });
        };
        if constexpr (COUNT > 0) unrolled<COUNT>([&](auto pair) INLINE_LAMBDA { add(start[2 * pair], start[2 * pair + 1], weights + PARTS * pair); });
        else for (int64_t pair = 0; pair < count; pair++) add(rows + indices[2 * pair] * pitch, rows + indices[2 * pair + 1] * pitch, weights + PARTS * pair);
        auto whole = [&](int k) INLINE_LAMBDA { return ((high[k] << LOW) + low[k]) >> shift; };
        store(into + x, packed<V / 4>(whole(0), whole(1), whole(2), whole(3)));
    };
    int64_t x = 0;
    for (; x + V <= nbytes; x += V) step(x);
    if (x < nbytes) step(nbytes - V);
}
template <int PARTS> void down_pairs(const Geometry& g, const char* rows, int64_t pitch, int64_t row, char* into, int64_t nbytes) {
    const int64_t* indices = g.row.indices + row * g.row.groups * 2;
    const int32_t* weights = g.row.weights + row * g.row.groups * PARTS;
    const int64_t count = g.row.counts[row];
    const int32_t shift = int32_t(PARTS == 1 ? BITS - g.row.unused : BITS);
    auto steps = [&](auto width, auto pairs) INLINE_LAMBDA {
        down_steps<decltype(width)::value, PARTS, decltype(pairs)::value>(rows, pitch, indices, weights, count, shift, into, nbytes);
    };
    if (nbytes < VECTOR) steps(Count<16>(), Count<0>());
    else if (count == 1) steps(Count<VECTOR>(), Count<1>());
    else if (VECTOR < 64 && count == 2) steps(Count<VECTOR>(), Count<2>());
    else if (VECTOR < 64 && count == 3) steps(Count<VECTOR>(), Count<3>());
    else steps(Count<VECTOR>(), Count<0>());
}

// Rules with one tap at a time, and copies: columns are vectors of one element of 16 rows.
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
    } else if constexpr (finish == MEAN) return finished<W, HALF_EVEN, float>(cast<float, int32_t, ROWS>(sums) * factor, shift, factor);
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
    template <class R, int COUNT, class Load> static INLINE void sum(Vec<N, ROWS> (&sums)[COUNT], const Taps& taps, int64_t place, Load load_at) {
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
    template <class R, int COUNT, class Load> static INLINE void sum(Vec<N, ROWS> (&sums)[COUNT], const Taps& taps, int64_t place, Load load_at) {
        const int64_t* indices = taps.indices + place * taps.groups * 2;
        const int32_t* weights = taps.weights + place * taps.groups;
        unrolled<COUNT>([&](auto c) INLINE_LAMBDA { sums[c] = Vec<N, ROWS>{}; });
        for (int64_t pair = 0, count = taps.counts[place]; pair < count; pair++) unrolled<COUNT>([&](auto c) INLINE_LAMBDA {
            auto both = number_of<N, R>(load_at(indices[2 * pair], c)) | number_of<N, R>(load_at(indices[2 * pair + 1], c)) << 16;
            sums[c] += in_parts<N, LANES, N, ROWS>(both, [&](auto part) INLINE_LAMBDA { return pair_products<LANES>(bits<Vec<int16_t, 2 * LANES>>(part), weights[pair]); });
        });
    }
};
struct Copies {};

template <class R, class W, class Sum, Finish finish, int C> void along_numbers(const Geometry& g, const char* const* from, char* const* to, char* columns, const char* const* ahead) {
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
        if (ahead) for (int64_t line = 0; line < part; line += LINE) __builtin_prefetch(ahead[x % ROWS] + x / ROWS * part + line, 0, 2);
        auto load_at = [&](int64_t index, int c) INLINE_LAMBDA { return load<Column>(columns + index * int64_t(sizeof(Column)) + channels[c]); };
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
template <class R, class W, class Sum, Finish finish> void down_numbers(const Geometry& g, const char* rows, int64_t pitch, int64_t row, char* into, int64_t elements) {
    auto step = [&](auto vectors, int64_t x) INLINE_LAMBDA {
        constexpr int V = decltype(vectors)::value;
        typedef Vec<R, ROWS> Read;
        auto load_at = [&](int64_t index, int k) INLINE_LAMBDA { return load<Read>(rows + index * pitch + (x + k * ROWS) * int64_t(sizeof(R))); };
        if constexpr (same<Sum, Copies>) {
            const int64_t index = g.row.indices[row * g.row.groups];
            unrolled<V>([&](auto k) INLINE_LAMBDA { store(into + (x + k * ROWS) * sizeof(W), load_at(index, k)); });
        } else {
            typedef typename Sum::N N;
            Vec<N, ROWS> sums[V];
            Sum::template sum<R, V>(sums, g.row, row, load_at);
            const float factor = bits<float>(int32_t(g.factor));
            unrolled<V>([&](auto k) INLINE_LAMBDA { store(into + (x + k * ROWS) * sizeof(W), finished<W, finish, N>(sums[k], int32_t(g.shift), factor)); });
        }
    };
    int64_t x = 0;
    for (; x + 2 * ROWS <= elements; x += 2 * ROWS) step(Count<2>(), x);
    for (; x < elements; x += ROWS) step(Count<1>(), x + ROWS <= elements ? x : elements - ROWS);
}

// OpenCV's INTER_LINEAR of bytes: rows one by one, as they lie. A word has both taps of a pixel of up to four elements, or of
// four pixels of a plane, and becomes four sums without their 4 lowest bits; tables are those of `TapRows`.
//
//     pixels   r g b r g b . .   r g b r g b . .   ...      planes   x x y y z z w w   ...
// The sums of a register's words, in each of R rows, from pixel `first` on.
template <bool of_pixels, int R> struct WordRows {
    static constexpr int words = VECTOR / 8, each = of_pixels ? 1 : 4, pixels = words * each;  // pixels of a word, and of all
    typedef Vec<uint8_t, VECTOR> Bytes;
    typedef Vec<int16_t, VECTOR / 2> Made;
    const char* rows[R];
    const int64_t *indices, *shifts;
    const int32_t* weights;
    Bytes places[2];
    INLINE WordRows(const Geometry& g, const char* const* from) {
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
            if constexpr (of_pixels) taps = bits<Bytes>(bits<Vec<uint64_t, words>>(taps) >> load<Vec<uint64_t, words>>(shifts + first));  // near a row's end
            Sums<LANES> sums[2];
            unrolled<2>([&](auto half) INLINE_LAMBDA {
                auto pairs = bits<Vec<int16_t, 2 * LANES>>(placed<VECTOR>(taps, places[half]));
                sums[half] = pair_products<LANES>(pairs, load<Sums<LANES>>(weight + 16 * half)) >> 4;
            });
            made[r] = bits<Made>(packed_words<LANES>(sums[0], sums[1]));
        });
    }
};
template <bool of_pixels, int R> void along_words(const Geometry& g, const char* const* from, char* const* to, char*, const char* const*) {
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
    auto term = [](Vec<int16_t, N> sums, int32_t weight) INLINE_LAMBDA { return cast<int16_t, int32_t, N>((cast<int32_t, int16_t, N>(sums) * weight) >> 16); };
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
        store(into + 3 * x, load<Vec<uint8_t, 32>>(&pixels)); store(into + 3 * x + 32, load<Vec<uint8_t, 16>>((char*)&pixels + 32));
    } else {
        pixels = shuffle<64, [](int i) { int at = i % 16; return i / 16 * 16 + (at < 4 * C ? at / C * 4 + at % C : 0); }>(pixels, pixels);
        unrolled<4>([&](auto k) INLINE_LAMBDA { store(into + C * (x + 4 * k), load<Vec<uint8_t, 16>>((char*)&pixels + 16 * k)); });
    }
}
template <int C, bool planar> void down_words(const Geometry& g, const char* rows, int64_t pitch, int64_t row, char* into, int64_t elements) {
    typedef Vec<int16_t, 32> Words;
    const char *upper = rows + g.row.indices[2 * row] * pitch, *lower = rows + g.row.indices[2 * row + 1] * pitch;
    const int32_t weights = g.row.weights[row];
    auto step = [&](int64_t at) INLINE_LAMBDA { return linear<32>(load<Words>(upper + 2 * at), load<Words>(lower + 2 * at), weights); };
    if constexpr (C == 1) for (int64_t x = 0; x < elements; x += 32) store(into + x, step(x));
    else for (int64_t x = 0, count = g.columns, apart = g.channel_out / ROWS; x < count; x += ROWS) {
        Vec<uint8_t, 64> pixels;
        unrolled<2>([&](auto k) INLINE_LAMBDA { store((char*)&pixels + 32 * k, step(4 * x + 32 * k)); });
        store_pixels<C, planar>(pixels, into, x, apart);
    }
}
// Both passes of a row of the result, whose two rows of the source hardly another one reads.
template <int C, bool planar> void linear_row(const Geometry& g, const char* source, int64_t, int64_t row, char* into, int64_t) {
    typedef WordRows<(C > 1), 2> From;
    const char* from[2];
    for (int k = 0; k < 2; k++) from[k] = source + g.row.indices[2 * row + k] * g.row_stride;
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
        unrolled<ROWS / From::pixels>([&](auto k) INLINE_LAMBDA { store((char*)&pixels + k * (VECTOR / 2), step(x + k * From::pixels)); });
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
template <int C, bool planar> void halves_row(const Geometry& g, const char* source, int64_t, int64_t row, char* into, int64_t) {
    typedef Vec<uint8_t, VECTOR> Bytes;
    constexpr int parts = VECTOR / 16, pixels = C == 1 ? VECTOR / 2 : parts * 2;  // of a register
#if defined(__AVX512VBMI__)
    constexpr bool at_once = C > 1;  // one load and one permutation of bytes in place of four loads
#else
    constexpr bool at_once = false;
#endif
    constexpr int64_t apart = 4 * C, early = C == 1 ? 0 : (at_once ? VECTOR : 16) - apart * (at_once ? parts : 1);  // `apart`: from 16 bytes to the next
    const char* rows[2];
    for (int k = 0; k < 2; k++) rows[k] = source + g.row.indices[2 * row + k] * g.row_stride + g.column.indices[0];
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
            else unrolled<parts>([&](auto part) INLINE_LAMBDA { store((char*)&v + 16 * part, load<Vec<uint8_t, 16>>(from + part * apart)); });
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
            unrolled<ROWS / pixels>([&](auto k) INLINE_LAMBDA { store((char*)&made + k * (VECTOR / 2), halved(x + k * pixels, wanted, before)); });
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

// Alpha, the last channel of a pixel without gaps: colours times it, rounded as Pillow's MULDIV255 does, and by it, rounded
// down, at most 255. Where alpha is 0 or 255 they stay. A quotient of float32 has the whole part of the exact one.
template <int C, int V> INLINE Vec<uint8_t, V> alphas(Vec<uint8_t, V> v, int64_t place) {
    Vec<uint8_t, V> places;
    unrolled<V>([&](auto k) INLINE_LAMBDA { places[k.value] = uint8_t(k % 16 / C * C + place); });
    return placed<V>(v, places);
}
template <int C, int V> INLINE Vec<uint8_t, V> is_alpha(int64_t place) {
    Vec<uint8_t, V> lanes;
    unrolled<V>([&](auto k) INLINE_LAMBDA { lanes[k.value] = k % C == place ? 255 : 0; });
    return lanes;
}
template <int C> void premultiply(const Geometry& g, const char* row, char* into) {
    auto step = [&](auto width, int64_t x) INLINE_LAMBDA {
        constexpr int V = decltype(width)::value;
        auto v = load<Vec<uint8_t, V>>(row + x);
        auto wide = [](Vec<uint8_t, V> bytes) INLINE_LAMBDA { return cast<uint16_t, uint8_t, V>(bytes); };
        auto product = wide(v) * wide(alphas<C, V>(v, C - 1)) + 128;
        auto weighted = cast<uint8_t, uint16_t, V>(((product >> 8) + product) >> 8);
        store(into + x, bits<Vec<uint8_t, V>>((is_alpha<C, V>(C - 1) & v) | (~is_alpha<C, V>(C - 1) & weighted)));
    };
    int64_t x = 0;
    for (; x + VECTOR <= g.elements; x += VECTOR) step(Count<VECTOR>(), x);
    for (; x < g.elements; x += 16) step(Count<16>(), x + 16 <= g.elements ? x : g.elements - 16);
}
INLINE Vec<uint8_t, 16> divided(Vec<uint8_t, 16> color, Vec<uint8_t, 16> alpha) {
    auto number = [](Vec<uint8_t, 16> v) INLINE_LAMBDA { return cast<float, int32_t, 16>(cast<int32_t, uint8_t, 16>(v)); };
    auto quotient = number(color) * 255.0f / number(alpha);
    quotient = pick(quotient < 255, quotient, all<float, 16>(255));
    auto stays = bits<Vec<uint8_t, 16>>((alpha == 0) | (alpha == 255));
    return (stays & color) | (~stays & cast<uint8_t, int32_t, 16>(cast<int32_t, float, 16>(quotient)));
}
inline void divide_planes(const Geometry& g, char* row) {
    const int64_t apart = g.channel_out / ROWS, alpha = g.alpha, unit = g.unit;
    for (int64_t plane = 0; plane < unit; plane += apart) if (plane != alpha * apart)
        for (int64_t x = 0; x < apart; x += 16)
            store(row + plane + x, divided(load<Vec<uint8_t, 16>>(row + plane + x), load<Vec<uint8_t, 16>>(row + alpha * apart + x)));
}
template <int C> void divide_pixels(const Geometry& g, char* row) {
    const auto lanes = is_alpha<C, 16>(g.alpha);
    for (int64_t x = 0, unit = g.unit, alpha = g.alpha; x < unit; x += 16) {
        auto v = load<Vec<uint8_t, 16>>(row + x);
        store(row + x, (lanes & v) | (~lanes & divided(v, alphas<C, 16>(v, alpha))));
    }
}

// Entries, each with scratch memory of its own. The word before them becomes 1 where there is none.
INLINE void finish_band(const Geometry& g, const char* band, char* target, int64_t begin, int64_t rows) {
    const BandMove& move = rows == ROWS ? g.whole : g.rest;
    move.loop(band + move.source, target + begin * g.target_row + move.target, move.parameters, 0, move.items);
}

template <class Body> INLINE void for_entries(const char* source, char* target, const void* parameters, int64_t first, int64_t last, Body body) {
    for (int64_t number = first; number < last; number++) {
        const Entry& entry = ((const Entry*)parameters)[number];
        const Geometry& g = *entry.geometry;
        char* scratch = g.allocate(g.scratch_bytes);
        if (!scratch) { ((int64_t*)parameters)[-1] = 1; continue; }
        body(entry, g, source + entry.source, target + entry.target, (char*)((uintptr_t(scratch) + (LINE - 1)) & -LINE));
        g.release(scratch);
    }
}

inline void columns_first(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    for_entries(source, target, parameters, first, last, [](const Entry& e, const Geometry& g, const char* read, char* written, char* columns) INLINE_LAMBDA {
        char *ring = columns + g.ring_at, *band = columns + g.band_at;
        const int64_t elements = (g.unit * g.planes + STEP - 1) / STEP * STEP;
        int64_t next = g.row_firsts[e.first];
        for (int64_t begin = e.first; begin < e.last; begin += ROWS) {
            const int64_t end = begin + ROWS < e.last ? begin + ROWS : e.last;
            for (int64_t row = begin; row < end; row++) {
                for (; next < g.row_ends[row]; next += ROWS) for (int64_t plane = 0; plane < g.planes; plane++) {
                    const char *rows[ROWS], *ahead[ROWS]; char* into[ROWS];
                    for (int k = 0; k < ROWS; k++) {
                        rows[k] = read + g.sources[next + k] * g.row_stride + plane * g.plane_stride;
                        ahead[k] = read + g.sources[next + ROWS + k] * g.row_stride + plane * g.plane_stride;
                        into[k] = ring + ((next + k) & g.ring_mask) * g.ring_pitch + plane * g.unit * g.ring_bytes;
                        if (g.premultiply) {
                            char* weighted = columns + g.rows_at + k * g.rows_pitch;
                            g.premultiply(g, rows[k], weighted);
                            rows[k] = weighted;
                        }
                    }
                    g.along(g, rows, into, columns, ahead);
                }
                char* made = band + (row - begin) * g.band_pitch * g.band_bytes;
                g.down(g, ring, g.ring_pitch, row, made, elements);
                if (g.divide) g.divide(g, made);
            }
            finish_band(g, band, written, begin, end - begin);
        }
    });
}

inline void rows_first(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    for_entries(source, target, parameters, first, last, [](const Entry& e, const Geometry& g, const char* read, char* written, char* columns) INLINE_LAMBDA {
        char *ring = columns + g.ring_at, *band = columns + g.band_at;
        for (int64_t begin = e.first; begin < e.last; begin += ROWS) {
            const int64_t end = begin + ROWS < e.last ? begin + ROWS : e.last;
            for (int64_t plane = 0; plane < g.planes; plane++) {
                const char* rows[ROWS]; char* into[ROWS];
                for (int k = 0; k < ROWS; k++) {
                    const int64_t row = begin + k < end ? begin + k : end - 1;  // the last one may repeat
                    g.down(g, read + plane * g.plane_stride, g.row_stride, row, ring + k * g.ring_pitch, g.elements);
                    rows[k] = ring + k * g.ring_pitch;
                    into[k] = band + (k * g.band_pitch + plane * g.unit) * g.band_bytes;
                }
                g.along(g, rows, into, columns, nullptr);
            }
            finish_band(g, band, written, begin, end - begin);
        }
    });
}

inline void rows_as_they_lie(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    for_entries(source, target, parameters, first, last, [](const Entry& e, const Geometry& g, const char* read, char* written, char* columns) INLINE_LAMBDA {
        char *ring = columns + g.ring_at, *band = columns + g.band_at;
        const int64_t elements = g.unit * g.planes;
        int64_t next = g.row_firsts[e.first];
        for (int64_t begin = e.first; begin < e.last; begin += ROWS) {
            const int64_t end = begin + ROWS < e.last ? begin + ROWS : e.last;
            for (int64_t row = begin; row < end; row++) {
                for (const int64_t stop = g.row_ends[row]; next < stop; next += 2) for (int64_t plane = 0; plane < g.planes; plane++) {
                    const char* from[2]; char* into[2];
                    for (int k = 0; k < 2; k++) {
                        from[k] = read + g.sources[next + k] * g.row_stride + plane * g.plane_stride;
                        into[k] = ring + ((next + k) & g.ring_mask) * g.ring_pitch + plane * g.unit * g.ring_bytes;
                    }
                    (next + 1 < stop ? g.along_two : g.along)(g, from, into, columns, nullptr);
                }
                next = next < g.row_ends[row] ? next : g.row_ends[row];
                g.down(g, ring, g.ring_pitch, row, band + (row - begin) * g.band_pitch, elements);
            }
            finish_band(g, band, written, begin, end - begin);
        }
    });
}

inline void both_passes(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    for_entries(source, target, parameters, first, last, [](const Entry& e, const Geometry& g, const char* read, char* written, char* columns) INLINE_LAMBDA {
        char* band = columns + g.band_at;
        for (int64_t begin = e.first; begin < e.last; begin += ROWS) {
            const int64_t end = begin + ROWS < e.last ? begin + ROWS : e.last;
            for (int64_t row = begin; row < end; row++) for (int64_t plane = 0; plane < g.planes; plane++)
                g.down(g, read + plane * g.plane_stride, 0, row, band + (row - begin) * g.band_pitch + plane * g.unit, 0);
            finish_band(g, band, written, begin, end - begin);
        }
    });
}

// The tables of an axis, by the operations of stridedgpu/problems/resize_taps.py in their order, none of them fused:
// for each pixel its filter's values and their sum, then their shares of it as integers, two by two.
enum Filter { BOX, TRIANGLE, HAMMING, CUBIC, SINC3 };
typedef double (*Function)(double);
struct FilterAxis {
    double low, scale, support, narrowing;
    int64_t source, target, first, next, count, step, origin, mask, parity, groups, filter, narrow, unused;
    Function sine, cosine;
    int64_t *counts, *firsts, *ends, *indices; int32_t* weights; double* values;
};
constexpr double PI = 3.141592653589793;

INLINE double sinc(double x, Function sine) { if (x == 0) return 1; double angle = x * PI; return sine(angle) / angle; }
INLINE double weight_at(const FilterAxis& a, double x) {
    double distance = __builtin_fabs(x);
    switch (a.filter) {
    case BOX: return x > -0.5 && x <= 0.5 ? 1 : 0;
    case TRIANGLE: { double near = distance * -1.0 + 1.0; return near > 0 ? near : 0; }
    case HAMMING:
        if (!(distance < 1)) return 0;
        return distance == 0 ? 1 : sinc(distance, a.sine) * (a.cosine(distance * PI) * 0.46000000834465027 + 0.5400000214576721);
    case CUBIC:
        if (distance < 1) return (distance * 1.5 + -2.5) * distance * distance + 1.0;
        return distance < 2 ? (((distance - 5.0) * distance + 8.0) * distance + -4.0) * -0.5 : 0;
    default: return x >= -3 && x < 3 ? sinc(x, a.sine) * sinc(x / 3.0, a.sine) : 0;
    }
}

inline void filter_table(const char*, char*, const void* parameters, int64_t, int64_t) {
    FilterAxis& a = *(FilterAxis*)parameters;
    struct Span { double center; int64_t start, count; };
    auto span = [&](int64_t pixel) INLINE_LAMBDA {
        double center = a.low + (double(pixel) + 0.5) * a.scale;
        int64_t begin = int64_t(center - a.support + 0.5), end = int64_t(center + a.support + 0.5);
        if (begin < 0) begin = 0;
        return Span{center, begin, (end < a.source ? end : a.source) - begin};
    };
    // The values of a pixel's taps are a row, whose last word is their sum. Narrow weights need the largest share of the
    // whole axis, and a row for each of its pixels; others have one row for all.
    const int64_t sum_place = a.groups * 2 + 2;
    auto row_of = [&](int64_t pixel) INLINE_LAMBDA { return a.values + (a.narrow ? pixel * (sum_place + 1) : 0); };
    auto filter = [&](int64_t pixel) INLINE_LAMBDA {
        double *row = row_of(pixel), total = 0, most = 0;
        Span s = span(pixel);
        for (int64_t tap = 0; tap < s.count; tap++) {
            double value = weight_at(a, (double(tap + s.start) - s.center + 0.5) * a.narrowing);
            row[tap + 1] = value;
            total += value;
            if (value > most) most = value;
        }
        if (total == 0) total = 1;
        row[0] = row[s.count + 1] = 0;
        row[sum_place] = total;
        return most / total;
    };
    double factor = 1 << BITS;
    if (a.narrow) {
        double most = 0;
        for (int64_t pixel = 0; pixel < a.target; pixel++) { double share = filter(pixel); if (share > most) most = share; }
        factor = 1; a.unused = BITS;
        for (double scaled = most * 2; a.unused > 0 && scaled + 0.5 < double(1 << 15); scaled *= 2) { factor *= 2; a.unused--; }
    }
    for (int64_t place = 0; place < a.count; place++) {
        const int64_t pixel = a.first + place * a.next;
        if (!a.narrow) filter(pixel);
        const double *row = row_of(pixel), total = row[sum_place];
        const Span s = span(pixel);
        const int64_t last = s.count - 1;
        const bool mirrored = a.step * a.parity < 0;
        const int64_t lowest = mirrored ? last : 0, ahead = mirrored ? -1 : 1;
        const int64_t before = ((s.start + lowest) * a.step + a.origin) & a.parity, pairs = (s.count + before + 1) >> 1;
        for (int64_t pair = 0; pair < pairs; pair++) {
            const int64_t group = place * a.groups + pair;
            int32_t weight[2];
            for (int half = 0; half < 2; half++) {
                int64_t tap = lowest + (pair * 2 + half - before) * ahead;
                double scaled = row[tap + 1] / total * factor;
                weight[half] = int32_t(scaled + __builtin_copysign(0.5, scaled));
                tap = tap < 0 ? 0 : tap < last ? tap : last;
                a.indices[group * 2 + half] = ((s.start + tap) * a.step + a.origin) & a.mask;
            }
            auto packed = [](int32_t left, int32_t right) INLINE_LAMBDA { return int32_t((left & 0xFFFF) | uint32_t(right) << 16); };
            if (a.narrow) a.weights[group] = packed(weight[0], weight[1]);
            else {
                constexpr int32_t mask = (1 << LOW) - 1;
                a.weights[2 * group] = packed(weight[0] >> LOW, weight[1] >> LOW);
                a.weights[2 * group + 1] = packed(weight[0] & mask, weight[1] & mask);
            }
        }
        a.counts[place] = pairs;
        a.firsts[place] = s.start + a.origin;
        a.ends[place] = s.start + a.origin + s.count;
    }
}
