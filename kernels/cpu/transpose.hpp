// Transposes by the size of an element: the source is contiguous along a block's rows, and the target along its elements.
//
//     source                     registers                              target
//     16 bytes of as many        a vector holds 16 bytes of 4 lines;    a vector for each of
//     lines as a vector   ->     transposed within each 16 bytes   ->   as many lines as 16
//     has elements                                                      bytes have elements
//
// Half of the shuffles are loads, since a vector is loaded in parts. Conversions are moves of their own, from or to a tile
// in the L1 cache, so that elements are transposed where they are narrower.
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

// 16 bytes of as many source lines as `bytes` have elements.
template <class T, int bytes, bool streams>
INLINE void transpose_step(const char* source, int64_t source_pitch, char* target, int64_t target_pitch) {
    constexpr int L = 16 / sizeof(T), N = bytes / sizeof(T);
    if constexpr (L > 8 && bytes > VECTOR && !streams) {  // more vectors than there are registers
        transpose_step<T, bytes / 2, false>(source, source_pitch, target, target_pitch);
        transpose_step<T, bytes / 2, false>(source + N / 2 * source_pitch, source_pitch, target + bytes / 2, target_pitch);
        return;
    }
    Vec<T, N> lines[L];
    unrolled<L>([&](auto r) INLINE_LAMBDA {
        unrolled<N / L>([&](auto part) INLINE_LAMBDA {
            auto piece = load<Vec<T, L>>(source + (part * L + r) * source_pitch);
            __builtin_memcpy((char*)&lines[r] + 16 * part, &piece, 16);
        });
    });
    transpose_lanes<1, T, N>(lines);
    unrolled<L>([&](auto r) INLINE_LAMBDA {
        if constexpr (streams) stream(target + r * target_pitch, lines[r]);
        else store(target + r * target_pitch, lines[r]);
    });
}

// A strip of source lines to their ends.
template <class T, int bytes, bool streams>
INLINE void transpose_strip(const char* source, int64_t source_pitch, char* target, int64_t target_pitch, int64_t columns) {
    constexpr int L = 16 / sizeof(T);
    auto step = [&](int64_t at) INLINE_LAMBDA {
        transpose_step<T, bytes, streams>(source + at * sizeof(T), source_pitch, target + at * target_pitch, target_pitch);
    };
    int64_t at = 0;
    for (; at + L <= columns; at += L) step(at);
    if (at < columns) step(columns - L);
}

// Fewer lines or columns than a step has.
template <class T>
INLINE void transpose_part(const char* source, int64_t source_pitch, char* target, int64_t target_pitch,
                           int64_t lines, int64_t columns) {
    constexpr int64_t bytes = sizeof(T), L = 16 / bytes;
    char in[L][16] = {}, out[L][16];
    for (int64_t line = 0; line < lines; line++) copy_short(in[line], source + line * source_pitch, columns * bytes);
    transpose_step<T, 16, false>(in[0], 16, out[0], 16);
    for (int64_t column = 0; column < columns; column++) copy_short(target + column * target_pitch, out[column], lines * bytes);
}

template <class T> void transpose(const Block& k) {
    constexpr int64_t bytes = sizeof(T), L = 16 / bytes, N = LINE / bytes;
    const char* source = k.source;
    char* target = k.target;
    // The lines of either side may be the rows.
    const bool by_rows = k.source_pitch == bytes && k.target_step == bytes;
    const int64_t lines = by_rows ? k.size : k.rows, columns = by_rows ? k.rows : k.size;
    const int64_t source_pitch = by_rows ? k.source_step : k.source_pitch;
    const int64_t target_pitch = by_rows ? k.target_pitch : k.target_step;
    if (lines < L || columns < L) {
        for (int64_t line = 0; line < lines; line += L)
            for (int64_t column = 0; column < columns; column += L) {
                const char* from = source + line * source_pitch + column * bytes;
                char* to = target + column * target_pitch + line * bytes;
                const int64_t high = __builtin_elementwise_min(lines - line, L), wide = __builtin_elementwise_min(columns - column, L);
                transpose_part<T>(from, source_pitch, to, target_pitch, high, wide);
            }
        return;
    }
    const int64_t step = lines < 2 * L ? L : lines < N ? 2 * L : N;
    for (int64_t at = 0; at < lines; at += step) {
        int64_t line = at + step <= lines ? at : lines - step;
        const char* from = source + line * source_pitch;
        char* to = target + line * bytes;
        if (step == L) transpose_strip<T, 16, false>(from, source_pitch, to, target_pitch, columns);
        else if (step == 2 * L) transpose_strip<T, 32, false>(from, source_pitch, to, target_pitch, columns);
        else if (k.streams && ((uintptr_t(to) | target_pitch) & (LINE - 1)) == 0)
            transpose_strip<T, LINE, true>(from, source_pitch, to, target_pitch, columns);
        else transpose_strip<T, LINE, false>(from, source_pitch, to, target_pitch, columns);
    }
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
        // What is shorter than a step, and behind another, begins before its place: the length of a step, or of all.
        auto lengthen = [](int64_t& size, int64_t& at, int64_t step, int64_t all) INLINE_LAMBDA {
            const int64_t missing = (step < all ? step : all) - size;
            if (missing <= 0) return int64_t(0);
            at -= missing; size += missing;
            return missing;
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
