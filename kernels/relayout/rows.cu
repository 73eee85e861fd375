// Family B, rows: the innermost run is contiguous on the target, and on the source contiguous either way, repeated
// from one element, or picked through a table of channels.
//
// A row is cut into chunks; one group of 1 to 32 lanes moves one chunk in Steps steps, all of whose loads are under way
// at once. Of long rows a chunk is a whole warp's; of short rows one warp moves several, and a thread has Items of them
// under way:
//
//     whole warps, Steps 4              row 0  | warp 0: 4 x 32 vectors | warp 1                 | …
//     8 lanes a row, Steps 2, Items 4   rows   | warp 0: 0 … 3 | warp 1: 4 … 7 | … | warp 0: 32 … 35 | …
//
// A warp whose chunk lies inside its row, as most do, compares nothing and keeps its distances in the instructions.
//
// Rows may lie anywhere on both sides, so that crops, pitches, flips and broadcasts are all the same to this kernel.
// The end of a row that is no whole vector is written with a whole vector where the padding may be overwritten, and is
// read with one where the buffer goes on, as it does in all rows but the last; otherwise it moves element by element.
//
// Zeros that fill up a row are part of its vectors, and of its last elements.
//
// Bytes moved: each element once in and once out; an element repeated along the row is loaded once by each group.
#include "row_chunks.cuh"

namespace sg {

// How the source lies along the target's run.
enum class Run { forward, reversed, repeated, picked };
// Where the axis is along which elements are treated differently: nowhere, among the axes over rows, or along the row.
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

// How many elements of a row are loaded by whole vectors and stored by whole vectors, which may be more than it has;
// from `stored` to the row's end, elements move one by one.
template <typename Index> struct WholeVectors { Index loaded, stored; };

template <typename Conversion, typename Index, RowsPolicy policy> struct RowsParameters {
    RowChunks<Conversion, Index, policy> chunks;
    Index filled;            // elements of a row with the zeros that fill it up, if any
    WholeVectors<Index> within, past_end;
    Index last_reading_on;   // the last place in the source, in elements, where a row may start and be read past_end
};

// Two blocks a multiprocessor, or one where numbers take two registers each or rows have many axes, is no aim: without
// it, sm_80's compiler aims at eight and spills.
template <typename Conversion, typename Index, RowsPolicy policy>
__global__ void __launch_bounds__(256, Conversion::is_wide || policy.rank > 4 ? 1 : 2)
    copy_rows(__grid_constant__ const RowsParameters<Conversion, Index, policy> p) {
    using Step = RunStep<Conversion, policy.load_bytes, policy.store_bytes>;
    using Source = typename Step::Source;
    using Target = typename Step::Target;
    using Loaded = typename Step::Loaded;
    using Stored = typename Step::Stored;
    using Constants = Affine<typename Conversion::Compute>;
    static_assert(!policy.whole_warps || policy.items == 1, "a whole warp has one chunk");
    static_assert(policy.run == Run::forward || policy.run == Run::reversed || Step::load_length == 1,
                  "elements that do not follow each other are loaded one by one");

    const auto& chunks = p.chunks;
    const LaneOfGroup place_in_block(policy.whole_warps ? 5 : chunks.lanes_log2);
    const uint32 lanes = place_in_block.lanes, lane = place_in_block.lane;
    const uint32 groups = place_in_block.groups, group = place_in_block.group;
    const uint32 chunk_elements = uint32(policy.steps * Step::length) * lanes;
    const Index first_item = linear_block<Index>() * policy.items * groups + group;

    // One chunk: the addresses of its first element, how far into the row that is, and where its row's vectors end.
    const Source* from[policy.items];
    Target* to[policy.items];
    Index start[policy.items], load_end[policy.items], store_end[policy.items], end[policy.items];
    Constants constants[policy.items];
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        const Index number = first_item + item * groups;
        const bool there = number < chunks.items;
        Index coordinates[2] = {0, 0};
        const Offsets<Index> offsets =
            chunks.axes.template unravel<2>(number, {chunks.chunk_axis, chunks.channel_axis}, coordinates);
        start[item] = there ? coordinates[0] * chunk_elements : 0;
        end[item] = there ? (policy.fills ? p.filled : chunks.count) : 0;
        // Lanes without a chunk take the constants of channel 0, and leave them unused.
        const Index channel = there ? coordinates[1] : 0;
        if constexpr (policy.axis != RowChannelAxis::inner) constants[item] = chunks.affines.of(channel);
        Index picked = 0;
        if constexpr (policy.axis == RowChannelAxis::outer && policy.order != Channels::alike) {
            picked = chunks.order.source_offset(channel);
        }
        const Signed<Index> source = Signed<Index>(chunks.source_offset + picked + Index(offsets.source));
        const bool reads_on = source - Signed<Index>(start[item]) <= Signed<Index>(p.last_reading_on);
        load_end[item] = there ? (reads_on ? p.past_end.loaded : p.within.loaded) : 0;
        store_end[item] = there ? (reads_on ? p.past_end.stored : p.within.stored) : 0;
        from[item] = reinterpret_cast<const Source*>(chunks.source) + source;
        to[item] = reinterpret_cast<Target*>(chunks.target) + offsets.target;
    }

    // Where the element lies that comes so many after the chunk's first: the lane's own distance, and one that all
    // lanes have in common.
    const auto source_of = [&](int item, uint32 own, uint32 shared) {
        if constexpr (policy.run == Run::forward) return from[item] + own + shared;
        else if constexpr (policy.run == Run::reversed) return from[item] - own - shared;
        else if constexpr (policy.run == Run::repeated) return from[item];
        else return from[item] + Signed<Index>(chunks.order.source_offset(start[item] + own + shared));
    };
    // Behind the last element, where zeros or padding are written, the last channel serves as well as any.
    const auto constants_of = [&](int item, Index element) {
        if constexpr (policy.axis == RowChannelAxis::inner) {
            const Index channel = start[item] + element;
            return chunks.affines.of(channel < chunks.count ? channel : chunks.count - 1);
        } else {
            return constants[item];
        }
    };
    const auto load_piece = [&](auto checks, int item, uint32 own, uint32 shared) {
        Loaded loaded{};
        if (checks.value && start[item] + own + shared + Step::load_length > load_end[item]) return loaded;
        if constexpr (policy.run == Run::reversed) {
            const Loaded backwards = load_global<Loaded>(source_of(item, own, shared) - (Step::load_length - 1));
#pragma unroll
            for (int i = 0; i < Step::load_length; ++i) loaded.set(i, backwards.get(Step::load_length - 1 - i));
        } else {
            loaded = load_global<Loaded>(source_of(item, own, shared));
        }
        return loaded;
    };
    const auto store_piece = [&](auto checks, int item, uint32 own, uint32 shared, Stored vector) {
        const Index place = start[item] + own + shared;
        if (checks.value && place + Step::store_length > store_end[item]) return;
        if (policy.fills && checks.value && place + Step::store_length > chunks.count) {
#pragma unroll
            for (int i = 0; i < Step::store_length; ++i) {
                if (place + i >= chunks.count) vector.set(i, Target{});
            }
        }
        store_global(to[item] + own + shared, vector);
    };

    // The steps of all chunks are numbered through.
    const auto item_of = [](int step) { return policy.whole_warps ? 0 : step / policy.steps; };
    const auto step_start = [&](int step) {
        return (policy.whole_warps ? step : step % policy.steps) * lanes * Step::length;
    };
    constexpr int steps = policy.steps * policy.items;
    constexpr bool exchanges = Step::exchanges && policy.run != Run::repeated;
    alignas(32) __shared__ uint8 exchange[exchanges ? steps * 256 * Step::exchange_bytes : 1];
    uint8* group_exchange = exchanges ? exchange + (threadIdx.x - lane) * Step::exchange_bytes : exchange;

    const auto move_chunks = [&](auto checks) {
        if constexpr (policy.run == Run::repeated) {
            Source repeated[policy.items];
#pragma unroll
            for (int item = 0; item < policy.items; ++item) {
                repeated[item] = end[item] ? load<Source>(from[item]) : Source{};
            }
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                const int item = item_of(step);
                const uint32 own = lane * Step::length;
                const Target converted = Conversion::apply(repeated[item], constants[item]);
                Stored spread{};
#pragma unroll
                for (int i = 0; i < Step::length; ++i) {
                    if constexpr (policy.axis == RowChannelAxis::inner) {
                        const Constants constants = constants_of(item, own + step_start(step) + i);
                        spread.set(i, Conversion::apply(repeated[item], constants));
                    } else {
                        spread.set(i, converted);
                    }
                }
                store_piece(checks, item, own, step_start(step), spread);
            }
        } else {
            Step::template move<steps>(
                lane, lanes, group_exchange, 256 * Step::exchange_bytes,
                [&](int step, int piece) {
                    const uint32 shared = step_start(step) + piece * lanes * Step::load_length;
                    return load_piece(checks, item_of(step), lane * Step::load_length, shared);
                },
                [&](int step, uint32 element, const auto& vector) {
                    const int item = item_of(step);
                    if constexpr (policy.axis == RowChannelAxis::inner && Conversion::is_affine) {
                        constexpr int length = sizeof(vector) / sizeof(Source);
                        Vector<Target, length> converted{};
#pragma unroll
                        for (int i = 0; i < length; ++i) {
                            const Constants constants = constants_of(item, step_start(step) + element + i);
                            converted.set(i, Conversion::apply(vector.get(i), constants));
                        }
                        return converted;
                    } else {
                        return Conversion::apply(vector, constants[item]);
                    }
                },
                [&](int step, int piece, const Stored& vector) {
                    const uint32 shared = step_start(step) + piece * lanes * Step::store_length;
                    store_piece(checks, item_of(step), lane * Step::store_length, shared, vector);
                });
        }
    };
    if constexpr (policy.whole_warps) {
        const Index chunk_end = start[0] + chunk_elements;
        if (chunk_end <= load_end[0] && chunk_end <= store_end[0] && (!policy.fills || chunk_end <= chunks.count)) {
            move_chunks(Checks<false>{});
            return;
        }
    }
    move_chunks(Checks<true>{});

    // The end of a row belongs to its last chunk.
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        if (start[item] + chunk_elements < end[item]) continue;
#pragma unroll 1
        for (Index place = store_end[item] + lane; place < end[item]; place += lanes) {
            const Index element = place - start[item];
            if (policy.fills && place >= chunks.count) {
                store(to[item] + element, Target{});
                continue;
            }
            const Source value = load<Source>(source_of(item, uint32(element), 0));
            store(to[item] + element, Conversion::apply(value, constants_of(item, element)));
        }
    }
}

}  // namespace sg
