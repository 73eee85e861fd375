// 16 rows to columns and back, in squares whose side is a register, or 16; bytes as many squares at once as it has.
#pragma once
#include "resize.hpp"

template <class T> constexpr int side = VECTOR / sizeof(T) < ROWS ? VECTOR / sizeof(T) : ROWS;
template <class T> INLINE void transpose_square(Vec<T, side<T>> (&lines)[side<T>]) {
    constexpr int N = side<T>;
    for (int round = 1; round < N; round *= 2) {
        Vec<T, N> turned[N];
        unrolled<N>([&](auto r) INLINE_LAMBDA {
            constexpr auto place = [](int i) { return i / 2 + decltype(r)::value % 2 * (N / 2) + N * (i % 2); };
            turned[r] = shuffle<N, place>(lines[r / 2], lines[r / 2 + N / 2]);
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
template <class T> void into_columns(const Geometry& g, ReadRows rows, char* columns) {
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
        transpose_block<T>(
            [&](int row, int column, auto v) INLINE_LAMBDA { return load<decltype(v)>(rows[row] + (x + column) * bytes); },
            [&](int column, int row, auto v) INLINE_LAMBDA { store(columns + ((x + column) * ROWS + row) * bytes, v); });
    }
}
template <class T> INLINE void turn_back(const char* columns, WrittenRows rows, int64_t unit) {
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
        transpose_block<T>(
            [&](int column, int row, auto v) INLINE_LAMBDA {
                return load<decltype(v)>(columns + ((x + column) * ROWS + row) * bytes);
            },
            [&](int row, int column, auto v) INLINE_LAMBDA { store(rows[row] + (x + column) * bytes, v); });
}
template <class T> void into_rows(const Geometry& g, const char* columns, WrittenRows rows) { turn_back<T>(columns, rows, g.unit); }
