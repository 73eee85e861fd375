// Gather rows: each index selects a run that is contiguous on both sides; the scatter swaps source and target.
//
// A group of 1 to 32 lanes moves one chunk of a run, in vectors; short runs are one chunk, and a warp then moves
// 32 / lanes of them. A thread has `items` chunks of `steps` vectors each in flight:
//
//     256-byte rows, 16 B      row 0 | lanes 0 … 15 |   row 1 | lanes 16 … 31 |   … `items` rounds of this
//     4-KiB rows, 16 B         row 0 | chunk 0: lanes 0 … 31, `steps` times | chunk 1 | …
//
// The elements after a run's last whole vector move one by one.
//
// Bytes moved: each row once in and once out, and its index once for each chunk.
#include "gather_row_chunks.cuh"

namespace sg {

struct GatherRowsPolicy {
    int bytes;       // of one access
    OutOfRange mode;
    bool scatters;
    int steps;       // vectors of a chunk and lane
    int items;       // chunks of a thread
    int rank;        // axes over chunks
    int components;  // indices of a tuple
};

template <typename Index, GatherRowsPolicy policy> struct GatherRowsParameters {
    GatherParameters<Index, policy.rank, policy.components> common;
    Index count, whole;  // elements of a run, and of them those in whole vectors
    int lanes_log2;      // lanes of a group
};

template <typename Element, typename Number, typename Index, GatherRowsPolicy policy>
__global__ void __launch_bounds__(256)
    gather_rows(__grid_constant__ const GatherRowsParameters<Index, policy> p) {
    constexpr int length = policy.bytes / int(sizeof(Element));
    using Piece = Vector<Element, length>;
    const Index chunk_elements = Index(policy.steps * length) << p.lanes_log2;
    const bool refused = is_refused<policy.mode>(p.common.report);

    WrongIndex wrong;
    GatherChunks<Element, Index, policy> chunks;
    chunks.template find<Number>(p.common, p.lanes_log2, chunk_elements, wrong);
    Index whole[policy.items], count[policy.items];
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        whole[item] = chunks.is_there[item] ? p.whole : 0;
        count[item] = chunks.is_there[item] ? p.count : 0;
    }

    Piece pieces[policy.items][policy.steps];
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
#pragma unroll
        for (int step = 0; step < policy.steps; ++step) {
            const Index element = Index(step * chunks.lanes + chunks.lane) * length;
            if (chunks.start[item] + element >= whole[item]) continue;
            pieces[item][step] = load_global<Piece>(chunks.from[item] + element);
        }
    }
    if (refused) return;
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
#pragma unroll
        for (int step = 0; step < policy.steps; ++step) {
            const Index element = Index(step * chunks.lanes + chunks.lane) * length;
            if (chunks.start[item] + element >= whole[item]) continue;
            store_global(chunks.to[item] + element, pieces[item][step]);
        }
    }

    if constexpr (policy.mode == OutOfRange::deferred) record(p.common.report, p.common.launch, wrong);

    // The end of a run belongs to its last chunk.
    if (length > 1 && p.whole < p.count) {
#pragma unroll
        for (int item = 0; item < policy.items; ++item) {
            const Index start = chunks.start[item];
            if (start + chunk_elements < count[item]) continue;
            for (Index place = whole[item] + chunks.lane; place < count[item]; place += chunks.lanes) {
                store(chunks.to[item] + (place - start), load<Element>(chunks.from[item] + (place - start)));
            }
        }
    }
}

}  // namespace sg
