// Packs: rows shorter than a cache line that follow one another in the target, as those of patches of 14 x 14 pixels.
//
//     source rows                 tile, in the L1 cache            target
//     a a a ... b b b ...   ->    a a a b b b c c c ...    ->      whole lines, converted and written past the caches
//
// A pack is as many rows as are whole lines. No store crosses a line, and no line is read before it is written.
#pragma once
#include "copy.hpp"

struct Packs {
    double unit, unit_low;
    Move convert;
    int64_t nbytes, rows, elements;  // bytes of a row, rows of a pack, and elements of all of them
    const int64_t* offsets;          // of each row
    Grid grid;                       // of packs
};

inline void packs(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Packs& p = *(const Packs*)parameters;
    const Grid& grid = p.grid;
    alignas(LINE) char tile[TILE_BYTES];
    const int64_t nbytes = p.nbytes, rows = p.rows, *offsets = p.offsets;
    for_items(grid, source, target, first, last, [&](const Item& item) INLINE_LAMBDA {
        for (int64_t a = 0; a < item.rows; a++) for (int64_t b = 0; b < item.size; b++) {
            const char* from = item.source + a * grid.a.source + b * grid.b.source;
            // Each row by two steps that overlap: it has no more than a line.
            auto stage = [&](auto v) INLINE_LAMBDA {
                typedef decltype(v) V;
                char* to = tile;
                for (int64_t row = 0; row < rows; row++, to += nbytes) {
                    const char *begin = from + offsets[row], *end = begin + nbytes - sizeof(V);
                    __builtin_prefetch(begin + 2 * LINE);
                    V left = load<V>(begin), right = load<V>(end);
                    store(to, left); store(to + nbytes - sizeof(V), right);
                }
            };
            if (nbytes >= 32) stage(Vec<uint8_t, 32>());
            else if (nbytes >= 16) stage(Vec<uint8_t, 16>());
            else if (nbytes >= 8) stage(uint64_t());
            else if (nbytes >= 4) stage(uint32_t());
            else if (nbytes >= 2) stage(uint16_t());
            else stage(uint8_t());
            char* to = item.target + a * grid.a.target + b * grid.b.target;
            p.convert({tile, to, 1, p.elements, 0, 0, 0, 0, grid.scale, grid.bias, grid.low, 0, p.unit, p.unit_low, 0, 1});
        }
    });
}
