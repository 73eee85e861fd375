// Indices checked before anything is written: all inside their axes and, with marks, each of another element.
#pragma once
#include "gather.hpp"

struct Numbered { int64_t size, stride, pitch; };  // a loop over indices: its stride in bytes, and in the elements' numbers
struct NumberedBlocks { int64_t size, stride, pitch, block, blocks; };
struct Checks {
    Resolve resolve; MoveElements mark;  // the numbers of marks by one of them: the latter by contiguous single indices
    int64_t components, rank;
    NumberedBlocks a, b;
    int64_t more[];  // each axis: size, pitch of its numbers, bytes into a tuple; then the outer loops
};

// What is scattered to the marks.
struct Ones { char ones[CHUNK_OF_ELEMENTS]; };
constexpr Ones all_ones = [] { Ones all = {}; for (char& one : all.ones) one = 1; return all; }();

template <class I> constexpr int LANES = 2 * LINE / sizeof(I);
constexpr int MOST_TOGETHER = 8;  // numbers of a tuple that follow one another

// The least and the largest index of an axis.
template <class I> struct Range {
    I low, high;
    static INLINE Range of(int64_t size) {
        const I high = uint64_t(size - 1) < uint64_t(most<I>) ? I(size - 1) : most<I>;
        return {!is_signed<I> ? I(0) : high == most<I> && sizeof(I) < 8 ? least<I> : I(-high - 1), high};
    }
};

// Whether any number of contiguous tuples is outside its axis: from any of `components` numbers on, the ranges repeat.
template <class I, int N> INLINE bool is_any_outside(const char* indices, int64_t count, int64_t components, const I* lows, const I* highs) {
    typedef Vec<I, N> V;
    Vec<Signed<sizeof(I)>, N> wrong = {};
    auto look = [&](int64_t at, V low, V high) INLINE_LAMBDA {
        V v = load<V>(indices + at * sizeof(I));
        wrong |= v > high;
        if constexpr (is_signed<I>) wrong |= v < low;
    };
    int64_t place = 0;
    if (N % components == 0) {
        const V low = load<V>(lows), high = load<V>(highs);
        for (int64_t at = 0; at + N <= count; at += N) look(at, low, high);
    } else for (int64_t at = 0, rest = N % components; at + N <= count; at += N) {
        look(at, load<V>(lows + place), load<V>(highs + place));
        place += rest;
        if (place >= components) place -= components;
    }
    place = (count - N) % components;
    look(count - N, load<V>(lows + place), load<V>(highs + place));
    return any_lane(wrong);
}
template <class I> INLINE bool is_any_outside(const char* indices, int64_t count, int64_t components, const I* lows, const I* highs) {
    constexpr int N = LANES<I>;
    if (count >= N) return is_any_outside<I, N>(indices, count, components, lows, highs);
    if (count >= N / 4) return is_any_outside<I, N / 4>(indices, count, components, lows, highs);
    bool wrong = false;
    for (int64_t at = 0, place = 0; at < count; at++, place = place + 1 < components ? place + 1 : 0) {
        I v = load<I>(indices + at * sizeof(I));
        wrong |= v < lows[place] || v > highs[place];
    }
    return wrong;
}

template <class I> void check(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Checks& p = *(const Checks*)parameters;
    const int64_t *axes = p.more, components = p.components;
    const Numbered* outer = (const Numbered*)(p.more + 3 * components);
    char* marks = target + LINE;
    alignas(LINE) int64_t bases[CHUNK_OF_ELEMENTS / 2 + 2 * LANES_OF_BASES], offsets[CHUNK];
    I lows[LANES<I> + MOST_TOGETHER], highs[LANES<I> + MOST_TOGETHER];
    bool is_packed = components >= 1 && components <= MOST_TOGETHER && p.b.stride == components * int64_t(sizeof(I)), is_empty = false;
    for (int64_t k = 0; k < components; k++) {
        is_packed &= axes[3 * k + 2] == k * int64_t(sizeof(I));
        is_empty |= axes[3 * k] <= 0;
    }
    if (is_packed) for (int64_t i = 0, k = 0; i < LANES<I> + MOST_TOGETHER; i++, k = k + 1 < components ? k + 1 : 0) {
        const Range<I> range = Range<I>::of(axes[3 * k]);
        lows[i] = range.low; highs[i] = range.high;
    }
    // Rows that follow one another share chunks, and short ones that are marked by resolved numbers.
    const bool is_whole = p.b.blocks == 1, follow = is_whole && p.a.stride == p.b.size * p.b.stride;
    const bool are_short = p.resolve && is_whole && p.b.size <= CHUNK / 2;
    const int64_t together = smaller(follow ? p.a.block : are_short ? CHUNK / p.b.size : 1, p.a.block);
    const int64_t width = is_whole ? p.b.size : p.b.block, most = width * together;
    const int64_t chunk = p.mark ? chunk_of(CHUNK_OF_ELEMENTS, width) : p.resolve ? chunk_of(CHUNK, width) : most;
    const bool is_row = p.mark && width >= chunk && !p.b.pitch;  // all are 0
    if (p.mark && !is_row) fill_bases((int32_t*)bases, smaller(chunk, most), width, p.b.pitch, p.a.pitch);
    if (p.resolve) fill_bases(bases, smaller(chunk, most), width, p.b.pitch, p.a.pitch);
    auto size = [&](int64_t k) INLINE_LAMBDA { return k == 0 ? p.b.blocks : k == 1 ? p.a.blocks : outer[k - 2].size; };
    for_places(2 + p.rank, size, first, last, [&](const int64_t* at) INLINE_LAMBDA {
        const int64_t b = at[0] * p.b.block, a = at[1] * p.a.block;
        const int64_t columns = smaller(p.b.block, p.b.size - b), rows = smaller(p.a.block, p.a.size - a);
        const char* first_index = source + a * p.a.stride + b * p.b.stride;
        char* first_mark = marks + a * p.a.pitch + b * p.b.pitch;
        for (int64_t k = 0; k < p.rank; k++) {
            first_index += at[2 + k] * outer[k].stride;
            first_mark += at[2 + k] * outer[k].pitch;
        }
        bool wrong = is_empty && rows && columns;
        for (int64_t turn = 0, some; turn < rows; turn += some) {
            some = smaller(together, rows - turn);
            for_chunks(0, some * columns, width, chunk, [&](int64_t before, int64_t column, int64_t count) INLINE_LAMBDA {
                const char* indices = first_index + (turn + before) * p.a.stride + column * p.b.stride;
                char* of_chunk = first_mark + (turn + before) * p.a.pitch + column * p.b.pitch;
                const int64_t apart = follow ? 1 : some, of_each = apart > 1 ? columns : count;
                for (int64_t row = 0; row < apart; row++) {
                    const char* of_row = indices + row * p.a.stride;
                    if (is_packed) wrong |= is_any_outside<I>(of_row, of_each * components, components, lows, highs);
                    else for (int64_t k = 0; k < components; k++) {
                        const Range<I> range = Range<I>::of(axes[3 * k]);
                        const char* from = of_row + axes[3 * k + 2];
                        for (int64_t i = 0; i < of_each; i++) {
                            I v = load<I>(from + i * p.b.stride);
                            wrong |= v < range.low || v > range.high;
                        }
                    }
                }
                if (p.mark) p.mark({(char*)all_ones.ones, of_chunk, indices + axes[2], is_row ? nullptr : (int32_t*)bases, count, axes[0], axes[1]});
                if (p.resolve) {
                    for (int64_t k = 0; k < components; k++) {
                        const int64_t* axis = axes + 3 * k;
                        const int64_t* before = k ? offsets : bases;
                        p.resolve({indices + axis[2], p.b.stride, of_each, apart, p.a.stride, axis[0], axis[1], before, offsets});
                    }
                    for (int64_t i = 0; i < count; i++) of_chunk[offsets[i]] = 1;
                }
            });
        }
        if (wrong) store(target, int64_t(1));
    });
}
