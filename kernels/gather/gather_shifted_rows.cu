// Gather unaligned rows: each index selects a run that is contiguous on both sides, but source and target have
// different offsets in their words, which also differ from row to row. The scatter swaps source and target.
//
// Places of a run are numbered from the start of the aligned target vector with the run's first element. The target is
// stored in whole vectors; each is funnel-shifted from the aligned source words that contain it:
//
//     source   | . a b c | d e f g | h i j k | l m n o | p q r s |      five words of a lane, four of the next one's
//     target   | a b c d   e f g h   i j k l   m n o p |                shifted, and stored as 16 bytes
//
// Adjacent lanes load adjacent words, so all but the first of a warp's loads hit the cache. Elements at the ends of a
// run move one by one, and so do elements in a word that is only partially inside the buffer. Groups of lanes and
// chunks are those of gather_rows.cu.
//
// Bytes moved: each row once in and once out, and its index once for each chunk.
#include "gather_row_chunks.cuh"

namespace sg {

struct GatherShiftedRowsPolicy {
    OutOfRange mode;
    bool scatters;
    int lanes;       // of a group
    int steps;       // vectors of a chunk and lane
    int items;       // chunks of a thread
    int rank;        // axes over chunks
    int components;  // indices of a tuple
};

template <typename Index, GatherShiftedRowsPolicy policy> struct GatherShiftedRowsParameters {
    GatherParameters<Index, policy.rank, policy.components> common;
    Index count;          // elements of a run
    uint64 source_bytes;  // that may be read, from the lowest element on
};

template <typename Element, typename Number, typename Index, GatherShiftedRowsPolicy policy>
__global__ void __launch_bounds__(256)
    gather_shifted_rows(__grid_constant__ const GatherShiftedRowsParameters<Index, policy> p) {
    constexpr int bytes = 16, words = bytes / 4, length = bytes / int(sizeof(Element));
    constexpr Index chunk_places = policy.lanes * policy.steps * length;
    const bool refused = is_refused<policy.mode>(p.common.report);

    WrongIndex wrong;
    GatherChunks<Element, Index, policy> chunks;
    chunks.template find<Number>(p.common, chunk_places, 0, wrong);

    // For each chunk, the range of places with elements of the run, and the subrange that moves as whole vectors.
    const uint8* from[policy.items];  // the aligned word that the chunk's first place lies in
    uint32 shift[policy.items];       // from there, in bits
    int first[policy.items], last[policy.items], whole_first[policy.items], whole_last[policy.items];
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        const uint32 before = uint32(uint64(chunks.to[item]) % bytes) / uint32(sizeof(Element));
        chunks.to[item] -= before;
        chunks.from[item] -= before;
        const uint8* place_0 = reinterpret_cast<const uint8*>(chunks.from[item] - Signed<Index>(chunks.start[item]));
        const uint32 beyond = uint32(uint64(place_0) % 4);
        from[item] = reinterpret_cast<const uint8*>(chunks.from[item]) - beyond;
        shift[item] = 8 * beyond;

        const Index end = before + p.count;
        Index vectors = before ? length : 0, vectors_end = end / length * length;
        const auto is_readable = [&](Index vector) {
            const uint64 word = uint64(place_0) - beyond + uint64(vector) * sizeof(Element);
            const uint64 lowest = uint64(p.common.source);
            return word >= lowest && word + bytes + (beyond ? 4 : 0) <= lowest + p.source_bytes;
        };
        if (!is_readable(vectors)) vectors += length;
        if (vectors < vectors_end && !is_readable(vectors_end - length)) vectors_end -= length;
        if (vectors_end < vectors) vectors_end = vectors;
        const auto in_chunk = [&](Index place) {
            const Index start = chunks.start[item];
            if (!chunks.is_there[item] || place <= start) return 0;
            return int(place - start < chunk_places ? place - start : chunk_places);
        };
        first[item] = in_chunk(before);
        last[item] = in_chunk(end);
        whole_first[item] = in_chunk(vectors);
        whole_last[item] = in_chunk(vectors_end);
    }

    const auto place_of = [&](int step) { return int((step * chunks.lanes + chunks.lane) * length); };
    const auto is_whole = [&](int item, int place) {
        return uint32(place - whole_first[item]) < uint32(whole_last[item] - whole_first[item]);
    };
    uint32 held[policy.items][policy.steps][words + 1];
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
#pragma unroll
        for (int step = 0; step < policy.steps; ++step) {
            const int place = place_of(step);
            if (!is_whole(item, place)) continue;
            const uint8* word = from[item] + place * int(sizeof(Element));
#pragma unroll
            for (int w = 0; w < words; ++w) held[item][step][w] = load<uint32>(word + 4 * w);
            held[item][step][words] = shift[item] ? load<uint32>(word + 4 * words) : 0u;
        }
    }
    if (refused) return;
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
#pragma unroll
        for (int step = 0; step < policy.steps; ++step) {
            const int place = place_of(step);
            if (!is_whole(item, place)) continue;
            Vector<uint32, words> vector{};
#pragma unroll
            for (int w = 0; w < words; ++w) {
                vector.word[w] = __funnelshift_r(held[item][step][w], held[item][step][w + 1], shift[item]);
            }
            store_global(chunks.to[item] + place, vector);
        }
    }

    if constexpr (policy.mode == OutOfRange::deferred) record(p.common.report, p.common.launch, wrong);

    // The run's ends.
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        const int head = whole_first[item] - first[item];  // places before the whole vectors
#pragma unroll 1
        for (int i = int(chunks.lane); i < head + last[item] - whole_last[item]; i += int(chunks.lanes)) {
            const int place = i < head ? first[item] + i : whole_last[item] + i - head;
            store(chunks.to[item] + place, load<Element>(chunks.from[item] + place));
        }
    }
}

}  // namespace sg
