// Short runs: blocks of words whose runs on either side are shorter than some vectors, permuted by tables of bytes.
//
//     source runs       registers                     each result                      target runs
//     a0 a1 a2          a0 a1 a2 b0 b1 b2 c0 c1       of all registers, two a          a0 b0 c0 a1
//     b0 b1 b2     ->   c2 d0 d1 d2             ->    shuffle, by tables of      ->    b1 c1 a2
//     c0 c1 c2 ...      loads by masks                places                           b2 c2 ...   stores by masks
//
// The planner (stridedgpu/devices/cpu/native/short_runs.py) makes masks and tables: one loop serves every permutation.
// Without AVX-512 VBMI a vector has 16 bytes, each register gives its bytes of a result by a table of its own, and a
// vector of 32 bytes has two blocks.
#pragma once
#include "loops.hpp"

#if defined(__AVX512VBMI__)
constexpr int WIDTH = 64, TOGETHER = 1;  // bytes of a block's vectors, and blocks of a step
#else
constexpr int WIDTH = 16, TOGETHER = VECTOR >= 32 ? 2 : 1;
#endif
typedef Vec<char, WIDTH * TOGETHER> Bytes;

struct Piece { int64_t offset; uint64_t lanes; };  // lane i lies at the offset and i bytes, in memory
struct Part { int64_t offset, place; };            // consecutive bytes of all registers, or of all results, in memory
struct Permutation {
    int64_t a, b;            // places of a block along the inner loops
    int64_t vectors;         // registers, and results
    int64_t in_halves;       // whether half of the results take no more than a vector of each pair of registers
    int64_t loaded, stored;  // pieces of each register and of each result, that are all as long: 1, 2 or 4; or else 0
    int64_t pieces;          // of each register, of which some may have no lanes
    const Piece* loads;      // the first piece of each register, then the second of each ...; or parts like those of stores
    const char* tables;      // of each half those of its pairs, then those of each result
    const Part* stores;      // the first piece of each result ...; else parts of 64, 32, 16, 8, 4, 2 and 1 bytes in order
    int64_t read_parts[7], written_parts[7];
    Grid grid;
};

#if defined(__AVX512VBMI__)
INLINE Bytes merged_of(Bytes left, Bytes places, Bytes right) { return __builtin_ia32_vpermi2varqi512(left, places, right); }
INLINE Bytes with_lanes(Bytes v, const char* source, uint64_t lanes) {
    return bits<Bytes>(__builtin_ia32_loaddquqi512_mask((const Bytes*)source, v, lanes));
}
#else
// Bytes within each 16; 128 is the place of none.
INLINE Bytes taken(Bytes from, Bytes places) {
#if defined(__AVX2__)
    return __builtin_ia32_pshufb256(from, places);
#elif defined(__aarch64__)
    typedef Vec<int8_t, 16> V;
    return bits<Bytes>(__builtin_neon_vqtbl1q_v(bits<V>(from), bits<V>(places), 48));
#else
    Bytes result = {};
    for (size_t lane = 0; lane < sizeof result; lane++) if (int8_t(places[lane]) >= 0) result[lane] = from[places[lane]];
    return result;
#endif
}
#endif

// move(to, from) for parts of each size.
template <class Move> INLINE void for_parts(const Part* part, const int64_t (&counts)[7], Move move) {
    unrolled<7>([&](auto shift) INLINE_LAMBDA {
        typedef either<(shift < 3), Vec<char, (64 >> shift)>, Signed<(shift < 3 ? 8 : 64 >> shift)>> V;
        for (const Part* end = part + counts[shift]; part < end; part++) move(*part, V());
    });
}

template <int N, bool in_halves, int loaded, int stored> INLINE void permute_blocks(const Permutation& p, const Item& item) {
    constexpr int groups = in_halves ? 2 : 1, merges = in_halves ? N / 2 : N;  // vectors that a result is merged of
    const Piece* const loads = p.loads;
    const Part* const stores = p.stores;
    const char* const tables = p.tables;
    const Axis rows = p.grid.a, columns = p.grid.b;
    const int64_t step_a = p.a, step_b = p.b;
#if defined(__AVX512VBMI__)
    const int64_t pieces = p.pieces;
    // Tables stay in registers where there are enough of them.
    constexpr int shuffles = in_halves ? N * merges : N * (N > 1 ? N - 1 : 1), kept = shuffles + N + merges < 30 ? shuffles : 0;
    Bytes places[kept + 1];
    unrolled<kept>([&](auto k) INLINE_LAMBDA { places[k] = load<Bytes>(tables + k * LINE); });
#endif
    // The last block along a loop is moved back to end with it.
    const int64_t last_a = rows.size - step_a - item.a, last_b = columns.size - step_b - item.b;
    auto step = [&](const char* const (&source)[TOGETHER], char* const (&target)[TOGETHER]) INLINE_LAMBDA {
        Bytes registers[N] = {}, merged[merges];
        alignas(LINE) char buffer[TOGETHER][N * WIDTH];
        int table = 0;
        if constexpr (loaded) unrolled<N>([&](auto r) INLINE_LAMBDA {
            unrolled<TOGETHER * loaded>([&](auto k) INLINE_LAMBDA {
                constexpr int block = k / loaded, turn = k % loaded;
                typedef Vec<char, WIDTH / loaded> V;
                auto piece = load<V>(source[block] + loads[turn * N + r].offset + turn * sizeof(V));
                __builtin_memcpy((char*)&registers[r] + k * sizeof(V), &piece, sizeof(V));
            });
        });
#if defined(__AVX512VBMI__)
        else for (const Piece* piece = loads; piece < loads + pieces * N; piece += N) unrolled<N>([&](auto r) INLINE_LAMBDA {
            registers[r] = with_lanes(registers[r], source[0] + piece[r].offset, piece[r].lanes);
        });
        auto shuffled = [&](Bytes left, Bytes right) INLINE_LAMBDA {
            Bytes from = kept ? places[table] : load<Bytes>(tables + table * LINE);
            table++;
            return merged_of(left, from, right);
        };
        auto result_of = [&]() INLINE_LAMBDA {
            Bytes v = shuffled(merged[0], merged[merges > 1]);
            unrolled<(merges > 2 ? merges - 2 : 0)>([&](auto k) INLINE_LAMBDA { v = shuffled(v, merged[k + 2]); });
            return v;
        };
#else
        else {
            unrolled<TOGETHER>([&](auto block) INLINE_LAMBDA {
                for_parts((const Part*)loads, p.read_parts, [&](const Part& part, auto v) INLINE_LAMBDA {
                    store(buffer[block] + part.place, load<decltype(v)>(source[block] + part.offset));
                });
            });
            unrolled<N>([&](auto r) INLINE_LAMBDA {
                unrolled<TOGETHER>([&](auto block) INLINE_LAMBDA {
                    __builtin_memcpy((char*)&registers[r] + block * WIDTH, buffer[block] + r * WIDTH, WIDTH);
                });
            });
        }
        auto result_of = [&]() INLINE_LAMBDA {
            Bytes v = {};
            unrolled<N>([&](auto r) INLINE_LAMBDA { v |= taken(merged[r], load<Bytes>(tables + table++ * sizeof v)); });
            return v;
        };
#endif
        unrolled<groups>([&](auto group) INLINE_LAMBDA {
            unrolled<merges>([&](auto k) INLINE_LAMBDA {
#if defined(__AVX512VBMI__)
                if constexpr (in_halves) { merged[k] = shuffled(registers[2 * k], registers[2 * k + 1]); return; }
#endif
                merged[k] = registers[k];
            });
            unrolled<N / groups>([&](auto place) INLINE_LAMBDA {
                constexpr int result = group * (N / groups) + place;
                Bytes v = result_of();
                unrolled<TOGETHER>([&](auto block) INLINE_LAMBDA {
                    const char* written = (const char*)&v + block * WIDTH;
                    if constexpr (!stored) store(buffer[block] + result * WIDTH, load<Vec<char, WIDTH>>(written));
                    else unrolled<stored>([&](auto k) INLINE_LAMBDA {
                        typedef Vec<char, WIDTH / stored> V;
                        store(target[block] + stores[k * N + result].offset + k * sizeof(V), load<V>(written + k * sizeof(V)));
                    });
                });
            });
        });
        if constexpr (!stored) unrolled<TOGETHER>([&](auto block) INLINE_LAMBDA {
            for_parts(stores, p.written_parts, [&](const Part& part, auto v) INLINE_LAMBDA {
                store(target[block] + part.offset, load<decltype(v)>(buffer[block] + part.place));
            });
        });
    };
    for (int64_t row = 0; row < item.rows; row += step_a) {
        const int64_t a = row < last_a ? row : last_a;
        const char *from = item.source + a * rows.source, *source[TOGETHER];
        char *to = item.target + a * rows.target, *target[TOGETHER];
        for (int64_t column = 0; column < item.size; column += TOGETHER * step_b) {
            unrolled<TOGETHER>([&](auto block) INLINE_LAMBDA {
                // A step's second block may be behind the item's last.
                const int64_t next = block && column + step_b >= item.size ? column : column + block * step_b;
                const int64_t b = next < last_b ? next : last_b;
                source[block] = from + b * columns.source;
                target[block] = to + b * columns.target;
            });
            step(source, target);
        }
    }
}

inline void short_runs(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Permutation& p = *(const Permutation*)parameters;
    for_items(p.grid, source, target, first, last, [&](const Item& item) INLINE_LAMBDA {
        auto blocks = [&](auto vectors, auto in_halves) INLINE_LAMBDA {
            auto form = [&](auto loaded, auto stored) INLINE_LAMBDA {
                if (p.loaded != loaded || p.stored != stored) return false;
                permute_blocks<vectors, in_halves, loaded, stored>(p, item);
                return true;
            };
            constexpr Count<0> any; constexpr Count<1> whole; constexpr Count<2> halves; constexpr Count<4> quarters;
            if (form(whole, whole) || form(whole, halves) || form(whole, quarters) || form(halves, whole)) return;
            if (form(quarters, whole) || form(halves, halves) || form(whole, any) || form(any, whole)) return;
            if constexpr (WIDTH == 64) if (form(quarters, quarters) || form(quarters, any) || form(halves, any)) return;
            permute_blocks<vectors, in_halves, 0, 0>(p, item);
        };
        if (p.vectors == 1) blocks(Count<1>(), Count<0>());
        else if (p.vectors == 2) blocks(Count<2>(), Count<0>());
        else if (p.vectors == 3) blocks(Count<3>(), Count<0>());
        else if (p.vectors == 4 && !p.in_halves) blocks(Count<4>(), Count<0>());
        else if (p.vectors == 6) blocks(Count<6>(), Count<WIDTH == 64>());
        else if (p.vectors == 8) blocks(Count<8>(), Count<WIDTH == 64>());
#if defined(__AVX512VBMI__)
        else blocks(Count<4>(), Count<1>());
#endif
    });
}

// Units: runs that both sides have in common, of up to 128 bytes, each copied by two steps that overlap.
struct Units { int64_t bytes; Grid grid; };

inline void units(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Units& p = *(const Units*)parameters;
    const int64_t bytes = p.bytes;
    for_items(p.grid, source, target, first, last, [&](const Item& item) INLINE_LAMBDA {
        auto copies = [&](auto v) INLINE_LAMBDA {
            typedef decltype(v) V;
            const Axis rows = p.grid.a, columns = p.grid.b;
            const int64_t end = bytes - int64_t(sizeof v), height = item.rows, size = item.size;
            for (int64_t row = 0; row < height; row++) {
                const char* from = item.source + row * rows.source;
                char* to = item.target + row * rows.target;
                auto copy = [&]() INLINE_LAMBDA {
                    V begin = load<V>(from), behind = load<V>(from + end);
                    store(to, begin); store(to + end, behind);
                    from += columns.source; to += columns.target;
                };
                int64_t left = size;
                for (; left >= 4; left -= 4) unrolled<4>([&](auto) INLINE_LAMBDA { copy(); });
                for (; left > 0; left--) copy();
            }
        };
        if (bytes >= 64) copies(Vec<char, 64>());
        else if (bytes >= 32) copies(Vec<char, 32>());
        else if (bytes >= 16) copies(Vec<char, 16>());
        else if (bytes >= 8) copies(int64_t());
        else if (bytes >= 4) copies(int32_t());
        else copies(int16_t());
    });
}
