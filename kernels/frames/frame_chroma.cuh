// Chroma of neighbouring pixels of a row, in registers: runs of samples, and repeated or linear chroma made of them.
#pragma once
#include "frame_samples.cuh"

namespace sg {

// Groups of samples in a row of a plane: `Count` of them, and the one behind, which at the row's end is its last.
template <typename Sample, int Group, int Count> struct SampleRun {
    using Run = Vector<Sample, Group * Count>;
    Run run{};
    Vector<Sample, Group> behind{};

    // Whether the run is one aligned vector.
    static __device__ __forceinline__ bool is_aligned(const Sample* from) { return uint64(from) % Run::bytes == 0; }

    __device__ __forceinline__ void load_vector(const Sample* from) { run = load_global<Run>(from); }
    __device__ __forceinline__ void load_behind(const Sample* from, uint32 available) {
        behind = load_global<Vector<Sample, Group>>(from + Group * (Count < available ? Count : available - 1));
    }
    // Samples one by one, from any address: those of `available` groups, and with RepeatsLast the last one behind them.
    template <bool RepeatsLast> __device__ __forceinline__ void load_singly(const Sample* from, uint32 available) {
#pragma unroll
        for (int j = 0; j <= Count; ++j) {
            if (j >= available && !RepeatsLast) continue;
            const Sample* const group = from + Group * (j < available ? j : available - 1);
#pragma unroll
            for (int i = 0; i < Group; ++i) {
                const Sample sample = load<Sample>(group + i);
                if (j < Count) run.set(Group * j + i, sample);
                else behind.set(i, sample);
            }
        }
    }

    // The run, or if `is_further` the one that begins `By` samples later.
    template <int By> __device__ __forceinline__ Run further(bool is_further) const {
        static_assert(By <= Group, "no more is behind");
        Run moved{};
        if constexpr (Run::bytes >= 4) {
            constexpr uint32 bits = 8 * By * uint32(sizeof(Sample));
#pragma unroll
            for (int w = 0; w < Run::words; ++w) {
                const uint32 next = w + 1 < Run::words ? run.word[w + 1] : uint32(behind.word[0]);
                if constexpr (bits == 32) moved.word[w] = is_further ? next : run.word[w];
                else moved.word[w] = __funnelshift_r(run.word[w], next, is_further ? bits : 0u);
            }
        } else {
#pragma unroll
            for (int i = 0; i < Run::length; ++i) {
                const int later = i + By;
                const Sample next = later < Run::length ? run.get(later) : behind.get(later - Run::length);
                moved.set(i, is_further ? next : run.get(i));
            }
        }
        return moved;
    }

    // Sample i of group j.
    __device__ __forceinline__ Sample get(int j, int i) const {
        return j < Count ? run.get(Group * j + i) : behind.get(i);
    }
    // The word with the first byte of group j, and that byte's place in it.
    __device__ __forceinline__ uint32 word(int j) const {
        return j < Count ? uint32(run.word[Group * j / per_word]) : uint32(behind.word[0]);
    }
    static __device__ __forceinline__ uint32 place(int j) { return j < Count ? uint32(Group * j % per_word) : 0u; }

  private:
    static constexpr int per_word = int(sizeof(typename Run::Word) / sizeof(Sample));
};

// A sample as a number; of 8 bits, one byte permute.
template <typename Sample, int N>
__device__ __forceinline__ int32 sample_of(const Vector<Sample, N>& samples, int i) {
    if constexpr (sizeof(Sample) == 1 && N >= 4) {
        return int32(__byte_perm(samples.word[i / 4], 0, 0x4440u + uint32(i % 4)));
    } else {
        return int32(samples.get(i));
    }
}

// A sample of chroma less the centre, which of 8 bits is 128: the sign's bit, inverted.
template <typename Sample, int N>
__device__ __forceinline__ int32 difference_of(const Vector<Sample, N>& samples, int i, int32 centre) {
    if constexpr (sizeof(Sample) == 1 && N >= 4) return signed_byte(samples.word[i / 4] ^ 0x80808080u, i % 4);
    else return int32(samples.get(i)) - centre;
}

// Blue and red difference of one pixel, less the centre.
struct ChromaDifference { int32 blue, red; };

// Sums of up to 8 samples of chroma, of both differences.
//
// 8 bits: the halves of a word, which add up together. A sum s is divided by 2^n, rounded and centred as the lower byte
// of (s + 2^(n-1) + 128 * 2^n) >> n, taken as signed. Bits of the upper half that are shifted down do not reach it.
template <typename Sample> struct ChromaSum {
    static_assert(sizeof(Sample) == 1, "16 bits have a specialisation");
    uint32 halves;

    // Of two samples of a group, or of one sample in each of two planes.
    template <typename Run> static __device__ __forceinline__ ChromaSum of(const Run& run, int j, int blue, int red) {
        return {__byte_perm(run.word(j), 0, 0x4040u + (uint32(blue) | uint32(red) << 8) + Run::place(j) * 0x101u)};
    }
    template <typename Run>
    static __device__ __forceinline__ ChromaSum of(const Run& blue, const Run& red, int j) {
        return {__byte_perm(blue.word(j), red.word(j), 0x400u + Run::place(j) * 0x101u) & 0x00ff00ffu};
    }
    __device__ __forceinline__ ChromaSum times_3_plus(const ChromaSum& other) const {
        return {3u * halves + other.halves};
    }
    __device__ __forceinline__ ChromaSum plus(const ChromaSum& other) const { return {halves + other.halves}; }
    // The sum divided by 2^Bits, rounded, less the centre.
    template <int Bits> __device__ __forceinline__ ChromaDifference divided(int32) const {
        constexpr uint32 added = (1u << (Bits - 1)) + (128u << Bits);
        const uint32 shifted = (halves + added * 0x10001u) >> Bits;
        return {signed_byte(shifted, 0), signed_byte(shifted, 2)};
    }
};

template <> struct ChromaSum<uint16> {
    int32 blue, red;

    template <typename Run> static __device__ __forceinline__ ChromaSum of(const Run& run, int j, int blue, int red) {
        return {int32(run.get(j, blue)), int32(run.get(j, red))};
    }
    template <typename Run>
    static __device__ __forceinline__ ChromaSum of(const Run& blue, const Run& red, int j) {
        return {int32(blue.get(j, 0)), int32(red.get(j, 0))};
    }
    __device__ __forceinline__ ChromaSum times_3_plus(const ChromaSum& other) const {
        return {3 * blue + other.blue, 3 * red + other.red};
    }
    __device__ __forceinline__ ChromaSum plus(const ChromaSum& other) const {
        return {blue + other.blue, red + other.red};
    }
    template <int Bits> __device__ __forceinline__ ChromaDifference divided(int32 centre) const {
        const int32 added = (1 << (Bits - 1)) - (centre << Bits);
        return {(blue + added) >> Bits, (red + added) >> Bits};
    }
};

}  // namespace sg
