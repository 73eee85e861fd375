// Family B, rows: the innermost run is contiguous in the target. In the source it is contiguous in either direction,
// broadcast from one element, or selected through a table of channels.
//
// A row is cut into chunks. One group of 1 to 32 lanes moves one chunk in a few steps, with all loads in flight at
// once. A chunk of a long row takes a whole warp. For short rows a warp has several groups, and a thread has a few
// chunks (`items`) in flight:
//
//     whole warps, steps 4              row 0  | warp 0: 4 x 32 vectors | warp 1                 | …
//     8 lanes a row, steps 2, items 4   rows   | warp 0: 0 … 3 | warp 1: 4 … 7 | … | warp 0: 32 … 35 | …
//
// A warp whose chunk is inside its row, as most are, does no comparison and has its distances as immediates.
//
// Rows may begin anywhere on both sides: crops, pitches, flips and broadcasts run the same code. The end of a row may
// be a partial vector. It is stored as a whole vector if the padding may be overwritten, and loaded as one if the
// buffer continues, as it does in all rows but the last. Otherwise it moves element by element.
//
// Zeros that pad a row are part of its vectors, and of its last elements.
//
// Bytes moved: each element once in and once out; an element repeated along the row is loaded once by each group.
#include "row_chunks.cuh"

namespace sg {

// How the source run relates to the target run.
enum class Run { forward, reversed, repeated, channel_table };
// The axis along which elements are treated differently: none, one of the axes over rows, or the row itself.
enum class RowChannelAxis { none, outer, inner };

struct RowsPolicy {
    int load_bytes, store_bytes;  // of one access
    int steps;                    // of a chunk: in each, a lane moves the longer of its two vectors
    int items;                    // chunks of a thread
    bool whole_warps;             // groups are of 32 lanes throughout, and a thread has one chunk
    bool fills;                   // zeros fill up a row
    Run run;
    RowChannelAxis axis;
    int rank;                     // axes over rows and chunks
    Channels affines, order;
};

// Where whole vectors end in a row, in elements from its first; possibly past the row's own end:
//
//     row      | vector | vector | vector | e e e 0 0 | gap            e: its last elements, 0: zeros that fill it up
//                                load_end, store_end   end             loads stay inside, and so do stores
//     row      | vector | vector | vector | e e e 0 0 g |              the buffer goes on, and the gap is ours
//                                            load_end, store_end
//
// From store_end to the row's end, elements move one by one.
template <typename Index> struct VectorEnds { Index load_end, store_end; };

template <typename Conversion, typename Index, RowsPolicy policy> struct RowsParameters {
    RowChunks<Conversion, Index, policy> chunks;
    Index filled;                  // elements of a row with the zeros that fill it up, if any: where it ends
    VectorEnds<Index> inside;      // of rows that may not be read past their end
    VectorEnds<Index> reading_on;  // of rows that may
    Index last_reading_on;         // the last place in the source, in elements, where such a row may start
};

// One chunk: its first element on either side, its distance into the row, and the ends of the row.
template <typename Conversion, typename Index> struct RowChunk {
    const typename Conversion::Source* from;
    typename Conversion::Target* to;
    Index start, end;  // a thread without a chunk has a row without elements
    VectorEnds<Index> vectors;
    Affine<typename Conversion::Compute> constants;  // of the whole chunk, where its channels do not differ
};

// The chunks of one group of lanes. A distance along a row is the sum of a lane's own and one common to all lanes.
template <typename Conversion, typename Index, RowsPolicy policy> struct RowGroup {
    using Step = RunStep<Conversion, policy.load_bytes, policy.store_bytes>;
    using Source = typename Step::Source;
    using Target = typename Step::Target;
    using Loaded = typename Step::Loaded;
    using Stored = typename Step::Stored;
    using Constants = Affine<typename Conversion::Compute>;
    using Chunk = RowChunk<Conversion, Index>;
    static_assert(!policy.whole_warps || policy.items == 1, "a whole warp has one chunk");
    static_assert(policy.run == Run::forward || policy.run == Run::reversed || Step::load_length == 1,
                  "elements that do not follow each other are loaded one by one");

    // The steps of all chunks, numbered consecutively.
    static constexpr int steps = policy.steps * policy.items;
    static constexpr bool exchanges = Step::exchanges && policy.run != Run::repeated;
    static constexpr int exchange_stride = 256 * Step::exchange_bytes;

    const RowsParameters<Conversion, Index, policy>& p;
    uint32 lanes, lane;
    Chunk row_chunks[policy.items];

    __device__ __forceinline__ uint32 chunk_elements() const { return uint32(policy.steps * Step::length) * lanes; }

    static __device__ __forceinline__ int item_of(int step) { return policy.whole_warps ? 0 : step / policy.steps; }
    __device__ __forceinline__ uint32 step_start(int step) const {
        return (policy.whole_warps ? step : step % policy.steps) * lanes * Step::length;
    }

    // The chunk with a given number; past the last one, a row without elements.
    __device__ __forceinline__ Chunk chunk_of(Index number) const {
        const auto& chunks = p.chunks;
        Chunk found;
        const bool there = number < chunks.items;
        Index coordinates[2] = {0, 0};
        const Offsets<Index> offsets =
            chunks.axes.template unravel<2>(number, {chunks.chunk_axis, chunks.channel_axis}, coordinates);
        found.start = there ? coordinates[0] * chunk_elements() : 0;
        const Index end = policy.fills ? p.filled : chunks.count;
        found.end = there ? end : 0;
        // Lanes without a chunk load the constants of channel 0 and do not use them.
        const Index channel = there ? coordinates[1] : 0;
        if constexpr (policy.axis != RowChannelAxis::inner) found.constants = chunks.affines.of(channel);
        Index channel_offset = 0;
        if constexpr (policy.axis == RowChannelAxis::outer && policy.order != Channels::alike) {
            channel_offset = chunks.order.source_offset(channel);
        }
        const Signed<Index> source = Signed<Index>(chunks.source_offset + channel_offset + Index(offsets.source));
        const bool reads_on = source - Signed<Index>(found.start) <= Signed<Index>(p.last_reading_on);
        const VectorEnds<Index> inside = p.inside, reading_on = p.reading_on;
        found.vectors.load_end = there ? (reads_on ? reading_on.load_end : inside.load_end) : 0;
        found.vectors.store_end = there ? (reads_on ? reading_on.store_end : inside.store_end) : 0;
        found.from = reinterpret_cast<const Source*>(chunks.source) + source;
        found.to = reinterpret_cast<Target*>(chunks.target) + offsets.target;
        return found;
    }

    // The address of the element at distance own + shared from the chunk's first.
    __device__ __forceinline__ const Source* source_of(const Chunk& chunk, uint32 own, uint32 shared) const {
        if constexpr (policy.run == Run::forward) return chunk.from + own + shared;
        else if constexpr (policy.run == Run::reversed) return chunk.from - own - shared;
        else if constexpr (policy.run == Run::repeated) return chunk.from;
        else return chunk.from + Signed<Index>(p.chunks.order.source_offset(chunk.start + own + shared));
    }

    // Zeros and padding after the last element use the last channel's constants; any would do.
    __device__ __forceinline__ Constants constants_of(const Chunk& chunk, Index element) const {
        if constexpr (policy.axis == RowChannelAxis::inner) {
            const Index channel = chunk.start + element;
            return p.chunks.affines.of(channel < p.chunks.count ? channel : p.chunks.count - 1);
        } else {
            return chunk.constants;
        }
    }

    template <bool Checks>
    __device__ __forceinline__ Loaded load_piece(const Chunk& chunk, uint32 own, uint32 shared) const {
        Loaded loaded{};
        if (Checks && chunk.start + own + shared + Step::load_length > chunk.vectors.load_end) return loaded;
        if constexpr (policy.run == Run::reversed) {
            const Loaded backwards = load_global<Loaded>(source_of(chunk, own, shared) - (Step::load_length - 1));
#pragma unroll
            for (int i = 0; i < Step::load_length; ++i) loaded.set(i, backwards.get(Step::load_length - 1 - i));
        } else {
            loaded = load_global<Loaded>(source_of(chunk, own, shared));
        }
        return loaded;
    }

    template <bool Checks>
    __device__ __forceinline__ void store_piece(const Chunk& chunk, uint32 own, uint32 shared, Stored vector) const {
        const Index place = chunk.start + own + shared;
        if (Checks && place + Step::store_length > chunk.vectors.store_end) return;
        if (policy.fills && Checks && place + Step::store_length > p.chunks.count) {
#pragma unroll
            for (int i = 0; i < Step::store_length; ++i) {
                if (place + i >= p.chunks.count) vector.set(i, Target{});
            }
        }
        store_global(chunk.to + own + shared, vector);
    }

    // Load a source vector, `element` elements after the chunk's first.
    template <int Length>
    __device__ __forceinline__ Vector<Target, Length> converted(const Chunk& chunk, Index element,
                                                                const Vector<Source, Length>& vector) const {
        if constexpr (policy.axis == RowChannelAxis::inner && Conversion::is_affine) {
            Vector<Target, Length> made{};
#pragma unroll
            for (int i = 0; i < Length; ++i) {
                made.set(i, Conversion::apply(vector.get(i), constants_of(chunk, element + i)));
            }
            return made;
        } else {
            return Conversion::apply(vector, chunk.constants);
        }
    }

    // Move all chunks; `Checks`: whether they may reach past a row's vectors.
    template <bool Checks> __device__ __forceinline__ void move(uint8* exchange) const {
        if constexpr (policy.run == Run::repeated) {
            spread<Checks>();
        } else {
            Step::template move<steps>(
                lane, lanes, exchange, exchange_stride,
                [&](int step, int piece) {
                    const uint32 shared = step_start(step) + piece * lanes * Step::load_length;
                    return load_piece<Checks>(row_chunks[item_of(step)], lane * Step::load_length, shared);
                },
                [&](int step, uint32 element, const auto& vector) {
                    return converted(row_chunks[item_of(step)], step_start(step) + element, vector);
                },
                [&](int step, int piece, const Stored& vector) {
                    const uint32 shared = step_start(step) + piece * lanes * Step::store_length;
                    store_piece<Checks>(row_chunks[item_of(step)], lane * Step::store_length, shared, vector);
                });
        }
    }

    // The same for an element that is broadcast along the row: it is loaded once.
    template <bool Checks> __device__ __forceinline__ void spread() const {
        Source repeated[policy.items];
#pragma unroll
        for (int item = 0; item < policy.items; ++item) {
            repeated[item] = row_chunks[item].end ? load<Source>(row_chunks[item].from) : Source{};
        }
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int item = item_of(step);
            const uint32 own = lane * Step::length;
            const Target converted = Conversion::apply(repeated[item], row_chunks[item].constants);
            Stored vector{};
#pragma unroll
            for (int i = 0; i < Step::length; ++i) {
                if constexpr (policy.axis == RowChannelAxis::inner) {
                    const Constants constants = constants_of(row_chunks[item], own + step_start(step) + i);
                    vector.set(i, Conversion::apply(repeated[item], constants));
                } else {
                    vector.set(i, converted);
                }
            }
            store_piece<Checks>(row_chunks[item], own, step_start(step), vector);
        }
    }

    // Move the elements of a row after its last whole vector, and its zeros; the row's last chunk does so.
    __device__ __forceinline__ void move_end(const Chunk& chunk) const {
        if (chunk.start + chunk_elements() < chunk.end) return;
#pragma unroll 1
        for (Index place = chunk.vectors.store_end + lane; place < chunk.end; place += lanes) {
            const Index element = place - chunk.start;
            if (policy.fills && place >= p.chunks.count) {
                store(chunk.to + element, Target{});
                continue;
            }
            const Source value = load<Source>(source_of(chunk, uint32(element), 0));
            store(chunk.to + element, Conversion::apply(value, constants_of(chunk, element)));
        }
    }
};

// __launch_bounds__ minBlocks stops ptxas from targeting 8 blocks per SM on sm_80 and spilling; it is no occupancy
// goal. 1 for numbers that take two registers or rows of many axes, else 2.
template <typename Conversion, typename Index, RowsPolicy policy>
__global__ void __launch_bounds__(256, Conversion::is_wide || policy.rank > 4 ? 1 : 2)
    copy_rows(__grid_constant__ const RowsParameters<Conversion, Index, policy> p) {
    using Group = RowGroup<Conversion, Index, policy>;
    const LaneOfGroup place(policy.whole_warps ? 5 : p.chunks.lanes_log2);
    Group group{p, place.lanes, place.lane, {}};
    const Index first_item = linear_block<Index>() * policy.items * place.groups + place.group;
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        group.row_chunks[item] = group.chunk_of(first_item + item * place.groups);
    }

    alignas(32) __shared__ uint8 exchange[Group::exchanges ? Group::steps * Group::exchange_stride : 1];
    uint8* group_exchange =
        Group::exchanges ? exchange + (threadIdx.x - place.lane) * Group::Step::exchange_bytes : exchange;
    if constexpr (policy.whole_warps) {
        const auto& chunk = group.row_chunks[0];
        const Index chunk_end = chunk.start + group.chunk_elements();
        if (chunk_end <= chunk.vectors.load_end && chunk_end <= chunk.vectors.store_end &&
            (!policy.fills || chunk_end <= p.chunks.count)) {
            group.template move<false>(group_exchange);
            return;
        }
    }
    group.template move<true>(group_exchange);
#pragma unroll
    for (int item = 0; item < policy.items; ++item) group.move_end(group.row_chunks[item]);
}

}  // namespace sg
