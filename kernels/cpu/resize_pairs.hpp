// Filters over bytes: two taps a multiplication of 16-bit numbers.
//
//     columns   x0 x1 of row 0, of row 1 ... of row 15, of each channel, then x2 x3 ...   one pair of weights for all rows
//
// Pillow's weights have 22 fractional bits and a sign. They are w = high * 2^11 + low, two parts of 16 bits, and the whole
// sum is exact in 32 bits. torch's weights are one part. Both sums are rounded half up, shifted, and clamped.
#pragma once
#include "resize_turns.hpp"

constexpr int PAIR = 2 * ROWS;         // bytes of a pair of pixels of 16 rows
constexpr int BITS = 22, LOW = 11;     // fractional bits of weights, and of their lower part
constexpr int64_t ENDS = PAIR * ROWS;  // bytes of a copy of the ends of 16 rows

// Of many pairs, every other one has sums of its own: an instruction that multiplies and adds takes several cycles.
constexpr int CHAINS =
#if defined(__AVX512VNNI__)
    2;
#else
    1;
#endif

// The pairs in 16 bytes of 16 rows from an address on: a pair of all rows is 32 bytes. Where a register has two of the
// four groups of rows, groups 1 and 2 change places here, and again in `store_elements`.
constexpr bool swaps = VECTOR < 64;
struct Turn { Vec<uint8_t, VECTOR> places; int64_t pairs, pair_pitch; };
template <bool together> INLINE void turn(const char* const (&rows)[ROWS], int64_t at, const Turn& t, char* to) {
    typedef Vec<uint8_t, VECTOR> V;
    constexpr int in = VECTOR / 16, parts = 4 / in;
    Vec<uint32_t, VECTOR / 4> pairs[4][parts];  // two pairs, of four neighbouring rows each, in 16 bytes
    unrolled<parts>([&](auto part) INLINE_LAMBDA {
        Vec<uint16_t, VECTOR / 2> four[4];
        unrolled<4>([&](auto k) INLINE_LAMBDA {
            V joined;
            unrolled<in>([&](auto group) INLINE_LAMBDA {
                store((char*)&joined + 16 * group, load<Vec<uint8_t, 16>>(rows[4 * (part * in + group) + k] + at));
            });
            four[k] = bits<Vec<uint16_t, VECTOR / 2>>(placed<VECTOR>(joined, t.places));
        });
        unrolled<4>([&](auto number) INLINE_LAMBDA {
            constexpr int upper = decltype(number)::value / 2, after = decltype(number)::value % 2;
            auto a = bits<Vec<uint32_t, VECTOR / 4>>(interleaved<upper, uint16_t, VECTOR / 2>(four[0], four[1]));
            auto b = bits<Vec<uint32_t, VECTOR / 4>>(interleaved<upper, uint16_t, VECTOR / 2>(four[2], four[3]));
            pairs[number][part] = interleaved<after, uint32_t, VECTOR / 4>(a, b);
        });
    });
    unrolled<4>([&](auto number) INLINE_LAMBDA {
        if (2 * number >= t.pairs) return;
        auto groups = load<Vec<uint64_t, 8>>(pairs[number]);
        auto both = shuffle<8, [](int i) { return (swaps ? i % 4 / 2 * 2 + i % 2 * 4 : i % 4 * 2) + i / 4; }>(groups, groups);
        const int64_t apart = together ? PAIR : t.pair_pitch;
        char* into = to + 2 * number * apart;
        if constexpr (together) store(into, both);
        else {
            store(into, load<Vec<uint64_t, 4>>(&both));
            store(into + apart, load<Vec<uint64_t, 4>>((char*)&both + PAIR));
        }
    });
}

// The pairs of whole rows. No byte behind a row is read: its last 16 are copied, and the last pairs are those of copies.
template <int C, bool together> INLINE void pair_columns(const Geometry& g, const char* const (&rows)[ROWS], char* columns) {
    const int64_t step = g.step, block = g.block, last = g.elements - 16, whole = last / step + 1;
    Turn t = {{}, g.pairs, g.pair_pitch};
    for (int at = 0; at < VECTOR; at += 16) store((char*)&t.places + at, load<Vec<uint8_t, 16>>(g.places));
    int64_t pixel = 0;
    for (; pixel < whole; pixel += block) turn<together>(rows, pixel * step, t, columns + pixel * (C * PAIR / 2));
    if (pixel >= g.pixels) return;
    char* ends = columns + g.outputs_at - ENDS;
    const char* copies[ROWS];
    for (int k = 0; k < ROWS; k++) {
        copies[k] = ends + k * PAIR - last;
        store(ends + k * PAIR, load<Vec<uint8_t, 16>>(rows[k] + last));
    }
    for (; pixel < g.pixels; pixel += block) turn<together>(copies, pixel * step, t, columns + pixel * (C * PAIR / 2));
}

// 16 rows of a sum for each channel, as bytes: those of a channel one behind the other.
template <int C> INLINE void store_elements(Sums<LANES> (&sums)[ROWS / LANES][C], char* out, int64_t apart) {
    constexpr int vectors = ROWS / LANES;
    constexpr bool few = vectors == 2 && C <= 2;  // one vector has all
    Vec<uint8_t, few ? 32 : 64> line;
    if constexpr (few) {
        auto quarters = bits<Vec<uint64_t, 4>>(packed<LANES>(sums[0][0], sums[1][0], sums[0][C - 1], sums[1][C - 1]));
        line = bits<Vec<uint8_t, 32>>(shuffle<4, [](int i) { return i % 2 * 2 + i / 2; }>(quarters, quarters));
    } else {
        unrolled<vectors>([&](auto k) INLINE_LAMBDA {
            auto of = [&](int c) INLINE_LAMBDA { return sums[k][c < C ? c : C - 1]; };
            store((char*)&line + k * VECTOR, packed<LANES>(of(0), of(1), of(2), of(3)));
        });
        auto groups = bits<Vec<uint32_t, 16>>(line);
        constexpr auto place = [](int i) { int group = i % 4; return 4 * (swaps ? group / 2 + group % 2 * 2 : group) + i / 4; };
        line = bits<Vec<uint8_t, 64>>(shuffle<16, place>(groups, groups));
    }
    unrolled<C>([&](auto c) INLINE_LAMBDA { store(out + c * apart, load<Vec<uint8_t, 16>>((char*)&line + 16 * c)); });
}

template <int C, int PARTS> void along_pairs(const Geometry& g, ReadRows from, WrittenRows to, char* columns, ReadRows ahead) {
    const char* rows[ROWS]; char* into[ROWS];
    for (int k = 0; k < ROWS; k++) { rows[k] = from[k] + g.joined_strides[0]; into[k] = to[k]; }
    if (g.joined == 1) pair_columns<C, true>(g, rows, columns);
    else for (int64_t plane = 0; plane < g.joined; plane++) {
        for (int k = 0; k < ROWS; k++) rows[k] = from[k] + g.joined_strides[plane];
        pair_columns<C, false>(g, rows, columns + plane * PAIR);
    }
    // Where rows shrink, the 16 rows behind these are prefetched to the L2 cache, a part of a row with each column.
    const int64_t read = g.elements * ROWS / g.columns, part = (read | (LINE - 1)) + 1;
    if (read <= LINE) ahead = nullptr;
    const int64_t shift = PARTS == 1 ? BITS - g.column.unused : BITS, half = int64_t(1) << shift >> 1;
    char* const outputs = columns + g.outputs_at;
    const int64_t pixel_out = g.pixel_out, channel_out = g.channel_out, groups = g.column.groups, *counts = g.column.counts;
    auto columns_of = [&](auto many) INLINE_LAMBDA {
        constexpr int chains = decltype(many)::value, vectors = ROWS / LANES;
        // Registers of rows at once, as far as their sums are half of the registers.
        constexpr int at_once = C * PARTS * vectors <= 8 ? vectors : 1, sets = C * at_once;
        const int64_t* index = g.column.indices;
        const int32_t* begin = g.column.weights;
        char* out = outputs;
        for (int64_t x = 0, count = g.columns; x < count; x++) {
            if (ahead) for (int64_t plane = 0; plane < g.joined; plane++) {
                const char* row = ahead[x % ROWS] + g.joined_strides[plane] + x / ROWS * part;
                for (int64_t line = 0; line < part; line += LINE) __builtin_prefetch(row + line, 0, 2);
            }
            const char* const pixel = columns + (*index & -2) * (C * PAIR / 2);
            Sums<LANES> sums[vectors][C];
            unrolled<vectors / at_once>([&](auto k) INLINE_LAMBDA {
                Sums<LANES> high[sets * chains] = {}, low[sets * chains] = {};
                unrolled<sets>([&](auto set) INLINE_LAMBDA { low[set] = all<int32_t, LANES>(int32_t(half)); });
                const char* at = pixel + k * at_once * 2 * LANES;
                const int32_t* weights = begin;
                auto add = [&](auto chain) INLINE_LAMBDA {
                    unrolled<sets>([&](auto set) INLINE_LAMBDA {
                        constexpr int into = decltype(chain)::value * sets + decltype(set)::value;
                        auto from = at + (chain * C + set / at_once) * PAIR + set % at_once * 2 * LANES;
                        auto words = cast<int16_t, uint8_t, 2 * LANES>(load<Vec<uint8_t, 2 * LANES>>(from));
                        if constexpr (PARTS == 2) high[into] += pair_products<LANES>(words, weights[chain * PARTS]);
                        low[into] += pair_products<LANES>(words, weights[chain * PARTS + PARTS - 1]);
                    });
                };
                int64_t pairs = counts[x];
                for (; pairs >= chains; pairs -= chains, at += chains * C * PAIR, weights += chains * PARTS)
                    unrolled<chains>(add);
                if (chains > 1 && pairs > 0) add(Count<0>());
                unrolled<sets>([&](auto set) INLINE_LAMBDA {
                    if constexpr (chains > 1) { high[set] += high[sets + set]; low[set] += low[sets + set]; }
                    sums[k * at_once + set % at_once][set / at_once] = ((high[set] << LOW) + low[set]) >> int32_t(shift);
                });
            });
            store_elements<C>(sums, out, channel_out);
            out += pixel_out; index++; begin += groups * PARTS;
        }
    };
    if (CHAINS > 1 && groups >= 6) columns_of(Count<CHAINS>()); else columns_of(Count<1>());
    turn_back<uint8_t>(outputs, into, g.unit);
}

// Along y: a register of neighbouring bytes at a time. The last one of a row of the source is moved back to end with it.
// Of few pairs the number is a constant, and their rows and weights stay in registers: of one, and where registers are
// narrow, for which each step is less work, of up to three.
template <int V, int PARTS, int COUNT>
INLINE void down_steps(const char* rows, int64_t pitch, const int64_t* indices, const int32_t* weights, int64_t count,
                       int32_t shift, char* into, int64_t nbytes) {
    typedef Vec<uint8_t, V> Bytes;
    const int32_t half = 1 << shift >> 1;
    const char* start[2 * COUNT + 2];
    for (int k = 0; k < 2 * COUNT; k++) start[k] = rows + indices[k] * pitch;
    auto step = [&](int64_t x) INLINE_LAMBDA {
        Sums<V / 4> high[4] = {}, low[4];
        unrolled<4>([&](auto k) INLINE_LAMBDA { low[k] = all<int32_t, V / 4>(half); });
        auto add = [&](const char* upper, const char* lower, const int32_t* weight) INLINE_LAMBDA {
            Bytes a = load<Bytes>(upper + x), b = load<Bytes>(lower + x);
            Bytes halves[2] = {interleaved<0, uint8_t, V>(a, b), interleaved<1, uint8_t, V>(a, b)};
            unrolled<4>([&](auto k) INLINE_LAMBDA {
                auto words = bits<Vec<int16_t, V / 2>>(interleaved<decltype(k)::value % 2, uint8_t, V>(halves[k / 2], Bytes{}));
                if constexpr (PARTS == 2) high[k] += pair_products<V / 4>(words, weight[0]);
                low[k] += pair_products<V / 4>(words, weight[PARTS - 1]);
            });
        };
        if constexpr (COUNT > 0) unrolled<COUNT>([&](auto pair) INLINE_LAMBDA {
            add(start[2 * pair], start[2 * pair + 1], weights + PARTS * pair);
        });
        else for (int64_t pair = 0; pair < count; pair++)
            add(rows + indices[2 * pair] * pitch, rows + indices[2 * pair + 1] * pitch, weights + PARTS * pair);
        auto whole = [&](int k) INLINE_LAMBDA { return ((high[k] << LOW) + low[k]) >> shift; };
        store(into + x, packed<V / 4>(whole(0), whole(1), whole(2), whole(3)));
    };
    int64_t x = 0;
    for (; x + V <= nbytes; x += V) step(x);
    if (x < nbytes) step(nbytes - V);
}
template <int PARTS>
void down_pairs(const Geometry& g, const char* rows, int64_t pitch, int64_t row, char* into, int64_t nbytes) {
    const int64_t* indices = g.row.indices + row * g.row.groups * 2;
    const int32_t* weights = g.row.weights + row * g.row.groups * PARTS;
    const int64_t count = g.row.counts[row];
    const int32_t shift = int32_t(PARTS == 1 ? BITS - g.row.unused : BITS);
    auto steps = [&](auto width, auto pairs) INLINE_LAMBDA {
        constexpr int V = decltype(width)::value, COUNT = decltype(pairs)::value;
        down_steps<V, PARTS, COUNT>(rows, pitch, indices, weights, count, shift, into, nbytes);
    };
    if (nbytes < VECTOR) steps(Count<16>(), Count<0>());
    else if (count == 1) steps(Count<VECTOR>(), Count<1>());
    else if (VECTOR < 64 && count == 2) steps(Count<VECTOR>(), Count<2>());
    else if (VECTOR < 64 && count == 3) steps(Count<VECTOR>(), Count<3>());
    else steps(Count<VECTOR>(), Count<0>());
}
