// Transposes by the size of an element: the source is contiguous along a block's rows, and the target along its elements.
//
//     source                     registers                              target
//     16 bytes of as many        a vector holds 16 bytes of 4 lines;    a vector for each of
//     lines as a vector   ->     transposed within each 16 bytes   ->   as many lines as 16
//     has elements                                                      bytes have elements
//
// Half of the shuffles are loads, since a vector is loaded in parts. Elements are transposed where they are narrower, and
// converted in registers before or behind; of rare pairs of types, conversions are moves of their own, from or to a tile in
// the L1 cache.
#pragma once
#include "copy.hpp"

// Transpose the elements within each 16 bytes of L vectors: log2(L) rounds of interleaving lines half the height apart.
template <int round, class T, int N, int L> INLINE void transpose_lanes(Vec<T, N> (&lines)[L]) {
    if constexpr (round < L) {
        Vec<T, N> turned[L];
        unrolled<L>([&](auto r) INLINE_LAMBDA {
            constexpr int half = decltype(r)::value % 2 * (L / 2);
            constexpr auto place = [](int i) { return i / L * L + half + i % L / 2 + N * (i % 2); };
            turned[r] = shuffle<N, place>(lines[r / 2], lines[r / 2 + L / 2]);
        });
        unrolled<L>([&](auto r) INLINE_LAMBDA { lines[r] = turned[r]; });
        transpose_lanes<2 * round, T, N>(lines);
    }
}

// The side on which elements are narrower, and those of 16 bytes of it.
template <class S, class T> using Narrower = either<(sizeof(S) <= sizeof(T)), S, T>;
template <class S, class T> constexpr int LANES = 16 / sizeof(Narrower<S, T>);

// As many elements of as many source lines as `bytes` of the narrower side have. `turn` converts vectors.
template <class S, class T, int bytes, class Turn>
INLINE void transpose_step(const char* source, int64_t source_pitch, char* target, int64_t target_pitch, bool streams, Turn turn) {
    typedef Narrower<S, T> M;
    constexpr int L = LANES<S, T>, N = bytes / sizeof(M);
    constexpr bool fits = bytes <= VECTOR || L * bytes / VECTOR <= (same<S, T> ? 16 : 8);  // the registers
    constexpr bool is_line = N / 2 * sizeof(T) >= LINE;                                      // what one half writes
    if (!fits && (is_line || !streams)) {
        if constexpr (!fits) {
            transpose_step<S, T, bytes / 2>(source, source_pitch, target, target_pitch, streams, turn);
            transpose_step<S, T, bytes / 2>(source + N / 2 * source_pitch, source_pitch, target + N / 2 * sizeof(T), target_pitch, streams, turn);
        }
        return;
    }
    Vec<M, N> lines[L];
    unrolled<L>([&](auto r) INLINE_LAMBDA {
        Vec<S, N> line;
        unrolled<N / L>([&](auto part) INLINE_LAMBDA {
            auto piece = load<Vec<S, L>>(source + (part * L + r) * source_pitch);
            __builtin_memcpy((char*)&line + part * sizeof piece, &piece, sizeof piece);
        });
        if constexpr (sizeof(S) > sizeof(T)) lines[r] = turn(line);
        else lines[r] = line;
    });
    transpose_lanes<1, M, N>(lines);
    unrolled<L>([&](auto r) INLINE_LAMBDA {
        auto write = [&](auto line) INLINE_LAMBDA {
            char* to = target + r * target_pitch;
            if constexpr (N * sizeof(T) % LINE == 0) if (streams) { stream(to, line); return; }
            store(to, line);
        };
        if constexpr (sizeof(S) > sizeof(T)) write(lines[r]);
        else write(turn(lines[r]));
    });
}

// A strip of source lines to their ends.
template <class S, class T, int bytes, class Turn>
INLINE void transpose_strip(const char* source, int64_t source_pitch, char* target, int64_t target_pitch, int64_t columns, bool streams, Turn turn) {
    constexpr int L = LANES<S, T>;
    auto step = [&](int64_t at) INLINE_LAMBDA {
        transpose_step<S, T, bytes>(source + at * sizeof(S), source_pitch, target + at * target_pitch, target_pitch, streams, turn);
    };
    int64_t at = 0;
    for (; at + L <= columns; at += L) step(at);
    if (at < columns) step(columns - L);
}

// Strips of at least a step's lines and columns; the last ones are as narrow as can be, and end with the lines.
template <class S, class T, class Turn>
INLINE void transpose_strips(const Block& k, int64_t lines, int64_t columns, int64_t source_pitch, int64_t target_pitch, Turn turn) {
    constexpr int64_t L = LANES<S, T>, N = LINE / 16 * L;
    for (int64_t at = 0, step; at < lines; at += step) {
        const int64_t rest = lines - at;
        step = rest > 2 * L && lines >= N ? N : rest > L && lines >= 2 * L && same<S, T> ? 2 * L : L;
        const int64_t line = step <= rest ? at : lines - step;
        const char* from = k.source + line * source_pitch;
        char* to = k.target + line * sizeof(T);
        const bool streams = k.streams && ((uintptr_t(to) | target_pitch) & (LINE - 1)) == 0;
        if (step == N) transpose_strip<S, T, LINE>(from, source_pitch, to, target_pitch, columns, streams, turn);
        else if (step == L) transpose_strip<S, T, 16>(from, source_pitch, to, target_pitch, columns, false, turn);
        else if constexpr (same<S, T>) transpose_strip<S, T, 32>(from, source_pitch, to, target_pitch, columns, false, turn);
    }
}

// Fewer lines or columns than a step has.
template <class T>
INLINE void transpose_part(const char* source, int64_t source_pitch, char* target, int64_t target_pitch,
                           int64_t lines, int64_t columns) {
    constexpr int64_t bytes = sizeof(T), L = 16 / bytes;
    char in[L][16] = {}, out[L][16];
    for (int64_t line = 0; line < lines; line++) copy_short(in[line], source + line * source_pitch, columns * bytes);
    transpose_step<T, T, 16>(in[0], 16, out[0], 16, false, [](auto v) INLINE_LAMBDA { return v; });
    for (int64_t column = 0; column < columns; column++) copy_short(target + column * target_pitch, out[column], lines * bytes);
}

template <class T> void transpose(const Block& k) {
    constexpr int64_t bytes = sizeof(T), L = 16 / bytes;
    // The lines of either side may be the rows.
    const bool by_rows = k.source_pitch == bytes && k.target_step == bytes;
    const int64_t lines = by_rows ? k.size : k.rows, columns = by_rows ? k.rows : k.size;
    const int64_t source_pitch = by_rows ? k.source_step : k.source_pitch;
    const int64_t target_pitch = by_rows ? k.target_pitch : k.target_step;
    if (lines >= L && columns >= L) {
        transpose_strips<T, T>(k, lines, columns, source_pitch, target_pitch, [](auto v) INLINE_LAMBDA { return v; });
        return;
    }
    for (int64_t line = 0; line < lines; line += L)
        for (int64_t column = 0; column < columns; column += L) {
            const char* from = k.source + line * source_pitch + column * bytes;
            char* to = k.target + column * target_pitch + line * bytes;
            const int64_t high = __builtin_elementwise_min(lines - line, L), wide = __builtin_elementwise_min(columns - column, L);
            transpose_part<T>(from, source_pitch, to, target_pitch, high, wide);
        }
}

// The same with a conversion in registers, where elements are wider: of blocks with one scale and one bias, whose rows are
// the source's elements. They have the lines and the columns of a step.
template <class S, class T, class Arithmetic> void transpose_converted(const Block& k) {
    typedef Compute<S, T> F;
    const F scale = same<Arithmetic, Nothing> ? F() : load<F>(k.scale), bias = same<Arithmetic, Nothing> ? F() : load<F>(k.bias);
    transpose_strips<Stored<S>, Stored<T>>(k, k.size, k.rows, k.source_step, k.target_pitch, [&](auto v) INLINE_LAMBDA {
        constexpr int N = sizeof v / sizeof(Stored<S>);
        return computed<S, T, Arithmetic, N>(v, all<F, N>(scale), all<F, N>(bias), Vec<F, N>{}, 0, 0);
    });
}

// Blocks by a chain of moves, of which one transposes: all of an item at once, or tile by tile.
struct Side { int64_t step, tile; };               // elements of a step, and the most of a tile
struct Transposes { Side rows, size; Rows chain; };  // the chain has one stage in steps

// The elements of each tile where `size` ones are cut into as few as can be: about equal, and whole steps but for the last.
INLINE int64_t even_tile(int64_t size, Side side) {
    if (size <= side.tile) return size;
    const int64_t each = (size - 1) / ((size - 1) / side.tile + 1) + 1;
    return (each + side.step - 1) / side.step * side.step;
}

inline void transposes(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Transposes& shape = *(const Transposes*)parameters;
    const Rows& p = shape.chain;
    const Grid& grid = p.grid;
    alignas(LINE) char tiles[2][TILE_BYTES];
    for_items(grid, source, target, first, last, [&](Item item) INLINE_LAMBDA {
        // What is shorter than a step has the length of a step, or of all: it begins before its place, but not before all.
        auto lengthen = [](int64_t& size, int64_t& at, int64_t step, int64_t all) INLINE_LAMBDA {
            const int64_t missing = (step < all ? step : all) - size;
            if (missing <= 0) return int64_t(0);
            const int64_t before = missing < at ? missing : at;
            at -= before; size += missing;
            return before;
        };
        const int64_t rows_before = lengthen(item.rows, item.a, shape.rows.step, grid.a.size);
        const int64_t elements_before = lengthen(item.size, item.b, shape.size.step, grid.b.size);
        item.source -= rows_before * grid.a.source + elements_before * grid.b.source;
        item.target -= rows_before * grid.a.target + elements_before * grid.b.target;
        const int64_t rows = p.stages == 1 ? item.rows : even_tile(item.rows, shape.rows);
        const int64_t size = p.stages == 1 ? item.size : even_tile(item.size, shape.size);
        const int64_t step_of_item = p.of_item * p.constants;
        const int64_t step_of_a = p.of_a * p.constants, step_of_b = p.of_b * p.constants;
        for (int64_t row = 0; row < item.rows; row += rows)
            for (int64_t column = 0; column < item.size; column += size) {
                int64_t a = row, high = item.rows - row < rows ? item.rows - row : rows;
                int64_t b = column, wide = item.size - column < size ? item.size - column : size;
                lengthen(high, a, shape.rows.step, item.rows);
                lengthen(wide, b, shape.size.step, item.size);
                const int64_t place = item.place * step_of_item + (item.a + a) * step_of_a + (item.b + b) * step_of_b;
                const char* begin = item.source + a * grid.a.source + b * grid.b.source;
                Block part = {begin, nullptr, high, wide, grid.a.source, 0, grid.b.source, 0,
                              grid.scale + place, grid.bias + place, grid.low + place, step_of_a, p.unit, p.unit_low, 0, 0};
                for (int64_t stage = 0; stage < p.stages; stage++) {
                    const int64_t bytes = p.stage[stage].bytes;
                    part.target = tiles[stage & 1]; part.target_pitch = wide * bytes; part.target_step = bytes;
                    if (stage == p.stages - 1) {
                        part.target = item.target + a * grid.a.target + b * grid.b.target;
                        part.target_pitch = grid.a.target; part.target_step = grid.b.target; part.streams = p.streams;
                    }
                    p.stage[stage].move(part);
                    part.source = part.target; part.source_pitch = part.target_pitch; part.source_step = bytes;
                }
            }
    });
}
