// Crops: a list of windows, each by a loop of its own, and windows that reach over the edges of their sources.
//
//     filled    f f f f f f f f      rows above and below the source
//     bordered  f f x x x x f f      the fill by whole vectors from both ends, and then the source's row over them
#pragma once
#include "copy.hpp"

struct Entry { const char* source; char* target; Loop loop; const void* parameters; int64_t first, last; };

inline void entries(const char*, char*, const void* parameters, int64_t first, int64_t last) {
    const Entry* list = (const Entry*)parameters;
    for (int64_t number = first; number < last; number++) {
        const Entry& entry = list[number];
        entry.loop(entry.source, entry.target, entry.parameters, entry.first, entry.last);
    }
}

// Windows of images of one size that lie evenly: the last row and column where one inside begins, and the bytes from a
// row, a column, an image and a window to the next.
struct Windows {
    uint64_t last_row, last_column;
    int64_t down, right, next_image, next_window;
    Loop loop; const void* parameters; int64_t items;
};
struct Origin { int64_t row, column; };
struct WindowList { int64_t is_outside; Entry entry[]; };

// The entries of windows inside their images, each of all items of one loop.
inline void list_windows(const Origin* origins, WindowList* list, const Windows* p, const char* pixel, char* written,
                         int64_t count) {
    bool is_outside = false;
    for (int64_t number = 0; number < count; number++, pixel += p->next_image, written += p->next_window) {
        const Origin at = origins[number];
        is_outside |= (uint64_t(at.row) > p->last_row) | (uint64_t(at.column) > p->last_column);
        list->entry[number] = {pixel + at.row * p->down + at.column * p->right, written, p->loop, p->parameters, 0, p->items};
    }
    list->is_outside = is_outside;
}

struct Bordered {
    int64_t above, below, before, behind;  // the source's first row, and the one behind its last; bytes of the border
    const char* fill;                      // a line of it, for each place
    int64_t dense, merged;                 // rows follow one another; bytes of a vector that holds one, or 0
    Grid grid;                             // `a`: rows, `b`: bytes of the source
};

INLINE void copy_bytes(char* target, const char* source, int64_t nbytes) {
    if (nbytes < 2 * LINE) copy_short(target, source, nbytes);
    else write_row(target, nbytes, false, [&](int64_t at, auto v) INLINE_LAMBDA { return load<decltype(v)>(source + at); });
}
INLINE void fill_bytes(char* target, const char* fill, int64_t nbytes) {
    if (nbytes < 2 * LINE) copy_short(target, fill, nbytes);
    else write_row(target, nbytes, false, [&](int64_t, auto v) INLINE_LAMBDA { return load<decltype(v)>(fill); });
}

inline void bordered(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Bordered& p = *(const Bordered*)parameters;
    const Grid& grid = p.grid;
    typedef Vec<uint8_t, LINE> Line;
    const int64_t before = p.before, behind = p.behind, length = before + grid.b.size + behind, pitch = grid.a.target;
    for_items(grid, source, target, first, last, [&](const Item& item) INLINE_LAMBDA {
        const int64_t begin = item.a, end = item.a + item.rows;
        const int64_t above = end < p.above ? end : p.above, below = begin > p.below ? begin : p.below;
        const char* from = item.source - begin * grid.a.source;  // row 0, at the first byte of the source
        char* to = item.target - begin * pitch - before;         // row 0, at the first byte of the border
        const Line line = load<Line>(p.fill + item.place * LINE);
        char fill[2 * LINE];
        store(fill, line); store(fill + LINE, line);
        auto fill_rows = [&](int64_t row, int64_t stop) INLINE_LAMBDA {
            if (p.dense && row < stop) return fill_bytes(to + row * pitch, fill, (stop - row) * length);
            for (; row < stop; row++) fill_bytes(to + row * pitch, fill, length);
        };
        fill_rows(begin, above);
        fill_rows(below, end);
        int64_t row = begin > p.above ? begin : p.above;
        const int64_t stop = end < p.below ? end : p.below;
#if defined(__AVX512BW__)
        // Bytes of the source by a mask: what a vector writes too much, the next row overwrites.
        if (p.merged) {
            const uint64_t inside = (grid.b.size < 64 ? (uint64_t(1) << grid.b.size) - 1 : ~uint64_t(0)) << before;
            const int64_t left = length == p.merged ? stop : stop - 1;
            auto merge = [&](auto v) INLINE_LAMBDA {
                for (; row < left; row++) {
                    const char* at = from + row * grid.a.source - before;
                    Line merged = (Line)__builtin_ia32_loaddquqi512_mask((const Vec<char, 64>*)at, (Vec<char, 64>)line, inside);
                    store(to + row * pitch, load<decltype(v)>(&merged));
                }
            };
            if (p.merged == 16) merge(Vec<uint8_t, 16>());
            else if (p.merged == 32) merge(Vec<uint8_t, 32>());
            else merge(Line());
        }
#endif
        for (; row < stop; row++) {
            char* written = to + row * pitch;
            if (length < LINE) copy_short(written, fill, length);
            else {
                for (int64_t at = 0; at < before; at += LINE) store(written + (at < length - LINE ? at : length - LINE), line);
                for (int64_t at = length - LINE; at + LINE > length - behind; at -= LINE) store(written + (at > 0 ? at : 0), line);
            }
            copy_bytes(written + before, from + row * grid.a.source, grid.b.size);
        }
    });
}
