// The runs that indices select, cut into chunks: the addresses of one thread's chunks on both sides.
//
// A group of 1 to 32 lanes moves one chunk of a run. A short run is one chunk, and a warp then moves 32 / lanes of
// them. All lanes of a group load the same index in the same instruction, one request for the warp.
#pragma once
#include "gather_indices.cuh"
#include "vectors.cuh"

namespace sg {

// The chunks of one thread; all index loads are issued before the first is used. The last axis runs over the chunks of
// a run. A chunk past the last one has the addresses of the last one.
//
// `policy` is that of the kernel.
template <typename Element, typename Index, auto policy> struct GatherChunks {
    static constexpr uint32 lanes = policy.lanes;
    static_assert(lanes <= 32 && (lanes & (lanes - 1)) == 0, "a warp has whole groups");
    const uint32 lane = threadIdx.x % lanes;
    const Element* from[policy.items];  // `ahead` elements after the chunk's first
    Element* to[policy.items];
    Index start[policy.items];  // elements of the run that come before the chunk
    bool is_there[policy.items];

    template <typename Number>
    __device__ __forceinline__ void find(const GatherParameters<Index, policy.rank, policy.components>& p,
                                         Index chunk_elements, Index ahead, WrongIndex& wrong) {
        const uint32 group = threadIdx.x / lanes;
        constexpr uint32 groups = 256 / lanes;
        const Index first_item = linear_block<Index>() * policy.items * groups + group;
        Places<Index> places[policy.items];
        Numbers<Number, 1, policy.components, int(sizeof(Number))> numbers[policy.items];
#pragma unroll
        for (int item = 0; item < policy.items; ++item) {
            const Index number = first_item + Index(item) * groups;
            is_there[item] = number < p.items;
            const Index known = is_there[item] ? number : p.items - 1;
            places[item] = p.axes.unravel(known);
            start[item] = divide(known, p.axes.sizes[policy.rank - 1]).remainder * chunk_elements;
            numbers[item].read(reinterpret_cast<const Number*>(p.indices) +
                                   Signed<Index>(p.index_offset + Index(places[item].index)),
                               Index(0), p.indexed_axes, 1);
        }
#pragma unroll
        for (int item = 0; item < policy.items; ++item) {
            const Signed<Index> dense = Signed<Index>(p.dense_offset + Index(places[item].dense) + ahead);
            const Signed<Index> indexed = indexed_offset<policy.mode>(
                p.indexed_axes, numbers[item].values[0], p.indexed_offset + Index(places[item].indexed) + ahead,
                p.position_offset + places[item].position, wrong);
            from[item] = reinterpret_cast<const Element*>(p.source) + (policy.scatters ? dense : indexed);
            to[item] = reinterpret_cast<Element*>(p.target) + (policy.scatters ? indexed : dense);
        }
    }
};

}  // namespace sg
