// Rows by index: each index stands for a run that is contiguous on both sides; scattered, the other way round.
//
// A group of 1 to 32 lanes moves one chunk of a run with vectors of Bytes; short runs are one chunk, and a warp then
// moves 32 / lanes of them. A thread has Items chunks of Steps vectors each under way:
//
//     256-byte rows, 16 B      row 0 | lanes 0 … 15 |   row 1 | lanes 16 … 31 |   … Items rounds of this
//     4-KiB rows, 16 B         row 0 | chunk 0: lanes 0 … 31, Steps times | chunk 1 | …
//
// What is left of a run behind its last whole vector moves element by element.
//
// Bytes moved: each row once in and once out, and its index once for each chunk.
#include "gather_row_chunks.cuh"

namespace sg {

template <typename Index, int Rank, int Components> struct GatherRowsParameters {
    GatherParameters<Index, Rank, Components> common;
    Index count, whole;  // elements of a run, and of them those in whole vectors
    int lanes_log2;      // lanes of a group
};

template <typename Element, int Bytes, typename Number, typename Index, OutOfRange Mode, bool Scatters, int Steps,
          int Items, int Rank, int Components>
__global__ void __launch_bounds__(256)
    gather_rows(__grid_constant__ const GatherRowsParameters<Index, Rank, Components> p) {
    constexpr int length = Bytes / int(sizeof(Element));
    using Piece = Vector<Element, length>;
    const Index chunk_elements = Index(Steps * length) << p.lanes_log2;

    WrongIndex wrong;
    RowChunks<Element, Items, Index> chunks;
    chunks.template find<Number, Mode, Scatters>(p.common, p.lanes_log2, chunk_elements, wrong);
    Index whole[Items], count[Items];
#pragma unroll
    for (int item = 0; item < Items; ++item) {
        whole[item] = chunks.is_there[item] ? p.whole : 0;
        count[item] = chunks.is_there[item] ? p.count : 0;
    }

    Piece pieces[Items][Steps];
#pragma unroll
    for (int item = 0; item < Items; ++item) {
#pragma unroll
        for (int step = 0; step < Steps; ++step) {
            const Index element = Index(step * chunks.lanes + chunks.lane) * length;
            if (chunks.start[item] + element >= whole[item]) continue;
            pieces[item][step] = load_global<Piece>(chunks.from[item] + element);
        }
    }
#pragma unroll
    for (int item = 0; item < Items; ++item) {
#pragma unroll
        for (int step = 0; step < Steps; ++step) {
            const Index element = Index(step * chunks.lanes + chunks.lane) * length;
            if (chunks.start[item] + element >= whole[item]) continue;
            store_global(chunks.to[item] + element, pieces[item][step]);
        }
    }

    if constexpr (Mode == OutOfRange::deferred) record(p.common.report, p.common.launch, wrong);

    // The end of a run belongs to its last chunk.
    if (length > 1 && p.whole < p.count) {
#pragma unroll
        for (int item = 0; item < Items; ++item) {
            const Index start = chunks.start[item];
            if (start + chunk_elements < count[item]) continue;
            for (Index place = whole[item] + chunks.lane; place < count[item]; place += chunks.lanes) {
                store(chunks.to[item] + (place - start), load<Element>(chunks.from[item] + (place - start)));
            }
        }
    }
}

}  // namespace sg
