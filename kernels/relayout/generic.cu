// Family F, generic: any strides, in the target's order.
//
// The target's innermost axis is cut into vectors of up to 4 elements, or into elements. A thread moves Items of them
// from one run of the axis, spaced by the number of threads at the run: a warp's stores are coalesced, and the offset
// of a run is computed once for all items of a thread.
//
//     Length 4, Items 2, 60 threads a run    | thread 0: 0-3, 240-243 | thread 1: 4-7, 244-247 | …
//     Length 1, Items 4, 30 threads a run    | thread 0: 0, 30, 60, 90 | thread 1: 1, 31, 61, 91 | …
//
// All loads precede the first store. Zeros that pad the innermost axis are part of its vectors.
//
// Bytes moved: each element once in and once out, but a load fetches a 32-byte sector, which is evicted if its other
// elements are read much later.
#include "channel_constants.cuh"
#include "indexing.cuh"

namespace sg {

struct GenericPolicy {
    int store_bytes;  // of one access; loads are of single elements
    int items;        // vectors of a thread
    bool fills;       // zeros fill up the innermost axis
    int rank;
    Channels affines, order;
};

template <typename Conversion, typename Index, GenericPolicy policy> struct GenericParameters {
    const uint8* source;
    uint8* target;
    ChannelAffines<typename Conversion::Compute, policy.affines> affines;
    ChannelOrder<Index, policy.order> order;
    Axes<Index, policy.rank> axes;          // the last one over the threads of a run; strides in elements
    Index source_offset;             // elements
    Index source_step, target_step;  // along the innermost axis; the target's is 1 where vectors are longer
    Index threads;                   // in all
    Index apart;                     // elements from one vector of a thread to its next
    Index count;                     // elements along the innermost axis
    Index filled;                    // with the zeros that fill them up, if any
    int channel_axis;                // in axes, or -1; the last one only where vectors have one element
};

// __launch_bounds__: 4 blocks keep memory busy. Without it compilers target more and spill.
template <typename Conversion, typename Index, GenericPolicy policy>
__global__ void __launch_bounds__(256, 4)
    copy_generic(__grid_constant__ const GenericParameters<Conversion, Index, policy> p) {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    constexpr int length = policy.store_bytes / int(sizeof(Target));
    using Stored = Vector<Target, length>;

    const Index number = linear_block<Index>() * 256 + threadIdx.x;
    if (number >= p.threads) return;
    Index coordinates[2] = {0, 0};
    const Offsets<Index> offsets = p.axes.template unravel<2>(number, {policy.rank - 1, p.channel_axis}, coordinates);
    const Index first = coordinates[0] * length;  // along the innermost axis
    const Index source = p.source_offset + Index(offsets.source);
    Target* to = reinterpret_cast<Target*>(p.target) + offsets.target;

    Index left[policy.items];  // elements from an item's first one to the end of the innermost axis
    Affine<typename Conversion::Compute> constants[policy.items];
    Source loaded[policy.items][length];
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        const Index after = item * p.apart;
        left[item] = first + after < p.count ? p.count - first - after : 0;
        // Items without elements load the constants of channel 0 and do not use them.
        const Index channel = !left[item] ? 0 : p.channel_axis == policy.rank - 1 ? first + after : coordinates[1];
        constants[item] = p.affines.of(channel);
        Index item_source = source;
        if constexpr (policy.order != Channels::alike) item_source += p.order.source_offset(channel);
#pragma unroll
        for (int i = 0; i < length; ++i) {
            const Index offset = item_source + (after + i) * p.source_step;
            const Source* from = reinterpret_cast<const Source*>(p.source) + Signed<Index>(offset);
            loaded[item][i] = Index(i) < left[item] ? load<Source>(from) : Source{};
        }
    }
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        const Index after = item * p.apart;
        const Index filled = !policy.fills ? left[item] : first + after < p.filled ? p.filled - first - after : 0;
        Stored vector{};
        if constexpr (length * sizeof(Source) <= 32) {
            Vector<Source, length> gathered{};
#pragma unroll
            for (int i = 0; i < length; ++i) gathered.set(i, loaded[item][i]);
            vector = Conversion::apply(gathered, constants[item]);
        } else {
#pragma unroll
            for (int i = 0; i < length; ++i) vector.set(i, Conversion::apply(loaded[item][i], constants[item]));
        }
        if constexpr (policy.fills) {
#pragma unroll
            for (int i = 0; i < length; ++i) {
                if (Index(i) >= left[item]) vector.set(i, Target{});
            }
        }
        Target* item_to = to + Signed<Index>(after * p.target_step);
        if (filled >= length) {
            store_global(item_to, vector);
        } else {
#pragma unroll
            for (int i = 0; i < length - 1; ++i) {
                if (Index(i) < filled) store(item_to + i, vector.get(i));
            }
        }
    }
}

}  // namespace sg
