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
    int lanes;       // of a group
    int steps;       // vectors of a chunk and lane
    int items;       // chunks of a thread
    int rank;        // axes over chunks
    int components;  // indices of a tuple
    bool exact;      // runs are whole chunks: no thread has a vector less than another
};

template <typename Index, GatherRowsPolicy policy> struct GatherRowsParameters {
    GatherParameters<Index, policy.rank, policy.components> common;
    Index count, whole;  // elements of a run, and of them those in whole vectors
};

template <typename Element, typename Number, typename Index, GatherRowsPolicy policy>
__global__ void __launch_bounds__(256)
    gather_rows(__grid_constant__ const GatherRowsParameters<Index, policy> p) {
    constexpr int length = policy.bytes / int(sizeof(Element));
    using Piece = Vector<Element, length>;
    constexpr Index step_elements = policy.lanes * length, chunk_elements = policy.steps * step_elements;
    const bool refused = is_refused<policy.mode>(p.common.report);

    WrongIndex wrong;
    GatherChunks<Element, Index, policy> chunks;
    const Index first = chunks.lane * length;  // of a chunk's elements, the lane's
    chunks.template find<Number>(p.common, chunk_elements, first, wrong);
    Index left[policy.items];                  // elements of whole vectors, from the thread's first on
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        const Index before = chunks.start[item] + first;
        left[item] = before < p.whole ? p.whole - before : 0;
    }
    const auto has = [&](int item, int step) { return policy.exact || left[item] > step * step_elements; };

    Piece pieces[policy.items][policy.steps];
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
#pragma unroll
        for (int step = 0; step < policy.steps; ++step) {
            if (!has(item, step)) continue;
            pieces[item][step] = load_global<Piece>(chunks.from[item] + step * step_elements);
        }
    }
    if (refused) return;
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        if (!chunks.is_there[item]) break;
#pragma unroll
        for (int step = 0; step < policy.steps; ++step) {
            if (!has(item, step)) continue;
            store_global(chunks.to[item] + step * step_elements, pieces[item][step]);
        }
    }

    if constexpr (policy.mode == OutOfRange::deferred) record(p.common.report, p.common.launch, wrong);

    // The end of a run belongs to its last chunk.
    if (length > 1 && !policy.exact && p.whole < p.count) {
#pragma unroll
        for (int item = 0; item < policy.items; ++item) {
            const Index start = chunks.start[item];
            if (!chunks.is_there[item] || start + chunk_elements < p.count) continue;
            for (Index place = p.whole + chunks.lane; place < p.count; place += chunks.lanes) {
                const Signed<Index> beyond = Signed<Index>(place - start - first);
                store(chunks.to[item] + beyond, load<Element>(chunks.from[item] + beyond));
            }
        }
    }
}

}  // namespace sg
