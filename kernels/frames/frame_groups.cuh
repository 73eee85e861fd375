// Groups of eight pixels of a row of a frame with repeated chroma, a sample of it for two columns: loaded as vectors of
// each plane, and converted.
//
//     pairs      | y0 … y7 |   | u0 v0 … u3 v3 |            two loads
//     apart      | y0 … y7 |   | u0 … u3 |   | v0 … v3 |    three loads
//     packed     | y0 u0 y1 v0 … y6 u3 y7 v3 |              one load
//     registers  | y0 … y7 |   | u0 … u3 |   | v0 … v3 |
//     colours    | r0 g0 b0 r1 … b7 |                       three stores
#pragma once
#include "frame_chroma.cuh"

namespace sg {

// Where a group's samples are: chroma in pairs, in two planes, or between luma. None: they are no aligned vectors.
enum class FrameRuns : int32 { none, pairs, apart, packed };

// A group as it was loaded: luma and chroma, in pairs or of two planes; or both halves of packed pixels.
template <typename Sample> struct FrameGroup {
    using Run = Vector<Sample, 8>;
    Run luma, chroma;
};

// The groups of a frame, which begin at each eighth column.
template <typename Sample> struct FrameGroups {
    using Group = FrameGroup<Sample>;
    using Run = typename Group::Run;
    static constexpr int length = Run::length;
    using Half = Vector<Sample, length / 2>;
    static constexpr int pixel_bytes = 3 * int(sizeof(Sample)), bytes = length * pixel_bytes;  // of colours

    FrameRuns runs;
    int32 columns;  // of whole groups; 0 without runs

    __device__ __forceinline__ explicit FrameGroups(const FramePixels<Sample>& frame)
        : columns(0), luma(frame.samples[0]), blue(frame.samples[1]), red(frame.samples[2]),
          luma_stride(frame.shape.row_strides[0]), blue_stride(frame.shape.row_strides[1]),
          red_stride(frame.shape.row_strides[2]), row_shift(frame.shape.row_shift), matrix(frame.shape.matrix) {
        const FrameShape& shape = frame.shape;
        runs = runs_of(shape.column_strides[0], shape.column_strides[1], shape.column_strides[2]);
        if (shape.kind != FrameKind::repeated || matrix.floors != 0) runs = FrameRuns::none;
        if (runs != FrameRuns::none) columns = shape.width / length * length;
    }

    // Group `number` of a row, all of whose pixels are the frame's.
    __device__ __forceinline__ Group load(int32 row, int32 number) const {
        Group group;
        const int32 chroma_row = row >> row_shift;
        if (sizeof(Sample) == 1 && runs == FrameRuns::packed) {
            const Sample* const pixels = at(first_sample(), luma_stride, row, number * 2 * length);
            const auto both = load_global<Vector<Sample, 2 * length>>(pixels);
#pragma unroll
            for (int w = 0; w < Run::words; ++w) {
                group.luma.word[w] = both.word[w];
                group.chroma.word[w] = both.word[Run::words + w];
            }
            return group;
        }
        group.luma = load_global<Run>(at(luma, luma_stride, row, number * length));
        if (runs == FrameRuns::pairs) {
            group.chroma = load_global<Run>(at(first_chroma(), blue_stride, chroma_row, number * length));
            return group;
        }
        const Half blues = load_global<Half>(at(blue, blue_stride, chroma_row, number * (length / 2)));
        const Half reds = load_global<Half>(at(red, red_stride, chroma_row, number * (length / 2)));
#pragma unroll
        for (int w = 0; w < Half::words; ++w) {
            group.chroma.word[w] = blues.word[w];
            group.chroma.word[Half::words + w] = reds.word[w];
        }
        return group;
    }

    // Stores a group's colours as packed pixels, from byte `first` on, as those of three vectors that have bytes from
    // `begin` to before `end`.
    __device__ __forceinline__ void store_colours(const Group& group, uint8* to, int32 first, int32 begin,
                                                  int32 end) const {
        const Separate samples = separate(group);
        int32 whole[3 * length];
#pragma unroll
        for (int i = 0; i < length; ++i) {
            const int32 u = difference_of(samples.blue, i / 2, matrix.chroma_centre);
            const int32 v = difference_of(samples.red, i / 2, matrix.chroma_centre);
            int32 colour[3];
            unclamped_colour<Sample>(sample_of(samples.luma, i), u, v, matrix, false, colour);
#pragma unroll
            for (int c = 0; c < 3; ++c) whole[3 * i + c] = colour[c];
        }
        constexpr int per_word = 4 / int(sizeof(Sample));
#pragma unroll
        for (int k = 0; k < 3; ++k) {
            Run made;
#pragma unroll
            for (int w = 0; w < Run::words; ++w) {
                int32 some[per_word];
#pragma unroll
                for (int i = 0; i < per_word; ++i) some[i] = whole[k * length + w * per_word + i];
                made.word[w] = saturated_word<Sample>(some);
            }
            const int32 byte = first + k * Run::bytes;
            if (byte + Run::bytes > begin && byte < end) store(to + byte, made);
        }
    }

  private:
    struct Separate {
        Run luma;
        Half blue, red;
    };

    uint64 luma, blue, red;                      // the address of the first sample of each kind
    int64 luma_stride, blue_stride, red_stride;  // of rows, in samples
    int32 row_shift;
    FrameMatrix matrix;

    __device__ __forceinline__ uint64 first_chroma() const { return blue < red ? blue : red; }
    __device__ __forceinline__ uint64 first_sample() const { return luma < first_chroma() ? luma : first_chroma(); }

    static __device__ __forceinline__ const Sample* at(uint64 first, int64 stride, int32 row, int32 sample) {
        return reinterpret_cast<const Sample*>(first) + row * stride + sample;
    }

    // Whether each row begins at a multiple of so many bytes.
    static __device__ __forceinline__ bool are_aligned(uint64 first, int64 stride, int nbytes) {
        return ((uint32(first) | uint32(stride) * uint32(sizeof(Sample))) & uint32(nbytes - 1)) == 0;
    }

    // From the steps between columns. Packed samples of 16 bits are read singly.
    __device__ __forceinline__ FrameRuns runs_of(int64 luma_step, int64 blue_step, int64 red_step) const {
        if (blue_step != red_step) return FrameRuns::none;
        if (luma_step == 1) {
            if (!are_aligned(luma, luma_stride, Run::bytes)) return FrameRuns::none;
            const bool are_apart = blue_step == 1 && are_aligned(blue, blue_stride, Half::bytes) &&
                                   are_aligned(red, red_stride, Half::bytes);
            if (are_apart) return FrameRuns::apart;
        }
        const uint64 first = first_chroma(), between = blue + red - 2 * first;
        if (blue_stride != red_stride) return FrameRuns::none;
        if (luma_step == 1 && blue_step == 2 && between == sizeof(Sample)) {
            return are_aligned(first, blue_stride, Run::bytes) ? FrameRuns::pairs : FrameRuns::none;
        }
        const uint64 low = first_sample(), beside = luma + first - 2 * low;
        const bool is_packed = sizeof(Sample) == 1 && luma_step == 2 && blue_step == 4 && between == 2 && beside == 1 &&
                               luma_stride == blue_stride && are_aligned(low, luma_stride, 2 * Run::bytes);
        return is_packed ? FrameRuns::packed : FrameRuns::none;
    }

    __device__ __forceinline__ Separate separate(const Group& group) const {
        if (runs == FrameRuns::apart) {
            Separate made;
            made.luma = group.luma;
#pragma unroll
            for (int w = 0; w < Half::words; ++w) {
                made.blue.word[w] = group.chroma.word[w];
                made.red.word[w] = group.chroma.word[Half::words + w];
            }
            return made;
        }
        const uint32 place = blue < red ? 0 : 1;
        if (sizeof(Sample) == 1 && runs == FrameRuns::packed) {
            const uint32 even = luma < first_chroma() ? 0 : 1;
            const Run chroma = joined(every_second(group.luma, even ^ 1u), every_second(group.chroma, even ^ 1u));
            return {joined(every_second(group.luma, even), every_second(group.chroma, even)),
                    every_second(chroma, place), every_second(chroma, place ^ 1u)};
        }
        return {group.luma, every_second(group.chroma, place), every_second(group.chroma, place ^ 1u)};
    }

    // Samples 0, 2, 4 and 6; with `odd` 1 those behind them.
    static __device__ __forceinline__ Half every_second(const Run& run, uint32 odd) {
        const uint32 chosen = sizeof(Sample) == 1 ? 0x6420u + odd * 0x1111u : 0x5410u + odd * 0x2222u;
        Half made;
#pragma unroll
        for (int w = 0; w < Half::words; ++w) made.word[w] = __byte_perm(run.word[2 * w], run.word[2 * w + 1], chosen);
        return made;
    }

    static __device__ __forceinline__ Run joined(const Half& low, const Half& high) {
        Run made;
#pragma unroll
        for (int w = 0; w < Half::words; ++w) {
            made.word[w] = low.word[w];
            made.word[Half::words + w] = high.word[w];
        }
        return made;
    }
};

}  // namespace sg
