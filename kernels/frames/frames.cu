// Luma-chroma frames to RGB: converted, mixed by a matrix if there is one, and written as planes or interleaved pixels.
//
// A thread computes V adjacent pixels of a row. Their luma and chroma are read as one vector from each plane, and with
// linear chroma from each of two rows, if the addresses allow it. Colours are integer sums, which are clamped, mixed,
// converted, and stored as a vector of each plane or as interleaved pixels:
//
//     luma       | y0 y1 y2 y3 … y(V-1) |
//     chroma     | u0 v0 u2 v2 … |  uV vV        pairs, two planes, or between the luma of packed pixels
//     beside     | u0 v0 u2 v2 … |  uV vV        the row above or below: linear chroma of 4:2:0
//     registers  | r0 … r(V-1) |   | g0 … g(V-1) |   | b0 … b(V-1) |
//     target     | r0 … |   | g0 … |   | b0 … |     or     | r0 g0 b0 r1 g1 b1 … |
//
// A window may begin at an odd column. Its first pixel is then the second of its chroma sample, and its rows read one
// more chroma sample, as all rows do with linear chroma. Of 4:4:4, each pixel has a sample. Samples beyond the window
// are read, and none beyond the frame.
//
// Bytes moved: each element of the target once, each luma sample once, and each chroma sample once for each row of
// pixels that uses it; all but the first read come from the cache.
#include "crop_windows.cuh"
#include "frame_chroma.cuh"

namespace sg {

// The planes of a frame: luma and interleaved chroma, three planes, or one packed plane.
enum class FramePlanes { pairs, apart, packed };

struct FramesPolicy {
    FramePlanes planes;
    int chroma_rows;            // rows of pixels that share a row of chroma
    int chroma_columns;         // pixels of a row that share a sample of chroma: 2, or 1 of 4:4:4
    bool linear;                // chroma; else repeated
    bool floors;                // products are rounded down, each by itself
    int luma, blue, red;        // the first sample's index in a row of packed pixels, or in a pair
    int rows;                   // of the matrix, or 0 without one
    bool finite;                // the sums of the matrix are finite, and need no look for NaN
    int count;                  // channels of the target
    uint32 places;              // hexadecimal digit c from the right: the colour of channel c (0 red, 1 green, 2 blue)
    int length;                 // pixels of a thread
    bool of_pixels, of_vectors; // whether whole pixels, or rows of planes, are stored as vectors
    Channels affines;
};

template <typename Product, typename Encode, typename Index, FramesPolicy policy> struct FramesParameters {
    using Sample = typename Product::Source;
    using Number = typename Encode::Source;
    const Sample* luma;         // of the frame's first pixel, or the first packed pixels
    uint8* target;
    const Sample* chroma[2];    // the other planes, from their first sample on
    uint32 top, left;           // the window's first pixel
    Number matrix[policy.rows > 0 ? 3 * policy.rows : 1];
    ChannelAffines<typename Encode::Compute, policy.affines> affines;
    int64 row_strides[3];       // of the planes, in samples
    Divisor<Index> vectors;     // threads of a row
    Index channel_stride, row_stride, column_stride, offset;  // of the target, in elements
    Index items;                // threads
    FrameMatrix colours;
    uint32 width;               // of the window, below 2^31
    uint32 chroma_height, columns;  // of the frame: rows of chroma, and pixels of a row
};

// The samples of a thread's pixels. Packed pixels are groups of four samples in one plane, luma among them.
template <typename Sample, FramesPolicy policy> struct FrameVectors {
    static constexpr int length = policy.length, shared = policy.chroma_columns;
    static constexpr bool is_packed = policy.planes == FramePlanes::packed;
    static constexpr bool is_apart = policy.planes == FramePlanes::apart;
    static constexpr int chroma_planes = is_apart ? 2 : 1;
    static constexpr int chroma_rows = policy.linear && policy.chroma_rows == 2 ? 2 : 1;
    static constexpr int runs = chroma_rows * chroma_planes;
    static constexpr int group = is_packed ? 4 : is_apart ? 1 : 2;
    using Luma = Vector<Sample, length>;
    using Chroma = SampleRun<Sample, group, length / shared>;
    static_assert(length % 2 == 0, "pixels that share chroma");
    static_assert(shared == 2 || !(policy.linear || is_packed), "each pixel has chroma of its own");

    Luma luma{};
    Chroma chroma[runs];  // of the nearer row, then of the other one
    bool is_odd;  // the first pixel is the second of its chroma sample

    template <typename Parameters>
    __device__ __forceinline__ FrameVectors(const Parameters& p, uint32 row, uint32 first)
        : is_odd(shared == 2 && (p.left & 1u) != 0) {
        const uint32 line = p.top + row, column = p.left + first, sample = column / shared;
        // Pixels and samples of chroma to the end of the frame's row.
        const uint32 inside = p.columns - column, available = (inside + is_odd + shared - 1) / shared;
        const uint32 own = line / policy.chroma_rows, last = p.chroma_height - 1;
        const uint32 beside = (line & 1u) == 0 ? own - (own > 0) : own + (own < last);
        const Sample* const ys = p.luma + int64(line) * p.row_strides[0] + column;
        const Sample* starts[runs];
        bool is_whole = inside >= length && (is_packed || uint64(ys) % Luma::bytes == 0);
#pragma unroll
        for (int i = 0; i < runs; ++i) {
            const int64 chroma_row = i < chroma_planes ? own : beside;
            const int plane = is_packed ? 0 : 1 + i % chroma_planes;
            const Sample* const first_sample = is_packed ? p.luma : p.chroma[plane - 1];
            starts[i] = first_sample + chroma_row * p.row_strides[plane] + int64(group) * sample;
            is_whole = is_whole && Chroma::is_aligned(starts[i]);
        }
        if (is_whole) {
            if constexpr (!is_packed) luma = load_global<Luma>(ys);
#pragma unroll
            for (int i = 0; i < runs; ++i) chroma[i].load_vector(starts[i]);
            if (policy.linear || is_odd) {
#pragma unroll
                for (int i = 0; i < runs; ++i) chroma[i].load_behind(starts[i], available);
            }
        } else {
#pragma unroll
            for (int i = 0; i < length; ++i) {
                if (!is_packed && i < inside) luma.set(i, load<Sample>(ys + i));
            }
#pragma unroll
            for (int i = 0; i < runs; ++i) chroma[i].template load_singly<policy.linear>(starts[i], available);
        }
    }

    // Chroma sample j of both differences; of 4:2:0, three times the nearer row's plus the other row's.
    __device__ __forceinline__ ChromaSum<Sample> sum(int j) const {
        const auto in_row = [&](int r) {
            // The order of two chroma planes follows from the index of blue's sample.
            const Chroma* const row = chroma + r * chroma_planes;
            if constexpr (is_apart) return ChromaSum<Sample>::of(row[policy.blue], row[policy.red], j);
            else return ChromaSum<Sample>::of(row[0], j, policy.blue, policy.red);
        };
        if constexpr (chroma_rows == 2) return in_row(0).times_3_plus(in_row(1));
        else return in_row(0);
    }

    // The chroma of pixel i.
    __device__ __forceinline__ ChromaDifference difference(int i, int32 centre) const {
        const int j = i / shared;
        if constexpr (policy.linear) {
            // An even column is the mean of two equal samples.
            constexpr int bits = chroma_rows == 2 ? 3 : 1;
            const ChromaSum<Sample> own = sum(j), next = sum(j + 1), middle = is_odd ? next : own;
            return middle.plus(sum((i + 1) / 2)).template divided<bits>(centre);
        } else {
            const Chroma &blues = chroma[is_apart ? policy.blue : 0], &reds = chroma[is_apart ? policy.red : 0];
            const int b = group * j + (is_apart ? 0 : policy.blue), r = group * j + (is_apart ? 0 : policy.red);
            const bool is_further = i % shared != 0 && is_odd;
            const auto later_blues = blues.template further<group>(is_further);
            const auto later_reds = reds.template further<group>(is_further);
            return {difference_of(later_blues, b, centre), difference_of(later_reds, r, centre)};
        }
    }

    __device__ __forceinline__ int32 luma_of(int i) const {
        if constexpr (is_packed) return sample_of(chroma[0].template further<2>(is_odd), 2 * i + policy.luma);
        else return sample_of(luma, i);
    }

    // One vector of each colour.
    __device__ __forceinline__ PixelPlanes<Sample, 3, length> colours(const FrameMatrix& matrix) const {
        using Planes = PixelPlanes<Sample, 3, length>;
        Planes made{};
        constexpr int per_word = Planes::Plane::bytes >= 4 ? 4 / int(sizeof(Sample)) : 1;
#pragma unroll
        for (int w = 0; w < length / per_word; ++w) {
            int32 whole[3][per_word];
#pragma unroll
            for (int i = 0; i < per_word; ++i) {
                const int pixel = w * per_word + i;
                const ChromaDifference chroma = difference(pixel, matrix.chroma_centre);
                int32 colour[3];
                unclamped_colour<Sample>(luma_of(pixel), chroma.blue, chroma.red, matrix, policy.floors, colour);
#pragma unroll
                for (int c = 0; c < 3; ++c) whole[c][i] = colour[c];
            }
#pragma unroll
            for (int c = 0; c < 3; ++c) {
                if constexpr (per_word > 1) made.planes[c].word[w] = saturated_word<Sample>(whole[c]);
                else made.planes[c].set(w, saturate<Sample>(whole[c][0]));
            }
        }
        return made;
    }
};

// One row of the matrix times the colours of each pixel: each product is rounded, then each sum, from red on.
template <typename Product, int Length, typename Number>
__device__ __forceinline__ Vector<Number, Length> mixed(const PixelPlanes<typename Product::Source, 3, Length>& colours,
                                                        const Number* weights, bool is_finite) {
    Vector<Number, Length> total = Product::apply(colours.planes[0], {weights[0], Number(0)});
#pragma unroll
    for (int k = 1; k < 3; ++k) {
        const Vector<Number, Length> products = Product::apply(colours.planes[k], {weights[k], Number(0)});
#pragma unroll
        for (int i = 0; i < Length; ++i) total.set(i, add_rn(total.get(i), products.get(i)));
    }
#pragma unroll
    for (int i = 0; i < Length; ++i) {
        if (!is_finite && is_nan(total.get(i))) total.set(i, canonical_nan<Number>());
    }
    return total;
}

// Whether a thread needs more than 32 registers.
template <typename Sample, typename Encode, FramesPolicy policy> constexpr bool has_many_numbers =
    policy.rows > 1 || policy.length > 8 || policy.chroma_columns == 1 || Encode::is_wide ||
    policy.length * sizeof(typename Encode::Target) > 16 || sizeof(Sample) > 1;

// Blocks that a multiprocessor is to hold: 8 leave a thread 32 registers, 4 leave those 64 that need more, and 3 leave
// 80 to 16 whole pixels with chroma of their own, of which sm_90 would spill.
template <typename Sample, typename Encode, FramesPolicy policy> constexpr int frames_blocks =
    policy.of_pixels && policy.length > 8 && policy.chroma_columns == 1 ? 3
    : has_many_numbers<Sample, Encode, policy>                          ? 4
                                                                        : 8;

// `Product` multiplies a colour by a number of the matrix. `Encode` converts a sum of these, or without a matrix a
// colour, to an element of the target.
template <typename Product, typename Encode, typename Index, FramesPolicy policy>
__global__ void __launch_bounds__(256, frames_blocks<typename Product::Source, Encode, policy>)
    frames(__grid_constant__ const FramesParameters<Product, Encode, Index, policy> p) {
    using Sample = typename Product::Source;
    using Target = typename Encode::Target;
    constexpr int length = policy.length;

    const Index number = linear_block<Index>() * 256 + threadIdx.x;
    if (number >= p.items) return;
    const Quotient<Index> at = divide(number, p.vectors);
    const uint32 row = uint32(at.quotient), first = uint32(at.remainder) * length;
    const uint32 left = p.width - first;
    const FrameVectors<Sample, policy> samples(p, row, first);
    const auto colours = samples.colours(p.colours);
    const auto made = [&](int c) {
        if constexpr (policy.rows > 0) {
            const auto total = mixed<Product>(colours, p.matrix + 3 * c, policy.finite);
            return Encode::apply(total, p.affines.of(c));
        } else {
            return Encode::apply(colours.planes[policy.places >> 4 * c & 15u], p.affines.of(c));
        }
    };
    Target* target = reinterpret_cast<Target*>(p.target) +
                     Signed<Index>(p.offset + Index(row) * p.row_stride + Index(first) * p.column_stride);
    if constexpr (policy.of_pixels) {
        if (left >= length) {
            PixelPlanes<Target, policy.count, length> pixels{};
#pragma unroll
            for (int c = 0; c < policy.count; ++c) pixels.planes[c] = made(c);
            pixels.store_joined(target);
            return;
        }
    }
    // Vectors are stored where columns, or the channels of whole pixels, lie side by side.
    const Index across = policy.of_pixels ? 1 : p.channel_stride;
    const Index right = policy.of_pixels ? policy.count : policy.of_vectors ? 1 : p.column_stride;
#pragma unroll
    for (int c = 0; c < policy.count; ++c) {
        Target* const plane = target + Signed<Index>(Index(c) * across);
        const auto elements = made(c);
        if (policy.of_vectors && left >= length) {
            store_global(plane, elements);
            continue;
        }
#pragma unroll
        for (int i = 0; i < length; ++i) {
            if (i < left) store(plane + Signed<Index>(Index(i) * right), elements.get(i));
        }
    }
}

}  // namespace sg
