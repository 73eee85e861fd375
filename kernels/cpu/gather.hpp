// Gathers and scatters: runs of bytes that indices select, of one element or of thousands.
//
//     indices   7  0  3  3 ...         a chunk of some hundred, resolved in vectors to offsets on the stack
//               |  |  |  |
//     indexed   [=====]  [=====] ...   a run at each offset
//     dense     [=====][=====][=====]
//
// `b` is the innermost loop with indices of its own, `a` the loop around it. Each index selects the loop `m` over runs. An
// offset is never outside the axis, whatever the index is. In what type an index is and how it is resolved, and how long
// a run is, are two functions of the planner's choice: one a chunk each.
#pragma once
#include "copy.hpp"

constexpr int CHUNK = 256, CHUNK_OF_ELEMENTS = 2048;  // indices that are resolved together
// Bytes, of one number each, to the indices that are prefetched: chunk by chunk is too uneven for the hardware.
constexpr int64_t INDICES_AHEAD = 4096;

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
// Moves a last step back to end with the row: by a branch, since a conditional move takes time of every step.
INLINE void end_with(int64_t& at, int64_t step, int64_t count) {
    if (at + step > count) [[unlikely]] { at = count - step; __asm__(""); }
}

enum Mode { CHECKED, CLIPPED, WRAPPED };

// offsets = bases + position * stride, for some rows of `width` indices. `step`: bytes from an index to the next.
struct Indices { const char* indices; int64_t step, width, rows, row, size, stride; const int64_t* bases; int64_t* offsets; };
typedef void (*Resolve)(const Indices&);

// Positions from 0 to size - 1. Checked indices are valid, unless they have changed since: those are clamped. `small`:
// sizes up to 2^31, for which 32 bits of a checked index are enough.
template <class I, Mode mode, bool small, int N> INLINE auto positions_of(Vec<I, N> v, int64_t size) {
    typedef either<small && (sizeof(I) == 4 || mode == CHECKED), uint32_t, uint64_t> W;
    auto zero = Vec<W, N>{}, extent = all<W, N>(W(size)), last = all<W, N>(W(size - 1));
    if constexpr (mode == CLIPPED && is_signed<I>) v = __builtin_elementwise_max(v, Vec<I, N>{});
    auto place = cast<W, I, N>(v);
    if constexpr (mode != CLIPPED && is_signed<I>) place += pick(bits<Vec<Signed<sizeof(W)>, N>>(place) < 0, extent, zero);
    if constexpr (mode != WRAPPED) return __builtin_elementwise_min(place, last);
    else {
        if (any_lane(place > last)) for (int lane = 0; lane < N; lane++) {
            if constexpr (is_signed<I>) { int64_t rest = int64_t(v[lane]) % size; place[lane] = W(rest < 0 ? rest + size : rest); }
            else place[lane] = W(uint64_t(v[lane]) % uint64_t(size));
        }
        return place;
    }
}

// `small` strides are of 32 bits without a sign, too: one multiplication has the product.
template <class I, Mode mode, bool small> void resolve(const Indices& k) {
    I packed[CHUNK];
    const char* indices = k.indices;
    const int64_t count = k.width * k.rows, size = k.size, stride = small ? k.stride & 0xFFFFFFFF : k.stride;
    const int64_t* bases = k.bases;
    int64_t *offsets = k.offsets, at = 0, each = k.step / int64_t(sizeof(I));
    const int64_t ahead = INDICES_AHEAD / sizeof(I) * k.step;
    const bool follow = k.rows == 1 || k.row == k.width * k.step;
    if (!follow || each * int64_t(sizeof(I)) != k.step || each < 1 || each > 3) {
        for (int64_t row = 0; row < k.rows; row++) for (int64_t i = 0; i < k.width; i++) {
            const char* from = indices + row * k.row + i * k.step;
            packed[row * k.width + i] = load<I>(from);
            __builtin_prefetch(from + ahead);
        }
        indices = (const char*)packed;
        each = 1;
    }
    auto step = [&](auto lanes) INLINE_LAMBDA {
        constexpr int N = decltype(lanes)::value;
        const char* from = indices + at * each * sizeof(I);
        if constexpr (N > 1) if (indices != (const char*)packed)
            for (size_t line = 0; line < N * each * sizeof(I); line += LINE) __builtin_prefetch(from + ahead + line);
        auto v = load<Vec<I, N>>(from);
        // Every second or third index: of vectors of which the last one ends with the last index.
        if constexpr (N > 1) if (each > 1) {
            const bool in_pairs = each == 2;
            auto w = load<Vec<I, N>>(from + (in_pairs ? N - 1 : N) * sizeof(I));
            if (in_pairs) v = shuffle<N, [](int lane) { return lane < N / 2 ? 2 * lane : 2 * lane + 1; }>(v, w);
            else {
                v = shuffle<N, [](int lane) { return 3 * lane < 2 * N ? 3 * lane : 0; }>(v, w);
                w = load<Vec<I, N>>(from + (2 * N - 2) * sizeof(I));
                v = shuffle<N, [](int lane) { return 3 * lane < 2 * N ? lane : 3 * lane - N + 2; }>(v, w);
            }
        }
        auto place = __builtin_convertvector((positions_of<I, mode, small, N>(v, size)), Vec<int64_t, N>);
        if constexpr (small) place &= 0xFFFFFFFF;
        store(offsets + at, load<Vec<int64_t, N>>(bases + at) + place * stride);
        at += N;
    };
    while (at + 16 <= count) step(Count<16>());
    while (at < count) step(Count<1>());
}

// Runs between the dense side, `step` bytes from one to the next, and the indexed side at its offsets.
struct Runs {
    char *dense, *indexed;
    const int64_t* offsets;
    int64_t count, step, run, m, m_dense, m_indexed;
    int64_t rows, row_dense, row_indexed;  // of so many runs
    int64_t row_offsets;                   // 0 where all have the same indices
};
typedef void (*Transfer)(const Runs&);

// Of W bytes, of up to twice as many by two that overlap, of up to 256, and longer ones.
enum Length { EXACT, TWO, FOUR, LONG };
template <Length length, int W, bool scatters> void transfer(const Runs& k) {
    char *dense = k.dense, *indexed = k.indexed;
    const int64_t *offsets = k.offsets, count = k.count, dense_step = k.step, run = k.run;
    auto copy_run = [&](char* here, char* there, [[maybe_unused]] char* next) INLINE_LAMBDA {
        const char* from = scatters ? here : there;
        char* to = scatters ? there : here;
        typedef Vec<uint8_t, W> V;
        if constexpr (length == EXACT) store(to, load<V>(from));
        else if constexpr (length == TWO) {
            V begin = load<V>(from), end = load<V>(from + run - W);
            store(to, begin); store(to + run - W, end);
        } else if constexpr (length == FOUR) {
            V one = load<V>(from), two = load<V>(from + W), three = load<V>(from + run - 2 * W), four = load<V>(from + run - W);
            store(to, one); store(to + W, two); store(to + run - 2 * W, three); store(to + run - W, four);
        } else for (int64_t step = 0; step < run; step += 4 * W) {
            const int64_t at = smaller(step, run - 4 * W);
            V v[4];
            unrolled<4>([&](auto n) INLINE_LAMBDA { v[n] = load<V>(from + at + n * W); __builtin_prefetch(next + at + n * W); });
            unrolled<4>([&](auto n) INLINE_LAMBDA { store(to + at + n * W, v[n]); });
        }
    };
    const int64_t m = k.m, m_dense = k.m_dense, m_indexed = k.m_indexed, row_dense = k.row_dense, row_indexed = k.row_indexed;
    if constexpr (length == EXACT && W <= 16 && !scatters) if (count <= 4 && k.rows > 1 && m == 1) {  // few columns of many rows
        auto columns = [&](auto number) INLINE_LAMBDA {
            for (int64_t row = 0; row < k.rows; row++, dense += row_dense, indexed += row_indexed, offsets += k.row_offsets)
                unrolled<decltype(number)::value>([&](auto i) INLINE_LAMBDA { copy_run(dense + i * dense_step, indexed + offsets[i], nullptr); });
        };
        if (count == 1) columns(Count<1>());
        else if (count == 2) columns(Count<2>());
        else if (count == 3) columns(Count<3>());
        else columns(Count<4>());
        return;
    }
    for (int64_t row = k.rows; row > 0; row--, dense += row_dense, indexed += row_indexed, offsets += k.row_offsets) {
        if (m == 1) {
#pragma clang loop unroll_count(length == EXACT && W <= LINE ? 8 : 1)
            for (int64_t i = 0; i < count; i++) {
                char* next = indexed + offsets[i + 1 < count ? i + 1 : i];
                copy_run(dense + i * dense_step, indexed + offsets[i], next);
            }
        } else for (int64_t i = 0; i < count; i++) {
            char *here = dense + i * dense_step, *there = indexed + offsets[i];
            for (int64_t j = 0; j < m; j++, here += m_dense, there += m_indexed) copy_run(here, there, there + m_indexed);
        }
    }
}

// Single elements at offsets of 32 bits, which go from vectors of indices straight to registers: two by a word. Each is
// stored by itself: put together in vectors, they took 1.3 to 1.5 times as long in the L1 cache.
struct Elements { char *dense, *indexed; const char* indices; const int32_t* bases; int64_t count, size, stride; };
typedef void (*MoveElements)(const Elements&);
template <class I, Mode mode, int W, bool scatters> void elements(const Elements& k) {
    typedef Signed<W> E;
    char *dense = k.dense, *indexed = k.indexed;
    const char* indices = k.indices;
    const int32_t* bases = k.bases;
    const int64_t count = k.count, size = k.size;
    const int32_t stride = int32_t(k.stride);
    auto move = [&](int64_t at, int64_t offset) INLINE_LAMBDA {
        if constexpr (scatters) store(indexed + offset, load<E>(dense + at * W));
        else store(dense + at * W, load<E>(indexed + offset));
    };
    auto offsets = [&](auto lanes, int64_t at) INLINE_LAMBDA {
        constexpr int N = decltype(lanes)::value;
        auto place = positions_of<I, mode, true, N>(load<Vec<I, N>>(indices + at * sizeof(I)), size);
        return __builtin_convertvector(place, Vec<int32_t, N>) * stride;
    };
    // Many indices are loaded before the first store, and no zeros between: in some 64 stores to anywhere there is one that
    // the processor takes for a store to the vector that it loads.
    constexpr int N = VECTOR == 64 ? 64 : 16;
    // The last step is moved back to end with the row: all of its elements are moved again, in the same order.
    for (int64_t at = 0; at < count && count >= N; at += N) {
        end_with(at, N, count);
        for (size_t line = 0; line < N * sizeof(I); line += LINE) __builtin_prefetch(indices + at * sizeof(I) + INDICES_AHEAD + line);
        auto of_step = offsets(Count<N>(), at);
        if (bases) of_step += load<Vec<int32_t, N>>(bases + at);
        auto words = bits<Vec<int64_t, N / 2>>(of_step);
        unrolled<N / 2>([&](auto n) INLINE_LAMBDA {
            int64_t word = words[n.value];
            __asm__("" : "+r"(word));  // one extraction, of which the compiler makes two
            move(at + 2 * n, int32_t(word));
            move(at + 2 * n + 1, word >> 32);
        });
    }
    if (count < N) for (int64_t at = 0; at < count; at++) move(at, offsets(Count<1>(), at)[0] + (bases ? bases[at] : 0));
}

// body(at) for every item: its places in some loops, of which the first turns fastest; up to four loops are of blocks.
template <class Size, class Body> INLINE void for_places(int64_t loops, Size size, int64_t first, int64_t last, Body body) {
    int64_t at[MOST_LOOPS + 4], rest = first;
    for (int64_t k = 0; k < loops; k++) { at[k] = rest % size(k); rest /= size(k); }
    for (int64_t number = first; number < last; number++) {
        body(at);
        for (int64_t k = 0; k < loops && ++at[k] == size(k); k++) at[k] = 0;
    }
}

// Strides of a loop on the dense side, on the indexed side and in the indices, and its blocks.
struct Around { int64_t size, dense, indexed, index; };
struct Within { int64_t size, dense, indexed, index, block, blocks; };
struct Sides {
    char *dense, *indexed; const char* indices;
    template <class L> INLINE Sides along(const L& loop, int64_t steps) const {
        return {dense + steps * loop.dense, indexed + steps * loop.indexed, indices + steps * loop.index};
    }
};

// Offsets of indices from the first of a chunk: some one by one, and then vectors of them from those before.
constexpr int LANES_OF_BASES = 16;
template <class B> INLINE void fill_bases(B* bases, int64_t count, int64_t width, int64_t along, int64_t row) {
    constexpr int N = LANES_OF_BASES;
    const int64_t first = width < N ? (N + width - 1) / width * width : N;
    for (int64_t i = 0, column = 0, at = 0; i < first; i++) {
        bases[i] = B(at + column * along);
        if (++column == width) { column = 0; at += row; }
    }
    auto extend = [&](int64_t begin, int64_t end, int64_t distance, int64_t step) INLINE_LAMBDA {
        for (int64_t i = begin; i < end; i += N) store(bases + i, load<Vec<B, N>>(bases + i - distance) + B(step));
    };
    if (width < N) extend(first, count, first, first / width * row);
    else {
        extend(N, smaller(width, count), N, N * along);
        extend(width, count, width, row);
    }
}

// body(row, column, count) for chunks of the places from `begin` to `end`, in rows of `width`: some whole rows, or a part of
// one.
INLINE int64_t chunk_of(int64_t most, int64_t width) { return width < most ? most / width * width : most; }
template <class Body> INLINE void for_chunks(int64_t begin, int64_t end, int64_t width, int64_t chunk, Body body) {
    int64_t row = begin < width ? 0 : begin / width, column = begin - row * width;
    for (int64_t at = begin, count; at < end; at += count) {
        const bool is_part = column || width > chunk;
        count = smaller(end - at, is_part ? smaller(chunk, width - column) : chunk);
        body(row, column, count);
        column = is_part && column + count < width ? column + count : 0;
        if (!column) row += is_part ? 1 : chunk / width;
    }
}

struct Gather {
    const char* indices;
    Resolve resolve; Transfer transfer; MoveElements elements;  // the last or the two before
    int64_t width, row;              // `b` runs through rows of so many indices, so many bytes apart on the indexed side
    int64_t follows;                 // whether the indices depend on `a`
    int64_t scatters, components, rank;
    int64_t run, run_block, run_blocks;
    Within m, b, a;
    int64_t more[];                  // the outer loops, the innermost first; then each axis: size, stride, bytes into a tuple
};

inline void gather(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Gather& p = *(const Gather*)parameters;
    const Around* outer = (const Around*)p.more;
    const int64_t* axes = p.more + 4 * p.rank;
    alignas(LINE) int64_t bases[CHUNK_OF_ELEMENTS / 2 + 2 * LANES_OF_BASES], offsets[CHUNK];
    const int64_t chunk = chunk_of(p.elements ? CHUNK_OF_ELEMENTS : CHUNK, p.width);
    const bool is_row = p.elements && p.width >= chunk && !p.b.indexed;  // all are 0
    // Short rows of indices that differ are resolved together.
    const bool are_short = !p.elements && p.follows && p.b.blocks == 1 && p.b.size <= CHUNK / 2;
    const int64_t together = are_short ? smaller(CHUNK / p.b.size, p.a.block) : 1, most = smaller(chunk, p.b.block * together);
    if (!p.elements) fill_bases(bases, most, p.width, p.b.indexed, p.row);
    else if (!is_row) fill_bases((int32_t*)bases, most, p.width, p.b.indexed, p.row);
    auto size = [&](int64_t k) INLINE_LAMBDA {
        return k == 0 ? p.run_blocks : k == 1 ? p.m.blocks : k == 2 ? p.b.blocks : k == 3 ? p.a.blocks : outer[k - 4].size;
    };
    for_places(4 + p.rank, size, first, last, [&](const int64_t* at) INLINE_LAMBDA {
        Sides item = {p.scatters ? (char*)source : target, p.scatters ? target : (char*)source, p.indices};
        for (int64_t k = 0; k < p.rank; k++) item = item.along(outer[k], at[4 + k]);
        // The last block of a long run overlaps the one before it.
        const int64_t part = smaller(at[0] * p.run_block, p.run - p.run_block);
        item.dense += part; item.indexed += part;
        const int64_t m = at[1] * p.m.block, start = at[2] * p.b.block, a = at[3] * p.a.block;
        const int64_t end = smaller(start + p.b.block, p.b.size), rows = smaller(p.a.block, p.a.size - a);
        item = item.along(p.m, m).along(p.a, a);
        for (int64_t turn = 0, some; turn < (p.follows ? rows : 1); turn += some) {
            const Sides row = item.along(p.a, turn);
            some = smaller(together, rows - turn);
            for_chunks(start, end, p.width, chunk, [&](int64_t before, int64_t column, int64_t count) INLINE_LAMBDA {
                const int64_t b = before * p.width + column;
                char *dense = row.dense + b * p.b.dense, *indexed = row.indexed + before * p.row + column * p.b.indexed;
                const char* indices = row.indices + b * p.b.index;
                if (p.elements) {
                    p.elements({dense, indexed, indices, is_row ? nullptr : (int32_t*)bases, count, axes[0], axes[1]});
                    return;
                }
                for (int64_t k = 0; k < p.components; k++) {
                    const int64_t* axis = axes + 3 * k;
                    p.resolve({indices + axis[2], p.b.index, count, some, p.a.index, axis[0], axis[1], k ? offsets : bases, offsets});
                }
                p.transfer({dense, indexed, p.components ? offsets : bases, count, p.b.dense, p.run_block,
                            smaller(p.m.block, p.m.size - m), p.m.dense, p.m.indexed, p.follows ? some : rows, p.a.dense,
                            p.follows ? 0 : p.a.indexed, p.follows ? count : 0});
            });
        }
    });
}
