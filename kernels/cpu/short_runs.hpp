// Short runs: blocks of words whose runs on either side are shorter than some vectors, permuted by tables of bytes.
//
//     source runs       registers                     each result                      target runs
//     a0 a1 a2          a0 a1 a2 b0 b1 b2 c0 c1       of all registers, two a          a0 b0 c0 a1
//     b0 b1 b2     ->   c2 d0 d1 d2             ->    shuffle, by tables of      ->    b1 c1 a2
//     c0 c1 c2 ...      loads by masks                places                           b2 c2 ...   stores by masks
//
// The planner (stridedgpu/devices/cpu/native/short_runs.py) makes masks and tables: one loop serves every permutation.
#pragma once
#include "loops.hpp"

#if defined(__AVX512VBMI__)
typedef Vec<char, 64> Bytes;

struct Piece { int64_t offset; uint64_t lanes; };  // lane i lies at the offset and i bytes, in memory
struct Part { int64_t offset, place; };            // consecutive bytes of all results, in memory
struct Permutation {
    int64_t a, b;            // places of a block along the inner loops
    int64_t vectors;         // registers, and results
    int64_t in_halves;       // whether half of the results take no more than a vector of each pair of registers
    int64_t loaded, stored;  // pieces of each register and of each result, that are all as long: 1, 2 or 4; or else 0
    int64_t pieces;          // of each register, of which some may have no lanes
    const Piece* loads;      // the first piece of each register, then the second of each ...
    const char* tables;      // of each half those of its pairs, then those of each result
    const Part* stores;      // the first piece of each result ...; else parts of 64, 32, 16, 8, 4, 2 and 1 bytes in order
    int64_t parts[7];
    Grid grid;
};

template <int N, bool in_halves, int loaded, int stored> INLINE void permute_blocks(const Permutation& p, const Item& item) {
    constexpr int groups = in_halves ? 2 : 1, merges = in_halves ? N / 2 : N;  // vectors that a result is merged of
    const Piece* const loads = p.loads;
    const Part* const stores = p.stores;
    const char* const tables = p.tables;
    const Axis rows = p.grid.a, columns = p.grid.b;
    const int64_t step_a = p.a, step_b = p.b, pieces = p.pieces;
    // Tables stay in registers where there are enough of them.
    constexpr int shuffles = in_halves ? N * merges : N * (N > 1 ? N - 1 : 1), kept = shuffles + N + merges < 30 ? shuffles : 0;
    Bytes places[kept + 1];
    unrolled<kept>([&](auto k) INLINE_LAMBDA { places[k] = load<Bytes>(tables + k * LINE); });
    // The last block along a loop is moved back to end with it.
    const int64_t last_a = rows.size - step_a - item.a, last_b = columns.size - step_b - item.b;
    auto block = [&](const char* source, char* target) INLINE_LAMBDA {
        Bytes registers[N] = {}, merged[merges];
        if constexpr (loaded) unrolled<N>([&](auto r) INLINE_LAMBDA {
            unrolled<loaded>([&](auto k) INLINE_LAMBDA {
                typedef Vec<char, LINE / loaded> V;
                auto piece = load<V>(source + loads[k * N + r].offset + k * sizeof(V));
                __builtin_memcpy((char*)&registers[r] + k * sizeof(V), &piece, sizeof(V));
            });
        });
        else for (const Piece* piece = loads; piece < loads + pieces * N; piece += N) unrolled<N>([&](auto r) INLINE_LAMBDA {
            auto from = (const Bytes*)(source + piece[r].offset);
            registers[r] = bits<Bytes>(__builtin_ia32_loaddquqi512_mask(from, registers[r], piece[r].lanes));
        });
        int table = 0;
        auto shuffled = [&](Bytes left, Bytes right) INLINE_LAMBDA {
            Bytes from = kept ? places[table] : load<Bytes>(tables + table * LINE);
            table++;
            return (Bytes)__builtin_ia32_vpermi2varqi512(left, from, right);
        };
        alignas(LINE) char buffer[N * LINE];
        unrolled<groups>([&](auto group) INLINE_LAMBDA {
            unrolled<merges>([&](auto k) INLINE_LAMBDA {
                if constexpr (in_halves) merged[k] = shuffled(registers[2 * k], registers[2 * k + 1]);
                else merged[k] = registers[k];
            });
            unrolled<N / groups>([&](auto place) INLINE_LAMBDA {
                constexpr int result = group * (N / groups) + place;
                Bytes v = shuffled(merged[0], merged[merges > 1]);
                unrolled<(merges > 2 ? merges - 2 : 0)>([&](auto k) INLINE_LAMBDA { v = shuffled(v, merged[k + 2]); });
                if constexpr (stored) unrolled<stored>([&](auto k) INLINE_LAMBDA {
                    store(target + stores[k * N + result].offset, load<Vec<char, LINE / stored>>((char*)&v + k * (LINE / stored)));
                });
                else store(buffer + result * LINE, v);
            });
        });
        const Part* part = stores;
        if constexpr (!stored) unrolled<7>([&](auto shift) INLINE_LAMBDA {
            typedef either<(shift < 3), Vec<char, (64 >> shift)>, Signed<(shift < 3 ? 8 : 64 >> shift)>> V;
            for (const Part* end = part + p.parts[shift]; part < end; part++)
                store(target + part->offset, load<V>(buffer + part->place));
        });
    };
    for (int64_t row = 0; row < item.rows; row += step_a) {
        const int64_t a = row < last_a ? row : last_a;
        const char* source = item.source + a * rows.source;
        char* target = item.target + a * rows.target;
        for (int64_t column = 0; column < item.size; column += step_b) {
            const int64_t b = column < last_b ? column : last_b;
            block(source + b * columns.source, target + b * columns.target);
        }
    }
}

inline void short_runs(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Permutation& p = *(const Permutation*)parameters;
    for_items(p.grid, source, target, first, last, [&](const Item& item) INLINE_LAMBDA {
        auto blocks = [&](auto vectors, auto in_halves) INLINE_LAMBDA {
            const int64_t pieces = 10 * p.loaded + p.stored;
            if (pieces == 11) permute_blocks<vectors, in_halves, 1, 1>(p, item);
            else if (pieces == 12) permute_blocks<vectors, in_halves, 1, 2>(p, item);
            else if (pieces == 14) permute_blocks<vectors, in_halves, 1, 4>(p, item);
            else if (pieces == 21) permute_blocks<vectors, in_halves, 2, 1>(p, item);
            else if (pieces == 22) permute_blocks<vectors, in_halves, 2, 2>(p, item);
            else if (pieces == 41) permute_blocks<vectors, in_halves, 4, 1>(p, item);
            else if (pieces == 44) permute_blocks<vectors, in_halves, 4, 4>(p, item);
            else if (pieces == 20) permute_blocks<vectors, in_halves, 2, 0>(p, item);
            else if (pieces == 40) permute_blocks<vectors, in_halves, 4, 0>(p, item);
            else if (pieces == 10) permute_blocks<vectors, in_halves, 1, 0>(p, item);
            else if (pieces == 1) permute_blocks<vectors, in_halves, 0, 1>(p, item);
            else permute_blocks<vectors, in_halves, 0, 0>(p, item);
        };
        auto in_halves = [&](auto vectors) INLINE_LAMBDA {
            if (p.in_halves) blocks(vectors, Count<1>());
            else blocks(vectors, Count<0>());
        };
        if (p.vectors == 1) blocks(Count<1>(), Count<0>());
        else if (p.vectors == 2) blocks(Count<2>(), Count<0>());
        else if (p.vectors == 3) blocks(Count<3>(), Count<0>());
        else if (p.vectors == 4) in_halves(Count<4>());
        else if (p.vectors == 6) in_halves(Count<6>());
        else blocks(Count<8>(), Count<1>());
    });
}
#else
inline void short_runs(const char*, char*, const void*, int64_t, int64_t) {}
#endif
