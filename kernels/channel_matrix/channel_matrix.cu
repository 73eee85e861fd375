// Channel matrices: each output channel is the sum of a pixel's channels times one row of a matrix.
//
// One thread makes one pixel. It loads every channel once, and stores every output channel. Neighbouring threads have
// neighbouring pixels of the target, so stores of planes are coalesced; interleaved channels share cache lines.
//
//     source     | r g b |            registers   r, g, b
//     matrix     | m00 m01 m02 |      in the constant bank
//     target     | r*m00 + g*m01 + b*m02 | ...    each product is rounded, then each sum, from the first channel on
//
// Bytes moved: each element of both sides once.
#include "channel_constants.cuh"
#include "indexing.cuh"

namespace sg {

struct ChannelMatrixPolicy {
    int rows, columns;  // channels of the target and of the source
    int rank;
    Channels affines;
};

template <typename Decode, typename Encode, typename Index, ChannelMatrixPolicy policy> struct ChannelMatrixParameters {
    using Number = typename Decode::Target;
    const uint8* source;
    uint8* target;
    Number matrix[policy.rows * policy.columns];
    ChannelAffines<Number, policy.affines> affines;
    Axes<Index, policy.rank> axes;  // over pixels; strides in elements
    Index source_offset, target_offset, source_channel, target_channel;  // in elements
    Index pixels;
};

// `Decode` converts an element to a number of the arithmetic, `Encode` a number to an element of the target.
template <typename Decode, typename Encode, typename Index, ChannelMatrixPolicy policy>
__global__ void __launch_bounds__(256)
    channel_matrix(__grid_constant__ const ChannelMatrixParameters<Decode, Encode, Index, policy> p) {
    using Source = typename Decode::Source;
    using Number = typename Decode::Target;
    using Target = typename Encode::Target;

    const Index pixel = linear_block<Index>() * 256 + threadIdx.x;
    if (pixel >= p.pixels) return;
    const Offsets<Index> offsets = p.axes.unravel(pixel);
    const Index read = p.source_offset + Index(offsets.source);
    const Index written = p.target_offset + Index(offsets.target);
    Number numbers[policy.columns];
#pragma unroll
    for (int c = 0; c < policy.columns; ++c) {
        const Index offset = read + Index(c) * p.source_channel;
        numbers[c] = Decode::apply(load<Source>(reinterpret_cast<const Source*>(p.source) + Signed<Index>(offset)));
    }
#pragma unroll
    for (int r = 0; r < policy.rows; ++r) {
        Number total = multiply_rn(numbers[0], p.matrix[r * policy.columns]);
#pragma unroll
        for (int c = 1; c < policy.columns; ++c) {
            total = add_rn(total, multiply_rn(numbers[c], p.matrix[r * policy.columns + c]));
        }
        if (is_nan(total)) total = canonical_nan<Number>();
        const Index offset = written + Index(r) * p.target_channel;
        store(reinterpret_cast<Target*>(p.target) + Signed<Index>(offset), Encode::apply(total, p.affines.of(r)));
    }
}

}  // namespace sg
