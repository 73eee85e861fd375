// Copies of rows by the size of an element, whatever its type: contiguous, repeated, reversed, and of any stride.
#pragma once
#include "rows.hpp"

struct alignas(16) Sixteen { uint64_t words[2]; };

// The bytes of a row in order, by steps of which the last is moved back to end with it: of two lines, or for short rows of
// one or of 16 bytes. `read` gives the bytes from a place on, as a vector of the type of its second argument.
template <class Read> INLINE void write_row(char* target, int64_t nbytes, bool streams, Read read) {
    typedef Vec<uint8_t, 16> Short;
    typedef Vec<uint8_t, LINE> V;
    if (nbytes < 2 * LINE) {
        if (nbytes >= LINE) { V first = read(0, V()), last = read(nbytes - LINE, V()); store(target, first); store(target + nbytes - LINE, last); return; }
        for (int64_t at = 0; at + 16 < nbytes; at += 16) store(target + at, read(at, Short()));
        store(target + nbytes - 16, read(nbytes - 16, Short()));
        return;
    }
    auto step = [&](int64_t at) INLINE_LAMBDA {
        V first = read(at, V()), second = read(at + LINE, V());
        store(target + at, first); store(target + at + LINE, second);
    };
    int64_t at = 0;
    if (streams) {
        // The first line and the last are shared with steps that are not streamed, and would be read again.
        if (int64_t lead = -uintptr_t(target) & (LINE - 1)) {
            step(0);
            if (lead + 2 * LINE <= nbytes) { step(lead); lead += 2 * LINE; }
            at = lead;
        }
        const int64_t end = (nbytes - at) % LINE ? nbytes - 2 * LINE : nbytes;  // the last step is not streamed
        for (; at + 2 * LINE <= end; at += 2 * LINE) {
            V first = read(at, V()), second = read(at + LINE, V());
            stream(target + at, first); stream(target + at + LINE, second);
        }
        if (at + LINE <= end) { V line = read(at, V()); stream(target + at, line); at += LINE; }
    } else if (nbytes >= 8 * LINE) {  // at the begin of a line: stores across lines take twice as long
        step(0);
        at = (-uintptr_t(target) & (LINE - 1)) ?: 2 * LINE;
    }
    for (; at + 2 * LINE <= nbytes; at += 2 * LINE) step(at);
    if (at < nbytes) step(nbytes - 2 * LINE);
}

// Elements that lie apart on one side or on both; those of a contiguous target are stored 16 bytes at once.
template <class T> INLINE void copy_apart(const char* source, int64_t source_step, char* target, int64_t target_step, int64_t size) {
    int64_t at = 0;
    if constexpr (sizeof(T) <= 8) if (target_step == sizeof(T)) for (constexpr int N = 16 / sizeof(T); at + N <= size; at += N) {
        Vec<T, N> v;
        unrolled<N>([&](auto lane) INLINE_LAMBDA { v[lane.value] = load<T>(source + (at + lane) * source_step); });
        store(target + at * sizeof(T), v);
    }
    for (; at + 8 <= size; at += 8) {
        T v[8];
        unrolled<8>([&](auto lane) INLINE_LAMBDA { v[lane.value] = load<T>(source + (at + lane) * source_step); });
        unrolled<8>([&](auto lane) INLINE_LAMBDA { store(target + (at + lane) * target_step, v[lane.value]); });
    }
    for (; at < size; at++) store(target + at * target_step, load<T>(source + at * source_step));
}

template <class T> void copy(const Block& k) {
    constexpr int64_t bytes = sizeof(T);
    const int64_t nbytes = k.size * bytes;
    const bool forward = k.target_step == bytes, in_vectors = forward && nbytes >= 16;
    const bool streams = k.streams && (uintptr_t(k.target) | k.target_pitch) % bytes == 0;
    // What is read of `k` here is not read again after each store, which may have been to it for all the compiler knows.
    const int64_t source_pitch = k.source_pitch, target_pitch = k.target_pitch, step = k.source_step, ahead = k.ahead;
    auto each_row = [&](auto body) INLINE_LAMBDA {
        const char* source = k.source; char* target = k.target;
        for (int64_t row = k.rows; row > 0; row--, source += source_pitch, target += target_pitch) body(source, target);
    };
    if (forward && step == bytes && nbytes < 2 * LINE)
        each_row([&](const char* source, char* target) INLINE_LAMBDA { copy_short(target, source, nbytes); });
    else if (forward && step == bytes)
        each_row([&](const char* source, char* target) INLINE_LAMBDA {
            write_row(target, nbytes, k.streams, [&](int64_t at, auto v) INLINE_LAMBDA {
                if (ahead) __builtin_prefetch(source + at + ahead);
                return load<decltype(v)>(source + at);
            });
        });
    else if (in_vectors && step == 0)
        each_row([&](const char* source, char* target) INLINE_LAMBDA {
            T line[LINE / bytes];
            for (T& element : line) element = load<T>(source);
            write_row(target, nbytes, streams, [&](int64_t, auto v) INLINE_LAMBDA { return load<decltype(v)>(line); });
        });
    else if (in_vectors && step == -bytes)
        each_row([&](const char* source, char* target) INLINE_LAMBDA {
            write_row(target, nbytes, streams, [&](int64_t at, auto v) INLINE_LAMBDA {
                typedef either<bytes >= 8, uint64_t, Signed<bytes>> Word;
                constexpr int N = sizeof v / sizeof(Word), each = bytes / sizeof(Word);
                auto words = load<Vec<Word, N>>(source - at + bytes - int64_t(sizeof v));
                words = shuffle<N, [](int i) { return N - each - i / each * each + i % each; }>(words, words);
                return bits<decltype(v)>(words);
            });
        });
    else
        each_row([&](const char* source, char* target) INLINE_LAMBDA {
            copy_apart<T>(source, step, target, k.target_step, k.size);
        });
}

// Rows by a chain of moves: copies into tiles in the L1 cache and out of them, around conversions.
struct Stage { Move move; int64_t bytes; };  // of an element that the move writes
struct Rows {
    double unit, unit_low;
    int64_t constants;                    // bytes of one of them
    int64_t of_item, of_a, of_b;          // 1 where constants follow the outer loops, the rows, a row's elements
    int64_t repeats;                      // each row repeats an element, which the last move writes along it
    int64_t turns;                        // a reversed row is read forwards, and the last move turns it
    int64_t streams, ahead, tile, stages;  // `tile`: the elements of one
    Stage stage[6];
    Grid grid;
};
constexpr int64_t TILE_BYTES = 8192;

inline void rows(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Rows& p = *(const Rows*)parameters;
    const Grid& grid = p.grid;
    alignas(LINE) char tiles[2][TILE_BYTES];
    for_items(grid, source, target, first, last, [&](const Item& item) INLINE_LAMBDA {
        int64_t place = (p.of_item ? item.place : 0) + (p.of_a ? item.a : 0) + (p.of_b ? item.b : 0);
        auto begin = [&](const char* values) INLINE_LAMBDA { return values + place * p.constants; };
        Block k = {item.source, item.target, item.rows, item.size, grid.a.source, grid.a.target, grid.b.source, grid.b.target,
                   begin(grid.scale), begin(grid.bias), begin(grid.low), p.of_a * p.constants, p.unit, p.unit_low, p.ahead, p.streams};
        if (p.stages == 1) { p.stage[0].move(k); return; }
        // Of rows that repeat an element, the elements of many rows are one row of a tile.
        const int64_t size = p.repeats ? 1 : item.size < p.tile ? item.size : p.tile, rows = p.tile / size;
        const int64_t along = p.repeats ? k.constants_pitch : p.of_b * p.constants;
        if (p.repeats) k.constants_pitch = 0;
        for (int64_t row = 0; row < item.rows; row += rows)
            for (int64_t at = 0; at < (p.repeats ? 1 : item.size); at += size) {
                Block part;
                __builtin_memcpy_inline(&part, &k, sizeof k);  // no call of a C library
                part.rows = item.rows - row < rows ? item.rows - row : rows;
                part.size = item.size - at < size ? item.size - at : size;
                int64_t constants = p.repeats ? row * along : row * k.constants_pitch + at * along;
                part.scale += constants; part.bias += constants; part.low += constants;
                part.source += row * grid.a.source + at * grid.b.source;
                char* written = k.target + row * grid.a.target + at * grid.b.target;
                if (p.turns) { part.source += (part.size - 1) * grid.b.source; part.source_step = -grid.b.source; }
                if (p.repeats) { part.size = part.rows; part.rows = 1; part.source_step = grid.a.source; }
                part.streams = 0;
                for (int64_t stage = 0; stage < p.stages; stage++) {
                    const int64_t bytes = p.stage[stage].bytes;
                    const bool ends = stage == p.stages - 1;
                    part.target = tiles[stage & 1]; part.target_pitch = part.size * bytes; part.target_step = bytes;
                    if (ends) {
                        part.target = written; part.target_pitch = grid.a.target; part.target_step = grid.b.target;
                        part.streams = p.streams;
                        if (p.turns) { part.source += (part.size - 1) * part.source_step; part.source_step = -part.source_step; }
                        if (p.repeats) { part.rows = part.size; part.size = item.size; part.source_pitch = part.source_step; part.source_step = 0; }
                    }
                    p.stage[stage].move(part);
                    part.source = part.target; part.source_pitch = part.target_pitch; part.source_step = bytes; part.ahead = 0;
                }
            }
    });
}
