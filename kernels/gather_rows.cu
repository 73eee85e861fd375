// Rows by index: each index stands for a run that is contiguous on both sides; scattered, the other way round.
//
// A group of 1 to 32 lanes moves one chunk of a run with vectors of Bytes; short runs are one chunk, and a warp then
// moves 32 / lanes of them. A thread has Items chunks of Steps vectors each under way. All lanes of a group read the
// same index in the same instruction, which is one load for the warp:
//
//     256-byte rows, 16 B      row 0 | lanes 0 … 15 |   row 1 | lanes 16 … 31 |   … Items rounds of this
//     4-KiB rows, 16 B         row 0 | chunk 0: lanes 0 … 31, Steps times | chunk 1 | …
//
// What is left of a run behind its last whole vector moves element by element.
//
// Bytes moved: each row once in and once out, and its index once for each chunk.
#include "gather_indices.cuh"
#include "vectors.cuh"

namespace sg {

template <typename Index, int Rank, int Components> struct GatherRowsParameters {
    GatherParameters<Index, Rank, Components> common;
    Index count, whole;  // elements of a run, and of them those in whole vectors
    int lanes_log2;      // lanes of a group
};

// The last axis runs over the chunks of a run.
template <typename Element, int Bytes, typename Number, typename Index, OutOfRange Mode, bool Scatters, int Steps,
          int Items, int Rank, int Components>
__global__ void __launch_bounds__(256)
    gather_rows(__grid_constant__ const GatherRowsParameters<Index, Rank, Components> p) {
    constexpr int length = Bytes / int(sizeof(Element));
    using Piece = Vector<Element, length>;
    const uint32 lanes = 1u << p.lanes_log2;
    const uint32 lane = threadIdx.x & (lanes - 1);
    const uint32 group = threadIdx.x >> p.lanes_log2, groups = 256u >> p.lanes_log2;
    const Index chunk_elements = Index(Steps * length) << p.lanes_log2;
    const Index first_item = linear_block<Index>() * Items * groups + group;

    // All indices are on their way before the first is looked at; a thread past the last run reads that one's again.
    Places<Index> places[Items];
    Index chunk[Items];
    Numbers<Number, 1, Components, int(sizeof(Number))> numbers[Items];
#pragma unroll
    for (int item = 0; item < Items; ++item) {
        const Index number = first_item + Index(item) * groups;
        const Index known = number < p.common.items ? number : p.common.items - 1;
        places[item] = p.common.axes.unravel(known);
        chunk[item] = divide(known, p.common.axes.sizes[Rank - 1]).remainder;
        numbers[item].read(reinterpret_cast<const Number*>(p.common.indices) +
                               Signed<Index>(p.common.index_offset + Index(places[item].index)),
                           Index(0), p.common.indexed, 1);
    }

    WrongIndex wrong;
    const Element* from[Items];
    Element* to[Items];
    Index start[Items], whole[Items], count[Items];
#pragma unroll
    for (int item = 0; item < Items; ++item) {
        const bool is_there = first_item + Index(item) * groups < p.common.items;
        const Signed<Index> plain = Signed<Index>(p.common.plain_offset + Index(places[item].plain));
        const Signed<Index> picked = picked_offset<Mode>(
            p.common.indexed, numbers[item].values[0], p.common.picked_offset + Index(places[item].picked),
            p.common.position_offset + places[item].position, wrong);
        start[item] = chunk[item] * chunk_elements;
        whole[item] = is_there ? p.whole : 0;
        count[item] = is_there ? p.count : 0;
        from[item] = reinterpret_cast<const Element*>(p.common.source) + (Scatters ? plain : picked);
        to[item] = reinterpret_cast<Element*>(p.common.target) + (Scatters ? picked : plain);
    }

    Piece pieces[Items][Steps];
#pragma unroll
    for (int item = 0; item < Items; ++item) {
#pragma unroll
        for (int step = 0; step < Steps; ++step) {
            const Index element = Index(step * lanes + lane) * length;
            if (start[item] + element < whole[item]) pieces[item][step] = load_global<Piece>(from[item] + element);
        }
    }
#pragma unroll
    for (int item = 0; item < Items; ++item) {
#pragma unroll
        for (int step = 0; step < Steps; ++step) {
            const Index element = Index(step * lanes + lane) * length;
            if (start[item] + element < whole[item]) store_global(to[item] + element, pieces[item][step]);
        }
    }

    if constexpr (Mode == OutOfRange::deferred) record(p.common.report, p.common.launch, wrong);

    // The end of a run belongs to its last chunk.
    if (length > 1 && p.whole < p.count) {
#pragma unroll
        for (int item = 0; item < Items; ++item) {
            if (start[item] + chunk_elements < count[item]) continue;
            for (Index place = whole[item] + lane; place < count[item]; place += lanes) {
                store(to[item] + (place - start[item]), load<Element>(from[item] + (place - start[item])));
            }
        }
    }
}

}  // namespace sg
