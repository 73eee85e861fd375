// RGB to the samples of frames: one pair of pixels a thread, in both rows where two rows share chroma.
//
// Colours and samples are accessed one by one. Neighbouring threads have neighbouring pairs, so the accesses of a warp
// are coalesced.
//
//     colours    | r g b | r g b |            registers   two or four pixels
//                | r g b | r g b |
//     samples    | y | y |  u  v              chroma of the upper left pixel (4:2:0), of the sum of both (4:2:2),
//                | y | y |                    or of each pixel (4:4:4); the samples may be red, green and blue
//
// The lower row and the right edge may cut a pair. Its missing pixel of 4:2:2 then has the colours of the other one.
//
// Bytes moved: each element of both sides once.
#include "indexing.cuh"
#include "vectors.cuh"

namespace sg {

struct FrameEncodePolicy {
    int rows;      // of pixels that share chroma
    int columns;   // of pixels that share chroma, 0 without chroma
    bool packed;   // luma lies between chroma, and both of a pair that is cut are stored
};

// Weights of red, green and blue, and an offset, for luma, blue and red difference.
template <typename Number> struct FrameWeights {
    Number weights[3][4];
    int32 bits, most, shift;
};

template <typename Sample, typename Index, FrameEncodePolicy policy> struct FrameEncodeParameters {
    using Number = select<sizeof(Sample) == 1, int32, int64>;
    const uint8* red;
    uint8* luma;
    const uint8* other_colours[2];  // green and blue
    uint8* chroma[2];
    int64 colour_rows[3], colour_columns[3], sample_rows[3], sample_columns[3];  // strides in elements
    FrameWeights<Number> matrix;
    uint32 height, width;
    Divisor<Index> pairs;           // of a row
    Index items;                    // threads
};

template <typename Sample, typename Index, FrameEncodePolicy policy>
__global__ void __launch_bounds__(256)
    frame_encode(__grid_constant__ const FrameEncodeParameters<Sample, Index, policy> p) {
    using Number = typename FrameEncodeParameters<Sample, Index, policy>::Number;

    const Index number = linear_block<Index>() * 256 + threadIdx.x;
    if (number >= p.items) return;
    const Quotient<Index> at = divide(number, p.pairs);
    const int64 group = int64(at.quotient), pair = int64(at.remainder);
    const uint8* const colours[3] = {p.red, p.other_colours[0], p.other_colours[1]};
    const auto made = [&](int kind, const Number(&colour)[3]) {
        const Number(&weights)[4] = p.matrix.weights[kind];
        const Number sum = colour[0] * weights[0] + colour[1] * weights[1] + colour[2] * weights[2] +
                           (Number(1) << (p.matrix.bits - 1)) + (weights[3] << p.matrix.bits);
        const Number whole = sum >> p.matrix.bits, most = p.matrix.most;
        return Sample((whole < 0 ? Number(0) : whole > most ? most : whole) << p.matrix.shift);
    };
    constexpr bool sums = policy.columns == 2 && policy.rows == 1;
    const auto store_sample = [&](int kind, int64 row, int64 column, Sample sample) {
        Sample* const to = reinterpret_cast<Sample*>(kind == 0 ? p.luma : p.chroma[kind - 1]);
        store(to + row * p.sample_rows[kind] + column * p.sample_columns[kind], sample);
    };
    Number mixed[3] = {0, 0, 0};
#pragma unroll
    for (int r = 0; r < policy.rows; ++r) {
        const int64 row = group * policy.rows + r;
        if (policy.rows > 1 && row >= p.height) break;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int64 column = 2 * pair + i;
            const bool is_cut = column >= p.width;
            if (is_cut && !sums) break;
            const int64 read = is_cut ? column - 1 : column;
            Number colour[3];
#pragma unroll
            for (int c = 0; c < 3; ++c) {
                const Sample* const from = reinterpret_cast<const Sample*>(colours[c]);
                colour[c] = Number(load<Sample>(from + row * p.colour_rows[c] + read * p.colour_columns[c]));
                if ((r == 0 && i == 0) || sums) mixed[c] += colour[c];
            }
            if (!is_cut || policy.packed) store_sample(0, row, column, made(0, colour));
            if constexpr (policy.columns == 1) {
#pragma unroll
                for (int k = 1; k < 3; ++k) store_sample(k, row, column, made(k, colour));
            }
        }
    }
    if constexpr (policy.columns == 2) {
#pragma unroll
        for (int k = 1; k < 3; ++k) store_sample(k, group, pair, made(k, mixed));
    }
}

}  // namespace sg
