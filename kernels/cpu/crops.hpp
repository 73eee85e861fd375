// Crops: a list of windows, each by a loop of its own, and windows that reach over the edges of their sources.
//
//     filled    f f f f f f f f      rows above and below the source
//     bordered  f f x x x x f f      the fill by whole vectors from both ends, and then the source's row over them; or
//                                    the fill alone, where another loop writes the rest
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
    int64_t alone;                         // the border is written without what is inside
    Grid grid;                             // `a`: rows, `b`: bytes of the source
};

typedef Vec<uint8_t, LINE> Line;

// body(v) with a vector of so many bytes, below a line, or of more than half of them.
template <class Body> INLINE void by_width(int64_t nbytes, Body body) {
    if (nbytes >= 32) body(Vec<uint8_t, 32>());
    else if (nbytes >= 16) body(Vec<uint8_t, 16>());
    else if (nbytes >= 8) body(uint64_t());
    else if (nbytes >= 4) body(uint32_t());
    else if (nbytes >= 2) body(uint16_t());
    else if (nbytes == 1) body(uint8_t());
}

// A line's bytes again and again: of whole elements, which divide a line.
INLINE void fill_bytes(char* target, Line line, int64_t nbytes) {
    if (nbytes < LINE) return by_width(nbytes, [&](auto v) INLINE_LAMBDA {
        __builtin_memcpy(&v, &line, sizeof v);
        store(target, v);
        store(target + nbytes - sizeof v, v);
    });
    #pragma clang loop unroll(disable)  // most are short
    for (int64_t at = 0; at < nbytes - LINE; at += LINE) store(target + at, line);
    store(target + nbytes - LINE, line);
}

INLINE void copy_bytes(char* target, const char* source, int64_t nbytes) {
    if (nbytes < LINE) return copy_short(target, source, nbytes);
    const int64_t last = nbytes - LINE;
    #pragma clang loop unroll(disable)  // as above
    for (int64_t at = 0; at < last; at += LINE) {
        store(target + at, load<Line>(source + at));
        __asm__ volatile("" : "+r"(at));  // no call of memcpy in place of the loop
    }
    store(target + last, load<Line>(source + last));
}

inline void bordered(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Bordered& p = *(const Bordered*)parameters;
    const Grid& grid = p.grid;
    // What is read of `p` here is not read again after each store, which may have been to it for all the compiler knows.
    const int64_t before = p.before, size = grid.b.size, behind = p.behind, length = before + size + behind;
    const int64_t source_pitch = grid.a.source, pitch = grid.a.target;
    for_items(grid, source, target, first, last, [&](const Item& item) INLINE_LAMBDA {
        const int64_t begin = item.a, end = item.a + item.rows;
        const int64_t above = end < p.above ? end : p.above, below = begin > p.below ? begin : p.below;
        const char* from = item.source - begin * source_pitch;  // row 0, at the first byte of the source
        char* to = item.target - begin * pitch - before;         // row 0, at the first byte of the border
        const Line line = load<Line>(p.fill + item.place * LINE);
        auto fill_rows = [&](int64_t row, int64_t stop) INLINE_LAMBDA {
            if (p.dense && row < stop) return fill_bytes(to + row * pitch, line, (stop - row) * length);
            for (; row < stop; row++) fill_bytes(to + row * pitch, line, length);
        };
        fill_rows(begin, above);
        fill_rows(below, end);
        int64_t row = begin > p.above ? begin : p.above;
        const int64_t stop = end < p.below ? end : p.below;
#if defined(__AVX512BW__)
        // Bytes of the source by a mask: what a vector writes too much, the next row overwrites.
        if (p.merged && row < stop) {
            const auto bytes_of = [](int64_t n) INLINE_LAMBDA { return n < 64 ? (uint64_t(1) << n) - 1 : ~uint64_t(0); };
            const uint64_t inside = bytes_of(size) << before;
            const char* at = from + row * source_pitch - before;
            char* written = to + row * pitch;
            auto row_of = [&]() INLINE_LAMBDA {
                return __builtin_ia32_loaddquqi512_mask((const Vec<char, 64>*)at, (Vec<char, 64>)line, inside);
            };
            auto merge = [&](auto v) INLINE_LAMBDA {
                #pragma clang loop unroll(disable)  // as above
                for (; row < stop - 1; row++, at += source_pitch, written += pitch) {
                    auto merged_row = row_of();
                    store(written, load<decltype(v)>(&merged_row));
                }
            };
            if (p.merged == 16) merge(Vec<uint8_t, 16>());
            else if (p.merged == 32) merge(Vec<uint8_t, 32>());
            else merge(Line());
            __builtin_ia32_storedquqi512_mask((Vec<char, 64>*)written, row_of(), bytes_of(length));
            return;
        }
#endif
        if (length < LINE && !p.alone) {  // rows are filled, and then copied: what is chosen once is not chosen by row
            by_width(length, [&](auto v) INLINE_LAMBDA {
                __builtin_memcpy(&v, &line, sizeof v);
                char* written = to + row * pitch;
                for (int64_t left = stop - row; left > 0; left--, written += pitch) {
                    store(written, v);
                    store(written + length - sizeof v, v);
                }
            });
            by_width(size, [&](auto v) INLINE_LAMBDA {
                const char* at = from + row * source_pitch;
                char* written = to + row * pitch + before;
                for (int64_t left = stop - row; left > 0; left--, at += source_pitch, written += pitch) {
                    const auto begin = load<decltype(v)>(at), end = load<decltype(v)>(at + size - sizeof v);
                    store(written, begin);
                    store(written + size - sizeof v, end);
                }
            });
            return;
        }
        for (; row < stop; row++) {
            char* written = to + row * pitch;
            if (p.alone) {
                fill_bytes(written, line, before);
                fill_bytes(written + before + size, line, behind);
                continue;
            }
            for (int64_t at = 0; at < before; at += LINE) store(written + (at < length - LINE ? at : length - LINE), line);
            for (int64_t at = length - LINE; at + LINE > length - behind; at -= LINE) store(written + (at > 0 ? at : 0), line);
            copy_bytes(written + before, from + row * source_pitch, size);
        }
    });
}
