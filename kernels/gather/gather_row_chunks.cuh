// Runs that indices stand for, cut into chunks: where those of one thread lie on both sides.
//
// A group of 1 to 32 lanes moves one chunk of a run; short runs are one chunk, and a warp then moves 32 / lanes of
// them. All lanes of a group read the same index in the same instruction, which is one load for the warp.
#pragma once
#include "gather_indices.cuh"
#include "vectors.cuh"

namespace sg {

// The chunks of one thread, with their indices asked for before the first is looked at. The last axis runs over the
// chunks of a run; of one past the last there are the addresses of that one.
template <typename Element, int Items, typename Index> struct RowChunks {
    uint32 lane, lanes;
    const Element* from[Items];
    Element* to[Items];
    Index start[Items];  // elements of the run that come before the chunk
    bool is_there[Items];

    template <typename Number, OutOfRange Mode, bool Scatters, int Rank, int Components>
    __device__ __forceinline__ void find(const GatherParameters<Index, Rank, Components>& p, int lanes_log2,
                                         Index chunk_elements, WrongIndex& wrong) {
        lanes = 1u << lanes_log2;
        lane = threadIdx.x & (lanes - 1);
        const uint32 group = threadIdx.x >> lanes_log2, groups = 256u >> lanes_log2;
        const Index first_item = linear_block<Index>() * Items * groups + group;
        Places<Index> places[Items];
        Numbers<Number, 1, Components, int(sizeof(Number))> numbers[Items];
#pragma unroll
        for (int item = 0; item < Items; ++item) {
            const Index number = first_item + Index(item) * groups;
            is_there[item] = number < p.items;
            const Index known = is_there[item] ? number : p.items - 1;
            places[item] = p.axes.unravel(known);
            start[item] = divide(known, p.axes.sizes[Rank - 1]).remainder * chunk_elements;
            numbers[item].read(reinterpret_cast<const Number*>(p.indices) +
                                   Signed<Index>(p.index_offset + Index(places[item].index)),
                               Index(0), p.indexed, 1);
        }
#pragma unroll
        for (int item = 0; item < Items; ++item) {
            const Signed<Index> plain = Signed<Index>(p.plain_offset + Index(places[item].plain));
            const Signed<Index> picked = picked_offset<Mode>(
                p.indexed, numbers[item].values[0], p.picked_offset + Index(places[item].picked),
                p.position_offset + places[item].position, wrong);
            from[item] = reinterpret_cast<const Element*>(p.source) + (Scatters ? plain : picked);
            to[item] = reinterpret_cast<Element*>(p.target) + (Scatters ? picked : plain);
        }
    }
};

}  // namespace sg
