// Short runs: blocks of words whose runs on either side are shorter than some vectors, permuted by tables of bytes, and runs
// of both sides. The planner (stridedgpu/devices/cpu/native/short_runs.py) makes the tables: one loop serves every
// permutation.
#pragma once
#include "loops.hpp"

// step(sources, targets) for every block, so many at once; the last one along a loop is moved back to end with it.
template <int together, class Step> INLINE void for_blocks(const Grid& grid, const Item& item, int64_t step_a, int64_t step_b, Step step) {
    const Axis rows = grid.a, columns = grid.b;
    const int64_t last_a = rows.size - step_a - item.a, last_b = columns.size - step_b - item.b;
    for (int64_t row = 0; row < item.rows; row += step_a) {
        const int64_t a = row < last_a ? row : last_a;
        const char *from = item.source + a * rows.source, *source[together];
        char *to = item.target + a * rows.target, *target[together];
        for (int64_t column = 0; column < item.size; column += together * step_b) {
            unrolled<together>([&](auto block) INLINE_LAMBDA {
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

// Merges: each result is merged of as many loads as all others, of which each gives its bytes by a table of 16 places.
//
//     source runs                  a0 a1 a2 a3 ...   b0 b1 b2 b3 ...
//     places of a result, - none   0  -  1  -  ...   -  0  -  1  ...
//     result                       a0 b0 a1 b1 ...
//
// A vector of 32 bytes has two blocks. Results of many loads are merged in two rounds: of slots, which are merged of loads.
struct Merges {
    int64_t a, b;                // places of a block along the inner loops
    int64_t read, written;       // bytes of a load and of a result: 16, 8, 4 or 2
    int64_t results, loads;      // of a block, and of each result or slot
    int64_t slots, takes;        // vectors in the L1 cache that results are merged of, and those of each; or none
    const int64_t *puts, *gets;  // where results go, and where loads begin
    const int64_t* from;         // the slots of each result
    const char* places;          // of all loads, then of all slots
    Grid grid;
};
constexpr int LANE = 16, BLOCKS = VECTOR >= 32 ? 2 : 1;  // bytes of a table, and blocks of a step
constexpr int MOST_SLOTS = 64;
typedef Vec<char, LANE * BLOCKS> Lanes;

// Bytes within each 16; 128 is the place of none.
INLINE Lanes taken(Lanes from, Lanes places) {
#if defined(__AVX2__)
    return __builtin_ia32_pshufb256(from, places);
#elif defined(__aarch64__)
    typedef Vec<int8_t, 16> V;
    return bits<Lanes>(__builtin_neon_vqtbl1q_v(bits<V>(from), bits<V>(places), 48));
#else
    Lanes result = {};
    for (size_t lane = 0; lane < sizeof result; lane++) if (int8_t(places[lane]) >= 0) result[lane] = from[places[lane]];
    return result;
#endif
}

// The vectors of `count` others, or of `each` if that is 0: next() gives one, and `places` their tables.
template <int count, class Next> INLINE Lanes merged(int64_t each, const char*& places, Next next) {
    Lanes v = {};
    auto take = [&](int) INLINE_LAMBDA {
        Lanes table;
        auto part = load<Vec<char, LANE>>(places);
        unrolled<BLOCKS>([&](auto block) INLINE_LAMBDA { __builtin_memcpy((char*)&table + block * LANE, &part, LANE); });
        v |= taken(next(), table);
        places += LANE;
    };
    if constexpr (count) unrolled<count>(take);
    else for (; each > 0; each--) take(0);
    return v;
}

template <int read, int written, int loads, int takes> INLINE void merge_blocks(const Merges& p, const Item& item) {
    const int64_t results = p.results, slots = p.slots, each = p.loads, *const puts = p.puts, *const gets = p.gets, *const from = p.from;
    const char* const tables = p.places;
    for_blocks<BLOCKS>(p.grid, item, p.a, p.b, [&](const char* const (&source)[BLOCKS], char* const (&target)[BLOCKS]) INLINE_LAMBDA {
        alignas(LINE) char buffer[takes ? MOST_SLOTS * sizeof(Lanes) : 1];
        const int64_t *get = gets, *slot = from;
        const char* places = tables;
        auto loaded = [&]() INLINE_LAMBDA {
            Lanes v = {};
            unrolled<BLOCKS>([&](auto block) INLINE_LAMBDA {
                auto piece = load<Vec<char, read>>(source[block] + *get);
                __builtin_memcpy((char*)&v + block * LANE, &piece, read);
            });
            get++;
            return v;
        };
        auto taken_slot = [&]() INLINE_LAMBDA { return load<Lanes>(buffer + *slot++); };
        if constexpr (takes) for (int64_t at = 0; at < slots; at++) store(buffer + at * sizeof(Lanes), merged<loads>(each, places, loaded));
        for (int64_t result = 0; result < results; result++) {
            Lanes v;
            if constexpr (takes) v = merged<takes>(takes, places, taken_slot);
            else v = merged<loads>(each, places, loaded);
            unrolled<BLOCKS>([&](auto block) INLINE_LAMBDA {
                store(target[block] + puts[result], load<Vec<char, written>>((char*)&v + block * LANE));
            });
        }
    });
}

inline void merges(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Merges& p = *(const Merges*)parameters;
    for_items(p.grid, source, target, first, last, [&](const Item& item) INLINE_LAMBDA {
        auto forms = [&](auto read, auto written) INLINE_LAMBDA {
            if (p.read != read || p.written != written) return;
            constexpr bool in_rounds = read >= 8 && written >= 8;
            if constexpr (in_rounds) if (p.takes) {
                unrolled<3>([&](auto i) INLINE_LAMBDA {
                    if (p.takes != i + 2) return;
                    if (p.loads == 2) merge_blocks<read, written, 2, i + 2>(p, item);
                    else if (p.loads == 3) merge_blocks<read, written, 3, i + 2>(p, item);
                    else if (p.loads == 4) merge_blocks<read, written, 4, i + 2>(p, item);
                    else merge_blocks<read, written, 0, i + 2>(p, item);
                });
                return;
            }
            if (p.loads == 1) merge_blocks<read, written, 1, 0>(p, item);
            else if (p.loads == 2) merge_blocks<read, written, 2, 0>(p, item);
            else if (p.loads == 4) merge_blocks<read, written, 4, 0>(p, item);
            else merge_blocks<read, written, 0, 0>(p, item);
        };
        unrolled<4>([&](auto i) INLINE_LAMBDA { unrolled<4>([&](auto j) INLINE_LAMBDA { forms(Count<(16 >> i)>(), Count<(16 >> j)>()); }); });
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
                // Units are loaded before others are stored, which may be the same memory for all the processor knows.
                auto copy = [&](auto count) INLINE_LAMBDA {
                    V begin[count], behind[count];
                    unrolled<count>([&](auto i) INLINE_LAMBDA {
                        begin[i] = load<V>(from); behind[i] = load<V>(from + end);
                        from += columns.source;
                    });
                    unrolled<count>([&](auto i) INLINE_LAMBDA {
                        store(to, begin[i]); store(to + end, behind[i]);
                        to += columns.target;
                    });
                };
                int64_t left = size;
                for (; left >= 4; left -= 4) copy(Count<4>());
                for (; left > 0; left--) copy(Count<1>());
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

// Pixels of 3 elements, transposed as words of 4: 16 pixels of as many source lines as a vector has words.
//
//     source lines    words                    transposed within 16 bytes    target lines
//     abc def ...     abc- def- ...            abc- ABC- ...                 abcABC ...
//     ABC DEF ...     ABC- DEF- ...            def- DEF- ...                 defDEF ...
struct Turns { int64_t word; Grid grid; };  // bytes of a word: 4, 8 or 16

// Transpose within each 16 bytes of L vectors: rounds of interleaving lines half the height apart.
template <int round, class T, int N, int L> INLINE void turn_words(Vec<T, N> (&lines)[L]) {
    if constexpr (round < L) {
        Vec<T, N> turned[L];
        unrolled<L>([&](auto r) INLINE_LAMBDA {
            constexpr int half = decltype(r)::value % 2 * (L / 2);
            turned[r] = shuffle<N, [](int i) { return i / L * L + half + i % L / 2 + N * (i % 2); }>(lines[r / 2], lines[r / 2 + L / 2]);
        });
        unrolled<L>([&](auto r) INLINE_LAMBDA { lines[r] = turned[r]; });
        turn_words<2 * round, T, N>(lines);
    }
}

template <int word> INLINE void turn_blocks(const Grid& grid, const Item& item) {
    constexpr int pixel = word * 3 / 4, L = 16 / word, N = VECTOR / word;
    typedef Vec<char, VECTOR> V;
    typedef Vec<Signed<word>, VECTOR / sizeof(Signed<word>)> Words;
    const int64_t source_pitch = grid.b.source, target_pitch = grid.a.target;
    for_blocks<1>(grid, item, 16, N, [&](const char* const (&sources)[1], char* const (&targets)[1]) INLINE_LAMBDA {
        const char* source = sources[0];
        char* target = targets[0];
        for (const char* end = source + 16 * pixel; source < end; source += 48) unrolled<4>([&](auto group) INLINE_LAMBDA {
            // The last 16 bytes of 48 end with them.
            constexpr int from = group < 3 ? group * 12 : 32, first = group * 12 - from;
            Words lines[L];
            unrolled<L>([&](auto r) INLINE_LAMBDA {
                V v;
                unrolled<VECTOR / 16>([&](auto part) INLINE_LAMBDA {
                    auto piece = load<Vec<char, 16>>(source + (part * L + r) * source_pitch + from);
                    __builtin_memcpy((char*)&v + 16 * part, &piece, 16);
                });
                constexpr auto place = [](int i) { return i % word < pixel ? i / 16 * 16 + first + i % 16 / word * pixel + i % word : -1; };
                lines[r] = bits<Words>(shuffle<VECTOR, place>(v, v));
            });
            if constexpr (L > 1) turn_words<1, Signed<word>, N>(lines);
            unrolled<L>([&](auto r) INLINE_LAMBDA {
                constexpr auto place = [](int i) { return i < VECTOR * 3 / 4 ? i / pixel * word + i % pixel : -1; };
                V v = bits<V>(lines[r]);
                v = shuffle<VECTOR, place>(v, v);
                store(target, load<Vec<char, VECTOR / 2>>(&v));
                store(target + VECTOR / 2, load<Vec<char, VECTOR / 4>>((char*)&v + VECTOR / 2));
                target += target_pitch;
            });
        });
    });
}

inline void turns(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Turns& p = *(const Turns*)parameters;
    for_items(p.grid, source, target, first, last, [&](const Item& item) INLINE_LAMBDA {
        if (p.word == 4) turn_blocks<4>(p.grid, item);
        else if (p.word == 8) turn_blocks<8>(p.grid, item);
        else turn_blocks<16>(p.grid, item);
    });
}

#if defined(__AVX512VBMI__)
// Networks: blocks in up to 8 registers of a line, and as many results.
//
//     source runs       registers                     each result                      target runs
//     a0 a1 a2          a0 a1 a2 b0 b1 b2 c0 c1       of all registers, two a          a0 b0 c0 a1
//     b0 b1 b2     ->   c2 d0 d1 d2             ->    shuffle, by tables of      ->    b1 c1 a2
//     c0 c1 c2 ...      loads by masks                places                           b2 c2 ...
struct Piece { int64_t offset; uint64_t lanes; };  // lane i lies at the offset and i bytes, in memory
struct Part { int64_t offset, place; };            // consecutive bytes of all results, in memory
struct Network {
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
typedef Vec<char, LINE> Line;

INLINE Line merged_of(Line left, Line places, Line right) { return __builtin_ia32_vpermi2varqi512(left, places, right); }

template <int N, bool in_halves, int loaded, int stored> INLINE void permute_blocks(const Network& p, const Item& item) {
    constexpr int groups = in_halves ? 2 : 1, merges = in_halves ? N / 2 : N;  // vectors that a result is merged of
    const Piece* const loads = p.loads;
    const Part* const stores = p.stores;
    const char* const tables = p.tables;
    const int64_t pieces = p.pieces;
    // Tables stay in registers where there are enough of them.
    constexpr int shuffles = in_halves ? N * merges : N * (N > 1 ? N - 1 : 1), kept = shuffles + N + merges < 30 ? shuffles : 0;
    Line places[kept + 1];
    unrolled<kept>([&](auto k) INLINE_LAMBDA { places[k] = load<Line>(tables + k * LINE); });
    for_blocks<1>(p.grid, item, p.a, p.b, [&](const char* const (&sources)[1], char* const (&targets)[1]) INLINE_LAMBDA {
        const char* const source = sources[0];
        char* const target = targets[0];
        Line registers[N] = {}, merged[merges];
        alignas(LINE) char buffer[N * LINE];
        int table = 0;
        if constexpr (loaded) unrolled<N>([&](auto r) INLINE_LAMBDA {
            unrolled<loaded>([&](auto k) INLINE_LAMBDA {
                typedef Vec<char, LINE / loaded> V;
                auto piece = load<V>(source + loads[k * N + r].offset + k * sizeof(V));
                __builtin_memcpy((char*)&registers[r] + k * sizeof(V), &piece, sizeof(V));
            });
        });
        else for (const Piece* piece = loads; piece < loads + pieces * N; piece += N) unrolled<N>([&](auto r) INLINE_LAMBDA {
            const Line* from = (const Line*)(source + piece[r].offset);
            registers[r] = bits<Line>(__builtin_ia32_loaddquqi512_mask(from, registers[r], piece[r].lanes));
        });
        auto shuffled = [&](Line left, Line right) INLINE_LAMBDA {
            Line from = kept ? places[table] : load<Line>(tables + table * LINE);
            table++;
            return merged_of(left, from, right);
        };
        unrolled<groups>([&](auto group) INLINE_LAMBDA {
            unrolled<merges>([&](auto k) INLINE_LAMBDA {
                if constexpr (in_halves) merged[k] = shuffled(registers[2 * k], registers[2 * k + 1]);
                else merged[k] = registers[k];
            });
            unrolled<N / groups>([&](auto place) INLINE_LAMBDA {
                constexpr int result = group * (N / groups) + place;
                Line v = shuffled(merged[0], merged[merges > 1]);
                unrolled<(merges > 2 ? merges - 2 : 0)>([&](auto k) INLINE_LAMBDA { v = shuffled(v, merged[k + 2]); });
                if constexpr (!stored) store(buffer + result * LINE, v);
                else unrolled<stored>([&](auto k) INLINE_LAMBDA {
                    typedef Vec<char, LINE / stored> V;
                    store(target + stores[k * N + result].offset + k * sizeof(V), load<V>((const char*)&v + k * sizeof(V)));
                });
            });
        });
        if constexpr (!stored) {
            const Part* part = stores;
            unrolled<7>([&](auto shift) INLINE_LAMBDA {
                typedef either<(shift < 3), Vec<char, (64 >> shift)>, Signed<(shift < 3 ? 8 : 64 >> shift)>> V;
                for (const Part* end = part + p.parts[shift]; part < end; part++) store(target + part->offset, load<V>(buffer + part->place));
            });
        }
    });
}

inline void networks(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Network& p = *(const Network*)parameters;
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
            if (form(quarters, quarters) || form(quarters, any) || form(halves, any)) return;
            permute_blocks<vectors, in_halves, 0, 0>(p, item);
        };
        if (p.vectors == 1) blocks(Count<1>(), Count<0>());
        else if (p.vectors == 2) blocks(Count<2>(), Count<0>());
        else if (p.vectors == 3) blocks(Count<3>(), Count<0>());
        else if (p.vectors == 4 && !p.in_halves) blocks(Count<4>(), Count<0>());
        else if (p.vectors == 6) blocks(Count<6>(), Count<1>());
        else if (p.vectors == 8) blocks(Count<8>(), Count<1>());
        else blocks(Count<4>(), Count<1>());
    });
}
#endif
