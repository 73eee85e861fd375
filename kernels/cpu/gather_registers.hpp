// Rows whose elements are looked up in registers of AVX-512 with VBMI: up to 1 KB of a row, or of some short rows, in up to
// 16 registers.
//
//     indexed    [a b c d e f g ...]    a row, or a group of short ones
//     indices     6 0 2 3 ...           resolved to positions in the registers, in L1
//                 | | | |
//     dense       g a c d ...           the elements, in one vector store
//
// An instruction looks up in two registers, and an upper bit of the position chooses between two of its results. Only
// bytes of the rows are read: the last registers are loaded by masks. The last step of a row is moved back to end with it.
#pragma once
#include "gather.hpp"
#if defined(__AVX512VBMI__)

constexpr int MOST_POSITIONS = 1024;  // that are resolved together
constexpr int ROWS_AHEAD = 2048;      // bytes: chunk by chunk is too uneven for the hardware's prefetcher

// Indices as positions: * parts + places. Positions of bytes have an upper byte each, if there are `upper` ones.
struct Positions { const char* indices; int64_t count, size, parts; const char* places; char *positions, *upper; };
typedef void (*Position)(const Positions&);

template <class I, class P, bool clips, bool has_upper> void position(const Positions& k) {
    constexpr int lanes = LINE / (has_upper ? 1 : sizeof(P));
    const int64_t count = k.count, size = k.size, parts = k.parts;
    const char *indices = k.indices, *places = k.places;
    char *positions = k.positions, *upper = k.upper;
    auto in_steps = [&](auto of) INLINE_LAMBDA {
        constexpr int N = decltype(of)::value, W = N < 16 ? N : 16;
        typedef Signed<sizeof(P)> Narrow;
        typedef Vec<Narrow, N> V;
        auto narrowed = [&](Vec<I, W> part) INLINE_LAMBDA {  // checked indices first, clipped ones last
            if constexpr (clips && is_signed<I>) part = __builtin_elementwise_max(part, Vec<I, W>{});
            if constexpr (clips) part = __builtin_elementwise_min(part, all<I, W>(I(size - 1)));
            return __builtin_convertvector(part, Vec<Narrow, W>);
        };
        for (int64_t at = 0; at < count; at += N) {
            end_with(at, N, count);
            const char* soon = indices + at * sizeof(I) + INDICES_AHEAD;
            for (size_t line = 0; line < N * sizeof(I); line += LINE) __builtin_prefetch(soon + line);
            V v = in_parts<Narrow, W, I, N>(load<Vec<I, N>>(indices + at * sizeof(I)), narrowed);
            auto place = bits<Vec<P, N>>(v);
            if constexpr (!clips) {
                place = bits<Vec<P, N>>(pick(v < 0, v + all<Narrow, N>(Narrow(size)), v));
                place = __builtin_elementwise_min(place, all<P, N>(P(size - 1)));
            }
            if (parts > 1) [[unlikely]] { place *= P(parts); __asm__(""); }  // by a branch: a product takes as long as the rest
            if (places) place += load<Vec<P, N>>(places + at * sizeof(P));
            if constexpr (has_upper) {
                store(positions + at, cast<uint8_t, P, N>(place));
                store(upper + at, cast<uint8_t, P, N>(place >> 8));
            } else store(positions + at * sizeof(P), place);
        }
    };
    if constexpr (lanes < 32) if (count >= 32) { in_steps(Count<32>()); return; }
    in_steps(Count<lanes>());
}

template <class T> using Register = Vec<T, LINE / sizeof(T)>;
template <class To, class T> INLINE Vec<To, LINE / sizeof(To)> as(Register<T> v) { return bits<Vec<To, LINE / sizeof(To)>>(v); }
template <class T> INLINE Register<T> in_one(Register<T> a, Register<T> at) {
    typedef Register<T> R;
    if constexpr (sizeof(T) == 1) return bits<R>(__builtin_ia32_permvarqi512(as<char, T>(a), as<char, T>(at)));
    else if constexpr (sizeof(T) == 2) return bits<R>(__builtin_ia32_permvarhi512(as<short, T>(a), as<short, T>(at)));
    else if constexpr (sizeof(T) == 4) return bits<R>(__builtin_ia32_permvarsi512(as<int, T>(a), as<int, T>(at)));
    else return bits<R>(__builtin_ia32_permvardi512(as<long long, T>(a), as<long long, T>(at)));
}
template <class T> INLINE Register<T> in_two(Register<T> a, Register<T> b, Register<T> at) {
    typedef Register<T> R;
    if constexpr (sizeof(T) == 1) return bits<R>(__builtin_ia32_vpermi2varqi512(as<char, T>(a), as<char, T>(at), as<char, T>(b)));
    else if constexpr (sizeof(T) == 2) return bits<R>(__builtin_ia32_vpermi2varhi512(as<short, T>(a), as<short, T>(at), as<short, T>(b)));
    else if constexpr (sizeof(T) == 4) return bits<R>(__builtin_ia32_vpermi2vard512(as<int, T>(a), as<int, T>(at), as<int, T>(b)));
    else return bits<R>(__builtin_ia32_vpermi2varq512(as<long long, T>(a), as<long long, T>(at), as<long long, T>(b)));
}

// Groups of `count` elements each, from tables of so many bytes. The positions of the next are `positions_step` further.
struct Lookup {
    const char* indexed; char* dense; const char *positions, *upper;
    int64_t indexed_step, dense_step, positions_step, bytes, count, groups;
};
typedef void (*LookUp)(const Lookup&);

// Of unsigned elements T, in so many pairs of registers; 0: in one.
template <class T, int pairs, bool has_upper> void look_up(const Lookup& k) {
    typedef Register<T> R;
    constexpr int lanes = LINE / sizeof(T), registers = pairs ? 2 * pairs : 1;
    const char *indexed = k.indexed, *positions = k.positions, *upper = k.upper;
    char* dense = k.dense;
    const int64_t indexed_step = k.indexed_step, dense_step = k.dense_step, positions_step = k.positions_step;
    const int64_t count = k.count;
    uint64_t masks[2];  // of the last registers, of which the second may be empty
    for (int n = 0; n < 2; n++) {
        int64_t rest = k.bytes - LINE * (registers - 2 + n);
        masks[n] = rest >= LINE ? ~0ull : rest <= 0 ? 0 : (1ull << rest) - 1;
    }
    for (int64_t group = k.groups; group > 0; group--, indexed += indexed_step, dense += dense_step, positions += positions_step) {
        R table[registers];
        unrolled<(registers < 2 ? 1 : 2)>([&](auto n) INLINE_LAMBDA { __builtin_prefetch(indexed + ROWS_AHEAD + n * LINE); });
        unrolled<registers>([&](auto n) INLINE_LAMBDA {
            const char* from = indexed + n * LINE;
            if constexpr (n < registers - 2) table[n] = load<R>(from);
            else {
                typedef Vec<char, LINE> Bytes;
                table[n] = bits<R>(__builtin_ia32_loaddquqi512_mask((const Bytes*)from, Bytes{}, masks[n - registers + 2]));
            }
        });
        for (int64_t at = 0; at < count; at += lanes) {
            end_with(at, lanes, count);
            auto position = load<R>(positions + at * sizeof(T));
            if constexpr (!pairs) { store(dense + at * sizeof(T), in_one<T>(table[0], position)); continue; }
            else {
                R found[pairs], above = {};
                if constexpr (has_upper) above = load<R>(upper + (positions - k.positions) + at);
                unrolled<pairs>([&](auto n) INLINE_LAMBDA { found[n] = in_two<T>(table[2 * n], table[2 * n + 1], position); });
                unrolled<3>([&](auto level) INLINE_LAMBDA {
                    constexpr int distance = 1 << level, bit = 2 * lanes << level;
                    if constexpr (distance < pairs) {
                        auto is_second = bit >> 8 && has_upper ? (above & T(bit >> 8)) != 0 : (position & T(bit)) != 0;
                        unrolled<8>([&](auto n) INLINE_LAMBDA {
                            if constexpr (n % (2 * distance) == 0 && n + distance < pairs)
                                found[n] = pick(is_second, found[n + distance], found[n]);
                        });
                    }
                });
                store(dense + at * sizeof(T), found[0]);
            }
        }
    }
}

struct Registers {
    const char* indices;
    Position position; LookUp look_up;
    int64_t element_bytes, position_bytes, index_bytes, registers, parts;
    int64_t repeated, has_places;  // all rows have the same indices; a group has several rows or parts
    int64_t together;              // groups that are resolved together, for which there are places
    int64_t rank;
    int64_t size, tail;            // of the indexed axis; elements in the last register
    int64_t step, last;            // rows from a group to the next, and the first row of the last group
    int64_t dense, indexed, index; // from a row to the next
    int64_t count, block, blocks;  // elements of a group
    int64_t many, parts_of_groups; // groups of an item, and the number of such
    int64_t more[];                // the outer loops; the elements of a row, where all have the same indices; places
};

inline void gather_in_registers(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Registers& p = *(const Registers*)parameters;
    const Around* outer = (const Around*)p.more;
    const int64_t* rest = p.more + 4 * p.rank;
    const int64_t width = p.repeated ? *rest++ : 0, element = p.element_bytes, lanes = LINE / element;
    const char* places = p.has_places ? (const char*)rest : nullptr;
    const int64_t groups = (p.last + p.step - 1) / p.step + 1, bytes = LINE * (p.registers - 1) + p.tail * element;
    alignas(LINE) char positions[8 * MOST_POSITIONS], upper[MOST_POSITIONS], numbers[8 * MOST_POSITIONS];
    auto size = [&](int64_t k) INLINE_LAMBDA { return k == 0 ? p.blocks : k == 1 ? p.parts_of_groups : outer[k - 2].size; };
    for_places(2 + p.rank, size, first, last, [&](const int64_t* at) INLINE_LAMBDA {
        Sides item = {target, (char*)source, p.indices};
        for (int64_t k = 0; k < p.rank; k++) item = item.along(outer[k], at[2 + k]);
        const int64_t end = smaller((at[0] + 1) * p.block, p.count), begin = smaller(at[0] * p.block, end - lanes);
        const int64_t begin_group = at[1] * p.many, end_group = smaller(begin_group + p.many, groups);
        auto resolve = [&](const char* indices, int64_t from, int64_t count) INLINE_LAMBDA {
            const char* own = places ? places + from * p.position_bytes : nullptr;
            p.position({indices + from * p.index_bytes, count, p.size, p.parts, own, positions, upper});
        };
        auto look_up = [&](int64_t group, int64_t some, int64_t from, int64_t count) INLINE_LAMBDA {
            const int64_t row = smaller(group * p.step, p.last);
            const int64_t step = p.repeated ? 0 : count * smaller(p.position_bytes, element);
            p.look_up({item.indexed + row * p.indexed, item.dense + row * p.dense + from * element, positions, upper,
                       p.step * p.indexed, p.step * p.dense, step, bytes, count, some});
        };
        const int64_t ends_early = groups > 1 && end_group == groups;  // the last group may overlap the one before it
        if (p.repeated) {
            const char* indices = item.indices;
            if (places) {  // the indices of a group
                for (int64_t i = begin; i < end; i++) {
                    const char* index = indices + i % width / p.parts * p.index_bytes;
                    if (p.index_bytes == 4) store(numbers + 4 * i, load<uint32_t>(index));
                    else store(numbers + 8 * i, load<uint64_t>(index));
                }
                indices = numbers;
            }
            resolve(indices, begin, end - begin);
            look_up(begin_group, end_group - begin_group - ends_early, begin, end - begin);
            if (ends_early) look_up(groups - 1, 1, begin, end - begin);
            return;
        }
        for (int64_t group = begin_group, some; group < end_group; group += some) {
            some = smaller(p.together, end_group - group);
            if (some > 1 && group + some == groups) some--;
            const char* indices = item.indices + smaller(group * p.step, p.last) * p.index;
            for (int64_t from = begin, count; from < end; from += count) {
                count = smaller(end - from, MOST_POSITIONS);
                if (end - from - count > 0 && end - from - count < lanes) count -= lanes;
                resolve(indices, from, some * count);
                look_up(group, some, from, count);
            }
        }
    });
}

// [int32, int64, uint32, uint64][checked, clipped][1, 2, 4, 8 bytes; 2 for elements of 1]
template <class... I> struct PositionsOf { Position functions[sizeof...(I)][2][5] = {
    {{position<I, uint8_t, false, false>, position<I, uint16_t, false, false>, position<I, uint32_t, false, false>,
      position<I, uint64_t, false, false>, position<I, uint16_t, false, true>},
     {position<I, uint8_t, true, false>, position<I, uint16_t, true, false>, position<I, uint32_t, true, false>,
      position<I, uint64_t, true, false>, position<I, uint16_t, true, true>}}...}; };
constexpr PositionsOf<int32_t, int64_t, uint32_t, uint64_t> positions;

// [elements of 1, 2, 4, 8 bytes; of 1 with positions of 2][pairs of registers]
template <class T, bool has_upper> struct LookUps { LookUp functions[9] = {
    look_up<T, 0, has_upper>, look_up<T, 1, has_upper>, look_up<T, 2, has_upper>, look_up<T, 3, has_upper>, look_up<T, 4, has_upper>,
    look_up<T, 5, has_upper>, look_up<T, 6, has_upper>, look_up<T, 7, has_upper>, look_up<T, 8, has_upper>}; };
struct AllLookUps {
    LookUps<uint8_t, false> bytes; LookUps<uint16_t, false> halves; LookUps<uint32_t, false> words; LookUps<uint64_t, false> longs;
    LookUps<uint8_t, true> bytes_of_long_rows;
};
constexpr AllLookUps lookups;
constexpr Loop in_registers[] = {gather_in_registers};
#endif
