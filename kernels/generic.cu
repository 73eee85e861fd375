// Family F, generic: whatever the strides are, in the target's order.
//
// A thread moves 4 elements, or 2 where they make a whole store: with vector stores they follow each other along the
// target's innermost axis, which is then cut into vectors; without, they are 256 elements apart, so that a warp's
// stores lie side by side all the same. All loads come before the first store.
//
//     Length 4    | thread 0: 0 1 2 3 | thread 1: 4 5 6 7 | …
//     Length 1    | thread 0: 0, 256, 512, 768 | thread 1: 1, 257, 513, 769 | …
//
// Zeros that fill up the innermost axis are part of its vectors.
//
// Bytes moved: each element once in and once out, but a load takes a whole 32-byte sector wherever its neighbours in
// memory are read much later.
#include "channel_constants.cuh"
#include "indexing.cuh"

namespace sg {

template <typename Conversion, typename Index, int Rank, Channels AffineKind, Channels OrderKind>
struct GenericParameters {
    const uint8* source;
    uint8* target;
    ChannelAffines<typename Conversion::Compute, AffineKind> affines;
    ChannelOrder<Index, OrderKind> order;
    Axes<Index, Rank> axes;  // the last one over vectors of the innermost axis; strides in elements
    Index source_offset;     // elements
    Index source_step;       // from one element of a vector to the next, in elements
    Index vectors;           // in all
    Index count;             // elements along the innermost axis
    Index filled;            // with the zeros that fill them up, if any
    int channel_axis;        // in axes, or -1; not the last where vectors are longer than one element
};

template <typename Conversion, typename Index, int StoreBytes, bool Fills, int Rank, Channels AffineKind,
          Channels OrderKind>
__global__ void __launch_bounds__(256)
    copy_generic(__grid_constant__ const GenericParameters<Conversion, Index, Rank, AffineKind, OrderKind> p) {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    constexpr int length = StoreBytes / int(sizeof(Target));
    constexpr int items = length < 4 ? 4 / length : 1;
    using Stored = Vector<Target, length>;

    Target* to[items];
    Index left[items];    // elements from here to the end of the innermost axis; 0 past the last vector
    Index filled[items];  // the same with the zeros that fill them up
    Affine<typename Conversion::Compute> constants[items];
    Source loaded[items][length];
#pragma unroll
    for (int item = 0; item < items; ++item) {
        const Index number = (linear_block<Index>() * items + item) * 256 + threadIdx.x;
        Index coordinates[2] = {0, 0};
        const Offsets<Index> offsets = p.axes.template unravel<2>(number, {Rank - 1, p.channel_axis}, coordinates);
        const bool there = number < p.vectors;
        const Index start = coordinates[0] * length;
        left[item] = there && (!Fills || start < p.count) ? p.count - start : 0;
        filled[item] = !Fills ? left[item] : there ? p.filled - start : 0;
        Index source = p.source_offset + Index(offsets.source);
        // Threads without elements take the constants of channel 0, and leave them unused.
        const Index channel = left[item] ? coordinates[1] : 0;
        constants[item] = p.affines.of(channel);
        if constexpr (OrderKind != Channels::alike) source += p.order.source_offset(channel);
        to[item] = reinterpret_cast<Target*>(p.target) + offsets.target;
#pragma unroll
        for (int i = 0; i < length; ++i) {
            const Source* from = reinterpret_cast<const Source*>(p.source) + Signed<Index>(source + i * p.source_step);
            loaded[item][i] = Index(i) < left[item] ? load<Source>(from) : Source{};
        }
    }
#pragma unroll
    for (int item = 0; item < items; ++item) {
        Stored vector{};
#pragma unroll
        for (int i = 0; i < length; ++i) {
            if (!Fills || Index(i) < left[item]) vector.set(i, Conversion::apply(loaded[item][i], constants[item]));
        }
        if (filled[item] >= length) {
            store_global(to[item], vector);
        } else {
#pragma unroll
            for (int i = 0; i < length - 1; ++i) {
                if (Index(i) < filled[item]) store(to[item] + i, vector.get(i));
            }
        }
    }
}

}  // namespace sg
