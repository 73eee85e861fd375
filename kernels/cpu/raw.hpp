// Raw sensors: packed samples of 10 and 12 bits as numbers of 16. The formats are data: no loop is of one of them.
//
//     memory     a b c d e a b c d e ...      a step: 32 samples in whole groups, 40 or 48 bytes
//     words      a e | b e | c e | d e ...    the two bytes of each sample, the one with its higher bits behind
//     products   each field at the top        times a power of two: no AVX2 shifts words by various numbers
//     samples    (higher | lower) >> 16 - bits
#pragma once
#include "loops.hpp"

struct Raw {
    int64_t pitch, target_pitch, groups;        // of a row
    int64_t step, step_bytes, group_samples;    // `step`: its groups
    int64_t shift;
    uint8_t bytes[64];                          // where in a step each byte of its words lies
    uint16_t higher[32], lower[32], mask[32];   // what a word is multiplied by, and where the bits of the higher byte are
};

// Bytes are looked up in parts of a step; the last part ends with it.
#if defined(__AVX512VBMI__)
constexpr int PART = 32;   // both in one vector
#else
constexpr int PART = 16;
#endif
INLINE Vec<uint8_t, VECTOR> looked_up(Vec<uint8_t, VECTOR> v, Vec<uint8_t, VECTOR> places) {
    typedef Vec<uint8_t, VECTOR> Bytes;
#if defined(__AVX512VBMI__)
    return (Bytes)__builtin_ia32_permvarqi512((Vec<char, 64>)v, (Vec<char, 64>)places);
#elif defined(__AVX2__) && !defined(__AVX512F__)
    return (Bytes)__builtin_ia32_pshufb256((Vec<char, 32>)v, (Vec<char, 32>)places);
#elif defined(__aarch64__)
    return (Bytes)__builtin_neon_vqtbl1q_v((Vec<int8_t, 16>)v, (Vec<int8_t, 16>)places, 48);
#else
    Bytes r;
    for (int lane = 0; lane < VECTOR; lane++) r[lane] = v[(lane & -PART) + places[lane]];
    return r;
#endif
}

inline void raw(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Raw& p = *(const Raw*)parameters;
    constexpr int N = VECTOR / 2, vectors = 64 / VECTOR, parts = VECTOR / PART;
    typedef Vec<uint16_t, N> Words;
    typedef Vec<uint8_t, VECTOR> Bytes;
    const Words shift = all<uint16_t, N>(uint16_t(p.shift));
    Words higher[vectors], lower[vectors], mask[vectors];
    Bytes places[vectors];
    int64_t at[64 / PART];
    const int64_t step_bytes = p.step_bytes, group_bytes = step_bytes / p.step;
    for (int part = 0; part < 64 / PART; part++) {
        const int64_t begin = step_bytes * part * PART / 64, last = step_bytes - PART;
        at[part] = begin < last ? begin : last;
    }
    for (int k = 0; k < vectors; k++) {
        higher[k] = load<Words>(p.higher + k * N); lower[k] = load<Words>(p.lower + k * N);
        mask[k] = load<Words>(p.mask + k * N);
        for (int lane = 0; lane < VECTOR; lane++) {
            const int part = lane / PART, in_vector = VECTOR == 64 && PART == 32 ? part * PART : 0;
            places[k][lane] = uint8_t(p.bytes[k * VECTOR + lane] - at[k * parts + part] + in_vector);
        }
    }
    for (int64_t row = first; row < last; row++) {
        auto step = [&](const char* bytes, char* samples) INLINE_LAMBDA {
            unrolled<vectors>([&](auto k) INLINE_LAMBDA {
                Bytes joined;
                unrolled<parts>([&](auto part) INLINE_LAMBDA {
                    store((char*)&joined + PART * part, load<Vec<uint8_t, PART>>(bytes + at[k * parts + part]));
                });
                auto words = bits<Words>(looked_up(joined, places[k]));
                store(samples + k * VECTOR, ((words * higher[k] & mask[k]) | (words * lower[k] & ~mask[k])) >> shift);
            });
        };
        const char* bytes = source + row * p.pitch;
        char* samples = target + row * p.target_pitch;
        int64_t left = p.groups;
        for (; left >= p.step; left -= p.step, bytes += step_bytes, samples += 64) step(bytes, samples);
        const int64_t back = p.step - left;
        if (left) step(bytes - back * group_bytes, samples - 2 * back * p.group_samples);
    }
}
