// Frames whose samples lie apart to RGB: the two pixels of a chroma sample a thread, repeated or linear, and mixed by a
// matrix if there is one.
//
// Samples are loaded one by one, and those of chroma once for both pixels. Neighbouring threads have neighbouring
// pairs, so the accesses of a warp are coalesced. A window may cut a row's first and last pair.
//
//     samples    | y y | 2 or 4 of u around them | the same of v |    repeated chroma: one of each
//     registers  | r g b | r g b |
//     target     | r r | g g | b b |       or, with a matrix, the sums of r, g and b times each of its rows
//
// Bytes moved: each element of the target once, each sample once.
#include "channel_constants.cuh"
#include "frame_samples.cuh"

namespace sg {

struct FramePixelsPolicy {
    int rows;         // of the matrix, or 0 without one
    int count;        // channels of the target
    uint32 places;    // hexadecimal digit c from the right: the colour of channel c (0 red, 1 green, 2 blue)
    Channels affines;
};

template <typename Decode, typename Encode, typename Index, FramePixelsPolicy policy> struct FramePixelsParameters {
    using Number = typename Encode::Source;
    const uint8* luma;
    uint8* target;
    const uint8* chroma[2];     // of blue and red difference
    uint32 top, left;           // the window's first pixel
    Number matrix[policy.rows > 0 ? 3 * policy.rows : 1];
    ChannelAffines<typename Encode::Compute, policy.affines> affines;
    FrameShape shape;
    Divisor<Index> pairs;       // of a row of a window that cuts the first of them
    Index channel_stride, row_stride, column_stride, offset;  // of the target, in elements
    Index items;                // threads
    uint32 width;               // of the window
};

// `Decode` converts a colour to a number of the matrix. `Encode` converts a number, or without a matrix a colour, to an
// element of the target.
template <typename Decode, typename Encode, typename Index, FramePixelsPolicy policy>
__global__ void __launch_bounds__(256)
    frame_pixels(__grid_constant__ const FramePixelsParameters<Decode, Encode, Index, policy> p) {
    using Sample = typename Decode::Source;
    using Target = typename Encode::Target;

    const Index number = linear_block<Index>() * 256 + threadIdx.x;
    if (number >= p.items) return;
    const Quotient<Index> at = divide(number, p.pairs);
    const uint64 samples[3] = {uint64(p.luma), uint64(p.chroma[0]), uint64(p.chroma[1])};
    const FramePixels<Sample> frame(samples, p.shape);
    const int32 row = int32(p.top + uint32(at.quotient)), first = int32(p.left), stop = int32(p.left + p.width);
    const int32 pair = first / 2 + int32(at.remainder);
    if (2 * pair >= stop) return;
    const Index row_offset = p.offset + Index(at.quotient) * p.row_stride;
    frame.pair(row, pair, first, stop, [&](int32 column, const FrameColour<Sample>& colour) {
        Target* const target = reinterpret_cast<Target*>(p.target) +
                               Signed<Index>(row_offset + Index(column - first) * p.column_stride);
#pragma unroll
        for (int c = 0; c < policy.count; ++c) {
            Target* const to = target + Signed<Index>(Index(c) * p.channel_stride);
            if constexpr (policy.rows == 0) {
                store(to, Encode::apply(colour.channel[policy.places >> 4 * c & 15u], p.affines.of(c)));
            } else {
                using Number = typename Decode::Target;
                Number total = multiply_rn(Decode::apply(colour.channel[0]), p.matrix[3 * c]);
#pragma unroll
                for (int k = 1; k < 3; ++k) {
                    total = add_rn(total, multiply_rn(Decode::apply(colour.channel[k]), p.matrix[3 * c + k]));
                }
                if (is_nan(total)) total = canonical_nan<Number>();
                store(to, Encode::apply(total, p.affines.of(c)));
            }
        }
    });
}

}  // namespace sg
