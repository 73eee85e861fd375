// How the planner describes a loop (stridedgpu/devices/cpu/native): its work items, and the moves that do them.
//
// Every loop is a function of two addresses, of parameters in memory, and of a range of items: any range, on any thread.
// An item is one place of the outer loops, and one block of each of two inner ones, `a` around `b`. A move is what is
// done to the rows of a block: `a` counts its rows, `b` a row's elements. Strides and pitches are in bytes.
#pragma once
#include "simd.hpp"

typedef void (*Loop)(const char* source, char* target, const void* parameters, int64_t first, int64_t last);

struct Block {
    const char* source; char* target;
    int64_t rows, size;                    // rows, and elements of each
    int64_t source_pitch, target_pitch;    // from a row to the next
    int64_t source_step, target_step;      // from an element to the next
    const char *scale, *bias, *low;        // of the first row, or of its first element
    int64_t constants_pitch;               // from those of a row to those of the next
    double unit, unit_low;
    int64_t ahead;                         // from a row to the one to prefetch
    int64_t streams;                       // whether whole lines are stored past the caches
};
typedef void (*Move)(const Block&);

struct Axis { int64_t size, source, target, block, blocks; };
struct Outer { int64_t size, source, target, constants; const int64_t* offsets; };  // `offsets`: in place of a source stride

struct Grid {
    const char *scale, *bias, *low;
    Axis a, b;
    int64_t small_source, small_target;  // of a loop that a move unrolls
    int64_t rank;
    Outer outer[];                       // the innermost first
};
struct Item { const char* source; char* target; int64_t place, a, rows, b, size; };

constexpr int MOST_LOOPS = 64;

// body(item) for every item: the number of the first is divided, and the places then turn like an odometer.
template <class Body> INLINE void for_items(const Grid& grid, const char* source, char* target, int64_t first, int64_t last, Body body) {
    int64_t at[MOST_LOOPS], rest = first;
    int64_t b = rest % grid.b.blocks; rest /= grid.b.blocks;
    int64_t a = rest % grid.a.blocks; rest /= grid.a.blocks;
    for (int64_t k = 0; k < grid.rank; k++) { at[k] = rest % grid.outer[k].size; rest /= grid.outer[k].size; }
    for (int64_t number = first; number < last; number++) {
        Item item = {source, target, 0, a * grid.a.block, grid.a.block, b * grid.b.block, grid.b.block};
        for (int64_t k = 0; k < grid.rank; k++) {
            const Outer& loop = grid.outer[k];
            item.source += loop.offsets ? loop.offsets[at[k]] : at[k] * loop.source;
            item.target += at[k] * loop.target;
            item.place += at[k] * loop.constants;
        }
        if (item.rows > grid.a.size - item.a) item.rows = grid.a.size - item.a;
        if (item.size > grid.b.size - item.b) item.size = grid.b.size - item.b;
        item.source += item.a * grid.a.source + item.b * grid.b.source;
        item.target += item.a * grid.a.target + item.b * grid.b.target;
        body(item);
        if (++b < grid.b.blocks) continue;
        b = 0;
        if (++a < grid.a.blocks) continue;
        a = 0;
        for (int64_t k = 0; k < grid.rank && ++at[k] == grid.outer[k].size; k++) at[k] = 0;
    }
}
