// Family B, unaligned rows of elements of up to 4 bytes: the innermost run is contiguous on both sides, but source and
// target have different offsets in their vectors and words.
//
// Places of a row are numbered from the start of the aligned target vector with its first element. The target is stored
// in whole vectors. Each word of a vector is funnel-shifted from the two aligned source words that contain it:
//
//     source   | . a b c | d e f g | h i j k |        words as they are loaded, each lane two neighbours
//     word       a b c d   e f g h                    shifted
//     target   | . . . a | b c d e | f g h i | j k    the row's ends move element by element
//
// Adjacent lanes load adjacent words, which change lanes in shared memory, as in rows.cu. A word only partially inside
// the buffer is not loaded; its elements move one by one, in the first and the last row only.
//
// Bytes moved: each element once in and once out; the second of two words is the next lane's first, and is cached.
#include "row_chunks.cuh"

namespace sg {

struct ShiftedRowsPolicy {
    int store_bytes;   // of one access; loads are words
    int steps;         // of a chunk: in each, a lane stores one vector
    int items;         // chunks of a thread
    bool whole_warps;  // groups are of 32 lanes throughout, and a thread has one chunk
    bool backwards;    // the source runs against the target
    int rank;          // axes over rows and chunks
    Channels affines, order;
};

template <typename Conversion, typename Index, ShiftedRowsPolicy policy> struct ShiftedRowsParameters {
    RowChunks<Conversion, Index, policy> chunks;
    uint64 source_bytes;  // that may be read, from the lowest element on
};

// The two aligned words that contain an unaligned word.
struct SplitWord {
    const uint8* word;
    uint32 shift;  // bits

    // `is_word`: the address is that of an aligned word, and no shift is needed.
    __device__ __forceinline__ SplitWord(const uint8* address, bool is_word)
        : word(is_word ? address : address - uint64(address) % 4),
          shift(is_word ? 0 : uint32(uint64(address) % 4) * 8) {}

    __device__ __forceinline__ bool lies_in(const uint8* first, const uint8* end) const {
        return uint64(word) >= uint64(first) && uint64(word + (shift ? 8 : 4)) <= uint64(end);
    }
};

// Two adjacent words in flight, and the vector built from them.
template <typename V, bool Backwards> struct SplitVector { uint32 low, high, shift; };

template <typename V, bool Backwards> __device__ __forceinline__ V arrived(const SplitVector<V, Backwards>& loaded) {
    V vector{};
    vector.word[0] = __funnelshift_r(loaded.low, loaded.high, loaded.shift);
    if constexpr (Backwards) return reversed(vector);
    else return vector;
}

template <typename Conversion, typename Index, ShiftedRowsPolicy policy>
__global__ void __launch_bounds__(256, 2) copy_shifted_rows(
    __grid_constant__ const ShiftedRowsParameters<Conversion, Index, policy> p) {
    using Step = RunStep<Conversion, 4, policy.store_bytes>;
    using Source = typename Step::Source;
    using Target = typename Step::Target;
    using Loaded = typename Step::Loaded;
    using Stored = typename Step::Stored;
    static_assert(sizeof(Source) <= 4, "larger elements are vectors of words");
    static_assert(!policy.whole_warps || policy.items == 1, "a whole warp has one chunk");
    constexpr int direction = policy.backwards ? -1 : 1;

    const auto& chunks = p.chunks;
    const LaneOfGroup place_in_block(policy.whole_warps ? 5 : chunks.lanes_log2);
    const uint32 lanes = place_in_block.lanes, lane = place_in_block.lane;
    const uint32 groups = place_in_block.groups, group = place_in_block.group;
    const uint32 chunk = uint32(policy.steps * Step::length) * lanes;  // places
    const Index first_item = linear_block<Index>() * policy.items * groups + group;

    // For each chunk: the address of its first place on either side, the range of places with elements of the row, and
    // the subrange that moves as whole vectors.
    const Source* from[policy.items];
    Target* to[policy.items];
    int first[policy.items], last[policy.items], whole_first[policy.items], whole_last[policy.items];
    Affine<typename Conversion::Compute> constants[policy.items];
    // The words that contain the element at a place of a chunk, and the ones after it in the target.
    const auto word_of = [](const Source* element) {
        return SplitWord(reinterpret_cast<const uint8*>(element - (policy.backwards ? Step::load_length - 1 : 0)),
                         sizeof(Source) == 4);
    };
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        const Index number = first_item + item * groups;
        const bool there = number < chunks.items;
        Index coordinates[2] = {0, 0};
        const Offsets<Index> offsets =
            chunks.axes.template unravel<2>(there ? number : 0, {chunks.chunk_axis, chunks.channel_axis}, coordinates);
        const Index start = coordinates[0] * chunk, channel = coordinates[1];
        constants[item] = chunks.affines.of(channel);
        Index source = chunks.source_offset + Index(offsets.source);
        if constexpr (policy.order != Channels::alike) source += chunks.order.source_offset(channel);
        Target* element = reinterpret_cast<Target*>(chunks.target) + offsets.target;
        const uint32 before = uint32(uint64(element) / sizeof(Target)) % Step::store_length;
        to[item] = element - before;
        from[item] = reinterpret_cast<const Source*>(chunks.source) + Signed<Index>(source) - direction * int(before);

        // Places of the row: those of its elements, and those of whole vectors whose words are inside the buffer.
        const Index end = before + chunks.count;
        Index vectors = before ? Step::length : 0, vectors_end = end / Step::length * Step::length;
        const auto is_readable = [&](Index place) {
            const Signed<Index> distance = direction * (Signed<Index>(place) - Signed<Index>(start));
            return word_of(from[item] + distance).lies_in(chunks.source, chunks.source + p.source_bytes);
        };
        if (!is_readable(vectors)) vectors += Step::length;
        if (vectors < vectors_end && !is_readable(vectors_end - Step::load_length)) vectors_end -= Step::length;
        if (vectors_end < vectors) vectors_end = vectors;
        const auto in_chunk = [&](Index place) {
            return !there || place <= start ? 0 : int(place - start < Index(chunk) ? place - start : Index(chunk));
        };
        first[item] = in_chunk(before);
        last[item] = in_chunk(end);
        whole_first[item] = in_chunk(vectors);
        whole_last[item] = in_chunk(vectors_end);
    }

    // The steps of all chunks, numbered consecutively.
    const auto item_of = [](int step) { return policy.whole_warps ? 0 : step / policy.steps; };
    const auto step_start = [&](int step) {
        return (policy.whole_warps ? step : step % policy.steps) * lanes * Step::length;
    };
    constexpr int steps = policy.steps * policy.items;
    alignas(32) __shared__ uint8 exchange[Step::exchanges ? steps * 256 * Step::exchange_bytes : 1];
    uint8* group_exchange = Step::exchanges ? exchange + (threadIdx.x - lane) * Step::exchange_bytes : exchange;

    const auto move_chunks = [&](auto checks) {
        const auto is_whole = [&](int item, uint32 place) {
            const uint32 there = uint32(whole_last[item] - whole_first[item]);
            return !checks.value || place - uint32(whole_first[item]) < there;
        };
        Step::template move<steps>(
            lane, lanes, group_exchange, 256 * Step::exchange_bytes,
            [&](int step, int piece) {
                const int item = item_of(step);
                const uint32 place = step_start(step) + (piece * lanes + lane) * Step::load_length;
                const SplitWord split = word_of(from[item]);
                const uint8* word = split.word + direction * int(place * sizeof(Source));
                const bool whole = is_whole(item, place);
                return SplitVector<Loaded, policy.backwards>{whole ? load<uint32>(word) : 0u,
                                                      whole && split.shift ? load<uint32>(word + 4) : 0u, split.shift};
            },
            [&](int step, uint32, const auto& vector) {
                return Conversion::apply(vector, constants[item_of(step)]);
            },
            [&](int step, int piece, const Stored& vector) {
                const int item = item_of(step);
                const uint32 place = step_start(step) + (piece * lanes + lane) * Step::store_length;
                if (is_whole(item, place)) store_global(to[item] + place, vector);
            });
    };
    if (policy.whole_warps && whole_last[0] - whole_first[0] == int(chunk)) {
        move_chunks(Checks<false>{});
        return;
    }
    move_chunks(Checks<true>{});

    // The row's ends.
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        const int head = whole_first[item] - first[item];  // places before the whole vectors
#pragma unroll 1
        for (int i = int(lane); i < head + last[item] - whole_last[item]; i += int(lanes)) {
            const int place = i < head ? first[item] + i : whole_last[item] + i - head;
            if (place >= last[item]) continue;
            store(to[item] + place, Conversion::apply(load<Source>(from[item] + direction * place), constants[item]));
        }
    }
}

}  // namespace sg
