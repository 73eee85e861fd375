// Luma-chroma frames to RGB: converted, and written as planes or as interleaved pixels.
//
// A thread computes V adjacent pixels of a row. Their luma and chroma are read once, as one vector from each plane if
// the addresses allow it. Colours are integer sums, which are clamped, converted, and stored as a vector of each plane
// or as interleaved pixels:
//
//     luma       | y0 y1 y2 y3 … y(V-1) |
//     chroma     | u0 v0 u2 v2 … |               pairs, two planes, or between the luma of packed pixels
//     registers  | r0 … r(V-1) |   | g0 … g(V-1) |   | b0 … b(V-1) |
//     target     | r0 … |   | g0 … |   | b0 … |     or     | r0 g0 b0 r1 g1 b1 … |
//
// A window may begin at an odd column. Its first pixel is then the second of its chroma sample, and its rows read one
// more chroma sample.
//
// Bytes moved: each element of the target once, each luma sample once, and each chroma sample once for each row of
// pixels that shares it; all but the first read come from the cache.
#include "crop_windows.cuh"
#include "frame_samples.cuh"

namespace sg {

// The planes of a frame: luma and interleaved chroma, three planes, or one packed plane.
enum class FramePlanes { pairs, apart, packed };

struct FramesPolicy {
    FramePlanes planes;
    int chroma_rows;            // rows of pixels that share a row of chroma
    int luma, blue, red;        // the first sample's index in a row of packed pixels, or in a pair
    int count;                  // channels of the target
    uint32 places;              // hexadecimal digit c from the right: the colour of channel c (0 red, 1 green, 2 blue)
    int length;                 // pixels of a thread
    bool of_pixels, of_vectors; // whether whole pixels, or rows of planes, are stored as vectors
    Channels affines;
};

template <typename Conversion, typename Index, FramesPolicy policy> struct FramesParameters {
    using Sample = typename Conversion::Source;
    const Sample* luma;        // of the window's first pixel: its sample, or the packed pixels that contain it
    uint8* target;
    const Sample* chroma[2];   // of the first pixel, in the other planes
    uint32 row_phase, column_phase;  // 1 if that pixel is in the second row, or column, of its chroma sample
    ChannelAffines<typename Conversion::Compute, policy.affines> affines;
    int64 row_strides[3];      // of the planes, in samples
    Divisor<Index> vectors;    // threads of a row
    Index channel_stride, row_stride, column_stride, offset;  // of the target, in elements
    Index items;               // threads
    FrameMatrix matrix;
    uint32 width;              // of the window, below 2^31
};

// Consecutive samples, plus Extra ones that only windows at odd columns read.
template <typename Sample, int Count, int Extra> struct SampleRun {
    Vector<Sample, Count> run{};
    Sample extra[Extra];

    __device__ __forceinline__ SampleRun(const Sample* from, uint32 available) {
        if (available >= Count && uint64(from) % Vector<Sample, Count>::bytes == 0) {
            run = load_global<Vector<Sample, Count>>(from);
        } else {
#pragma unroll
            for (int i = 0; i < Count; ++i) {
                if (i < available) run.set(i, load<Sample>(from + i));
            }
        }
#pragma unroll
        for (int i = 0; i < Extra; ++i) extra[i] = Count + i < available ? load<Sample>(from + Count + i) : Sample(0);
    }

    __device__ __forceinline__ Sample at(int i) const { return i < Count ? run.get(i) : extra[i - Count]; }
};

// The V pixels from a column on, in a row of the window with `left` columns remaining: one vector of each colour.
template <typename Sample, FramesPolicy policy, typename Parameters>
__device__ __forceinline__ PixelPlanes<Sample, 3, policy.length> frame_colours(const Parameters& p, uint32 row,
                                                                             uint32 first, uint32 left) {
    constexpr int length = policy.length;
    constexpr int half = length / 2;
    const int64 chroma_row = (int64(row) + p.row_phase) / policy.chroma_rows;
    const int64 column = (int64(first) + p.column_phase) >> 1;  // of chroma
    const uint32 samples = (left + p.column_phase + 1) >> 1;
    const bool is_odd = p.column_phase != 0;
    const Sample* luma = p.luma + row * p.row_strides[0];
    PixelPlanes<Sample, 3, length> colours{};
    const auto set = [&](int i, Sample y, Sample u, Sample v) {
        const FrameColour<Sample> made(y, u, v, p.matrix);
#pragma unroll
        for (int c = 0; c < 3; ++c) colours.planes[c].set(i, made.channel[c]);
    };
    if constexpr (policy.planes == FramePlanes::packed) {
        const SampleRun<Sample, 4 * half, 4> pixels(luma + 4 * column, 4 * samples);
#pragma unroll
        for (int i = 0; i < length; ++i) {
            const int even = i / 2 * 4, odd = (i + 1) / 2 * 4;
            const int y = 2 * i + policy.luma;
            set(i, is_odd ? pixels.at(y + 2) : pixels.at(y),
                is_odd ? pixels.at(odd + policy.blue) : pixels.at(even + policy.blue),
                is_odd ? pixels.at(odd + policy.red) : pixels.at(even + policy.red));
        }
    } else {
        const SampleRun<Sample, length, 1> ys(luma + first, left < length ? left : length);
        if constexpr (policy.planes == FramePlanes::pairs) {
            const SampleRun<Sample, 2 * half, 2> pairs(p.chroma[0] + chroma_row * p.row_strides[1] + 2 * column,
                                                       2 * samples);
#pragma unroll
            for (int i = 0; i < length; ++i) {
                const int even = i / 2 * 2, odd = (i + 1) / 2 * 2;
                set(i, ys.at(i), is_odd ? pairs.at(odd + policy.blue) : pairs.at(even + policy.blue),
                    is_odd ? pairs.at(odd + policy.red) : pairs.at(even + policy.red));
            }
        } else {
            // The order of the two chroma planes follows from the index of blue's sample.
            const SampleRun<Sample, half, 1> first_plane(p.chroma[0] + chroma_row * p.row_strides[1] + column, samples);
            const SampleRun<Sample, half, 1> other_plane(p.chroma[1] + chroma_row * p.row_strides[2] + column, samples);
#pragma unroll
            for (int i = 0; i < length; ++i) {
                const int even = i / 2, odd = (i + 1) / 2;
                const Sample one = is_odd ? first_plane.at(odd) : first_plane.at(even);
                const Sample other = is_odd ? other_plane.at(odd) : other_plane.at(even);
                set(i, ys.at(i), policy.blue == 0 ? one : other, policy.red == 0 ? one : other);
            }
        }
    }
    return colours;
}

template <typename Conversion, typename Index, FramesPolicy policy>
__global__ void __launch_bounds__(256)
    frames(__grid_constant__ const FramesParameters<Conversion, Index, policy> p) {
    using Sample = typename Conversion::Source;
    using Target = typename Conversion::Target;
    constexpr int length = policy.length;
    static_assert(length % 2 == 0, "pixels that share chroma");

    const Index number = linear_block<Index>() * 256 + threadIdx.x;
    if (number >= p.items) return;
    const Quotient<Index> at = divide(number, p.vectors);
    const uint32 row = uint32(at.quotient), first = uint32(at.remainder) * length;
    const uint32 left = p.width - first;
    const auto colours = frame_colours<Sample, policy>(p, row, first, left);
    PixelPlanes<Target, policy.count, length> made{};
#pragma unroll
    for (int c = 0; c < policy.count; ++c) {
        made.planes[c] = Conversion::apply(colours.planes[policy.places >> 4 * c & 15u], p.affines.of(c));
    }
    Target* target = reinterpret_cast<Target*>(p.target) +
                     Signed<Index>(p.offset + Index(row) * p.row_stride + Index(first) * p.column_stride);
    if constexpr (policy.of_pixels) {
        if (left >= length) {
            made.store_joined(target);
            return;
        }
    }
#pragma unroll
    for (int c = 0; c < policy.count; ++c) {
        Target* plane = target + Signed<Index>(Index(c) * p.channel_stride);
        if (policy.of_vectors && left >= length) {
            store_global(plane, made.planes[c]);
            continue;
        }
#pragma unroll
        for (int i = 0; i < length; ++i) {
            if (i < left) store(plane + Signed<Index>(Index(i) * p.column_stride), made.planes[c].get(i));
        }
    }
}

}  // namespace sg
