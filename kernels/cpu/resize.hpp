// Resizes: both passes over bands of rows, in scratch memory of each thread. The passes are functions of a geometry.
//
//     source rows     16 at a time, each at any address
//     first pass      along x, for columns of 16 rows (resize_pairs.hpp, resize_taps.hpp)
//     ring            as many rows of it as the second pass reads, of pixels or of planes, as the target has
//     second pass     along y
//     band            up to 16 finished rows, which another loop converts and writes to the target
//
// Where rows come first, the pass along y reads the source and leaves 16 rows, which go along x into the band. OpenCV's
// linear rule of bytes reads rows one by one (resize_linear.hpp).
//
// Some rows of the source are prepared in scratch memory before a pass reads them: those of frames, colours to be weighted
// by alpha, and pixels so far apart that the columns of 16 rows would have too little of them (resize_rows.hpp).
#pragma once
#include "simd.hpp"
#include "loops.hpp"

constexpr int ROWS = 16;  // of a band, and of a step along x

// What is computed at once: a register's 32-bit sums.
constexpr int LANES = VECTOR / 4;
constexpr int STEP = VECTOR < 32 ? 32 : VECTOR;  // elements of a step along y, at most
template <int N> using Sums = Vec<int32_t, N>;

// The sums of pairs of 16-bit products.
template <int N> INLINE Sums<N> pair_products(Vec<int16_t, 2 * N> pixels, Sums<N> weights) {
    [[maybe_unused]] auto w = bits<Vec<int16_t, 2 * N>>(weights);
#if defined(__AVX512BW__)
    if constexpr (N == 16) return bits<Sums<N>>(__builtin_ia32_pmaddwd512(pixels, w));
#endif
#if defined(__AVX2__)
    if constexpr (N == 8) return bits<Sums<N>>(__builtin_ia32_pmaddwd256(pixels, w));
    if constexpr (N == 4) return bits<Sums<N>>(__builtin_ia32_pmaddwd128(pixels, w));
#endif
    auto a = shuffle<N, [](int i) { return 2 * i; }>(pixels, pixels);
    auto b = shuffle<N, [](int i) { return 2 * i + 1; }>(pixels, pixels);
    return cast<int32_t, int16_t, N>(a) * (weights << 16 >> 16) + cast<int32_t, int16_t, N>(b) * (weights >> 16);
}
template <int N> INLINE Sums<N> pair_products(Vec<int16_t, 2 * N> pixels, int32_t weights) {
    return pair_products<N>(pixels, all<int32_t, N>(weights));
}

// Elements of two vectors side by side within each 16 bytes: the lower halves, or the upper ones.
template <int upper, class T, int N> INLINE Vec<T, N> interleaved(Vec<T, N> a, Vec<T, N> b) {
    constexpr int L = 16 / sizeof(T);
    return shuffle<N, [](int i) { return i / L * L + i % L / 2 + upper * (L / 2) + N * (i % 2); }>(a, b);
}

// Transpose the elements within each 16 bytes of L vectors: log2(L) rounds of interleaving those half the height apart.
template <int L, class T, int N, int round = 1> INLINE void transpose_lanes(Vec<T, N> (&lines)[L]) {
    if constexpr (round < L) {
        Vec<T, N> turned[L];
        unrolled<L>([&](auto r) INLINE_LAMBDA {
            turned[r] = interleaved<decltype(r)::value % 2, T, N>(lines[r / 2], lines[r / 2 + L / 2]);
        });
        unrolled<L>([&](auto r) INLINE_LAMBDA { lines[r] = turned[r]; });
        transpose_lanes<L, T, N, 2 * round>(lines);
    }
}

// Four vectors of sums clamped to bytes: four bytes of each in turn within 16 bytes.
template <int N> INLINE Vec<uint8_t, 4 * N> packed(Sums<N> a, Sums<N> b, Sums<N> c, Sums<N> d) {
    [[maybe_unused]] typedef Vec<uint8_t, 4 * N> Bytes;
#if defined(__AVX512BW__)
    if constexpr (N == 16)
        return bits<Bytes>(__builtin_ia32_packuswb512(__builtin_ia32_packssdw512(a, b), __builtin_ia32_packssdw512(c, d)));
#endif
#if defined(__AVX2__)
    if constexpr (N == 8)
        return bits<Bytes>(__builtin_ia32_packuswb256(__builtin_ia32_packssdw256(a, b), __builtin_ia32_packssdw256(c, d)));
    if constexpr (N == 4)
        return bits<Bytes>(__builtin_ia32_packuswb128(__builtin_ia32_packssdw128(a, b), __builtin_ia32_packssdw128(c, d)));
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
    [[maybe_unused]] typedef Vec<uint16_t, 2 * N> Words;
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
#if defined(__aarch64__)
    typedef __attribute__((neon_vector_type(16))) int8_t Table;
    typedef __attribute__((neon_vector_type(16))) uint8_t Places;
    if constexpr (N == 16) return bits<Vec<uint8_t, N>>(__builtin_neon_vqtbl1q_v(bits<Table>(v), bits<Places>(places), 48));
#endif
    Vec<uint8_t, N> r;
    for (int i = 0; i < N; i++) r[i] = places[i] < 16 ? v[i / 16 * 16 + places[i]] : 0;
    return r;
}

struct Geometry;
typedef const char* const* ReadRows;
typedef char* const* WrittenRows;
typedef void (*Along)(const Geometry&, ReadRows rows, WrittenRows into, char* columns, ReadRows ahead);
typedef void (*Down)(const Geometry&, const char* rows, int64_t pitch, int64_t row, char* into, int64_t elements);
typedef void (*Prepare)(const Geometry&, const char* source, int64_t row, char* into);
typedef void (*Divide)(const Geometry&, char* row);
typedef void (*IntoColumns)(const Geometry&, ReadRows rows, char* columns);
typedef void (*IntoRows)(const Geometry&, const char* columns, WrittenRows rows);

// The fields of a geometry are those of GEOMETRY in stridedgpu/devices/cpu/native/resize_kernels.py.
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
    Prepare prepare; Divide divide; int64_t alpha;  // of rows; and the place of alpha among the channels of a resized pixel
    int64_t ring_bytes, band_bytes, shift;  // of elements; and of sums of integers along y
    int64_t apart, gathered[4];          // pixels to gather, and their channels
};
struct Entry { int64_t source, target; const Geometry* geometry; int64_t first, last; };

// The row of the source with a number among those that are read, as it lies or prepared.
INLINE const char* source_row(const Geometry& g, const char* read, int64_t number, char* into) {
    const int64_t row = g.sources[number];
    if (!g.prepare) return read + row * g.row_stride;
    g.prepare(g, read, row, into);
    return into;
}
// The rows that the passes of a row of the result read: as they lie, or a ring of prepared ones, of which `next` is the
// number of the first one that is not there yet.
struct SourceRows { const char* start; int64_t pitch; };
INLINE SourceRows source_rows(const Geometry& g, const char* read, int64_t row, int64_t& next, char* prepared) {
    if (!g.prepare) return {read, g.row_stride};
    for (; next < g.row_ends[row]; next++) g.prepare(g, read, g.sources[next], prepared + (next & g.ring_mask) * g.rows_pitch);
    return {prepared, g.rows_pitch};
}

// Bands of rows of all entries, each entry with scratch memory of its own, and the number of the first row of the source that
// is not in a ring yet; each finished band is moved to the target. The word before entries becomes 1 where there is no memory.
template <class Body>
INLINE void for_bands(const char* source, char* target, const void* parameters, int64_t first, int64_t last, Body body) {
    for (int64_t number = first; number < last; number++) {
        const Entry& entry = ((const Entry*)parameters)[number];
        const Geometry& g = *entry.geometry;
        char* const memory = g.allocate(g.scratch_bytes);
        if (!memory) { ((int64_t*)parameters)[-1] = 1; continue; }
        char* const scratch = (char*)((uintptr_t(memory) + (LINE - 1)) & -LINE);
        int64_t next = g.row_firsts[entry.first];
        for (int64_t begin = entry.first; begin < entry.last; begin += ROWS) {
            const int64_t end = begin + ROWS < entry.last ? begin + ROWS : entry.last;
            body(g, source + entry.source, scratch, begin, end, next);
            const BandMove& move = end - begin == ROWS ? g.whole : g.rest;
            char* const into = target + entry.target + begin * g.target_row;
            move.loop(scratch + g.band_at + move.source, into + move.target, move.parameters, 0, move.items);
        }
        g.release(memory);
    }
}

inline void columns_first(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    for_bands(source, target, parameters, first, last,
              [](const Geometry& g, const char* read, char* scratch, int64_t begin, int64_t end, int64_t& next) INLINE_LAMBDA {
        char *const ring = scratch + g.ring_at, *made = scratch + g.band_at;
        const int64_t elements = (g.unit * g.planes + STEP - 1) / STEP * STEP;
        for (int64_t row = begin; row < end; row++, made += g.band_pitch * g.band_bytes) {
            for (; next < g.row_ends[row]; next += ROWS) for (int64_t plane = 0; plane < g.planes; plane++) {
                const char *rows[ROWS], *ahead[ROWS], *from = read + plane * g.plane_stride; char* into[ROWS];
                for (int k = 0; k < ROWS; k++) {
                    rows[k] = source_row(g, from, next + k, scratch + g.rows_at + k * g.rows_pitch);
                    ahead[k] = from + g.sources[next + ROWS + k] * g.row_stride;
                    into[k] = ring + ((next + k) & g.ring_mask) * g.ring_pitch + plane * g.unit * g.ring_bytes;
                }
                g.along(g, rows, into, scratch, g.rows_kernel ? nullptr : ahead);
            }
            g.down(g, ring, g.ring_pitch, row, made, elements);
            if (g.divide) g.divide(g, made);
        }
    });
}

inline void rows_first(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    for_bands(source, target, parameters, first, last,
              [](const Geometry& g, const char* read, char* scratch, int64_t begin, int64_t end, int64_t&) INLINE_LAMBDA {
        for (int64_t plane = 0; plane < g.planes; plane++) {
            const char* rows[ROWS]; char* into[ROWS];
            int64_t next = g.row_firsts[begin];
            for (int k = 0; k < ROWS; k++) {
                const int64_t row = begin + k < end ? begin + k : end - 1;  // the last one may repeat
                const SourceRows from = source_rows(g, read + plane * g.plane_stride, row, next, scratch + g.rows_at);
                char* const between = scratch + g.ring_at + k * g.ring_pitch;
                g.down(g, from.start, from.pitch, row, between, g.elements);
                rows[k] = between;
                into[k] = scratch + g.band_at + (k * g.band_pitch + plane * g.unit) * g.band_bytes;
            }
            g.along(g, rows, into, scratch, nullptr);
            if (g.divide) for (int k = 0; k < ROWS; k++) g.divide(g, into[k]);
        }
    });
}
